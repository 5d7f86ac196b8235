/* cuda.h: streams and events of CUDA that others own: who waits for whom, on the device.
 * Compiles alone as C17 and as C++17, and needs no header of CUDA.
 *
 * Each thread has one stream on each GPU, made with CU_STREAM_DEFAULT in the device's primary
 * context. Such a stream waits for the legacy default stream (NULL) of that context, and that one
 * for it; with all others it has to be ordered by the functions below.
 *
 * Which stream to name, to read an array of this library elsewhere:
 *
 *   who reads                                    stream
 *   the legacy default stream: a CUDA program    JIT_STREAM_LEGACY: nothing has to be done
 *     that names no stream, CuPy, PyTorch outside
 *     of torch.cuda.stream()
 *   the calling thread's default stream (built   JIT_STREAM_PER_THREAD
 *     with --default-stream per-thread)
 *   a stream of its own, blocking or not         its handle, as uintptr_t
 *   streams that you cannot name (TensorFlow)    0: the CPU waits, the only way that is right
 *   nobody yet: you order things yourself        JIT_STREAM_NONE */
#ifndef JIT_CUDA_H
#define JIT_CUDA_H
#include <jit/jit.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Tokens of the array API standard for the streams that have no handle. */
#define JIT_STREAM_NOT_GIVEN  INTPTR_MIN      /**< None: taken for the legacy default stream. */
#define JIT_STREAM_NONE       ((intptr_t) -1) /**< Order nothing. */
#define JIT_STREAM_LEGACY     ((intptr_t) 1)  /**< The legacy default stream. */
#define JIT_STREAM_PER_THREAD ((intptr_t) 2)  /**< The calling thread's default stream. */

/** Let a stream of somebody else wait, on the device, for all that the calling thread has queued on
 * its current GPU; what it has scheduled is launched first. `stream`: a token of the table above,
 * cast to uintptr_t, or a CUstream, of any context and device. The CPU waits for token 0 only. A
 * handle must be good: the driver cannot check it. JIT_INVALID_ARGUMENT for other negative values;
 * JIT_UNSUPPORTED, with the capture untouched, if the stream is being captured into a graph and
 * there is unfinished work to wait for: a capture cannot wait for what is outside of it. */
JIT_API jit_status jit_cuda_sync_stream(uintptr_t stream);
/** The other direction: what the calling thread queues from now on, on its current GPU, comes after
 * what has been queued on `stream`; so does what any thread writes from now on into memory that the
 * calling thread's stream has used, or whose address jit_data() has told it, such as that of
 * variables which are given back. Tokens as above; 0 stands for both default streams. The CPU does
 * not wait. JIT_UNSUPPORTED for a stream that is being captured. */
JIT_API jit_status jit_cuda_wait_stream(uintptr_t stream);

/** The calling thread's CUstream on its current GPU, made on the first call; it is good until the
 * thread ends. Work that you queue there comes after what the library has launched (not what is
 * merely scheduled), and before what it launches next. Do not destroy it, nor capture it. NULL and
 * an error if there is none. */
JIT_API void *jit_cuda_stream(void);
/** The primary CUcontext of the calling thread's current GPU. NULL and an error if there is none.
 */
JIT_API void *jit_cuda_context(void);

/** An event that stands for a CUevent of the current GPU, which is borrowed: it has to live until
 * jit_event_destroy() or jit_shutdown(). */
JIT_API jit_status jit_cuda_event_wrap(void *event, jit_event **out);
/** The CUevent of an event; good as long as that is. NULL and an error if it has none. */
JIT_API void *jit_cuda_event(jit_event *event);

#ifdef __cplusplus
}
#endif
#endif
