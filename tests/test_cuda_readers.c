/* test_cuda_readers.c: memory that a foreign stream reads is not written again before it is done,
 * by whichever thread, once our thread was told to wait for it.
 *
 * The reader is behind a gate. Who writes the memory next does so in another thread, whose stream
 * was told nothing: it has to come after what the stream that used the memory waits for. */
#include "consumer.h"
#include "cuda_world.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <time.h>

enum { SIZE = 256 };

static cuda_world w;

static void start(void) {
    w = cuda_world_simulated();
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", "0")); /* what others use is used again */
}
TestSuite(cuda_readers, .init = start, .fini = support_shutdown);

/** How the thread that owns the array is told to wait for its reader, and who writes next. */
typedef struct scene {
    bool by_event, in_place;
    bool handed_on; /* another thread hands the array to the reader, waits and gives it back */
    consumer *consumer;
    jit_var x, v, index; /* v: what is read; x, index: the writer's operands */
    void *memory;        /* of v */
    jit_event *written;
    void *used; /* the memory that was written */
} scene;

static void wait_for_reader(const scene *s) {
    jit_event *read = NULL;
    CUevent event = NULL;
    CUresult (*create)(CUevent *, unsigned), (*record)(CUevent, CUstream), (*destroy)(CUevent);
    if (!s->by_event) {
        ASSERT_OK(jit_cuda_wait_stream(consumer_stream(s->consumer)));
        return;
    }
    consumer_driver(&create, "cuEventCreate");
    consumer_driver(&record, "cuEventRecord");
    consumer_driver(&destroy, "cuEventDestroy_v2");
    w.CtxPushCurrent(jit_cuda_context());
    cr_assert_eq(create(&event, 0), CUDA_SUCCESS);
    cr_assert_eq(record(event, (CUstream) consumer_stream(s->consumer)), CUDA_SUCCESS);
    ASSERT_OK(jit_cuda_event_wrap(event, &read));
    ASSERT_OK(jit_event_stream_wait(read));
    jit_event_destroy(read);
    cr_assert_eq(destroy(event), CUDA_SUCCESS);
    w.CtxPopCurrent(&(CUcontext) {NULL});
}

/** Another thread: writes into the memory of v, which it gets as new memory or in place. */
static void *write_again(void *context) {
    scene *s = context;
    jit_scope_push();
    jit_var seven = jit_u32(JIT_CUDA, 7), y;
    if (s->in_place) {
        y = jit_scatter(s->v, jit_add(s->x, seven), s->index, 0);
        jit_unref(s->v);
    } else {
        y = jit_add(s->x, seven);
    }
    if (jit_data(y, &s->used) == JIT_OK && jit_event_create(JIT_CUDA, false, &s->written) == JIT_OK)
        jit_event_record(s->written);
    jit_scope_pop(1, &y);
    s->v = y;
    return NULL;
}

/** False: not within some time, in which it would have been done had it not waited. */
static bool is_written(const scene *s) {
    const struct timespec pause = {.tv_nsec = 1000000};
    bool done = false;
    for (int i = 0; i < 100 && !done; ++i) {
        ASSERT_OK(jit_event_query(s->written, &done));
        nanosleep(&pause, NULL);
    }
    return done;
}

/** Write once before: with the gate closed the kernels could not be loaded. */
static void load_kernels(const scene *s, jit_var one) {
    scene before = *s;
    before.v = jit_add(s->x, one);
    ASSERT_OK(jit_var_eval(before.v));
    write_again(&before);
    ASSERT_OK(jit_event_wait(before.written));
    jit_event_destroy(before.written);
    jit_unref(before.v);
}

static void prepare(scene *s) {
    uint32_t ramp[SIZE];
    for (uint32_t i = 0; i < SIZE; ++i)
        ramp[i] = i;
    s->x = jit_from_host(JIT_CUDA, JIT_u32, ramp, SIZE);
    s->index = jit_counter(JIT_CUDA, SIZE);
    jit_var one = jit_u32(JIT_CUDA, 1);
    if (s->in_place)
        load_kernels(s, one);
    s->v = jit_add(s->x, one);
    jit_unref(one);
    ASSERT_OK(jit_data(s->v, &s->memory));
    ASSERT_OK(jit_sync_thread());
    s->consumer = consumer_create(CONSUMER_NON_BLOCKING, CONSUMER_HERE, 0, SIZE, false);
}

static void *let_read(void *context) {
    scene *s = context;
    ASSERT_OK(jit_data(s->v, &s->memory));
    consumer_read(s->consumer, s->memory, SIZE);
    wait_for_reader(s);
    if (!s->in_place) {
        jit_unref(s->v);
        s->v = 0;
    }
    return NULL;
}

static void in_thread(void *(*function)(void *), scene *s) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, function, s), 0);
    pthread_join(thread, NULL);
}

static void check_scene(scene s) {
    consumer_gate gate;
    prepare(&s);
    consumer_close_gate(s.consumer, &gate);
    if (s.handed_on) {
        in_thread(let_read, &s);
        write_again(&s);
    } else {
        let_read(&s);
        in_thread(write_again, &s);
    }
    cr_assert_not_null(s.written, "%s", jit_error());
    if (s.used != s.memory)
        consumer_gate_open(&gate); /* or the end would wait for ever */
    cr_assert_eq(s.used, s.memory, "the memory was not used again: the test tests nothing");
    bool early = is_written(&s);
    consumer_gate_open(&gate);
    cr_assert_not(early, "written while the reader has not read (%s, %s)",
                  s.by_event ? "event" : "stream", s.in_place ? "in place" : "new memory");
    consumer_wait(s.consumer);
    for (uint32_t i = 0; i < SIZE; ++i)
        cr_assert_eq(consumer_data(s.consumer)[i], i + 1, "element %u is %u", i,
                     consumer_data(s.consumer)[i]);
    ASSERT_OK(jit_event_wait(s.written));
    jit_event_destroy(s.written);
    consumer_destroy(s.consumer);
    jit_unref(s.v), jit_unref(s.x), jit_unref(s.index);
    sem_destroy(&gate.open);
}

Test(cuda_readers, new_memory_comes_after_the_stream_that_was_waited_for, .timeout = 60) {
    check_scene((scene) {.by_event = false});
}

Test(cuda_readers, new_memory_comes_after_the_event_that_was_waited_for, .timeout = 60) {
    check_scene((scene) {.by_event = true});
}

Test(cuda_readers, the_thread_that_waits_need_not_be_the_one_that_wrote, .timeout = 60) {
    check_scene((scene) {.handed_on = true});
    check_scene((scene) {.handed_on = true, .by_event = true});
    check_scene((scene) {.handed_on = true, .in_place = true});
}

Test(cuda_readers, a_scatter_in_place_comes_after_the_stream, .timeout = 60) {
    check_scene((scene) {.in_place = true});
}

Test(cuda_readers, a_scatter_in_place_comes_after_the_event, .timeout = 60) {
    check_scene((scene) {.by_event = true, .in_place = true});
}
