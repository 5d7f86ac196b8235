/* lend_world.h: memory of arrays, lent to others as an export does it.  Layer: tests. */
#ifndef JITC_TESTS_LEND_WORLD_H
#define JITC_TESTS_LEND_WORLD_H
#include "device/lend.h"
#include "support.h"

/** A loan that has a block of its own. */
typedef struct loan_of {
    jitc_lent *lent; /* NULL: there is none */
} loan_of;
/** It ends, if there is one. */
void lend_end(loan_of *loan);

/** The buffer of an array that was evaluated; as long as the array. */
jitc_buffer *lend_buffer(jit_var v);
/** Evaluates v and lends its memory on the calling thread's stream; *data is its address. */
jit_status lend_var(jit_var v, intptr_t token, loan_of *loan, void **data);
/** The same of memory that need not be an array's. */
jit_status lend_memory(jitc_buffer *b, intptr_t token, loan_of *loan);
/** The thread's CUDA device, and its stream there. */
jitc_device *lend_device(void);
jitc_stream *lend_stream(void);
/** An array 0, 1, 2, ... plus `offset`, of CUDA, in memory. */
jit_var lend_make(size_t n, float offset);
/** Bytes that are pending on the thread's CUDA device. */
size_t lend_pending(void);
#endif
