/* bench_throughput.c: nanoseconds per element of cached kernels over large arrays.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * An evaluation is traced, evaluated and waited for each time, as a user does it; the results of
 * the entries are compared before anything is measured. */
#include "bench.h"
#include "engine.h"
#include "peers/hand.h"
#include "peers/python_peer.h"
#include "workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENGINES = 2, CHECKED = 256, FILL_NS = 3000000 };

typedef struct subject {
    engine engine;
    bool installed;
    const workload *work;
    engine_var inputs[WORKLOAD_INPUTS], index;
    size_t n;
} subject;

typedef struct sleef_work {
    void *function;
    const workload_arrays *arrays;
    const workload *work;
} sleef_work;

typedef struct hand_work {
    const workload *work;
    const workload_arrays *arrays;
} hand_work;

/* Everything that lives as long as one number of threads. */
typedef struct session {
    bench *bench;
    subject subjects[ENGINES];
    python_peers peers;
    int threads;
} session;

static void step(void *context) {
    const subject *s = context;
    workload_tape tape = {.engine = &s->engine, .inputs = s->inputs, .index = s->index};
    engine_var result = s->work->trace(&tape);
    s->engine.evaluate(&s->engine, result);
    s->engine.sync(&s->engine);
    workload_release(&tape);
}

static double sample_engine(void *context) {
    return bench_per_call(step, context, FILL_NS) / (double) ((subject *) context)->n;
}

static void hand_step(void *context) {
    const hand_work *h = context;
    h->work->hand(h->arrays);
}

static double sample_hand(void *context) {
    return bench_per_call(hand_step, context, FILL_NS) /
           (double) ((hand_work *) context)->arrays->n;
}

static void sleef_step(void *context) {
    const sleef_work *s = context;
    const workload_arrays *a = s->arrays;
    hand_sleef_apply(s->function, a->output, a->inputs[0],
                     s->work->inputs > 1 ? a->inputs[1] : NULL, a->n);
}

static double sample_sleef(void *context) {
    return bench_per_call(sleef_step, context, FILL_NS) /
           (double) ((sleef_work *) context)->arrays->n;
}

static bool give_inputs(subject *s, const workload *w, const workload_arrays *a) {
    const engine *e = &s->engine;
    s->work = w;
    s->n = a->n;
    for (size_t k = 0; k < w->inputs; ++k)
        s->inputs[k] = e->floats(e, a->inputs[k], a->n);
    s->index = w->indexed ? e->indices(e, a->index, a->n) : 0;
    return s->inputs[0] != 0 && (!w->indexed || s->index != 0) && (!w->combines || e->sum);
}

static void take_inputs(subject *s) {
    for (size_t k = 0; k < s->work->inputs; ++k)
        s->engine.release(s->inputs[k]);
    if (s->index)
        s->engine.release(s->index);
    s->engine.forget_memory(&s->engine);
}

/* Does the engine find what the loop in C has written to the output? */
static bool agrees(subject *s, const workload_arrays *a) {
    float values[CHECKED];
    size_t count = s->work->results ? s->work->results : CHECKED;
    const engine *e = &s->engine;
    workload_tape tape = {.engine = e, .inputs = s->inputs, .index = s->index};
    engine_var result = s->work->trace(&tape);
    bool same = e->evaluate(e, result) && e->read(e, result, values, count);
    workload_release(&tape);
    for (size_t i = 0; same && i < count; ++i)
        same = fabsf(values[i] - a->output[i]) <= 1e-4f * (1 + fabsf(a->output[i]));
    if (!same)
        fprintf(stderr, "%s: wrong result of %s\n", e->name, s->work->name);
    return same;
}

static bench_goal goal_of(const workload *w) {
    if (!strcmp(w->name, "horner") || !strcmp(w->name, "dot"))
        return (bench_goal) {1, "best"};
    if (!strcmp(w->name, "black_scholes"))
        return (bench_goal) {0.8, "C"};
    return (bench_goal) {1, hand_sleef_find(w->name) ? "sleef" : "C"};
}

static void measure_row(session *s, bench_row *row, const workload *w, const workload_arrays *a) {
    hand_work hand = {w, a};
    sleef_work sleef = {hand_sleef_find(w->name), a, w};
    w->hand(a);
    bool ready[ENGINES];
    for (size_t i = 0; i < ENGINES; ++i) {
        subject *one = &s->subjects[i];
        ready[i] = one->installed && give_inputs(one, w, a);
        if (i && w->combines) /* by Python */
            continue;
        bench_row_add(row, i ? "drjit" : "jitc", ready[i] && agrees(one, a) ? sample_engine : NULL,
                      one);
    }
    bench_row_add(row, "C", sample_hand, &hand);
    if (hand_math_find(w->name))
        bench_row_add(row, "sleef", sleef.function ? sample_sleef : NULL, &sleef);
    python_peers_add(&s->peers, row, w->name, a->n);
    bench_measure(s->bench, row);
    for (size_t i = 0; i < ENGINES; ++i)
        if (ready[i])
            take_inputs(&s->subjects[i]);
}

static void measure(session *s, const char *name, int log_size) {
    const workload *w = workload_table;
    while (w->name && strcmp(w->name, name) != 0)
        ++w;
    workload_arrays arrays;
    bench_row row =
        bench_row_make(BENCH_NS, goal_of(w), "%s, 2^%d, T=%d", name, log_size, s->threads);
    if (!bench_wants(s->bench, row.name))
        return;
    if (workload_prepare(w, (size_t) 1 << log_size, &arrays))
        measure_row(s, &row, w, &arrays);
    workload_finish(&arrays);
}

static void measure_combining(session *s) {
    static const char *const names[] = {"sum", "dot", "sum_of_squares", "prefix_sum", "compress"};
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
        measure(s, names[i], 20);
        measure(s, names[i], 24);
    }
}

static void measure_with_threads(session *s, int threads) {
    static const char *const math[] = {"exp", "log", "sin", "cos", "pow", "erf"};
    static const char *const libraries[] = {"drjit", "torch", "jax", "numba", "numpy"};
    s->threads = threads;
    hand_set_threads(threads);
    for (size_t i = 0; i < ENGINES; ++i) {
        subject *one = &s->subjects[i];
        one->installed = one->installed && one->engine.start(&one->engine, threads);
    }
    python_peers_start(&s->peers, threads == 1 ? 5 : 4, libraries,
                       threads); /* NumPy has no threads */
    measure(s, "saxpy", 26);
    measure(s, "horner", 20);
    measure(s, "horner", 24);
    measure(s, "black_scholes", 20);
    measure(s, "black_scholes", 24);
    measure(s, "gather", 24);
    measure_combining(s);
    for (size_t i = 0; threads == 1 && i < sizeof math / sizeof *math; ++i)
        measure(s, math[i], 20);
    python_peers_stop(&s->peers);
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc",  "drjit", "C",     "sleef", "numpy",
                                      "torch", "jax",   "numba", NULL};
    session s = {.bench = bench_create("throughput", who, argc, argv)};
    if (!s.bench)
        return 2;
    s.subjects[0].installed = engine_jitc_open(&s.subjects[0].engine);
    s.subjects[1].installed = engine_drjit_open(&s.subjects[1].engine);
    measure_with_threads(&s, 1);
    measure_with_threads(&s, 2);
    bench_note(s.bench,
               "Nanoseconds per element; T is the number of threads. C is written by hand, on "
               "glibc's vector functions; sleef is its variant within 1 ULP.");
    for (size_t i = 0; i < ENGINES; ++i)
        if (s.subjects[i].installed)
            s.subjects[i].engine.stop(&s.subjects[i].engine);
    return bench_destroy(s.bench);
}
