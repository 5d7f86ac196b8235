/* test_llvm_scan.c: programs of the CPU backend that scan or compress. */
#include "combining.h"
#include "llvm_run.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { SEVERAL = 5 * 16384 + 77 };

/* Scans. */

typedef struct scan {
    jit_dtype type;
    jit_reduce_op op;
    uint8_t aux;    /* JITC_AUX_EXCLUSIVE, JITC_AUX_REVERSE */
    bool dear;      /* so many operations that values are stored, and not computed twice */
    size_t padding; /* 0: the arrays end right behind the last element */
} scan;

static void build_scan(jitc_program *p, const scan *s, const void *in, void *out,
                       uint64_t *params) {
    jitc_op twice = s->type == JIT_bool                      ? JITC_OP_not
                    : jitc_dtypes[s->type].cls == JITC_FLOAT ? JITC_OP_neg
                                                             : JITC_OP_not;
    p->head.shape = JITC_SHAPE_SCAN;
    p->head.flags = s->padding ? 0 : JITC_PROGRAM_TAIL;
    uint32_t v = add_data(p, s->type, in, params);
    for (int i = 0; s->dear && i < 20; i++)
        v = add(p, twice, s->type, v, 0, 0);
    uint32_t to = add_param(p, (uintptr_t) out, params);
    add_flagged(p, (jitc_inst) {.op = JITC_OP_prefix_reduce,
                                .type = (uint8_t) s->type,
                                .aux = (uint8_t) (s->op | s->aux),
                                .a = v,
                                .b = to});
    add_scratch(p, params);
}

static void check_scan(const scan *s, const void *in, const void *out, uint64_t n,
                       const char *isa) {
    reference r;
    reference_init(&r, s->op, s->type);
    for (uint64_t k = 0; k < n; k++) {
        uint64_t i = s->aux & JITC_AUX_REVERSE ? n - 1 - k : k, before = reference_value(&r);
        reference_add(&r, read_element(s->type, in, i));
        uint64_t want = s->aux & JITC_AUX_EXCLUSIVE ? before : reference_value(&r);
        uint64_t got = read_element(s->type, out, i);
        bool zeros = jitc_dtypes[s->type].cls == JITC_FLOAT && !(want << 1) && !(got << 1);
        cr_assert(zeros || same_element(s->type, got, want),
                  "%s: scan by %s of %s, aux %u, %lu lanes, element %lu: %lx instead of %lx", isa,
                  jitc_reduce_name(s->op), jitc_dtypes[s->type].name, s->aux, n, i, got, want);
    }
}

static void run_scan(runner *r, const scan *s, int level, bool large, const char *isa) {
    static const uint64_t sizes[] = {1, 2, 31, 33, 255, 16383, 16384, 16385, SEVERAL};
    jitc_kernel *k = NULL;
    jitc_program p = {0};
    for (size_t i = 0; i < (large ? sizeof sizes / sizeof *sizes : 5); i++) {
        uint64_t params[16], n = sizes[i];
        size_t bytes = n * jitc_dtypes[s->type].bytes + s->padding;
        void *in = guarded_alloc(bytes), *out = guarded_alloc(bytes);
        fill_for(s->op, s->type, in, n, s->padding);
        jitc_program_clear(&p);
        build_scan(&p, s, in, out, params);
        k = k ? k : runner_load(r, &p, level);
        runner_launch(r, k, &p, n, params);
        check_scan(s, in, out, n, isa);
        guarded_free(in, bytes);
        guarded_free(out, bytes);
    }
    r->b->kernel_destroy(r->b, k);
    jitc_program_finish(&p);
}

/** All operations of all types, and all that can be asked of them, in turn. */
Test(llvm_scan, every_operation_of_every_type, .timeout = 300) {
    unsigned turn = 0;
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init_threads(&r, runner_isas[i], 2))
            continue;
        for (int t = 0; t < JITC_DTYPE_COUNT; t++)
            for (int op = 0; op < JITC_REDUCE_COUNT; op++) {
                if (!jitc_reduce_accepts((jit_reduce_op) op, (jit_dtype) t))
                    continue;
                if (++turn % 3 != 0 &&
                    i != RUNNER_ISAS - 1) /* each on some machines, and on the last */
                    continue;
                scan s = {.type = (jit_dtype) t,
                          .op = (jit_reduce_op) op,
                          .aux = (uint8_t) (turn % 4 * JITC_AUX_EXCLUSIVE),
                          .dear = turn / 4 % 3 == 0,
                          .padding = turn % 5 < 2 ? 0 : JITC_PADDING};
                run_scan(&r, &s, turn % 9 ? 0 : 2, false, runner_isas[i]);
            }
        runner_finish(&r);
    }
}
_Static_assert(JITC_AUX_REVERSE == 2 * JITC_AUX_EXCLUSIVE, "turn % 4 gives all four");

Test(llvm_scan, many_chunks, .timeout = 300) {
    static const jit_dtype types[] = {JIT_u32, JIT_f32, JIT_f16, JIT_u8};
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init_threads(&r, runner_isas[i], i == 1 ? 1 : 3))
            continue;
        for (int k = i % 2; k < 8; k += 2) {
            scan s = {.type = types[(k / 2 + i) % 4],
                      .op = k % 3 == 2 ? JIT_REDUCE_MAX : JIT_REDUCE_ADD,
                      .aux = (uint8_t) (k % 4 * JITC_AUX_EXCLUSIVE),
                      .dear = k / 4,
                      .padding = k / 2 % 2 ? JITC_PADDING : 0};
            run_scan(&r, &s, k / 2 % 2 ? 0 : 2, true, runner_isas[i]);
        }
        runner_finish(&r);
    }
}

/* Bits. */

/** Of many sizes: then no other order of additions gives the same bits. */
static void fill_random(float *x, uint64_t n) {
    uint64_t state = 1;
    for (uint64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = ldexpf((float) (state >> 40) / (1 << 24), (int) (state >> 20 & 15));
    }
}

Test(llvm_scan, sums_are_the_same_bits_for_any_number_of_threads, .timeout = 300) {
    enum { N = (1 << 20) + 7 };
    static const int threads[] = {1, 2, 5};
    float *x = aligned_alloc(256, N * 4 + 4096 - N * 4 % 256), *y[3];
    fill_random(x, N);
    for (int aux = 0; aux <= JITC_AUX_REVERSE; aux += JITC_AUX_REVERSE) {
        for (int t = 0; t < 3; t++) {
            runner r;
            uint64_t params[16];
            jitc_program p = {0};
            scan s = {JIT_f32, JIT_REDUCE_ADD, (uint8_t) aux, false, JITC_PADDING};
            y[t] = aligned_alloc(256, N * 4 + 4096 - N * 4 % 256);
            cr_assert(runner_init_threads(&r, NULL, threads[t]));
            build_scan(&p, &s, x, y[t], params);
            jitc_kernel *k = runner_load(&r, &p, 2);
            for (int round = 0; round < 5; round++) {
                memset(y[t], 0, N * 4);
                runner_launch(&r, k, &p, N, params);
                cr_assert_eq(memcmp(y[0], y[t], N * 4), 0, "%d threads", threads[t]);
            }
            r.b->kernel_destroy(r.b, k);
            jitc_program_finish(&p);
            runner_finish(&r);
        }
        long double sum = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint64_t at = aux ? N - 1 - i : i;
            sum += (long double) x[at];
            long double error = (long double) y[0][at] - sum;
            cr_assert_lt(error < 0 ? -error : error, 4e-6L * (sum + 1), "%lu", i);
        }
        for (int t = 0; t < 3; t++)
            free(y[t]);
    }
    free(x);
}

/* Compressing. */

typedef struct compression {
    jit_dtype type;  /* of the numbers */
    unsigned one_in; /* so many lanes is true; 0: none */
    bool part;
    size_t padding;
} compression;

static bool is_true(const compression *c, uint64_t i) {
    return c->one_in && ((i * 0x9e3779b97f4a7c15u) >> 40) % c->one_in == 0;
}

static void check_numbers(const compression *c, const void *out, uint64_t n, uint64_t count,
                          const char *isa) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < n; i++)
        if (is_true(c, i))
            cr_assert_eq(read_element(c->type, out, at++), i, "%s: %lu lanes, number %lu", isa, n,
                         at);
    if (c->part)
        cr_assert_eq(count, at, "%s: %lu lanes, %lu instead of %lu", isa, n, count, at);
    for (uint64_t i = at; i < n; i++)
        cr_assert_eq(read_element(JIT_u8, (const char *) out + i * jitc_dtypes[c->type].bytes, 0),
                     0xa5, "%s: behind the last number", isa);
}

static void run_compression(runner *r, const compression *c, int level, const char *isa) {
    static const uint64_t sizes[] = {1, 63, 64, 65, 1000, 16384, 16385, SEVERAL};
    jitc_kernel *k = NULL;
    jitc_program p = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t params[16], n = sizes[i], count = 0;
        size_t bytes = n + c->padding, room = n * jitc_dtypes[c->type].bytes;
        uint8_t *in = guarded_alloc(bytes);
        void *out = guarded_alloc(room);
        for (uint64_t lane = 0; lane < bytes; lane++)
            in[lane] = lane >= n || is_true(c, lane);
        memset(out, 0xa5, room);
        jitc_program_clear(&p);
        p.head.shape = JITC_SHAPE_COMPRESS;
        p.head.flags = c->padding ? 0 : JITC_PROGRAM_TAIL;
        uint32_t v = add_data(&p, JIT_bool, in, params);
        uint32_t to = add_param(&p, (uintptr_t) out, params);
        uint32_t counted = c->part ? add_param(&p, (uintptr_t) &count, params) : 0;
        add_flagged(&p, (jitc_inst) {.op = JITC_OP_compress,
                                     .type = (uint8_t) c->type,
                                     .aux = c->part ? JITC_AUX_PART : 0,
                                     .a = v,
                                     .b = to,
                                     .c = counted});
        add_scratch(&p, params);
        k = k ? k : runner_load(r, &p, level);
        runner_launch(r, k, &p, n, params);
        check_numbers(c, out, n, count, isa);
        guarded_free(in, bytes);
        guarded_free(out, room);
    }
    r->b->kernel_destroy(r->b, k);
    jitc_program_finish(&p);
}

Test(llvm_scan, numbers_of_what_is_true) {
    static const unsigned densities[] = {0, 1, 2, 100};
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init_threads(&r, runner_isas[i], 1 + i))
            continue;
        for (int d = 0; d < 4; d++) {
            compression c = {.type = (d + i) % 2 ? JIT_u32 : JIT_u64,
                             .one_in = densities[d],
                             .part = d != 3,
                             .padding = (d / 2 + i) % 2 ? JITC_PADDING : 0};
            run_compression(&r, &c, 2 * (d % 2), runner_isas[i]);
        }
        runner_finish(&r);
    }
}
