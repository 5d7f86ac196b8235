/* graph.c: graphs of kernels and of captured work.  Layer: tests.
 *
 * A launch queues the nodes one after another, in an order that their edges allow and the seed
 * decides. Work that was captured is kept in its graph and run as often as that is launched. */
#include "state.h"
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
    sim_point last; /* its launches run one after another */
} sim_exec;

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

/** One run of captured work. */
typedef struct replay {
    sim_work work;
    captured *captured;
} replay;

static CUresult run_replay(sim_work *w) {
    sim_work *original = ((replay *) w)->captured->work;
    return original->run ? original->run(original) : CUDA_SUCCESS;
}

static void end_replay(sim_work *w) {
    drop_captured(((replay *) w)->captured);
}

/** What a launch queues for a step. */
static sim_work *step_work(const step *s) {
    step mine = copy_step(s);
    if (!mine.work)
        return sim_launch_create("cuGraphLaunch", mine.call);
    const sim_work *original = mine.work->work;
    replay *r = sim_work_create(sizeof *r, original->what, run_replay);
    r->work.end = end_replay;
    r->work.function = original->function;
    r->work.argument = original->argument;
    r->captured = mine.work;
    return &r->work;
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
    for (size_t i = 0; i < e->count; i++)
        finish_step(&e->steps[i]);
    free(e->steps);
    e->steps = NULL;
    sim_object_end(e);
    return CUDA_SUCCESS;
}

/* ---- launches ---- */

/** May node `i` be queued, after those in `queued`? */
static bool is_ready(const sim_graph *g, size_t i, const bool *queued) {
    const sim_nodes *before = &g->nodes[i]->before;
    for (size_t j = 0; j < before->count; j++)
        if (!queued[before->items[j]])
            return false;
    return !queued[i];
}

static size_t choose(const sim_exec *e, const bool *queued) {
    size_t chosen = e->count;
    uint64_t ready = 0;
    for (size_t i = 0; i < e->count; i++)
        if (is_ready(e->graph, i, queued) && (ready++ == 0 || sim_random() % ready == 1))
            chosen = i;
    return chosen;
}

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
    sim_point end = e->last;
    bool *queued = sim_new(e->count + 1);
    for (size_t n = 0; n < e->count; n++) {
        size_t i = choose(e, queued);
        sim_work *w = step_work(&e->steps[i]);
        if (n == 0)
            sim_work_after(w, e->last);
        queued[i] = true;
        end = sim_submit(w, s);
    }
    if (!s->capture)
        e->last = end;
    free(queued);
    return CUDA_SUCCESS;
}
