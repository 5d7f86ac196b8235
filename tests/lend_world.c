/* lend_world.c: memory of arrays, lent to others as an export does it.  Layer: tests. */
#include "lend_world.h"
#include "api/runtime.h"
#include <stdlib.h>

jitc_buffer *lend_buffer(jit_var v) {
    jitc_graph *g = jitc_api_graph("lend_buffer");
    jitc_graph_lock(g);
    jitc_buffer *b = jitc_node_buffer(g, v & JITC_INDEX_MASK);
    jitc_graph_unlock(g);
    return b;
}

static jit_status find_state(jit_backend backend, int device, jitc_thread_state **out) {
    jitc_thread *t;
    TRY(jitc_api_thread(&t));
    return jitc_api_state(t, backend, device, out);
}

static jitc_thread_state *own_state(void) {
    jitc_thread_state *state;
    ASSERT_OK(find_state(JIT_CUDA, jit_device(JIT_CUDA), &state));
    return state;
}

jitc_device *lend_device(void) {
    return own_state()->device;
}

jitc_stream *lend_stream(void) {
    return own_state()->stream;
}

static jit_status lend_in(jitc_buffer *b, jitc_stream *s, intptr_t token, loan_of *loan) {
    void *block = malloc(sizeof(jitc_lent));
    jit_status status = jitc_lend(b, s, &(jitc_borrower) {.token = token}, block);
    loan->lent = status == JIT_OK ? block : NULL;
    if (status != JIT_OK)
        free(block);
    return status;
}

void lend_end(loan_of *loan) {
    jitc_loan_end(loan ? loan->lent : NULL);
    if (loan)
        loan->lent = NULL;
}

jit_status lend_memory(jitc_buffer *b, intptr_t token, loan_of *loan) {
    jitc_thread_state *state;
    if (b->device->backend->host_memory)
        return lend_in(b, NULL, token, loan);
    TRY(find_state(b->device->backend->id, b->device->id, &state));
    jitc_mutex_lock(&state->stream->lock);
    jit_status status = lend_in(b, state->stream, token, loan);
    jitc_mutex_unlock(&state->stream->lock);
    if (status == JIT_OK && token == 0)
        status = jitc_buffer_wait(b, false);
    return status;
}

jit_status lend_var(jit_var v, intptr_t token, loan_of *loan, void **data) {
    TRY(jit_var_eval(v));
    jitc_buffer *b = lend_buffer(v);
    *data = b->pointer;
    return lend_memory(b, token, loan);
}

jit_var lend_make(size_t n, float offset) {
    jit_var k = jit_counter(JIT_CUDA, n), x = jit_cast(k, JIT_f32), c = jit_f32(JIT_CUDA, offset);
    jit_var v = jit_add(x, c);
    ASSERT_OK(jit_var_eval(v));
    jit_unref(k), jit_unref(x), jit_unref(c);
    return v;
}

size_t lend_pending(void) {
    return jitc_lend_pending(lend_device());
}
