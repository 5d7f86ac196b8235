/* exit_child.c: a process that ends without jit_shutdown(), for test_exit.c: see exit_work.h. Not a
 * test of its own program, because Criterion's ends in another way. */
#include "exit_work.h"
#include "export/dlpack_abi.h"
#include <jit/dlpack.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define B support_backend()

/* A long kernel with much work, so that it is compiled again in the background. */
static void queue_work(void) {
    bool simulated = !support_maps_host_memory(); /* slower than any GPU */
    jit_var v = work_compute(work_zeros(simulated ? SIZE / 50 : SIZE),
                             simulated ? OPERATIONS / 8 : OPERATIONS);
    for (int i = 0; i < 20; ++i)
        if (jit_var_eval(jit_add(v, jit_f32(B, (float) i))) != JIT_OK)
            _exit(3);
}

static void *evaluate_on(void *context) {
    for (;;) {
        jit_var v = work_compute(work_zeros(SIZE / 50), SHORT);
        jit_var_eval(v);
        jit_unref(v);
    }
    return context;
}

static void *compile_on(void *context) {
    for (int i = SHORT;; ++i) {
        jit_var v = work_compute(work_zeros(64), i % (OPERATIONS / 4));
        jit_var_eval(v);
        jit_unref(v);
        jit_error_clear(); /* the process is exiting */
    }
    return context;
}

static void be_slow(void *context) {
    (void) context;
    for (;;)
        pause();
}

static void *wait_on(void *context) {
    jit_call(B, be_slow, NULL);
    jit_sync_thread();
    return context;
}

static void *leave_and_stay(void *context) {
    work_leave_things();
    atomic_store((atomic_bool *) context, true);
    be_slow(NULL);
    return NULL;
}

static void by_return(void) {}
static void *exit_in_thread(void *context) {
    usleep(2000); /* the first thread may have gone by then */
    exit(0);
    return context;
}

static void *quick_exit_in_thread(void *context) {
    quick_exit(0);
    return context;
}

static void by_exit(void) {
    exit(0);
}
static void by_thread(void) {
    work_start(exit_in_thread, NULL);
    be_slow(NULL);
}
static void after_main_thread(void) {
    work_start(exit_in_thread, NULL);
    pthread_exit(NULL);
}
static void quickly(void) {
    quick_exit(0);
}
static void quickly_by_thread(void) {
    work_start(quick_exit_in_thread, NULL);
    be_slow(NULL);
}
static void at_once(void) {
    _exit(0);
}
static void by_two(void) { /* whoever comes first */
    work_start(exit_in_thread, NULL);
    usleep(2000);
    _exit(0);
}

/* Others give tensors back before the library has seen the end, after it, and still later. */
static DLManagedTensorVersioned *held[3];

static void delete_before(void) {
    held[0]->deleter(held[0]);
}
static void delete_after(void) {
    held[1]->deleter(held[1]);
}
__attribute__((destructor)) static void delete_last(void) {
    if (held[2])
        held[2]->deleter(held[2]);
}

static void hold_tensors(void) {
    jit_var v = work_compute(work_zeros(SIZE / 50), SHORT);
    jit_export_options o = JIT_EXPORT_OPTIONS;
    for (int i = 0; i < 3; ++i) {
        o.stream = i ? JIT_STREAM_NONE : JIT_STREAM_NOT_GIVEN; /* who is known, and who is not */
        if (jit_export_dlpack(v, &o, &held[i]) != JIT_OK)
            _exit(7);
    }
    atexit(delete_before);
}

static void live(int what) {
    atexit(delete_after);
    if (jit_init(B) != JIT_OK)
        _exit(2);
    hold_tensors();
    if (what == ENDED) {
        jit_shutdown(); /* the tensors outlive it */
        exit(0);
    }
    jit_set_option("cache_disk", "0");
    if (what == QUIET) {
        atomic_bool left = false;
        pthread_join(work_start(work_leave_and_end, NULL), NULL);
        work_start(leave_and_stay, &left);
        work_leave_things();
        jit_sync_all_devices();
        while (!atomic_load(&left))
            usleep(50);
        exit(0);
    }
    if (what == BUSY) {
        work_start(evaluate_on, NULL);
        work_start(compile_on, NULL);
        work_start(wait_on, NULL);
    }
    queue_work();
}

int main(int argc, char **argv) {
    static void (*const endings[])(void) = {
#define X(function, text) function,
        ENDINGS(X)
#undef X
    };
    if (argc != 4)
        return 6;
    live(atoi(argv[1]));
    usleep((useconds_t) atoi(argv[3]));
    endings[atoi(argv[2])]();
    return 0;
}
