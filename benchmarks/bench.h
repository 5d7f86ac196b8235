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
#include <stdio.h>

/* BENCH_RATE: 10^9 bytes per second; BENCH_FREQUENCY: 1/s. Samples are times, as for the others. */
typedef enum bench_unit {
    BENCH_NS,
    BENCH_US,
    BENCH_MS,
    BENCH_BYTES,
    BENCH_RATE,
    BENCH_FREQUENCY
} bench_unit;

/* One way to do the work of a row. */
typedef struct bench_entry {
    const char *who;
    /* One sample, in nanoseconds or bytes; negative if it failed. NULL: not installed. */
    double (*sample)(void *context);
    void *context;
    /* NULL, or prints what else is known, after all samples: further members of the entry's object
     * in the JSON file, each with a comma in front. */
    void (*describe)(void *context, FILE *json);
} bench_entry;

/* `factor` times the figure of the entry `of` ("best": of the best other entry; NULL: times one
 * unit), at most; a rate: at least. */
typedef struct bench_goal {
    double factor;
    const char *of;
} bench_goal;

enum { BENCH_ENTRIES = 10 };

typedef struct bench_row {
    char name[64];
    bench_unit unit;
    bench_goal goal;  /* factor 0: none */
    double bytes;     /* BENCH_RATE: what one sample's time moves */
    char members[96]; /* further members of its object in the JSON file, each with a comma behind */
    size_t count;
    bench_entry entries[BENCH_ENTRIES];
} bench_row;

typedef struct bench bench;

/* Start the report of benchmark `name`, with the columns `who` (ended by NULL). Understands
 * --json FILE, --budget SECONDS (per row), --only TEXT (rows whose name contains it), --long and
 * --quick. The file is written anew after each row: what ends early leaves what it has. NULL, after
 * a message, for wrong arguments. */
bench *bench_create(const char *name, const char *const *who, int argc, char **argv);
/* How much is wanted: 0 as usual; 1 (--long) also what takes minutes and tells little; -1 (--quick)
 * next to nothing, to try the program itself. */
int bench_effort(const bench *b);
/* Would bench_measure() take a row of this name? Lets a program skip costly preparation. */
bool bench_wants(const bench *b, const char *row);
/* Sample the entries of a row in turn and print its line. */
void bench_measure(bench *b, const bench_row *row);
/* Print a remark below the table, and keep it in the JSON file. */
void bench_note(bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Free b. Returns the exit status of the program: not 0 if the JSON file could not be written. */
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
/* Rounds that the rows from here on take at least, also where they last longer than that. */
void bench_set_rounds(bench *b, size_t rounds);

/* Nanoseconds of a clock that never goes back. */
double bench_now(void);
/* Nanoseconds per call of body(context): one call for warming up, then as many as fill `fill_ns`.
 */
double bench_per_call(void (*body)(void *context), void *context, double fill_ns);
/* The same of body(context, calls), which does it `calls` times and waits: as many as fill 5 ms, at
 * most 4096. *calls is where to start, and where the next sample does; 0: with a call for warming
 * up. Negative if the body is false. */
double bench_per_batch(bool (*body)(void *context, size_t calls), void *context, size_t *calls);
/* Wait until no other thread of the process uses the processor (a peer's spinning workers, a
 * compilation in the background), for at most ten seconds. */
void bench_settle(void);
/* Resident memory of the process in bytes. */
double bench_resident(void);
/* Processor time of the calling thread in nanoseconds. */
double bench_thread_time(void);
/* Copy the first line of file `path` that contains `key`, from its first `from` on, to `text`.
 * False, and "unknown", if there is none. */
bool bench_find_line(const char *path, const char *key, char from, char *text, size_t size);

#endif
