/* How a sort is launched on GPUs large and small. */
#include "cuda/sort.h"
#include <criterion/criterion.h>

static const jitc_cuda_room h200 = {.multiprocessors = 132,
                                    .block_bytes = 227 << 10,
                                    .all_bytes = 228 << 10},
                            t4 = {.multiprocessors = 40,
                                  .block_bytes = 64 << 10,
                                  .all_bytes = 64 << 10}; /* as little as any */

/** Of elements of a type, and of their numbers: 0, 4 or 8 bytes. */
static jitc_cuda_sort_shape shape(jit_dtype t, uint32_t number) {
    jitc_inst i = {.op = JITC_OP_sort, .type = (uint8_t) t};
    i.aux = (number ? JITC_AUX_PART : 0) | (number == 8 ? JITC_AUX_U64 : 0);
    jitc_program p = {.inst = &i};
    jitc_cuda_sort_shape s = jitc_cuda_sort_shape_of(&p);
    cr_assert(s.key == jitc_dtypes[t].bytes && s.passes == s.key && s.number == number);
    return s;
}
#define FOR_SHAPES(s)                                                                              \
    for (int t_ = 0; t_ < JITC_DTYPE_COUNT; ++t_)                                                  \
        for (uint32_t number_ = 0; number_ <= 8; number_ += 4)                                     \
            for (jitc_cuda_sort_shape s = shape((jit_dtype) t_, number_), *once_ = &s; once_;      \
                 once_ = NULL)

Test(cuda_sort, the_memory_of_blocks_is_what_they_can_have) {
    jitc_cuda_sort_launch l[JITC_CUDA_SORT_LAUNCHES];
    FOR_SHAPES(s)
    for (uint64_t n = 1; n < (uint64_t) 1 << 34; n *= 3)
        for (int large = 0; large < 2; ++large) {
            const jitc_cuda_room *room = large ? &h200 : &t4;
            unsigned count = jitc_cuda_plan_sort(&s, n, room, l);
            cr_assert(count == 1 || count == 3 + s.passes);
            for (unsigned i = 0; i < count; ++i)
                cr_expect(l[i].bytes <= room->block_bytes && l[i].blocks && l[i].threads <= 1024);
        }
}

Test(cuda_sort, few_elements_are_one_launch) {
    jitc_cuda_sort_launch l[JITC_CUDA_SORT_LAUNCHES];
    FOR_SHAPES(s) {
        uint32_t most = jitc_cuda_sort_small(&s), wide = s.key == 8 ? 8 : 4;
        /* as many, with their numbers, as there is room for twice, and whole for each thread */
        cr_expect(most && most % JITC_CUDA_SORT_THREADS == 0);
        cr_expect_leq(2 * most * (wide + s.number), jitc_cuda_sort_room(&s) * 8);
        cr_expect_eq(jitc_cuda_plan_sort(&s, most, &h200, l), 1);
        cr_expect(l[0].kernel == JITC_CUDA_SORT_SMALL && l[0].blocks == 1);
        cr_expect_eq(jitc_cuda_plan_sort(&s, most + 1, &h200, l), 3 + s.passes);
    }
}

Test(cuda_sort, each_byte_is_a_pass) {
    jitc_cuda_sort_launch l[JITC_CUDA_SORT_LAUNCHES];
    FOR_SHAPES(s) {
        uint64_t tile = (uint64_t) JITC_CUDA_SORT_THREADS * s.items, n = 1000 * tile + 1;
        unsigned count = jitc_cuda_plan_sort(&s, n, &h200, l);
        cr_assert_eq(count, 3 + s.passes);
        for (unsigned i = 0; i < count; ++i) {
            cr_expect_eq(l[i].kernel, i < 3 ? i : JITC_CUDA_SORT_PASS);
            cr_expect(i < 3 || (l[i].word == i - 3 && l[i].blocks == 1001));
        }
    }
}

/** A column for each lane, if memory and elements are enough; blocks that are there at once. */
Test(cuda_sort, columns_of_counts) {
    static const struct {
        jit_dtype type;
        const jitc_cuda_room *room;
        uint64_t n, blocks, columns; /* their binary logarithm */
    } cases[] = {{JIT_u32, &h200, 1 << 28, 132, 5}, {JIT_u32, &h200, 1 << 20, 256, 3},
                 {JIT_u32, &h200, 100000, 25, 3},   {JIT_u64, &h200, 1 << 28, 132, 4},
                 {JIT_u8, &h200, 1 << 28, 264, 5},  {JIT_u32, &t4, 1 << 28, 40, 4},
                 {JIT_u64, &t4, 1 << 28, 40, 3},    {JIT_u16, &t4, 1 << 28, 40, 5}};
    jitc_cuda_sort_launch l[JITC_CUDA_SORT_LAUNCHES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        jitc_cuda_sort_shape s = shape(cases[i].type, 0);
        jitc_cuda_plan_sort(&s, cases[i].n, cases[i].room, l);
        cr_expect(l[1].kernel == JITC_CUDA_SORT_COUNT && l[1].word == cases[i].columns &&
                      l[1].blocks == cases[i].blocks,
                  "%zu: %llu blocks, 2^%llu columns", i, (unsigned long long) l[1].blocks,
                  (unsigned long long) l[1].word);
        cr_expect_eq(l[1].bytes, s.passes * 1024 << l[1].word);
    }
}
