/* image_filter.c: sharpen a photograph and give it a tone curve, in linear light.
 *
 *     image_filter in.png out.png
 *
 * All arrays have one element per sample (height x width x 3): samples are moved by gathers with
 * computed indices. The steps: sRGB to linear light; a separable Gaussian blur with clamped edges;
 * unsharp mask; a curve that lifts the shadows and rolls off the lights; back to sRGB, 8 bits. */
#include "common.h"
#include "png.h"
#include <math.h>

enum { RADIUS = 6 };

static jit_backend b;

static jit_var real(double value) {
    return jit_f32(b, (float) value);
}

static jit_var integer(size_t value) {
    return jit_i32(b, (int32_t) value);
}

/* The sRGB transfer functions, IEC 61966-2-1. */
static jit_var to_linear(jit_var s) {
    jit_var power = jit_pow(jit_mul(jit_add(s, real(0.055)), real(1 / 1.055)), real(2.4));
    return jit_select(jit_le(s, real(0.04045)), jit_mul(s, real(1 / 12.92)), power);
}

static jit_var to_srgb(jit_var l) {
    jit_var power = jit_fma(jit_pow(l, real(1 / 2.4)), real(1.055), real(-0.055));
    return jit_select(jit_le(l, real(0.0031308)), jit_mul(l, real(12.92)), power);
}

static jit_var clamp(jit_var x, jit_var low, jit_var high) {
    return jit_min(jit_max(x, low), high);
}

/* Where each sample of the result stands. */
typedef struct place {
    jit_var row, column, channel;
} place;

static place places(const picture *p) {
    jit_var i = jit_cast(jit_counter(b, p->width * p->height * 3), JIT_i32);
    jit_var pixel = jit_div(i, integer(3)), width = integer(p->width);
    return (place) {jit_div(pixel, width), jit_mod(pixel, width), jit_mod(i, integer(3))};
}

/* The samples `dx` to the right and `dy` below, edges repeated. */
static jit_var shifted(const picture *p, const place *at, jit_var samples, int dx, int dy) {
    jit_var x = clamp(jit_add(at->column, jit_i32(b, dx)), integer(0), integer(p->width - 1));
    jit_var y = clamp(jit_add(at->row, jit_i32(b, dy)), integer(0), integer(p->height - 1));
    jit_var pixel = jit_add(jit_mul(y, integer(p->width)), x);
    return jit_gather(samples, jit_add(jit_mul(pixel, integer(3)), at->channel), 0);
}

/* One direction of the Gaussian. */
static jit_var blur(const picture *p, const place *at, jit_var samples, int dx, int dy) {
    double weight[2 * RADIUS + 1], sum = 0;
    for (int k = -RADIUS; k <= RADIUS; ++k)
        sum += weight[k + RADIUS] = exp(-2.0 * k * k / (RADIUS * RADIUS));
    jit_var total = real(0);
    for (int k = -RADIUS; k <= RADIUS; ++k)
        total =
            jit_fma(shifted(p, at, samples, k * dx, k * dy), real(weight[k + RADIUS] / sum), total);
    return total;
}

static jit_var filtered(const picture *p) {
    jit_var bytes = jit_from_host(b, JIT_u8, p->samples, p->width * p->height * 3);
    jit_var light = to_linear(jit_mul(jit_cast(bytes, JIT_f32), real(1 / 255.0)));
    place at = places(p);
    jit_var soft = blur(p, &at, blur(p, &at, light, 1, 0), 0, 1);
    jit_var sharp = jit_fma(jit_sub(light, soft), real(0.8), light);
    jit_var safe = clamp(sharp, real(0), real(1));
    jit_var toned = jit_div(jit_mul(safe, real(1.6)), jit_add(jit_mul(safe, real(0.6)), real(1)));
    jit_var scaled = jit_mul(to_srgb(toned), real(255));
    return jit_cast(jit_round(scaled), JIT_u8);
}

/* Filter `p` on one backend into `out`; 0 on success. */
static int run(jit_backend backend, const char *name, const picture *p, unsigned char *out) {
    b = backend;
    for (int round = 0; round < 2; ++round) {
        jit_stats before, after;
        jit_get_stats(&before);
        double start = milliseconds();
        jit_scope_push();
        jit_status status = jit_read(filtered(p), out);
        jit_scope_pop(0, NULL);
        double took = milliseconds() - start;
        jit_get_stats(&after);
        if (status != JIT_OK)
            return fprintf(stderr, "%s: %s\n", name, jit_error()), 1;
        printf("%-4s %s: %zu x %zu pixels, %llu kernels compiled, %llu launches, %.2f ms\n", name,
               round ? "again" : "first", p->width, p->height,
               (unsigned long long) (after.kernels_compiled - before.kernels_compiled),
               (unsigned long long) (after.launches - before.launches), took);
    }
    return 0;
}

/* Results of two devices may differ by a rounding of pow, that is by one step of 255. */
static int compare(const unsigned char *x, const unsigned char *y, size_t n) {
    int worst = 0;
    for (size_t i = 0; i < n; ++i)
        worst = abs(x[i] - y[i]) > worst ? abs(x[i] - y[i]) : worst;
    printf("the two pictures differ by at most %d of 255: %s\n", worst,
           worst <= 1 ? "ok" : "WRONG");
    return worst > 1;
}

int main(int argc, char **argv) {
    picture p;
    if (argc != 3)
        return fprintf(stderr, "usage: %s in.png out.png\n", argv[0]), 2;
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK)
        return fprintf(stderr, "%s\n", jit_error()), 1;
    if (read_png(argv[1], &p) != 0)
        return 1;
    size_t n = p.width * p.height * 3;
    picture out[2] = {{p.width, p.height, malloc(n)}, {p.width, p.height, malloc(n)}};
    bool cpu = jit_has_backend(JIT_LLVM), gpu = jit_has_backend(JIT_CUDA);
    int failed = !out[0].samples || !out[1].samples;
    if (!failed && cpu)
        failed = run(JIT_LLVM, "CPU", &p, out[0].samples);
    if (!failed && gpu)
        failed = run(JIT_CUDA, "GPU", &p, out[1].samples);
    if (!failed && cpu && gpu)
        failed = compare(out[0].samples, out[1].samples, n);
    if (!failed)
        failed = write_png(argv[2], &out[!cpu]);
    free(p.samples);
    free(out[0].samples);
    free(out[1].samples);
    jit_shutdown();
    return failed;
}
