/* graph.h: the graph of variables.  Layer: trace.  May include: core, ir, device.
 *
 * A node is 32 hot bytes and 16 cold ones, in separate arrays of one 2 MB chunk.
 *   hot:  a, b                operands (index; 0 none)
 *         size                elements: 32 low bits, 8 high ones, and one in kind, for 2^40
 *         kind                type | backend << 4 | size >> 40 << 6
 *         users, next         nodes whose home operand this is, and the next in such a list
 *         external, internal  reference counts: of handles, of nodes
 *   cold: value               literal: its bits; data: jitc_buffer *; what combines lanes:
 *                             JITC_AUX_* and, above them, the lanes of a block; part: its number
 *         c                   third operand
 *         stamp               of the last traversal, or the list of dead nodes
 *
 * A handle is index | generation << 27; it is alive if the generation matches and external > 0.
 * Value numbering walks the users of the operand with the larger index (the home operand); an
 * operand with many users becomes a hub, whose users move to their other operand or to a table.
 * All functions without _locked take the graph's lock themselves and may be called from any thread.
 */
#ifndef JITC_TRACE_GRAPH_H
#define JITC_TRACE_GRAPH_H
#include "device/buffer.h"
#include "ir/ir.h"

enum {
    JITC_INDEX_BITS = 27,
    JITC_INDEX_MASK = (1 << JITC_INDEX_BITS) - 1,
    JITC_CHUNK_BITS = 15,
    JITC_CHUNK_NODES = 1 << JITC_CHUNK_BITS,
    JITC_MAX_DEVICES = 32
};
#define JITC_MAX_SIZE ((uint64_t) 1 << 40) /* elements of one variable */

/* jitc_node.flags; 128 is private to trace. */
enum {
    JITC_NODE_HUB = 1,      /* its users are not in its list */
    JITC_NODE_TABLED = 2,   /* value-numbered in the table */
    JITC_NODE_SIDE = 4,     /* home operand is b */
    JITC_NODE_PENDING = 8,  /* waits to be reaped */
    JITC_NODE_CLAIMED = 16, /* a thread is evaluating it: wait before you read or evaluate it */
    JITC_NODE_LABELED = 32, /* has a label, in a side table */
    JITC_NODE_SHAPED = 64   /* has a jitc_layout, in another one */
};

typedef struct jitc_node {
    uint32_t a, b;
    uint32_t size_low;
    uint8_t op, kind, flags, size_high;
    uint32_t external, internal;
    uint32_t users_generation; /* users: 27 bits, generation: 5 bits */
    uint32_t next_device;      /* next: 27 bits, device: 5 bits */
} jitc_node;
_Static_assert(sizeof(jitc_node) == 32, "two nodes a cache line");

typedef struct jitc_chunk {
    jitc_node node[JITC_CHUNK_NODES];
    uint64_t value[JITC_CHUNK_NODES];
    uint32_t c[JITC_CHUNK_NODES];
    uint32_t stamp[JITC_CHUNK_NODES];
    uint64_t free_bits[JITC_CHUNK_NODES / 64];
} jitc_chunk;
_Static_assert(sizeof(jitc_chunk) <= 2 << 20, "a chunk is one huge page");

/** What schedule and export may see of a graph; the rest is private to trace. */
typedef struct jitc_graph {
    jitc_chunk *chunk[1 << (JITC_INDEX_BITS - JITC_CHUNK_BITS)];
    uint32_t stamp_base; /* stamps below are old; a traversal takes base ... base + nodes - 1 */
    struct jitc_graph_private *p;
} jitc_graph;

static inline jitc_node *jitc_node_at(const jitc_graph *g, uint32_t i) {
    return &g->chunk[i >> JITC_CHUNK_BITS]->node[i & (JITC_CHUNK_NODES - 1)];
}
static inline uint64_t *jitc_node_value(const jitc_graph *g, uint32_t i) {
    return &g->chunk[i >> JITC_CHUNK_BITS]->value[i & (JITC_CHUNK_NODES - 1)];
}
static inline uint32_t *jitc_node_c(const jitc_graph *g, uint32_t i) {
    return &g->chunk[i >> JITC_CHUNK_BITS]->c[i & (JITC_CHUNK_NODES - 1)];
}
static inline uint32_t *jitc_node_stamp(const jitc_graph *g, uint32_t i) {
    return &g->chunk[i >> JITC_CHUNK_BITS]->stamp[i & (JITC_CHUNK_NODES - 1)];
}
static inline jitc_buffer *jitc_node_buffer(const jitc_graph *g, uint32_t i) {
    return (jitc_buffer *) (uintptr_t) *jitc_node_value(g, i);
}
static inline uint8_t jitc_node_aux(const jitc_graph *g, uint32_t i) {
    return (uint8_t) *jitc_node_value(g, i);
}
/** Lanes of a block of a block_reduce. */
static inline uint64_t jitc_node_block(const jitc_graph *g, uint32_t i) {
    return *jitc_node_value(g, i) >> 8;
}
static inline uint64_t jitc_node_size(const jitc_node *n) {
    return n->size_low | (uint64_t) n->size_high << 32 | (uint64_t) (n->kind & 64) << 34;
}
static inline jit_dtype jitc_node_type(const jitc_node *n) {
    return (jit_dtype) (n->kind & 15);
}
static inline jit_backend jitc_node_backend(const jitc_node *n) {
    return (jit_backend) (n->kind >> 4 & 3);
}
static inline int jitc_node_device(const jitc_node *n) {
    return (int) (n->next_device >> JITC_INDEX_BITS);
}
static inline bool jitc_node_alive(const jitc_node *n, jit_var handle) {
    return n->users_generation >> JITC_INDEX_BITS == handle >> JITC_INDEX_BITS && n->external > 0;
}

jit_status jitc_graph_create(jitc_graph **out);
/** Releases everything; handles that are still alive become dead. */
void jitc_graph_destroy(jitc_graph *g);
/** Before fork(): keep others out. */
void jitc_graph_fork_hold(jitc_graph *g);
/** After it: let them in, without giving up buffers, whose release is user code. */
void jitc_graph_fork_release(jitc_graph *g);
/** In the child after fork(): nobody is in. */
void jitc_graph_forked(jitc_graph *g);

/** For traversals and for several calls of the _locked kind. Not recursive. Under it: no compiling,
 * no launching, no user code, no waiting. */
void jitc_graph_lock(jitc_graph *g);
/** Also gives up, after unlocking, the buffers whose last node died meanwhile. */
void jitc_graph_unlock(jitc_graph *g);
/** From here to jitc_graph_let_go() the calling thread is in the middle of something that a
 * `release`, which is user code, may do as well: so it calls none. Nests. */
void jitc_graph_hold(void);
/** What the thread has held back is given up when the outermost pair ends. Under no lock. */
void jitc_graph_let_go(jitc_graph *g);
/** Drop a reference to foreign memory. The last one is given up by whoever lets go of something, or
 * unlocks with something to give up: so call this between hold and let go. */
void jitc_graph_drop_foreign_locked(jitc_graph *g, jitc_buffer *b);

/* Leaves and operations. Each returns a new reference (an external one), or 0 after jitc_fail();
 * with an open scope of the calling thread the reference belongs to the scope. An operand 0 gives
 * 0, silently if the thread has an error already, else "operand n of jit_add is 0 (no variable)".
 * `device`: where the variable is to be computed; for operations that of the operands (literals go
 * anywhere). */
jit_var jitc_trace_literal(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t bits,
                           uint64_t size);
jit_var jitc_trace_counter(jitc_graph *g, jit_backend b, int device, uint64_t size);
/** Takes the caller's reference to `buffer`, also on failure. */
jit_var jitc_trace_data(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t size,
                        jitc_buffer *buffer);
jit_var jitc_trace_unary(jitc_graph *g, jitc_op op, jit_var a);
jit_var jitc_trace_binary(jitc_graph *g, jitc_op op, jit_var a, jit_var b);
jit_var jitc_trace_ternary(jitc_graph *g, jitc_op op, jit_var a, jit_var b, jit_var c);
/** CAST and BITCAST. */
jit_var jitc_trace_cast(jitc_graph *g, jitc_op op, jit_var a, jit_dtype t);
/** mask 0: all lanes. The index may have any integer type. */
jit_var jitc_trace_gather(jitc_graph *g, jit_var source, jit_var index, jit_var mask);
/** The elements of v at the indices, which have to be in range: a gather; or, if that is cheap,
 * what v is computed from is computed at the index, and v is not put in memory. */
jit_var jitc_trace_elements(jitc_graph *g, jit_var v, jit_var index);
/** The updated array, of the target's size: a pure function of its operands. */
jit_var jitc_trace_scatter(jitc_graph *g, jit_var target, jit_var value, jit_var index,
                           jit_var mask);
/* Operations that combine lanes (combine.c). */
/** One element; of no elements the identity. */
jit_var jitc_trace_reduce(jitc_graph *g, jit_reduce_op op, jit_var a);
/** Of blocks of `block` elements, the last one maybe short. */
jit_var jitc_trace_block_reduce(jitc_graph *g, jit_reduce_op op, jit_var a, uint64_t block);
jit_var jitc_trace_prefix_reduce(jitc_graph *g, jit_reduce_op op, jit_var a, bool exclusive,
                                 bool reverse);
/** *indices: room for the numbers of all elements, of which *count, one element, are there. */
jit_status jitc_trace_compress(jitc_graph *g, jit_var mask, jit_var *indices, jit_var *count);
/** *index: where each element came from; NULL: not wanted. */
jit_var jitc_trace_sort(jitc_graph *g, jit_var a, bool descending, jit_var *index);
/** As jitc_trace_scatter(). */
jit_var jitc_trace_scatter_reduce(jitc_graph *g, jit_reduce_op op, jit_var target, jit_var value,
                                  jit_var index, jit_var mask);
/** Adds 1; *old: what was there before each lane, 0 where it adds nothing. */
jit_status jitc_trace_scatter_inc(jitc_graph *g, jit_var target, jit_var index, jit_var mask,
                                  jit_var *updated, jit_var *old);

jit_var jitc_trace_ref(jitc_graph *g, jit_var v);
/** A variable like v that nobody finds by its value, and that has no shape: it can be evaluated,
 * and v stays what it is. v itself if that is in memory. */
jit_var jitc_trace_twin(jitc_graph *g, const char *function, jit_var v);
void jitc_trace_unref(jitc_graph *g, jit_var v);
/** A scope that could not be opened has to be popped all the same. */
jit_status jitc_trace_scope_push(jitc_graph *g);
jit_status jitc_trace_scope_pop(jitc_graph *g, size_t n, const jit_var *keep);

typedef struct jitc_var_info {
    uint64_t size;
    jit_dtype type;
    jit_backend backend;
    int device;
    uint32_t external, internal;
    bool evaluated, literal;
    uint64_t bits; /* of a literal */
} jitc_var_info;
/** JIT_INVALID_HANDLE, naming `function`. */
jit_status jitc_trace_info(jitc_graph *g, const char *function, jit_var v, jitc_var_info *out);
/** Copies the text. NULL removes the label. */
jit_status jitc_trace_set_label(jitc_graph *g, jit_var v, const char *label);
/** Copies at most `size` bytes of the label, "" if there is none. */
jit_status jitc_trace_label(jitc_graph *g, jit_var v, char *text, size_t size);

/** How the elements of a variable are arranged. */
typedef struct jitc_layout {
    int ndim;
    const int64_t *shape;   /* never NULL */
    const int64_t *strides; /* in elements; NULL: row-major */
    /* A view: a variable that is not evaluated, and whose elements lie in an imported buffer, in
     * other places than one behind the other. */
    jitc_buffer *buffer; /* NULL: it is none */
    void *first;         /* where the first element is */
} jitc_layout;

enum { JITC_MAX_NDIM = 64 };

/** A variable of `size` elements of memory that is arranged as `layout` says, whose arrays are
 * copied. layout->buffer spans them all, begins with the lowest one, and has to hold one at least
 * unless layout->strides is NULL; its reference is taken, also on failure. */
jit_var jitc_trace_view(jitc_graph *g, jit_backend b, int device, jit_dtype t, uint64_t size,
                        const jitc_layout *layout);
/** The layout of a variable; its arrays are good as long as the variable. Shape and number of
 * dimensions stay; it is a view, with strides, only until it is evaluated. `buffer` is the view's.
 */
jit_status jitc_trace_layout(jitc_graph *g, const char *function, jit_var v, jitc_layout *out);

/* For schedule, eval and export, under the lock. */
/** As jitc_trace_layout(), of node i. False if nothing is known, and so it has one dimension, and
 * is no view. */
bool jitc_graph_layout_locked(const jitc_graph *g, uint32_t i, jitc_layout *out);
/** Index of a live handle, or 0 after jitc_fail() naming `function`. */
uint32_t jitc_graph_find_locked(jitc_graph *g, const char *function, jit_var v);
/** Node i becomes an evaluated leaf; takes the reference to `buffer`. Its operands are released. */
void jitc_graph_set_data_locked(jitc_graph *g, uint32_t i, jitc_buffer *buffer);
/** Lanes over which node i is computed: its size; what combines lanes, or a scatter: that of its
 * operands. */
uint64_t jitc_graph_lanes_locked(const jitc_graph *g, uint32_t i);
/** The `part` of operation i that somebody holds or needs; 0: none. Whoever makes it finds
 * operation i not claimed: the plan that writes the one writes the other. */
uint32_t jitc_graph_part_locked(jitc_graph *g, uint32_t i);
/** Internal reference: keeps a node alive while it is evaluated, or in a list of scheduled nodes.
 */
void jitc_graph_hold_locked(jitc_graph *g, uint32_t i);
void jitc_graph_release_locked(jitc_graph *g, uint32_t i);
/** What `n` nodes are computed from, one operation a line, operands first. Free with free(); NULL
 * if memory ran out. */
char *jitc_graph_print_locked(jitc_graph *g, size_t n, const uint32_t *nodes);
/** Free all nodes that are dead; their buffers are given up when the graph is unlocked. */
void jitc_graph_reap_locked(jitc_graph *g);
/** Room for a traversal of all nodes: resets old stamps when the numbers run out; returns the base.
 */
uint32_t jitc_graph_stamps_locked(jitc_graph *g);

typedef struct jitc_graph_stats {
    uint64_t variables; /* live nodes */
    uint64_t bytes;     /* of the graph's tables */
} jitc_graph_stats;
/** Reaps everything that is dead first. */
jitc_graph_stats jitc_graph_get_stats(jitc_graph *g);
#endif
