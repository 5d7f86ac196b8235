/* interpret.h: programs run one lane after the other, as program.h says, to compare backends with.
 */
#ifndef JITC_TESTS_INTERPRET_H
#define JITC_TESTS_INTERPRET_H
#include "ir/program.h"

/** Run `lanes` lanes of a program of shape MAP or REDUCE: its stores, scatters, reductions and the
 *  report of bounds. Each lane runs to its end before the next one begins, so sums of floats are
 *  not those of a backend. */
void interpret(const jitc_program *p, uint64_t lanes, const uint64_t *params);
#endif
