/* workload.c: see workload.h.
 * Layer: benchmarks. May include: nothing of the library. */
#include "workload.h"
#include "peers/hand.h"
#include "peers/hand_combine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* From this size on, arrays are not found in a cache by who reads them next. */
enum { STREAMING_FROM = 1 << 24 };

static engine_var keep(workload_tape *t, engine_var v) {
    if (t->count < WORKLOAD_MOST_VARIABLES)
        t->made[t->count++] = v;
    return v;
}

void workload_release(workload_tape *t) {
    while (t->count > 0)
        t->engine->release(t->made[--t->count]);
}

static engine_var number(workload_tape *t, float value) {
    return keep(t, t->engine->literal(t->engine, value));
}
static engine_var add(workload_tape *t, engine_var a, engine_var b) {
    return keep(t, t->engine->add(a, b));
}
static engine_var subtract(workload_tape *t, engine_var a, engine_var b) {
    return keep(t, t->engine->sub(a, b));
}
static engine_var multiply(workload_tape *t, engine_var a, engine_var b) {
    return keep(t, t->engine->mul(a, b));
}
static engine_var divide(workload_tape *t, engine_var a, engine_var b) {
    return keep(t, t->engine->div(a, b));
}
static engine_var apply(workload_tape *t, engine_function f, engine_var a) {
    return keep(t, t->engine->unary(t->engine, f, a));
}

static engine_var trace_saxpy(workload_tape *t) {
    return add(t, multiply(t, number(t, 2.5f), t->inputs[0]), t->inputs[1]);
}

static void hand_run_saxpy(const workload_arrays *a) {
    if (a->n >= STREAMING_FROM)
        hand_saxpy_streaming(a->output, 2.5f, a->inputs[0], a->inputs[1], a->n);
    else
        hand_saxpy(a->output, 2.5f, a->inputs[0], a->inputs[1], a->n);
}

static float coefficient(int j) {
    return 1.0f / (float) (j + 1);
}

static engine_var trace_horner(workload_tape *t) {
    engine_var r = number(t, coefficient(HAND_COEFFICIENTS - 1));
    for (int j = HAND_COEFFICIENTS - 2; j >= 0; --j)
        r = keep(t, t->engine->fma(r, t->inputs[0], number(t, coefficient(j))));
    return r;
}

static void hand_run_horner(const workload_arrays *a) {
    float c[HAND_COEFFICIENTS];
    for (int j = 0; j < HAND_COEFFICIENTS; ++j)
        c[j] = coefficient(j);
    hand_horner(a->output, a->inputs[0], c, a->n);
}

/* The normal distribution's integral up to d. */
static engine_var trace_normal(workload_tape *t, engine_var d) {
    engine_var erf = apply(t, ENGINE_ERF, multiply(t, d, number(t, HAND_INV_SQRT2)));
    return multiply(t, number(t, 0.5f), add(t, number(t, 1), erf));
}

static engine_var trace_black_scholes(workload_tape *t) {
    const float v = HAND_VOLATILITY;
    engine_var s = t->inputs[0], k = t->inputs[1], time = t->inputs[2];
    engine_var q = multiply(t, number(t, v), apply(t, ENGINE_SQRT, time));
    engine_var drift = multiply(t, number(t, HAND_RATE + 0.5f * v * v), time);
    engine_var d1 = divide(t, add(t, apply(t, ENGINE_LOG, divide(t, s, k)), drift), q);
    engine_var d2 = subtract(t, d1, q);
    engine_var discount = apply(t, ENGINE_EXP, multiply(t, number(t, -HAND_RATE), time));
    engine_var paid = multiply(t, multiply(t, k, discount), trace_normal(t, d2));
    return subtract(t, multiply(t, s, trace_normal(t, d1)), paid);
}

static void hand_run_black_scholes(const workload_arrays *a) {
    hand_black_scholes(a->output, a->inputs[0], a->inputs[1], a->inputs[2], a->n);
}

static engine_var trace_gather(workload_tape *t) {
    return keep(t, t->engine->gather(t->engine, t->inputs[0], t->index));
}

static void hand_run_gather(const workload_arrays *a) {
    hand_gather(a->output, a->inputs[0], a->index, a->n);
}

static engine_var trace_pow(workload_tape *t) {
    return keep(t, t->engine->pow(t->engine, t->inputs[0], t->inputs[1]));
}

static void hand_run_pow(const workload_arrays *a) {
    hand_math_find("pow")(a->output, a->inputs[0], a->inputs[1], a->n);
}

static engine_var trace_sum(workload_tape *t) {
    return keep(t, t->engine->sum(t->engine, t->inputs[0]));
}
static void hand_run_sum(const workload_arrays *a) {
    a->output[0] = hand_sum(a->inputs[0], a->n);
}

static engine_var trace_dot(workload_tape *t) {
    return keep(t, t->engine->sum(t->engine, multiply(t, t->inputs[0], t->inputs[1])));
}
static void hand_run_dot(const workload_arrays *a) {
    a->output[0] = hand_dot(a->inputs[0], a->inputs[1], a->n);
}

static engine_var trace_squares(workload_tape *t) {
    return keep(t, t->engine->sum(t->engine, multiply(t, t->inputs[0], t->inputs[0])));
}
static void hand_run_squares(const workload_arrays *a) {
    a->output[0] = hand_dot(a->inputs[0], a->inputs[0], a->n);
}

static engine_var trace_prefix_sum(workload_tape *t) {
    return keep(t, t->engine->prefix_sum(t->engine, t->inputs[0]));
}
static void hand_run_prefix_sum(const workload_arrays *a) {
    hand_prefix_sum(a->output, a->inputs[0], a->n);
}

static engine_var trace_compress(workload_tape *t) {
    return keep(t, t->engine->compress_less(t->engine, t->inputs[0], number(t, 0.5f)));
}
static void hand_run_compress(const workload_arrays *a) {
    hand_compress((uint32_t *) (void *) a->output, a->inputs[0], 0.5f, a->n);
}

/* A function of one argument. */
#define MATH(name, FUNCTION)                                                                       \
    static engine_var trace_##name(workload_tape *t) {                                             \
        return apply(t, ENGINE_##FUNCTION, t->inputs[0]);                                          \
    }                                                                                              \
    static void hand_run_##name(const workload_arrays *a) {                                        \
        hand_math_find(#name)(a->output, a->inputs[0], NULL, a->n);                                \
    }
MATH(exp, EXP)
MATH(log, LOG)
MATH(sin, SIN)
MATH(cos, COS)
MATH(erf, ERF)
#undef MATH

const workload workload_table[] = {
    {"saxpy", 2, {{0, 1}, {0, 1}}, false, false, 0, trace_saxpy, hand_run_saxpy},
    {"horner", 1, {{0, 1}}, false, false, 0, trace_horner, hand_run_horner},
    {"black_scholes",
     3,
     {{50, 150}, {50, 150}, {0.2f, 2.2f}},
     false,
     false,
     0,
     trace_black_scholes,
     hand_run_black_scholes},
    {"gather", 1, {{0, 1}}, true, false, 0, trace_gather, hand_run_gather},
    {"sum", 1, {{0, 1}}, false, true, 1, trace_sum, hand_run_sum},
    {"dot", 2, {{0, 1}, {0, 1}}, false, true, 1, trace_dot, hand_run_dot},
    {"sum_of_squares", 1, {{0, 1}}, false, true, 1, trace_squares, hand_run_squares},
    {"prefix_sum", 1, {{0, 1}}, false, true, 0, trace_prefix_sum, hand_run_prefix_sum},
    {"compress", 1, {{0, 1}}, false, true, 0, trace_compress, hand_run_compress},
    {"exp", 1, {{-87, 88}}, false, false, 0, trace_exp, hand_run_exp},
    {"log", 1, {{1e-3f, 1e3f}}, false, false, 0, trace_log, hand_run_log},
    {"sin", 1, {{-100, 100}}, false, false, 0, trace_sin, hand_run_sin},
    {"cos", 1, {{-100, 100}}, false, false, 0, trace_cos, hand_run_cos},
    {"pow", 2, {{1e-3f, 10}, {-10, 10}}, false, false, 0, trace_pow, hand_run_pow},
    {"erf", 1, {{-4, 4}}, false, false, 0, trace_erf, hand_run_erf},
    {0},
};

/* As the library allocates: on large pages, which matter to random accesses. */
static void *allocate(size_t size) {
    const size_t page = 2u << 20;
    size = (size + page - 1) / page * page;
    void *memory = aligned_alloc(page, size);
    if (memory) {
        madvise(memory, size, MADV_HUGEPAGE);
        memset(memory, 0, size);
    }
    return memory;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
}

bool workload_prepare(const workload *w, size_t n, workload_arrays *a) {
    *a = (workload_arrays) {.n = n, .output = allocate(n * sizeof(float))};
    bool complete = a->output != NULL;
    for (size_t k = 0; k < w->inputs; ++k) {
        float *values = a->inputs[k] = allocate(n * sizeof(float));
        float scale = (w->range[k].high - w->range[k].low) / 16777216.0f;
        complete = complete && values;
        for (size_t i = 0; values && i < n; ++i)
            values[i] = w->range[k].low + scale * (float) (mix(i * WORKLOAD_INPUTS + k + 1) >> 40);
    }
    if (w->indexed) {
        a->index = allocate(n * sizeof *a->index);
        complete = complete && a->index;
        for (size_t i = 0; a->index && i < n; ++i)
            a->index[i] = (uint32_t) (mix(i + 77) % n);
    }
    return complete;
}

void workload_finish(workload_arrays *a) {
    for (size_t k = 0; k < WORKLOAD_INPUTS; ++k)
        free(a->inputs[k]);
    free(a->index);
    free(a->output);
    *a = (workload_arrays) {0};
}
