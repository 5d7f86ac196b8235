/* interpreter.h: programs of shape MAP, instruction by instruction. */
#ifndef JITC_TESTS_INTERPRETER_H
#define JITC_TESTS_INTERPRETER_H
#include "ir/program.h"

/** Run a program on the host: one lane after the other, with the folds of ops.def. Its parameters
 *  point to memory of the host. */
void interpret(const jitc_program *p, uint64_t lanes, const uint64_t *params);
#endif
