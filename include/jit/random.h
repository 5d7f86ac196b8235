/* random.h: random numbers by a counter: Philox-4x32-10.
 * Compiles alone as C17 and as C++17; everything is static and inline.
 *
 * A number is a function of where it is used: there is no state to keep, to order or to share, and
 * the results are the same on every device, whatever is computed beside them.
 *
 *     jit_var u[4];
 *     jit_random(jit_counter(b, n), jit_u32(b, step), seed, u);  u[0] ... u[3]: n numbers each
 *     jit_var x = jit_uniform_f32(u[0]), y = jit_uniform_f32(u[1]);
 *
 * `index` says for which particle, pixel, ... the numbers are, `draw` which of its numbers: count
 * it up from call to call. `seed` names the whole run. No two calls may have all three in common,
 * or they get the same numbers. With that, any seeds (0, 1, 2, ...), indices and draws are
 * independent streams: 2^64 of them by the seed, 2^128 numbers of four words in each. Other seeds,
 * and other draws, compile nothing anew. Not for cryptography.
 *
 * The generator: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As
 * Easy as 1, 2, 3", SC 2011. It passes the tests of BigCrush (TestU01).
 *
 * References and errors are as in jit.h: on failure all results are 0. */
#ifndef JIT_RANDOM_H
#define JIT_RANDOM_H
#include <jit/jit.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Private: the end of a function that has opened a scope, and keeps n results of it, or none. */
static inline jit_status jit_random_end(size_t n, jit_var *out) {
    bool good = true;
    for (size_t k = 0; k < n; ++k)
        good = good && out[k];
    for (size_t k = 0; k < n && !good; ++k)
        out[k] = 0;
    jit_status status = jit_scope_pop(n, out);
    return good ? status : jit_error_status();
}

/** Private: one round of c, with a key. */
static inline void jit_philox_round(jit_backend b, jit_var c[4], const jit_var key[2]) {
    jit_var m0 = jit_u32(b, 0xD2511F53u), m1 = jit_u32(b, 0xCD9E8D57u);
    jit_var high0 = jit_mul_hi(c[0], m0), low0 = jit_mul(c[0], m0);
    jit_var high1 = jit_mul_hi(c[2], m1), low1 = jit_mul(c[2], m1);
    c[0] = jit_xor(jit_xor(high1, c[1]), key[0]);
    c[1] = low1;
    c[2] = jit_xor(jit_xor(high0, c[3]), key[1]);
    c[3] = low0;
}

/** Four random words, u32, for a counter of four u32 and a key of two: Philox-4x32-10 as published.
 * Sizes as for jit_add(). */
static inline jit_status jit_philox(const jit_var counter[4], const jit_var key[2],
                                    jit_var out[4]) {
    jit_backend b = jit_backend_of(counter[0]);
    jit_scope_push();
    jit_var k[2] = {key[0], key[1]};
    for (int i = 0; i < 4; ++i)
        out[i] = counter[i];
    for (int round = 0; round < 10; ++round) {
        if (round) {
            k[0] = jit_add(k[0], jit_u32(b, 0x9E3779B9u));
            k[1] = jit_add(k[1], jit_u32(b, 0xBB67AE85u));
        }
        jit_philox_round(b, out, k);
    }
    return jit_random_end(4, out);
}

/** Private: the halves of a u64, a u32 and 0, or 0 and 0 for no variable. */
static inline void jit_random_halves(jit_backend b, jit_var v, jit_var out[2]) {
    out[0] = v ? v : jit_u32(b, 0);
    out[1] = jit_u32(b, 0);
    if (v && jit_type(v) == JIT_u64) {
        out[0] = jit_cast(v, JIT_u32);
        out[1] = jit_cast(jit_shr(v, jit_u64(b, 32)), JIT_u32);
    }
}

/** Four random words (u32, every value as likely) for each element of `index` and `draw`, which are
 * u32 or u64, of equal sizes or 1. draw 0 (no variable): as a draw of number 0. */
static inline jit_status jit_random(jit_var index, jit_var draw, uint64_t seed, jit_var out[4]) {
    jit_backend b = jit_backend_of(index);
    jit_var counter[4], key[2];
    jit_scope_push();
    key[0] = jit_u32(b, (uint32_t) seed);
    key[1] = jit_u32(b, (uint32_t) (seed >> 32));
    jit_random_halves(b, index, counter);
    jit_random_halves(b, draw, counter + 2);
    jit_philox(counter, key, out);
    return jit_random_end(4, out);
}

/** Random words as f32 numbers in [0, 1): multiples of 2^-24, every one as likely. */
static inline jit_var jit_uniform_f32(jit_var word) {
    jit_backend b = jit_backend_of(word);
    jit_var x;
    jit_scope_push();
    x = jit_mul(jit_cast(jit_shr(word, jit_u32(b, 8)), JIT_f32), jit_f32(b, 0x1p-24f));
    jit_random_end(1, &x);
    return x;
}

/** Two random words as one f64 number in [0, 1): multiples of 2^-53, every one as likely. */
static inline jit_var jit_uniform_f64(jit_var high, jit_var low) {
    jit_backend b = jit_backend_of(high);
    jit_var x;
    jit_scope_push();
    x = jit_shl(jit_cast(high, JIT_u64), jit_u64(b, 32));
    x = jit_shr(jit_or(x, jit_cast(low, JIT_u64)), jit_u64(b, 11));
    x = jit_mul(jit_cast(x, JIT_f64), jit_f64(b, 0x1p-53));
    jit_random_end(1, &x);
    return x;
}

/** Two random words as two independent f32 numbers of the normal distribution with mean 0 and
 * variance 1, by Box and Muller. None lies beyond 6.8, where 1 in 10^11 would. On two devices the
 * numbers differ by what jit_log(), jit_sin() and jit_cos() do. */
static inline jit_status jit_normal_f32(jit_var word0, jit_var word1, jit_var out[2]) {
    jit_backend b = jit_backend_of(word0);
    jit_var u, angle, radius;
    jit_scope_push();
    out[0] = out[1] = 0;
    u = jit_fma(jit_cast(word0, JIT_f32), jit_f32(b, 0x1p-32f), jit_f32(b, 0x1p-33f)); /* (0, 1] */
    angle = jit_mul(jit_cast(word1, JIT_f32), jit_f32(b, 0x1.921fb6p-30f));            /* 2 pi */
    radius = jit_sqrt(jit_mul(jit_log(u), jit_f32(b, -2)));
    if (jit_sincos(angle, &out[1], &out[0]) == JIT_OK) {
        out[0] = jit_mul(out[0], radius);
        out[1] = jit_mul(out[1], radius);
    }
    return jit_random_end(2, out);
}

#ifdef __cplusplus
}
#endif
#endif
