/* failure.c: how a device fails, and which kernel may have done it.  Layer: cuda.
 *
 * The driver tells of a failure by whatever is called next, and not what has failed. What can be
 * told is which kernels were not known to be done, of all streams of the device. */
#include "cuda/stream.h"
#include <stdarg.h>
#include <stdio.h>

static const jitc_error forked = {
    JIT_UNAVAILABLE, "cuda: this process was forked from one that used CUDA; start a new process "
                     "(exec, or multiprocessing's spawn)"};

bool jitc_cuda_is_final(CUresult result) {
    switch (result) {
        case CUDA_ERROR_DEINITIALIZED:
        case CUDA_ERROR_INVALID_CONTEXT:
        case CUDA_ERROR_ECC_UNCORRECTABLE:
        case CUDA_ERROR_ILLEGAL_ADDRESS:
        case CUDA_ERROR_LAUNCH_TIMEOUT:
        case CUDA_ERROR_CONTEXT_IS_DESTROYED:
        case CUDA_ERROR_ASSERT:
        case CUDA_ERROR_HARDWARE_STACK_ERROR:
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
        case CUDA_ERROR_MISALIGNED_ADDRESS:
        case CUDA_ERROR_INVALID_ADDRESS_SPACE:
        case CUDA_ERROR_INVALID_PC:
        case CUDA_ERROR_LAUNCH_FAILED: return true;
        default: return false;
    }
}

/* Is it what a kernel did? */
static bool is_by_kernel(CUresult result) {
    return jitc_cuda_is_final(result) && result != CUDA_ERROR_DEINITIALIZED &&
           result != CUDA_ERROR_INVALID_CONTEXT && result != CUDA_ERROR_ECC_UNCORRECTABLE &&
           result != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static jitc_cuda_suspects collect_locked(jitc_cuda_device *d) REQUIRES(&d->lock) {
    jitc_cuda_suspects all = {0};
    for (jitc_cuda_stream *s = d->streams; s; s = s->next)
        jitc_cuda_recent_collect(&s->recent, jitc_load_relaxed(&s->finished), &all);
    return all;
}

/* Which kernel it was: behind the driver's words, and in short for later. */
static void describe_locked(jitc_cuda_device *d, CUresult result, char *text, char *later,
                            size_t size) REQUIRES(&d->lock) {
    char names[320];
    if (!is_by_kernel(result))
        return;
    jitc_cuda_suspects all = collect_locked(d);
    bool one = all.count == 1 && !all.more;
    if (!all.count) {
        snprintf(text, size, "; no kernel of this library was running: it was another one's");
        snprintf(later, size, ", by a kernel of another library");
        return;
    }
    jitc_cuda_suspects_print(&all, true, names, sizeof names);
    snprintf(text, size,
             one ? "; kernel %s"
                 : "; one of these kernels: %s (the option "
                   "cuda_sync_launch tells which)",
             names);
    jitc_cuda_suspects_print(&all, false, names, sizeof names);
    snprintf(later, size, ", by kernel %s", names);
}

static bool is_lost(CUresult result, jitc_cuda_function f) {
    return result == CUDA_ERROR_CONTEXT_IS_DESTROYED || result == CUDA_ERROR_DEINITIALIZED ||
           (result == CUDA_ERROR_INVALID_CONTEXT && f == JITC_CU_CtxPushCurrent);
}

/* Cut off where there is no room. */
__attribute__((format(printf, 2, 3))) static void print(jitc_error *e, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    e->status = JIT_DEVICE_FAILED;
}

static void note_locked(jitc_cuda_device *d, CUresult result, jitc_cuda_function f,
                        const char *what) REQUIRES(&d->lock) {
    enum { SIZE = 400 };
    char driver[256], by[SIZE] = "", by_later[SIZE] = "";
    bool lost = is_lost(result, f);
    if (lost)
        jitc_store_release(&d->lost, true); /* pairs with jitc_cuda_enter_failed */
    if (jitc_load_relaxed(&d->failed))
        return;
    jitc_cuda_describe(&d->backend->cuda, result, f, driver, sizeof driver);
    describe_locked(d, result, by, by_later, SIZE);
    d->cause = result;
    print(&d->failure, "cuda: device %d has failed and is not used any more: %s%s%s%s%s",
          d->ordinal, driver,
          lost && result != CUDA_ERROR_DEINITIALIZED
              ? "; somebody else has destroyed or reset the device's primary context"
              : "",
          *what ? "; " : "", what, by);
    print(&d->later, "cuda: device %d has failed before (%s)%s%s%s, and is not used any more",
          d->ordinal, driver, *what ? ", " : "", what, by_later);
    jitc_store_release(&d->failed, true); /* pairs with jitc_cuda_enter */
}

void jitc_cuda_device_fail(jitc_cuda_device *d, CUresult result, jitc_cuda_function f,
                           const char *what) {
    jitc_mutex_lock(&d->lock);
    note_locked(d, result, f, what);
    jitc_mutex_unlock(&d->lock);
}

jit_status jitc_cuda_device_raise(jitc_cuda_device *d) {
    if (jit_error_status() != JIT_OK) /* which is what the thread is going to show */
        return d->failure.status;
    bool told = jitc_exchange_acquire(&d->told, true);
    return jitc_error_raise(told ? &d->later : &d->failure);
}

jit_status jitc_cuda_device_check(jitc_cuda_device *d, CUresult result, jitc_cuda_function f) {
    if (__builtin_expect(result == CUDA_SUCCESS, 1))
        return JIT_OK;
    if (!jitc_cuda_is_final(result))
        return jitc_cuda_check(&d->backend->cuda, result, f);
    jitc_cuda_device_fail(d, result, f, "");
    return jitc_cuda_device_raise(d);
}

/* Other threads of the parent may have held the locks; they are not there any more. */
void jitc_cuda_device_forked(jitc_cuda_device *d) {
    jitc_mutex_init(&d->lock);
    jitc_mutex_init(&d->pool.lock);
    jitc_mutex_init(&d->staging.lock);
    d->failure = d->later = forked;
    jitc_store_relaxed(&d->failed, true);
    jitc_store_relaxed(&d->lost, true);
    for (jitc_cuda_stream *s = d->streams; s; s = s->next)
        jitc_cuda_stream_forked(s);
}

jit_status jitc_cuda_fail_forked(void) {
    return jitc_error_raise(&forked);
}
