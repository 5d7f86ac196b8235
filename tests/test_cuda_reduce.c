/* test_cuda_reduce.c: the CUDA backend's kernels that combine all lanes, or blocks of them, to one.
 */
#include "combine_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_reduce, .init = slots_start, .fini = slots_end);

/* A tile of most types has 8192 lanes. */
static const size_t sizes[] = {1,    2,    31,   32,   33,    255,   1000, 2048,
                               4099, 8191, 8192, 8193, 16384, 24583, 32769};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_reduce(jit_dtype t, jit_reduce_op op, uint32_t flags, size_t n, size_t offset) {
    size_t bytes = jitc_dtypes[t].bytes;
    char what[64];
    void *values = combine_values(t, op, n, (unsigned) n);
    combine_program *c = combine_begin(JITC_SHAPE_REDUCE, flags);
    void *out = exact(bytes, 0, NULL);
    size_t padded = flags & JITC_PROGRAM_TAIL ? n : (n + 63) / 64 * 64;
    void *room = calloc(padded, bytes);
    memcpy(room, values, n * bytes);
    uint32_t x = add_data(&c->p, t, exact(padded * bytes, offset * bytes, room), c->params);
    combine_add(c, JITC_OP_reduce, op, 0, x, out);
    combine_run(c, n);
    uint64_t sum = combine_first(t, op);
    for (size_t i = 0; i < n; ++i)
        sum = combine_next(t, op, sum, values, i);
    void *got = fetch(stream[0], out, bytes);
    snprintf(what, sizeof what, "%zu lanes, flags %u, from %zu", n, flags, offset);
    combine_expect(t, op, got, 0, sum, what);
    free(got), free(room), free(values);
    combine_end(c);
    exact_finish();
}

Test(cuda_reduce, every_type_and_operation) {
    unsigned turn = 0;
    FOR_TYPES(t)
    FOR_REDUCTIONS(op) {
        if (!jitc_reduce_accepts(op, t))
            continue;
        for (int i = 0; i < 3; ++i, ++turn)
            check_reduce(t, op, turn % 2 ? JITC_PROGRAM_TAIL : 0, sizes[turn % SIZES], 0);
    }
}

static void check_blocks(jit_dtype t, jit_reduce_op op, uint32_t flags, size_t n, size_t length) {
    size_t bytes = jitc_dtypes[t].bytes, count = (n + length - 1) / length;
    char what[64];
    void *values = combine_values(t, op, n, (unsigned) (n + length));
    combine_program *c = combine_begin(JITC_SHAPE_BLOCK_REDUCE, flags);
    void *out = exact(count * bytes, 0, NULL);
    uint32_t x = add_data(&c->p, t, exact(n * bytes, 0, values), c->params);
    combine_add(c, JITC_OP_block_reduce, op, 0, x, out);
    c->params[c->p.head.params] = length;
    c->p.inst[c->p.head.count - 1].c = c->p.head.params++;
    combine_run(c, n);
    void *got = fetch(stream[0], out, count * bytes);
    snprintf(what, sizeof what, "%zu lanes in blocks of %zu", n, length);
    for (size_t k = 0; k < count; ++k) {
        uint64_t sum = combine_first(t, op);
        for (size_t i = k * length; i < n && i < (k + 1) * length; ++i)
            sum = combine_next(t, op, sum, values, i);
        combine_expect(t, op, got, k, sum, what);
    }
    free(got), free(values);
    combine_end(c);
    exact_finish();
}

Test(cuda_reduce, blocks_of_every_length) {
    static const struct {
        size_t n, length;
    } cases[] = {{1, 1},         {1, 100},         {100, 1},      {1000, 2},      {1000, 3},
                 {1001, 7},      {515, 8},         {1000, 9},     {1000, 16},     {1000, 31},
                 {2000, 33},     {3000, 64},       {3000, 255},   {3000, 256},    {5000, 257},
                 {9000, 4096},   {9000, 4097},     {20000, 8191}, {33000, 16384}, {33000, 16385},
                 {40000, 40000}, {20000, 1u << 30}};
    unsigned turn = 0;
    FOR_TYPES(t)
    FOR_REDUCTIONS(op) {
        if (!jitc_reduce_accepts(op, t))
            continue;
        for (int i = 0; i < 2; ++i, ++turn) {
            size_t k = turn % (sizeof cases / sizeof *cases);
            check_blocks(t, op, turn % 2 ? JITC_PROGRAM_TAIL : JITC_PROGRAM_WIDE, cases[k].n,
                         cases[k].length);
        }
    }
}
