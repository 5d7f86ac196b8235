/* heat.c: heat spreads in a square plate whose edges are kept at 0 degrees,
 *
 *     du/dt = d2u/dx2 + d2u/dy2,    u = sin(pi x) sin(pi y) at the start,
 *
 * by explicit steps on a grid, each of which is one kernel: the next temperature of a point follows
 * from its own and those of its four neighbours. The result is compared with the exact solution,
 * which is the start times exp(-2 pi^2 t), at every point.
 *
 *     heat [points along an edge]
 *
 * A gather whose mask is false gives 0, which is just the temperature of the edge. The error of the
 * method is a part of h^2, h being the distance of two points: this is the bound. */
#include "common.h"
#include <math.h>
#include <stdlib.h>

static const double pi = 3.14159265358979323846, end_time = 0.05, ratio = 0.2; /* dt / h^2 */

typedef struct plate {
    jit_backend b;
    int n; /* points along an edge, those on the edge not counted */
    double h;
    jit_var point, row, column; /* of each point */
} plate;

static plate make_plate(jit_backend b, int n) {
    plate p = {.b = b, .n = n, .h = 1.0 / (n + 1)};
    p.point = jit_cast(jit_counter(b, (size_t) n * (size_t) n), JIT_i32);
    p.row = jit_div(p.point, jit_i32(b, n));
    p.column = jit_mod(p.point, jit_i32(b, n));
    return p;
}

/* sin(pi x), where x is the place of a row or column. */
static jit_var wave(const plate *p, jit_var place) {
    jit_var x =
        jit_mul(jit_cast(jit_add(place, jit_i32(p->b, 1)), JIT_f64), jit_f64(p->b, pi * p->h));
    return jit_sin(x);
}

/* u at the points `distance` further on in the array, where there is one. */
static jit_var neighbour(const plate *p, jit_var u, int distance, jit_var there) {
    return jit_gather(u, jit_add(p->point, jit_i32(p->b, distance)), there);
}

static jit_var step(const plate *p, jit_var u) {
    jit_var first = jit_i32(p->b, 0), last = jit_i32(p->b, p->n - 1);
    jit_var left = neighbour(p, u, -1, jit_gt(p->column, first));
    jit_var right = neighbour(p, u, 1, jit_lt(p->column, last));
    jit_var above = neighbour(p, u, -p->n, jit_gt(p->row, first));
    jit_var below = neighbour(p, u, p->n, jit_lt(p->row, last));
    jit_var around = jit_add(jit_add(left, right), jit_add(above, below));
    jit_var change = jit_fma(u, jit_f64(p->b, -4), around);
    return jit_fma(change, jit_f64(p->b, ratio), u);
}

/* Returns the temperatures at the end, as the caller's reference. */
static jit_var simulate(const plate *p, int steps) {
    jit_scope_push();
    jit_var u = jit_mul(wave(p, p->row), wave(p, p->column));
    jit_scope_pop(1, &u);
    for (int k = 0; k < steps; ++k) {
        jit_scope_push(); /* what a step makes goes at its end: memory is reused */
        jit_var next = step(p, u);
        jit_var_eval(next); /* queues a kernel, the same in all steps; does not wait */
        jit_scope_pop(1, &next);
        jit_unref(u);
        u = next;
    }
    return u;
}

/* The largest error; NAN if u could not be read. */
static double compare(const plate *p, jit_var u, double time) {
    size_t n = (size_t) p->n;
    double *values = malloc(n * n * sizeof *values);
    double worst = values && jit_read(u, values) == JIT_OK ? 0 : NAN;
    for (size_t i = 0; i < n * n && !isnan(worst); ++i) {
        double x = (double) (i % n + 1) * p->h, y = (double) (i / n + 1) * p->h;
        double want = sin(pi * x) * sin(pi * y) * exp(-2 * pi * pi * time);
        double error = fabs(values[i] - want);
        worst = error > worst || isnan(error) ? error : worst;
    }
    free(values);
    return worst;
}

static bool run(jit_backend b, const char *name, void *context) {
    jit_scope_push();
    plate p = make_plate(b, *(int *) context);
    double dt = ratio * p.h * p.h, start = milliseconds();
    int steps = (int) lround(end_time / dt);
    jit_var u = simulate(&p, steps);
    bool good = jit_sync_thread() == JIT_OK;
    double took = milliseconds() - start, error = compare(&p, u, steps * dt), bound = p.h * p.h;
    good = good && error < bound; /* false for NAN */
    printf("%s: %d x %d points, %d steps in %.1f ms, error %.1e of at most %.1e: %s\n", name, p.n,
           p.n, steps, took, error, bound, good ? "ok" : "WRONG");
    jit_scope_pop(0, NULL);
    return good;
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 127;
    if (n < 1 || n > 10000)
        return fprintf(stderr, "usage: %s [points along an edge, up to 10000]\n", argv[0]), 2;
    return on_each_backend(run, &n);
}
