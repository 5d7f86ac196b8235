/* state.c: memory of a stream in which its kernels count.  Layer: cuda.
 *
 * A stream runs one kernel after the other, so they use the same memory:
 *
 *   tickets   counters of 32 bits: who counts last sets them to 0 again
 *   sums      (number of the launch) << 32 | tiles begun, then sums that bear the number of the
 * launch that wrote them, so that nobody has to clear them
 *
 * It is cleared when it is allocated. What kernels that are queued may use stays until the stream
 * ends: sizes double, so it is no more than what is in use. */
#include "cuda/stream.h"
#include <stdlib.h>

enum { SMALLEST = 1 << 14 /* bytes */ };
/* Numbers of launches have 32 bits, and 0 is that of none. */
static const uint64_t most_launches = UINT32_MAX - 1;

static jit_status clear(jitc_cuda_stream *s, void *pointer, size_t bytes) {
    jitc_mutex_lock(&s->mutex);
    jit_status status = jitc_cuda_after_pool_locked(s);
    jitc_mutex_unlock(&s->mutex);
    TRY(status);
    return jitc_cuda_device_check(
        s->device, jitc_cuda_of(s)->MemsetD8Async(jitc_cuda_address(pointer), 0, bytes, s->stream),
        JITC_CU_MemsetD8Async);
}

static jit_status add_state(jitc_cuda_stream *s, jitc_cuda_state **list, size_t bytes) {
    void *p;
    TRY(jitc_calloc(1, sizeof(jitc_cuda_state), &p));
    jitc_cuda_state *state = p;
    state->bytes = *list ? (*list)->bytes : SMALLEST;
    while (state->bytes < bytes)
        state->bytes *= 2;
    jit_status status = jitc_cuda_alloc(s->device, state->bytes, &state->pointer);
    if (status != JIT_OK)
        goto node;
    /* ORDER: clearing before the kernel, which is on the same stream; behind kernels that are held
     * back still, which do not use it; without it counters start anywhere. */
    status = clear(s, state->pointer, state->bytes);
    if (status != JIT_OK)
        goto memory;
    state->older = *list;
    *list = state;
    return JIT_OK;
memory:
    jitc_cuda_free(s->device, state->pointer);
node:
    free(state);
    return status;
}

/* The newest of the list, which has so many bytes and has seen less launches than there are. */
static jit_status state_of(jitc_cuda_stream *s, jitc_cuda_state **list, size_t bytes,
                           uint64_t *address) {
    if (!*list || (*list)->bytes < bytes || (*list)->launches == most_launches)
        TRY(add_state(s, list, bytes));
    *address = jitc_cuda_address((*list)->pointer);
    return JIT_OK;
}

jit_status jitc_cuda_state_of(jitc_cuda_stream *s, const jitc_cuda_plan *plan, uint64_t *address) {
    *address = 0;
    if (plan->tickets)
        return state_of(s, &s->tickets, plan->tickets * sizeof(uint32_t), address);
    if (!plan->sums)
        return JIT_OK;
    TRY(state_of(s, &s->sums, plan->sums * sizeof(uint64_t), address));
    ++s->sums->launches;
    return JIT_OK;
}

static void free_list(jitc_cuda_stream *s, jitc_cuda_state *list, bool there) {
    for (jitc_cuda_state *older; list; list = older) {
        older = list->older;
        if (there)
            jitc_cuda_free(s->device, list->pointer);
        free(list);
    }
}

void jitc_cuda_states_finish(jitc_cuda_stream *s, bool there) {
    free_list(s, s->tickets, there);
    free_list(s, s->sums, there);
}
