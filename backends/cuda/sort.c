/* sort.c: see sort.h.  Layer: cuda. */
#include "cuda/sort.h"

enum {
    VALUES = 256, /* of a byte */
    CLEAR_THREADS = 256,
    COUNT_THREADS = 512,
    COUNT_BLOCKS = 3, /* on a multiprocessor */
    ROOM = 256        /* alignment of what lies in scratch memory */
};

const char *const jitc_cuda_sort_suffixes[JITC_CUDA_SORT_KERNELS] = {"_clear", "_count", "_begin",
                                                                     ""};

const jitc_inst *jitc_cuda_sort_of(const jitc_program *p) {
    uint32_t n = 0;
    while (p->inst[n].op != JITC_OP_sort)
        ++n;
    return &p->inst[n];
}

/* So many elements of two blocks fit the registers and the shared memory of a multiprocessor. */
jitc_cuda_sort_shape jitc_cuda_sort_shape_of(const jitc_program *p) {
    const jitc_inst *i = jitc_cuda_sort_of(p);
    bool numbers = i->aux & JITC_AUX_PART, wide = p->head.flags & JITC_PROGRAM_WIDE;
    jitc_cuda_sort_shape s = {.key = jitc_dtypes[i->type].bytes,
                              .passes = jitc_dtypes[i->type].bytes};
    s.number = !numbers ? 0 : i->aux & JITC_AUX_U64 ? 8 : 4;
    bool large = s.key == 8 || wide;
    s.threads = numbers && !large ? 384 : 512;
    s.items = large ? 9 : numbers ? 20 : 18;
    return s;
}

static uint64_t ceil_div(uint64_t a, uint64_t b) {
    return (a + b - 1) / b;
}
static uint64_t rounded(uint64_t bytes) {
    return ceil_div(bytes, ROOM) * ROOM;
}
static uint64_t tiles_of(const jitc_cuda_sort_shape *s, uint64_t n) {
    return ceil_div(n, (uint64_t) s->threads * s->items);
}
uint32_t jitc_cuda_sort_counts(const jitc_cuda_sort_shape *s) {
    return s->passes * VALUES + ROOM / 8;
}
static uint64_t clear_words(const jitc_cuda_sort_shape *s, uint64_t n) {
    return jitc_cuda_sort_counts(s) + tiles_of(s, n) * VALUES;
}

size_t jitc_cuda_sort_scratch(const jitc_cuda_sort_shape *s, uint64_t n) {
    uint64_t bytes = clear_words(s, n) * 8;
    if (s->passes > 1)
        bytes = rounded(bytes) + rounded(n * s->key) + rounded(n * s->number);
    return bytes;
}

jitc_cuda_sort_grid jitc_cuda_sort_grid_of(const jitc_cuda_sort_shape *s,
                                           jitc_cuda_sort_kernel kernel, uint64_t n,
                                           unsigned multiprocessors) {
    uint64_t most = (uint64_t) COUNT_BLOCKS * multiprocessors, wanted;
    switch (kernel) {
        case JITC_CUDA_SORT_CLEAR:
            wanted = ceil_div(clear_words(s, n), CLEAR_THREADS);
            return (jitc_cuda_sort_grid) {wanted < most ? wanted : most, CLEAR_THREADS};
        case JITC_CUDA_SORT_COUNT:
            wanted = ceil_div(n, (uint64_t) 4 * COUNT_THREADS);
            return (jitc_cuda_sort_grid) {wanted < most ? wanted : most, COUNT_THREADS};
        case JITC_CUDA_SORT_BEGIN: return (jitc_cuda_sort_grid) {s->passes, VALUES};
        default: return (jitc_cuda_sort_grid) {tiles_of(s, n), s->threads};
    }
}
