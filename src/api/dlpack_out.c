/* dlpack_out.c: variables become tensors of DLPack.  Layer: api.  May include: all layers.
 *
 *   jitc_request_read     everything that can be wrong is found, and nothing has happened yet
 *   find_memory           the variable is evaluated, unless it is a view of imported memory
 *   jitc_request_choose   in place, or a copy?
 *   hand_out              who may write comes after all that reads, the consumer after all that
 *                         writes; the tensor holds the memory */
#include "api/dlpack_request.h"
#include "api/eval.h"
#include "launch/launch.h"
#include <stdlib.h>

enum { STREAM_AMBIGUOUS = 0 }; /* one that cannot be named: the CPU waits */
enum { HOST_ALIGNMENT = 256 }; /* as the blocks of the device have it */

/* ---- Memory ---- */

static jit_status find_memory(jitc_export_request *r) {
    if (r->from.buffer || r->leaf)
        return JIT_OK;
    TRY(jitc_eval_thread(r->function, r->thread, r->v, false));
    return jitc_request_look(r);
}

/* A literal, a counter or a view stays what it is, so that what is traced with it later is the
 * same: a variable like it is put into memory. What the thread has scheduled goes first, or it
 * would be, too. */
static jit_status evaluate_twin(jitc_export_request *r) {
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

static jit_status copy_on_device(jitc_export_request *r) {
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
static jit_status copy_memory(jitc_export_request *r) {
    jitc_api_collect(r->thread);
    if (r->leaf || r->layout.strides)
        TRY(evaluate_twin(r));
    return r->alone || r->to_host ? JIT_OK : copy_on_device(r);
}

/* ---- The tensor ---- */

/* May the consumer write? Then it comes after those who read, too: their values are of before. */
static bool writable(const jitc_export_request *r) {
    return !(r->tensor.flags & DLPACK_FLAG_BITMASK_READ_ONLY);
}

/* ORDER: all that writes the array, and all that reads it if the consumer may write, before what
 * the consumer does on its stream, by waits of the thread's stream, for which that one waits;
 * without them it reads what is not there yet, or an expression that was evaluated before has
 * values of after. */
static jit_status lend_on_device(const jitc_export_request *r, jitc_buffer *b, jitc_export *e) {
    jitc_borrower to = {r->options.stream, writable(r)};
    jitc_thread_state *s;
    TRY(jitc_api_state(r->thread, r->from.info.backend, r->from.info.device, &s));
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = jitc_lend(b, s->stream, &to, &e->loan);
    jitc_mutex_unlock(&s->stream->lock);
    e->lent = status == JIT_OK;
    return status == JIT_OK && to.token == STREAM_AMBIGUOUS ? jitc_buffer_wait(b, to.writes)
                                                            : status;
}

static jit_status lend_on_host(const jitc_export_request *r, jitc_buffer *b, jitc_export *e) {
    if (r->options.stream == JIT_STREAM_NOT_GIVEN)
        TRY(jitc_buffer_wait(b, writable(r)));
    TRY(jitc_lend(b, NULL, &(jitc_borrower) {JITC_STREAM_NONE, writable(r)}, &e->loan));
    e->lent = true;
    return JIT_OK;
}

static jit_status hand_out(jitc_export_request *r, jitc_export **out) {
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

static jit_status copy_to_host(jitc_export_request *r, jitc_export **out) {
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

static jit_status export(jitc_export_request *r, const jit_export_options *options,
                         jitc_export **out) {
    bool copy = false;
    r->graph = jitc_api_graph(r->function);
    if (!r->graph)
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&r->thread));
    jit_status status = jitc_request_read(r, options);
    if (status == JIT_OK)
        status = find_memory(r);
    if (status == JIT_OK)
        status = jitc_request_choose(r, &copy);
    if (status == JIT_OK && copy)
        status = copy_memory(r);
    if (status == JIT_OK)
        status = r->to_host ? copy_to_host(r, out) : hand_out(r, out);
    jitc_buffer_unref(r->from.buffer);
    return status;
}

/* What is not set here is set on the way: clearing all of it takes a fifth of the time. */
static void request_init(jitc_export_request *r, const char *function, jit_var v, bool legacy) {
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
    jitc_export_request r;
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
    jitc_export_request r;
    jitc_export *e = NULL;
    if (!out)
        return fail_out(name);
    request_init(&r, name, v, true);
    jit_status status = export(&r, options, &e);
    *out = e ? &e->tensor.legacy : NULL;
    return status;
}
