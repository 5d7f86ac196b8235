/* dlpack.h: arrays shared with PyTorch, JAX, CuPy, NumPy, TensorFlow and all others that speak
 * DLPack (https://dmlc.github.io/dlpack, version 1.3), without a copy.
 * Compiles alone as C17 and as C++17, and needs no dlpack.h: who looks into the structs brings it.
 *
 * Memory is shared, not copied, unless somebody asks for a copy or it cannot be otherwise. Who
 * holds a tensor of ours holds the memory: it stays, whatever becomes of the variable, of the
 * thread and of the runtime, until the tensor's deleter is called: once, from any thread, also
 * after jit_shutdown() and when the process ends.
 *
 * What a consumer writes. A tensor may be written if its flag READ_ONLY is not set, and the
 * variable then has the new values: expressions read an array when they are evaluated, so those
 * that were evaluated before have the old values, and those that are evaluated later the new ones,
 * once jit_cuda_wait_stream() has ordered them behind the write. The flag is set where somebody
 * would be surprised by that: if there are other references to the variable, or expressions that
 * use it and are not evaluated yet; and for memory that was itself imported as read-only. (It
 * may be set as well where two threads export one variable at the same moment.) The
 * library never writes to memory while a consumer holds it: jit_scatter() copies first. */
#ifndef JIT_DLPACK_H
#define JIT_DLPACK_H
#include <jit/cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensor;          /**< See dlpack.h: without a version, "deprecated" and alive. */
struct DLManagedTensorVersioned; /**< See dlpack.h, since 1.0. */

/** May the elements be copied? */
typedef enum jit_copy {
    JIT_COPY_NEVER = -1,    /**< An error where it would be needed. */
    JIT_COPY_IF_NEEDED = 0, /**< Only where it cannot be otherwise. */
    JIT_COPY_ALWAYS = 1     /**< The one who gets it owns what nobody else sees. */
} jit_copy;

/** How an array is exported. Later versions add members at the end; start from
 * JIT_EXPORT_OPTIONS. */
typedef struct jit_export_options {
    size_t struct_size; /**< sizeof(jit_export_options) of the caller. */
    /** Arrays on a GPU: the stream on which the consumer reads, as in jit_cuda_sync_stream(): it
     * waits, on the device, for what writes the array. 0: the CPU waits, for consumers that cannot
     * name their stream. Arrays of the CPU, and those that are copied to it: JIT_STREAM_NOT_GIVEN,
     * the CPU waits until the array is there, or JIT_STREAM_NONE, it does not; nothing else. */
    intptr_t stream;
    int ndim;             /**< Dimensions of `shape`, 0 to 64. */
    const int64_t *shape; /**< Row-major; as many elements as the array. NULL: jit_var_shape(). */
    uint32_t max_major;   /**< The highest version that the consumer knows, ... */
    uint32_t max_minor;   /**< ... as in max_version of the array API; 0.0: any. */
    int copy;             /**< A jit_copy. */
    /** DLDeviceType of the wanted device, as in dl_device of the array API: that of the array, or
     * 1: the CPU. 0: that of the array. */
    int device_type;
    int device_id;  /**< Goes with device_type. */
    bool read_only; /**< Set the flag READ_ONLY in any case. */
} jit_export_options;
/** Defaults, as an initializer: no stream given, the array's own shape and device, any version. */
#define JIT_EXPORT_OPTIONS                                                                         \
    {sizeof(jit_export_options), JIT_STREAM_NOT_GIVEN, 0, NULL, 0, 0, 0, 0, 0, false}

/** Evaluate v and make a tensor of its memory, which *out owns: `data` is the first element,
 * byte_offset 0, strides are never NULL. options NULL: defaults. The flag IS_COPIED is set if the
 * consumer is alone with the memory. A literal or a counter, which has no memory, is given as a
 * copy. JIT_UNSUPPORTED if a copy is needed and must not be made; JIT_SIZE_MISMATCH for a shape of
 * another size; JIT_INVALID_ARGUMENT for a stream, device, version or flag that cannot be; what
 * jit_cuda_sync_stream() returns for a stream that is being captured. On failure *out is NULL. */
JIT_API jit_status jit_export_dlpack(jit_var v, const jit_export_options *options,
                                     struct DLManagedTensorVersioned **out);
/** The same for consumers of the struct without a version (JAX, TensorFlow). It cannot say that
 * memory is read-only: what would be is copied (or else JIT_READ_ONLY); memory that was imported as
 * read-only only on JIT_COPY_ALWAYS. */
JIT_API jit_status jit_export_dlpack_legacy(jit_var v, const jit_export_options *options,
                                            struct DLManagedTensor **out);

/** How a tensor is imported. Later versions add members at the end; start from
 * JIT_IMPORT_OPTIONS. */
typedef struct jit_import_options {
    size_t struct_size;  /**< sizeof(jit_import_options) of the caller. */
    jit_backend backend; /**< Where the variable is to live; 0: where the memory is. */
    int copy;            /**< A jit_copy. */
    /** Memory of a GPU: the stream behind whose work the tensor can be read. The calling thread's
     * stream waits for it on the device. A producer that was told jit_cuda_stream() has ordered
     * that one: name it here. JIT_STREAM_NONE: the data are there. 0: either default stream.
     * Memory of the CPU has none, and only pinned memory may name one, for which the CPU waits. */
    intptr_t producer_stream;
    /** A type that no jit_dtype stands for (complex, 8-bit floats, vectors, ...) is imported as
     * JIT_u8, with the bytes of an element as one more dimension, instead of being an error. */
    bool raw_bytes;
} jit_import_options;
/** Defaults, as an initializer: the memory's own backend, in place, ready behind the legacy default
 * stream. */
#define JIT_IMPORT_OPTIONS                                                                         \
    {sizeof(jit_import_options), (jit_backend) 0, 0, JIT_STREAM_NOT_GIVEN, false}

/** A variable of the elements of `tensor`, in row-major order, which uses the memory in place, with
 * any strides. Takes the tensor, also on failure: its deleter is called once, after our last use of
 * the memory has ended on the device, from an ordinary thread, under no lock. The producer's
 * later writes are seen as the consumer's are (top of this file). options NULL: defaults.
 *
 * Memory of the CPU and pinned memory become variables of the CPU backend, memory of a GPU and
 * managed memory of the CUDA backend. With another `backend` pinned memory is used by the thread's
 * current GPU in place; all else is copied, and the tensor is given back at once. Elements that do
 * not lie at a multiple of their size are copied. The number of the device means nothing for host
 * memory, and flags that this version does not know nothing at all.
 *
 * What is not compact in memory is a view: an expression, whose elements are read where they are by
 * what uses it, until it is evaluated itself (also to read it, or to index it); then it has a copy.
 *
 * JIT_UNSUPPORTED for types and devices that we do not have, for more than 64 dimensions (and for a
 * struct of another major version, of which only the deleter is used); JIT_UNAVAILABLE if the
 * backend was not started; JIT_INVALID_ARGUMENT for a tensor that cannot be (negative sizes, no
 * data, an address that is not of the named device, more bytes than an address can count);
 * JIT_UNSUPPORTED also if a copy is needed and must not be made, and, with the capture untouched,
 * if the producer's stream is being captured. */
JIT_API jit_status jit_import_dlpack(struct DLManagedTensorVersioned *tensor,
                                     const jit_import_options *options, jit_var *out);
/** The same for the struct without a version. */
JIT_API jit_status jit_import_dlpack_legacy(struct DLManagedTensor *tensor,
                                            const jit_import_options *options, jit_var *out);

/** Dimensions of a variable: those of the tensor that was imported; 1 for all others, also for what
 * is computed from one. -1, with an error, for a dead handle. */
JIT_API int jit_var_ndim(jit_var v);
/** Its shape, good as long as the variable. Not NULL, even if there are no dimensions; NULL, with
 * an error, for a dead handle. */
JIT_API const int64_t *jit_var_shape(jit_var v);

#ifdef __cplusplus
}
#endif
#endif
