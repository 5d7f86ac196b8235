/* test_cache.c: what the kernel cache compiles, and how often.  Layer: tests.
 *
 * The backend here is a complete one with a small compiler of its own: machine code is a copy of
 * the program with the level, and loading checks that it is the right one. It counts, and it can be
 * told to be slow or to fail. */
#include "cache/cache.h"
#include "cache/disk.h"
#include "codegen/codegen.h"
#include "core/log.h"
#include "folder.h"
#include <criterion/criterion.h>
#include <sys/wait.h>
#include <time.h>

/* ---- The backend ---- */

typedef struct fake_kernel {
    jitc_kernel head;
    jitc_blob code;
} fake_kernel;

struct jitc_source {
    const jitc_program *program;
};

typedef struct fake {
    jitc_backend head;
    jitc_target target[2]; /* of two devices */
    atomic_int lowered, compiled, reloaded, destroyed, loaded;
    atomic_int sources; /* alive */
    atomic_int at_once, most_at_once;
    atomic_int last_level;
    /* what it is told to do */
    atomic_int meet;       /* compile() waits until so many are in it */
    atomic_int fail_count; /* the number of compilations that fail from now on */
    atomic_int fail_op;    /* a program whose first instruction has this `a` fails */
    atomic_int fail_loads;
    atomic_int pause_us;
    atomic_bool hold; /* compile() waits while this is set */
} fake;

static void sleep_us(long us) {
    nanosleep(&(struct timespec) {us / 1000000, us % 1000000 * 1000}, NULL);
}

static fake *fake_of(jitc_backend *b) {
    return (fake *) b;
}

static jit_status fake_device_count(jitc_backend *b, int *out) {
    (void) b;
    *out = 2;
    return JIT_OK;
}

static jit_status fake_target(jitc_backend *b, int device, const jitc_target **out) {
    *out = &fake_of(b)->target[device];
    return JIT_OK;
}

/* The cache queues nothing and needs no memory of the device. */
static jit_status unused(void) {
    return jitc_fail(JIT_UNSUPPORTED, "not a matter of the cache");
}
static jit_status fake_alloc(jitc_backend *b, int device, size_t bytes, void **out) {
    (void) b, (void) device, (void) bytes, (void) out;
    return unused();
}
static void fake_free(jitc_backend *b, int device, void *pointer, size_t bytes) {
    (void) b, (void) device, (void) pointer, (void) bytes;
}
static jit_status fake_stream_create(jitc_backend *b, int device, jitc_stream **out) {
    (void) b, (void) device, (void) out;
    return unused();
}
static void fake_stream_destroy(jitc_stream *s) {
    (void) s;
}
static jit_status fake_launch(jitc_stream *s, jitc_kernel *k, const jitc_launch_args *a,
                              uint64_t *number) {
    (void) s, (void) k, (void) a, (void) number;
    return unused();
}
static jit_status fake_copy(jitc_stream *s, void *to, const void *from, size_t bytes,
                            uint64_t *number) {
    (void) s, (void) to, (void) from, (void) bytes, (void) number;
    return unused();
}
static jit_status fake_download(jitc_stream *s, void *to, const void *from, size_t bytes) {
    (void) s, (void) to, (void) from, (void) bytes;
    return unused();
}
static jit_status fake_call(jitc_stream *s, void (*function)(void *), void *context,
                            uint64_t *number) {
    (void) s, (void) function, (void) context, (void) number;
    return unused();
}
static jit_status fake_stream_wait(jitc_stream *s, jitc_stream *other, uint64_t n) {
    (void) s, (void) other, (void) n;
    return unused();
}
static bool fake_done(jitc_stream *s, uint64_t n) {
    (void) s, (void) n;
    return true;
}
static jit_status fake_wait(jitc_stream *s, uint64_t n) {
    (void) s, (void) n;
    return unused();
}

static jit_status fake_lower(jitc_backend *b, int device, const jitc_program *p,
                             jitc_source **out) {
    (void) device;
    TRY(jitc_calloc(1, sizeof **out, (void **) out));
    (*out)->program = p;
    jitc_add_relaxed(&fake_of(b)->lowered, 1);
    jitc_add_relaxed(&fake_of(b)->sources, 1);
    return JIT_OK;
}

static size_t code_bytes(const jitc_program *p) {
    return p->head.count * sizeof *p->inst;
}

static void enter_compiler(fake *f) {
    int now = jitc_add_relaxed(&f->at_once, 1) + 1;
    int most = jitc_load_relaxed(&f->most_at_once);
    while (now > most && !jitc_compare_exchange(&f->most_at_once, &most, now)) {
    }
    /* ten seconds, for a machine that is very busy; it then is a failure of the test */
    for (int i = 0; i < 100000 && jitc_load_relaxed(&f->most_at_once) < jitc_load_relaxed(&f->meet);
         i++)
        sleep_us(100);
    sleep_us(jitc_load_relaxed(&f->pause_us));
    while (jitc_load_relaxed(&f->hold))
        sleep_us(100);
}

static bool takes_failure(fake *f) {
    int left = jitc_load_relaxed(&f->fail_count);
    while (left > 0 && !jitc_compare_exchange(&f->fail_count, &left, left - 1)) {
    }
    return left > 0;
}

/* Code: level, head, instructions. */
static jit_status translate(const jitc_program *p, int level, jitc_blob *out) {
    out->size = sizeof level + sizeof p->head + code_bytes(p);
    TRY(jitc_calloc(1, out->size, &out->data));
    char *to = out->data;
    memcpy(to, &level, sizeof level);
    memcpy(to + sizeof level, &p->head, sizeof p->head);
    memcpy(to + sizeof level + sizeof p->head, p->inst, code_bytes(p));
    return JIT_OK;
}

static jit_status fake_compile(jitc_backend *b, jitc_source *s, int level, jitc_blob *out) {
    fake *f = fake_of(b);
    int number = jitc_add_relaxed(&f->compiled, 1);
    jitc_store_relaxed(&f->last_level, level);
    enter_compiler(f);
    int fail_op = jitc_load_relaxed(&f->fail_op);
    jit_status status = JIT_OK;
    if (takes_failure(f) || (fail_op && s->program->inst[0].a == (uint32_t) fail_op))
        status = jitc_fail(JIT_COMPILE_FAILED, "told to fail in compilation %d", number);
    else
        status = translate(s->program, level, out);
    jitc_add_relaxed(&f->at_once, -1);
    return status;
}

static char *fake_source_print(jitc_source *s) {
    char *text = malloc(64);
    if (text)
        snprintf(text, 64, "source of %u instructions", s->program->head.count);
    return text;
}

static void fake_source_destroy(jitc_backend *b, jitc_source *s) {
    jitc_add_relaxed(&fake_of(b)->sources, -1);
    free(s);
}

static jit_status copy_blob(const jitc_blob *from, jitc_blob *to) {
    to->size = from->size;
    TRY(jitc_calloc(1, from->size, &to->data));
    memcpy(to->data, from->data, from->size);
    return JIT_OK;
}

static bool is_code_of(const jitc_blob *code, const jitc_program *p) {
    const char *from = code->data;
    return code->size == sizeof(int) + sizeof p->head + code_bytes(p) &&
           !memcmp(from + sizeof(int), &p->head, sizeof p->head) &&
           !memcmp(from + sizeof(int) + sizeof p->head, p->inst, code_bytes(p));
}

static jit_status fake_load(jitc_backend *b, int device, const jitc_program *p,
                            const jitc_blob *code, jitc_kernel **out) {
    (void) device;
    if (jitc_load_relaxed(&fake_of(b)->fail_loads) || !is_code_of(code, p))
        return jitc_fail(JIT_COMPILE_FAILED, "code that does not fit");
    fake_kernel *k;
    TRY(jitc_calloc(1, sizeof *k, (void **) &k));
    k->head.operations = p->head.count;
    jit_status status = copy_blob(code, &k->code);
    if (status != JIT_OK) {
        free(k);
        return status;
    }
    jitc_add_relaxed(&fake_of(b)->loaded, 1);
    *out = &k->head;
    return JIT_OK;
}

static jit_status fake_reload(jitc_backend *b, jitc_kernel *k, const jitc_blob *code) {
    fake_kernel *f = (fake_kernel *) k;
    jitc_blob fresh;
    TRY(copy_blob(code, &fresh));
    free(f->code.data);
    f->code = fresh;
    jitc_add_relaxed(&fake_of(b)->reloaded, 1);
    return JIT_OK;
}

static void fake_kernel_destroy(jitc_backend *b, jitc_kernel *k) {
    free(((fake_kernel *) k)->code.data);
    free(k);
    jitc_add_relaxed(&fake_of(b)->destroyed, 1);
}

static void fake_destroy(jitc_backend *b) {
    (void) b;
}

static void fake_init(fake *f) {
    *f = (fake) {.head = {.id = JIT_LLVM,
                          .name = "fake",
                          .levels = 1,
                          .device_count = fake_device_count,
                          .target = fake_target,
                          .alloc = fake_alloc,
                          .free = fake_free,
                          .stream_create = fake_stream_create,
                          .stream_destroy = fake_stream_destroy,
                          .launch = fake_launch,
                          .copy = fake_copy,
                          .upload = fake_copy,
                          .download = fake_download,
                          .call = fake_call,
                          .stream_wait = fake_stream_wait,
                          .done = fake_done,
                          .wait = fake_wait,
                          .lower = fake_lower,
                          .compile = fake_compile,
                          .source_print = fake_source_print,
                          .source_destroy = fake_source_destroy,
                          .load = fake_load,
                          .reload = fake_reload,
                          .kernel_destroy = fake_kernel_destroy,
                          .destroy = fake_destroy}};
    for (int i = 0; i < 2; i++)
        f->target[i] = (jitc_target) {.text = "fake compiler 1, fake isa", .lanes = 8};
    cr_assert_null(jitc_backend_missing_slot(&f->head));
}

/* ---- Programs, and a cache with its folder ---- */

/* Program `number`, of `count` instructions. */
static void program_make(jitc_program *p, uint32_t number, uint32_t count) {
    *p = (jitc_program) {.head = {.params = 2}};
    jitc_inst first = {.op = JITC_OP_data, .type = JIT_f32, .a = 0, .b = number};
    first.a = number;
    uint32_t index;
    cr_assert_eq(jitc_program_add(p, first, &index), JIT_OK);
    for (uint32_t i = 1; i < count; i++)
        cr_assert_eq(
            jitc_program_add(
                p,
                (jitc_inst) {.op = JITC_OP_add, .type = JIT_f32, .a = i - 1, .b = i * number % i},
                &index),
            JIT_OK);
}

typedef struct world {
    fake fake;
    jitc_options options;
    jitc_cache *cache;
    char folder[256];
} world;

static void world_open(world *w) {
    w->options = (jitc_options) {.cache_disk = true,
                                 .cache_limit = 1 << 28,
                                 .cache_entries = 1000,
                                 .llvm_level = -1,
                                 .num_threads = 1};
    snprintf(w->options.cache_dir, sizeof w->options.cache_dir, "%s", w->folder);
    cr_assert_eq(jitc_cache_create(&w->options, &w->cache), JIT_OK);
}

static void world_init(world *w) {
    fake_init(&w->fake);
    folder_make(w->folder);
    world_open(w);
}

/* A new process, as far as the cache can tell. */
static void world_restart(world *w) {
    jitc_cache_destroy(w->cache);
    world_open(w);
}

static void world_finish(world *w) {
    jitc_cache_destroy(w->cache);
    folder_remove(w->folder);
    cr_expect_eq(jitc_load_relaxed(&w->fake.sources), 0, "sources left");
    cr_expect_eq(jitc_load_relaxed(&w->fake.loaded), jitc_load_relaxed(&w->fake.destroyed),
                 "kernels left");
}

static jitc_cached *get_on(world *w, int device, uint32_t number, uint32_t count) {
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *k = NULL;
    program_make(&p, number, count);
    if (jitc_cache_get(w->cache, &w->fake.head, device, 1, &programs, &k) == JIT_OK)
        cr_assert(jitc_program_equal(k->program, &p) &&
                  is_code_of(&((fake_kernel *) k->kernel)->code, &p));
    else
        cr_assert_null(k);
    jitc_program_finish(&p);
    return k;
}

static jitc_cached *get(world *w, uint32_t number) {
    return get_on(w, 0, number, 10);
}

/* Get and give back. */
static void use(world *w, uint32_t number) {
    jitc_cached *k = get(w, number);
    cr_assert(k, "%s", jit_error());
    jitc_cache_release(w->cache, k);
}

static int compiled(world *w) {
    return jitc_load_relaxed(&w->fake.compiled);
}

/* Get programs first ... first + count - 1 in one call. */
static jit_status get_many(world *w, uint32_t first, size_t count, jitc_cached **out) {
    jitc_program p[64];
    const jitc_program *programs[64] = {0};
    for (size_t i = 0; i < count; i++) {
        program_make(&p[i], first + (uint32_t) i, 10);
        programs[i] = &p[i];
    }
    jit_status status = jitc_cache_get(w->cache, &w->fake.head, 0, count, programs, out);
    for (size_t i = 0; i < count; i++) {
        if (status == JIT_OK)
            cr_assert(jitc_program_equal(out[i]->program, &p[i]));
        jitc_program_finish(&p[i]);
    }
    return status;
}

static void release_many(world *w, size_t count, jitc_cached **k) {
    for (size_t i = 0; i < count; i++)
        jitc_cache_release(w->cache, k[i]);
}

/* Wait, within reason, for something that another thread does. */
static bool reaches(atomic_int *counter, int value) {
    for (int i = 0; i < 100000 && jitc_load_relaxed(counter) < value; i++)
        sleep_us(100);
    return jitc_load_relaxed(counter) >= value;
}

static bool recompiled(world *w, uint64_t value) {
    for (int i = 0; i < 100000 && jitc_cache_read_stats(w->cache).kernels_recompiled < value; i++)
        sleep_us(100);
    return jitc_cache_read_stats(w->cache).kernels_recompiled >= value;
}

/* ---- Memory ---- */

Test(cache, a_second_get_compiles_nothing_and_gives_the_same_kernel) {
    world w;
    world_init(&w);
    jitc_cached *a = get(&w, 1), *b = get(&w, 1), *c = get(&w, 2);
    cr_expect_eq(a, b);
    cr_expect_neq(a, c);
    cr_expect_eq(compiled(&w), 2);
    jitc_cache_stats s = jitc_cache_read_stats(w.cache);
    cr_expect(s.kernels_compiled == 2 && s.memory_hits == 1 && s.disk_hits == 0 && s.kernels == 2);
    release_many(&w, 3, (jitc_cached *[]) {a, b, c});
    world_finish(&w);
}

Test(cache, programs_that_differ_in_one_byte_are_different_kernels) {
    world w;
    world_init(&w);
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *k;
    program_make(&p, 1, 3);
    unsigned char *part[] = {(unsigned char *) p.inst, (unsigned char *) &p.head.params};
    size_t size[] = {3 * sizeof *p.inst, sizeof p.head - 4};
    int n = 0;
    for (int i = 0; i < 2; i++)
        for (size_t j = 0; j < size[i]; j++, n++) {
            part[i][j] ^= 0x40;
            cr_assert_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 1, &programs, &k), JIT_OK);
            cr_assert_eq(compiled(&w), n + 1);
            jitc_cache_release(w.cache, k);
            part[i][j] ^= 0x40;
        }
    jitc_program_finish(&p);
    world_finish(&w);
}

Test(cache, devices_and_backends_do_not_share_kernels_in_memory) {
    world w;
    fake other;
    world_init(&w);
    fake_init(&other);
    jitc_cached *a = get_on(&w, 0, 1, 10), *b = get_on(&w, 1, 1, 10);
    cr_expect_neq(a, b);
    cr_expect_eq(compiled(&w), 1); /* the second came from disk: the target is the same */
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *c;
    program_make(&p, 1, 10);
    cr_assert_eq(jitc_cache_get(w.cache, &other.head, 0, 1, &programs, &c), JIT_OK);
    cr_expect(c != a && c != b);
    jitc_program_finish(&p);
    release_many(&w, 3, (jitc_cached *[]) {a, b, c});
    world_finish(&w);
}

Test(cache, a_call_takes_hits_and_misses_and_repetitions_together) {
    world w;
    world_init(&w);
    use(&w, 3);
    jitc_program p[3];
    jitc_cached *k[6];
    for (uint32_t i = 0; i < 3; i++)
        program_make(&p[i], i + 2, 10);
    const jitc_program *programs[6] = {&p[0], &p[1], &p[0], &p[2], &p[2], &p[1]};
    cr_assert_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 6, programs, k), JIT_OK);
    cr_expect_eq(compiled(&w), 3);
    cr_expect(k[0] == k[2] && k[3] == k[4] && k[1] == k[5]);
    for (int i = 0; i < 6; i++)
        cr_expect(jitc_program_equal(k[i]->program, programs[i]));
    release_many(&w, 6, k);
    cr_expect_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 0, NULL, NULL), JIT_OK);
    for (uint32_t i = 0; i < 3; i++)
        jitc_program_finish(&p[i]);
    world_finish(&w);
}

Test(cache, thousands_of_kernels_are_all_found_again) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 5000;
    for (uint32_t i = 1; i <= 5000; i++)
        use(&w, i);
    for (uint32_t i = 5000; i >= 1; i--)
        use(&w, i);
    cr_expect_eq(compiled(&w), 5000);
    cr_expect_eq(jitc_cache_read_stats(w.cache).kernels, 5000);
    world_finish(&w);
}

Test(cache, unused_kernels_go_when_there_are_too_many) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 16;
    jitc_cached *kept = get(&w, 1);
    for (uint32_t i = 2; i < 200; i++) {
        use(&w, i);
        cr_assert_leq(jitc_cache_read_stats(w.cache).kernels, 16);
    }
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 199 - 16);
    int before = compiled(&w);
    cr_expect_eq(get(&w, 1), kept); /* in use, so it could not go */
    cr_expect_eq(compiled(&w), before);
    use(&w, 2);
    cr_expect_eq(compiled(&w), before + 1);
    release_many(&w, 2, (jitc_cached *[]) {kept, kept});
    world_finish(&w);
}

Test(cache, kernels_used_again_outlive_those_used_once) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 32;
    for (uint32_t i = 1; i < 1000; i++) {
        use(&w, i + 10);
        for (uint32_t j = 1; j <= 8; j++)
            use(&w, j);
    }
    cr_expect_eq(compiled(&w), 999 + 8);
    world_finish(&w);
}

Test(cache, kernels_in_use_may_exceed_the_limit) {
    world w;
    world_init(&w);
    w.options.cache_entries = 4;
    jitc_cached *k[64];
    cr_assert_eq(get_many(&w, 1, 64, k), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 0);
    release_many(&w, 64, k);
    use(&w, 100);
    cr_expect_leq(jitc_cache_read_stats(w.cache).kernels, 4);
    world_finish(&w);
}

Test(cache, clear_forgets_all_but_leaves_what_is_in_use_alive) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    jitc_cached *k = get(&w, 1);
    use(&w, 2);
    cr_assert_eq(jitc_cache_clear(w.cache), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 1);
    cr_expect_eq(jitc_cache_read_stats(w.cache).kernels, 0);
    cr_expect_eq(k->program->inst[0].a, 1);
    jitc_cached *again = get(&w, 1);
    cr_expect_neq(again, k);
    cr_expect_eq(compiled(&w), 3);
    jitc_cache_release(w.cache, k);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 2);
    jitc_cache_release(w.cache, again);
    world_finish(&w);
}

/* ---- Failure ---- */

Test(cache, a_failure_is_reported_and_not_remembered) {
    world w;
    world_init(&w);
    jitc_store_relaxed(&w.fake.fail_count, 1);
    cr_expect_null(get(&w, 1));
    cr_expect_eq(jit_error_status(), JIT_COMPILE_FAILED);
    cr_expect(strstr(jit_error(), "told to fail"), "%s", jit_error());
    jit_error_clear();
    use(&w, 1);
    cr_expect_eq(compiled(&w), 2);
    world_finish(&w);
}

Test(cache, one_failure_of_many_gives_none_and_keeps_the_others) {
    world w;
    world_init(&w);
    w.options.num_threads = 4;
    jitc_store_relaxed(&w.fake.fail_op, 7);
    jitc_cached *k[10];
    cr_expect_eq(get_many(&w, 1, 10, k), JIT_COMPILE_FAILED);
    cr_expect(strstr(jit_error(), "told to fail"));
    jit_error_clear();
    for (int i = 0; i < 10; i++)
        cr_expect_null(k[i]);
    jitc_store_relaxed(&w.fake.fail_op, 0);
    int before = compiled(&w);
    cr_assert_eq(get_many(&w, 1, 10, k), JIT_OK);
    cr_expect_eq(compiled(&w), before + 1);
    release_many(&w, 10, k);
    cr_assert_eq(jitc_cache_clear(w.cache), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.destroyed), 10); /* no reference was lost */
    world_finish(&w);
}

Test(cache, an_earlier_error_of_the_thread_stays_the_first) {
    world w;
    world_init(&w);
    jitc_fail(JIT_SIZE_MISMATCH, "before");
    use(&w, 1);
    cr_expect_str_eq(jit_error(), "before");
    jitc_store_relaxed(&w.fake.fail_count, 1);
    jitc_program p;
    const jitc_program *programs = &p;
    jitc_cached *k;
    program_make(&p, 2, 10);
    cr_expect_eq(jitc_cache_get(w.cache, &w.fake.head, 0, 1, &programs, &k), JIT_COMPILE_FAILED);
    cr_expect_str_eq(jit_error(), "before");
    jitc_program_finish(&p);
    jit_error_clear();
    world_finish(&w);
}

Test(cache, code_that_does_not_load_is_an_error_when_fresh) {
    world w;
    world_init(&w);
    jitc_store_relaxed(&w.fake.fail_loads, 1);
    cr_expect_null(get(&w, 1));
    cr_expect_eq(jit_error_status(), JIT_COMPILE_FAILED);
    jit_error_clear();
    cr_expect_eq(folder_count(w.folder), 0);
    world_finish(&w);
}

/* ---- Threads ---- */

enum { THREADS = 8 };

typedef struct job {
    world *world;
    pthread_t thread;
    uint32_t first, count;
    jitc_cached *kernel[64];
    jit_status status;
    jitc_error error;
} job;

static void *run_job(void *context) {
    job *j = context;
    j->status = get_many(j->world, j->first, j->count, j->kernel);
    jitc_error_take(&j->error);
    return NULL;
}

static void start(job *j, world *w, uint32_t first, uint32_t count) {
    *j = (job) {.world = w, .first = first, .count = count};
    cr_assert_eq(pthread_create(&j->thread, NULL, run_job, j), 0);
}

Test(cache, threads_that_need_the_same_kernel_compile_it_once) {
    world w;
    world_init(&w);
    job j[THREADS];
    for (uint32_t round = 1; round <= 20; round++) {
        jitc_store_relaxed(&w.fake.pause_us, round % 2 ? 2000 : 0);
        for (int i = 0; i < THREADS; i++)
            start(&j[i], &w, round, 1);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(j[i].thread, NULL);
            cr_assert_eq(j[i].status, JIT_OK);
            cr_assert_eq(j[i].kernel[0], j[0].kernel[0]);
        }
        cr_assert_eq(compiled(&w), (int) round);
        for (int i = 0; i < THREADS; i++)
            jitc_cache_release(w.cache, j[i].kernel[0]);
    }
    world_finish(&w);
}

Test(cache, a_failure_reaches_every_thread_that_waits_for_it) {
    world w;
    world_init(&w);
    job j[THREADS];
    jitc_store_relaxed(&w.fake.hold, true);
    jitc_store_relaxed(&w.fake.fail_count, 1);
    for (int i = 0; i < THREADS; i++)
        start(&j[i], &w, 1, 1);
    cr_assert(reaches(&w.fake.compiled, 1));
    sleep_us(100000); /* let the others come; one that is late compiles by itself */
    jitc_store_relaxed(&w.fake.hold, false);
    int failed = 0, good = 0;
    for (int i = 0; i < THREADS; i++) {
        pthread_join(j[i].thread, NULL);
        if (j[i].status == JIT_OK) {
            jitc_cache_release(w.cache, j[i].kernel[0]);
            good++;
        } else {
            cr_expect_eq(j[i].error.status, JIT_COMPILE_FAILED);
            cr_expect_str_eq(j[i].error.text, "told to fail in compilation 0");
            failed++;
        }
    }
    cr_expect_gt(failed, 1);
    cr_expect_eq(compiled(&w), good ? 2 : 1);
    use(&w, 1);
    world_finish(&w);
}

Test(cache, calls_that_overlap_crosswise_do_not_wait_in_a_circle) {
    world w;
    world_init(&w);
    job j[THREADS];
    for (uint32_t round = 0; round < 30; round++) {
        for (uint32_t i = 0; i < THREADS; i++)
            start(&j[i], &w, 1 + round * 100 + i, 20);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(j[i].thread, NULL);
            cr_assert_eq(j[i].status, JIT_OK);
            release_many(&w, 20, j[i].kernel);
        }
        cr_assert_eq(compiled(&w), (int) (round + 1) * (20 + THREADS - 1));
    }
    world_finish(&w);
}

Test(cache, misses_of_one_call_compile_side_by_side_on_as_many_threads_as_allowed) {
    world w;
    world_init(&w);
    w.options.num_threads = 4;
    jitc_store_relaxed(&w.fake.meet, 4);
    jitc_cached *k[64];
    cr_assert_eq(get_many(&w, 1, 64, k), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.most_at_once), 4);
    cr_expect_eq(compiled(&w), 64);
    release_many(&w, 64, k);
    world_finish(&w);
}

Test(cache, one_thread_compiles_alone_if_that_is_what_is_allowed) {
    world w;
    world_init(&w);
    jitc_cached *k[8];
    jitc_store_relaxed(&w.fake.pause_us, 1000);
    cr_assert_eq(get_many(&w, 1, 8, k), JIT_OK);
    cr_expect_eq(jitc_load_relaxed(&w.fake.most_at_once), 1);
    release_many(&w, 8, k);
    world_finish(&w);
}

typedef struct user {
    world *world;
    pthread_t thread;
    uint32_t seed;
} user;

static void *use_randomly(void *context) {
    user *u = context;
    uint32_t random = u->seed;
    jitc_cached *held[4] = {0};
    for (int i = 0; i < 3000; i++) {
        random = random * 1664525 + 1013904223;
        jitc_cached **k = &held[random >> 30];
        if (*k) {
            jitc_add_relaxed(&(*k)->kernel->work, UINT64_C(60000000));
            jitc_cache_hot(u->world->cache, *k);
            jitc_cache_release(u->world->cache, *k);
        }
        *k = NULL;
        jitc_program p;
        const jitc_program *programs = &p;
        program_make(&p, 1 + (random >> 8) % 40, 10);
        cr_assert_eq(jitc_cache_get(u->world->cache, &u->world->fake.head, (int) (random >> 20) % 2,
                                    1, &programs, k),
                     JIT_OK);
        cr_assert(jitc_program_equal((*k)->program, &p));
        jitc_program_finish(&p);
        if (random % 512 == 0)
            jitc_cache_clear(u->world->cache);
    }
    for (int i = 0; i < 4; i++)
        if (held[i])
            jitc_cache_release(u->world->cache, held[i]);
    return NULL;
}

Test(cache, kernels_come_and_go_under_many_threads) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 20;
    user u[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        u[i] = (user) {.world = &w, .seed = i};
        pthread_create(&u[i].thread, NULL, use_randomly, &u[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(u[i].thread, NULL);
    cr_expect_gt(jitc_load_relaxed(&w.fake.destroyed), 100);
    world_finish(&w);
}

/* ---- Disk ---- */

Test(cache, a_new_process_finds_kernels_on_disk) {
    world w;
    world_init(&w);
    jitc_cached *k[20];
    cr_assert_eq(get_many(&w, 1, 20, k), JIT_OK);
    release_many(&w, 20, k);
    world_restart(&w);
    cr_assert_eq(get_many(&w, 1, 20, k), JIT_OK);
    release_many(&w, 20, k);
    cr_expect_eq(compiled(&w), 20);
    jitc_cache_stats s = jitc_cache_read_stats(w.cache);
    cr_expect(s.disk_hits == 20 && s.kernels_compiled == 0 && s.memory_hits == 0);
    world_finish(&w);
}

Test(cache, another_target_or_a_level_that_the_user_chose_is_another_kernel) {
    world w;
    world_init(&w);
    use(&w, 1);
    strcat(w.fake.target[0].text, "+");
    world_restart(&w);
    use(&w, 1);
    cr_expect_eq(compiled(&w), 2);
    w.options.llvm_level = 3;
    use(&w, 1);
    cr_expect_eq(compiled(&w), 3);
    cr_expect_eq(jitc_load_relaxed(&w.fake.last_level), 3);
    cr_expect_eq(folder_count(w.folder), 3);
    world_finish(&w);
}

Test(cache, the_disk_can_be_left_out) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    use(&w, 1);
    cr_expect_eq(folder_count(w.folder), 0);
    world_finish(&w);
}

Test(cache, an_entry_on_disk_that_does_not_load_is_compiled_again_without_an_error) {
    world w;
    world_init(&w);
    use(&w, 1);
    world_restart(&w);
    /* the first load is that of the entry on disk, the second that of fresh code: both fail */
    jitc_store_relaxed(&w.fake.fail_loads, 1);
    cr_expect_null(get(&w, 1));
    cr_expect_eq(jit_error_status(), JIT_COMPILE_FAILED);
    jit_error_clear();
    cr_expect_eq(folder_count(w.folder), 0); /* it was dropped */
    jitc_store_relaxed(&w.fake.fail_loads, 0);
    use(&w, 1);
    cr_expect_eq(jit_error_status(), JIT_OK);
    world_finish(&w);
}

/* The same, but the file is a valid one with wrong code in it. */
Test(cache, wrong_code_in_a_valid_file_is_replaced) {
    world w;
    world_init(&w);
    use(&w, 1);
    /* Swap the code in the backend's hands: its code for a program now differs from the file. */
    world_restart(&w);
    jitc_cached *k = get(&w, 1);
    jitc_hash key;
    jitc_program p;
    program_make(&p, 1, 10);
    key = jitc_program_hash(
        &p,
        jitc_hash_bytes(w.fake.target[0].text, strlen(w.fake.target[0].text), (uint64_t) -1).lo);
    int64_t level = -1;
    size_t text = strlen(w.fake.target[0].text);
    char description[1024];
    memcpy(description, &level, 8);
    memcpy(description + 8, &p.head, sizeof p.head);
    memcpy(description + 8 + sizeof p.head, w.fake.target[0].text, text);
    memcpy(description + 8 + sizeof p.head + text, p.inst, code_bytes(&p));
    jitc_blob what = {description, 8 + sizeof p.head + text + code_bytes(&p)};
    jitc_disk *d;
    jitc_disk_item item;
    cr_assert_eq(jitc_disk_open(w.folder, 1 << 20, &d), JIT_OK);
    cr_assert(jitc_disk_get(d, key, &what, &item));
    ((char *) item.code.data)[20] ^= 1;
    jitc_disk_put(d, key, &what, &item);
    free(item.code.data);
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    use(&w, 1);
    cr_expect_eq(jit_error_status(), JIT_OK);
    cr_expect_eq(compiled(&w), 2);
    cr_assert(jitc_disk_get(d, key, &what, &item));
    cr_expect(is_code_of(&item.code, &p));
    free(item.code.data);
    jitc_program_finish(&p);
    jitc_disk_close(d);
    world_finish(&w);
}

/* ---- Levels ---- */

static void work(world *w, jitc_cached *k, uint64_t amount) {
    jitc_add_relaxed(&k->kernel->work, amount);
    jitc_cache_hot(w->cache, k);
}

Test(cache, a_hot_kernel_is_compiled_again_once_and_a_new_process_gets_the_better_code) {
    world w;
    world_init(&w);
    jitc_cached *k = get(&w, 1);
    cr_expect_eq(k->kernel->level, 0);
    work(&w, k, 1000);
    for (int i = 0; i < 10; i++)
        work(&w, k, UINT64_C(1000000000));
    cr_assert(recompiled(&w, 1));
    cr_expect_eq(k->kernel->level, 2);
    work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w); /* after the background thread has ended */
    cr_expect_eq(compiled(&w), 2);
    cr_expect_eq(jitc_load_relaxed(&w.fake.reloaded), 1);
    k = get(&w, 1);
    cr_expect_eq(k->kernel->level, 2);
    for (int i = 0; i < 10; i++)
        work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(compiled(&w), 2);
    world_finish(&w);
}

Test(cache, quick_code_from_disk_becomes_hot_too) {
    world w;
    world_init(&w);
    use(&w, 1);
    world_restart(&w);
    jitc_cached *k = get(&w, 1);
    cr_expect_eq(k->kernel->level, 0);
    work(&w, k, UINT64_C(1000000000));
    cr_assert(recompiled(&w, 1));
    jitc_cache_release(w.cache, k);
    world_finish(&w);
}

Test(cache, large_programs_and_backends_without_levels_get_good_code_at_once) {
    world w;
    world_init(&w);
    jitc_cached *k = get_on(&w, 0, 1, 4000);
    cr_expect_eq(k->kernel->level, 2);
    work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    w.fake.head.levels = 0;
    k = get(&w, 2);
    cr_expect_eq(k->kernel->level, 2);
    work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(compiled(&w), 2);
    world_finish(&w);
}

Test(cache, a_level_that_the_user_chose_stays) {
    world w;
    world_init(&w);
    w.options.llvm_level = 0;
    jitc_cached *k = get_on(&w, 0, 1, 4000);
    cr_expect_eq(k->kernel->level, 0);
    work(&w, k, UINT64_C(1000000000));
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(compiled(&w), 1);
    world_finish(&w);
}

Test(cache, a_failed_recompilation_leaves_the_kernel_and_no_error) {
    world w;
    world_init(&w);
    jitc_log_set(NULL, NULL, JITC_LOG_ERROR);
    jitc_cached *k = get(&w, 1);
    jitc_store_relaxed(&w.fake.fail_count, 1);
    work(&w, k, UINT64_C(1000000000));
    cr_assert(reaches(&w.fake.compiled, 2));
    work(&w, k, UINT64_C(1000000000));
    cr_expect_eq(k->kernel->level, 0);
    cr_expect_eq(jit_error_status(), JIT_OK);
    jitc_cache_release(w.cache, k);
    world_restart(&w);
    cr_expect_eq(compiled(&w), 2);
    world_finish(&w);
}

Test(cache, destroy_drops_recompilations_that_wait) {
    world w;
    world_init(&w);
    jitc_cached *k[64];
    cr_assert_eq(get_many(&w, 1, 64, k), JIT_OK);
    jitc_store_relaxed(&w.fake.hold, true);
    for (int i = 0; i < 64; i++)
        work(&w, k[i], UINT64_C(1000000000));
    release_many(&w, 64, k);
    cr_assert(reaches(&w.fake.compiled, 65)); /* the first is running */
    jitc_store_relaxed(&w.fake.hold, false);
    jitc_store_relaxed(&w.fake.pause_us, 100000);
    world_restart(&w);
    cr_expect_lt(compiled(&w), 64 + 32);
    world_finish(&w);
}

/* ---- Fork ---- */

#if defined(__has_feature)
#    define JITC_HAS_ASAN __has_feature(address_sanitizer)
#else
#    define JITC_HAS_ASAN 0
#endif

static int exit_code_of(pid_t child) {
    int status = 0;
    for (int i = 0; i < 200000; i++) {
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        sleep_us(100);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

static int use_in_child(world *w, uint32_t *numbers, int count) {
    jitc_cache_forked(w->cache);
    jitc_store_relaxed(&w->fake.hold, false);
    for (int i = 0; i < count; i++)
        use(w, numbers[i]);
    jitc_cached *k = get(w, numbers[0]);
    uint64_t before = jitc_cache_read_stats(w->cache).kernels_recompiled;
    work(w, k, UINT64_C(1000000000));
    bool again = recompiled(w, before + 1);
    jitc_cache_release(w->cache, k);
    jitc_cache_destroy(w->cache);
    return again ? 0 : 3;
}

Test(cache, a_forked_child_builds_what_the_parents_threads_were_building) {
    world w;
    world_init(&w);
    use(&w, 1);
    jitc_cached *hot = get(&w, 5);
    jitc_store_relaxed(&w.fake.hold, true);
    work(&w, hot, UINT64_C(1000000000)); /* the background thread exists, and is busy */
    job j;
    start(&j, &w, 2, 1);
    cr_assert(reaches(&w.fake.compiled, 4));
    pid_t child = fork();
    if (child == 0)
        _exit(use_in_child(&w, (uint32_t[]) {1, 2, 3}, 3));
    cr_expect_eq(exit_code_of(child), 0);
    jitc_store_relaxed(&w.fake.hold, false);
    pthread_join(j.thread, NULL);
    cr_expect_eq(j.status, JIT_OK);
    release_many(&w, 1, j.kernel);
    jitc_cache_release(w.cache, hot);
    world_finish(&w);
}

#if !defined(__SANITIZE_ADDRESS__) && !JITC_HAS_ASAN
typedef struct churn {
    world *world;
    atomic_bool stop;
} churn;

static void *use_until_stopped(void *context) {
    churn *c = context;
    for (uint32_t i = 1; !jitc_load_relaxed(&c->stop); i++)
        use(c->world, 10 + i % 50);
    return NULL;
}

/* The lock is held by one of the parent's threads at some of these moments. Not under
 * AddressSanitizer, whose allocator's own locks stay locked in such a child. */
Test(cache, a_child_forked_at_any_moment_works) {
    world w;
    world_init(&w);
    w.options.cache_disk = false;
    w.options.cache_entries = 16;
    churn c = {.world = &w};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&thread[i], NULL, use_until_stopped, &c);
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(use_in_child(&w, (uint32_t[]) {1, 11, 12}, 3));
        cr_expect_eq(exit_code_of(child), 0);
    }
    jitc_store_relaxed(&c.stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    world_finish(&w);
}
#endif

/* ---- Code generation ---- */

static size_t captured(world *w, uint32_t number, char *text, size_t room) {
    char path[300];
    snprintf(path, sizeof path, "%s-stderr", w->folder);
    fflush(stderr);
    int before = dup(2), file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    dup2(file, 2);
    use(w, number);
    fflush(stderr);
    dup2(before, 2);
    ssize_t n = pread(file, text, room - 1, 0);
    text[n > 0 ? n : 0] = 0;
    close(before);
    close(file);
    unlink(path);
    return strlen(text);
}

Test(codegen, dump_prints_programs_and_sources_also_of_kernels_on_disk) {
    world w;
    char text[8192];
    world_init(&w);
    cr_expect_eq(captured(&w, 1, text, sizeof text), 0);
    strcpy(w.options.dump, "g");
    captured(&w, 2, text, sizeof text);
    cr_expect(strstr(text, "source of 10 instructions") && !strstr(text, "program"), "%s", text);
    strcpy(w.options.dump, "ts");
    captured(&w, 3, text, sizeof text);
    cr_expect(strstr(text, "program") && strstr(text, "add") && !strstr(text, "source of"), "%s",
              text);
    world_restart(&w);
    strcpy(w.options.dump, "gs");
    captured(&w, 1, text, sizeof text);
    cr_expect(strstr(text, "program") && strstr(text, "source of"), "%s", text);
    cr_expect_eq(compiled(&w), 3);
    cr_expect_eq(captured(&w, 1, text, sizeof text), 0); /* in memory: nothing is made */
    world_finish(&w);
}
