/* parts.h: what bench_memory is made of.  Layer: benchmarks. May include: core, device. */
#ifndef BENCH_MEMORY_PARTS_H
#define BENCH_MEMORY_PARTS_H
#include "bench.h"
#include "cuda_device.h"

/* blocks.c: taking a block from the cache and giving it back, on a device that does nothing. */
void measure_blocks(bench *b);

/* transfers.c: arrays of `bytes` bytes to the GPU and back, beside the driver's own copies. The
 * runtime has been started. */
void measure_transfers(bench *b, cuda_device *d, size_t bytes);
#endif
