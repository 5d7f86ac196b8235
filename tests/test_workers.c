/* test_workers.c: the CPU backend's streams and worker threads, one property at a time. */
#include "workers_support.h"
#include <signal.h>
#if defined(__x86_64__)
#    include <immintrin.h>
#endif

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

enum { MEETING = 3, MEETING_BLOCKS = 9 };

/* params: how many are there, who ran each block. The first to come wait for the others. */
static void meet(uint64_t begin, uint64_t end, const uint64_t *params) {
    atomic_int *there = (atomic_int *) (uintptr_t) params[0];
    uint64_t *runner = (uint64_t *) (uintptr_t) params[1];
    (void) end;
    runner[begin] = (uint64_t) pthread_self();
    for (atomic_fetch_add(there, 1); atomic_load(there) < MEETING;)
        sleep_us(50);
}

/* Three threads of which each has begun before one goes on: their first blocks are those of their
 * shares, from task to task the same. */
Test(workers, threads_begin_with_their_own_share_of_each_task) {
    enum { ROUNDS = 50, SHARE = MEETING_BLOCKS / MEETING };
    jitc_pool *p = make_pool(MEETING);
    jitc_queue *q = make_queue(p);
    uint64_t first[MEETING] = {0};
    for (int round = 0; round < ROUNDS; ++round) {
        atomic_int there = 0;
        uint64_t runner[MEETING_BLOCKS] = {0};
        uint64_t params[] = {address(&there), address(runner)};
        jitc_queue_wait(q, launch(q, &(jitc_task) {.function = meet,
                                                   .lanes = MEETING_BLOCKS,
                                                   .block = 1,
                                                   .cost_ns = SLOW_NS,
                                                   .params = params,
                                                   .count = 2}));
        cr_assert_eq(runner[0], (uint64_t) pthread_self(), "the caller's share is the first one");
        for (int i = 0; i < MEETING; ++i) {
            first[i] = round ? first[i] : runner[i * SHARE];
            cr_assert_eq(runner[i * SHARE], first[i], "round %d: share %d moved", round, i);
            cr_assert(i == 0 || first[i] != first[i - 1]);
        }
    }
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
}

/* params: the block that is expected next. Each block waits until it is that. */
static void take_turns(uint64_t begin, uint64_t end, const uint64_t *params) {
    _Atomic uint64_t *next = (_Atomic uint64_t *) (uintptr_t) params[0];
    while (atomic_load(next) != begin)
        sleep_us(10);
    atomic_store(next, end);
}

Test(workers, blocks_that_wait_for_earlier_ones_end, .timeout = 60) {
    for (int threads = 1; threads <= 4; ++threads) {
        jitc_pool *p = make_pool(threads);
        jitc_queue *q = make_queue(p);
        for (int round = 0; round < 20; ++round) {
            _Atomic uint64_t next = 0;
            uint64_t params[] = {address(&next)};
            uint64_t n = launch(q, &(jitc_task) {.function = take_turns,
                                                 .lanes = 1001,
                                                 .block = 10,
                                                 .ascending = true,
                                                 .cost_ns = SLOW_NS,
                                                 .params = params,
                                                 .count = 1});
            while (round % 2 && !jitc_queue_done(q, n)) /* the caller does not help */
                sleep_us(50);
            jitc_queue_wait(q, n);
            cr_assert_eq(next, 1001);
        }
        jitc_queue_destroy(q);
        jitc_pool_destroy(p);
    }
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

/* Sleeps, so that others get a turn, and notes whether the thread is the one that launches. */
static void note_other_thread(uint64_t begin, uint64_t end, const uint64_t *params) {
    pthread_t launcher = (pthread_t) params[0];
    atomic_int *others = (atomic_int *) (uintptr_t) params[1];
    (void) begin, (void) end;
    sleep_us(50);
    if (!pthread_equal(pthread_self(), launcher))
        atomic_fetch_add(others, 1);
}

Test(workers, a_series_of_tasks_that_are_each_too_short_wakes_workers, .timeout = 60) {
    jitc_pool *p = make_pool(2);
    jitc_queue *q = make_queue(p);
    atomic_int others = 0;
    uint64_t params[] = {(uint64_t) pthread_self(), address(&others)};
    jitc_task t = {.function = note_other_thread,
                   .lanes = 4,
                   .block = 1,
                   .cost_ns = 50e3,
                   .params = params,
                   .count = 2};
    launch(q, &t);
    cr_assert_eq(others, 0, "one task runs in its call");
    while (!atomic_load(&others)) /* the timeout ends it */
        jitc_queue_wait(q, launch(q, &t));
    jitc_queue_destroy(q);
    jitc_pool_destroy(p);
}
