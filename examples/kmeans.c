/* kmeans.c: a photograph in 16 colours, which are found by k-means.
 *
 *     kmeans [in.png out.png]     without a photograph: soft colours that are made up
 *
 * Round after round each pixel chooses the nearest colour of the palette, and each colour becomes
 * the mean of the pixels that chose it, rounded. Everything is an integer, and so both devices find
 * the same palette. The sum of the squared distances never grows: this is checked, and also that
 * pixels have chosen the nearest colour. */
#include "common.h"
#include "png.h"
#include <jit/array.h>
#include <jit/loop.h>
#include <stdlib.h>
#include <string.h>

enum { COLOURS = 16, ROUNDS = 20, SAMPLE = 101 };

typedef struct job {
    picture in;
    const char *path;
    int32_t palette[2][3 * COLOURS]; /* of each backend: all reds, all greens, all blues */
    int runs;
} job;

typedef struct colours {
    jit_var channel[3]; /* i32 */
} colours;

/* The channels of n pixels, one array each. */
static colours separate(jit_var samples, size_t n) {
    colours c;
    for (size_t k = 0; k < 3; ++k)
        c.channel[k] = jit_cast(jit_slice(samples, k, n, 3), JIT_i32);
    return c;
}

/* For each pixel: the number of its colour, and the squared distance from it. */
static void choose(jit_backend b, const colours *pixel, const colours *palette, jit_var *number,
                   jit_var *distance) {
    jit_var state[] = {jit_i32(b, 0), jit_i32(b, 0), jit_i32(b, INT32_MAX)};
    jit_loop *loop = jit_loop_begin(3, state);
    jit_var k = state[0], sum = jit_i32(b, 0);
    jit_loop_condition(loop, jit_lt(k, jit_i32(b, COLOURS)));
    for (int c = 0; c < 3; ++c) {
        jit_var d = jit_sub(pixel->channel[c], jit_gather(palette->channel[c], k, 0));
        sum = jit_add(sum, jit_mul(d, d));
    }
    state[1] = jit_select(jit_lt(sum, state[2]), k, state[1]);
    state[2] = jit_min(sum, state[2]);
    state[0] = jit_add(k, jit_i32(b, 1));
    jit_loop_end(loop, 3, state);
    *number = state[1];
    *distance = state[2];
}

/* value added up for each colour */
static jit_var sum_by(jit_backend b, jit_var number, jit_var value) {
    int64_t zero = 0;
    jit_var sums = jit_literal(b, JIT_i64, &zero, COLOURS);
    return jit_scatter_reduce(JIT_REDUCE_ADD, sums, jit_cast(value, JIT_i64), number, 0);
}

/* The means; a colour that nobody chose stays. */
static colours means(jit_backend b, const colours *pixel, const colours *palette, jit_var number) {
    colours mean;
    jit_var count = sum_by(b, number, jit_i32(b, 1));
    jit_var chosen = jit_ne(count, jit_i64(b, 0)), half = jit_div(count, jit_i64(b, 2));
    for (int c = 0; c < 3; ++c) {
        jit_var sum = jit_add(sum_by(b, number, pixel->channel[c]), half);
        jit_var rounded = jit_cast(jit_div(sum, count), JIT_i32);
        mean.channel[c] = jit_select(chosen, rounded, palette->channel[c]);
    }
    return mean;
}

/* True if no round made it worse. Replaces the palette. */
static bool improve(jit_backend b, const colours *pixel, colours *palette, int64_t *error) {
    jit_var number, distance;
    int64_t before = INT64_MAX;
    for (int k = 0; k < ROUNDS; ++k) {
        choose(b, pixel, palette, &number, &distance);
        jit_var sum = jit_reduce(JIT_REDUCE_ADD, jit_cast(distance, JIT_i64));
        *palette = means(b, pixel, palette, number);
        for (int c = 0; c < 3; ++c)
            jit_schedule(palette->channel[c]);
        if (jit_read(sum, error) != JIT_OK || *error > before)
            return false;
        before = *error;
    }
    return true;
}

static int64_t distance_of(const unsigned char *pixel, const int32_t *palette, size_t k) {
    int64_t sum = 0;
    for (size_t c = 0; c < 3; ++c)
        sum +=
            (int64_t) (pixel[c] - palette[c * COLOURS + k]) * (pixel[c] - palette[c * COLOURS + k]);
    return sum;
}

/* Has each pixel of the result, of those that are looked at, the nearest colour? */
static bool is_nearest(const picture *in, const picture *out, const int32_t *palette) {
    for (size_t i = 0; i < in->width * in->height; i += SAMPLE) {
        const unsigned char *pixel = in->samples + 3 * i, *got = out->samples + 3 * i;
        int32_t chosen[3 * COLOURS] = {got[0]};
        chosen[COLOURS] = got[1], chosen[2 * COLOURS] = got[2];
        for (size_t k = 0; k < COLOURS; ++k)
            if (distance_of(pixel, palette, k) < distance_of(pixel, chosen, 0))
                return false;
    }
    return true;
}

static bool run(jit_backend b, const char *name, void *context) {
    job *j = context;
    size_t n = j->in.width * j->in.height;
    picture out = {j->in.width, j->in.height, malloc(3 * n)};
    int32_t *palette = j->palette[j->runs++];
    int64_t error = 0;
    jit_var number, distance;
    jit_scope_push();
    double start = milliseconds();
    colours pixel = separate(jit_from_host(b, JIT_u8, j->in.samples, 3 * n), n), found;
    for (int c = 0; c < 3; ++c) /* to begin with: some pixels */
        found.channel[c] =
            jit_slice(pixel.channel[c], n / COLOURS / 2, COLOURS, (ptrdiff_t) (n / COLOURS));
    bool good = out.samples && improve(b, &pixel, &found, &error);
    choose(b, &pixel, &found, &number, &distance);
    jit_var table = jit_concat(3, found.channel);
    jit_var channel = jit_mul(jit_tile(jit_counter(b, 3), n), jit_u32(b, COLOURS));
    jit_var place = jit_add(channel, jit_repeat(jit_cast(number, JIT_u32), 3));
    jit_var samples = jit_cast(jit_gather(table, place, 0), JIT_u8);
    good = good && jit_read(samples, out.samples) == JIT_OK && jit_read(table, palette) == JIT_OK;
    double took = milliseconds() - start;
    jit_scope_pop(0, NULL);
    good = good && is_nearest(&j->in, &out, palette);
    good = good && (j->runs < 2 || !memcmp(palette, j->palette[0], sizeof j->palette[0]));
    printf("%s: %zu x %zu pixels, %d rounds in %.1f ms, mean squared distance %.2f: %s\n", name,
           out.width, out.height, ROUNDS, took, (double) error / (double) n, good ? "ok" : "WRONG");
    good = good && (!j->path || write_png(j->path, &out) == 0);
    free(out.samples);
    return good;
}

static int make_up(picture *p) {
    *p = (picture) {40, 30, malloc(40 * 30 * 3)};
    for (size_t i = 0; i < 40 * 30 && p->samples; ++i) {
        p->samples[3 * i] = (unsigned char) (i % 40 * 4 + i * 2654435761u % 32);
        p->samples[3 * i + 1] = (unsigned char) (i / 40 * 8);
        p->samples[3 * i + 2] = (unsigned char) (i % 40 * (i / 40) / 5);
    }
    return !p->samples;
}

int main(int argc, char **argv) {
    job j = {.path = argc == 3 ? argv[2] : NULL};
    if (argc != 1 && argc != 3)
        return fprintf(stderr, "usage: %s [in.png out.png]\n", argv[0]), 2;
    int failed = argc == 3 ? read_png(argv[1], &j.in) : make_up(&j.in);
    if (!failed && j.in.width * j.in.height < COLOURS)
        failed = fprintf(stderr, "%s: too few pixels\n", argv[1]);
    if (!failed)
        failed = on_each_backend(run, &j);
    free(j.in.samples);
    return failed != 0;
}
