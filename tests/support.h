/* support.h: arrays of bits in and out of the public interface, with failures that say why. */
#ifndef JITC_TESTS_SUPPORT_H
#define JITC_TESTS_SUPPORT_H
#include "ir/ir.h"
#include <criterion/criterion.h>
#include <jit/jit.h>

/** The status is JIT_OK, or the test fails with jit_error(). */
#define ASSERT_OK(call)                                                                            \
    do {                                                                                           \
        jit_status status_ = (call);                                                               \
        cr_assert_eq(status_, JIT_OK, "%s: %s: %s", #call, jit_status_name(status_), jit_error()); \
    } while (0)
/** The variable is one. */
#define ASSERT_VAR(v) cr_assert((v) != 0, "%s: %s", #v, jit_error())

/* An element is its bits in a uint64_t. */

/** Elements in the layout of the type; free(). */
void *support_pack(jit_dtype t, const uint64_t *bits, size_t n);
/** An evaluated variable. */
jit_var support_array(jit_dtype t, const uint64_t *bits, size_t n);
/** A literal of n elements. */
jit_var support_literal(jit_dtype t, uint64_t bits, size_t n);
/** Evaluates and reads; free(). The size has to be n. */
uint64_t *support_read(jit_var v, size_t n);
/** Mapped memory with pages that cannot be touched right before and behind it, read-only itself:
 * the array ends at a page's end, or (at_start) begins at a page's start; it is aligned to its
 * element only. */
jit_var support_guarded(jit_dtype t, const uint64_t *bits, size_t n, bool at_start);
/** Mappings of support_guarded() that have not been released. */
int support_guarded_alive(void);
/** Call the public function of an operation by its number: forms UNARY, BINARY, TERNARY, SELECT. */
jit_var support_apply(jitc_op op, const jit_var v[3]);
#endif
