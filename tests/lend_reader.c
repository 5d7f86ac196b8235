/* lend_reader.c: a stream of somebody else that reads what it was lent.  Layer: tests. */
#include "lend_reader.h"
#include <jit/cuda.h>
#include <unistd.h>

cuda_world w;
foreign f;
gate g;

void reader_start(void) {
    w = cuda_world_simulated();
    f = foreign_find();
    support_init();
    foreign_enter(0);
    ASSERT_OK(jit_set_option("memory_spare", "0")); /* what others use is used again */
    jit_unref(lend_make(LENT, 0));                  /* with a gate closed it could not be loaded */
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim());
}

void reader_finish(void) {
    foreign_leave(0);
    support_shutdown();
    for (int i = 0; w.alive(NULL) && i < 20000;
         ++i) /* a thread may still be ending the last loan */
        usleep(1000);
    cr_assert_eq(w.alive(NULL), 0, "%u things are left", w.alive(NULL));
}

reader reader_make(void) {
    static float offsets;
    reader r = {.stream = foreign_stream(CU_STREAM_NON_BLOCKING), .offset = offsets += 10000};
    CU_OK(f.MemHostAlloc((void **) &r.copy, LENT_BYTES, 0));
    return r;
}

void reader_lend(reader *r, intptr_t token) {
    jit_var v = lend_make(LENT, r->offset);
    ASSERT_OK(lend_var(v, token, &r->loan, &r->data));
    if (token == JIT_STREAM_NONE || token == JIT_STREAM_LEGACY) /* the user orders things */
        ASSERT_OK(jit_sync_thread());
    jit_unref(v);
    foreign_close(&g, r->stream);
    CU_OK(f.MemcpyDtoHAsync(r->copy, (uintptr_t) r->data, LENT_BYTES, r->stream));
}

intptr_t reader_handle(const reader *r) {
    return (intptr_t) r->stream;
}

void reader_expect_old_data(const reader *r) {
    for (int i = 0; i < LENT; ++i)
        cr_assert_eq(r->copy[i], (float) i + r->offset, "element %d is %g", i, (double) r->copy[i]);
}

void reader_end(reader *r) {
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(r->stream));
    reader_expect_old_data(r);
    CU_OK(f.StreamDestroy(r->stream));
    CU_OK(f.MemFreeHost(r->copy));
}

void *reader_overwrites(void) {
    jit_var v = lend_make(LENT, -1);
    void *data = lend_buffer(v)->pointer;
    jit_unref(v);
    return data;
}

static uint64_t waits(void) {
    return w.calls("cuMemFree_v2") + foreign_waits(&w);
}

static void *open_at_wait(void *context) {
    const reader_opener *o = context;
    while (waits() == o->waits && !jitc_load_acquire(&g.open)) /* pairs with foreign_open */
        usleep(50);
    foreign_open(&g);
    return NULL;
}

void reader_open_at_wait(reader_opener *o) {
    o->waits = waits();
    cr_assert_eq(pthread_create(&o->thread, NULL, open_at_wait, o), 0);
}

void reader_opener_end(reader_opener *o) {
    foreign_open(&g);
    pthread_join(o->thread, NULL);
}

/* Where a block of the size turns up that is free, no new memory is wanted, and nobody waits. */
void reader_recall(void) {
    ASSERT_OK(jit_set_option("memory_lent", "0"));
    for (int i = 0; i == 0 || (lend_pending() && i < 200); ++i) {
        ASSERT_OK(jit_sync_thread());
        ASSERT_OK(jit_trim());
        reader_overwrites();
    }
    ASSERT_OK(jit_set_option("memory_lent", "1073741824"));
    cr_assert_eq(lend_pending(), 0);
}
