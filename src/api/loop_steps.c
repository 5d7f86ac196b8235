/* loop_steps.c: loops that run one iteration at a time.
 *
 * Such a loop is recorded as a branch that runs once: its results are the state after one more
 * iteration of the lanes that have not left. Beside the user's states it has one that tells whether
 * a lane was in it; when none was, the results are those of the loop. The nodes of the body serve
 * all iterations, so there is one kernel, with other arrays each time. */
#include "api/loop_steps.h"
#include "api/eval.h"
#include "core/log.h"
#include "core/mem.h"
#include <inttypes.h>
#include <jit/array.h>
#include <stdlib.h>
#include <string.h>

static void drop(jitc_graph *g, size_t n, jit_var *v) {
    for (size_t i = 0; i < n; ++i) {
        if (v[i])
            jitc_trace_unref(g, v[i]);
        v[i] = 0;
    }
}

static jit_var flag(jitc_graph *g, const jitc_loop *l, bool value) {
    return jitc_trace_literal(g, l->backend, l->device, JIT_bool, value, 1);
}

/* The user's states and room for one more. */
static jit_status all_states(size_t n, const jit_var *state, jit_var **out) {
    void *memory = NULL;
    TRY(jitc_calloc(2 * (n + 1), sizeof **out, &memory));
    *out = memory;
    memcpy(*out, state, n * sizeof *state);
    return JIT_OK;
}

/* Where the loop is, as far as its first state tells: literals are everywhere. */
static bool find_place(jitc_graph *g, jitc_loop *l, jit_var v) {
    jitc_graph_lock(g);
    const jitc_node *n = jitc_node_at(g, v & JITC_INDEX_MASK);
    bool alive = jitc_node_alive(n, v);
    if (alive) {
        l->backend = jitc_node_backend(n);
        l->device = jitc_node_device(n);
    }
    jitc_graph_unlock(g);
    return alive;
}

jit_status jitc_loop_steps_open(jitc_graph *g, const char *function, jitc_loop *l, size_t n,
                                jit_var *state) {
    jit_var *all, none = 0;
    TRY(all_states(n, state, &all));
    jit_status status = JIT_OK;
    if (find_place(g, l, state[0])) { /* else jitc_loop_open() says what is wrong */
        none = all[n] = flag(g, l, false);
        status = none ? JIT_OK : JIT_OUT_OF_MEMORY;
    }
    if (status == JIT_OK)
        status = jitc_loop_open(g, function, l, all);
    if (none)
        jitc_trace_unref(g, none);
    if (status == JIT_OK) {
        memcpy(state, all, n * sizeof *state);
        jitc_trace_unref(g, all[n]);
    }
    free(all);
    return status;
}

/* Evaluate the states; how many lanes were in the loop? */
static jit_status evaluate(const char *function, jitc_thread *t, size_t n, const jit_var *all,
                           uint64_t *lanes) {
    for (size_t i = 0; i <= n; ++i)
        TRY(jit_schedule(all[i]));
    TRY(jitc_eval_thread(function, t, 0, false));
    jit_var count = jit_count(all[n]);
    jit_status status = count ? jit_read(count, lanes) : jit_error_status();
    if (count)
        jit_unref(count);
    return status;
}

/* all[0 ... n]: the results of an iteration; behind them there is room for those before. */
static jit_status run(jitc_graph *g, const char *function, jitc_thread *t, jitc_loop *l, size_t n,
                      jit_var *all) {
    jit_var *before = all + n + 1;
    for (uint64_t iteration = 1;; ++iteration) {
        uint64_t lanes = 0; /* jit_count() gives u32, or u64 */
        TRY(evaluate(function, t, n, all, &lanes));
        jitc_log(JITC_LOG_INFO, "%s: iteration %" PRIu64 " of a loop: %" PRIu64 " of %zu lanes",
                 function, iteration, lanes, jit_size(all[n]));
        if (!lanes)
            return JIT_OK;
        jitc_trace_unref(g, all[n]);
        all[n] = flag(g, l, false);
        memcpy(before, all, (n + 1) * sizeof *all);
        jit_status status = all[n] ? jitc_loop_step(g, l, all) : JIT_OUT_OF_MEMORY;
        if (status != JIT_OK) {
            memcpy(all, before, (n + 1) * sizeof *all);
            return status;
        }
        drop(g, n + 1, before);
    }
}

jit_status jitc_loop_steps_run(jitc_graph *g, const char *function, jitc_thread *t, jitc_loop *l,
                               size_t n, jit_var *state) {
    jit_var *all = NULL;
    jitc_loop_leave(g, t, l);
    jit_status status = all_states(n, state, &all);
    jit_var entered = status == JIT_OK ? flag(g, l, true) : 0;
    if (status == JIT_OK) {
        all[n] = entered;
        status = entered ? jitc_loop_close(g, function, l, n + 1, all) : JIT_OUT_OF_MEMORY;
    }
    if (entered)
        jitc_trace_unref(g, entered);
    if (status == JIT_OK && l->end)
        status = run(g, function, t, l, n, all);
    if (status == JIT_OK)
        jitc_trace_unref(g, all[n]);
    else if (all && l->end)
        drop(g, n + 1, all);
    for (size_t i = 0; i < n; ++i)
        state[i] = status == JIT_OK ? all[i] : 0;
    jitc_loop_destroy(g, l);
    free(all);
    return status;
}
