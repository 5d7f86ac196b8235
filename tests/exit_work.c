/* exit_work.c: what a process may be doing when it ends. */
#include "exit_work.h"
#include <stdlib.h>
#include <unistd.h>

#define B support_backend()

jit_var work_zeros(size_t n) {
    float *values = calloc(n, sizeof *values);
    jit_var v = values ? jit_from_host(B, JIT_f32, values, n) : 0;
    free(values);
    return v;
}

jit_var work_compute(jit_var v, int operations) {
    jit_var first = v;
    jit_scope_push();
    for (int i = 0; i < operations; ++i) {
        jit_var literal = jit_f32(B, 1 + 1e-5f * (float) i);
        v = i & 1 ? jit_add(v, literal) : jit_mul(v, literal);
    }
    jit_scope_pop(1, &v);
    jit_unref(first);
    return v;
}

static void nothing(void *context) {
    (void) context;
}

/* One of each that can be left behind: variables, scheduled and not, events, memory of others. */
jit_event *work_leave_things(void) {
    static float memory[SHORT];
    jit_event *e;
    jit_var v = work_compute(work_zeros(SIZE / 50), SHORT), w = jit_add(v, jit_f32(B, 1));
    jit_schedule(w);
    if (jit_var_eval(v) != JIT_OK || jit_event_create(B, true, &e) != JIT_OK ||
        jit_event_record(e) != JIT_OK || jit_call(B, nothing, NULL) != JIT_OK)
        _exit(4);
    jit_set_label(v, "left behind");
    if (support_maps_host_memory())
        jit_var_eval(jit_add(jit_map(B, JIT_f32, memory, SHORT, nothing, NULL), jit_f32(B, 1)));
    jit_schedule(jit_mul(v, w));
    return e;
}

void *work_leave_and_end(void *context) {
    jit_event *e = work_leave_things();
    if (context)
        jit_event_destroy(e);
    return context;
}

pthread_t work_start(void *(*function)(void *), void *context) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, function, context) != 0)
        _exit(5);
    return thread;
}
