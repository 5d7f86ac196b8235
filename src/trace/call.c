/* call.c: see call.h. */
#include "trace/call.h"
#include "core/mem.h"
#include "trace/loop_nodes.h"
#include <inttypes.h>
#include <stdlib.h>

/* What result number j is. */
typedef struct result {
    bool array; /* argument `arg`, scattered into */
    size_t arg;
    uint32_t node; /* a value: so far; held */
} result;

typedef struct wiring {
    jitc_graph *graph;
    jitc_calls *calls;
    result *result;
    uint32_t *arg; /* arrays that were scattered into, so far: held; else 0 */
} wiring;

static uint32_t value_of(const wiring *w, size_t call, size_t j) {
    return w->calls->value[call * w->calls->results + j];
}

static const jitc_node *node_of(const wiring *w, size_t call, size_t j) {
    return jitc_node_at(w->graph, value_of(w, call, j));
}

/* Number of the argument that the array `start` is, or `args`. */
static size_t find_arg(const wiring *w, size_t call, uint32_t start) {
    size_t i = 0;
    while (i < w->calls->args && w->calls->branch[call]->phi[i] != start)
        ++i;
    return i;
}

/* Does callable `call` scatter into an argument and give it as result j? */
static jit_status find_array(wiring *w, size_t call, size_t j) {
    jitc_calls *c = w->calls;
    uint64_t lanes = c->lanes;
    bool fits = true;
    uint32_t v = value_of(w, call, j), start = jitc_loop_chain_start(w->graph, v, &lanes, &fits);
    size_t arg = start == v ? c->args : find_arg(w, call, start);
    if (arg == c->args)
        return JIT_OK;
    if (!fits)
        return jitc_fail(JIT_SIZE_MISMATCH,
                         "%s: callable %zu scatters other numbers of elements into argument %zu "
                         "than the index has (%" PRIu64 ")",
                         c->function, call, arg, c->lanes);
    result *r = &w->result[j];
    if (r->array && r->arg != arg)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: result %zu is argument %zu in one callable and argument %zu in "
                         "another, with scatters: it has to be the same one",
                         c->function, j, r->arg, arg);
    r->array = true;
    r->arg = arg;
    c->lanes = lanes;
    return JIT_OK;
}

/* The argument that all callables give as result j, or `args`. */
static size_t find_passed(const wiring *w, size_t j) {
    size_t arg = find_arg(w, 0, value_of(w, 0, j));
    for (size_t call = 1; call < w->calls->n; ++call)
        if (find_arg(w, call, value_of(w, call, j)) != arg)
            return w->calls->args;
    return arg;
}

/* Arguments of another size than the lanes are passed on as they are. What others give says how
 * many lanes there are. */
static void find_passed_arrays(wiring *w) {
    jitc_calls *c = w->calls;
    for (size_t j = 0; j < c->results; ++j) {
        bool passed = w->result[j].array || find_passed(w, j) != c->args;
        for (size_t call = 0; call < c->n && !passed; ++call)
            jitc_loop_join(&c->lanes, jitc_node_size(node_of(w, call, j)));
    }
    for (size_t j = 0; j < c->results; ++j) {
        size_t arg = find_passed(w, j);
        if (arg == c->args || w->result[j].array)
            continue;
        w->result[j].array = !jitc_loop_join(&c->lanes, jitc_node_size(node_of(w, 0, j)));
        w->result[j].arg = arg;
    }
}

static jit_status check_array(const wiring *w, size_t call, size_t j) {
    uint64_t lanes = 1;
    bool fits = true;
    uint32_t start = jitc_loop_chain_start(w->graph, value_of(w, call, j), &lanes, &fits);
    if (find_arg(w, call, start) == w->result[j].arg)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "%s: result %zu is argument %zu, scattered into, but callable %zu gives "
                     "something else; it has to give that argument as well",
                     w->calls->function, j, w->result[j].arg, call);
}

static jit_status check_value(wiring *w, size_t call, size_t j) {
    jitc_calls *c = w->calls;
    const jitc_node *first = node_of(w, 0, j), *n = node_of(w, call, j);
    const jitc_loop *l = c->branch[call];
    if (jitc_node_type(n) != jitc_node_type(first))
        return jitc_fail(JIT_TYPE_MISMATCH,
                         "%s: result %zu is %s from callable 0 and %s from callable %zu; convert "
                         "one with jit_cast()",
                         c->function, j, jitc_dtypes[jitc_node_type(first)].name,
                         jitc_dtypes[jitc_node_type(n)].name, call);
    if (jitc_node_backend(n) != l->backend ||
        (n->op != JITC_OP_literal && jitc_node_device(n) != l->device))
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: result %zu of callable %zu is on another device than the arguments",
                         c->function, j, call);
    if (w->result[j].array)
        return check_array(w, call, j);
    if (jitc_loop_join(&c->lanes, jitc_node_size(n)))
        return JIT_OK;
    return jitc_fail(JIT_SIZE_MISMATCH,
                     "%s: result %zu of callable %zu has %" PRIu64
                     " elements, others and the index have %" PRIu64 "; sizes must be equal, or 1",
                     c->function, j, call, jitc_node_size(n), c->lanes);
}

static jit_status check_results(wiring *w) {
    for (size_t call = 0; call < w->calls->n; ++call)
        for (size_t j = 0; j < w->calls->results; ++j)
            TRY(find_array(w, call, j));
    find_passed_arrays(w);
    for (size_t call = 0; call < w->calls->n; ++call)
        for (size_t j = 0; j < w->calls->results; ++j)
            TRY(check_value(w, call, j));
    return JIT_OK;
}

/* ---- one branch ---- */

/* Node *at, which is held, becomes `made`. */
static jit_status replace(jitc_graph *g, uint32_t *at, uint32_t made) {
    if (!made)
        return JIT_OUT_OF_MEMORY;
    jitc_graph_hold_locked(g, made);
    jitc_loop_let_go(g, at);
    *at = made;
    return JIT_OK;
}

/* The array goes on from the branches before. */
static void start_from(jitc_graph *g, uint32_t phi, uint32_t array) {
    jitc_loop_start_from(g, phi, array);
    *jitc_node_value(g, phi) |= JITC_STATE_ARRAY;
}

/* Append a `next` to *last, which is held, unless it is the loop. */
static jit_status add_next(wiring *w, const jitc_loop *l, uint32_t phi, uint32_t value,
                           uint32_t *last) {
    const jitc_node *n = jitc_node_at(w->graph, phi);
    jitc_loop_spec next = {.op = JITC_OP_next,
                           .type = jitc_node_type(n),
                           .size = jitc_node_size(n),
                           .a = phi,
                           .b = value,
                           .c = *last};
    return replace(w->graph, last, jitc_loop_node(w->graph, l, &next));
}

/* State of result j in a branch. It begins as what the branches before gave. *phi: held. */
static jit_status add_phi(wiring *w, const jitc_loop *l, size_t j, uint32_t *phi) {
    const jitc_node *n = node_of(w, 0, j);
    jitc_call zero = {.backend = l->backend, .device = l->device, .size = 1};
    jitc_loop_spec s = {.op = JITC_OP_phi,
                        .type = jitc_node_type(n),
                        .size = w->calls->lanes,
                        .b = l->node,
                        .bits = w->calls->args + j};
    if (!w->result[j].node)
        TRY(replace(w->graph, &w->result[j].node,
                    jitc_record_literal(w->graph, &zero, jitc_node_type(n), 0)));
    s.a = w->result[j].node;
    return replace(w->graph, phi, jitc_loop_node(w->graph, l, &s));
}

/* phi[j]: the state of result j, held; 0: an array that stays as it is. */
static jit_status add_states(wiring *w, size_t call, uint32_t *phi, uint32_t *last) {
    const jitc_loop *l = w->calls->branch[call];
    TRY(replace(w->graph, last, l->node));
    for (size_t j = 0; j < w->calls->results; ++j) {
        const result *r = &w->result[j];
        if (!r->array) {
            TRY(add_phi(w, l, j, &phi[j]));
        } else if (value_of(w, call, j) != l->phi[r->arg]) {
            TRY(replace(w->graph, &phi[j], l->phi[r->arg]));
            if (w->arg[r->arg])
                start_from(w->graph, phi[j], w->arg[r->arg]);
            else
                start_from(w->graph, phi[j], jitc_node_at(w->graph, phi[j])->a);
        }
        if (phi[j])
            TRY(add_next(w, l, phi[j], value_of(w, call, j), last));
    }
    return JIT_OK;
}

static jit_status add_results(wiring *w, const jitc_loop *l, const uint32_t *phi, uint32_t end) {
    for (size_t j = 0; j < w->calls->results; ++j) {
        result *r = &w->result[j];
        if (!phi[j])
            continue;
        const jitc_node *n = jitc_node_at(w->graph, phi[j]);
        jitc_loop_spec s = {.op = JITC_OP_result,
                            .type = jitc_node_type(n),
                            .size = jitc_node_size(n),
                            .a = end,
                            .b = phi[j],
                            .bits = j | (r->array ? JITC_STATE_ARRAY : 0)};
        TRY(replace(w->graph, r->array ? &w->arg[r->arg] : &r->node,
                    jitc_loop_node(w->graph, l, &s)));
    }
    return JIT_OK;
}

/* All lanes call it: its results are what it gave, and nobody else's count. */
static jit_status take_all(wiring *w, size_t call) {
    const jitc_loop *l = w->calls->branch[call];
    *jitc_node_value(w->graph, l->node) |= JITC_LOOP_ALWAYS;
    for (size_t j = 0; j < w->calls->results; ++j) {
        result *r = &w->result[j];
        uint32_t v = value_of(w, call, j);
        if (r->array && v == l->phi[r->arg] && w->arg[r->arg])
            continue; /* see shows_array() */
        TRY(replace(w->graph, r->array ? &w->arg[r->arg] : &r->node,
                    jitc_loop_resolved(w->graph, v)));
    }
    return JIT_OK;
}

/* Does what no lane calls scatter into a state of something around? That the state is an array may
 * show by nothing else. */
static bool shows_array(const wiring *w, size_t call) {
    const jitc_loop *l = w->calls->branch[call];
    for (size_t j = 0; j < w->calls->results; ++j) {
        const result *r = &w->result[j];
        if (r->array && value_of(w, call, j) != l->phi[r->arg] &&
            jitc_loop_is_state(w->graph, l->phi[r->arg]))
            return true;
    }
    return false;
}

/* Has each value that it gave an element for every lane? */
static bool gives_all(const wiring *w, size_t call) {
    for (size_t j = 0; j < w->calls->results; ++j)
        if (!w->result[j].array && jitc_node_size(node_of(w, call, j)) != w->calls->lanes)
            return false;
    return true;
}

static jit_status wire(wiring *w, size_t call, uint32_t *phi) {
    const jitc_loop *l = w->calls->branch[call];
    uint32_t last = 0, end = 0;
    const jitc_node *condition = jitc_node_at(w->graph, l->condition);
    bool nobody = condition->op == JITC_OP_literal && !*jitc_node_value(w->graph, l->condition);
    if (nobody && !shows_array(w, call))
        return JIT_OK;
    if (jitc_loop_is_always(w->graph, l) && gives_all(w, call))
        return take_all(w, call);
    jit_status status = add_states(w, call, phi, &last);
    jitc_loop_spec s = {
        .op = JITC_OP_end, .size = w->calls->lanes, .a = l->node, .b = l->condition, .c = last};
    if (status == JIT_OK)
        status = replace(w->graph, &end, jitc_loop_node(w->graph, l, &s));
    if (status == JIT_OK)
        status = add_results(w, l, phi, end);
    for (size_t j = 0; j < w->calls->results; ++j)
        jitc_loop_let_go(w->graph, &phi[j]);
    jitc_loop_let_go(w->graph, &last);
    jitc_loop_let_go(w->graph, &end);
    return status;
}

/* Nobody was called: 0, or the argument as it is. out[j]: held. */
static jit_status take_results(wiring *w, uint32_t *out) {
    jitc_calls *c = w->calls;
    for (size_t j = 0; j < c->results; ++j) {
        const result *r = &w->result[j];
        jitc_call zero = {
            .backend = c->branch[0]->backend, .device = c->branch[0]->device, .size = c->lanes};
        uint32_t i = r->array ? w->arg[r->arg] : r->node;
        if (!i && r->array)
            i = jitc_node_at(w->graph, c->branch[0]->phi[r->arg])->a;
        else if (!i)
            i = jitc_record_literal(w->graph, &zero, jitc_node_type(node_of(w, 0, j)), 0);
        TRY(replace(w->graph, &out[j], i));
    }
    return JIT_OK;
}

static jit_status close_locked(wiring *w, uint32_t *phi, uint32_t *out) {
    jit_status status = check_results(w);
    for (size_t call = 0; call < w->calls->n && status == JIT_OK; ++call)
        status = wire(w, call, phi);
    if (status == JIT_OK)
        status = take_results(w, out);
    for (size_t j = 0; j < w->calls->results; ++j)
        jitc_loop_let_go(w->graph, &w->result[j].node);
    for (size_t i = 0; i < w->calls->args; ++i)
        jitc_loop_let_go(w->graph, &w->arg[i]);
    return status;
}

static void release(jitc_graph *g, size_t n, uint32_t *nodes) {
    jitc_graph_lock(g);
    for (size_t i = 0; i < n; ++i)
        jitc_loop_let_go(g, &nodes[i]);
    jitc_graph_unlock(g);
}

jit_status jitc_calls_close(jitc_graph *g, jitc_calls *c, jit_var *results) {
    wiring w = {.graph = g, .calls = c};
    void *memory = NULL, *nodes = NULL;
    jit_status status = jitc_calloc(c->results + 1, sizeof *w.result, &memory);
    if (status == JIT_OK)
        status = jitc_calloc(2 * c->results + c->args + 1, sizeof *w.arg, &nodes);
    if (status == JIT_OK) {
        uint32_t *out = nodes;
        w.result = memory;
        w.arg = out + 2 * c->results;
        jitc_graph_lock(g);
        status = close_locked(&w, out + c->results, out);
        jitc_graph_unlock(g);
        if (status == JIT_OK)
            status = jitc_loop_give(g, c->results, out, results);
        release(g, c->results, out);
    }
    release(g, c->n * c->results, c->value);
    free(nodes);
    free(memory);
    return status;
}
