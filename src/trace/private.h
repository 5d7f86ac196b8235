/* private.h: what the files of trace share.  Layer: trace.  May include: core, ir, device.
 *
 * Everything here is called under the graph's lock unless it says otherwise. Functions that make a
 * node give its index with the count as it was: 0 and 0 for a new one. Whoever asked counts it, or
 * calls jitc_node_settle().
 *
 * Node 0 stands for "no operand": it is a hub, so nothing enters its list, and it never dies. So
 * leaves, unary and binary operations take one path. */
#ifndef JITC_TRACE_PRIVATE_H
#define JITC_TRACE_PRIVATE_H
#include "core/lock.h"
#include "trace/graph.h"
#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define NOINLINE    __attribute__((noinline))
#define INLINE      static inline __attribute__((always_inline))

/* jitc_node.flags, the last one: a literal of 0, 1, all ones or another value that simplifies
 * operations. */
enum { JITC_NODE_SPECIAL = 128 };

enum {
    JITC_GENERATIONS = 1 << (32 - JITC_INDEX_BITS),
    JITC_QUARANTINE =
        256,            /* freed slots that wait: a handle returns after 31 * 256 frees at least */
    JITC_HUB_USERS = 4, /* look-ups that pass so many users make a hub */
    JITC_LIST_LIMIT = 16,  /* and so do users that come from other hubs */
    JITC_REAP_BUDGET = 2,  /* dead nodes that a call frees: more than it can make */
    JITC_SLAB_CHUNKS = 16, /* chunks that are mapped at once */
    JITC_WORDS = 1 << (JITC_INDEX_BITS - 6) /* of 64 slots */
};

/** A hash table of (hash, number) pairs: open addressing, low half the number. */
typedef struct jitc_table {
    uint64_t *entries;
    uint32_t mask, count;
} jitc_table;

/** What some nodes have beside the graph: blocks of the heap, found by the index of the node. */
typedef struct jitc_side {
    jitc_table table; /* 1 + place by index */
    struct jitc_side_item *items;
    size_t count, capacity;
    uint32_t free; /* 1 + the first place that is free; 0: none */
} jitc_side;

struct jitc_graph_private {
    uint64_t word;       /* free slots of the 64 that nodes are taken from now */
    uint32_t word_index; /* which 64 */
    uint32_t pending;    /* dead nodes, a list through their stamps */
    uint32_t dead_data;  /* dead data nodes whose buffers are to be given up, likewise */
    uint32_t ring_place;
    uint64_t live;
    uint64_t id; /* of this graph, for what threads keep beyond its end */
    jitc_lock lock;
    uint32_t top;              /* slots from here on were never used */
    uint32_t hint;             /* no summary word below has a bit */
    jitc_buffer *dead_foreign; /* the last references to foreign memory, which is to be given up */
    uint32_t first_generation;
    uint32_t ring[JITC_QUARANTINE];
    jitc_table table; /* value numbering: node index by hash */
    jitc_side labels, layouts;
    uint64_t summary[JITC_WORDS / 64]; /* words that have a free slot */
};

/* graph.c */
/** A slot, or 0 after jitc_fail(). */
uint32_t jitc_slot_refill(jitc_graph *g);
/** Free up to `budget` of the nodes that are dead. */
void jitc_reap(jitc_graph *g, uint32_t budget);
void jitc_node_kill(jitc_graph *g, uint32_t i);
/** Reap some, give up buffers, unlock. */
void jitc_unlock_slow(jitc_graph *g);
/** Node i has one user less for each of its operands; some die. */
void jitc_drop_operands(jitc_graph *g, uint32_t i);

/* table.c */
/** False if memory ran out. */
bool jitc_table_insert(jitc_table *t, uint32_t hash, uint32_t number);
/** An entry that is not there is ignored. */
void jitc_table_remove(jitc_table *t, uint32_t hash, uint32_t number);
static inline size_t jitc_table_bytes(const jitc_table *t) {
    return t->entries ? ((size_t) t->mask + 1) * sizeof *t->entries : 0;
}

/* number.c */
/** What makes two nodes one. */
typedef struct jitc_key {
    uint64_t head; /* jitc_node_head() */
    uint32_t a, b, c;
    bool commutes;
    bool cold;      /* compare c, bits and device too */
    uint8_t device; /* a function of the operands, but for leaves */
    uint64_t bits;  /* value of the node */
} jitc_key;

uint32_t jitc_number_find(jitc_graph *g, const jitc_key *k, uint32_t *home);
void jitc_number_tabled(jitc_graph *g, uint32_t i);
/** Node i is not found any more. */
void jitc_number_remove(jitc_graph *g, uint32_t i);
/** The leaf that equals the key, or a new one; 0 after jitc_fail(). */
uint32_t jitc_number_leaf(jitc_graph *g, const jitc_key *k);

/* record.c */
enum { JITC_MAX_OPERANDS = 4 };
/** One operation that is being recorded. */
typedef struct jitc_call {
    jitc_op op;
    const char *name;                  /* of the public function without jit_; NULL: the op's */
    uint32_t count;                    /* operands */
    uint32_t index[JITC_MAX_OPERANDS]; /* of their nodes */
    jitc_node *node[JITC_MAX_OPERANDS];
    jit_dtype type, result; /* of the value operands, and of the result */
    jit_backend backend;
    int device;
    uint64_t size; /* of the result */
    uint64_t bits; /* what the operation is told besides: the node's value */
} jitc_call;
/** The node of an operation that was checked, without simplification. */
uint32_t jitc_record_node(jitc_graph *g, const jitc_call *call);
uint32_t jitc_record_literal(jitc_graph *g, const jitc_call *place, jit_dtype t, uint64_t bits);
/** The node of a gather or scatter whose last operands are index and, with `masked`, mask. */
uint32_t jitc_record_indexed(jitc_graph *g, jitc_call *call, bool masked);
/** Of target, value, index and maybe mask; the target itself where no lane writes. */
uint32_t jitc_record_scatter(jitc_graph *g, jitc_call *call, uint64_t lanes);

/* check.c; all say in jit_error() what is wrong. */
jit_status jitc_bad_operand(const jitc_call *call, uint32_t operand, jit_var v);
jit_status jitc_bad_backend(const jitc_call *call, const jitc_node *other);
jit_status jitc_bad_device(const jitc_call *call, const jitc_node *first, const jitc_node *other);
jit_status jitc_bad_domain(const jitc_call *call);
jit_status jitc_bad_types(const jitc_call *call, const jitc_node *a, const jitc_node *b);
jit_status jitc_bad_sizes(const jitc_call *call, uint64_t size, uint64_t other);
/** The operand is a bool, an integer. */
jit_status jitc_check_mask(const jitc_call *call, uint32_t operand);
jit_status jitc_check_index(const jitc_call *call, uint32_t operand);
/** Target, value, index and, if there are four operands, mask. *out: how many elements are stored,
 * masked ones counted. */
jit_status jitc_check_scatter(const jitc_graph *g, jitc_call *call, const jit_var *v,
                              uint64_t *out);

/* node.c */
/** A node like node i that nobody finds by its value; i itself if that is in memory. 0 after
 * jitc_fail(). */
uint32_t jitc_node_twin(jitc_graph *g, uint32_t i);
/* combine.c */
/** The `part` of operation i, which is found or made; 0 after jitc_fail(). */
uint32_t jitc_record_part(jitc_graph *g, uint32_t i);

/* simplify.c */
/** Does the value of a literal matter to jitc_simplify()? Any thread. */
bool jitc_literal_special(jit_dtype t, uint64_t bits);
/** Can jitc_simplify() do anything about op(inner(x))? Any thread. */
bool jitc_may_simplify_unary(jitc_op op, jitc_op inner);
/** If something simpler gives the same bits: true, and its index in *out, 0 after jitc_fail(). */
bool jitc_simplify(jitc_graph *g, const jitc_call *call, uint32_t *out);
/** Is the operand a literal with value 1, 0? */
bool jitc_literal_is(const jitc_graph *g, const jitc_call *call, uint32_t operand, uint64_t bits);

/* side.c */
/** What node i has; it has something. */
void *jitc_side_get(const jitc_side *s, uint32_t i);
/** Takes `item`, which goes with free(); the node has nothing yet. False if memory ran out: then it
 * is the caller's still. */
bool jitc_side_put(jitc_side *s, uint32_t i, void *item);
/** Frees what node i has. */
void jitc_side_drop(jitc_side *s, uint32_t i);
void jitc_side_finish(jitc_side *s);

/* label.c */
/** The label of a node, "" if it has none. */
const char *jitc_label_of(const jitc_graph *g, uint32_t i);

/* layout.c */
/** Node i is evaluated: it is no view any more. */
void jitc_layout_evaluated(jitc_graph *g, uint32_t i);

/* scope.c, under no lock */
typedef struct jitc_scope_stack jitc_scope_stack;
/* The calling thread's open scopes; NULL: none. */
extern _Thread_local jitc_scope_stack *jitc_thread_scopes
    __attribute__((tls_model("initial-exec")));
/** The scope takes the reference. Returns v, or 0 after jitc_fail(); then the reference is given
 * back. */
jit_var jitc_scope_take(jitc_graph *g, jit_var v);
void jitc_scope_gave_back(jitc_graph *g, jit_var v);
jit_status jitc_scope_init(void);

/* Bits of a node that are packed. */
INLINE uint32_t jitc_node_users(const jitc_node *n) {
    return n->users_generation & JITC_INDEX_MASK;
}
INLINE uint32_t jitc_node_next(const jitc_node *n) {
    return n->next_device & JITC_INDEX_MASK;
}
INLINE void jitc_node_set_users(jitc_node *n, uint32_t users) {
    n->users_generation = (n->users_generation & ~(uint32_t) JITC_INDEX_MASK) | users;
}
INLINE void jitc_node_set_next(jitc_node *n, uint32_t next) {
    n->next_device = (n->next_device & ~(uint32_t) JITC_INDEX_MASK) | next;
}
INLINE jit_var jitc_node_handle(const jitc_node *n, uint32_t i) {
    return i | (n->users_generation & ~(uint32_t) JITC_INDEX_MASK);
}
INLINE bool jitc_node_dead(const jitc_node *n) {
    return (n->external | n->internal) == 0;
}
INLINE bool jitc_op_has_c(jitc_op op) {
    return jitc_ops[op].arity > 2;
}

/* Size, operation and kind as one word, the flags as zero: compilers make it one load. */
#define JITC_HEAD_MASK (~((uint64_t) 0xff << 48))
INLINE uint64_t jitc_node_head(const jitc_node *n) {
    return (n->size_low | (uint64_t) n->op << 32 | (uint64_t) n->kind << 40 |
            (uint64_t) n->flags << 48 | (uint64_t) n->size_high << 56) &
           JITC_HEAD_MASK;
}
INLINE uint64_t jitc_head(jitc_op op, unsigned kind, uint64_t size) {
    return (uint32_t) size | (uint64_t) op << 32 | (uint64_t) (kind & 63) << 40 | size >> 40 << 46 |
           size >> 32 << 56;
}

INLINE bool jitc_key_equals(const jitc_graph *g, const jitc_key *k, const jitc_node *n,
                            uint32_t i) {
    if (jitc_node_head(n) != k->head)
        return false;
    if (!(n->a == k->a && n->b == k->b) && !(k->commutes && n->a == k->b && n->b == k->a))
        return false;
    return !k->cold || (*jitc_node_c(g, i) == k->c && *jitc_node_value(g, i) == k->bits &&
                        jitc_node_device(n) == k->device);
}

/* Checks that most calls pass. */

/* Node and index of each operand: v[0 ... count-1] are alive. */
INLINE jit_status jitc_check_operands(const jitc_graph *g, jitc_call *call, const jit_var *v) {
    for (uint32_t i = 0; i < call->count; ++i) {
        call->index[i] = v[i] & JITC_INDEX_MASK;
        call->node[i] = jitc_node_at(g, call->index[i]);
        if (unlikely(!jitc_node_alive(call->node[i], v[i])))
            return jitc_bad_operand(call, i, v[i]);
    }
    return JIT_OK;
}
/* One backend, and one device but for literals, which go anywhere: both of the result. */
INLINE jit_status jitc_check_place(jitc_call *call) {
    const jitc_node *first = NULL;
    call->backend = jitc_node_backend(call->node[0]);
    for (uint32_t i = 0; i < call->count; ++i) {
        const jitc_node *n = call->node[i];
        if (unlikely(jitc_node_backend(n) != call->backend))
            return jitc_bad_backend(call, n);
        if (n->op == JITC_OP_literal)
            continue;
        if (unlikely(first && jitc_node_device(first) != jitc_node_device(n)))
            return jitc_bad_device(call, first, n);
        first = n;
    }
    call->device = jitc_node_device(first ? first : call->node[0]);
    return JIT_OK;
}
/* The operation takes operands of call->type. */
INLINE jit_status jitc_check_domain(const jitc_call *call) {
    return likely(jitc_op_accepts(call->op, call->type)) ? JIT_OK : jitc_bad_domain(call);
}
INLINE jit_status jitc_check_same_type(const jitc_call *call, const jitc_node *a,
                                       const jitc_node *b) {
    return likely(jitc_node_type(a) == jitc_node_type(b)) ? JIT_OK : jitc_bad_types(call, a, b);
}
/* *out: size of the operands from `first` on together: equal ones, or 1, which broadcasts. */
INLINE jit_status jitc_check_sizes(const jitc_call *call, uint32_t first, uint64_t *out) {
    uint64_t size = 1;
    for (uint32_t i = first; i < call->count; ++i) {
        uint64_t s = jitc_node_size(call->node[i]);
        if (unlikely(size != 1 && s != 1 && s != size))
            return jitc_bad_sizes(call, size, s);
        if (s != 1)
            size = s;
    }
    *out = size;
    return JIT_OK;
}

/* The node that equals the key, or 0 and the operand whose list it belongs to (0: the table). */
INLINE uint32_t jitc_number_find_fast(jitc_graph *g, const jitc_key *k, uint32_t *home) {
    uint32_t first = k->a > k->b ? k->a : k->b;
    const jitc_node *n = jitc_node_at(g, first);
    if (likely(!(n->flags & JITC_NODE_HUB))) {
        unsigned passed = 0;
        for (uint32_t i = jitc_node_users(n); i; ++passed) {
            const jitc_node *user = jitc_node_at(g, i);
            if (jitc_key_equals(g, k, user, i))
                return i;
            i = jitc_node_next(user);
        }
        if (likely(passed < JITC_HUB_USERS)) {
            *home = first;
            return 0;
        }
    }
    jitc_key copy =
        *k; /* so that the caller's key, whose address stays here, can be in registers */
    return jitc_number_find(g, &copy, home);
}

INLINE uint32_t jitc_slot_take(jitc_graph *g) {
    struct jitc_graph_private *p = g->p;
    uint64_t word = p->word;
    if (unlikely(!word))
        return jitc_slot_refill(g);
    p->word = word & (word - 1);
    return p->word_index * 64 + (uint32_t) __builtin_ctzll(word);
}

/* A node for the key, which nobody finds yet; 0 after jitc_fail(). */
INLINE uint32_t jitc_node_new(jitc_graph *g, const jitc_key *k, uint8_t flags) {
    uint32_t i = jitc_slot_take(g);
    if (unlikely(!i))
        return 0;
    jitc_node *n = jitc_node_at(g, i);
    n->a = k->a;
    n->b = k->b;
    n->size_low = (uint32_t) k->head;
    n->op = (uint8_t) (k->head >> 32);
    n->kind = (uint8_t) (k->head >> 40);
    n->flags = flags;
    n->size_high = (uint8_t) (k->head >> 56);
    n->external = n->internal = 0;
    n->users_generation &= ~(uint32_t) JITC_INDEX_MASK;
    n->next_device = (uint32_t) k->device << JITC_INDEX_BITS;
    jitc_node_at(g, k->a)->internal++;
    jitc_node_at(g, k->b)->internal++;
    if (unlikely(k->cold)) {
        *jitc_node_value(g, i) = k->bits;
        *jitc_node_c(g, i) = k->c;
        if (k->c)
            jitc_node_at(g, k->c)->internal++;
    }
    g->p->live++;
    return i;
}

INLINE uint32_t jitc_number_insert(jitc_graph *g, const jitc_key *k, uint32_t home) {
    uint32_t i = jitc_node_new(g, k, home == k->a ? 0 : JITC_NODE_SIDE);
    if (unlikely(!i))
        return 0;
    if (likely(home)) {
        jitc_node *at = jitc_node_at(g, home);
        jitc_node_set_next(jitc_node_at(g, i), jitc_node_users(at));
        jitc_node_set_users(at, i);
    } else {
        jitc_number_tabled(g, i);
    }
    return i;
}

/* Nobody counted node i that was made or found: it dies unless others use it. */
INLINE void jitc_node_settle(jitc_graph *g, uint32_t i) {
    if (i && jitc_node_dead(jitc_node_at(g, i)))
        jitc_node_kill(g, i);
}

INLINE void jitc_lock_graph(jitc_graph *g) ACQUIRES(&g->p->lock) {
    jitc_lock_acquire(&g->p->lock);
}
INLINE void jitc_unlock_graph(jitc_graph *g) RELEASES(&g->p->lock) UNCHECKED_LOCKING {
    if (unlikely(g->p->pending | g->p->dead_data))
        jitc_unlock_slow(g);
    else
        jitc_lock_release(&g->p->lock);
}

/* The end of every call that makes a variable: count, unlock, enter the scope. i may be 0. */
INLINE jit_var jitc_record_finish(jitc_graph *g, uint32_t i) RELEASES(&g->p->lock) {
    jit_var v = 0;
    if (likely(i)) {
        jitc_node *n = jitc_node_at(g, i);
        n->external++;
        v = jitc_node_handle(n, i);
    }
    jitc_unlock_graph(g);
    return likely(!jitc_thread_scopes) ? v : jitc_scope_take(g, v);
}
#endif
