/* sort.c: see sort.h.  Layer: cuda. */
#include "cuda/sort.h"
#include "core/arith.h"

enum {
    VALUES = 256, /* of a byte */
    CLEAR_THREADS = 256,
    CLEAR_BLOCKS = 3,       /* on a multiprocessor */
    COUNT_ROWS = 4,         /* elements of a thread of `count`, before there are more blocks */
    FEW_COLUMNS = 3,        /* their binary logarithm: fewer are faster for */
    FEW_ELEMENTS = 1 << 21, /* less than so many elements, */
    MOST_COLUMNS = 5,       /* and more than the lanes of a warp no use */
    MULTIPROCESSOR_THREADS = 2048, /* at most, of all devices */
    ROOM = 256                     /* alignment of what lies in scratch memory */
};

const char *const jitc_cuda_sort_suffixes[JITC_CUDA_SORT_KERNELS] = {"_clear", "_count", "_begin",
                                                                     "", "_small"};

const jitc_inst *jitc_cuda_sort_of(const jitc_program *p) {
    uint32_t n = 0;
    while (p->inst[n].op != JITC_OP_sort)
        ++n;
    return &p->inst[n];
}

/* So many elements of two or three blocks fit the registers of a multiprocessor, and the 64 KiB of
 * memory that a block can have on every device. */
jitc_cuda_sort_shape jitc_cuda_sort_shape_of(const jitc_program *p) {
    const jitc_inst *i = jitc_cuda_sort_of(p);
    bool numbers = i->aux & JITC_AUX_PART;
    jitc_cuda_sort_shape s = {.key = jitc_dtypes[i->type].bytes,
                              .passes = jitc_dtypes[i->type].bytes};
    s.number = !numbers ? 0 : i->aux & JITC_AUX_U64 ? 8 : 4;
    s.items = s.key == 8 || s.number == 8 ? 12 : numbers ? 24 : 22;
    s.resident = numbers ? 2 : 3;
    return s;
}

static uint64_t rounded(uint64_t bytes) {
    return jitc_ceil_div(bytes, ROOM) * ROOM;
}
static uint32_t tile_of(const jitc_cuda_sort_shape *s) {
    return JITC_CUDA_SORT_THREADS * s->items;
}
static uint64_t tiles_of(const jitc_cuda_sort_shape *s, uint64_t n) {
    return jitc_ceil_div(n, tile_of(s));
}
uint32_t jitc_cuda_sort_counts(const jitc_cuda_sort_shape *s) {
    return s->passes * VALUES + ROOM / 8;
}
uint32_t jitc_cuda_sort_room(const jitc_cuda_sort_shape *s) {
    return tile_of(s) / (s->key == 8 || s->number == 8 ? 1 : 2);
}
uint32_t jitc_cuda_sort_small(const jitc_cuda_sort_shape *s) {
    uint32_t most = jitc_cuda_sort_room(s) * 8 / (2 * ((s->key == 8 ? 8 : 4) + s->number));
    return most / JITC_CUDA_SORT_THREADS * JITC_CUDA_SORT_THREADS;
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

/* Launches. */

/* Its room, and for each value a target, and two words for each warp; sums of them, and a ticket.
 */
static unsigned tile_bytes(const jitc_cuda_sort_shape *s) {
    unsigned tables = VALUES * (8 + 2 * JITC_CUDA_SORT_THREADS / 32 * 4);
    return jitc_cuda_sort_room(s) * 8 + tables + (VALUES / 32 + 2) * 4;
}

static jitc_cuda_sort_launch count(const jitc_cuda_sort_shape *s, uint64_t n,
                                   const jitc_cuda_room *room) {
    unsigned column = s->passes * VALUES * 4, log2 = n < FEW_ELEMENTS ? FEW_COLUMNS : MOST_COLUMNS;
    while (log2 && column << log2 > room->block_bytes)
        --log2;
    unsigned bytes = column << log2;
    uint64_t resident = jitc_least(MULTIPROCESSOR_THREADS / JITC_CUDA_SORT_COUNTERS,
                                   room->all_bytes / (bytes + JITC_CUDA_RESERVED_BYTES));
    return (jitc_cuda_sort_launch) {
        JITC_CUDA_SORT_COUNT,
        jitc_least(jitc_ceil_div(n, COUNT_ROWS * JITC_CUDA_SORT_COUNTERS),
                   (resident ? resident : 1) * room->multiprocessors),
        JITC_CUDA_SORT_COUNTERS, bytes, log2};
}

unsigned jitc_cuda_plan_sort(const jitc_cuda_sort_shape *s, uint64_t n, const jitc_cuda_room *room,
                             jitc_cuda_sort_launch out[JITC_CUDA_SORT_LAUNCHES]) {
    unsigned number = 0;
    if (n <= jitc_cuda_sort_small(s)) {
        out[number++] = (jitc_cuda_sort_launch) {JITC_CUDA_SORT_SMALL, 1, JITC_CUDA_SORT_THREADS,
                                                 tile_bytes(s), 0};
        return number;
    }
    out[number++] =
        (jitc_cuda_sort_launch) {JITC_CUDA_SORT_CLEAR,
                                 jitc_least(jitc_ceil_div(clear_words(s, n), CLEAR_THREADS),
                                            (uint64_t) CLEAR_BLOCKS * room->multiprocessors),
                                 CLEAR_THREADS, 0, 0};
    out[number++] = count(s, n, room);
    out[number++] = (jitc_cuda_sort_launch) {JITC_CUDA_SORT_BEGIN, s->passes, VALUES, 0, 0};
    for (uint32_t pass = 0; pass < s->passes; ++pass)
        out[number++] = (jitc_cuda_sort_launch) {JITC_CUDA_SORT_PASS, tiles_of(s, n),
                                                 JITC_CUDA_SORT_THREADS, tile_bytes(s), pass};
    return number;
}
