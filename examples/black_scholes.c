/* black_scholes.c: price 10^7 European options and check put-call parity,
 *
 *     call - put = S - K exp(-r T),
 *
 * which holds for every option whatever the volatility. On the CPU and on the GPU, whichever are
 * there; if both are, their prices are compared. Usage: black_scholes [number of options]
 *
 * Both bounds are 1e-4: the numbers go up to 100, where neighbours in f32 are 7.6e-6 apart, and
 * some operations of at most 2 such steps each lie between the arguments and a price.
 *
 * The formula: F. Black, M. Scholes, "The Pricing of Options and Corporate Liabilities", Journal of
 * Political Economy 81 (3), 1973. */
#include "common.h"
#include <math.h>
#include <stdlib.h>

static const double bound = 1e-4;
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

/* The largest of the f32 numbers |x|; NAN if it could not be computed. */
static double largest(jit_var x, size_t n) {
    float *values = malloc(n * sizeof *values);
    double worst = values && jit_read(jit_abs(x), values) == JIT_OK ? 0 : NAN;
    for (size_t i = 0; i < n && worst == worst; ++i)
        worst = values[i] <= worst ? worst : values[i]; /* a NaN among them stays */
    free(values);
    return worst;
}

static bool within_bound(const char *what, double error) {
    printf("%s %.1e: %s\n", what, error, error < bound ? "ok" : "WRONG");
    return error < bound;
}

static bool parity_holds(const options *o, size_t n, float rate) {
    jit_var forward = jit_sub(o->spot, jit_mul(o->strike, jit_exp(jit_mul(real(-rate), o->years))));
    jit_var error = jit_sub(jit_sub(o->call, o->put), forward);
    return within_bound("     put-call parity holds within", largest(error, n));
}

/* Price twice on one backend, check, and keep the call prices in host memory. */
static bool run(jit_backend backend, const char *name, size_t n, float *calls) {
    const float rate = 0.02f, volatility = 0.3f;
    bool good = true;
    b = backend;
    for (int round = 0; round < 2 && good; ++round) {
        double start = milliseconds();
        jit_scope_push();
        options o = price(n, rate, volatility);
        jit_schedule(o.call);
        jit_schedule(o.put);
        good = jit_eval() == JIT_OK && jit_sync_thread() == JIT_OK;
        if (good)
            printf("%-4s %s: %zu options in %.2f ms%s\n", name, round ? "again" : "first", n,
                   milliseconds() - start, round ? "" : ", compiling the kernel included");
        if (good && round)
            good = parity_holds(&o, n, rate) && jit_read(o.call, calls) == JIT_OK;
        jit_scope_pop(0, NULL); /* the second round gets the memory of the first */
    }
    if (jit_error_status() != JIT_OK)
        fprintf(stderr, "%s: %s\n", name, jit_error());
    return good;
}

static bool agree(const float *x, const float *y, size_t n) {
    double worst = 0;
    for (size_t i = 0; i < n && worst == worst; ++i)
        worst = fabs((double) x[i] - y[i]) <= worst ? worst : fabs((double) x[i] - y[i]);
    return within_bound("CPU and GPU differ by at most", worst);
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000;
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK) {
        fprintf(stderr, "%s\n", jit_error());
        return 1;
    }
    bool cpu = jit_has_backend(JIT_LLVM), gpu = jit_has_backend(JIT_CUDA);
    float *calls[2] = {malloc(n * sizeof(float)), malloc(n * sizeof(float))};
    bool good = calls[0] && calls[1];
    if (good && cpu)
        good = run(JIT_LLVM, "CPU", n, calls[0]);
    if (good && gpu)
        good = run(JIT_CUDA, "GPU", n, calls[1]);
    if (good && cpu && gpu)
        good = agree(calls[0], calls[1], n);
    free(calls[0]);
    free(calls[1]);
    jit_shutdown();
    return !good;
}
