/* nbody.c: bodies that attract each other, as the stars of a cluster do. Energy is conserved; the
 * leapfrog steps keep it nearly, which is checked.
 *
 *     nbody [bodies [steps]]
 *
 * The sum over all bodies is a loop inside of the kernel: each lane, one body, goes through all of
 * them. A step is two kernels: velocities from forces, then positions.
 *
 * Units: the gravitational constant, the mass of all bodies and the radius of the cluster are 1.
 * Forces are softened: bodies pass through each other. */
#include "common.h"
#include "vector.h"
#include <jit/array.h>
#include <jit/loop.h>
#include <jit/random.h>
#include <math.h>
#include <stdlib.h>

static const float time_step = 1.0f / 512, softening = 0.05f; /* of distances */
static const double bound = 1e-3;                             /* of the energy's change */

typedef struct cluster {
    jit_backend b;
    size_t n;
    vector place, velocity;
} cluster;

typedef struct job {
    size_t bodies, steps;
} job;

/* Normally distributed in space, at rest on average. */
static vector random_vector(jit_backend b, size_t n, uint32_t draw, float scale) {
    jit_var word[4], a[2], c[2];
    jit_random(jit_counter(b, n), jit_u32(b, draw), 1, word);
    jit_normal_f32(word[0], word[1], a);
    jit_normal_f32(word[2], word[3], c);
    return times((vector) {a[0], a[1], c[0]}, jit_f32(b, scale));
}

/* For each body: acceleration by all others, and their potential. */
static void attraction(const cluster *c, vector *acceleration, jit_var *potential) {
    jit_var one = jit_u32(c->b, 1), all = jit_u32(c->b, (uint32_t) c->n);
    jit_var zero = jit_f32(c->b, 0), mass = jit_f32(c->b, 1.0f / (float) c->n);
    jit_var state[] = {jit_u32(c->b, 0), zero, zero, zero, zero};
    jit_loop *loop = jit_loop_begin(5, state);
    jit_var other = state[0];
    jit_loop_condition(loop, jit_lt(other, all));
    vector to = {jit_sub(jit_gather(c->place.x, other, 0), c->place.x),
                 jit_sub(jit_gather(c->place.y, other, 0), c->place.y),
                 jit_sub(jit_gather(c->place.z, other, 0), c->place.z)};
    jit_var inverse = jit_rsqrt(jit_add(dot(to, to), jit_f32(c->b, softening * softening)));
    jit_var itself = jit_eq(other, jit_counter(c->b, c->n));
    jit_var part = jit_select(itself, zero, jit_mul(mass, inverse));
    vector sum =
        plus((vector) {state[1], state[2], state[3]}, jit_mul(part, jit_mul(inverse, inverse)), to);
    state[0] = jit_add(other, one);
    state[1] = sum.x, state[2] = sum.y, state[3] = sum.z;
    state[4] = jit_sub(state[4], part);
    jit_loop_end(loop, 5, state);
    *acceleration = (vector) {state[1], state[2], state[3]};
    *potential = state[4]; /* left out of the kernel where nobody needs it */
}

static void evaluate(vector v) {
    jit_schedule(v.x);
    jit_schedule(v.y);
    jit_schedule(v.z);
    jit_eval(); /* queues, does not wait */
}

/* Velocities half a step on, places, velocities the other half: joined to whole steps. */
static void step(cluster *c, float velocity_step) {
    vector acceleration;
    jit_var potential;
    attraction(c, &acceleration, &potential);
    c->velocity = plus(c->velocity, jit_f32(c->b, velocity_step), acceleration);
    evaluate(c->velocity);
    c->place = plus(c->place, jit_f32(c->b, time_step), c->velocity);
    evaluate(c->place);
}

/* Of all bodies, at whole steps for places and velocities `ahead` of that. */
static double energy(const cluster *c, float ahead) {
    vector acceleration;
    jit_var potential;
    double value = NAN;
    attraction(c, &acceleration, &potential);
    vector v = plus(c->velocity, jit_f32(c->b, ahead), acceleration);
    jit_var each = jit_mul(jit_add(dot(v, v), potential), jit_f32(c->b, 0.5f));
    jit_read(jit_reduce(JIT_REDUCE_ADD, jit_cast(each, JIT_f64)), &value);
    return value / (double) c->n;
}

static void unref(vector v) {
    jit_unref(v.x);
    jit_unref(v.y);
    jit_unref(v.z);
}

static void simulate(cluster *c, size_t steps) {
    for (size_t k = 0; k < steps; ++k) {
        cluster before = *c;
        jit_scope_push();
        step(c, k ? time_step : time_step / 2);
        jit_var keep[] = {c->place.x,    c->place.y,    c->place.z,
                          c->velocity.x, c->velocity.y, c->velocity.z};
        jit_scope_pop(6, keep);
        unref(before.place); /* so that the next step gets their memory */
        unref(before.velocity);
    }
}

static bool run(jit_backend b, const char *name, void *context) {
    const job *j = context;
    jit_scope_push();
    cluster c = {b, j->bodies, random_vector(b, j->bodies, 0, 0.6f),
                 random_vector(b, j->bodies, 1, 0.4f)};
    double before = energy(&c, 0), start = milliseconds();
    simulate(&c, j->steps);
    jit_sync_thread();
    double took = milliseconds() - start, after = energy(&c, time_step / 2);
    double change = fabs(after / before - 1);
    bool good = change < bound; /* false for NAN */
    printf("%s: %zu bodies, %zu steps in %.1f ms, energy %.6f, then %.6f, change %.1e: %s\n", name,
           j->bodies, j->steps, took, before, after, change, good ? "ok" : "WRONG");
    jit_scope_pop(0, NULL);
    return good;
}

int main(int argc, char **argv) {
    job j = {argc > 1 ? strtoul(argv[1], NULL, 10) : 1024,
             argc > 2 ? strtoul(argv[2], NULL, 10) : 256};
    if (j.bodies < 2 || !j.steps)
        return fprintf(stderr, "usage: %s [bodies [steps]]\n", argv[0]), 2;
    return on_each_backend(run, &j);
}
