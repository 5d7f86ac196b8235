/* recent.c: kernels that may have failed.  Layer: cuda.  May include: core. */
#include "cuda/recent.h"
#include "cuda/text.h"
#include <stdio.h>

static void add(jitc_cuda_suspects *s, const jitc_cuda_launched *l) {
    for (unsigned i = 0; i < s->count; ++i)
        if (s->listed[i].kernel == l->kernel)
            return;
    if (s->count < JITC_CUDA_LISTED)
        s->listed[s->count++] = *l;
    else
        s->more = true;
}

void jitc_cuda_recent_collect(jitc_cuda_recent *r, uint64_t finished, jitc_cuda_suspects *to) {
    jitc_spin_lock(&r->lock);
    uint64_t first = r->count > JITC_CUDA_RECENT ? r->count - JITC_CUDA_RECENT : 0;
    if (first && r->launched[first % JITC_CUDA_RECENT].number > finished + 1)
        to->more = true; /* or one that is forgotten */
    for (uint64_t i = first; i < r->count; ++i)
        if (r->launched[i % JITC_CUDA_RECENT].number > finished)
            add(to, &r->launched[i % JITC_CUDA_RECENT]);
    jitc_spin_unlock(&r->lock);
}

void jitc_cuda_suspects_print(const jitc_cuda_suspects *s, bool details, char *text, size_t size) {
    size_t length = 0;
    *text = 0;
    for (unsigned i = 0; i < s->count && length < size; ++i) {
        const jitc_cuda_launched *l = &s->listed[i];
        const char *comma = !i ? "" : i + 1 < s->count || s->more ? ", " : " or ";
        length += (size_t) snprintf(text + length, size - length, "%s" JITC_CUDA_NAME, comma,
                                    (unsigned long long) l->kernel);
        if (details && length < size)
            length += (size_t) snprintf(text + length, size - length,
                                        " (%u instructions over %llu lanes)", l->instructions,
                                        (unsigned long long) l->lanes);
    }
    if (s->more && length < size)
        snprintf(text + length, size - length, " or another");
}
