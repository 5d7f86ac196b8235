/* bench_report.h: between sampling and reporting.
 * Layer: benchmarks. May include: nothing of the library. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H
#include "bench.h"

enum { BENCH_ROUNDS = 41 };

typedef struct bench_quantiles {
    double least, lower, median, upper, greatest;
} bench_quantiles;

/* What one entry of a row gave. `ratio`: first entry's sample / this one's, round by round. */
typedef struct bench_result {
    bool present, failed;
    bench_quantiles time, ratio;
    double samples[BENCH_ROUNDS];
} bench_result;

/* Seconds that a row may take. */
double bench_budget(const bench *b);
/* Rounds that it takes at least. */
size_t bench_rounds(const bench *b);
/* Print the line of a row and keep its JSON text. */
void bench_report_row(bench *b, const bench_row *row, const bench_result *results, size_t rounds);

#endif
