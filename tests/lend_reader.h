/* lend_reader.h: a stream of somebody else that reads what it was lent, on the simulated driver,
 * behind a gate.  Layer: tests. */
#ifndef JITC_TESTS_LEND_READER_H
#define JITC_TESTS_LEND_READER_H
#include "cuda_foreign.h"
#include "lend_world.h"

enum { LENT = 1000, LENT_BYTES = LENT * sizeof(float) };

extern cuda_world w;
extern foreign f;
extern gate g; /* in front of the reader */

/** For TestSuite(). At the end nothing may be left in the driver. */
void reader_start(void);
void reader_finish(void);

typedef struct reader {
    CUstream stream;
    float *copy; /* what it has read: 0, 1, 2, ... plus offset */
    float offset;
    loan_of loan;
    void *data;
} reader;

/** On a new stream of the primary context, not blocking. */
reader reader_make(void);
/** Lends it an array that nobody else holds then, and lets it read behind the closed gate. */
void reader_lend(reader *r, intptr_t token);
/** Its stream, as a token. */
intptr_t reader_handle(const reader *r);
/** Once it has read. */
void reader_expect_old_data(const reader *r);
/** Opens the gate, waits, checks, destroys. */
void reader_end(reader *r);
/** Makes another array of the size; where it lies. */
void *reader_overwrites(void);
/** Everything that was given back is ours again, by a wait of the CPU. */
void reader_recall(void);

/** Who opens the gate once the CPU waits for the device, be it by freeing memory. */
typedef struct reader_opener {
    uint64_t waits; /* before */
    pthread_t thread;
} reader_opener;
void reader_open_at_wait(reader_opener *o);
/** The gate is opened in any case. */
void reader_opener_end(reader_opener *o);
#endif
