/* loops.c: random programs with loops and branches, for the tests of backends. */
#include "loops.h"
#include "device/device.h"
#include <criterion/criterion.h>
#include <string.h>

uint32_t add_loop(jitc_program *p, bool once) {
    p->head.flags |= JITC_PROGRAM_LOOPS;
    return add_flagged(
        p, (jitc_inst) {.op = JITC_OP_loop, .type = JIT_u32, .aux = once ? JITC_AUX_ONCE : 0});
}
uint32_t add_phi(jitc_program *p, uint32_t start, uint32_t loop, uint32_t number) {
    return add(p, JITC_OP_phi, (jit_dtype) p->inst[start].type, start, loop, number);
}
void add_test(jitc_program *p, uint32_t condition, uint32_t loop) {
    add(p, JITC_OP_test, JIT_bool, condition, loop, 0);
}
void add_next(jitc_program *p, uint32_t phi, uint32_t value) {
    add(p, JITC_OP_next, (jit_dtype) p->inst[phi].type, phi, value, 0);
}
void add_end(jitc_program *p, uint32_t loop) {
    add(p, JITC_OP_end, JIT_u32, loop, 0, 0);
}

/* Arrays. */

static const jit_dtype types[LOOP_INPUTS] = {JIT_i32, JIT_f32, JIT_bool, JIT_u64,
                                             JIT_u8,  JIT_f16, JIT_f64,  JIT_u32};

static uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/** Floats are small integers and halves. */
static uint64_t random_element(jit_dtype t, uint64_t *state) {
    uint64_t in[3] = {next_random(state) % 2000, 0, 0}, bits = next_random(state) * 2654435761u;
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        jitc_fold(JITC_OP_cast, JIT_u32, t, in, &bits);
    return t == JIT_bool ? bits >> 5 & 1 : bits & jitc_bits_mask(t);
}

void loop_arrays_init(loop_arrays *a, uint64_t lanes, uint64_t seed) {
    uint64_t room = lanes + JITC_PADDING;
    *a = (loop_arrays) {.lanes = lanes};
    for (int i = 0; i < LOOP_INPUTS; i++) {
        a->in[i] = aligned_alloc(256, (room * 8 + 255) / 256 * 256);
        for (uint64_t k = 0; k < room; k++)
            write_element(types[i], a->in[i], k, random_element(types[i], &seed));
    }
    for (int i = 0; i < LOOP_OUTPUTS; i++) {
        a->out[i] = aligned_alloc(256, (room * 8 + 255) / 256 * 256);
        memset(a->out[i], 0, room * 8);
    }
}

void loop_arrays_finish(loop_arrays *a) {
    for (int i = 0; i < LOOP_INPUTS; i++)
        free(a->in[i]);
    for (int i = 0; i < LOOP_OUTPUTS; i++)
        free(a->out[i]);
}

/* Programs. */

enum { POOL = 40, MAX_DEPTH = 4 };

typedef struct generator {
    jitc_program *p;
    const loop_arrays *a;
    uint64_t *params;
    uint64_t state;
    uint32_t pool[LOOP_INPUTS][POOL]; /* values that can be used, by type */
    uint32_t count[LOOP_INPUTS];
    uint32_t lane;                 /* the counter */
    uint32_t source, target, sums; /* buffers of u32 */
    uint32_t inputs[LOOP_INPUTS];  /* parameters */
    int depth, budget;
    bool small;
} generator;

static uint32_t pick(generator *g, int type) {
    return g->pool[type][next_random(&g->state) % g->count[type]];
}
static void keep(generator *g, int type, uint32_t value) {
    if (g->count[type] < POOL)
        g->pool[type][g->count[type]++] = value;
    else
        g->pool[type][next_random(&g->state) % POOL] = value;
}
enum { BOOL_INDEX = 2, U32_INDEX = 7, I32_INDEX = 0 };

static void add_arithmetic(generator *g, int type) {
    static const uint8_t ops[] = {JITC_OP_add, JITC_OP_sub, JITC_OP_mul, JITC_OP_min, JITC_OP_max};
    static const uint8_t bits[] = {JITC_OP_and, JITC_OP_or, JITC_OP_xor};
    jit_dtype t = types[type];
    uint64_t r = next_random(&g->state);
    jitc_op op = (jitc_op) (t == JIT_bool ? bits[r % 3] : ops[r % 5]);
    keep(g, type, add(g->p, op, t, pick(g, type), pick(g, type), 0));
}

static void add_compare(generator *g) {
    int type = (int) (next_random(&g->state) % LOOP_INPUTS);
    jitc_op op = (jitc_op) (JITC_OP_eq + next_random(&g->state) % 6);
    keep(g, BOOL_INDEX, add(g->p, op, JIT_bool, pick(g, type), pick(g, type), 0));
}

static void add_leaf(generator *g, int type) {
    jit_dtype t = types[type];
    if (next_random(&g->state) % 2)
        keep(g, type, add(g->p, JITC_OP_data, t, g->inputs[type], 0, 0));
    else
        keep(g, type, add_literal(g->p, t, random_element(t, &g->state), g->params));
}

static void add_gather(generator *g) {
    uint32_t index = pick(g, U32_INDEX);
    if (next_random(&g->state) % 2)
        index = add(g->p, JITC_OP_masked, JIT_u32, index, pick(g, BOOL_INDEX), 0);
    keep(g, U32_INDEX, add(g->p, JITC_OP_gather, JIT_u32, g->source, index, 0));
}

/** Each lane to its own element. */
static void add_scatter(generator *g) {
    uint32_t index = g->lane;
    if (next_random(&g->state) % 2)
        index = add(g->p, JITC_OP_masked, JIT_u32, index, pick(g, BOOL_INDEX), 0);
    add(g->p, JITC_OP_scatter, JIT_u32, g->target, pick(g, U32_INDEX), index);
}

static void add_update(generator *g) {
    uint32_t index = add(g->p, JITC_OP_mod, JIT_u32, pick(g, U32_INDEX),
                         add_baked(g->p, JIT_u32, LOOP_SUMS + 2), 0);
    if (next_random(&g->state) % 2)
        index = add(g->p, JITC_OP_masked, JIT_u32, index, pick(g, BOOL_INDEX), 0);
    add(g->p, JITC_OP_scatter_reduce, JIT_u32, g->sums, pick(g, U32_INDEX), index);
}

static void add_instructions(generator *g, int count);

/** The condition of a loop that goes around 7 times at most: its first state counts. */
static uint32_t add_condition(generator *g, uint32_t counter) {
    uint32_t limit =
        add(g->p, JITC_OP_and, JIT_u32, pick(g, U32_INDEX), add_baked(g->p, JIT_u32, 7), 0);
    if (next_random(&g->state) % 3 == 0) /* the same for all lanes */
        limit = add_literal(g->p, JIT_u32, next_random(&g->state) % 6, g->params);
    uint32_t more = add(g->p, JITC_OP_lt, JIT_bool, counter, limit, 0);
    if (next_random(&g->state) % 3 == 0)
        add_instructions(g, 3);
    if (next_random(&g->state) % 2)
        more = add(g->p, JITC_OP_and, JIT_bool, more, pick(g, BOOL_INDEX), 0);
    return more;
}

static void add_random_loop(generator *g) {
    enum { STATES = 12 };
    uint32_t phi[STATES], value[STATES];
    int type[STATES], states = (int) (next_random(&g->state) % (g->small ? 4 : STATES));
    bool once = next_random(&g->state) % 3 == 0;
    uint32_t zero = add_literal(g->p, JIT_u32, 0, g->params), start[STATES];
    if (next_random(&g->state) % 3 == 0) /* not the same in all lanes */
        zero = add(g->p, JITC_OP_and, JIT_u32, pick(g, U32_INDEX), add_baked(g->p, JIT_u32, 3), 0);
    for (int s = 0; s < states; s++) {
        type[s] = (int) (next_random(&g->state) % LOOP_INPUTS);
        start[s] = pick(g, type[s]);
    }
    generator outside = *g;
    uint32_t loop = add_loop(g->p, once);
    uint32_t counter = add_phi(g->p, zero, loop, 0);
    for (int s = 0; s < states; s++)
        phi[s] = add_phi(g->p, start[s], loop, (uint32_t) s + 1);
    for (int s = 0; s < states; s++)
        keep(g, type[s], phi[s]);
    ++g->depth;
    uint32_t condition = once ? pick(g, BOOL_INDEX) : add_condition(g, counter);
    add_test(g->p, condition, loop);
    add_instructions(g, 8);
    uint32_t one = add_literal(g->p, JIT_u32, 1, g->params);
    if (next_random(&g->state) % 3 == 0) { /* 1 or 3, not the same in all lanes */
        uint32_t two = add_baked(g->p, JIT_u32, 2);
        uint32_t more = add(g->p, JITC_OP_and, JIT_u32, pick(g, U32_INDEX), two, 0);
        one = add(g->p, JITC_OP_or, JIT_u32, one, more, 0);
    }
    uint32_t counted = add(g->p, JITC_OP_add, JIT_u32, counter, one, 0);
    for (int s = 0; s < states; s++)
        value[s] = pick(g, type[s]);
    add_next(g->p, counter, counted);
    for (int s = 0; s < states; s++)
        if (s % 5 != 4)
            add_next(g->p, phi[s], value[s]);
    add_end(g->p, loop);
    memcpy(g->pool, outside.pool, sizeof g->pool); /* what was inside is gone */
    memcpy(g->count, outside.count, sizeof g->count);
    --g->depth;
    for (int s = 0; s < states; s++)
        keep(g, type[s], phi[s]);
}

static void add_instructions(generator *g, int count) {
    for (int n = 0; n < count && g->budget > 0; n++, g->budget--) {
        uint64_t r = next_random(&g->state) % 16;
        int type = (int) (next_random(&g->state) % LOOP_INPUTS);
        if (r < 2 && g->depth < MAX_DEPTH)
            add_random_loop(g);
        else if (r == 2)
            add_gather(g);
        else if (r == 3 && g->p->head.flags & JITC_PROGRAM_SCRATCH)
            add_update(g);
        else if (r == 3)
            add_scatter(g);
        else if (r < 6)
            add_leaf(g, type);
        else if (r < 9)
            add_compare(g);
        else
            add_arithmetic(g, type);
    }
}

void loop_program(jitc_program *p, const loop_arrays *a, uint64_t seed, uint64_t *params) {
    generator g = {.p = p, .a = a, .params = params, .state = seed * 7919 + 1};
    g.small = seed % 2;
    g.budget = g.small ? 16 : 60;
    for (int i = 0; i < LOOP_INPUTS; i++) {
        g.inputs[i] = p->head.params;
        keep(&g, i, add_data(p, types[i], a->in[i], params));
    }
    g.lane = add(p, JITC_OP_counter, JIT_u32, 0, 0, 0);
    keep(&g, U32_INDEX, g.lane);
    g.source = add_buffer(p, JIT_u32, a->in[U32_INDEX], a->lanes, params);
    g.target = add_buffer(p, JIT_u32, a->out[LOOP_OUTPUTS - 1], a->lanes, params);
    g.sums = add_buffer(p, JIT_u32, a->sums, LOOP_SUMS, params);
    add_instructions(&g, 4);
    g.budget = g.budget > 8 ? g.budget : 8;
    add_random_loop(&g);
    add_instructions(&g, 12);
    for (int i = 0; i < LOOP_OUTPUTS - 1; i++) {
        int type = (int) (next_random(&g.state) % LOOP_INPUTS);
        add_store(p, types[type], pick(&g, type), a->out[i], params);
    }
    cr_assert_lt(p->head.params, 256);
}
