/* switch.c: jit_switch(): callables, each recorded as a branch for its lanes. */
#include "api/loop.h"
#include "core/mem.h"
#include "ir/bits.h"
#include "trace/call.h"
#include <jit/loop.h>
#include <stdlib.h>
#include <string.h>

typedef struct call {
    jitc_graph *graph;
    jitc_thread *thread;
    jit_var index;
    jitc_var_info info; /* of the index */
    const jit_callable *callables;
    const jit_var *args;
    jitc_calls calls;
    jit_var *scratch; /* arguments, then results, of one callable */
} call;

static const char *const function = "jit_switch";

/* The largest index that the type has. */
static uint64_t largest(jit_dtype t) {
    return jitc_bits_mask(t) >> (jitc_dtypes[t].cls == JITC_INT ? 1 : 0);
}

/* Is it the callable's lane? */
static jit_var condition(const call *c, size_t k) {
    const jitc_var_info *i = &c->info;
    if (k > largest(i->type))
        return jitc_trace_literal(c->graph, i->backend, i->device, JIT_bool, 0, 1);
    jit_var number = jitc_trace_literal(c->graph, i->backend, i->device, i->type, k, 1);
    return jitc_trace_binary(c->graph, JITC_OP_eq, c->index, number);
}

/* Its results, before the references are given back. */
static jit_status hold_results(call *c, size_t k, const jit_var *results) {
    size_t n = c->calls.results;
    jit_status status = JIT_OK;
    jitc_graph_lock(c->graph);
    for (size_t j = 0; j < n && status == JIT_OK; ++j) {
        uint32_t node = jitc_graph_find_locked(c->graph, function, results[j]);
        if (!node) {
            status = jitc_api_bad_handle(results[j]);
            continue;
        }
        jitc_graph_hold_locked(c->graph, node);
        c->calls.value[k * n + j] = node;
    }
    jitc_graph_unlock(c->graph);
    return status;
}

static jit_status call_function(call *c, size_t k, jitc_loop *branch) {
    jit_var *args = c->scratch, *results = c->scratch + c->calls.args;
    const jit_callable *f = &c->callables[k];
    memset(results, 0, c->calls.results * sizeof *results);
    TRY(f->function(f->context, c->calls.args, args, c->calls.results, results));
    if (c->thread->loops != branch)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: callable %zu has begun something by %s() and not ended it", function,
                         k, c->thread->loops->function);
    return hold_results(c, k, results);
}

static jit_status record(call *c, size_t k) {
    jitc_loop *l = NULL;
    TRY(jitc_loop_create(c->calls.args, &l));
    c->calls.branch[k] = l;
    l->once = true;
    l->beside = k > 0;
    memcpy(c->scratch, c->args, c->calls.args * sizeof *c->args);
    jitc_loop_enter(c->graph, c->thread, l, JITC_KIND_CALL);
    jit_status status = jitc_loop_set_condition(c->graph, function, l, condition(c, k));
    if (status == JIT_OK)
        status = jitc_loop_open(c->graph, function, l, c->scratch);
    if (status == JIT_OK)
        status = call_function(c, k, l);
    jitc_loop_unwind(c->graph, c->thread, l, false);
    jitc_loop_leave(c->graph, c->thread, l);
    return status;
}

/* The references that a callable gets belong to a scope of its own. */
static jit_status record_all(call *c, size_t n) {
    for (size_t k = 0; k < n; ++k) {
        jitc_trace_scope_push(c->graph);
        jit_status status = record(c, k);
        c->calls.n = k + 1;
        jit_status popped = jitc_trace_scope_pop(c->graph, 0, NULL);
        TRY(status);
        TRY(popped);
    }
    return JIT_OK;
}

static jit_status check(call *c, size_t n) {
    if (!n || !c->callables)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: there is no callable", function);
    if ((c->calls.args && !c->args) || !c->calls.results)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %s", function,
                         c->calls.results ? "args is NULL" : "there is no result");
    for (size_t k = 0; k < n; ++k)
        if (!c->callables[k].function)
            return jitc_fail(JIT_INVALID_ARGUMENT, "%s: callable %zu has no function", function, k);
    if (jitc_trace_info(c->graph, function, c->index, &c->info) != JIT_OK)
        return jitc_api_bad_handle(c->index);
    if (!(jitc_dtypes[c->info.type].cls & JITC_DOMAIN_INTEGER))
        return jitc_fail(JIT_TYPE_MISMATCH, "%s: the index has type %s; it must be an integer",
                         function, jitc_dtypes[c->info.type].name);
    c->calls.lanes = c->info.size;
    return JIT_OK;
}

static jit_status make_room(call *c, size_t n) {
    TRY(jitc_calloc(n, sizeof(jitc_loop *), (void **) &c->calls.branch));
    TRY(jitc_calloc(n * c->calls.results, sizeof(uint32_t), (void **) &c->calls.value));
    return jitc_calloc(c->calls.args + c->calls.results, sizeof(jit_var), (void **) &c->scratch);
}

/* What a failure leaves. */
static void release_values(call *c) {
    jitc_graph_lock(c->graph);
    for (size_t i = 0; c->calls.value && i < c->calls.n * c->calls.results; ++i)
        if (c->calls.value[i])
            jitc_graph_release_locked(c->graph, c->calls.value[i]);
    jitc_graph_unlock(c->graph);
}

static jit_status run(call *c, size_t n, jit_var *results) {
    TRY(check(c, n));
    jit_status status = make_room(c, n);
    if (status == JIT_OK)
        status = record_all(c, n);
    if (status == JIT_OK)
        status = jitc_calls_close(c->graph, &c->calls, results);
    else
        release_values(c);
    for (size_t k = 0; k < c->calls.n; ++k)
        jitc_loop_destroy(c->graph, c->calls.branch[k]);
    free(c->calls.branch);
    free(c->calls.value);
    free(c->scratch);
    return status;
}

jit_status jit_switch(jit_var index, size_t n_callables, const jit_callable *callables,
                      size_t n_args, const jit_var *args, size_t n_results, jit_var *results) {
    call c = {.graph = jitc_api_graph(function),
              .index = index,
              .callables = callables,
              .args = args,
              .calls = {.function = function, .args = n_args, .results = n_results}};
    if (!c.graph)
        return JIT_NOT_INITIALIZED;
    if (!results)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: results is NULL", function);
    memset(results, 0, n_results * sizeof *results);
    TRY(jitc_api_thread(&c.thread));
    jit_status status = run(&c, n_callables, results);
    if (status != JIT_OK)
        memset(results, 0, n_results * sizeof *results);
    return status;
}
