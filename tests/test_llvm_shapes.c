/* test_llvm_shapes.c: what combines lanes on the CPU, queued among other work, by many threads. */
#include "combining.h"
#include "llvm_run.h"
#include <criterion/criterion.h>
#include <string.h>

enum { N = 9 * 16384 + 77, ROUNDS = 6 };

/** A kernel with its parameters and, if it wants some, memory to work in. */
typedef struct job {
    jitc_program p;
    uint64_t params[24];
    jitc_kernel *k;
    void *scratch;
} job;

static void job_finish_build(job *j, runner *r) {
    add_scratch(&j->p, j->params);
    j->k = runner_load(r, &j->p, 0);
    size_t bytes = r->b->scratch(j->k, N);
    j->scratch = aligned_alloc(256, (bytes + 256) / 256 * 256);
    j->params[j->p.head.scratch] = (uintptr_t) j->scratch;
}
static uint64_t job_queue(job *j, runner *r, jitc_stream *s) {
    uint64_t number = 0;
    jitc_launch_args a = {.lanes = N, .params = j->params, .count = j->p.head.params};
    cr_assert_eq(r->b->launch(s, j->k, &a, &number), JIT_OK);
    jitc_store_release(&s->queued, number);
    return number;
}
static void job_finish(job *j, runner *r) {
    r->b->kernel_destroy(r->b, j->k); /* waits for what has been queued */
    free(j->scratch);
    jitc_program_finish(&j->p);
}

static void *padded(size_t elements, size_t bytes) {
    return aligned_alloc(256, (elements * bytes + JITC_PADDING + 255) / 256 * 256);
}

static void init_scan(job *j, runner *r, const uint32_t *in, uint32_t *out, int aux) {
    *j = (job) {.p.head.shape = JITC_SHAPE_SCAN};
    uint32_t v = add_data(&j->p, JIT_u32, in, j->params);
    uint32_t to = add_param(&j->p, (uintptr_t) out, j->params);
    jitc_inst i = {.op = JITC_OP_prefix_reduce, .type = JIT_u32, .a = v, .b = to};
    i.aux = (uint8_t) (JIT_REDUCE_ADD | aux);
    add_flagged(&j->p, i);
    job_finish_build(j, r);
}

/** Lanes are combined with their numbers, so that it is seen if one is missing. */
static void init_sum(job *j, runner *r, const uint32_t *in, uint32_t *out) {
    *j = (job) {.p.head.shape = JITC_SHAPE_REDUCE};
    uint32_t v = add_data(&j->p, JIT_u32, in, j->params);
    uint32_t c = add(&j->p, JITC_OP_counter, JIT_u32, 0, 0, 0);
    v = add(&j->p, JITC_OP_xor, JIT_u32, v, c, 0);
    add_reduce(&j->p, JIT_REDUCE_ADD, v, out, j->params);
    add_reduce(&j->p, JIT_REDUCE_MAX, v, out + 1, j->params);
    job_finish_build(j, r);
}

static void init_odd(job *j, runner *r, const uint32_t *in, uint32_t *out, uint32_t *count) {
    *j = (job) {.p.head.shape = JITC_SHAPE_COMPRESS};
    uint32_t v = add_data(&j->p, JIT_u32, in, j->params);
    v = add(&j->p, JITC_OP_and, JIT_u32, v, add_baked(&j->p, JIT_u32, 1), 0);
    v = add(&j->p, JITC_OP_eq, JIT_bool, v, add_baked(&j->p, JIT_u32, 1), 0);
    uint32_t to = add_param(&j->p, (uintptr_t) out, j->params);
    uint32_t counted = add_param(&j->p, (uintptr_t) count, j->params);
    add_flagged(&j->p, (jitc_inst) {.op = JITC_OP_compress,
                                    .type = JIT_u32,
                                    .aux = JITC_AUX_PART,
                                    .a = v,
                                    .b = to,
                                    .c = counted});
    job_finish_build(j, r);
}

typedef struct arrays {
    uint32_t *x, *y, *z, *odd, sums[2], count;
} arrays;

/** What a round leaves, one step after the other. */
static void step_by_hand(const arrays *a, arrays *want) {
    uint32_t before = 0, sum = 0;
    want->sums[0] = want->sums[1] = want->count = 0;
    for (uint32_t i = 0; i < N; i++) {
        want->y[i] = before;
        before += a->x[i];
    }
    for (uint32_t i = 0; i < N; i++) {
        uint32_t v = want->y[i] ^ i;
        want->sums[0] += v;
        want->sums[1] = v > want->sums[1] ? v : want->sums[1];
        if (want->y[i] & 1)
            want->odd[want->count++] = i;
    }
    for (uint32_t i = N; i-- > 0;)
        want->z[i] = sum += want->y[i];
}

static void arrays_init(arrays *a) {
    uint32_t **all[] = {&a->x, &a->y, &a->z, &a->odd};
    for (int i = 0; i < 4; i++) {
        *all[i] = padded(N, 4);
        memset(*all[i], 0, N * 4);
    }
}
static void arrays_finish(arrays *a) {
    free(a->x);
    free(a->y);
    free(a->z);
    free(a->odd);
}

static void check_arrays(const arrays *a, const arrays *want, int round) {
    cr_assert_eq(memcmp(a->y, want->y, N * 4), 0, "scan, round %d", round);
    cr_assert_eq(memcmp(a->z, want->z, N * 4), 0, "scan in reverse, round %d", round);
    cr_assert_eq(a->count, want->count, "round %d", round);
    cr_assert_eq(memcmp(a->odd, want->odd, want->count * 4), 0, "numbers, round %d", round);
    cr_assert_eq(a->sums[0], want->sums[0], "sum, round %d", round);
    cr_assert_eq(a->sums[1], want->sums[1], "maximum, round %d", round);
}

/** Each kernel reads what the one before has written; nobody waits in between. One of them is on
 * another stream. */
static void run_rounds(int threads) {
    runner r;
    arrays a, want;
    job jobs[4];
    jitc_stream *other;
    cr_assert(runner_init_threads(&r, NULL, threads));
    cr_assert_eq(r.b->stream_create(r.b, 0, &other), JIT_OK);
    other->backend = r.b;
    arrays_init(&a);
    arrays_init(&want);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < N; i++)
            a.x[i] = i * 2654435761u >> (round * 3 % 20 + 5);
        init_scan(&jobs[0], &r, a.x, a.y, JITC_AUX_EXCLUSIVE);
        init_sum(&jobs[1], &r, a.y, a.sums);
        init_odd(&jobs[2], &r, a.y, a.odd, &a.count);
        init_scan(&jobs[3], &r, a.y, a.z, JITC_AUX_REVERSE);
        uint64_t scanned = job_queue(&jobs[0], &r, r.s);
        cr_assert_eq(r.b->stream_wait(other, r.s, scanned), JIT_OK);
        uint64_t behind = job_queue(&jobs[3], &r, other);
        job_queue(&jobs[1], &r, r.s);
        job_queue(&jobs[2], &r, r.s);
        for (int i = 0; i < 4; i++)
            job_finish(&jobs[i], &r);
        cr_assert_eq(r.b->wait(r.s, r.s->queued), JIT_OK);
        cr_assert_eq(r.b->wait(other, behind), JIT_OK);
        step_by_hand(&a, &want);
        check_arrays(&a, &want, round);
    }
    arrays_finish(&a);
    arrays_finish(&want);
    r.b->stream_destroy(other);
    runner_finish(&r);
}

Test(llvm_shapes, keep_the_order_of_streams, .timeout = 300) {
    run_rounds(1);
    run_rounds(2);
    run_rounds(5);
}
