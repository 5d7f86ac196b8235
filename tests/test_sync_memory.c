/* test_sync_memory.c: memory that a stream of somebody else still reads, when its array is given
 * back: it is used again, or freed, after that. Copies of the library come after their writers,
 * too. */
#include "sync_scene.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(sync_memory, .init = scene_start, .fini = scene_finish);

typedef enum giving { BY_UNREF, BY_SCOPE, BY_EVENT, MADE_ELSEWHERE } giving;

static void *make_in_thread(void *context) {
    scene *s = context;
    s->v = scene_plus(s->x, s->first);
    s->status = jit_var_eval(s->v);
    if (s->status == JIT_OK)
        s->status = jit_sync_thread();
    return NULL;
}

/** The array: of this thread, or one that another thread made and that is over. */
static void make_array(scene *s, giving way) {
    pthread_t thread;
    if (way == MADE_ELSEWHERE) {
        cr_assert_eq(pthread_create(&thread, NULL, make_in_thread, s), 0);
        pthread_join(thread, NULL);
        ASSERT_OK(s->status);
    } else {
        s->v = scene_plus(s->x, s->first);
        ASSERT_OK(jit_var_eval(s->v));
    }
}

/** Let our stream wait for the consumer, and give the array back. */
static void wait_and_give(scene *s, giving way) {
    if (way == BY_EVENT) {
        jit_event *event;
        void *native = consumer_record(s->consumer);
        ASSERT_OK(jit_cuda_event_wrap(native, &event));
        ASSERT_OK(jit_event_stream_wait(event));
        jit_event_destroy(event);
    } else {
        ASSERT_OK(jit_cuda_wait_stream(consumer_stream(s->consumer)));
    }
    if (way == BY_SCOPE) {
        jit_scope_push();
        jit_ref(s->v);
        jit_unref(s->v);
        jit_unref(s->v); /* the one of before: the scope has the other */
        ASSERT_OK(jit_scope_pop(0, NULL));
    } else {
        jit_unref(s->v);
    }
    s->v = 0;
}

/** Where there is another stream, each evaluation is marked by an event, which others wait for
 * rather than for all of the stream. */
static void *make_stream(void *context) {
    jit_status *status = context;
    jit_var large = jit_counter(JIT_CUDA, 100 * SIZE), sum = scene_plus(large, 1);
    *status = jit_var_eval(sum);
    jit_unref(large), jit_unref(sum);
    return NULL;
}

static void make_another_stream(void) {
    pthread_t thread;
    jit_status status;
    cr_assert_eq(pthread_create(&thread, NULL, make_stream, &status), 0);
    pthread_join(thread, NULL);
    ASSERT_OK(status);
}

typedef struct user {
    jit_var v;
    bool done;
    jit_status status;
} user;

/** Somebody else who wants such memory. */
static void *use_memory(void *context) {
    user *u = context;
    jit_event *event = NULL;
    uint32_t other[SIZE] = {0};
    u->v = jit_from_host(JIT_CUDA, JIT_u32, other, SIZE);
    u->status = jit_event_create(JIT_CUDA, false, &event);
    if (u->status == JIT_OK)
        u->status = jit_event_record(event);
    usleep(50);
    if (u->status == JIT_OK)
        u->status = jit_event_query(event, &u->done);
    jit_event_destroy(event);
    return NULL;
}

static void run_giving(giving way) {
    pthread_t thread;
    void *pointer;
    user u = {.status = JIT_OK};
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    scene_begin(&s);
    make_another_stream();
    make_array(&s, way);
    ASSERT_OK(jit_data(s.v, &pointer));
    ASSERT_OK(jit_cuda_sync_stream(consumer_stream(s.consumer)));
    consumer_close_gate(s.consumer, &s.gate);
    consumer_read(s.consumer, pointer, SIZE);
    wait_and_give(&s, way);
    cr_assert_eq(pthread_create(&thread, NULL, use_memory, &u), 0);
    pthread_join(thread, NULL);
    ASSERT_OK(u.status);
    void *again;
    ASSERT_OK(jit_data(u.v, &again));
    cr_assert_eq(again, pointer, "the memory is not used again: nothing is tested");
    cr_assert(!u.done, "way %d: the memory is used again while it is read", way);
    consumer_gate_open(&s.gate);
    consumer_wait(s.consumer);
    cr_assert(scene_counts_up(consumer_data(s.consumer), s.first), "way %d: overwritten", way);
    jit_unref(u.v);
    scene_end(&s);
}

/** An array that a stream of somebody else still reads is given back, once ours waits for it. */
Test(sync_memory, memory_is_used_again_after_its_foreign_reader, .timeout = 60) {
    run_giving(BY_UNREF);
}
Test(sync_memory, memory_given_back_by_a_scope_too, .timeout = 60) {
    run_giving(BY_SCOPE);
}
Test(sync_memory, memory_behind_an_event_too, .timeout = 60) {
    run_giving(BY_EVENT);
}
Test(sync_memory, memory_of_other_threads_arrays_too, .timeout = 60) {
    run_giving(MADE_ELSEWHERE);
}

/** Memory goes back to the driver only when the stream of somebody else has read it; on the legacy
 * stream without being waited for. */
static void run_trimming(consumer_kind kind) {
    pthread_t thread;
    void *pointer;
    scene s = {.kind = kind, .sees = true};
    opener o = {.gate = &s.gate};
    scene_begin(&s);
    make_another_stream();
    make_array(&s, BY_UNREF);
    ASSERT_OK(jit_sync_thread()); /* our own use is known to be over */
    ASSERT_OK(jit_data(s.v, &pointer));
    ASSERT_OK(jit_cuda_sync_stream(consumer_stream(s.consumer)));
    consumer_close_gate(s.consumer, &s.gate);
    consumer_read(s.consumer, pointer, SIZE);
    if (kind != CONSUMER_LEGACY)
        ASSERT_OK(jit_cuda_wait_stream(consumer_stream(s.consumer)));
    jit_unref(s.v);
    s.v = 0;
    cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
    ASSERT_OK(jit_trim());
    pthread_join(thread, NULL);
    consumer_wait(s.consumer);
    cr_assert(scene_counts_up(consumer_data(s.consumer), s.first), "%s", scene_name(&s));
    scene_end(&s);
}

Test(sync_memory, memory_is_not_freed_under_a_foreign_reader, .timeout = 60) {
    for (int kind = 0; kind < CONSUMER_KINDS; ++kind)
        run_trimming((consumer_kind) kind);
}

/** A thread that has read an array, and asks for its address, has still read it. */
static void *read_late_and_ask(void *context) {
    scene *s = context;
    void *pointer;
    jit_var sum = scene_plus(s->v, 1);
    consumer_gate_close(&s->gate, jit_cuda_stream(), 0);
    s->status = jit_var_eval(sum);
    if (s->status == JIT_OK)
        s->status = jit_data(s->v, &pointer);
    jit_unref(s->v);
    s->v = sum;
    return NULL;
}

Test(sync_memory, asking_for_an_address_hides_no_reader, .timeout = 60) {
    pthread_t thread;
    uint32_t other[SIZE] = {0}, got[SIZE];
    scene s = {.sees = true};
    scene_begin(&s);
    make_array(&s, BY_UNREF);
    cr_assert_eq(pthread_create(&thread, NULL, read_late_and_ask, &s), 0);
    pthread_join(thread, NULL);
    ASSERT_OK(s.status);
    jit_var y = jit_from_host(JIT_CUDA, JIT_u32, other, SIZE);
    consumer_gate_open(&s.gate);
    ASSERT_OK(jit_read(s.v, got));
    cr_assert(scene_counts_up(got, s.first + 1));
    jit_unref(y);
    scene_end(&s);
}

/** Copies of the library, too, come after what another thread has queued. */
static void *read_and_scatter(void *context) {
    scene *s = context;
    uint32_t got[SIZE];
    jit_var index = jit_u32(JIT_CUDA, 5), value = jit_u32(JIT_CUDA, 7);
    jit_var changed = jit_scatter(s->v, value, index, 0); /* of a copy: s->v stays */
    s->status = jit_read(changed, got);
    got[5] = s->first + 5;
    s->sees = scene_counts_up(got, s->first);
    if (s->status == JIT_OK)
        s->status = jit_read(s->v, got);
    s->sees = s->sees && scene_counts_up(got, s->first);
    jit_unref(index), jit_unref(value), jit_unref(changed);
    return NULL;
}

static void *read_only(void *context) {
    scene *s = context;
    uint32_t got[SIZE];
    s->status = jit_read(s->v, got);
    s->sees = scene_counts_up(got, s->first);
    return NULL;
}

Test(sync_memory, copies_come_after_the_writer, .timeout = 60) {
    for (int reads_first = 0; reads_first < 2; ++reads_first) {
        pthread_t thread;
        scene s = {.sees = false};
        scene_begin(&s);
        consumer_gate_close(&s.gate, jit_cuda_stream(), 0);
        s.v = scene_plus(s.x, s.first);
        ASSERT_OK(jit_var_eval(s.v));
        cr_assert_eq(pthread_create(&thread, NULL, reads_first ? read_only : read_and_scatter, &s),
                     0);
        usleep(1000);
        consumer_gate_open(&s.gate);
        pthread_join(thread, NULL);
        ASSERT_OK(s.status);
        cr_assert(s.sees, "the copy is old");
        scene_end(&s);
    }
}

/** The memory that a copy is made in was another thread's. */
static void *read_late(void *context) {
    scene *s = context;
    jit_var sum = scene_plus(s->v, 1);
    consumer_gate_close(&s->gate, jit_cuda_stream(), 0);
    s->status = jit_var_eval(sum);
    jit_unref(s->v);
    s->v = sum;
    return NULL;
}

/** With a gate closed the kernel could not be loaded. */
static void load_scatter(jit_var value, jit_var index) {
    jit_var large = jit_counter(JIT_CUDA, 100 * SIZE), x = scene_plus(large, 1);
    ASSERT_OK(jit_var_eval(x));
    jit_var changed = jit_scatter(x, value, index, 0);
    ASSERT_OK(jit_var_eval(changed));
    jit_unref(large), jit_unref(x), jit_unref(changed);
}

Test(sync_memory, copies_come_after_the_former_users_of_their_memory, .timeout = 60) {
    pthread_t thread;
    uint32_t got[SIZE];
    scene s = {.sees = true};
    jit_var index = jit_u32(JIT_CUDA, 5), value = jit_u32(JIT_CUDA, 7);
    scene_begin(&s);
    load_scatter(value, index);
    make_array(&s, BY_UNREF);
    cr_assert_eq(pthread_create(&thread, NULL, read_late, &s), 0);
    pthread_join(thread, NULL);
    ASSERT_OK(s.status);
    jit_var changed = jit_scatter(s.x, value, index, 0); /* of a copy: s.x stays */
    ASSERT_OK(jit_var_eval(changed));
    consumer_gate_open(&s.gate);
    ASSERT_OK(jit_read(s.v, got));
    cr_assert(scene_counts_up(got, s.first + 1));
    jit_unref(changed), jit_unref(index), jit_unref(value);
    scene_end(&s);
}

/** Makes a copy, by a scatter, that waits for the gate. */
typedef struct copier {
    scene *scene;
    jit_var index, value; /* see load_scatter() */
} copier;

static void *copy_late(void *context) {
    const copier *c = context;
    scene *s = c->scene;
    jit_var copy = jit_scatter(s->v, c->value, c->index, 0); /* s->v stays */
    consumer_gate_close(&s->gate, jit_cuda_stream(), 0);
    s->status = jit_var_eval(copy);
    jit_unref(s->v);
    s->v = copy;
    return NULL;
}

static void begin_late_copy(copier *c, scene *s, jit_status status) {
    pthread_t thread;
    c->scene = s;
    ASSERT_OK(jit_sync_thread()); /* the array is there */
    cr_assert_eq(pthread_create(&thread, NULL, copy_late, c), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(s->status, status);
}

/** What a copy reads is used again after it. */
Test(sync_memory, memory_is_used_again_after_a_copy_of_it, .timeout = 60) {
    uint32_t other[SIZE] = {0}, got[SIZE];
    void *pointer, *again;
    scene s = {.sees = true};
    copier c = {.index = jit_u32(JIT_CUDA, 5), .value = jit_u32(JIT_CUDA, 7)};
    scene_begin(&s);
    load_scatter(c.value, c.index);
    make_array(&s, BY_UNREF);
    ASSERT_OK(jit_data(s.v, &pointer));
    begin_late_copy(&c, &s, JIT_OK);
    jit_var y = jit_from_host(JIT_CUDA, JIT_u32, other, SIZE);
    ASSERT_OK(jit_data(y, &again));
    cr_assert_eq(again, pointer, "the memory is not used again: nothing is tested");
    consumer_gate_open(&s.gate);
    ASSERT_OK(jit_read(s.v, got));
    cr_assert_eq(got[5], 7);
    got[5] = s.first + 5;
    cr_assert(scene_counts_up(got, s.first), "the copy is of what came later");
    jit_unref(y), jit_unref(c.index), jit_unref(c.value);
    scene_end(&s);
}

static jit_stats stats(void) {
    jit_stats result;
    ASSERT_OK(jit_get_stats(&result));
    return result;
}

static void set_limit(size_t bytes) {
    char text[32];
    snprintf(text, sizeof text, "%zu", bytes);
    ASSERT_OK(jit_set_option("memory_limit", text));
}

/** A copy behind which no kernel came, as there was no memory for the report of its indices, is
 * still a write. */
Test(sync_memory, memory_is_used_again_after_a_copy_into_it, .timeout = 60) {
    uint32_t other[SIZE], got[SIZE];
    scene s = {.sees = true};
    copier c = {.index = jit_u32(JIT_CUDA, 5), .value = jit_u32(JIT_CUDA, 7)};
    scene_begin(&s);
    ASSERT_OK(jit_set_option("bounds_check", "1"));
    load_scatter(c.value, c.index);
    ASSERT_OK(jit_trim());
    make_array(&s, BY_UNREF);
    jit_var room = scene_plus(s.x, s.first + 1);
    ASSERT_OK(jit_var_eval(room));
    size_t live = stats().bytes_live;
    ASSERT_OK(jit_sync_thread());
    jit_unref(room); /* for the copy, and no more */
    set_limit(live);
    begin_late_copy(&c, &s, JIT_OUT_OF_MEMORY);
    set_limit(0);
    uint64_t allocations = w.calls("cuMemAllocFromPoolAsync");
    memset(other, 0x55, sizeof other);
    jit_var y = jit_from_host(JIT_CUDA, JIT_u32, other, SIZE);
    cr_assert_eq(w.calls("cuMemAllocFromPoolAsync"), allocations,
                 "the memory is not used again: nothing is tested");
    consumer_gate_open(&s.gate);
    ASSERT_OK(jit_read(y, got));
    cr_assert_arr_eq(got, other, sizeof got, "the copy came later");
    jit_unref(y), jit_unref(c.index), jit_unref(c.value);
    scene_end(&s);
}
