/* dlpack_out.c: variables become tensors of DLPack.  Layer: api.  May include: all layers.
 *
 *   read_request   everything that can be wrong is found, and nothing has happened yet
 *   find_memory    the variable is evaluated, unless it is a view of imported memory
 *   choose         in place, or a copy?
 *   hand_out       who may write comes after all that reads, the consumer after all that writes;
 * the tensor holds the memory */
#include "export/dlpack_out.h"
#include "api/contents.h"
#include "api/dlpack.h"
#include "api/eval.h"
#include "launch/launch.h"
#include <stdlib.h>
#include <string.h>

enum { STREAM_AMBIGUOUS = 0 }; /* one that cannot be named: the CPU waits */
enum { HOST_ALIGNMENT = 256 }; /* as the blocks of the device have it */

typedef struct request {
    const char *function;
    jitc_graph *graph;
    jitc_thread *thread;
    jit_var v;
    jit_export_options options;
    jitc_contents from; /* `buffer` also of a view */
    jitc_layout layout;
    bool leaf;    /* a literal or counter: nobody has its memory */
    bool alone;   /* with its memory: a copy was made */
    bool to_host; /* of a GPU's array */
    jitc_tensor tensor;
    int64_t size; /* the shape, if there is none */
} request;

/* ---- What is wanted ---- */

static jit_status look_locked(request *r) {
    jitc_contents *c = &r->from;
    TRY(jitc_contents_locked(r->graph, r->function, r->v, c));
    uint32_t i = r->v & JITC_INDEX_MASK;
    r->leaf = c->info.literal || c->counter;
    if (c->info.internal) { /* the dead are counted as well */
        jitc_graph_reap_locked(r->graph);
        c->info.internal = jitc_node_at(r->graph, i)->internal;
    }
    r->size = (int64_t) c->info.size;
    if (!jitc_graph_layout_locked(r->graph, i, &r->layout))
        r->layout = (jitc_layout) {.ndim = 1, .shape = &r->size};
    if (!c->buffer && r->layout.buffer) {
        c->buffer = r->layout.buffer;
        jitc_buffer_ref(c->buffer);
    }
    return JIT_OK;
}

static jit_status look(request *r) {
    jitc_graph_lock(r->graph);
    jit_status status = look_locked(r);
    jitc_graph_unlock(r->graph);
    return status;
}

static jit_status check_device(request *r) {
    const jit_export_options *o = &r->options;
    DLDevice own = {kDLCPU, 0};
    if (r->from.info.backend == JIT_CUDA)
        own = (DLDevice) {kDLCUDA, r->from.info.device};
    bool same = o->device_type == (int) own.device_type && o->device_id == own.device_id;
    r->to_host = !same && o->device_type == kDLCPU && o->device_id == 0;
    r->tensor.device = r->to_host ? (DLDevice) {kDLCPU, 0} : own;
    if (same || r->to_host || (!o->device_type && !o->device_id))
        return JIT_OK;
    return jitc_fail(
        JIT_INVALID_ARGUMENT,
        "%s: device %d of type %d is wanted; the array is on device %d of type %d, and "
        "can go to device 0 of type 1, the CPU",
        r->function, o->device_id, o->device_type, (int) own.device_id, (int) own.device_type);
}

static jit_status check_stream(request *r) {
    intptr_t s = r->options.stream;
    if (s == JIT_STREAM_NOT_GIVEN || s == JIT_STREAM_NONE)
        return JIT_OK;
    if (r->tensor.device.device_type == kDLCPU)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: stream %lld is given, but the CPU has none: JIT_STREAM_NOT_GIVEN or "
                         "JIT_STREAM_NONE",
                         r->function, (long long) s);
    if (s < 0)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: %lld stands for no stream; use one of JIT_STREAM_..., 0, or a "
                         "CUstream",
                         r->function, (long long) s);
    return JIT_OK;
}

static jit_status check_version(request *r) {
    uint32_t major = r->options.max_major, minor = r->options.max_minor;
    bool ours = major == DLPACK_MAJOR_VERSION && minor < DLPACK_MINOR_VERSION;
    r->tensor.minor = ours ? minor : DLPACK_MINOR_VERSION;
    if (major || !minor || r->tensor.legacy)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "%s: who knows version 0.%u at most knows the struct without a version only: "
                     "jit_export_dlpack_legacy()",
                     r->function, minor);
}

static jit_status check_copy(const request *r) {
    int copy = r->options.copy;
    if (copy < JIT_COPY_NEVER || copy > JIT_COPY_ALWAYS)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: copy is %d; use one of JIT_COPY_...",
                         r->function, copy);
    if (copy == JIT_COPY_NEVER && r->to_host)
        return jitc_fail(JIT_UNSUPPORTED,
                         "%s: the array is on a GPU; for the CPU it has to be copied, and "
                         "JIT_COPY_NEVER forbids it",
                         r->function);
    if (copy == JIT_COPY_NEVER && r->leaf)
        return jitc_fail(JIT_UNSUPPORTED,
                         "%s: a literal or counter has no memory and is given as a copy, which "
                         "JIT_COPY_NEVER forbids; jit_data() puts it into memory",
                         r->function);
    return JIT_OK;
}

static jit_status fail_shape(const request *r) {
    return jitc_fail(JIT_SIZE_MISMATCH, "%s: the shape has another size than the array, %llu",
                     r->function, (unsigned long long) r->from.info.size);
}

static jit_status check_shape(const request *r) {
    const jitc_tensor *t = &r->tensor;
    int64_t product = 1;
    bool overflow = false, empty = false;
    for (int i = 0; i < t->ndim; ++i) {
        if (t->shape[i] < 0)
            return jitc_fail(JIT_INVALID_ARGUMENT, "%s: shape[%d] is %lld", r->function, i,
                             (long long) t->shape[i]);
        empty = empty || t->shape[i] == 0;
        overflow = __builtin_mul_overflow(product, t->shape[i], &product) || overflow;
    }
    if (empty ? r->from.info.size != 0 : overflow || (uint64_t) product != r->from.info.size)
        return fail_shape(r);
    return JIT_OK;
}

static jit_status find_shape(request *r) {
    const jit_export_options *o = &r->options;
    jitc_tensor *t = &r->tensor;
    if (o->ndim < 0 || o->ndim > JITC_MAX_NDIM || (o->ndim && !o->shape))
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: %d dimensions with shape %p; 0 to %d are possible, and shape NULL, "
                         "with 0, is the array's own",
                         r->function, o->ndim, (const void *) o->shape, (int) JITC_MAX_NDIM);
    t->ndim = o->shape ? o->ndim : r->layout.ndim;
    t->shape = o->shape ? o->shape : r->layout.shape;
    return o->shape ? check_shape(r) : JIT_OK;
}

static jit_status read_options(request *r, const jit_export_options *given) {
    static const jit_export_options defaults = JIT_EXPORT_OPTIONS;
    if (given && given->struct_size == sizeof *given) { /* the usual caller, quickly */
        r->options = *given;
        return JIT_OK;
    }
    r->options = defaults;
    return jitc_dlpack_options(r->function, given, sizeof r->options, &r->options);
}

static jit_status read_request(request *r, const jit_export_options *options) {
    TRY(read_options(r, options));
    TRY(look(r));
    r->tensor.type = r->from.info.type;
    TRY(check_device(r));
    TRY(check_stream(r));
    TRY(check_version(r));
    TRY(check_copy(r));
    return find_shape(r);
}

/* ---- In place, or a copy? ---- */

static jit_status find_memory(request *r) {
    if (r->from.buffer || r->leaf)
        return JIT_OK;
    TRY(jitc_eval_thread(r->function, r->thread, r->v, false));
    return look(r);
}

/* A view has strides for its own shape only. */
static bool has_other_shape(const request *r) {
    const jitc_tensor *t = &r->tensor;
    const jitc_layout *l = &r->layout;
    return t->shape != l->shape &&
           (t->ndim != l->ndim || memcmp(t->shape, l->shape, sizeof *t->shape * (size_t) t->ndim));
}

static jit_status fail_read_only(const request *r, bool immutable, bool shared) {
    const char *why = immutable ? "its memory was imported or mapped as read-only"
                      : shared  ? "there are other references to it, or expressions that use it"
                                : "the option read_only is set";
    return jitc_fail(JIT_READ_ONLY,
                     "%s: the array may not be written, because %s, and the struct without a "
                     "version cannot say so: %s",
                     r->function, why,
                     immutable ? "ask for JIT_COPY_ALWAYS"
                               : "let it be copied (JIT_COPY_IF_NEEDED)");
}

static jit_status fail_copy(const request *r) {
    return jitc_fail(JIT_UNSUPPORTED,
                     "%s: the array is a view with strides, which has to be copied for another "
                     "shape than its own, and JIT_COPY_NEVER forbids it",
                     r->function);
}

/* *copy: the memory itself cannot be given. */
static jit_status choose(request *r, bool *copy) {
    const jitc_var_info *v = &r->from.info;
    int may = r->options.copy;
    bool immutable = r->from.buffer && r->from.buffer->immutable;
    bool shared = v->external > 1 || v->internal > 0;
    bool read_only = r->options.read_only || immutable || shared;
    *copy = r->leaf || r->to_host || may == JIT_COPY_ALWAYS;
    if (!*copy && r->tensor.legacy && read_only) {
        if (immutable || may == JIT_COPY_NEVER)
            return fail_read_only(r, immutable, shared);
        *copy = true;
    }
    if (!*copy && r->layout.strides && has_other_shape(r)) {
        if (may == JIT_COPY_NEVER)
            return fail_copy(r);
        *copy = true;
    }
    if (*copy ? r->options.read_only : read_only)
        r->tensor.flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    if (*copy)
        r->tensor.flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return JIT_OK;
}

/* ---- Copies ---- */

/* A literal, a counter or a view stays what it is, so that what is traced with it later is the
 * same: a variable like it is put into memory. What the thread has scheduled goes first, or it
 * would be, too. */
static jit_status evaluate_twin(request *r) {
    jitc_contents c;
    TRY(jitc_eval_thread(r->function, r->thread, 0, false));
    jit_var twin = jitc_trace_twin(r->graph, r->function, r->v);
    if (!twin)
        return JIT_OUT_OF_MEMORY;
    jit_status status = jitc_eval_thread(r->function, r->thread, twin, true);
    jitc_graph_lock(r->graph);
    if (status == JIT_OK)
        status = jitc_contents_locked(r->graph, r->function, twin, &c);
    jitc_graph_unlock(r->graph);
    jitc_trace_unref(r->graph, twin);
    if (status != JIT_OK)
        return status;
    jitc_buffer_unref(r->from.buffer);
    r->from.buffer = c.buffer;
    r->layout.strides = NULL;
    r->alone = twin != r->v;
    return JIT_OK;
}

static jit_status copy_on_device(request *r) {
    size_t element = jitc_dtypes[r->tensor.type].bytes, size = r->from.info.size;
    jitc_thread_state *s;
    jitc_buffer *copy = NULL;
    TRY(jitc_api_state(r->thread, r->from.info.backend, r->from.info.device, &s));
    jitc_mutex_lock(&s->stream->lock);
    jit_status status =
        jitc_buffer_create(s->device, s->stream, jitc_padded(size) * element, &copy);
    if (status == JIT_OK)
        status = jitc_launch_copy_locked(s->stream, copy, r->from.buffer, size * element);
    jitc_mutex_unlock(&s->stream->lock);
    jitc_buffer_unref(status == JIT_OK ? r->from.buffer : copy);
    if (status == JIT_OK)
        r->from.buffer = copy;
    return status;
}

/* Memory of its own, but for what is copied to the host next. */
static jit_status copy_memory(request *r) {
    if (r->leaf || r->layout.strides)
        TRY(evaluate_twin(r));
    return r->alone || r->to_host ? JIT_OK : copy_on_device(r);
}

/* ---- The tensor ---- */

/* May the consumer write? Then it comes after those who read, too: their values are of before. */
static bool writable(const request *r) {
    return !(r->tensor.flags & DLPACK_FLAG_BITMASK_READ_ONLY);
}

/* ORDER: all that writes the array, and all that reads it if the consumer may write, before what
 * the consumer does on its stream, by waits of the thread's stream, for which that one waits;
 * without them it reads what is not there yet, or an expression that was evaluated before has
 * values of after. */
static jit_status lend_on_device(const request *r, jitc_buffer *b, jitc_export *e) {
    intptr_t token =
        r->options.stream == JIT_STREAM_NOT_GIVEN ? JIT_STREAM_LEGACY : r->options.stream;
    jitc_thread_state *s;
    TRY(jitc_api_state(r->thread, r->from.info.backend, r->from.info.device, &s));
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = writable(r) ? jitc_buffer_before_write(b, s->stream) : JIT_OK;
    if (status == JIT_OK)
        status = jitc_lend(b, s->stream, token, &e->loan);
    jitc_mutex_unlock(&s->stream->lock);
    e->lent = status == JIT_OK;
    return status == JIT_OK && token == STREAM_AMBIGUOUS ? jitc_buffer_wait(b, writable(r))
                                                         : status;
}

static jit_status lend_on_host(const request *r, jitc_buffer *b, jitc_export *e) {
    if (r->options.stream == JIT_STREAM_NOT_GIVEN)
        TRY(jitc_buffer_wait(b, writable(r)));
    TRY(jitc_lend(b, NULL, JIT_STREAM_NONE, &e->loan));
    e->lent = true;
    return JIT_OK;
}

static jit_status hand_out(request *r, jitc_export **out) {
    jitc_buffer *b = r->from.buffer;
    jitc_export *e;
    r->tensor.strides = r->layout.strides;
    r->tensor.data = !r->from.info.size ? NULL : r->layout.strides ? r->layout.first : b->pointer;
    TRY(jitc_export_create(&r->tensor, &e));
    jit_status status =
        r->tensor.device.device_type == kDLCPU ? lend_on_host(r, b, e) : lend_on_device(r, b, e);
    if (status == JIT_OK)
        *out = e;
    else
        jitc_export_destroy(e);
    return status;
}

static jit_status copy_to_host(request *r, jitc_export **out) {
    size_t bytes = r->from.info.size * jitc_dtypes[r->tensor.type].bytes;
    jitc_thread_state *s;
    jitc_export *e;
    size_t whole = (bytes + HOST_ALIGNMENT - 1) / HOST_ALIGNMENT * HOST_ALIGNMENT;
    void *data = bytes ? aligned_alloc(HOST_ALIGNMENT, whole) : NULL;
    if (bytes && !data)
        return jitc_fail(JIT_OUT_OF_MEMORY, "%s: host memory: %zu bytes for the copy of an array",
                         r->function, bytes);
    r->tensor.data = data;
    jit_status status = jitc_export_create(&r->tensor, &e);
    if (status != JIT_OK) {
        free(data);
        return status;
    }
    e->own = data;
    status = jitc_api_state(r->thread, r->from.info.backend, r->from.info.device, &s);
    if (status == JIT_OK && bytes)
        status = jitc_launch_download(s->stream, data, r->from.buffer, 0, bytes);
    if (status == JIT_OK)
        *out = e;
    else
        jitc_export_destroy(e);
    return status;
}

static jit_status export(request *r, const jit_export_options *options, jitc_export **out) {
    bool copy = false;
    r->graph = jitc_api_graph(r->function);
    if (!r->graph)
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&r->thread));
    jit_status status = read_request(r, options);
    if (status == JIT_OK)
        status = find_memory(r);
    if (status == JIT_OK)
        status = choose(r, &copy);
    if (status == JIT_OK && copy)
        status = copy_memory(r);
    if (status == JIT_OK)
        status = r->to_host ? copy_to_host(r, out) : hand_out(r, out);
    jitc_buffer_unref(r->from.buffer);
    return status;
}

/* What is not set here is set on the way: clearing all of it takes a fifth of the time. */
static void request_init(request *r, const char *function, jit_var v, bool legacy) {
    r->function = function;
    r->v = v;
    r->from.buffer = NULL;
    r->alone = r->to_host = false;
    r->tensor.legacy = legacy;
    r->tensor.strides = NULL;
    r->tensor.flags = 0;
}

static jit_status fail_out(const char *function) {
    return jitc_fail(JIT_INVALID_ARGUMENT, "%s: out is NULL", function);
}

jit_status jit_export_dlpack(jit_var v, const jit_export_options *options,
                             struct DLManagedTensorVersioned **out) {
    static const char name[] = "jit_export_dlpack";
    request r;
    jitc_export *e = NULL;
    if (!out)
        return fail_out(name);
    request_init(&r, name, v, false);
    jit_status status = export(&r, options, &e);
    *out = e ? &e->tensor.versioned : NULL;
    return status;
}

jit_status jit_export_dlpack_legacy(jit_var v, const jit_export_options *options,
                                    struct DLManagedTensor **out) {
    static const char name[] = "jit_export_dlpack_legacy";
    request r;
    jitc_export *e = NULL;
    if (!out)
        return fail_out(name);
    request_init(&r, name, v, true);
    jit_status status = export(&r, options, &e);
    *out = e ? &e->tensor.legacy : NULL;
    return status;
}
