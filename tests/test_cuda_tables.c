/* test_cuda_tables.c: kernels whose parameters lie in memory, in a table that is uploaded before
 * the launch: a table is written anew, or freed, behind the launch that reads it. Each kernel here
 * has a table of other values, so that one which reads another's gives another result. */
#include "cuda_foreign.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdlib.h>

enum {
    MANY = 601,     /* parameters, more than a launch takes; odd, as the first one counts then */
    MORE = 8201,    /* for which the table of MANY is too small */
    TABLES = 6,     /* of a stream */
    PIECE = 1 << 19 /* bytes of pinned memory */
};

static cuda_world w;

static void start(void) {
    setenv("SIMCUDA_VERSION", "12000", 1); /* where 4 KiB are many, and kernels so short */
    w = cuda_world_simulated();
    support_init();
    ASSERT_OK(jit_set_option("kernel_ops", "100000"));
}
TestSuite(cuda_tables, .init = start, .fini = support_shutdown, .timeout = 120);

/* A kernel with `count` parameters. The same one for each `first`: there are no zeros, which need
 * no kernel to be subtracted from. */
static jit_var make_chain(size_t lanes, int count, int first) {
    cr_assert(lanes > 1 && first > 0);
    jit_scope_push();
    jit_var v = jit_cast(jit_counter(JIT_CUDA, lanes), JIT_f32);
    for (int k = 0; k < count; ++k)
        v = jit_sub(jit_f32(JIT_CUDA, (float) (first + k)), v);
    ASSERT_VAR(v);
    ASSERT_OK(jit_scope_pop(1, &v));
    return v;
}

static void expect_chain(jit_var v, size_t lanes, int count, int first) {
    float got[64];
    ASSERT_OK(jit_read(v, got));
    for (size_t i = 0; i < lanes; ++i) {
        float want = (float) i;
        for (int k = 0; k < count; ++k)
            want = (float) (first + k) - want;
        cr_assert_eq(got[i], want, "chain from %d, lane %zu: %g, not %g", first, i, (double) got[i],
                     (double) want);
    }
    jit_unref(v);
}

/* Kernels of `count` parameters, `kernels` of them, in one evaluation. */
static void begin_chains(jit_var *v, int kernels, int count) {
    for (int i = 0; i < kernels; ++i) {
        v[i] = make_chain((size_t) i + 2, count, i + 1);
        ASSERT_OK(jit_schedule(v[i]));
    }
    ASSERT_OK(jit_eval());
}

static void end_chains(jit_var *v, int kernels, int count) {
    for (int i = 0; i < kernels; ++i)
        expect_chain(v[i], (size_t) i + 2, count, i + 1);
}

/* Our stream goes no further. */
static void close_gate(gate *g) {
    foreign_enter(0);
    foreign_close(g, jit_cuda_stream());
    foreign_leave(0);
}

/* The driver may take its time for the memory of the first. */
Test(cuda_tables, a_new_one_is_written_after_its_allocation) {
    static const float zeros[2];
    jit_unref(jit_from_host(JIT_CUDA, JIT_f32, zeros, 2)); /* memory for the result is there */
    uint64_t asked = w.calls("cuStreamQuery");
    jit_var v = make_chain(2, MANY, 1);
    w.fail("cuStreamQuery", 1, CUDA_ERROR_NOT_READY);
    ASSERT_OK(jit_var_eval(v));
    cr_assert_eq(w.calls("cuStreamQuery"), asked + 1, "the table's memory only");
    expect_chain(v, 2, MANY, 1);
}

/* They are held back until the last is there, with their tables, which are more than there are. */
Test(cuda_tables, kernels_of_one_evaluation_have_one_each) {
    enum { KERNELS = 2 * TABLES + 1 };
    jit_var v[KERNELS];
    begin_chains(v, KERNELS, MANY);
    end_chains(v, KERNELS, MANY);
}

/* The device has not got to the first of them when the last is queued: nothing of it was copied out
 * of the pinned memory, of which they need more than a piece. */
Test(cuda_tables, kernels_that_wait_keep_theirs) {
    enum { KERNELS = PIECE / (MANY * 8) + 8 };
    static gate g;
    jit_var v[KERNELS], one = make_chain(2, MANY, 1);
    expect_chain(one, 2, MANY, 1); /* with the gate closed it could not be loaded */
    close_gate(&g);
    for (int i = 0; i < KERNELS; ++i) {
        v[i] = make_chain(2, MANY, i + 1);
        ASSERT_OK(jit_var_eval(v[i]));
    }
    foreign_open(&g);
    for (int i = 0; i < KERNELS; ++i)
        expect_chain(v[i], 2, MANY, i + 1);
}

static void *load_kernels(void *context) {
    jit_var v[TABLES];
    begin_chains(v, TABLES, MANY);
    end_chains(v, TABLES, MANY);
    begin_chains(v, 1, MORE);
    end_chains(v, 1, MORE);
    return context;
}

/* All tables are in use and too small: the one in whose place the new one comes is freed. */
Test(cuda_tables, a_larger_one_takes_the_place_of_one_that_is_over) {
    static gate g;
    foreign_opener o;
    pthread_t thread;
    jit_var v[TABLES], large;
    jit_cuda_stream(); /* not that of the other thread, with its tables */
    cr_assert_eq(pthread_create(&thread, NULL, load_kernels, NULL), 0);
    pthread_join(thread, NULL);
    close_gate(&g);
    begin_chains(v, TABLES, MANY);
    foreign_open_at_wait(&o, &g, &w);
    begin_chains(&large, 1, MORE);
    foreign_opener_end(&o);
    end_chains(v, TABLES, MANY);
    end_chains(&large, 1, MORE);
}
