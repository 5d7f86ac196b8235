/* test_llvm_kernel.c: loading, streams and the LLVM library of the CPU backend. */
#include "llvm_run.h"
#include "llvm/loader.h"
#include "llvm/machine.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/** x + literal. */
static void build_sum(jitc_program *p, const void *in, void *out, uint64_t *params) {
    uint32_t x = add_data(p, JIT_i32, in, params);
    uint32_t sum = add(p, JITC_OP_add, JIT_i32, x, add_literal(p, JIT_i32, 5, params), 0);
    add_store(p, JIT_i32, sum, out, params);
}
static void compile_program(runner *r, const jitc_program *p, int level, jitc_blob *code) {
    jitc_source *s;
    cr_assert_eq(r->b->lower(r->b, 0, p, &s), JIT_OK);
    cr_assert_eq(r->b->compile(r->b, s, level, code), JIT_OK, "%s", jit_error());
    r->b->source_destroy(r->b, s);
}

/* Objects. */

static uint32_t next_random(uint32_t *state) {
    return *state = *state * 1664525u + 1013904223u, *state >> 8;
}

/** A kernel with constants, a call and a table of symbols. */
static void compile_rich(runner *r, jitc_blob *code) {
    jitc_program p = {.head.flags = JITC_PROGRAM_TAIL};
    uint64_t params[8];
    uint32_t x = add_data(&p, JIT_f32, NULL, params);
    uint32_t m = add(&p, JITC_OP_mod, JIT_f32, x, add_baked(&p, JIT_f32, 0x3fc00000), 0);
    add_store(&p, JIT_f32, add(&p, JITC_OP_round, JIT_f32, m, 0, 0), NULL, params);
    compile_program(r, &p, 0, code);
    jitc_program_finish(&p);
}

Test(llvm_kernel, damaged_objects_are_refused_or_load, .timeout = 300) {
    runner r;
    jitc_blob code;
    uint32_t state = 1;
    jitc_program p = {0};
    cr_assert(runner_init(&r, NULL, NULL));
    compile_rich(&r, &code);
    int refused = 0;
    for (int round = 0; round < 20000; round++) {
        jitc_blob broken = {malloc(code.size), code.size};
        memcpy(broken.data, code.data, code.size);
        if (round % 4 == 0)
            broken.size = next_random(&state) % code.size;
        for (uint32_t k = 0; k < 1 + next_random(&state) % 4; k++)
            ((uint8_t *) broken.data)[next_random(&state) % code.size] =
                (uint8_t) next_random(&state);
        void *exact = malloc(broken.size ? broken.size : 1); /* so that sanitizers see its end */
        memcpy(exact, broken.data, broken.size);
        free(broken.data);
        broken.data = exact;
        jitc_kernel *k;
        jit_status status = r.b->load(r.b, 0, &p, &broken, &k);
        if (status == JIT_OK) {
            r.b->kernel_destroy(r.b, k);
        } else {
            ++refused;
            cr_assert(status == JIT_COMPILE_FAILED || status == JIT_OUT_OF_MEMORY);
            jit_error_clear();
        }
        free(exact);
    }
    cr_assert_gt(refused, 5000);
    free(code.data);
    runner_finish(&r);
}

static void *find_nothing(void *context, const char *name) {
    (void) context, (void) name;
    return NULL;
}

Test(llvm_kernel, unknown_functions_and_entries_are_refused) {
    runner r;
    jitc_blob code;
    jitc_code loaded;
    jitc_resolver nothing = {find_nothing, NULL};
    cr_assert(runner_init(&r, NULL, NULL));
    compile_rich(&r, &code);
    cr_assert_eq(jitc_code_load(&code, "kernel", &nothing, &loaded), JIT_COMPILE_FAILED);
    cr_assert_not_null(strstr(jit_error(), "jitc_lanes_fmod_f32"), "%s", jit_error());
    jit_error_clear();
    free(code.data);
    int32_t a[64], b[64];
    uint64_t params[8];
    jitc_program p = {0};
    build_sum(&p, a, b, params);
    compile_program(&r, &p, 0, &code);
    cr_assert_eq(jitc_code_load(&code, "other", &nothing, &loaded), JIT_COMPILE_FAILED);
    jit_error_clear();
    cr_assert_eq(jitc_code_load(&code, "kernel", &nothing, &loaded), JIT_OK);
    jitc_code_finish(&loaded);
    free(code.data);
    jitc_program_finish(&p);
    runner_finish(&r);
}

Test(llvm_kernel, code_is_the_same_each_time) {
    runner r;
    jitc_blob first, second;
    cr_assert(runner_init(&r, NULL, NULL));
    compile_rich(&r, &first);
    compile_rich(&r, &second);
    cr_assert_eq(first.size, second.size);
    cr_assert_eq(memcmp(first.data, second.data, first.size), 0);
    free(first.data);
    free(second.data);
    runner_finish(&r);
}

/* The library and the machine. */

Test(llvm_kernel, missing_library_is_named) {
    jitc_options o;
    jitc_backend *b;
    jitc_options_init(&o);
    strcpy(o.llvm_library, "/nowhere/libLLVM-99.so");
    cr_assert_eq(jitc_llvm_backend_create(&o, &b), JIT_UNAVAILABLE);
    cr_assert_not_null(strstr(jit_error(), "/nowhere/libLLVM-99.so"));
}

Test(llvm_kernel, library_without_the_functions_fails_at_the_first_compilation) {
    jitc_options o;
    jitc_backend *b;
    jitc_source *s;
    jitc_blob code;
    jitc_program p = {0};
    jitc_options_init(&o);
    strcpy(o.llvm_library, "libz.so.1");
    if (jitc_llvm_backend_create(&o, &b) != JIT_OK)
        cr_skip("no libz");
    cr_assert_eq(b->lower(b, 0, &p, &s), JIT_OK);
    cr_assert_eq(b->compile(b, s, 0, &code), JIT_UNAVAILABLE);
    cr_assert_not_null(strstr(jit_error(), "LLVMContextCreate"), "%s", jit_error());
    b->source_destroy(b, s);
    b->destroy(b);
}

Test(llvm_kernel, instruction_sets_are_checked) {
    jitc_options o;
    jitc_backend *b;
    const jitc_target *low, *best;
    jitc_options_init(&o);
    strcpy(o.llvm_isa, "sparc");
    cr_assert_eq(jitc_llvm_backend_create(&o, &b), JIT_INVALID_ARGUMENT);
    jit_error_clear();
    runner r, all;
    cr_assert(runner_init(&r, NULL, "x86-64"));
    cr_assert(runner_init(&all, NULL, NULL));
    r.b->target(r.b, 0, &low);
    all.b->target(all.b, 0, &best);
    cr_assert_not_null(strstr(low->text, "x86-64 "));
    jitc_isa isa;
    cr_assert_eq(jitc_machine_isa("", &isa), JIT_OK);
    if (isa != JITC_ISA_V1)
        cr_assert_neq(strcmp(low->text, best->text), 0);
    runner_finish(&r);
    runner_finish(&all);
}

Test(llvm_kernel, source_prints_as_ir_and_as_assembly) {
    runner r;
    jitc_program p = {0};
    jitc_source *s;
    int32_t a[64];
    uint64_t params[8];
    cr_assert(runner_init(&r, NULL, NULL));
    build_sum(&p, a, a, params);
    cr_assert_eq(r.b->lower(r.b, 0, &p, &s), JIT_OK);
    char *text = r.b->source_print(s, -1);
    cr_assert_not_null(strstr(text, "define void @kernel("));
    free(text);
    text = r.b->source_print(s, 2);
    cr_assert_not_null(strstr(text, "vpadd"), "%s", text);
    free(text);
    r.b->source_destroy(r.b, s);
    jitc_program_finish(&p);
    runner_finish(&r);
}

/* Kernels in use. */

Test(llvm_kernel, better_code_takes_over_between_launches) {
    runner r;
    jitc_program p = {0};
    jitc_blob quick, good;
    jitc_kernel *k;
    enum { N = 100000 };
    int32_t *x = calloc(N + 128, 4);
    uint64_t params[8], number = 0;
    cr_assert(runner_init(&r, NULL, NULL));
    build_sum(&p, x, x, params);
    compile_program(&r, &p, 0, &quick);
    compile_program(&r, &p, 2, &good);
    cr_assert_eq(r.b->load(r.b, 0, &p, &quick, &k), JIT_OK);
    for (int i = 0; i < 100; i++) {
        jitc_launch_args a = {.lanes = N, .params = params, .count = p.head.params};
        cr_assert_eq(r.b->launch(r.s, k, &a, &number), JIT_OK);
        if (i % 10 == 5)
            cr_assert_eq(r.b->reload(r.b, k, &good), JIT_OK);
    }
    cr_assert_eq(r.b->wait(r.s, number), JIT_OK);
    for (int i = 0; i < N; i++)
        cr_assert_eq(x[i], 500);
    cr_assert_eq(k->work, (uint64_t) 100 * N * k->operations);
    r.b->kernel_destroy(r.b, k);
    free(quick.data);
    free(good.data);
    free(x);
    jitc_program_finish(&p);
    runner_finish(&r);
}

static void *compile_many(void *context) {
    runner *r = context;
    for (int i = 0; i < 20; i++) {
        jitc_blob code;
        compile_rich(r, &code);
        free(code.data);
    }
    return NULL;
}

Test(llvm_kernel, threads_compile_side_by_side) {
    runner r;
    pthread_t threads[4];
    cr_assert(runner_init(&r, NULL, NULL));
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_many, &r), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    runner_finish(&r);
}

/* Streams and memory. */

static void note_call(void *context) {
    ++*(int *) context;
}

Test(llvm_kernel, copies_calls_and_launches_keep_their_order) {
    enum { N = 1 << 20 };
    runner r;
    void *a, *b;
    jitc_program p = {0};
    jitc_blob code;
    jitc_kernel *k;
    uint64_t params[8], number = 0;
    int calls = 0;
    int32_t *host = malloc(N * 4), *back = malloc(N * 4);
    cr_assert(runner_init(&r, NULL, NULL));
    cr_assert_eq(r.b->alloc(r.b, 0, N * 4 + JITC_PADDING, &a), JIT_OK);
    cr_assert_eq(r.b->alloc(r.b, 0, N * 4 + JITC_PADDING, &b), JIT_OK);
    cr_assert_eq((uintptr_t) a % 256, 0);
    build_sum(&p, a, b, params);
    compile_program(&r, &p, 0, &code);
    cr_assert_eq(r.b->load(r.b, 0, &p, &code, &k), JIT_OK);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N; i++)
            host[i] = i + round;
        jitc_launch_args args = {.lanes = N, .params = params, .count = p.head.params};
        cr_assert_eq(r.b->upload(r.s, a, host, N * 4, &number), JIT_OK);
        r.s->queued = number;
        host[5] = -1; /* the source may change */
        cr_assert_eq(r.b->launch(r.s, k, &args, &number), JIT_OK);
        cr_assert_eq(r.b->call(r.s, note_call, &calls, &number), JIT_OK);
        cr_assert_eq(r.b->copy(r.s, a, b, N * 4, &number), JIT_OK);
        r.s->queued = number;
        cr_assert_eq(r.b->launch(r.s, k, &args, &number), JIT_OK);
        r.s->queued = number;
        if (round % 2)
            cr_assert_eq(r.b->upload(r.s, a, host, 64, &number), JIT_OK);
        r.s->queued = number;
        cr_assert_eq(r.b->download(r.s, back, b, N * 4), JIT_OK);
        cr_assert(r.b->done(r.s, number));
        cr_assert_eq(calls, round + 1);
        for (int i = 0; i < N; i++)
            cr_assert_eq(back[i], i + round + 10);
    }
    r.b->kernel_destroy(r.b, k);
    free(code.data);
    free(host);
    free(back);
    r.b->free(r.b, 0, a, N * 4 + JITC_PADDING);
    r.b->free(r.b, 0, b, N * 4 + JITC_PADDING);
    jitc_program_finish(&p);
    runner_finish(&r);
}

Test(llvm_kernel, streams_wait_for_each_other) {
    enum { N = 1 << 18 };
    runner r;
    jitc_stream *other;
    int32_t *x = calloc(N + 128, 4);
    jitc_program p = {0};
    jitc_blob code;
    jitc_kernel *k;
    uint64_t params[8], number;
    cr_assert(runner_init(&r, NULL, NULL));
    cr_assert_eq(r.b->stream_create(r.b, 0, &other), JIT_OK);
    other->backend = r.b;
    build_sum(&p, x, x, params);
    compile_program(&r, &p, 0, &code);
    cr_assert_eq(r.b->load(r.b, 0, &p, &code, &k), JIT_OK);
    jitc_stream *s[2] = {r.s, other};
    for (int i = 0; i < 50; i++) {
        jitc_launch_args a = {.lanes = N, .params = params, .count = p.head.params};
        jitc_stream *now = s[i % 2], *next = s[(i + 1) % 2];
        cr_assert_eq(r.b->launch(now, k, &a, &number), JIT_OK);
        now->queued = number;
        cr_assert_eq(r.b->stream_wait(next, now, number), JIT_OK);
    }
    for (int i = 0; i < 2; i++)
        cr_assert_eq(r.b->wait(s[i], s[i]->queued), JIT_OK);
    for (int i = 0; i < N; i++)
        cr_assert_eq(x[i], 250);
    r.b->kernel_destroy(r.b, k);
    r.b->stream_destroy(other);
    free(code.data);
    free(x);
    jitc_program_finish(&p);
    runner_finish(&r);
}

Test(llvm_kernel, large_blocks_lie_on_large_pages) {
    runner r;
    void *p;
    size_t bytes = ((size_t) 5 << 20) + 512;
    cr_assert(runner_init(&r, NULL, NULL));
    cr_assert_eq(r.b->alloc(r.b, 0, bytes, &p), JIT_OK);
    cr_assert_eq((uintptr_t) p % (1 << 21), 0);
    memset(p, 1, bytes);
    r.b->free(r.b, 0, p, bytes);
    cr_assert_eq(r.b->alloc(r.b, 0, (size_t) 1 << 60, &p), JIT_OUT_OF_MEMORY);
    runner_finish(&r);
}
