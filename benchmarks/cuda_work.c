/* cuda_work.c: see cuda_work.h.
 * Layer: benchmarks. May include: <jit/jit.h>. */
#include "cuda_work.h"
#include "bench.h"

#include <stdio.h>

size_t cuda_work_inputs(const cuda_work *w) {
    return w->kind == CUDA_SUM ? w->count : w->kind == CUDA_GATHER || w->kind == CUDA_HOPS ? 1 : 2;
}

double cuda_work_bytes(const cuda_work *w) {
    double element = (double) jit_dtype_size(w->type), n = (double) w->n;
    double index = w->kind == CUDA_GATHER ? sizeof(uint32_t) : 0;
    return n * (element * (double) (cuda_work_inputs(w) + 1) + index);
}

double cuda_work_failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, jit_error());
    jit_error_clear();
    return -1;
}

static jit_var number(const cuda_work *w, float value) {
    return jit_cast(jit_f32(JIT_CUDA, value), w->type);
}

/* Places that look random: the finalizer of MurmurHash3. `n` is a power of two. */
static jit_var random_places(size_t n) {
    jit_backend b = JIT_CUDA;
    jit_var x = jit_counter(b, n);
    x = jit_mul(jit_xor(x, jit_shr(x, jit_u32(b, 16))), jit_u32(b, 0x85ebca6b));
    x = jit_mul(jit_xor(x, jit_shr(x, jit_u32(b, 13))), jit_u32(b, 0xc2b2ae35));
    return jit_and(jit_xor(x, jit_shr(x, jit_u32(b, 16))), jit_u32(b, (uint32_t) (n - 1)));
}

bool cuda_work_prepare(cuda_work *w) {
    size_t inputs = cuda_work_inputs(w);
    bool indexed = w->kind == CUDA_GATHER || w->kind == CUDA_HOPS;
    jit_var made[CUDA_WORK_INPUTS + 1] = {0};
    jit_scope_push();
    jit_status status = JIT_OK;
    for (size_t k = 0; k < inputs && status == JIT_OK; ++k) {
        /* Different arrays, or they would be one variable. */
        jit_var place =
            jit_and(jit_cast(jit_counter(JIT_CUDA, w->n), JIT_u32), jit_u32(JIT_CUDA, 3));
        made[k] = jit_cast(jit_add(place, jit_u32(JIT_CUDA, (uint32_t) k)), w->type);
        status = jit_var_eval(made[k]);
    }
    if (indexed && status == JIT_OK) {
        made[inputs] = random_places(w->n);
        status = jit_var_eval(made[inputs]);
    }
    jit_scope_pop(CUDA_WORK_INPUTS + 1, made);
    for (size_t k = 0; k < inputs; ++k)
        w->inputs[k] = made[k];
    w->index = indexed ? made[inputs] : 0;
    if (status == JIT_OK && jit_sync_thread() == JIT_OK)
        return true;
    cuda_work_failed("preparing");
    cuda_work_release(w);
    return false;
}

void cuda_work_release(cuda_work *w) {
    for (size_t k = 0; k < CUDA_WORK_INPUTS; ++k) {
        jit_unref(w->inputs[k]);
        w->inputs[k] = 0;
    }
    jit_unref(w->index);
    w->index = 0;
}

jit_var cuda_work_chain(const cuda_work *w, size_t operations, uint64_t seed) {
    jit_var v = w->inputs[0];
    for (size_t i = 0; i < operations; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        jit_var other = w->inputs[(seed >> 41) & 1];
        v = (seed >> 40) & 1 ? jit_mul(v, other) : jit_add(v, other);
    }
    return v;
}

static jit_var trace_sum(const cuda_work *w) {
    jit_var v = w->inputs[0];
    if (w->count == 1)
        return jit_add(v, number(w, 1));
    for (size_t k = 1; k < w->count; ++k)
        v = jit_add(v, w->inputs[k]);
    return v;
}

static jit_var trace_hops(const cuda_work *w) {
    jit_var v = w->inputs[0];
    for (size_t k = 0; k < w->count; ++k)
        v = jit_add(jit_gather(v, w->index, 0), number(w, 1));
    return v;
}

jit_var cuda_work_trace(const cuda_work *w) {
    switch (w->kind) {
        case CUDA_AXPY: return jit_add(jit_mul(number(w, 2), w->inputs[0]), w->inputs[1]);
        case CUDA_SUM: return trace_sum(w);
        case CUDA_CHAIN: return cuda_work_chain(w, w->count, 12345);
        case CUDA_GATHER: return jit_gather(w->inputs[0], w->index, 0);
        default: return trace_hops(w);
    }
}

static bool evaluate(const cuda_work *w) {
    jit_scope_push();
    bool good = jit_var_eval(cuda_work_trace(w)) == JIT_OK;
    return jit_scope_pop(0, NULL) == JIT_OK && good;
}

static bool evaluate_all(void *work, size_t calls) {
    bool good = true;
    for (size_t i = 0; i < calls && good; ++i)
        good = evaluate(work);
    good = good && jit_sync_thread() == JIT_OK;
    if (!good)
        cuda_work_failed("evaluating");
    return good;
}

double cuda_work_sample(void *work) {
    return bench_per_batch(evaluate_all, work, &((cuda_work *) work)->calls);
}
