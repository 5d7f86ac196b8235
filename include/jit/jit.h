/* jit.h: the runtime: start, variables, evaluation, reading results.
 * Compiles alone as C17 and as C++17.
 *
 * A call such as jit_add(a, b) computes nothing: it adds a node to a graph. jit_eval(), jit_read()
 * and their like turn what is needed into a few kernels and run them.
 *
 * Errors: functions that return jit_status return the reason, functions that return a jit_var
 * return 0. The calling thread keeps the text of its first error (jit_error()). 0 as an operand
 * gives 0, so a chain of calls is checked once, at its end. Nothing aborts or exits.
 *
 * References: every function that returns a jit_var returns a new reference, given back with
 * jit_unref(), or by the scope that was open in the calling thread (jit_scope_push()).
 *
 * Threads: every function may be called from any thread, and a variable made in one thread may be
 * used in another. */
#ifndef JIT_JIT_H
#define JIT_JIT_H
#include <jit/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Start the runtime with a set of backends (JIT_CUDA | JIT_LLVM). May be repeated: each success
 * wants one jit_shutdown(), and backends that are there already stay. JIT_OK if at least one of the
 * set is there; jit_has_backend() tells which. JIT_UNAVAILABLE names what is missing.
 * After fork() the child has all variables and a CPU backend of its own, on which what was queued
 * goes on, calls of jit_call() included; CUDA says JIT_UNAVAILABLE there. */
JIT_API jit_status jit_init(unsigned backends);
/** Undo one jit_init(). The last one waits for all work, then releases everything: handles that are
 * left become invalid. Without a jit_init() before it, it does nothing. Whoever the library calls
 * (a deleter, a `release`, a function of jit_call()) must not call the last one, which would wait
 * for its caller. */
JIT_API void jit_shutdown(void);
/** Is the backend there? False before jit_init(). */
JIT_API bool jit_has_backend(jit_backend backend);
/** Number of devices of a backend; 0 if it is not there. The CPU is one device. */
JIT_API int jit_device_count(jit_backend backend);
/** Choose the device on which the calling thread makes new variables. Does not wait. Starts at 0.
 * JIT_INVALID_ARGUMENT if there is no such device, JIT_UNAVAILABLE if the backend is not there. */
JIT_API jit_status jit_set_device(jit_backend backend, int device);
/** The calling thread's device of a backend; -1 if the backend is not there. */
JIT_API int jit_device(jit_backend backend);

/** Set an option by name, such as "cache_dir"; docs/options.md lists them, and which of them are
 * read only when the runtime starts. The others take effect for what comes after. Can be called
 * before jit_init(), and while other threads evaluate unless the option is a text.
 * JIT_INVALID_ARGUMENT for an unknown name or a text that is no number or boolean where one is
 * wanted. */
JIT_API jit_status jit_set_option(const char *name, const char *value);
/** Print an option's value into `text`, cut to `size` bytes; booleans as 0 or 1. */
JIT_API jit_status jit_get_option(const char *name, char *text, size_t size);
/** Send messages of level <= `level` (0 errors, 1 warnings, 2 info, 3 debug) to `callback`; NULL:
 * to stderr. The callback may be called from any thread, under no lock, and in the middle of an
 * evaluation: it must not evaluate or schedule (JIT_UNSUPPORTED). Setting the option log_level
 * changes the level too. */
JIT_API void jit_set_log(void (*callback)(void *context, int level, const char *text),
                         void *context, int level);

/** Wait on the CPU for everything that the calling thread has queued, on all devices, and for the
 * functions of its jit_call(). Not for other threads' work, unless its own comes after that. */
JIT_API jit_status jit_sync_thread(void);
/** Wait on the CPU for everything queued on the calling thread's devices, by any thread. */
JIT_API jit_status jit_sync_device(void);
/** Wait on the CPU for everything on all devices. */
JIT_API jit_status jit_sync_all_devices(void);

/* Making variables. Sizes are numbers of elements, 0 to 2^40. */

/** `size` copies of *value (one element of `type`). Takes no memory. Changing the value of a
 * literal does not compile anew. */
JIT_API jit_var jit_literal(jit_backend backend, jit_dtype type, const void *value, size_t size);
/** 0, 1, 2, ...: u32, or u64 for more than 2^32 elements. Takes no memory. */
JIT_API jit_var jit_counter(jit_backend backend, size_t size);
/** A copy of `size` elements of host memory, which may change when the call returns. */
JIT_API jit_var jit_from_host(jit_backend backend, jit_dtype type, const void *data, size_t size);
/** An array in memory that the caller owns and that must stay, and not be written by others, until
 * `release(context)` is called: once, from any thread, under no lock, after the last use, and not
 * in the middle of an evaluation, so that it may itself evaluate. On failure release is not called.
 * CPU backend: host memory; `data` is aligned to its element. The library never writes to it. */
JIT_API jit_var jit_map(jit_backend backend, jit_dtype type, void *data, size_t size,
                        void (*release)(void *context), void *context);
/** One value (size 1), which broadcasts against any size. f16 and bf16 round `value` to nearest
 * even. */
JIT_API jit_var jit_bool(jit_backend backend, bool value);
JIT_API jit_var jit_i8(jit_backend backend, int8_t value);    /**< As jit_bool(). */
JIT_API jit_var jit_u8(jit_backend backend, uint8_t value);   /**< As jit_bool(). */
JIT_API jit_var jit_i16(jit_backend backend, int16_t value);  /**< As jit_bool(). */
JIT_API jit_var jit_u16(jit_backend backend, uint16_t value); /**< As jit_bool(). */
JIT_API jit_var jit_i32(jit_backend backend, int32_t value);  /**< As jit_bool(). */
JIT_API jit_var jit_u32(jit_backend backend, uint32_t value); /**< As jit_bool(). */
JIT_API jit_var jit_i64(jit_backend backend, int64_t value);  /**< As jit_bool(). */
JIT_API jit_var jit_u64(jit_backend backend, uint64_t value); /**< As jit_bool(). */
JIT_API jit_var jit_f16(jit_backend backend, float value);    /**< As jit_bool(). */
JIT_API jit_var jit_bf16(jit_backend backend, float value);   /**< As jit_bool(). */
JIT_API jit_var jit_f32(jit_backend backend, float value);    /**< As jit_bool(). */
JIT_API jit_var jit_f64(jit_backend backend, double value);   /**< As jit_bool(). */

/** A further reference to the same variable. Returns it. */
JIT_API jit_var jit_ref(jit_var v);
/** Give a reference back; 0 is ignored. A dead handle is an error of the thread, not a crash. */
JIT_API void jit_unref(jit_var v);
/** References that the calling thread gets from now on belong to the scope ... Without memory for
 * it (jit_error()) they belong to the scope around, or to the caller. */
JIT_API void jit_scope_push(void);
/** ... and are given back here, except one of each of keep[0 ... n-1], which go to the scope around
 * this one, or to the caller if there is none. What jit_unref() gave back inside counts as given
 * back. JIT_INVALID_ARGUMENT if no scope is open; JIT_INVALID_HANDLE if keep names a dead handle (0
 * is ignored); the scope is closed all the same. JIT_OUT_OF_MEMORY if it could not be opened. What
 * a thread leaves in an open scope when it ends stays until jit_shutdown(). */
JIT_API jit_status jit_scope_pop(size_t n, const jit_var *keep);

/** Number of elements; 0, with an error, for a dead handle. */
JIT_API size_t jit_size(jit_var v);
/** Element type; JIT_bool, with an error, for a dead handle. */
JIT_API jit_dtype jit_type(jit_var v);
/** Backend; 0, with an error, for a dead handle. */
JIT_API jit_backend jit_backend_of(jit_var v);
/** Device; -1, with an error, for a dead handle. */
JIT_API int jit_device_of(jit_var v);
/** Name a variable, for dumps. The text is copied; NULL removes it. */
JIT_API jit_status jit_set_label(jit_var v, const char *label);
/** Copy a variable's label to `text`, cut to `size` bytes; "" if it has none. */
JIT_API jit_status jit_label(jit_var v, char *text, size_t size);

/* Operations with arguments of their own; all others are in ops.h. */

/** Elements converted to another type: floats to integers truncate and saturate, NaN gives 0;
 * integers wrap; to floats rounds to nearest even; to bool is "not zero". */
JIT_API jit_var jit_cast(jit_var a, jit_dtype type);
/** The same bits as another type of the same width. */
JIT_API jit_var jit_bitcast(jit_var a, jit_dtype type);
/** source[index[i]] for every i: as many elements as index and mask have. mask (bool): lanes where
 * it is false are masked; 0: none is. A lane that is masked, or whose index is negative or too
 * large, gives 0; the option bounds_check makes the latter an error. Any integer type of index. */
JIT_API jit_var jit_gather(jit_var source, jit_var index, jit_var mask);
/** `target` with target[index[i]] = value[i]: the updated array, of the same size; `target` itself
 * stays as it is. `value` has the type of `target`. The memory of `target` is reused if nobody has
 * a reference to it any more. Index and mask as in jit_gather(): masked or out-of-range lanes store
 * nothing; of several lanes with one index one wins. */
JIT_API jit_var jit_scatter(jit_var target, jit_var value, jit_var index, jit_var mask);
/** Both sine and cosine. On failure both are 0. */
JIT_API jit_status jit_sincos(jit_var a, jit_var *sine, jit_var *cosine);

/* Combining elements. What an operand is computed from is read once, and the operand itself does
 * not go through memory: jit_reduce(JIT_REDUCE_ADD, jit_mul(a, b)) is one pass over a and b, and so
 * are several reductions of one size that are evaluated together. Nothing waits but jit_compress().
 *
 * Integers wrap. Sums of floats are pairwise or better, and have the same bits in every run on one
 * device, whatever the number of threads and whatever else is evaluated; so have products. Those of
 * f16 and bf16 are computed in f32 and rounded once, at the end (jit_prefix_reduce(): each
 * element). Whether a sum of nothing but -0 is -0 or +0 is not specified. MIN and MAX are NaN if
 * any element is.
 *
 * JIT_TYPE_MISMATCH if the reduction is not defined for the type, JIT_INVALID_ARGUMENT if it is no
 * jit_reduce_op. */

/** All elements combined: size 1. Of no elements: the identity. */
JIT_API jit_var jit_reduce(jit_reduce_op op, jit_var a);
/** Each block of `block` consecutive elements combined, the last one maybe shorter: as many
 * elements as there are blocks. JIT_INVALID_ARGUMENT if block is 0. */
JIT_API jit_var jit_block_reduce(jit_reduce_op op, jit_var a, size_t block);
/** Element i: elements 0 ... i combined, or 0 ... i-1 if `exclusive`: the first is the identity
 * then. `reverse`: from the last element on towards the first. */
JIT_API jit_var jit_prefix_reduce(jit_reduce_op op, jit_var a, bool exclusive, bool reverse);
/** `target` with value[i] combined into target[index[i]], every lane once: the updated array; else
 * as jit_scatter(). Lanes of one index are combined in any order, each result rounded to the type:
 * sums and products of floats may differ from run to run. */
JIT_API jit_var jit_scatter_reduce(jit_reduce_op op, jit_var target, jit_var value, jit_var index,
                                   jit_var mask);
/** Add 1 to (*target)[index[i]] for every i, one lane after the other, and return what was there
 * before each of them: a place of its own for every lane of one index. Which lane comes first is
 * not specified. 0 for lanes that are masked or out of range, which add nothing. *target becomes
 * the updated array, of the same size: the reference to the former one is given back, and its
 * memory reused if there is no other. On failure *target stays. Integer types. */
JIT_API jit_var jit_scatter_inc(jit_var *target, jit_var index, jit_var mask);
/** The numbers of the elements of `mask` (bool) that are true, ascending: u32, or u64 for more than
 * 2^32 elements. May be empty. Evaluates what is scheduled and `mask`, and waits until it is known
 * how many there are; the memory is that of as many numbers as `mask` has elements. */
JIT_API jit_var jit_compress(jit_var mask);
/** The same, without waiting: *indices has as many elements as `mask`, of which the first *count
 * (one element of the same type, on the device) are the numbers; those behind are not specified,
 * but can be read. On failure both are 0. */
JIT_API jit_status jit_compress_padded(jit_var mask, jit_var *indices, jit_var *count);
/** The elements in ascending or descending order. *index, unless `index` is NULL: where each of
 * them was (u32, or u64 for more than 2^32 elements), so that jit_gather(keys, *index, 0) is the
 * result; equal elements stay in their order, also descending. Floats: IEEE 754's totalOrder, -NaN,
 * -inf ... -0, +0 ... +inf, NaN. On failure *index is 0. */
JIT_API jit_var jit_sort(jit_var keys, bool descending, jit_var *index);

/* Evaluation. */

/** Put v on the calling thread's list for the next jit_eval(). */
JIT_API jit_status jit_schedule(jit_var v);
/** Compute what the calling thread has scheduled, in as few kernels as possible. Launches, does not
 * wait. After a failure the variables are as they were, and the list is empty. */
JIT_API jit_status jit_eval(void);
/** jit_schedule(v) and jit_eval(). */
JIT_API jit_status jit_var_eval(jit_var v);
/** Evaluate v and give its address on the device, good as long as v is. CPU backend: also waits, so
 * the memory can be read at once; do not write to it. CUDA: what the calling thread queues from now
 * on, and the streams that it names in jit_cuda_sync_stream(), come after the last write to the
 * array, whichever thread queued that. */
JIT_API jit_status jit_data(jit_var v, void **pointer);
/** Evaluate v, wait, and copy all its elements to host memory. */
JIT_API jit_status jit_read(jit_var v, void *destination);
/** As jit_read(), for elements offset ... offset + count - 1. JIT_OUT_OF_BOUNDS. */
JIT_API jit_status jit_read_range(jit_var v, size_t offset, size_t count, void *destination);

/* Order. Each thread has a stream of its own on each device: what it queues there runs in order,
 * beside what other threads queue. Variables carry their order with them: a thread that uses what
 * another one computes waits for it, on the device. Events are for all else. */

/** A place in a stream. */
typedef struct jit_event jit_event;

/** An event of the calling thread's device of a backend. It was not recorded: that counts as done.
 * `timed`: jit_event_elapsed() can be asked. Owned by the caller; jit_shutdown() ends what it
 * stands for, but not the event: then all but jit_event_destroy() give JIT_INVALID_HANDLE. */
JIT_API jit_status jit_event_create(jit_backend backend, bool timed, jit_event **out);
/** Never waits: work that waits for the event goes on doing so. NULL is ignored. */
JIT_API void jit_event_destroy(jit_event *event);
/** The event is behind all that the calling thread has queued on the event's device: launched, not
 * merely scheduled. Any thread may record it anew; waits that were made keep the former place. */
JIT_API jit_status jit_event_record(jit_event *event);
/** *done: is all that is before the event over? Never waits. */
JIT_API jit_status jit_event_query(jit_event *event, bool *done);
/** Wait on the CPU until it is. */
JIT_API jit_status jit_event_wait(jit_event *event);
/** What the calling thread queues from now on, on its device of the event's backend, comes after
 * the event. The CPU does not wait. The event may be one of another device. */
JIT_API jit_status jit_event_stream_wait(jit_event *event);
/** Time from one event to another, both of which are timed, done, and of one device. Else
 * JIT_INVALID_ARGUMENT. */
JIT_API jit_status jit_event_elapsed(jit_event *from, jit_event *to, double *milliseconds);
/** Call function(context) once, when all that the calling thread has queued on its device of
 * `backend` is over: from a thread of the library or one that waits, under no lock. What is queued
 * later need not wait for the call; jit_sync_thread() does. The function must neither wait nor
 * evaluate. On failure it is not called. */
JIT_API jit_status jit_call(jit_backend backend, void (*function)(void *context), void *context);

/** Give the device memory that is kept for reuse, and that nothing queued uses any more, back to
 * the system. Happens by itself when memory runs out. */
JIT_API jit_status jit_trim(void);
/** Forget the compiled kernels in memory (not those on disk). Waits for the device. */
JIT_API jit_status jit_cache_clear_memory(void);

/** What the runtime has done since jit_init(), over all threads and devices. Later versions of the
 * library add members at the end: compile with the header of the version that runs. */
typedef struct jit_stats {
    uint64_t evaluations;      /**< calls that had something to compute */
    uint64_t launches;         /**< kernels launched */
    uint64_t kernels_compiled; /**< by the device's compiler, at any level */
    uint64_t memory_hits;      /**< kernels found in memory */
    uint64_t disk_hits;        /**< kernels found on disk */
    uint64_t variables;        /**< alive now */
    size_t bytes_graph;        /**< host memory of the variables */
    size_t bytes_live;         /**< device memory in use */
    size_t bytes_cached;       /**< device memory kept for reuse */
    size_t bytes_peak;   /**< greatest bytes_live so far, of each device; several threads: about */
    size_t bytes_pinned; /**< host memory that is pinned for copies */
} jit_stats;
/** Fill *stats. */
JIT_API jit_status jit_get_stats(jit_stats *stats);

#ifdef __cplusplus
}
#endif

#include <jit/ops.h>
#endif
