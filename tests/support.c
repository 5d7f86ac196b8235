/* support.c: the backend under test; arrays of bits in and out of the public interface. */
#include "support.h"
#include "cuda/driver.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

jit_backend support_backend(void) {
    const char *name = getenv("JITC_TEST_BACKEND");
    if (!name || strcmp(name, "llvm") == 0)
        return JIT_LLVM;
    if (strcmp(name, "cuda") != 0) {
        fprintf(stderr, "JITC_TEST_BACKEND is %s; give llvm or cuda\n", name);
        exit(2);
    }
    return JIT_CUDA;
}

void support_skip(const char *format, ...) {
    char why[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    fprintf(stderr, "skipped: %s\n", why); /* Criterion says so only when it is asked to */
    cr_skip_test("%s", why);
}

bool support_is_built(jit_backend b) {
    const unsigned built = 0
#define BACKEND(name, id) | id
#include "api/backends.def"
        ;
    return (built & b) != 0;
}

void support_init(void) {
    jit_status status = jit_init(support_backend());
    if (status == JIT_UNAVAILABLE && support_backend() == JIT_CUDA && !getenv("JITC_LIBCUDA"))
        support_skip("%s", jit_error());
    ASSERT_OK(status);
}

void support_shutdown(void) {
    unsigned (*faults)(void);
    const char *(*text)(void);
    jit_shutdown();
    cr_assert_eq(support_guarded_alive(), 0, "mapped memory was not released");
    *(void **) &faults = support_driver("simcuda_faults");
    *(void **) &text = support_driver("simcuda_fault_text");
    cr_assert(!faults || !faults(), "the simulated driver found: %s", text());
}

bool support_maps_host_memory(void) {
    return support_backend() == JIT_LLVM;
}

void support_need_host_memory(void) {
    if (!support_maps_host_memory())
        support_skip("this backend cannot use host memory");
}

/** The library that the backend has opened, or will: the same one, since it goes by its name. */
static void *driver_library(void) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static void *library;
    const char *path = getenv("JITC_LIBCUDA");
    pthread_mutex_lock(&lock);
    if (!library && support_backend() == JIT_CUDA)
        library = dlopen(path ? path : "libcuda.so.1", RTLD_NOW);
    void *found = library;
    pthread_mutex_unlock(&lock);
    return found;
}

void *support_driver(const char *symbol) {
    void *library = driver_library();
    return library ? dlsym(library, symbol) : NULL;
}

bool support_simulated(void) {
    return support_driver("simcuda_faults") != NULL;
}

/** Wait for the device, and copy, in the context that the backend uses. */
void support_beside(const char *name, const char *otherwise, char *path, size_t size) {
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length < 0 ? 0 : length] = 0;
    char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t) (slash - path) + 1 : 0;
    snprintf(path + folder, size - folder, "%s", name);
    if (!slash || access(path, R_OK) != 0)
        snprintf(path, size, "%s", otherwise);
}

static void copy_from_device(void *to, CUdeviceptr from, size_t bytes) {
    CUresult (*retain)(CUcontext *, CUdevice), (*release)(CUdevice), (*push)(CUcontext);
    CUresult (*pop)(CUcontext *), (*copy)(void *, CUdeviceptr, size_t, CUstream);
    CUresult (*wait)(CUstream);
    CUcontext context;
    CUdevice device = jit_device(JIT_CUDA);
    *(void **) &retain = support_driver("cuDevicePrimaryCtxRetain");
    *(void **) &release = support_driver("cuDevicePrimaryCtxRelease_v2");
    *(void **) &push = support_driver("cuCtxPushCurrent_v2");
    *(void **) &pop = support_driver("cuCtxPopCurrent_v2");
    *(void **) &copy = support_driver("cuMemcpyDtoHAsync_v2");
    *(void **) &wait = support_driver("cuStreamSynchronize");
    ASSERT_OK(jit_sync_all_devices());
    cr_assert(!retain(&context, device) && !push(context));
    cr_assert_eq(copy(to, from, bytes, NULL), CUDA_SUCCESS);
    cr_assert_eq(wait(NULL), CUDA_SUCCESS);
    cr_assert(!pop(&context) && !release(device));
}

void support_copy_to_host(void *to, const void *from, size_t bytes) {
    if (support_maps_host_memory())
        memcpy(to, from, bytes);
    else
        copy_from_device(to, (CUdeviceptr) (uintptr_t) from, bytes);
}

void *support_pack(jit_dtype t, const uint64_t *bits, size_t n) {
    size_t size = jit_dtype_size(t);
    char *packed = malloc(n * size + 1);
    cr_assert_not_null(packed);
    for (size_t i = 0; i < n; ++i)
        memcpy(packed + i * size, &bits[i], size); /* the low bytes come first */
    return packed;
}

jit_var support_array(jit_dtype t, const uint64_t *bits, size_t n) {
    void *packed = support_pack(t, bits, n);
    jit_var v = jit_from_host(support_backend(), t, packed, n);
    free(packed);
    ASSERT_VAR(v);
    return v;
}

jit_var support_literal(jit_dtype t, uint64_t bits, size_t n) {
    jit_var v = jit_literal(support_backend(), t, &bits, n);
    ASSERT_VAR(v);
    return v;
}

uint64_t *support_read(jit_var v, size_t n) {
    size_t size = jit_dtype_size(jit_type(v));
    char *packed = malloc(n * size + 1);
    uint64_t *bits = calloc(n + 1, sizeof *bits);
    cr_assert(packed && bits);
    cr_assert_eq(jit_size(v), n, "%zu elements, not %zu: %s", jit_size(v), n, jit_error());
    ASSERT_OK(jit_read(v, packed));
    for (size_t i = 0; i < n; ++i)
        memcpy(&bits[i], packed + i * size, size);
    free(packed);
    return bits;
}

typedef struct mapping {
    void *memory;
    size_t bytes;
} mapping;

static int mappings_alive;

static void release(void *context) {
    mapping *m = context;
    munmap(m->memory, m->bytes);
    free(m);
    __atomic_sub_fetch(&mappings_alive, 1, __ATOMIC_SEQ_CST);
}
int support_guarded_alive(void) {
    return __atomic_load_n(&mappings_alive, __ATOMIC_SEQ_CST);
}

jit_var support_guarded(jit_dtype t, const uint64_t *bits, size_t n, bool at_start) {
    if (!support_maps_host_memory())
        return support_array(t, bits, n);
    size_t page = (size_t) sysconf(_SC_PAGESIZE), bytes = n * jit_dtype_size(t);
    size_t inner = (bytes + page - 1) / page * page;
    mapping *m = malloc(sizeof *m);
    void *packed = support_pack(t, bits, n);
    cr_assert_not_null(m);
    m->bytes = inner + 2 * page;
    m->memory = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(m->memory, MAP_FAILED);
    char *start = (char *) m->memory + page + (at_start ? 0 : inner - bytes);
    memcpy(start, packed, bytes);
    free(packed);
    mprotect(m->memory, m->bytes, PROT_READ);
    mprotect(m->memory, page, PROT_NONE);
    mprotect((char *) m->memory + page + inner, page, PROT_NONE);
    __atomic_add_fetch(&mappings_alive, 1, __ATOMIC_SEQ_CST);
    jit_var v = jit_map(support_backend(), t, start, n, release, m);
    ASSERT_VAR(v);
    return v;
}

jit_var support_apply(jitc_op op, const jit_var v[3]) {
    switch (op) {
#define CALL_UNARY(name)                                                                           \
    case JITC_OP_##name: return jit_##name(v[0]);
#define CALL_BINARY(name)                                                                          \
    case JITC_OP_##name: return jit_##name(v[0], v[1]);
#define CALL_TERNARY(name)                                                                         \
    case JITC_OP_##name: return jit_##name(v[0], v[1], v[2]);
#define CALL_SELECT(name)   CALL_TERNARY(name)
#define OP(name, form, ...) JITC_IF_ELEMENTWISE_##form(CALL_##form(name))
#include "ir/ops.def"
        default: return 0;
    }
}
