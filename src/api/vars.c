/* vars.c: making variables, references, scopes, and what is known of a variable. */
#include "api/runtime.h"
#include "ir/bits.h"
#include "launch/launch.h"
#include <string.h>

/* The calling thread's device of a backend, and the graph. */
static jit_status here(const char *function, jit_backend b, jitc_graph **g, jitc_thread **t,
                       int *device) {
    jitc_started *s;
    TRY(jitc_api_backend(function, b, &s));
    TRY(jitc_api_thread(t));
    *g = jitc_api_graph(function);
    *device = (*t)->current[jitc_backend_index(b)];
    return JIT_OK;
}

static jit_status check_array(const char *function, jit_dtype type, const void *data, size_t size) {
    if (!jitc_dtype_valid((int) type))
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %d is no element type", function, (int) type);
    if (size > JITC_MAX_SIZE)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %zu elements; at most 2^40 are possible",
                         function, size);
    if (!data && size)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: data is NULL but size is %zu", function, size);
    return JIT_OK;
}

static jit_var literal(const char *function, jit_backend b, jit_dtype type, uint64_t bits,
                       size_t size) {
    jitc_graph *g;
    jitc_thread *t;
    int device;
    if (here(function, b, &g, &t, &device) != JIT_OK)
        return 0;
    return jitc_trace_literal(g, b, device, type, bits, size);
}

jit_var jit_literal(jit_backend backend, jit_dtype type, const void *value, size_t size) {
    uint64_t bits = 0;
    if (!value) {
        jitc_fail(JIT_INVALID_ARGUMENT, "jit_literal: value is NULL");
        return 0;
    }
    if (check_array("jit_literal", type, value, size) != JIT_OK)
        return 0;
    memcpy(&bits, value, jitc_dtypes[type].bytes);
    if (type == JIT_bool)
        bits = bits != 0;
    return literal("jit_literal", backend, type, bits, size);
}

/* One constructor a type. CONVERT turns the argument into the bits of an element. */
#define INTEGER(v) ((uint64_t) (v))
#define HALF(v)    jitc_f16_from_f32(v)
#define BRAIN(v)   jitc_bf16_from_f32(v)
#define SINGLE(v)  jitc_f32_bits(v)
#define DOUBLE_(v) jitc_f64_bits(v)
#define CONSTRUCTOR(name, ctype, type, CONVERT)                                                    \
    jit_var jit_##name(jit_backend backend, ctype value) {                                         \
        return literal("jit_" #name, backend, type, CONVERT(value) & jitc_bits_mask(type), 1);     \
    }

jit_var jit_bool(jit_backend backend, bool value) {
    return literal("jit_bool", backend, JIT_bool, value, 1);
}
CONSTRUCTOR(i8, int8_t, JIT_i8, INTEGER)
CONSTRUCTOR(u8, uint8_t, JIT_u8, INTEGER)
CONSTRUCTOR(i16, int16_t, JIT_i16, INTEGER)
CONSTRUCTOR(u16, uint16_t, JIT_u16, INTEGER)
CONSTRUCTOR(i32, int32_t, JIT_i32, INTEGER)
CONSTRUCTOR(u32, uint32_t, JIT_u32, INTEGER)
CONSTRUCTOR(i64, int64_t, JIT_i64, INTEGER)
CONSTRUCTOR(u64, uint64_t, JIT_u64, INTEGER)
CONSTRUCTOR(f16, float, JIT_f16, HALF)
CONSTRUCTOR(bf16, float, JIT_bf16, BRAIN)
CONSTRUCTOR(f32, float, JIT_f32, SINGLE)
CONSTRUCTOR(f64, double, JIT_f64, DOUBLE_)
#undef CONSTRUCTOR
#undef INTEGER
#undef HALF
#undef BRAIN
#undef SINGLE
#undef DOUBLE_

jit_var jit_counter(jit_backend backend, size_t size) {
    jitc_graph *g;
    jitc_thread *t;
    int device;
    if (here("jit_counter", backend, &g, &t, &device) != JIT_OK)
        return 0;
    return jitc_trace_counter(g, backend, device, size);
}

static jit_status copy_in(jitc_thread_state *s, jit_dtype type, const void *data, size_t size,
                          jitc_buffer **out) {
    size_t element = jitc_dtypes[type].bytes;
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = jitc_buffer_create(s->device, s->stream, jitc_padded(size) * element, out);
    if (status == JIT_OK) {
        status = jitc_launch_upload_locked(s->stream, *out, data, size * element);
        if (status != JIT_OK)
            jitc_buffer_unref(*out);
    }
    jitc_mutex_unlock(&s->stream->lock);
    return status;
}

jit_var jit_from_host(jit_backend backend, jit_dtype type, const void *data, size_t size) {
    jitc_graph *g;
    jitc_thread *t;
    jitc_thread_state *s;
    jitc_buffer *buffer;
    int device;
    if (here("jit_from_host", backend, &g, &t, &device) != JIT_OK ||
        check_array("jit_from_host", type, data, size) != JIT_OK ||
        jitc_api_state(t, backend, device, &s) != JIT_OK)
        return 0;
    jitc_api_collect(t);
    if (copy_in(s, type, data, size, &buffer) != JIT_OK)
        return 0;
    return jitc_trace_data(g, backend, device, type, size, buffer);
}

static jit_status check_mapped(const jitc_started *s, jit_dtype type, const void *data) {
    size_t element = jitc_dtypes[type].bytes;
    if (!s->backend->host_memory)
        return jitc_fail(JIT_UNSUPPORTED,
                         "jit_map: the %s backend cannot use host memory in "
                         "place; copy it with jit_from_host()",
                         s->backend->name);
    if ((uintptr_t) data % element)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_map: data is not aligned to the %zu bytes of its elements; copy it "
                         "with jit_from_host()",
                         element);
    return JIT_OK;
}

jit_var jit_map(jit_backend backend, jit_dtype type, void *data, size_t size,
                void (*release)(void *), void *context) {
    jitc_graph *g;
    jitc_thread *t;
    jitc_started *started;
    jitc_thread_state *s;
    jitc_buffer *buffer;
    int device;
    if (here("jit_map", backend, &g, &t, &device) != JIT_OK ||
        check_array("jit_map", type, data, size) != JIT_OK ||
        jitc_api_backend("jit_map", backend, &started) != JIT_OK ||
        check_mapped(started, type, data) != JIT_OK ||
        jitc_api_state(t, backend, device, &s) != JIT_OK ||
        jitc_buffer_map(s->device, data, size * jitc_dtypes[type].bytes, NULL, context, &buffer) !=
            JIT_OK)
        return 0;
    buffer->immutable = true;
    jitc_buffer_ref(buffer); /* until `release` is set: a failure must not call it */
    jit_var v = jitc_trace_data(g, backend, device, type, size, buffer);
    if (v)
        buffer->release = release;
    jitc_buffer_unref(buffer);
    return v;
}

jit_var jit_cast(jit_var a, jit_dtype type) {
    jitc_graph *g = jitc_api_graph("jit_cast");
    return g ? jitc_trace_cast(g, JITC_OP_cast, a, type) : 0;
}

jit_var jit_bitcast(jit_var a, jit_dtype type) {
    jitc_graph *g = jitc_api_graph("jit_bitcast");
    return g ? jitc_trace_cast(g, JITC_OP_bitcast, a, type) : 0;
}

jit_var jit_gather(jit_var source, jit_var index, jit_var mask) {
    jitc_graph *g = jitc_api_graph("jit_gather");
    return g ? jitc_trace_gather(g, source, index, mask) : 0;
}

jit_var jit_scatter(jit_var target, jit_var value, jit_var index, jit_var mask) {
    jitc_graph *g = jitc_api_graph("jit_scatter");
    return g ? jitc_trace_scatter(g, target, value, index, mask) : 0;
}

jit_status jit_sincos(jit_var a, jit_var *sine, jit_var *cosine) {
    jitc_graph *g = jitc_api_graph("jit_sincos");
    if (!sine || !cosine)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_sincos: sine and cosine must not be NULL");
    *sine = *cosine = 0;
    if (!g)
        return JIT_NOT_INITIALIZED;
    jit_var s = jitc_trace_unary(g, JITC_OP_sin, a);
    jit_var c = s ? jitc_trace_unary(g, JITC_OP_cos, a) : 0;
    if (!c) {
        if (s)
            jitc_trace_unref(g, s);
        return jit_error_status();
    }
    *sine = s;
    *cosine = c;
    return JIT_OK;
}

jit_var jit_ref(jit_var v) {
    jitc_graph *g = jitc_api_graph("jit_ref");
    return g ? jitc_trace_ref(g, v) : 0;
}

void jit_unref(jit_var v) {
    jitc_graph *g = v ? jitc_api_graph("jit_unref") : NULL;
    if (g)
        jitc_trace_unref(g, v);
}

void jit_scope_push(void) {
    jitc_graph *g = jitc_api_graph("jit_scope_push");
    if (g)
        jitc_trace_scope_push(g);
}

jit_status jit_scope_pop(size_t n, const jit_var *keep) {
    jitc_graph *g = jitc_api_graph("jit_scope_pop");
    if (!g)
        return JIT_NOT_INITIALIZED;
    if (n && !keep)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_scope_pop: keep is NULL but n is %zu", n);
    return jitc_trace_scope_pop(g, n, keep);
}

static bool info(const char *function, jit_var v, jitc_var_info *out) {
    jitc_graph *g = jitc_api_graph(function);
    return g && jitc_trace_info(g, function, v, out) == JIT_OK;
}

size_t jit_size(jit_var v) {
    jitc_var_info i;
    return info("jit_size", v, &i) ? i.size : 0;
}

jit_dtype jit_type(jit_var v) {
    jitc_var_info i;
    return info("jit_type", v, &i) ? i.type : JIT_bool;
}

jit_backend jit_backend_of(jit_var v) {
    jitc_var_info i;
    return info("jit_backend_of", v, &i) ? i.backend : (jit_backend) 0;
}

int jit_device_of(jit_var v) {
    jitc_var_info i;
    return info("jit_device_of", v, &i) ? i.device : -1;
}

jit_status jit_set_label(jit_var v, const char *label) {
    jitc_graph *g = jitc_api_graph("jit_set_label");
    return g ? jitc_trace_set_label(g, v, label) : JIT_NOT_INITIALIZED;
}

jit_status jit_label(jit_var v, char *text, size_t size) {
    jitc_graph *g = jitc_api_graph("jit_label");
    if (!g)
        return JIT_NOT_INITIALIZED;
    if (!text && size)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_label: text is NULL");
    return jitc_trace_label(g, v, text, size);
}

const char *jit_dtype_name(jit_dtype type) {
    return jitc_dtype_valid((int) type) ? jitc_dtypes[type].name : "?";
}

size_t jit_dtype_size(jit_dtype type) {
    return jitc_dtype_valid((int) type) ? jitc_dtypes[type].bytes : 0;
}
