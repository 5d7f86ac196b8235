/* combine.c: recording operations that combine lanes.  Layer: trace.
 * May include: core, ir, device.
 *
 * What is known already is not recorded: of no element, of one, of elements that are all the same.
 *
 * A `part` is the second result of an operation. It has that as its operand, and nobody computes it
 * but the kernel of the operation, so it must not be made when that is being written. */
#include "ir/program.h"
#include "trace/private.h"

/* ---- words for all ---- */

static jit_status check_reduction(const jitc_call *call, jit_reduce_op op) {
    const char *name = jitc_ops[call->op].name;
    if (!jitc_reduce_valid((int) op))
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_%s: %d is no jit_reduce_op", name, (int) op);
    if (!jitc_reduce_accepts(op, call->type))
        return jitc_fail(JIT_TYPE_MISMATCH,
                         "jit_%s: the reduction \"%s\" is not defined for %s; convert with "
                         "jit_cast()",
                         name, jitc_reduce_name(op), jitc_dtypes[call->type].name);
    return JIT_OK;
}

/* One operand, whose type the result has. */
static jit_status check_operand(const jitc_graph *g, jitc_call *call, jit_var a) {
    TRY(jitc_check_operands(g, call, &a));
    TRY(jitc_check_place(call));
    call->type = call->result = jitc_node_type(call->node[0]);
    call->size = jitc_node_size(call->node[0]);
    return JIT_OK;
}

static uint32_t literal(jitc_graph *g, const jitc_call *call, uint64_t bits, uint64_t size) {
    jitc_call place = *call;
    place.size = size;
    return jitc_record_literal(g, &place, call->result, bits);
}

/* u32, or u64 for more than 2^32 elements: as jit_counter(). */
static jit_dtype number_type(uint64_t size) {
    return size > (uint64_t) 1 << 32 ? JIT_u64 : JIT_u32;
}

/* 0, 1, 2, ... */
static uint32_t counter(jitc_graph *g, const jitc_call *call) {
    jit_dtype t = number_type(call->size);
    if (call->size == 1)
        return jitc_record_literal(g, call, t, 0);
    jitc_key k = {.head = jitc_head(JITC_OP_counter, (unsigned) t | (unsigned) call->backend << 4,
                                    call->size),
                  .cold = true,
                  .device = (uint8_t) call->device};
    return jitc_number_leaf(g, &k);
}

/* The end of a call that makes two variables, both or none. */
static jit_status finish_two(jitc_graph *g, const uint32_t i[2], jit_var *first, jit_var *second)
    RELEASES(&g->p->lock) {
    jit_var v[2] = {0, 0};
    for (int k = 0; k < 2; ++k)
        if (i[0] && i[1]) {
            jitc_node_at(g, i[k])->external++;
            v[k] = jitc_node_handle(jitc_node_at(g, i[k]), i[k]);
        } else {
            jitc_node_settle(g, i[k]);
        }
    jitc_unlock_graph(g);
    for (int k = 0; k < 2 && jitc_thread_scopes; ++k)
        v[k] = jitc_scope_take(g, v[k]);
    if (v[0] && v[1]) {
        *first = v[0];
        *second = v[1];
        return JIT_OK;
    }
    for (int k = 0; k < 2; ++k)
        jitc_trace_unref(g, v[k]);
    return jit_error_status();
}

/* ---- parts ---- */

uint64_t jitc_graph_lanes_locked(const jitc_graph *g, uint32_t i) {
    const jitc_node *n = jitc_node_at(g, i);
    uint64_t value, index;
    switch (jitc_ops[n->op].form) {
        case JITC_FORM_SCATTER: /* sizes broadcast: 1 gives way to the other */
            value = jitc_node_size(jitc_node_at(g, n->b));
            index = jitc_node_size(jitc_node_at(g, *jitc_node_c(g, i)));
            return value == 1 ? index : value;
        case JITC_FORM_REDUCE:
        case JITC_FORM_SORT: return jitc_node_size(jitc_node_at(g, n->a));
        case JITC_FORM_PART: return jitc_graph_lanes_locked(g, n->a);
        default: return jitc_node_size(n);
    }
}

static jitc_key part_key(const jitc_graph *g, uint32_t i) {
    const jitc_node *n = jitc_node_at(g, i);
    bool sorts = n->op == JITC_OP_sort;
    uint64_t lanes = jitc_graph_lanes_locked(g, i), size = n->op == JITC_OP_compress ? 1 : lanes;
    jit_dtype t = sorts ? number_type(lanes) : jitc_node_type(n);
    return (jitc_key) {.head = jitc_head(JITC_OP_part, (unsigned) t | (n->kind & 0x30u), size),
                       .a = i,
                       .cold = true,
                       .device = (uint8_t) jitc_node_device(n),
                       .bits = 1};
}

uint32_t jitc_graph_part_locked(jitc_graph *g, uint32_t i) {
    switch (jitc_node_at(g, i)->op) {
        case JITC_OP_compress:
        case JITC_OP_sort:
        case JITC_OP_scatter_reduce: break;
        default: return 0; /* node 0 too */
    }
    uint32_t home;
    jitc_key k = part_key(g, i);
    return jitc_number_find(g, &k, &home);
}

uint32_t jitc_record_part(jitc_graph *g, uint32_t i) {
    uint32_t home;
    jitc_key k = part_key(g, i);
    uint32_t part = jitc_number_find(g, &k, &home);
    return part ? part : jitc_number_insert(g, &k, home);
}

/* Operation i and its part, which nobody has counted; 0 and 0 after jitc_fail(). An operation whose
 * kernel is written already gets no new part. */
static void with_part(jitc_graph *g, uint32_t i, uint32_t out[2]) {
    uint32_t part = jitc_graph_part_locked(g, i);
    if (!part && jitc_node_at(g, i)->flags & JITC_NODE_CLAIMED)
        i = jitc_node_twin(g, i);
    if (!part && i)
        part = jitc_record_part(g, i);
    if (!part)
        jitc_node_settle(g, i);
    out[0] = part ? i : 0;
    out[1] = part;
}

/* ---- reductions ---- */

/* Bits of `n` equal elements combined, where no order nor rounding matters. */
static bool combine_equal(jit_reduce_op op, jit_dtype t, uint64_t bits, uint64_t n, uint64_t *out) {
    bool real = jitc_dtypes[t].cls == JITC_FLOAT;
    uint64_t identity = jitc_reduce_identity(op, t), product = 1, power = bits;
    *out = bits;
    if (bits == identity || (op != JIT_REDUCE_ADD && op != JIT_REDUCE_MUL))
        return true;
    if (real)
        return false;
    for (uint64_t k = n; k && op == JIT_REDUCE_MUL; k >>= 1, power *= power)
        if (k & 1)
            product *= power;
    *out = (op == JIT_REDUCE_ADD ? bits * n : product) & jitc_bits_mask(t);
    return true;
}

static bool is_literal(const jitc_call *call) {
    return call->node[0]->op == JITC_OP_literal;
}

/* Blocks of `block` elements; block >= n: all of them, in one. */
static uint32_t record_blocks(jitc_graph *g, jitc_call *call, jit_reduce_op op, uint64_t block) {
    uint64_t n = jitc_node_size(call->node[0]), bits;
    call->size = block >= n ? 1 : (n + block - 1) / block;
    if (block >= n)
        block = n;
    if (block == 1)
        return call->index[0];
    if (is_literal(call) && (n % block == 0 || (op != JIT_REDUCE_ADD && op != JIT_REDUCE_MUL)) &&
        combine_equal(op, call->type, *jitc_node_value(g, call->index[0]), block, &bits))
        return literal(g, call, bits, call->size);
    call->op = block == n ? JITC_OP_reduce : JITC_OP_block_reduce;
    call->bits = (uint64_t) op | (block == n ? 0 : block << 8);
    return jitc_record_node(g, call);
}

jit_var jitc_trace_reduce(jitc_graph *g, jit_reduce_op op, jit_var a) {
    jitc_call call = {.op = JITC_OP_reduce, .count = 1};
    uint32_t i = 0;
    jitc_lock_graph(g);
    if (check_operand(g, &call, a) == JIT_OK && check_reduction(&call, op) == JIT_OK)
        i = call.size ? record_blocks(g, &call, op, call.size)
                      : literal(g, &call, jitc_reduce_identity(op, call.type), 1);
    return jitc_record_finish(g, i);
}

jit_var jitc_trace_block_reduce(jitc_graph *g, jit_reduce_op op, jit_var a, uint64_t block) {
    jitc_call call = {.op = JITC_OP_block_reduce, .count = 1};
    uint32_t i = 0;
    jitc_lock_graph(g);
    if (!block)
        jitc_fail(JIT_INVALID_ARGUMENT, "jit_block_reduce: a block of 0 elements; at least 1");
    else if (check_operand(g, &call, a) == JIT_OK && check_reduction(&call, op) == JIT_OK)
        i = call.size ? record_blocks(g, &call, op, block) : call.index[0];
    return jitc_record_finish(g, i);
}

static uint32_t record_prefix(jitc_graph *g, jitc_call *call, jit_reduce_op op, bool exclusive) {
    uint64_t identity = jitc_reduce_identity(op, call->type);
    if (!call->size || (call->size == 1 && !exclusive))
        return call->index[0];
    if (call->size == 1)
        return literal(g, call, identity, 1);
    bool stays = op != JIT_REDUCE_ADD && op != JIT_REDUCE_MUL && !exclusive;
    if (is_literal(call) && (stays || *jitc_node_value(g, call->index[0]) == identity))
        return call->index[0];
    return jitc_record_node(g, call);
}

jit_var jitc_trace_prefix_reduce(jitc_graph *g, jit_reduce_op op, jit_var a, bool exclusive,
                                 bool reverse) {
    jitc_call call = {.op = JITC_OP_prefix_reduce, .count = 1};
    uint32_t i = 0;
    call.bits =
        (uint64_t) op | (exclusive ? JITC_AUX_EXCLUSIVE : 0u) | (reverse ? JITC_AUX_REVERSE : 0u);
    jitc_lock_graph(g);
    if (check_operand(g, &call, a) == JIT_OK && check_reduction(&call, op) == JIT_OK)
        i = record_prefix(g, &call, op, exclusive);
    return jitc_record_finish(g, i);
}

/* ---- compress and sort ---- */

static void record_compress(jitc_graph *g, jitc_call *call, uint32_t out[2]) {
    const jitc_node *mask = call->node[0];
    call->result = number_type(call->size);
    if (is_literal(call) || !call->size) {
        bool all = is_literal(call) && *jitc_node_value(g, call->index[0]);
        out[0] = all ? counter(g, call) : literal(g, call, 0, call->size);
        out[1] = literal(g, call, all ? call->size : 0, 1);
    } else if (call->size == 1) {
        jitc_call cast = *call;
        cast.op = JITC_OP_cast;
        out[0] = literal(g, call, 0, 1);
        out[1] = jitc_record_node(g, &cast);
    } else {
        call->device = jitc_node_device(mask);
        with_part(g, jitc_record_node(g, call), out);
    }
}

jit_status jitc_trace_compress(jitc_graph *g, jit_var mask, jit_var *indices, jit_var *count) {
    jitc_call call = {.op = JITC_OP_compress, .count = 1};
    uint32_t i[2] = {0, 0};
    jitc_lock_graph(g);
    if (check_operand(g, &call, mask) == JIT_OK && jitc_check_mask(&call, 0) == JIT_OK)
        record_compress(g, &call, i);
    return finish_two(g, i, indices, count);
}

/* Elements of which all are the same are in order. */
static void record_sort(jitc_graph *g, jitc_call *call, bool numbers, uint32_t out[2]) {
    bool sorted = call->size <= 1 || is_literal(call);
    out[0] = sorted ? call->index[0] : jitc_record_node(g, call);
    if (numbers && sorted)
        out[1] = counter(g, call);
    else if (numbers)
        with_part(g, out[0], out);
}

jit_var jitc_trace_sort(jitc_graph *g, jit_var a, bool descending, jit_var *index) {
    jitc_call call = {.op = JITC_OP_sort, .count = 1};
    uint32_t i[2] = {0, 0};
    jit_var sorted = 0;
    call.bits = descending ? JITC_AUX_DESCENDING : 0;
    jitc_lock_graph(g);
    if (check_operand(g, &call, a) == JIT_OK)
        record_sort(g, &call, index != NULL, i);
    if (!index)
        return jitc_record_finish(g, i[0]);
    return finish_two(g, i, &sorted, index) == JIT_OK ? sorted : 0;
}

/* ---- scatter_reduce ---- */

jit_var jitc_trace_scatter_reduce(jitc_graph *g, jit_reduce_op op, jit_var target, jit_var value,
                                  jit_var index, jit_var mask) {
    jitc_call call = {.op = JITC_OP_scatter_reduce, .count = mask ? 4 : 3};
    uint64_t lanes = 0;
    uint32_t i = 0;
    call.bits = (uint64_t) op;
    jitc_lock_graph(g);
    if (jitc_check_scatter(g, &call, (jit_var[]) {target, value, index, mask}, &lanes) == JIT_OK &&
        check_reduction(&call, op) == JIT_OK)
        i = jitc_record_scatter(g, &call, lanes);
    return jitc_record_finish(g, i);
}

static jit_status check_inc(const jitc_graph *g, jitc_call *call, const jit_var *v,
                            uint64_t *lanes) {
    TRY(jitc_check_operands(g, call, v));
    TRY(jitc_check_place(call));
    call->type = call->result = jitc_node_type(call->node[0]);
    call->size = jitc_node_size(call->node[0]);
    if (!(jitc_dtypes[call->type].cls & JITC_DOMAIN_INTEGER))
        return jitc_fail(JIT_TYPE_MISMATCH,
                         "jit_scatter_inc: the target has type %s; it must be an integer",
                         jitc_dtypes[call->type].name);
    TRY(jitc_check_index(call, 1));
    if (call->count > 2)
        TRY(jitc_check_mask(call, 2));
    return jitc_check_sizes(call, 1, lanes);
}

/* Operands target, index and maybe mask: a scatter_reduce of the value 1. */
static void record_inc(jitc_graph *g, jitc_call *call, uint32_t out[2]) {
    bool masked = call->count > 2;
    uint32_t one = literal(g, call, 1, 1);
    if (!one)
        return;
    for (uint32_t k = call->count++; k > 1; --k) {
        call->index[k] = call->index[k - 1];
        call->node[k] = call->node[k - 1];
    }
    call->index[1] = one;
    call->node[1] = jitc_node_at(g, one);
    with_part(g, jitc_record_indexed(g, call, masked), out);
    jitc_node_settle(g, one);
}

jit_status jitc_trace_scatter_inc(jitc_graph *g, jit_var target, jit_var index, jit_var mask,
                                  jit_var *updated, jit_var *old) {
    jitc_call call = {.op = JITC_OP_scatter_reduce, .count = mask ? 3 : 2};
    uint64_t lanes = 0;
    uint32_t i[2] = {0, 0};
    call.name = "scatter_inc";
    call.bits = JIT_REDUCE_ADD;
    jitc_lock_graph(g);
    if (check_inc(g, &call, (jit_var[]) {target, index, mask}, &lanes) == JIT_OK) {
        if (!lanes || (mask && jitc_literal_is(g, &call, 2, 0))) {
            i[0] = call.index[0];
            i[1] = literal(g, &call, 0, lanes);
        } else {
            record_inc(g, &call, i);
        }
    }
    return finish_two(g, i, updated, old);
}
