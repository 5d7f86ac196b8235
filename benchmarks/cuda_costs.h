/* cuda_costs.h: what an evaluation on the GPU costs beside the work of the kernels.
 * Layer: benchmarks. May include: <jit/jit.h>. */
#ifndef BENCH_CUDA_COSTS_H
#define BENCH_CUDA_COSTS_H
#include "bench.h"
#include "peers/python_peer.h"

enum { CUDA_TORCH, CUDA_DRJIT, CUDA_CUPY, CUDA_PEERS };
extern const char *const cuda_peer_names[CUDA_PEERS];

/* Add the peers of `who` (bits 1 << CUDA_...) to a row; `works` has room for CUDA_PEERS. */
void cuda_peers_add(bench_row *row, python_peer *const *peers, unsigned who, const char *work,
                    size_t n, python_work *works);

/* Small evaluations, with tracing and without. */
void cuda_costs_evaluate(bench *b, python_peer *const *peers);
/* The first evaluation of a program, and one whose kernels are on disk. */
void cuda_costs_compile(bench *b, python_peer *const *peers);
/* The start of a process to its first result. `self`: argv[0]; `drjit`: is it
 * installed? */
void cuda_costs_start(bench *b, const char *self, bool drjit);

#endif
