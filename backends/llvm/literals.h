/* literals.h: literals of a program as vectors.  Layer: llvm.  May include: core, ir.
 *
 * A literal is loaded and repeated in all lanes where it is used. That costs the code generator ten
 * times as much as an addition, so that quick code of a program with many literals first writes
 * them all, repeated, to tables on the stack, by a loop, and then loads whole vectors. */
#ifndef JITC_LLVM_LITERALS_H
#define JITC_LLVM_LITERALS_H
#include "ir/program.h"
#include "llvm/emit.h"

typedef struct jitc_literals {
    LLVMValueRef params;    /* ptr to the parameters */
    LLVMValueRef tables[4]; /* of vectors, by the logarithm of the element's size; NULL: none */
    uint32_t first;         /* the parameter that is a table's first entry */
} jitc_literals;

/** Choose, and fill the tables if there are any, where the builder stands in the entry block: this
 *  may end the block and begin another. */
void jitc_literals_init(jitc_emit *e, const jitc_program *p, LLVMValueRef params, int level,
                        jitc_literals *out);
/** The value of a literal, where the builder stands. */
LLVMValueRef jitc_literals_value(jitc_emit *e, const jitc_literals *l, const jitc_inst *i);
#endif
