/* test_dlclose.c: the shared library, opened, used and closed by a program that is not linked with
 * it: its threads, and what it has to do when threads end, forks happen, and the process ends, must
 * not call code that is gone. */
#include "support.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define B support_backend()

enum { SIZE = 5000 };

typedef struct library {
    void *handle;
    jit_status (*init)(unsigned);
    void (*shutdown)(void);
    jit_var (*from_host)(jit_backend, jit_dtype, const void *, size_t);
    jit_var (*add)(jit_var, jit_var);
    jit_status (*read)(jit_var, void *);
    jit_status (*eval)(jit_var);
    void (*unref)(jit_var);
    const char *(*error)(void);
} library;

static void find(const library *l, const char *name, void *function) {
    void *address = dlsym(l->handle, name);
    cr_assert_not_null(address, "%s", name);
    memcpy(function, &address, sizeof address);
}

static void open_library(library *l) {
    char path[4096]; /* that of a bundle, or of the build */
    support_beside("../lib/libjitc.so.0", JITC_SHARED_LIBRARY, path, sizeof path);
    l->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(l->handle, "%s", dlerror());
    find(l, "jit_init", &l->init);
    find(l, "jit_shutdown", &l->shutdown);
    find(l, "jit_from_host", &l->from_host);
    find(l, "jit_add", &l->add);
    find(l, "jit_read", &l->read);
    find(l, "jit_var_eval", &l->eval);
    find(l, "jit_unref", &l->unref);
    find(l, "jit_error", &l->error);
}

static bool use(const library *l) {
    static const uint32_t three[SIZE] = {[0] = 3, [SIZE - 1] = 5};
    uint32_t sum[SIZE];
    jit_var v = l->from_host(B, JIT_u32, three, SIZE), w = l->add(v, v);
    jit_status status = l->read(w, sum);
    l->unref(v);
    l->unref(w);
    return status == JIT_OK && sum[0] == 6 && sum[SIZE - 1] == 10;
}

static void leave_queued(const library *l) {
    static const uint32_t zeros[100 * SIZE];
    jit_var v = l->from_host(B, JIT_u32, zeros, 100 * SIZE);
    for (int i = 0; i < 5; ++i) {
        jit_var w = l->add(v, v);
        cr_assert_eq(l->eval(w), JIT_OK, "%s", l->error());
        l->unref(w);
    }
    l->unref(v);
}

typedef struct user {
    pthread_t thread;
    const library *library;
    atomic_int used, go;
    bool good;
} user;

/* Ends after the library was closed. */
static void *use_and_stay(void *context) {
    user *u = context;
    u->good = use(u->library);
    atomic_store(&u->used, 1);
    while (!atomic_load(&u->go))
        usleep(20);
    return NULL;
}

static void fork_once(void) {
    int status = -1;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0);
}

Test(dlclose, the_library_can_be_closed_and_opened_again, .timeout = 200) {
    support_init(); /* skips the test where the backend is not there; of the program's own copy */
    support_shutdown();
    for (int round = 0; round < 60; ++round) {
        library l;
        open_library(&l);
        cr_assert_eq(l.init(B), JIT_OK, "%s", l.error());
        user u = {.library = &l};
        pthread_create(&u.thread, NULL, use_and_stay, &u);
        cr_assert(use(&l), "%s", l.error());
        while (!atomic_load(&u.used))
            usleep(20);
        leave_queued(&l);
        if (round % 3)
            l.shutdown();
        cr_assert_eq(dlclose(l.handle), 0);
        fork_once();
        atomic_store(&u.go, 1);
        pthread_join(u.thread, NULL);
        cr_assert(u.good);
    }
}

Test(dlclose, it_stays_where_it_was, .timeout = 60) {
    library l;
    open_library(&l);
    void *before = (void *) (uintptr_t) l.init;
    dlclose(l.handle);
    Dl_info info;
    cr_assert_neq(dladdr(before, &info), 0, "the library is gone");
    cr_assert(strstr(info.dli_fname, "libjitc"), "%s", info.dli_fname);
}
