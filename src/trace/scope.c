/* Scopes: per thread, which references it got and which it gave back.
 *
 *   got    [ outermost scope | next | innermost ]      begins: where each scope starts in both
 *   given  [ outermost scope | next | innermost ]
 *
 * What was given back is matched when the scope ends. Most references that are given back were got
 * just before; those are taken out of `got` at once. */
#include "trace/private.h"
#include <stdlib.h>

enum { LOOK_BACK = 8, FEW = 8, RELEASE_AT_ONCE = 256 };

typedef struct list {
    jit_var *items;
    size_t count, capacity;
} list;

typedef struct begin {
    size_t got, given;
} begin;

struct jitc_scope_stack {
    uint64_t graph; /* jitc_graph_private.id; of another graph: the lists are stale */
    list got, given;
    begin *begins;
    size_t depth, depth_capacity;
};

/* Scopes that could not be opened, inside of those that could: their ends close no other one. */
static _Thread_local size_t scopes_missing;

_Thread_local jitc_scope_stack *jitc_thread_scopes;

/* For threads that end in a scope. One key for all graphs, since such a thread may outlive them. */
typedef struct end_key {
    pthread_once_t once;
    bool made;
    pthread_key_t key;
} end_key;

static end_key at_end = {.once = PTHREAD_ONCE_INIT};

/* Other destructors of the thread may still call the library, so the pointer goes as well. */
static void destroy(void *stack) {
    jitc_scope_stack *s = stack;
    jitc_thread_scopes = NULL;
    free(s->got.items);
    free(s->given.items);
    free(s->begins);
    free(s);
}

static void make_key(void) {
    at_end.made = pthread_key_create(&at_end.key, destroy) == 0;
}

jit_status jitc_scope_init(void) {
    pthread_once(&at_end.once, make_key);
    return at_end.made ? JIT_OK : jitc_fail(JIT_OUT_OF_MEMORY, "no thread-specific key for scopes");
}

/* ---- sets of references ---- */

static int compare(const void *x, const void *y) {
    jit_var a = *(const jit_var *) x, b = *(const jit_var *) y;
    return a < b ? -1 : a > b;
}

static void swap(jit_var *a, jit_var *b) {
    jit_var t = *a;
    *a = *b;
    *b = t;
}

/* Move one entry of `from` for each entry of `wanted` to the front of `from`; returns how many. The
 * wanted ones that are not there move to the front of `wanted`. */
static size_t match_few(jit_var *from, size_t n, jit_var *wanted, size_t m) {
    size_t found = 0, missing = 0;
    for (size_t w = 0; w < m; ++w) {
        size_t at = found;
        while (at < n && from[at] != wanted[w])
            ++at;
        if (at < n)
            swap(&from[at], &from[found++]);
        else
            wanted[missing++] = wanted[w];
    }
    return found;
}

static size_t match(jit_var *from, size_t n, jit_var *wanted, size_t m) {
    if (!n || !m)
        return 0;
    if (m <= FEW)
        return match_few(from, n, wanted, m);
    qsort(from, n, sizeof *from, compare);
    qsort(wanted, m, sizeof *wanted, compare);
    size_t found = 0, missing = 0;
    for (size_t at = 0, w = 0; w < m; ++w) {
        while (at < n && from[at] < wanted[w])
            ++at;
        if (at < n && from[at] == wanted[w])
            swap(&from[at++], &from[found++]);
        else
            wanted[missing++] = wanted[w];
    }
    return found;
}

static begin *innermost(jitc_scope_stack *s) {
    return &s->begins[s->depth - 1];
}

/* What follows the first entries of a list. One that never grew has no memory to point into. */
static jit_var *entries(const list *l, size_t first) {
    return l->items ? l->items + first : NULL;
}

/* Cancel what the innermost scope got against what was given back since it began. */
static void cancel(jitc_scope_stack *s) {
    begin b = *innermost(s);
    size_t n = s->got.count - b.got, m = s->given.count - b.given;
    if (!n || !m)
        return;
    jit_var *got = entries(&s->got, b.got), *given = entries(&s->given, b.given);
    size_t found = match(got, n, given, m);
    memmove(got, got + found, (n - found) * sizeof *got);
    s->got.count -= found;
    s->given.count -= found;
}

/* Before a list grows, in case much of it cancels: a long loop in one scope stays small. */
static jit_status append(jitc_scope_stack *s, list *l, jit_var v) {
    if (unlikely(l->count == l->capacity)) {
        begin b = *innermost(s);
        if ((s->given.count - b.given) * 2 >= s->got.count - b.got)
            cancel(s);
        TRY(jitc_grow((void **) &l->items, &l->capacity, l->count + 1, sizeof *l->items));
    }
    l->items[l->count++] = v;
    return JIT_OK;
}

/* ---- during a scope ---- */

/* The graph that the lists belong to is gone: the scopes stay open, empty. */
static void follow_graph(const jitc_graph *g, jitc_scope_stack *s) {
    if (likely(s->graph == g->p->id))
        return;
    s->graph = g->p->id;
    s->got.count = s->given.count = 0;
    memset(s->begins, 0, s->depth * sizeof *s->begins);
}

jit_var jitc_scope_take(jitc_graph *g, jit_var v) {
    jitc_scope_stack *s = jitc_thread_scopes;
    if (!v)
        return 0;
    follow_graph(g, s);
    if (likely(append(s, &s->got, v) == JIT_OK))
        return v;
    jitc_graph_hold();
    jitc_thread_scopes = NULL; /* not a reference of the scope */
    jitc_trace_unref(g, v);
    jitc_thread_scopes = s;
    jitc_graph_let_go(g);
    return 0;
}

void jitc_scope_gave_back(jitc_graph *g, jit_var v) {
    jitc_scope_stack *s = jitc_thread_scopes;
    follow_graph(g, s);
    size_t first = innermost(s)->got, count = s->got.count;
    jit_var *got = s->got.items;
    for (size_t i = count; i > first && i + LOOK_BACK > count; --i)
        if (got[i - 1] == v) {
            memmove(&got[i - 1], &got[i], (count - i) * sizeof *got);
            s->got.count--;
            return;
        }
    append(s, &s->given, v);
}

/* ---- begin and end ---- */

static jit_status open_first(jitc_graph *g) {
    jitc_scope_stack *s = NULL;
    TRY(jitc_calloc(1, sizeof *s, (void **) &s));
    s->graph = g->p->id;
    pthread_setspecific(at_end.key, s);
    jitc_thread_scopes = s;
    return JIT_OK;
}

static void close_last(void) {
    pthread_setspecific(at_end.key, NULL);
    destroy(jitc_thread_scopes);
}

static jit_status push(jitc_graph *g) {
    if (!jitc_thread_scopes)
        TRY(open_first(g));
    jitc_scope_stack *s = jitc_thread_scopes;
    follow_graph(g, s);
    TRY(jitc_grow((void **) &s->begins, &s->depth_capacity, s->depth + 1, sizeof *s->begins));
    s->begins[s->depth++] = (begin) {s->got.count, s->given.count};
    return JIT_OK;
}

jit_status jitc_trace_scope_push(jitc_graph *g) {
    jit_status status = scopes_missing ? JIT_OUT_OF_MEMORY : push(g);
    if (status == JIT_OK)
        return JIT_OK;
    scopes_missing++;
    if (jitc_thread_scopes && !jitc_thread_scopes->depth)
        close_last();
    return status;
}

static void release(jitc_graph *g, const jit_var *v, size_t n) {
    for (size_t i = 0; i < n;) {
        jitc_lock_graph(g);
        for (size_t end = i + RELEASE_AT_ONCE; i < n && i < end; ++i) {
            jitc_node *node = jitc_node_at(g, v[i] & JITC_INDEX_MASK);
            if (!jitc_node_alive(node, v[i])) /* given back twice, in another thread */
                continue;
            node->external--;
            jitc_node_settle(g, v[i] & JITC_INDEX_MASK);
        }
        jitc_unlock_graph(g);
    }
}

static jit_status check_kept(jitc_graph *g, size_t n, const jit_var *keep) {
    jit_status status = JIT_OK;
    jitc_lock_graph(g);
    for (size_t i = 0; i < n && status == JIT_OK; ++i)
        if (keep[i] && !jitc_graph_find_locked(g, "jit_scope_pop", keep[i]))
            status = JIT_INVALID_HANDLE;
    jitc_unlock_graph(g);
    return status;
}

/* Move the kept ones of the scope's n references to the front; returns how many. */
static jit_status match_kept(jitc_scope_stack *s, size_t n, const jit_var *keep, size_t *kept) {
    size_t end = s->given.count;
    TRY(jitc_grow((void **) &s->given.items, &s->given.capacity, end + n, sizeof *keep));
    for (size_t i = 0; i < n; ++i)
        s->given.items[end + i] = keep[i];
    size_t first = innermost(s)->got;
    *kept = match(entries(&s->got, first), s->got.count - first, entries(&s->given, end), n);
    return JIT_OK;
}

jit_status jitc_trace_scope_pop(jitc_graph *g, size_t n, const jit_var *keep) {
    jitc_scope_stack *s = jitc_thread_scopes;
    if (scopes_missing) {
        scopes_missing--;
        return jitc_fail(JIT_OUT_OF_MEMORY, "jit_scope_pop: there was no memory to open the scope");
    }
    if (!s)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_scope_pop: no scope is open");
    follow_graph(g, s);
    jit_status status = check_kept(g, n, keep);
    cancel(s);
    size_t kept = 0, first = innermost(s)->got;
    jit_status matched = match_kept(s, n, keep, &kept);
    size_t end = s->got.count;
    if (matched != JIT_OK) /* without memory everything is kept rather than lost */
        kept = end - first;
    jitc_graph_hold(); /* user code may open scopes: it is called when this one is closed */
    release(g, entries(&s->got, first + kept), end - first - kept);
    s->depth--;
    s->got.count = s->depth ? first + kept : 0;
    if (!s->depth)
        close_last();
    jitc_lock_graph(g);
    jitc_unlock_graph(g);
    jitc_graph_let_go(g);
    return status != JIT_OK ? status : matched;
}
