/* cuda_costs.c: see cuda_costs.h.
 * Layer: benchmarks. May include: <jit/jit.h>. */
#include "cuda_costs.h"
#include "bench_child.h"
#include "bench_report.h"
#include "cuda_work.h"

#include <stdio.h>
#include <time.h>

enum { SMALL = 1024, HOPS = 20, MOST_CALLS = 4096 };
static const double fill_ns = 5e6;

const char *const cuda_peer_names[CUDA_PEERS] = {"torch", "drjit", "cupy"};

void cuda_peers_add(bench_row *row, python_peer *const *peers, unsigned who, const char *work,
                    size_t n, python_work *works) {
    for (int k = 0; k < CUDA_PEERS; ++k) {
        works[k] = (python_work) {peers[k], work, n};
        if (who & 1u << k)
            bench_row_add(row, cuda_peer_names[k], peers[k] ? python_peer_sample : NULL, &works[k]);
    }
}

/* What is measured of an evaluation. */
typedef struct cost {
    cuda_work work;
    const char *graphs; /* value of the option cuda_graphs, or NULL */
    bool traced;        /* is the time for tracing part of it? */
    bool waited;        /* the time for waiting? */
    uint64_t seed;
} cost;

/* Trace, evaluate, wait, release; adds the wanted part of the time. */
static bool evaluate_once(const cost *c, double *total) {
    jit_scope_push();
    double start = bench_now();
    jit_var z = cuda_work_trace(&c->work);
    start = c->traced ? start : bench_now();
    bool good = jit_var_eval(z) == JIT_OK;
    double end = bench_now();
    good = good && jit_sync_thread() == JIT_OK;
    end = c->waited ? bench_now() : end;
    jit_scope_pop(0, NULL);
    *total += end - start;
    return good;
}

static double sample_cost(void *context) {
    cost *c = context;
    double total = 0;
    if (c->graphs && jit_set_option("cuda_graphs", c->graphs) != JIT_OK)
        return cuda_work_failed("cuda_graphs");
    c->work.calls = c->work.calls ? c->work.calls : 1;
    for (;; c->work.calls *= 2, total = 0) {
        for (size_t i = 0; i < c->work.calls; ++i)
            if (!evaluate_once(c, &total))
                return cuda_work_failed("evaluating");
        if (total >= fill_ns || c->work.calls >= MOST_CALLS)
            return total / (double) c->work.calls;
    }
}

static void measure_hops(bench *b, python_peer *const *peers, bool waited) {
    cost on = {.work = {.kind = CUDA_HOPS, .type = JIT_f32, .count = HOPS, .n = SMALL},
               .graphs = "1",
               .waited = waited};
    if (!cuda_work_prepare(&on.work))
        return;
    cost off = on;
    off.graphs = "0";
    bench_row row =
        bench_row_make(BENCH_US, (bench_goal) {waited ? 0 : 16, NULL}, "%d dependent kernels, %s",
                       HOPS, waited ? "evaluated and waited for" : "evaluated: CPU time");
    python_work works[CUDA_PEERS];
    bench_row_add(&row, "jitc", sample_cost, &on);
    bench_row_add(&row, "no graphs", sample_cost, &off);
    cuda_peers_add(&row, peers, 1u << CUDA_DRJIT, waited ? "hops_waited" : "hops", HOPS, works);
    bench_measure(b, &row);
    jit_set_option("cuda_graphs", "1");
    cuda_work_release(&on.work);
}

static void measure_retracing(bench *b, python_peer *const *peers) {
    static const struct {
        size_t operations;
        double goal;
    } rows[] = {{10, 12}, {100, 16}, {1000, 50}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        cost c = {
            .work = {.kind = CUDA_CHAIN, .type = JIT_f32, .count = rows[i].operations, .n = SMALL},
            .traced = true,
            .waited = true};
        bench_row row = bench_row_make(BENCH_US, (bench_goal) {rows[i].goal, NULL},
                                       "trace, evaluate, wait: %zu operations", c.work.count);
        python_work works[CUDA_PEERS];
        if (!bench_wants(b, row.name) || !cuda_work_prepare(&c.work))
            continue;
        bench_row_add(&row, "jitc", sample_cost, &c);
        cuda_peers_add(&row, peers, 1u << CUDA_DRJIT, "retrace", c.work.count, works);
        bench_measure(b, &row);
        cuda_work_release(&c.work);
    }
}

void cuda_costs_evaluate(bench *b, python_peer *const *peers) {
    cuda_work small = {.kind = CUDA_AXPY, .type = JIT_f32, .n = SMALL};
    python_work works[CUDA_PEERS];
    bench_row row = bench_row_make(BENCH_US, (bench_goal) {4.5, NULL},
                                   "2 x + y of %d, back to back, each", SMALL);
    if (cuda_work_prepare(&small)) {
        bench_row_add(&row, "jitc", cuda_work_sample, &small);
        cuda_peers_add(&row, peers, 7, "axpy:f32", SMALL, works);
        bench_measure(b, &row);
        cuda_work_release(&small);
    }
    measure_hops(b, peers, false);
    measure_hops(b, peers, true);
    measure_retracing(b, peers);
}

/* Evaluate `operations` that nobody has seen; with `again`, then forget the kernel in memory, and
 * the time counts from there: the kernel comes from disk. */
static double evaluate_new(cost *c, bool again) {
    double total = 0;
    bool good = true;
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    for (int round = 0; round <= again && good; ++round) {
        jit_scope_push();
        jit_var z = cuda_work_chain(&c->work, c->work.count, c->seed);
        good = round == 0 || jit_cache_clear_memory() == JIT_OK;
        double start = bench_now();
        good = good && jit_var_eval(z) == JIT_OK && jit_sync_thread() == JIT_OK;
        total = bench_now() - start;
        jit_scope_pop(0, NULL);
    }
    return good ? total : cuda_work_failed("compiling");
}

static double sample_cold(void *context) {
    return evaluate_new(context, false);
}

static double sample_disk(void *context) {
    return evaluate_new(context, true);
}

static void measure_first(bench *b, python_peer *const *peers, size_t operations, double goal,
                          bool disk) {
    cost c = {.work = {.kind = CUDA_CHAIN, .type = JIT_f32, .count = operations, .n = SMALL},
              .seed = (uint64_t) time(NULL) * 2654435761u};
    bench_row row =
        bench_row_make(BENCH_MS, (bench_goal) {goal, NULL}, "%s, %zu operations",
                       disk ? "kernel from the disk cache" : "first evaluation", operations);
    python_work works[CUDA_PEERS];
    if (!bench_wants(b, row.name) || !cuda_work_prepare(&c.work))
        return;
    bench_row_add(&row, "jitc", disk ? sample_disk : sample_cold, &c);
    if (!disk)
        cuda_peers_add(&row, peers, 1u << CUDA_DRJIT | 1u << CUDA_CUPY, "cold", operations, works);
    size_t rounds = bench_rounds(b);
    if (operations > 1000 && bench_effort(b) <= 0)
        bench_set_rounds(b, 3); /* seconds each, for all */
    bench_measure(b, &row);
    bench_set_rounds(b, rounds);
    cuda_work_release(&c.work);
}

void cuda_costs_compile(bench *b, python_peer *const *peers) {
    static const struct {
        size_t operations;
        double goal;
    } rows[] = {{10, 22}, {100, 24}, {1000, 46}, {10000, 400}};
    for (int disk = 0; disk < 2; ++disk)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
            measure_first(b, peers, rows[i].operations, disk ? 0.5 : rows[i].goal, disk);
    bench_note(b,
               "First evaluation: each sample is a new random program, so no cache of anybody has "
               "it; tracing is left out.");
}

void cuda_costs_start(bench *b, const char *self, bool drjit) {
    static char script[] = "import os\n"
                           "import drjit as dr\n"
                           "from drjit.cuda import Float\n"
                           "y = dr.arange(Float, 8) * 2 + 1\n"
                           "os.write(1, b'!' if y[7] == 15 else b'')\n"
                           "os._exit(0)";
    if (!bench_wants(b, "first result"))
        return;
    bench_child programs[2] = {{.who = "jitc"}, {.who = "drjit"}};
    bool installed[2] = {bench_child_init(&programs[0], self, "first_result_jitc_cuda", NULL),
                         drjit && bench_child_init(&programs[1], self, NULL, script)};
    for (int cold = 1; cold >= 0; --cold) {
        bench_row row = bench_row_make(BENCH_MS, (bench_goal) {0, NULL},
                                       "first result, %s disk cache", cold ? "cold" : "warm");
        for (int i = 0; i < 2; ++i) {
            programs[i].cold = cold;
            bench_row_add(&row, programs[i].who, installed[i] ? bench_child_sample : NULL,
                          &programs[i]);
        }
        bench_measure(b, &row);
    }
    bench_note(b,
               "First result: from before fork() until the child writes a byte; z = 2 x + 1 on 8 "
               "elements; Python and its imports are part of the peer's.");
    for (int i = 0; i < 2; ++i)
        bench_child_finish(&programs[i]);
}
