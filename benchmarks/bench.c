/* bench.c: sampling and its statistics.
 * Layer: benchmarks. May include: nothing of the library. */
#include "bench.h"
#include "bench_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

double bench_now(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

double bench_thread_time(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double bench_per_call(void (*body)(void *context), void *context, double fill_ns) {
    body(context);
    for (size_t calls = 1;; calls *= 2) {
        double start = bench_now();
        for (size_t i = 0; i < calls; ++i)
            body(context);
        double elapsed = bench_now() - start;
        if (elapsed >= fill_ns)
            return elapsed / (double) calls;
    }
}

double bench_per_batch(bool (*body)(void *context, size_t calls), void *context, size_t *calls) {
    enum { MOST_CALLS = 4096 };
    const double fill_ns = 5e6;
    if (!*calls && !body(context, 1))
        return -1;
    for (*calls = *calls ? *calls : 1;; *calls *= 2) {
        double start = bench_now();
        if (!body(context, *calls))
            return -1;
        double elapsed = bench_now() - start;
        if (elapsed >= fill_ns || *calls >= MOST_CALLS)
            return elapsed / (double) *calls;
    }
}

static double cpu_of_other_threads(void) {
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID) - clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void settle(double most_ns) {
    const struct timespec pause = {.tv_nsec = 10000000}; /* running threads are counted at ticks */
    double limit = bench_now() + most_ns;
    double before, used;
    do {
        before = cpu_of_other_threads();
        nanosleep(&pause, NULL);
        used = cpu_of_other_threads() - before;
    } while (used > 50e3 && bench_now() < limit);
}

void bench_settle(void) {
    settle(10e9);
}

double bench_resident(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file)
        return 0;
    if (fscanf(file, "%*s %ld", &pages) != 1)
        pages = 0;
    fclose(file);
    return (double) pages * (double) sysconf(_SC_PAGESIZE);
}

bool bench_find_line(const char *path, const char *key, char from, char *text, size_t size) {
    char line[4096], *found = NULL;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, key) ? strchr(line, from) : NULL;
    if (file)
        fclose(file);
    snprintf(text, size, "%s", found ? found : "unknown");
    text[strcspn(text, "\n")] = '\0';
    return found != NULL;
}

bench_row bench_row_make(bench_unit unit, bench_goal goal, const char *format, ...) {
    bench_row row = {.unit = unit, .goal = goal};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row.name, sizeof row.name, format, arguments);
    va_end(arguments);
    return row;
}

bench_row bench_row_rate(double bytes, double goal, const char *format, ...) {
    bench_row row = {.unit = BENCH_RATE, .goal = {goal, NULL}, .bytes = bytes};
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(row.name, sizeof row.name, format, arguments);
    va_end(arguments);
    return row;
}

void bench_row_add(bench_row *row, const char *who, double (*sample)(void *), void *context) {
    if (row->count < BENCH_ENTRIES)
        row->entries[row->count++] =
            (bench_entry) {.who = who, .sample = sample, .context = context};
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static bench_quantiles quantiles_of(const double *values, size_t n) {
    double sorted[BENCH_ROUNDS];
    memcpy(sorted, values, n * sizeof *values);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    return (bench_quantiles) {.least = sorted[0],
                              .lower = sorted[n / 4],
                              .median = sorted[n / 2],
                              .upper = sorted[n - 1 - n / 4],
                              .greatest = sorted[n - 1]};
}

/* One sample of every entry. The order turns with the round, so that no entry always follows the
 * same other one. An entry that failed is not asked again. */
static void take_round(const bench_row *row, bench_result *results, size_t round, double patience) {
    for (size_t i = 0; i < row->count; ++i) {
        size_t k = (i + round) % row->count;
        const bench_entry *entry = &row->entries[k];
        if (!entry->sample || results[k].failed)
            continue;
        settle(patience);
        double value = entry->sample(entry->context);
        results[k].failed = value < 0;
        results[k].samples[round] = value;
    }
}

/* Use every entry for a while: what a library improves in the background is done before we measure.
 */
static void warm_up(const bench_row *row, bench_result *results, double ns) {
    for (size_t k = 0; k < row->count; ++k) {
        const bench_entry *entry = &row->entries[k];
        double end = bench_now() + ns;
        while (entry->sample && !results[k].failed && bench_now() < end)
            results[k].failed = entry->sample(entry->context) < 0;
    }
    settle(50 * ns);
}

static void summarise(bench_result *results, size_t count, size_t rounds) {
    for (size_t k = 0; k < count; ++k) {
        bench_result *r = &results[k];
        if (!r->present || r->failed)
            continue;
        r->time = quantiles_of(r->samples, rounds);
        if (!results[0].present || results[0].failed)
            continue;
        double ratios[BENCH_ROUNDS];
        for (size_t i = 0; i < rounds; ++i)
            ratios[i] = results[0].samples[i] / r->samples[i];
        r->ratio = quantiles_of(ratios, rounds);
    }
}

void bench_measure(bench *b, const bench_row *row) {
    if (!bench_wants(b, row->name))
        return;
    bench_result *results = calloc(BENCH_ENTRIES, sizeof *results);
    if (!results)
        return;
    for (size_t k = 0; k < row->count; ++k)
        results[k].present = row->entries[k].sample != NULL;
    /* Memory is taken once: a second look would find the first one's pages. */
    size_t rounds = 0, most = row->unit == BENCH_BYTES ? 1 : BENCH_ROUNDS;
    if (most > 1)
        warm_up(row, results, bench_budget(b) * 1e8);
    double end = bench_now() + bench_budget(b) * 1e9;
    while (rounds < most && (rounds < bench_rounds(b) || bench_now() < end))
        take_round(row, results, rounds++, bench_budget(b) * 5e9);
    summarise(results, row->count, rounds);
    bench_report_row(b, row, results, rounds);
    free(results);
}
