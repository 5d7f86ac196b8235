/* test_eval_random.c: random programs, cut anywhere, against an interpreter. */
#include "support.h"

#define B support_backend()

enum { LANES = 37, NODES = 120 };

typedef struct model {
    jit_var var;
    bool uniform;
    uint32_t value[LANES];
} model;

static uint32_t random_state;

static uint32_t random_below(uint32_t n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static uint32_t at(const model *m, size_t i) {
    return m->value[m->uniform ? 0 : i];
}

static model arithmetic(const model *a, const model *b) {
    uint32_t kind = random_below(5);
    jit_var (*const op[])(jit_var, jit_var) = {jit_add, jit_sub, jit_mul, jit_xor, jit_and};
    model m = {op[kind](a->var, b->var), a->uniform && b->uniform, {0}};
    for (size_t i = 0; i < LANES; ++i) {
        uint32_t x = at(a, i), y = at(b, i);
        uint32_t result[] = {x + y, x - y, x * y, x ^ y, x & y};
        m.value[i] = result[kind];
    }
    return m;
}

static model choice(const model *a, const model *b, const model *c) {
    model m = {jit_select(jit_lt(a->var, b->var), b->var, c->var),
               a->uniform && b->uniform && c->uniform,
               {0}};
    for (size_t i = 0; i < LANES; ++i)
        m.value[i] = at(a, i) < at(b, i) ? at(b, i) : at(c, i);
    return m;
}

/* The index modulo 40: some lanes are out of range. */
static model gathered(const model *a, const model *b, const model *c) {
    uint32_t size = a->uniform ? 1 : LANES;
    jit_var index = jit_mod(b->var, jit_u32(B, 40));
    model m = {jit_gather(a->var, index, jit_lt(c->var, jit_u32(B, 1u << 31))),
               b->uniform && c->uniform,
               {0}};
    for (size_t i = 0; i < LANES; ++i) {
        uint32_t k = at(b, i) % 40;
        m.value[i] = k < size && at(c, i) < 1u << 31 ? at(a, k) : 0;
    }
    return m;
}

/* Lane i writes element 36 - i: no two lanes write one element. */
static model scattered(const model *a, const model *b, const model *c) {
    model m = {0};
    jit_var index = jit_sub(jit_u32(B, LANES - 1), jit_counter(B, LANES));
    m.var = jit_scatter(a->var, b->var, index, jit_lt(c->var, jit_u32(B, 1u << 30)));
    for (size_t i = 0; i < LANES; ++i)
        m.value[i] = at(a, i);
    for (size_t i = 0; i < LANES; ++i)
        if (at(c, i) < 1u << 30)
            m.value[LANES - 1 - i] = at(b, i);
    return m;
}

/* ---- what combines lanes ---- */

static uint32_t combined(jit_reduce_op op, uint32_t a, uint32_t b) {
    switch (op) {
        case JIT_REDUCE_ADD: return a + b;
        case JIT_REDUCE_MUL: return a * b;
        case JIT_REDUCE_MIN: return a < b ? a : b;
        case JIT_REDUCE_MAX: return a > b ? a : b;
        case JIT_REDUCE_AND: return a & b;
        default: return a | b;
    }
}

/* Of all lanes: one element. Of blocks: each lane has its block's. */
static model reduced(const model *a, uint32_t block) {
    jit_reduce_op op = (jit_reduce_op) random_below(6);
    model m = {0};
    for (size_t i = 0; i < LANES; ++i) {
        size_t first = i - i % block;
        m.value[i] = at(a, first);
        for (size_t k = first + 1; k < LANES && k < first + block; ++k)
            m.value[i] = combined(op, m.value[i], at(a, k));
    }
    m.uniform = block >= LANES;
    if (m.uniform)
        m.var = jit_reduce(op, a->var);
    else
        m.var = jit_gather(jit_block_reduce(op, a->var, block),
                           jit_div(jit_counter(B, LANES), jit_u32(B, block)), 0);
    return m;
}

static model summed_up(const model *a) {
    bool exclusive = random_below(2), reverse = random_below(2);
    model m = {jit_prefix_reduce(JIT_REDUCE_ADD, a->var, exclusive, reverse), false, {0}};
    uint32_t sum = 0;
    for (size_t k = 0; k < LANES; ++k) {
        size_t i = reverse ? LANES - 1 - k : k;
        m.value[i] = sum + (exclusive ? 0 : at(a, i));
        sum += at(a, i);
    }
    return m;
}

/* The numbers of some lanes, and zeros behind them; or how many these are. */
static model compressed(const model *a, const model *b) {
    bool counts = random_below(2);
    jit_var mask = jit_lt(a->var, b->var), indices, count;
    cr_assert_eq(jit_compress_padded(mask, &indices, &count), JIT_OK, "%s", jit_error());
    model m = {count, counts, {0}};
    uint32_t n = 0;
    for (uint32_t i = 0; i < LANES; ++i)
        if (at(a, i) < at(b, i))
            m.value[n++] = i;
    if (counts)
        m.value[0] = n;
    else
        m.var = jit_select(jit_lt(jit_counter(B, LANES), count), indices, jit_u32(B, 0));
    return m;
}

/* In order, or where the elements were. */
static model sorted(const model *a) {
    bool numbers = random_below(2), descending = random_below(2);
    uint32_t from[LANES];
    jit_var index;
    model m = {jit_sort(a->var, descending, &index), false, {0}};
    for (uint32_t i = 0; i < LANES; ++i) {
        uint32_t k = i;
        for (; k && (descending ? at(a, from[k - 1]) < at(a, i) : at(a, from[k - 1]) > at(a, i));
             --k)
            from[k] = from[k - 1];
        from[k] = i;
    }
    for (size_t i = 0; i < LANES; ++i)
        m.value[i] = numbers ? from[i] : at(a, from[i]);
    if (numbers)
        m.var = index;
    return m;
}

static model scatter_reduced(const model *a, const model *b, const model *c) {
    jit_reduce_op op = (jit_reduce_op) random_below(6);
    jit_var index = jit_mod(b->var, jit_u32(B, 40));
    model m = {jit_scatter_reduce(op, a->var, c->var, index, 0), false, {0}};
    size_t lanes = b->uniform && c->uniform ? 1 : LANES;
    for (size_t i = 0; i < LANES; ++i)
        m.value[i] = at(a, i);
    for (size_t i = 0; i < lanes; ++i)
        if (at(b, i) % 40 < LANES)
            m.value[at(b, i) % 40] = combined(op, m.value[at(b, i) % 40], at(c, i));
    return m;
}

/* Each lane counts at another element, if at all. */
static model incremented(const model *a, const model *b) {
    bool old = random_below(2);
    jit_var target = jit_ref(a->var), mask = jit_lt(b->var, jit_u32(B, 1u << 31));
    jit_var index = jit_sub(jit_u32(B, LANES - 1), jit_counter(B, LANES));
    model m = {jit_scatter_inc(&target, index, mask), false, {0}};
    for (size_t i = 0; i < LANES; ++i) {
        bool counts = at(b, old ? i : LANES - 1 - i) < 1u << 31;
        m.value[i] = old ? (counts ? at(a, LANES - 1 - i) : 0) : at(a, i) + counts;
    }
    if (!old)
        m.var = target;
    return m;
}

static model combining(const model *a, const model *b, const model *c) {
    if (a->uniform)
        return choice(a, b, c);
    switch (random_below(7)) {
        case 0: return reduced(a, LANES);
        case 1: return reduced(a, 2 + random_below(30));
        case 2: return summed_up(a);
        case 3: return compressed(a, b);
        case 4: return sorted(a);
        case 5: return scatter_reduced(a, b, c);
        default: return incremented(a, b);
    }
}

/* `every`: of so many operations about one combines lanes; 0: none. */
static model random_model(const model *all, uint32_t n, uint32_t every) {
    const model *a = &all[random_below(n)], *b = &all[random_below(n)], *c = &all[random_below(n)];
    if (every && !random_below(every))
        return combining(a, b, c);
    switch (random_below(12)) {
        case 0: return gathered(a, b, c);
        case 1: return a->uniform ? choice(a, b, c) : scattered(a, b, c);
        case 2:
        case 3: return choice(a, b, c);
        default: return arithmetic(a, b);
    }
}

static void check_model(const model *m, uint32_t seed, uint32_t node, const char *cut) {
    uint32_t v[LANES];
    size_t n = m->uniform ? 1 : LANES;
    cr_assert_eq(jit_size(m->var), n);
    cr_assert_eq(jit_read(m->var, v), JIT_OK, "%s", jit_error());
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(v[i], m->value[i], "seed %u, node %u, lane %zu, kernel_ops %s: %u, not %u",
                     seed, node, i, cut, v[i], m->value[i]);
}

static void random_program(uint32_t seed, const char *cut, uint32_t every) {
    static model all[NODES];
    random_state = seed;
    jit_set_option("kernel_ops", cut);
    jit_scope_push();
    for (uint32_t k = 0; k < 4; ++k) {
        model *m = &all[k];
        m->uniform = k == 3;
        for (size_t i = 0; i < LANES; ++i)
            m->value[i] = random_below(1u << 24) << 8 | random_below(256);
        m->var = jit_from_host(B, JIT_u32, m->value, m->uniform ? 1 : LANES);
    }
    for (uint32_t k = 4; k < NODES; ++k)
        all[k] = random_model(all, k, every);
    for (uint32_t k = 0; k < 5; ++k)
        jit_schedule(all[random_below(NODES)].var);
    cr_assert_eq(jit_eval(), JIT_OK, "%s", jit_error());
    for (uint32_t k = NODES; k-- > 0;)
        if (k % 7 == 3 || k == NODES - 1)
            check_model(&all[k], seed, k, cut);
    jit_scope_pop(0, NULL);
    jit_stats stats;
    cr_assert_eq(jit_get_stats(&stats), JIT_OK);
    cr_assert_eq(stats.variables, 0, "seed %u", seed);
}

Test(eval_random, random_programs_cut_anywhere_agree_with_an_interpreter, .timeout = 250) {
    static const char *const cuts[] = {"2", "3", "7", "20", "1000"};
    support_init();
    jit_set_option("cache_disk", "0");
    for (uint32_t seed = 1; seed <= 12; ++seed)
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; ++c)
            random_program(seed, cuts[c], 0);
    support_shutdown();
}

Test(eval_random, programs_that_combine_lanes_agree_with_an_interpreter, .timeout = 250) {
    static const char *const cuts[] = {"2", "6", "1000"};
    support_init();
    jit_set_option("cache_disk", "0");
    for (uint32_t seed = 1; seed <= 8; ++seed)
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; ++c)
            random_program(seed, cuts[c], 6);
    support_shutdown();
}
