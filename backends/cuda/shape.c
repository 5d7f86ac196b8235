/* shape.c: kernels that combine lanes: how they are laid out and launched.
 * Layer: cuda.  May include: core, ir. */
#include "cuda/shape.h"
#include "core/arith.h"
#include "cuda/text_parts.h"

enum {
    VECTOR_BYTES = 16,
    UNROLLED_WORK = 1200, /* of a tile, in a thread: compile time grows with it */
    REDUCE_BLOCKS = 512,  /* such that sums are equal on all GPUs; of long arrays */
    REDUCE_SHARE = 8,     /* more, with so many tiles each, so that multiprocessors end together, */
    REDUCE_MANY = 2048,   /* but no more than these */
    REDUCE_TILES = 64,    /* of a block, at most: what is added one by one loses accuracy */
    SHORT = 4096,         /* blocks of lanes that a warp can do */
    LONG = 16384,         /* those that several blocks do, */
    CHUNK_LOG = 13,       /* of which each does so many lanes, */
    CHUNKS = 512          /* or this part of them */
};

/* Sums of floats are the same whatever else a kernel does: so their lanes are. */
static bool is_exact(const jitc_inst *i) {
    jit_reduce_op op = jitc_inst_reduce(i);
    return jitc_dtypes[i->type].cls != JITC_FLOAT || (op != JIT_REDUCE_ADD && op != JIT_REDUCE_MUL);
}

typedef struct summary {
    bool exact, indexed, loops;
    uint32_t widest;       /* bytes of elements of vectors */
    const jitc_inst *last; /* that combines lanes */
    uint32_t results;
    uint64_t work;
} summary;

static bool is_combining(const jitc_inst *i) {
    return i->op == JITC_OP_reduce || i->op == JITC_OP_block_reduce ||
           i->op == JITC_OP_prefix_reduce || i->op == JITC_OP_compress;
}

static summary summarise(const jitc_program *p) {
    summary s = {.exact = true, .widest = 1, .work = jitc_cuda_work_of(p)};
    s.loops = p->head.flags & JITC_PROGRAM_LOOPS;
    for (uint32_t n = 0; n < p->head.count; ++n) {
        const jitc_inst *i = &p->inst[n];
        s.indexed |= i->op == JITC_OP_gather;
        if (jitc_cuda_is_vector(i) && jitc_dtypes[i->type].bytes > s.widest)
            s.widest = jitc_dtypes[i->type].bytes;
        if (is_combining(i)) {
            s.last = i;
            ++s.results;
            s.exact &= is_exact(i);
        }
    }
    return s;
}

static void shape_reduce(jitc_cuda_shape *s, const summary *m) {
    uint32_t lanes = m->exact ? VECTOR_BYTES / m->widest : 4;
    if (m->indexed && lanes > 4)
        lanes = 4;
    while (m->exact && lanes > 1 && lanes * m->work * JITC_CUDA_REDUCE_ROWS > UNROLLED_WORK)
        lanes /= 2;
    s->threads = JITC_CUDA_REDUCE_THREADS;
    s->tile = (uint64_t) lanes * JITC_CUDA_REDUCE_THREADS * JITC_CUDA_REDUCE_ROWS;
    bool long_lanes = m->loops || lanes * m->work > UNROLLED_WORK / 2;
    s->lanes = long_lanes ? 1 : lanes;
}

static void shape_scan(jitc_cuda_shape *s, const summary *m) {
    uint32_t bytes = jitc_dtypes[m->last->type].bytes, lanes = bytes == 8 ? 2 : 4;
    s->threads = JITC_CUDA_SCAN_THREADS;
    s->tile = (uint64_t) lanes * JITC_CUDA_SCAN_THREADS * JITC_CUDA_SCAN_ROWS;
    s->lanes = lanes * JITC_CUDA_SCAN_ROWS * m->work > UNROLLED_WORK ? 1 : lanes;
    s->words = bytes == 8 ? 2 : 1;
}

jitc_cuda_shape jitc_cuda_shape_of(const jitc_program *p) {
    jitc_cuda_shape s = {.kind = (jitc_shape) p->head.shape, .scratch = p->head.scratch};
    summary m = summarise(p);
    s.results = m.results;
    switch (s.kind) {
        case JITC_SHAPE_REDUCE: shape_reduce(&s, &m); break;
        case JITC_SHAPE_BLOCK_REDUCE:
            s.length = m.last->c;
            s.threads = JITC_CUDA_TEAM_THREADS;
            s.lanes = 1;
            break;
        case JITC_SHAPE_SCAN: shape_scan(&s, &m); break;
        case JITC_SHAPE_COMPRESS:
            s.threads = JITC_CUDA_SCAN_THREADS;
            s.tile = JITC_CUDA_COMPRESS_TILE;
            s.lanes = 1;
            s.words = m.last->type == JIT_u64 ? 2 : 1;
            break;
        case JITC_SHAPE_SORT: s.sort = jitc_cuda_sort_shape_of(p); break;
        default: break;
    }
    return s;
}

/* Launches. */

static uint64_t reduce_blocks(const jitc_cuda_shape *s, uint64_t lanes) {
    uint64_t tiles = jitc_ceil_div(lanes, s->tile), least = jitc_ceil_div(tiles, REDUCE_TILES);
    uint64_t blocks = jitc_least(jitc_ceil_div(tiles, REDUCE_SHARE), REDUCE_MANY);
    if (blocks < REDUCE_BLOCKS)
        blocks = jitc_least(tiles, REDUCE_BLOCKS);
    return blocks < least ? least : blocks;
}

/** Binary logarithm of the threads that work on a block of lanes together. */
static uint32_t team_log_of(uint64_t length) {
    uint32_t log = 0;
    if (length > SHORT)
        return JITC_CUDA_TEAM_LOG;
    while (log < 5 && (uint64_t) JITC_CUDA_TEAM_ROWS << log < length)
        ++log;
    return log;
}

/** Binary logarithm of the lanes that each of several blocks has; 0: one does them all. */
static uint32_t chunk_log_of(uint64_t length) {
    uint32_t log = CHUNK_LOG;
    if (length <= LONG)
        return 0;
    while (length >> log > CHUNKS)
        ++log;
    return log;
}

static void plan_blocks(uint64_t lanes, uint64_t length, jitc_cuda_plan *out) {
    if (length > lanes)
        length = lanes;
    uint64_t count = jitc_ceil_div(lanes, length), chunks = 1;
    uint32_t team_log = team_log_of(length), log = chunk_log_of(length);
    if (log) {
        chunks = jitc_ceil_div(length, (uint64_t) 1 << log);
        out->tickets = count;
    }
    out->blocks = jitc_ceil_div(count * chunks, JITC_CUDA_TEAM_THREADS >> team_log);
    out->mode = team_log | (uint64_t) log << 16;
}

/** Sums of tiles, of 32 tiles, of 32 of those ... */
static size_t sums_of(uint64_t tiles, uint32_t words) {
    size_t sums = JITC_CUDA_LOOK_FIRST;
    for (int level = 0; level < JITC_CUDA_LOOK_LEVELS; ++level, tiles /= 32)
        sums += (tiles + 1) * words;
    return sums;
}

jitc_cuda_plan jitc_cuda_plan_of(const jitc_cuda_shape *s, uint64_t lanes, const uint64_t *params,
                                 unsigned multiprocessors) {
    jitc_cuda_plan plan = {0};
    switch (s->kind) {
        case JITC_SHAPE_REDUCE:
            plan.blocks = reduce_blocks(s, lanes);
            plan.tickets = plan.blocks > 1;
            break;
        case JITC_SHAPE_BLOCK_REDUCE: plan_blocks(lanes, params[s->length], &plan); break;
        default:
            plan.blocks = jitc_ceil_div(lanes, s->tile);
            plan.mode = multiprocessors; /* for how far ahead memory is fetched */
            plan.sums = plan.blocks > 1 ? sums_of(plan.blocks, s->words) : 0;
            break;
    }
    return plan;
}

size_t jitc_cuda_scratch_of(const jitc_cuda_shape *s, uint64_t lanes) {
    uint64_t words = 0;
    if (s->kind == JITC_SHAPE_SORT)
        return jitc_cuda_sort_scratch(&s->sort, lanes);
    if (s->kind == JITC_SHAPE_REDUCE && reduce_blocks(s, lanes) > 1)
        words = reduce_blocks(s, lanes);
    if (s->kind == JITC_SHAPE_BLOCK_REDUCE && lanes > LONG)
        /* the chunks of all lengths: the last one of each block of lanes may be short */
        words = 2 * (lanes >> CHUNK_LOG) + lanes / LONG + 4;
    return words * s->results * sizeof(uint64_t);
}
