/* dlpack_request.c: see dlpack_request.h. */
#include "api/dlpack_request.h"
#include "api/dlpack.h"
#include <string.h>

/* ---- What is wanted ---- */

static jit_status look_locked(jitc_export_request *r) {
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
    /* Another thread may be evaluating something for which it reads the array along the way, by
     * way of a variable that has been evaluated since: then no node tells of that any more, but
     * the plan has a reference, beside the node's and this one. */
    r->planned = c->buffer && !jitc_lent_only(c->buffer, 2);
    return JIT_OK;
}

jit_status jitc_request_look(jitc_export_request *r) {
    jitc_graph_lock(r->graph);
    jit_status status = look_locked(r);
    jitc_graph_unlock(r->graph);
    return status;
}

static jit_status check_device(jitc_export_request *r) {
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

static jit_status check_stream(jitc_export_request *r) {
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

static jit_status check_version(jitc_export_request *r) {
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

static jit_status check_copy(const jitc_export_request *r) {
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

static jit_status fail_shape(const jitc_export_request *r) {
    return jitc_fail(JIT_SIZE_MISMATCH, "%s: the shape has another size than the array, %llu",
                     r->function, (unsigned long long) r->from.info.size);
}

static jit_status check_shape(const jitc_export_request *r) {
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

static jit_status find_shape(jitc_export_request *r) {
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

static jit_status read_options(jitc_export_request *r, const jit_export_options *given) {
    static const jit_export_options defaults = JIT_EXPORT_OPTIONS;
    if (given && given->struct_size == sizeof *given) { /* the usual caller, quickly */
        r->options = *given;
        return JIT_OK;
    }
    r->options = defaults;
    return jitc_dlpack_options(r->function, given, sizeof r->options, &r->options);
}

jit_status jitc_request_read(jitc_export_request *r, const jit_export_options *options) {
    TRY(read_options(r, options));
    TRY(jitc_request_look(r));
    r->tensor.type = r->from.info.type;
    TRY(check_device(r));
    TRY(check_stream(r));
    TRY(check_version(r));
    TRY(check_copy(r));
    return find_shape(r);
}

/* ---- In place, or a copy? ---- */

/* A view has strides for its own shape only. */
static bool has_other_shape(const jitc_export_request *r) {
    const jitc_tensor *t = &r->tensor;
    const jitc_layout *l = &r->layout;
    return t->shape != l->shape &&
           (t->ndim != l->ndim || memcmp(t->shape, l->shape, sizeof *t->shape * (size_t) t->ndim));
}

static jit_status fail_read_only(const jitc_export_request *r, bool immutable, bool shared) {
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

static jit_status fail_copy(const jitc_export_request *r) {
    return jitc_fail(JIT_UNSUPPORTED,
                     "%s: the array is a view with strides, which has to be copied for another "
                     "shape than its own, and JIT_COPY_NEVER forbids it",
                     r->function);
}

jit_status jitc_request_choose(jitc_export_request *r, bool *copy) {
    const jitc_var_info *v = &r->from.info;
    int may = r->options.copy;
    bool immutable = r->from.buffer && r->from.buffer->immutable;
    bool shared = v->external > 1 || v->internal > 0 || r->planned;
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
