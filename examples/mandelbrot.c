/* mandelbrot.c: the Mandelbrot set: how often z = z^2 + c can be computed until |z| > 2.
 *
 *     mandelbrot [out.png [width]]
 *
 * The loop is recorded once and runs in the kernel: each lane, one pixel, leaves it when it is
 * done. Additions and multiplications are rounded alike everywhere, so that the counts are those of
 * the scalar loop below, which looks at a part of the pixels, on every device. */
#include "common.h"
#include "png.h"
#include <jit/array.h>
#include <jit/loop.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 512, SAMPLE = 7 };
static const float left = -2.1f, top = -1.2f, size = 3.2f; /* of the picture, its width */

typedef struct job {
    size_t width, height;
    const char *path;
} job;

/* Of one pixel. The same operations in the same order as in counts(). */
static unsigned count_scalar(const job *j, size_t pixel) {
    float scale = size / (float) j->width;
    float cx = (float) (pixel % j->width) * scale + left;
    float cy = (float) (pixel / j->width) * scale + top;
    float x = cx, y = cy;
    unsigned k = 0;
    for (; k < MOST && x * x + y * y <= 4; ++k) {
        float next = x * x - y * y + cx;
        y = (x + x) * y + cy;
        x = next;
    }
    return k;
}

static jit_var counts(jit_backend b, const job *j) {
    jit_var pixel = jit_counter(b, j->width * j->height);
    jit_var width = jit_u32(b, (uint32_t) j->width);
    jit_var scale = jit_f32(b, size / (float) j->width);
    jit_var column = jit_cast(jit_mod(pixel, width), JIT_f32);
    jit_var row = jit_cast(jit_div(pixel, width), JIT_f32);
    jit_var cx = jit_add(jit_mul(column, scale), jit_f32(b, left));
    jit_var cy = jit_add(jit_mul(row, scale), jit_f32(b, top));

    jit_var state[] = {cx, cy, jit_u32(b, 0)}; /* x, y, k */
    jit_loop *loop = jit_loop_begin(3, state);
    jit_var x = state[0], y = state[1], k = state[2];
    jit_var xx = jit_mul(x, x), yy = jit_mul(y, y);
    jit_loop_condition(
        loop, jit_and(jit_lt(k, jit_u32(b, MOST)), jit_le(jit_add(xx, yy), jit_f32(b, 4))));
    state[0] = jit_add(jit_sub(xx, yy), cx);
    state[1] = jit_add(jit_mul(jit_add(x, x), y), cy);
    state[2] = jit_add(k, jit_u32(b, 1));
    jit_loop_end(loop, 3, state);
    return state[2];
}

/* Red, green and blue of each pixel: three waves, one behind the other; black in the set. */
static jit_var colours(jit_backend b, jit_var count) {
    static const float phases[] = {0.0f, 0.6f, 1.2f};
    jit_var phase = jit_tile(jit_from_host(b, JIT_f32, phases, 3), jit_size(count));
    jit_var k = jit_repeat(count, 3); /* k[0], k[0], k[0], k[1], ... */
    jit_var angle = jit_fma(jit_sqrt(jit_cast(k, JIT_f32)), jit_f32(b, 0.7f), phase);
    jit_var light = jit_fma(jit_cos(angle), jit_f32(b, -127.5f), jit_f32(b, 127.5f));
    jit_var inside = jit_eq(k, jit_u32(b, MOST));
    return jit_cast(jit_select(inside, jit_f32(b, 0), light), JIT_u8);
}

/* How many of the pixels that are looked at are wrong. */
static size_t compare(const job *j, const uint32_t *got) {
    size_t wrong = 0;
    for (size_t pixel = 0; pixel < j->width * j->height; pixel += SAMPLE)
        wrong += got[pixel] != count_scalar(j, pixel);
    return wrong;
}

static bool run(jit_backend b, const char *name, void *context) {
    const job *j = context;
    size_t n = j->width * j->height, wrong = 0;
    uint32_t *got = malloc(n * sizeof *got);
    picture p = {j->width, j->height, malloc(3 * n)};
    jit_scope_push();
    double start = milliseconds();
    jit_var count = counts(b, j), picture_of = colours(b, count);
    bool good = got && p.samples && jit_read(picture_of, p.samples) == JIT_OK;
    double took = milliseconds() - start;
    good = good && jit_read(count, got) == JIT_OK;
    jit_scope_pop(0, NULL);
    if (good)
        wrong = compare(j, got);
    if (good)
        printf("%s: %zu x %zu pixels in %.1f ms, %zu of %zu differ from a scalar loop: %s\n", name,
               j->width, j->height, took, wrong, (n + SAMPLE - 1) / SAMPLE, wrong ? "WRONG" : "ok");
    if (good && j->path)
        good = write_png(j->path, &p) == 0;
    free(p.samples);
    free(got);
    return good && !wrong;
}

int main(int argc, char **argv) {
    job j = {.width = argc > 2 ? strtoul(argv[2], NULL, 10) : 1200,
             .path = argc > 1 && strcmp(argv[1], "-") != 0 ? argv[1] : NULL};
    j.height = j.width * 3 / 4;
    if (!j.height || j.width > 20000)
        return fprintf(stderr, "usage: %s [out.png or - [width]]\n", argv[0]), 2;
    return on_each_backend(run, &j);
}
