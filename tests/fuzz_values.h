/* fuzz_values.h: variables of u32 along with what they have to be, which plain loops have made.
 * Layer: tests. */
#ifndef JITC_TESTS_FUZZ_VALUES_H
#define JITC_TESTS_FUZZ_VALUES_H
#include <jit/jit.h>
#include <stdatomic.h>

/** Shared by all that hold it. */
typedef struct array {
    atomic_uint refs;
    size_t size;
    uint32_t at[];
} array;

/** Whoever holds it holds a reference to the variable and one to the array. */
typedef struct value {
    jit_var v; /* 0: none */
    array *want;
    int device;
} value;

/** The seed that messages name. */
void fuzz_running(uint64_t seed);
/** Ends the process with a message. */
__attribute__((format(printf, 1, 2))) _Noreturn void fuzz_stop(const char *format, ...);
/** The call gave a variable, or was JIT_OK, or the process ends. */
jit_var fuzz_must(jit_var v, const char *what);
void fuzz_must_be_ok(jit_status status, const char *what);

value value_none(void);
/** Further references. */
value value_share(value x);
/** Gives the caller's references back. */
void value_drop(value x);

/* Leaves, on the calling thread's device of the backend under test, which is `device`. */
value value_literal(int device, uint32_t bits);
value value_counter(int device, size_t size);
/** first, first + step, ... from host memory. `mapped`: used in place, where that can be done. */
value value_ramp(int device, size_t size, uint32_t first, uint32_t step, bool mapped);

/* Operations; the operands stay the caller's. */

/** op 0 to 3: sum, difference, product, exclusive or. */
value value_combined(size_t op, value x, value y);
value value_plus(value x, uint32_t k);
value value_gathered(value source, value index);
/** Every stride-th element, from `first` on, is `word`. */
value value_scattered(value target, size_t first, size_t stride, uint32_t word);

/** `got`, which are `count` elements from `offset` on, are right, or the process ends. */
void value_check(value x, const uint32_t *got, size_t offset, size_t count, const char *how);
/** By jit_read(). */
void value_read(value x);
void value_read_range(value x, size_t offset, size_t count);
#endif
