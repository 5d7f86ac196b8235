/* eval.c: one evaluation, top to bottom.
 *
 *   evaluate_some    schedule: nodes → plan (groups of one kernel each), under the graph's lock
 *                    cache:    programs → kernels; compiles what is new
 *   launch_group     device:   memory for the outputs
 *                    launch:   kernel + parameters → queued work
 *                    schedule: the outputs' nodes become evaluated, under the graph's lock
 *
 * No lock is held while kernels are compiled. A node that a thread is evaluating is claimed;
 * another one that needs it waits until it is settled, and then plans anew. */
#include "api/eval.h"
#include "core/log.h"
#include "launch/launch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    jitc_graph *graph;
    jitc_thread *thread;
    jitc_thread_state *state;
    jitc_plan *plan;
    size_t kernels; /* references held in thread->kernels */
} evaluation;

/* Claimed nodes have been settled or given up: wake who waits for them. */
static void announce(void) {
    jitc_add_seq(&jitc_runtime.settled, 1); /* before the load: pairs with wait_until_settled */
    if (jitc_load_seq(&jitc_runtime.settle_waiters)) {
        jitc_mutex_lock(&jitc_runtime.settle_lock);
        pthread_cond_broadcast(&jitc_runtime.settle);
        jitc_mutex_unlock(&jitc_runtime.settle_lock);
    }
}

/* `seen` was read under the graph's lock, when a claimed node was met: it moves when that is
 * settled. */
static void wait_until_settled(uint64_t seen) {
    jitc_mutex_lock(&jitc_runtime.settle_lock);
    jitc_add_seq(&jitc_runtime.settle_waiters, 1); /* before the load: pairs with announce */
    while (jitc_load_seq(&jitc_runtime.settled) == seen)
        jitc_cond_wait(&jitc_runtime.settle, &jitc_runtime.settle_lock);
    jitc_add_seq(&jitc_runtime.settle_waiters, -1);
    jitc_mutex_unlock(&jitc_runtime.settle_lock);
}

static jit_status make_plan(evaluation *e, const jitc_wanted *wanted) {
    for (;;) {
        bool busy;
        jitc_graph_lock(e->graph);
        uint64_t seen = jitc_load_seq(&jitc_runtime.settled);
        jit_status status =
            jitc_plan_make_locked(e->plan, e->graph, &jitc_runtime.options, wanted, &busy);
        jitc_graph_unlock(e->graph);
        if (!busy)
            return status;
        wait_until_settled(seen);
    }
}

/* Kernels of the groups that have lanes, in order. */
static jit_status find_kernels(evaluation *e) {
    jitc_thread *t = e->thread;
    size_t n = 0;
    TRY(jitc_grow((void **) &t->programs, &t->program_capacity, e->plan->groups,
                  sizeof *t->programs));
    TRY(jitc_grow((void **) &t->kernels, &t->kernel_capacity, e->plan->groups, sizeof *t->kernels));
    for (size_t i = 0; i < e->plan->groups; ++i)
        if (e->plan->group[i].lanes)
            t->programs[n++] = &e->plan->group[i].program;
    TRY(jitc_cache_get(jitc_runtime.cache, e->state->device->backend, e->state->device->id, n,
                       t->programs, t->kernels));
    e->kernels = n;
    return JIT_OK;
}

/* Memory for an output. The result of a scatter starts as the array that it updates: in its memory,
 * if nobody else can see it, else in a copy. */
static jit_status make_output_locked(evaluation *e, jitc_slot *s, bool in_place)
    REQUIRES(&e->state->stream->lock) {
    if (in_place) {
        jitc_buffer_ref(e->plan->slot[s->source].buffer);
        s->buffer = e->plan->slot[s->source].buffer; /* last: a forked child drops it */
        return JIT_OK;
    }
    TRY(jitc_buffer_create(e->state->device, e->state->stream, s->bytes, &s->buffer));
    if (s->source == JITC_NONE)
        return JIT_OK;
    return jitc_launch_copy_locked(e->state->stream, s->buffer, e->plan->slot[s->source].buffer,
                                   s->used_bytes);
}

static jit_status make_outputs_locked(evaluation *e, const jitc_group *g, const bool *in_place)
    REQUIRES(&e->state->stream->lock) {
    for (size_t i = 0; i < g->outputs; ++i)
        TRY(make_output_locked(e, &e->plan->slot[g->output[i]], i < 64 && in_place[i]));
    return JIT_OK;
}

/* Memory of one launch. Buffers: a reference, or NULL. */
typedef struct temporary {
    jitc_buffer *report, *scratch;
} temporary;

/* The memory of a parameter; NULL: none. */
static jitc_buffer *buffer_of(const evaluation *e, const jitc_param *p, const temporary *t) {
    switch (p->kind) {
        case JITC_PARAM_BITS: return NULL;
        case JITC_PARAM_REPORT: return t->report;
        case JITC_PARAM_SCRATCH: return t->scratch;
        default: return e->plan->slot[p->slot].buffer;
    }
}

/* Parameters and accesses of a group into the thread's scratch arrays. */
static jit_status fill_params(evaluation *e, const jitc_group *g, const temporary *own,
                              size_t *accesses) {
    jitc_thread *t = e->thread;
    size_t count = g->program.head.params;
    TRY(jitc_grow((void **) &t->params, &t->param_capacity, count + 1, sizeof *t->params));
    TRY(jitc_grow((void **) &t->access, &t->access_capacity, count + 1, sizeof *t->access));
    *accesses = 0;
    for (size_t i = 0; i < count; ++i) {
        const jitc_param *p = &g->param[i];
        jitc_buffer *b = buffer_of(e, p, own);
        if (!b) {
            t->params[i] = p->bits;
            continue;
        }
        t->params[i] = (uint64_t) (uintptr_t) b->pointer;
        t->access[(*accesses)++] = (jitc_access) {b, p->kind != JITC_PARAM_READ};
    }
    return JIT_OK;
}

static jit_status make_report_locked(evaluation *e, jitc_buffer **out)
    REQUIRES(&e->state->stream->lock) {
    jitc_bounds_report none = {0};
    TRY(jitc_buffer_create(e->state->device, e->state->stream, sizeof none, out));
    return jitc_launch_upload_locked(e->state->stream, *out, &none, sizeof none);
}

/* With the option bounds_check: wait, and say what was out of range. */
static jit_status read_report(evaluation *e, const jitc_group *g, jitc_buffer *report) {
    jitc_bounds_report r;
    TRY(jitc_launch_download(e->state->stream, &r, report, 0, sizeof r));
    if (!r.claimed)
        return JIT_OK;
    const jitc_inst *inst = &g->program.inst[r.claimed - 1];
    return jitc_fail(JIT_OUT_OF_BOUNDS, "jit_%s: index %lld lies outside of the array of %llu %s",
                     jitc_ops[inst->op].name, (long long) r.index, (unsigned long long) r.size,
                     jitc_dtypes[inst->type].name);
}

/* What the kernel works in, as much as its backend asks for: nobody else sees it, and whoever gets
 * the memory next comes after the kernel. */
static jit_status make_scratch_locked(evaluation *e, const jitc_group *g, jitc_cached *kernel,
                                      jitc_buffer **out) REQUIRES(&e->state->stream->lock) {
    size_t bytes = e->state->device->backend->scratch(kernel->kernel, g->lanes);
    return bytes ? jitc_buffer_create(e->state->device, e->state->stream, bytes, out) : JIT_OK;
}

static jit_status queue_group_locked(evaluation *e, const jitc_group *g, jitc_cached *kernel,
                                     const bool *in_place, temporary *t)
    REQUIRES(&e->state->stream->lock) {
    size_t accesses;
    TRY(make_outputs_locked(e, g, in_place));
    if (!g->lanes)
        return JIT_OK;
    if (g->program.head.flags & JITC_PROGRAM_BOUNDS)
        TRY(make_report_locked(e, &t->report));
    if (g->program.head.flags & JITC_PROGRAM_SCRATCH)
        TRY(make_scratch_locked(e, g, kernel, &t->scratch));
    TRY(fill_params(e, g, t, &accesses));
    jitc_launch_args args = {g->lanes, e->thread->params, g->program.head.params};
    jitc_add_relaxed(&jitc_runtime.counters.launches, 1);
    return jitc_launch_locked(jitc_runtime.cache, e->state->stream, kernel, &args,
                              e->thread->access, accesses);
}

/* Which scatters may write the memory that they update? Not those whose evaluation may be reported
 * as failed and be repeated. */
static void find_in_place(evaluation *e, size_t group, bool *in_place) {
    const jitc_group *g = &e->plan->group[group];
    bool may = !(g->program.head.flags & JITC_PROGRAM_BOUNDS);
    jitc_graph_lock(e->graph);
    for (size_t i = 0; i < g->outputs && i < 64; ++i)
        in_place[i] = may && e->plan->slot[g->output[i]].source != JITC_NONE &&
                      jitc_plan_in_place_locked(e->plan, e->graph, group, g->output[i]);
    jitc_graph_unlock(e->graph);
}

static bool has_scatter(const evaluation *e, const jitc_group *g) {
    for (size_t i = 0; i < g->outputs; ++i)
        if (e->plan->slot[g->output[i]].source != JITC_NONE)
            return true;
    return false;
}

static jit_status launch_group(evaluation *e, size_t i, jitc_cached *kernel) {
    jitc_group *g = &e->plan->group[i];
    temporary t = {NULL, NULL};
    bool in_place[64] = {0};
    if (has_scatter(e, g))
        find_in_place(e, i, in_place);
    jitc_mutex_lock(&e->state->stream->lock);
    jit_status status = queue_group_locked(e, g, kernel, in_place, &t);
    jitc_mutex_unlock(&e->state->stream->lock);
    if (status == JIT_OK && t.report)
        status = read_report(e, g, t.report);
    jitc_buffer_unref(t.report);
    jitc_buffer_unref(t.scratch);
    if (status != JIT_OK)
        return status;
    jitc_graph_lock(e->graph);
    jitc_plan_settle_locked(e->plan, e->graph, i);
    jitc_graph_unlock(e->graph);
    if (i + 1 < e->plan->groups)
        jitc_plan_drop_buffers(e->plan, e->graph, i);
    return JIT_OK;
}

static jit_status launch_groups(evaluation *e) {
    size_t kernel = 0;
    for (size_t i = 0; i < e->plan->groups; ++i) {
        jitc_cached *k = e->plan->group[i].lanes ? e->thread->kernels[kernel++] : NULL;
        TRY(launch_group(e, i, k));
    }
    return JIT_OK;
}

/* Is the stage named by a letter to be printed? */
static bool dumps(char stage) {
    return *jitc_runtime.options.dump && strchr(jitc_runtime.options.dump, stage);
}

static void dump_trace(jitc_graph *g, const jitc_wanted *wanted) {
    jitc_graph_lock(g);
    char *text = jitc_graph_print_locked(g, wanted->count, wanted->node);
    jitc_graph_unlock(g);
    fprintf(stderr, "---- trace of %zu variables\n%s\n", wanted->count, text ? text : "");
    free(text);
}

static void dump_plan(const jitc_plan *p) {
    for (size_t i = 0; i < p->groups; ++i) {
        char *text = jitc_program_print(&p->group[i].program);
        fprintf(stderr, "---- schedule, kernel %zu of %zu, %llu lanes\n%s\n", i + 1, p->groups,
                (unsigned long long) p->group[i].lanes, text ? text : "");
        free(text);
    }
}

/* Nodes of one backend and device. */
static jit_status evaluate_some(jitc_thread *t, jit_backend backend, int device,
                                const jitc_wanted *wanted) {
    evaluation e = {.graph = jitc_api_graph("jit_eval"), .thread = t, .plan = &t->plan};
    TRY(jitc_api_state(t, backend, device, &e.state));
    if (dumps('t'))
        dump_trace(e.graph, wanted);
    TRY(make_plan(&e, wanted));
    if (!e.plan->groups)
        return JIT_OK;
    jitc_add_relaxed(&jitc_runtime.counters.evaluations, 1);
    if (dumps('s'))
        dump_plan(e.plan);
    jit_status status = find_kernels(&e);
    if (status == JIT_OK)
        status = launch_groups(&e);
    jit_status flushed = e.state->stream->backend->flush(e.state->stream);
    status = status == JIT_OK ? flushed : status;
    if (e.plan->settled < e.plan->groups) {
        jitc_graph_lock(e.graph);
        jitc_plan_abandon_locked(e.plan, e.graph);
        jitc_graph_unlock(e.graph);
    }
    announce();
    for (size_t i = 0; i < e.kernels; ++i)
        jitc_cache_release(jitc_runtime.cache, t->kernels[i]);
    jitc_plan_drop_all_buffers(e.plan, e.graph);
    return status;
}

/* Move the nodes that go with the first one to the front; returns their number. */
static size_t same_device_first(jitc_graph *g, uint32_t *nodes, size_t n, jit_backend *backend,
                                int *device) {
    size_t same = 0;
    jitc_graph_lock(g);
    *backend = jitc_node_backend(jitc_node_at(g, nodes[0]));
    *device = jitc_node_device(jitc_node_at(g, nodes[0]));
    for (size_t i = 0; i < n; ++i) {
        const jitc_node *node = jitc_node_at(g, nodes[i]);
        if (jitc_node_backend(node) == *backend && jitc_node_device(node) == *device) {
            uint32_t other = nodes[same];
            nodes[same++] = nodes[i];
            nodes[i] = other;
        }
    }
    jitc_graph_unlock(g);
    return same;
}

static jit_status evaluate_list(jitc_graph *g, jitc_thread *t, bool leaves) {
    jit_status status = JIT_OK;
    for (size_t first = 0; first < t->scheduled_count;) {
        jit_backend backend;
        int device;
        size_t n = same_device_first(g, t->scheduled + first, t->scheduled_count - first, &backend,
                                     &device);
        jitc_wanted wanted = {n, t->scheduled + first, leaves};
        jit_status one = evaluate_some(t, backend, device, &wanted);
        status = status == JIT_OK ? one : status;
        first += n;
    }
    return status;
}

/* A function of the log may be called in the middle of an evaluation, and call the library. */
static jit_status check_outside(const char *function, const jitc_thread *t) {
    if (!t->evaluating)
        return JIT_OK;
    return jitc_fail(JIT_UNSUPPORTED,
                     "%s: the thread is in the middle of an evaluation: the function of "
                     "jit_set_log() must not evaluate",
                     function);
}

/* Hold v and append it to the thread's list. */
static jit_status schedule_var(const char *function, jitc_graph *g, jitc_thread *t, jit_var v) {
    TRY(check_outside(function, t));
    jit_status status = JIT_OK;
    jitc_graph_lock(g); /* the list too: a forked child reads those of other threads */
    uint32_t node = jitc_graph_find_locked(g, function, v);
    if (node && jitc_node_at(g, node)->op != JITC_OP_data) {
        status = jitc_grow((void **) &t->scheduled, &t->scheduled_capacity, t->scheduled_count + 1,
                           sizeof *t->scheduled);
        if (status == JIT_OK) {
            jitc_graph_hold_locked(g, node);
            t->scheduled[t->scheduled_count++] = node;
        }
    }
    jitc_graph_unlock(g);
    return node ? status : jitc_api_bad_handle(v);
}

/* Drop what nobody but the list holds any more, before it is computed for nothing. */
static void drop_dead(jitc_graph *g, jitc_thread *t) {
    size_t kept = 0;
    jitc_graph_lock(g);
    for (size_t i = 0; i < t->scheduled_count; ++i) {
        const jitc_node *n = jitc_node_at(g, t->scheduled[i]);
        if (n->external == 0 && n->internal == 1)
            jitc_graph_release_locked(g, t->scheduled[i]);
        else
            t->scheduled[kept++] = t->scheduled[i];
    }
    t->scheduled_count = kept;
    jitc_graph_unlock(g);
}

static void release_list(jitc_graph *g, jitc_thread *t) {
    jitc_graph_lock(g);
    for (size_t i = 0; i < t->scheduled_count; ++i)
        jitc_graph_release_locked(g, t->scheduled[i]);
    t->scheduled_count = 0;
    jitc_graph_unlock(g);
}

static jit_status evaluate(const char *function, jitc_graph *g, jitc_thread *t, jit_var v,
                           bool leaves) {
    if (v)
        TRY(schedule_var(function, g, t, v));
    if (!t->scheduled_count)
        return JIT_OK;
    TRY(check_outside(function, t));
    t->evaluating = true;
    drop_dead(g, t);
    jit_status status = evaluate_list(g, t, leaves);
    release_list(g, t);
    t->evaluating = false;
    return status;
}

/* User code, which may evaluate, is called behind this, not in the middle: the list and the plan
 * are the thread's, and what it has claimed nobody can evaluate. */
jit_status jitc_eval_thread(const char *function, jitc_thread *t, jit_var v, bool leaves) {
    jitc_graph *g = jitc_api_graph(function);
    if (!g)
        return JIT_NOT_INITIALIZED;
    jitc_api_collect(t);
    jitc_graph_hold();
    jit_status status = evaluate(function, g, t, v, leaves);
    jitc_graph_let_go(g);
    return status;
}

jit_status jit_schedule(jit_var v) {
    jitc_thread *t;
    jitc_graph *g = jitc_api_graph("jit_schedule");
    if (!g)
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&t));
    return schedule_var("jit_schedule", g, t, v);
}

jit_status jit_eval(void) {
    jitc_thread *t;
    if (!jitc_api_graph("jit_eval"))
        return JIT_NOT_INITIALIZED;
    TRY(jitc_api_thread(&t));
    return jitc_eval_thread("jit_eval", t, 0, false);
}
