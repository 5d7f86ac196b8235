/* support.h: the backend under test, and arrays of bits in and out of the public interface, with
 * failures that say why.
 *
 *   JITC_TEST_BACKEND=cuda ./test_ops     the same tests of the CUDA backend: on a GPU, or, with
 *                                         JITC_LIBCUDA and JITC_LIBNVRTC, on the simulated driver
 */
#ifndef JITC_TESTS_SUPPORT_H
#define JITC_TESTS_SUPPORT_H
#include "ir/ir.h"
#include <criterion/criterion.h>
#include <jit/jit.h>

/** The backend under test: JITC_TEST_BACKEND is llvm (or not set) or cuda. */
jit_backend support_backend(void);
/** Was the library built with it? */
bool support_is_built(jit_backend b);
/** jit_init() of it. Where no CUDA driver is wanted in particular (JITC_LIBCUDA), and none is
 * there, the test is skipped, with the reason. */
void support_init(void);
/** jit_shutdown(). No mapped memory may be left, and the simulated driver, where there is one, must
 * not have found anything wrong. */
void support_shutdown(void);
/** Leave the test out, and say why. */
__attribute__((format(printf, 1, 2))) _Noreturn void support_skip(const char *format, ...);
/** Can the backend under test use host memory in place? Else jit_map() is JIT_UNSUPPORTED, and an
 * address on the device means nothing on the host. */
bool support_maps_host_memory(void);
/** Skips the test where the backend cannot use host memory. */
void support_need_host_memory(void);
/** Copy from the device: of memory that jit_data() gave the address of. */
void support_copy_to_host(void *to, const void *from, size_t bytes);
/** A function that the CUDA driver under test exports; NULL if it does not have it, or if CUDA is
 * not under test. What begins with simcuda_ is there on the simulated driver only. */
void *support_driver(const char *symbol);
/** The path of the file `name` in the folder of the running program, if it is there; `otherwise`
 * else. The build knows the files of its own folder; a bundle is somewhere else. */
void support_beside(const char *name, const char *otherwise, char *path, size_t size);
/** Is the simulated driver under test? */
bool support_simulated(void);

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
 * element only. An array of its own where host memory cannot be used: there the simulated driver
 * finds accesses out of bounds. */
jit_var support_guarded(jit_dtype t, const uint64_t *bits, size_t n, bool at_start);
/** Mappings of support_guarded() that have not been released. */
int support_guarded_alive(void);
/** Call the public function of an operation by its number: forms UNARY, BINARY, TERNARY, SELECT. */
jit_var support_apply(jitc_op op, const jit_var v[3]);
#endif
