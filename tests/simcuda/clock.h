/* clock.h: what is known to come before what.  Layer: tests.
 *
 * A clock says of every stream up to which number its work comes before something. Each stream has
 * one, which grows with every action; a piece of work and an event keep what it was when they were
 * queued. Work `a`, number n of a stream, comes before work `b` if b's clock knows n. Clocks are
 * made in the API's calls, in the order of the calls, so what runs when makes no difference.
 *
 *   action on s        s knows what the host knows, then itself
 *                      s is legacy: what all blocking streams of its context know      (implicit)
 *                      s is blocking or a thread's default: what the legacy one knows  (implicit)
 *   cuEventRecord      an action; the event has the clock of s
 *   cuStreamWaitEvent  s knows what the event had, and then it is an action; nothing if the event
 *                      was never recorded
 *   cuGraphLaunch      one action, which comes after the last launch of the same executable graph;
 *                      its nodes are in the order that its edges give
 *   cuStreamSynchronize, cuEventSynchronize, cuCtxSynchronize; cuStreamQuery, cuEventQuery and
 *   cuEventElapsedTime that were successful; cuMemcpyDtoH, and cuMemcpyHtoD from pinned memory
 *                      the host knows what it waited for, as it was when the call was made
 *   cuMemAllocAsync    an action; whoever uses the memory has to know it
 *   cuMemFreeAsync     an action, which has to know all uses
 *   cuMemFree, cuMemFreeHost
 *                      the host has to know all uses (the real ones wait, which is not promised,
 *                      but has been seen). Of memory that nothing has used: the host knows all that
 *                      was queued in its context, for which it is freed
 *
 * No edges are: two calls one after the other on two streams; a copy that says nothing of waiting,
 * even if it does (cuMemset, cuMemcpyDtoD, cuMemcpyHtoD from pageable memory, asynchronous copies
 * of pageable memory); cuMemAlloc, cuMemFree, cuModuleUnload; destroying a stream or event; that a
 * host function ran, or what it told other threads; time.
 *
 * "The host" is all its threads at once: what one has waited for, the others' next calls know. That
 * is true, since it has happened; whether the other thread could know it is not checked. Who calls
 * from several threads without a lock has a race of the host, which ThreadSanitizer finds.
 *
 * The numbers exist twice: with the implicit edges of the legacy stream, and without. */
#ifndef SIMCUDA_CLOCK_H
#define SIMCUDA_CLOCK_H
#include <stdbool.h>
#include <stdint.h>

/** Immutable once somebody else has a reference; NULL knows nothing. Under the driver's lock. */
typedef struct sim_clock sim_clock;

typedef enum sim_known {
    SIM_UNKNOWN,  /* no order */
    SIM_IMPLICIT, /* only by the legacy stream's */
    SIM_KNOWN
} sim_known;

sim_clock *sim_clock_ref(sim_clock *c);
void sim_clock_unref(sim_clock *c);
/** *to also knows what `from` knows; `implicit`: by the legacy stream's order only. */
void sim_clock_join(sim_clock **to, const sim_clock *from, bool implicit);
/** *to knows work `number` of the stream with number `task`. */
void sim_clock_add(sim_clock **to, unsigned task, uint64_t number);
sim_known sim_clock_knows(const sim_clock *c, unsigned task, uint64_t number);
#endif
