/* expression.h: elementwise operations as expressions in CUDA C.
 * Layer: cuda.  May include: core, ir.
 *
 * The value of instruction 12 is the variable v12, of the type that jitc_cuda_type() gives. */
#ifndef JITC_CUDA_EXPRESSION_H
#define JITC_CUDA_EXPRESSION_H
#include "cuda/writer.h"
#include "ir/program.h"

/** The type of a value, and of an element in memory, in a text: for f16 and bf16 u16. */
const char *jitc_cuda_type(jit_dtype t);
const char *jitc_cuda_memory_type(jit_dtype t);
/** The value of an elementwise instruction, without brackets around it. */
void jitc_cuda_put_operation(jitc_cuda_writer *w, const jitc_program *p, const jitc_inst *i);
/** The value of a literal. W(3), which the text defines, is parameter 3. */
void jitc_cuda_put_literal(jitc_cuda_writer *w, const jitc_inst *i);
#endif
