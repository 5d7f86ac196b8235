/* compile.c: from a program to a kernel, and which level of code generation it gets.  Layer: cache.
 */
#include "cache/compile.h"
#include "codegen/codegen.h"
#include "core/log.h"
#include <stdlib.h>
#include <string.h>

enum {
    LEVEL_QUICK = 0,
    LEVEL_GOOD = 2,
    LEVEL_AUTOMATIC = -1, /* of the option */
    /* Good compilations take time with the square of the length: seconds from here on. */
    GOOD_INSTRUCTIONS = 6000,
    LOOP_INSTRUCTIONS = 500 /* a tenth of a second: what a loop is worth without being known */
};

/* Operations after which a quickly compiled kernel is compiled again. At some 0.05 ns each this is
 * about what a good compilation costs (10 ms, and as much for each 100 instructions): so the
 * compilation at most doubles what was spent on a kernel, however soon it is used no more. */
static uint64_t hot_work(const jitc_program *p) {
    return 200000000 * (1 + (uint64_t) p->head.count / 100);
}

/* ---- Levels ---- */

/* Is there a loop that may go around often? Nobody knows how long its first launch will take. */
static bool has_loop(const jitc_program *p) {
    for (uint32_t n = 0; n < p->head.count && p->head.flags & JITC_PROGRAM_LOOPS; ++n)
        if (p->inst[n].op == JITC_OP_loop && !(p->inst[n].aux & JITC_AUX_ONCE))
            return true;
    return false;
}

/* The one place that decides about the first compilation. */
static int first_level(const jitc_backend *b, const jitc_options *o, const jitc_program *p) {
    if (o->llvm_level != LEVEL_AUTOMATIC)
        return (int) o->llvm_level;
    bool is_quick = b->levels && (p->head.count > LOOP_INSTRUCTIONS || !has_loop(p));
    return is_quick ? LEVEL_QUICK : LEVEL_GOOD;
}

static uint64_t hot_at(const jitc_compiler *m, const jitc_entry *e, int level) {
    bool improves = e->key.backend->levels && m->options->llvm_level == LEVEL_AUTOMATIC &&
                    level < LEVEL_GOOD && e->program.head.count <= GOOD_INSTRUCTIONS;
    return improves ? hot_work(&e->program) : UINT64_MAX;
}

/* ---- Keys and descriptions ---- */

uint64_t jitc_compiler_seed(const jitc_compiler *m, const jitc_target *t) {
    /* A level that the user chose is part of the key; one that we chose is not. */
    return jitc_hash_bytes(t->text, strnlen(t->text, sizeof t->text),
                           (uint64_t) m->options->llvm_level)
        .lo;
}

/* What an entry on disk is compared with: everything that its key is a hash of. */
static jit_status describe(const jitc_compiler *m, const jitc_entry *e, jitc_blob *out) {
    const jitc_target *target;
    const jitc_program *p = &e->program;
    int64_t level = m->options->llvm_level;
    TRY(e->key.backend->target(e->key.backend, e->key.device, &target));
    size_t text = strnlen(target->text, sizeof target->text),
           code = p->head.count * sizeof *p->inst;
    out->size = sizeof level + sizeof p->head + text + code;
    TRY(jitc_calloc(1, out->size, &out->data));
    char *to = out->data;
    memcpy(to, &level, sizeof level);
    memcpy(to += sizeof level, &p->head, sizeof p->head);
    memcpy(to += sizeof p->head, target->text, text);
    if (code)
        memcpy(to + text, p->inst, code);
    return JIT_OK;
}

/* ---- The disk ---- */

jit_status jitc_compiler_open(jitc_compiler *m) {
    const jitc_options *o = m->options;
    jitc_disk *disk, *none = NULL;
    /* pairs with the exchange below */
    if (!o->cache_disk || jitc_load_acquire(&m->disk))
        return JIT_OK;
    TRY(jitc_disk_open(o->cache_dir, o->cache_limit > 0 ? (uint64_t) o->cache_limit : 0, &disk));
    if (!jitc_compare_exchange(&m->disk, &none, disk))
        jitc_disk_close(disk); /* another thread was first */
    return JIT_OK;
}

/* NULL: not to be used. Asked once for each use, since the option may change in between. */
static jitc_disk *disk_of(jitc_compiler *m) {
    return m->options->cache_disk ? jitc_load_acquire(&m->disk) : NULL;
}

void jitc_compiler_close(jitc_compiler *m) {
    jitc_disk_close(jitc_load_relaxed(&m->disk));
}

void jitc_compiler_forked(jitc_compiler *m) {
    jitc_disk_forked(jitc_load_relaxed(&m->disk));
}

static void store(jitc_compiler *m, const jitc_entry *e, const jitc_disk_item *item) {
    jitc_blob description;
    jitc_disk *disk = disk_of(m);
    if (!disk || describe(m, e, &description) != JIT_OK)
        return;
    jitc_disk_put(disk, e->key.hash, &description, item);
    free(description.data);
}

/* ---- Kernels ---- */

/* `how` it was come by. */
static void log_kernel(const jitc_entry *e, const jitc_disk_item *item, const char *how) {
    jitc_log(JITC_LOG_DEBUG, "kernel of %u instructions %s: %zu bytes of code, level %u (%s)",
             e->program.head.count, how, item->code.size, (unsigned) item->level,
             e->key.backend->name);
}

static jit_status load_kernel(jitc_compiler *m, jitc_entry *e, const jitc_disk_item *item) {
    jitc_backend *b = e->key.backend;
    TRY(b->load(b, e->key.device, &e->program, &item->code, &e->cached.kernel));
    jitc_store_relaxed(&e->cached.kernel->level, (int) item->level);
    jitc_store_relaxed(&e->cached.hot_at, hot_at(m, e, (int) item->level));
    return JIT_OK;
}

/* Programs that came from the disk are not lowered, but who asks for the text gets it. */
static jit_status dump(jitc_compiler *m, jitc_entry *e) {
    jitc_source *source;
    TRY(jitc_codegen(e->key.backend, e->key.device, &e->program, &source));
    jitc_codegen_dump(e->key.backend, source, m->options,
                      jitc_load_relaxed(&e->cached.kernel->level));
    e->key.backend->source_destroy(e->key.backend, source);
    return JIT_OK;
}

static bool load_from_disk(jitc_compiler *m, jitc_disk *disk, jitc_entry *e) {
    jitc_blob description;
    jitc_disk_item item;
    if (describe(m, e, &description) != JIT_OK)
        return false;
    bool loaded = false;
    if (jitc_disk_get(disk, e->key.hash, &description, &item)) {
        loaded = load_kernel(m, e, &item) == JIT_OK;
        if (loaded)
            log_kernel(e, &item, "found on disk");
        else
            jitc_disk_drop(disk, e->key.hash);
        free(item.code.data);
    }
    free(description.data);
    return loaded;
}

bool jitc_compiler_load(jitc_compiler *m, jitc_entry *e) {
    jitc_error before;
    jitc_disk *disk = disk_of(m);
    if (!disk)
        return false;
    jitc_error_take(&before);
    bool loaded = load_from_disk(m, disk, e);
    if (loaded) {
        jitc_add_relaxed(&m->disk_hits, 1);
        if (jitc_codegen_dumps(m->options))
            dump(m, e);
    }
    jitc_error_forgive(&before); /* what failed here is compiled instead */
    return loaded;
}

/* Machine code for the entry's program. */
static jit_status generate(jitc_compiler *m, jitc_entry *e, int level, jitc_disk_item *out) {
    jitc_backend *b = e->key.backend;
    jitc_source *source;
    TRY(jitc_codegen(b, e->key.device, &e->program, &source));
    if (jitc_codegen_dumps(m->options))
        jitc_codegen_dump(b, source, m->options, level);
    out->level = (uint32_t) level;
    jit_status status = b->compile(b, source, level, &out->code);
    b->source_destroy(b, source);
    return status;
}

jit_status jitc_compiler_compile(jitc_compiler *m, jitc_entry *e) {
    jitc_disk_item item;
    TRY(generate(m, e, first_level(e->key.backend, m->options, &e->program), &item));
    jit_status status = load_kernel(m, e, &item);
    if (status == JIT_OK) {
        jitc_add_relaxed(&m->compiled, 1);
        log_kernel(e, &item, "compiled");
        store(m, e, &item);
    }
    free(item.code.data);
    return status;
}

jit_status jitc_compiler_recompile(jitc_compiler *m, jitc_entry *e) {
    jitc_backend *b = e->key.backend;
    jitc_disk_item item;
    TRY(generate(m, e, LEVEL_GOOD, &item));
    jit_status status = b->reload(b, e->cached.kernel, &item.code);
    if (status == JIT_OK) {
        jitc_store_relaxed(&e->cached.kernel->level, LEVEL_GOOD);
        store(m, e, &item);
        jitc_add_relaxed(&m->recompiled, 1);
        log_kernel(e, &item, "compiled again, since it is hot");
    }
    free(item.code.data);
    return status;
}
