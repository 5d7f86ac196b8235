/* test_simcode.c: what kernels compute on the simulated driver: every function that a text can
 * call, against the same in C; and the simulated NVRTC. */
#include "simcode_world.h"
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

/* Bit patterns with everything at its edges, and some in between. */
enum { INPUTS = 2048 };
static u64 inputs[INPUTS];

static u64 next_random(u64 *state) { /* splitmix64 */
    u64 z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static u64 bits_of(double d) {
    u64 b;
    memcpy(&b, &d, sizeof b);
    return b;
}
static u32 bits_of_f(float f) {
    u32 b;
    memcpy(&b, &f, sizeof b);
    return b;
}
static float float_of(u64 b) {
    u32 low = (u32) b;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}
static double double_of(u64 b) {
    double d;
    memcpy(&d, &b, sizeof d);
    return d;
}

static void fill_integers(void) {
    static const u64 edges[] = {0,          1,          2,         31,         32,
                                0x7fffffff, 0x80000000, ~0ull,     1ull << 63, ~0ull >> 1,
                                0xffffffff, 1ull << 32, 0x55555555};
    u64 state = 1;
    for (int i = 0; i < INPUTS; i++) {
        size_t count = sizeof edges / sizeof *edges;
        inputs[i] = (size_t) i < count ? edges[i] : next_random(&state) >> next_random(&state) % 64;
    }
}

/* One kernel: thread i writes `each` words, out of inputs i and i + 1. */
static u64 *compute(const char *body, size_t each) {
    char *text;
    cr_assert(asprintf(&text,
                       "KERNEL void k(const u64 *in, u64 *out) {\n"
                       "  u32 i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                       "  u64 a = LD(in + i), b = LD(in + (i + 1) %% %d);\n"
                       "  u64 *o = out + %zu * (u64) i;\n"
                       "  %s }\n",
                       INPUTS, each, body) > 0);
    CUfunction f = simcode_function(text, "k");
    size_t bytes = INPUTS * each * sizeof(u64);
    CUdeviceptr in = simcode_upload(inputs, sizeof inputs), out = simcode_upload(NULL, bytes);
    void *arguments[] = {&in, &out};
    cr_assert_eq(simcode_run(f, INPUTS / 32, 32, arguments), 0);
    u64 *result = malloc(bytes);
    simcode_download(result, out, bytes);
    simcode_free(in);
    simcode_free(out);
    free(text);
    return result;
}

static u64 reversed(u64 a, int width) {
    u64 r = 0;
    for (int i = 0; i < width; i++) {
        r |= (a >> i & 1) << (width - 1 - i);
    }
    return r;
}

static u32 permuted(u32 a, u32 b, u32 s) {
    u32 r = 0;
    for (int i = 0; i < 4; i++, s >>= 4) {
        u32 from = s & 4 ? b : a, byte = from >> 8 * (s & 3) & 0xff;
        r |= (s & 8 ? (byte >> 7) * 0xff : byte) << 8 * i;
    }
    return r;
}

/* What the device computes, and what it should be: of a, b and their low halves x, y. */
#define INTEGERS(X)                                                                                \
    X(__popc(x), __builtin_popcount(x))                                                            \
    X(__popcll(a), __builtin_popcountll(a))                                                        \
    X(__clz((int) x), x ? __builtin_clz(x) : 32)                                                   \
    X(__clzll((i64) a), a ? __builtin_clzll(a) : 64)                                               \
    X(__ffs((int) x), __builtin_ffs((int) x))                                                      \
    X(__ffsll((i64) a), __builtin_ffsll((i64) a))                                                  \
    X(__brev(x), reversed(x, 32))                                                                  \
    X(__brevll(a), reversed(a, 64))                                                                \
    X((u32) __mulhi((int) x, (int) y), (u32) (((i64) (int) x * (int) y) >> 32))                    \
    X(__umulhi(x, y), (u64) x *y >> 32)                                                            \
    X(__mul64hi((i64) a, (i64) b), (u64) (((__int128_t) (i64) a * (i64) b) >> 64))                 \
    X(__umul64hi(a, b), (u64) (((__uint128_t) a * b) >> 64))                                       \
    X(__byte_perm(x, y, (u32) (a >> 7)), permuted(x, y, (u32) (a >> 7)))                           \
    X(__funnelshift_l(x, y, 5), y << 5 | x >> 27)                                                  \
    X(__funnelshift_r(x, y, 5), x >> 5 | y << 27)                                                  \
    X((u32) min((int) x, (int) y), (u32) ((int) x < (int) y ? (int) x : (int) y))                  \
    X(max(x, y), x > y ? x : y)                                                                    \
    X(min(a, b), a < b ? a : b)                                                                    \
    X(max((i64) a, (i64) b), (u64) ((i64) a > (i64) b ? (i64) a : (i64) b))                        \
    X(a + b * 3 - (a ^ b), a + b * 3 - (a ^ b))                                                    \
    X(a >> (b & 63), a >> (b & 63))                                                                \
    X((u64) ((i64) a >> (b & 63)), (u64) ((i64) a >> (b & 63)))                                    \
    X(a / (b | 1), a / (b | 1))                                                                    \
    X(x % (y | 1), x % (y | 1))                                                                    \
    X((bool) a, a != 0)                                                                            \
    X(a < b, a < b)                                                                                \
    X((i64) a < (i64) b, (i64) a < (i64) b)                                                        \
    X((u8) a, (uint8_t) a)                                                                         \
    X((u64) (i64) (short) a, (u64) (i64) (int16_t) a)

Test(simcode, integer_functions_are_those_of_the_device) {
#define COUNT(e, reference) +1
#define STORE(e, reference) "ST(o, (u64) (" #e ")); o++;\n"
#define CHECK(e, reference)                                                                        \
    cr_assert_eq(*o, (u64) (reference), "%s of %#lx, %#lx: %#lx, not %#lx", #e, a, b, *o,          \
                 (u64) (reference));                                                               \
    o++;
    simcode_open();
    fill_integers();
    u64 *out = compute("u32 x = (u32) a; u32 y = (u32) b;\n" INTEGERS(STORE), INTEGERS(COUNT));
    const u64 *o = out;
    for (int i = 0; i < INPUTS; i++) {
        u64 a = inputs[i], b = inputs[(i + 1) % INPUTS];
        u32 x = (u32) a, y = (u32) b;
        INTEGERS(CHECK)
    }
    free(out);
#undef CHECK
}

/* Low half a float, upper half what makes the whole a double of the same kind. */
static void fill_floats(void) {
    static const double edges[] = {
        0.0,    -0.0,   1.0,    -1.0,    0.5,     -2.5,       INFINITY, -INFINITY, NAN,    0x1p31,
        0x1p32, 0x1p63, 0x1p64, -0x1p31, -0x1p63, 2147483520, 0x1.fp62, 1e-42,     -1e-310};
    u64 state = 2;
    for (int i = 0; i < INPUTS; i++) {
        size_t count = sizeof edges / sizeof *edges;
        if ((size_t) i < count) {
            u64 low = bits_of_f((float) edges[i]);
            inputs[i] = i % 2 ? low : bits_of(edges[i]);
        } else {
            u64 r = next_random(&state);
            double d = ldexp((double) (int32_t) r, -31 + (int) (r >> 40) % 12);
            inputs[i] = (bits_of(d) & ~0xffffffffull) | bits_of_f((float) d);
        }
    }
}

/* As PTX's cvt.rzi does it. */
static int to_int(double d) {
    return d != d ? 0 : d >= 0x1p31 ? INT32_MAX : d <= -0x1p31 ? INT32_MIN : (int) d;
}
static u32 to_uint(double d) {
    return d != d ? 0 : d >= 0x1p32 ? UINT32_MAX : d <= 0 ? 0 : (u32) d;
}
static i64 to_ll(double d) {
    return d != d || d <= -0x1p63 ? INT64_MIN : d >= 0x1p63 ? INT64_MAX : (i64) d;
}
static u64 to_ull(double d) {
    return d != d ? 1ull << 63 : d >= 0x1p64 ? UINT64_MAX : d <= 0 ? 0 : (u64) d;
}

/* Of the floats f, g and the doubles d, e in the bits of a and b. NaN counts as one value. */
#define FLOATS(X)                                                                                  \
    X(F(f + g), bits_of_f(f + g))                                                                  \
    X(F(f - g), bits_of_f(f - g))                                                                  \
    X(F(f *g), bits_of_f(f *g))                                                                    \
    X(F(f / g), bits_of_f(f / g))                                                                  \
    X(F(f *g + g), bits_of_f(unfused(f, g, g)))                                                    \
    X(F((f + g) * (f - g)), bits_of_f((f + g) * (f - g)))                                          \
    X(F(-f), bits_of_f(-f))                                                                        \
    X(F(fmaf(f, g, f)), bits_of_f(fmaf(f, g, f)))                                                  \
    X(F(__fadd_rn(f, g)), bits_of_f(f + g))                                                        \
    X(F(__fmul_rn(f, g)), bits_of_f(f *g))                                                         \
    X(F(__fdiv_rn(f, g)), bits_of_f(f / g))                                                        \
    X(F(__frcp_rn(f)), bits_of_f(1 / f))                                                           \
    X(F(__fsqrt_rn(f)), bits_of_f(sqrtf(f)))                                                       \
    X(F(__fmaf_rn(f, g, g)), bits_of_f(fmaf(f, g, g)))                                             \
    X(D(d + e), bits_of(d + e))                                                                    \
    X(D(d - e), bits_of(d - e))                                                                    \
    X(D(d *e), bits_of(d *e))                                                                      \
    X(D(d / e), bits_of(d / e))                                                                    \
    X(D(fma(d, e, d)), bits_of(fma(d, e, d)))                                                      \
    X(D(__dadd_rn(d, e)), bits_of(d + e))                                                          \
    X(D(__dmul_rn(d, e)), bits_of(d *e))                                                           \
    X(D(__ddiv_rn(d, e)), bits_of(d / e))                                                          \
    X(D(__drcp_rn(d)), bits_of(1 / d))                                                             \
    X(D(__dsqrt_rn(d)), bits_of(sqrt(d)))                                                          \
    X(D((double) f), bits_of((double) f))                                                          \
    X(F((float) d), bits_of_f((float) d))                                                          \
    X(F(__double2float_rn(d)), bits_of_f((float) d))                                               \
    X((u32) __float2int_rz(f), (u32) to_int(f))                                                    \
    X(__float2uint_rz(f), to_uint(f))                                                              \
    X((u64) __float2ll_rz(f), (u64) to_ll(f))                                                      \
    X(__float2ull_rz(f), to_ull(f))                                                                \
    X((u32) __double2int_rz(d), (u32) (d != d ? INT32_MIN : to_int(d)))                            \
    X(__double2uint_rz(d), d != d ? 1u << 31 : to_uint(d))                                         \
    X((u64) __double2ll_rz(d), (u64) to_ll(d))                                                     \
    X(__double2ull_rz(d), to_ull(d))                                                               \
    X(F((float) a), bits_of_f((float) a))                                                          \
    X(F((float) (i64) a), bits_of_f((float) (i64) a))                                              \
    X(F((float) (u32) a), bits_of_f((float) (u32) a))                                              \
    X(F((float) (int) a), bits_of_f((float) (int) a))                                              \
    X(D((double) a), bits_of((double) a))                                                          \
    X(D((double) (i64) a), bits_of((double) (i64) a))                                              \
    X(D((double) (u32) a), bits_of((double) (u32) a))                                              \
    X(F(__ull2float_rn(a)), bits_of_f((float) a))                                                  \
    X(D(__ll2double_rn((i64) a)), bits_of((double) (i64) a))                                       \
    X(f < g, f < g)                                                                                \
    X(f <= g, f <= g)                                                                              \
    X(f == g, f == g)                                                                              \
    X(f != g, f != g)                                                                              \
    X(f >= g, f >= g)                                                                              \
    X(!(d > e), !(d > e))                                                                          \
    X(d == e, d == e)                                                                              \
    X((bool) f, f != 0)                                                                            \
    X(isnan(f), f != f)                                                                            \
    X(isinf(d) != 0, isinf(d) != 0)                                                                \
    X(signbit(f) != 0, signbit(f) != 0)                                                            \
    X(F(__uint_as_float((u32) a)), (u32) a)                                                        \
    X((u32) __float_as_int(__int_as_float((int) a)), (u32) a)                                      \
    X(D(__longlong_as_double((i64) a)), a)

/* Declares f, g, d, e in a text. */
static const char floats_head[] = "float f = __uint_as_float((u32) a);\n"
                                  "float g = __uint_as_float((u32) b);\n"
                                  "double d = __longlong_as_double((i64) a);\n"
                                  "double e = __longlong_as_double((i64) b);\n"
                                  "\n#define F(x) __float_as_uint(x)\n"
                                  "#define D(x) (u64) __double_as_longlong(x)\n";

static u64 *compute_floats(const char *body, size_t each) {
    char *whole;
    fill_floats();
    cr_assert(asprintf(&whole, "%s%s", floats_head, body) > 0);
    u64 *out = compute(whole, each);
    free(whole);
    return out;
}

static float unfused(float a, float b, float c) {
    volatile float product = a * b; /* clang would contract */
    return product + c;
}

static u64 without_payload(u64 bits) {
    bool f = bits >> 32 == 0 && float_of(bits) != float_of(bits);
    return f                                    ? 0x7fc00000
           : double_of(bits) != double_of(bits) ? bits_of(NAN) & ~(1ull << 63)
                                                : bits;
}

Test(simcode, arithmetic_and_conversions_round_as_on_the_device) {
#define CHECK(expression, reference)                                                               \
    cr_assert_eq(without_payload(*o), without_payload(reference),                                  \
                 "%s of %a %a %a %a: %#lx, not %#lx", #expression, (double) f, (double) g, d, e,   \
                 *o, (u64) (reference));                                                           \
    o++;
    simcode_open();
    u64 *out = compute_floats(FLOATS(STORE), FLOATS(COUNT));
    const u64 *o = out;
    for (int i = 0; i < INPUTS; i++) {
        u64 a = inputs[i], b = inputs[(i + 1) % INPUTS];
        float f = float_of(a), g = float_of(b);
        double d = double_of(a), e = double_of(b);
        FLOATS(CHECK)
    }
    free(out);
#undef CHECK
}

/* In both types; they are the host's, so the bits are equal. */
/* clang-format off */
#define MATH_1(X)                                                                                  \
    X(sqrt) X(cbrt) X(fabs) X(floor) X(ceil) X(trunc) X(rint) X(nearbyint) X(round)                \
    X(exp) X(exp2) X(exp10) X(expm1) X(log) X(log2) X(log10) X(log1p)                              \
    X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(tanh)                           \
    X(asinh) X(acosh) X(atanh) X(erf) X(erfc) X(tgamma) X(lgamma)
#define MATH_2(X)                                                                                  \
    X(pow) X(atan2) X(hypot) X(fmod) X(remainder) X(copysign) X(fmin) X(fmax) X(fdim) X(nextafter)
/* clang-format on */

Test(simcode, mathematical_functions_take_and_return_both_types) {
#define COUNT_1(m) +2
#define STORE_1(m) "ST(o, F(" #m "f(f))); ST(o + 1, D(" #m "(d))); o += 2;\n"
#define STORE_2(m) "ST(o, F(" #m "f(f, g))); ST(o + 1, D(" #m "(d, e))); o += 2;\n"
#define CHECK_AS(m, single, twice)                                                                 \
    cr_assert_eq(without_payload(o[0]), without_payload(bits_of_f(single)), "%sf of %a %a", #m,    \
                 (double) f, (double) g);                                                          \
    cr_assert_eq(without_payload(o[1]), without_payload(bits_of(twice)), "%s of %a %a", #m, d, e); \
    o += 2;
#define CHECK_1(m) CHECK_AS(m, m##f(f), m(d))
#define CHECK_2(m) CHECK_AS(m, m##f(f, g), m(d, e))
    simcode_open_simulated();
    u64 *out = compute_floats(MATH_1(STORE_1) MATH_2(STORE_2), MATH_1(COUNT_1) MATH_2(COUNT_1));
    const u64 *o = out;
    for (int i = 0; i < INPUTS; i++) {
        u64 a = inputs[i], b = inputs[(i + 1) % INPUTS];
        float f = float_of(a), g = float_of(b);
        double d = double_of(a), e = double_of(b);
        MATH_1(CHECK_1)
        MATH_2(CHECK_2)
    }
    free(out);
}

Test(simcode, reciprocal_roots_are_within_two_units) {
    simcode_open();
    u64 *out = compute_floats("ST(o, F(rsqrtf(f))); ST(o + 1, D(rsqrt(d)));\n"
                              "ST(o + 2, F(rcbrtf(f))); ST(o + 3, D(rcbrt(d)));\n",
                              4);
    for (int i = 0; i < INPUTS; i++) {
        double f = (double) float_of(inputs[i]), d = double_of(inputs[i]);
        const u64 *o = out + 4 * i;
        const double got[] = {(double) float_of(o[0]), double_of(o[1]), (double) float_of(o[2]),
                              double_of(o[3])};
        const double want[] = {1 / sqrt(f), 1 / sqrt(d), 1 / cbrt(f), (double) (1 / cbrtl(d))};
        for (int k = 0; k < 4; k++) {
            double bound = fabs(want[k]) * (k % 2 ? 0x1p-51 : 0x1p-22);
            bool same = got[k] == want[k] || (isnan(got[k]) && isnan(want[k]));
            cr_assert(same || fabs(got[k] - want[k]) <= bound, "%d of %a %a: %a, not %a", k, f, d,
                      got[k], want[k]);
        }
    }
    free(out);
}

/* As of quiet ones, also of those from 16-bit floats. */
Test(simcode, signalling_nan_is_like_any_other) {
    simcode_open();
    CUfunction f =
        simcode_function(SIMCODE_TEXT(KERNEL void k(u32 * out, u32 bits, u64 wide) {
                             float n = __uint_as_float(bits);
                             double w = __longlong_as_double((i64) wide);
                             float inf = __uint_as_float(0x7f800000u);
                             ST(out, (u32) (powf(1.0f, n) == 1.0f));
                             ST(out + 1, (u32) (hypotf(n, inf) == inf));
                             ST(out + 2, (u32) (fminf(2.0f, n) == 2.0f && fmaxf(n, 2.0f) == 2.0f));
                             ST(out + 3, (u32) (pow(1.0, w) == 1.0 && fmin(w, 2.0) == 2.0));
                         }),
                         "k");
    u32 got[4], bits = 0x7f800001;
    u64 wide = 0x7ff0000000000001;
    CUdeviceptr out = simcode_upload(NULL, sizeof got);
    void *arguments[] = {&out, &bits, &wide};
    cr_assert_eq(simcode_run(f, 1, 1, arguments), 0);
    simcode_download(got, out, sizeof got);
    cr_assert(got[0] && got[1] && got[2] && got[3], "%u %u %u %u", got[0], got[1], got[2], got[3]);
}

/* Wrong sizes make the text wrong. */
Test(simcode, vectors_have_the_device_s_layout) {
    simcode_open();
    char *log;
    char *cubin = simcode_compile(
        "#define IS(T, bytes, alignment) struct pair_##T { char c; T v; }; \\\n"
        "  typedef char size_of_##T[sizeof(T) == bytes ? 1 : -1]; \\\n"
        "  typedef char place_of_##T[sizeof(struct pair_##T) == bytes + alignment ? 1 : -1];\n"
        "IS(char2, 2, 2) IS(uchar4, 4, 4) IS(short2, 4, 4) IS(ushort4, 8, 8)\n"
        "IS(int2, 8, 8) IS(uint2, 8, 8) IS(uint3, 12, 4) IS(uint4, 16, 16) IS(int4, 16, 16)\n"
        "IS(float2, 8, 8) IS(float3, 12, 4) IS(float4, 16, 16) IS(double2, 16, 16)\n"
        "IS(longlong2, 16, 16) IS(ulonglong2, 16, 16) IS(dim3, 12, 4)\n"
        "KERNEL void k(uint4 *p, const float4 *f) {\n"
        "  uint4 v = make_uint4(1u, 2u, 3u, 4u); ST(p, v); float4 w = LD(f);\n"
        "  ST(p + 1, make_uint4(v.w, v.z, (u32) w.x, (u32) w.w)); }\n",
        &log);
    cr_assert(cubin, "%s", log);
    free(cubin);
}

Test(simcode, arguments_lie_as_in_a_struct_of_c) {
    simcode_open();
    CUfunction f = simcode_function(SIMCODE_TEXT(
                                        struct block {
                                            u64 n;
                                            u64 word[3];
                                        };
                                        struct small {
                                            u8 a;
                                            u16 b;
                                        };
                                        KERNEL void k(u64 * out, const u8 c, struct block P,
                                                      float x, double d, const struct small s) {
                                            ST(out, P.n + P.word[0] + P.word[1] + P.word[2]);
                                            ST(out + 1, (u64) c + s.a + s.b);
                                            ST(out + 2, (u64) (x + d));
                                        }),
                                    "k");
    struct {
        u64 n, word[3];
    } block = {1, {20, 300, 4000}};
    struct {
        unsigned char a;
        unsigned short b;
    } small = {3, 50};
    unsigned char c = 7;
    float x = 1.5f;
    double d = 2.5;
    u64 got[3];
    CUdeviceptr out = simcode_upload(NULL, sizeof got);
    void *arguments[] = {&out, &c, &block, &x, &d, &small};
    cr_assert_eq(simcode_run(f, 1, 1, arguments), 0);
    simcode_download(got, out, sizeof got);
    cr_assert(got[0] == 4321 && got[1] == 60 && got[2] == 4, "%lu %lu %lu", got[0], got[1], got[2]);
}
