/* order.h: the checker of order: clocks of streams, accesses of work.  Layer: tests.
 *
 *   call:    sim_submit() ─► sim_order_action(): the work's clock
 *   worker:  sim_order_work() ─► runs: kernels mark bytes, copies name ranges ─► segments
 *
 * What is unordered is a fault, and a race. */
#ifndef SIMCUDA_ORDER_H
#define SIMCUDA_ORDER_H
#include "clock.h"
#include "state.h"

/* ---- in the API's calls, locked ---- */

/** `w` is queued on its stream, as number w->number: what comes before it. */
void sim_order_action(sim_work *w);
/** What is queued on `s` from now on comes after what `c` knows. */
void sim_order_after(sim_stream *s, const sim_clock *c);
/** *kept: what `s` knows now. */
void sim_order_keep(sim_clock **kept, const sim_stream *s);
/** The host knows that all this has been done. */
void sim_order_host(const sim_clock *c);
/** The same, once `p` is done, for which this waits. The context's error. */
CUresult sim_order_wait(sim_point p, sim_clock *c, const sim_context *context);
/** The same for all streams of a context. */
CUresult sim_order_wait_all(sim_context *context);
/** `a` is freed by the host: it has to know all uses. */
void sim_order_freed_by_host(sim_allocation *a, const char *what);

/* ---- on the worker ---- */

/** Locked: `w` runs from now on. */
void sim_order_work(const sim_work *w);
/** Locked: a cuMemFreeAsync that runs: it has to know all uses. */
void sim_order_freed(sim_allocation *a, const sim_work *w);
/** Locked: a piece of work is over, or never runs. */
void sim_order_done(sim_work *w);

/* Unlocked: */

/** What runs next is node `node` of a graph; `before`: bits of those that come before it, which are
 *  lent until the next call; `what` it is, unless it is a kernel. */
void sim_order_node(size_t node, const uint64_t *before, const char *what);
/** A kernel starts, ends; in between its accesses are marked. */
void sim_order_kernel(const char *name);
void sim_order_kernel_end(void);
/** The work accesses a range by itself. */
void sim_order_range(uint64_t address, uint64_t bytes, sim_access kind);

/* ---- marks: of 64 bytes each three words, read, written, atomic; in front of them, growing to
 * lower addresses, a byte for each page that has any ---- */

enum { SIM_MARK_WORDS = 3, SIM_MARK_PAGE = 12 };

/** Marks for `a`, which has none so far in this kernel; NULL: no kernel is watched. */
uint64_t *sim_order_touch(sim_allocation *a);
void sim_order_mark_far(uint64_t *marks, uint64_t from, uint64_t bytes, sim_access kind);

static inline void sim_order_mark(sim_allocation *a, uint64_t from, uint64_t bytes,
                                  sim_access kind) {
    uint64_t *marks = a->marks ? a->marks : sim_order_touch(a);
    if (!marks)
        return;
    if (from % 64 + bytes > 64) {
        sim_order_mark_far(marks, from, bytes, kind);
        return;
    }
    marks[from / 64 * SIM_MARK_WORDS + kind / 2] |= ~(uint64_t) 0 >> (64 - bytes) << from % 64;
    ((uint8_t *) marks)[-1 - (int64_t) (from >> SIM_MARK_PAGE)] = 1;
}
#endif
