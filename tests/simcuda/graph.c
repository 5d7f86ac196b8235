/* graph.c: graphs of kernels and of captured work.  Layer: tests.
 *
 * An executable graph is run as one piece of work: its nodes one after another, in an order that
 * their edges allow and the seed decides. Work that was captured is kept and run at every launch; a
 * host function that was, holds up the whole device. */
#include "order.h"
#include <stdlib.h>
#include <string.h>

/** Captured work: shared by a node, by executable graphs, and by launches that are queued. */
typedef struct captured {
    sim_work *work;
    unsigned users;
} captured;

typedef struct step {
    captured *work; /* NULL: it is a kernel */
    sim_call call;
} step;

typedef struct sim_node {
    sim_object object;
    step step;
    sim_nodes before;
} sim_node;

struct sim_graph {
    sim_object object;
    sim_node **nodes; /* each after those in its `before` */
    size_t count;
};

typedef struct sim_exec {
    sim_object object;
    sim_graph *graph; /* whose nodes it knows; may have been destroyed */
    size_t count;     /* nodes that the graph had */
    step *steps;
    sim_point last;   /* its launches run one after another */
    sim_clock *clock; /* of the last one */
} sim_exec;

typedef struct running {
    sim_work work;
    const sim_graph *graph;
    size_t count;
    step *steps;
} running;

/* ---- steps ---- */

static void drop_captured(captured *c) {
    if (--c->users > 0)
        return;
    sim_work_free(c->work);
    free(c);
}

static step copy_step(const step *from) {
    step to = *from;
    if (to.work)
        to.work->users++;
    else
        sim_call_copy(&from->call, &to.call);
    return to;
}

static void finish_step(step *s) {
    if (s->work)
        drop_captured(s->work);
    else
        sim_call_finish(&s->call);
    *s = (step) {0};
}

static CUresult run_step(const step *s) {
    if (!s->work)
        return sim_call_run(&s->call);
    sim_work *w = s->work->work;
    if (w->function) {
        sim_set_calling(true);
        w->function(w->argument);
        sim_set_calling(false);
    }
    return w->run ? w->run(w) : CUDA_SUCCESS;
}

static const char *name_of(const step *s) {
    return s->work ? s->work->work->what : NULL;
}

static step *copy_steps(const step *from, size_t count) {
    step *to = sim_new((count + 1) * sizeof *to);
    for (size_t i = 0; i < count; i++)
        to[i] = copy_step(&from[i]);
    return to;
}

static void finish_steps(step *steps, size_t count) {
    for (size_t i = 0; i < count; i++)
        finish_step(&steps[i]);
    free(steps);
}

/* ---- graphs ---- */

sim_graph *sim_graph_create(sim_context *c) {
    return sim_object_create(SIM_GRAPH, sizeof(sim_graph), c);
}

void sim_graph_destroy(sim_graph *g) {
    for (size_t i = 0; i < g->count; i++) {
        finish_step(&g->nodes[i]->step);
        sim_object_end(g->nodes[i]);
    }
    sim_object_end(g); /* edges stay, for executables */
}

CUgraphNode sim_graph_node(const sim_graph *g, size_t i) {
    return sim_object_handle(g->nodes[i]);
}

static size_t add(sim_graph *g, step s, sim_nodes before) {
    sim_node *n = sim_object_create(SIM_NODE, sizeof *n, g->object.context);
    sim_node **grown = realloc(g->nodes, (g->count + 1) * sizeof *grown);
    if (!grown)
        abort();
    g->nodes = grown;
    g->nodes[g->count] = n;
    n->object.implicit = true;
    n->step = s;
    n->before = before;
    return g->count++;
}

size_t sim_graph_add(sim_graph *g, sim_work *w, sim_nodes before) {
    step s = {0};
    if (!sim_launch_take(w, &s.call)) {
        s.work = sim_new(sizeof *s.work);
        *s.work = (captured) {w, 1};
    }
    return add(g, s, before);
}

bool sim_graph_precedes(const sim_graph *g, size_t node, const sim_nodes *ends) {
    bool *reached = sim_new(g->count + 1);
    for (size_t i = 0; i < ends->count; i++)
        reached[ends->items[i]] = true;
    for (size_t i = g->count; i-- > node + 1;)
        for (size_t j = 0; reached[i] && j < g->nodes[i]->before.count; j++)
            reached[g->nodes[i]->before.items[j]] = true;
    bool precedes = reached[node];
    free(reached);
    return precedes;
}

CUresult sim_cuGraphCreate(CUgraph *graph, unsigned flags) {
    if (!graph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = sim_object_handle(sim_graph_create(sim_current()));
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroy(CUgraph graph) {
    sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_graph_destroy(g);
    return CUDA_SUCCESS;
}

/** The place in `g` of a node, or g->count and a fault. */
static size_t place(const sim_graph *g, CUgraphNode node) {
    const sim_node *n = sim_object_find(node, SIM_NODE);
    for (size_t i = 0; n && i < g->count; i++)
        if (g->nodes[i] == n)
            return i;
    if (n)
        sim_fault("node %u is of another graph", n->object.number);
    return g->count;
}

static bool read_edges(sim_graph *g, const CUgraphNode *before, size_t count, size_t *out) {
    for (size_t i = 0; i < count; i++) {
        out[i] = place(g, before[i]);
        if (out[i] == g->count)
            return false;
    }
    return true;
}

CUresult sim_cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *before,
                                     size_t count, const CUDA_KERNEL_NODE_PARAMS *params) {
    step s = {0};
    if (!node || !params || (count > 0 && !before))
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t *edges = sim_new((count + 1) * sizeof *edges);
    CUresult result = read_edges(g, before, count, edges) ? sim_call_init(params, &s.call)
                                                          : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
        free(edges);
        return result;
    }
    *node = sim_graph_node(g, add(g, s, (sim_nodes) {edges, count}));
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count) {
    const sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!g || !count)
        return g ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; nodes && i < *count; i++)
        nodes[i] = i < g->count ? sim_graph_node(g, i) : NULL;
    if (!nodes || *count > g->count)
        *count = g->count;
    return CUDA_SUCCESS;
}

/* ---- executable graphs ---- */

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph,
                                         unsigned long long flags) {
    if (!exec || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_exec *e = sim_object_create(SIM_EXEC, sizeof *e, sim_current());
    e->graph = g;
    e->count = g->count;
    e->steps = sim_new((g->count + 1) * sizeof *e->steps);
    for (size_t i = 0; i < g->count; i++)
        e->steps[i] = copy_step(&g->nodes[i]->step);
    *exec = sim_object_handle(e);
    return CUDA_SUCCESS;
}

/** Is the module of a step's kernel still loaded? */
static bool is_loaded(const step *s) {
    return s->work || s->call.kernel->object.life == SIM_ALIVE;
}

/* Launches that are queued keep what they were launched with. */
CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS *params) {
    step changed = {0};
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    sim_exec *e = sim_object_find(exec, SIM_EXEC);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t i = place(e->graph, node);
    if (i >= e->count || e->steps[i].work)
        return CUDA_ERROR_INVALID_VALUE;
    /* A real driver (13.0) does not see that a function has changed which has got the handle of the
     * one before it, and runs what was unloaded. */
    if (!is_loaded(&e->steps[i]))
        sim_fault("a node of executable graph %u is set anew after the module of its kernel was "
                  "unloaded",
                  e->object.number);
    CUresult result = sim_call_init(params, &changed.call);
    if (result != CUDA_SUCCESS)
        return result;
    finish_step(&e->steps[i]);
    e->steps[i] = changed;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec exec) {
    sim_exec *e = sim_object_find(exec, SIM_EXEC);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    finish_steps(e->steps, e->count);
    e->steps = NULL;
    sim_object_end(e);
    return CUDA_SUCCESS;
}

/* ---- running ---- */

/** May node `i` run, after those in `ran`? */
static bool is_ready(const sim_graph *g, size_t i, const bool *ran) {
    const sim_nodes *before = &g->nodes[i]->before;
    for (size_t j = 0; j < before->count; j++)
        if (!ran[before->items[j]])
            return false;
    return !ran[i];
}

static size_t choose(const running *r, const bool *ran) {
    size_t chosen = r->count;
    uint64_t ready = 0;
    for (size_t i = 0; i < r->count; i++)
        if (is_ready(r->graph, i, ran) && (ready++ == 0 || sim_random() % ready == 1))
            chosen = i;
    return chosen;
}

/** Bits of the nodes that come before node `i`: those before its neighbours, which ran, and they.
 */
static uint64_t *find_before(const sim_graph *g, size_t i, uint64_t *before, size_t words) {
    uint64_t *own = before + i * words;
    for (size_t j = 0; j < g->nodes[i]->before.count; j++) {
        size_t neighbour = g->nodes[i]->before.items[j];
        for (size_t k = 0; k < words; k++)
            own[k] |= before[neighbour * words + k];
        own[neighbour / 64] |= (uint64_t) 1 << neighbour % 64;
    }
    return own;
}

static CUresult run(sim_work *w) {
    const running *r = (const running *) w;
    CUresult result = CUDA_SUCCESS;
    size_t words = r->count / 64 + 1;
    bool *ran = sim_new(r->count + 1);
    uint64_t *before = sim_new((r->count + 1) * words * sizeof *before);
    for (size_t n = 0; n < r->count && result == CUDA_SUCCESS; n++) {
        size_t i = choose(r, ran);
        ran[i] = true;
        if (w->stream) /* not as a node of another graph: all of it is that node */
            sim_order_node(i, find_before(r->graph, i, before, words), name_of(&r->steps[i]));
        result = run_step(&r->steps[i]);
    }
    if (w->stream)
        sim_order_node(SIZE_MAX, NULL, NULL);
    free(before);
    free(ran);
    return result;
}

static void end(sim_work *w) {
    running *r = (running *) w;
    finish_steps(r->steps, r->count);
}

/** Are the modules of all kernels still loaded? */
static bool is_launchable(const sim_exec *e) {
    for (size_t i = 0; i < e->count; i++)
        if (!is_loaded(&e->steps[i])) {
            sim_fault("executable graph %u is launched after the module of one of its kernels was "
                      "unloaded",
                      e->object.number);
            return false;
        }
    return true;
}

CUresult sim_cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    sim_stream *s = sim_stream_find(stream);
    sim_exec *e = sim_object_here(exec, SIM_EXEC);
    if (!s || !e || !is_launchable(e))
        return CUDA_ERROR_INVALID_HANDLE;
    running *r = sim_work_create(sizeof *r, "cuGraphLaunch", run);
    r->work.end = end;
    r->graph = e->graph;
    r->count = e->count;
    r->steps = copy_steps(e->steps, e->count);
    sim_work_after(&r->work, e->last);
    if (s->capture) {
        sim_submit(&r->work, s);
        return CUDA_SUCCESS;
    }
    sim_order_after(s, e->clock);
    e->last = sim_submit(&r->work, s);
    sim_order_keep(&e->clock, s);
    return CUDA_SUCCESS;
}
