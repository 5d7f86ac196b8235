/* fuzz_program_value.c: what each step has to give, computed element by element. */
#include "fuzz_program.h"
#include <stdlib.h>
#include <string.h>

static uint64_t fold(jitc_op op, jit_dtype t, const uint64_t in[3]) {
    uint64_t bits = 0;
    if (!jitc_fold(op, t, jitc_op_type(op, t), in, &bits))
        abort();
    return bits;
}
static uint64_t fold2(jitc_op op, jit_dtype t, uint64_t a, uint64_t b) {
    return fold(op, t, (uint64_t[3]) {a, b, 0});
}
uint64_t value_cast(jit_dtype from, jit_dtype to, uint64_t bits) {
    if (from != to && !jitc_fold(JITC_OP_cast, from, to, (uint64_t[3]) {bits}, &bits))
        abort();
    return bits;
}

bool value_index(const fuzz_step *s, size_t i, size_t size, size_t *out) {
    unsigned unused = 64 - jitc_dtypes[s->type].bits;
    uint64_t bits = value_at(s, i);
    if (jitc_dtypes[s->type].cls == JITC_INT)
        bits = (uint64_t) ((int64_t) (bits << unused) >> unused);
    *out = bits;
    return bits < size;
}

size_t value_lanes(const program *p, const int *in, int n) {
    size_t size = 1;
    for (int k = 0; k < n; ++k)
        if (in[k] >= 0 && p->step[in[k]].size != 1)
            size = p->step[in[k]].size;
    return size;
}

static void value_apply(const program *p, fuzz_step *s) {
    const fuzz_step *in[3] = {0};
    for (int k = 0; k < jitc_ops[s->op].arity; ++k)
        in[k] = &p->step[s->in[k]];
    jit_dtype t = in[jitc_ops[s->op].form == JITC_FORM_SELECT ? 1 : 0]->type;
    for (size_t i = 0; i < s->size; ++i) {
        uint64_t bits[3] = {0};
        for (int k = 0; k < 3 && in[k]; ++k)
            bits[k] = value_at(in[k], i);
        s->value[i] = fold(s->op, t, bits);
    }
}

/* Is the lane one that counts, with an index inside? */
static bool lane(program *p, const fuzz_step *s, const int *index_mask, size_t i, size_t *at) {
    const fuzz_step *index = &p->step[index_mask[0]];
    const fuzz_step *mask = index_mask[1] >= 0 ? &p->step[index_mask[1]] : NULL;
    bool inside = value_index(index, i, s->size, at);
    if (mask && !value_at(mask, i))
        return false;
    p->outside = p->outside || !inside;
    return inside;
}

static int block_around(const program *p, int i) {
    int found = -1;
    for (int b = 0; b < p->blocks; ++b)
        if (p->block[b].begin < i && (i < p->block[b].end || !p->block[b].end))
            found = b; /* those inside come later */
    return found;
}

/* What a step in a block has been computed from, by steps that compute in each lane. */
typedef struct origin {
    bool counter; /* of the loop */
    bool others;  /* results of blocks inside */
} origin;

static origin origin_of(const program *p, int i, const fuzz_block *b) {
    origin all[MAX_STEPS] = {0};
    for (int k = b->begin; k <= i; ++k) {
        const fuzz_step *s = &p->step[k];
        all[k].counter = k == b->variable[0][0];
        all[k].others = s->kind == RESULT;
        for (int n = 0; n < 3 && s->kind <= GATHER; ++n)
            if (s->in[n] >= b->begin) {
                all[k].counter = all[k].counter || all[s->in[n]].counter;
                all[k].others = all[k].others || all[s->in[n]].others;
            }
    }
    return all[i];
}

/* What depends on no state of a block is computed, and its indices are checked, in all lanes. So
 * certainly not what the loop's counter is in; and nobody knows of blocks in blocks. */
static bool may_be_everywhere(program *p, const fuzz_step *s) {
    int i = (int) (s - p->step), around = block_around(p, i);
    if (around < 0)
        return true;
    const fuzz_block *b = &p->block[around];
    origin from = origin_of(p, i, b);
    p->outside = p->outside || b->parent >= 0 || from.others;
    return b->form != LOOP || !from.counter;
}

static void value_gather(program *p, fuzz_step *s, const bool *active) {
    const fuzz_step *source = &p->step[s->in[0]];
    bool everywhere = may_be_everywhere(p, s);
    for (size_t i = 0, at; i < s->size; ++i) {
        bool computed = !active || active[i] || everywhere;
        s->value[i] = computed && lane(p, source, s->in + 1, i, &at) ? value_at(source, at) : 0;
    }
}

static void copy(const program *p, fuzz_step *s, int from) {
    for (size_t i = 0; i < s->size; ++i)
        s->value[i] = value_at(&p->step[from], i);
}

static void value_scatter(program *p, fuzz_step *s, const bool *active) {
    const fuzz_step *value = &p->step[s->in[1]];
    size_t lanes = value_lanes(p, s->in + 1, 3), at;
    copy(p, s, s->in[0]);
    for (size_t i = 0; i < lanes; ++i)
        if ((!active || active[i]) && lane(p, s, s->in + 2, i, &at))
            s->value[at] = s->kind == SCATTER ? value_at(value, i)
                                              : fold2(jitc_reduce_op((jit_reduce_op) s->number[0]),
                                                      s->type, s->value[at], value_at(value, i));
}

static int ascending(const void *a, const void *b) {
    const uint64_t *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? -1 : 1) : x[1] < y[1] ? -1 : x[1] > y[1];
}

static void value_inc(program *p, fuzz_step *s, fuzz_step *pairs) {
    uint64_t *sorted = calloc(pairs->size + 1, 2 * sizeof *sorted);
    copy(p, s, s->in[0]);
    for (size_t i = 0, at; i < pairs->size; ++i) {
        bool counts = lane(p, s, s->in + 1, i, &at);
        sorted[2 * i] = (uint64_t) at << 32 | (counts ? s->value[at] : 0);
        if (counts)
            s->value[at] = fold2(JITC_OP_add, s->type, s->value[at], 1);
    }
    qsort(sorted, pairs->size, 2 * sizeof *sorted, ascending);
    for (size_t i = 0; i < pairs->size; ++i)
        pairs->value[i] = sorted[2 * i];
    free(sorted);
}

/* Sums and products of floats were chosen so that they are exact in f64. */
static void value_combine(const program *p, fuzz_step *s) {
    const fuzz_step *a = &p->step[s->in[0]];
    jit_reduce_op r = (jit_reduce_op) s->number[0];
    bool wide = jitc_dtypes[a->type].cls == JITC_FLOAT && r <= JIT_REDUCE_MUL;
    jit_dtype t = wide ? JIT_f64 : a->type;
    uint64_t identity = jitc_reduce_identity(r, t), total = identity;
    size_t block = s->kind == BLOCK_REDUCE ? (size_t) s->number[1] : a->size;
    bool scan = s->kind == PREFIX_REDUCE;
    for (size_t k = 0; k < a->size; ++k) {
        size_t i = scan && s->number[2] ? a->size - 1 - k : k;
        if (!scan && k % block == 0)
            total = identity;
        if (scan && s->number[1])
            s->value[i] = value_cast(t, s->type, total);
        total = fold2(jitc_reduce_op(r), t, total, value_cast(a->type, t, a->value[i]));
        if (!scan)
            s->value[k / block] = value_cast(t, s->type, total);
        else if (!s->number[1])
            s->value[i] = value_cast(t, s->type, total);
    }
    if (s->kind == REDUCE && a->size == 0)
        s->value[0] = value_cast(t, s->type, identity);
}

static void value_compress(const program *p, fuzz_step *s, fuzz_step *count) {
    const fuzz_step *mask = &p->step[s->in[0]];
    size_t n = 0;
    memset(s->value, 0, s->size * sizeof *s->value);
    for (size_t i = 0; i < mask->size; ++i)
        if (mask->value[i])
            s->value[n++] = i;
    if (s->kind == PADDED)
        count->value[0] = n;
}

static void value_sort(const program *p, fuzz_step *s, fuzz_step *index) {
    const fuzz_step *a = &p->step[s->in[0]];
    uint64_t sign = (uint64_t) 1 << (jitc_dtypes[a->type].bits - 1), mask = jitc_bits_mask(a->type);
    uint64_t *pair = calloc(a->size + 1, 2 * sizeof *pair);
    for (size_t i = 0; i < a->size; ++i) {
        uint64_t bits = a->value[i], key = bits;
        if (jitc_dtypes[a->type].cls == JITC_FLOAT)
            key = bits & sign ? ~bits & mask : bits | sign;
        if (jitc_dtypes[a->type].cls == JITC_INT)
            key = bits ^ sign;
        pair[2 * i] = s->number[0] ? ~key : key;
        pair[2 * i + 1] = i;
    }
    qsort(pair, a->size, 2 * sizeof *pair, ascending);
    for (size_t i = 0; i < a->size; ++i) {
        s->value[i] = a->value[pair[2 * i + 1]];
        if (s->number[1])
            index->value[i] = pair[2 * i + 1];
    }
    free(pair);
}

static size_t source_of(const fuzz_step *s, const fuzz_step *a, size_t i) {
    size_t n = a->size ? a->size : 1;
    long long m = (long long) n;
    switch (s->kind) {
        case TILE: return i % n;
        case REPEAT: return i / (size_t) s->number[0];
        case REVERSE: return n - 1 - i;
        case SLICE: return (size_t) (s->number[0] + (long long) i * s->number[2]);
        case ROLL: return (size_t) ((((long long) i - s->number[0]) % m + m) % m);
        default: /* TRANSPOSE: row-major in, column by column out */
            return i % (size_t) s->number[0] * (size_t) s->number[1] + i / (size_t) s->number[0];
    }
}

static void value_concat(const program *p, fuzz_step *s) {
    size_t n = 0;
    for (int k = 0; k < s->number[0]; ++k)
        for (size_t i = 0; i < p->step[s->in[k]].size; ++i)
            s->value[n++] = p->step[s->in[k]].value[i];
}

static void value_of_all(const program *p, fuzz_step *s) {
    const fuzz_step *a = &p->step[s->in[0]];
    jitc_op better = s->kind == ARGMIN ? JITC_OP_lt : JITC_OP_gt;
    uint64_t any = 0, all = 1, count = 0, best = 0;
    for (size_t i = 0; i < a->size; ++i) {
        uint64_t x = a->value[i], b = a->value[best];
        any |= x;
        all &= x;
        count += x;
        if (!fold2(JITC_OP_ne, a->type, b, b) &&
            (fold2(JITC_OP_ne, a->type, x, x) || fold2(better, a->type, x, b)))
            best = i;
    }
    s->value[0] = s->kind == ANY ? any : s->kind == ALL ? all : s->kind == COUNT ? count : best;
}

void value_step(program *p, int i, const bool *active) {
    fuzz_step *s = &p->step[i], *second = s + 1;
    const fuzz_step *a = s->in[0] >= 0 ? &p->step[s->in[0]] : NULL;
    switch (s->kind) {
        case APPLY: value_apply(p, s); return;
        case CAST:
            for (size_t k = 0; k < s->size; ++k)
                s->value[k] = value_cast(a->type, s->type, a->value[k]);
            return;
        case BITCAST: copy(p, s, s->in[0]); return;
        case GATHER: value_gather(p, s, active); return;
        case SCATTER:
        case SCATTER_REDUCE: value_scatter(p, s, active); return;
        case INC: value_inc(p, s, second); return;
        case REDUCE:
        case BLOCK_REDUCE:
        case PREFIX_REDUCE: value_combine(p, s); return;
        case COMPRESS:
        case PADDED: value_compress(p, s, second); return;
        case SORT: value_sort(p, s, second); return;
        case TILE:
        case REPEAT:
        case REVERSE:
        case SLICE:
        case ROLL:
        case TRANSPOSE:
            for (size_t k = 0; k < s->size; ++k)
                s->value[k] = a->value[source_of(s, a, k)];
            return;
        case CONCAT: value_concat(p, s); return;
        case ANY:
        case ALL:
        case COUNT:
        case ARGMIN:
        case ARGMAX: value_of_all(p, s); return;
        default: return; /* leaves, and what others have computed */
    }
}

/* ---- blocks ---- */

static void value_steps(program *p, int from, int to, const bool *active) {
    for (int i = from; i < to; ++i) {
        const fuzz_step *s = &p->step[i];
        if (s->kind == BEGIN) {
            value_block(p, (int) s->number[0], active);
            i = p->block[s->number[0]].end;
        } else if (s->inner >= 0 && s->kind < VARIABLE) {
            value_step(p, i, active);
        }
    }
}

static bool any_of(const bool *active, size_t n) {
    for (size_t i = 0; i < n; ++i)
        if (active[i])
            return true;
    return false;
}

static void begin_part(const program *p, fuzz_block *b, int part, const int *from) {
    (void) b;
    for (int k = 0; k < b->states; ++k)
        copy(p, (fuzz_step *) &p->step[b->variable[part][k]], from[k]);
}

/* New values first, then all at once: one may be the old one of another. */
static void advance(program *p, const fuzz_block *b, const bool *active) {
    uint64_t *new[STATES];
    for (int k = 0; k < b->states; ++k) {
        const fuzz_step *v = &p->step[b->variable[0][k]], *next = &p->step[b->next[0][k]];
        new[k] = calloc(v->size + 1, sizeof **new);
        for (size_t i = 0; i < v->size; ++i)
            new[k][i] = b->array[k] || active[i] ? value_at(next, i) : v->value[i];
    }
    for (int k = 0; k < b->states; ++k) {
        fuzz_step *v = &p->step[b->variable[0][k]];
        memcpy(v->value, new[k], v->size * sizeof **new);
        free(new[k]);
    }
}

static void value_loop(program *p, fuzz_block *b, bool *active) {
    begin_part(p, b, 0, b->start);
    for (int round = 0;; ++round) {
        value_steps(p, b->part[0] + 1, b->condition, active);
        for (size_t i = 0; i < b->lanes; ++i)
            active[i] = active[i] && value_at(&p->step[p->step[b->condition].in[0]], i);
        bool more = any_of(active, b->lanes);
        if (more || round == 0) /* in no lane: for what may be computed in all */
            value_steps(p, b->condition + 1, b->end, active);
        if (!more)
            break;
        advance(p, b, active);
        if (round > 1000)
            abort();
    }
    for (int k = 0; k < b->states; ++k)
        copy(p, &p->step[b->result[k]], b->variable[0][k]);
}

/* The lanes of a part: of a branch those whose condition is true, then the others. */
static bool *lanes_of(const program *p, const fuzz_block *b, int part, const bool *active) {
    const fuzz_step *chosen = &p->step[p->step[b->begin].in[0]];
    bool *lanes = calloc(b->lanes + 1, sizeof *lanes);
    for (size_t i = 0, at; i < b->lanes; ++i)
        lanes[i] = active[i] &&
                   (b->form == BRANCH
                        ? value_at(chosen, i) == (part == 0)
                        : value_index(chosen, i, (size_t) b->parts, &at) && at == (size_t) part);
    return lanes;
}

static void value_parts(program *p, fuzz_block *b, const bool *active) {
    int from[STATES];
    memcpy(from, b->start, sizeof from);
    for (int k = 0; k < b->states; ++k) {
        fuzz_step *r = &p->step[b->result[k]];
        copy(p, r, b->start[k]);
        if (b->form == CALL && !b->array[k])
            memset(r->value, 0, r->size * sizeof *r->value);
    }
    for (int part = 0; part < b->parts; ++part) {
        bool *lanes = lanes_of(p, b, part, active);
        begin_part(p, b, part, from);
        value_steps(p, b->part[part] + 1, part + 1 < b->parts ? b->part[part + 1] : b->end, lanes);
        for (int k = 0; k < b->states; ++k) {
            fuzz_step *r = &p->step[b->result[k]];
            const fuzz_step *next = &p->step[b->next[part][k]];
            if (b->array[k])
                copy(p, r, from[k] = b->next[part][k]);
            for (size_t i = 0; i < b->lanes && !b->array[k]; ++i)
                if (lanes[i])
                    r->value[i] = value_at(next, i);
        }
        free(lanes);
    }
}

void value_block(program *p, int number, const bool *active) {
    fuzz_block *b = &p->block[number];
    bool *lanes = calloc(b->lanes + 1, sizeof *lanes);
    for (size_t i = 0; i < b->lanes; ++i)
        lanes[i] = !active || active[i];
    if (b->form == LOOP)
        value_loop(p, b, lanes);
    else
        value_parts(p, b, lanes);
    free(lanes);
}
