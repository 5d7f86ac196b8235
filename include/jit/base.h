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
 * 0 is "no variable": never valid, the result of every failed operation. */
typedef uint32_t jit_var;

/** Result of a fallible function. The text that goes with it is jit_error(). */
typedef enum jit_status {
    JIT_OK = 0,           /**< Success. */
    JIT_INVALID_ARGUMENT, /**< An argument has a value that the function does not take. */
    JIT_INVALID_HANDLE,   /**< A handle names no live variable. */
    JIT_TYPE_MISMATCH,    /**< Element types or backends do not fit together. */
    JIT_SIZE_MISMATCH,    /**< Array sizes do not fit together. */
    JIT_UNAVAILABLE,      /**< A backend, device or library is not there. */
    JIT_OUT_OF_MEMORY,    /**< Host or device memory ran out. */
    JIT_COMPILE_FAILED,   /**< The device compiler rejected a kernel. */
    JIT_DEVICE_FAILED,    /**< The device or its driver reported a failure. */
    JIT_UNSUPPORTED,      /**< The operation does not exist for this case. */
    JIT_READ_ONLY,        /**< The memory may not be written. */
    JIT_OUT_OF_BOUNDS,    /**< An index lies outside of its array. */
    JIT_NOT_INITIALIZED   /**< jit_init() has not been called. */
} jit_status;

/** Where a variable lives. The values are bits, so that jit_init() takes a set of them. */
typedef enum jit_backend {
    JIT_CUDA = 1, /**< GPUs of NVIDIA. */
    JIT_LLVM = 2  /**< The CPU, by vector code that LLVM compiles. */
} jit_backend;

/** Element type. */
typedef enum jit_dtype {
    JIT_bool, /**< 0 or 1, in one byte. */
    JIT_i8,   /**< Signed, 8 bits. */
    JIT_u8,   /**< Unsigned, 8 bits. */
    JIT_i16,  /**< Signed, 16 bits. */
    JIT_u16,  /**< Unsigned, 16 bits. */
    JIT_i32,  /**< Signed, 32 bits. */
    JIT_u32,  /**< Unsigned, 32 bits. */
    JIT_i64,  /**< Signed, 64 bits. */
    JIT_u64,  /**< Unsigned, 64 bits. */
    JIT_f16,  /**< IEEE binary16. */
    JIT_bf16, /**< The upper half of a binary32. */
    JIT_f32,  /**< IEEE binary32. */
    JIT_f64   /**< IEEE binary64. */
} jit_dtype;

/** How elements are combined by reductions, prefix sums and jit_scatter_reduce(). The identity of
 * each is what an empty reduction gives. */
typedef enum jit_reduce_op {
    JIT_REDUCE_ADD, /**< Sum; identity 0. Integers wrap. Not bool. */
    JIT_REDUCE_MUL, /**< Product; identity 1. Integers wrap. Not bool. */
    JIT_REDUCE_MIN, /**< As jit_min(); identity +infinity, or the largest integer. Not bool. */
    JIT_REDUCE_MAX, /**< As jit_max(); identity -infinity, or the smallest integer. Not bool. */
    JIT_REDUCE_AND, /**< As jit_and(); identity all ones. Integers and bool. */
    JIT_REDUCE_OR   /**< As jit_or(); identity 0. Integers and bool. */
} jit_reduce_op;

/** Text of the calling thread's first error since jit_error_clear(); "" if there was none.
 * Valid until the thread's next jit_error_clear(). */
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
