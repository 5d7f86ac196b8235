/* black_scholes.c: price 10^7 European options and check put-call parity,
 *
 *     call - put = S - K exp(-r T),
 *
 * which holds for every option whatever the volatility. Usage: black_scholes [number of options]
 *
 * The formula: F. Black, M. Scholes, "The Pricing of Options and Corporate Liabilities", Journal of
 * Political Economy 81 (3), 1973. */
#include <jit/jit.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double) t.tv_sec + 1e-6 * (double) t.tv_nsec;
}

static jit_backend b;

static jit_var real(float value) {
    return jit_f32(b, value);
}

/* Numbers in [low, high) that look random: a multiplicative hash of the index. */
static jit_var spread(size_t n, unsigned factor, float low, float high) {
    jit_var bits = jit_mul(jit_counter(b, n), jit_u32(b, factor));
    jit_var unit = jit_mul(jit_cast(jit_shr(bits, jit_u32(b, 8)), JIT_f32), real(0x1p-24f));
    return jit_fma(unit, real(high - low), real(low));
}

/* Cumulative distribution function of the normal distribution. */
static jit_var normal_cdf(jit_var x) {
    return jit_fma(jit_erf(jit_mul(x, real(0.70710678f))), real(0.5f), real(0.5f));
}

typedef struct options {
    jit_var spot, strike, years, call, put;
} options;

static options price(size_t n, float rate, float volatility) {
    options o = {.spot = spread(n, 2654435761u, 5, 30),
                 .strike = spread(n, 2246822519u, 1, 100),
                 .years = spread(n, 3266489917u, 0.25f, 10)};
    jit_var sigma_root = jit_mul(real(volatility), jit_sqrt(o.years));
    jit_var drift = jit_mul(real(rate + 0.5f * volatility * volatility), o.years);
    jit_var d1 = jit_div(jit_add(jit_log(jit_div(o.spot, o.strike)), drift), sigma_root);
    jit_var d2 = jit_sub(d1, sigma_root);
    jit_var present = jit_mul(o.strike, jit_exp(jit_mul(real(-rate), o.years)));
    o.call = jit_sub(jit_mul(o.spot, normal_cdf(d1)), jit_mul(present, normal_cdf(d2)));
    o.put = jit_sub(jit_mul(present, normal_cdf(jit_neg(d2))),
                    jit_mul(o.spot, normal_cdf(jit_neg(d1))));
    return o;
}

/* Largest violation of the parity; the numbers are up to 100, so f32 leaves about 1e-5. */
static double parity_error(const options *o, size_t n, float rate) {
    jit_var forward = jit_sub(o->spot, jit_mul(o->strike, jit_exp(jit_mul(real(-rate), o->years))));
    jit_var error = jit_abs(jit_sub(jit_sub(o->call, o->put), forward));
    float *e = malloc(n * sizeof *e);
    double worst = e && jit_read(error, e) == JIT_OK ? 0 : NAN;
    for (size_t i = 0; i < n && worst == worst; ++i)
        worst = e[i] > worst ? e[i] : worst;
    free(e);
    return worst;
}

static int run(size_t n) {
    const float rate = 0.02f, volatility = 0.3f;
    for (int round = 0; round < 2; ++round) {
        double start = milliseconds();
        jit_scope_push();
        options o = price(n, rate, volatility);
        jit_schedule(o.call);
        jit_schedule(o.put);
        if (jit_eval() != JIT_OK || jit_sync_thread() != JIT_OK)
            return fprintf(stderr, "%s\n", jit_error()), 1;
        printf("%s: %zu options in %.1f ms%s\n", round ? "again" : "first", n,
               milliseconds() - start, round ? "" : ", compiling the kernel included");
        if (round) {
            double error = parity_error(&o, n, rate);
            printf("put-call parity holds within %.1e: %s\n", error, error < 1e-4 ? "ok" : "WRONG");
            jit_scope_pop(0, NULL);
            return !(error < 1e-4);
        }
        jit_scope_pop(0, NULL); /* the second round gets the memory of the first */
    }
    return 1;
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK) {
        fprintf(stderr, "%s\n", jit_error());
        return 1;
    }
    b = jit_has_backend(JIT_CUDA) ? JIT_CUDA : JIT_LLVM;
    int status = run(n);
    jit_shutdown();
    return status;
}
