/* barrier.c: __syncthreads() and its kin. The barrier opens when all threads of the block that have
 * not ended are at it; threads at another one are a fault. */
#include "access.h"
#include "exec.h"

enum { PLAIN, COUNT, AND, OR };

static int result_of(const sim_block *b, unsigned threads, int kind) {
    int sum = 0, all = 1;
    for (unsigned t = 0; t < threads; t++) {
        const sim_fiber *f = b->fibers[t];
        if (f) {
            sum += (int) f->value;
            all &= (int) f->value;
        }
    }
    return kind == COUNT ? sum : kind == AND ? all : sum != 0;
}

static void open_barrier(sim_executor *x, sim_block *b, int kind) {
    int result = result_of(b, x->threads, kind);
    b->at_barrier = 0;
    x->progress++;
    for (unsigned t = 0; t < x->threads; t++) {
        sim_fiber *f = b->fibers[t];
        if (f && f->wait == SIM_AT_BARRIER) {
            f->result = (uint64_t) result;
            sim_ready(x, f);
        }
    }
}

/* Somebody who waits at the barrier of the block. */
static const sim_fiber *waiting(const sim_executor *x, const sim_block *b) {
    for (unsigned t = 0; t < x->threads; t++) {
        if (b->fibers[t] && b->fibers[t]->wait == SIM_AT_BARRIER) {
            return b->fibers[t];
        }
    }
    return NULL;
}

void sim_barrier_left(sim_executor *x, sim_block *b) {
    if (b->at_barrier && b->at_barrier == b->live) {
        open_barrier(x, b, waiting(x, b)->kind);
    }
}

int sim_barrier(int kind, int value, int line) {
    sim_executor *x = sim_running;
    sim_fiber *f = x->self;
    sim_block *b = f->block;
    const sim_fiber *other = b->at_barrier ? waiting(x, b) : NULL;
    if (other && other->line != line) {
        sim_stop(SIM_DIVERGENT_BARRIER,
                 "at the barrier in line %d, while thread (%u, %u, %u) is at that in line %d", line,
                 other->place.thread.x, other->place.thread.y, other->place.thread.z, other->line);
    }
    f->kind = kind;
    f->value = (uint64_t) value;
    f->line = line;
    f->wait = SIM_AT_BARRIER;
    f->last = 0;
    if (++b->at_barrier == b->live) {
        open_barrier(x, b, kind);
    }
    sim_suspend(x);
    return (int) f->result;
}
