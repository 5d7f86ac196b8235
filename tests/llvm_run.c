/* llvm_run.c: programs run on the CPU backend, for its tests. */
#include "llvm_run.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_PARAMS = 128 };

const char *const runner_isas[RUNNER_ISAS] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

static bool init(runner *r, const jitc_options *o) {
    if (jitc_llvm_backend_create(o, &r->b) != JIT_OK) {
        jit_error_clear();
        return false;
    }
    cr_assert_null(jitc_backend_missing_slot(r->b));
    cr_assert_eq(r->b->stream_create(r->b, 0, &r->s), JIT_OK);
    r->s->backend = r->b;
    return true;
}

bool runner_init(runner *r, const char *library, const char *isa) {
    jitc_options o;
    jitc_options_init(&o);
    snprintf(o.llvm_library, sizeof o.llvm_library, "%s", library ? library : o.llvm_library);
    snprintf(o.llvm_isa, sizeof o.llvm_isa, "%s", isa ? isa : "");
    return init(r, &o);
}

bool runner_init_threads(runner *r, const char *isa, int threads) {
    jitc_options o;
    jitc_options_init(&o);
    snprintf(o.llvm_isa, sizeof o.llvm_isa, "%s", isa ? isa : "");
    o.num_threads = threads;
    return init(r, &o);
}

void runner_finish(runner *r) {
    r->b->stream_destroy(r->s);
    r->b->destroy(r->b);
}

void runner_for_each_isa(void (*check)(runner *r)) {
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init(&r, NULL, runner_isas[i]))
            continue;
        check(&r);
        runner_finish(&r);
    }
}

jitc_kernel *runner_load(runner *r, const jitc_program *p, int level) {
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    const char *wrong = jitc_program_invalid(p);
    cr_assert_null(wrong, "%s", wrong);
    cr_assert_eq(r->b->lower(r->b, 0, p, &source), JIT_OK, "%s", jit_error());
    cr_assert_eq(r->b->compile(r->b, source, level, &code), JIT_OK, "%s", jit_error());
    cr_assert_eq(r->b->load(r->b, 0, p, &code, &k), JIT_OK, "%s", jit_error());
    free(code.data);
    r->b->source_destroy(r->b, source);
    return k;
}

void runner_launch(runner *r, jitc_kernel *k, const jitc_program *p, uint64_t lanes,
                   const uint64_t *params) {
    uint64_t own[MOST_PARAMS], number;
    jitc_launch_args a = {.lanes = lanes, .params = params, .count = p->head.params};
    size_t bytes = (r->b->scratch(k, lanes) + 63) / 64 * 64; /* vectors in it are aligned */
    void *scratch = bytes ? guarded_alloc(bytes) : NULL;
    if (p->head.flags & JITC_PROGRAM_SCRATCH) {
        cr_assert_leq(p->head.params, MOST_PARAMS);
        memcpy(own, params, p->head.params * sizeof *own);
        a.params = own;
        memset(&own[p->head.scratch], 0, JITC_SCRATCH_PARAMS * sizeof *own);
        own[p->head.scratch] = (uintptr_t) scratch;
    }
    if (bytes)
        memset(scratch, 0xa5, bytes);
    cr_assert_eq(r->b->launch(r->s, k, &a, &number), JIT_OK, "%s", jit_error());
    memset(own, 0x5a, sizeof own); /* they were copied */
    jitc_store_release(&r->s->queued, number);
    cr_assert_eq(r->b->wait(r->s, number), JIT_OK);
    if (bytes)
        guarded_free(scratch, bytes);
}

void runner_run(runner *r, const jitc_program *p, int level, uint64_t lanes,
                const uint64_t *params) {
    jitc_kernel *k = runner_load(r, p, level);
    runner_launch(r, k, p, lanes, params);
    r->b->kernel_destroy(r->b, k);
}

enum { PAGE = 4096 };

static size_t guarded_pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

void *guarded_alloc(size_t bytes) {
    size_t used = guarded_pages(bytes);
    char *p = mmap(NULL, used + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq((void *) p, MAP_FAILED);
    cr_assert_eq(mprotect(p + used, PAGE, PROT_NONE), 0);
    return p + used - bytes;
}

void guarded_free(void *p, size_t bytes) {
    size_t used = guarded_pages(bytes);
    munmap((char *) p + bytes - used, used + PAGE);
}
