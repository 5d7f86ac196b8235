/* operand.h: variables of all kinds, and what they hold: in memory, computed, gathered, ...
 * Layer: tests. */
#ifndef JITC_TESTS_OPERAND_H
#define JITC_TESTS_OPERAND_H
#include "support.h"

enum { OPERAND_MOST = 64 };

/** A variable and what it holds. */
typedef struct operand {
    jit_var v;
    size_t n;
    uint64_t bits[OPERAND_MOST];
} operand;

operand operand_in_memory(jit_dtype t, size_t n);
operand operand_literal(size_t n);
operand operand_counter(size_t n);
/** A few operations: select(i < 5, data, seven) + i, where seven is one element in memory. */
operand operand_cheap(size_t n);
/** 1, 1, 1, 0, 0, ...: as u32, which the mask is not. */
operand operand_chosen(size_t n);
/** Many: data * 3^30. */
operand operand_dear(size_t n);
/** Every third element is masked, and every fifth index out of range. */
operand operand_gathered(size_t n);
operand operand_scattered(size_t n);

/** All of them that are u32; operand_scattered() is not for 0 elements. */
extern operand (*const operand_makers[])(size_t n);
enum { OPERAND_MAKERS = 7 };
#endif
