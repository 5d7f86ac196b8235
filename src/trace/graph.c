/* Memory of the graph: chunks of slots, and the way of a dead node back to a free slot.
 *
 *   handles and users gone -> pending list -> reaped: operands lose a user -> quarantine -> free
 * bit
 *                          -> dead data list -> buffer given up after unlocking -> quarantine
 *
 * Every call reaps a little, so that nobody pays for the death of a long chain at once. Slots come
 * from a bitmap, lowest first: neighbours in a program are neighbours in memory, whatever the order
 * of freeing was. (A list of free slots loses a factor of ten after frees in random order.) */
#include "trace/private.h"
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

enum { HUGE_PAGE = 2 << 20, BUFFERS_AT_ONCE = 32 };

static size_t slab_bytes(void) {
    size_t bytes = JITC_SLAB_CHUNKS * sizeof(jitc_chunk);
    return (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

/* ---- slots ---- */

/* Present in programs with a leak checker, which must look for pointers to buffers here too. */
__attribute__((weak)) void __lsan_register_root_region(const void *p, size_t size);
__attribute__((weak)) void __lsan_unregister_root_region(const void *p, size_t size);

static void unmap_slab(void *p) {
    if (__lsan_unregister_root_region)
        __lsan_unregister_root_region(p, slab_bytes());
    munmap(p, slab_bytes());
}

/* Address space that starts at a huge page, NULL if there is none. */
static char *map_slab(void) {
    size_t bytes = slab_bytes();
    char *p = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = (size_t) (-(uintptr_t) p % HUGE_PAGE);
    if (before)
        munmap(p, before);
    munmap(p + before + bytes, HUGE_PAGE - before);
    if (__lsan_register_root_region)
        __lsan_register_root_region(p + before, bytes);
    return p + before;
}

/* The first chunk has small pages, so that small programs stay small. */
static bool map_chunk(jitc_graph *g, uint32_t chunk) {
    uint32_t place = chunk % JITC_SLAB_CHUNKS;
    char *slab = place ? (char *) g->chunk[chunk - place] : map_slab();
    if (!slab)
        return false;
    if (!place) {
        size_t skip = chunk ? 0 : HUGE_PAGE;
        madvise(slab + skip, slab_bytes() - skip, MADV_HUGEPAGE);
    }
    g->chunk[chunk] = (jitc_chunk *) (void *) slab + place;
    return true;
}

static uint32_t chunk_count(const jitc_graph *g) {
    return (g->p->top + JITC_CHUNK_NODES - 1) >> JITC_CHUNK_BITS;
}

/* The next 64 slots that were never used. */
static bool open_word(jitc_graph *g) {
    struct jitc_graph_private *p = g->p;
    if (p->top > JITC_INDEX_MASK)
        return false;
    if (p->top % JITC_CHUNK_NODES == 0 && !map_chunk(g, p->top >> JITC_CHUNK_BITS))
        return false;
    p->word_index = p->top / 64;
    p->word = p->top ? ~(uint64_t) 0 : ~(uint64_t) 1; /* slot 0 is not for variables */
    for (uint32_t i = 0; i < 64; ++i)
        jitc_node_at(g, p->top + i)->users_generation = p->first_generation << JITC_INDEX_BITS;
    p->top += 64;
    return true;
}

static uint64_t *free_bits(jitc_graph *g, uint32_t word) {
    enum { WORDS = JITC_CHUNK_NODES / 64 };
    return &g->chunk[word / WORDS]->free_bits[word % WORDS];
}

/* The lowest 64 slots of which one is free again. */
static bool find_word(jitc_graph *g) {
    struct jitc_graph_private *p = g->p;
    uint32_t end = (p->top / 64 + 63) / 64;
    while (p->hint < end && !p->summary[p->hint])
        p->hint++;
    if (p->hint == end)
        return false;
    uint64_t *summary = &p->summary[p->hint];
    p->word_index = p->hint * 64 + (uint32_t) __builtin_ctzll(*summary);
    *summary &= *summary - 1;
    uint64_t *bits = free_bits(g, p->word_index);
    p->word = *bits;
    *bits = 0;
    return true;
}

NOINLINE uint32_t jitc_slot_refill(jitc_graph *g) {
    if (find_word(g) || open_word(g))
        return jitc_slot_take(g);
    jitc_fail(JIT_OUT_OF_MEMORY, "no room for another variable; %llu are alive",
              (unsigned long long) g->p->live);
    return 0;
}

/* The slot's handles end here; others can have it when JITC_QUARANTINE slots were freed after it.
 */
static void free_slot(jitc_graph *g, uint32_t i, jitc_node *n) {
    struct jitc_graph_private *p = g->p;
    uint32_t generation = (n->users_generation >> JITC_INDEX_BITS) % (JITC_GENERATIONS - 1) + 1;
    if (unlikely(n->flags & JITC_NODE_LABELED))
        jitc_side_drop(&g->p->labels, i);
    if (unlikely(n->flags & JITC_NODE_SHAPED))
        jitc_side_drop(&g->p->layouts, i);
    n->users_generation = generation << JITC_INDEX_BITS;
    n->op = n->flags = 0;
    p->live--;
    uint32_t freed = p->ring[p->ring_place];
    p->ring[p->ring_place] = i;
    p->ring_place = (p->ring_place + 1) % JITC_QUARANTINE;
    if (unlikely(!freed))
        return;
    uint32_t word = freed / 64;
    *free_bits(g, word) |= (uint64_t) 1 << freed % 64;
    p->summary[word / 64] |= (uint64_t) 1 << word % 64;
    if (word / 64 < p->hint)
        p->hint = word / 64;
}

/* ---- death ---- */

void jitc_node_kill(jitc_graph *g, uint32_t i) {
    jitc_node *n = jitc_node_at(g, i);
    if (n->flags & JITC_NODE_PENDING)
        return;
    n->flags |= JITC_NODE_PENDING;
    uint32_t *list = n->op == JITC_OP_data ? &g->p->dead_data : &g->p->pending;
    *jitc_node_stamp(g, i) = *list;
    *list = i;
}

INLINE void drop_operand(jitc_graph *g, uint32_t i) {
    jitc_node *n = jitc_node_at(g, i);
    n->internal--;
    if (jitc_node_dead(n))
        jitc_node_kill(g, i);
}

void jitc_drop_operands(jitc_graph *g, uint32_t i) {
    jitc_node *n = jitc_node_at(g, i);
    drop_operand(g, n->a);
    drop_operand(g, n->b);
    if (unlikely(jitc_op_has_c(n->op)))
        drop_operand(g, *jitc_node_c(g, i));
}

NOINLINE void jitc_reap(jitc_graph *g, uint32_t budget) {
    struct jitc_graph_private *p = g->p;
    while (budget-- && p->pending) {
        uint32_t i = p->pending;
        jitc_node *n = jitc_node_at(g, i);
        uint32_t *stamp = jitc_node_stamp(g, i);
        p->pending = *stamp;
        *stamp = 0;
        n->flags &= (uint8_t) ~JITC_NODE_PENDING;
        if (!jitc_node_dead(n)) /* value numbering found it again */
            continue;
        if (unlikely(n->op == JITC_OP_data)) { /* found again, evaluated, died again */
            jitc_node_kill(g, i);
            continue;
        }
        jitc_number_remove(g, i);
        jitc_drop_operands(g, i);
        free_slot(g, i, n);
    }
}

/* The calling thread calls no `release` now: it is calling one, or is in the middle of something
 * that one may do as well. A release may end the life of others: those wait for the loop that runs
 * already, however long the line is. */
static _Thread_local struct {
    unsigned depth;
    bool kept; /* there is something in the line */
} held;

void jitc_graph_hold(void) {
    ++held.depth;
}

/* The line is the graph's, not the thread's: so a forked child has it, with what is in it. */
void jitc_graph_drop_foreign_locked(jitc_graph *g, jitc_buffer *b) {
    if (jitc_refcount_down_if_shared(&b->refs))
        return;
    b->next_free = g->p->dead_foreign;
    g->p->dead_foreign = b;
    held.kept = true;
}

/* The buffers of dead nodes: own ones to `out`; returns how many. */
static uint32_t take_buffers(jitc_graph *g, jitc_buffer *out[BUFFERS_AT_ONCE]) {
    uint32_t count = 0;
    while (g->p->dead_data && count < BUFFERS_AT_ONCE) {
        uint32_t i = g->p->dead_data, *stamp = jitc_node_stamp(g, i);
        jitc_buffer *b = jitc_node_buffer(g, i);
        g->p->dead_data = *stamp;
        *stamp = 0;
        *jitc_node_value(g, i) = 0;
        free_slot(g, i, jitc_node_at(g, i));
        if (b && b->foreign)
            jitc_graph_drop_foreign_locked(g, b);
        else
            out[count++] = b;
    }
    return count;
}

static void give_own_back(jitc_graph *g) UNCHECKED_LOCKING {
    jitc_buffer *buffers[BUFFERS_AT_ONCE];
    while (g->p->dead_data) {
        uint32_t count = take_buffers(g, buffers);
        jitc_lock_release(&g->p->lock);
        for (uint32_t i = 0; i < count; ++i)
            jitc_buffer_unref(buffers[i]);
        jitc_lock_acquire(&g->p->lock);
    }
}

/* One at a time: a forked child has all but the one that another thread is giving up. */
static void give_foreign_up(jitc_graph *g) UNCHECKED_LOCKING {
    jitc_buffer *b = g->p->dead_foreign;
    g->p->dead_foreign = b->next_free;
    jitc_lock_release(&g->p->lock);
    ++held.depth;
    jitc_buffer_unref(b);
    --held.depth;
    jitc_lock_acquire(&g->p->lock);
}

NOINLINE void jitc_unlock_slow(jitc_graph *g) UNCHECKED_LOCKING {
    jitc_reap(g, JITC_REAP_BUDGET);
    give_own_back(g);
    while (g->p->dead_foreign && !held.depth) {
        give_foreign_up(g);
        give_own_back(g);
    }
    jitc_lock_release(&g->p->lock);
}

void jitc_graph_let_go(jitc_graph *g) UNCHECKED_LOCKING {
    if (--held.depth || !held.kept)
        return;
    held.kept = false;
    jitc_lock_graph(g);
    jitc_unlock_slow(g);
}

/* ---- the graph ---- */

void jitc_graph_lock(jitc_graph *g) UNCHECKED_LOCKING {
    jitc_lock_graph(g);
}

void jitc_graph_unlock(jitc_graph *g) UNCHECKED_LOCKING {
    jitc_unlock_graph(g);
}

void jitc_graph_fork_hold(jitc_graph *g) UNCHECKED_LOCKING {
    jitc_lock_acquire(&g->p->lock);
}

void jitc_graph_fork_release(jitc_graph *g) UNCHECKED_LOCKING {
    jitc_lock_release(&g->p->lock);
}

void jitc_graph_forked(jitc_graph *g) {
    jitc_lock_init(&g->p->lock); /* whoever held it: that thread is not in this process */
    held.kept = true;            /* what others held back, if they did */
}

/* Chunks that are not there yet: nodes of zeros, so that no handle needs a check of its range. */
static bool map_zeros(jitc_graph *g) {
    jitc_chunk *zeros = mmap(NULL, sizeof(jitc_chunk), PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED)
        return false;
    for (size_t i = 0; i < sizeof g->chunk / sizeof *g->chunk; ++i)
        g->chunk[i] = zeros;
    return true;
}

static uint64_t new_id(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec + 1;
}

/* Node 0; see private.h. */
static bool make_no_operand(jitc_graph *g) {
    if (!open_word(g))
        return false;
    jitc_node *n = jitc_node_at(g, 0);
    n->users_generation = 0;
    n->flags = JITC_NODE_HUB;
    n->internal = 1u << 31;
    return true;
}

jit_status jitc_graph_create(jitc_graph **out) {
    jit_status status;
    void *p = NULL;
    jitc_graph *g = NULL;
    TRY(jitc_calloc(1, sizeof *g, (void **) &g));
    TRY_GOTO(jitc_calloc(1, sizeof *g->p, &p), free_graph);
    g->p = p;
    g->stamp_base = 1;
    g->p->id = new_id();
    g->p->first_generation = (uint32_t) (g->p->id % (JITC_GENERATIONS - 1)) + 1;
    TRY_GOTO(jitc_scope_init(), free_private);
    jitc_lock_init(&g->p->lock);
    if (!map_zeros(g) || !make_no_operand(g)) {
        status = jitc_fail(JIT_OUT_OF_MEMORY, "no address space for the graph of variables");
        goto finish_lock;
    }
    *out = g;
    return JIT_OK;
finish_lock:
    if (g->chunk[1])
        munmap(g->chunk[1], sizeof(jitc_chunk));
    jitc_lock_finish(&g->p->lock);
free_private:
    free(g->p);
free_graph:
    free(g);
    return status;
}

/* Handles die before the first buffer does, because its release is user code that may use them. */
static void release_all(jitc_graph *g) {
    for (uint32_t i = 0; i < g->p->top; ++i)
        jitc_node_at(g, i)->external = 0;
    for (uint32_t i = 0; i < g->p->top; ++i)
        if (jitc_node_at(g, i)->op == JITC_OP_data)
            jitc_buffer_unref(jitc_node_buffer(g, i));
    for (jitc_buffer *b; (b = g->p->dead_foreign) != NULL;) {
        g->p->dead_foreign = b->next_free;
        jitc_buffer_unref(b);
    }
}

void jitc_graph_destroy(jitc_graph *g) {
    if (!g)
        return;
    release_all(g);
    enum { LAST = (1 << (JITC_INDEX_BITS - JITC_CHUNK_BITS)) - 1 };
    uint32_t chunks = chunk_count(g);
    if (chunks <= LAST)
        munmap(g->chunk[LAST], sizeof(jitc_chunk));
    for (uint32_t c = 0; c < chunks; c += JITC_SLAB_CHUNKS)
        unmap_slab(g->chunk[c]);
    jitc_side_finish(&g->p->labels);
    jitc_side_finish(&g->p->layouts);
    jitc_lock_finish(&g->p->lock);
    free(g->p->table.entries);
    free(g->p);
    free(g);
}

void jitc_graph_reap_locked(jitc_graph *g) {
    jitc_reap(g, UINT32_MAX);
}

uint32_t jitc_graph_stamps_locked(jitc_graph *g) {
    jitc_reap(g, UINT32_MAX); /* the dead are linked through the stamps */
    if (g->stamp_base < UINT32_MAX - g->p->top)
        return g->stamp_base;
    for (uint32_t c = 0; c < chunk_count(g); ++c)
        memset(g->chunk[c]->stamp, 0, sizeof g->chunk[c]->stamp);
    /* Only dead data is left, and its list was cleared too: rebuild it. */
    g->p->dead_data = 0;
    for (uint32_t i = 1; i < g->p->top; ++i) {
        jitc_node *n = jitc_node_at(g, i);
        if (n->flags & JITC_NODE_PENDING) {
            n->flags &= (uint8_t) ~JITC_NODE_PENDING;
            jitc_node_kill(g, i);
        }
    }
    return g->stamp_base = 1;
}

jitc_graph_stats jitc_graph_get_stats(jitc_graph *g) {
    jitc_lock_graph(g);
    while (g->p->pending || g->p->dead_data) {
        jitc_reap(g, UINT32_MAX);
        jitc_unlock_graph(g);
        jitc_lock_graph(g);
    }
    jitc_graph_stats s = {.variables = g->p->live,
                          .bytes = sizeof *g + sizeof *g->p + chunk_count(g) * sizeof(jitc_chunk) +
                                   jitc_table_bytes(&g->p->table) +
                                   jitc_table_bytes(&g->p->labels.table) +
                                   jitc_table_bytes(&g->p->layouts.table)};
    jitc_unlock_graph(g);
    return s;
}
