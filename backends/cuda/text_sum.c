/* text_sum.c: how values are combined in a text.  Layer: cuda.  May include: core, ir. */
#include "cuda/text_sum.h"
#include <stdio.h>

static jit_dtype combined_type(jit_reduce_op op, jit_dtype t) {
    bool wide = jitc_dtypes[t].bits == 64;
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        return wide ? JIT_f64 : JIT_f32;
    if (jitc_dtypes[t].cls == JITC_INT && (op == JIT_REDUCE_MIN || op == JIT_REDUCE_MAX))
        return wide ? JIT_i64 : JIT_i32;
    return wide ? JIT_u64 : JIT_u32; /* which wraps, and is cut in the end */
}

jitc_cuda_sum jitc_cuda_sum_of(const jitc_inst *i) {
    jitc_cuda_sum s = {.op = i->op == JITC_OP_compress ? JIT_REDUCE_ADD : jitc_inst_reduce(i),
                       .element = jitc_cuda_type_of(i)};
    s.type = combined_type(s.op, s.element);
    return s;
}

bool jitc_cuda_is_exact(const jitc_cuda_sum *s) {
    return jitc_dtypes[s->type].cls != JITC_FLOAT ||
           (s->op != JIT_REDUCE_ADD && s->op != JIT_REDUCE_MUL);
}

void jitc_cuda_put_operator(jitc_cuda_body *k, uint32_t n) {
    static const char *const texts[JITC_REDUCE_COUNT] = {
        [JIT_REDUCE_ADD] = "a + b",         [JIT_REDUCE_MUL] = "a * b",
        [JIT_REDUCE_MIN] = "a < b ? a : b", [JIT_REDUCE_MAX] = "a < b ? b : a",
        [JIT_REDUCE_AND] = "a & b",         [JIT_REDUCE_OR] = "a | b"};
    jitc_cuda_sum s = jitc_cuda_sum_of(&k->p->inst[n]);
    const char *type = jitc_dtypes[s.type].name, *text = texts[s.op];
    bool real = jitc_dtypes[s.type].cls == JITC_FLOAT;
    jitc_cuda_putf(&k->w, "DEV %s op%u(%s a, %s b) { return ", type, n, type, type);
    if (real && (s.op == JIT_REDUCE_MIN || s.op == JIT_REDUCE_MAX))
        jitc_cuda_putf(&k->w, "%s_%s(a, b)", s.op == JIT_REDUCE_MIN ? "min" : "max", type);
    else
        jitc_cuda_put_text(&k->w, text);
    jitc_cuda_put_text(&k->w, "; }\n");
}

/** Bits of the identity in the type in which is combined. */
static uint64_t identity_bits(const jitc_cuda_sum *s) {
    uint64_t bits = jitc_reduce_identity(s->op, s->element);
    const uint64_t in[3] = {bits, 0, 0};
    if (s->type != s->element)
        jitc_fold(JITC_OP_cast, s->element, s->type, in, &bits);
    return bits;
}

void jitc_cuda_put_identity(jitc_cuda_body *k, uint32_t n) {
    jitc_cuda_sum s = jitc_cuda_sum_of(&k->p->inst[n]);
    uint64_t bits = identity_bits(&s);
    const jitc_inst literal = {.op = JITC_OP_literal,
                               .type = (uint8_t) s.type,
                               .flags = JITC_INST_BAKED,
                               .b = (uint32_t) bits,
                               .c = (uint32_t) (bits >> 32)};
    jitc_cuda_put_literal(&k->w, &literal);
}

static bool is_small_real(jit_dtype t) {
    return t == JIT_f16 || t == JIT_bf16;
}

void jitc_cuda_put_widened(jitc_cuda_body *k, uint32_t n, const char *value) {
    jitc_cuda_sum s = jitc_cuda_sum_of(&k->p->inst[n]);
    if (is_small_real(s.element))
        jitc_cuda_putf(&k->w, "f32_from_%s(%s)", jitc_dtypes[s.element].name, value);
    else
        jitc_cuda_putf(&k->w, "(%s) (%s)", jitc_dtypes[s.type].name, value);
}

void jitc_cuda_put_narrowed(jitc_cuda_body *k, uint32_t n, const char *value) {
    jitc_cuda_sum s = jitc_cuda_sum_of(&k->p->inst[n]);
    if (is_small_real(s.element))
        jitc_cuda_putf(&k->w, "%s_from_f32(%s)", jitc_dtypes[s.element].name, value);
    else
        jitc_cuda_putf(&k->w, "(%s) (%s)", jitc_cuda_memory_type(s.element), value);
}

const char *jitc_cuda_sum_type(jitc_cuda_body *k, uint32_t n) {
    jitc_cuda_sum s = jitc_cuda_sum_of(&k->p->inst[n]);
    return jitc_dtypes[s.type].name;
}

/* ---- Of a thread ---- */

void jitc_cuda_put_operators(jitc_cuda_body *k) {
    JITC_CUDA_FOR_SUMS(k, n) jitc_cuda_put_operator(k, n);
}

static bool needs_tree(jitc_cuda_body *k, uint32_t n) {
    jitc_cuda_sum s = jitc_cuda_sum_of(&k->p->inst[n]);
    return !jitc_cuda_is_exact(&s);
}

static void put_variable(jitc_cuda_body *k, char name, uint32_t n) {
    jitc_cuda_putf(&k->w, "    %s ", jitc_cuda_sum_type(k, n));
    jitc_cuda_put_name(&k->w, name, n);
    jitc_cuda_put_text(&k->w, " = ");
    jitc_cuda_put_identity(k, n);
    jitc_cuda_put_text(&k->w, ";\n");
}

void jitc_cuda_put_shared_sums(jitc_cuda_body *k, uint32_t warps) {
    JITC_CUDA_FOR_SUMS(k, n)
    jitc_cuda_putf(&k->w, "    SHARED(%s, %s%u, %u);\n", jitc_cuda_sum_type(k, n), "s", n, warps);
}

/* p12_0, p12_1, ... wait for their right halves. */
void jitc_cuda_put_first_sums(jitc_cuda_body *k, uint32_t step_log) {
    JITC_CUDA_FOR_SUMS(k, n) {
        put_variable(k, 'a', n);
        for (uint32_t level = 0; needs_tree(k, n) && level < step_log; ++level)
            jitc_cuda_putf(&k->w, "    %s %p_%u = %a;\n", jitc_cuda_sum_type(k, n), n, level, n);
    }
}

void jitc_cuda_put_lane_identities(jitc_cuda_body *k) {
    JITC_CUDA_FOR_SUMS(k, n) put_variable(k, 'x', n);
}

void jitc_cuda_put_lane_value(jitc_cuda_body *k, uint32_t n) {
    char value[16];
    snprintf(value, sizeof value, "v%u", k->p->inst[n].a);
    jitc_cuda_putf(&k->w, "    %x = ", n);
    jitc_cuda_put_widened(k, n, value);
    jitc_cuda_put_text(&k->w, ";\n");
}

/** What stands to the left comes first, also in the tree. */
static void put_tree(jitc_cuda_body *k, uint32_t n, uint32_t step_log) {
    jitc_cuda_put_text(&k->w, "    ");
    for (uint32_t level = 0; level < step_log; ++level)
        jitc_cuda_putf(&k->w, "if (!(step >> %u & 1)) %p_%u = %x; else { %x = op%u(%p_%u, %x); ",
                       level, n, level, n, n, n, n, level, n);
    jitc_cuda_putf(&k->w, "%a = op%u(%a, %x);", n, n, n, n);
    for (uint32_t level = 0; level < step_log; ++level)
        jitc_cuda_put_text(&k->w, " }");
    jitc_cuda_put_char(&k->w, '\n');
}

void jitc_cuda_put_lane_sums(jitc_cuda_body *k, uint32_t step_log) {
    JITC_CUDA_FOR_SUMS(k, n) {
        if (needs_tree(k, n))
            put_tree(k, n, step_log);
        else
            jitc_cuda_putf(&k->w, "    %a = op%u(%a, %x);\n", n, n, n, n);
    }
}

/* ---- Of a block ---- */

static void put_shuffles(jitc_cuda_body *k, uint32_t width) {
    jitc_cuda_putf(&k->w, "    #pragma unroll\n    for (u32 d = %u; d; d >>= 1) {\n", width / 2);
    JITC_CUDA_FOR_SUMS(k, n)
    jitc_cuda_putf(&k->w, "    %a = op%u(%a, __shfl_xor_sync(0xffffffffu, %a, d));\n", n, n, n, n);
    jitc_cuda_put_text(&k->w, "    }\n");
}

void jitc_cuda_put_block_sums(jitc_cuda_body *k, uint32_t warps) {
    put_shuffles(k, 32);
    jitc_cuda_put_text(&k->w, "    if (lane == 0) {\n");
    JITC_CUDA_FOR_SUMS(k, n)
    jitc_cuda_putf(&k->w, "    %s%u[warp] = %a;\n", "s", n, n);
    jitc_cuda_put_text(&k->w, "    }\n    __syncthreads();\n    if (warp == 0) {\n");
    JITC_CUDA_FOR_SUMS(k, n)
    jitc_cuda_putf(&k->w, "    %a = %s%u[lane & %u];\n", n, "s", n, warps - 1);
    put_shuffles(k, warps);
    jitc_cuda_put_text(&k->w, "    }\n");
}

/* ---- Of several blocks ---- */

void jitc_cuda_put_exchange(jitc_cuda_body *k, const jitc_cuda_exchange *x) {
    uint32_t scratch = k->p->head.scratch, order = 0;
    jitc_cuda_put_text(&k->w, "    if (threadIdx.x == 0) {\n");
    JITC_CUDA_FOR_SUMS(k, n)
    jitc_cuda_putf(&k->w,
                   "    write_fresh((u64 *) W(%u) + (u64) %u * gridDim.x + %s, "
                   "to_word_%s(%a));\n",
                   scratch, order++, x->own, jitc_cuda_sum_type(k, n), n);
    jitc_cuda_putf(&k->w,
                   "    __threadfence();\n"
                   "    last[0] = atomicAdd((u32 *) W(%u) + %s, 1u) == %s - 1;\n"
                   "    }\n"
                   "    __syncthreads();\n"
                   "    if (!last[0]) return;\n"
                   "    __threadfence();\n"
                   "    if (threadIdx.x == 0) ST((u32 *) W(%u) + %s, 0);\n",
                   scratch + 1, x->ticket, x->count, scratch + 1, x->ticket);
    order = 0;
    JITC_CUDA_FOR_SUMS(k, n) {
        jitc_cuda_putf(&k->w, "    %a = ", n);
        jitc_cuda_put_identity(k, n);
        jitc_cuda_putf(&k->w,
                       ";\n    for (u32 c = threadIdx.x; c < %s; c += %u)\n"
                       "    %a = op%u(%a, from_word_%s(read_fresh((const u64 *) W(%u) + (u64) "
                       "%u * gridDim.x + %s + c)));\n",
                       x->count, x->threads, n, n, n, jitc_cuda_sum_type(k, n), scratch, order++,
                       x->first);
    }
}

void jitc_cuda_put_results(jitc_cuda_body *k, const char *condition, const char *place) {
    char value[16];
    jitc_cuda_putf(&k->w, "    if (%s) {\n", condition);
    JITC_CUDA_FOR_SUMS(k, n) {
        const jitc_inst *i = &k->p->inst[n];
        snprintf(value, sizeof value, "a%u", n);
        jitc_cuda_putf(&k->w, "    ST((%s *) W(%u) + %s, ",
                       jitc_cuda_memory_type(jitc_cuda_type_of(i)), i->b, place);
        jitc_cuda_put_narrowed(k, n, value);
        jitc_cuda_put_text(&k->w, ");\n");
    }
    jitc_cuda_put_text(&k->w, "    }\n");
}
