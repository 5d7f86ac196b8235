/* peer.h: what CUB does in the benchmark of kernels that combine lanes, in a library of its own
 * that nvcc makes where there is one.  Layer: benchmarks. May include: nothing. */
#ifndef BENCH_COMBINE_PEER_H
#define BENCH_COMBINE_PEER_H
#include <stddef.h>

typedef enum combine_kind {
    COMBINE_SUM,       /* of x */
    COMBINE_MAX,       /* of x */
    COMBINE_FUSED,     /* the sum of x y + z */
    COMBINE_SEVERAL,   /* the sum of x, that of x^2, the maximum of x */
    COMBINE_BLOCKS,    /* the sums of blocks of `length` elements of x */
    COMBINE_SCAN,      /* sums of x up to each element */
    COMBINE_EXCLUSIVE, /* and without it */
    COMBINE_COMPRESS,  /* numbers of the flags of x that are set */
    COMBINE_SELECT,    /* numbers of the elements of x that are less than those of y */
    COMBINE_SORT,      /* x in order */
    COMBINE_PAIRS      /* and where each was (the peer moves values along) */
} combine_kind;

typedef enum combine_type { COMBINE_F32, COMBINE_F64, COMBINE_U32, COMBINE_U8 } combine_type;

typedef struct combine_peer_work {
    combine_kind kind;
    combine_type type;
    const void *in[3];
    void *out, *count; /* PAIRS: `count` has n elements */
    size_t n, length;
} combine_peer_work;

#ifdef __cplusplus
extern "C" {
#endif
/* Queue it on the default stream of the current context. 0, or an error of the CUDA runtime. */
int combine_peer_run(const combine_peer_work *w);
/* Wait for all of it. */
int combine_peer_wait(void);
#ifdef __cplusplus
}
#endif
#endif
