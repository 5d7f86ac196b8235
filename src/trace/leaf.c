/* Variables without operands: literals, counters and arrays in memory. */
#include "trace/private.h"
#include <inttypes.h>

static jit_status check(jit_backend b, int device, jit_dtype t, uint64_t size) {
    if (b != JIT_CUDA && b != JIT_LLVM)
        return jitc_fail(JIT_INVALID_ARGUMENT, "new variable: %d is no backend", (int) b);
    if (device < 0 || device >= JITC_MAX_DEVICES)
        return jitc_fail(JIT_INVALID_ARGUMENT, "new variable: device %d; there can be %d", device,
                         (int) JITC_MAX_DEVICES);
    if (!jitc_dtype_valid((int) t))
        return jitc_fail(JIT_INVALID_ARGUMENT, "new variable: %d is no element type", (int) t);
    if (size > JITC_MAX_SIZE)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "new variable: %" PRIu64 " elements; at most %" PRIu64 " are possible",
                         size, JITC_MAX_SIZE);
    return JIT_OK;
}

static jitc_key leaf_key(jitc_op op, jit_backend b, int device, jit_dtype t, uint64_t size) {
    return (jitc_key) {.head = jitc_head(op, (unsigned) t | (unsigned) b << 4, size),
                       .cold = true,
                       .device = (uint8_t) device};
}

uint32_t jitc_record_literal(jitc_graph *g, const jitc_call *place, jit_dtype t, uint64_t bits) {
    jitc_key k = leaf_key(JITC_OP_literal, place->backend, place->device, t, place->size);
    k.bits = bits;
    uint32_t i = jitc_number_leaf(g, &k);
    if (i && jitc_node_dead(jitc_node_at(g, i)) && jitc_literal_special(t, bits)) /* it is new */
        jitc_node_at(g, i)->flags |= JITC_NODE_SPECIAL;
    return i;
}

jit_var jitc_trace_literal(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t bits,
                           uint64_t size) {
    if (unlikely(check(b, device, t, size) != JIT_OK))
        return 0;
    bits &= jitc_bits_mask(t);
    if (t == JIT_bool)
        bits = bits != 0;
    jitc_call place = {.backend = b, .device = device, .size = size};
    jitc_lock_graph(g);
    return jitc_record_finish(g, jitc_record_literal(g, &place, t, bits));
}

jit_var jitc_trace_counter(jitc_graph *g, jit_backend b, int device, uint64_t size) {
    jit_dtype t = size > (uint64_t) 1 << 32 ? JIT_u64 : JIT_u32;
    if (check(b, device, t, size) != JIT_OK)
        return 0;
    if (size == 1) /* 0 for all lanes of what it broadcasts to, where a counter would go on */
        return jitc_trace_literal(g, b, device, t, 0, 1);
    jitc_key k = leaf_key(JITC_OP_counter, b, device, t, size);
    jitc_lock_graph(g);
    return jitc_record_finish(g, jitc_number_leaf(g, &k));
}

/* Not value-numbered: two arrays in memory are two variables. */
static uint32_t insert_data(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t size) {
    uint32_t i = jitc_slot_take(g);
    if (!i)
        return 0;
    jitc_node *n = jitc_node_at(g, i);
    uint32_t generation = n->users_generation & ~(uint32_t) JITC_INDEX_MASK;
    *n = (jitc_node) {
        .size_low = (uint32_t) size,
        .size_high = (uint8_t) (size >> 32),
        .op = JITC_OP_data,
        .kind = (uint8_t) ((unsigned) t | (unsigned) b << 4 | (unsigned) (size >> 40) << 6),
        .users_generation = generation,
        .next_device = (uint32_t) device << JITC_INDEX_BITS};
    *jitc_node_c(g, i) = 0;
    g->p->live++;
    return i;
}

jit_var jitc_trace_data(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t size,
                        jitc_buffer *buffer) {
    uint32_t i = 0;
    if (check(b, device, t, size) != JIT_OK)
        goto fail;
    jitc_lock_graph(g);
    i = insert_data(g, b, device, t, size);
    if (i)
        *jitc_node_value(g, i) = (uintptr_t) buffer;
    jit_var v = jitc_record_finish(g, i);
    if (i)
        return v;
fail:
    jitc_buffer_unref(buffer);
    return 0;
}
