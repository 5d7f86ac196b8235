/* bench_compile.c: the first evaluation of a graph whose kernel nobody has compiled before.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * Every sample is a new random chain, and both libraries keep their files in a folder that is made
 * for this run (run.sh does it), so neither finds anything in memory or on disk. */
#include "bench.h"
#include "engine.h"

#include <time.h>

enum { ENGINES = 2, ELEMENTS = 16 };

typedef struct subject {
    engine engine;
    bool installed;
    engine_var x, y;
    size_t operations;
    uint64_t seed;
} subject;

/* Trace a program that nobody has seen; the time to evaluate it. */
static double evaluate_new(subject *s) {
    const engine *e = &s->engine;
    s->seed = s->seed * 6364136223846793005u + 1442695040888963407u;
    engine_var z = engine_chain(e, s->x, s->y, s->operations, s->seed);
    double start = bench_now();
    bool evaluated = e->evaluate(e, z);
    e->sync(e);
    double elapsed = bench_now() - start;
    e->release(z);
    return evaluated ? elapsed : -1;
}

/* The first of two programs brings the compiler's code and tables into the caches. */
static double sample_cold(void *context) {
    return evaluate_new(context) < 0 ? -1 : evaluate_new(context);
}

static void prepare(subject *s, bool (*open)(engine *)) {
    float data[ELEMENTS + 1];
    for (int i = 0; i <= ELEMENTS; ++i)
        data[i] = (float) i / 64;
    s->seed = (uint64_t) time(NULL) * 2654435761u;
    s->installed = open(&s->engine) && s->engine.start(&s->engine, 1);
    if (!s->installed)
        return;
    s->x = s->engine.floats(&s->engine, data, ELEMENTS);
    s->y = s->engine.floats(&s->engine, data + 1, ELEMENTS);
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc", "drjit", NULL};
    static const struct {
        size_t operations;
        double goal;
    } rows[] = {{10, 0.6}, {100, 0.8}, {1000, 4}, {10000, 60}};
    bench *b = bench_create("compile", who, argc, argv);
    if (!b)
        return 2;
    subject subjects[ENGINES] = {0};
    prepare(&subjects[0], engine_jitc_open);
    prepare(&subjects[1], engine_drjit_open);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        bench_row row = bench_row_make(BENCH_MS, (bench_goal) {rows[i].goal, NULL},
                                       "first evaluation, %zu operations", rows[i].operations);
        for (size_t k = 0; k < ENGINES; ++k) {
            subjects[k].operations = rows[i].operations;
            bench_row_add(&row, k ? "drjit" : "jitc", subjects[k].installed ? sample_cold : NULL,
                          &subjects[k]);
        }
        bench_measure(b, &row);
    }
    bench_note(b,
               "Tracing is left out; writing the kernel to the cache on disk is part of the time.");
    for (size_t k = 0; k < ENGINES; ++k)
        if (subjects[k].installed)
            subjects[k].engine.stop(&subjects[k].engine);
    return bench_destroy(b);
}
