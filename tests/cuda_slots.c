/* cuda_slots.c: the CUDA backend's slots for tests. */
#include "cuda_slots.h"
#include "programs.h"
#include <stdlib.h>

cuda_world w;
jitc_backend *b;
jitc_stream *stream[STREAMS];

jitc_stream *create_stream(void) {
    jitc_stream *s;
    ASSERT_OK(b->stream_create(b, 0, &s));
    s->backend = b;
    s->device = 0;
    jitc_mutex_init(&s->lock);
    return s;
}

void destroy_stream(jitc_stream *s) {
    jitc_mutex_finish(&s->lock);
    b->stream_destroy(s);
}

void slots_start(void) {
    static jitc_options o; /* the backend keeps it */
    w = cuda_world_find();
    jitc_options_init(&o);
    if (jitc_cuda_backend_create(&o, &b) != JIT_OK)
        cr_skip_test("%s", jit_error());
    cr_assert_null(jitc_backend_missing_slot(b));
    for (int i = 0; i < STREAMS; ++i)
        stream[i] = create_stream();
}

void slots_end(void) {
    for (int i = 0; i < STREAMS; ++i)
        destroy_stream(stream[i]);
    b->destroy(b);
    cr_assert(!w.faults || !w.faults(), "the simulated driver found: %s", w.fault_text());
    cr_assert(!w.alive || !w.alive(NULL), "%u objects are left", w.alive(NULL));
}

jitc_kernel *make_kernel(uint32_t salt) {
    jitc_program p = {0};
    uint64_t params[8];
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    uint32_t x = add_data(&p, JIT_u32, NULL, params);
    uint32_t scale = add_literal(&p, JIT_u32, 0, params);
    uint32_t offset = add_literal(&p, JIT_u32, 0, params);
    uint32_t y =
        add(&p, JITC_OP_add, JIT_u32, add(&p, JITC_OP_mul, JIT_u32, scale, x, 0), offset, 0);
    y = add(&p, JITC_OP_xor, JIT_u32, y, add_baked(&p, JIT_u32, salt), 0);
    add_store(&p, JIT_u32, y, NULL, params);
    ASSERT_OK(b->lower(b, 0, &p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    ASSERT_OK(b->load(b, 0, &p, &code, &k));
    free(code.data);
    b->source_destroy(b, source);
    jitc_program_finish(&p);
    return k;
}

jit_status try_launch(jitc_stream *s, jitc_kernel *k, void *out, const void *in, uint32_t scale,
                      uint32_t offset, uint64_t *number) {
    const uint64_t params[] = {(uintptr_t) in, scale, offset, (uintptr_t) out};
    jitc_launch_args a = {.lanes = N, .params = params, .count = 4};
    return b->launch(s, k, &a, number);
}

uint64_t launch(jitc_stream *s, jitc_kernel *k, void *out, const void *in, uint32_t scale,
                uint32_t offset) {
    uint64_t number;
    ASSERT_OK(try_launch(s, k, out, in, scale, offset, &number));
    note(s, number);
    return number;
}

void *alloc(size_t bytes) {
    void *p;
    ASSERT_OK(b->alloc(b, 0, (bytes + 511) / 512 * 512, &p));
    return p;
}

void release(void *p) {
    b->free(b, 0, p, 0);
}

uint64_t upload(jitc_stream *s, void *to, const void *from, size_t bytes) {
    uint64_t number;
    ASSERT_OK(b->upload(s, to, from, bytes, &number));
    note(s, number);
    return number;
}

void *make_ramp(jitc_stream *s) {
    uint32_t ramp[N];
    for (uint32_t i = 0; i < N; ++i)
        ramp[i] = i;
    void *p = alloc(sizeof ramp);
    upload(s, p, ramp, sizeof ramp);
    return p;
}

void expect(jitc_stream *s, const void *p, uint32_t scale, uint32_t offset) {
    uint32_t got[N];
    ASSERT_OK(b->download(s, got, p, sizeof got));
    for (uint32_t i = 0; i < N; ++i)
        cr_assert_eq(got[i], scale * i + offset, "element %u: %u, not %u", i, got[i],
                     scale * i + offset);
}

void be_counted(void *count) {
    jitc_add_acq_rel((atomic_int *) count, 1);
}
