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
#include "llvm/kernel.h"
#include "llvm/literals.h"
#include "llvm/memory.h"
#include "llvm/operation.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_UNROLL = 4, QUICK_BLOCK = 96 };

typedef struct builder {
    jitc_emit e;
    const jitc_program *p;
    unsigned unroll;        /* of the loop being built */
    LLVMValueRef *values;   /* MAX_UNROLL for each instruction */
    LLVMValueRef *pointers; /* of each parameter, loaded in the entry block; NULL: not one */
    LLVMValueRef begin, end, params;
    int level;
    jitc_literals literals;
    LLVMValueRef position; /* i64: the first lane of the first vector */
    const jitc_tail *tail; /* NULL in the main loop */
    bool mask_memory;      /* in the tail: arrays end at the last lane */
} builder;

static LLVMValueRef *value(builder *k, uint32_t inst) {
    return k->values + (size_t) inst * MAX_UNROLL;
}
static LLVMValueRef constant(builder *k, uint64_t v) {
    return k->e.api->LLVMConstInt(k->e.i64, v, 0);
}
static LLVMValueRef element_pointer(builder *k, LLVMTypeRef element, LLVMValueRef base,
                                    LLVMValueRef index) {
    return k->e.api->LLVMBuildGEP2(k->e.b, element, base, &index, 1, "");
}
static LLVMValueRef parameter_address(builder *k, uint32_t parameter) {
    return element_pointer(k, k->e.i64, k->params, constant(k, parameter));
}
static LLVMValueRef parameter(builder *k, uint32_t index, LLVMTypeRef type) {
    return k->e.api->LLVMBuildLoad2(k->e.b, type, parameter_address(k, index), "");
}

/* Operands. */

/** Make an operand's value: literals once for all vectors of the iteration. */
static void prepare(builder *k, uint32_t inst) {
    const jitc_inst *i = &k->p->inst[inst];
    if (i->op == JITC_OP_literal) {
        LLVMValueRef v = jitc_literals_value(&k->e, &k->literals, i);
        for (unsigned u = 0; u < MAX_UNROLL; u++)
            value(k, inst)[u] = v;
    } else if (i->op == JITC_OP_masked) {
        prepare(k, i->a);
        prepare(k, i->b);
    }
}

static void prepare_all(builder *k, const jitc_inst *i) {
    const uint32_t operands[] = {i->a, i->b, i->c};
    if (i->op == JITC_OP_gather) {
        prepare(k, i->b);
    } else if (i->op == JITC_OP_scatter) {
        prepare(k, i->b);
        prepare(k, i->c);
    } else if (i->op == JITC_OP_store) {
        prepare(k, i->a);
    } else if (jitc_ops[i->op].form != JITC_FORM_LEAF && i->op != JITC_OP_buffer) {
        for (int o = 0; o < jitc_ops[i->op].arity; o++)
            prepare(k, operands[o]);
    }
}

/* Instructions: vector number `u` of the iteration. */

static LLVMValueRef lane_offset(builder *k, unsigned u) {
    return u ? jitc_emit_bin(&k->e, LLVMAdd, k->position, constant(k, u * k->e.lanes))
             : k->position;
}
static LLVMValueRef vector_pointer(builder *k, jit_dtype type, uint32_t parameter, unsigned u) {
    LLVMTypeRef element = type == JIT_bool ? k->e.i8 : jitc_emit_scalar(&k->e, type);
    LLVMValueRef p = element_pointer(k, element, k->pointers[parameter], k->position);
    return u ? element_pointer(k, element, p, constant(k, u * k->e.lanes)) : p;
}
static const jitc_tail *memory_tail(const builder *k) {
    return k->mask_memory ? k->tail : NULL;
}

static LLVMValueRef counter(builder *k, const jitc_inst *i, unsigned u) {
    LLVMTypeRef scalar = jitc_emit_scalar(&k->e, (jit_dtype) i->type);
    LLVMValueRef first = lane_offset(k, u);
    if (scalar != k->e.i64)
        first = k->e.api->LLVMBuildCast(k->e.b, LLVMTrunc, first, scalar, "");
    return jitc_emit_bin(&k->e, LLVMAdd, jitc_emit_splat(&k->e, first),
                         jitc_emit_iota(&k->e, scalar));
}

static LLVMValueRef elementwise(builder *k, const jitc_inst *i, unsigned u) {
    const uint32_t operands[] = {i->a, i->b, i->c};
    const jitc_inst *inst = k->p->inst;
    jitc_operation o = {.op = (jitc_op) i->op, .to = (jit_dtype) i->type};
    o.type = (jit_dtype) inst[jitc_ops[i->op].form == JITC_FORM_SELECT ? i->b : i->a].type;
    for (int n = 0; n < jitc_ops[i->op].arity; n++)
        o.v[n] = value(k, operands[n])[u];
    if (jitc_ops[i->op].arity == 2) {
        const jitc_inst *b = &inst[i->b];
        o.baked = b->op == JITC_OP_literal && (b->flags & JITC_INST_BAKED);
        o.bits = jitc_inst_bits(b);
    }
    return jitc_emit_operation(&k->e, &o);
}

/** An access of instruction number `inst` to buffer `buffer` at `index`, which may be masked. */
static jitc_lane_access access_of(builder *k, uint32_t inst, uint32_t buffer, uint32_t index,
                                  unsigned u) {
    const jitc_inst *all = k->p->inst;
    const jitc_inst *b = &all[buffer];
    jitc_lane_access a = {.type = (jit_dtype) b->type};
    if (all[index].op == JITC_OP_masked) {
        a.active = value(k, all[index].b)[u];
        index = all[index].a;
    }
    a.index = value(k, index)[u];
    a.index_type = (jit_dtype) all[index].type;
    a.wide = k->p->head.flags & JITC_PROGRAM_WIDE;
    a.base = k->pointers[b->a];
    a.size = k->pointers[b->a + 1];
    if (k->p->head.flags & JITC_PROGRAM_BOUNDS) {
        a.report = k->pointers[k->p->head.report];
        a.claim = inst + 1;
    }
    return a;
}

static void add_tail_mask(builder *k, jitc_lane_access *a) {
    if (k->tail)
        a->active =
            a->active ? jitc_emit_bin(&k->e, LLVMAnd, a->active, k->tail->mask) : k->tail->mask;
}

static void effect(builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    if (i->op == JITC_OP_store) {
        jit_dtype type = (jit_dtype) i->type;
        jitc_emit_store(&k->e, type, vector_pointer(k, type, i->b, u), value(k, i->a)[u],
                        memory_tail(k));
    } else {
        jitc_lane_access a = access_of(k, inst, i->a, i->c, u);
        add_tail_mask(k, &a);
        jitc_emit_scatter(&k->e, &a, value(k, i->b)[u]);
    }
}

static LLVMValueRef gather(builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    jitc_lane_access a = access_of(k, inst, i->a, i->b, u);
    if (a.report && !(i->flags & JITC_INST_UNIFORM))
        add_tail_mask(k, &a);
    return jitc_emit_gather(&k->e, &a);
}

static LLVMValueRef data(builder *k, const jitc_inst *i, unsigned u) {
    jit_dtype type = (jit_dtype) i->type;
    if (i->flags & JITC_INST_SCALAR)
        return jitc_emit_load_splat(&k->e, type, k->pointers[i->a]);
    return jitc_emit_load(&k->e, type, vector_pointer(k, type, i->a, u), memory_tail(k));
}

static LLVMValueRef compute(builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    switch (i->op) {
        case JITC_OP_counter: return counter(k, i, u);
        case JITC_OP_data: return data(k, i, u);
        case JITC_OP_gather: return gather(k, inst, u);
        default: return elementwise(k, i, u);
    }
}

/** Instructions without code of their own. */
static bool is_silent(const jitc_inst *i) {
    return i->op == JITC_OP_literal || i->op == JITC_OP_masked || i->op == JITC_OP_buffer;
}
static bool is_effect(const jitc_inst *i) {
    return i->op == JITC_OP_store || i->op == JITC_OP_scatter;
}
/** Computed once, in the entry block? */
static bool is_early(const jitc_inst *i) {
    if (i->op == JITC_OP_data)
        return i->flags & JITC_INST_SCALAR;
    return (i->flags & JITC_INST_UNIFORM) && !is_effect(i) && i->op != JITC_OP_counter;
}

static void emit_early(builder *k) {
    for (uint32_t n = 0; n < k->p->head.count; n++) {
        const jitc_inst *i = &k->p->inst[n];
        if (is_silent(i) || !is_early(i))
            continue;
        prepare_all(k, i);
        LLVMValueRef v = compute(k, n, 0);
        for (unsigned u = 0; u < MAX_UNROLL; u++)
            value(k, n)[u] = v;
    }
}

static LLVMBasicBlockRef new_block(builder *k, const char *name) {
    return k->e.api->LLVMAppendBasicBlockInContext(k->e.context, k->e.function, name);
}

/** Go on in a block of its own. Some of the code generator's work grows with the square of a
 * block's length, and its quick path gives up on the rest of a block at the first instruction that
 * it does not know; what is live goes through the stack in between. */
static void split_block(builder *k) {
    LLVMBasicBlockRef next = new_block(k, "part");
    k->e.api->LLVMBuildBr(k->e.b, next);
    k->e.api->LLVMPositionBuilderAtEnd(k->e.b, next);
}

static void emit_vectors(builder *k, uint32_t n) {
    prepare_all(k, &k->p->inst[n]);
    for (unsigned u = 0; u < k->unroll; u++) {
        if (is_effect(&k->p->inst[n]))
            effect(k, n, u);
        else
            value(k, n)[u] = compute(k, n, u);
    }
}

static void emit_body(builder *k) {
    uint32_t since = 0;
    for (uint32_t n = 0; n < k->p->head.count; n++) {
        const jitc_inst *i = &k->p->inst[n];
        if (is_silent(i) || is_early(i))
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
static void load_parameters(builder *k) {
    for (uint32_t n = 0; n < k->p->head.count; n++) {
        const jitc_inst *i = &k->p->inst[n];
        uint32_t index = i->op == JITC_OP_store ? i->b : i->a;
        if (i->op != JITC_OP_data && i->op != JITC_OP_store && i->op != JITC_OP_buffer)
            continue;
        if (!k->pointers[index])
            k->pointers[index] = parameter(k, index, k->e.ptr);
        if (i->op == JITC_OP_buffer && !k->pointers[index + 1])
            k->pointers[index + 1] = parameter(k, index + 1, k->e.i64);
    }
    if (k->p->head.flags & JITC_PROGRAM_BOUNDS)
        k->pointers[k->p->head.report] = parameter(k, k->p->head.report, k->e.ptr);
}

/* Loops. */

/** The lanes that exist of the vector at `position`. */
static jitc_tail tail_of(builder *k) {
    const jitc_llvm *api = k->e.api;
    LLVMValueRef rest = jitc_emit_bin(&k->e, LLVMSub, k->end, k->position);
    LLVMValueRef lanes = constant(k, k->e.lanes);
    LLVMValueRef partial = jitc_emit_icmp(&k->e, LLVMIntULT, rest, lanes);
    jitc_tail t = {.count = jitc_emit_select(&k->e, partial, rest, lanes)};
    if (k->e.isa >= JITC_ISA_V4) { /* straight into a mask register */
        LLVMValueRef one = constant(k, 1);
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

/** A loop in `block`, entered from `before`, over [from, to) in steps; goes on at `after`. */
static void emit_loop(builder *k, LLVMBasicBlockRef block, LLVMBasicBlockRef before,
                      LLVMBasicBlockRef after, const LLVMValueRef range[2], bool masked) {
    const jitc_llvm *api = k->e.api;
    api->LLVMPositionBuilderAtEnd(k->e.b, block);
    k->position = api->LLVMBuildPhi(k->e.b, k->e.i64, "i");
    jitc_tail tail;
    if (masked) {
        tail = tail_of(k);
        k->tail = &tail;
    }
    emit_body(k);
    k->tail = NULL;
    LLVMValueRef step = constant(k, k->unroll * k->e.lanes);
    LLVMValueRef next = jitc_emit_bin(&k->e, LLVMAdd, k->position, step);
    LLVMValueRef more = jitc_emit_icmp(&k->e, LLVMIntULT, next, range[1]);
    LLVMBasicBlockRef last = api->LLVMGetInsertBlock(k->e.b);
    api->LLVMBuildCondBr(k->e.b, more, block, after);
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

static LLVMBasicBlockRef emit_plain(builder *k, LLVMBasicBlockRef entry) {
    LLVMBasicBlockRef block = new_block(k, "main"), exit = new_block(k, "exit");
    k->e.api->LLVMBuildBr(k->e.b, block);
    emit_loop(k, block, entry, exit, (LLVMValueRef[]) {k->begin, k->end}, false);
    return exit;
}

static LLVMBasicBlockRef emit_with_tail(builder *k, LLVMBasicBlockRef entry) {
    const jitc_llvm *api = k->e.api;
    LLVMBasicBlockRef block = new_block(k, "main"), check = new_block(k, "check");
    LLVMBasicBlockRef last = new_block(k, "tail"), exit = new_block(k, "exit");
    LLVMValueRef count = jitc_emit_bin(&k->e, LLVMSub, k->end, k->begin);
    LLVMValueRef whole = constant(k, ~(uint64_t) (k->unroll * k->e.lanes - 1));
    LLVMValueRef full =
        jitc_emit_bin(&k->e, LLVMAdd, k->begin, jitc_emit_bin(&k->e, LLVMAnd, count, whole));
    LLVMValueRef any = jitc_emit_icmp(&k->e, LLVMIntULT, k->begin, full);
    api->LLVMBuildCondBr(k->e.b, any, block, check);
    emit_loop(k, block, entry, check, (LLVMValueRef[]) {k->begin, full}, false);
    api->LLVMPositionBuilderAtEnd(k->e.b, check);
    api->LLVMBuildCondBr(k->e.b, jitc_emit_icmp(&k->e, LLVMIntULT, full, k->end), last, exit);
    k->unroll = 1;
    emit_loop(k, last, check, exit, (LLVMValueRef[]) {full, k->end}, true);
    return exit;
}

static void emit_function(builder *k) {
    const jitc_llvm *api = k->e.api;
    LLVMBasicBlockRef entry = new_block(k, "entry"), exit;
    uint32_t flags = k->p->head.flags;
    api->LLVMPositionBuilderAtEnd(k->e.b, entry);
    load_parameters(k);
    jitc_literals_init(&k->e, k->p, k->params, k->level, &k->literals);
    emit_early(k);
    entry = api->LLVMGetInsertBlock(k->e.b); /* tables of literals and bounds checks end a block */
    k->mask_memory = flags & JITC_PROGRAM_TAIL;
    if ((flags & (JITC_PROGRAM_TAIL | JITC_PROGRAM_BOUNDS)) || has_effect_by_index(k->p))
        exit = emit_with_tail(k, entry);
    else
        exit = emit_plain(k, entry);
    api->LLVMPositionBuilderAtEnd(k->e.b, exit);
    /* ORDER: stores past the caches before whatever says that the kernel is done, by this fence;
     * without it other threads may read stale elements. */
    if (k->e.stream)
        api->LLVMBuildFence(k->e.b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
    api->LLVMBuildRetVoid(k->e.b);
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
static unsigned choose_unroll(const jitc_program *p, uint32_t *scratch, int level) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < p->head.count; n++)
        count += !is_silent(&p->inst[n]);
    if (count <= 20)
        return 4;
    uint32_t path = critical_path(p, scratch);
    if (level > 0 && path > 60 && path > count / 2 && count <= 1000)
        return 4;
    return count <= 100 ? 2 : 1;
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

static void declare_function(builder *k) {
    const jitc_llvm *api = k->e.api;
    LLVMTypeRef arguments[] = {k->e.i64, k->e.i64, k->e.ptr};
    LLVMTypeRef type =
        api->LLVMFunctionType(api->LLVMVoidTypeInContext(k->e.context), arguments, 3, 0);
    k->e.function = api->LLVMAddFunction(k->e.module, JITC_KERNEL_ENTRY, type);
    unsigned kind = api->LLVMGetEnumAttributeKindForName("nounwind", 8);
    api->LLVMAddAttributeAtIndex(k->e.function, (LLVMAttributeIndex) LLVMAttributeFunctionIndex,
                                 api->LLVMCreateEnumAttribute(k->e.context, kind, 0));
    k->begin = api->LLVMGetParam(k->e.function, 0);
    k->end = api->LLVMGetParam(k->e.function, 1);
    k->params = api->LLVMGetParam(k->e.function, 2);
}

jit_status jitc_kernel_build(const jitc_llvm *api, LLVMContextRef context, LLVMModuleRef module,
                             const jitc_kernel_target *target, const jitc_program *p) {
    builder k = {.p = p,
                 .level = target->level,
                 .e = {.api = api,
                       .context = context,
                       .module = module,
                       .isa = target->isa,
                       .lanes = target->lanes,
                       .fast_math = p->head.flags & JITC_PROGRAM_FAST_MATH,
                       .stream = p->head.flags & JITC_PROGRAM_STREAM}};
    void *memory;
    size_t values = (size_t) p->head.count * MAX_UNROLL, pointers = (size_t) p->head.params + 1;
    TRY(jitc_calloc(values + pointers, sizeof(LLVMValueRef), &memory));
    k.values = memory;
    k.pointers = k.values + values;
    k.unroll = choose_unroll(p, memory, target->level); /* the values are not there yet */
    memset(memory, 0, values * sizeof(LLVMValueRef));
    init_types(&k.e);
    k.e.b = api->LLVMCreateBuilderInContext(context);
    declare_function(&k);
    emit_function(&k);
    api->LLVMDisposeBuilder(k.e.b);
    free(memory);
    return JIT_OK;
}
