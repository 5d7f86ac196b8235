/* module.c: loading and unloading code, and the size of its blocks.  Layer: cuda. */
#include "cuda/module.h"
#include "cuda/stream.h"
#include "cuda/text.h"
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 256 }; /* threads; 128 to 1024 are as fast where registers allow */

/* ---- Loading ---- */

/* The driver is told no size: a text is ended by a 0, a CUBIN says itself how long it is. Either
 * way what it reads from a damaged file may lie behind the blob, so there is room. */
static jit_status copy_image(const jitc_blob *code, char **out) {
    enum { ROOM = 4096 };
    void *p;
    TRY(jitc_calloc(code->size + ROOM, 1, &p));
    if (code->size)
        memcpy(p, code->data, code->size);
    *out = p;
    return JIT_OK;
}

/* Does a CUBIN, which is an ELF file, lie whole in the blob? The driver believes what it says of
 * itself, and may read behind the end of one that was cut. */
static bool is_whole(const jitc_blob *code) {
    Elf64_Ehdr h;
    if (code->size < sizeof h || memcmp(code->data, ELFMAG, SELFMAG) != 0)
        return code->size < SELFMAG || memcmp(code->data, ELFMAG, SELFMAG) != 0; /* other code */
    memcpy(&h, code->data, sizeof h);
    if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shoff > code->size ||
        h.e_shnum > (code->size - h.e_shoff) / sizeof(Elf64_Shdr))
        return false;
    for (unsigned i = 0; i < h.e_shnum; ++i) {
        Elf64_Shdr s;
        memcpy(&s, (const char *) code->data + h.e_shoff + i * sizeof s, sizeof s);
        if (s.sh_type != SHT_NOBITS &&
            (s.sh_offset > code->size || s.sh_size > code->size - s.sh_offset))
            return false;
    }
    return true;
}

/* Does the driver refuse this image, rather than being unable to load any? */
static bool is_refusal(CUresult result) {
    switch (result) {
        case CUDA_ERROR_INVALID_VALUE:
        case CUDA_ERROR_INVALID_IMAGE:
        case CUDA_ERROR_NO_BINARY_FOR_GPU:
        case CUDA_ERROR_INVALID_PTX:
        case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
        case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
        case CUDA_ERROR_JIT_COMPILATION_DISABLED:
        case CUDA_ERROR_INVALID_SOURCE:
        case CUDA_ERROR_NOT_FOUND: return true;
        default: return false;
    }
}

static jit_status check_load(jitc_cuda_device *d, CUresult result, jitc_cuda_function f) {
    char text[256];
    if (!is_refusal(result))
        return jitc_cuda_device_check(d, result, f);
    jitc_cuda_describe(&d->backend->cuda, result, f, text, sizeof text);
    return jitc_fail(JIT_COMPILE_FAILED, "cuda: the driver does not take the code of a kernel: %s",
                     text);
}

/* The block that keeps most threads on a multiprocessor; the usual one where there is a choice. */
static unsigned choose_block(const jitc_cuda *c, CUfunction function) {
    static const int sizes[] = {BLOCK, BLOCK / 2, BLOCK / 4, BLOCK / 8};
    int most = 0, best = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        int blocks = 0;
        if (c->OccupancyBlocks(&blocks, function, sizes[i], 0) == CUDA_SUCCESS &&
            blocks * sizes[i] > most) {
            most = blocks * sizes[i];
            best = sizes[i];
        }
    }
    return best ? (unsigned) best : BLOCK; /* the launch will say what is wrong */
}

static uint32_t resident_threads(const jitc_cuda *c, CUfunction function, int block) {
    int blocks = 0;
    return c->OccupancyBlocks(&blocks, function, block, 0) == CUDA_SUCCESS
               ? (uint32_t) (blocks * block)
               : 0;
}

enum { USUAL_BYTES = 48 << 10 }; /* of a block's memory, which all devices have */

/* Let a block ask for all memory that it can have, where it has none without asking; may it? */
static bool allow_memory(const jitc_cuda_device *d, CUfunction function) {
    const jitc_cuda *c = &d->backend->cuda;
    return d->block_bytes > USUAL_BYTES && c->FuncSetAttribute &&
           c->FuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               d->block_bytes) == CUDA_SUCCESS;
}

static void find_room(const jitc_cuda_device *d, const jitc_cuda_kernel *k, jitc_cuda_code *l) {
    const jitc_cuda *c = &d->backend->cuda;
    CUfunction *f = l->function;
    bool more;
    l->room = (jitc_cuda_room) {.multiprocessors = (uint32_t) d->multiprocessors,
                                .all_bytes = (uint32_t) d->multiprocessor_bytes};
    if (k->shape.kind == JITC_SHAPE_SORT) {
        more = allow_memory(d, f[JITC_CUDA_SORT_COUNT]) &&
               allow_memory(d, f[JITC_CUDA_SORT_PASS]) && allow_memory(d, f[JITC_CUDA_SORT_SMALL]);
    } else {
        more = allow_memory(d, f[0]);
        l->room.threads[0] = resident_threads(c, f[0], JITC_CUDA_SMALL_BLOCK);
        l->room.threads[1] = resident_threads(c, f[0], JITC_CUDA_LARGE_BLOCK);
    }
    l->room.block_bytes = more ? (uint32_t) d->block_bytes : USUAL_BYTES;
}

static jit_status find_function(jitc_cuda_device *d, const jitc_cuda_kernel *k, const char *suffix,
                                CUmodule module, CUfunction *out) {
    char name[48];
    const jitc_cuda *c = &d->backend->cuda;
    int size = snprintf(name, sizeof name, JITC_CUDA_NAME, (unsigned long long) k->name);
    snprintf(name + size, sizeof name - (size_t) size, "%s", suffix);
    TRY(check_load(d, c->ModuleGetFunction(out, module, name), JITC_CU_ModuleGetFunction));
    /* A driver that loads lazily would else do it, and wait, at the first launch. */
    return c->FuncLoad ? check_load(d, c->FuncLoad(*out), JITC_CU_FuncLoad) : JIT_OK;
}

static jit_status find_functions(jitc_cuda_device *d, const jitc_cuda_kernel *k,
                                 jitc_cuda_code *l) {
    if (k->shape.kind != JITC_SHAPE_SORT)
        return find_function(d, k, "", l->module, &l->function[0]);
    for (int i = 0; i < JITC_CUDA_SORT_KERNELS; ++i)
        TRY(find_function(d, k, jitc_cuda_sort_suffixes[i], l->module, &l->function[i]));
    return JIT_OK;
}

static jit_status load_image(jitc_cuda_device *d, const char *image, const jitc_cuda_kernel *k,
                             jitc_cuda_code *l) {
    const jitc_cuda *c = &d->backend->cuda;
    TRY(check_load(d, c->ModuleLoadData(&l->module, image, 0, NULL, NULL), JITC_CU_ModuleLoadData));
    jit_status status = find_functions(d, k, l);
    if (status != JIT_OK) {
        c->ModuleUnload(l->module);
        return status;
    }
    l->block = k->shape.threads ? k->shape.threads : choose_block(c, l->function[0]);
    if (k->targets.rows || k->shape.kind == JITC_SHAPE_SORT)
        find_room(d, k, l);
    l->serial = jitc_add_relaxed(&d->loaded, JITC_CUDA_FUNCTIONS);
    return JIT_OK;
}

static jit_status load_code(jitc_cuda_device *d, const jitc_blob *code, const jitc_cuda_kernel *k,
                            jitc_cuda_code **out) {
    char *image;
    void *p;
    if (!is_whole(code))
        return jitc_fail(JIT_COMPILE_FAILED, "cuda: the code of a kernel is cut off: %zu bytes",
                         code->size);
    TRY(jitc_calloc(1, sizeof(jitc_cuda_code), &p));
    *out = p;
    jit_status status = copy_image(code, &image);
    if (status == JIT_OK) {
        status = load_image(d, image, k, *out);
        free(image);
    }
    if (status != JIT_OK)
        free(p);
    return status;
}

/* Work of one lane in additions of f32, roughly. */
static uint32_t count_operations(const jitc_program *p) {
    uint32_t n = 1;
    for (uint32_t i = 0; i < p->head.count; ++i) {
        const jitc_inst *inst = &p->inst[i];
        if (inst->op == JITC_OP_literal || inst->op == JITC_OP_buffer)
            continue;
        n += jitc_ops[inst->op].props & JITC_INEXACT ? 20
             : jitc_dtypes[inst->type].bits > 32     ? 2
                                                     : 1;
    }
    return n;
}

jit_status jitc_cuda_kernel_load(jitc_cuda_device *d, const jitc_program *p, const jitc_blob *code,
                                 jitc_cuda_kernel **out) {
    void *memory;
    jitc_cuda_code *l;
    jitc_cuda_layout layout = jitc_cuda_layout_of(p, d->most_bytes);
    TRY(jitc_calloc(1, sizeof(jitc_cuda_kernel), &memory));
    jitc_cuda_kernel *k = memory;
    k->name = jitc_cuda_name_of(p);
    k->shape = jitc_cuda_shape_of(p);
    k->targets = jitc_cuda_targets_of(p);
    jit_status status = load_code(d, code, k, &l);
    if (status != JIT_OK) {
        free(k);
        return status;
    }
    k->device = d;
    k->elements = layout.elements;
    k->in_memory = layout.in_memory;
    k->instructions = p->head.count;
    k->base.operations = count_operations(p);
    jitc_store_relaxed(&k->code, l);
    *out = k;
    return JIT_OK;
}

jit_status jitc_cuda_kernel_reload(jitc_cuda_kernel *k, const jitc_blob *code) {
    jitc_cuda_code *l;
    TRY(load_code(k->device, code, k, &l));
    /* A launch may be about to use the older code: it stays until the kernel goes. */
    l->next = jitc_load_relaxed(&k->code);
    while (!jitc_compare_exchange(&k->code, &l->next, l)) { /* pairs with jitc_cuda_launch */
    }
    return JIT_OK;
}

/* ---- Unloading ---- */

/* Put code in front of what is retired. */
static void retire(jitc_cuda_device *d, jitc_cuda_code *list) {
    jitc_cuda_code *last = list;
    while (last->next)
        last = last->next;
    jitc_mutex_lock(&d->lock);
    last->next = d->retired;
    d->retired = list;
    jitc_store_release(&d->has_retired, true); /* pairs with jitc_cuda_unload_retired */
    jitc_mutex_unlock(&d->lock);
}

void jitc_cuda_kernel_destroy(jitc_cuda_kernel *k) {
    retire(k->device, jitc_load_relaxed(&k->code));
    free(k);
}

/* Streams are only added, in front, while others look. */
static bool is_idle(jitc_cuda_stream *s) {
    for (; s; s = s->next)
        if (!jitc_cuda_reached(s, jitc_load_acquire(&s->last))) /* pairs with who queues */
            return false;
    return true;
}

static void unload(jitc_cuda_device *d, jitc_cuda_code *list) {
    jitc_cuda_scope scope;
    bool there = jitc_cuda_enter_failed(d, &scope);
    jitc_add_relaxed(&d->unloads, 1); /* seen by who uses code that was loaded later */
    for (jitc_cuda_code *next; list; list = next) {
        next = list->next;
        if (there)
            d->backend->cuda.ModuleUnload(list->module);
        free(list);
    }
    jitc_cuda_leave(d, &scope);
}

void jitc_cuda_unload_retired(jitc_cuda_device *d) {
    if (!jitc_load_acquire(&d->has_retired)) /* pairs with retire */
        return;
    jitc_mutex_lock(&d->lock);
    jitc_cuda_code *list = d->retired;
    jitc_cuda_stream *streams = d->streams;
    d->retired = NULL;
    jitc_store_relaxed(&d->has_retired, false);
    jitc_mutex_unlock(&d->lock);
    if (!list) /* another thread was first */
        return;
    if (is_idle(streams))
        unload(d, list);
    else
        retire(d, list);
}
