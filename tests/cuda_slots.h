/* cuda_slots.h: the CUDA backend's slots, called one by one, with the errors of a test. */
#ifndef JITC_TESTS_CUDA_SLOTS_H
#define JITC_TESTS_CUDA_SLOTS_H
#include "core/sync.h"
#include "cuda/cuda_backend.h"
#include "cuda_world.h"

enum { STREAMS = 3, N = 1000 };

/* A backend with some streams, of whose locks the test is the holder. */
extern cuda_world w;
extern jitc_backend *b;
extern jitc_stream *stream[STREAMS];

/** Of a test suite: .init, which skips the test where there is no device, and .fini, which fails it
 *  if anything is left. */
void slots_start(void);
void slots_end(void);

jitc_stream *create_stream(void);
void destroy_stream(jitc_stream *s);

/** out[i] = (scale * in[i] + offset) ^ salt, for u32. */
jitc_kernel *make_kernel(uint32_t salt);
/** Over N lanes. */
jit_status try_launch(jitc_stream *s, jitc_kernel *k, void *out, const void *in, uint32_t scale,
                      uint32_t offset, uint64_t *number);
uint64_t launch(jitc_stream *s, jitc_kernel *k, void *out, const void *in, uint32_t scale,
                uint32_t offset);

void *alloc(size_t bytes);
void release(void *p);
uint64_t upload(jitc_stream *s, void *to, const void *from, size_t bytes);
/** N elements 0, 1, 2, ... of u32. */
void *make_ramp(jitc_stream *s);
/** N elements scale * i + offset. */
void expect(jitc_stream *s, const void *p, uint32_t scale, uint32_t offset);

/** What the layers above do with the number of queued work. */
static inline void note(jitc_stream *s, uint64_t number) {
    jitc_store_release(&s->queued, number); /* pairs with who waits */
}
/** Kernels take so long that what ought to wait for them is caught. */
static inline void be_slow(unsigned us) {
    if (w.kernel_time_us)
        w.kernel_time_us(us);
}
/** Calls of a function of the driver so far. */
static inline uint64_t calls(const char *name) {
    return w.calls ? w.calls(name) : 0;
}
/** For b->call(): adds 1 to an atomic_int. */
void be_counted(void *count);
#endif
