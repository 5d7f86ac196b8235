/* lend.h: memory that others use as well, after whom it is used again.
 * Layer: device.  May include: core, ir.
 *
 *   jitc_lend ──► lent ──jitc_loan_end──► pending, at its consumer ──► given up: its reference
 *                   │                     (or given up at once)        is dropped
 *                   └──jitc_lend_finish──► detached: the last loan frees the memory
 *
 * When a loan ends the consumer may still read, on a stream of its own, and whoever ends the loan
 * may be any thread, even a function that the driver calls: so nothing is asked or waited for then.
 * The reference is pending until the consumer's stream is seen again: then an event behind its work
 * is noted as a use of the memory, as if the stream were ours. A consumer that is not seen again,
 * or that nobody can name, is waited for by the CPU, with all else that the device does, when
 * there is too much that is pending (the option memory_lent).
 *
 * One lock of the process guards all loans: they outlive devices. No driver is called under it. */
#ifndef JITC_DEVICE_LEND_H
#define JITC_DEVICE_LEND_H
#include "device/buffer.h"

/** A loan, or what is left of it. It lies at the front of a block of malloc(). Only lend.c reads
 * it.
 */
typedef struct jitc_lent {
    jitc_buffer *buffer;            /* a reference */
    struct jitc_consumer *consumer; /* NULL: nobody has to be waited for */
    struct jitc_lent *next, *previous;
} jitc_lent;

/** Who is lent memory. */
typedef struct jitc_borrower {
    intptr_t token; /* of the stream on which he works (backend.h; INTPTR_MIN: none was given, which
                       means the legacy default stream) */
    bool writes;    /* he may write: then he comes after the last reads, too */
} jitc_borrower;

/** Lend b's memory, behind the last write; the loan has a reference of its own, and the block of
 * `e`, which is freed when it is given up; after a failure that is the caller's still. Memory of a
 * GPU: s is a stream of its device, whose lock the caller holds; for token 0 the caller then waits,
 * under no lock, by jitc_buffer_wait(). Memory of the host: s is NULL and the token is
 * JITC_STREAM_NONE, as nobody waits here. JIT_INVALID_ARGUMENT for other tokens, and what
 * stream_release() says; then nothing was lent. */
jit_status jitc_lend(jitc_buffer *b, jitc_stream *s, const jitc_borrower *to, jitc_lent *e);
/** What was lent is used no more, once what the consumer has queued so far is over. Any thread,
 * under no lock, also in a function that the driver calls. Never waits and calls no driver, unless
 * the device has ended. */
void jitc_loan_end(jitc_lent *e);
/** Are all references to b those of loans, but for `others`? If not, somebody may be about to use
 * it of whom nothing else tells. */
bool jitc_lent_only(jitc_buffer *b, unsigned others);
/** The user has named a stream (0: either default one): it is there, and its work can be waited
 * for. Holder of s->lock, a stream of `d`. Never waits and never fails. */
void jitc_consumer_seen(jitc_device *d, jitc_stream *s, intptr_t token);

typedef struct jitc_lender jitc_lender;

jit_status jitc_lender_create(jitc_device *d, jitc_lender **out);
/** The device ends, and what our streams do is over: what is pending is given up, and what is lent
 * will be freed by its last loan. Under no lock. */
void jitc_lender_destroy(jitc_lender *l);
/** Give up what waits for no consumer, but for somebody who may call the driver: foreign memory.
 * Under no lock. */
void jitc_lend_collect(const jitc_device *d);
/** Bytes that are pending. Any thread, no lock. */
size_t jitc_lend_pending(const jitc_device *d);
/** Give up all that is pending, by waiting for all that the device does. `locked`: the caller holds
 * the lock of a stream, and no `release` may be called. False if nothing was; no error of the
 * thread. */
bool jitc_lend_recall(const jitc_device *d, bool locked);

/** Around fork(). */
void jitc_lend_fork_hold(void);
void jitc_lend_fork_release(void);
/** In the child: nobody is ending a loan of the device. */
void jitc_lend_forked(jitc_device *d);
#endif
