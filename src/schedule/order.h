/* order.h: the nodes that a plan needs, operands first.  Layer: schedule.  Private to schedule. */
#ifndef JITC_SCHEDULE_ORDER_H
#define JITC_SCHEDULE_ORDER_H
#include "schedule/schedule.h"

/** A node of the traversal; its stamp is base + its place in the array. */
typedef struct jitc_position {
    uint32_t node;
    uint32_t slot;         /* memory of the node; NONE */
    uint32_t value;        /* instruction that has its value ... */
    uint32_t value_group;  /* ... in this group, counted from 1 */
    uint32_t buffer;       /* `buffer` instruction ... */
    uint32_t buffer_group; /* ... in this group */
    uint32_t ready;        /* 1: in memory: evaluated, or written by a group before */
    uint32_t visited;      /* group whose list has it */
} jitc_position;

/** What the partition knows of a position. */
typedef struct jitc_place {
    uint32_t stage;     /* earliest stage: what it needs in memory is written by stages before */
    uint32_t kernel;    /* target: of those over the same lanes in this stage; see share.c */
    uint64_t low, high; /* stage << 32 | kernel of the kernels that compute it */
    uint32_t cost;      /* operations to compute it from what is in memory */
    uint64_t lanes;     /* target: of the kernel that writes it */
    bool target;
} jitc_place;

/** What a position is to the loops of a plan (loops.c). Regions are counted from 1; 0: outside. */
typedef struct jitc_inside {
    uint32_t region; /* whose body it is in; loop, phi and next: their own */
    uint32_t own;    /* loop, phi, next, end, result: their region */
    uint32_t next;   /* phi: its `next`. next and end: the one before that is needed. result: the
                        result of the loop before. NONE: there is none */
    uint32_t root;   /* an array that is scattered into: the phi where it comes in; else NONE */
    uint32_t owner;  /* such a phi: the position in whose memory the array is */
    bool needed;     /* by what is evaluated */
    bool final;      /* the array is in memory when the kernel has ended */
} jitc_inside;

typedef struct jitc_span {
    uint32_t first, last; /* of a list, or NONE */
} jitc_span;

/** A loop of a plan. */
typedef struct jitc_region {
    uint32_t loop, end, condition; /* positions, or NONE */
    uint32_t parent, top;          /* the region around it; the outermost one */
    uint32_t depth;
    uint32_t noted;                       /* one that is known to be around it */
    uint32_t result;                      /* the last one that is needed, or NONE */
    uint32_t number;                      /* kernel that the rest is about */
    jitc_span phis, body, nexts, results; /* entries of the list */
    uint32_t back, start;                 /* entry behind it; place of its first one */
    uint32_t inst;                        /* its `loop` instruction */
    bool tested;                          /* its `test` is written */
    bool writes;                          /* arrays, outside of other loops */
    bool stored; /* it writes an array whose result nobody wants: results are written by one kernel
                  */
} jitc_region;

typedef struct jitc_order {
    jitc_graph *graph;
    jitc_position *at;
    size_t count, capacity;
    uint32_t base;  /* stamp of position 0 */
    uint32_t *root; /* nodes to be computed */
    size_t root_capacity;
    uint32_t *stack;
    size_t stack_capacity;
    jitc_place *place;
    size_t place_capacity;
    uint32_t *target; /* positions */
    size_t targets, target_capacity;
    uint32_t *list; /* positions of one kernel, operands first */
    size_t list_count, list_capacity;
    uint32_t *stored; /* positions that the kernel at hand stores */
    size_t stored_capacity;
    uint32_t *last; /* for cutting: last use in the list */
    size_t last_capacity;
    bool loops;    /* there are some: the rest is about them */
    bool combines; /* something combines lanes: there are kernels without scatters */
    bool apart;    /* arrays go from branch to branch through memory, not in one kernel */
    bool torn;     /* they would have to: a loop has no place that suits all who need it */
    jitc_inside *inside;
    size_t inside_capacity;
    jitc_region *region;
    size_t regions, region_capacity;
    uint32_t *link; /* of list entries, for sorting; then their order */
    size_t link_capacity;
    int32_t *whole; /* entry i of the list: > 0: no cut behind it */
    size_t whole_capacity;
} jitc_order;

static inline jitc_node *jitc_order_node(const jitc_order *o, uint32_t position) {
    return jitc_node_at(o->graph, o->at[position].node);
}
/** For traversals without recursion: put an entry on the stack. */
static inline jit_status jitc_order_push(jitc_order *o, size_t *depth, uint32_t entry) {
    if (__builtin_expect(*depth == o->stack_capacity, 0))
        TRY(jitc_grow((void **) &o->stack, &o->stack_capacity, *depth + 1, sizeof *o->stack));
    o->stack[(*depth)++] = entry;
    return JIT_OK;
}
/** Position of a node that the traversal has met. */
static inline uint32_t jitc_order_position(const jitc_order *o, uint32_t node) {
    return *jitc_node_stamp(o->graph, node) - o->base;
}
/** The `next` that comes before a `next` or `end` and is needed, or the loop. */
uint32_t jitc_loops_before(const jitc_order *o, uint32_t node);
/** Operands of a node as indices; 0 where it has none. */
static inline void jitc_order_operands(const jitc_order *o, uint32_t node, uint32_t out[3]) {
    const jitc_node *n = jitc_node_at(o->graph, node);
    unsigned arity = jitc_ops[n->op].arity;
    out[0] = arity > 0 ? n->a : 0;
    out[1] = arity > 1 ? n->b : 0;
    out[2] = arity > 2 ? *jitc_node_c(o->graph, node) : 0;
    if (jitc_ops[n->op].form == JITC_FORM_NEXT || jitc_ops[n->op].form == JITC_FORM_END)
        out[2] = jitc_loops_before(o, node);
}
/** Is operand a an array that is in memory, rather than a value? */
static inline bool jitc_op_indexes(unsigned op) {
    uint8_t form = jitc_ops[op].form;
    return form == JITC_FORM_GATHER || form == JITC_FORM_SCATTER || form == JITC_FORM_SORT;
}
/** Does it combine lanes, so that it stands behind what computes values? */
static inline bool jitc_op_combines(unsigned op) {
    return jitc_ops[op].form == JITC_FORM_REDUCE || jitc_ops[op].form == JITC_FORM_SORT;
}
static inline bool jitc_op_is_leaf(unsigned op) {
    return jitc_ops[op].form == JITC_FORM_LEAF;
}
/** Region of a position; 0: it is in no loop. */
static inline uint32_t jitc_order_region(const jitc_order *o, uint32_t position) {
    return o->loops ? o->inside[position].region : 0;
}
/** Is operand k of a position an array in memory, rather than a value? */
static inline bool jitc_order_in_memory(const jitc_order *o, uint32_t position, unsigned k) {
    unsigned op = jitc_order_node(o, position)->op;
    if (k || !o->loops)
        return !k && jitc_op_indexes(op);
    if (jitc_ops[op].form == JITC_FORM_SCATTER)
        return !o->inside[position].region;
    return jitc_op_indexes(op) || o->inside[position].root == position;
}
/** Is the result of a position in memory, for kernels that come later, because the operation is
 * one that writes there? */
static inline bool jitc_order_writes(const jitc_order *o, uint32_t position) {
    if (o->loops && (o->inside[position].region || o->inside[position].final))
        return o->inside[position].final;
    return (jitc_ops[jitc_order_node(o, position)->op].props & JITC_EFFECT) != 0;
}

/** Find the loops of an order, and what of them is needed by its first `roots` roots. What is only
 * inside of a loop cannot be a root: JIT_INVALID_ARGUMENT. */
jit_status jitc_loops_find(jitc_order *o, size_t roots);
/** The part of it that is about arrays that are scattered into. */
jit_status jitc_loops_find_arrays(jitc_order *o);
/** Lanes over which a position is computed. */
uint64_t jitc_order_lanes(const jitc_order *o, uint32_t position);
/** The position in whose memory a scatter writes: itself, or what owns the array of a loop. */
static inline uint32_t jitc_loops_target(const jitc_order *o, uint32_t position) {
    uint32_t root = o->loops ? o->inside[position].root : JITC_NONE;
    return root == JITC_NONE ? position : o->inside[root].owner;
}
/** The array from which the chain of scatters that writes a final position starts. */
uint32_t jitc_loops_source(const jitc_order *o, uint32_t position);
/** Put the list of a kernel in order: what is inside of a loop stands between its `loop` and `end`,
 * and nothing else; whole[i]: entries that must be in one kernel with the one behind them. */
jit_status jitc_loops_sort(jitc_order *o, uint32_t number);

/** The part of an operation that the plan writes, or NONE. It is right behind the operation. */
static inline uint32_t jitc_order_part(const jitc_order *o, uint32_t position) {
    uint32_t part = position + 1;
    if (part == o->count || jitc_order_node(o, part)->op != JITC_OP_part ||
        jitc_order_node(o, part)->a != o->at[position].node)
        return JITC_NONE;
    return part;
}

/** Do kernels that come later use a position from memory? Values of a loop that writes arrays as
 * well, since that is in a kernel apart from what combines lanes; but not an array that one branch
 * passes on to the other. */
static inline bool jitc_order_ends_kernel(const jitc_order *o, uint32_t position) {
    return jitc_order_writes(o, position) ||
           (o->loops && o->combines && jitc_order_node(o, position)->op == JITC_OP_result &&
            !o->inside[position].region && o->inside[position].root == JITC_NONE &&
            o->region[o->inside[position].own - 1].writes);
}

/** Append everything that `root` needs. *busy as in jitc_plan_make_locked(). */
jit_status jitc_order_visit(jitc_order *o, uint32_t root, bool *busy);

/** The slot of a position, made if there is none. `output`: the plan writes it. */
jit_status jitc_plan_slot(jitc_plan *p, uint32_t position, bool output, uint32_t *out);
/** A group over `lanes` lanes from the positions in `list`; what it stores is `ready` then. */
jit_status jitc_write_list(jitc_plan *p, const jitc_options *o, uint64_t lanes,
                           const uint32_t *list, size_t count);
/* Kernels of one stage and lanes, in order of launch. */
enum {
    JITC_KERNEL_STORES,   /* stores, reductions, and scatters if there are no reductions */
    JITC_KERNEL_SCATTERS, /* scatters beside reductions */
    JITC_KERNEL_APART     /* and more: nothing but what combines lanes, and what that needs */
};
/** Fill in place.kernel of all targets. */
void jitc_share_kernels(jitc_order *o);
/** Groups for the targets of a plan. */
jit_status jitc_partition(jitc_plan *p, const jitc_options *o);
#endif
