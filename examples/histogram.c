/* histogram.c: throw two dice very often, count the sums, and find the median of numbers of the
 * normal distribution in a histogram of them.
 *
 *     histogram [numbers]
 *
 * jit_scatter_reduce() adds at computed places, each lane once, whatever places others have. Counts
 * are integers, and so they are exact: they are compared with those of a loop on the CPU over the
 * same numbers. jit_prefix_reduce() turns counts into how many numbers lie below. */
#include "common.h"
#include <jit/random.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SUMS = 13, BINS = 4096 };
static const float range = 8, per_unit = 256; /* the bins lie between -range and range */

/* How often each number below `bins` is among `places`. */
static jit_var count(jit_backend b, jit_var places, size_t bins) {
    uint32_t zero = 0;
    jit_var counts = jit_literal(b, JIT_u32, &zero, bins);
    return jit_scatter_reduce(JIT_REDUCE_ADD, counts, jit_u32(b, 1), places, 0);
}

/* A die: 1 ... 6, by the upper half of word times 6. */
static jit_var die(jit_backend b, jit_var word) {
    return jit_add(jit_mul_hi(word, jit_u32(b, 6)), jit_u32(b, 1));
}

static jit_var bin_of(jit_backend b, jit_var number) {
    jit_var scaled = jit_fma(number, jit_f32(b, per_unit), jit_f32(b, range * per_unit));
    return jit_cast(scaled,
                    JIT_u32); /* of what lies below, 0; bins that are not there count none */
}

/* The same counts, one by one. */
static bool is_count_of(const uint32_t *counts, size_t bins, jit_var places) {
    size_t n = jit_size(places);
    uint32_t *place = malloc(n * sizeof *place), *want = calloc(bins, sizeof *want);
    bool good = place && want && jit_read(places, place) == JIT_OK;
    for (size_t i = 0; i < n && good; ++i)
        if (place[i] < bins)
            want[place[i]]++;
    good = good && memcmp(counts, want, bins * sizeof *want) == 0;
    free(place);
    free(want);
    return good;
}

static void print_sums(const uint32_t *counts, size_t n) {
    for (int sum = 2; sum < SUMS; ++sum) {
        int stars = (int) lround(300.0 * counts[sum] / (double) n);
        printf("%4d %5.2f %% %.*s\n", sum, 100.0 * counts[sum] / (double) n, stars,
               "**************************************************************************");
    }
}

static bool dice(jit_backend b, const char *name, size_t n) {
    uint32_t counts[SUMS] = {0};
    jit_var word[4];
    jit_scope_push();
    double start = milliseconds();
    jit_random(jit_counter(b, n), 0, 6, word);
    jit_var sums = jit_add(die(b, word[0]), die(b, word[1]));
    bool good = jit_read(count(b, sums, SUMS), counts) == JIT_OK;
    double took = milliseconds() - start;
    good = good && is_count_of(counts, SUMS, sums);
    jit_scope_pop(0, NULL);
    if (b == JIT_LLVM || !jit_has_backend(JIT_LLVM))
        print_sums(counts, n);
    printf("%s: %zu throws of two dice in %.1f ms: %s\n", name, n, took, good ? "ok" : "WRONG");
    return good;
}

/* Numbers of standard deviation 1: half of them lie below 0, within 4 deviations of the median. */
static bool median(jit_backend b, const char *name, size_t n) {
    static uint32_t counts[BINS], below[BINS];
    jit_var word[4], normal[2];
    jit_scope_push();
    jit_random(jit_counter(b, n), 0, 7, word);
    jit_normal_f32(word[0], word[1], normal);
    jit_var bins = bin_of(b, normal[0]), counted = count(b, bins, BINS);
    jit_var sum = jit_prefix_reduce(JIT_REDUCE_ADD, counted, false, false);
    jit_schedule(counted);
    bool good = jit_read(sum, below) == JIT_OK && jit_read(counted, counts) == JIT_OK &&
                is_count_of(counts, BINS, bins) && below[BINS - 1] == n;
    jit_scope_pop(0, NULL);
    size_t bin = 0;
    while (bin < BINS - 1 && below[bin] < n / 2)
        ++bin;
    double found = ((double) bin + 0.5) / per_unit - range;
    double bound = 4 * 1.2533 / sqrt((double) n) + 0.5 / per_unit;
    good = good && fabs(found) <= bound;
    printf("%s: median of %zu normal numbers %+.4f, at most %.4f off: %s\n", name, n, found, bound,
           good ? "ok" : "WRONG");
    return good;
}

static bool run(jit_backend b, const char *name, void *context) {
    size_t n = *(size_t *) context;
    bool good = dice(b, name, n);
    return median(b, name, n) && good;
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 10000000;
    if (n < 2 || n > UINT32_MAX)
        return fprintf(stderr, "usage: %s [numbers]\n", argv[0]), 2;
    return on_each_backend(run, &n);
}
