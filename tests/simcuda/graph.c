/* graph.c: graphs of kernels.  Layer: tests.
 *
 * An executable graph is run as one piece of work: its kernels one after another, in an order that
 * their edges allow and the seed decides. */
#include "state.h"
#include <stdlib.h>
#include <string.h>

typedef struct sim_graph sim_graph;

typedef struct sim_node {
    sim_object object;
    sim_graph *graph;
    sim_call call;
    size_t *before; /* numbers in the graph */
    size_t count;
} sim_node;

struct sim_graph {
    sim_object object;
    sim_node **nodes;
    size_t count;
};

typedef struct sim_exec {
    sim_object object;
    sim_graph *graph; /* whose nodes it knows; may have been destroyed */
    size_t count;     /* nodes that the graph had */
    sim_call *calls;
    sim_point last; /* its launches run one after another */
} sim_exec;

typedef struct running {
    sim_work work;
    const sim_graph *graph;
    size_t count;
    sim_call *calls;
} running;

CUresult sim_cuGraphCreate(CUgraph *graph, unsigned flags) {
    if (!graph || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    *graph = sim_object_handle(sim_object_create(SIM_GRAPH, sizeof(sim_graph), sim_current()));
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroy(CUgraph graph) {
    sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < g->count; i++) {
        sim_call_finish(&g->nodes[i]->call);
        sim_object_end(g->nodes[i]);
    }
    sim_object_end(g); /* edges stay, for executables */
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
    sim_call call;
    if (!node || !params || (count > 0 && !before))
        return CUDA_ERROR_INVALID_VALUE;
    sim_graph *g = sim_object_find(graph, SIM_GRAPH);
    if (!g)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t *edges = sim_new((count + 1) * sizeof *edges);
    CUresult result = read_edges(g, before, count, edges) ? sim_call_init(params, &call)
                                                          : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS) {
        free(edges);
        return result;
    }
    sim_node *n = sim_object_create(SIM_NODE, sizeof *n, g->object.context);
    sim_node **grown = realloc(g->nodes, (g->count + 1) * sizeof *grown);
    if (!grown)
        abort();
    g->nodes = grown;
    g->nodes[g->count++] = n;
    n->object.implicit = true;
    n->graph = g;
    n->call = call;
    n->before = edges;
    n->count = count;
    *node = sim_object_handle(n);
    return CUDA_SUCCESS;
}

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
    e->calls = sim_new((g->count + 1) * sizeof *e->calls);
    for (size_t i = 0; i < g->count; i++)
        sim_call_copy(&g->nodes[i]->call, &e->calls[i]);
    *exec = sim_object_handle(e);
    return CUDA_SUCCESS;
}

/* Launches that are queued keep what they were launched with. */
CUresult sim_cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS *params) {
    sim_call call;
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    sim_exec *e = sim_object_find(exec, SIM_EXEC);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    size_t i = place(e->graph, node);
    if (i >= e->count)
        return CUDA_ERROR_INVALID_VALUE;
    /* A real driver (13.0) does not see that a function has changed which has got the handle of the
     * one before it, and runs what was unloaded. */
    if (e->calls[i].kernel->object.life != SIM_ALIVE)
        sim_fault("a node of executable graph %u is set anew after the module of its kernel was "
                  "unloaded",
                  e->object.number);
    CUresult result = sim_call_init(params, &call);
    if (result != CUDA_SUCCESS)
        return result;
    sim_call_finish(&e->calls[i]);
    e->calls[i] = call;
    return CUDA_SUCCESS;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec exec) {
    sim_exec *e = sim_object_find(exec, SIM_EXEC);
    if (!e)
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < e->count; i++)
        sim_call_finish(&e->calls[i]);
    free(e->calls);
    e->calls = NULL;
    sim_object_end(e);
    return CUDA_SUCCESS;
}

/* ---- running ---- */

/** May node `i` run, after those in `ran`? */
static bool is_ready(const sim_graph *g, size_t i, const bool *ran) {
    const sim_node *n = g->nodes[i];
    for (size_t j = 0; j < n->count; j++)
        if (!ran[n->before[j]])
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

static CUresult run(sim_work *w) {
    const running *r = (const running *) w;
    CUresult result = CUDA_SUCCESS;
    bool *ran = sim_new(r->count + 1);
    for (size_t n = 0; n < r->count && result == CUDA_SUCCESS; n++) {
        size_t i = choose(r, ran);
        ran[i] = true;
        result = sim_call_run(&r->calls[i]);
    }
    free(ran);
    return result;
}

static void end(sim_work *w) {
    running *r = (running *) w;
    for (size_t i = 0; i < r->count; i++)
        sim_call_finish(&r->calls[i]);
    free(r->calls);
}

/** Are the modules of all kernels still loaded? */
static bool is_loaded(const sim_exec *e) {
    for (size_t i = 0; i < e->count; i++)
        if (e->calls[i].kernel->object.life != SIM_ALIVE) {
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
    if (!s || !e || !is_loaded(e))
        return CUDA_ERROR_INVALID_HANDLE;
    running *r = sim_work_create(sizeof *r, "cuGraphLaunch", run);
    r->work.end = end;
    r->graph = e->graph;
    r->count = e->count;
    r->calls = sim_new((e->count + 1) * sizeof *r->calls);
    for (size_t i = 0; i < e->count; i++)
        sim_call_copy(&e->calls[i], &r->calls[i]);
    sim_work_after(&r->work, e->last);
    e->last = sim_submit(&r->work, s);
    return CUDA_SUCCESS;
}
