/* Recording one operation: check -> simplify -> value-number -> insert.
 *
 * The usual binary operation passes all checks, and no rule of simplification can apply to it; it
 * is recognised by a few comparisons in jitc_trace_binary(). All others take the long way through a
 * jitc_call, which also words the errors. */
#include "trace/private.h"

/* ---- from a checked call to a node ---- */

INLINE uint32_t find_or_insert(jitc_graph *g, const jitc_key *k) {
    uint32_t home, i = jitc_number_find_fast(g, k, &home);
    return i ? i : jitc_number_insert(g, k, home);
}

NOINLINE uint32_t jitc_record_node(jitc_graph *g, const jitc_call *call) {
    unsigned kind = (unsigned) call->result | (unsigned) call->backend << 4;
    jitc_key k = {.head = jitc_head(call->op, kind, call->size),
                  .a = call->index[0],
                  .b = call->count > 1 ? call->index[1] : 0,
                  .c = call->count > 2 ? call->index[2] : 0,
                  .commutes = jitc_ops[call->op].props & JITC_COMMUTES,
                  .cold = call->count > 2 || jitc_ops[call->op].props & JITC_EFFECT,
                  .device = (uint8_t) call->device,
                  .bits = call->bits};
    return find_or_insert(g, &k);
}

static uint32_t simplify_or_node(jitc_graph *g, const jitc_call *call) {
    uint32_t i;
    return jitc_simplify(g, call, &i) ? i : jitc_record_node(g, call);
}

static jit_status check_elementwise(const jitc_graph *g, jitc_call *call, const jit_var *v) {
    TRY(jitc_check_operands(g, call, v));
    TRY(jitc_check_place(call));
    bool select = jitc_ops[call->op].form == JITC_FORM_SELECT;
    if (select)
        TRY(jitc_check_mask(call, 0));
    for (uint32_t i = select ? 2 : 1; i < call->count; ++i)
        TRY(jitc_check_same_type(call, call->node[i - 1], call->node[i]));
    call->type = jitc_node_type(call->node[select ? 1 : 0]);
    call->result = jitc_op_type(call->op, call->type);
    TRY(jitc_check_domain(call));
    return jitc_check_sizes(call, 0, &call->size);
}

static NOINLINE uint32_t record(jitc_graph *g, jitc_op op, uint32_t count, const jit_var *v) {
    jitc_call call;
    call.op = op;
    call.name = NULL;
    call.count = count;
    call.bits = 0;
    return check_elementwise(g, &call, v) == JIT_OK ? simplify_or_node(g, &call) : 0;
}

INLINE unsigned result_kind(jitc_op op, const jitc_node *operand) {
    return jitc_ops[op].result == JITC_RESULT_BOOL ? operand->kind & 0xf0u : operand->kind;
}
_Static_assert(JIT_bool == 0, "ORDER dtypes: the kind of a bool is its backend only");

jit_var jitc_trace_unary(jitc_graph *g, jitc_op op, jit_var a) {
    jitc_lock_graph(g);
    uint32_t i = a & JITC_INDEX_MASK;
    const jitc_node *n = jitc_node_at(g, i);
    if (likely(jitc_node_alive(n, a)) && jitc_op_accepts(op, jitc_node_type(n)) &&
        !jitc_may_simplify_unary(op, n->op)) {
        jitc_key k = {.head = jitc_head(op, result_kind(op, n), jitc_node_size(n)),
                      .a = i,
                      .device = (uint8_t) jitc_node_device(n)};
        return jitc_record_finish(g, find_or_insert(g, &k));
    }
    return jitc_record_finish(g, record(g, op, 1, &a));
}

/* May the operation of two live operands be recorded as it is: nothing to report, nothing to
 * simplify? */
INLINE bool is_plain(jitc_op op, const jitc_node *a, const jitc_node *b) {
    return a != b && a->kind == b->kind && jitc_op_accepts(op, jitc_node_type(a)) &&
           !((a->flags | b->flags) & JITC_NODE_SPECIAL) && (a->op | b->op) != JITC_OP_literal &&
           (a->next_device ^ b->next_device) >> JITC_INDEX_BITS == 0;
}
_Static_assert(JITC_OP_literal == 0,
               "ORDER ops: is_plain() asks whether both operands are literals");

/* Sizes are equal or 1, which broadcasts. */
INLINE bool joins(uint64_t *size, uint64_t other) {
    if (*size == 1)
        *size = other;
    return other == 1 || other == *size;
}

jit_var jitc_trace_binary(jitc_graph *g, jitc_op op, jit_var a, jit_var b) {
    jitc_lock_graph(g);
    uint32_t ia = a & JITC_INDEX_MASK, ib = b & JITC_INDEX_MASK, i;
    const jitc_node *na = jitc_node_at(g, ia), *nb = jitc_node_at(g, ib);
    uint64_t size = jitc_node_size(na);
    if (likely(jitc_node_alive(na, a)) && likely(jitc_node_alive(nb, b)) &&
        likely(is_plain(op, na, nb)) && likely(joins(&size, jitc_node_size(nb)))) {
        jitc_key k = {.head = jitc_head(op, result_kind(op, na), size),
                      .a = ia,
                      .b = ib,
                      .commutes = jitc_ops[op].props & JITC_COMMUTES,
                      .device = (uint8_t) (na->next_device >> JITC_INDEX_BITS)};
        i = find_or_insert(g, &k);
    } else {
        i = record(g, op, 2, (jit_var[]) {a, b});
    }
    return jitc_record_finish(g, i);
}
/* As is_plain(). `c` and `b` have the type of the result; `a` too, or it is a mask. */
INLINE bool is_plain_ternary(jitc_op op, const jitc_node *a, const jitc_node *b,
                             const jitc_node *c) {
    unsigned kind_a = jitc_ops[op].form == JITC_FORM_SELECT ? b->kind & 0xf0u : b->kind;
    uint32_t devices = (a->next_device ^ b->next_device) | (a->next_device ^ c->next_device);
    return b != c && b->kind == c->kind && a->kind == kind_a &&
           jitc_op_accepts(op, jitc_node_type(b)) &&
           !((a->flags | b->flags | c->flags) & JITC_NODE_SPECIAL) &&
           (a->op | b->op | c->op) != JITC_OP_literal && devices >> JITC_INDEX_BITS == 0;
}

jit_var jitc_trace_ternary(jitc_graph *g, jitc_op op, jit_var a, jit_var b, jit_var c) {
    jitc_lock_graph(g);
    uint32_t ia = a & JITC_INDEX_MASK, ib = b & JITC_INDEX_MASK, ic = c & JITC_INDEX_MASK, i;
    const jitc_node *na = jitc_node_at(g, ia), *nb = jitc_node_at(g, ib);
    const jitc_node *nc = jitc_node_at(g, ic);
    uint64_t size = jitc_node_size(na);
    if (likely(jitc_node_alive(na, a) && jitc_node_alive(nb, b) && jitc_node_alive(nc, c)) &&
        likely(is_plain_ternary(op, na, nb, nc)) && joins(&size, jitc_node_size(nb)) &&
        joins(&size, jitc_node_size(nc))) {
        jitc_key k = {.head = jitc_head(op, result_kind(op, nb), size),
                      .a = ia,
                      .b = ib,
                      .c = ic,
                      .commutes = jitc_ops[op].props & JITC_COMMUTES,
                      .cold = true,
                      .device = (uint8_t) jitc_node_device(na)};
        i = find_or_insert(g, &k);
    } else {
        i = record(g, op, 3, (jit_var[]) {a, b, c});
    }
    return jitc_record_finish(g, i);
}

/* ---- casts ---- */

static jit_status check_cast(const jitc_graph *g, jitc_call *call, const jit_var *v, jit_dtype t) {
    TRY(jitc_check_operands(g, call, v));
    TRY(jitc_check_place(call));
    call->type = jitc_node_type(call->node[0]);
    call->result = t;
    call->size = jitc_node_size(call->node[0]);
    const char *name = jitc_ops[call->op].name;
    if (!jitc_dtype_valid((int) t))
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_%s: %d is no element type", name, (int) t);
    if (call->op == JITC_OP_bitcast && jitc_dtypes[t].bits != jitc_dtypes[call->type].bits)
        return jitc_fail(JIT_TYPE_MISMATCH, "jit_%s: %s and %s differ in width", name,
                         jitc_dtypes[call->type].name, jitc_dtypes[t].name);
    return JIT_OK;
}

jit_var jitc_trace_cast(jitc_graph *g, jitc_op op, jit_var a, jit_dtype t) {
    jitc_lock_graph(g);
    uint32_t i = a & JITC_INDEX_MASK;
    const jitc_node *n = jitc_node_at(g, i);
    if (likely(jitc_node_alive(n, a)) && op == JITC_OP_cast && n->op != JITC_OP_cast &&
        n->op != JITC_OP_literal && jitc_dtype_valid((int) t) && jitc_node_type(n) != t) {
        jitc_key k = {.head = jitc_head(op, (unsigned) t | (n->kind & 0xf0u), jitc_node_size(n)),
                      .a = i,
                      .device = (uint8_t) jitc_node_device(n)};
        i = find_or_insert(g, &k);
    } else {
        jitc_call call = {.op = op, .count = 1};
        i = check_cast(g, &call, &a, t) == JIT_OK ? simplify_or_node(g, &call) : 0;
    }
    return jitc_record_finish(g, i);
}

/* ---- memory ---- */

/* Replace the last two operands, index and mask, by one: the index itself where the mask is true.
 */
static jit_status join_mask(jitc_graph *g, jitc_call *call) {
    uint32_t index = call->count - 2, mask = call->count - 1;
    call->count--;
    if (jitc_literal_is(g, call, mask, 1))
        return JIT_OK;
    jitc_call join = *call;
    join.op = JITC_OP_masked;
    join.count = 2;
    for (uint32_t i = 0; i < 2; ++i) {
        join.index[i] = call->index[index + i];
        join.node[i] = call->node[index + i];
    }
    join.type = join.result = jitc_node_type(join.node[0]);
    TRY(jitc_check_sizes(&join, 0, &join.size));
    uint32_t i = jitc_record_node(g, &join);
    if (!i)
        return JIT_OUT_OF_MEMORY;
    call->index[index] = i;
    call->node[index] = jitc_node_at(g, i);
    return JIT_OK;
}

uint32_t jitc_record_indexed(jitc_graph *g, jitc_call *call, bool masked) {
    if (!masked)
        return simplify_or_node(g, call);
    if (join_mask(g, call) != JIT_OK)
        return 0;
    uint32_t i = simplify_or_node(g, call);
    jitc_node_settle(g, call->index[call->count - 1]);
    return i;
}

static jit_status check_gather(const jitc_graph *g, jitc_call *call, const jit_var *v) {
    TRY(jitc_check_operands(g, call, v));
    TRY(jitc_check_place(call));
    TRY(jitc_check_index(call, 1));
    if (call->count > 2)
        TRY(jitc_check_mask(call, 2));
    call->type = call->result = jitc_node_type(call->node[0]);
    return jitc_check_sizes(call, 1, &call->size);
}

jit_var jitc_trace_gather(jitc_graph *g, jit_var source, jit_var index, jit_var mask) {
    jitc_call call = {.op = JITC_OP_gather, .count = mask ? 3 : 2};
    uint32_t i = 0;
    jitc_lock_graph(g);
    if (check_gather(g, &call, (jit_var[]) {source, index, mask}) == JIT_OK) {
        if (mask && jitc_literal_is(g, &call, 2, 0))
            i = jitc_record_literal(g, &call, call.result, 0);
        else
            i = jitc_record_indexed(g, &call, mask != 0);
    }
    return jitc_record_finish(g, i);
}

uint32_t jitc_record_scatter(jitc_graph *g, jitc_call *call, uint64_t lanes) {
    bool masked = call->count > 3;
    bool nothing = !lanes || (masked && jitc_literal_is(g, call, 3, 0));
    if (nothing && call->node[0]->op != JITC_OP_phi) /* that this is an array shows by a scatter */
        return call->index[0];
    return jitc_record_indexed(g, call, masked);
}

jit_var jitc_trace_scatter(jitc_graph *g, jit_var target, jit_var value, jit_var index,
                           jit_var mask) {
    jitc_call call = {.op = JITC_OP_scatter, .count = mask ? 4 : 3};
    uint64_t lanes = 0;
    uint32_t i = 0;
    jitc_lock_graph(g);
    if (jitc_check_scatter(g, &call, (jit_var[]) {target, value, index, mask}, &lanes) == JIT_OK)
        i = jitc_record_scatter(g, &call, lanes);
    return jitc_record_finish(g, i);
}
