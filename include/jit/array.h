/* array.h: arrays as wholes: reshaping and joining.
 * Compiles alone as C17 and as C++17.
 *
 * As in jit.h, nothing is computed yet, operands are borrowed, the result is a new reference, any
 * thread may call, and 0 as an operand or a failure gives 0 and jit_error(). All types.
 *
 * The functions only compute where each element comes from, so a chain of them, and what uses it,
 * is one kernel. Where the operand is no array in memory but what a few operations give (about a
 * dozen, an array that they read counting as four), these are computed at the new place. Dearer
 * operands are evaluated: they are in memory afterwards, as the source of jit_gather() is. A
 * literal stays one. The numbers that a function gets (sizes, counts) may be part of the kernel:
 * with others it is compiled anew.
 *
 * A result has at most 2^40 elements: else JIT_INVALID_ARGUMENT. */
#ifndef JIT_ARRAY_H
#define JIT_ARRAY_H
#include <jit/jit.h>

#ifdef __cplusplus
extern "C" {
#endif

/** v, v, ...: `count` times one behind the other. */
JIT_API jit_var jit_tile(jit_var v, size_t count);
/** v[0], v[0], ..., v[1], v[1], ...: each element `count` times. */
JIT_API jit_var jit_repeat(jit_var v, size_t count);
/** v[n - 1], ..., v[1], v[0]. */
JIT_API jit_var jit_reverse(jit_var v);
/** v[start], v[start + step], v[start + 2 step], ...: `count` elements. A negative step goes
 * backwards. JIT_OUT_OF_BOUNDS if one of them is not in v; JIT_INVALID_ARGUMENT if step is 0. */
JIT_API jit_var jit_slice(jit_var v, size_t start, size_t count, ptrdiff_t step);
/** The elements moved by `shift` places to the right, those that leave coming in at the other end;
 * to the left if it is negative. A shift of any other size compiles nothing anew. */
JIT_API jit_var jit_roll(jit_var v, ptrdiff_t shift);
/** v as a matrix of `rows` times `columns` elements, row by row: the same column by column, which
 * is the transposed one row by row. JIT_SIZE_MISMATCH if v has another number of elements. */
JIT_API jit_var jit_transpose(jit_var v, size_t rows, size_t columns);
/** vars[0 ... n - 1], which have one type, one behind the other; n is not 0. Up to 8 arrays (empty
 * ones do not count) are chosen from lane by lane. More are stored into the result, in as many
 * launches as there are arrays and one more. JIT_TYPE_MISMATCH. */
JIT_API jit_var jit_concat(size_t n, const jit_var *vars);
/** `size` numbers, evenly spaced from `first` to `last`, both of them exactly (as rounded to the
 * type); of one element, `first`. f64 is computed in f64, the other float types in f32, with an
 * error of at most 2 ULP of the larger end beside that of the type. JIT_TYPE_MISMATCH for other
 * types. */
JIT_API jit_var jit_linspace(jit_backend backend, jit_dtype type, double first, double last,
                             size_t size);

#ifdef __cplusplus
}
#endif
#endif
