/* peer.h: what hand-written CUDA and CUB do in the benchmark of loops and of indexed accesses, in a
 * library of its own that nvcc makes where there is one.  Layer: benchmarks. May include: nothing.
 */
#ifndef BENCH_SCATTER_PEER_H
#define BENCH_SCATTER_PEER_H
#include <stddef.h>

typedef enum scatter_kind {
    SCATTER_COUNT,      /* table[index[i]] += 1, u32 */
    SCATTER_ADD,        /* table[index[i]] += value[i], f32 */
    SCATTER_MAX,        /* table[index[i]] = max(table[index[i]], value[i]), f32 */
    SCATTER_INC,        /* out[i] = table[index[i]]++, u32 */
    SCATTER_GATHER,     /* out[i] = table[index[i]], f32 */
    SCATTER_MANDELBROT, /* out[i] = iterations of pixel i of 4096 x 4096 */
    SCATTER_KINDS
} scatter_kind;

enum { SCATTER_WIDTH = 4096, SCATTER_ITERATIONS = 1024 };

typedef struct scatter_peer_work {
    scatter_kind kind;
    const void *index, *value;
    void *table, *out;
    size_t n, size; /* lanes, elements of the table */
} scatter_peer_work;

#ifdef __cplusplus
extern "C" {
#endif
/* Queue it on the default stream of the current context, by kernels that are written by hand. 0, or
 * an error of the CUDA runtime. */
int scatter_hand_run(const scatter_peer_work *w);
/* The same by CUB, which has SCATTER_COUNT only. */
int scatter_cub_run(const scatter_peer_work *w);
/* Wait for all of it. */
int scatter_peer_wait(void);
#ifdef __cplusplus
}
#endif
#endif
