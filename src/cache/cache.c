/* cache.c: one lookup for all programs of an evaluation; who misses compiles, the others wait.
 * Layer: cache.
 *
 * A `build` is one kernel in the making. It is in the list of builds from the moment that the first
 * thread misses it until it is in the table or has failed; both changes happen under the table's
 * lock, so a program that is in neither place under that lock is nobody's work yet. A call first
 * claims all it misses, then completes what it claimed, and only then waits for others: no circle
 * of waits. */
#include "cache/cache.h"
#include "cache/hot.h"
#include <stdlib.h>

typedef struct build {
    jitc_entry *entry;   /* the builder's until `done`, then as if by reference; NULL: failed */
    struct build *next;  /* in the list of builds; the following: under the lock */
    const char *builder; /* identity of the thread */
    unsigned users;      /* builder and waiters that still look at it */
    bool done;
    jitc_error error; /* if it failed */
} build;

struct jitc_cache {
    jitc_table table; /* its lock guards `builds`, what is in them, and `helpers` */
    jitc_compiler compiler;
    jitc_hot hot;
    build *builds;
    pthread_cond_t built; /* some build is done */
    unsigned helpers;     /* threads that compile besides the calling ones */
    _Atomic uint64_t memory_hits;
};

/** One call of jitc_cache_get that misses something. */
typedef struct request {
    jitc_cache *cache;
    jitc_key key; /* but for the hash */
    uint64_t seed;
    size_t count;
    const jitc_program *const *programs;
    jitc_cached **out;
    build **builds; /* for the programs whose out[i] is NULL, in order */
    build **own;    /* those of them that this request completes */
    size_t missing, owned;
} request;

/* Its address tells threads apart. */
static _Thread_local char self;

static jitc_key key_of(const request *r, size_t i) {
    jitc_key key = r->key;
    key.hash = jitc_program_hash(r->programs[i], r->seed);
    return key;
}

static jitc_cached *cached_of(jitc_entry *e) {
    return e ? &e->cached : NULL;
}

static jitc_entry *entry_of(jitc_cached *k) {
    return (jitc_entry *) k; /* its first member */
}

/* ---- Claiming ---- */

static bool same_kernel(const jitc_entry *a, const jitc_entry *b) {
    return jitc_hash_equal(a->key.hash, b->key.hash) && a->key.backend == b->key.backend &&
           a->key.device == b->key.device && jitc_program_equal(&a->program, &b->program);
}

static build *find_build_locked(jitc_cache *c, const jitc_entry *e) REQUIRES(&c->table.lock) {
    build *b = c->builds;
    while (b && !same_kernel(b->entry, e))
        b = b->next;
    return b;
}

static void unlink_build_locked(jitc_cache *c, build *b) REQUIRES(&c->table.lock) {
    build **link = &c->builds;
    while (*link != b)
        link = &(*link)->next;
    *link = b->next;
}

static jit_status make_build(const request *r, size_t i, build **out) {
    jitc_key key = key_of(r, i);
    TRY(jitc_calloc(1, sizeof **out, (void **) out));
    build *b = *out;
    b->users = 1;
    b->builder = &self;
    jit_status status = jitc_table_make(&r->cache->table, &key, r->programs[i], &b->entry);
    if (status != JIT_OK)
        free(b);
    return status;
}

/* Find the kernel of program i after all, or the build of another thread, or start one. */
static jit_status claim(request *r, size_t i) {
    jitc_cache *c = r->cache;
    build *fresh, *b;
    TRY(make_build(r, i, &fresh));
    jitc_mutex_lock(&c->table.lock);
    /* Nothing can leave the table now, so that find() cannot come to need the lock. */
    jitc_entry *e = jitc_table_find(&c->table, &fresh->entry->key, &fresh->entry->program);
    if (!e && (b = find_build_locked(c, fresh->entry))) {
        b->users++;
        r->builds[r->missing++] = b;
    } else if (!e) {
        fresh->next = c->builds;
        c->builds = fresh;
        r->own[r->owned++] = r->builds[r->missing++] = fresh;
        fresh = NULL;
    }
    jitc_mutex_unlock(&c->table.lock);
    r->out[i] = cached_of(e);
    if (fresh) {
        fresh->entry->next = NULL;
        jitc_table_bury(&c->table, fresh->entry);
        free(fresh);
    }
    return JIT_OK;
}

/* ---- Completing ---- */

static size_t entry_limit(const jitc_cache *c) {
    int64_t limit = c->compiler.options->cache_entries;
    return limit > 0 ? (size_t) limit : 1;
}

/* The end of a build: into the table, or failed with the calling thread's error, which is taken.
 * Each user gets a reference. */
static void complete(jitc_cache *c, build *b, jit_status status) {
    jitc_entry *dead = NULL;
    jitc_mutex_lock(&c->table.lock);
    if (b->done) { /* given up by jitc_cache_forked: a helper has forked, and ends with this */
        jitc_mutex_unlock(&c->table.lock);
        return;
    }
    if (status == JIT_OK)
        status = jitc_table_insert_locked(&c->table, b->entry, b->users, entry_limit(c), &dead);
    if (status != JIT_OK) {
        jitc_error_take(&b->error);
        b->error.status = status;
        b->entry->next = dead;
        dead = b->entry;
        b->entry = NULL;
    }
    unlink_build_locked(c, b);
    b->done = true;
    pthread_cond_broadcast(&c->built);
    jitc_mutex_unlock(&c->table.lock);
    jitc_table_bury(&c->table, dead);
}

static void compile(jitc_cache *c, build *b) {
    complete(c, b, jitc_compiler_compile(&c->compiler, b->entry));
    jit_error_clear(); /* of storing on disk */
}

/* Builds that are this request's to compile, shared out among threads. */
typedef struct batch {
    jitc_cache *cache;
    build **builds;
    size_t count;
    atomic_size_t next;
} batch;

static void *compile_batch(void *context) {
    batch *b = context;
    unsigned generation = jitc_load_relaxed(&jitc_fork_generation);
    for (size_t i; generation == jitc_load_relaxed(&jitc_fork_generation) &&
                   (i = jitc_add_relaxed(&b->next, 1)) < b->count;)
        compile(b->cache, b->builds[i]);
    return NULL;
}

static unsigned usable_cores(const jitc_options *o) {
    return o->num_threads > 0 ? (unsigned) o->num_threads : (unsigned) jitc_usable_cores();
}

/* How many of `wanted` helpers may start now; all calls together leave one core to each caller. */
static unsigned reserve_helpers(jitc_cache *c, size_t wanted, unsigned cores) {
    jitc_mutex_lock(&c->table.lock);
    unsigned room = cores > c->helpers + 1 ? cores - c->helpers - 1 : 0;
    unsigned granted = wanted < room ? (unsigned) wanted : room;
    c->helpers += granted;
    jitc_mutex_unlock(&c->table.lock);
    return granted;
}

static void return_helpers(jitc_cache *c, unsigned count) {
    jitc_mutex_lock(&c->table.lock);
    c->helpers -= count;
    jitc_mutex_unlock(&c->table.lock);
}

/* A function of the log has forked, and this is the child: the helpers are not there, and what they
 * were compiling is still to be done. */
static void complete_alone(jitc_cache *c, build **builds, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!builds[i]->done)
            compile(c, builds[i]);
}

/* The caller's thread works too, so that nothing depends on threads being available. */
static void compile_all(jitc_cache *c, build **builds, size_t count) {
    enum { MOST = 64 };
    pthread_t thread[MOST];
    batch work = {.cache = c, .builds = builds, .count = count};
    size_t wanted = count - 1 < MOST ? count - 1 : MOST;
    unsigned granted = wanted ? reserve_helpers(c, wanted, usable_cores(c->compiler.options)) : 0;
    unsigned started = 0;
    while (started < granted && jitc_thread_start(&thread[started], compile_batch, &work))
        started++;
    unsigned generation = jitc_load_relaxed(&jitc_fork_generation);
    compile_batch(&work);
    if (generation != jitc_load_relaxed(&jitc_fork_generation)) {
        complete_alone(c, builds, count);
        return;
    }
    for (unsigned i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    if (granted)
        return_helpers(c, granted);
}

/* Complete what this request has claimed: what is on disk, then the rest. */
static void complete_own(request *r) {
    size_t rest = 0;
    for (size_t i = 0; i < r->owned; i++)
        if (jitc_compiler_load(&r->cache->compiler, r->own[i]->entry))
            complete(r->cache, r->own[i], JIT_OK);
        else
            r->own[rest++] = r->own[i];
    if (rest)
        compile_all(r->cache, r->own, rest);
}

/* Let what this request has claimed fail with the calling thread's error, which stays. */
static void fail_own(request *r) {
    jitc_error error;
    jitc_error_take(&error);
    for (size_t i = 0; i < r->owned; i++) {
        jitc_error_raise(&error);
        complete(r->cache, r->own[i], error.status);
    }
    jitc_error_raise(&error);
}

/* Wait for a build and give its kernel, with a reference, or raise its error. */
static jit_status take_result(jitc_cache *c, build *b, jitc_cached **out) {
    jitc_mutex_lock(&c->table.lock);
    while (!b->done)
        jitc_cond_wait(&c->built, &c->table.lock);
    bool last = --b->users == 0;
    *out = cached_of(b->entry);
    jit_status status = *out ? JIT_OK : jitc_error_raise(&b->error);
    jitc_mutex_unlock(&c->table.lock);
    if (last)
        free(b);
    return status;
}

static jit_status serve(request *r) {
    jit_status status = JIT_OK;
    for (size_t i = 0; i < r->count && status == JIT_OK; i++)
        if (!r->out[i])
            status = claim(r, i);
    if (status == JIT_OK)
        complete_own(r);
    else
        fail_own(r);
    for (size_t i = 0, k = 0; k < r->missing; i++)
        if (!r->out[i]) {
            jit_status result = take_result(r->cache, r->builds[k++], &r->out[i]);
            status = status == JIT_OK ? result : status;
        }
    return status;
}

/* The programs whose out[i] is NULL. The thread may have an error already, from before: it is put
 * aside, so that what fails here can be told from it. */
static jit_status get_missing(request *r, size_t missing) {
    jitc_error before, failure = {0};
    jitc_error_take(&before);
    jit_status status = jitc_compiler_open(&r->cache->compiler);
    if (status == JIT_OK)
        status = jitc_calloc(2 * missing, sizeof *r->builds, (void **) &r->builds);
    if (status == JIT_OK) {
        r->own = r->builds + missing;
        status = serve(r);
    }
    free(r->builds);
    if (status != JIT_OK)
        jitc_error_take(&failure);
    jit_error_clear();
    jitc_error_raise(&before);
    return jitc_error_raise(&failure);
}

/* ---- The interface ---- */

jit_status jitc_cache_get(jitc_cache *c, jitc_backend *b, int device, size_t n,
                          const jitc_program *const *programs, jitc_cached **out) {
    const jitc_target *target;
    TRY(b->target(b, device, &target));
    request r = {.cache = c,
                 .key = {.backend = b, .device = device},
                 .seed = jitc_compiler_seed(&c->compiler, target),
                 .count = n,
                 .programs = programs,
                 .out = out};
    size_t hits = 0;
    for (size_t i = 0; i < n; i++) {
        jitc_key key = key_of(&r, i);
        out[i] = cached_of(jitc_table_find(&c->table, &key, programs[i]));
        hits += out[i] != NULL;
    }
    if (hits)
        jitc_add_relaxed(&c->memory_hits, hits);
    if (hits == n)
        return JIT_OK;
    jit_status status = get_missing(&r, n - hits);
    for (size_t i = 0; i < n && status != JIT_OK; i++)
        if (out[i]) {
            jitc_cache_release(c, out[i]);
            out[i] = NULL;
        }
    return status;
}

void jitc_cache_release(jitc_cache *c, jitc_cached *k) {
    jitc_table_release(&c->table, entry_of(k));
}

void jitc_cache_recompile(jitc_cache *c, jitc_cached *k) {
    jitc_hot_add(&c->hot, entry_of(k));
}

jit_status jitc_cache_clear(jitc_cache *c) {
    jitc_entry *dead = NULL;
    jitc_mutex_lock(&c->table.lock);
    jitc_table_clear_locked(&c->table, &dead);
    jitc_mutex_unlock(&c->table.lock);
    jitc_table_bury(&c->table, dead);
    return JIT_OK;
}

jitc_cache_stats jitc_cache_read_stats(jitc_cache *c) {
    return (jitc_cache_stats) {
        .kernels_compiled = jitc_load_relaxed(&c->compiler.compiled),
        .kernels_recompiled = jitc_load_relaxed(&c->compiler.recompiled),
        .memory_hits = jitc_load_relaxed(&c->memory_hits),
        .disk_hits = jitc_load_relaxed(&c->compiler.disk_hits),
        .kernels = jitc_load_relaxed(&c->table.count),
    };
}

jit_status jitc_cache_create(const jitc_options *o, jitc_cache **out) {
    TRY(jitc_calloc(1, sizeof **out, (void **) out));
    jitc_cache *c = *out;
    jit_status status = jitc_table_init(&c->table);
    if (status != JIT_OK) {
        free(c);
        *out = NULL;
        return status;
    }
    c->compiler.options = o;
    jitc_hot_init(&c->hot, &c->compiler, &c->table);
    pthread_cond_init(&c->built, NULL);
    return JIT_OK;
}

void jitc_cache_destroy(jitc_cache *c) {
    if (!c)
        return;
    jitc_hot_finish(&c->hot);
    jitc_table_finish(&c->table);
    jitc_compiler_close(&c->compiler);
    pthread_cond_destroy(&c->built);
    free(c);
}

void jitc_cache_fork_hold(jitc_cache *c) UNCHECKED_LOCKING {
    jitc_mutex_lock(&c->table.lock);
    jitc_hot_fork_hold(&c->hot);
}

void jitc_cache_fork_release(jitc_cache *c) UNCHECKED_LOCKING {
    jitc_hot_fork_release(&c->hot);
    jitc_mutex_unlock(&c->table.lock);
}

/* The calling thread, which forked in a function of the log, goes on with its own builds. Those of
 * others have failed, which is for the calling thread, if it waits for them, to find out. */
static void keep_own_builds(jitc_cache *c) {
    static const jitc_error gone = {
        JIT_UNAVAILABLE, "a kernel was being compiled by a thread that does not exist in "
                         "this child of fork(); evaluate again"};
    for (build **link = &c->builds, *b; (b = *link);) {
        b->users = 1;
        if (b->builder == &self) {
            jitc_store_relaxed(&b->entry->refs.count, 1u); /* for jitc_table_forked */
            link = &b->next;
        } else {
            *link = b->next;
            b->error = gone;
            b->entry = NULL;
            b->done = true;
        }
    }
}

void jitc_cache_forked(jitc_cache *c) {
    keep_own_builds(c);
    c->helpers = 0;
    pthread_cond_init(&c->built, NULL);
    jitc_compiler_forked(&c->compiler);
    jitc_hot_forked(&c->hot);
    jitc_table_forked(&c->table);
    for (build *b = c->builds; b; b = b->next)
        jitc_store_relaxed(&b->entry->refs.count, 0u);
}
