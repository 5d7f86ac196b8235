/* test_loop_random.c: random nests of loops, branches and calls, cut anywhere, against the same
 * programs run lane by lane here. */
#include "loop_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 37,
    REGISTERS = 4,
    ARRAYS = 2,
    STATES = REGISTERS + ARRAYS,
    TABLE = 23,
    COUNTS = 11, /* array 0: lanes add to elements */
    PLACES = 4,  /* array 1: of each lane */
    STATEMENTS = 3,
    CALLABLES = 3
};

typedef enum kind { ASSIGN, CHOOSE, READ, COUNT, WRITE, BRANCH, LOOP, SWITCH, KINDS } kind;

typedef struct statement {
    kind kind;
    uint32_t to, a, b, c, op, literal;
    struct block *block[CALLABLES];
} statement;

typedef struct block {
    uint32_t count;
    statement s[STATEMENTS];
} block;

static uint32_t random_state, table[TABLE];
static jit_var table_var, lane_var;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

/* ---- programs ---- */

static block *random_block(uint32_t depth);

static unsigned parts_of(kind k) {
    return k == SWITCH ? CALLABLES : k == BRANCH ? 2 : k == LOOP ? 1 : 0;
}

static statement random_statement(uint32_t depth) {
    statement s = {.kind = (kind) random_below(depth ? KINDS : BRANCH),
                   .to = random_below(REGISTERS),
                   .a = random_below(REGISTERS),
                   .b = random_below(REGISTERS),
                   .c = random_below(REGISTERS),
                   .op = random_below(4),
                   .literal = random_below(1000)};
    for (unsigned i = 0; i < parts_of(s.kind); ++i)
        s.block[i] = random_block(depth - 1);
    return s;
}

static block *random_block(uint32_t depth) {
    block *b = calloc(1, sizeof *b);
    b->count = 1 + random_below(STATEMENTS);
    for (uint32_t i = 0; i < b->count; ++i)
        b->s[i] = random_statement(depth);
    return b;
}

static void free_block(block *b) {
    for (uint32_t i = 0; i < b->count; ++i)
        for (unsigned k = 0; k < parts_of(b->s[i].kind); ++k)
            free_block(b->s[i].block[k]);
    free(b);
}

/* ---- here ---- */

typedef struct model {
    uint32_t r[LANES][REGISTERS];
    uint32_t counts[COUNTS], places[LANES * PLACES];
} model;

static void run(model *m, uint32_t lane, const block *b);

static void run_loop(model *m, uint32_t lane, const statement *s) {
    uint32_t *r = m->r[lane];
    for (uint32_t i = 0; i < (r[s->a] & 3) + (s->op & 1) && (r[s->b] ^ i) % 7 != 6; ++i)
        run(m, lane, s->block[0]);
}

static void run_switch(model *m, uint32_t lane, const statement *s) {
    uint32_t *r = m->r[lane], k = r[s->a] % (CALLABLES + 1);
    if (k < CALLABLES)
        run(m, lane, s->block[k]);
    else
        memset(r, 0, REGISTERS * sizeof *r);
}

static void run_statement(model *m, uint32_t lane, const statement *s) {
    uint32_t *r = m->r[lane], a = r[s->a], b = r[s->b], c = r[s->c];
    uint32_t results[] = {a + b, a * (s->literal | 1), a ^ b, a - lane};
    switch (s->kind) {
        case ASSIGN: r[s->to] = results[s->op]; break;
        case CHOOSE: r[s->to] = a < b ? c : s->literal; break;
        case READ: r[s->to] = a % 29 < TABLE && (b & 3) ? table[a % 29] : 0; break;
        case COUNT: m->counts[a % COUNTS] += b; break;
        case WRITE:
            if (b & 1)
                m->places[lane * PLACES + a % PLACES] = c;
            break;
        case BRANCH: run(m, lane, s->block[!(a % 5 < b % 5)]); break;
        case LOOP: run_loop(m, lane, s); break;
        default: run_switch(m, lane, s); break;
    }
}

static void run(model *m, uint32_t lane, const block *b) {
    for (uint32_t i = 0; i < b->count; ++i)
        run_statement(m, lane, &b->s[i]);
}

/* ---- recorded ---- */

static jit_var lit(uint32_t v) {
    return jit_u32(B, v);
}

static jit_var mod(jit_var a, uint32_t n) {
    return jit_mod(a, lit(n));
}

static void record(const block *b, jit_var *v);

static void record_branch(const statement *s, jit_var *v) {
    jit_if *f = jit_if_begin(jit_lt(mod(v[s->a], 5), mod(v[s->b], 5)), STATES, v);
    record(s->block[0], v);
    ASSERT_OK(jit_if_else(f, STATES, v));
    record(s->block[1], v);
    ASSERT_OK(jit_if_end(f, STATES, v));
}

/* The state has a counter besides. */
static void record_loop(const statement *s, jit_var *v) {
    jit_var state[STATES + 1];
    memcpy(state, v, STATES * sizeof *v);
    state[STATES] = lit(0);
    jit_loop *l = jit_loop_begin(STATES + 1, state);
    jit_var i = state[STATES], trips = jit_add(jit_and(state[s->a], lit(3)), lit(s->op & 1));
    jit_var go = jit_ne(mod(jit_xor(state[s->b], i), 7), lit(6));
    ASSERT_OK(jit_loop_condition(l, jit_and(jit_lt(i, trips), go)));
    record(s->block[0], state);
    state[STATES] = jit_add(i, lit(1));
    ASSERT_OK(jit_loop_end(l, STATES + 1, state));
    memcpy(v, state, STATES * sizeof *v);
}

static jit_status call(void *context, size_t n_args, const jit_var *args, size_t n_results,
                       jit_var *results) {
    cr_assert(n_args == STATES && n_results == STATES);
    memcpy(results, args, STATES * sizeof *args);
    record(context, results);
    return JIT_OK;
}

static void record_switch(const statement *s, jit_var *v) {
    jit_callable callables[CALLABLES];
    jit_var results[STATES];
    for (unsigned k = 0; k < CALLABLES; ++k)
        callables[k] = (jit_callable) {call, s->block[k]};
    ASSERT_OK(
        jit_switch(mod(v[s->a], CALLABLES + 1), CALLABLES, callables, STATES, v, STATES, results));
    memcpy(v, results, sizeof results);
}

static void record_statement(const statement *s, jit_var *v) {
    jit_var a = v[s->a], b = v[s->b], c = v[s->c], mask = jit_ne(jit_and(b, lit(3)), lit(0));
    jit_var place = jit_add(jit_mul(lane_var, lit(PLACES)), mod(a, PLACES));
    jit_var *counts = &v[REGISTERS], *places = &v[REGISTERS + 1];
    switch (s->kind) {
        case ASSIGN:
            v[s->to] = s->op == 0   ? jit_add(a, b)
                       : s->op == 1 ? jit_mul(a, lit(s->literal | 1))
                       : s->op == 2 ? jit_xor(a, b)
                                    : jit_sub(a, lane_var);
            break;
        case CHOOSE: v[s->to] = jit_select(jit_lt(a, b), c, lit(s->literal)); break;
        case READ: v[s->to] = jit_gather(table_var, mod(a, 29), mask); break;
        case COUNT:
            b = jit_sub(jit_add(b, lane_var), lane_var); /* of every lane, if it is one for all */
            *counts = jit_scatter_reduce(JIT_REDUCE_ADD, *counts, b, mod(a, COUNTS), 0);
            break;
        case WRITE:
            *places = jit_scatter(*places, c, place, jit_ne(jit_and(b, lit(1)), lit(0)));
            break;
        case BRANCH: record_branch(s, v); break;
        case LOOP: record_loop(s, v); break;
        default: record_switch(s, v); break;
    }
}

static void record(const block *b, jit_var *v) {
    for (uint32_t i = 0; i < b->count; ++i)
        record_statement(&b->s[i], v);
}

/* ---- both ---- */

static void start(model *m, jit_var *v) {
    uint32_t r[REGISTERS][LANES];
    memset(m, 0, sizeof *m);
    for (uint32_t k = 0; k < REGISTERS; ++k) {
        for (uint32_t lane = 0; lane < LANES; ++lane)
            m->r[lane][k] = r[k][lane] = k == 3 ? 5 : random_below(1u << 24);
        v[k] = k == 3 ? lit(5) : jit_from_host(B, JIT_u32, r[k], LANES);
    }
    for (uint32_t i = 0; i < TABLE; ++i)
        table[i] = random_below(1u << 24);
    table_var = jit_from_host(B, JIT_u32, table, TABLE);
    lane_var = jit_counter(B, LANES);
    v[REGISTERS] = jit_from_host(B, JIT_u32, m->counts, COUNTS);
    v[REGISTERS + 1] = jit_from_host(B, JIT_u32, m->places, LANES * PLACES);
}

/* The sum over lanes of a register, to be evaluated with the others. */
static jit_var sum_of(const model *m, const jit_var *v, size_t k, uint32_t *expected) {
    *expected = 0;
    for (size_t lane = 0; lane < jit_size(v[k]); ++lane)
        *expected += m->r[lane][k];
    jit_var sum = jit_reduce(JIT_REDUCE_ADD, v[k]);
    jit_schedule(sum);
    return sum;
}

static void check(const model *m, const jit_var *v, uint32_t seed) {
    char what[64];
    uint32_t values[LANES], total = 0;
    size_t order[STATES], first = random_below(STATES);
    jit_var sum = random_below(2) ? sum_of(m, v, first % REGISTERS, &total) : 0;
    for (size_t i = 0; i < STATES; ++i) { /* some together, in any order */
        order[i] = (first + i * 5) % STATES;
        if (random_below(2))
            jit_schedule(v[order[i]]);
    }
    for (size_t i = 0; i < STATES; ++i) {
        size_t k = order[i];
        snprintf(what, sizeof what, "seed %u, state %zu", seed, k);
        for (uint32_t lane = 0; k < REGISTERS && lane < LANES; ++lane)
            values[lane] = m->r[lane][k];
        if (k == REGISTERS)
            loop_world_expect_u32(v[k], COUNTS, m->counts, what);
        else if (k > REGISTERS)
            loop_world_expect_u32(v[k], LANES * PLACES, m->places, what);
        else
            loop_world_expect_u32(v[k], jit_size(v[k]), values, what);
    }
    if (sum)
        loop_world_expect_u32(sum, 1, &total, "sum of a register");
}

/* Some values are used again when they have been evaluated. */
static void random_program(uint32_t seed, const char *cut) {
    model m;
    jit_var v[STATES];
    random_state = seed;
    jit_set_option("kernel_ops", cut);
    jit_set_option("loop_steps", seed % 4 ? "0" : "1");
    jit_scope_push();
    start(&m, v);
    for (int part = 0; part < 2; ++part) {
        block *b = random_block(2 + seed % 7 / 6);
        record(b, v);
        for (uint32_t lane = 0; lane < LANES; ++lane)
            run(&m, lane, b);
        free_block(b);
        if (part || seed % 2)
            check(&m, v, seed);
    }
    jit_scope_pop(0, NULL);
}

TestSuite(loop_random, .init = loop_world_begin, .fini = loop_world_end);

Test(loop_random, random_nests_agree_with_the_same_program_run_here, .timeout = 250) {
    static const char *const cuts[] = {"3", "20", "4096"};
    jit_set_option("cache_disk", "0");
    const char *first = getenv("LOOP_SEED");
    uint32_t seed = first ? (uint32_t) atoi(first) : 1, end = first ? seed + 1 : 25;
    for (; seed < end; ++seed)
        random_program(seed, cuts[seed % 3]);
    jit_set_option("loop_steps", "0");
}
