/* loop.c: loops and branches of a program, in which every lane goes its own way.
 * Layer: llvm.  May include: core, ir.
 *
 *   before:  ...                        a branch (ONCE):
 *   head:    states: phis                 before:  condition, active' = active & condition
 *            active: phis                          any lane ? body : exit
 *            condition                    body:    ...
 *            active' = active & condition          new = select(active', next, old)
 *            any lane ? body : exit       exit:    phis of old and new
 *   body:    ...
 *            new = select(active', next, old); to head
 *   exit:    the states of head
 *
 * A lane that has left keeps its states, by the selects; what is computed for it inside goes
 * nowhere, and what it would do to memory is masked. All vectors of an iteration go around
 * together, until no lane of them is active: the lanes that do not exist never are, so that nothing
 * depends on what they read. */
#include "llvm/loop.h"
#include "llvm/operation.h"

static jitc_open_loop *innermost(jitc_builder *k) {
    return &k->loops[k->depth - 1];
}

static bool is_once(const jitc_builder *k, uint32_t loop) {
    return k->p->inst[loop].aux & JITC_AUX_ONCE;
}

/** Is instruction `n` a state of the loop `loop`? They stand right behind it. */
static bool is_state(const jitc_builder *k, uint32_t n, uint32_t loop) {
    return n < k->p->head.count && k->p->inst[n].op == JITC_OP_phi && k->p->inst[n].b == loop;
}

static LLVMTypeRef vector_of(jitc_builder *k, const jitc_inst *i) {
    return jitc_emit_vector(&k->e, jitc_emit_scalar(&k->e, (jit_dtype) i->type));
}

static LLVMValueRef phi_of(jitc_builder *k, LLVMTypeRef type, LLVMValueRef a,
                           LLVMBasicBlockRef from) {
    LLVMValueRef phi = k->e.api->LLVMBuildPhi(k->e.b, type, "");
    k->e.api->LLVMAddIncoming(phi, &a, &from, 1);
    return phi;
}

/* Beginning. */

static void begin_states(jitc_builder *k, const jitc_open_loop *l, LLVMBasicBlockRef before) {
    for (uint32_t n = l->inst + 1; is_state(k, n, l->inst); n++)
        for (unsigned u = 0; u < k->unroll; u++) {
            LLVMValueRef start = jitc_build_value(k, k->p->inst[n].a)[u];
            bool once = is_once(k, l->inst);
            jitc_build_value(k, n)[u] =
                once ? start : phi_of(k, vector_of(k, &k->p->inst[n]), start, before);
        }
}

static void begin(jitc_builder *k, uint32_t n) {
    const jitc_llvm *api = k->e.api;
    jitc_open_loop *l = &k->loops[k->depth++];
    LLVMTypeRef mask = jitc_emit_vector(&k->e, k->e.i1);
    *l = (jitc_open_loop) {.inst = n, .outer = k->active};
    for (uint32_t s = n + 1; is_state(k, s, n); s++)
        jitc_build_operand(k, k->p->inst[s].a);
    LLVMValueRef active[JITC_MAX_UNROLL];
    for (unsigned u = 0; u < k->unroll; u++) {
        active[u] = jitc_build_active(k, u);
        if (!active[u])
            active[u] = jitc_emit_int(&k->e, k->e.i1, 1);
    }
    LLVMBasicBlockRef before = api->LLVMGetInsertBlock(k->e.b);
    if (!is_once(k, n)) {
        l->head = jitc_build_block(k, "loop");
        api->LLVMBuildBr(k->e.b, l->head);
        api->LLVMPositionBuilderAtEnd(k->e.b, l->head);
    }
    begin_states(k, l, before);
    for (unsigned u = 0; u < k->unroll; u++)
        l->active[u] = l->entered[u] = l->head ? phi_of(k, mask, active[u], before) : active[u];
    k->active = l->active;
}

/* In between. */

/** An i1: is any lane of the vectors active? */
static LLVMValueRef any_active(jitc_builder *k, const LLVMValueRef *active) {
    LLVMValueRef all = active[0];
    for (unsigned u = 1; u < k->unroll; u++)
        all = jitc_emit_bin(&k->e, LLVMOr, all, active[u]);
    LLVMTypeRef packed = k->e.api->LLVMIntTypeInContext(k->e.context, k->e.lanes);
    LLVMValueRef bits = k->e.api->LLVMBuildCast(k->e.b, LLVMBitCast, all, packed, "");
    return jitc_emit_icmp(&k->e, LLVMIntNE, bits, k->e.api->LLVMConstInt(packed, 0, 0));
}

/** active & condition. Good code takes a conjunction part by part: each comparison is then masked
 * by the others, and needs no instruction besides. */
static LLVMValueRef narrow(jitc_builder *k, LLVMValueRef active, uint32_t condition, unsigned u,
                           int parts) {
    const jitc_inst *i = &k->p->inst[condition];
    if (k->level > 0 && parts && i->op == JITC_OP_and && !k->early[condition])
        return narrow(k, narrow(k, active, i->a, u, parts - 1), i->b, u, parts - 1);
    jitc_build_operand(k, condition);
    return jitc_emit_bin(&k->e, LLVMAnd, active, jitc_build_value(k, condition)[u]);
}

static void test(jitc_builder *k, const jitc_inst *i) {
    const jitc_llvm *api = k->e.api;
    jitc_open_loop *l = innermost(k);
    for (unsigned u = 0; u < k->unroll; u++)
        l->active[u] = narrow(k, l->entered[u], i->a, u, 3);
    LLVMValueRef any = any_active(k, l->active);
    LLVMBasicBlockRef body = jitc_build_block(k, "body");
    l->exit = jitc_build_block(k, "left");
    l->tested = api->LLVMGetInsertBlock(k->e.b);
    api->LLVMBuildCondBr(k->e.b, any, body, l->exit);
    api->LLVMPositionBuilderAtEnd(k->e.b, body);
}

static void next(jitc_builder *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    jitc_build_operand(k, i->b);
    for (unsigned u = 0; u < k->unroll; u++) {
        jitc_operation o = {.op = JITC_OP_select, .type = (jit_dtype) i->type};
        o.v[0] = innermost(k)->active[u];
        o.v[1] = jitc_build_value(k, i->b)[u];
        o.v[2] = jitc_build_value(k, i->a)[u];
        jitc_build_value(k, n)[u] = jitc_emit_operation(&k->e, &o);
    }
}

/* Ending. */

static void close_states(jitc_builder *k, jitc_open_loop *l, uint32_t end,
                         LLVMBasicBlockRef latch) {
    const jitc_llvm *api = k->e.api;
    for (uint32_t s = l->inst + 1; is_state(k, s, l->inst); s++)
        for (unsigned u = 0; u < k->unroll; u++) {
            LLVMValueRef state = jitc_build_value(k, s)[u], new = state;
            for (uint32_t n = end; k->p->inst[n - 1].op == JITC_OP_next; n--)
                if (k->p->inst[n - 1].a == s)
                    new = jitc_build_value(k, n - 1)[u];
            api->LLVMAddIncoming(state, &new, &latch, 1);
        }
    for (unsigned u = 0; u < k->unroll; u++)
        api->LLVMAddIncoming(l->entered[u], &l->active[u], &latch, 1);
}

/** The states of a branch: as they were, or new. */
static void merge_states(jitc_builder *k, const jitc_open_loop *l, uint32_t end,
                         LLVMBasicBlockRef latch) {
    for (uint32_t n = end; k->p->inst[n - 1].op == JITC_OP_next; n--)
        for (unsigned u = 0; u < k->unroll; u++) {
            LLVMValueRef *state = jitc_build_value(k, k->p->inst[n - 1].a);
            LLVMValueRef new = jitc_build_value(k, n - 1)[u];
            state[u] = phi_of(k, vector_of(k, &k->p->inst[n - 1]), state[u], l->tested);
            k->e.api->LLVMAddIncoming(state[u], &new, &latch, 1);
        }
}

static void end(jitc_builder *k, uint32_t n) {
    const jitc_llvm *api = k->e.api;
    jitc_open_loop *l = innermost(k);
    LLVMBasicBlockRef latch = api->LLVMGetInsertBlock(k->e.b);
    api->LLVMBuildBr(k->e.b, l->head ? l->head : l->exit);
    if (l->head)
        close_states(k, l, n, latch);
    api->LLVMMoveBasicBlockAfter(l->exit, latch); /* quick code keeps this order */
    api->LLVMPositionBuilderAtEnd(k->e.b, l->exit);
    if (!l->head)
        merge_states(k, l, n, latch);
    k->active = l->outer;
    --k->depth;
}

bool jitc_build_control(jitc_builder *k, uint32_t n) {
    const jitc_inst *i = &k->p->inst[n];
    switch (i->op) {
        case JITC_OP_loop: begin(k, n); return true;
        case JITC_OP_phi: return true; /* done by the loop */
        case JITC_OP_test: test(k, i); return true;
        case JITC_OP_next: next(k, n); return true;
        case JITC_OP_end: end(k, n); return true;
        default: return false;
    }
}

uint32_t jitc_loop_end(const jitc_program *p, uint32_t loop) {
    uint32_t n = loop + 1;
    while (p->inst[n].op != JITC_OP_end || p->inst[n].a != loop)
        n++;
    return n;
}

uint32_t jitc_loop_count(const jitc_program *p) {
    uint32_t loops = 0;
    for (uint32_t n = 0; n < p->head.count; n++)
        loops += p->inst[n].op == JITC_OP_loop;
    return loops;
}

/** Registers of the states of the loop `loop`, for one vector. */
static unsigned registers_of(const jitc_program *p, uint32_t loop,
                             const jitc_kernel_target *target) {
    unsigned native = target->isa >= JITC_ISA_V4 ? 64 : target->isa == JITC_ISA_V3 ? 32 : 16;
    unsigned registers = 0;
    for (uint32_t n = loop + 1; n < p->head.count && p->inst[n].op == JITC_OP_phi; n++) {
        unsigned bytes = jitc_dtypes[p->inst[n].type].bytes * target->lanes;
        registers += (bytes + native - 1) / native;
    }
    return registers;
}

unsigned jitc_loop_unroll(const jitc_program *p, const jitc_kernel_target *target) {
    unsigned open = 0, most = 0, all = target->isa >= JITC_ISA_V4 ? 32 : 16;
    for (uint32_t n = 0; n < p->head.count; n++) {
        if (p->inst[n].op == JITC_OP_loop)
            open += registers_of(p, n, target);
        if (p->inst[n].op == JITC_OP_end)
            open -= registers_of(p, p->inst[n].a, target);
        most = open > most ? open : most;
    }
    return most * 4 <= all * 3 / 4 ? 4 : most * 2 <= all * 3 / 4 ? 2 : 1;
}
