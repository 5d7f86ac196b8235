/* test_sync_real.c: what sync_table.c predicts, on a real GPU: our kernels take about 10 ms, and a
 * stream of somebody else reads what they write as soon as a token was given.
 *
 * Prints, as a page of Markdown, who has read new data and who old data, and how long the call has
 * held the CPU. Fails where data is old that must be new; that it is old where nothing orders the
 * two is told, since time alone makes it so.
 * usage: test_sync_real [simulated]     without a GPU it says so, and its exit status is 77;
 *                                       "simulated": the simulated driver will do */
#include "support.h"
#include "sync_table.h"
#include <jit/cuda.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { READ = 1024, ROUNDS = 3, SKIPPED = 77, PRODUCER_US = 10000 };

static size_t size;    /* of the array; its last READ words are read, which are written last */
static uint32_t steps; /* of the kernels: x = a x + c, so often that they take PRODUCER_US */
static bool failed;

typedef struct result {
    int fresh, old; /* reads */
    double held[ROUNDS * CONSUMER_KINDS];
    int count;
} result;

__attribute__((format(printf, 1, 2))) _Noreturn static void stop(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void must_be_ok(jit_status status, const char *what) {
    if (status != JIT_OK)
        stop("%s: %s", what, jit_error());
}
static jit_var must(jit_var v) {
    return v ? v : (stop("%s", jit_error()), v);
}

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e6 + (double) t.tv_nsec * 1e-3;
}

/* ---- The producer ---- */

static const uint32_t factor = 1664525, summand = 1013904223;

static uint32_t after_steps(uint32_t x) {
    uint32_t a = 1, c = 0; /* of the whole: x -> a x + c */
    for (uint32_t i = 0; i < steps; ++i) {
        a *= factor;
        c = c * factor + summand;
    }
    return a * x + c;
}

/* The array first, first + 1, ... after the steps; queued. */
static jit_var produce(uint32_t first) {
    jit_scope_push();
    jit_var a = must(jit_u32(JIT_CUDA, factor)), c = must(jit_u32(JIT_CUDA, summand));
    jit_var v = must(jit_add(jit_counter(JIT_CUDA, size), jit_u32(JIT_CUDA, first)));
    for (uint32_t i = 0; i < steps; ++i)
        v = must(jit_add(jit_mul(v, a), c));
    must_be_ok(jit_scope_pop(1, &v), "jit_scope_pop");
    must_be_ok(jit_var_eval(v), "jit_var_eval");
    return v;
}

static double time_of_producer(void) {
    must_be_ok(jit_sync_thread(), "jit_sync_thread");
    double begin = now_us();
    jit_var v = produce(1);
    must_be_ok(jit_sync_thread(), "jit_sync_thread");
    double taken = now_us() - begin;
    jit_unref(v);
    return taken;
}

static void choose_steps(bool simulated) {
    size = simulated ? READ : 16 << 20;
    steps = simulated ? 4 : 200;
    must_be_ok(jit_set_option("kernel_ops", "200"), "kernel_ops");
    for (int i = 0; i < 8 && !simulated; ++i) {
        time_of_producer(); /* compiles */
        double us = time_of_producer();
        if (us > (double) PRODUCER_US)
            break;
        steps = (uint32_t) (steps * 1.2 * (double) PRODUCER_US / us);
    }
}

/* ---- Reading after us, and writing before us ---- */

static uint32_t next_first(void) {
    static uint32_t first;
    return first += 1000003; /* what an earlier case left in the memory is something else */
}

static bool is_fresh(const uint32_t *got, uint32_t first) {
    for (uint32_t i = 0; i < READ; i += 101)
        if (got[i] != after_steps(first + (uint32_t) size - READ + i))
            return false;
    return true;
}

static double give(jit_status (*function)(uintptr_t), sync_token t, const consumer *c) {
    uintptr_t stream = sync_token_value(t, c);
    double begin = now_us();
    must_be_ok(function(stream), "the token");
    return now_us() - begin;
}

static void note(result *r, bool fresh, double held) {
    ++*(fresh ? &r->fresh : &r->old);
    r->held[r->count++] = held;
}

static void read_once(consumer *c, sync_token t, result *r) {
    void *pointer;
    uint32_t first = next_first();
    jit_var v = produce(first);
    must_be_ok(jit_data(v, &pointer), "jit_data");
    double held = give(jit_cuda_sync_stream, t, c);
    consumer_read(c, (uint32_t *) pointer + size - READ, READ);
    consumer_wait(c);
    note(r, is_fresh(consumer_data(c), first), held);
    must_be_ok(jit_sync_thread(), "jit_sync_thread");
    jit_unref(v);
}

static void write_once(consumer *c, sync_token t, result *r) {
    void *pointer;
    uint32_t word = next_first(), got;
    jit_scope_push();
    jit_var x = must(jit_add(jit_counter(JIT_CUDA, READ), jit_u32(JIT_CUDA, next_first())));
    must_be_ok(jit_data(x, &pointer), "jit_data");
    must_be_ok(jit_sync_thread(), "jit_sync_thread");
    consumer_delay(c, PRODUCER_US);
    consumer_write(c, pointer, word, READ);
    double held = give(jit_cuda_wait_stream, t, c);
    jit_var y = must(jit_add(x, jit_u32(JIT_CUDA, 5)));
    must_be_ok(jit_read_range(y, READ - 1, 1, &got), "jit_read_range");
    note(r, got == word + 5, held);
    consumer_wait(c);
    must_be_ok(jit_scope_pop(0, NULL), "jit_scope_pop");
}

/* ---- Tables ---- */

typedef struct table {
    bool writes; /* the consumer */
    sync_how how;
    consumer_place place;
} table;

static bool must_be_fresh(const table *t, sync_token token, consumer_kind k) {
    return (t->writes ? sync_orders_writer : sync_orders_reader)(token, t->how, t->place, k);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static void run_cell(const table *t, sync_token token, consumer_kind k, result *row) {
    result r = {0};
    consumer *c = consumer_create(k, t->place, 0, READ, t->how != SYNC_ONE_THREAD);
    for (int i = 0; i < ROUNDS; ++i)
        (t->writes ? write_once : read_once)(c, token, &r);
    consumer_destroy(c);
    bool ordered = must_be_fresh(t, token, k), wrong = ordered && r.old;
    printf(" %s |", wrong ? "**OLD**" : ordered ? "new" : r.fresh ? "new by chance" : "old");
    failed = failed || wrong;
    memcpy(row->held + row->count, r.held, (size_t) r.count * sizeof *r.held);
    row->count += r.count;
}

static void run_table(const table *t) {
    printf("\n%s, %s, %s:\n\n| token |",
           t->writes ? "Others write, we read" : "We write, others read", sync_how_names[t->how],
           sync_place_names[t->place]);
    for (int k = 0; k < CONSUMER_KINDS; ++k)
        printf(" %s |", sync_kind_names[k]);
    printf(" CPU held, median |\n|---|---|---|---|---|--:|\n");
    for (int token = 0; token < SYNC_TOKENS; ++token) {
        result row = {0};
        printf("| %s |", sync_token_names[token]);
        for (int k = 0; k < CONSUMER_KINDS; ++k)
            run_cell(t, (sync_token) token, (consumer_kind) k, &row);
        qsort(row.held, (size_t) row.count, sizeof *row.held, compare);
        printf(" %.1f µs |\n", row.held[row.count / 2]);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    setenv("JITC_TEST_BACKEND", "cuda", 1); /* for support_driver() */
    bool simulated = support_simulated();
    jit_status status = jit_init(JIT_CUDA);
    if (status == JIT_UNAVAILABLE || (simulated && argc < 2)) {
        printf("skipped: %s\n", simulated ? "this is about a real GPU" : jit_error());
        return SKIPPED;
    }
    must_be_ok(status, "jit_init");
    (void) argv;
    choose_steps(simulated);
    printf("Our kernels take %.1f ms.\n", time_of_producer() / 1000);
    for (int writes = 0; writes < 2; ++writes)
        for (int place = 0; place < CONSUMER_PLACES; ++place)
            for (int how = SYNC_ONE_THREAD; how <= SYNC_BY_PRODUCER; ++how)
                if (consumer_can((consumer_place) place, 0))
                    run_table(&(table) {writes, (sync_how) how, (consumer_place) place});
    jit_shutdown();
    return failed;
}
