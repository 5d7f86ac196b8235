/* test_workers.c: the CPU backend's streams and worker threads. */
#include "llvm/workers.h"
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#    include <immintrin.h>
#endif

enum { SPIN_US = 20 };
#define SLOW_NS 1e9 /* a cost that makes a task worth any number of threads */

static jitc_pool *make_pool(int threads) {
    jitc_pool *p;
    cr_assert_eq(jitc_pool_create(threads, SPIN_US, &p), JIT_OK);
    return p;
}

static jitc_queue *make_queue(jitc_pool *p) {
    jitc_queue *q;
    cr_assert_eq(jitc_queue_create(p, &q), JIT_OK);
    return q;
}

static uint64_t address(const void *p) {
    return (uint64_t) (uintptr_t) p;
}

static void sleep_us(long us) {
    nanosleep(&(struct timespec) {.tv_nsec = us * 1000}, NULL);
}

static uint64_t launch(jitc_queue *q, const jitc_task *t) {
    uint64_t n;
    cr_assert_eq(jitc_queue_launch(q, t, &n), JIT_OK);
    return n;
}

static uint64_t call(jitc_queue *q, void (*function)(void *), void *context) {
    uint64_t n;
    cr_assert_eq(jitc_queue_call(q, function, context, &n), JIT_OK);
    return n;
}

static uint64_t wait_for(jitc_queue *q, jitc_queue *other, uint64_t n) {
    uint64_t number;
    cr_assert_eq(jitc_queue_wait_for(q, other, n, &number), JIT_OK);
    return number;
}

/* A function that keeps its queue busy until the gate opens. */
typedef struct gate {
    atomic_int open, entered;
} gate;

static void pass_gate(void *context) {
    gate *g = context;
    atomic_store(&g->entered, 1);
    while (!atomic_load(&g->open))
        sleep_us(50);
}

static void set_flag(void *context) {
    atomic_store((atomic_int *) context, 1);
}

/* params: counters */
static void count_lanes(uint64_t begin, uint64_t end, const uint64_t *params) {
    atomic_uint *counters = (atomic_uint *) (uintptr_t) params[0];
    for (uint64_t i = begin; i < end; ++i)
        atomic_fetch_add_explicit(&counters[i], 1, memory_order_relaxed);
}

/* params: array of uint64_t, expected, new. Plain memory: an error of order is also a data race. */
static void replace_lanes(uint64_t begin, uint64_t end, const uint64_t *params) {
    uint64_t *x = (uint64_t *) (uintptr_t) params[0];
    for (uint64_t i = begin; i < end; ++i)
        x[i] = x[i] == params[1] ? params[2] : UINT64_MAX;
}

Test(workers, blocks_cover_every_lane_once) {
    static const uint64_t sizes[] = {1, 2, 15, 16, 17, 1000, 4096, 10007};
    static const uint64_t blocks[] = {1, 3, 16, 64, 1000, 1u << 20, UINT64_MAX};
    atomic_uint *counters = calloc(10007, sizeof *counters);
    for (int threads = 1; threads <= 4; ++threads) {
        jitc_pool *p = make_pool(threads);
        jitc_queue *q = make_queue(p);
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; ++s)
            for (size_t b = 0; b < sizeof blocks / sizeof *blocks; ++b)
                for (int slow = 0; slow < 2; ++slow) {
                    uint64_t params[] = {address(counters)};
                    memset(counters, 0, 10007 * sizeof *counters);
                    jitc_queue_wait(q, launch(q, &(jitc_task) {.function = count_lanes,
                                                               .lanes = sizes[s],
                                                               .block = blocks[b],
                                                               .cost_ns = slow ? SLOW_NS : 0,
                                                               .params = params,
                                                               .count = 1}));
                    for (uint64_t i = 0; i < 10007; ++i)
                        cr_assert_eq(counters[i], i < sizes[s], "lane %zu of %zu, block %zu",
                                     (size_t) i, (size_t) sizes[s], (size_t) blocks[b]);
                }
        jitc_queue_destroy(q);
        jitc_pool_destroy(p);
    }
    free(counters);
}

/* params: sum of lengths, largest end, misfits, block */
static void measure_block(uint64_t begin, uint64_t end, const uint64_t *params) {
    atomic_ullong *sums = (atomic_ullong *) (uintptr_t) params[0];
    atomic_fetch_add(&sums[0], end - begin);
    if (begin % params[1] || end <= begin || end - begin > params[1])
        atomic_fetch_add(&sums[1], 1);
}

Test(workers, two_to_the_forty_lanes_do_not_overflow) {
    jitc_pool *p = make_pool(3);
    jitc_queue *q = make_queue(p);
    atomic_ullong sums[2] = {0};
    const uint64_t lanes = (UINT64_C(1) << 40) + 5, block = UINT64_C(1) << 34;
    uint64_t params[] = {address(sums), block};
    for (int slow = 0; slow < 2; ++slow)
        jitc_queue_wait(q, launch(q, &(jitc_task) {.function = measure_block,
                                                   .lanes = lanes,
                                                   .block = block,
                                                   .cost_ns = slow ? SLOW_NS : 0,
                                                   .params = params,
                                                   .count = 2}));
    cr_assert_eq(sums[0], 2 * lanes);
    cr_assert_eq(sums[1], 0, "blocks that are too long or start elsewhere");
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
}

Test(workers, tasks_of_a_queue_run_in_order_and_numbers_count_up) {
    enum { LANES = 600, ROUNDS = 3000 };
    static uint64_t x[LANES];
    for (int threads = 1; threads <= 4; ++threads) {
        memset(x, 0, sizeof x);
        jitc_pool *p = make_pool(threads);
        jitc_queue *q = make_queue(p);
        uint64_t last = 0;
        for (uint64_t i = 0; i < ROUNDS; ++i) {
            uint64_t params[] = {address(x), i, i + 1};
            uint64_t n = launch(q, &(jitc_task) {.function = replace_lanes,
                                                 .lanes = LANES,
                                                 .block = i % 3 ? 64 : 1024,
                                                 .cost_ns = i % 5 ? SLOW_NS : 0,
                                                 .params = params,
                                                 .count = 3});
            cr_assert_eq(n, last + 1);
            last = n;
            if (i % 257 == 0)
                sleep_us(100);
        }
        jitc_queue_wait(q, last);
        cr_assert(jitc_queue_done(q, last) && !jitc_queue_done(q, last + 1));
        for (int i = 0; i < LANES; ++i)
            cr_assert_eq(x[i], ROUNDS);
        jitc_queue_destroy(q);
        jitc_pool_destroy(p);
    }
}

/* params: sum's address, then numbers to add up; params[1] is their count */
static void sum_params(uint64_t begin, uint64_t end, const uint64_t *params) {
    (void) begin, (void) end;
    uint64_t sum = 0;
    for (uint64_t i = 0; i < params[1]; ++i)
        sum += params[2 + i];
    *(uint64_t *) (uintptr_t) params[0] = sum;
}

Test(workers, params_are_copied_when_a_task_is_queued) {
    static const uint32_t counts[] = {0, 1, 13, 14, 15, 40, 1000, 20};
    jitc_pool *p = make_pool(2);
    jitc_queue *q = make_queue(p);
    for (int round = 0; round < 3; ++round) { /* the later ones use recycled tasks */
        gate g = {0};
        uint64_t sums[8], params[1002];
        uint64_t last = call(q, pass_gate, &g);
        for (int k = 0; k < 8; ++k) {
            params[0] = address(&sums[k]);
            params[1] = counts[k];
            for (uint64_t i = 0; i < counts[k]; ++i)
                params[2 + i] = i + 1;
            last = launch(q, &(jitc_task) {.function = sum_params,
                                           .lanes = 1,
                                           .block = 1,
                                           .params = params,
                                           .count = counts[k] + 2});
            memset(params, 0xee, sizeof params);
        }
        atomic_store(&g.open, 1);
        jitc_queue_wait(q, last);
        for (int k = 0; k < 8; ++k)
            cr_assert_eq(sums[k], (uint64_t) counts[k] * (counts[k] + 1) / 2);
    }
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
}

/* params: where to store the thread */
static void note_thread(uint64_t begin, uint64_t end, const uint64_t *params) {
    (void) begin, (void) end;
    *(pthread_t *) (uintptr_t) params[0] = pthread_self();
}

static bool ran_in_call(jitc_queue *q, uint64_t lanes, uint64_t block, double cost) {
    pthread_t ran = 0;
    uint64_t params[] = {address(&ran)};
    uint64_t n = launch(q, &(jitc_task) {.function = note_thread,
                                         .lanes = lanes,
                                         .block = block,
                                         .cost_ns = cost,
                                         .params = params,
                                         .count = 1});
    bool here = jitc_queue_done(q, n) && pthread_equal(ran, pthread_self());
    jitc_queue_wait(q, n);
    return here;
}

Test(workers, short_tasks_on_an_idle_queue_run_in_the_call) {
    jitc_pool *p = make_pool(2);
    jitc_queue *q = make_queue(p);
    cr_assert(ran_in_call(q, 100, 10, 50e3), "no worker is awake");
    cr_assert(ran_in_call(q, 100, 100, SLOW_NS), "one block");
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
    p = make_pool(1);
    q = make_queue(p);
    cr_assert(ran_in_call(q, 100, 10, SLOW_NS), "one thread");
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
}

Test(workers, a_busy_queue_is_not_overtaken_by_the_call) {
    for (int threads = 1; threads <= 3; ++threads) {
        jitc_pool *p = make_pool(threads);
        jitc_queue *q = make_queue(p);
        gate g = {0};
        atomic_uint counter = 0;
        uint64_t params[] = {address(&counter)};
        call(q, pass_gate, &g);
        uint64_t n = launch(
            q, &(jitc_task) {
                   .function = count_lanes, .lanes = 1, .block = 1, .params = params, .count = 1});
        sleep_us(500);
        cr_assert_eq(counter, 0);
        cr_assert_not(jitc_queue_done(q, n));
        atomic_store(&g.open, 1);
        jitc_queue_wait(q, n);
        cr_assert_eq(counter, 1);
        jitc_queue_destroy(q);
        jitc_pool_destroy(p);
    }
}

static void note_caller(void *context) {
    *(pthread_t *) context = pthread_self();
}

Test(workers, a_call_never_runs_inside_the_function_that_queues_it) {
    for (int threads = 1; threads <= 2; ++threads) {
        jitc_pool *p = make_pool(threads);
        jitc_queue *q = make_queue(p);
        pthread_t ran = 0;
        uint64_t n = call(q, note_caller, &ran);
        while (!jitc_queue_done(q, n)) /* nobody waits: a worker does it */
            sleep_us(20);
        cr_assert_neq(ran, 0);
        cr_assert_neq(ran, pthread_self());
        jitc_queue_destroy(q);
        jitc_pool_destroy(p);
    }
}

Test(workers, polling_alone_makes_progress_in_any_pool) {
    for (int threads = 1; threads <= 3; ++threads) {
        jitc_pool *p = make_pool(threads);
        jitc_queue *a = make_queue(p), *b = make_queue(p);
        gate g = {0};
        atomic_int called = 0;
        static uint64_t x[100];
        memset(x, 0, sizeof x);
        uint64_t params[] = {address(x), 0, 7};
        wait_for(b, a, call(a, pass_gate, &g));
        launch(b, &(jitc_task) {.function = replace_lanes,
                                .lanes = 100,
                                .block = 10,
                                .params = params,
                                .count = 3});
        uint64_t n = call(b, set_flag, &called);
        atomic_store(&g.open, 1);
        while (!jitc_queue_done(b, n))
            sleep_us(20);
        cr_assert_eq(called, 1);
        cr_assert_eq(x[99], 7);
        jitc_queue_destroy(a);
        jitc_queue_destroy(b);
        jitc_pool_destroy(p);
    }
}

Test(workers, a_wait_for_what_is_done_is_nothing) {
    jitc_pool *p = make_pool(2);
    jitc_queue *a = make_queue(p), *b = make_queue(p);
    atomic_int called = 0;
    uint64_t n = call(a, set_flag, &called);
    jitc_queue_wait(a, n);
    cr_assert_eq(wait_for(b, a, n), 0);
    cr_assert_eq(wait_for(b, a, 0), 0);
    gate g = {0};
    n = call(a, pass_gate, &g);
    cr_assert_eq(wait_for(a, a, n), n, "a queue comes after itself anyway");
    cr_assert_eq(wait_for(b, a, n), 1);
    cr_assert_not(jitc_queue_done(b, 1));
    atomic_store(&g.open, 1);
    jitc_queue_wait(b, 1); /* the last thing on b is a wait: it must wake us */
    cr_assert(jitc_queue_done(a, n));
    jitc_queue_destroy(a);
    jitc_queue_destroy(b);
    jitc_pool_destroy(p);
}

static void *open_later(void *context) {
    sleep_us(3000); /* longer than anybody spins */
    atomic_store(&((gate *) context)->open, 1);
    return NULL;
}

Test(workers, a_sleeping_caller_is_woken_through_a_chain_of_waits) {
    enum { CHAIN = 50 };
    for (int threads = 1; threads <= 3; ++threads) {
        jitc_pool *p = make_pool(threads);
        jitc_queue *q[CHAIN];
        gate g = {0};
        for (int i = 0; i < CHAIN; ++i)
            q[i] = make_queue(p);
        uint64_t n = call(q[0], pass_gate, &g);
        for (int i = 1; i < CHAIN; ++i)
            n = wait_for(q[i], q[i - 1], n);
        while (!atomic_load(&g.entered)) /* a worker is inside, not we */
            sleep_us(20);
        pthread_t opener;
        pthread_create(&opener, NULL, open_later, &g);
        jitc_queue_wait(q[CHAIN - 1], n);
        pthread_join(opener, NULL);
        for (int i = 0; i < CHAIN; ++i) {
            cr_assert(jitc_queue_done(q[i], 1));
            jitc_queue_destroy(q[i]);
        }
        jitc_pool_destroy(p);
    }
}

typedef struct waiter {
    jitc_queue *queue;
    uint64_t number;
    const uint64_t *cell;
} waiter;

static void *wait_and_check(void *context) {
    const waiter *w = context;
    jitc_queue_wait(w->queue, w->number);
    cr_assert(jitc_queue_done(w->queue, w->number));
    cr_assert_eq(*w->cell, w->number);
    return NULL;
}

/* params: cells, index */
static void write_cell(uint64_t begin, uint64_t end, const uint64_t *params) {
    (void) end;
    if (begin == 0)
        ((uint64_t *) (uintptr_t) params[0])[params[1]] = params[1];
}

Test(workers, many_threads_wait_for_different_numbers_of_one_queue) {
    enum { WAITERS = 6 };
    for (int round = 0; round < 200; ++round) {
        jitc_pool *p = make_pool(1 + round % 3);
        jitc_queue *q = make_queue(p);
        gate g = {0};
        uint64_t cells[WAITERS + 2] = {0};
        pthread_t threads[WAITERS];
        waiter waiters[WAITERS];
        call(q, pass_gate, &g);
        while (!atomic_load(&g.entered))
            sleep_us(10);
        for (uint64_t i = 0; i < WAITERS; ++i) {
            uint64_t params[] = {address(cells), i + 2};
            uint64_t n = launch(q, &(jitc_task) {.function = write_cell,
                                                 .lanes = 64,
                                                 .block = i % 2 ? 64 : 16,
                                                 .cost_ns = SLOW_NS,
                                                 .params = params,
                                                 .count = 2});
            waiters[i] = (waiter) {q, n, &cells[n]};
            pthread_create(&threads[i], NULL, wait_and_check, &waiters[i]);
        }
        if (round % 2)
            sleep_us(300);
        atomic_store(&g.open, 1);
        for (int i = 0; i < WAITERS; ++i)
            pthread_join(threads[i], NULL);
        jitc_queue_destroy(q);
        jitc_pool_destroy(p);
    }
}

/* ---- Random stress: several launching threads, each with a queue and an array of its own. A task
 * writes a new value into its array and, behind a wait, reads another thread's array. ---- */

enum { LAUNCHERS = 4, CELLS = 96 };

typedef struct launcher {
    jitc_pool *pool;
    jitc_queue *queue;
    unsigned random;
    int rounds;
    uint64_t value; /* what the array holds once all is done */
    uint64_t cells[CELLS];
    atomic_ullong published;       /* number of the last write of `cells` ... */
    atomic_ullong published_value; /* ... and at least this value is there then */
    uint64_t calls_queued, calls_seen;
    atomic_uint in_flight;
    struct launcher *all;
} launcher;

static atomic_uint bad; /* of this test's process */

/* params: cells, expected, new */
static void stress_write(uint64_t begin, uint64_t end, const uint64_t *params) {
    uint64_t *x = (uint64_t *) (uintptr_t) params[0];
    for (uint64_t i = begin; i < end; ++i) {
        if (x[i] != params[1])
            atomic_fetch_add(&bad, 1);
        x[i] = params[2];
    }
}

static unsigned draw(launcher *l, unsigned n) {
    l->random = l->random * 1664525u + 1013904223u;
    return (l->random >> 12) % n;
}

static void stress_call(void *context) {
    launcher *l = context;
    ++l->calls_seen; /* plain: calls of one queue never overlap */
}

/* params: cell, at least. The writer may be ahead by now, so the cell is read as an atomic would
 * be: only cell CELLS-1 of a snapshot that nobody writes is looked at. */
static void stress_read(uint64_t begin, uint64_t end, const uint64_t *params) {
    (void) begin, (void) end;
    atomic_ullong *seen = (atomic_ullong *) (uintptr_t) params[0];
    if (atomic_load_explicit(seen, memory_order_relaxed) < params[1])
        atomic_fetch_add(&bad, 1);
}

typedef struct mark {
    atomic_ullong value;
} mark;

static mark marks[LAUNCHERS];

/* params: mark, value. Follows each write on its queue. */
static void stress_mark(uint64_t begin, uint64_t end, const uint64_t *params) {
    (void) begin, (void) end;
    atomic_store_explicit((atomic_ullong *) (uintptr_t) params[0], params[1], memory_order_relaxed);
}

static uint64_t stress_launch(launcher *l, jitc_task_function f, const uint64_t *params) {
    static const uint64_t blocks[] = {16, 32, 48, 96, 1000};
    static const double costs[] = {0, 5e3, 20e3, 1e6};
    return launch(l->queue, &(jitc_task) {.function = f,
                                          .lanes = f == stress_write ? CELLS : 1,
                                          .block = blocks[draw(l, 5)],
                                          .cost_ns = costs[draw(l, 4)],
                                          .params = params,
                                          .count = 3,
                                          .in_flight = &l->in_flight});
}

static uint64_t stress_step(launcher *l) {
    launcher *other = &l->all[draw(l, LAUNCHERS)];
    uint64_t self = (uint64_t) (l - l->all), from = (uint64_t) (other - l->all), last = 0;
    switch (draw(l, 4)) {
        case 0: { /* read what another one has published */
            uint64_t value = atomic_load(&other->published_value);
            uint64_t n = atomic_load(&other->published); /* not older than the value */
            wait_for(l->queue, other->queue, n);
            last =
                stress_launch(l, stress_read, (uint64_t[]) {address(&marks[from].value), value, 0});
            break;
        }
        case 1:
            last = call(l->queue, stress_call, l);
            ++l->calls_queued;
            break;
        default:
            stress_launch(l, stress_write,
                          (uint64_t[]) {address(l->cells), l->value, l->value + 1});
            last = stress_launch(l, stress_mark,
                                 (uint64_t[]) {address(&marks[self].value), ++l->value, 0});
            atomic_store(&l->published, last);
            atomic_store(&l->published_value, l->value);
    }
    return last;
}

static void *stress_main(void *context) {
    launcher *l = context;
    uint64_t last = 0;
    for (int i = 0; i < l->rounds; ++i) {
        last = stress_step(l);
        if (draw(l, 24) == 0)
            jitc_queue_wait(l->queue, last - draw(l, 2));
        if (draw(l, 150) == 0)
            sleep_us((long) draw(l, 200)); /* long enough for workers to fall asleep, or not */
    }
    jitc_queue_wait(l->queue, last);
    return NULL;
}

static void stress(int threads, int spin_us, unsigned seed, int rounds) {
    jitc_pool *p;
    cr_assert_eq(jitc_pool_create(threads, spin_us, &p), JIT_OK);
    static launcher all[LAUNCHERS];
    pthread_t ids[LAUNCHERS];
    memset(all, 0, sizeof all);
    memset(marks, 0, sizeof marks);
    for (unsigned i = 0; i < LAUNCHERS; ++i) {
        all[i].pool = p;
        all[i].queue = make_queue(p);
        all[i].random = seed * 977 + i * 131;
        all[i].rounds = rounds;
        all[i].all = all;
    }
    for (int i = 0; i < LAUNCHERS; ++i)
        pthread_create(&ids[i], NULL, stress_main, &all[i]);
    for (int i = 0; i < LAUNCHERS; ++i)
        pthread_join(ids[i], NULL);
    for (int i = 0; i < LAUNCHERS; ++i) {
        for (int k = 0; k < CELLS; ++k)
            cr_assert_eq(all[i].cells[k], all[i].value);
        cr_assert_eq(all[i].calls_seen, all[i].calls_queued);
        cr_assert_eq(all[i].in_flight, 0);
        jitc_queue_destroy(all[i].queue);
    }
    cr_assert_eq(bad, 0, "%u cells held a wrong value", bad);
    jitc_pool_destroy(p);
}

Test(workers, random_streams_keep_their_order, .timeout = 240) {
    for (unsigned seed = 0; seed < 24; ++seed)
        stress(1 + (int) (seed % 4), (int) (seed / 4 % 3) * 40, seed, 1500);
}

/* ---- Environment of a task ---- */

#if defined(__x86_64__)
/* params: where to add the number of calls with a wrong environment */
static void check_float_mode(uint64_t begin, uint64_t end, const uint64_t *params) {
    (void) begin, (void) end;
    if ((_mm_getcsr() & ~0x3fu) != 0x1f80)
        atomic_fetch_add((atomic_uint *) (uintptr_t) params[0], 1);
}

Test(workers, tasks_run_in_the_default_float_mode_and_callers_keep_theirs) {
    const unsigned flush_zero = 0x8000, denormals_zero = 0x40, round_down = 0x2000;
    const unsigned mine = 0x1f80 | flush_zero | denormals_zero | round_down;
    for (int threads = 1; threads <= 3; ++threads) {
        jitc_pool *p = make_pool(threads);
        jitc_queue *q = make_queue(p);
        atomic_uint wrong = 0;
        uint64_t params[] = {address(&wrong)};
        _mm_setcsr(mine);
        for (int i = 0; i < 200; ++i) {
            uint64_t n = launch(q, &(jitc_task) {.function = check_float_mode,
                                                 .lanes = 64,
                                                 .block = i % 2 ? 64 : 4,
                                                 .cost_ns = i % 4 < 2 ? SLOW_NS : 0,
                                                 .params = params,
                                                 .count = 1});
            cr_assert_eq(_mm_getcsr() & ~0x3fu, mine);
            jitc_queue_wait(q, n);
            cr_assert_eq(_mm_getcsr() & ~0x3fu, mine);
        }
        _mm_setcsr(0x1f80);
        cr_assert_eq(wrong, 0);
        jitc_queue_destroy(q);
        jitc_pool_destroy(p);
    }
}
#endif

static void note_signals(void *context) {
    pthread_sigmask(SIG_SETMASK, NULL, context);
}

Test(workers, workers_leave_signals_to_the_program) {
    jitc_pool *p = make_pool(2);
    jitc_queue *q = make_queue(p);
    sigset_t before, after, workers;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    uint64_t n = call(q, note_signals, &workers);
    while (!jitc_queue_done(q, n))
        sleep_us(20);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    cr_assert(sigismember(&workers, SIGINT) && sigismember(&workers, SIGALRM));
    cr_assert_not(sigismember(&workers, SIGSEGV));
    cr_assert_eq(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
}

Test(workers, in_flight_is_up_from_launch_to_the_end_of_the_task) {
    jitc_pool *p = make_pool(2);
    jitc_queue *q = make_queue(p);
    gate g = {0};
    atomic_uint in_flight = 0, counters[8] = {0};
    uint64_t params[] = {address(counters)};
    jitc_task t = {.function = count_lanes,
                   .lanes = 8,
                   .block = 2,
                   .params = params,
                   .count = 1,
                   .in_flight = &in_flight};
    launch(q, &t);
    cr_assert_eq(in_flight, 0, "run in the call");
    call(q, pass_gate, &g);
    launch(q, &t);
    uint64_t n = launch(q, &t);
    cr_assert_eq(in_flight, 2);
    atomic_store(&g.open, 1);
    jitc_queue_wait(q, n);
    cr_assert_eq(in_flight, 0);
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
}

Test(workers, pools_and_queues_come_and_go) {
    atomic_uint counters[64] = {0};
    uint64_t params[] = {address(counters)};
    for (unsigned round = 0; round < 300; ++round) {
        jitc_pool *p = make_pool(1 + (int) (round % 4));
        cr_assert_eq(jitc_pool_threads(p), 1 + (int) (round % 4));
        for (int i = 0; i < 3; ++i) {
            jitc_queue *q = make_queue(p), *idle = make_queue(p);
            jitc_queue_wait(q, launch(q, &(jitc_task) {.function = count_lanes,
                                                       .lanes = 64,
                                                       .block = 8,
                                                       .cost_ns = SLOW_NS,
                                                       .params = params,
                                                       .count = 1}));
            jitc_queue_destroy(q);
            jitc_queue_destroy(idle);
        }
        jitc_pool_destroy(p);
    }
    for (int i = 0; i < 64; ++i)
        cr_assert_eq(counters[i], 900);
    jitc_queue_destroy(NULL);
    jitc_pool_destroy(NULL);
}

typedef struct churner {
    jitc_queue *queue;
    atomic_int flag, warm, stop;
} churner;

/* Keeps the pool's lock and lists busy while another thread forks. Once it is warm nobody allocates
 * memory any more: a forked child of AddressSanitizer may find the heap locked for ever. */
static void *churn(void *context) {
    enum { AHEAD = 64 };
    churner *c = context;
    gate g = {0};
    uint64_t n = call(c->queue, pass_gate, &g);
    for (int i = 0; i < AHEAD; ++i)
        n = call(c->queue, set_flag, &c->flag);
    atomic_store(&g.open, 1);
    jitc_queue_wait(c->queue, n);
    atomic_store(&c->warm, 1);
    while (!atomic_load(&c->stop)) {
        for (int i = 0; i < AHEAD; ++i)
            n = call(c->queue, set_flag, &c->flag);
        jitc_queue_wait(c->queue, n);
    }
    return NULL;
}

/* The child's whole life; its exit status. Criterion's asserts do not work here. */
static int use_pool_in_child(jitc_pool *p, jitc_queue *q, jitc_queue *dropped, uint64_t number,
                             const atomic_uint *in_flight) {
    jitc_pool_forked(p);
    if (!jitc_queue_done(dropped, number) || atomic_load(in_flight) != 0)
        return 2;
    static atomic_uint counters[1000];
    uint64_t params[] = {address(counters)}, n;
    jitc_task t = {.function = count_lanes,
                   .lanes = 1000,
                   .block = 10,
                   .cost_ns = SLOW_NS,
                   .params = params,
                   .count = 1};
    atomic_int called = 0;
    for (int i = 0; i < 20; ++i) {
        if (jitc_queue_launch(q, &t, &n) || jitc_queue_wait_for(dropped, q, n, &n) ||
            jitc_queue_launch(dropped, &t, &n) || jitc_queue_call(dropped, set_flag, &called, &n))
            return 3;
        while (i == 0 && !jitc_queue_done(dropped, n))
            sleep_us(20); /* workers exist again */
        jitc_queue_wait(dropped, n);
    }
    for (int i = 0; i < 1000; ++i)
        if (counters[i] != 40)
            return 4;
    jitc_queue_destroy(q);
    jitc_queue_destroy(dropped);
    return called ? 0 : 5;
}

Test(workers, a_forked_child_starts_afresh, .timeout = 120) {
    for (int round = 0; round < 100; ++round) {
        jitc_pool *p = make_pool(3);
        jitc_queue *q = make_queue(p), *blocked = make_queue(p), *busy = make_queue(p);
        gate g = {0};
        atomic_uint in_flight = 0, counters[40] = {0};
        uint64_t params[40] = {address(counters)};
        call(blocked, pass_gate, &g);
        uint64_t n = launch(blocked, &(jitc_task) {.function = count_lanes,
                                                   .lanes = 40,
                                                   .block = 10,
                                                   .params = params,
                                                   .count = 40,
                                                   .in_flight = &in_flight});
        churner c = {.queue = busy};
        pthread_t thread;
        pthread_create(&thread, NULL, churn, &c);
        while (!atomic_load(&c.warm))
            sleep_us(20);
        sleep_us(round * 7);
        pid_t child = fork();
        if (child == 0)
            _exit(use_pool_in_child(p, q, blocked, n, &in_flight));
        int status = -1;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "child: %#x", (unsigned) status);
        atomic_store(&c.stop, 1);
        atomic_store(&g.open, 1);
        pthread_join(thread, NULL);
        jitc_queue_wait(blocked, n); /* the parent has lost nothing */
        cr_assert_eq(counters[39], 1);
        jitc_queue_destroy(q);
        jitc_queue_destroy(blocked);
        jitc_queue_destroy(busy);
        jitc_pool_destroy(p);
    }
}

Test(workers, waiting_callers_do_the_work_when_no_thread_can_be_made) {
    pthread_attr_t huge;
    pthread_attr_init(&huge);
    cr_assert_eq(pthread_attr_setstacksize(&huge, (size_t) 1 << 50), 0);
    cr_assert_eq(pthread_setattr_default_np(&huge), 0);
    jitc_pool *p = make_pool(4);
    jitc_queue *a = make_queue(p), *b = make_queue(p);
    atomic_uint counters[100] = {0};
    atomic_int called = 0;
    uint64_t params[] = {address(counters)};
    jitc_task t = {.function = count_lanes,
                   .lanes = 100,
                   .block = 10,
                   .cost_ns = SLOW_NS,
                   .params = params,
                   .count = 1};
    wait_for(b, a, call(a, set_flag, &called));
    uint64_t n = launch(b, &t);
    wait_for(a, b, n);
    n = launch(a, &t);
    sleep_us(1000);
    cr_assert_eq(called, 0, "a thread was made after all");
    jitc_queue_wait(a, n);
    cr_assert_eq(called, 1);
    for (int i = 0; i < 100; ++i)
        cr_assert_eq(counters[i], 2);
    jitc_queue_destroy(a);
    jitc_queue_destroy(b);
    jitc_pool_destroy(p);
}
