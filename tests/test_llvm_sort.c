/* Sorting on the CPU: every result is checked for what sorting means, not against another sort. */
#include "sorted.h"
#include "workers_support.h"
#include "llvm/sort.h"

typedef struct scene {
    jitc_pool *pool;
    jitc_queue *queue;
    int threads;
    jitc_sort sort;
} scene;

static void sort_and_check(scene *s) {
    uint64_t number;
    size_t scratch = jitc_sort_scratch(s->sort.type, s->sort.numbers, s->sort.n, s->threads);
    s->sort.scratch = scratch ? aligned_alloc(64, (scratch + 63) / 64 * 64) : NULL;
    if (scratch)
        memset(s->sort.scratch, 0xa5, scratch);
    cr_assert_eq(jitc_sort_launch(s->queue, &s->sort, s->threads, &number), JIT_OK);
    jitc_queue_wait(s->queue, number);
    sorted_check(&(sorted) {s->sort.type, s->sort.descending, s->sort.from, s->sort.to,
                            s->sort.numbers, s->sort.n});
    free(s->sort.scratch);
}

static void try_type(scene *s, jit_dtype t, uint64_t n, input kind) {
    size_t bytes = n * jitc_dtypes[t].bytes;
    void *from = malloc(bytes), *to = malloc(bytes), *numbers = malloc(n * 4);
    sorted_fill(t, from, n, kind);
    for (int variant = 0; variant < 4; ++variant) {
        s->sort = (jitc_sort) {.type = t,
                               .descending = variant & 1,
                               .from = from,
                               .to = to,
                               .numbers = variant & 2 ? numbers : NULL,
                               .n = n};
        sort_and_check(s);
    }
    free(from);
    free(to);
    free(numbers);
}

static void with_threads(int threads, void (*body)(scene *)) {
    scene s = {.pool = make_pool(threads), .threads = threads};
    s.queue = make_queue(s.pool);
    body(&s);
    jitc_queue_destroy(s.queue);
    jitc_pool_destroy(s.pool);
}

static void every_type(scene *s) {
    static const uint64_t sizes[] = {1, 2, 3, 31, 32, 33, 255, 1000};
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
            for (int kind = 0; kind < INPUTS; ++kind)
                try_type(s, (jit_dtype) t, sizes[i], (input) kind);
}

static void several_parts(scene *s) {
    static const jit_dtype types[] = {JIT_bool, JIT_i8,  JIT_u16, JIT_f16,
                                      JIT_i32,  JIT_f32, JIT_u64, JIT_f64};
    for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
        try_type(s, types[i], 70003, EDGES);
        try_type(s, types[i], (1 << 16) + 1, RANDOM);
    }
    try_type(s, JIT_u32, 70000, EQUAL);
    try_type(s, JIT_i64, 70000, FEW);
    try_type(s, JIT_u32, 70000, DESCENDING);
}

Test(llvm_sort, every_type_and_size_on_one_thread) {
    with_threads(1, every_type);
}

Test(llvm_sort, parts_are_sorted_by_several_threads) {
    with_threads(5, several_parts);
}

Test(llvm_sort, long_arrays_on_one_thread) {
    with_threads(1, several_parts);
}
