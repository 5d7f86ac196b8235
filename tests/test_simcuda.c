/* test_simcuda.c: the simulated driver holds to the rules of the real one: contexts, memory,
 * settings, misuse. Streams, kernels and graphs: test_simcuda_work.c. */
#include "simcuda_client.h"
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- start, devices, contexts ---- */

Test(simcuda, nothing_works_before_it_is_initialised) {
    int count;
    CUcontext context;
    client_open();
    GIVES(cu.DeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    GIVES(cu.PrimaryCtxRetain(&context, 0), CUDA_ERROR_NOT_INITIALIZED);
    GIVES(cu.Init(1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.DriverGetVersion(&count));
    cr_assert_eq(count, 13000);
    OK(cu.Init(0));
    OK(cu.DeviceGetCount(&count));
    cr_assert_eq(count, 2);
}

Test(simcuda, there_may_be_no_device) {
    setenv("SIMCUDA_DEVICES", "0", 1);
    client_open();
    GIVES(cu.Init(0), CUDA_ERROR_NO_DEVICE);
}

Test(simcuda, devices_say_what_they_are) {
    char name[64];
    int major, minor, units;
    CUdevice device;
    setenv("SIMCUDA_CAPABILITY", "86", 1);
    setenv("SIMCUDA_DEVICES", "3", 1);
    client_open();
    OK(cu.Init(0));
    OK(cu.DeviceGet(&device, 2));
    GIVES(cu.DeviceGet(&device, 3), CUDA_ERROR_INVALID_DEVICE);
    OK(cu.DeviceGetName(name, sizeof name, 2));
    cr_assert_str_eq(name, "simulated GPU 2");
    OK(cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 2));
    OK(cu.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 2));
    cr_assert(major == 8 && minor == 6);
    OK(cu.DeviceGetAttribute(&units, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2));
    cr_assert_eq(units % 2, 1);
}

static void *has_no_context(void *unused) {
    CUcontext context;
    CUdeviceptr pointer;
    OK(cu.CtxGetCurrent(&context));
    cr_assert_null(context);
    GIVES(cu.MemAlloc(&pointer, 4), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.CtxPopCurrent(&context), CUDA_ERROR_INVALID_CONTEXT);
    return unused;
}

Test(simcuda, every_thread_has_its_own_stack_of_contexts) {
    CUcontext first = client_start(), second, current;
    OK(cu.PrimaryCtxRetain(&second, 1));
    cr_assert_neq(first, second);
    OK(cu.CtxPushCurrent(second));
    pthread_t thread;
    pthread_create(&thread, NULL, has_no_context, NULL);
    pthread_join(thread, NULL);
    OK(cu.CtxPopCurrent(&current));
    cr_assert_eq(current, second);
    OK(cu.CtxGetCurrent(&current));
    cr_assert_eq(current, first);
    OK(cu.PrimaryCtxRelease(1));
    client_end();
}

Test(simcuda, a_primary_context_lives_as_long_as_it_is_retained) {
    CUcontext first = client_start(), again;
    OK(cu.PrimaryCtxRetain(&again, 0));
    cr_assert_eq(first, again);
    cr_assert_eq(cu.alive("contexts"), 2);
    OK(cu.PrimaryCtxRelease(0));
    CUdeviceptr pointer = client_alloc(4);
    OK(cu.MemFree(pointer));
    OK(cu.PrimaryCtxRelease(0));
    GIVES(cu.MemAlloc(&pointer, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    FAULTS(0, "");
    GIVES(cu.PrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    FAULTS(1, "released more often than retained");
}

Test(simcuda, a_reset_destroys_what_is_in_a_context) {
    CUcontext old = client_start(), fresh;
    CUstream stream = client_stream(CU_STREAM_DEFAULT);
    client_alloc(64);
    OK(cu.PrimaryCtxReset(0));
    cr_assert_eq(cu.alive("allocations"), 0);
    cr_assert_eq(cu.alive("streams"), 0);
    cr_assert_eq(cu.alive("contexts"), 1, "whoever retained it has to release it");
    GIVES(cu.StreamSynchronize(stream), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cu.PrimaryCtxRetain(&fresh, 0));
    cr_assert_neq(old, fresh);
    OK(cu.CtxPushCurrent(fresh));
    GIVES(cu.StreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    OK(cu.PrimaryCtxRelease(0));
    OK(cu.PrimaryCtxRelease(0));
    FAULTS(0, "");
}

Test(simcuda, what_is_left_at_the_last_release_is_a_leak) {
    CUcontext context;
    CUevent event;
    client_start();
    client_alloc(64);
    client_stream(CU_STREAM_DEFAULT);
    OK(cu.EventCreate(&event, 0));
    cr_assert_eq(cu.alive("allocations"), 1);
    cr_assert_eq(cu.alive("streams"), 1);
    cr_assert_eq(cu.alive("events"), 1);
    OK(cu.CtxPopCurrent(&context));
    OK(cu.PrimaryCtxRelease(0));
    FAULTS(3, "1 allocations");
    FAULTS(3, "1 of kind stream");
    FAULTS(3, "1 of kind event");
    cr_assert_eq(cu.alive(NULL), 0);
}

Test(simcuda, functions_are_looked_up_by_name_and_version) {
    void *found, *local;
    int status;
    client_open();
    OK(cu.GetProcAddress("cuMemAlloc", &found, 12000, 0, &status));
    cr_assert_eq(found, *(void **) &cu.MemAlloc);
    OK(cu.GetProcAddress("cuEventRecord", &local, 12000, 2, &status));
    OK(cu.GetProcAddress("cuEventRecord", &found, 12000, 1, &status));
    cr_assert_neq(found, local);
    GIVES(cu.GetProcAddress("cuGraphAddKernelNode", &found, 11000, 0, &status),
          CUDA_ERROR_NOT_FOUND);
    cr_assert_eq(status, 2, "there is one, but of a later version");
    GIVES(cu.GetProcAddress("cuNoSuchThing", &found, 13000, 0, &status), CUDA_ERROR_NOT_FOUND);
    cr_assert_eq(status, 1);
}

Test(simcuda, a_forked_child_cannot_use_the_driver) {
    client_start();
    int count, status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(cu.DeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED ? 0 : 1);
    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    client_end();
}

/* ---- memory ---- */

static sigjmp_buf after_fault;
static void on_fault(int signal) {
    siglongjmp(after_fault, signal);
}

Test(simcuda, the_host_cannot_touch_device_memory) {
    client_start();
    CUdeviceptr pointer = client_alloc(64);
    struct sigaction action = {.sa_handler = on_fault}, old;
    sigaction(SIGSEGV, &action, &old);
    volatile int touched = 0;
    int signal = sigsetjmp(after_fault, 1);
    if (signal == 0)
        touched = *(volatile int *) (uintptr_t) pointer, touched = 1;
    sigaction(SIGSEGV, &old, NULL);
    cr_assert_eq(signal, SIGSEGV);
    cr_assert_eq(touched, 0);
    OK(cu.MemFree(pointer));
    client_end();
}

Test(simcuda, new_memory_holds_garbage) {
    client_start();
    CUdeviceptr pointer = client_alloc(1000);
    unsigned char bytes[1000];
    OK(cu.MemcpyDtoH(bytes, pointer, sizeof bytes));
    double d;
    float f;
    memcpy(&d, bytes + 8, sizeof d);
    memcpy(&f, bytes + 4, sizeof f);
    cr_assert(d != d && f != f);
    for (size_t i = 0; i < sizeof bytes; i++)
        cr_assert(bytes[i] > 1, "byte %zu could be a bool", i);
    cr_assert(pointer % 512 == 0 && pointer % 1024 != 0, "aligned as promised, and no more");
    OK(cu.MemFree(pointer));
    client_end();
}

Test(simcuda, copies_reach_what_they_are_told_to) {
    client_start();
    unsigned in[256], out[256] = {0};
    for (unsigned i = 0; i < 256; i++)
        in[i] = i * 3;
    CUdeviceptr a = client_alloc(sizeof in), b = client_alloc(sizeof in);
    OK(cu.MemcpyHtoD(a, in, sizeof in));
    OK(cu.MemcpyDtoDAsync(b + 4, a, sizeof in - 4, NULL));
    OK(cu.MemsetD32(b, 77, 1));
    OK(cu.MemcpyDtoH(out, b, sizeof out));
    cr_assert_eq(out[0], 77);
    cr_assert_eq(memcmp(out + 1, in, sizeof in - 4), 0);
    OK(cu.MemcpyHtoD(a, in, 0));
    OK(cu.MemFree(a));
    OK(cu.MemFree(b));
    client_end();
}

Test(simcuda, copies_out_of_bounds_are_refused) {
    client_start();
    unsigned words[64] = {0};
    CUdeviceptr pointer = client_alloc(100);
    GIVES(cu.MemcpyHtoDAsync(pointer, words, 101, NULL), CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "destination of 101 bytes out of bounds");
    GIVES(cu.MemcpyDtoHAsync(words, pointer - 1, 4, NULL), CUDA_ERROR_INVALID_VALUE);
    FAULTS(2, "1 bytes in front of allocation");
    GIVES(cu.MemcpyDtoHAsync(words, pointer + 100, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    FAULTS(3, "0 bytes past the end of");
    GIVES(cu.MemcpyHtoDAsync(pointer, (void *) (uintptr_t) pointer, 4, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAULTS(4, "the source is memory of a device");
    OK(cu.MemcpyHtoDAsync(pointer, words, 100, NULL));
    OK(cu.CtxSynchronize());
}

Test(simcuda, freed_memory_is_recognised) {
    client_start();
    unsigned word;
    CUdeviceptr pointer = client_alloc(64);
    OK(cu.MemFree(pointer));
    GIVES(cu.MemcpyDtoH(&word, pointer, 4), CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "which was freed");
    GIVES(cu.MemFree(pointer), CUDA_ERROR_INVALID_VALUE);
    FAULTS(2, "what is freed is no device memory");
    pointer = client_alloc(64);
    GIVES(cu.MemFree(pointer + 4), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemFreeHost((void *) (uintptr_t) pointer), CUDA_ERROR_INVALID_VALUE);
    FAULTS(4, "no pinned memory");
}

Test(simcuda, addresses_are_not_used_again_until_all_were) {
    client_start();
    CUdeviceptr last = 0;
    for (int i = 0; i < 2000; i++) {
        CUdeviceptr pointer = client_alloc(5000);
        cr_assert_gt(pointer, last);
        last = pointer;
        OK(cu.MemFree(pointer));
    }
    uint64_t large = (uint64_t) 20 << 30;
    CUdeviceptr kept = client_alloc(100);
    cu.memory(2 * large);
    for (int i = 0; i < 8; i++) { /* goes round in an address space of 64 GiB */
        CUdeviceptr pointer = client_alloc(large);
        cr_assert(pointer > kept + 100 || pointer + large < kept);
        OK(cu.MemcpyHtoD(pointer + large - 4, &i, 4));
        cr_assert_eq(client_word(pointer + large - 4), (unsigned) i);
        OK(cu.MemFree(pointer));
    }
    OK(cu.MemFree(kept));
    client_end();
}

Test(simcuda, a_device_has_the_memory_it_was_given) {
    client_start();
    size_t unused, total;
    cu.memory(1 << 20);
    OK(cu.MemGetInfo(&unused, &total));
    cr_assert(total == 1 << 20 && unused == total);
    CUdeviceptr pointer, half = client_alloc(1 << 19);
    GIVES(cu.MemAlloc(&pointer, (1 << 19) + 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cu.MemGetInfo(&unused, &total));
    cr_assert_eq(unused, 1 << 19);
    OK(cu.MemFree(half));
    OK(cu.MemFree(client_alloc(1 << 20)));
    GIVES(cu.MemAlloc(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
    cu.memory(0);
    OK(cu.MemGetInfo(&unused, &total));
    cr_assert_gt(total, 1 << 20);
    client_end();
}

Test(simcuda, managed_memory_is_of_host_and_device) {
    client_start();
    unsigned type, managed;
    CUdeviceptr pointer, other = client_alloc(100);
    GIVES(cu.MemAllocManaged(&pointer, 100, 0), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemAllocManaged(&pointer, 0, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cu.MemAllocManaged(&pointer, 100, 1));
    ((unsigned *) (uintptr_t) pointer)[3] = 12345;
    OK(cu.MemcpyDtoDAsync(other, pointer, 100, NULL));
    cr_assert_eq(client_word(other + 12), 12345);
    OK(cu.PointerGetAttribute(&type, 2, pointer));
    OK(cu.PointerGetAttribute(&managed, 8, pointer));
    cr_assert(type == 2 && managed == 1);
    OK(cu.PointerGetAttribute(&managed, 8, other));
    cr_assert_eq(managed, 0);
    GIVES(cu.MemFreeHost((void *) (uintptr_t) pointer), CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "what is freed is no pinned memory");
    OK(cu.MemFree(pointer));
    OK(cu.MemFree(other));
}

Test(simcuda, pinned_memory_is_the_hosts_until_it_is_freed) {
    client_start();
    unsigned *pinned, type;
    OK(cu.MemHostAlloc((void **) &pinned, 100, 0));
    CUdeviceptr pointer = client_alloc(100);
    pinned[3] = 12345;
    OK(cu.MemcpyHtoDAsync(pointer, pinned, 100, NULL));
    cr_assert_eq(client_word(pointer + 12), 12345);
    OK(cu.PointerGetAttribute(&type, 2, (uintptr_t) pinned));
    cr_assert_eq(type, 1);
    OK(cu.PointerGetAttribute(&type, 2, pointer));
    cr_assert_eq(type, 2);
    GIVES(cu.PointerGetAttribute(&type, 2, (uintptr_t) &type), CUDA_ERROR_INVALID_VALUE);
    GIVES(cu.MemcpyHtoDAsync(pointer, pinned + 1, 100, NULL), CUDA_ERROR_INVALID_VALUE);
    FAULTS(1, "source of 100 bytes out of bounds");
    OK(cu.MemFreeHost(pinned));
    struct sigaction action = {.sa_handler = on_fault}, old;
    sigaction(SIGSEGV, &action, &old);
    int signal = sigsetjmp(after_fault, 1);
    if (signal == 0)
        *(volatile unsigned *) pinned = 1;
    sigaction(SIGSEGV, &old, NULL);
    cr_assert_eq(signal, SIGSEGV);
    OK(cu.MemFree(pointer));
}

/* ---- failures on demand ---- */

Test(simcuda, every_function_fails_once_when_it_is_told_to) {
    /* What is made to fail looks at no argument, so one type does for all. */
    static const char *const symbols[] = {
#define DRIVER(name, symbol, arguments) symbol,
#include "cuda/driver.def"
    };
    client_start();
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        CUresult (*call)(void);
        void *found;
        uint64_t before = cu.calls(symbols[i]), all = cu.calls(NULL);
        cu.fail(symbols[i], 1, 700 + (int) i);
        OK(cu.CtxSynchronize());
        OK(cu.GetProcAddress("cuInit", &found, 13000, 0, NULL));
        found = dlsym(cu.library, symbols[i]);
        memcpy(&call, &found, sizeof call);
        CUresult result = call();
        cr_assert_eq(result, 700 + (int) i, "%s: %d", symbols[i], result);
        cr_assert_eq(cu.calls(symbols[i]), before + 1);
        cr_assert_eq(cu.calls(NULL), all + 3);
    }
    client_end();
}

Test(simcuda, the_call_that_fails_is_counted_from_now) {
    client_start();
    cu.fail("cuMemAlloc_v2", 3, CUDA_ERROR_OUT_OF_MEMORY);
    CUdeviceptr a = client_alloc(4), b = client_alloc(4), c;
    GIVES(cu.MemAlloc(&c, 4), CUDA_ERROR_OUT_OF_MEMORY);
    c = client_alloc(4);
    cu.fail(NULL, 2, CUDA_ERROR_UNKNOWN);
    OK(cu.MemFree(a));
    GIVES(cu.MemFree(b), CUDA_ERROR_UNKNOWN);
    OK(cu.MemFree(b));
    OK(cu.MemFree(c));
    client_end();
}

/* ---- misuse ---- */

Test(simcuda, handles_that_are_used_too_late_are_recognised) {
    client_start();
    CUstream stream = client_stream(CU_STREAM_NON_BLOCKING);
    CUevent event;
    OK(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu.StreamDestroy(stream));
    GIVES(cu.EventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(1, "is used after it was destroyed");
    OK(cu.EventDestroy(event));
    GIVES(cu.EventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    GIVES(cu.EventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    GIVES(cu.EventQuery((CUevent) &event), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(4, "is no event");
    GIVES(cu.StreamSynchronize((CUstream) event), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(5, "is no stream");
    GIVES(cu.StreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(6, "a default stream is destroyed");
}

Test(simcuda, contexts_are_not_mixed) {
    client_start();
    CUcontext second;
    CUevent event;
    CUstream here = client_stream(CU_STREAM_DEFAULT);
    OK(cu.PrimaryCtxRetain(&second, 1));
    OK(cu.CtxPushCurrent(second));
    GIVES(cu.MemsetD8Async(0, 0, 0, here), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(1, "belongs to another context");
    OK(cu.EventCreate(&event, 0));
    CUstream there = client_stream(CU_STREAM_DEFAULT);
    OK(cu.EventRecord(event, there));
    OK(cu.CtxPopCurrent(&second));
    GIVES(cu.EventRecord(event, here), CUDA_ERROR_INVALID_HANDLE);
    FAULTS(2, "of another context");
    OK(cu.StreamWaitEvent(here, event, 0)); /* which is how devices wait for each other */
    OK(cu.EventSynchronize(event));
}

Test(simcuda, contexts_can_be_made_beside_the_primary_one) {
    CUcontext primary = client_start(), own, current;
    OK(cu.CtxCreate(&own, 0, 0));
    OK(cu.CtxGetCurrent(&current));
    cr_assert(current == own && own != primary);
    OK(cu.CtxDestroy(own));
    OK(cu.CtxGetCurrent(&current));
    cr_assert_eq(current, primary);
    GIVES(cu.CtxDestroy(primary), CUDA_ERROR_INVALID_CONTEXT);
    GIVES(cu.CtxPushCurrent(own), CUDA_ERROR_INVALID_CONTEXT);
    FAULTS(1, "context");
    OK(cu.CtxSetCurrent(NULL));
    OK(cu.CtxGetCurrent(&current));
    cr_assert_null(current);
}
