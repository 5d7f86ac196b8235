/* tables.c: launches of kernels that combine values into elements of arrays.  Layer: llvm.
 * May include: core, ir.
 *
 *   scratch:  group 0                group 1 ...
 *             copy 0  copy 1 ...     copy 0 ...      copies: see scatter_reduce.h
 *             table, table, ...
 *
 * A group is a block of the task, so that one thread works in it. It is filled with the identity by
 * whoever begins the block; then the kernel runs with the addresses of its first copy in place of
 * the arrays'. The tables are merged in their order. */
#include "llvm/tables.h"
#include "llvm/scatter_reduce.h"
#include "llvm/update.h"
#include <stdlib.h>
#include <string.h>

/* Nanoseconds of an update, one lane after the other and by compare-and-swap. */
#define ALONE_NS  2.0
#define SHARED_NS 7.0

enum {
    MAX_PARAMS = 64,
    LINE = 64,
    GROUP_LANES = 4096,      /* at least, in a group */
    MOST_SCRATCH = 64 << 20, /* bytes */
    CACHE_8 = 32 << 10,      /* 8 copies pay if they fit in this, ... */
    CACHE_4 = 64 << 10,      /* ... 4 in this, 1 beyond */
    MERGE_BLOCK = 1 << 14
};
_Static_assert(8 <= JITC_UPDATE_MOST_COPIES, "the code of kernels knows of fewer copies");

/* ---- What is known of a program ---- */

static jitc_table *find(jitc_tables *t, uint32_t parameter) {
    for (uint32_t i = 0; i < t->count; i++)
        if (t->table[i].parameter == parameter)
            return &t->table[i];
    return NULL;
}

/** Note what instruction `i` does to arrays. False if tables cannot stand for them. */
static bool note_update(const jitc_program *p, const jitc_inst *i, jitc_tables *out) {
    uint32_t parameter = p->inst[i->a].a;
    jitc_table *known = find(out, parameter);
    if (i->aux & JITC_AUX_PART)
        return false;
    if (known)
        return known->op == jitc_inst_reduce(i);
    if (out->count == JITC_MAX_TABLES)
        return false;
    out->table[out->count++] = (jitc_table) {parameter, (jit_dtype) i->type, jitc_inst_reduce(i)};
    return true;
}

static bool is_used_otherwise(const jitc_program *p, jitc_tables *t) {
    for (uint32_t n = 0; n < p->head.count; n++) {
        const jitc_inst *i = &p->inst[n];
        if ((i->op == JITC_OP_gather || i->op == JITC_OP_scatter) && find(t, p->inst[i->a].a))
            return true;
    }
    return false;
}

void jitc_tables_init(const jitc_program *p, int threads, jitc_tables *out) {
    *out = (jitc_tables) {.threads = threads,
                          .scratch = p->head.scratch,
                          .params = p->head.params,
                          .loops = p->head.flags & JITC_PROGRAM_LOOPS,
                          .apart = p->head.params <= MAX_PARAMS};
    for (uint32_t n = 0; n < p->head.count; n++) {
        const jitc_inst *i = &p->inst[n];
        if (i->op == JITC_OP_data && !(i->flags & JITC_INST_SCALAR))
            out->bytes += jitc_dtypes[i->type].bytes;
        if (i->op != JITC_OP_scatter_reduce)
            continue;
        ++out->updates;
        out->apart = note_update(p, i, out) && out->apart;
    }
    out->bytes = out->bytes < 4 ? 4 : out->bytes;
    out->apart = out->apart && !is_used_otherwise(p, out);
}

size_t jitc_tables_scratch(const jitc_tables *t, uint64_t lanes) {
    if (!t->apart || !t->updates || lanes < GROUP_LANES)
        return 0;
    uint64_t room = lanes * t->bytes / 2;
    uint64_t most = t->threads == 1 ? CACHE_4 + 8 * LINE : MOST_SCRATCH;
    return room < most ? (size_t) room : (size_t) most;
}

/* ---- A launch with tables ---- */

/** How the scratch memory is used. */
typedef struct layout {
    uint64_t groups, copies;
    uint64_t stride; /* bytes of a copy: all tables, each from a cache line on */
    uint64_t block;  /* lanes of a group */
} layout;

static uint64_t lines(uint64_t bytes) {
    return (bytes + LINE - 1) / LINE * LINE;
}

static uint64_t table_bytes(const jitc_table *t, const uint64_t *params) {
    return params[t->parameter + 1] * jitc_dtypes[t->type].bytes;
}

/** One more line, so that the copies of an element do not lie at the same place of their pages. */
static uint64_t stride_of(const jitc_tables *t, const uint64_t *params, uint64_t room) {
    uint64_t sum = LINE;
    for (uint32_t i = 0; i < t->count; i++) {
        if (params[t->table[i].parameter + 1] > room)
            return room + 1; /* too much, and no overflow */
        sum += lines(table_bytes(&t->table[i], params));
    }
    return sum;
}

/** Is the launch to work in tables? Then *out says in which. */
static bool choose_layout(const jitc_tables *t, const jitc_task *task, layout *out) {
    uint64_t room = jitc_tables_scratch(t, task->lanes), threads = (uint64_t) t->threads;
    if (!room || !task->params[t->scratch])
        return false;
    uint64_t stride = stride_of(t, task->params, room);
    uint64_t copies = stride * 8 <= CACHE_8 + 8 * LINE   ? 8
                      : stride * 4 <= CACHE_4 + 4 * LINE ? 4
                                                         : 1;
    uint64_t groups = threads == 1 ? 1 : threads * (t->loops ? 16 : 4);
    uint64_t most = task->lanes / GROUP_LANES;
    groups = groups > most ? most : groups;
    /* More groups than threads let these end together; filling and merging them must cost little.
     */
    while (groups > threads && groups * copies * stride > room / 8)
        groups = (groups + 1) / 2;
    while (copies > 1 && groups * copies * stride > room)
        copies /= 2;
    if (groups * copies * stride > room || groups * copies < 2)
        return false;
    uint64_t block = (task->lanes + groups - 1) / groups;
    *out = (layout) {groups, copies, stride, (block + 63) / 64 * 64};
    return true;
}

static void fill_bytes(char *to, uint64_t bytes, uint64_t identity, unsigned width) {
    for (unsigned i = 0; i < LINE; i += width)
        memcpy(to + i, &identity, width);
    for (uint64_t at = LINE; at < bytes; at += LINE)
        memcpy(to + at, to, LINE);
}

/* Parameters of run_apart. */
enum { OF_PLAN, OF_KERNEL, OF_BLOCK, OF_COPIES, OF_STRIDE, OF_PROGRAM /* those of the kernel */ };

/** Fill the tables of a group, and put their addresses in place of the arrays'. */
static void enter_group(const jitc_tables *t, char *group, const uint64_t *params, uint64_t *own) {
    for (uint32_t i = 0; i < t->count; i++) {
        const jitc_table *table = &t->table[i];
        uint64_t bytes = lines(table_bytes(table, own));
        uint64_t identity = jitc_update_identity(table->op, table->type);
        for (uint64_t c = 0; c < params[OF_COPIES] && bytes; c++)
            fill_bytes(group + c * params[OF_STRIDE], bytes, identity,
                       jitc_dtypes[table->type].bytes);
        own[table->parameter] = (uintptr_t) group;
        group += bytes;
    }
}

/** A task: the kernel's lanes begin ... end-1, one group. */
static void run_apart(uint64_t begin, uint64_t end, const uint64_t *params) {
    const jitc_tables *t;
    uint64_t own[MAX_PARAMS], copies = params[OF_COPIES], stride = params[OF_STRIDE];
    jitc_task_function kernel;
    memcpy(&t, &params[OF_PLAN], sizeof t);
    memcpy(&kernel, &params[OF_KERNEL], sizeof kernel);
    memcpy(own, params + OF_PROGRAM, t->params * sizeof *own);
    char *scratch = (char *) (uintptr_t) own[t->scratch];
    enter_group(t, scratch + begin / params[OF_BLOCK] * copies * stride, params, own);
    own[t->scratch + 1] = JITC_UPDATE_COPIES(copies);
    own[t->scratch + 2] = stride;
    kernel(begin, end, own);
}

/** A task: elements begin ... end-1 of an array. params: the array, its first table, bytes from
 * table to table, how many, the function, bytes of an element. */
static void merge_tables(uint64_t begin, uint64_t end, const uint64_t *params) {
    jitc_merge merge;
    memcpy(&merge, &params[4], sizeof merge);
    uint64_t offset = begin * params[5];
    for (uint64_t i = 0; i < params[3]; i++)
        merge((char *) (uintptr_t) params[0] + offset,
              (const char *) (uintptr_t) params[1] + i * params[2] + offset, end - begin);
}

static jit_status launch_merge(const jitc_table *t, jitc_queue *q, const uint64_t *params,
                               uint64_t first, const layout *l, uint64_t *number) {
    uint64_t size = params[t->parameter + 1];
    uint64_t tables = l->groups * l->copies;
    uint64_t own[6] = {params[t->parameter],      first, l->stride, tables, 0,
                       jitc_dtypes[t->type].bytes};
    jitc_merge function = jitc_merge_function(t->op, t->type);
    memcpy(&own[4], &function, sizeof function);
    jitc_task merge = {.function = merge_tables,
                       .lanes = size,
                       .block = MERGE_BLOCK,
                       .cost_ns = (double) (size * tables),
                       .params = own,
                       .count = 6};
    if (!size || jitc_queue_launch(q, &merge, number) == JIT_OK)
        return JIT_OK;
    /* Half of it is queued already: the only way not to leave it half done is to wait. */
    jitc_error ignored;
    jitc_error_take(&ignored);
    jitc_queue_wait(q, *number);
    merge_tables(0, size, own);
    return JIT_OK;
}

static jit_status launch_apart(const jitc_tables *t, jitc_queue *q, const jitc_task *task,
                               const layout *l, uint64_t *number) {
    uint64_t params[OF_PROGRAM + MAX_PARAMS] = {
        [OF_BLOCK] = l->block, [OF_COPIES] = l->copies, [OF_STRIDE] = l->stride};
    memcpy(&params[OF_PLAN], &t, sizeof t);
    memcpy(&params[OF_KERNEL], &task->function, sizeof task->function);
    memcpy(params + OF_PROGRAM, task->params, t->params * sizeof *params);
    jitc_task own = *task;
    own.function = run_apart;
    own.block = l->block;
    own.params = params;
    own.count = OF_PROGRAM + t->params;
    TRY(jitc_queue_launch(q, &own, number));
    uint64_t first = task->params[t->scratch];
    for (uint32_t i = 0; i < t->count; i++) {
        TRY(launch_merge(&t->table[i], q, task->params, first, l, number));
        first += lines(table_bytes(&t->table[i], task->params));
    }
    return JIT_OK;
}

/* ---- The other ways ---- */

static jit_status launch_shared(const jitc_tables *t, jitc_queue *q, const jitc_task *task,
                                uint64_t *number) {
    uint64_t *params;
    TRY(jitc_calloc(task->count, sizeof *params, (void **) &params));
    memcpy(params, task->params, task->count * sizeof *params);
    params[t->scratch + 1] = JITC_UPDATE_SHARED;
    jitc_task own = *task;
    own.params = params;
    jit_status status = jitc_queue_launch(q, &own, number);
    free(params);
    return status;
}

jit_status jitc_tables_launch(const jitc_tables *t, jitc_queue *q, const jitc_task *task,
                              uint64_t *number) {
    layout l;
    double updates = (double) t->updates * (double) task->lanes;
    double alone = task->cost_ns + updates * ALONE_NS;
    double shared = (task->cost_ns + updates * SHARED_NS) / t->threads;
    if (choose_layout(t, task, &l))
        return launch_apart(t, q, task, &l, number);
    if (shared < alone && task->lanes > task->block)
        return launch_shared(t, q, task, number);
    jitc_task own = *task;
    own.block = own.lanes;
    return jitc_queue_launch(q, &own, number);
}
