/* base.h: element types, backends, status codes, variable handles.
 * Compiles alone as C17 and as C++17. */
#ifndef JIT_BASE_H
#define JIT_BASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JIT_VERSION_MAJOR 0 /**< Version of this header. */
#define JIT_VERSION_MINOR 1 /**< As JIT_VERSION_MAJOR. */
#define JIT_VERSION_PATCH 0 /**< As JIT_VERSION_MAJOR. */

/** Marks what the library exports. */
#if defined(__GNUC__)
#    define JIT_API __attribute__((visibility("default")))
#else
#    define JIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** A variable: an array of one element type and size, computed when it is needed.
 *  0 is "no variable": never valid, the result of every failed operation. */
typedef uint32_t jit_var;

/** Result of a fallible function. The text that goes with it is jit_error(). */
typedef enum jit_status {
    JIT_OK = 0,
    JIT_INVALID_ARGUMENT,
    JIT_INVALID_HANDLE,
    JIT_TYPE_MISMATCH,
    JIT_SIZE_MISMATCH,
    JIT_UNAVAILABLE,
    JIT_OUT_OF_MEMORY,
    JIT_COMPILE_FAILED,
    JIT_DEVICE_FAILED,
    JIT_UNSUPPORTED,
    JIT_READ_ONLY,
    JIT_OUT_OF_BOUNDS,
    JIT_NOT_INITIALIZED
} jit_status;

/** Where a variable lives. The values are bits, so that jit_init() takes a set of them. */
typedef enum jit_backend { JIT_CUDA = 1, JIT_LLVM = 2 } jit_backend;

/** Element type. One byte holds a bool (0 or 1). */
typedef enum jit_dtype {
    JIT_bool,
    JIT_i8,
    JIT_u8,
    JIT_i16,
    JIT_u16,
    JIT_i32,
    JIT_u32,
    JIT_i64,
    JIT_u64,
    JIT_f16,
    JIT_bf16,
    JIT_f32,
    JIT_f64
} jit_dtype;

/** Text of the calling thread's first error since jit_error_clear(); "" if there was none.
 *  Valid until the thread's next jit_error_clear(). */
JIT_API const char *jit_error(void);
/** Status that goes with jit_error(); JIT_OK if there was no error. */
JIT_API jit_status jit_error_status(void);
/** Forget the calling thread's error. */
JIT_API void jit_error_clear(void);
/** Name of a status, such as "JIT_SIZE_MISMATCH". Static storage. */
JIT_API const char *jit_status_name(jit_status status);
/** Name of an element type, such as "f32"; "?" for a value that is none. Static storage. */
JIT_API const char *jit_dtype_name(jit_dtype type);
/** Bytes of one element; 0 for a value that is no type. */
JIT_API size_t jit_dtype_size(jit_dtype type);

#ifdef __cplusplus
}
#endif
#endif
