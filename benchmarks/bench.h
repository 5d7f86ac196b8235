/* bench.h: what every benchmark shares: a clock, alternating samples, quantiles, the report.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * A benchmark is a list of rows. A row is one quantity, measured on several entries (this library
 * and its peers) that do the same work. Clocks of shared machines change by a third from one second
 * to the next, so the entries of a row take turns, sample by sample, and ratios are formed within
 * one turn. */
#ifndef BENCH_H
#define BENCH_H
#include <stdbool.h>
#include <stddef.h>

/* BENCH_RATE: 10^9 bytes per second; samples are times, as for the others. */
typedef enum bench_unit { BENCH_NS, BENCH_US, BENCH_MS, BENCH_BYTES, BENCH_RATE } bench_unit;

/* One way to do the work of a row. */
typedef struct bench_entry {
    const char *who;
    /* One sample, in nanoseconds or bytes; negative if it failed. NULL: not installed. */
    double (*sample)(void *context);
    void *context;
} bench_entry;

/* `factor` times the figure of the entry `of` ("best": of the best other entry; NULL: times one
 * unit), at most; a rate: at least. */
typedef struct bench_goal {
    double factor;
    const char *of;
} bench_goal;

enum { BENCH_ENTRIES = 6 };

typedef struct bench_row {
    char name[64];
    bench_unit unit;
    bench_goal goal; /* factor 0: none */
    double bytes;    /* BENCH_RATE: what one sample's time moves */
    size_t count;
    bench_entry entries[BENCH_ENTRIES];
} bench_row;

typedef struct bench bench;

/* Start the report of benchmark `name`, with the columns `who` (ended by NULL). Understands
 * --json FILE, --budget SECONDS (per row) and --only TEXT (rows whose name contains it). NULL,
 * after a message, for wrong arguments. */
bench *bench_create(const char *name, const char *const *who, int argc, char **argv);
/* Would bench_measure() take a row of this name? Lets a program skip costly preparation. */
bool bench_wants(const bench *b, const char *row);
/* Sample the entries of a row in turn and print its line. */
void bench_measure(bench *b, const bench_row *row);
/* Print a remark below the table, and keep it in the JSON file. */
void bench_note(bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Write the JSON file and free b. Returns the exit status of the program. */
int bench_destroy(bench *b);

/* A row without entries, its name printed from `format`. */
bench_row bench_row_make(bench_unit unit, bench_goal goal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A row of rates. `goal`: GB/s, or 0. */
bench_row bench_row_rate(double bytes, double goal, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void bench_row_add(bench_row *row, const char *who, double (*sample)(void *), void *context);

/* Seconds that the rows from here on may take, unless --budget says so for all of them. */
void bench_set_budget(bench *b, double seconds);

/* Nanoseconds of a clock that never goes back. */
double bench_now(void);
/* Nanoseconds per call of body(context): one call for warming up, then as many as fill `fill_ns`.
 */
double bench_per_call(void (*body)(void *context), void *context, double fill_ns);
/* Wait until no other thread of the process uses the processor (a peer's spinning workers, a
 * compilation in the background), for at most ten seconds. */
void bench_settle(void);
/* Resident memory of the process in bytes. */
double bench_resident(void);

#endif
