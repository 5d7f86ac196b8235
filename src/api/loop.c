/* loop.c: the public loops and branches, and the list of those that a thread has open. */
#include "api/loop.h"
#include "api/loop_steps.h"
#include <jit/loop.h>
#include <stdlib.h>

/* ---- the list ---- */

void jitc_loop_enter(jitc_graph *g, jitc_thread *t, jitc_loop *l, jitc_loop_kind kind) {
    l->kind = kind;
    jitc_graph_lock(g);
    l->depth = t->loops ? t->loops->depth + 1 : 0;
    l->outer = t->loops;
    t->loops = l;
    jitc_graph_unlock(g);
}

void jitc_loop_leave(jitc_graph *g, jitc_thread *t, jitc_loop *l) {
    jitc_graph_lock(g);
    for (jitc_loop **at = &t->loops; *at; at = &(*at)->outer)
        if (*at == l) {
            *at = l->outer;
            break;
        }
    jitc_graph_unlock(g);
}

static void give_up_innermost(jitc_graph *g, jitc_thread *t) {
    jitc_loop *l = t->loops;
    jitc_loop_leave(g, t, l);
    jitc_loop_destroy(g, l);
}

void jitc_loop_unwind(jitc_graph *g, jitc_thread *t, jitc_loop *l, bool itself) {
    while (t->loops != l)
        give_up_innermost(g, t);
    if (l && itself)
        give_up_innermost(g, t);
}

void jitc_loop_free_all(jitc_thread *t) {
    while (t->loops) {
        jitc_loop *l = t->loops;
        t->loops = l->outer;
        free(l);
    }
}

/* ---- looking up ---- */

enum { LOOPS = 1 << JITC_KIND_LOOP, BRANCHES = 1 << JITC_KIND_IF | 1 << JITC_KIND_ELSE };

typedef struct request {
    const char *function;
    unsigned kinds; /* that it takes */
    jitc_graph *graph;
    jitc_thread *thread;
} request;

/* What is wrong with a variable that is 0 was said by the call that made it so. */
static jit_status first_reason(jit_status status) {
    jit_status first = jit_error_status();
    return status == JIT_INVALID_HANDLE && first != JIT_OK ? first : status;
}

static jit_status start(request *r) {
    r->graph = jitc_api_graph(r->function);
    return r->graph ? jitc_api_thread(&r->thread) : JIT_NOT_INITIALIZED;
}

/* A loop that the thread has open. In a function that jit_switch() calls, those that were open
 * around it are out of reach. */
static jit_status find(request *r, const void *wanted, jitc_loop **out) {
    const char *noun = r->kinds == LOOPS ? "loop" : "branch";
    TRY(start(r));
    if (!wanted)
        return first_reason(jitc_fail(JIT_INVALID_HANDLE, "%s: the %s is NULL", r->function, noun));
    for (jitc_loop *l = r->thread->loops; l && l->kind != JITC_KIND_CALL; l = l->outer)
        if (l == wanted && r->kinds >> l->kind & 1) {
            *out = l;
            return JIT_OK;
        }
    return jitc_fail(JIT_INVALID_HANDLE,
                     "%s: the calling thread has no such %s open here: it has ended, or it was "
                     "begun by another thread or around a jit_switch(); end it where it began",
                     r->function, noun);
}

static jit_status check_innermost(const request *r, const jitc_loop *l) {
    const jitc_loop *inner = r->thread->loops;
    if (inner == l)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "%s: what %s() began inside of it has not ended; end it first", r->function,
                     inner->function);
}

/* ---- beginning ---- */

static void clear(size_t n, jit_var *state) {
    for (size_t i = 0; state && i < n; ++i)
        state[i] = 0;
}

static jit_status check_states(const char *function, size_t n, const jit_var *state) {
    if (n && state)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT, "%s: there is no state%s", function,
                     n ? ": the array is NULL" : "; give what the body changes");
}

/* `condition`: of a branch. */
static jit_status begin(request *r, const jit_var *condition, size_t n, jit_var *state,
                        jitc_loop **out) {
    jitc_loop *l = NULL;
    TRY(start(r));
    TRY(check_states(r->function, n, state));
    bool stepwise = !condition && !r->thread->loops && jitc_runtime.options.loop_steps;
    TRY(jitc_loop_create(n + stepwise, &l));
    l->once = condition != NULL;
    l->stepwise = stepwise;
    jit_status status = JIT_OK;
    jitc_loop_enter(r->graph, r->thread, l, condition ? JITC_KIND_IF : JITC_KIND_LOOP);
    if (condition)
        status = jitc_loop_set_condition(r->graph, r->function, l, *condition);
    if (status == JIT_OK && stepwise)
        status = jitc_loop_steps_open(r->graph, r->function, l, n, state);
    else if (status == JIT_OK)
        status = jitc_loop_open(r->graph, r->function, l, state);
    if (status != JIT_OK)
        jitc_loop_unwind(r->graph, r->thread, l, true);
    else
        *out = l;
    return status;
}

jit_loop *jit_loop_begin(size_t n, jit_var *state) {
    request r = {.function = "jit_loop_begin"};
    jitc_loop *l = NULL;
    if (begin(&r, NULL, n, state, &l) != JIT_OK)
        clear(n, state);
    return (jit_loop *) (void *) l;
}

jit_if *jit_if_begin(jit_var condition, size_t n, jit_var *state) {
    request r = {.function = "jit_if_begin"};
    jitc_loop *l = NULL;
    if (begin(&r, &condition, n, state, &l) != JIT_OK)
        clear(n, state);
    return (jit_if *) (void *) l;
}

/* ---- in between ---- */

jit_status jit_loop_condition(jit_loop *loop, jit_var active) {
    request r = {.function = "jit_loop_condition", .kinds = LOOPS};
    jitc_loop *l = NULL;
    TRY(find(&r, loop, &l));
    TRY(check_innermost(&r, l));
    return first_reason(jitc_loop_set_condition(r.graph, r.function, l, active));
}

static jit_status otherwise(request *r, jitc_loop *l, size_t n, jit_var *state) {
    TRY(check_innermost(r, l));
    if (l->kind == JITC_KIND_ELSE)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: the branch has this part already; begin another branch in it",
                         r->function);
    TRY(check_states(r->function, n, state));
    TRY(jitc_loop_otherwise(r->graph, r->function, l, n, state));
    l->kind = JITC_KIND_ELSE;
    return JIT_OK;
}

jit_status jit_if_else(jit_if *branch, size_t n, jit_var *state) {
    request r = {.function = "jit_if_else", .kinds = BRANCHES};
    jitc_loop *l = NULL;
    jit_status status = find(&r, branch, &l);
    if (status == JIT_OK) {
        status = otherwise(&r, l, n, state);
        if (status != JIT_OK)
            jitc_loop_unwind(r.graph, r.thread, l, true);
    }
    if (status != JIT_OK)
        clear(n, state);
    return first_reason(status);
}

/* ---- ending ---- */

static jit_status end(request *r, const void *wanted, size_t n, jit_var *state) {
    jitc_loop *l = NULL;
    jit_status status = find(r, wanted, &l);
    if (status == JIT_OK) {
        status = check_innermost(r, l);
        if (status == JIT_OK)
            status = check_states(r->function, n, state);
        if (status == JIT_OK && l->stepwise)
            return jitc_loop_steps_run(r->graph, r->function, r->thread, l, n, state);
        if (status == JIT_OK)
            status = jitc_loop_close(r->graph, r->function, l, n, state);
        jitc_loop_unwind(r->graph, r->thread, l, true);
    }
    if (status != JIT_OK)
        clear(n, state);
    return first_reason(status);
}

jit_status jit_loop_end(jit_loop *loop, size_t n, jit_var *state) {
    request r = {.function = "jit_loop_end", .kinds = LOOPS};
    return end(&r, loop, n, state);
}

jit_status jit_if_end(jit_if *branch, size_t n, jit_var *state) {
    request r = {.function = "jit_if_end", .kinds = BRANCHES};
    return end(&r, branch, n, state);
}

static void cancel(request *r, const void *wanted) {
    jitc_loop *l = NULL;
    if (wanted && find(r, wanted, &l) == JIT_OK)
        jitc_loop_unwind(r->graph, r->thread, l, true);
}

void jit_loop_cancel(jit_loop *loop) {
    request r = {.function = "jit_loop_cancel", .kinds = LOOPS};
    cancel(&r, loop);
}

void jit_if_cancel(jit_if *branch) {
    request r = {.function = "jit_if_cancel", .kinds = BRANCHES};
    cancel(&r, branch);
}
