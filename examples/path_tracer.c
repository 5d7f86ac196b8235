/* path_tracer.c: spheres under a sky, by following light backwards.
 *
 *     path_tracer [out.png [width [paths for each pixel]]]
 *
 * Each lane follows one path: a loop over its reflections, inside of which a loop over the spheres
 * finds what the ray meets. Random numbers are a function of (path, reflection), so the CPU and the
 * GPU follow the same paths, and the means of their pictures are compared. Each also renders a
 * world in which nothing absorbs light: there, everything has to look as the sky does. */
#include "common.h"
#include "png.h"
#include "vector.h"
#include <jit/array.h>
#include <jit/loop.h>
#include <jit/random.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPHERES = 6, MOST_REFLECTIONS = 24, COLUMNS = 8 };

/* Centre, radius; how much red, green and blue it reflects; is it a mirror? */
static const float spheres[SPHERES][COLUMNS] = {
    {0, -100.5f, -1, 100, 0.8f, 0.8f, 0.7f, 0},
    {0, 0, -1.2f, 0.5f, 0.7f, 0.2f, 0.2f, 0},
    {-1.05f, 0, -1, 0.5f, 0.9f, 0.9f, 0.9f, 1},
    {1.05f, 0, -1, 0.5f, 0.8f, 0.6f, 0.2f, 1},
    {0.4f, -0.3f, -0.5f, 0.2f, 0.2f, 0.3f, 0.8f, 0},
    {-0.4f, -0.35f, -0.4f, 0.15f, 0.2f, 0.6f, 0.2f, 0},
};

typedef struct job {
    size_t width, height, paths;
    const char *file;
    double mean[2]; /* of the picture of each backend */
    int runs;
} job;

static jit_backend b;

static jit_var real(double x) {
    return jit_f32(b, (float) x);
}

static vector normalized(vector v) {
    return times(v, jit_rsqrt(dot(v, v)));
}
static vector either(jit_var mask, vector u, vector v) {
    return (vector) {jit_select(mask, u.x, v.x), jit_select(mask, u.y, v.y),
                     jit_select(mask, u.z, v.z)};
}

/* A column of the table of spheres for each lane. */
static jit_var column(jit_var table, jit_var sphere, uint32_t k) {
    jit_var place = jit_add(jit_mul(sphere, jit_u32(b, COLUMNS)), jit_u32(b, k));
    return jit_gather(table, place, 0);
}
static vector columns(jit_var table, jit_var sphere, uint32_t k) {
    return (vector) {column(table, sphere, k), column(table, sphere, k + 1),
                     column(table, sphere, k + 2)};
}

/* The nearest sphere that the ray meets (SPHERES: none), and how far away that is. */
static void meet(jit_var table, vector from, vector direction, jit_var *sphere, jit_var *distance) {
    jit_var state[] = {jit_u32(b, 0), jit_u32(b, SPHERES), real(1e30)};
    jit_loop *loop = jit_loop_begin(3, state);
    jit_var k = state[0], near = real(1e-3);
    jit_loop_condition(loop, jit_lt(k, jit_u32(b, SPHERES)));
    vector to = plus(columns(table, k, 0), real(-1), from);
    jit_var radius = column(table, k, 3), along = dot(to, direction);
    vector aside = plus(to, jit_neg(along), direction); /* precise also for large spheres */
    jit_var square = jit_sub(jit_mul(radius, radius), dot(aside, aside));
    jit_var root = jit_sqrt(jit_max(square, real(0)));
    jit_var front = jit_sub(along, root), back = jit_add(along, root);
    jit_var t = jit_select(jit_gt(front, near), front, back);
    jit_var valid = jit_and(jit_gt(square, real(0)), jit_gt(t, near));
    jit_var nearer = jit_and(valid, jit_lt(t, state[2]));
    state[0] = jit_add(k, jit_u32(b, 1));
    state[1] = jit_select(nearer, k, state[1]);
    state[2] = jit_select(nearer, t, state[2]);
    jit_loop_end(loop, 3, state);
    *sphere = state[1];
    *distance = state[2];
}

/* A direction, all of them as likely. */
static vector any_direction(jit_var word0, jit_var word1) {
    jit_var z = jit_fma(jit_uniform_f32(word0), real(2), real(-1)), sine, cosine;
    jit_sincos(jit_mul(jit_uniform_f32(word1), real(6.2831853)), &sine, &cosine);
    jit_var r = jit_sqrt(jit_max(jit_fma(jit_neg(z), z, real(1)), real(0)));
    return (vector) {jit_mul(r, cosine), jit_mul(r, sine), z};
}

static vector first_ray(const job *j, jit_var path, const jit_var word[4]) {
    jit_var pixel = jit_div(path, jit_u32(b, (uint32_t) j->paths));
    jit_var width = jit_u32(b, (uint32_t) j->width);
    jit_var x = jit_add(jit_cast(jit_mod(pixel, width), JIT_f32), jit_uniform_f32(word[0]));
    jit_var y = jit_add(jit_cast(jit_div(pixel, width), JIT_f32), jit_uniform_f32(word[1]));
    jit_var scale = real(2.0 / (double) j->height); /* the picture is 2 high, 1 away */
    return normalized((vector) {jit_fma(x, scale, real(-(double) j->width / (double) j->height)),
                                jit_fma(jit_neg(y), scale, real(1)), real(-1.2)});
}

/* Red, green, blue of a path; `white`: the sky is 1 everywhere, and nothing absorbs. */
static vector trace(const job *j, jit_var table, bool white) {
    jit_var path = jit_counter(b, j->width * j->height * j->paths), one = real(1), word[4];
    jit_random(path, 0, 1, word);
    vector d = first_ray(j, path, word);
    jit_var state[] = {real(0), real(0.2),     real(1),           d.x, d.y, d.z, one, one,
                       one,     jit_u32(b, 0), jit_bool(b, false)};
    jit_loop *loop = jit_loop_begin(11, state);
    vector from = {state[0], state[1], state[2]}, light = {state[6], state[7], state[8]};
    d = (vector) {state[3], state[4], state[5]};
    jit_var reflections = state[9], sphere, distance;
    jit_loop_condition(
        loop, jit_and(jit_not(state[10]), jit_lt(reflections, jit_u32(b, MOST_REFLECTIONS))));
    meet(table, from, d, &sphere, &distance);
    jit_var in_sky = jit_eq(sphere, jit_u32(b, SPHERES));
    jit_var met = jit_min(sphere, jit_u32(b, SPHERES - 1));
    vector point = plus(from, distance, d);
    vector normal = normalized(plus(point, real(-1), columns(table, met, 0)));
    state[9] = jit_add(reflections, jit_u32(b, 1));
    jit_random(path, state[9], 1, word);
    vector diffuse = normalized(plus(any_direction(word[0], word[1]), real(1.0001), normal));
    vector mirrored = plus(d, jit_mul(dot(d, normal), real(-2)), normal);
    vector next = either(jit_gt(column(table, met, 7), real(0.5)), mirrored, diffuse);
    vector colour = columns(table, met, 4);
    vector less = {jit_mul(light.x, colour.x), jit_mul(light.y, colour.y),
                   jit_mul(light.z, colour.z)};
    from = either(in_sky, from, point);
    d = either(in_sky, d, next);
    light = white ? light : either(in_sky, light, less);
    jit_var results[] = {from.x,  from.y,  from.z,  d.x,      d.y,   d.z,
                         light.x, light.y, light.z, state[9], in_sky};
    jit_loop_end(loop, 11, results);
    vector out = {results[3], results[4], results[5]};
    jit_var high = jit_fma(out.y, real(0.5), real(0.5));
    light = (vector) {results[6], results[7], results[8]};
    vector sky = {jit_fma(high, real(-0.5), one), jit_fma(high, real(-0.3), one), one};
    vector seen = {jit_mul(light.x, sky.x), jit_mul(light.y, sky.y), light.z};
    vector black = {real(0), real(0), real(0)};
    return either(results[10], white ? light : seen, black);
}

/* Mean of the paths of each pixel. */
static jit_var mean_of_paths(const job *j, jit_var light) {
    jit_var sum = jit_block_reduce(JIT_REDUCE_ADD, light, j->paths);
    return jit_mul(sum, real(1.0 / (double) j->paths));
}

/* The mean of all pixels; NAN if it could not be computed. */
static double render(const job *j, bool white, unsigned char *samples) {
    size_t pixels = j->width * j->height;
    double sum = NAN;
    jit_scope_push();
    jit_var table = jit_from_host(b, JIT_f32, spheres, SPHERES * COLUMNS);
    vector light = trace(j, table, white);
    jit_var channels[] = {mean_of_paths(j, light.x), mean_of_paths(j, light.y),
                          mean_of_paths(j, light.z)};
    jit_var all = jit_transpose(jit_concat(3, channels), 3, pixels); /* red, green, blue, red ... */
    jit_var shown = jit_min(jit_mul(jit_sqrt(all), real(255.99)), real(255));
    if (jit_read(jit_cast(shown, JIT_u8), samples) != JIT_OK ||
        jit_read(jit_reduce(JIT_REDUCE_ADD, jit_cast(all, JIT_f64)), &sum) != JIT_OK)
        sum = NAN;
    jit_scope_pop(0, NULL);
    return sum / (double) (3 * pixels);
}

static bool run(jit_backend backend, const char *name, void *context) {
    job *j = context;
    b = backend;
    picture p = {j->width, j->height, malloc(j->width * j->height * 3)};
    double white = p.samples ? render(j, true, p.samples) : NAN, start = milliseconds();
    double mean = j->mean[j->runs++] = p.samples ? render(j, false, p.samples) : NAN;
    double took = milliseconds() - start;
    bool good = white > 0.99 && white < 1.0001; /* some paths are cut off */
    printf(
        "%s: %zu x %zu pixels, %zu paths each, in %.0f ms; mean %.5f, in a white world %.5f: %s\n",
        name, j->width, j->height, j->paths, took, mean, white, good ? "ok" : "WRONG");
    if (j->runs == 2) { /* one deviation of the mean, though the paths are nearly the same */
        double bound = 0.5 / sqrt((double) (j->width * j->height * j->paths));
        bool equal = fabs(mean - j->mean[0]) < bound;
        printf("the means of CPU and GPU differ by at most %.5f: %s\n", bound,
               equal ? "ok" : "WRONG");
        good = good && equal;
    }
    good = good && (!j->file || write_png(j->file, &p) == 0);
    free(p.samples);
    return good;
}

int main(int argc, char **argv) {
    job j = {.file = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL,
             .width = argc > 2 ? strtoul(argv[2], NULL, 10) : 480,
             .paths = argc > 3 ? strtoul(argv[3], NULL, 10) : 32};
    j.height = j.width * 2 / 3;
    if (!j.height || j.width > 8192 || !j.paths || j.paths > 4096)
        return fprintf(stderr, "usage: %s [out.png or - [width [paths for each pixel]]]\n", *argv),
               2;
    return on_each_backend(run, &j);
}
