/* nvrtc_find.c: where NVRTC is.  Layer: cuda.  May include: core. */
#include "cuda/nvrtc_find.h"
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2",
                                    "libnvrtc.so"};

/** Patterns of files; %s is the value of the environment variable, if one is named. */
typedef struct place {
    const char *variable, *pattern;
} place;
static const place places[] = {
    {"CUDA_PATH", "%s/lib64/libnvrtc.so*"},
    {"CUDA_HOME", "%s/lib64/libnvrtc.so*"},
    {NULL, "/usr/local/cuda/lib64/libnvrtc.so*"},
    {NULL, "/usr/local/cuda-*/lib64/libnvrtc.so*"},
    {"VIRTUAL_ENV", "%s/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.*"},
    {"HOME", "%s/.local/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.*"},
    {NULL, "/usr/local/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.*"},
    {NULL, "/usr/lib/python3*/*-packages/nvidia/*/lib/libnvrtc.so.*"},
};

/** NVRTC opens a second library, by name, from its own folder. Where it would not look there (under
 * a sanitizer, which opens libraries in its stead) it finds one that is open already. */
static void open_builtins(const char *path) {
    const char *end = strrchr(path, '/');
    char pattern[1024];
    glob_t files;
    if (!end)
        return;
    snprintf(pattern, sizeof pattern, "%.*s/libnvrtc-builtins.so.[0-9]*", (int) (end - path), path);
    if (glob(pattern, 0, NULL, &files) != 0)
        return;
    for (size_t i = 0; i < files.gl_pathc; ++i)
        dlopen(files.gl_pathv[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    globfree(&files);
}

static bool open_file(const char *path, void **library, char **name) {
    /* It stays in the process: its threads' data has destructors of its own. */
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!*library)
        return false;
    open_builtins(path);
    *name = strdup(path);
    if (*name)
        return true;
    dlclose(*library);
    return false;
}

/** As strverscmp, the larger first: libnvrtc.so.13 before libnvrtc.so.12, and both before
 *  libnvrtc.so, in whichever folders. */
static int newest_first(const void *a, const void *b) {
    const char *x = *(const char *const *) a, *y = *(const char *const *) b;
    int order = strverscmp(strrchr(y, '/'), strrchr(x, '/'));
    return order ? order : strverscmp(y, x);
}

static bool search_place(const place *p, void **library, char **name) {
    const char *value = p->variable ? secure_getenv(p->variable) : "";
    char pattern[1024];
    glob_t files;
    if (!value || (p->variable && !*value))
        return false;
    if (p->variable)
        snprintf(pattern, sizeof pattern, "%s%s", value, p->pattern + strlen("%s"));
    else
        snprintf(pattern, sizeof pattern, "%s", p->pattern);
    if (glob(pattern, 0, NULL, &files) != 0)
        return false;
    qsort(files.gl_pathv, files.gl_pathc, sizeof *files.gl_pathv, newest_first);
    bool found = false;
    for (size_t i = 0; i < files.gl_pathc && !found; ++i)
        found = open_file(files.gl_pathv[i], library, name);
    globfree(&files);
    return found;
}

static bool search(void **library, char **name) {
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        if (open_file(names[i], library, name))
            return true;
    for (size_t i = 0; i < sizeof places / sizeof *places; ++i)
        if (search_place(&places[i], library, name))
            return true;
    return false;
}

jit_status jitc_nvrtc_find(const char *path, void **library, char **name) {
    if (path && *path) {
        if (open_file(path, library, name))
            return JIT_OK;
        return jitc_fail(JIT_UNAVAILABLE, "nvrtc: cannot open the library: %s", dlerror());
    }
    if (search(library, name))
        return JIT_OK;
    return jitc_fail(JIT_UNAVAILABLE,
                     "nvrtc: none of %s, %s, %s and %s can be opened, nor is there one in lib64 of "
                     "$CUDA_PATH, $CUDA_HOME and /usr/local/cuda, nor among Python's packages "
                     "(nvidia-cuda-nvrtc); JITC_LIBNVRTC names another file",
                     names[0], names[1], names[2], names[3]);
}
