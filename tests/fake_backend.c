/* fake_backend.c: see fake_backend.h.  Layer: tests. */
#include "fake_backend.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct jitc_source {
    const jitc_program *program;
};

void fake_sleep_us(long us) {
    nanosleep(&(struct timespec) {us / 1000000, us % 1000000 * 1000}, NULL);
}

static fake *fake_of(jitc_backend *b) {
    return (fake *) b;
}

static jit_status fake_device_count(jitc_backend *b, int *out) {
    (void) b;
    *out = 2;
    return JIT_OK;
}

static jit_status fake_target(jitc_backend *b, int device, const jitc_target **out) {
    *out = &fake_of(b)->target[device];
    return JIT_OK;
}

/* The cache queues nothing and needs no memory of the device. */
static jit_status unused(void) {
    return jitc_fail(JIT_UNSUPPORTED, "not a matter of the cache");
}
static jit_status fake_alloc(jitc_backend *b, int device, size_t bytes, void **out) {
    (void) b, (void) device, (void) bytes, (void) out;
    return unused();
}
static void fake_free(jitc_backend *b, int device, void *pointer, size_t bytes) {
    (void) b, (void) device, (void) pointer, (void) bytes;
}
static void fake_trim(jitc_backend *b, int device) {
    (void) b, (void) device;
}
static void fake_share(jitc_backend *b, int device) {
    (void) b, (void) device;
}
static jit_status fake_look_up(jitc_backend *b, int device, const void *pointer,
                               jitc_address *out) {
    (void) b, (void) device, (void) pointer, (void) out;
    return unused();
}
static jit_status fake_stream_create(jitc_backend *b, int device, jitc_stream **out) {
    (void) b, (void) device, (void) out;
    return unused();
}
static void fake_stream_destroy(jitc_stream *s) {
    (void) s;
}
static size_t fake_scratch(jitc_kernel *k, uint64_t lanes) {
    (void) k, (void) lanes;
    return 0;
}

static jit_status fake_launch(jitc_stream *s, jitc_kernel *k, const jitc_launch_args *a,
                              uint64_t *number) {
    (void) s, (void) k, (void) a, (void) number;
    return unused();
}
static jit_status fake_copy(jitc_stream *s, void *to, const void *from, size_t bytes,
                            uint64_t *number) {
    (void) s, (void) to, (void) from, (void) bytes, (void) number;
    return unused();
}
static jit_status fake_download(jitc_stream *s, void *to, const void *from, size_t bytes) {
    (void) s, (void) to, (void) from, (void) bytes;
    return unused();
}
static jit_status fake_call(jitc_stream *s, void (*function)(void *), void *context,
                            uint64_t *number) {
    (void) s, (void) function, (void) context, (void) number;
    return unused();
}
static jit_status fake_stream_wait(jitc_stream *s, jitc_stream *other, uint64_t n) {
    (void) s, (void) other, (void) n;
    return unused();
}
static jit_status fake_flush(jitc_stream *s) {
    (void) s;
    return JIT_OK;
}
static bool fake_done(jitc_stream *s, uint64_t n) {
    (void) s, (void) n;
    return true;
}
static jit_status fake_wait(jitc_stream *s, uint64_t n) {
    (void) s, (void) n;
    return unused();
}

/* An event counts as done, as one that was never recorded does: there is no work. */
static jit_status fake_event_create(jitc_backend *b, int device, bool timed, void *native,
                                    jitc_event **out) {
    if (native)
        return jitc_fail(JIT_UNSUPPORTED, "nobody has events of this backend");
    TRY(jitc_calloc(1, sizeof **out, (void **) out));
    **out = (jitc_event) {.backend = b, .device = device, .timed = timed};
    return JIT_OK;
}
static void fake_event_destroy(jitc_event *e) {
    free(e);
}
static jit_status fake_event_record(jitc_event *e, jitc_stream *s) {
    (void) e, (void) s;
    return unused();
}
static jit_status fake_event_done(jitc_event *e, bool *done) {
    (void) e;
    *done = true;
    return JIT_OK;
}
static jit_status fake_event_wait(jitc_event *e) {
    (void) e;
    return JIT_OK;
}
static jit_status fake_event_stream_wait(jitc_stream *s, jitc_event *e) {
    (void) s, (void) e;
    return unused();
}
static jit_status fake_event_elapsed(jitc_event *from, jitc_event *to, double *milliseconds) {
    (void) from, (void) to, (void) milliseconds;
    return jitc_fail(JIT_INVALID_ARGUMENT, "neither event was recorded");
}
static void *fake_event_native(jitc_event *e) {
    (void) e;
    return NULL;
}
static jit_status fake_others_stream(jitc_stream *s, intptr_t other) {
    (void) s, (void) other;
    return jitc_fail(JIT_INVALID_ARGUMENT, "nobody has streams of this backend");
}
static uint64_t fake_consumer_id(jitc_stream *s, intptr_t other) {
    (void) s, (void) other;
    return 0;
}
static bool fake_consumer_is_apart(jitc_stream *s, intptr_t other) {
    (void) s, (void) other;
    return false;
}
static jit_status fake_consumer_mark(jitc_stream *marks, intptr_t other, uint64_t *number) {
    (void) marks, (void) other, (void) number;
    return unused();
}
static jit_status fake_barrier(jitc_backend *b, int device) {
    (void) b, (void) device;
    return JIT_OK;
}
static void fake_detach(jitc_backend *b, int device, size_t blocks, jitc_detached *out) {
    (void) b, (void) device, (void) blocks, (void) out;
}
static void fake_stream_native(jitc_stream *s, void **stream, void **context) {
    (void) s;
    if (stream)
        *stream = NULL;
    *context = NULL;
}
static void fake_fork_step(jitc_backend *b) {
    (void) b;
}

static void fake_forked(jitc_backend *b) {
    jitc_add_relaxed(&fake_of(b)->forks, 1);
}

static jit_status fake_lower(jitc_backend *b, int device, const jitc_program *p,
                             jitc_source **out) {
    (void) device;
    TRY(jitc_calloc(1, sizeof **out, (void **) out));
    (*out)->program = p;
    jitc_add_relaxed(&fake_of(b)->lowered, 1);
    jitc_add_relaxed(&fake_of(b)->sources, 1);
    return JIT_OK;
}

size_t fake_code_bytes(const jitc_program *p) {
    return p->head.count * sizeof *p->inst;
}

static void enter_compiler(fake *f) {
    int now = jitc_add_relaxed(&f->at_once, 1) + 1;
    int most = jitc_load_relaxed(&f->most_at_once);
    while (now > most && !jitc_compare_exchange(&f->most_at_once, &most, now)) {
    }
    /* ten seconds, for a machine that is very busy; it then is a failure of the test */
    for (int i = 0; i < 100000 && jitc_load_relaxed(&f->most_at_once) < jitc_load_relaxed(&f->meet);
         i++)
        fake_sleep_us(100);
    fake_sleep_us(jitc_load_relaxed(&f->pause_us));
    while (jitc_load_relaxed(&f->hold))
        fake_sleep_us(100);
}

static bool takes_failure(fake *f) {
    int left = jitc_load_relaxed(&f->fail_count);
    while (left > 0 && !jitc_compare_exchange(&f->fail_count, &left, left - 1)) {
    }
    return left > 0;
}

/* Code: level, head, instructions. */
static jit_status translate(const jitc_program *p, int level, jitc_blob *out) {
    out->size = sizeof level + sizeof p->head + fake_code_bytes(p);
    TRY(jitc_calloc(1, out->size, &out->data));
    char *to = out->data;
    memcpy(to, &level, sizeof level);
    memcpy(to + sizeof level, &p->head, sizeof p->head);
    memcpy(to + sizeof level + sizeof p->head, p->inst, fake_code_bytes(p));
    return JIT_OK;
}

static jit_status fake_compile(jitc_backend *b, jitc_source *s, int level, jitc_blob *out) {
    fake *f = fake_of(b);
    int number = jitc_add_relaxed(&f->compiled, 1);
    jitc_store_relaxed(&f->last_level, level);
    enter_compiler(f);
    int fail_op = jitc_load_relaxed(&f->fail_op);
    jit_status status = JIT_OK;
    if (takes_failure(f) || (fail_op && s->program->inst[0].a == (uint32_t) fail_op))
        status = jitc_fail(JIT_COMPILE_FAILED, "told to fail in compilation %d", number);
    else
        status = translate(s->program, level, out);
    jitc_add_relaxed(&f->at_once, -1);
    return status;
}

static char *fake_source_print(jitc_source *s, int level) {
    char *text = malloc(64);
    if (text)
        snprintf(text, 64, "%s of %u instructions", level < 0 ? "source" : "code",
                 s->program->head.count);
    return text;
}

static void fake_source_destroy(jitc_backend *b, jitc_source *s) {
    jitc_add_relaxed(&fake_of(b)->sources, -1);
    free(s);
}

static jit_status copy_blob(const jitc_blob *from, jitc_blob *to) {
    to->size = from->size;
    TRY(jitc_calloc(1, from->size, &to->data));
    memcpy(to->data, from->data, from->size);
    return JIT_OK;
}

bool fake_is_code_of(const jitc_blob *code, const jitc_program *p) {
    const char *from = code->data;
    return code->size == sizeof(int) + sizeof p->head + fake_code_bytes(p) &&
           !memcmp(from + sizeof(int), &p->head, sizeof p->head) &&
           !memcmp(from + sizeof(int) + sizeof p->head, p->inst, fake_code_bytes(p));
}

static jit_status fake_load(jitc_backend *b, int device, const jitc_program *p,
                            const jitc_blob *code, jitc_kernel **out) {
    (void) device;
    if (jitc_load_relaxed(&fake_of(b)->fail_loads) || !fake_is_code_of(code, p))
        return jitc_fail(JIT_COMPILE_FAILED, "code that does not fit");
    fake_kernel *k;
    TRY(jitc_calloc(1, sizeof *k, (void **) &k));
    k->head.operations = p->head.count;
    jit_status status = copy_blob(code, &k->code);
    if (status != JIT_OK) {
        free(k);
        return status;
    }
    jitc_add_relaxed(&fake_of(b)->loaded, 1);
    *out = &k->head;
    return JIT_OK;
}

static jit_status fake_reload(jitc_backend *b, jitc_kernel *k, const jitc_blob *code) {
    fake_kernel *f = (fake_kernel *) k;
    jitc_blob fresh;
    TRY(copy_blob(code, &fresh));
    free(f->code.data);
    f->code = fresh;
    jitc_add_relaxed(&fake_of(b)->reloaded, 1);
    return JIT_OK;
}

static void fake_kernel_destroy(jitc_backend *b, jitc_kernel *k) {
    free(((fake_kernel *) k)->code.data);
    free(k);
    jitc_add_relaxed(&fake_of(b)->destroyed, 1);
}

static void fake_destroy(jitc_backend *b) {
    (void) b;
}

void fake_init(fake *f) {
    *f = (fake) {.head = {.id = JIT_LLVM,
                          .name = "fake",
                          .levels = 1,
                          .device_count = fake_device_count,
                          .target = fake_target,
                          .alloc = fake_alloc,
                          .free = fake_free,
                          .trim = fake_trim,
                          .share = fake_share,
                          .look_up = fake_look_up,
                          .stream_create = fake_stream_create,
                          .stream_destroy = fake_stream_destroy,
                          .scratch = fake_scratch,
                          .launch = fake_launch,
                          .copy = fake_copy,
                          .upload = fake_copy,
                          .download = fake_download,
                          .call = fake_call,
                          .stream_wait = fake_stream_wait,
                          .flush = fake_flush,
                          .done = fake_done,
                          .wait = fake_wait,
                          .event_create = fake_event_create,
                          .event_destroy = fake_event_destroy,
                          .event_record = fake_event_record,
                          .event_done = fake_event_done,
                          .event_wait = fake_event_wait,
                          .event_stream_wait = fake_event_stream_wait,
                          .event_elapsed = fake_event_elapsed,
                          .event_native = fake_event_native,
                          .stream_release = fake_others_stream,
                          .stream_acquire = fake_others_stream,
                          .consumer_id = fake_consumer_id,
                          .consumer_is_apart = fake_consumer_is_apart,
                          .consumer_create = fake_stream_create,
                          .consumer_mark = fake_consumer_mark,
                          .barrier = fake_barrier,
                          .detach = fake_detach,
                          .stream_native = fake_stream_native,
                          .fork_hold = fake_fork_step,
                          .fork_release = fake_fork_step,
                          .forked = fake_forked,
                          .lower = fake_lower,
                          .compile = fake_compile,
                          .source_print = fake_source_print,
                          .source_destroy = fake_source_destroy,
                          .load = fake_load,
                          .reload = fake_reload,
                          .kernel_destroy = fake_kernel_destroy,
                          .destroy = fake_destroy}};
    for (int i = 0; i < 2; i++)
        f->target[i] = (jitc_target) {.text = "fake compiler 1, fake isa", .lanes = 8};
    cr_assert_null(jitc_backend_missing_slot(&f->head));
}

bool fake_reaches(atomic_int *counter, int value) {
    for (int i = 0; i < 100000 && jitc_load_relaxed(counter) < value; i++)
        fake_sleep_us(100);
    return jitc_load_relaxed(counter) >= value;
}
