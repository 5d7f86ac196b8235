/* bench_sync_modes.c: every way to let a stream of somebody else wait for our arrays: what the call
 * costs, and how fast a pipeline is; beside a program written by hand with the driver.
 * Layer: benchmarks. May include: <jit/jit.h>.
 *
 * --quick tries the program: a few steps of little work. BENCH_STEP_LIMIT: seconds after which a
 * sample is given up, and the program with it (60). */
#include "bench.h"
#include "sync_modes/calls.h"
#include "sync_modes/pipeline.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const sync_mode modes[] = {
    {.name = "handle", .order = SYNC_HANDLE},
    {.name = "by hand", .order = SYNC_BY_HAND},
    {.name = "-1", .token = JIT_STREAM_NONE, .unordered = true},
    {.name = "none",
     .token = JIT_STREAM_NOT_GIVEN,
     .consumer = SYNC_LEGACY_STREAM,
     .both_ways = true},
    {.name = "0", .token = 0, .waits = true},
    {.name = "1", .token = JIT_STREAM_LEGACY, .consumer = SYNC_LEGACY_STREAM, .both_ways = true},
    {.name = "2", .token = JIT_STREAM_PER_THREAD, .consumer = SYNC_PER_THREAD_STREAM},
    {.name = "device", .order = SYNC_DEVICE, .waits = true},
    {.name = "context", .order = SYNC_CONTEXT, .waits = true},
};
enum { MODES = sizeof modes / sizeof *modes };

static const double sizes_us[] = {10, 30, 100, 300, 1000, 3000, 10000};
static const unsigned thread_counts[] = {1, 2, 4, 8};
enum { SIZES = sizeof sizes_us / sizeof *sizes_us, COUNTS = 4, CALL_ROUNDS = 15 };
static const double busy_us = 10000, small_us = 1;

typedef struct session {
    bench *bench;
    sync_gpu gpu;
    bool failed, bad; /* bad: the order was not what the modes promise */
} session;

/* ---- a limit of time ---- */

/* An entry of a row, whose samples may not take for ever. */
typedef struct guarded {
    const char *row, *mode;
    double (*sample)(void *context);
    void (*describe)(void *context, FILE *json);
    void *context;
    bool *failed; /* becomes true */
} guarded;

static char doing[128]; /* what the signal's handler says */

static void give_up(int signal) {
    static const char end[] = ": not over within BENCH_STEP_LIMIT seconds, given up; the JSON file "
                              "has what came before\n";
    (void) signal;
    if (write(STDERR_FILENO, doing, strlen(doing)) >= 0 &&
        write(STDERR_FILENO, end, sizeof end - 1) >= 0)
        _exit(3);
    _exit(4);
}

static void watch(const char *what, const char *mode) {
    const char *limit = getenv("BENCH_STEP_LIMIT");
    int seconds = limit ? atoi(limit) : 60;
    snprintf(doing, sizeof doing, "%s: %s", what, mode);
    signal(SIGALRM, give_up);
    alarm(seconds > 0 ? (unsigned) seconds : 0);
}

static double sample_guarded(void *context) {
    guarded *g = context;
    watch(g->row, g->mode);
    double ns = g->sample(g->context);
    alarm(0);
    if (ns < 0) {
        fprintf(stderr, "%s: %s has failed\n", g->row, g->mode);
        *g->failed = true;
    }
    return ns;
}

static void describe_guarded(void *context, FILE *json) {
    guarded *g = context;
    if (g->describe)
        g->describe(g->context, json);
}

static void add_entry(bench_row *row, guarded *g) {
    bench_row_add(row, g->mode, sample_guarded, g);
    row->entries[row->count - 1].describe = describe_guarded;
}

/* ---- the call ---- */

static void measure_calls(session *s, sync_lane *lane, bool busy, bool processor) {
    sync_work long_work = sync_work_of(&s->gpu, busy_us), small = sync_work_of(&s->gpu, small_us);
    sync_call calls[MODES];
    guarded entries[MODES];
    bench_row row = bench_row_make(BENCH_NS, (bench_goal) {busy || !processor ? 800 : 0, NULL},
                                   "call, %s stream, %s", busy ? "busy" : "idle",
                                   processor ? "processor time" : "time");
    snprintf(row.members, sizeof row.members, "\"kind\": \"call\", \"busy\": %s, \"cpu\": %s, ",
             busy ? "true" : "false", processor ? "true" : "false");
    for (int k = 0; k < MODES; ++k) {
        calls[k] = (sync_call) {.lane = lane,
                                .mode = &modes[k],
                                .busy = busy ? &long_work : NULL,
                                .small = &small,
                                .processor = processor};
        entries[k] =
            (guarded) {row.name, modes[k].name, sync_call_sample, NULL, &calls[k], &s->failed};
        add_entry(&row, &entries[k]);
    }
    bench_measure(s->bench, &row);
}

static bool measure_all_calls(session *s) {
    sync_lane lane;
    watch("calls", "preparing");
    bool good = sync_lane_init(&lane, &s->gpu, SYNC_MOST_THREADS);
    alarm(0);
    for (int busy = 0; busy < 2 && good; ++busy)
        for (int processor = 0; processor < 2; ++processor)
            measure_calls(s, &lane, busy, processor);
    sync_lane_finish(&lane);
    return good;
}

/* ---- the pipeline ---- */

/* Stale reads are luck; the simulated driver also knows what was not ordered, whatever happened. */
static void check_order(session *s, const char *row, const sync_pipeline *p) {
    bool known = s->gpu.driver->races != NULL;
    if (p->tally.stale > 0 && !p->mode->unordered)
        fprintf(stderr, "%s: %s: %.0f of %.0f steps have read what was not there yet\n", row,
                p->mode->name, p->tally.stale, p->tally.steps);
    else if (known && p->mode->unordered != (p->races > 0))
        fprintf(stderr, "%s: %s: %u accesses were not ordered\n", row, p->mode->name, p->races);
    else
        return;
    s->bad = true;
}

static void measure_pipeline(session *s, sync_team *team, unsigned threads, double microseconds) {
    sync_work w = sync_work_of(&s->gpu, microseconds);
    sync_pipeline pipelines[MODES];
    guarded entries[MODES];
    bench_row row = bench_row_make(BENCH_FREQUENCY, (bench_goal) {1, "by hand"},
                                   "steps of %g us, T=%u", microseconds, threads);
    snprintf(row.members, sizeof row.members,
             "\"kind\": \"rate\", \"work_us\": %g, \"threads\": %u, ", microseconds, threads);
    if (!bench_wants(s->bench, row.name))
        return;
    for (int k = 0; k < MODES; ++k) {
        pipelines[k] = (sync_pipeline) {.team = team,
                                        .mode = &modes[k],
                                        .work = &w,
                                        .threads = threads,
                                        .fill_ns = bench_effort(s->bench) > 0 ? 50e6 : 15e6};
        entries[k] =
            (guarded) {row.name,      modes[k].name, sync_pipeline_sample, sync_pipeline_describe,
                       &pipelines[k], &s->failed};
        if (bench_effort(s->bench) < 0)
            pipelines[k].steps = 3 * SYNC_DEPTH, pipelines[k].bursts = 1;
        add_entry(&row, &entries[k]);
    }
    bench_measure(s->bench, &row);
    for (int k = 0; k < MODES; ++k)
        check_order(s, row.name, &pipelines[k]);
}

/* A team for each number of threads: the GPU keeps only so many streams apart. */
static bool measure_team(session *s, unsigned threads, int sizes) {
    watch("pipelines", "starting the threads");
    sync_team *team = sync_team_create(&s->gpu, threads);
    alarm(0);
    for (int k = 0; k < sizes && team; ++k)
        measure_pipeline(s, team, threads, sizes_us[k]);
    watch("pipelines", "ending the threads");
    sync_team_destroy(team);
    alarm(0);
    return team != NULL;
}

static bool measure_pipelines(session *s) {
    bool quick = bench_effort(s->bench) < 0, good = true;
    for (int t = 0; t < (quick ? 2 : COUNTS) && good; ++t)
        good = measure_team(s, thread_counts[t], quick ? 2 : SIZES);
    return good;
}

static bool begin(session *s, int argc, char **argv) {
    const char *who[MODES + 1] = {NULL};
    for (int k = 0; k < MODES; ++k)
        who[k] = modes[k].name;
    /* With the usual eight, streams of different threads wait for each other. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    if (jit_init(JIT_CUDA) != JIT_OK)
        return sync_failed("jit_init");
    s->bench = bench_create("sync_modes", who, argc, argv);
    if (!s->bench)
        return false;
    watch("start", "compiling and calibrating");
    /* First an array of the library: it finds the compiler. */
    jit_var start = sync_work_start();
    jit_var first = sync_work_trace(&(sync_work) {.pieces = 1, .traced = {1, 2}}, start, 0);
    bool good = first != 0 && sync_gpu_open(&s->gpu);
    jit_unref(first);
    jit_unref(start);
    good = good && (bench_effort(s->bench) < 0 || sync_gpu_calibrate(&s->gpu));
    alarm(0);
    return good;
}

static void note(session *s) {
    char text[400];
    cuda_device_describe(s->gpu.device, text, sizeof text);
    bench_note(s->bench, "%s", text);
    bench_note(s->bench,
               "A step: a kernel of that length writes an array of %d doubles, a kernel as long "
               "checks every element and works; T threads, each with its streams, %d arrays in "
               "flight.",
               SYNC_ELEMENTS, SYNC_DEPTH);
    bench_note(s->bench,
               "Columns: the token given to jit_cuda_sync_stream(); handle: a non-blocking stream; "
               "by hand: the same with the driver, without jitc; device: jit_sync_device(); "
               "context: cuCtxSynchronize(). none and 1 consume on the legacy default stream, 2 on "
               "the thread's, all others on a non-blocking one.");
    bench_note(s->bench,
               "Nanoseconds of a bit of fmod: %.3g by hand; traced: %.3g in a chain of 1, %.3g in "
               "one of %d.",
               s->gpu.written_ns, s->gpu.traced_ns[1], s->gpu.traced_ns[SYNC_LONGEST_CHAIN],
               SYNC_LONGEST_CHAIN);
}

int main(int argc, char **argv) {
    session s = {0};
    bool good = begin(&s, argc, argv);
    if (good) {
        int effort = bench_effort(s.bench);
        note(&s);
        bench_set_budget(s.bench, effort > 0 ? 2 : effort < 0 ? 0 : 0.1);
        bench_set_rounds(s.bench, effort > 0 ? 15 : effort < 0 ? 1 : CALL_ROUNDS);
        good = measure_all_calls(&s);
        bench_set_rounds(s.bench, effort > 0 ? 15 : effort < 0 ? 1 : 6);
        good = measure_pipelines(&s) && good;
    }
    watch("end", "shutting down");
    sync_gpu_close(&s.gpu);
    jit_shutdown();
    int status = s.bench ? bench_destroy(s.bench) : 2;
    return !good || s.failed ? 2 : s.bad ? 1 : status;
}
