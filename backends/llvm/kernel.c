/* kernel.c: a program as an LLVM module.  Layer: llvm.  May include: core, ir.
 *
 *   entry:  pointers, uniform values                       without a tail:
 *           begin < full ? main : check                      entry: ... br main
 *   main:   `unroll` vectors an iteration, unmasked          main:  ... i < end ? main : exit
 *   check:  full < end ? tail : exit
 *   tail:   one vector an iteration, masked
 *   exit:   return
 *
 * The vectors of one iteration are emitted side by side, operation by operation: that hides
 * latencies also at level 0, where instructions stay in the order in which they were emitted.
 * Literals are loaded where they are used: loaded earlier, they would take registers, and at level
 * 0 stack slots. */
#include "llvm/combine.h"
#include "llvm/loop.h"
#include "llvm/operation.h"
#include "llvm/scatter_reduce.h"
#include <stdlib.h>
#include <string.h>

enum { QUICK_BLOCK = 96 };

/* Operands. */

void jitc_build_operand(jitc_builder *k, uint32_t inst) {
    const jitc_inst *i = &k->p->inst[inst];
    if (i->op == JITC_OP_literal) {
        LLVMValueRef v = jitc_literals_value(&k->e, &k->literals, i);
        for (unsigned u = 0; u < JITC_MAX_UNROLL; u++)
            jitc_build_value(k, inst)[u] = v;
    } else if (i->op == JITC_OP_masked) {
        jitc_build_operand(k, i->a);
        jitc_build_operand(k, i->b);
    }
}

static void prepare_all(jitc_builder *k, const jitc_inst *i) {
    const uint32_t operands[] = {i->a, i->b, i->c};
    if (i->op == JITC_OP_gather) {
        jitc_build_operand(k, i->b);
    } else if (jitc_ops[i->op].form == JITC_FORM_SCATTER) {
        jitc_build_operand(k, i->b);
        jitc_build_operand(k, i->c);
    } else if (i->op == JITC_OP_store || i->op == JITC_OP_compress) {
        jitc_build_operand(k, i->a);
    } else if (jitc_ops[i->op].form != JITC_FORM_LEAF && i->op != JITC_OP_buffer) {
        for (int o = 0; o < jitc_ops[i->op].arity; o++)
            jitc_build_operand(k, operands[o]);
    }
}

/* Instructions: vector number `u` of the iteration. */

static LLVMValueRef lane_offset(jitc_builder *k, unsigned u) {
    return u ? jitc_emit_bin(&k->e, LLVMAdd, k->position, jitc_build_constant(k, u * k->e.lanes))
             : k->position;
}
LLVMValueRef jitc_build_vector_pointer(jitc_builder *k, jit_dtype type, uint32_t parameter,
                                       unsigned u) {
    LLVMTypeRef element = type == JIT_bool ? k->e.i8 : jitc_emit_scalar(&k->e, type);
    LLVMValueRef p = jitc_build_pointer(k, element, k->pointers[parameter], k->position);
    return u ? jitc_build_pointer(k, element, p, jitc_build_constant(k, u * k->e.lanes)) : p;
}
static const jitc_tail *memory_tail(const jitc_builder *k, unsigned u) {
    return k->mask_memory && k->tail ? &k->tail[u] : NULL;
}

static LLVMValueRef counter(jitc_builder *k, const jitc_inst *i, unsigned u) {
    LLVMTypeRef scalar = jitc_emit_scalar(&k->e, (jit_dtype) i->type);
    LLVMValueRef first = lane_offset(k, u);
    if (scalar != k->e.i64)
        first = k->e.api->LLVMBuildCast(k->e.b, LLVMTrunc, first, scalar, "");
    return jitc_emit_bin(&k->e, LLVMAdd, jitc_emit_splat(&k->e, first),
                         jitc_emit_iota(&k->e, scalar));
}

static LLVMValueRef elementwise(jitc_builder *k, const jitc_inst *i, unsigned u) {
    const uint32_t operands[] = {i->a, i->b, i->c};
    const jitc_inst *inst = k->p->inst;
    jitc_operation o = {.op = (jitc_op) i->op, .to = (jit_dtype) i->type};
    o.type = (jit_dtype) inst[jitc_ops[i->op].form == JITC_FORM_SELECT ? i->b : i->a].type;
    for (int n = 0; n < jitc_ops[i->op].arity; n++)
        o.v[n] = jitc_build_value(k, operands[n])[u];
    if (jitc_ops[i->op].arity == 2) {
        const jitc_inst *b = &inst[i->b];
        o.baked = b->op == JITC_OP_literal && (b->flags & JITC_INST_BAKED);
        o.bits = jitc_inst_bits(b);
    }
    return jitc_emit_operation(&k->e, &o);
}

static LLVMValueRef both(jitc_builder *k, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? jitc_emit_bin(&k->e, LLVMAnd, a, b) : a ? a : b;
}

jitc_lane_access jitc_build_access(jitc_builder *k, uint32_t inst, uint32_t buffer, uint32_t index,
                                   unsigned u) {
    const jitc_inst *all = k->p->inst;
    const jitc_inst *b = &all[buffer];
    jitc_lane_access a = {.type = (jit_dtype) b->type, .active = jitc_build_active(k, u)};
    if (all[index].op == JITC_OP_masked) {
        a.active = both(k, a.active, jitc_build_value(k, all[index].b)[u]);
        index = all[index].a;
    }
    a.index = jitc_build_value(k, index)[u];
    a.index_type = (jit_dtype) all[index].type;
    a.wide = k->p->head.flags & JITC_PROGRAM_WIDE;
    a.far = b->flags & JITC_INST_FAR && k->level > 0; /* long to compile */
    a.base = k->pointers[b->a];
    a.size = k->pointers[b->a + 1];
    if (k->p->head.flags & JITC_PROGRAM_BOUNDS) {
        a.report = k->pointers[k->p->head.report];
        a.claim = inst + 1;
    }
    return a;
}

void jitc_build_store(jitc_builder *k, jit_dtype type, uint32_t parameter, LLVMValueRef v,
                      unsigned u) {
    jitc_emit_store(&k->e, type, jitc_build_vector_pointer(k, type, parameter, u), v,
                    memory_tail(k, u));
}

LLVMValueRef jitc_build_load(jitc_builder *k, jit_dtype type, uint32_t parameter, unsigned u) {
    return jitc_emit_load(&k->e, type, jitc_build_vector_pointer(k, type, parameter, u),
                          memory_tail(k, u));
}

static void effect(jitc_builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    if (i->op == JITC_OP_store) {
        jitc_build_store(k, (jit_dtype) i->type, i->b, jitc_build_value(k, i->a)[u], u);
    } else if (i->op == JITC_OP_compress) {
        jitc_build_bits(k, i->a, lane_offset(k, u), u);
    } else {
        jitc_lane_access a = jitc_build_access(k, inst, i->a, i->c, u);
        jitc_emit_scatter(&k->e, &a, jitc_build_value(k, i->b)[u]);
    }
}

static LLVMValueRef gather(jitc_builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    jitc_lane_access a = jitc_build_access(k, inst, i->a, i->b, u);
    return jitc_emit_gather(&k->e, &a);
}

/** Ask the caches for the lines that start in what lies k->ahead behind vector number `u`. */
static void look_ahead(jitc_builder *k, const jitc_inst *i, unsigned u) {
    enum { LINE = 64 };
    jit_dtype type = (jit_dtype) i->type;
    unsigned bytes = k->e.lanes * jitc_dtypes[type].bytes, from = u * bytes;
    if (!k->ahead)
        return;
    LLVMValueRef vector = jitc_build_vector_pointer(k, type, i->a, u);
    for (unsigned at = (from + LINE - 1) / LINE * LINE; at < from + bytes; at += LINE) {
        LLVMValueRef distance = jitc_build_constant(k, at - from + k->ahead);
        jitc_emit_prefetch(&k->e, jitc_build_pointer(k, k->e.i8, vector, distance));
    }
}

static LLVMValueRef data(jitc_builder *k, const jitc_inst *i, unsigned u) {
    jit_dtype type = (jit_dtype) i->type;
    if (i->flags & JITC_INST_SCALAR)
        return jitc_emit_load_splat(&k->e, type, k->pointers[i->a]);
    look_ahead(k, i, u);
    return jitc_build_load(k, type, i->a, u);
}

static LLVMValueRef compute(jitc_builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    switch (i->op) {
        case JITC_OP_counter: return counter(k, i, u);
        case JITC_OP_data: return data(k, i, u);
        case JITC_OP_gather: return gather(k, inst, u);
        case JITC_OP_scatter_reduce: return jitc_build_scatter_reduce(k, inst, u);
        default: return elementwise(k, i, u);
    }
}

/** Instructions without code of their own. */
static bool is_silent(const jitc_inst *i) {
    return i->op == JITC_OP_literal || i->op == JITC_OP_masked || i->op == JITC_OP_buffer ||
           i->op == JITC_OP_reduce || i->op == JITC_OP_block_reduce ||
           i->op == JITC_OP_prefix_reduce;
}
static bool is_leaf(const jitc_inst *i) {
    return i->op == JITC_OP_data || i->op == JITC_OP_counter;
}
static bool is_effect(const jitc_inst *i) {
    return i->op == JITC_OP_store || i->op == JITC_OP_scatter || i->op == JITC_OP_compress;
}
/** Is an operand there in the entry block? */
static bool is_known(const jitc_builder *k, uint32_t inst) {
    const jitc_inst *i = &k->p->inst[inst];
    if (i->op == JITC_OP_masked)
        return is_known(k, i->a) && is_known(k, i->b);
    return is_silent(i) || k->early[inst];
}

/** Can it be computed once, in the entry block? Not what reports, where no lane may come by. */
static bool is_early(const jitc_builder *k, const jitc_inst *i, bool in_loop) {
    const uint32_t operands[] = {i->a, i->b, i->c};
    if (i->op == JITC_OP_data)
        return i->flags & JITC_INST_SCALAR;
    if (!(i->flags & JITC_INST_UNIFORM) || is_effect(i) || i->op == JITC_OP_counter ||
        jitc_ops[i->op].form >= JITC_FORM_SCATTER)
        return false;
    if (i->op == JITC_OP_gather && in_loop && k->p->head.flags & JITC_PROGRAM_BOUNDS)
        return false;
    for (unsigned o = 0; o < jitc_inst_operands(i); o++)
        if (!is_known(k, operands[o]))
            return false;
    return true;
}

static void emit_early(jitc_builder *k) {
    uint32_t loops = 0;
    for (uint32_t n = 0; n < k->p->head.count; n++) {
        const jitc_inst *i = &k->p->inst[n];
        loops += i->op == JITC_OP_loop;
        loops -= i->op == JITC_OP_end;
        if (is_silent(i) || !is_early(k, i, loops))
            continue;
        k->early[n] = true;
        prepare_all(k, i);
        LLVMValueRef v = compute(k, n, 0);
        for (unsigned u = 0; u < JITC_MAX_UNROLL; u++)
            jitc_build_value(k, n)[u] = v;
    }
}

/** Go on in a block of its own. Some of the code generator's work grows with the square of a
 * block's length, and its quick path gives up on the rest of a block at the first instruction that
 * it does not know; what is live goes through the stack in between. */
static void split_block(jitc_builder *k) {
    LLVMBasicBlockRef next = jitc_emit_block(&k->e, "part");
    jitc_emit_jump(&k->e, next);
    jitc_emit_at(&k->e, next);
}

static void emit_vectors(jitc_builder *k, uint32_t n) {
    prepare_all(k, &k->p->inst[n]);
    for (unsigned u = 0; u < k->unroll; u++) {
        if (is_effect(&k->p->inst[n]))
            effect(k, n, u);
        else
            jitc_build_value(k, n)[u] = compute(k, n, u);
    }
}

/** What a loop reads of its own lanes is read before it. */
static void emit_leaves(jitc_builder *k, uint32_t loop) {
    uint32_t end = jitc_loop_end(k->p, loop);
    for (uint32_t n = loop; n < end; n++)
        if (is_leaf(&k->p->inst[n]) && !k->early[n])
            emit_vectors(k, n);
}

void jitc_build_body(jitc_builder *k) {
    uint32_t since = 0;
    for (uint32_t n = 0; n < k->p->head.count; n++) {
        const jitc_inst *i = &k->p->inst[n];
        if (is_silent(i) || k->early[n] || (k->depth && is_leaf(i)))
            continue;
        if (i->op == JITC_OP_loop && !k->depth)
            emit_leaves(k, n);
        if (jitc_build_control(k, n))
            continue;
        if (k->level == 0 && since >= QUICK_BLOCK) {
            split_block(k);
            since = 0;
        }
        emit_vectors(k, n);
        since += k->unroll;
    }
}

/** Load what instructions need of the parameters: pointers, and sizes behind those of buffers. */
static void load_parameters(jitc_builder *k) {
    for (uint32_t n = 0; n < k->p->head.count; n++) {
        const jitc_inst *i = &k->p->inst[n];
        uint32_t index = i->op == JITC_OP_store ? i->b : i->a;
        if (i->op != JITC_OP_data && i->op != JITC_OP_store && i->op != JITC_OP_buffer)
            continue;
        if (!k->pointers[index])
            k->pointers[index] = jitc_build_param(k, index, k->e.ptr);
        if (i->op == JITC_OP_buffer && !k->pointers[index + 1])
            k->pointers[index + 1] = jitc_build_param(k, index + 1, k->e.i64);
    }
    if (k->p->head.shape == JITC_SHAPE_COMPRESS)
        k->pointers[k->p->head.scratch + 1] = jitc_build_param(k, k->p->head.scratch + 1, k->e.ptr);
    if (k->p->head.flags & JITC_PROGRAM_BOUNDS)
        k->pointers[k->p->head.report] = jitc_build_param(k, k->p->head.report, k->e.ptr);
}

/* Loops. */

jitc_tail jitc_build_tail(jitc_builder *k, LLVMValueRef rest) {
    const jitc_llvm *api = k->e.api;
    LLVMValueRef lanes = jitc_build_constant(k, k->e.lanes);
    LLVMValueRef partial = jitc_emit_icmp(&k->e, LLVMIntULT, rest, lanes);
    jitc_tail t = {.count = jitc_emit_select(&k->e, partial, rest, lanes)};
    if (k->e.isa >= JITC_ISA_V4) { /* straight into a mask register */
        LLVMValueRef one = jitc_build_constant(k, 1);
        LLVMValueRef bits =
            jitc_emit_bin(&k->e, LLVMSub, jitc_emit_bin(&k->e, LLVMShl, one, t.count), one);
        LLVMTypeRef packed = api->LLVMIntTypeInContext(k->e.context, k->e.lanes);
        bits = api->LLVMBuildCast(k->e.b, LLVMTrunc, bits, packed, "");
        t.mask = jitc_emit_cast(&k->e, LLVMBitCast, bits, k->e.i1);
    } else {
        LLVMValueRef count = api->LLVMBuildCast(k->e.b, LLVMTrunc, t.count, k->e.i32, "");
        t.mask = jitc_emit_icmp(&k->e, LLVMIntULT, jitc_emit_iota(&k->e, k->e.i32),
                                jitc_emit_splat(&k->e, count));
    }
    return t;
}

static void make_tails(jitc_builder *k, jitc_tail *tails) {
    LLVMValueRef zero = jitc_build_constant(k, 0);
    LLVMValueRef rest = jitc_emit_bin(&k->e, LLVMSub, k->end, k->position);
    for (unsigned u = 0; u < k->unroll; u++) {
        LLVMValueRef before = jitc_build_constant(k, u * k->e.lanes);
        LLVMValueRef some = jitc_emit_icmp(&k->e, LLVMIntUGT, rest, before);
        LLVMValueRef left = jitc_emit_bin(&k->e, LLVMSub, rest, before);
        tails[u] = jitc_build_tail(k, u ? jitc_emit_select(&k->e, some, left, zero) : rest);
    }
    k->tail = tails;
}

/** A loop in `block`, entered from `before`, over [from, to) in steps; goes on at `after`. */
static void emit_loop(jitc_builder *k, LLVMBasicBlockRef block, LLVMBasicBlockRef before,
                      LLVMBasicBlockRef after, const LLVMValueRef range[2], bool masked) {
    const jitc_llvm *api = k->e.api;
    jitc_emit_at(&k->e, block);
    k->position = api->LLVMBuildPhi(k->e.b, k->e.i64, "i");
    jitc_tail tails[JITC_MAX_UNROLL];
    if (masked)
        make_tails(k, tails);
    jitc_build_body(k);
    k->tail = NULL;
    LLVMValueRef step = jitc_build_constant(k, k->unroll * k->e.lanes);
    LLVMValueRef next = jitc_emit_bin(&k->e, LLVMAdd, k->position, step);
    LLVMValueRef more = jitc_emit_icmp(&k->e, LLVMIntULT, next, range[1]);
    LLVMBasicBlockRef last = jitc_emit_here(&k->e);
    jitc_emit_branch(&k->e, more, block, after);
    LLVMValueRef values[] = {range[0], next};
    LLVMBasicBlockRef blocks[] = {before, last};
    api->LLVMAddIncoming(k->position, values, blocks, 2);
}

static bool has_effect_by_index(const jitc_program *p) {
    for (uint32_t n = 0; n < p->head.count; n++)
        if (p->inst[n].op == JITC_OP_scatter)
            return true;
    return false;
}

/* Both return the block in which the function ends; blocks lie in the order in which they are made.
 */

static LLVMBasicBlockRef emit_plain(jitc_builder *k, LLVMBasicBlockRef entry, bool masked) {
    LLVMBasicBlockRef block = jitc_emit_block(&k->e, "main"), exit = jitc_emit_block(&k->e, "exit");
    jitc_emit_jump(&k->e, block);
    emit_loop(k, block, entry, exit, (LLVMValueRef[]) {k->begin, k->end}, masked);
    return exit;
}

static LLVMBasicBlockRef emit_with_tail(jitc_builder *k, LLVMBasicBlockRef entry) {
    LLVMBasicBlockRef block = jitc_emit_block(&k->e, "main"),
                      check = jitc_emit_block(&k->e, "check");
    LLVMBasicBlockRef last = jitc_emit_block(&k->e, "tail"), exit = jitc_emit_block(&k->e, "exit");
    LLVMValueRef count = jitc_emit_bin(&k->e, LLVMSub, k->end, k->begin);
    LLVMValueRef whole = jitc_build_constant(k, ~(uint64_t) (k->unroll * k->e.lanes - 1));
    LLVMValueRef full =
        jitc_emit_bin(&k->e, LLVMAdd, k->begin, jitc_emit_bin(&k->e, LLVMAnd, count, whole));
    LLVMValueRef any = jitc_emit_icmp(&k->e, LLVMIntULT, k->begin, full);
    jitc_emit_branch(&k->e, any, block, check);
    emit_loop(k, block, entry, check, (LLVMValueRef[]) {k->begin, full}, false);
    jitc_emit_at(&k->e, check);
    jitc_emit_branch(&k->e, jitc_emit_icmp(&k->e, LLVMIntULT, full, k->end), last, exit);
    k->unroll = 1;
    emit_loop(k, last, check, exit, (LLVMValueRef[]) {full, k->end}, true);
    return exit;
}

static jit_status emit_function(jitc_builder *k) {
    const jitc_llvm *api = k->e.api;
    LLVMBasicBlockRef entry = jitc_emit_block(&k->e, "entry"), exit;
    uint32_t flags = k->p->head.flags;
    jitc_emit_at(&k->e, entry);
    load_parameters(k);
    jitc_build_scatter_reduce_begin(k);
    jitc_literals_init(&k->e, k->p, k->params, k->level, &k->literals);
    emit_early(k);
    entry = jitc_emit_here(&k->e); /* tables of literals and bounds checks end a block */
    k->mask_memory = flags & JITC_PROGRAM_TAIL;
    if (jitc_combines(k->p))
        TRY(jitc_build_combining(k, &exit));
    else if (flags & JITC_PROGRAM_LOOPS || jitc_has_scatter_reduce(k->p))
        /* Once: what is long to compile is long to run, and a mask is cheap beside it. */
        exit = emit_plain(k, entry, true);
    else if ((flags & (JITC_PROGRAM_TAIL | JITC_PROGRAM_BOUNDS)) || has_effect_by_index(k->p))
        exit = emit_with_tail(k, entry);
    else
        exit = emit_plain(k, entry, false);
    jitc_emit_at(&k->e, exit);
    /* ORDER: stores past the caches before whatever says that the kernel is done, by this fence;
     * without it other threads may read stale elements. */
    if (k->e.stream)
        api->LLVMBuildFence(k->e.b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
    api->LLVMBuildRetVoid(k->e.b);
    return JIT_OK;
}

/* How many vectors an iteration. */

/** Length of the longest chain of dependent instructions, in `depth`, one for each. */
static uint32_t critical_path(const jitc_program *p, uint32_t *depth) {
    uint32_t longest = 0;
    for (uint32_t n = 0; n < p->head.count; n++) {
        const jitc_inst *i = &p->inst[n];
        const uint32_t operands[] = {i->a, i->b, i->c};
        uint32_t d = 0;
        if (jitc_ops[i->op].form != JITC_FORM_LEAF && jitc_ops[i->op].form != JITC_FORM_PROGRAM)
            for (int o = 0; o < jitc_ops[i->op].arity; o++)
                if (operands[o] < n && depth[operands[o]] > d)
                    d = depth[operands[o]];
        depth[n] = d + !is_silent(i);
        longest = depth[n] > longest ? depth[n] : longest;
    }
    return longest;
}

/** Short programs are bound by the loop's own cost, chains by latency: both gain from more vectors.
 *  Quick code is kept small, since compile time grows with it. */
static unsigned choose_unroll(const jitc_program *p, uint32_t *scratch,
                              const jitc_kernel_target *target) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < p->head.count; n++)
        count += !is_silent(&p->inst[n]);
    if (jitc_has_scatter_reduce(p))
        return 1; /* lanes are updated one after the other */
    unsigned most = p->head.flags & JITC_PROGRAM_LOOPS ? jitc_loop_unroll(p, target) : 4;
    if (count <= 20)
        return most;
    uint32_t path = critical_path(p, scratch);
    if (target->level > 0 && path > 60 && path > count / 2 && count <= 1000)
        return most;
    if (most < 4 || !(p->head.flags & JITC_PROGRAM_LOOPS))
        most = most < 2 ? most : 2;
    return count <= 100 ? most : 1;
}

/* Processors see that memory is read in order, but only within a page, and not soon enough where
 * little is done for each element. Bytes (measured: 2 to 10 % for sums and prefix sums, 20 % for
 * histograms, 1 to 30 % beside stores past the caches; nothing for other kernels and compaction).
 */
static unsigned choose_ahead(const jitc_builder *k) {
    if (k->level == 0 || k->p->head.shape == JITC_SHAPE_COMPRESS)
        return 0;
    if (jitc_combines(k->p) || jitc_has_scatter_reduce(k->p))
        return 8192;
    return k->e.stream ? 2048 : 0;
}

/* The whole. */

static void init_types(jitc_emit *e) {
    const jitc_llvm *api = e->api;
    e->i1 = api->LLVMIntTypeInContext(e->context, 1);
    e->i8 = api->LLVMIntTypeInContext(e->context, 8);
    e->i16 = api->LLVMIntTypeInContext(e->context, 16);
    e->i32 = api->LLVMIntTypeInContext(e->context, 32);
    e->i64 = api->LLVMIntTypeInContext(e->context, 64);
    e->f16 = api->LLVMHalfTypeInContext(e->context);
    e->f32 = api->LLVMFloatTypeInContext(e->context);
    e->f64 = api->LLVMDoubleTypeInContext(e->context);
    e->ptr = api->LLVMPointerType(e->i8, 0);
}

static void declare_function(jitc_builder *k) {
    const jitc_llvm *api = k->e.api;
    LLVMTypeRef arguments[] = {k->e.i64, k->e.i64, k->e.ptr, k->e.i64, k->e.i64};
    bool combines = jitc_combines(k->p);
    LLVMTypeRef type = api->LLVMFunctionType(api->LLVMVoidTypeInContext(k->e.context), arguments,
                                             combines ? 5 : 3, 0);
    k->e.function = api->LLVMAddFunction(k->e.module, JITC_KERNEL_ENTRY, type);
    unsigned kind = api->LLVMGetEnumAttributeKindForName("nounwind", 8);
    api->LLVMAddAttributeAtIndex(k->e.function, (LLVMAttributeIndex) LLVMAttributeFunctionIndex,
                                 api->LLVMCreateEnumAttribute(k->e.context, kind, 0));
    k->begin = api->LLVMGetParam(k->e.function, 0);
    k->end = api->LLVMGetParam(k->e.function, 1);
    k->params = api->LLVMGetParam(k->e.function, 2);
    if (combines) {
        k->step = api->LLVMGetParam(k->e.function, 3);
        k->slot = api->LLVMGetParam(k->e.function, 4);
    }
}

jit_status jitc_kernel_build(const jitc_llvm *api, LLVMContextRef context, LLVMModuleRef module,
                             const jitc_kernel_target *target, const jitc_program *p) {
    jitc_builder k = {.p = p,
                      .level = target->level,
                      .e = {.api = api,
                            .context = context,
                            .module = module,
                            .isa = target->isa,
                            .lanes = target->lanes,
                            .fast_math = p->head.flags & JITC_PROGRAM_FAST_MATH,
                            .stream = p->head.flags & JITC_PROGRAM_STREAM}};
    void *memory;
    size_t values = (size_t) p->head.count * JITC_MAX_UNROLL,
           pointers = (size_t) p->head.params + 1;
    size_t loops = jitc_loop_count(p);
    TRY(jitc_calloc(
        1, (values + pointers) * sizeof(LLVMValueRef) + loops * sizeof *k.loops + p->head.count,
        &memory));
    k.values = memory;
    k.pointers = k.values + values;
    k.loops = (jitc_open_loop *) (k.pointers + pointers);
    k.early = (bool *) (k.loops + loops);
    k.ahead = choose_ahead(&k);
    k.unroll = choose_unroll(p, memory, target); /* the values are not there yet */
    memset(memory, 0, values * sizeof(LLVMValueRef));
    init_types(&k.e);
    k.e.b = api->LLVMCreateBuilderInContext(context);
    declare_function(&k);
    jit_status status = emit_function(&k);
    api->LLVMDisposeBuilder(k.e.b);
    free(memory);
    return status;
}
