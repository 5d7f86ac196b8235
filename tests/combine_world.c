/* combine_world.c: kernels of the CUDA backend that combine lanes. */
#include "combine_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Memory ---- */

static CUdeviceptr blocks[4096];
static size_t block_count;

void *exact_room(size_t bytes, size_t offset) {
    CUresult (*allocate)(CUdeviceptr *, size_t);
    CUdeviceptr p;
    CUcontext context, popped;
    *(void **) &allocate = support_driver("cuMemAlloc_v2");
    cr_assert_lt(block_count, sizeof blocks / sizeof *blocks);
    cr_assert(!w.CtxRetain(&context, 0) && !w.CtxPushCurrent(context));
    cr_assert_eq(allocate(&p, offset + bytes), CUDA_SUCCESS);
    cr_assert(!w.CtxPopCurrent(&popped) && !w.CtxRelease(0));
    blocks[block_count++] = p;
    return (void *) (uintptr_t) (p + offset); // NOLINT: an address on the device
}

void *exact(size_t bytes, size_t offset, const void *from) {
    uint64_t number;
    void *start = exact_room(bytes, offset), *copy = malloc(bytes);
    from ? memcpy(copy, from, bytes) : memset(copy, 0xee, bytes);
    ASSERT_OK(b->upload(stream[0], start, copy, bytes, &number));
    ASSERT_OK(b->flush(stream[0]));
    ASSERT_OK(b->wait(stream[0], number));
    free(copy);
    return start;
}

void exact_finish(void) {
    CUcontext context, popped;
    cr_assert(!w.CtxRetain(&context, 0) && !w.CtxPushCurrent(context));
    while (block_count)
        cr_assert_eq(w.MemFree(blocks[--block_count]), CUDA_SUCCESS);
    cr_assert(!w.CtxPopCurrent(&popped) && !w.CtxRelease(0));
}

void *fetch(jitc_stream *s, const void *p, size_t bytes) {
    void *out = malloc(bytes ? bytes : 1);
    ASSERT_OK(b->download(s, out, p, bytes));
    return out;
}

/* ---- Programs ---- */

combine_program *combine_begin(jitc_shape shape, uint32_t flags) {
    combine_program *c = calloc(1, sizeof *c);
    c->p.head.shape = shape;
    c->p.head.flags = flags | JITC_PROGRAM_SCRATCH;
    c->p.head.scratch = 0;
    c->p.head.params = JITC_SCRATCH_PARAMS;
    return c;
}

void combine_add(combine_program *c, jitc_op op, jit_reduce_op reduce, uint32_t aux, uint32_t value,
                 void *out) {
    c->params[c->p.head.params] = (uintptr_t) out;
    jit_dtype type = op == JITC_OP_compress ? JIT_u32 : (jit_dtype) c->p.inst[value].type;
    add_flagged(&c->p, (jitc_inst) {.op = (uint8_t) op,
                                    .type = (uint8_t) type,
                                    .aux = (uint8_t) (op == JITC_OP_compress ? aux : aux | reduce),
                                    .a = value,
                                    .b = c->p.head.params++});
}

void combine_compile(combine_program *c) {
    jitc_source *source;
    jitc_blob code;
    const char *invalid = jitc_program_invalid(&c->p);
    cr_assert_null(invalid, "%s", invalid);
    ASSERT_OK(b->lower(b, 0, &c->p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    ASSERT_OK(b->load(b, 0, &c->p, &code, &c->k));
    free(code.data);
    b->source_destroy(b, source);
}

uint64_t combine_launch(combine_program *c, jitc_stream *s, uint64_t lanes) {
    uint64_t number;
    size_t bytes = b->scratch(c->k, lanes);
    c->params[0] = bytes ? (uintptr_t) exact(bytes, 0, NULL) : 0;
    jitc_launch_args a = {.lanes = lanes, .params = c->params, .count = c->p.head.params};
    ASSERT_OK(b->launch(s, c->k, &a, &number));
    note(s, number);
    return number;
}

void combine_run(combine_program *c, uint64_t lanes) {
    combine_compile(c);
    uint64_t number = combine_launch(c, stream[0], lanes);
    ASSERT_OK(b->flush(stream[0]));
    ASSERT_OK(b->wait(stream[0], number));
}

void combine_end(combine_program *c) {
    if (c->k)
        b->kernel_destroy(b, c->k);
    jitc_program_finish(&c->p);
    free(c);
}

/* ---- Values ---- */

static uint64_t random_of(uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    return i ^ i >> 27;
}

static uint64_t cast(jit_dtype from, jit_dtype to, uint64_t bits) {
    const uint64_t in[3] = {bits, 0, 0};
    cr_assert(from == to || jitc_fold(JITC_OP_cast, from, to, in, &bits));
    return bits;
}

/* Sums of small integers are exact, products of a few powers of two as well. */
static uint64_t real_value(jit_dtype t, jit_reduce_op op, uint64_t random) {
    uint64_t edges[64];
    double value = (double) (random % 9) - 4;
    if (op == JIT_REDUCE_MIN || op == JIT_REDUCE_MAX) {
        uint64_t bits = edges[random % edge_values(t, edges)];
        return is_nan_bits(t, bits) ? 0 : bits;
    }
    if (op == JIT_REDUCE_MUL)
        value = random % 509 == 0 ? 2 : random % 509 == 1 ? 0.5 : random % 7 == 0 ? -1 : 1;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return cast(JIT_f64, t, bits);
}

static uint64_t integer_value(jit_dtype t, jit_reduce_op op, uint64_t random) {
    uint64_t mask = t == JIT_bool ? 1 : jitc_bits_mask(t);
    uint64_t bit = (uint64_t) 1 << (t == JIT_bool ? 0 : (random >> 32) % jitc_dtypes[t].bits);
    switch (op) {
        case JIT_REDUCE_MUL: return (random | 1) & mask;
        case JIT_REDUCE_AND: return random % 97 ? mask : mask & ~bit;
        case JIT_REDUCE_OR: return random % 97 ? 0 : bit & mask;
        default: return random >> 7 & mask;
    }
}

void *combine_values(jit_dtype t, jit_reduce_op op, size_t n, unsigned salt) {
    char *out = malloc(n * jitc_dtypes[t].bytes);
    for (size_t i = 0; i < n; ++i) {
        uint64_t random = random_of(i + (uint64_t) salt * 1000003);
        write_element(t, out, i,
                      jitc_dtypes[t].cls == JITC_FLOAT ? real_value(t, op, random)
                                                       : integer_value(t, op, random));
    }
    return out;
}

uint64_t combine_first(jit_dtype t, jit_reduce_op op) {
    return jitc_reduce_identity(op, jitc_reduce_type(op, t));
}

uint64_t combine_next(jit_dtype t, jit_reduce_op op, uint64_t sum, const void *array, size_t i) {
    jit_dtype type = jitc_reduce_type(op, t);
    const uint64_t in[3] = {sum, cast(t, type, read_element(t, array, i)), 0};
    cr_assert(jitc_fold(jitc_reduce_op(op), type, type, in, &sum));
    return sum;
}

uint64_t combine_rounded(jit_dtype t, jit_reduce_op op, uint64_t sum) {
    return cast(jitc_reduce_type(op, t), t, sum);
}

void combine_expect(jit_dtype t, jit_reduce_op op, const void *got, size_t i, uint64_t sum,
                    const char *what) {
    uint64_t want = combine_rounded(t, op, sum), is = read_element(t, got, i);
    bool same = want == is || (is_nan_bits(t, want) && is_nan_bits(t, is));
    cr_assert(same, "%s of %s, %s: element %zu is %#llx instead of %#llx", jitc_reduce_name(op),
              jit_dtype_name(t), what, i, (unsigned long long) is, (unsigned long long) want);
}
