/* cuda_foreign.c: another library in the same process, for tests. */
#include "cuda_foreign.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

foreign foreign_find(void) {
    foreign f;
    void *address;
#define X(member, symbol, parameters)                                                              \
    address = support_driver(symbol);                                                              \
    memcpy(&f.member, &address, sizeof address); /* as dlsym() requires */
    FOREIGN_FUNCTIONS(X)
#undef X
    return f;
}

void foreign_enter(int device) {
    foreign f = foreign_find();
    CUcontext context;
    CU_OK(f.CtxRetain(&context, device));
    CU_OK(f.CtxPushCurrent(context));
}

void foreign_leave(int device) {
    foreign f = foreign_find();
    CUcontext context;
    CU_OK(f.CtxPopCurrent(&context));
    CU_OK(f.CtxRelease(device));
}

CUstream foreign_stream(unsigned flags) {
    CUstream stream;
    CU_OK(foreign_find().StreamCreate(&stream, flags));
    return stream;
}

/* Where a test fails while a gate is closed, its end must not hang. */
static void wait_at(void *context) {
    gate *g = context;
    for (int i = 0; i < 100000 && !jitc_load_acquire(&g->open); ++i) /* pairs with foreign_open */
        usleep(100);
}

void foreign_close(gate *g, CUstream stream) {
    jitc_store_relaxed(&g->open, false);
    CU_OK(foreign_find().LaunchHostFunc(stream, wait_at, g));
}

void foreign_open(gate *g) {
    jitc_store_release(&g->open, true); /* pairs with wait_at */
}

static void *open_at_wait(void *context) {
    const foreign_opener *o = context;
    while (!jitc_load_acquire(&o->gate->open) && /* pairs with foreign_open */
           foreign_waits(o->w) == o->waits)
        usleep(50);
    foreign_open(o->gate);
    return NULL;
}

void foreign_open_at_wait(foreign_opener *o, gate *g, const cuda_world *w) {
    *o = (foreign_opener) {.gate = g, .w = w, .waits = foreign_waits(w)};
    cr_assert_eq(pthread_create(&o->thread, NULL, open_at_wait, o), 0);
}

void foreign_opener_end(foreign_opener *o) {
    foreign_open(o->gate);
    pthread_join(o->thread, NULL);
}

/* What is queued first of what is ready runs first, as long as there is no seed. */
void foreign_settle(void) {
    foreign f = foreign_find();
    CUstream last = foreign_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    CU_OK(f.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    CU_OK(f.EventRecord(event, last));
    CU_OK(f.EventSynchronize(event));
    CU_OK(f.EventDestroy(event));
    CU_OK(f.StreamDestroy(last));
}

/* A copy of the driver in which the function has another name. */
static void copy_without(const char *from, const char *to, const char *function) {
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    cr_assert(in && out);
    fseek(in, 0, SEEK_END);
    size_t size = (size_t) ftell(in), length = strlen(function), found = 0;
    rewind(in);
    char *all = malloc(size);
    cr_assert(all && fread(all, 1, size, in) == size);
    for (size_t i = 0; i + length < size; ++i)
        if (memcmp(all + i, function, length + 1) == 0) {
            all[i + length - 1] = '_';
            ++found;
        }
    cr_assert(found > 0 && fwrite(all, 1, size, out) == size);
    free(all);
    fclose(in), fclose(out);
}

void foreign_hide_function(const char *name) {
    static char path[] = "/tmp/jitc_old_driver_XXXXXX";
    const char *driver = getenv("JITC_LIBCUDA");
    if (!driver || support_backend() != JIT_CUDA)
        support_skip("this wants the simulated driver");
    close(mkstemp(path));
    copy_without(driver, path, name);
    setenv("JITC_LIBCUDA", path, 1);
    setenv("JITC_LIBNVRTC", path, 1);
    cr_assert_null(support_driver(name));
    cr_assert_not_null(dlopen(path, RTLD_NOW | RTLD_LOCAL));
    remove(path); /* it is open, and found by its name */
}

uint64_t foreign_launches(const cuda_world *w) {
    return w->calls("cuLaunchKernel") + w->calls("cuGraphLaunch");
}

uint64_t foreign_waits(const cuda_world *w) {
    return w->calls("cuEventSynchronize") + w->calls("cuStreamSynchronize") +
           w->calls("cuCtxSynchronize");
}
