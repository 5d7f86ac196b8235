/* loop_world.h: variables with loops, checked in three ways: the programs are legal, an interpreter
 * runs them, and so does the backend. */
#ifndef JITC_TESTS_LOOP_WORLD_H
#define JITC_TESTS_LOOP_WORLD_H
#include "schedule/schedule.h"
#include "support.h"
#include <jit/loop.h>

#define B support_backend()

/** Start the backend and open a scope; close both: nothing may be left, and no error. */
void loop_world_begin(void);
void loop_world_end(void);

/** Kernels launched until now. */
uint64_t loop_world_launches(void);
/** Plan what computes the variables, without computing it, and check the programs. */
void loop_world_plan(jitc_plan *p, size_t n, const jit_var *v);
void loop_world_drop(jitc_plan *p);
/** Instructions of an operation. */
uint32_t loop_world_count(const jitc_program *p, jitc_op op);
/** Kernels of such a plan. */
size_t loop_world_kernels(size_t n, const jit_var *v);
/** v has these elements, of any type, as bits: by the interpreter, where it can read the memory,
 * and by the backend, which evaluates v. NaN is any NaN. */
void loop_world_expect(jit_var v, size_t n, const uint64_t *bits, const char *what);
void loop_world_expect_u32(jit_var v, size_t n, const uint32_t *expected, const char *what);
void loop_world_expect_f32(jit_var v, size_t n, const float *expected, const char *what);
#endif
