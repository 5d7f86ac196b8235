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

/* A state that starts as one number in all lanes, to which all lanes add one number, is the same in
 * all that are still in the loop. What the test asks of it is asked once, of a scalar. */

enum { PARTS = 3 }; /* of a condition: depth of the conjunctions that are taken apart */

static bool is_same_in_all(const jitc_builder *k, uint32_t inst) {
    return k->early[inst] || k->p->inst[inst].op == JITC_OP_literal;
}

/** What lanes add to state `phi` of a loop that ends at `end`, if it is such a state; 0: it is not.
 */
static uint32_t step_of(const jitc_builder *k, uint32_t phi, uint32_t end) {
    const jitc_inst *all = k->p->inst, *i = &all[phi];
    if (jitc_dtypes[i->type].bits < 32 || jitc_dtypes[i->type].cls == JITC_FLOAT ||
        !is_same_in_all(k, i->a))
        return 0;
    for (uint32_t n = end; all[n - 1].op == JITC_OP_next; n--) {
        const jitc_inst *sum = &all[all[n - 1].b];
        if (all[n - 1].a != phi || sum->op != JITC_OP_add)
            continue;
        uint32_t step = sum->a == phi ? sum->b : sum->a;
        return (sum->a == phi || sum->b == phi) && is_same_in_all(k, step) ? step : 0;
    }
    return 0;
}

/** Look for a comparison of such a state among the parts of a condition. */
static void find_counted(const jitc_builder *k, jitc_open_loop *l, uint32_t condition, int parts) {
    const jitc_inst *i = &k->p->inst[condition];
    if (l->compare || k->early[condition])
        return;
    if (parts && i->op == JITC_OP_and) {
        find_counted(k, l, i->a, parts - 1);
        find_counted(k, l, i->b, parts - 1);
    } else if (i->op >= JITC_OP_eq && i->op <= JITC_OP_ge && is_state(k, i->a, l->inst) &&
               is_same_in_all(k, i->b)) {
        uint32_t step = step_of(k, i->a, jitc_loop_end(k->p, l->inst));
        if (step) {
            l->counted = i->a;
            l->step = step;
            l->compare = condition;
        }
    }
}

/** In good code only: quick code is not to grow. */
static void look_for_counted(const jitc_builder *k, jitc_open_loop *l) {
    const jitc_inst *all = k->p->inst;
    uint32_t n = l->inst;
    while (all[n].op != JITC_OP_test || all[n].b != l->inst)
        n++;
    if (k->level > 0 && !is_once(k, l->inst))
        find_counted(k, l, all[n].a, PARTS);
}

/** The number that a value is in all lanes. */
static LLVMValueRef scalar_of(jitc_builder *k, uint32_t inst) {
    jitc_build_operand(k, inst);
    return k->e.api->LLVMBuildExtractElement(k->e.b, jitc_build_value(k, inst)[0],
                                             k->e.api->LLVMConstInt(k->e.i32, 0, 0), "");
}

static LLVMValueRef compare_counted(jitc_builder *k, const jitc_open_loop *l) {
    static const LLVMIntPredicate by_sign[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntSLT,
                                               LLVMIntSLE, LLVMIntSGT, LLVMIntSGE};
    static const LLVMIntPredicate by_size[] = {LLVMIntEQ,  LLVMIntNE,  LLVMIntULT,
                                               LLVMIntULE, LLVMIntUGT, LLVMIntUGE};
    const jitc_inst *i = &k->p->inst[l->compare];
    bool is_signed = jitc_dtypes[k->p->inst[l->counted].type].cls == JITC_INT;
    LLVMIntPredicate p = (is_signed ? by_sign : by_size)[i->op - JITC_OP_eq];
    return jitc_emit_icmp(&k->e, p, l->counter, scalar_of(k, i->b));
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
    look_for_counted(k, l);
    LLVMValueRef first = l->compare ? scalar_of(k, k->p->inst[l->counted].a) : NULL;
    LLVMBasicBlockRef before = jitc_emit_here(&k->e);
    if (!is_once(k, n)) {
        l->head = jitc_emit_block(&k->e, "loop");
        jitc_emit_jump(&k->e, l->head);
        jitc_emit_at(&k->e, l->head);
    }
    begin_states(k, l, before);
    if (first)
        l->counter = phi_of(k, api->LLVMTypeOf(first), first, before);
    for (unsigned u = 0; u < k->unroll; u++)
        l->active[u] = l->entered[u] = l->head ? phi_of(k, mask, active[u], before) : active[u];
    k->active = l->active;
}

/* In between. */

/** An i1: is any lane of the vectors active? The vectors are packed one by one at level 0: there
 * LLVM 19 with AVX-512, given a packed disjunction of masks that were unpacked in the same block,
 * as those of jitc_build_tail() are, turns one into the other for ever. */
static LLVMValueRef any_active(jitc_builder *k, const LLVMValueRef *active) {
    bool early = k->level == 0;
    LLVMValueRef all = early ? jitc_emit_mask_bits(&k->e, active[0]) : active[0];
    for (unsigned u = 1; u < k->unroll; u++)
        all = jitc_emit_bin(&k->e, LLVMOr, all,
                            early ? jitc_emit_mask_bits(&k->e, active[u]) : active[u]);
    LLVMValueRef bits = early ? all : jitc_emit_mask_bits(&k->e, all);
    LLVMValueRef none = k->e.api->LLVMConstNull(k->e.api->LLVMTypeOf(bits));
    return jitc_emit_icmp(&k->e, LLVMIntNE, bits, none);
}

/** active & condition. Good code takes a conjunction part by part: each comparison is then masked
 * by the others, and needs no instruction besides. */
static LLVMValueRef narrow(jitc_builder *k, LLVMValueRef active, uint32_t condition, unsigned u,
                           int parts) {
    const jitc_inst *i = &k->p->inst[condition];
    if (condition == innermost(k)->compare && condition)
        return active;
    if (k->level > 0 && parts && i->op == JITC_OP_and && !k->early[condition])
        return narrow(k, narrow(k, active, i->a, u, parts - 1), i->b, u, parts - 1);
    jitc_build_operand(k, condition);
    return jitc_emit_bin(&k->e, LLVMAnd, active, jitc_build_value(k, condition)[u]);
}

static void test(jitc_builder *k, const jitc_inst *i) {
    jitc_open_loop *l = innermost(k);
    for (unsigned u = 0; u < k->unroll; u++)
        l->active[u] = narrow(k, l->entered[u], i->a, u, PARTS);
    LLVMValueRef any = any_active(k, l->active);
    if (l->compare)
        any = jitc_emit_bin(&k->e, LLVMAnd, any, compare_counted(k, l));
    LLVMBasicBlockRef body = jitc_emit_block(&k->e, "body");
    l->exit = jitc_emit_block(&k->e, "left");
    l->tested = jitc_emit_here(&k->e);
    jitc_emit_branch(&k->e, any, body, l->exit);
    jitc_emit_at(&k->e, body);
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
    LLVMBasicBlockRef latch = jitc_emit_here(&k->e);
    if (l->compare) {
        LLVMValueRef sum = jitc_emit_bin(&k->e, LLVMAdd, l->counter, scalar_of(k, l->step));
        api->LLVMAddIncoming(l->counter, &sum, &latch, 1);
    }
    jitc_emit_jump(&k->e, l->head ? l->head : l->exit);
    if (l->head)
        close_states(k, l, n, latch);
    api->LLVMMoveBasicBlockAfter(l->exit, latch); /* quick code keeps this order */
    jitc_emit_at(&k->e, l->exit);
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
