/* recent.h: which kernels a stream has launched last, so that a failure can name them.
 * Layer: cuda.  May include: core.
 *
 * A kernel's name is made of the hash of its program: it is that of the entry in the text and in
 * the machine code, and what profilers and debuggers show. */
#ifndef JITC_CUDA_RECENT_H
#define JITC_CUDA_RECENT_H
#include "core/sync.h"

enum { JITC_CUDA_RECENT = 256, JITC_CUDA_LISTED = 4 };

typedef struct jitc_cuda_launched {
    uint64_t number, kernel; /* in the stream; see JITC_CUDA_NAME in text.h */
    uint64_t lanes;
    uint32_t instructions;
} jitc_cuda_launched;

typedef struct jitc_cuda_recent {
    jitc_spin lock; /* the innermost of all */
    uint64_t count; /* ever */
    jitc_cuda_launched launched[JITC_CUDA_RECENT];
} jitc_cuda_recent;

/** Kernels that may have failed; begins as {0}. */
typedef struct jitc_cuda_suspects {
    jitc_cuda_launched listed[JITC_CUDA_LISTED]; /* no two of one name */
    unsigned count;
    bool more;
} jitc_cuda_suspects;

static inline void jitc_cuda_recent_add(jitc_cuda_recent *r, jitc_cuda_launched l) {
    jitc_spin_lock(&r->lock);
    r->launched[r->count++ % JITC_CUDA_RECENT] = l;
    jitc_spin_unlock(&r->lock);
}
/** Those behind number `finished`. */
void jitc_cuda_recent_collect(jitc_cuda_recent *r, uint64_t finished, jitc_cuda_suspects *to);
/** In words; with `details`, also how large they are. Returns the length. */
void jitc_cuda_suspects_print(const jitc_cuda_suspects *s, bool details, char *text, size_t size);
#endif
