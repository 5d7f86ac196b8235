/* targets.c: kernels that combine values into elements of arrays: how they are laid out and
 * launched.  Layer: cuda.  May include: core, ir. */
#include "cuda/targets.h"
#include "core/arith.h"
#include "cuda/text_parts.h"

enum {
    ROWS = 4,
    UNROLLED_WORK = 1200,     /* of all lanes of a thread: compile time grows with it */
    FEW = 1024,               /* elements: so many are always combined in blocks, */
    LANES_PER_ELEMENT = 16,   /* more where there are so many lanes for each, */
    LANES_PER_COLUMN = 64,    /* and in columns where there are so many for each of theirs */
    COLUMNS_BYTES = 64 << 10, /* of a block's memory, at most */
    SMALL_BYTES = 64 << 10,   /* of small blocks: with more, too few of them run at once */
    THREAD_LANES = 16,        /* of a launch, at least, before there are more blocks; */
    FEW_LANES = 4,            /* where each takes long, until all multiprocessors have one */
    WARP = 32
};

bool jitc_cuda_is_direct(jit_reduce_op op, jit_dtype t) {
    bool is_sum = op == JIT_REDUCE_ADD || op == JIT_REDUCE_MUL;
    if (jitc_dtypes[t].bits == 64 || op == JIT_REDUCE_MUL)
        return false;
    return jitc_dtypes[t].cls != JITC_FLOAT || !is_sum;
}

/* Does an instruction other than `inst` use the buffer's array in another way? Then what it finds
 * there would depend on where values are combined. */
static bool is_used(const jitc_program *p, uint32_t inst) {
    const jitc_inst *mine = &p->inst[inst];
    uint32_t array = p->inst[mine->a].a;
    for (uint32_t n = 0; n < p->head.count; ++n) {
        const jitc_inst *i = &p->inst[n];
        bool uses = i->op == JITC_OP_gather || i->op == JITC_OP_scatter ||
                    (i->op == JITC_OP_scatter_reduce && i->aux != mine->aux);
        if (uses && p->inst[i->a].a == array)
            return true;
    }
    return false;
}

static bool may_be_in_block(const jitc_program *p, uint32_t inst) {
    const jitc_inst *i = &p->inst[inst];
    return i->op == JITC_OP_scatter_reduce && !(i->aux & JITC_AUX_PART) && !is_used(p, inst);
}

static jitc_cuda_target target_of(const jitc_program *p, const jitc_inst *i) {
    return (jitc_cuda_target) {.size = p->inst[i->a].a + 1,
                               .bytes = jitc_dtypes[i->type].bits == 64 ? 8 : 4,
                               .direct =
                                   jitc_cuda_is_direct(jitc_inst_reduce(i), (jit_dtype) i->type)};
}

jitc_cuda_targets jitc_cuda_targets_of(const jitc_program *p) {
    jitc_cuda_targets t = {.scratch = p->head.scratch};
    bool any = false;
    for (uint32_t n = 0; n < p->head.count && p->head.shape == JITC_SHAPE_MAP; ++n) {
        any |= p->inst[n].op == JITC_OP_scatter_reduce;
        if (t.count < JITC_CUDA_TARGETS && may_be_in_block(p, n))
            t.target[t.count++] = target_of(p, &p->inst[n]);
    }
    if (!any)
        return t;
    uint64_t work = jitc_cuda_work_of(p);
    t.rows = p->head.flags & JITC_PROGRAM_LOOPS ? 1 : ROWS;
    while (t.rows > 1 && t.rows * work > UNROLLED_WORK)
        t.rows /= 2;
    return t;
}

uint32_t jitc_cuda_target_of(const jitc_program *p, uint32_t inst) {
    uint32_t number = 0;
    if (!may_be_in_block(p, inst))
        return JITC_CUDA_TARGETS;
    for (uint32_t n = 0; n < inst && number < JITC_CUDA_TARGETS; ++n)
        number += may_be_in_block(p, n);
    return number;
}

/* Launches. */

/* Bytes of the block's memory for a target, and where it is combined. */
static uint64_t place(const jitc_cuda_target *t, uint64_t lanes, uint64_t size, uint64_t left,
                      uint32_t *where) {
    *where = JITC_CUDA_IN_PLACE;
    if (!size || size > left / t->bytes)
        return 0;
    if (lanes / LANES_PER_ELEMENT < size && (size > FEW || lanes < size))
        return 0;
    uint64_t bytes = size * t->bytes, columns = bytes * JITC_CUDA_COLUMNS;
    if (!t->direct && columns <= left && columns <= COLUMNS_BYTES &&
        lanes / LANES_PER_COLUMN / JITC_CUDA_COLUMNS >= size) {
        *where = JITC_CUDA_IN_COLUMNS;
        bytes = columns;
    } else {
        *where = JITC_CUDA_IN_BLOCK;
    }
    return (bytes + 7) / 8 * 8;
}

/* Where nothing is combined in blocks: as many as there are lanes, small ones if those are few. */
static void plan_in_place(const jitc_cuda_targets *t, uint64_t lanes, const jitc_cuda_room *room,
                          uint32_t block, jitc_cuda_targets_plan *out) {
    uint64_t threads = jitc_ceil_div(lanes, t->rows),
             share = jitc_ceil_div(threads, room->multiprocessors);
    if (share < block)
        block = (uint32_t) jitc_ceil_div(share, WARP) * WARP;
    out->block = block;
    out->blocks = jitc_ceil_div(threads, block);
}

/* Are all that are combined in blocks combined by instructions? */
static bool are_direct(const jitc_cuda_targets *t, uint32_t places) {
    bool direct = true;
    for (uint32_t i = 0; i < t->count; ++i)
        direct &= t->target[i].direct || (places >> 2 * i & 3) == JITC_CUDA_IN_PLACE;
    return direct;
}

/* Blocks whose threads have at least so many lanes. */
static uint64_t blocks_of(const jitc_cuda_targets *t, uint64_t lanes, uint32_t block,
                          uint32_t thread_lanes) {
    return jitc_ceil_div(lanes,
                         (uint64_t) block * (t->rows > thread_lanes ? t->rows : thread_lanes));
}

/* Large blocks: there are fewer, whose copies are combined at the end. But more threads meet at an
 * element, and have to try again where there is no instruction for it. */
static bool want_large(const jitc_cuda_targets_plan *p, const jitc_cuda_room *room, bool direct) {
    bool fast = direct && room->threads[1] >= room->threads[0];
    return !room->threads[0] || ((fast || p->bytes > SMALL_BYTES) && room->threads[1]);
}

/* As many blocks as run at once, at most, each of which goes over its lanes. */
static void plan_in_blocks(const jitc_cuda_targets *t, uint64_t lanes, const jitc_cuda_room *room,
                           jitc_cuda_targets_plan *out) {
    bool direct = are_direct(t, out->places), large = want_large(out, room, direct);
    out->block = large ? JITC_CUDA_LARGE_BLOCK : JITC_CUDA_SMALL_BLOCK;
    uint64_t resident = jitc_least(room->threads[large] / out->block,
                                   room->all_bytes / (out->bytes + JITC_CUDA_RESERVED_BYTES));
    resident = resident ? resident : 1;
    out->blocks = blocks_of(t, lanes, out->block, THREAD_LANES);
    if (!direct && out->blocks < room->multiprocessors)
        out->blocks = jitc_least(blocks_of(t, lanes, out->block, FEW_LANES), room->multiprocessors);
    out->blocks = jitc_least(out->blocks, resident * room->multiprocessors);
}

jitc_cuda_targets_plan jitc_cuda_plan_targets(const jitc_cuda_targets *t, uint64_t lanes,
                                              const uint64_t *params, const jitc_cuda_room *room,
                                              uint32_t block) {
    jitc_cuda_targets_plan plan = {0};
    uint64_t left = room->threads[0] || room->threads[1] ? room->block_bytes : 0;
    for (uint32_t i = 0; i < t->count; ++i) {
        uint32_t where;
        uint64_t bytes = place(&t->target[i], lanes, params[t->target[i].size], left, &where);
        left -= bytes;
        plan.bytes += (uint32_t) bytes;
        plan.places |= where << 2 * i;
    }
    if (plan.places)
        plan_in_blocks(t, lanes, room, &plan);
    else
        plan_in_place(t, lanes, room, block, &plan);
    return plan;
}
