/* fuzz_program_run.c: a random program through the public interface. What is evaluated early, kept,
 * scheduled, and given back when, is chosen by numbers: the same for the same step, also if others
 * are left out. */
#include "dlpack_producer.h"
#include "fuzz_program.h"
#include "reference.h"
#include "support.h"
#include <jit/array.h>
#include <jit/loop.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct runner {
    const program *p;
    uint64_t choice;
    jit_var var[MAX_STEPS];
    int last[MAX_STEPS]; /* step that needs it last */
    bool kept[MAX_STEPS];
    jit_loop *loop[MAX_BLOCKS];
    jit_if *branch[MAX_BLOCKS];
    producer *producers[MAX_STEPS];
    int calls;  /* functions of calls that are being recorded */
    int scope;  /* the step at which a scope was opened; -1: none is open */
    int failed; /* 1 + the step */
    char *error;
} runner;

/* A number of a step and a purpose. */
static uint64_t draw(const runner *r, int step, unsigned purpose) {
    uint64_t x = r->p->seed * 0x9E3779B97F4A7C15u + r->choice * 0xD1B54A32D192ED03u +
                 (uint64_t) step * 0x8CB92BA72F3D8DD7u + purpose;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    x = (x ^ x >> 32) * 0xD6E8FEB86659FD93u;
    return x ^ x >> 32;
}
static bool chance(const runner *r, int step, unsigned purpose, unsigned percent) {
    return draw(r, step, purpose) % 100 < percent;
}

static void fail(runner *r, int step, const char *what) {
    if (r->failed)
        return;
    r->failed = step + 1;
    snprintf(r->error, 512, "step %d, %s: %s", step, what, jit_error());
}
static void check(runner *r, int step, jit_status status, const char *what) {
    if (status != JIT_OK)
        fail(r, step, what);
}

/* ---- steps ---- */

static jit_var make_foreign(runner *r, int i, const fuzz_step *s) {
    int64_t shape = (int64_t) s->size;
    tensor_spec spec = {.type = s->type, .ndim = 1, .shape = &shape, .at_start = s->number[0]};
    r->producers[i] = producer_create(&spec);
    return producer_take(r->producers[i]);
}

static jit_var padded(jit_var mask, jit_var *count) {
    jit_var index, keep[2] = {0};
    jit_scope_push();
    if (jit_compress_padded(mask, &index, count) == JIT_OK)
        keep[0] = jit_select(jit_lt(jit_counter(support_backend(), jit_size(mask)), *count), index,
                             jit_u32(support_backend(), 0));
    keep[1] = *count;
    jit_scope_pop(2, keep);
    return keep[0];
}

static jit_var increase(jit_var target, jit_var index, jit_var mask, jit_var *pairs) {
    jit_var to, old, high, keep[2];
    jit_scope_push();
    to = jit_ref(target);
    old = jit_cast(jit_scatter_inc(&to, index, mask), JIT_u64);
    old = jit_and(old, jit_u64(support_backend(), jitc_bits_mask(jit_type(target))));
    high = jit_shl(jit_cast(index, JIT_u64), jit_u64(support_backend(), 32));
    *pairs = jit_sort(jit_or(high, old), false, NULL);
    keep[0] = to;
    keep[1] = *pairs;
    jit_scope_pop(2, keep);
    return to;
}

static jit_var of_all(fuzz_kind kind, jit_var a) {
    return kind == ANY      ? jit_any(a)
           : kind == ALL    ? jit_all(a)
           : kind == COUNT  ? jit_count(a)
           : kind == ARGMIN ? jit_argmin(a)
                            : jit_argmax(a);
}

static jit_var make_array(runner *r, int i, const jit_var *v) {
    const fuzz_step *s = &r->p->step[i];
    size_t n[2] = {(size_t) s->number[0], (size_t) s->number[1]};
    jit_reduce_op op = (jit_reduce_op) s->number[0];
    jit_var *second = &r->var[i + 1];
    switch (s->kind) {
        case SCATTER: return jit_scatter(v[0], v[1], v[2], v[3]);
        case SCATTER_REDUCE: return jit_scatter_reduce(op, v[0], v[1], v[2], v[3]);
        case INC: return increase(v[0], v[1], v[2], second);
        case REDUCE: return jit_reduce(op, v[0]);
        case BLOCK_REDUCE: return jit_block_reduce(op, v[0], n[1]);
        case PREFIX_REDUCE: return jit_prefix_reduce(op, v[0], s->number[1], s->number[2]);
        case COMPRESS: return jit_compress(v[0]);
        case PADDED: return padded(v[0], second);
        case SORT: return jit_sort(v[0], s->number[0], s->number[1] ? second : NULL);
        case TILE: return jit_tile(v[0], n[0]);
        case REPEAT: return jit_repeat(v[0], n[0]);
        case REVERSE: return jit_reverse(v[0]);
        case SLICE: return jit_slice(v[0], n[0], n[1], (ptrdiff_t) s->number[2]);
        case ROLL: return jit_roll(v[0], (ptrdiff_t) s->number[0]);
        case TRANSPOSE: return jit_transpose(v[0], n[0], n[1]);
        case CONCAT: return jit_concat(n[0], v);
        default: return of_all(s->kind, v[0]);
    }
}

static jit_var make(runner *r, int i) {
    const fuzz_step *s = &r->p->step[i];
    jit_var v[INPUTS] = {0};
    if (s->given)
        return support_array(s->type, s->value, s->size);
    for (int k = 0; k < INPUTS; ++k)
        if (s->in[k] >= 0)
            v[k] = r->var[s->in[k]];
    switch (s->kind) {
        case LITERAL: return support_literal(s->type, s->size ? s->value[0] : 0, s->size);
        case COUNTER: return jit_counter(support_backend(), s->size);
        case COPIED: return support_array(s->type, s->value, s->size);
        case MAPPED: return support_guarded(s->type, s->value, s->size, s->number[0]);
        case FOREIGN: return make_foreign(r, i, s);
        case APPLY: return support_apply(s->op, v);
        case CAST: return jit_cast(v[0], s->type);
        case BITCAST: return jit_bitcast(v[0], s->type);
        case GATHER: return jit_gather(v[0], v[1], v[2]);
        default: return make_array(r, i, v);
    }
}

/* ---- blocks ---- */

static void record(runner *r, int from, int to);

static void load(const runner *r, const fuzz_block *b, const int *from, jit_var *state) {
    for (int k = 0; k < b->states; ++k)
        state[k] = r->var[from[k]];
}
static void keep(runner *r, const fuzz_block *b, const int *to, const jit_var *state) {
    for (int k = 0; k < b->states; ++k)
        r->var[to[k]] = state[k];
}

typedef struct function {
    runner *r;
    int block, part;
} function;

static jit_status record_function(void *context, size_t n_args, const jit_var *args,
                                  size_t n_results, jit_var *results) {
    const function *c = context;
    runner *r = c->r;
    const fuzz_block *b = &r->p->block[c->block];
    int from = b->part[c->part], to = c->part + 1 < b->parts ? b->part[c->part + 1] : b->end;
    if (n_args != (size_t) b->states || n_results != n_args)
        fail(r, b->begin, "numbers of a function's arguments and results");
    keep(r, b, b->variable[c->part], args);
    r->calls++;
    record(r, from + 1, to);
    r->calls--;
    load(r, b, b->next[c->part], results);
    for (int i = from; i < to; ++i) /* are given back */
        r->var[i] = 0;
    return JIT_OK;
}

static void record_call(runner *r, int number) {
    const fuzz_block *b = &r->p->block[number];
    jit_callable functions[PARTS];
    function parts[PARTS];
    jit_var args[STATES], results[STATES];
    for (int k = 0; k < b->parts; ++k) {
        parts[k] = (function) {r, number, k};
        functions[k] = (jit_callable) {record_function, &parts[k]};
    }
    load(r, b, b->start, args);
    check(r, b->begin,
          jit_switch(r->var[r->p->step[b->begin].in[0]], (size_t) b->parts, functions,
                     (size_t) b->states, args, (size_t) b->states, results),
          "jit_switch");
    keep(r, b, b->result, results);
}

/* Returns the step after which it goes on. */
static int record_marker(runner *r, int i) {
    const fuzz_step *s = &r->p->step[i];
    int number = (int) s->number[0];
    const fuzz_block *b = &r->p->block[number];
    size_t n = (size_t) b->states;
    jit_var state[STATES], choice = s->in[0] >= 0 ? r->var[s->in[0]] : 0;
    if (b->form == CALL) {
        record_call(r, number);
        return b->end;
    }
    load(r, b, b->start, state);
    if (s->kind == BEGIN && b->form == LOOP)
        r->loop[number] = jit_loop_begin(n, state);
    else if (s->kind == BEGIN)
        r->branch[number] = jit_if_begin(choice, n, state);
    if (s->kind == BEGIN) {
        keep(r, b, b->variable[0], state);
        if (!(b->form == LOOP ? (void *) r->loop[number] : (void *) r->branch[number]))
            fail(r, i, "begin");
    } else if (s->kind == CONDITION) {
        check(r, i, jit_loop_condition(r->loop[number], choice), "jit_loop_condition");
    } else if (s->kind == PART && s->number[1] == 1) {
        load(r, b, b->next[0], state);
        check(r, i, jit_if_else(r->branch[number], n, state), "jit_if_else");
        keep(r, b, b->variable[1], state);
    } else if (s->kind == END) {
        load(r, b, b->next[b->parts - 1], state);
        check(r, i,
              b->form == LOOP ? jit_loop_end(r->loop[number], n, state)
                              : jit_if_end(r->branch[number], n, state),
              "end");
        keep(r, b, b->result, state);
    }
    return i;
}

/* ---- what happens between steps ---- */

static void compare(runner *r, int i) {
    const fuzz_step *s = &r->p->step[i];
    size_t size = jitc_dtypes[s->type].bytes;
    if (jit_size(r->var[i]) != s->size || jit_type(r->var[i]) != s->type) {
        r->failed = i + 1;
        snprintf(r->error, 512, "step %d is %s[%zu]", i, jit_dtype_name(jit_type(r->var[i])),
                 jit_size(r->var[i]));
        return;
    }
    char *packed = malloc(s->size * size + 1);
    check(r, i, jit_read(r->var[i], packed), "jit_read");
    for (size_t k = 0; k < s->size && !r->failed; ++k) {
        uint64_t got = 0, want = s->value[k];
        memcpy(&got, packed + k * size, size);
        bool nan = jitc_dtypes[s->type].cls == JITC_FLOAT && reference_is_nan(s->type, got) &&
                   reference_is_nan(s->type, want);
        if (got != want && !nan) {
            r->failed = i + 1;
            snprintf(r->error, 512, "step %d, element %zu of %zu: want %#llx, got %#llx", i, k,
                     s->size, (unsigned long long) want, (unsigned long long) got);
        }
    }
    free(packed);
}

static void find_last(runner *r) {
    const program *p = r->p;
    for (int i = 0; i < p->count; ++i) {
        const fuzz_step *s = &p->step[i];
        r->last[i] = i;
        for (int k = 0; k < INPUTS; ++k)
            if (s->in[k] >= 0)
                r->last[s->in[k]] = i;
    }
    for (int n = 0; n < p->blocks; ++n)
        for (int k = 0; k < p->block[n].states; ++k)
            for (int part = 0; part < p->block[n].parts; ++part) {
                const fuzz_block *b = &p->block[n];
                int used[] = {b->start[k], b->next[part][k]};
                for (int j = 0; j < 2; ++j)
                    if (r->last[used[j]] < b->end)
                        r->last[used[j]] = b->end;
            }
}

static void give_back(runner *r, int after) {
    for (int i = 0; i <= after; ++i)
        if (r->var[i] && !r->kept[i] && r->last[i] <= after && chance(r, i, 1, 85)) {
            jit_unref(r->var[i]);
            r->var[i] = 0;
        }
}

static void evaluate(runner *r, int i) {
    const fuzz_step *s = &r->p->step[i];
    unsigned now = chance(r, 0, 2, 40) ? 0 : 12;
    if (s->inner >= 0 || s->kind > RESULT || !r->var[i])
        return;
    if (r->kept[i] && chance(r, i, 3, 60))
        check(r, i, jit_schedule(r->var[i]), "jit_schedule");
    if (chance(r, i, 4, now))
        check(r, i, chance(r, i, 5, 50) ? jit_eval() : jit_var_eval(r->var[i]), "evaluation");
    if (chance(r, i, 6, now / 3) && !r->failed)
        compare(r, i);
}

/* By hand may have been given back what came before the scope and is the same variable as one from
 * inside: so what is alive is kept, and given back by hand. */
static void close_scope(runner *r, int i) {
    jit_var alive[MAX_STEPS];
    size_t n = 0;
    for (int k = r->scope; k < r->p->count; ++k)
        if (r->var[k])
            alive[n++] = r->var[k];
    check(r, i, jit_scope_pop(n, alive), "jit_scope_pop");
    r->scope = -1;
}

static void change_scope(runner *r, int i) {
    const fuzz_step *next = &r->p->step[i + 1];
    if (r->p->step[i].kind == BEGIN ||
        (i + 1 < r->p->count && next->kind >= SECOND && next->kind <= RESULT))
        return; /* it is there already */
    if (r->scope < 0 && chance(r, i, 7, 8)) {
        jit_scope_push();
        r->scope = i + 1;
    } else if (r->scope >= 0 && chance(r, i, 8, 15)) {
        close_scope(r, i);
    }
}

static void record(runner *r, int from, int to) {
    for (int i = from; i < to && !r->failed; ++i) {
        const fuzz_step *s = &r->p->step[i];
        if (!s->needed)
            continue;
        if (s->kind >= BEGIN && !s->given)
            i = record_marker(r, i);
        else if (s->given || s->kind < SECOND) {
            jit_unref(r->var[i]); /* what a block has left there */
            r->var[i] = make(r, i);
        }
        if ((s->kind < SECOND || s->given) && !r->var[i])
            fail(r, i, "recording");
        evaluate(r, i);
        if (!r->calls) {
            give_back(r, i);
            change_scope(r, i);
        }
    }
}

/* ---- the run ---- */

static void finish(runner *r) {
    if (r->scope >= 0)
        close_scope(r, r->p->count - 1);
    for (int i = 0; i < r->p->count; ++i)
        jit_unref(r->var[i]);
    jit_eval(); /* literals may be on the list still */
    jit_sync_all_devices();
    jit_stats stats;
    if (jit_get_stats(&stats) != JIT_OK || stats.variables || stats.bytes_live ||
        support_guarded_alive()) {
        r->failed = r->p->count;
        snprintf(r->error, 512, "%llu variables, %zu bytes and %d mappings are left",
                 (unsigned long long) stats.variables, stats.bytes_live, support_guarded_alive());
    }
    for (int i = 0; i < r->p->count && !r->failed; ++i)
        if (r->producers[i])
            producer_destroy(r->producers[i]);
}

int run_program(const program *p, uint64_t choice, char error[512]) {
    runner *r = calloc(1, sizeof *r);
    r->p = p;
    r->choice = choice;
    r->error = error;
    r->scope = -1;
    find_last(r);
    unsigned percent = chance(r, 0, 9, 50) ? 25 : 70;
    for (int i = 0; i < p->count; ++i) /* of blocks nothing; of the end always something */
        r->kept[i] = p->step[i].needed && p->step[i].kind <= RESULT && p->step[i].inner < 0 &&
                     !p->step[i].hidden &&
                     (r->last[i] == i || p->step[i].given || chance(r, i, 10, percent));
    record(r, 0, p->count);
    if (!r->failed && chance(r, 0, 11, 70))
        check(r, p->count - 1, jit_eval(), "jit_eval");
    for (int i = p->count - 1; i >= 0 && !r->failed; --i)
        if (r->kept[i] && r->var[i])
            compare(r, i);
    if (!r->failed)
        finish(r);
    int failed = r->failed;
    free(r);
    return failed;
}
