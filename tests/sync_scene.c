/* sync_scene.c: an array of ours and a stream of somebody else.  Layer: tests. */
#include "sync_scene.h"
#include <stdio.h>
#include <unistd.h>

cuda_world w;
static unsigned expected_races;

/** With a gate closed the kernel of scene_plus() could not be loaded. */
static void load_kernel(int device) {
    static const uint32_t zeros[SIZE];
    ASSERT_OK(jit_set_device(JIT_CUDA, device));
    jit_var x = jit_from_host(JIT_CUDA, JIT_u32, zeros, SIZE), v = scene_plus(x, 1);
    ASSERT_OK(jit_var_eval(v));
    ASSERT_OK(jit_sync_thread());
    jit_unref(x);
    jit_unref(v);
    ASSERT_OK(jit_trim());
}

void scene_start(void) {
    w = cuda_world_simulated();
    if (!w.races)
        support_skip("this wants the ordering checker of the simulated driver");
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", "0")); /* what others use is used again */
    for (int device = 0; device < 2; ++device)
        load_kernel(device);
}

/* Races that were predicted are faults as well. */
void scene_finish(void) {
    jit_shutdown();
    cr_assert_eq(w.faults(), expected_races,
                 "%u races were predicted; the simulated driver found: %s", expected_races,
                 w.fault_text());
}

asked scene_calls(void) {
    static const char *const waiting[] = {"cuStreamSynchronize", "cuStreamSynchronize_ptsz",
                                          "cuEventSynchronize",  "cuCtxSynchronize",
                                          "cuMemcpyDtoH_v2",     "cuMemcpyHtoD_v2",
                                          "cuMemcpyDtoD_v2",     "cuMemcpy",
                                          "cuMemFree_v2",        "cuMemFreeHost"};
    asked a = {.records = w.calls("cuEventRecord") + w.calls("cuEventRecord_ptsz"),
               .waits = w.calls("cuStreamWaitEvent") + w.calls("cuStreamWaitEvent_ptsz")};
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; ++i)
        a.cpu_waits += w.calls(waiting[i]);
    return a;
}

const char *scene_name(const scene *s) {
    static char text[256];
    snprintf(text, sizeof text, "token %s, %s, %s stream, %s, device %d%s",
             sync_token_names[s->token], sync_how_names[s->how], sync_kind_names[s->kind],
             sync_place_names[s->place], s->device, s->scheduled ? ", scheduled" : "");
    return text;
}

jit_var scene_plus(jit_var x, uint32_t k) {
    jit_var constant = jit_u32(JIT_CUDA, k), sum = jit_add(x, constant);
    jit_unref(constant);
    ASSERT_VAR(sum);
    return sum;
}

void scene_begin(scene *s) {
    static uint32_t cases;
    uint32_t ramp[SIZE];
    s->first = ++cases * 1000000;
    w.seed(cases);
    ASSERT_OK(jit_set_device(JIT_CUDA, s->device));
    s->consumer = consumer_create(s->kind, s->place, s->device, SIZE, s->how != SYNC_ONE_THREAD);
    for (uint32_t i = 0; i < SIZE; ++i)
        ramp[i] = i;
    s->x = jit_from_host(JIT_CUDA, JIT_u32, ramp, SIZE);
    ASSERT_VAR(s->x);
    ASSERT_OK(jit_sync_thread());
    s->races = w.races();
}

void scene_end(scene *s) {
    ASSERT_OK(jit_sync_all_devices());
    bool raced = w.races() != s->races;
    cr_assert_eq(raced, !s->sees, "%s: %s: %s", scene_name(s), raced ? "a race" : "no race",
                 w.fault_text());
    expected_races += w.races() - s->races;
    jit_unref(s->v);
    jit_unref(s->x);
    consumer_destroy(s->consumer);
    sem_destroy(&s->gate.open);
}

bool scene_counts_up(const uint32_t *words, uint32_t first) {
    for (uint32_t i = 0; i < SIZE; ++i)
        if (words[i] != first + i)
            return false;
    return true;
}

void *scene_open_later(void *context) {
    opener *o = context;
    usleep(1000);
    o->opened = true;
    consumer_gate_open(o->gate);
    return NULL;
}
