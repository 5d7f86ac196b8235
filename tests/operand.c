/* operand.c: variables of all kinds, and what they hold. */
#include "operand.h"

#define B support_backend()

static uint64_t element(jit_dtype t, size_t i) {
    return ((i + 1) * 0x9e3779b97f4a7c15u >> 7 & jitc_bits_mask(t)) % (t == JIT_bool ? 2 : ~0u);
}

operand operand_in_memory(jit_dtype t, size_t n) {
    operand o = {.n = n};
    for (size_t i = 0; i < n; ++i)
        o.bits[i] = element(t, i);
    o.v = support_array(t, o.bits, n);
    return o;
}

operand operand_literal(size_t n) {
    operand o = {.v = support_literal(JIT_u32, 77, n), .n = n};
    for (size_t i = 0; i < n; ++i)
        o.bits[i] = 77;
    return o;
}

operand operand_counter(size_t n) {
    operand o = {.v = jit_counter(B, n), .n = n};
    for (size_t i = 0; i < n; ++i)
        o.bits[i] = i;
    return o;
}

operand operand_cheap(size_t n) {
    operand o = operand_in_memory(JIT_u32, n);
    jit_var i = jit_counter(B, n), seven = support_array(JIT_u32, (uint64_t[]) {7}, 1);
    o.v = jit_add(jit_select(jit_lt(i, jit_u32(B, 5)), o.v, seven), i);
    for (size_t k = 0; k < n; ++k)
        o.bits[k] = ((k < 5 ? o.bits[k] : 7) + k) & 0xffffffff;
    return o;
}

operand operand_chosen(size_t n) {
    jit_var first = jit_lt(jit_counter(B, n), jit_u32(B, 3));
    operand o = {.v = jit_select(first, jit_u32(B, 1), jit_u32(B, 0)), .n = n};
    for (size_t k = 0; k < n; ++k)
        o.bits[k] = k < 3;
    return o;
}

operand operand_dear(size_t n) {
    operand o = operand_in_memory(JIT_u32, n);
    for (int k = 0; k < 30; ++k) {
        o.v = jit_mul(o.v, jit_u32(B, 3));
        for (size_t i = 0; i < n; ++i)
            o.bits[i] = o.bits[i] * 3 & 0xffffffff;
    }
    return o;
}

operand operand_gathered(size_t n) {
    operand o = operand_in_memory(JIT_u32, n);
    jit_var i = jit_counter(B, n), zero = jit_u32(B, 0);
    jit_var out = jit_eq(jit_mod(i, jit_u32(B, 5)), zero);
    jit_var mask = jit_ne(jit_mod(i, jit_u32(B, 3)), zero);
    o.v = jit_gather(o.v, jit_select(out, jit_u32(B, 1000), i), mask);
    for (size_t k = 0; k < n; ++k)
        o.bits[k] = k % 5 && k % 3 ? o.bits[k] : 0;
    return o;
}

operand operand_scattered(size_t n) {
    operand o = operand_in_memory(JIT_u32, n);
    o.v = jit_add(jit_scatter(o.v, jit_u32(B, 9), jit_u32(B, 0), 0), jit_u32(B, 1));
    for (size_t k = 0; k < n; ++k)
        o.bits[k] = (k ? o.bits[k] : 9) + 1;
    return o;
}

operand (*const operand_makers[])(size_t n) = {operand_literal,  operand_counter, operand_cheap,
                                               operand_chosen,   operand_dear,    operand_gathered,
                                               operand_scattered};
_Static_assert(sizeof operand_makers / sizeof *operand_makers == OPERAND_MAKERS, "all are counted");
