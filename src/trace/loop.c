/* loop.c: recording loops and branches; see loop.h. */
#include "core/mem.h"
#include "ir/program.h"
#include "trace/loop_nodes.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- nodes ---- */

uint32_t jitc_loop_node(jitc_graph *g, const jitc_loop *l, const jitc_loop_spec *s) {
    jitc_key k = {.head =
                      jitc_head(s->op, (unsigned) s->type | (unsigned) l->backend << 4, s->size),
                  .a = s->a,
                  .b = s->b,
                  .c = s->c,
                  .cold = true,
                  .device = (uint8_t) l->device,
                  .bits = s->bits};
    return jitc_node_new(g, &k, JITC_NODE_TABLED);
}

static void hold(jitc_graph *g, uint32_t i) {
    jitc_node_at(g, i)->internal++;
}

void jitc_loop_let_go(jitc_graph *g, uint32_t *i) {
    if (*i)
        jitc_graph_release_locked(g, *i);
    *i = 0;
}

void jitc_loop_start_from(jitc_graph *g, uint32_t phi, uint32_t start) {
    jitc_node *n = jitc_node_at(g, phi);
    uint32_t before = n->a;
    hold(g, start);
    n->a = start;
    jitc_graph_release_locked(g, before);
}

void jitc_loop_abandon_locked(jitc_graph *g, jitc_loop *l) {
    for (size_t i = 0; i < l->count; ++i)
        jitc_loop_let_go(g, &l->phi[i]);
    jitc_loop_let_go(g, &l->condition);
    jitc_loop_let_go(g, &l->end);
    jitc_loop_let_go(g, &l->node);
}

static void abandon(jitc_graph *g, jitc_loop *l) {
    jitc_graph_lock(g);
    jitc_loop_abandon_locked(g, l);
    jitc_graph_unlock(g);
}

jit_status jitc_loop_create(size_t count, jitc_loop **out) {
    jitc_loop *l = NULL;
    TRY(jitc_calloc(1, sizeof *l + count * (sizeof *l->phi + sizeof *l->fate), (void **) &l));
    l->phi = (uint32_t *) (void *) (l + 1);
    l->fate = (uint8_t *) (l->phi + count);
    l->count = count;
    *out = l;
    return JIT_OK;
}

void jitc_loop_destroy(jitc_graph *g, jitc_loop *l) {
    if (l && g)
        abandon(g, l);
    free(l);
}

/* ---- what is checked ---- */

static const char *type_name(const jitc_node *n) {
    return jitc_dtypes[jitc_node_type(n)].name;
}

static jit_status find(jitc_graph *g, const char *function, size_t number, jit_var v,
                       uint32_t *out) {
    *out = v & JITC_INDEX_MASK;
    if (likely(jitc_node_alive(jitc_node_at(g, *out), v)))
        return JIT_OK;
    if (!v)
        return jitc_fail(JIT_INVALID_HANDLE, "%s: state %zu is 0 (no variable)", function, number);
    return jitc_fail(JIT_INVALID_HANDLE,
                     "%s: state %zu is no live variable (handle 0x%08" PRIx32 ")", function, number,
                     v);
}

/* Everything is on one backend, and on one device but for literals. */
static jit_status check_place(const char *function, const jitc_loop *l, const char *what,
                              const jitc_node *n) {
    if (jitc_node_backend(n) != l->backend)
        return jitc_fail(JIT_TYPE_MISMATCH, "%s: %s belongs to another backend than the loop",
                         function, what);
    if (n->op != JITC_OP_literal && jitc_node_device(n) != l->device)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: %s is on device %d, the loop on device %d; copy one of them",
                         function, what, jitc_node_device(n), l->device);
    return JIT_OK;
}

bool jitc_loop_join(uint64_t *size, uint64_t other) {
    if (*size == 1)
        *size = other;
    return other == 1 || other == *size;
}

/* ---- open ---- */

/* The loop is where its states are; literals are anywhere. */
static jit_status find_states(jitc_graph *g, const char *function, jitc_loop *l,
                              const jit_var *state) {
    bool placed = l->condition && jitc_node_at(g, l->condition)->op != JITC_OP_literal;
    for (size_t i = 0; i < l->count; ++i) {
        uint32_t at;
        char what[32];
        TRY(find(g, function, i, state[i], &at));
        const jitc_node *n = jitc_node_at(g, at);
        if (i == 0 && !l->condition)
            l->backend = jitc_node_backend(n);
        if (!placed)
            l->device = jitc_node_device(n);
        placed |= n->op != JITC_OP_literal;
        snprintf(what, sizeof what, "state %zu", i);
        TRY(check_place(function, l, what, n));
    }
    return JIT_OK;
}

static jit_status make_phis(jitc_graph *g, jitc_loop *l, const jit_var *state) {
    jitc_loop_spec s = {.op = JITC_OP_loop,
                        .size = 1,
                        .bits = (l->once ? JITC_AUX_ONCE : 0u) |
                                (l->beside ? JITC_LOOP_BESIDE : 0u) |
                                (uint64_t) l->depth << JITC_LOOP_DEPTH};
    if (!(l->node = jitc_loop_node(g, l, &s)))
        return JIT_OUT_OF_MEMORY;
    hold(g, l->node);
    for (size_t i = 0; i < l->count; ++i) {
        uint32_t start = state[i] & JITC_INDEX_MASK;
        const jitc_node *n = jitc_node_at(g, start);
        jitc_loop_spec phi = {.op = JITC_OP_phi,
                              .type = jitc_node_type(n),
                              .size = jitc_node_size(n),
                              .a = start,
                              .b = l->node,
                              .bits = i};
        if (!(l->phi[i] = jitc_loop_node(g, l, &phi)))
            return JIT_OUT_OF_MEMORY;
        hold(g, l->phi[i]);
    }
    return JIT_OK;
}

jit_status jitc_loop_give(jitc_graph *g, size_t n, const uint32_t *nodes, jit_var *out) {
    for (size_t i = 0; i < n; ++i) {
        jitc_lock_graph(g);
        out[i] = jitc_record_finish(g, nodes[i]);
        if (out[i])
            continue;
        while (i-- > 0)
            jitc_trace_unref(g, out[i]);
        return JIT_OUT_OF_MEMORY;
    }
    return JIT_OK;
}

static void clear(size_t n, jit_var *state) {
    for (size_t i = 0; i < n; ++i)
        state[i] = 0;
}

jit_status jitc_loop_open(jitc_graph *g, const char *function, jitc_loop *l, jit_var *state) {
    l->function = function;
    jitc_graph_lock(g);
    jit_status status = find_states(g, function, l, state);
    if (status == JIT_OK)
        status = make_phis(g, l, state);
    jitc_graph_unlock(g);
    if (status == JIT_OK)
        status = jitc_loop_give(g, l->count, l->phi, state);
    if (status != JIT_OK) {
        abandon(g, l);
        clear(l->count, state);
    }
    return status;
}

/* ---- the condition ---- */

static jit_status set_condition_locked(jitc_graph *g, const char *function, jitc_loop *l,
                                       jit_var v) {
    uint32_t i = v & JITC_INDEX_MASK;
    const jitc_node *n = jitc_node_at(g, i);
    if (l->condition)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: the loop has a condition already", function);
    if (!v)
        return jitc_fail(JIT_INVALID_HANDLE, "%s: the condition is 0 (no variable)", function);
    if (!jitc_node_alive(n, v))
        return jitc_fail(JIT_INVALID_HANDLE,
                         "%s: the condition is no live variable (handle 0x%08" PRIx32 ")", function,
                         v);
    if (jitc_node_type(n) != JIT_bool)
        return jitc_fail(JIT_TYPE_MISMATCH, "%s: the condition has type %s; it must be bool",
                         function, type_name(n));
    if (l->node)
        TRY(check_place(function, l, "the condition", n));
    if (!l->once && n->op == JITC_OP_literal && *jitc_node_value(g, i))
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: the condition is always true, so the loop would never end; compute "
                         "it from the variables of the loop",
                         function);
    l->backend = jitc_node_backend(n);
    if (n->op != JITC_OP_literal || !l->node)
        l->device = jitc_node_device(n);
    l->condition = i;
    hold(g, i);
    return JIT_OK;
}

jit_status jitc_loop_set_condition(jitc_graph *g, const char *function, jitc_loop *l, jit_var v) {
    jitc_graph_lock(g);
    jit_status status = set_condition_locked(g, function, l, v);
    jitc_graph_unlock(g);
    return status;
}

/* ---- close ---- */

/* What becomes of a state. */
typedef enum fate { SAME, LANES, ARRAY } fate;

typedef struct closing {
    jitc_graph *graph;
    const char *function;
    jitc_loop *loop;
    uint64_t lanes;
    uint32_t *value; /* next values; then results, held */
} closing;

uint32_t jitc_loop_resolved(const jitc_graph *g, uint32_t i) {
    const jitc_node *n = jitc_node_at(g, i);
    while (n->op == JITC_OP_phi && *jitc_node_value(g, n->b) & JITC_LOOP_ALWAYS) {
        i = n->a;
        n = jitc_node_at(g, i);
    }
    return i;
}

bool jitc_loop_is_state(const jitc_graph *g, uint32_t phi) {
    uint32_t start = jitc_loop_resolved(g, jitc_node_at(g, phi)->a);
    return jitc_node_at(g, start)->op == JITC_OP_phi;
}

uint32_t jitc_loop_chain_start(const jitc_graph *g, uint32_t i, uint64_t *lanes, bool *fits) {
    for (;;) {
        const jitc_node *n = jitc_node_at(g, i);
        if (jitc_ops[n->op].form == JITC_FORM_SCATTER) {
            *fits &= jitc_loop_join(lanes, jitc_node_size(jitc_node_at(g, n->b))) &&
                     jitc_loop_join(lanes, jitc_node_size(jitc_node_at(g, *jitc_node_c(g, i))));
            i = n->a;
        } else if (n->op == JITC_OP_result && *jitc_node_value(g, i) & JITC_STATE_ARRAY) {
            *fits &= jitc_loop_join(lanes, jitc_node_size(jitc_node_at(g, n->a)));
            i = jitc_node_at(g, n->b)->a;
        } else {
            return i;
        }
        i = jitc_loop_resolved(g, i);
    }
}

static jit_status find_fate(closing *c, size_t i) {
    uint64_t lanes = c->lanes;
    bool fits = true;
    uint32_t phi = c->loop->phi[i],
             start = jitc_loop_chain_start(c->graph, c->value[i], &lanes, &fits);
    c->loop->fate[i] = c->value[i] == phi ? SAME : LANES;
    if (start == c->value[i])
        return JIT_OK;
    for (size_t k = 0; k < c->loop->count; ++k)
        if (start == c->loop->phi[k] && k != i)
            return jitc_fail(
                JIT_INVALID_ARGUMENT,
                "%s: state %zu becomes the array that was state %zu, with scatters: an "
                "array that is scattered into has to stay in its place",
                c->function, i, k);
    if (start != phi)
        return JIT_OK;
    if (!fits)
        return jitc_fail(JIT_SIZE_MISMATCH,
                         "%s: what is scattered into state %zu has other numbers of elements than "
                         "the rest of the loop (%" PRIu64 "); they must be equal, or 1",
                         c->function, i, c->lanes);
    c->loop->fate[i] = ARRAY;
    c->lanes = lanes;
    return JIT_OK;
}

static jit_status check_state(closing *c, size_t i, jit_var v) {
    TRY(find(c->graph, c->function, i, v, &c->value[i]));
    const jitc_node *n = jitc_node_at(c->graph, c->value[i]);
    const jitc_node *phi = jitc_node_at(c->graph, c->loop->phi[i]);
    char what[32];
    snprintf(what, sizeof what, "state %zu", i);
    TRY(check_place(c->function, c->loop, what, n));
    if (jitc_node_type(n) != jitc_node_type(phi))
        return jitc_fail(JIT_TYPE_MISMATCH,
                         "%s: state %zu has type %s at the start and %s at the end; convert it "
                         "with jit_cast()",
                         c->function, i, type_name(phi), type_name(n));
    return find_fate(c, i);
}

static jit_status check_size(closing *c, size_t i, uint64_t size) {
    if (jitc_loop_join(&c->lanes, size))
        return JIT_OK;
    return jitc_fail(JIT_SIZE_MISMATCH,
                     "%s: state %zu has %" PRIu64
                     " elements, but other parts of the loop have %" PRIu64
                     "; sizes must be equal, or 1, but for arrays that are only indexed",
                     c->function, i, size, c->lanes);
}

static jit_status check_states(closing *c, size_t n, const jit_var *state) {
    const jitc_loop *l = c->loop;
    if (!l->condition)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "%s: the loop has no condition; call jit_loop_condition() before",
                         c->function);
    if (n != l->count)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %zu states, but %s() had %zu", c->function,
                         n - l->stepwise, l->function, l->count - l->stepwise);
    jitc_loop_join(&c->lanes, jitc_node_size(jitc_node_at(c->graph, l->condition)));
    for (size_t i = 0; i < n; ++i)
        TRY(check_state(c, i, state[i]));
    for (size_t i = 0; i < n; ++i)
        if (c->loop->fate[i] == LANES) {
            TRY(check_size(c, i, jitc_node_size(jitc_node_at(c->graph, l->phi[i]))));
            TRY(check_size(c, i, jitc_node_size(jitc_node_at(c->graph, c->value[i]))));
        }
    return JIT_OK;
}

/* Size of the result of a state, and of its `next`. */
static uint64_t result_size(const closing *c, size_t i) {
    return c->loop->fate[i] == ARRAY ? jitc_node_size(jitc_node_at(c->graph, c->loop->phi[i]))
                                     : c->lanes;
}

static uint32_t make_end(closing *c) {
    jitc_graph *g = c->graph;
    const jitc_loop *l = c->loop;
    uint32_t last = l->node, made;
    for (size_t i = 0; i < l->count; ++i) {
        if (c->loop->fate[i] == SAME)
            continue;
        jitc_loop_spec next = {.op = JITC_OP_next,
                               .type = jitc_node_type(jitc_node_at(g, l->phi[i])),
                               .size = result_size(c, i),
                               .a = l->phi[i],
                               .b = c->value[i],
                               .c = last};
        made = jitc_loop_node(g, l, &next);
        if (!made)
            goto fail;
        last = made;
    }
    jitc_loop_spec end = {
        .op = JITC_OP_end, .size = c->lanes, .a = l->node, .b = l->condition, .c = last};
    made = jitc_loop_node(g, l, &end);
    if (made)
        return made;
fail:
    if (last != l->node)
        jitc_node_settle(g, last); /* it keeps those before it */
    return 0;
}

/* c->value[i]: the result of each state, held. */
static jit_status make_results(closing *c, uint32_t end) {
    jitc_graph *g = c->graph;
    const jitc_loop *l = c->loop;
    for (size_t i = 0; i < l->count; ++i) {
        jitc_node *phi = jitc_node_at(g, l->phi[i]);
        uint64_t array = c->loop->fate[i] == ARRAY ? JITC_STATE_ARRAY : 0;
        jitc_loop_spec result = {.op = JITC_OP_result,
                                 .type = jitc_node_type(phi),
                                 .size = result_size(c, i),
                                 .a = end,
                                 .b = l->phi[i],
                                 .bits = i | array};
        uint32_t made = c->loop->fate[i] == SAME || !end ? phi->a : jitc_loop_node(g, l, &result);
        if (!made) {
            while (i-- > 0)
                jitc_loop_let_go(g, &c->value[i]);
            return JIT_OUT_OF_MEMORY;
        }
        *jitc_node_value(g, l->phi[i]) |= array;
        c->value[i] = made;
        hold(g, made);
    }
    return JIT_OK;
}

/* Can nodes stand for the results as they are? Not if they have one element for all lanes. */
static bool have_sizes(const closing *c, const uint32_t *nodes, bool started) {
    for (size_t i = 0; i < c->loop->count; ++i) {
        uint32_t node = started ? nodes[i] : jitc_node_at(c->graph, nodes[i])->a;
        if (c->loop->fate[i] == LANES && jitc_node_size(jitc_node_at(c->graph, node)) != c->lanes)
            return false;
    }
    return true;
}

/* Do only the scatters inside tell that a state of something around is an array? What jit_switch()
 * gives lanes that call nothing depends on it. */
static bool shows_array(const closing *c) {
    for (size_t i = 0; i < c->loop->count; ++i)
        if (c->loop->fate[i] == ARRAY && jitc_loop_is_state(c->graph, c->loop->phi[i]))
            return true;
    return false;
}

/* Does no lane go in, as far as is known already? */
static bool is_empty(const closing *c) {
    const jitc_node *n = jitc_node_at(c->graph, c->loop->condition);
    if (n->op == JITC_OP_literal && !*jitc_node_value(c->graph, c->loop->condition))
        return have_sizes(c, c->loop->phi, false) && !shows_array(c);
    for (size_t i = 0; i < c->loop->count - c->loop->stepwise; ++i)
        if (c->loop->fate[i] != SAME)
            return false;
    return true;
}

bool jitc_loop_is_always(const jitc_graph *g, const jitc_loop *l) {
    return l->once && jitc_node_at(g, l->condition)->op == JITC_OP_literal &&
           *jitc_node_value(g, l->condition);
}

/* `end` is held. */
static void keep_end(closing *c, uint32_t end) {
    jitc_loop *l = c->loop;
    *jitc_node_value(c->graph, l->node) |= JITC_AUX_ONCE;
    l->end = end;
}

static jit_status close_locked(closing *c, size_t n, const jit_var *state) {
    uint32_t end = 0;
    TRY(check_states(c, n, state));
    if (jitc_loop_is_always(c->graph, c->loop) && have_sizes(c, c->value, true)) {
        *jitc_node_value(c->graph, c->loop->node) |= JITC_LOOP_ALWAYS;
        for (size_t i = 0; i < n; ++i) {
            c->value[i] = jitc_loop_resolved(c->graph, c->value[i]);
            hold(c->graph, c->value[i]);
        }
        return JIT_OK;
    }
    if (is_empty(c))
        return make_results(c, 0);
    if (!(end = make_end(c)))
        return JIT_OUT_OF_MEMORY;
    hold(c->graph, end);
    jit_status status = make_results(c, end);
    if (status == JIT_OK && c->loop->stepwise)
        keep_end(c, end);
    else
        jitc_graph_release_locked(c->graph, end);
    return status;
}

static jit_status give_results(closing *c, jit_var *state) {
    size_t n = c->loop->count;
    jit_status status = jitc_loop_give(c->graph, n, c->value, state);
    jitc_graph_lock(c->graph);
    for (size_t i = 0; i < n; ++i)
        jitc_loop_let_go(c->graph, &c->value[i]);
    jitc_graph_unlock(c->graph);
    return status;
}

jit_status jitc_loop_close(jitc_graph *g, const char *function, jitc_loop *l, size_t n,
                           jit_var *state) {
    closing c = {.graph = g, .function = function, .loop = l, .lanes = 1};
    void *memory = NULL;
    jit_status status = jitc_calloc(l->count + 1, sizeof *c.value, &memory);
    if (status == JIT_OK) {
        c.value = memory;
        jitc_graph_lock(g);
        status = close_locked(&c, n, state);
        jitc_graph_unlock(g);
        if (status == JIT_OK)
            status = give_results(&c, state);
    }
    free(memory);
    if (status != JIT_OK || !l->end)
        abandon(g, l);
    if (status != JIT_OK)
        clear(n, state);
    return status;
}

/* ---- one iteration at a time ---- */

static jit_status step_locked(closing *c, const jit_var *state) {
    const jitc_loop *l = c->loop;
    for (size_t i = 0; i < l->count; ++i)
        if (c->loop->fate[i] != SAME) {
            TRY(find(c->graph, c->function, i, state[i], &c->value[i]));
            jitc_loop_start_from(c->graph, l->phi[i], c->value[i]);
        }
    return make_results(c, l->end);
}

jit_status jitc_loop_step(jitc_graph *g, jitc_loop *l, jit_var *state) {
    closing c = {.graph = g, .function = l->function, .loop = l};
    void *memory = NULL;
    TRY(jitc_calloc(l->count, sizeof *c.value, &memory));
    c.value = memory;
    jitc_graph_lock(g);
    c.lanes = jitc_node_size(jitc_node_at(g, l->end));
    jit_status status = step_locked(&c, state);
    jitc_graph_unlock(g);
    if (status == JIT_OK)
        status = give_results(&c, state);
    free(memory);
    return status;
}

/* ---- branches ---- */

static uint32_t negate(jitc_graph *g, uint32_t i) {
    jitc_node *n = jitc_node_at(g, i);
    jitc_call call = {.op = JITC_OP_not,
                      .count = 1,
                      .index = {i},
                      .node = {n},
                      .type = JIT_bool,
                      .result = JIT_bool,
                      .backend = jitc_node_backend(n),
                      .device = jitc_node_device(n),
                      .size = jitc_node_size(n)};
    uint32_t out;
    return jitc_simplify(g, &call, &out) ? out : jitc_record_node(g, &call);
}

jit_status jitc_loop_otherwise(jitc_graph *g, const char *function, jitc_loop *l, size_t n,
                               jit_var *state) {
    void *memory = NULL;
    jitc_graph_lock(g);
    uint32_t other = negate(g, l->condition);
    if (other)
        hold(g, other);
    jitc_graph_unlock(g);
    jit_status status = other ? jitc_loop_close(g, function, l, n, state) : JIT_OUT_OF_MEMORY;
    if (status == JIT_OK)
        status = jitc_calloc(n + 1, sizeof *state, &memory);
    jit_var *first = memory;
    if (status == JIT_OK) {
        memcpy(first, state, n * sizeof *state);
        l->condition = other;
        l->beside = true;
        other = 0;
        status = jitc_loop_open(g, l->function, l, state);
        for (size_t i = 0; i < n; ++i)
            jitc_trace_unref(g, first[i]);
    }
    free(memory);
    if (other) {
        jitc_graph_lock(g);
        jitc_loop_let_go(g, &other);
        jitc_graph_unlock(g);
    }
    return status;
}
