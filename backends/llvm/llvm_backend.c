/* llvm_backend.c: the vtable of the CPU backend.  Layer: llvm.  May include: core, ir, device.
 *
 *   program --lower--> source (a copy of it) --compile--> object --load--> code --launch--> task
 *
 * There is one device. A stream is a queue of the pool of worker threads. */
#include "llvm/llvm_backend.h"
#include "llvm/block.h"
#include "llvm/compiler.h"
#include "llvm/cost.h"
#include "llvm/event.h"
#include "llvm/helpers.h"
#include "llvm/loader.h"
#include "llvm/machine.h"
#include "llvm/shape.h"
#include "llvm/sort.h"
#include "llvm/symbols.h"
#include "llvm/tables.h"
#include "llvm/update.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Raised when the code made of a program changes. */
enum { CODE_VERSION = 6 };

typedef struct llvm_backend {
    jitc_backend base;
    jitc_llvm_library library;
    jitc_llvm_compiler compiler;
    jitc_symbols *symbols;
    jitc_pool *pool;
    jitc_target target;
    unsigned native_bytes; /* of a vector register */
    uint64_t memory;       /* bytes that there are */
    _Atomic uint64_t allocated;
    jitc_mutex lock; /* guards the list, and what kernels have loaded */
    struct llvm_kernel *kernels;
} llvm_backend;

struct jitc_source {
    jitc_program program;
    llvm_backend *backend;
};

/** One loading of a kernel. A kernel keeps the code it had before: a launch may be about to run it,
 *  and there is at most one better compilation. */
typedef struct loaded {
    jitc_code code;
    struct loaded *older;
} loaded;

typedef struct llvm_kernel {
    jitc_kernel base;
    _Atomic(jitc_task_function) function;
    atomic_uint in_flight;
    double ns_per_lane;
    jitc_tables tables;
    jitc_shape_plan shape;
    jitc_sort_plan sort;
    int threads; /* of the pool */
    loaded *newest;
    struct llvm_kernel *next, *previous; /* of all */
} llvm_kernel;

static llvm_backend *backend_of(jitc_backend *b) {
    return (llvm_backend *) b;
}
static llvm_kernel *kernel_of(jitc_kernel *k) {
    return (llvm_kernel *) k;
}

/* Device and memory. */

static jit_status device_count(jitc_backend *b, int *out) {
    (void) b;
    *out = 1;
    return JIT_OK;
}

static jit_status target(jitc_backend *b, int device, const jitc_target **out) {
    (void) device;
    *out = &backend_of(b)->target;
    return JIT_OK;
}

static jit_status alloc_block(jitc_backend *b, int device, size_t bytes, void **out) {
    llvm_backend *l = backend_of(b);
    (void) device;
    /* Asked first: a system may promise more than it has, and end the process that believes it. */
    if (bytes > l->memory || jitc_load_relaxed(&l->allocated) > l->memory - bytes)
        return jitc_fail(JIT_OUT_OF_MEMORY,
                         "llvm: no memory for %zu bytes: the machine has %llu, and %llu are in use",
                         bytes, (unsigned long long) l->memory,
                         (unsigned long long) jitc_load_relaxed(&l->allocated));
    *out = jitc_block_alloc(bytes);
    if (!*out)
        return jitc_fail(JIT_OUT_OF_MEMORY, "llvm: no memory for %zu bytes", bytes);
    jitc_add_relaxed(&l->allocated, bytes);
    return JIT_OK;
}

static void free_block(jitc_backend *b, int device, void *pointer, size_t bytes) {
    (void) device;
    jitc_add_relaxed(&backend_of(b)->allocated, 0 - (uint64_t) bytes);
    jitc_block_free(pointer, bytes);
}

/** free_block() keeps nothing. */
static void trim(jitc_backend *b, int device) {
    (void) b, (void) device;
}

/** There is one. */
static void share(jitc_backend *b, int device) {
    (void) b, (void) device;
}

/** The host can use everything that is here. */
static jit_status look_up(jitc_backend *b, int device, const void *pointer, jitc_address *out) {
    (void) b, (void) device;
    *out = (jitc_address) {.kind = JITC_ADDRESS_HOST, .on_device = (void *) (uintptr_t) pointer};
    return JIT_OK;
}

/* Streams. */

static jit_status stream_create(jitc_backend *b, int device, jitc_stream **out) {
    jitc_llvm_stream *s;
    TRY(jitc_calloc(1, sizeof *s, (void **) &s));
    jit_status status = jitc_queue_create(backend_of(b)->pool, &s->queue);
    if (status != JIT_OK) {
        free(s);
        return status;
    }
    (void) device;
    *out = &s->base;
    return JIT_OK;
}

static void stream_destroy(jitc_stream *s) {
    jitc_queue_destroy(jitc_llvm_queue(s));
    free(s);
}

static size_t scratch(jitc_kernel *k, uint64_t lanes) {
    const llvm_kernel *kernel = kernel_of(k);
    if (kernel->sort.sorts)
        return jitc_sort_scratch((jit_dtype) kernel->sort.sort.type,
                                 kernel->sort.sort.aux & JITC_AUX_PART, lanes, kernel->threads);
    return jitc_shape_combines(&kernel->shape) ? jitc_shape_scratch(&kernel->shape, lanes)
                                               : jitc_tables_scratch(&kernel->tables, lanes);
}

static jit_status launch(jitc_stream *s, jitc_kernel *k, const jitc_launch_args *a,
                         uint64_t *number) {
    llvm_kernel *kernel = kernel_of(k);
    jitc_pool *pool = backend_of(s->backend)->pool;
    jitc_add_relaxed(&k->work, a->lanes * k->operations);
    jitc_task t = {.function = jitc_load_acquire(&kernel->function), /* pairs with add_code */
                   .lanes = a->lanes,
                   .block = jitc_cost_block(kernel->ns_per_lane, a->lanes, jitc_pool_threads(pool)),
                   .cost_ns = kernel->ns_per_lane * (double) a->lanes,
                   .params = a->params,
                   .count = a->count,
                   .in_flight = &kernel->in_flight};
    if (kernel->sort.sorts)
        return jitc_sort_launch_plan(&kernel->sort, jitc_llvm_queue(s), kernel->threads, &t,
                                     number);
    if (kernel->tables.loops && !jitc_shape_combines(&kernel->shape))
        t.block = jitc_cost_loop_block(t.block, t.lanes, jitc_pool_threads(pool));
    if (kernel->tables.updates)
        return jitc_tables_launch(&kernel->tables, jitc_llvm_queue(s), &t, number);
    if (jitc_shape_combines(&kernel->shape))
        return jitc_shape_launch(&kernel->shape, jitc_llvm_queue(s), jitc_pool_threads(pool), &t,
                                 number);
    return jitc_queue_launch(jitc_llvm_queue(s), &t, number);
}

/** A task: the bytes begin ... end-1 of a copy. params: to, from. */
static void copy_range(uint64_t begin, uint64_t end, const uint64_t *params) {
    memcpy((char *) (uintptr_t) params[0] + begin, (const char *) (uintptr_t) params[1] + begin,
           end - begin);
}

static jit_status copy(jitc_stream *s, void *to, const void *from, size_t bytes, uint64_t *number) {
    const uint64_t params[] = {(uintptr_t) to, (uintptr_t) from};
    jitc_task t = {.function = copy_range,
                   .lanes = bytes,
                   .block = 1 << 18,
                   .cost_ns = 0.1 * (double) bytes,
                   .params = params,
                   .count = 2};
    return jitc_queue_launch(jitc_llvm_queue(s), &t, number);
}

/** Copy a source that may change soon: through a copy of it, which a call behind the task frees. */
static jit_status copy_staged(jitc_stream *s, void *to, const void *from, size_t bytes,
                              uint64_t *number) {
    void *staged = malloc(bytes);
    if (!staged)
        return jitc_fail(JIT_OUT_OF_MEMORY, "llvm: no memory for %zu bytes", bytes);
    memcpy(staged, from, bytes);
    jit_status status = copy(s, to, staged, bytes, number);
    if (status != JIT_OK) {
        free(staged);
        return status;
    }
    uint64_t freed = *number;
    if (jitc_queue_call(jitc_llvm_queue(s), free, staged, &freed) != JIT_OK) {
        jitc_queue_wait(jitc_llvm_queue(s), *number);
        free(staged);
        jitc_error ignored;
        jitc_error_take(&ignored);
    }
    *number = freed;
    return JIT_OK;
}

static jit_status upload(jitc_stream *s, void *to, const void *from, size_t bytes,
                         uint64_t *number) {
    jitc_queue *q = jitc_llvm_queue(s);
    if (!bytes || !jitc_queue_done(q, jitc_load_relaxed(&s->queued)))
        return copy_staged(s, to, from, bytes ? bytes : 1, number);
    TRY(copy(s, to, from, bytes, number));
    jitc_queue_wait(q, *number);
    return JIT_OK;
}

static jit_status download(jitc_stream *s, void *to, const void *from, size_t bytes) {
    jitc_queue_wait(jitc_llvm_queue(s), jitc_load_relaxed(&s->queued));
    memcpy(to, from, bytes);
    return JIT_OK;
}

static jit_status call(jitc_stream *s, void (*function)(void *), void *context, uint64_t *number) {
    return jitc_queue_call(jitc_llvm_queue(s), function, context, number);
}

static jit_status stream_wait(jitc_stream *s, jitc_stream *other, uint64_t n) {
    uint64_t number;
    if (s == other)
        return JIT_OK;
    TRY(jitc_queue_wait_for(jitc_llvm_queue(s), jitc_llvm_queue(other), n, &number));
    jitc_store_release(&s->queued, number); /* pairs with readers of the stream's last number */
    return JIT_OK;
}

static jit_status flush(jitc_stream *s) {
    (void) s; /* nothing is held back */
    return JIT_OK;
}

static bool done(jitc_stream *s, uint64_t n) {
    if (jitc_queue_done(jitc_llvm_queue(s), n))
        return true;
    jitc_pool_resume(backend_of(s->backend)->pool); /* who asks again and again is answered once */
    return false;
}

static jit_status wait_for(jitc_stream *s, uint64_t n) {
    jitc_queue_wait(jitc_llvm_queue(s), n);
    return JIT_OK;
}

static jit_status event_create(jitc_backend *b, int device, bool timed, void *native,
                               jitc_event **out) {
    (void) device, (void) timed;
    return jitc_llvm_event_create(backend_of(b)->pool, native, out);
}

static void *event_native(jitc_event *e) {
    (void) e;
    return NULL;
}

static jit_status others_stream(jitc_stream *s, intptr_t other) {
    (void) s;
    if (other == JITC_STREAM_NONE)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT, "llvm: there are no streams of others on the CPU");
}

/** Others have no streams here. */
static uint64_t consumer_id(jitc_stream *s, intptr_t other) {
    (void) s, (void) other;
    return 0;
}

static bool consumer_is_apart(jitc_stream *s, intptr_t other) {
    (void) s, (void) other;
    return false;
}

static jit_status consumer_create(jitc_backend *b, int device, jitc_stream **out) {
    return stream_create(b, device, out);
}

static jit_status consumer_mark(jitc_stream *marks, intptr_t other, uint64_t *number) {
    *number = 0;
    return others_stream(marks, other);
}

static jit_status barrier(jitc_backend *b, int device) {
    (void) b, (void) device;
    return JIT_OK;
}

static void free_detached(void *context, void *pointer, size_t bytes) {
    (void) context;
    if (pointer)
        jitc_block_free(pointer, bytes);
}

static void detach(jitc_backend *b, int device, size_t blocks, jitc_detached *out) {
    (void) b, (void) device, (void) blocks;
    *out = (jitc_detached) {.free = free_detached};
}

static void stream_native(jitc_stream *s, void **stream, void **context) {
    (void) s;
    if (stream)
        *stream = NULL;
    *context = NULL;
}

/* Kernels. */

static jit_status lower(jitc_backend *b, int device, const jitc_program *p, jitc_source **out) {
    jitc_source *s;
    (void) device;
    TRY(jitc_calloc(1, sizeof *s, (void **) &s));
    s->backend = backend_of(b);
    jit_status status = jitc_program_copy(p, &s->program);
    if (status != JIT_OK) {
        free(s);
        return status;
    }
    *out = s;
    return JIT_OK;
}

/** The code of a sort, which is none: there is a function for it. */
static jit_status compile_sort(jitc_blob *out) {
    TRY(jitc_calloc(1, 1, &out->data));
    out->size = 1;
    return JIT_OK;
}

static jit_status compile(jitc_backend *b, jitc_source *s, int level, jitc_blob *out) {
    if (s->program.head.shape == JITC_SHAPE_SORT)
        return compile_sort(out);
    return jitc_llvm_compile(&backend_of(b)->compiler, &s->program, level, out);
}

static char *source_print(jitc_source *s, int level) {
    if (s->program.head.shape == JITC_SHAPE_SORT)
        return strdup("sort.c\n");
    return level < 0 ? jitc_llvm_print(&s->backend->compiler, &s->program)
                     : jitc_llvm_print_code(&s->backend->compiler, &s->program, level);
}

static void source_destroy(jitc_backend *b, jitc_source *s) {
    (void) b;
    if (!s)
        return;
    jitc_program_finish(&s->program);
    free(s);
}

static void *find_symbol(void *context, const char *name) {
    llvm_backend *b = context;
    void *address = jitc_helper_find(name);
    address = address ? address : jitc_update_find(name);
    return address ? address : jitc_symbols_find(b->symbols, name);
}

/** Load code and let launches from now on run it. */
static jit_status add_code(llvm_backend *b, llvm_kernel *k, const jitc_blob *object) {
    loaded *l;
    jitc_resolver resolver = {find_symbol, b};
    TRY(jitc_calloc(1, sizeof *l, (void **) &l));
    jit_status status = jitc_code_load(object, JITC_KERNEL_ENTRY, &resolver, &l->code);
    if (status != JIT_OK) {
        free(l);
        return status;
    }
    jitc_task_function function;
    memcpy(&function, &l->code.entry, sizeof function);
    jitc_mutex_lock(&b->lock);
    l->older = k->newest;
    k->newest = l;
    jitc_store_release(&k->function, function); /* pairs with the load in launch */
    jitc_mutex_unlock(&b->lock);
    return JIT_OK;
}

static void list_kernel(llvm_backend *b, llvm_kernel *k) {
    jitc_mutex_lock(&b->lock);
    k->next = b->kernels;
    if (k->next)
        k->next->previous = k;
    atomic_signal_fence(memory_order_release);
    b->kernels = k;
    jitc_mutex_unlock(&b->lock);
}

static void unlist_kernel(llvm_backend *b, llvm_kernel *k) {
    jitc_mutex_lock(&b->lock);
    *(k->previous ? &k->previous->next : &b->kernels) = k->next;
    if (k->next)
        k->next->previous = k->previous;
    jitc_mutex_unlock(&b->lock);
}

static jit_status load(jitc_backend *b, int device, const jitc_program *p, const jitc_blob *code,
                       jitc_kernel **out) {
    llvm_kernel *k;
    (void) device;
    TRY(jitc_calloc(1, sizeof *k, (void **) &k));
    k->ns_per_lane = jitc_cost_estimate(p, backend_of(b)->native_bytes);
    k->base.operations = jitc_cost_operations(k->ns_per_lane, backend_of(b)->native_bytes);
    jitc_tables_init(p, jitc_pool_threads(backend_of(b)->pool), &k->tables);
    k->sort = jitc_sort_plan_of(p);
    k->threads = jitc_pool_threads(backend_of(b)->pool);
    jit_status status = jitc_shape_init(p, backend_of(b)->native_bytes == 64, &k->shape);
    if (status == JIT_OK && !k->sort.sorts)
        status = add_code(backend_of(b), k, code);
    if (status != JIT_OK) {
        jitc_shape_finish(&k->shape);
        free(k);
        return status;
    }
    list_kernel(backend_of(b), k);
    *out = &k->base;
    return JIT_OK;
}

static jit_status reload(jitc_backend *b, jitc_kernel *k, const jitc_blob *code) {
    if (kernel_of(k)->sort.sorts)
        return JIT_OK;
    return add_code(backend_of(b), kernel_of(k), code);
}

static void kernel_destroy(jitc_backend *b, jitc_kernel *base) {
    llvm_kernel *k = kernel_of(base);
    if (!k)
        return;
    while (jitc_load_acquire(&k->in_flight)) /* pairs with the end of a task in queue.c */
        sched_yield();
    unlist_kernel(backend_of(b), k);
    while (k->newest) {
        loaded *l = k->newest;
        k->newest = l->older;
        jitc_code_finish(&l->code);
        free(l);
    }
    jitc_shape_finish(&k->shape);
    free(k);
}

/* The backend. */

/* Nobody is inside LLVM, nor opening a library: whoever forks has seen to that (core/exit.h). */
static void fork_hold(jitc_backend *base) UNCHECKED_LOCKING {
    jitc_mutex_lock(&backend_of(base)->lock);
    jitc_pool_fork_hold(backend_of(base)->pool);
}

static void fork_release(jitc_backend *base) UNCHECKED_LOCKING {
    jitc_pool_fork_release(backend_of(base)->pool);
    jitc_mutex_unlock(&backend_of(base)->lock);
}

static void forked(jitc_backend *base) UNCHECKED_LOCKING {
    jitc_pool_forked(backend_of(base)->pool);
    jitc_mutex_unlock(&backend_of(base)->lock);
}

static void destroy(jitc_backend *base) {
    llvm_backend *b = backend_of(base);
    jitc_pool_destroy(b->pool);
    jitc_symbols_destroy(b->symbols);
    jitc_llvm_compiler_finish(&b->compiler);
    jitc_llvm_library_finish(&b->library);
    jitc_mutex_finish(&b->lock);
    free(b);
}

static const jitc_backend slots = {
    .id = JIT_LLVM,
    .name = "llvm",
    .host_memory = true,
    .levels = 2,
    .device_count = device_count,
    .target = target,
    .alloc = alloc_block,
    .free = free_block,
    .trim = trim,
    .share = share,
    .look_up = look_up,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .scratch = scratch,
    .launch = launch,
    .copy = copy,
    .upload = upload,
    .download = download,
    .call = call,
    .stream_wait = stream_wait,
    .flush = flush,
    .done = done,
    .wait = wait_for,
    .event_create = event_create,
    .event_destroy = jitc_llvm_event_destroy,
    .event_record = jitc_llvm_event_record,
    .event_done = jitc_llvm_event_done,
    .event_wait = jitc_llvm_event_wait,
    .event_stream_wait = jitc_llvm_event_stream_wait,
    .event_elapsed = jitc_llvm_event_elapsed,
    .event_native = event_native,
    .stream_release = others_stream,
    .stream_acquire = others_stream,
    .consumer_id = consumer_id,
    .consumer_is_apart = consumer_is_apart,
    .consumer_create = consumer_create,
    .consumer_mark = consumer_mark,
    .barrier = barrier,
    .detach = detach,
    .stream_native = stream_native,
    .fork_hold = fork_hold,
    .fork_release = fork_release,
    .forked = forked,
    .lower = lower,
    .compile = compile,
    .source_print = source_print,
    .source_destroy = source_destroy,
    .load = load,
    .reload = reload,
    .kernel_destroy = kernel_destroy,
    .destroy = destroy,
};

/** Width of vectors in lanes: for all types, since LLVM splits and joins vectors well. */
static unsigned lanes_of(jitc_isa isa) {
    return isa >= JITC_ISA_V3 ? 16 : 8;
}

static void describe(llvm_backend *b, jitc_isa isa) {
    snprintf(b->target.text, sizeof b->target.text, "llvm %d %s %u %.70s %.60s", CODE_VERSION,
             jitc_machine_isa_name(isa), lanes_of(isa), b->library.fingerprint,
             jitc_symbols_describe(b->symbols));
    b->target.lanes = lanes_of(isa);
    b->memory = jitc_machine_memory();
    b->native_bytes = isa == JITC_ISA_V4 ? 64 : isa == JITC_ISA_V3 ? 32 : 16;
}

static jit_status init_parts(llvm_backend *b, const jitc_options *o, jitc_isa isa) {
    jit_status status;
    int cores = jitc_machine_cores();
    int64_t threads = o->num_threads > 0 ? o->num_threads : cores;
    threads = threads > 1024 ? 1024 : threads;
    TRY(jitc_symbols_create(&b->symbols));
    TRY_GOTO(jitc_llvm_library_init(&b->library, o->llvm_library), symbols);
    int spin = o->spin_us < 0 ? 0 : o->spin_us > 1000000 ? 1000000 : (int) o->spin_us;
    TRY_GOTO(jitc_pool_create((int) threads, spin, &b->pool), library);
    jitc_mutex_init(&b->lock);
    jitc_llvm_compiler_init(&b->compiler, &b->library, isa, lanes_of(isa), cores);
    describe(b, isa);
    return JIT_OK;
library:
    jitc_llvm_library_finish(&b->library);
symbols:
    jitc_symbols_destroy(b->symbols);
    return status;
}

jit_status jitc_llvm_backend_create(const jitc_options *o, jitc_backend **out) {
    llvm_backend *b;
    jitc_isa isa;
    TRY(jitc_machine_isa(o->llvm_isa, &isa));
    TRY(jitc_calloc(1, sizeof *b, (void **) &b));
    b->base = slots;
    jit_status status = init_parts(b, o, isa);
    if (status != JIT_OK) {
        free(b);
        return status;
    }
    *out = &b->base;
    return JIT_OK;
}
