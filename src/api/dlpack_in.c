/* dlpack_in.c: tensors of others become variables.  Layer: api.  May include: all layers.
 *
 *   the memory is         variable of the CPU backend     variable of the CUDA backend
 *   host memory           in place                        uploaded, without gaps
 *   pinned                in place                        in place, by the device's address
 *   of a GPU, managed     downloaded                      in place
 *
 * In place means: a buffer whose release calls the tensor's deleter, and a node of it, or a view.
 * Elements that are not at a multiple of their size are copied to where they are first. */
#include "export/dlpack_in.h"
#include "api/dlpack.h"
#include "api/eval.h"
#include "device/lend.h"
#include "launch/launch.h"
#include <stdlib.h>

/* One tensor on its way. */
typedef struct import_request {
    const char *function;
    jit_import_options options;
    const DLTensor *tensor;
    uint64_t flags;
    void (*release)(void *); /* NULL: the buffer does it, or it is done */
    void *managed;           /* for it */
    jitc_tensor_in in;
    jitc_thread *thread;
    jit_backend home; /* where the memory is ... */
    jit_backend to;   /* ... and where the variable is to be, ... */
    int device;       /* ... with a device of CUDA, if one of them is */
    bool in_place;
} import_request;

/* ---- what is wanted ---- */

static jit_status read_options(import_request *m, const jit_import_options *given) {
    jit_import_options *o = &m->options;
    *o = (jit_import_options) JIT_IMPORT_OPTIONS;
    TRY(jitc_dlpack_options(m->function, given, sizeof *o, o));
    if (o->copy < JIT_COPY_NEVER || o->copy > JIT_COPY_ALWAYS)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: options.copy is %d, which is no jit_copy",
                         m->function, o->copy);
    if (o->producer_stream == JIT_STREAM_NOT_GIVEN)
        o->producer_stream = JIT_STREAM_LEGACY;
    if (o->producer_stream < JIT_STREAM_NONE)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: options.producer_stream: %lld is no stream",
                         m->function, (long long) o->producer_stream);
    return JIT_OK;
}

static jit_status check_size(const import_request *m) {
    uint64_t extent = m->in.bytes / jitc_dtypes[m->in.type].bytes;
    uint64_t n = m->in.size > extent ? m->in.size : extent;
    if (n <= JITC_MAX_SIZE)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "%s: %llu elements, from the lowest address to the highest; at most 2^40 are "
                     "possible",
                     m->function, (unsigned long long) n);
}

/* ---- where the memory is ---- */

static bool is_misaligned(const import_request *m) {
    return m->in.size && (uintptr_t) m->in.first % jitc_dtypes[m->in.type].bytes;
}

static jit_status fail_copy(const import_request *m, const char *why) {
    return jitc_fail(JIT_UNSUPPORTED,
                     "%s: %s, so they have to be copied, and options.copy is "
                     "JIT_COPY_NEVER",
                     m->function, why);
}

static jit_status find_cuda(const import_request *m, int device, jitc_started **out) {
    TRY(jitc_api_backend(m->function, JIT_CUDA, out));
    if (device >= 0 && device < (*out)->devices)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT, "%s: there is no CUDA device %d; there are %d",
                     m->function, device, (*out)->devices);
}

static jit_status look_up(const import_request *m, int device, jitc_address *out) {
    jitc_started *s;
    TRY(find_cuda(m, device, &s));
    return s->backend->look_up(s->backend, device, m->in.low, out);
}

/* The device of memory of CUDA. Does the driver agree that it is there? Memory of a device may be
 * called managed, and the reverse; which device manages memory is nothing that the tensor says. */
static jit_status find_device(import_request *m) {
    static const char *const what[] = {"unknown", "pageable host memory", "pinned host memory",
                                       "memory of another device", "managed memory"};
    jitc_started *s;
    jitc_address a = {.kind = JITC_ADDRESS_UNKNOWN};
    m->device = m->tensor->device.device_id;
    TRY(find_cuda(m, m->device, &s));
    if (m->in.size)
        TRY(s->backend->look_up(s->backend, m->device, m->in.low, &a));
    if (a.kind == JITC_ADDRESS_MANAGED && m->tensor->device.device_type == kDLCUDAManaged)
        return find_cuda(m, m->device = a.device, &s);
    if (a.kind == JITC_ADDRESS_UNKNOWN || a.kind == JITC_ADDRESS_MANAGED ||
        (a.kind == JITC_ADDRESS_DEVICE && a.device == m->device))
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %p is no memory of CUDA device %d, but %s",
                     m->function, (void *) m->in.low, m->device, what[a.kind]);
}

static jit_status find_home(import_request *m) {
    int type = (int) m->tensor->device.device_type;
    m->in_place = true;
    switch (type) {
        case kDLCPU: /* the number means nothing: XLA counts several devices in one host */
        case kDLCUDAHost: m->home = JIT_LLVM; break;
        case kDLCUDA:
        case kDLCUDAManaged:
            m->home = JIT_CUDA;
            TRY(find_device(m));
            break;
        default:
            return jitc_fail(JIT_UNSUPPORTED,
                             "%s: memory of DLDeviceType %d; there are the CPU (1), CUDA (2), "
                             "pinned (3) and managed (13) memory",
                             m->function, type);
    }
    m->to = m->options.backend ? m->options.backend : m->home;
    return JIT_OK;
}

/* The CPU's memory for a variable on the thread's current GPU. */
static jit_status find_way_to_cuda(import_request *m) {
    jitc_address a = {.kind = JITC_ADDRESS_HOST};
    m->device = m->thread->current[jitc_backend_index(JIT_CUDA)];
    if (m->tensor->device.device_type == kDLCUDAHost && m->in.size)
        TRY(look_up(m, m->device, &a));
    m->in_place = a.kind == JITC_ADDRESS_PINNED && a.on_device;
    if (!m->in_place)
        return JIT_OK;
    m->in.first = (char *) a.on_device + (m->in.first - m->in.low);
    m->in.low = a.on_device;
    return JIT_OK;
}

static jit_status find_way(import_request *m) {
    jitc_started *unused;
    TRY(find_home(m));
    TRY(jitc_api_backend(m->function, m->to, &unused));
    if (m->to == JIT_CUDA && m->home == JIT_LLVM)
        TRY(find_way_to_cuda(m));
    else
        m->in_place = m->to == m->home;
    if (m->options.copy == JIT_COPY_NEVER && !m->in_place && m->in.size)
        return fail_copy(m, "the backend cannot use the elements where they are");
    if (m->options.copy == JIT_COPY_NEVER && is_misaligned(m))
        return fail_copy(m, "the elements do not lie at multiples of their size");
    if (m->tensor->device.device_type == kDLCPU && m->options.producer_stream > JIT_STREAM_LEGACY)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: options.producer_stream names a stream of CUDA, but the memory is of "
                         "the CPU",
                         m->function);
    return JIT_OK;
}

/* ---- in place ---- */

/* Let the thread's stream wait for the producer's, which, as it is named, is there. */
static jit_status acquire_locked(const import_request *m, jitc_thread_state *s)
    REQUIRES(&s->stream->lock) {
    intptr_t token = m->options.producer_stream;
    jitc_consumer_seen(s->device, s->stream, token);
    return s->stream->backend->stream_acquire(s->stream, token);
}

/* ORDER: the producer's work before ours, in whichever thread, and before that of streams which are
 * let to wait for ours, by a wait of the thread's stream, which the buffer has as its last write;
 * without it a kernel may read what is not written yet. */
static jit_status order(const import_request *m, jitc_thread_state *s, jitc_buffer *b) {
    if (s->device->backend->host_memory || m->options.producer_stream == JIT_STREAM_NONE ||
        !m->in.size)
        return JIT_OK;
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = acquire_locked(m, s);
    if (status == JIT_OK)
        jitc_buffer_did_write(b, s->stream, jitc_load_relaxed(&s->stream->queued));
    jitc_mutex_unlock(&s->stream->lock);
    return status;
}

/* Memory of our own for `bytes` bytes of elements. Holder of the stream's lock. */
static jit_status create_own(const import_request *m, jitc_thread_state *s, size_t bytes,
                             jitc_buffer **out) {
    size_t padding = JITC_PADDING_LANES * (size_t) jitc_dtypes[m->in.type].bytes;
    return jitc_buffer_create(s->device, s->stream, (bytes + padding - 1) / padding * padding, out);
}

static jit_status queue_copy_locked(const import_request *m, jitc_thread_state *s,
                                    jitc_buffer *from, jitc_buffer **out)
    REQUIRES(&s->stream->lock) {
    TRY(create_own(m, s, m->in.bytes, out));
    jit_status status = jitc_launch_copy_locked(s->stream, *out, from, m->in.bytes);
    if (status != JIT_OK)
        jitc_buffer_unref(*out);
    return status;
}

/* The extent into memory of our own, which *buffer becomes. */
static jit_status move_extent(import_request *m, jitc_thread_state *s, jitc_buffer **buffer) {
    jitc_buffer *own, *from = *buffer;
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = queue_copy_locked(m, s, from, &own);
    jitc_mutex_unlock(&s->stream->lock);
    if (status != JIT_OK)
        return status;
    m->in.first = (char *) own->pointer + (m->in.first - m->in.low);
    m->in.low = own->pointer;
    *buffer = own;
    jitc_buffer_unref(from);
    return JIT_OK;
}

static bool has_to_move(const import_request *m) {
    return is_misaligned(m) || (m->options.copy == JIT_COPY_ALWAYS && m->in.compact);
}

/* A variable of a buffer, whose reference is taken. */
static jit_var make_variable(const import_request *m, jitc_thread_state *s, bool compact,
                             jitc_buffer *buffer) {
    jitc_layout layout = {m->in.ndim, m->in.shape, compact ? NULL : m->in.strides, buffer,
                          m->in.first};
    return jitc_trace_view(jitc_api_graph(m->function), s->device->backend->id, s->device->id,
                           m->in.type, m->in.size, &layout);
}

/* As a variable of the backend in question, which can use the memory. */
static jit_status import_in_place(import_request *m, jitc_thread_state *s, jit_var *out) {
    jitc_buffer *buffer;
    TRY(jitc_buffer_map(s->device, m->in.low, m->in.bytes, m->release, m->managed, &buffer));
    m->release = NULL;
    buffer->immutable = m->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    jit_status status = order(m, s, buffer);
    if (status == JIT_OK && has_to_move(m))
        status = move_extent(m, s, &buffer);
    if (status != JIT_OK) {
        jitc_buffer_unref(buffer);
        return status;
    }
    *out = make_variable(m, s, m->in.compact, buffer);
    if (!*out)
        return jit_error_status();
    if (m->options.copy != JIT_COPY_ALWAYS || m->in.compact)
        return JIT_OK;
    status = jitc_eval_thread(m->function, m->thread, *out, false);
    if (status != JIT_OK) {
        jit_unref(*out);
        *out = 0;
    }
    return status;
}

/* ---- from one backend to the other ---- */

static jit_status upload(const import_request *m, jitc_thread_state *s, const void *from,
                         size_t bytes, jitc_buffer **out) {
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = create_own(m, s, bytes, out);
    if (status == JIT_OK) {
        status = jitc_launch_upload_locked(s->stream, *out, from, bytes);
        if (status != JIT_OK)
            jitc_buffer_unref(*out);
    }
    jitc_mutex_unlock(&s->stream->lock);
    return status;
}

/* Of what has gaps only the elements. */
static jit_status upload_packed(const import_request *m, jitc_thread_state *s, size_t bytes,
                                jitc_buffer **out) {
    void *packed = malloc(bytes);
    if (!packed)
        return jitc_fail(JIT_OUT_OF_MEMORY, "%s: no host memory to copy %llu elements", m->function,
                         (unsigned long long) m->in.size);
    jitc_tensor_pack(&m->in, packed);
    jit_status status = upload(m, s, packed, bytes, out);
    free(packed);
    return status;
}

/* The extent, with a view of it there, is less than the elements if some are there several times.
 */
static jit_status import_to_cuda(import_request *m, jitc_thread_state *s, jit_var *out) {
    jitc_buffer *buffer;
    size_t bytes = m->in.size * jitc_dtypes[m->in.type].bytes;
    bool gaps = m->in.bytes > bytes;
    TRY(gaps ? upload_packed(m, s, bytes, &buffer) : upload(m, s, m->in.low, m->in.bytes, &buffer));
    m->in.first = (char *) buffer->pointer + (m->in.first - m->in.low);
    *out = make_variable(m, s, gaps || m->in.compact, buffer);
    return *out ? JIT_OK : jit_error_status();
}

/* Read a variable of CUDA into memory of the CPU. */
static jit_status download(const import_request *m, jitc_thread_state *s, jit_var v, jit_var *out) {
    jitc_buffer *own;
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = create_own(m, s, m->in.size * jitc_dtypes[m->in.type].bytes, &own);
    jitc_mutex_unlock(&s->stream->lock);
    if (status != JIT_OK)
        return status;
    status = jitc_buffer_wait(own, true); /* its former users */
    if (status == JIT_OK)
        status = jit_read(v, own->pointer);
    if (status != JIT_OK) {
        jitc_buffer_unref(own);
        return status;
    }
    *out = make_variable(m, s, true, own);
    return *out ? JIT_OK : jit_error_status();
}

static jit_status import_to_cpu(import_request *m, jitc_thread_state *s, jit_var *out) {
    jitc_thread_state *there;
    jit_var v = 0;
    m->options.copy = JIT_COPY_IF_NEEDED;
    TRY(jitc_api_state(m->thread, JIT_CUDA, m->device, &there));
    TRY(import_in_place(m, there, &v));
    jit_status status = download(m, s, v, out);
    jit_unref(v);
    return status;
}

/* ---- the whole ---- */

/* Pinned memory that somebody's stream writes is there when the stream has done it. */
static jit_status wait_for_producer(const import_request *m) {
    jitc_thread_state *s;
    uint64_t number;
    bool pinned = m->tensor->device.device_type == kDLCUDAHost;
    if (!pinned || m->to == JIT_CUDA || m->options.producer_stream <= JIT_STREAM_LEGACY)
        return JIT_OK;
    int device = m->thread->current[jitc_backend_index(JIT_CUDA)];
    TRY(find_cuda(m, device, &(jitc_started *) {NULL}));
    TRY(jitc_api_state(m->thread, JIT_CUDA, device, &s));
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = acquire_locked(m, s);
    number = jitc_load_relaxed(&s->stream->queued);
    jitc_mutex_unlock(&s->stream->lock);
    return status == JIT_OK ? s->stream->backend->wait(s->stream, number) : status;
}

static jit_status import_tensor(import_request *m, const jit_import_options *options,
                                jit_var *out) {
    jitc_thread_state *s;
    if (!jitc_api_graph(m->function))
        return JIT_NOT_INITIALIZED;
    TRY(read_options(m, options));
    TRY(jitc_tensor_read(m->function, m->tensor, m->flags, m->options.raw_bytes, &m->in));
    TRY(check_size(m));
    TRY(jitc_api_thread(&m->thread));
    jitc_api_collect(m->thread);
    TRY(find_way(m));
    TRY(wait_for_producer(m));
    TRY(jitc_api_state(m->thread, m->to, m->to == JIT_CUDA ? m->device : 0, &s));
    if (m->in_place)
        return import_in_place(m, s, out);
    return m->to == JIT_CUDA ? import_to_cuda(m, s, out) : import_to_cpu(m, s, out);
}

/* The tensor is ours: if no buffer has taken it, it ends here. */
static jit_status finish(import_request *m, jit_status status) {
    if (m->release)
        jitc_error_call(m->release, m->managed);
    return status;
}

static void delete_versioned(void *p) {
    DLManagedTensorVersioned *t = p;
    if (t->deleter)
        t->deleter(t);
}

static void delete_legacy(void *p) {
    DLManagedTensor *t = p;
    if (t->deleter)
        t->deleter(t);
}

static jit_status check_arguments(const char *function, const void *tensor, jit_var *out) {
    if (out)
        *out = 0;
    if (tensor && out)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %s is NULL", function, tensor ? "out" : "tensor");
}

jit_status jit_import_dlpack(DLManagedTensorVersioned *tensor, const jit_import_options *options,
                             jit_var *out) {
    import_request m = {.function = "jit_import_dlpack",
                        .release = tensor ? delete_versioned : NULL,
                        .managed = tensor};
    jit_status status = check_arguments(m.function, tensor, out);
    if (status == JIT_OK && tensor->version.major != DLPACK_MAJOR_VERSION)
        status = jitc_fail(JIT_UNSUPPORTED,
                           "%s: the tensor is of version %u.%u of DLPack; versions %d.x are known",
                           m.function, tensor->version.major, tensor->version.minor,
                           DLPACK_MAJOR_VERSION);
    if (status == JIT_OK) {
        m.tensor = &tensor->dl_tensor;
        m.flags = tensor->flags;
        status = import_tensor(&m, options, out);
    }
    return finish(&m, status);
}

jit_status jit_import_dlpack_legacy(DLManagedTensor *tensor, const jit_import_options *options,
                                    jit_var *out) {
    import_request m = {.function = "jit_import_dlpack_legacy",
                        .release = tensor ? delete_legacy : NULL,
                        .managed = tensor};
    jit_status status = check_arguments(m.function, tensor, out);
    if (status == JIT_OK) {
        m.tensor = &tensor->dl_tensor;
        status = import_tensor(&m, options, out);
    }
    return finish(&m, status);
}

/* ---- dimensions ---- */

static jit_status layout_of(const char *function, jit_var v, jitc_layout *out) {
    jitc_graph *g = jitc_api_graph(function);
    return g ? jitc_trace_layout(g, function, v, out) : JIT_NOT_INITIALIZED;
}

int jit_var_ndim(jit_var v) {
    jitc_layout l;
    return layout_of("jit_var_ndim", v, &l) == JIT_OK ? l.ndim : -1;
}

const int64_t *jit_var_shape(jit_var v) {
    jitc_layout l;
    return layout_of("jit_var_shape", v, &l) == JIT_OK ? l.shape : NULL;
}
