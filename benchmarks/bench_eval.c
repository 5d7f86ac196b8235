/* bench_eval.c: what an evaluation costs once its kernel is there.
 * Layer: benchmarks. May include: nothing of the library. */
#include "bench.h"
#include "engine.h"
#include "peers/python_peer.h"

#include <stdio.h>
#include <stdlib.h>

enum { ENGINES = 2, GRAPH_ELEMENTS = 16, LARGEST = 1000000, FILL_NS = 3000000 };

typedef struct subject {
    engine engine;
    bool installed;
    engine_var x, y;
    size_t operations;
} subject;

/* Operation, evaluation, wait and release, as a user's loop does it. */
static void step(void *context) {
    const subject *s = context;
    const engine *e = &s->engine;
    engine_var z = e->add(s->x, s->y);
    e->evaluate(e, z);
    e->sync(e);
    e->release(z);
}

static double sample_step(void *context) {
    return bench_per_call(step, context, FILL_NS);
}

/* A chain of evaluations, each on the result before, and one wait. */
static void hundred_steps(void *context) {
    const subject *s = context;
    const engine *e = &s->engine;
    engine_var z = e->retain(e, s->x);
    for (int i = 0; i < 100; ++i) {
        engine_var next = e->add(z, s->y);
        e->evaluate(e, next);
        e->release(z);
        z = next;
    }
    e->sync(e);
    e->release(z);
}

static double sample_pipeline(void *context) {
    return bench_per_call(hundred_steps, context, FILL_NS) / 100;
}

/* Evaluation and wait alone: the graph is traced outside of the measured time. */
static double sample_evaluate(void *context) {
    const subject *s = context;
    const engine *e = &s->engine;
    size_t repetitions = 4 + 20000 / s->operations;
    double total = 0;
    for (size_t i = 0; i <= repetitions; ++i) {
        engine_var z = engine_chain(e, s->x, s->y, s->operations, 12345);
        double start = bench_now();
        if (!e->evaluate(e, z))
            return -1;
        e->sync(e);
        total += i ? bench_now() - start : 0;
        e->release(z);
    }
    return total / (double) repetitions;
}

static void retrace(void *context) {
    const subject *s = context;
    const engine *e = &s->engine;
    engine_var z = engine_chain(e, s->x, s->y, s->operations, 12345);
    e->evaluate(e, z);
    e->sync(e);
    e->release(z);
}

static double sample_retrace(void *context) {
    return bench_per_call(retrace, context, FILL_NS);
}

static void set_size(subject *subjects, size_t size) {
    float *data = malloc((size + 1) * sizeof *data);
    for (size_t i = 0; data && i <= size; ++i)
        data[i] = (float) (i & 1023) / 2048;
    for (size_t i = 0; data && i < ENGINES; ++i) {
        subject *s = &subjects[i];
        if (!s->installed)
            continue;
        s->engine.release(s->x);
        s->engine.release(s->y);
        s->x = s->engine.floats(&s->engine, data, size);
        s->y = s->engine.floats(&s->engine, data + 1, size);
    }
    free(data);
}

static void add_engines(bench_row *row, subject *subjects, double (*sample)(void *)) {
    for (size_t i = 0; i < ENGINES; ++i)
        bench_row_add(row, i ? "drjit" : "jitc", subjects[i].installed ? sample : NULL,
                      &subjects[i]);
}

static void measure_small_kernels(bench *b, subject *subjects, python_peer *numpy, int threads) {
    static const struct {
        size_t size;
        double goal[2];
    } rows[] = {{1, {0.3, 0.5}}, {1000, {0.3, 0.5}}, {LARGEST, {0, 0}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        set_size(subjects, rows[i].size);
        bench_row row = bench_row_make(BENCH_US, (bench_goal) {rows[i].goal[threads - 1], NULL},
                                       "x + y of %zu, with sync, T=%d", rows[i].size, threads);
        add_engines(&row, subjects, sample_step);
        python_work work = {numpy, "add", rows[i].size};
        if (threads == 1)
            bench_row_add(&row, "numpy", numpy ? python_peer_sample : NULL, &work);
        bench_measure(b, &row);
    }
    set_size(subjects, 1000);
    bench_row row = bench_row_make(BENCH_US, (bench_goal) {0, NULL},
                                   "x + y of 1000, one sync for 100, T=%d", threads);
    add_engines(&row, subjects, sample_pipeline);
    bench_measure(b, &row);
}

static void measure_graphs(bench *b, subject *subjects) {
    static const struct {
        size_t operations;
        double goal;
    } rows[] = {{10, 0.7}, {100, 2}, {1000, 16}, {10000, 200}};
    set_size(subjects, GRAPH_ELEMENTS);
    for (int traced = 0; traced < 2; ++traced)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
            for (size_t k = 0; k < ENGINES; ++k)
                subjects[k].operations = rows[i].operations;
            bench_row row =
                bench_row_make(BENCH_US, (bench_goal) {traced ? 0 : rows[i].goal, NULL},
                               "%s %zu cached operations",
                               traced ? "trace and evaluate" : "evaluate", rows[i].operations);
            add_engines(&row, subjects, traced ? sample_retrace : sample_evaluate);
            bench_measure(b, &row);
        }
}

static void start_engines(subject *subjects, int threads) {
    for (size_t i = 0; i < ENGINES; ++i) {
        subject *s = &subjects[i];
        if (s->installed && threads > 1) {
            s->engine.release(s->x);
            s->engine.release(s->y);
        }
        s->x = s->y = 0;
        s->installed = s->installed && s->engine.start(&s->engine, threads);
    }
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc", "drjit", "numpy", NULL};
    bench *b = bench_create("eval", who, argc, argv);
    if (!b)
        return 2;
    subject subjects[ENGINES] = {0};
    subjects[0].installed = engine_jitc_open(&subjects[0].engine);
    subjects[1].installed = engine_drjit_open(&subjects[1].engine);
    python_peer *numpy = python_peer_create("peer.py", "numpy", 1);
    start_engines(subjects, 1);
    measure_graphs(b, subjects);
    measure_small_kernels(b, subjects, numpy, 1);
    start_engines(subjects, 2);
    measure_small_kernels(b, subjects, NULL, 2);
    bench_note(b,
               "The rows that say evaluate alone leave tracing out; graphs work on %d elements; T "
               "is the number of "
               "threads.",
               GRAPH_ELEMENTS);
    python_peer_destroy(numpy);
    for (size_t i = 0; i < ENGINES; ++i)
        if (subjects[i].installed)
            subjects[i].engine.stop(&subjects[i].engine);
    return bench_destroy(b);
}
