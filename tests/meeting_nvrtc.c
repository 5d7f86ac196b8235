/* meeting_nvrtc.c: an NVRTC between the library and another one, JITC_TEST_NVRTC: compilations
 * wait, within reason, until two of them run at once. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
typedef void *program;

static atomic_int inside, most;

/** The greatest number of compilations that ran at once. */
EXPORT int meeting_nvrtc_most(void);
int meeting_nvrtc_most(void) {
    return most;
}

static void find(const char *name, void *function) {
    void *library = dlopen(getenv("JITC_TEST_NVRTC"), RTLD_NOW);
    void *address = library ? dlsym(library, name) : NULL;
    memcpy(function, &address, sizeof address); /* as dlsym() requires */
}

static void meet(void) {
    int now = ++inside, seen = most;
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
    for (int ms = 0; ms < 10000 && most < 2; ++ms)
        usleep(1000);
}

#define FORWARD(name, parameters, arguments)                                                       \
    EXPORT int name parameters;                                                                    \
    int name parameters {                                                                          \
        int(*next) parameters;                                                                     \
        find(#name, &next);                                                                        \
        return next arguments;                                                                     \
    }

FORWARD(nvrtcVersion, (int *major, int *minor), (major, minor))
FORWARD(nvrtcGetNumSupportedArchs, (int *count), (count))
FORWARD(nvrtcGetSupportedArchs, (int *archs), (archs))
FORWARD(nvrtcCreateProgram,
        (program * p, const char *text, const char *name, int count, const char *const *headers,
         const char *const *names),
        (p, text, name, count, headers, names))
FORWARD(nvrtcDestroyProgram, (program * p), (p))
FORWARD(nvrtcGetCUBINSize, (program p, size_t *size), (p, size))
FORWARD(nvrtcGetCUBIN, (program p, char *code), (p, code))
FORWARD(nvrtcGetPTXSize, (program p, size_t *size), (p, size))
FORWARD(nvrtcGetPTX, (program p, char *code), (p, code))
FORWARD(nvrtcGetProgramLogSize, (program p, size_t *size), (p, size))
FORWARD(nvrtcGetProgramLog, (program p, char *log), (p, log))

EXPORT const char *nvrtcGetErrorString(int error);
const char *nvrtcGetErrorString(int error) {
    const char *(*next)(int);
    find("nvrtcGetErrorString", &next);
    return next(error);
}

EXPORT int nvrtcCompileProgram(program p, int count, const char *const *options);
int nvrtcCompileProgram(program p, int count, const char *const *options) {
    int (*next)(program, int, const char *const *);
    find("nvrtcCompileProgram", &next);
    meet();
    int result = next(p, count, options);
    --inside;
    return result;
}
