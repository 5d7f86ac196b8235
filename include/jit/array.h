/* array.h: arrays as wholes: reshaping, joining, and functions of all elements.
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
 * error of at most 3 ULP of the larger end beside that of the type. JIT_TYPE_MISMATCH for other
 * types. */
JIT_API jit_var jit_linspace(jit_backend backend, jit_dtype type, double first, double last,
                             size_t size);

/* Of all elements: one element, as of jit_reduce(), which says how sums are rounded. "a" as in amin
 * says "of the array": jit_min() is of two arrays, element by element. */

/** Sum of all elements; 0 of none. Integers wrap: jit_cast() to a wider type before. */
JIT_API jit_var jit_sum(jit_var v);
/** Smallest element: NaN if there is one, -0 < +0; the largest value of the type if there is none.
 */
JIT_API jit_var jit_amin(jit_var v);
/** Largest element: NaN if there is one, -0 < +0; the smallest value of the type if there is none.
 */
JIT_API jit_var jit_amax(jit_var v);
/** Sum of a[i] b[i]. Each product is rounded before it is added; f16 and bf16 are multiplied and
 * added in f32, and rounded once, at the end. */
JIT_API jit_var jit_dot(jit_var a, jit_var b);
/** Sum divided by the number of elements; NaN if there is none. Of integers and bool: in f64. f16
 * and bf16 are added and divided in f32, so that the sum cannot overflow. */
JIT_API jit_var jit_mean(jit_var v);
/** Is an element true? (bool) */
JIT_API jit_var jit_any(jit_var mask);
/** Are all elements true? True if there is none. (bool) */
JIT_API jit_var jit_all(jit_var mask);
/** How many elements are true: u32, or u64 from 2^32 elements on. (bool) */
JIT_API jit_var jit_count(jit_var mask);
/** Index of the smallest element: u32, or u64 for more than 2^32. Of equal ones, which -0 and +0
 * are, the first; the first NaN if there is one. JIT_INVALID_ARGUMENT if there is no element. Types
 * of up to 32 bits take one pass, those of 64 bits two. All types. */
JIT_API jit_var jit_argmin(jit_var v);
/** Index of the largest element; for the rest as jit_argmin(). */
JIT_API jit_var jit_argmax(jit_var v);

#ifdef __cplusplus
}
#endif
#endif
