/* api.c: finding and opening the LLVM library.  Layer: llvm.  May include: core. */
#include "llvm/api.h"
#include "core/exit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NEWEST = 21, OLDEST = 14 };

/** Note the file `path` if there is one. */
static bool take_file(jitc_llvm_library *l, const char *path) {
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode))
        return false;
    const char *base = strrchr(path, '/');
    snprintf(l->path, sizeof l->path, "%s", path);
    snprintf(l->fingerprint, sizeof l->fingerprint, "%.60s:%lld:%lld.%09ld", base ? base + 1 : path,
             (long long) s.st_size, (long long) s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
    return true;
}

/** LLVM calls its own functions, also where another one was loaded for all to see: TensorFlow's, on
 * which it would crash. The sanitizers, which replace malloc() for everybody, refuse that. */
static void *open_library(const char *name) {
    bool sanitized = dlsym(RTLD_DEFAULT, "__asan_init") || dlsym(RTLD_DEFAULT, "__tsan_init");
    return dlopen(name, RTLD_LAZY | RTLD_LOCAL | (sanitized ? 0 : RTLD_DEEPBIND));
}

/** Where the dynamic linker finds a library by name: opened for that, which is slow. */
static bool take_name(jitc_llvm_library *l, const char *name) {
    void *handle = open_library(name);
    if (!handle)
        return false;
    Dl_info info;
    void *symbol = dlsym(handle, "LLVMContextCreate");
    bool known = symbol && dladdr(symbol, &info) && info.dli_fname && take_file(l, info.dli_fname);
    if (!known) {
        snprintf(l->path, sizeof l->path, "%s", name);
        snprintf(l->fingerprint, sizeof l->fingerprint, "%.60s", name);
    }
    return true;
}

/** The names under which distributions install version `v`; NULL after the last. */
static const char *soname(char text[64], int v, int which) {
    switch (which) {
        case 0: snprintf(text, 64, "libLLVM.so.%d.1", v); return text;
        case 1: snprintf(text, 64, "libLLVM-%d.so", v); return text;
        case 2: snprintf(text, 64, "libLLVM-%d.so.1", v); return text;
        default: return NULL;
    }
}

static bool search_folders(jitc_llvm_library *l) {
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
                                          "/usr/local/lib"};
    char name[64], path[512];
    for (int v = NEWEST; v >= OLDEST; v--)
        for (int which = 0; soname(name, v, which); which++) {
            for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
                snprintf(path, sizeof path, "%s/%s", folders[f], name);
                if (take_file(l, path))
                    return true;
            }
            snprintf(path, sizeof path, "/usr/lib/llvm-%d/lib/%s", v, name);
            if (take_file(l, path))
                return true;
        }
    return false;
}

static bool search_names(jitc_llvm_library *l) {
    char name[64];
    for (int v = NEWEST; v >= OLDEST; v--)
        for (int which = 0; soname(name, v, which); which++)
            if (take_name(l, name))
                return true;
    return take_name(l, "libLLVM.so");
}

static bool find_wanted(jitc_llvm_library *l, const char *wanted) {
    return take_file(l, wanted) || (!strchr(wanted, '/') && take_name(l, wanted));
}

static bool find_default(jitc_llvm_library *l) {
#ifdef JITC_LLVM_DEFAULT_LIBRARY
    if (take_file(l, JITC_LLVM_DEFAULT_LIBRARY))
        return true;
#endif
    return search_folders(l) || search_names(l);
}

jit_status jitc_llvm_library_init(jitc_llvm_library *l, const char *wanted) {
    memset(l, 0, sizeof *l);
    if (wanted && *wanted ? !find_wanted(l, wanted) : !find_default(l)) {
        if (wanted && *wanted)
            return jitc_fail(JIT_UNAVAILABLE, "llvm: there is no library %s", wanted);
        return jitc_fail(JIT_UNAVAILABLE,
                         "llvm: none of libLLVM.so.%d.1, libLLVM-%d.so, libLLVM-%d.so.1 and the "
                         "like down to version %d is installed (JITC_LIBLLVM names another one)",
                         NEWEST, NEWEST, NEWEST, OLDEST);
    }
    jitc_mutex_init(&l->lock);
    return JIT_OK;
}

void jitc_llvm_library_finish(jitc_llvm_library *l) {
    jitc_mutex_finish(&l->lock);
}

/* Options of LLVM's command line can be set once in a process. */
static atomic_bool told;

static jit_status load_functions(jitc_llvm_library *l, void *handle) {
    const char *missing = NULL;
    /* A function pointer and an object pointer have the same bytes, as dlsym requires. */
#define LLVM_FN(name)                                                                              \
    if (!(*(void **) (void *) &l->api.name = dlsym(handle, #name)) && !missing)                    \
        missing = #name;
#include "llvm/api.def"
    if (missing)
        return jitc_fail(JIT_UNAVAILABLE, "llvm: %s has no function %s (versions %d and newer do)",
                         l->path, missing, OLDEST);
    return JIT_OK;
}

/** Major version. The function that tells came with version 16. */
static unsigned find_version(void *handle) {
    unsigned major = OLDEST, minor = 0, patch = 0;
    void (*get)(unsigned *, unsigned *, unsigned *) = NULL;
    *(void **) (void *) &get = dlsym(handle, "LLVMGetVersion");
    if (get)
        get(&major, &minor, &patch);
    return major;
}

static jit_status open_locked(jitc_llvm_library *l) {
    void *handle = open_library(l->path);
    if (!handle)
        return jitc_fail(JIT_UNAVAILABLE, "llvm: cannot open %s: %s", l->path, dlerror());
    TRY(load_functions(l, handle));
    l->api.version = find_version(handle);
    if (l->api.version < 16 && !jitc_exchange_acquire(&told, true)) {
        /* Pointers without a pointee type, which newer versions have anyway. */
        const char *const arguments[] = {"jitc", "-opaque-pointers"};
        l->api.LLVMParseCommandLineOptions(2, arguments, NULL);
    }
    l->api.LLVMInitializeX86TargetInfo();
    l->api.LLVMInitializeX86Target();
    l->api.LLVMInitializeX86TargetMC();
    l->api.LLVMInitializeX86AsmPrinter();
    jitc_exit_guard();
    return JIT_OK;
}

jit_status jitc_llvm_library_open(jitc_llvm_library *l, const jitc_llvm **out) {
    *out = &l->api;
    if (jitc_load_acquire(&l->opened)) /* pairs with the store_release below */
        return JIT_OK;
    jitc_mutex_lock(&l->lock);
    jit_status status = JIT_OK;
    if (!jitc_load_relaxed(&l->opened)) {
        status = open_locked(l);
        if (status == JIT_OK)
            jitc_store_release(&l->opened, true);
    }
    jitc_mutex_unlock(&l->lock);
    return status;
}
