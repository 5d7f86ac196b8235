/* test_cuda_scan.c: the CUDA backend's kernels whose blocks look back on each other. */
#include "cuda/stream.h"

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
    FOR_REDUCTIONS(op)
    if (jitc_reduce_accepts(op, t)) {
        check_scan(&(scan_case) {t, op, aux[turn % 4], flags[turn % 3], sizes[turn % SIZES], 0});
        ++turn;
    }
}

Test(cuda_scan, foreign_arrays_may_begin_and_end_anywhere) {
    for (size_t from = 0; from < 4; ++from) {
        check_scan(&(scan_case) {JIT_f32, JIT_REDUCE_ADD, 0, JITC_PROGRAM_TAIL, 8192 + from, from});
        check_scan(&(scan_case) {JIT_u8, JIT_REDUCE_MAX, JITC_AUX_REVERSE, JITC_PROGRAM_TAIL,
                                 8192 + 4, from});
    }
}

/* What comes first is then no whole vector. */
Test(cuda_scan, backwards_from_any_end) {
    check_scan(&(scan_case) {JIT_f32, JIT_REDUCE_ADD, JITC_AUX_REVERSE, 0, 24581, 0});
    check_scan(&(scan_case) {JIT_i16, JIT_REDUCE_MIN, JITC_AUX_REVERSE | JITC_AUX_EXCLUSIVE,
                             JITC_PROGRAM_TAIL, 16387, 0});
    check_scan(
        &(scan_case) {JIT_u64, JIT_REDUCE_MUL, JITC_AUX_REVERSE, JITC_PROGRAM_WIDE, 12289, 0});
}

/* ---- Bits ---- */

/** The program multiplies by 0.5, by 2, by 0.5 ..., and scans what comes of it. */
static float *scanned(const float *x, size_t n, int operations, uint32_t aux, uint32_t flags) {
    combine_program *c = combine_begin(JITC_SHAPE_SCAN, flags);
    float *room = calloc(n + 64, sizeof *x);
    memcpy(room, x, n * sizeof *x);
    /* The fast path needs an output that is aligned. */
    size_t offset = flags & JITC_PROGRAM_TAIL ? 4 : 0;
    void *out = exact((n + 64) * 4, offset, NULL);
    uint32_t y = add_data(&c->p, JIT_f32, exact((n + 64) * 4, 0, room), c->params);
    uint32_t half = add_literal(&c->p, JIT_f32, 0x3f000000, c->params);
    uint32_t two = add_literal(&c->p, JIT_f32, 0x40000000, c->params);
    for (int i = 0; i < operations; ++i)
        y = add(&c->p, JITC_OP_mul, JIT_f32, y, i % 2 ? two : half, 0);
    combine_add(c, JITC_OP_prefix_reduce, JIT_REDUCE_ADD, aux, y, out);
    combine_run(c, n);
    float *got = fetch(stream[0], out, n * 4);
    combine_end(c);
    exact_finish();
    free(room);
    return got;
}

Test(cuda_scan, sums_have_the_same_bits_however_they_are_computed) {
    enum { LANES = 3 * 8192 + 100 };
    float *x = malloc(LANES * sizeof *x);
    for (size_t i = 0; i < LANES; ++i)
        x[i] = (float) (i * 2654435761u % 1000003) * (i % 3 ? 1e-3f : -7e2f);
    for (uint32_t aux = 0; aux <= JITC_AUX_REVERSE; aux += JITC_AUX_REVERSE) {
        float *want = scanned(x, LANES, 0, aux, 0), *got;
        double exactly = 0;
        for (size_t i = 0; i < LANES; ++i)
            exactly += (double) x[i];
        cr_expect_float_eq(want[aux ? 0 : LANES - 1], exactly, 1e-6 * -exactly, "%g, not %g",
                           (double) want[aux ? 0 : LANES - 1], exactly);
        for (int way = 0; way < 4; ++way) {
            if (way == 3 && w.seed)
                w.seed(3 + aux);
            got = scanned(x, LANES, way == 1 ? 100 : 0, aux, way == 2 ? JITC_PROGRAM_TAIL : 0);
            cr_expect_arr_eq(got, want, LANES * sizeof *want, "aux %u, way %d", aux, way);
            free(got);
        }
        if (w.seed)
            w.seed(0);
        free(want);
    }
    free(x);
}

/* ---- Many ---- */

static combine_program *make_scan(jit_dtype t, const void *in) {
    combine_program *c = combine_begin(JITC_SHAPE_SCAN, 0);
    combine_add(c, JITC_OP_prefix_reduce, JIT_REDUCE_ADD, 0, add_data(&c->p, t, in, c->params),
                NULL);
    combine_compile(c);
    return c;
}

/** Launch it into the place out. */
static void launch_into(combine_program *c, jitc_stream *s, size_t n, void *out) {
    c->params[c->p.inst[c->p.head.count - 1].b] = (uintptr_t) out;
    combine_launch(c, s, n);
}

static void expect_ramp_sums(jitc_stream *s, const uint32_t *out, size_t n, const char *what) {
    uint32_t *got = fetch(s, out, n * sizeof *got), sum = 0;
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(got[i], sum += (uint32_t) i, "%s: element %zu of %zu", what, i, n);
    free(got);
}

static const void *make_input(size_t n) {
    uint32_t *x = malloc((n + 64) * sizeof *x);
    for (size_t i = 0; i < n + 64; ++i)
        x[i] = (uint32_t) i;
    const void *in = exact((n + 64) * sizeof *x, 0, x);
    free(x);
    return in;
}

/* What the launches before have left in the memory of the stream counts for nothing, also where
 * they have held back each other and had tiles of other sizes. */
Test(cuda_scan, launches_follow_each_other_on_several_streams) {
    static const size_t lengths[] = {20000, 9000, 30000};
    enum { LAUNCHES = sizeof lengths / sizeof *lengths, MOST = 30000 };
    const void *in = make_input(MOST);
    combine_program *c = make_scan(JIT_u32, in), *wide = make_scan(JIT_u64, in);
    uint32_t *out[STREAMS][LAUNCHES];
    if (w.seed)
        w.seed(11);
    for (int i = 0; i < LAUNCHES; ++i)
        for (int k = 0; k < STREAMS; ++k) {
            out[k][i] = exact((MOST + 64) * 4, 0, NULL);
            launch_into(c, stream[k], lengths[(i + k) % LAUNCHES], out[k][i]);
            launch_into(wide, stream[k], MOST / 2, exact((MOST + 64) * 4, 0, NULL));
        }
    for (int i = 0; i < LAUNCHES; ++i)
        for (int k = 0; k < STREAMS; ++k)
            expect_ramp_sums(stream[k], out[k][i], lengths[(i + k) % LAUNCHES], "one of many");
    combine_end(c);
    combine_end(wide);
    exact_finish();
}

/* 4097 tiles of 64 bits do not fit into the first memory. */
Test(cuda_scan, memory_of_a_stream_grows_under_launches_that_wait) {
    enum { SMALL = 20000, TILES = 40, LARGE = TILES * 8192 + 5 };
    const void *in = make_input(LARGE);
    combine_program *c = make_scan(JIT_u32, in);
    uint32_t *first = exact((SMALL + 64) * 4, 0, NULL), *last = exact((SMALL + 64) * 4, 0, NULL),
             *large = exact((LARGE + 64) * 4, 0, NULL);
    jitc_cuda_stream *s = jitc_cuda_stream_of(stream[0]);
    launch_into(c, stream[0], SMALL, first);
    cr_assert_not_null(s->sums);
    size_t bytes = s->sums->bytes;
    s->sums->bytes = 300; /* as if it were full */
    launch_into(c, stream[0], LARGE, large);
    cr_expect_not_null(s->sums->older);
    launch_into(c, stream[0], SMALL, last);
    s->sums->older->bytes = bytes;
    expect_ramp_sums(stream[0], first, SMALL, "before");
    expect_ramp_sums(stream[0], large, LARGE, "the large one");
    expect_ramp_sums(stream[0], last, SMALL, "behind");
    combine_end(c);
    exact_finish();
}

/* Tags have 32 bits. */
Test(cuda_scan, a_stream_takes_new_memory_before_the_numbers_of_launches_repeat) {
    enum { LANES = 20000 };
    combine_program *c = make_scan(JIT_u32, make_input(LANES));
    uint32_t *out = exact((LANES + 64) * 4, 0, NULL);
    jitc_cuda_stream *s = jitc_cuda_stream_of(stream[0]);
    launch_into(c, stream[0], LANES, out);
    const void *memory = s->sums->pointer;
    s->sums->launches = UINT32_MAX - 2;
    launch_into(c, stream[0], LANES, out);
    cr_expect_eq(s->sums->pointer, memory);
    launch_into(c, stream[0], LANES, out);
    cr_expect_neq(s->sums->pointer, memory);
    expect_ramp_sums(stream[0], out, LANES, "with new memory");
    combine_end(c);
    exact_finish();
}

/* Neither memory nor its clearing: nothing is queued, and the next launch is as if nothing had
 * been. */
Test(cuda_scan, a_launch_without_memory_fails_alone) {
    static const char *const calls_that_fail[] = {"cuMemAllocFromPoolAsync", "cuMemsetD8Async"};
    enum { LANES = 20000, OUT_OF_MEMORY = 2 };
    if (!w.fail)
        support_skip("this wants the simulated driver");
    combine_program *c = make_scan(JIT_u32, make_input(LANES));
    uint32_t *out = exact((LANES + 64) * 4, 0, NULL);
    jitc_launch_args a = {.lanes = LANES, .params = c->params, .count = c->p.head.params};
    uint64_t number;
    for (int i = 0; i < 2; ++i) {
        w.fail(calls_that_fail[i], 1, OUT_OF_MEMORY);
        cr_expect_neq(b->launch(stream[0], c->k, &a, &number), JIT_OK, "%s", calls_that_fail[i]);
        w.fail(NULL, 0, 0);
        jit_error_clear();
    }
    launch_into(c, stream[0], LANES, out);
    expect_ramp_sums(stream[0], out, LANES, "afterwards");
    combine_end(c);
    exact_finish();
}

/* ---- Compaction ---- */

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
    check_compress(JIT_u32, 16390, JITC_PROGRAM_TAIL, 3, 5, false);
    if (w.seed)
        w.seed(5);
    check_compress(JIT_u32, 40000, JITC_PROGRAM_WIDE, 3, 0, false);
}

/** Numbers of the lanes that `divisor` divides. */
static void check_wide_compress(uint64_t n, uint32_t divisor) {
    size_t count = (size_t) ((n - 1) / divisor + 1);
    combine_program *c = combine_begin(JITC_SHAPE_COMPRESS, JITC_PROGRAM_WIDE);
    uint64_t *out = exact(count * 8, 0, NULL), *counted = exact(8, 0, NULL);
    uint32_t x = add(&c->p, JITC_OP_counter, JIT_u64, 0, 0, 0);
    x = add(&c->p, JITC_OP_mod, JIT_u64, x, add_baked(&c->p, JIT_u64, divisor), 0);
    x = add(&c->p, JITC_OP_eq, JIT_bool, x, add_baked(&c->p, JIT_u64, 0), 0);
    combine_add(c, JITC_OP_compress, JIT_REDUCE_ADD, JITC_AUX_PART, x, out);
    c->params[c->p.head.params] = (uintptr_t) counted;
    jitc_inst *last = &c->p.inst[c->p.head.count - 1];
    last->type = JIT_u64;
    last->c = c->p.head.params++;
    combine_run(c, n);
    uint64_t *got = fetch(stream[0], out, count * 8), *number = fetch(stream[0], counted, 8);
    cr_expect_eq(*number, count, "%llu", (unsigned long long) *number);
    for (size_t i = 0; i < count; ++i)
        cr_assert_eq(got[i], i * divisor, "number %zu: %llu", i, (unsigned long long) got[i]);
    free(got), free(number);
    combine_end(c);
    exact_finish();
}

/** Sums of c & 1 over lanes c, of which the last ones are looked at. */
static void check_wide_scan(uint64_t n) {
    enum { LOOKED_AT = 10000 };
    combine_program *c = combine_begin(JITC_SHAPE_SCAN, JITC_PROGRAM_WIDE);
    unsigned char *out = exact_room((size_t) n + 64, 0), *got;
    uint32_t x = add(&c->p, JITC_OP_counter, JIT_u64, 0, 0, 0);
    x = add(&c->p, JITC_OP_and, JIT_u64, x, add_baked(&c->p, JIT_u64, 1), 0);
    x = add(&c->p, JITC_OP_cast, JIT_u8, x, 0, 0);
    combine_add(c, JITC_OP_prefix_reduce, JIT_REDUCE_ADD, 0, x, out);
    combine_run(c, n);
    got = fetch(stream[0], out + (n - LOOKED_AT), LOOKED_AT);
    for (uint64_t i = n - LOOKED_AT; i < n; ++i)
        cr_assert_eq(got[i - (n - LOOKED_AT)], (unsigned char) ((i + 1) / 2), "element %llu",
                     (unsigned long long) i);
    free(got);
    combine_end(c);
    exact_finish();
}

/* Of as many as the device can do in this time. */
Test(cuda_scan, lanes_may_have_numbers_of_64_bits) {
    check_wide_compress(40003, 37);
    check_wide_scan(20003);
    if (!w.faults) {
        check_wide_compress(((uint64_t) 1 << 32) + ((uint64_t) 1 << 30) + 5, 1000003);
        check_wide_scan(((uint64_t) 1 << 32) + 12345);
    }
}

/* ---- More tiles than a simulated GPU can do ---- */

/* Sums of 32 * 32 * 32 tiles are looked back on: u8 wraps. */
Test(cuda_scan, on_a_gpu_all_levels_of_sums_are_needed, .timeout = 60) {
    const size_t n = ((size_t) 1 << 28) + 12345;
    if (w.faults)
        support_skip("this wants a GPU");
    unsigned char *x = malloc(n + 64), *got, sum = 0;
    for (size_t i = 0; i < n; ++i)
        x[i] = (unsigned char) (i * 2654435761u >> 13);
    combine_program *c = make_scan(JIT_u8, exact(n + 64, 0, x));
    void *out = exact(n + 64, 0, NULL);
    for (int i = 0; i < 3; ++i)
        launch_into(c, stream[0], n, out);
    got = fetch(stream[0], out, n);
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(got[i], sum = (unsigned char) (sum + x[i]), "element %zu", i);
    free(x), free(got);
    combine_end(c);
    exact_finish();
}

Test(cuda_scan, on_a_gpu_many_flags_are_numbered, .timeout = 60) {
    if (w.faults)
        support_skip("this wants a GPU");
    check_compress(JIT_u32, ((size_t) 1 << 27) + 5, 0, 3, 0, false);
    check_compress(JIT_u64, ((size_t) 1 << 25) + 5, JITC_PROGRAM_WIDE, 2, 0, true);
}
