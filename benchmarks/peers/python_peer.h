/* python_peer.h: a Python library, measured by a child process that answers over a pair of pipes.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * The child sleeps in read() while it is not asked, so it does not disturb the other entries. */
#ifndef BENCH_PYTHON_PEER_H
#define BENCH_PYTHON_PEER_H
#include <stdbool.h>
#include <stddef.h>

typedef struct python_peer python_peer;

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
/* Does the library of a peer.py have this work? */
bool python_peer_has(python_peer *peer, const char *work);
/* A sample of a python_work: nanoseconds per call, measured in the child. Negative: failed. */
double python_peer_sample(void *work);
/* The same, per element. */
double python_peer_sample_element(void *work);

#endif
