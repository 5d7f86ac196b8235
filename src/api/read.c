/* read.c: results, synchronisation and statistics. */
#include "api/contents.h"
#include "api/eval.h"
#include "launch/launch.h"
#include <string.h>

jit_status jitc_contents_locked(jitc_graph *g, const char *function, jit_var v,
                                jitc_contents *out) {
    uint32_t i = jitc_graph_find_locked(g, function, v);
    if (!i)
        return jitc_api_bad_handle(v);
    const jitc_node *n = jitc_node_at(g, i);
    *out = (jitc_contents) {.info = {.size = jitc_node_size(n),
                                     .type = jitc_node_type(n),
                                     .backend = jitc_node_backend(n),
                                     .device = jitc_node_device(n),
                                     .external = n->external,
                                     .internal = n->internal,
                                     .evaluated = n->op == JITC_OP_data,
                                     .literal = n->op == JITC_OP_literal},
                            .counter = n->op == JITC_OP_counter};
    if (out->info.evaluated) {
        out->buffer = jitc_node_buffer(g, i);
        jitc_buffer_ref(out->buffer);
    } else if (out->info.literal) {
        out->info.bits = *jitc_node_value(g, i);
    }
    return JIT_OK;
}

static jit_status look(jitc_graph *g, const char *function, jit_var v, jitc_contents *out) {
    jitc_graph_lock(g);
    jit_status status = jitc_contents_locked(g, function, v, out);
    jitc_graph_unlock(g);
    return status;
}

/* Evaluate v if need be; leaves stay what they are unless `leaves`. */
static jit_status evaluated(jitc_graph *g, jitc_thread *t, const char *function, jit_var v,
                            bool leaves, jitc_contents *out) {
    TRY(look(g, function, v, out));
    if (out->buffer || (!leaves && (out->info.literal || out->counter)))
        return JIT_OK;
    TRY(jitc_eval_thread(function, t, v, leaves));
    return look(g, function, v, out);
}

static void repeat(char *to, uint64_t bits, size_t element, size_t count) {
    for (size_t i = 0; i < count; ++i)
        memcpy(to + i * element, &bits, element);
}

static void count_up(char *to, uint64_t first, size_t element, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        uint64_t value = first + i; /* little endian: the low bytes come first */
        memcpy(to + i * element, &value, element);
    }
}

/* Memory of others may hold bytes other than 0 and 1 (also in copies of ours): all are true. */
static void normalise_bools(uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; ++i)
        bytes[i] = bytes[i] != 0;
}

static jit_status copy_out(jitc_thread *t, const jitc_contents *c, size_t offset, size_t count,
                           void *destination) {
    size_t element = jitc_dtypes[c->info.type].bytes;
    jitc_thread_state *s;
    if (c->info.literal || c->counter) {
        if (c->info.literal)
            repeat(destination, c->info.bits, element, count);
        else
            count_up(destination, offset, element, count);
        return JIT_OK;
    }
    if (c->buffer->device->backend->host_memory) {
        TRY(jitc_buffer_wait(c->buffer, false));
        memcpy(destination, (const char *) c->buffer->pointer + offset * element, count * element);
        return JIT_OK;
    }
    TRY(jitc_api_state(t, c->info.backend, c->info.device, &s));
    return jitc_launch_download(s->stream, destination, c->buffer, offset * element,
                                count * element);
}

static jit_status check_range(const char *function, const jitc_contents *c, size_t offset,
                              size_t count, const void *destination) {
    if (offset > c->info.size || count > c->info.size - offset)
        return jitc_fail(JIT_OUT_OF_BOUNDS,
                         "%s: elements %zu ... %zu + %zu - 1 of an array of %llu", function, offset,
                         offset, count, (unsigned long long) c->info.size);
    if (!destination && count)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: destination is NULL", function);
    return JIT_OK;
}

/* `whole`: all elements, however many. */
static jit_status read(const char *function, jit_var v, bool whole, size_t offset, size_t count,
                       void *destination) {
    jitc_graph *g = jitc_api_graph(function);
    jitc_thread *t;
    jitc_contents c;
    if (!g)
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&t));
    TRY(look(g, function, v, &c));
    if (whole)
        count = c.info.size;
    jit_status status = check_range(function, &c, offset, count, destination);
    if (status == JIT_OK && !c.buffer)
        status = evaluated(g, t, function, v, false, &c);
    if (status == JIT_OK && count)
        status = copy_out(t, &c, offset, count, destination);
    if (status == JIT_OK && c.buffer && c.info.type == JIT_bool)
        normalise_bools(destination, count);
    jitc_buffer_unref(c.buffer);
    return status;
}

jit_status jit_read(jit_var v, void *destination) {
    return read("jit_read", v, true, 0, 0, destination);
}

jit_status jit_read_range(jit_var v, size_t offset, size_t count, void *destination) {
    return read("jit_read_range", v, false, offset, count, destination);
}

/* ORDER: what wrote an array before what the calling thread queues or names streams for, by a wait
 * of its stream; without it jit_cuda_sync_stream() says nothing of arrays that other threads wrote.
 * And what the thread lets its stream wait for before the next owner of the memory, by a use;
 * without it jit_cuda_wait_stream() says nothing of them either. */
static jit_status lend(jitc_thread *t, const jitc_contents *c) {
    jitc_thread_state *s;
    TRY(jitc_api_state(t, c->info.backend, c->info.device, &s));
    jitc_mutex_lock(&s->stream->lock);
    jit_status status = jitc_buffer_lend(c->buffer, s->stream, false);
    jitc_mutex_unlock(&s->stream->lock);
    return status;
}

jit_status jit_data(jit_var v, void **pointer) {
    jitc_graph *g = jitc_api_graph("jit_data");
    jitc_thread *t;
    jitc_contents c;
    if (!g)
        return JIT_NOT_INITIALIZED;
    if (!pointer)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_data: pointer is NULL");
    *pointer = NULL;
    TRY(jitc_api_thread(&t));
    TRY(evaluated(g, t, "jit_data", v, true, &c));
    jit_status status =
        c.buffer->device->backend->host_memory ? jitc_buffer_wait(c.buffer, false) : lend(t, &c);
    if (status == JIT_OK)
        *pointer = c.buffer->pointer;
    jitc_buffer_unref(c.buffer);
    return status;
}

jit_status jit_var_eval(jit_var v) {
    jitc_thread *t;
    if (!jitc_api_graph("jit_var_eval"))
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&t));
    if (!v)
        return jitc_fail(JIT_INVALID_HANDLE, "jit_var_eval: the variable is 0"),
               jitc_api_bad_handle(v);
    return jitc_eval_thread("jit_var_eval", t, v, false);
}

jit_status jit_sync_thread(void) {
    jitc_thread *t;
    if (!jitc_api_graph("jit_sync_thread"))
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&t));
    return jitc_api_sync_thread(t);
}

static jit_status sync_started(jitc_started *s, int device) {
    jitc_device *d = jitc_load_acquire(&s->device[device]); /* pairs with open_device */
    return d ? jitc_device_sync(d) : JIT_OK;
}

jit_status jit_sync_device(void) {
    jitc_thread *t;
    if (!jitc_api_graph("jit_sync_device"))
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&t));
    for (int b = 0; b < JITC_BACKENDS; ++b)
        TRY(sync_started(&jitc_runtime.started[b], t->current[b]));
    return JIT_OK;
}

jit_status jit_sync_all_devices(void) {
    if (!jitc_api_graph("jit_sync_all_devices"))
        return JIT_NOT_INITIALIZED;
    for (int b = 0; b < JITC_BACKENDS; ++b)
        for (int d = 0; d < jitc_runtime.started[b].devices; ++d)
            TRY(sync_started(&jitc_runtime.started[b], d));
    return JIT_OK;
}

jit_status jit_trim(void) {
    if (!jitc_api_graph("jit_trim"))
        return JIT_NOT_INITIALIZED;
    for (int b = 0; b < JITC_BACKENDS; ++b)
        for (int d = 0; d < jitc_runtime.started[b].devices; ++d) {
            /* pairs with open_device */
            jitc_device *device = jitc_load_acquire(&jitc_runtime.started[b].device[d]);
            if (device)
                jitc_device_trim(device);
        }
    return JIT_OK;
}

jit_status jit_cache_clear_memory(void) {
    if (!jitc_api_graph("jit_cache_clear_memory"))
        return JIT_NOT_INITIALIZED;
    TRY(jit_sync_all_devices());
    return jitc_cache_clear(jitc_runtime.cache);
}

static void add_memory(jit_stats *stats, jitc_started *s) {
    if (s->backend)
        stats->bytes_pinned += jitc_load_relaxed(&s->backend->pinned);
    for (int d = 0; d < s->devices; ++d) {
        jitc_device *device = jitc_load_acquire(&s->device[d]); /* pairs with open_device */
        if (!device)
            continue;
        jitc_memory_stats m = jitc_device_memory(device);
        stats->bytes_live += m.live;
        stats->bytes_cached += m.cached;
        stats->bytes_peak += m.peak;
    }
}

jit_status jit_get_stats(jit_stats *stats) {
    jitc_graph *g = jitc_api_graph("jit_get_stats");
    if (!g)
        return JIT_NOT_INITIALIZED;
    if (!stats)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_get_stats: stats is NULL");
    jitc_graph_stats graph = jitc_graph_get_stats(g);
    jitc_cache_stats cache = jitc_cache_read_stats(jitc_runtime.cache);
    *stats = (jit_stats) {
        .evaluations = jitc_load_relaxed(&jitc_runtime.counters.evaluations),
        .launches = jitc_load_relaxed(&jitc_runtime.counters.launches),
        .kernels_compiled = cache.kernels_compiled + cache.kernels_recompiled,
        .memory_hits = cache.memory_hits,
        .disk_hits = cache.disk_hits,
        .variables = graph.variables,
        .bytes_graph = graph.bytes,
    };
    for (int b = 0; b < JITC_BACKENDS; ++b)
        add_memory(stats, &jitc_runtime.started[b]);
    return JIT_OK;
}
