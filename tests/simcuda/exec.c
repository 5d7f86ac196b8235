/* exec.c: runs the blocks of a launch. A few blocks are resident at once; in what order blocks
 * start and which thread goes on next is random where a seed is set, else ascending, one block at a
 * time. */
#include "exec.h"
#include <immintrin.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEFAULT_MXCSR = 0x1f80, STACK = 256 << 10, PLAIN_STACK = 16 << 20, MOST_FIBERS = 8192 };
/* So often every waiting thread looks again before they are held to wait for ever. */
enum { IDLE_ROUNDS = 10000, LEAST_IDLE = 100000 };

__thread sim_executor *sim_running __attribute__((tls_model("initial-exec")));

/* ---- Reports ---- */

static void blame(sim_executor *x, const sim_place *p, sim_result result, const char *format,
                  va_list arguments) {
    if (x->result != SIM_OK) {
        return; /* the first fault counts */
    }
    x->result = result;
    int n = snprintf(x->report, x->report_size, "kernel %s", x->launch->function->name);
    if (p && n >= 0 && (size_t) n < x->report_size) {
        n += snprintf(x->report + n, x->report_size - (size_t) n,
                      ", block (%u, %u, %u), thread (%u, %u, %u)", p->block.x, p->block.y,
                      p->block.z, p->thread.x, p->thread.y, p->thread.z);
    }
    if (n >= 0 && (size_t) n + 2 < x->report_size) {
        memcpy(x->report + n, ": ", 3);
        vsnprintf(x->report + n + 2, x->report_size - (size_t) n - 2, format, arguments);
    }
}

void sim_blame(sim_executor *x, const sim_fiber *f, sim_result result, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    blame(x, f ? &f->place : NULL, result, format, arguments);
    va_end(arguments);
}

void sim_stop(sim_result result, const char *format, ...) {
    sim_executor *x = sim_running;
    va_list arguments;
    va_start(arguments, format);
    blame(x, &x->self->place, result, format, arguments);
    va_end(arguments);
    sim_suspend(x); /* for good: the scheduler sees the result */
    __builtin_unreachable();
}

/* ---- Order ---- */

static uint64_t next_random(sim_executor *x) { /* splitmix64 */
    uint64_t z = x->random += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

unsigned sim_below(sim_executor *x, unsigned bound) {
    return x->random && bound ? (unsigned) (next_random(x) % bound) : 0;
}

typedef struct order { /* block number i is (first + i * step) mod count */
    uint64_t first, step, count, next;
} order;

static uint64_t common_divisor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b, b = rest;
    }
    return a;
}

static order choose_order(sim_executor *x) {
    const unsigned *g = x->launch->grid;
    order o = {.step = 1, .count = (uint64_t) g[0] * g[1] * g[2]};
    switch (sim_below(x, 4)) {
        case 0: break;
        case 1: o.first = o.count - 1, o.step = o.count - 1; break; /* descending */
        default:
            o.first = next_random(x) % o.count;
            do { /* below 2^32, so that products do not overflow */
                o.step = 1 + (next_random(x) >> 32) % o.count;
            } while (common_divisor(o.step, o.count) != 1);
    }
    return o;
}

static sim_index next_block(const sim_executor *x, order *o) {
    const unsigned *g = x->launch->grid;
    __uint128_t product = (__uint128_t) o->next++ * o->step + o->first;
    uint64_t number = (uint64_t) (product % o->count);
    return (sim_index) {(unsigned) (number % g[0]), (unsigned) (number / g[0] % g[1]),
                        (unsigned) (number / g[0] / g[1])};
}

static void set_thread(const sim_launch *l, sim_place *p, unsigned thread) {
    const unsigned *b = l->block;
    if (thread < b[0]) { /* a division takes as long as a small kernel */
        p->thread = (sim_index) {thread, 0, 0};
    } else {
        p->thread = (sim_index) {thread % b[0], thread / b[0] % b[1], thread / b[0] / b[1]};
    }
}

static sim_place place_of(const sim_launch *l, sim_index block, unsigned thread) {
    const unsigned *b = l->block, *g = l->grid;
    sim_place p = {
        .block = block, .block_size = {b[0], b[1], b[2]}, .grid_size = {g[0], g[1], g[2]}};
    set_thread(l, &p, thread);
    return p;
}

/* ---- Without waits: one fiber for all ---- */

static void plain_entry(void) {
    sim_executor *x = sim_running;
    sim_place *p = &x->self->place;
    void (*call)(void **) = x->launch->function->call;
    order o = choose_order(x);
    bool descending = sim_below(x, 2);
    while (o.next < o.count) {
        sim_index block = next_block(x, &o);
        *p = place_of(x->launch, block, 0);
        for (unsigned t = 0; t < x->threads; t++) {
            set_thread(x->launch, p, descending ? x->threads - 1 - t : t);
            x->self->last = 0;
            call(x->arguments);
        }
    }
    x->self->wait = SIM_ENDED;
    sim_suspend(x);
}

static void run_plain(sim_executor *x) {
    sim_fiber *f = sim_fiber_start(x, PLAIN_STACK, plain_entry);
    if (!f) {
        sim_blame(x, NULL, SIM_TRAP, "no memory for a stack");
        return;
    }
    sim_resume(x, f);
    sim_fiber_end(x, f);
}

/* ---- With waits: one fiber for each thread ---- */

void sim_ready(sim_executor *x, sim_fiber *f) {
    f->wait = SIM_RUNS;
    x->queue[x->tail++ & (x->size - 1)] = f;
}

static sim_fiber *take(sim_executor *x) {
    size_t mask = x->size - 1, other = x->head + sim_below(x, (unsigned) (x->tail - x->head));
    sim_fiber *f = x->queue[other & mask];
    x->queue[other & mask] = x->queue[x->head & mask];
    x->head++;
    return f;
}

static void fiber_entry(void) {
    sim_executor *x = sim_running;
    x->launch->function->call(x->arguments);
    x->self->wait = SIM_ENDED;
    sim_suspend(x);
}

static void start_block(sim_executor *x, sim_block *b, sim_index index) {
    b->index = index;
    b->used = true;
    b->started = 0;
    b->live = x->threads;
    b->at_barrier = 0;
    sim_arena_reset(x, b);
}

static void start_thread(sim_executor *x, sim_block *b) {
    sim_fiber *f = sim_fiber_start(x, STACK, fiber_entry);
    if (!f) {
        sim_blame(x, NULL, SIM_TRAP, "no memory for a stack");
        return;
    }
    f->block = b;
    f->thread = b->started++;
    f->place = place_of(x->launch, b->index, f->thread);
    b->fibers[f->thread] = f;
    sim_ready(x, f);
}

static void end_thread(sim_executor *x, sim_fiber *f) {
    sim_block *b = f->block;
    b->fibers[f->thread] = NULL;
    b->live--;
    x->progress++;
    sim_barrier_left(x, b);
    sim_warp_left(x, b, f->thread);
    sim_fiber_end(x, f);
    if (b->live == 0) {
        sim_arena_check(x, b);
        b->used = false;
    }
}

static void start_more(sim_executor *x, order *o) {
    unsigned first = sim_below(x, x->resident);
    for (unsigned i = 0; i < x->resident; i++) {
        sim_block *b = &x->blocks[(first + i) % x->resident];
        if (!b->used && o->next < o->count) {
            start_block(x, b, next_block(x, o));
        }
        if (b->used && b->started < x->threads) {
            start_thread(x, b);
            return;
        }
    }
}

static void report_deadlock(sim_executor *x, const sim_fiber *spinning) {
    const sim_fiber *f = spinning;
    for (unsigned i = 0; i < x->resident && !f; i++) {
        for (unsigned t = 0; t < x->threads && !f; t++) {
            f = x->blocks[i].fibers[t];
        }
    }
    if (f && f->wait == SIM_AT_BARRIER) {
        sim_blame(x, f, SIM_DEADLOCK, "waits at the barrier in line %d for ever", f->line);
    } else if (f && f->wait == SIM_IN_WARP) {
        sim_blame(x, f, SIM_DEADLOCK, "waits in the warp operation in line %d, mask %#x, for ever",
                  f->line, f->mask);
    } else {
        sim_blame(x, f, SIM_DEADLOCK, "waits for a change at address %#llx for ever",
                  f ? (unsigned long long) f->last : 0);
    }
}

typedef struct patience {
    uint64_t seen, idle;
} patience;

/* A thread looked at memory again, and nobody has done anything since. */
static bool too_long(sim_executor *x, patience *p) {
    if (x->progress != p->seen) {
        p->seen = x->progress;
        p->idle = 0;
    }
    uint64_t most = (uint64_t) IDLE_ROUNDS * (x->tail - x->head + 1);
    return ++p->idle > (most > LEAST_IDLE ? most : LEAST_IDLE);
}

static void run_fibers(sim_executor *x) {
    order o = choose_order(x);
    patience p = {0};
    x->spins = false;
    while (x->result == SIM_OK) {
        /* As late as possible: a thread that never waits hands its stack to the next one. */
        if (x->head == x->tail || x->spins || sim_below(x, 3)) {
            start_more(x, &o);
        }
        if (x->head == x->tail || x->result != SIM_OK) {
            break;
        }
        sim_fiber *f = take(x);
        x->spins = false;
        sim_resume(x, f);
        if (f->wait == SIM_ENDED) {
            end_thread(x, f);
        } else if (x->spins && too_long(x, &p)) {
            report_deadlock(x, f);
        }
    }
    bool all = o.next == o.count;
    for (unsigned i = 0; i < x->resident; i++) {
        all &= !x->blocks[i].used;
    }
    if (!all && x->result == SIM_OK) {
        report_deadlock(x, NULL);
    }
}

/* ---- A launch ---- */

static void free_blocks(sim_executor *x) {
    for (unsigned i = 0; x->blocks && i < x->resident; i++) {
        sim_block *b = &x->blocks[i];
        for (unsigned t = 0; b->fibers && t < x->threads; t++) {
            if (b->fibers[t]) { /* a fault left it where it was */
                sim_fiber_end(x, b->fibers[t]);
            }
        }
        free(b->fibers);
        free(b->arena);
    }
    free(x->blocks);
    free(x->queue);
    x->blocks = NULL;
    x->queue = NULL;
}

static bool make_blocks(sim_executor *x) {
    uint64_t blocks = (uint64_t) x->launch->grid[0] * x->launch->grid[1] * x->launch->grid[2];
    unsigned most = MOST_FIBERS / x->threads;
    x->resident = 1 + sim_below(x, most < 16 ? most : 16);
    if (x->resident > blocks) {
        x->resident = (unsigned) blocks;
    }
    for (x->size = 1; x->size < (size_t) x->resident * x->threads;) {
        x->size *= 2;
    }
    x->head = x->tail = 0;
    x->blocks = calloc(x->resident, sizeof *x->blocks);
    x->queue = calloc(x->size, sizeof *x->queue);
    bool good = x->blocks && x->queue;
    for (unsigned i = 0; good && i < x->resident; i++) {
        x->blocks[i].fibers = calloc(x->threads, sizeof *x->blocks[i].fibers);
        x->blocks[i].arena = malloc(sim_arena_bytes(x->launch));
        good = x->blocks[i].fibers && x->blocks[i].arena;
    }
    return good;
}

static void run_waiting(sim_executor *x) {
    if (make_blocks(x)) {
        run_fibers(x);
    } else {
        sim_blame(x, NULL, SIM_TRAP, "no memory for its blocks");
    }
    free_blocks(x);
}

static void free_executor(void *pointer) {
    sim_executor *x = pointer;
    while (x->idle) {
        sim_fiber *f = x->idle;
        x->idle = f->next;
        sim_fiber_free(f);
    }
    sim_signal_stack_free(x);
    free(x);
}

static pthread_key_t key;
static void make_key(void) {
    pthread_key_create(&key, free_executor);
}

/* Stacks are kept from launch to launch. */
static sim_executor *executor_of_thread(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_key);
    sim_executor *x = pthread_getspecific(key);
    if (!x) {
        x = calloc(1, sizeof *x);
        pthread_setspecific(key, x);
    }
    return x;
}

static bool points_to_arguments(sim_executor *x, const sim_launch *l) {
    const sim_function *f = l->function;
    for (size_t i = 0; i < f->count; i++) {
        x->arguments[i] = (char *) l->arguments + f->offsets[i];
        if (f->offsets[i] + f->sizes[i] > l->argument_bytes) {
            sim_blame(x, NULL, SIM_ILLEGAL_ADDRESS,
                      "argument %zu ends at byte %zu, but only %zu bytes were passed", i,
                      f->offsets[i] + f->sizes[i], l->argument_bytes);
            return false;
        }
    }
    return true;
}

static void run(sim_executor *x, const sim_launch *l) {
    x->threads = l->block[0] * l->block[1] * l->block[2];
    x->random = sim_random();
    x->progress = 0;
    if (!points_to_arguments(x, l)) {
        return;
    }
    unsigned mxcsr = _mm_getcsr();
    _mm_setcsr(DEFAULT_MXCSR); /* the caller's thread may flush denormal numbers */
    sim_catch_signals(x);
    sim_running = x;
    (l->function->waits ? run_waiting : run_plain)(x);
    sim_running = NULL;
    _mm_setcsr(mxcsr);
}

sim_result sim_run(const sim_launch *l, char *report, size_t size) {
    sim_executor *x = executor_of_thread();
    if (!x) {
        snprintf(report, size, "kernel %s: no memory", l->function->name);
        return SIM_TRAP;
    }
    x->launch = l;
    x->report = report;
    x->report_size = size;
    x->result = SIM_OK;
    if (size) {
        *report = 0;
    }
    run(x, l);
    return x->result;
}
