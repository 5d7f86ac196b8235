/* bench_trace.c: recording operations, without evaluating any.
 * Layer: benchmarks. May include: nothing of the library. */
#include "bench.h"
#include "engine.h"

#include <stdint.h>
#include <stdlib.h>

enum { ENGINES = 2, LONGEST = 1000000 };

typedef struct subject {
    engine engine;
    bool installed;
    engine_var x, y;
    size_t length;
    engine_var *kept; /* LONGEST handles */
} subject;

/* Additions and multiplications in turn: the branch is predicted, so that only recording is
 * measured. */
static engine_var chain(const subject *s, size_t n) {
    const engine *e = &s->engine;
    engine_var v = e->retain(e, s->x);
    for (size_t i = 0; i < n; ++i) {
        engine_var other = i & 2 ? s->x : s->y;
        engine_var next = i & 1 ? e->mul(v, other) : e->add(v, other);
        e->release(v);
        v = next;
    }
    return v;
}

/* Enough repetitions of `length` operations for a sample of about three milliseconds. */
static size_t repetitions(const subject *s) {
    return 1 + 30000 / s->length;
}

/* The time of recording alone: what is left of the chain before is freed meanwhile, if the library
 * does it so. */
static double sample_record(void *context) {
    subject *s = context;
    double total = 0;
    s->engine.release(chain(s, s->length)); /* caches are as the other entry left them */
    for (size_t i = 0; i < repetitions(s); ++i) {
        double start = bench_now();
        engine_var v = chain(s, s->length);
        total += bench_now() - start;
        s->engine.release(v);
    }
    return total / (double) (repetitions(s) * s->length);
}

static double sample_record_and_free(void *context) {
    subject *s = context;
    s->engine.release(chain(s, s->length));
    double start = bench_now();
    for (size_t i = 0; i < repetitions(s); ++i)
        s->engine.release(chain(s, s->length));
    return (bench_now() - start) / (double) (repetitions(s) * s->length);
}

/* Record what exists already: every operation is found. */
static double sample_again(void *context) {
    subject *s = context;
    engine_var alive = chain(s, s->length);
    double start = bench_now();
    for (size_t i = 0; i < repetitions(s); ++i)
        s->engine.release(chain(s, s->length));
    double elapsed = bench_now() - start;
    s->engine.release(alive);
    return elapsed / (double) (repetitions(s) * s->length);
}

/* Record a graph of which every variable stays; operands are among the last 64 values. */
static double sample_keep_all(void *context) {
    subject *s = context;
    uint64_t state = 88172645463325252u;
    s->kept[0] = s->x;
    s->kept[1] = s->y;
    double start = bench_now();
    for (size_t i = 2; i < s->length; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t window = i < 64 ? i : 64;
        engine_var a = s->kept[i - 1 - (state >> 33) % window];
        engine_var b = s->kept[i - 1 - (state >> 43) % window];
        s->kept[i] = state >> 63 ? s->engine.add(a, b) : s->engine.mul(a, b);
    }
    double elapsed = bench_now() - start;
    for (size_t i = 2; i < s->length; ++i)
        s->engine.release(s->kept[i]);
    return elapsed / (double) s->length;
}

/* The longest call: the release of the root of a long chain. */
static double sample_release_root(void *context) {
    subject *s = context;
    engine_var v = chain(s, s->length);
    double start = bench_now();
    s->engine.release(v);
    return bench_now() - start;
}

static double sample_literal(void *context) {
    subject *s = context;
    const engine *e = &s->engine;
    double start = bench_now();
    for (size_t i = 0; i < s->length; ++i)
        e->release(e->literal(e, 1.5f + (float) (i & 7)));
    return (bench_now() - start) / (double) s->length;
}

/* Growth of the resident memory while a chain of `length` comes to life. */
static double sample_memory(void *context) {
    subject *s = context;
    double before = bench_resident();
    engine_var v = chain(s, s->length);
    double grown = bench_resident() - before;
    s->engine.release(v);
    return grown / (double) s->length;
}

static void measure(bench *b, subject *subjects, size_t length, bench_row row,
                    double (*sample)(void *)) {
    for (size_t i = 0; i < ENGINES; ++i) {
        subjects[i].length = length;
        bench_row_add(&row, i ? "drjit" : "jitc", subjects[i].installed ? sample : NULL,
                      &subjects[i]);
    }
    bench_measure(b, &row);
}

static void measure_lengths(bench *b, subject *subjects) {
    static const struct {
        size_t length;
        double goal;
    } rows[] = {{1000, 20}, {10000, 20}, {100000, 22}, {LONGEST, 25}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        measure(b, subjects, rows[i].length,
                bench_row_make(BENCH_NS, (bench_goal) {rows[i].goal, NULL},
                               "operation + release, chain of %zu", rows[i].length),
                sample_record);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        measure(b, subjects, rows[i].length,
                bench_row_make(BENCH_NS, (bench_goal) {0, NULL},
                               "the same and freeing, chain of %zu", rows[i].length),
                sample_record_and_free);
}

static void measure_all(bench *b, subject *subjects) {
    const bench_goal none = {0, NULL};
    measure(b, subjects, 2 * LONGEST,
            bench_row_make(BENCH_BYTES, (bench_goal) {64, NULL}, "memory per live variable"),
            sample_memory);
    measure_lengths(b, subjects);
    measure(b, subjects, 10000, bench_row_make(BENCH_NS, none, "found again, chain of 10000"),
            sample_again);
    measure(b, subjects, LONGEST, bench_row_make(BENCH_NS, none, "found again, chain of 1000000"),
            sample_again);
    measure(b, subjects, 100000, bench_row_make(BENCH_NS, none, "operation, all of 100000 kept"),
            sample_keep_all);
    measure(b, subjects, 100000, bench_row_make(BENCH_NS, none, "literal + release"),
            sample_literal);
    measure(b, subjects, LONGEST, bench_row_make(BENCH_US, none, "release of the root of 1000000"),
            sample_release_root);
}

static bool prepare(subject *s, bool (*open)(engine *)) {
    static const float data[1025] = {0.5f, 0.25f, 0.75f, 1};
    s->kept = malloc(LONGEST * sizeof *s->kept);
    s->installed = s->kept && open(&s->engine) && s->engine.start(&s->engine, 1);
    if (s->installed) {
        s->x = s->engine.floats(&s->engine, data, 1024);
        s->y = s->engine.floats(&s->engine, data + 1, 1024);
    }
    return s->installed;
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc", "drjit", NULL};
    bench *b = bench_create("trace", who, argc, argv);
    if (!b)
        return 2;
    subject subjects[ENGINES] = {0};
    prepare(&subjects[0], engine_jitc_open);
    prepare(&subjects[1], engine_drjit_open);
    measure_all(b, subjects);
    bench_note(b,
               "One thread; freeing a chain is spread over later calls where a library does so.");
    for (size_t i = 0; i < ENGINES; ++i) {
        if (subjects[i].installed)
            subjects[i].engine.stop(&subjects[i].engine);
        free(subjects[i].kept);
    }
    return bench_destroy(b);
}
