/* test_cuda_scan.c: the CUDA backend's kernels whose blocks look back on each other. */
#include "combine_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_scan, .init = slots_start, .fini = slots_end);

/* A tile has 8192 lanes, or 4096 of 64 bits. */
static const size_t sizes[] = {1,    2,    3,    31,   33,   255,  1000,
                               4095, 4096, 4097, 8191, 8192, 8193, 24580};
enum { SIZES = sizeof sizes / sizeof *sizes };

typedef struct scan_case {
    jit_dtype t;
    jit_reduce_op op;
    uint32_t aux, flags;
    size_t n, offset; /* elements; in which what is read begins, and what is written one more */
} scan_case;

static void expect_scan(const scan_case *s, const void *values, const void *got) {
    char what[64];
    bool reverse = s->aux & JITC_AUX_REVERSE, exclusive = s->aux & JITC_AUX_EXCLUSIVE;
    uint64_t sum = combine_first(s->t, s->op);
    snprintf(what, sizeof what, "%zu lanes, aux %u, flags %u, from %zu", s->n, s->aux, s->flags,
             s->offset);
    for (size_t k = 0; k < s->n; ++k) {
        size_t i = reverse ? s->n - 1 - k : k;
        uint64_t with = combine_next(s->t, s->op, sum, values, i);
        combine_expect(s->t, s->op, got, i, exclusive ? sum : with, what);
        sum = with;
    }
}

static void check_scan(const scan_case *s) {
    size_t bytes = jitc_dtypes[s->t].bytes;
    size_t padded = s->flags & JITC_PROGRAM_TAIL ? s->n : (s->n + 63) / 64 * 64;
    void *values = combine_values(s->t, s->op, s->n, (unsigned) s->n), *room;
    combine_program *c = combine_begin(JITC_SHAPE_SCAN, s->flags);
    void *out = exact(padded * bytes, s->offset ? (s->offset + 1) * bytes : 0, NULL);
    room = calloc(padded, bytes);
    memcpy(room, values, s->n * bytes);
    uint32_t x = add_data(&c->p, s->t, exact(padded * bytes, s->offset * bytes, room), c->params);
    combine_add(c, JITC_OP_prefix_reduce, s->op, s->aux, x, out);
    combine_run(c, s->n);
    void *got = fetch(stream[0], out, s->n * bytes);
    expect_scan(s, values, got);
    free(got), free(room), free(values);
    combine_end(c);
    exact_finish();
}

Test(cuda_scan, every_type_and_operation) {
    static const uint32_t aux[] = {0, JITC_AUX_EXCLUSIVE, JITC_AUX_REVERSE,
                                   JITC_AUX_REVERSE | JITC_AUX_EXCLUSIVE};
    static const uint32_t flags[] = {0, JITC_PROGRAM_TAIL, JITC_PROGRAM_WIDE};
    unsigned turn = 0;
    FOR_TYPES(t)
    FOR_REDUCTIONS(op) {
        if (!jitc_reduce_accepts(op, t))
            continue;
        for (int i = 0; i < 3; ++i, ++turn)
            check_scan(
                &(scan_case) {t, op, aux[turn % 4], flags[turn % 3], sizes[turn % SIZES], 0});
    }
}

static void check_compress(jit_dtype t, size_t n, uint32_t flags, unsigned one_in, size_t offset,
                           bool computed) {
    size_t bytes = jitc_dtypes[t].bytes, count = 0;
    size_t padded = flags & JITC_PROGRAM_TAIL ? n : (n + 63) / 64 * 64;
    unsigned char *mask = calloc(padded, 1);
    for (size_t i = 0; i < n; ++i)
        mask[i] = one_in && (i * 2654435761u >> 7) % one_in == 0;
    combine_program *c = combine_begin(JITC_SHAPE_COMPRESS, flags);
    void *out = exact(n * bytes, 0, NULL), *counted = exact(bytes, 0, NULL);
    uint32_t x = add_data(&c->p, JIT_bool, exact(padded, offset, mask), c->params);
    if (computed)
        x = add(&c->p, JITC_OP_not, JIT_bool, add(&c->p, JITC_OP_not, JIT_bool, x, 0, 0), 0, 0);
    combine_add(c, JITC_OP_compress, JIT_REDUCE_ADD, JITC_AUX_PART, x, out);
    c->p.inst[c->p.head.count - 1].type = (uint8_t) t;
    c->params[c->p.head.params] = (uintptr_t) counted;
    c->p.inst[c->p.head.count - 1].c = c->p.head.params++;
    combine_run(c, n);
    void *got = fetch(stream[0], out, n * bytes), *number = fetch(stream[0], counted, bytes);
    for (size_t i = 0; i < n; ++i)
        if (mask[i])
            cr_assert_eq(read_element(t, got, count++), i, "%zu flags, one in %u", n, one_in);
    cr_assert_eq(read_element(t, number, 0), count, "%zu flags, one in %u", n, one_in);
    for (size_t i = count; i < n; ++i)
        cr_assert_eq(read_element(t, got, i), 0xeeeeeeeeeeeeeeee & jitc_bits_mask(t),
                     "%zu flags, one in %u: written behind the last", n, one_in);
    free(got), free(number), free(mask);
    combine_end(c);
    exact_finish();
}

Test(cuda_scan, numbers_of_what_is_true) {
    static const size_t lengths[] = {1, 31, 33, 1000, 2049, 16383, 16384, 16385, 49160};
    static const unsigned one_in[] = {1, 2, 100, 0};
    unsigned turn = 0;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i)
        for (int k = 0; k < 2; ++k, ++turn)
            check_compress(turn % 3 ? JIT_u32 : JIT_u64, lengths[i],
                           turn % 2 ? JITC_PROGRAM_TAIL : 0, one_in[turn % 4], 0, turn % 5 == 4);
}
