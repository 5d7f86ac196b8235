/* bench_report.c: the table on the terminal (a Markdown table) and the JSON file.
 * Layer: benchmarks. May include: nothing of the library. */
#include "bench_report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MAX_COLUMNS = 10, CELL = 15, NAME = 44, LEAST_ROUNDS = 7 };

struct bench {
    const char *name, *json_path, *only;
    const char *columns[MAX_COLUMNS];
    size_t column_count, rows, notes;
    double budget, load;       /* load: of the whole machine, at the start */
    bool budget_given, failed; /* failed: the file could not be written */
    size_t least_rounds;
    int effort;
    char *row_text,
        *note_text; /* JSON of the rows and notes so far, written through the two files */
    size_t row_size, note_size;
    FILE *row_file, *note_file;
    char notes_plain[2048];
};

static const struct {
    const char *name;
    double size;
} units[] = {{"ns", 1}, {"µs", 1e3}, {"ms", 1e6}, {"bytes", 1}, {"GB/s", 1}, {"1/s", 1}};

static bool is_rate(const bench_row *row) {
    return row->unit == BENCH_RATE || row->unit == BENCH_FREQUENCY;
}

/* A sample in the unit of its row. */
static double figure_of(const bench_row *row, double sample) {
    return row->unit == BENCH_RATE        ? row->bytes / sample
           : row->unit == BENCH_FREQUENCY ? 1e9 / sample
                                          : sample / units[row->unit].size;
}

static bool parse_arguments(bench *b, int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(argv[i], "--long") || !strcmp(argv[i], "--quick"))
            b->effort = !strcmp(argv[i], "--long") ? 1 : -1;
        else if (value && !strcmp(argv[i], "--json"))
            b->json_path = value, ++i;
        else if (value && !strcmp(argv[i], "--only"))
            b->only = value, ++i;
        else if (value && !strcmp(argv[i], "--budget"))
            b->budget_given = true, b->budget = strtod(value, NULL), ++i;
        else {
            fprintf(stderr,
                    "usage: %s [--json FILE] [--budget SECONDS] [--only TEXT] [--long | --quick]\n",
                    argv[0]);
            return false;
        }
    }
    return true;
}

static void print_rule(size_t columns) {
    printf("|---|---|");
    for (size_t i = 0; i < columns; ++i)
        printf("--:|");
    printf("---|---|\n");
}

bench *bench_create(const char *name, const char *const *who, int argc, char **argv) {
    bench *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->name = name;
    b->budget = 2;
    b->least_rounds = LEAST_ROUNDS;
    if (getloadavg(&b->load, 1) == 1 && b->load > 0.5)
        fprintf(stderr, "The machine is busy (load %.1f): rows with two threads will suffer.\n",
                b->load);
    if (!parse_arguments(b, argc, argv)) {
        free(b);
        return NULL;
    }
    b->row_file = open_memstream(&b->row_text, &b->row_size);
    b->note_file = open_memstream(&b->note_text, &b->note_size);
    for (; who[b->column_count] && b->column_count < MAX_COLUMNS; ++b->column_count)
        b->columns[b->column_count] = who[b->column_count];
    printf("\n| %-*s | unit  |", NAME, name);
    for (size_t i = 0; i < b->column_count; ++i)
        printf(" %*s |", CELL, b->columns[i]);
    printf(" ratio to peer   | goal\n");
    print_rule(b->column_count);
    return b;
}

void bench_set_budget(bench *b, double seconds) {
    b->budget = b->budget_given ? b->budget : seconds;
}

double bench_budget(const bench *b) {
    return b->budget;
}

void bench_set_rounds(bench *b, size_t rounds) {
    b->least_rounds = rounds;
}

size_t bench_rounds(const bench *b) {
    return b->least_rounds;
}

int bench_effort(const bench *b) {
    return b->effort;
}

bool bench_wants(const bench *b, const char *row) {
    return !b->only || strstr(row, b->only);
}

static bool usable(const bench_result *r) {
    return r->present && !r->failed;
}

static size_t find_entry(const bench_row *row, const char *who) {
    size_t k = 0;
    while (k < row->count && strcmp(row->entries[k].who, who) != 0)
        ++k;
    return k;
}

/* The entry that the first one is compared with: the one the goal names, else the fastest. A copy
 * of memory is a limit and no rival. */
static size_t rival(const bench_row *row, const bench_result *results) {
    if (row->goal.of && strcmp(row->goal.of, "best") != 0) {
        size_t k = find_entry(row, row->goal.of);
        return k < row->count && usable(&results[k]) ? k : row->count;
    }
    size_t best = row->count;
    for (size_t k = 1; k < row->count; ++k)
        if (usable(&results[k]) && strcmp(row->entries[k].who, "memcpy") != 0 &&
            (best == row->count || results[k].time.lower < results[best].time.lower))
            best = k;
    return best;
}

static void print_cell(const bench_row *row, const bench_result *results, const char *who) {
    char text[48];
    size_t k = find_entry(row, who);
    if (k == row->count)
        snprintf(text, sizeof text, "-");
    else if (!results[k].present)
        snprintf(text, sizeof text, "not installed");
    else if (results[k].failed)
        snprintf(text, sizeof text, "failed");
    else {
        const bench_quantiles *q = &results[k].time;
        double figure = figure_of(row, q->lower);
        double spread = 50 * (q->upper - q->lower) / q->median;
        snprintf(text, sizeof text, "%.3g +-%.0f%%", figure, spread);
        if (figure >= 1000)
            snprintf(text, sizeof text, "%.0f +-%.0f%%", figure, spread);
    }
    printf(" %*s |", CELL, text);
}

/* Absolute goals are in the row's unit; relative ones are ratios of times. */
static void print_goal(const bench_row *row, const bench_result *results, size_t other) {
    const bench_goal *goal = &row->goal;
    size_t copy = find_entry(row, "memcpy");
    bool judged = usable(&results[0]) && (!goal->of || other < row->count);
    if (goal->factor > 0) {
        bool rate = is_rate(row) && !goal->of;
        double reached = !judged    ? 0
                         : goal->of ? results[other].ratio.median
                                    : figure_of(row, results[0].time.lower);
        bool met = rate ? reached >= goal->factor : reached <= goal->factor;
        printf(" %s %g %s%s", rate ? ">=" : "<=", goal->factor,
               goal->of ? goal->of : units[row->unit].name,
               !judged ? ""
               : met   ? ", met"
                       : ", MISSED");
    }
    if (copy < row->count && usable(&results[copy]) && usable(&results[0]))
        printf(" (%.2f of memcpy)", 1 / results[copy].ratio.median);
    printf(" |\n");
}

static void print_line(const bench *b, const bench_row *row, const bench_result *results) {
    /* Units with a two-byte letter need one byte more to come out in the same width. */
    int width = row->unit == BENCH_US ? 6 : 5;
    printf("| %-*s | %-*s |", NAME, row->name, width, units[row->unit].name);
    for (size_t i = 0; i < b->column_count; ++i)
        print_cell(row, results, b->columns[i]);
    size_t other = rival(row, results);
    if (other < row->count && usable(&results[0]))
        printf(" %5.2f of %-6s |", results[other].ratio.median, row->entries[other].who);
    else
        printf(" %15s |", "");
    print_goal(row, results, other);
    fflush(stdout);
}

static void write_quantiles(FILE *out, const char *name, const bench_quantiles *q) {
    fprintf(out,
            "\"%s\": {\"min\": %.6g, \"p25\": %.6g, \"p50\": %.6g, \"p75\": %.6g, \"max\": %.6g}",
            name, q->least, q->lower, q->median, q->upper, q->greatest);
}

/* Quantiles of times in the row's unit. The least rate is that of the greatest time. */
static bench_quantiles figures_of(const bench_row *row, const bench_quantiles *q) {
    bool rate = is_rate(row);
    return (bench_quantiles) {.least = figure_of(row, rate ? q->greatest : q->least),
                              .lower = figure_of(row, rate ? q->upper : q->lower),
                              .median = figure_of(row, q->median),
                              .upper = figure_of(row, rate ? q->lower : q->upper),
                              .greatest = figure_of(row, rate ? q->least : q->greatest)};
}

static void write_entry(FILE *out, const bench_row *row, const bench_result *r, size_t k) {
    fprintf(out, "%s\n      {\"who\": \"%s\", ", k ? "," : "", row->entries[k].who);
    if (!r->present)
        fprintf(out, "\"state\": \"not installed\"}");
    else if (r->failed)
        fprintf(out, "\"state\": \"failed\"}");
    else {
        bench_quantiles figures = figures_of(row, &r->time);
        write_quantiles(out, "figure", &figures);
        fprintf(out, ", ");
        write_quantiles(out, "ratio", &r->ratio);
        if (row->entries[k].describe)
            row->entries[k].describe(row->entries[k].context, out);
        fprintf(out, "}");
    }
}

/* Print as JSON the text that follows ':' in the first line of `path` that contains `key`. */
static void write_line_of(FILE *out, const char *path, const char *key, char separator) {
    char line[512], *found = NULL;
    FILE *file = fopen(path, "r");
    while (file && !found && fgets(line, sizeof line, file))
        found = strstr(line, key) ? strrchr(line, separator) : NULL;
    if (file)
        fclose(file);
    if (found) {
        found += 1 + (found[1] == ' ');
        found[strcspn(found, "\n\"\\")] = '\0';
    }
    fprintf(out, "\"%s\"", found ? found : "unknown");
}

static void write_machine(FILE *out, const bench *b) {
    struct utsname system;
    const char *revision = getenv("BENCH_REVISION");
    uname(&system);
    fprintf(out, "  \"machine\": {\"processor\": ");
    write_line_of(out, "/proc/cpuinfo", "model name", ':');
    fprintf(out,
            ", \"cores\": %ld, \"system\": \"%s %s %s\", \"llvm\": ", sysconf(_SC_NPROCESSORS_ONLN),
            system.sysname, system.release, system.machine);
    write_line_of(out, "/proc/self/maps", "libLLVM", '/');
    fprintf(out, ", \"compiler\": \"%s\", \"revision\": \"%s\", \"load\": %.2f},\n", __VERSION__,
            revision ? revision : "unknown", b->load);
}

static bool write_json(const bench *b, const char *path) {
    FILE *out = fopen(path, "w");
    if (!out)
        return false;
    fprintf(out, "{\n  \"benchmark\": \"%s\",\n", b->name);
    write_machine(out, b);
    fprintf(out,
            "  \"method\": \"entries take turns, %g s or %d rounds for a row, in a rotating order; "
            "figures are lower quartiles, ratios are medians of jitc / peer within a round\",\n",
            b->budget, BENCH_ROUNDS);
    fprintf(out, "  \"notes\": [%s],\n", b->note_text);
    fprintf(out, "  \"rows\": [%s\n  ]\n}\n", b->row_text);
    return fclose(out) == 0;
}

/* What there is so far, in place of the former file: there is a whole one at any time. */
static void save(bench *b) {
    char part[4096];
    fflush(b->row_file);
    fflush(b->note_file);
    if (!b->json_path || b->failed)
        return;
    snprintf(part, sizeof part, "%s.part", b->json_path);
    b->failed = !write_json(b, part) || rename(part, b->json_path) != 0;
    if (b->failed)
        fprintf(stderr, "%s: cannot be written\n", b->json_path);
}

void bench_report_row(bench *b, const bench_row *row, const bench_result *results, size_t rounds) {
    print_line(b, row, results);
    FILE *out = b->row_file;
    fprintf(out, "%s\n    {\"name\": \"%s\", \"unit\": \"%s\", \"rounds\": %zu, %s",
            b->rows++ ? "," : "", row->name, units[row->unit].name, rounds, row->members);
    if (row->goal.factor > 0)
        fprintf(out, "\"goal\": {\"factor\": %g, \"of\": \"%s\"}, ", row->goal.factor,
                row->goal.of ? row->goal.of : "unit");
    fprintf(out, "\"entries\": [");
    for (size_t k = 0; k < row->count; ++k)
        write_entry(out, row, &results[k], k);
    fprintf(out, "]}");
    save(b);
}

void bench_note(bench *b, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(b->note_file, "%s\n    \"%s\"", b->notes++ ? "," : "", text);
    size_t used = strlen(b->notes_plain);
    snprintf(b->notes_plain + used, sizeof b->notes_plain - used, "%s\n", text);
    save(b);
}

int bench_destroy(bench *b) {
    printf("\n%s", b->notes_plain);
    save(b);
    int status = b->failed;
    fclose(b->row_file);
    fclose(b->note_file);
    free(b->row_text);
    free(b->note_text);
    free(b);
    return status;
}
