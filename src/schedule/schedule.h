/* schedule.h: from variables that are needed to kernels that compute them.
 * Layer: schedule.  May include: core, ir, device, trace.
 *
 * Usually (one size, what is indexed is in memory) direct.c does it in one pass. Else:
 *
 *   order.c       every node that the roots need, operands first ("positions")
 *   partition.c   which of them have to be in memory; the kernels, in order of launch
 *   share.c       which of these are written by one kernel
 *   loops.c       which nodes are inside of which loop; loop_arrays.c: what loops scatter into
 *   nest.c        the nodes of a kernel, with each loop in one piece
 *   list.c        the program and the parameters of each, from a list of positions
 *
 * A node has to be in memory (it is a "target") if it is a root, if it is indexed by a gather or
 * scatter, if it is the result of a scatter or of what combines lanes, or if several kernels need
 * it and it would be dear to compute twice. A plan holds a reference to each node that it will
 * write and to each buffer that it reads. */
#ifndef JITC_SCHEDULE_SCHEDULE_H
#define JITC_SCHEDULE_SCHEDULE_H
#include "ir/program.h"
#include "trace/graph.h"

#define JITC_NONE UINT32_MAX /* no slot, no position */

/** Memory that the kernels of a plan read or write. */
typedef struct jitc_slot {
    uint32_t node;       /* whose elements they are */
    uint32_t source;     /* result of a scatter: the slot of the array that it updates; else NONE */
    uint32_t last_group; /* the last one that uses it: then `buffer` can go */
    uint32_t next_last;  /* the next slot with the same last group, or NONE */
    bool output;         /* written by this plan; `buffer` is made when its group is launched */
    size_t bytes;        /* of an output, padding included */
    size_t used_bytes;   /* of those, bytes of elements */
    jitc_buffer *buffer; /* a reference */
} jitc_slot;

typedef enum jitc_param_kind {
    JITC_PARAM_BITS,   /* a literal, or a number of elements */
    JITC_PARAM_READ,   /* address of a slot */
    JITC_PARAM_WRITE,  /* address of a slot */
    JITC_PARAM_REPORT, /* address of a jitc_bounds_report */
    JITC_PARAM_SCRATCH /* address of memory that only this kernel uses; 0: it needs none */
} jitc_param_kind;

typedef struct jitc_param {
    jitc_param_kind kind;
    uint32_t slot;
    uint64_t bits;
} jitc_param;

/** One kernel. */
typedef struct jitc_group {
    jitc_program program;
    uint64_t lanes; /* 0: nothing to launch, the outputs are made all the same */
    jitc_param *param;
    size_t param_capacity; /* the number is program.head.params */
    uint32_t *output;      /* slots that it writes */
    size_t outputs, output_capacity;
    uint32_t last; /* the first of the slots whose last group this is, or NONE */
} jitc_group;

typedef struct jitc_plan {
    jitc_group *group;
    size_t groups, group_capacity, group_made; /* made: those that own memory for reuse */
    size_t settled; /* groups that are: of the others the targets are claimed. Under the lock */
    jitc_slot *slot;
    size_t slots, slot_capacity;
    bool leaves;              /* literals and counters were wanted in memory: they stay there */
    struct jitc_order *order; /* scratch, kept from plan to plan */
} jitc_plan;

/** Nodes of one backend and device that are to be in memory. */
typedef struct jitc_wanted {
    size_t count;
    const uint32_t *node; /* indices; those that are in memory already are skipped */
    bool leaves;          /* literals and counters too */
} jitc_wanted;

/** A new plan; the scratch memory of *p is reused, and it may have no groups. Under the graph's
 * lock. *busy: set, with JIT_OK and an empty plan, if another thread is evaluating a node that is
 * needed. Otherwise all targets are claimed (JITC_NODE_CLAIMED) and held until
 * jitc_plan_settle_locked(). */
jit_status jitc_plan_make_locked(jitc_plan *p, jitc_graph *g, const jitc_options *o,
                                 const jitc_wanted *wanted, bool *busy);
/** Group `i` has been launched: its targets become evaluated, their operands are released. */
void jitc_plan_settle_locked(jitc_plan *p, jitc_graph *g, size_t i);
/** May the scatter of group `group` that writes slot `s` work in the memory of the array that it
 * updates? */
bool jitc_plan_in_place_locked(const jitc_plan *p, const jitc_graph *g, size_t group, uint32_t s);
/** Give up: targets of the groups that are not settled are not evaluated. */
void jitc_plan_abandon_locked(jitc_plan *p, jitc_graph *g);
/** Drop the references to the buffers that no group behind `group` uses; not under a lock. Foreign
 * memory waits in the graph: see jitc_graph_drop_foreign_locked(). */
void jitc_plan_drop_buffers(jitc_plan *p, jitc_graph *g, size_t group);
/** All of them. */
void jitc_plan_drop_all_buffers(jitc_plan *p, jitc_graph *g);
/** Free the scratch memory. */
void jitc_plan_finish(jitc_plan *p);
#endif
