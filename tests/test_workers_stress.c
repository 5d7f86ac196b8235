/* test_workers_stress.c: streams and worker threads under load: random order, short lives, forks.
 */
#include "sanitizer.h"
#include "workers_support.h"
#include <sys/wait.h>
#include <unistd.h>

/* ---- Random stress: several launching threads, each with a queue and an array of its own. A task
 * adds 1 to every cell of its array, the next one puts the new value into a mark, and behind a wait
 * other threads check the mark. ---- */

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

/* params: mark, at least: the writer may be ahead by now, so it is read as an atomic, relaxed: only
 * the order of the queues makes the value visible. */
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

Test(workers_stress, random_streams_keep_their_order, .timeout = 240) {
    for (unsigned seed = 0; seed < 24; ++seed)
        stress(1 + (int) (seed % 4), (int) (seed / 4 % 3) * 40, seed, 1500);
}

Test(workers_stress, pools_and_queues_come_and_go) {
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

#if !JITC_HAS_ASAN /* the child may find the sanitizer's heap locked: see sanitizer.h */

typedef struct churner {
    jitc_queue *queue;
    pthread_mutex_t lock; /* of the stream, as it were: who forks holds it */
    atomic_int flag, warm, stop;
} churner;

static uint64_t call_many(churner *c, int count) {
    uint64_t n = 0;
    pthread_mutex_lock(&c->lock);
    for (int i = 0; i < count; ++i)
        n = call(c->queue, set_flag, &c->flag);
    pthread_mutex_unlock(&c->lock);
    return n;
}

/* Keeps the pool's lock and lists busy while another thread forks. Once it is warm nobody allocates
 * memory any more: a forked child of AddressSanitizer may find the heap locked for ever. */
static void *churn(void *context) {
    enum { AHEAD = 64 };
    churner *c = context;
    gate g = {0};
    uint64_t n = call(c->queue, pass_gate, &g);
    n = call_many(c, AHEAD);
    atomic_store(&g.open, 1);
    jitc_queue_wait(c->queue, n);
    atomic_store(&c->warm, 1);
    while (!atomic_load(&c->stop)) {
        n = call_many(c, AHEAD);
        jitc_queue_wait(c->queue, n);
    }
    return NULL;
}

/* The child's whole life; its exit status. Criterion's asserts do not work here. */
static int use_pool_in_child(jitc_pool *p, jitc_queue *q, jitc_queue *blocked, uint64_t number,
                             const atomic_uint *in_flight) {
    jitc_pool_forked(p);
    if (jitc_queue_done(blocked, number) || atomic_load(in_flight) != 1)
        return 2;
    if (number % 2) { /* one of two ways to go on */
        jitc_pool_resume(p);
        while (!jitc_queue_done(blocked, number))
            sleep_us(20);
    }
    jitc_queue_wait(blocked, number); /* not for the gate: who stood there is not in this process */
    if (atomic_load(in_flight) != 0)
        return 6;
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
        if (jitc_queue_launch(q, &t, &n) || jitc_queue_wait_for(blocked, q, n, &n) ||
            jitc_queue_launch(blocked, &t, &n) || jitc_queue_call(blocked, set_flag, &called, &n))
            return 3;
        while (i == 0 && !jitc_queue_done(blocked, n))
            sleep_us(20); /* workers exist again */
        jitc_queue_wait(blocked, n);
    }
    for (int i = 0; i < 1000; ++i)
        if (counters[i] != 40)
            return 4;
    jitc_queue_destroy(q);
    jitc_queue_destroy(blocked);
    return called ? 0 : 5;
}

Test(workers_stress, a_forked_child_starts_afresh, .timeout = 120) {
    for (int round = 0; round < 100; ++round) {
        jitc_pool *p = make_pool(3);
        jitc_queue *q = make_queue(p), *blocked = make_queue(p), *busy = make_queue(p);
        gate g = {0};
        atomic_uint in_flight = 0, counters[40] = {0};
        uint64_t params[40] = {address(counters)};
        for (int i = 0; i < 1 + round % 2; ++i)
            call(blocked, i ? set_flag : pass_gate, &g);
        uint64_t n = launch(blocked, &(jitc_task) {.function = count_lanes,
                                                   .lanes = 40,
                                                   .block = 10,
                                                   .params = params,
                                                   .count = 40,
                                                   .in_flight = &in_flight});
        churner c = {.queue = busy, .lock = PTHREAD_MUTEX_INITIALIZER};
        pthread_t thread;
        pthread_create(&thread, NULL, churn, &c);
        while (!atomic_load(&c.warm))
            sleep_us(20);
        while (!atomic_load(&g.entered)) /* else the child finds it before itself */
            sleep_us(20);
        sleep_us(round * 7);
        pthread_mutex_lock(&c.lock);
        jitc_pool_fork_hold(p);
        pid_t child = fork();
        if (child == 0)
            _exit(use_pool_in_child(p, q, blocked, n, &in_flight));
        jitc_pool_fork_release(p);
        pthread_mutex_unlock(&c.lock);
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
#endif
