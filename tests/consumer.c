/* consumer.c: another library that works on the same GPU.  Layer: tests. */
#include "consumer.h"
#include "support.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEGACY     ((CUstream) 1)
#define PER_THREAD ((CUstream) 2)
enum { PORTABLE = 1 }; /* CU_MEMHOSTALLOC_PORTABLE */

// clang-format off
#define FUNCTIONS(X)                                                                               \
    X(Init, "cuInit", (unsigned flags))                                                            \
    X(DeviceGetCount, "cuDeviceGetCount", (int *count))                                            \
    X(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext *context, CUdevice device))         \
    X(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                        \
    X(CtxCreate, "cuCtxCreate_v2", (CUcontext *context, unsigned flags, CUdevice device))          \
    X(CtxDestroy, "cuCtxDestroy_v2", (CUcontext context))                                          \
    X(CtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext context))                                  \
    X(CtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext *context))                                   \
    X(StreamCreate, "cuStreamCreate", (CUstream *stream, unsigned flags))                          \
    X(StreamDestroy, "cuStreamDestroy_v2", (CUstream stream))                                      \
    X(StreamQuery, "cuStreamQuery", (CUstream stream))                                             \
    X(StreamSynchronize, "cuStreamSynchronize", (CUstream stream))                                 \
    X(EventCreate, "cuEventCreate", (CUevent *event, unsigned flags))                              \
    X(EventDestroy, "cuEventDestroy_v2", (CUevent event))                                          \
    X(EventRecord, "cuEventRecord", (CUevent event, CUstream stream))                              \
    X(MemHostAlloc, "cuMemHostAlloc", (void **pointer, size_t bytes, unsigned flags))              \
    X(MemFreeHost, "cuMemFreeHost", (void *pointer))                                               \
    X(Memcpy, "cuMemcpyAsync", (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))  \
    X(LaunchHostFunc, "cuLaunchHostFunc", (CUstream stream, void (*call)(void *), void *argument))
// clang-format on

/* The functions of the driver that it calls. */
static struct {
    pthread_once_t once;
#define MEMBER(name, symbol, arguments) CUresult(*name) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
    CUresult (*EnablePeerAccess)(CUcontext context, unsigned flags); /* may be NULL */
} cu = {.once = PTHREAD_ONCE_INIT};

void consumer_driver(void *function, const char *symbol) {
    void *found = support_driver(symbol);
    if (!found) {
        fprintf(stderr, "consumer: the driver has no %s\n", symbol);
        exit(1);
    }
    memcpy(function, &found, sizeof found); /* as dlsym() requires */
}

void consumer_must(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "consumer: %s returns %d\n", what, result);
    exit(1);
}
#define MUST(name, ...) consumer_must(cu.name(__VA_ARGS__), #name)

static void find_functions(void) {
#define FIND(name, symbol, arguments) consumer_driver(&cu.name, symbol);
    FUNCTIONS(FIND)
#undef FIND
    void *enable = support_driver("cuCtxEnablePeerAccess");
    memcpy(&cu.EnablePeerAccess, &enable, sizeof enable);
    MUST(Init, 0);
}
static void start(void) {
    pthread_once(&cu.once, find_functions);
}

/* What it does is done by its thread, if it has one. */
struct consumer {
    CUcontext context;
    consumer_place place;
    CUdevice device; /* of the context */
    CUstream stream, other;
    CUevent event;
    uint32_t *in, *out; /* pinned: what was read, and what is to be written */
    bool has_thread, ends;
    pthread_t thread;
    sem_t asked, answered;
    void (*function)(void *);
    void *argument;
};

static void push(CUcontext context) {
    MUST(CtxPushCurrent, context);
}
static void pop(void) {
    CUcontext ignored;
    MUST(CtxPopCurrent, &ignored);
}

/* ---- Its thread ---- */

static void *serve(void *argument) {
    consumer *c = argument;
    while (sem_wait(&c->asked) == 0 && !c->ends) {
        c->function(c->argument);
        sem_post(&c->answered);
    }
    return NULL;
}

void consumer_call(consumer *c, void (*function)(void *), void *context) {
    if (!c->has_thread) {
        function(context);
        return;
    }
    c->function = function;
    c->argument = context;
    sem_post(&c->asked);
    sem_wait(&c->answered);
}

/* ---- Making one ---- */

bool consumer_can(consumer_place place, int device) {
    int count = 0;
    start();
    MUST(DeviceGetCount, &count);
    return device < count && (place != CONSUMER_ELSEWHERE || count > 1);
}

/* Streams of one device may use the memory of another one once that is allowed, which is the
 * business of who wants it; where it cannot be, the driver copies by way of the host. */
static void reach_memory_of(int device) {
    CUcontext context;
    MUST(PrimaryCtxRetain, &context, device);
    if (cu.EnablePeerAccess)
        (void) cu.EnablePeerAccess(context, 0);
    MUST(PrimaryCtxRelease, device);
}

static CUcontext make_context(consumer_place place, int device) {
    CUcontext context;
    if (place != CONSUMER_OWN) {
        MUST(PrimaryCtxRetain, &context, device);
        return context;
    }
    MUST(CtxCreate, &context, 0, device);
    pop();
    return context;
}

/* What it is asked to do. */
typedef struct job {
    consumer *c;
    consumer_kind kind;
    int array_device;
    size_t words;
    void *memory;
    uint32_t word;
    bool done;
} job;

static void make(void *argument) {
    job *o = argument;
    consumer *c = o->c;
    c->context = make_context(c->place, c->device);
    push(c->context);
    if (c->place != CONSUMER_HERE)
        reach_memory_of(o->array_device);
    c->stream = o->kind == CONSUMER_LEGACY ? LEGACY : PER_THREAD;
    if (o->kind == CONSUMER_BLOCKING || o->kind == CONSUMER_NON_BLOCKING)
        MUST(StreamCreate, &c->stream, o->kind == CONSUMER_NON_BLOCKING);
    MUST(StreamCreate, &c->other, CU_STREAM_NON_BLOCKING);
    MUST(EventCreate, &c->event, CU_EVENT_DISABLE_TIMING);
    void **in = (void **) &c->in, **out = (void **) &c->out;
    MUST(MemHostAlloc, in, o->words * 4, PORTABLE);
    MUST(MemHostAlloc, out, o->words * 4, PORTABLE);
    pop();
}

consumer *consumer_create(consumer_kind kind, consumer_place place, int device, size_t words,
                          bool own_thread) {
    int count = 0;
    consumer *c = calloc(1, sizeof *c);
    if (!c)
        exit(1);
    start();
    MUST(DeviceGetCount, &count);
    c->place = place;
    c->device = place == CONSUMER_ELSEWHERE ? (device + 1) % count : device;
    if (own_thread) {
        sem_init(&c->asked, 0, 0);
        sem_init(&c->answered, 0, 0);
        c->has_thread = pthread_create(&c->thread, NULL, serve, c) == 0;
    }
    job o = {.c = c, .kind = kind, .array_device = device, .words = words};
    consumer_call(c, make, &o);
    return c;
}

static void end(void *argument) {
    consumer *c = argument;
    push(c->context);
    MUST(StreamSynchronize, c->stream);
    if (c->stream != LEGACY && c->stream != PER_THREAD)
        MUST(StreamDestroy, c->stream);
    MUST(StreamDestroy, c->other);
    MUST(EventDestroy, c->event);
    MUST(MemFreeHost, c->in);
    MUST(MemFreeHost, c->out);
    pop();
    if (c->place == CONSUMER_OWN)
        MUST(CtxDestroy, c->context);
    else
        MUST(PrimaryCtxRelease, c->device);
}

void consumer_destroy(consumer *c) {
    consumer_call(c, end, c);
    if (c->has_thread) {
        c->ends = true;
        sem_post(&c->asked);
        pthread_join(c->thread, NULL);
        sem_destroy(&c->asked);
        sem_destroy(&c->answered);
    }
    free(c);
}

uintptr_t consumer_stream(const consumer *c) {
    return (uintptr_t) c->stream;
}
uintptr_t consumer_other_stream(const consumer *c) {
    return (uintptr_t) c->other;
}
const uint32_t *consumer_data(const consumer *c) {
    return c->in;
}

/* ---- Its work ---- */

static void copy(const job *o, CUdeviceptr to, CUdeviceptr from) {
    push(o->c->context);
    MUST(Memcpy, to, from, o->words * 4, o->c->stream);
    pop();
}

static void read_memory(void *argument) {
    const job *o = argument;
    copy(o, (uintptr_t) o->c->in, (uintptr_t) o->memory);
}

void consumer_read(consumer *c, void *from, size_t words) {
    job o = {.c = c, .memory = from, .words = words};
    consumer_call(c, read_memory, &o);
}

static void write_memory(void *argument) {
    const job *o = argument;
    for (size_t i = 0; i < o->words; ++i)
        o->c->out[i] = o->word;
    copy(o, (uintptr_t) o->memory, (uintptr_t) o->c->out);
}

void consumer_write(consumer *c, void *to, uint32_t word, size_t words) {
    job o = {.c = c, .memory = to, .word = word, .words = words};
    consumer_call(c, write_memory, &o);
}

static void record(void *argument) {
    const consumer *c = argument;
    push(c->context);
    MUST(EventRecord, c->event, c->stream);
    pop();
}

CUevent consumer_record(consumer *c) {
    consumer_call(c, record, c);
    return c->event;
}

static void sleep_for(void *argument) {
    usleep((useconds_t) (uintptr_t) argument);
}

static void queue_delay(void *argument) {
    const job *o = argument;
    push(o->c->context);
    MUST(LaunchHostFunc, o->c->stream, sleep_for, o->memory);
    pop();
}

void consumer_delay(consumer *c, unsigned microseconds) {
    job o = {.c = c, .memory = (void *) (uintptr_t) microseconds};
    consumer_call(c, queue_delay, &o);
}

static void query(void *argument) {
    job *o = argument;
    push(o->c->context);
    CUresult result = cu.StreamQuery(o->c->stream);
    pop();
    if (result != CUDA_ERROR_NOT_READY)
        consumer_must(result, "cuStreamQuery");
    o->done = result == CUDA_SUCCESS;
}

bool consumer_done(consumer *c) {
    job o = {.c = c};
    consumer_call(c, query, &o);
    return o.done;
}

static void wait_for_stream(void *argument) {
    consumer *c = argument;
    push(c->context);
    MUST(StreamSynchronize, c->stream);
    pop();
}

void consumer_wait(consumer *c) {
    consumer_call(c, wait_for_stream, c);
}

/* ---- The gate ---- */

static void wait_for_gate(void *argument) {
    consumer_gate *g = argument;
    while (sem_wait(&g->open) != 0)
        ;
}

void consumer_gate_close(consumer_gate *g, CUstream stream, int device) {
    CUcontext context;
    start();
    sem_init(&g->open, 0, 0);
    MUST(PrimaryCtxRetain, &context, device);
    push(context);
    MUST(LaunchHostFunc, stream, wait_for_gate, g);
    pop();
    MUST(PrimaryCtxRelease, device);
}

static void close_gate(void *argument) {
    const job *o = argument;
    push(o->c->context);
    MUST(LaunchHostFunc, o->c->stream, wait_for_gate, o->memory);
    pop();
}

void consumer_close_gate(consumer *c, consumer_gate *g) {
    job o = {.c = c, .memory = g};
    sem_init(&g->open, 0, 0);
    consumer_call(c, close_gate, &o);
}

void consumer_gate_open(consumer_gate *g) {
    sem_post(&g->open);
}
