/* capture.c: streams that are captured into graphs.  Layer: tests.
 *
 *   stream A   begin   [k0]   record e ─┐   [k2]   wait f   [k3]   end: the graph
 *   stream B                 wait e ────┴─ [k1]   record f ─┘            k0 ─ k1 ─┐
 *                                                                        └─── k2 ─┴ k3
 *
 * A stream that captures has `ends`: the nodes that its next one comes after. An event that is
 * recorded in it keeps them; a stream that waits for the event takes part in the capture. What does
 * not go with a capture makes it invalid until it is ended. */
#include "state.h"
#include <stdlib.h>
#include <string.h>

struct sim_capture {
    uint64_t number;
    int mode;
    uint64_t thread; /* that began it */
    sim_stream *origin;
    sim_graph *graph;
    bool invalid;
    CUgraphNode *told; /* what cuStreamGetCaptureInfo() lent last */
    struct sim_capture *next;
};

static sim_capture *captures; /* that were begun and not ended */
static uint64_t numbers;
static __thread int thread_mode; /* CU_STREAM_CAPTURE_MODE_GLOBAL at first */

static CUresult invalidate(sim_capture *c, CUresult why) {
    c->invalid = true;
    return why;
}

static sim_capture *find(uint64_t number) {
    for (sim_capture *c = captures; c; c = c->next)
        if (c->number == number)
            return c;
    return NULL;
}

/* ---- sets of nodes ---- */

static void nodes_set(sim_nodes *to, const size_t *items, size_t count) {
    size_t *copy = sim_new((count + 1) * sizeof *copy);
    if (count > 0)
        memcpy(copy, items, count * sizeof *copy);
    free(to->items);
    *to = (sim_nodes) {copy, count};
}

static bool nodes_have(const sim_nodes *n, size_t item) {
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i] == item)
            return true;
    return false;
}

static void nodes_join(sim_nodes *to, const sim_nodes *from) {
    size_t *grown = realloc(to->items, (to->count + from->count + 1) * sizeof *grown);
    if (!grown)
        abort();
    to->items = grown;
    for (size_t i = 0; i < from->count; i++)
        if (!nodes_have(to, from->items[i]))
            to->items[to->count++] = from->items[i];
}

static void nodes_clear(sim_nodes *n) {
    free(n->items);
    *n = (sim_nodes) {0};
}

/* ---- what is forbidden ---- */

/** Does capture `c` forbid the calling thread what it cannot see? */
static bool forbids(const sim_capture *c) {
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return false;
    if (c->thread == sim_thread())
        return c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    return c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_forbids(void) {
    CUresult result = CUDA_SUCCESS;
    for (sim_capture *c = captures; c; c = c->next)
        if (forbids(c))
            result = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result;
}

/** Does a stream of `context` capture for which the legacy stream would have to wait? Those
 *  captures are made invalid, if `invalidates`. */
static bool blocks_legacy(const sim_context *context, bool invalidates) {
    bool blocks = false;
    if (!captures)
        return false;
    for (sim_stream *s = sim_streams(); s; s = s->next)
        if (s->capture && s->object.context == context && s->kind != SIM_NON_BLOCKING) {
            s->capture->invalid |= invalidates;
            blocks = true;
        }
    return blocks;
}

CUresult sim_capture_use(sim_stream *s) {
    if (s->kind == SIM_LEGACY)
        return blocks_legacy(s->object.context, true) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
                                                      : CUDA_SUCCESS;
    return sim_capture_status(s) == CU_STREAM_CAPTURE_STATUS_INVALIDATED
               ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : CUDA_SUCCESS;
}

CUresult sim_capture_wait_for_stream(sim_stream *s) {
    return s->capture ? invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                      : CUDA_SUCCESS;
}

CUresult sim_capture_wait_for_context(const sim_context *context) {
    CUresult result = CUDA_SUCCESS;
    if (captures)
        for (sim_stream *s = sim_streams(); s; s = s->next)
            if (s->capture && s->object.context == context)
                result = invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result;
}

CUresult sim_capture_wait_for_event(const sim_captured *e) {
    sim_capture *c = find(e->capture);
    if (c)
        c->invalid = true;
    return e->capture ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult sim_capture_memory(const sim_stream *s) {
    return s->capture ? CUDA_ERROR_NOT_SUPPORTED : sim_capture_forbids();
}

/* ---- what is captured ---- */

int sim_capture_status(const sim_stream *s) {
    if (!s->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                               : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

void sim_capture_add(sim_work *w, sim_stream *s) {
    sim_nodes before = s->ends;
    free(w->after);
    w->after = NULL;
    w->after_count = 0;
    s->ends = (sim_nodes) {0};
    size_t node = sim_graph_add(s->capture->graph, w, before);
    nodes_set(&s->ends, &node, 1);
}

bool sim_capture_record(const sim_stream *s, sim_captured *e) {
    nodes_clear(&e->ends);
    e->capture = s->capture ? s->capture->number : 0;
    if (s->capture)
        nodes_set(&e->ends, s->ends.items, s->ends.count);
    return s->capture;
}

/** A stream that does not capture waits for an event in capture `c`. */
static CUresult take_part(sim_stream *s, sim_capture *c, const sim_captured *e) {
    if (!c)
        return CUDA_ERROR_CAPTURED_EVENT; /* the capture was ended */
    if (c->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (s->kind == SIM_LEGACY)
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    s->capture = c;
    nodes_set(&s->ends, e->ends.items, e->ends.count);
    return CUDA_SUCCESS;
}

bool sim_capture_wait(sim_stream *s, const sim_captured *e, CUresult *result) {
    sim_capture *c = find(e->capture);
    if (!s->capture && e->capture == 0)
        return false;
    if (!s->capture)
        *result = take_part(s, c, e);
    else if (!c)
        *result = invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    else if (c != s->capture) {
        c->invalid = true;
        *result = invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    } else {
        nodes_join(&s->ends, &e->ends);
        *result = CUDA_SUCCESS;
    }
    return true;
}

/* ---- begin and end ---- */

/** Its streams run again what they are given. */
static void finish(sim_capture *c) {
    for (sim_stream *s = sim_streams(); s; s = s->next)
        if (s->capture == c) {
            s->capture = NULL;
            nodes_clear(&s->ends);
        }
    sim_capture **link = &captures;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    free(c->told);
    free(c);
}

void sim_captures_lose(const sim_context *context) {
    for (sim_capture *c = captures, *next; c; c = next) {
        next = c->next;
        if (c->origin->object.context == context)
            finish(c); /* the graph goes with the context */
    }
}

CUresult sim_cuStreamBeginCapture_v2(CUstream stream, int mode) {
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_any(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (s->kind == SIM_LEGACY)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    sim_capture *c = sim_new(sizeof *c);
    *c = (sim_capture) {.number = ++numbers,
                        .mode = mode,
                        .thread = sim_thread(),
                        .origin = s,
                        .graph = sim_graph_create(s->object.context),
                        .next = captures};
    ((sim_object *) c->graph)->implicit = true; /* nobody's to destroy until it is handed out */
    captures = c;
    s->capture = c;
    return CUDA_SUCCESS;
}

/** Does something that other streams of the capture did not come before its end? */
static bool is_unjoined(const sim_capture *c) {
    for (const sim_stream *s = sim_streams(); s; s = s->next)
        for (size_t i = 0; s->capture == c && i < s->ends.count; i++)
            if (!sim_graph_precedes(c->graph, s->ends.items[i], &c->origin->ends))
                return true;
    return false;
}

CUresult sim_cuStreamEndCapture(CUstream stream, CUgraph *graph) {
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_any(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_capture *c = s->capture;
    *graph = NULL;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->origin != s)
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != sim_thread())
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    CUresult result = c->invalid       ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : is_unjoined(c) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                       : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) {
        ((sim_object *) c->graph)->implicit = false;
        *graph = sim_object_handle(c->graph);
    } else
        sim_graph_destroy(c->graph);
    finish(c);
    return result;
}

CUresult sim_cuThreadExchangeStreamCaptureMode(int *mode) {
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    int old = thread_mode;
    if (*mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && *mode <= CU_STREAM_CAPTURE_MODE_RELAXED)
        thread_mode = *mode;
    else /* a real driver (13.0) is content */
        sim_fault("%d is no mode of captures", *mode);
    *mode = old;
    return CUDA_SUCCESS;
}

/* ---- questions ---- */

/** The stream of a handle; for a legacy stream that cannot be used, an error that harms nothing. */
static CUresult find_to_ask(CUstream stream, sim_stream **out) {
    *out = sim_stream_any(stream);
    if (!*out)
        return CUDA_ERROR_INVALID_HANDLE;
    bool blocked = (*out)->kind == SIM_LEGACY && blocks_legacy((*out)->object.context, false);
    return blocked ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

CUresult sim_cuStreamIsCapturing(CUstream stream, int *status) {
    sim_stream *s;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find_to_ask(stream, &s);
    if (result == CUDA_SUCCESS)
        *status = sim_capture_status(s);
    return result;
}

/** The nodes that the next one of `s` comes after, in memory that lives until this is asked again.
 */
static const CUgraphNode *tell_ends(const sim_stream *s) {
    sim_capture *c = s->capture;
    free(c->told);
    c->told = sim_new((s->ends.count + 1) * sizeof *c->told);
    for (size_t i = 0; i < s->ends.count; i++)
        c->told[i] = sim_graph_node(c->graph, s->ends.items[i]);
    return c->told;
}

CUresult sim_cuStreamGetCaptureInfo_v2(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                       const CUgraphNode **after, size_t *count) {
    sim_stream *s;
    if (!status)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = find_to_ask(stream, &s);
    if (result != CUDA_SUCCESS)
        return result;
    *status = sim_capture_status(s);
    if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return CUDA_SUCCESS;
    if (id)
        *id = s->capture->number;
    if (graph)
        *graph = sim_object_handle(s->capture->graph);
    if (after)
        *after = tell_ends(s);
    if (count)
        *count = s->ends.count;
    return CUDA_SUCCESS;
}

/* All edges are of the usual kind. */
CUresult sim_cuStreamGetCaptureInfo_v3(CUstream stream, int *status, uint64_t *id, CUgraph *graph,
                                       const CUgraphNode **after, const CUgraphEdgeData **edges,
                                       size_t *count) {
    if (edges)
        *edges = NULL;
    return sim_cuStreamGetCaptureInfo_v2(stream, status, id, graph, after, count);
}

CUresult sim_cuStreamGetCaptureInfo(CUstream stream, int *status, uint64_t *id) {
    return sim_cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL);
}
