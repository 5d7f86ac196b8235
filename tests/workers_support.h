/* workers_support.h: what the tests of streams and worker threads share. */
#ifndef WORKERS_SUPPORT_H
#define WORKERS_SUPPORT_H
#include "llvm/workers.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SPIN_US = 20 };
#define SLOW_NS 1e9 /* a cost that makes a task worth any number of threads */

static inline jitc_pool *make_pool(int threads) {
    jitc_pool *p;
    cr_assert_eq(jitc_pool_create(threads, SPIN_US, &p), JIT_OK);
    return p;
}

static inline jitc_queue *make_queue(jitc_pool *p) {
    jitc_queue *q;
    cr_assert_eq(jitc_queue_create(p, &q), JIT_OK);
    return q;
}

static inline uint64_t address(const void *p) {
    return (uint64_t) (uintptr_t) p;
}

static inline void sleep_us(long us) {
    nanosleep(&(struct timespec) {.tv_nsec = us * 1000}, NULL);
}

static inline uint64_t launch(jitc_queue *q, const jitc_task *t) {
    uint64_t n;
    cr_assert_eq(jitc_queue_launch(q, t, &n), JIT_OK);
    return n;
}

static inline uint64_t call(jitc_queue *q, void (*function)(void *), void *context) {
    uint64_t n;
    cr_assert_eq(jitc_queue_call(q, function, context, &n), JIT_OK);
    return n;
}

static inline uint64_t wait_for(jitc_queue *q, jitc_queue *other, uint64_t n) {
    uint64_t number;
    cr_assert_eq(jitc_queue_wait_for(q, other, n, &number), JIT_OK);
    return number;
}

/* A function that keeps its queue busy until the gate opens. */
typedef struct gate {
    atomic_int open, entered;
} gate;

static inline void pass_gate(void *context) {
    gate *g = context;
    atomic_store(&g->entered, 1);
    while (!atomic_load(&g->open))
        sleep_us(50);
}

static inline void set_flag(void *context) {
    atomic_store((atomic_int *) context, 1);
}

/* params: counters */
static inline void count_lanes(uint64_t begin, uint64_t end, const uint64_t *params) {
    atomic_uint *counters = (atomic_uint *) (uintptr_t) params[0];
    for (uint64_t i = begin; i < end; ++i)
        atomic_fetch_add_explicit(&counters[i], 1, memory_order_relaxed);
}
#endif
