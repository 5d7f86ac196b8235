/* fuzz_streams.c: random programs of several threads, streams and devices, over shared variables.
 *
 * Each thread takes variables out of slots that all share, computes with them, evaluates, reads,
 * exchanges, frees; waits for events; hands arrays to a foreign stream by a token and takes some
 * back. Variables do not change, so whatever the threads do when, each has the value that a plain
 * loop over integers gives, which is made along with it. In the end nothing may be left, and the
 * simulated driver must have found neither race nor fault.
 * usage: fuzz_streams [seconds [seed]]     0 seconds: one program, which needs a seed */
#include "fuzz_values.h"
#include "support.h"
#include "sync_table.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_THREADS = 64, SLOTS = 10, EVENTS = 4, RESTART = 16, LARGEST = 5000 };

typedef struct program {
    uint64_t seed;
    int threads, steps, devices;
    unsigned evaluates;   /* per cent of new variables */
    pthread_mutex_t lock; /* guards the slots */
    value slot[SLOTS];
    jit_event *event[EVENTS];
    atomic_uint calls_queued, calls_made;
    atomic_uint unique; /* no two sums with it are the same variable */
    pthread_barrier_t start;
} program;

/* One thread of a program. */
typedef struct actor {
    program *p;
    uint64_t random;
    int device;
    consumer *consumer; /* NULL: not needed so far */
    consumer_kind kind;
    consumer_place place;
    int consumer_device;
    value lent; /* to the consumer, which reads it; the variable may be given back already */
} actor;

static bool cuda; /* is it under test? */
static uint64_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) ^ (*state >> 11);
}
static size_t below(actor *a, size_t n) {
    return (size_t) (next(&a->random) % n);
}
static bool chance(actor *a, unsigned percent) {
    return below(a, 100) < percent;
}

/* ---- Slots ---- */

/* A value of the actor's device, or none; with `take` it is not in the slot any more. */
static value from_slot(actor *a, bool take) {
    value x = value_none();
    size_t first = below(a, SLOTS);
    pthread_mutex_lock(&a->p->lock);
    for (size_t i = 0; i < SLOTS && !x.v; ++i) {
        value *s = &a->p->slot[(first + i) % SLOTS];
        if (!s->v || s->device != a->device)
            continue;
        x = take ? *s : value_share(*s);
        if (take)
            *s = value_none();
    }
    pthread_mutex_unlock(&a->p->lock);
    return x;
}

/* Takes the caller's reference. */
static void to_slot(actor *a, value x) {
    value *s = &a->p->slot[below(a, SLOTS)];
    pthread_mutex_lock(&a->p->lock);
    value old = *s;
    *s = x;
    pthread_mutex_unlock(&a->p->lock);
    value_drop(old);
}

/* ---- Making values ---- */

static size_t any_size(actor *a) {
    static const size_t sizes[] = {1, 64, 64, 64, 1000, 1000, 1000, 1000, 3, LARGEST};
    return sizes[below(a, sizeof sizes / sizeof *sizes)];
}

static value copied(actor *a, size_t size) {
    uint32_t first = (uint32_t) next(&a->random), step = (uint32_t) next(&a->random);
    return value_ramp(a->device, size, first, step, chance(a, 40));
}

static value leaf(actor *a) {
    switch (below(a, 4)) {
        case 0: return value_literal(a->device, (uint32_t) below(a, 1000));
        case 1: return value_counter(a->device, any_size(a));
        default: return copied(a, any_size(a));
    }
}

/* A sum that nobody else has: what is added is never used again. */
static value made_here(actor *a, value x) {
    return value_plus(x, 1000000 + atomic_fetch_add(&a->p->unique, 1));
}

/* Evaluate it now, later, or not at all. */
static void maybe_evaluate(actor *a, value x) {
    if (!chance(a, a->p->evaluates))
        return;
    if (chance(a, 60))
        fuzz_must_be_ok(jit_var_eval(x.v), "jit_var_eval");
    else
        fuzz_must_be_ok(jit_schedule(x.v), "jit_schedule");
    if (chance(a, 20))
        fuzz_must_be_ok(jit_eval(), "jit_eval");
}

static void compute(actor *a) {
    value x = from_slot(a, false), y = from_slot(a, false), z;
    if (!x.v)
        x = leaf(a);
    if (!y.v || (y.want->size != x.want->size && y.want->size != 1 && x.want->size != 1)) {
        value_drop(y);
        y = chance(a, 50) ? copied(a, x.want->size)
                          : value_literal(a->device, (uint32_t) below(a, 9));
    }
    z = chance(a, 15) ? value_gathered(x, y) : value_combined(below(a, 4), x, y);
    maybe_evaluate(a, z);
    to_slot(a, z);
    value_drop(x);
    value_drop(y);
}

/* In place, if nobody else has it. */
static void scatter(actor *a) {
    value x = from_slot(a, chance(a, 70)), z;
    if (!x.v)
        x = copied(a, any_size(a));
    size_t first = below(a, x.want->size), stride = 1 + below(a, 3);
    z = value_scattered(x, first, stride, (uint32_t) below(a, 100));
    value_drop(x);
    maybe_evaluate(a, z);
    to_slot(a, z);
}

static void read(actor *a) {
    void *pointer;
    value x = from_slot(a, false);
    if (!x.v)
        return;
    size_t size = x.want->size, offset = below(a, size + 1);
    switch (below(a, 3)) {
        case 0: value_read(x); break;
        case 1: value_read_range(x, offset, below(a, size - offset + 1)); break;
        default:
            fuzz_must_be_ok(jit_data(x.v, &pointer), "jit_data");
            if (!cuda)
                value_check(x, pointer, 0, size, "jit_data");
    }
    value_drop(x);
}

/* ---- Foreign streams ---- */

/* The actor's consumer, for arrays of its device; NULL: it has one for another device. */
static consumer *my_consumer(actor *a) {
    if (!a->consumer) {
        a->kind = (consumer_kind) below(a, CONSUMER_KINDS);
        a->place = (consumer_place) below(a, CONSUMER_PLACES);
        a->consumer_device = a->device;
        if (!consumer_can(a->place, a->device))
            a->place = CONSUMER_HERE;
        if (a->place != CONSUMER_HERE) /* we could not wait for a default stream of that context */
            a->kind = chance(a, 50) ? CONSUMER_BLOCKING : CONSUMER_NON_BLOCKING;
        a->consumer = consumer_create(a->kind, a->place, a->device, LARGEST, false);
    }
    return a->consumer_device == a->device ? a->consumer : NULL;
}

/* A token that orders the consumer behind us (or us behind it). */
static uintptr_t good_token(actor *a,
                            bool (*orders)(sync_token, sync_how, consumer_place, consumer_kind)) {
    for (;;) {
        sync_token t = (sync_token) below(a, SYNC_TOKENS);
        if (orders(t, SYNC_ONE_THREAD, a->place, a->kind))
            return sync_token_value(t, a->consumer);
    }
}

static void let_it_wait(actor *a) {
    fuzz_must_be_ok(jit_cuda_sync_stream(good_token(a, sync_orders_reader)),
                    "jit_cuda_sync_stream");
}
static void wait_for_it(actor *a) {
    fuzz_must_be_ok(jit_cuda_wait_stream(good_token(a, sync_orders_writer)),
                    "jit_cuda_wait_stream");
}

/* The consumer has read what was lent. */
static void take_back(actor *a) {
    if (!a->lent.want)
        return;
    consumer_wait(a->consumer);
    value_check(a->lent, consumer_data(a->consumer), 0, a->lent.want->size, "the consumer");
    value_drop(a->lent);
    a->lent = value_none();
}

/* Evaluate an array of this actor's own and let the consumer wait for it; in either order, but a
 * literal is in memory from jit_data() on only. Its address. */
static void *hand_over(actor *a) {
    void *pointer;
    bool first = chance(a, 50);
    value x = first ? copied(a, 2 + below(a, LARGEST - 1)) : from_slot(a, false);
    if (!x.v || x.want->size == 1) {
        value_drop(x);
        x = copied(a, 1000);
    }
    a->lent = made_here(a, x);
    value_drop(x);
    if (first) {
        fuzz_must_be_ok(jit_schedule(a->lent.v), "jit_schedule");
        let_it_wait(a);
    }
    fuzz_must_be_ok(jit_data(a->lent.v, &pointer), "jit_data");
    if (!first)
        let_it_wait(a);
    return pointer;
}

/* The consumer reads an array, which may be given back at once: the memory is used again when it
 * has. */
static void lend(actor *a) {
    if (!my_consumer(a))
        return;
    take_back(a);
    void *pointer = hand_over(a);
    consumer_read(a->consumer, pointer, a->lent.want->size);
    if (chance(a, 50)) {
        wait_for_it(a);
        jit_unref(a->lent.v);
        a->lent.v = 0;
    }
}

/* The consumer writes an array, with which the actor then computes. */
static void borrow(actor *a) {
    void *pointer;
    if (!my_consumer(a))
        return;
    take_back(a);
    consumer_wait(a->consumer);
    value x = copied(a, 2 + below(a, LARGEST - 1)), y;
    fuzz_must_be_ok(jit_data(x.v, &pointer), "jit_data");
    let_it_wait(a);
    uint32_t word = (uint32_t) next(&a->random);
    consumer_write(a->consumer, pointer, word, x.want->size);
    wait_for_it(a);
    for (size_t i = 0; i < x.want->size; ++i)
        x.want->at[i] = word;
    y = made_here(a, x);
    fuzz_must_be_ok(jit_var_eval(y.v),
                    "jit_var_eval"); /* others wait for it, not for the consumer */
    to_slot(a, y);
    value_drop(x);
}

/* ---- Waiting ---- */

static void use_event(actor *a) {
    bool done;
    jit_event *e = a->p->event[below(a, EVENTS)];
    switch (below(a, 4)) {
        case 0: fuzz_must_be_ok(jit_event_query(e, &done), "jit_event_query"); break;
        case 1: fuzz_must_be_ok(jit_event_wait(e), "jit_event_wait"); break;
        case 2: fuzz_must_be_ok(jit_event_stream_wait(e), "jit_event_stream_wait"); break;
        default: fuzz_must_be_ok(jit_event_record(e), "jit_event_record");
    }
}

static void count_call(void *context) {
    program *p = context;
    atomic_fetch_add(&p->calls_made, 1);
}

static void wait_or_call(actor *a) {
    switch (below(a, 8)) {
        case 0: fuzz_must_be_ok(jit_sync_device(), "jit_sync_device"); break;
        case 1: fuzz_must_be_ok(jit_sync_all_devices(), "jit_sync_all_devices"); break;
        case 2: fuzz_must_be_ok(jit_trim(), "jit_trim"); break;
        case 3: fuzz_must_be_ok(jit_eval(), "jit_eval"); break;
        case 4:
            if (chance(a, 5))
                fuzz_must_be_ok(jit_cache_clear_memory(), "jit_cache_clear_memory");
            break;
        case 5: fuzz_must_be_ok(jit_sync_thread(), "jit_sync_thread"); break;
        default:
            fuzz_must_be_ok(jit_call(support_backend(), count_call, a->p), "jit_call");
            atomic_fetch_add(&a->p->calls_queued, 1);
    }
}

static void change_device(actor *a) {
    a->device = (int) below(a, (size_t) a->p->devices);
    fuzz_must_be_ok(jit_set_device(support_backend(), a->device), "jit_set_device");
}

/* ---- Programs ---- */

static void step(actor *a) {
    size_t what = below(a, 100);
    if (what < 45)
        compute(a);
    else if (what < 55)
        scatter(a);
    else if (what < 70)
        read(a);
    else if (what < 75)
        change_device(a);
    else if (what < 82)
        use_event(a);
    else if (what < 88)
        wait_or_call(a);
    else if (!cuda)
        value_drop(from_slot(a, true));
    else if (what < 94)
        lend(a);
    else
        borrow(a);
}

static void *act(void *context) {
    actor *a = context;
    pthread_barrier_wait(&a->p->start);
    change_device(a);
    for (int i = 0; i < a->p->steps; ++i)
        step(a);
    take_back(a);
    if (a->consumer)
        consumer_destroy(a->consumer);
    return NULL; /* with work still queued, and variables still scheduled */
}

static void begin(program *p, actor *main_actor) {
    pthread_mutex_init(&p->lock, NULL);
    for (int i = 0; i < EVENTS; ++i) {
        change_device(main_actor);
        fuzz_must_be_ok(jit_event_create(support_backend(), i & 1, &p->event[i]),
                        "jit_event_create");
    }
    pthread_barrier_init(&p->start, NULL, (unsigned) p->threads);
}

static void run_threads(program *p) {
    pthread_t thread[MAX_THREADS];
    actor actors[MAX_THREADS];
    for (int i = 0; i < p->threads; ++i) {
        actors[i] = (actor) {.p = p, .random = p->seed * 0x9E3779B97F4A7C15u + (uint64_t) i};
        next(&actors[i].random);
        if (pthread_create(&thread[i], NULL, act, &actors[i]) != 0)
            fuzz_stop("no more threads");
    }
    for (int i = 0; i < p->threads; ++i)
        pthread_join(thread[i], NULL);
}

static void look_for_faults(void) {
    unsigned (*faults)(void);
    const char *(*text)(void);
    *(void **) &faults = support_driver("simcuda_faults");
    *(void **) &text = support_driver("simcuda_fault_text");
    if (faults && faults())
        fuzz_stop("the simulated driver found: %s", text());
}

static void end(program *p) {
    jit_stats stats;
    for (int i = 0; i < SLOTS; ++i) {
        if (p->slot[i].v)
            value_read(p->slot[i]);
        value_drop(p->slot[i]);
    }
    for (int i = 0; i < EVENTS; ++i)
        jit_event_destroy(p->event[i]);
    fuzz_must_be_ok(jit_sync_all_devices(), "jit_sync_all_devices");
    if (p->calls_made != p->calls_queued)
        fuzz_stop("%u calls were queued, and %u made", p->calls_queued, p->calls_made);
    fuzz_must_be_ok(jit_get_stats(&stats), "jit_get_stats");
    if (stats.variables || stats.bytes_live)
        fuzz_stop("%llu variables and %zu bytes are left", (unsigned long long) stats.variables,
                  stats.bytes_live);
    look_for_faults();
    pthread_mutex_destroy(&p->lock);
    pthread_barrier_destroy(&p->start);
}

static void run_program(uint64_t seed) {
    program p = {.seed = seed};
    actor a = {.p = &p, .random = seed * 0xD1342543DE82EF95u + 1};
    fuzz_running(seed);
    next(&a.random);
    p.devices = jit_device_count(support_backend());
    p.threads = seed % 64 == 63 ? MAX_THREADS : 1 + (int) below(&a, 6);
    p.steps = p.threads > 8 ? 8 : 4 + (int) below(&a, 60);
    p.evaluates = chance(&a, 50) ? 80 : 30;
    begin(&p, &a);
    run_threads(&p);
    end(&p);
}

static void set(const char *name, const char *text) {
    fuzz_must_be_ok(jit_set_option(name, text), name);
}

/* What is read only when the runtime starts; and the order in which the simulated device works. */
static void start(uint64_t seed) {
    char threads[] = {(char) ('1' + seed / RESTART % 4), 0};
    void (*order)(uint64_t), (*kernel_time)(unsigned);
    *(void **) &order = support_driver("simcuda_seed");
    *(void **) &kernel_time = support_driver("simcuda_kernel_time_us");
    if (order)
        order(seed / RESTART % 4 ? seed : 0);
    if (kernel_time)
        kernel_time(seed / RESTART % 3 ? 0 : 100);
    set("num_threads", threads);
    set("llvm_level", "0");
    set("kernel_ops", seed / RESTART % 2 ? "1000" : "3");
    set("memory_spare", seed / RESTART % 5 ? "0" : "100000");
    set("cuda_graphs", seed / RESTART % 3 ? "1" : "0");
    fuzz_must_be_ok(jit_init(support_backend()), "jit_init");
}

int main(int argc, char **argv) {
    time_t seconds = argc > 1 ? atoi(argv[1]) : 10, last = time(NULL) + seconds;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, seed = first;
    cuda = support_backend() == JIT_CUDA;
    do {
        start(seed);
        do
            run_program(seed++);
        while (time(NULL) < last && seed % RESTART);
        support_shutdown();
    } while (time(NULL) < last);
    printf("%llu programs, from %llu on: every result is that of a plain loop\n",
           (unsigned long long) (seed - first), (unsigned long long) first);
    return 0;
}
