/* bench_lanes.c: loops that lanes leave one by one, and values combined into arrays, on the CPU.
 * Layer: benchmarks. May include: <jit/jit.h>, <jit/loop.h>.
 *
 * An evaluation is traced, evaluated and waited for each time, as a user does it; the results are
 * compared with those of the loops in C before anything is measured. */
#include "bench.h"
#include "peers/hand.h"
#include "peers/hand_lanes.h"
#include "peers/python_peer.h"

#include <jit/jit.h>
#include <jit/loop.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILL_NS = 3000000, SIDE = 1024 };

/* Everything that lives as long as one number of threads. */
typedef struct session {
    bench *bench;
    python_peers peers;
    int threads;
} session;

/* One row: its arrays, and the same as variables. */
typedef struct work {
    size_t n, size; /* lanes; elements that are updated, or 0 */
    bool floats;
    float *re, *im; /* or re: what is added */
    uint32_t *index;
    void *result; /* of the loop in C */
    jit_var a, b, i;
} work;

static jit_var mandelbrot(const work *w) {
    jit_var state[3] = {jit_f32(JIT_LLVM, 0), jit_f32(JIT_LLVM, 0), jit_u32(JIT_LLVM, 0)};
    jit_loop *loop = jit_loop_begin(3, state);
    jit_var x = state[0], y = state[1], n = state[2];
    jit_var xx = jit_mul(x, x), yy = jit_mul(y, y), xy = jit_mul(x, y);
    jit_var inside = jit_lt(jit_add(xx, yy), jit_f32(JIT_LLVM, 4));
    jit_loop_condition(loop, jit_and(inside, jit_lt(n, jit_u32(JIT_LLVM, HAND_ITERATIONS))));
    state[0] = jit_add(jit_sub(xx, yy), w->a);
    state[1] = jit_add(jit_add(xy, xy), w->b);
    state[2] = jit_add(n, jit_u32(JIT_LLVM, 1));
    jit_loop_end(loop, 3, state);
    return state[2];
}

static jit_var combined(const work *w) {
    static const uint32_t zero = 0; /* of both types */
    jit_var target = jit_literal(JIT_LLVM, w->floats ? JIT_f32 : JIT_u32, &zero, w->size);
    jit_var value = w->floats ? w->a : jit_u32(JIT_LLVM, 1);
    return jit_scatter_reduce(JIT_REDUCE_ADD, target, value, w->i, 0);
}

static jit_var trace(const work *w) {
    return w->size ? combined(w) : mandelbrot(w);
}

static void step(void *context) {
    jit_scope_push();
    jit_var result = trace(context);
    if (jit_var_eval(result) != JIT_OK)
        fprintf(stderr, "jitc: %s\n", jit_error());
    jit_sync_thread();
    jit_scope_pop(0, NULL);
}

static double sample_jitc(void *context) {
    return bench_per_call(step, context, FILL_NS) / (double) ((work *) context)->n;
}

static void hand_step(void *context) {
    const work *w = context;
    if (!w->size) {
        hand_mandelbrot(w->result, w->re, w->im, w->n);
        return;
    }
    memset(w->result, 0, w->size * 4);
    if (w->floats)
        hand_scatter_add(w->result, w->size, w->re, w->index, w->n);
    else
        hand_histogram(w->result, w->size, w->index, w->n);
}

static double sample_hand(void *context) {
    return bench_per_call(hand_step, context, FILL_NS) / (double) ((work *) context)->n;
}

static bool agrees(const work *w) {
    size_t count = w->size ? w->size : w->n, wrong = 0;
    float *got = malloc(count * 4 + 4);
    const float *want = w->result;
    jit_scope_push();
    bool same = got && jit_read(trace(w), got) == JIT_OK;
    jit_scope_pop(0, NULL);
    for (size_t i = 0; same && i < count; ++i)
        wrong += w->floats ? fabsf(got[i] - want[i]) > 1e-3f * (1 + fabsf(want[i]))
                           : memcmp(&got[i], &want[i], 4) != 0;
    free(got);
    if (!same || wrong)
        fprintf(stderr, "jitc: %zu wrong results %s\n", wrong, jit_error());
    return same && !wrong;
}

/* `peer`: the name of the work in peer.py. */
static void measure(session *s, work *w, double goal, const char *name, const char *peer) {
    bench_row row =
        bench_row_make(BENCH_NS, (bench_goal) {goal, "C"}, "%s, T=%d", name, s->threads);
    if (!bench_wants(s->bench, row.name))
        return;
    hand_step(w);
    jit_scope_push();
    w->a = jit_from_host(JIT_LLVM, JIT_f32, w->re, w->n);
    w->b = w->im ? jit_from_host(JIT_LLVM, JIT_f32, w->im, w->n) : 0;
    w->i = w->index ? jit_from_host(JIT_LLVM, JIT_u32, w->index, w->n) : 0;
    bench_row_add(&row, "jitc", agrees(w) ? sample_jitc : NULL, w);
    bench_row_add(&row, "C", sample_hand, w);
    python_peers_add(&s->peers, &row, peer, w->n);
    bench_measure(s->bench, &row);
    jit_scope_pop(0, NULL);
}

static void *room(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (!p)
        exit(2);
    return p;
}

static void measure_mandelbrot(session *s) {
    work w = {.n = (size_t) SIDE * SIDE};
    w.re = room(w.n * 4);
    w.im = room(w.n * 4);
    w.result = room(w.n * 4);
    for (size_t i = 0; i < w.n; ++i) {
        w.re[i] = -2 + 3 * (float) (i % SIDE) / (float) SIDE;
        w.im[i] = -1.5f + 3 * (float) (i / SIDE) / (float) SIDE;
    }
    measure(s, &w, 0.9, "mandelbrot, 1024^2", "mandelbrot");
    free(w.re);
    free(w.im);
    free(w.result);
}

typedef enum spread { RANDOM, EQUAL, SORTED } spread;

static uint32_t place(spread s, size_t i, size_t n, size_t size) {
    uint64_t r = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    r = (r ^ r >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 20;
    return (uint32_t) (s == EQUAL ? size / 2 : s == SORTED ? i * size / n : r % size);
}

static void measure_combined(session *s, bool floats, int log_size, spread how) {
    static const char *const spreads[] = {"random", "equal", "sorted"};
    const char *kind = floats ? "scatter_add" : "histogram";
    work w = {.n = (size_t) 1 << (bench_effort(s->bench) < 0 ? 16 : 24),
              .size = (size_t) 1 << log_size};
    char name[64], peer[64];
    w.floats = floats;
    w.re = room(w.n * 4);
    w.index = room(w.n * 4);
    w.result = room(w.size * 4);
    for (size_t i = 0; i < w.n; ++i) {
        w.re[i] = (float) (i % 8);
        w.index[i] = place(how, i, w.n, w.size);
    }
    snprintf(name, sizeof name, "%s, 2^%d, %s", kind, log_size, spreads[how]);
    snprintf(peer, sizeof peer, "%s.%d.%s", kind, log_size, spreads[how]);
    measure(s, &w, 1, name, peer);
    free(w.re);
    free(w.index);
    free(w.result);
}

static void measure_with_threads(session *s, int threads) {
    static const char *const libraries[] = {"drjit", "torch", "jax", "numba"};
    char text[16];
    jit_shutdown();
    snprintf(text, sizeof text, "%d", threads);
    if (jit_set_option("num_threads", text) != JIT_OK || jit_init(JIT_LLVM) != JIT_OK) {
        fprintf(stderr, "jitc: %s\n", jit_error());
        return;
    }
    s->threads = threads;
    hand_set_threads(threads);
    python_peers_start(&s->peers, sizeof libraries / sizeof *libraries, libraries, threads);
    measure_mandelbrot(s);
    for (int how = RANDOM; how <= SORTED; ++how) {
        measure_combined(s, false, 8, (spread) how);
        measure_combined(s, true, 8, (spread) how);
    }
    measure_combined(s, true, 16, RANDOM);
    measure_combined(s, true, 20, RANDOM);
    python_peers_stop(&s->peers);
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc", "C", "drjit", "torch", "jax", "numba", NULL};
    session s = {.bench = bench_create("lanes", who, argc, argv)};
    if (!s.bench)
        return 2;
    measure_with_threads(&s, 1);
    measure_with_threads(&s, 2);
    bench_note(
        s.bench,
        "Nanoseconds per lane; T is the number of threads. C is written by hand: two vectors "
        "of pixels at a time; 8 tables that take turns for 2^8 elements, each thread its "
        "own.");
    jit_shutdown();
    return bench_destroy(s.bench);
}
