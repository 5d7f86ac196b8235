/* python_peer.h: a Python library, measured by a child process that answers over a pair of pipes.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * The child sleeps in read() while it is not asked, so it does not disturb the other entries. */
#ifndef BENCH_PYTHON_PEER_H
#define BENCH_PYTHON_PEER_H
#include "bench.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct python_peer python_peer;

enum { PYTHON_PEERS = 5 }; /* at most */

/* What sample() is asked for: one piece of work of the script, on n elements. */
typedef struct python_work {
    python_peer *peer;
    const char *name;
    size_t n;
} python_work;

/* The Python that peers run on: BENCH_PYTHON, else that of the virtual environment that BENCH_PEERS
 * names. */
void python_peer_path(char *text, size_t size);
/* Start a script of this folder for a library ("numpy"). NULL: not installed. */
python_peer *python_peer_create(const char *script, const char *library, int threads);
void python_peer_destroy(python_peer *peer);
/* A sample of a python_work: nanoseconds per call, measured in the child. Negative: failed. */
double python_peer_sample(void *work);

/* Several libraries, measured by peer.py with one number of threads. */
typedef struct python_peers {
    size_t count;
    const char *const *names;
    python_peer *peer[PYTHON_PEERS]; /* NULL: not installed */
    python_work work[PYTHON_PEERS];  /* that was asked for last */
} python_peers;

void python_peers_start(python_peers *p, size_t count, const char *const *names, int threads);
/* Add those that have this work to a row of times per element; until the next call. */
void python_peers_add(python_peers *p, bench_row *row, const char *work, size_t n);
void python_peers_stop(python_peers *p);

#endif
