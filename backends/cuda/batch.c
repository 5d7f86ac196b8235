/* batch.c: kernels are held back and handed to the driver together.  Layer: cuda.
 *
 * The kernels of an evaluation are a chain in a CUDA graph: to launch an executable graph takes a
 * third of what launching a kernel does, also if the chain is of one, and giving a node another
 * kernel or other arguments a tenth. Making such a graph takes as long as 30 launches, so it is
 * made when a length comes for the second time, and kept. */
#include "core/log.h"
#include "cuda/module.h"
#include "cuda/stream.h"
#include "cuda/text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_KERNELS = 1024, /* held back */
    MOST_WORDS = 1 << 17,
    MOST_BLOCKS = 2147483647, /* of a launch */
    WARP = 32
};

_Static_assert(JITC_CUDA_CHAIN <= 64, "ORDER batch: a bit of `seen` for each length");

/* ---- Appending ---- */

static jit_status set_grid(uint64_t lanes, uint64_t blocks, unsigned block,
                           jitc_cuda_pending *out) {
    if (blocks > MOST_BLOCKS)
        return jitc_fail(JIT_UNSUPPORTED,
                         "cuda: %llu lanes are %llu blocks of %u threads, more than a launch may "
                         "have",
                         (unsigned long long) lanes, (unsigned long long) blocks, block);
    out->grid = (unsigned) blocks;
    out->block = block;
    return JIT_OK;
}

/* A small launch gets small blocks, so that all multiprocessors have some. */
static jit_status choose_grid(const jitc_cuda_kernel *k, uint64_t lanes, unsigned block,
                              jitc_cuda_pending *out) {
    uint64_t threads = (lanes - 1) / k->elements + 1;
    uint64_t share = (threads - 1) / (uint64_t) k->device->multiprocessors + 1;
    if (share < block)
        block = (unsigned) ((share + WARP - 1) / WARP * WARP);
    return set_grid(lanes, (threads - 1) / block + 1, block, out);
}

/* Kernels that combine lanes. *params: with what is hidden in them. */
static jit_status plan_grid(jitc_cuda_stream *s, const jitc_cuda_kernel *k,
                            const jitc_launch_args *a, jitc_cuda_pending *out,
                            const uint64_t **params) {
    jitc_cuda_plan plan =
        jitc_cuda_plan_of(&k->shape, a->lanes, a->params, (unsigned) k->device->multiprocessors);
    uint64_t address;
    TRY(set_grid(a->lanes, plan.blocks, k->shape.threads, out));
    TRY(jitc_grow((void **) &s->params, &s->param_capacity, a->count, sizeof *s->params));
    TRY(jitc_cuda_state_of(s, &plan, &address));
    memcpy(s->params, a->params, a->count * sizeof *s->params);
    s->params[k->shape.scratch + 1] = address;
    s->params[k->shape.scratch + 2] = plan.mode;
    *params = s->params;
    return JIT_OK;
}

/* With scatter_reduce. *params: with what is hidden in them. */
static jit_status plan_targets(jitc_cuda_stream *s, const jitc_cuda_kernel *k,
                               const jitc_cuda_code *code, const jitc_launch_args *a,
                               jitc_cuda_pending *out, const uint64_t **params) {
    jitc_cuda_targets_plan plan =
        jitc_cuda_plan_targets(&k->targets, a->lanes, a->params, &code->room, code->block);
    TRY(set_grid(a->lanes, plan.blocks, plan.block, out));
    TRY(jitc_grow((void **) &s->params, &s->param_capacity, a->count, sizeof *s->params));
    memcpy(s->params, a->params, a->count * sizeof *s->params);
    s->params[k->targets.scratch + 1] = plan.places;
    out->shared = plan.bytes;
    *params = s->params;
    return JIT_OK;
}

static jit_status append_locked(jitc_cuda_stream *s, const jitc_cuda_pending *p,
                                const uint64_t *words) REQUIRES(&s->mutex) {
    jitc_cuda_batch *b = &s->batch;
    TRY(jitc_grow((void **) &b->kernels, &b->capacity, b->count + 1, sizeof *b->kernels));
    TRY(jitc_grow((void **) &b->words, &b->word_capacity, b->word_count + p->words,
                  sizeof *b->words));
    b->kernels[b->count] = *p;
    b->kernels[b->count++].first = b->word_count;
    b->words[b->word_count] = p->lanes;
    memcpy(b->words + b->word_count + 1, words, (p->words - 1) * sizeof *words);
    b->word_count += p->words;
    return JIT_OK;
}

static jit_status queue(jitc_cuda_stream *s, const jitc_cuda_pending *p, const uint64_t *words,
                        uint64_t *number) {
    jitc_mutex_lock(&s->mutex);
    jit_status status = append_locked(s, p, words);
    if (status == JIT_OK) {
        *number = jitc_load_relaxed(&s->last) + 1;
        jitc_store_release(&s->last, *number); /* pairs with is_idle in module.c */
        if (s->batch.count >= MOST_KERNELS || s->batch.word_count >= MOST_WORDS)
            status = jitc_cuda_flush_locked(s);
    }
    jitc_mutex_unlock(&s->mutex);
    return status;
}

/* A sort is several kernels, of which each knows only that those before are done. */
static jit_status launch_sort(jitc_cuda_stream *s, const jitc_cuda_kernel *k,
                              const jitc_launch_args *a, uint64_t *number) {
    const jitc_cuda_code *code = jitc_load_acquire(&k->code); /* pairs with reload */
    jitc_cuda_sort_launch launches[JITC_CUDA_SORT_LAUNCHES];
    unsigned count = jitc_cuda_plan_sort(&k->shape.sort, a->lanes, &code->room, launches);
    TRY(jitc_grow((void **) &s->params, &s->param_capacity, a->count, sizeof *s->params));
    memcpy(s->params, a->params, a->count * sizeof *s->params);
    for (unsigned i = 0; i < count; ++i) {
        const jitc_cuda_sort_launch *l = &launches[i];
        jitc_cuda_pending p = {.function = code->function[l->kernel],
                               .serial = code->serial + l->kernel,
                               .shared = l->bytes,
                               .words = 1 + (size_t) a->count,
                               .kernel = k->name,
                               .instructions = k->instructions,
                               .lanes = a->lanes};
        TRY(set_grid(a->lanes, l->blocks, l->threads, &p));
        s->params[k->shape.scratch + 1] = l->word;
        TRY(queue(s, &p, s->params, number));
    }
    return JIT_OK;
}

static jit_status launch(jitc_cuda_stream *s, jitc_cuda_kernel *k, const jitc_launch_args *a,
                         uint64_t *number) {
    const jitc_cuda_code *code = jitc_load_acquire(&k->code); /* pairs with reload */
    jitc_cuda_pending p = {.function = code->function[0],
                           .serial = code->serial,
                           .words = 1 + (a->count ? (size_t) a->count : 1),
                           .kernel = k->name,
                           .instructions = k->instructions,
                           .lanes = a->lanes};
    static const uint64_t none = 0; /* C has no arrays of nothing: such kernels take one word */
    const uint64_t *params = a->count ? a->params : &none;
    if (k->shape.threads)
        TRY(plan_grid(s, k, a, &p, &params));
    else if (k->targets.rows)
        TRY(plan_targets(s, k, code, a, &p, &params));
    else
        TRY(choose_grid(k, a->lanes, code->block, &p));
    if (!k->in_memory)
        return queue(s, &p, params, number);
    jitc_cuda_table *table;
    TRY(jitc_cuda_upload_table(s, params, a->count, &table));
    uint64_t address = (uintptr_t) table->pointer;
    p.words = 2;
    TRY(queue(s, &p, &address, number));
    table->number = *number;
    return JIT_OK;
}

jit_status jitc_cuda_launch(jitc_cuda_stream *s, jitc_cuda_kernel *k, const jitc_launch_args *a,
                            uint64_t *number) {
    TRY(k->shape.kind == JITC_SHAPE_SORT ? launch_sort(s, k, a, number) : launch(s, k, a, number));
    if (__builtin_expect(!s->device->backend->options->cuda_sync_launch, 1))
        return JIT_OK;
    TRY(jitc_cuda_flush(s));
    return jitc_cuda_reach(s, *number);
}

/* ---- Handing over ---- */

/* How the driver is given a kernel's arguments: as they lie in memory. */
typedef struct arguments {
    size_t bytes;
    void *extra[5];
} arguments;

static void fill_arguments(const jitc_cuda_batch *b, const jitc_cuda_pending *p, arguments *a) {
    *a = (arguments) {.bytes = p->words * sizeof *b->words,
                      .extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, b->words + p->first,
                                CU_LAUNCH_PARAM_BUFFER_SIZE, &a->bytes, CU_LAUNCH_PARAM_END}};
}

/* An error that an earlier kernel made is none of this launch. */
static jit_status fail_launch(jitc_cuda_device *d, CUresult result, const jitc_cuda_pending *p) {
    char what[128];
    snprintf(what, sizeof what,
             "at the launch of kernel " JITC_CUDA_NAME " (%u instructions over %llu lanes)",
             (unsigned long long) p->kernel, p->instructions, (unsigned long long) p->lanes);
    jitc_cuda_device_fail(d, result, JITC_CU_LaunchKernel, jitc_cuda_is_final(result) ? "" : what);
    return jitc_cuda_device_raise(d);
}

/* n kernels of the batch have been launched. */
static void note_launched_locked(jitc_cuda_stream *s, const jitc_cuda_pending *p, size_t n)
    REQUIRES(&s->mutex) {
    const jitc_cuda_batch *b = &s->batch;
    uint64_t number = jitc_load_relaxed(&s->last) - b->count + 1 + (uint64_t) (p - b->kernels);
    for (size_t i = 0; i < n; ++i, ++p, ++number)
        jitc_cuda_recent_add(&s->recent, (jitc_cuda_launched) {.number = number,
                                                               .kernel = p->kernel,
                                                               .lanes = p->lanes,
                                                               .instructions = p->instructions});
}

static jit_status launch_each_locked(jitc_cuda_stream *s, const jitc_cuda_pending *p, size_t n)
    REQUIRES(&s->mutex) {
    arguments a;
    for (size_t i = 0; i < n; ++i, ++p) {
        fill_arguments(&s->batch, p, &a);
        CUresult result = s->device->backend->cuda.LaunchKernel(
            p->function, p->grid, 1, 1, p->block, 1, 1, p->shared, s->stream, NULL, a.extra);
        if (result != CUDA_SUCCESS)
            return fail_launch(s->device, result, p);
        note_launched_locked(s, p, 1);
    }
    return JIT_OK;
}

static void fill_node(const jitc_cuda_batch *b, const jitc_cuda_pending *p, arguments *a,
                      CUDA_KERNEL_NODE_PARAMS *out) {
    fill_arguments(b, p, a);
    *out = (CUDA_KERNEL_NODE_PARAMS) {.func = p->function,
                                      .gridDimX = p->grid,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = p->block,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .sharedMemBytes = p->shared,
                                      .extra = a->extra};
}

/* Note what the nodes have become. Without memory for that they are set each time. */
static void note_chain(const jitc_cuda_batch *b, jitc_cuda_chain *chain,
                       const jitc_cuda_pending *p) {
    const jitc_cuda_pending *last = &p[chain->length - 1];
    size_t words = last->first + last->words - p->first;
    if (words > chain->word_capacity) {
        free(chain->words);
        chain->words = malloc(words * sizeof *chain->words);
        chain->word_capacity = chain->words ? words : 0;
    }
    if (chain->words)
        memcpy(chain->words, b->words + p->first, words * sizeof *chain->words);
    memcpy(chain->kernel, p, chain->length * sizeof *p);
}

/* Evaluations that repeat often get the same memory again: then nothing has to be set. */
static bool is_set(const jitc_cuda_batch *b, const jitc_cuda_chain *chain,
                   const jitc_cuda_pending *p, unsigned i) {
    const jitc_cuda_pending *is = &chain->kernel[i], *want = &p[i];
    return chain->words && is->serial == want->serial && is->grid == want->grid &&
           is->block == want->block && is->shared == want->shared && is->words == want->words &&
           memcmp(chain->words + (is->first - chain->kernel[0].first), b->words + want->first,
                  want->words * sizeof *b->words) == 0;
}

static CUresult set_chain(const jitc_cuda *c, const jitc_cuda_batch *b, jitc_cuda_chain *chain,
                          const jitc_cuda_pending *p) {
    CUDA_KERNEL_NODE_PARAMS node;
    arguments a;
    bool changed = false;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < chain->length && result == CUDA_SUCCESS; ++i) {
        if (is_set(b, chain, p, i))
            continue;
        changed = true;
        fill_node(b, &p[i], &a, &node);
        result = c->GraphExecKernelNodeSetParams(chain->exec, chain->node[i], &node);
    }
    if (changed)
        note_chain(b, chain, p);
    return result;
}

static void destroy_chain(const jitc_cuda *c, jitc_cuda_chain *chain) {
    if (chain && c) {
        if (chain->exec)
            c->GraphExecDestroy(chain->exec);
        if (chain->graph)
            c->GraphDestroy(chain->graph);
    }
    if (chain)
        free(chain->words);
    free(chain);
}

static CUresult add_nodes(const jitc_cuda *c, const jitc_cuda_batch *b, jitc_cuda_chain *chain,
                          const jitc_cuda_pending *p) {
    CUDA_KERNEL_NODE_PARAMS node;
    arguments a;
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < chain->length && result == CUDA_SUCCESS; ++i) {
        fill_node(b, &p[i], &a, &node);
        result = c->GraphAddKernelNode(&chain->node[i], chain->graph,
                                       i ? &chain->node[i - 1] : NULL, i != 0, &node);
    }
    return result;
}

static CUresult create_chain(const jitc_cuda *c, const jitc_cuda_batch *b,
                             const jitc_cuda_pending *p, unsigned length, jitc_cuda_chain **out) {
    jitc_cuda_chain *chain = calloc(1, sizeof *chain);
    if (!chain)
        return CUDA_ERROR_OUT_OF_MEMORY;
    chain->length = length;
    CUresult result = c->GraphCreate(&chain->graph, 0);
    if (result == CUDA_SUCCESS)
        result = add_nodes(c, b, chain, p);
    if (result == CUDA_SUCCESS)
        result = c->GraphInstantiate(&chain->exec, chain->graph, 0);
    if (result == CUDA_SUCCESS) {
        note_chain(b, chain, p);
        *out = chain;
    } else {
        destroy_chain(c, chain);
    }
    return result;
}

/* A node whose function has been unloaded cannot be set to one that was loaded later: the driver
 * (13.0) then launches what lies where the former one was. Seen as wrong results and as misaligned
 * addresses; never without the unloading. */
static void drop_outdated_chains(const jitc_cuda_device *d, jitc_cuda_batch *b) {
    uint64_t unloads = jitc_load_relaxed(&d->unloads);
    if (__builtin_expect(b->unloads == unloads, 1))
        return;
    b->unloads = unloads;
    for (int i = 0; i < JITC_CUDA_CHAINS; ++i) {
        destroy_chain(&d->backend->cuda, b->chains[i]);
        b->chains[i] = NULL;
    }
}

/* A slot for these kernels: that of a chain which is set to them, else of the chain of that length
 * used longest ago, else one to make a chain in. A second chain of a length is worth making where
 * memory alternates, as that of a loop x = f(x) does: then nothing is ever set. */
static jitc_cuda_chain **find_slot(jitc_cuda_batch *b, const jitc_cuda_pending *p,
                                   unsigned length) {
    enum { MISSES = 16 };
    jitc_cuda_chain **oldest = &b->chains[0], **same = NULL;
    unsigned count = 0;
    for (int i = 0; i < JITC_CUDA_CHAINS; ++i) {
        jitc_cuda_chain **slot = &b->chains[i];
        if (*slot && (*slot)->length == length) {
            if (is_set(b, *slot, p, 0))
                return slot;
            ++count;
            if (!same || (*slot)->used < (*same)->used)
                same = slot;
        }
        if (*oldest && (!*slot || (*slot)->used < (*oldest)->used))
            oldest = slot;
    }
    return !same || (count == 1 && ++(*same)->misses == MISSES) ? oldest : same;
}

/* A chain that launches these kernels. */
static CUresult prepare_chain(const jitc_cuda *c, jitc_cuda_batch *b, const jitc_cuda_pending *p,
                              unsigned length, jitc_cuda_chain **out) {
    jitc_cuda_chain **slot = find_slot(b, p, length);
    *out = *slot;
    if (*slot && (*slot)->length == length)
        return set_chain(c, b, *slot, p);
    destroy_chain(c, *slot); /* it is freed when it does not run any more */
    *slot = NULL;
    CUresult result = create_chain(c, b, p, length, slot);
    *out = *slot;
    return result;
}

/* The option may change between evaluations. */
static bool wants_graphs(const jitc_cuda_backend *b) {
    return b->has_graphs && b->options->cuda_graphs;
}

/* False, and nothing was launched, if it has to be done one by one. */
static bool launch_chain_locked(jitc_cuda_stream *s, const jitc_cuda_pending *p, unsigned n)
    REQUIRES(&s->mutex) {
    const jitc_cuda *c = &s->device->backend->cuda;
    jitc_cuda_batch *b = &s->batch;
    jitc_cuda_chain *chain;
    uint64_t bit = (uint64_t) 1 << (n - 1), seen = b->seen;
    b->seen |= bit;
    if (!wants_graphs(s->device->backend) || b->no_graphs || !(seen & bit))
        return false;
    drop_outdated_chains(s->device, b);
    CUresult result = prepare_chain(c, b, p, n, &chain);
    if (result == CUDA_SUCCESS)
        result = c->GraphLaunch(chain->exec, s->stream);
    if (result == CUDA_SUCCESS) {
        chain->used = ++b->launches;
        note_launched_locked(s, p, n);
        return true;
    }
    b->no_graphs = true;                 /* it would not work the next time either */
    jitc_store_release(&b->why, result); /* pairs with jitc_cuda_tell_graphs */
    return false;
}

static jit_status submit_locked(jitc_cuda_stream *s) REQUIRES(&s->mutex) {
    jitc_cuda_batch *b = &s->batch;
    for (size_t i = 0, n; i < b->count; i += n) {
        n = b->count - i < JITC_CUDA_CHAIN ? b->count - i : JITC_CUDA_CHAIN;
        if (!launch_chain_locked(s, b->kernels + i, (unsigned) n))
            TRY(launch_each_locked(s, b->kernels + i, n));
    }
    return JIT_OK;
}

static void drop_batch_locked(jitc_cuda_stream *s) REQUIRES(&s->mutex) {
    s->batch.count = s->batch.word_count = 0;
    s->submitted = jitc_load_relaxed(&s->last);
    jitc_store_release(&s->handed, s->submitted); /* pairs with is_submitted */
}

jit_status jitc_cuda_flush_locked(jitc_cuda_stream *s) {
    jitc_cuda_batch *b = &s->batch;
    if (!b->count)
        return jitc_cuda_after_pool_locked(s);
    if (jitc_load_acquire(&s->device->failed)) { /* pairs with note_locked */
        drop_batch_locked(s);
        return jitc_cuda_device_raise(s->device);
    }
    jit_status status = jitc_cuda_after_pool_locked(s);
    if (status == JIT_OK)
        status = submit_locked(s);
    drop_batch_locked(s);
    /* Other streams may come to wait for what this evaluation did, but not for the next one. */
    if (status == JIT_OK && jitc_load_relaxed(&s->device->stream_count) > 1)
        jitc_cuda_mark_locked(s);
    return status;
}

void jitc_cuda_tell_graphs(jitc_cuda_stream *s) {
    const char *name = NULL;
    if (__builtin_expect(jitc_load_relaxed(&s->batch.why) == CUDA_SUCCESS, 1))
        return;
    CUresult why = jitc_exchange_acquire(&s->batch.why, CUDA_SUCCESS);
    if (why != CUDA_SUCCESS && s->device->backend->cuda.GetErrorName(why, &name) == CUDA_SUCCESS)
        jitc_log(JITC_LOG_WARN, "cuda: kernels are launched one by one: graphs do not work: %s",
                 name);
}

void jitc_cuda_batch_finish(const jitc_cuda *c, jitc_cuda_batch *b) {
    for (int i = 0; i < JITC_CUDA_CHAINS; ++i)
        destroy_chain(c, b->chains[i]);
    free(b->kernels);
    free(b->words);
}
