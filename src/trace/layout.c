/* Layouts: dimensions of variables, and where the elements of views lie.
 *
 * A view is gather(extent, index): `extent` is a variable of all memory from its lowest to its
 * highest element, `index` a function of the lane. Kernels that use it read the memory in place.
 *
 *   lane = ((c[0] * n[1] + c[1]) * n[2] + c[2]) ...      c: coordinates, n: shape
 *   index = first + sum of c[k] * stride[k]
 *         = first + lane * stride[last] + sum over k < last of lane / below[k] * step[k]
 *   below[k] = n[k + 1] * n[k + 2] * ...     step[k] = stride[k] - n[k + 1] * stride[k + 1]
 *
 * So a dimension costs a division by a constant, a multiplication and an addition, and nothing
 * where it goes on as the next one does: there the step is 0. Negative numbers wrap around, and the
 * sum is right, as it lies in the extent. */
#include "trace/private.h"
#include <stdlib.h>

/* In the side table: a layout that owns its numbers, which follow it. */
typedef struct entry {
    jitc_layout layout;
    int64_t numbers[]; /* shape, then strides, if there are any */
} entry;

static entry *entry_create(const jitc_layout *from) {
    size_t n = (size_t) from->ndim;
    entry *e = malloc(sizeof *e + (2 * n + 1) * sizeof *e->numbers); /* never without a shape */
    if (!e)
        return NULL;
    e->layout = *from;
    e->layout.shape = e->numbers;
    e->numbers[0] = 1;
    if (n)
        memcpy(e->numbers, from->shape, n * sizeof *e->numbers);
    if (!from->strides)
        return e;
    e->layout.strides = e->numbers + n;
    memcpy(e->numbers + n, from->strides, n * sizeof *e->numbers);
    return e;
}

static entry *entry_of(const jitc_graph *g, uint32_t i) {
    return jitc_side_get(&g->p->layouts, i);
}

/* Node i gets a layout. */
static jit_status put(jitc_graph *g, uint32_t i, const jitc_layout *layout) {
    entry *e = entry_create(layout);
    if (!e || !jitc_side_put(&g->p->layouts, i, e)) {
        free(e);
        return jitc_fail(JIT_OUT_OF_MEMORY, "no room for the shape of a variable");
    }
    jitc_node_at(g, i)->flags |= JITC_NODE_SHAPED;
    return JIT_OK;
}

void jitc_layout_evaluated(jitc_graph *g, uint32_t i) {
    jitc_layout *l = &entry_of(g, i)->layout;
    l->strides = NULL;
    l->buffer = NULL;
    l->first = NULL;
}

bool jitc_graph_layout_locked(const jitc_graph *g, uint32_t i, jitc_layout *out) {
    if (!(jitc_node_at(g, i)->flags & JITC_NODE_SHAPED))
        return false;
    *out = entry_of(g, i)->layout;
    return true;
}

static jit_status find_layout(jitc_graph *g, uint32_t i, jitc_layout *out) {
    if (jitc_graph_layout_locked(g, i, out))
        return JIT_OK;
    int64_t size = (int64_t) jitc_node_size(jitc_node_at(g, i));
    jitc_layout plain = {.ndim = 1, .shape = &size};
    TRY(put(g, i, &plain));
    jitc_graph_layout_locked(g, i, out);
    return JIT_OK;
}

jit_status jitc_trace_layout(jitc_graph *g, const char *function, jit_var v, jitc_layout *out) {
    jitc_lock_graph(g);
    uint32_t i = jitc_graph_find_locked(g, function, v);
    jit_status status = i ? find_layout(g, i, out) : JIT_INVALID_HANDLE;
    jitc_unlock_graph(g);
    return status;
}

/* ---- the index of a view ---- */

typedef struct indexer {
    jitc_graph *g;
    jit_backend backend;
    int device;
    uint64_t size;  /* lanes */
    jit_dtype type; /* of the index */
    jit_var lane;
    jit_var sum; /* 0: nothing was added yet */
} indexer;

static jit_var number(const indexer *x, jit_dtype type, uint64_t value, uint64_t size) {
    return jitc_trace_literal(x->g, x->backend, x->device, type, value, size);
}

/* op(a, b), whose references are given up. */
static jit_var combine(const indexer *x, jitc_op op, jit_var a, jit_var b) {
    jit_var r = jitc_trace_binary(x->g, op, a, b);
    jitc_trace_unref(x->g, a);
    jitc_trace_unref(x->g, b);
    return r;
}

static bool add(indexer *x, jit_var term) {
    x->sum = x->sum ? combine(x, JITC_OP_add, x->sum, term) : term;
    return x->sum;
}

/* sum += lane / below * step. */
static bool add_dimension(indexer *x, uint64_t below, uint64_t step) {
    jit_dtype lane_type = x->size > (uint64_t) 1 << 32 ? JIT_u64 : JIT_u32;
    jit_var q =
        combine(x, JITC_OP_div, jitc_trace_ref(x->g, x->lane), number(x, lane_type, below, 1));
    if (x->type != lane_type) {
        jit_var wide = jitc_trace_cast(x->g, JITC_OP_cast, q, x->type);
        jitc_trace_unref(x->g, q);
        q = wide;
    }
    return add(x, combine(x, JITC_OP_mul, q, number(x, x->type, step, 1)));
}

/* From the last dimension to the first; those of one element are passed over. */
static bool add_dimensions(indexer *x, const jitc_layout *l) {
    uint64_t below = 1, goes_on = 0; /* the stride with which a dimension needs no term */
    for (int k = l->ndim; k-- > 0;) {
        uint64_t n = (uint64_t) l->shape[k], stride = (uint64_t) l->strides[k];
        if (n == 1)
            continue;
        if (stride != goes_on && !add_dimension(x, below, stride - goes_on))
            return false;
        below *= n;
        goes_on = n * stride;
    }
    return true;
}

/* The element of the extent for each lane, or 0. */
static jit_var make_index(indexer *x, const jitc_layout *l, uint64_t first) {
    x->lane = jitc_trace_counter(x->g, x->backend, x->device, x->size);
    bool good = x->lane && add_dimensions(x, l);
    jitc_trace_unref(x->g, x->lane);
    if (!good)
        return 0;
    if (!x->sum) /* all strides are 0 */
        return number(x, x->type, first, x->size);
    return first && !add(x, number(x, x->type, first, 1)) ? 0 : x->sum;
}

/* A reference to the node of v goes with it, also if the layout has no room. */
static jit_var with_layout(jitc_graph *g, jit_var v, const jitc_layout *layout) {
    jitc_lock_graph(g);
    jit_status status = put(g, v & JITC_INDEX_MASK, layout);
    jitc_unlock_graph(g);
    if (status == JIT_OK)
        return v;
    jitc_trace_unref(g, v);
    return 0;
}

static jit_var gather_view(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t size,
                           const jitc_layout *l) {
    jitc_buffer *buffer = l->buffer;
    uint32_t element = jitc_dtypes[t].bytes;
    uint64_t extent = buffer->bytes / element;
    uint64_t first = (uint64_t) ((char *) l->first - (char *) buffer->pointer) / element;
    bool wide = size > (uint64_t) 1 << 32 || extent > (uint64_t) 1 << 32;
    indexer x = {g, b, device, size, wide ? JIT_u64 : JIT_u32, 0, 0};
    jit_var source = jitc_trace_data(g, b, device, t, extent, buffer);
    jit_var index = source ? make_index(&x, l, first) : 0;
    jit_var v = index ? jitc_trace_gather(g, source, index, 0) : 0;
    jitc_trace_unref(g, index);
    jitc_trace_unref(g, source);
    return v ? with_layout(g, v, l) : 0;
}

jit_var jitc_trace_view(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t size,
                        const jitc_layout *layout) {
    if (layout->strides)
        return gather_view(g, b, device, t, size, layout);
    jit_var v = jitc_trace_data(g, b, device, t, size, layout->buffer);
    if (!v || layout->ndim == 1)
        return v;
    jitc_layout plain = {.ndim = layout->ndim, .shape = layout->shape};
    return with_layout(g, v, &plain);
}
