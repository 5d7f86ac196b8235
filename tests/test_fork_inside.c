/* test_fork_inside.c: forks by functions that the library calls, and while threads are inside of
 * it. */
#include "fork_child.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define B support_backend()

/* ---- From functions that the library calls ---- */

typedef struct caller {
    pid_t parent;
    atomic_int called, status;
    bool back; /* the child goes back into the library */
} caller;

static void fork_inside(void *context) {
    caller *c = context;
    if (getpid() != c->parent || atomic_exchange(&c->called, 1))
        return;
    pid_t child = fork();
    if (child == 0) {
        if (c->back)
            return;
        _exit(FINE);
    }
    atomic_store(&c->status, fork_status(child));
}

static void fork_in_log(void *context, int level, const char *text) {
    (void) level, (void) text;
    fork_inside(context);
}

static caller new_caller(bool back) {
    return (caller) {.parent = getpid(), .status = -2, .back = back};
}

Test(fork_inside, from_a_function_of_the_log, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    jit_var x = fork_ones(B, SIZE);
    for (unsigned back = 0; back < 2; ++back) {
        caller c = new_caller(back);
        jit_set_log(fork_in_log, &c, 3);
        jit_var y = fork_compute(x, 5 + back);
        ASSERT_OK(jit_var_eval(y));
        if (getpid() != c.parent) /* went back, and on */
            _exit(jit_var_eval(y) == JIT_OK ? fork_use_everything(x) : 99);
        cr_assert_eq(c.status, FINE);
        jit_set_log(NULL, NULL, 1);
        jit_unref(y);
    }
    jit_unref(x);
    support_shutdown();
}

/* From a call that a worker or one that waits makes. A worker's child ends when the function does.
 */
Test(fork_inside, from_a_call, .timeout = 120) {
    fork_begin();
    jit_var x = B == JIT_LLVM ? fork_ones(B, SIZE) : 0;
    for (unsigned i = 0; i < 40; ++i) {
        caller c = new_caller(i % 2);
        jit_var y = fork_compute(fork_ones(B, LONG), 3);
        ASSERT_OK(jit_var_eval(y));
        ASSERT_OK(jit_call(B, fork_inside, &c));
        ASSERT_OK(jit_var_eval(jit_add(y, y)));
        while (i % 4 > 1 && !atomic_load(&c.called))
            usleep(20); /* a worker does it */
        ASSERT_OK(jit_sync_thread());
        if (getpid() != c.parent)
            _exit(B == JIT_LLVM ? fork_use_everything(x) : FINE);
        cr_assert_eq(c.status, FINE, "%d", c.status);
    }
    support_shutdown();
}

Test(fork_inside, from_the_release_of_memory, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    static uint32_t memory[SIZE];
    jit_var x = fork_ones(B, SIZE);
    for (unsigned i = 0; i < 4; ++i) {
        caller c = new_caller(i % 2);
        jit_var m = jit_map(B, JIT_u32, memory, SIZE, fork_inside, &c);
        ASSERT_VAR(m);
        jit_var y = jit_add(m, x);
        if (i > 1)
            ASSERT_OK(jit_var_eval(y));
        jit_unref(m);
        jit_unref(y);
        ASSERT_OK(jit_sync_thread());
        if (getpid() != c.parent)
            _exit(fork_use_everything(x));
        while (atomic_load(&c.status) == -2)
            usleep(20);
        cr_assert_eq(c.status, FINE);
    }
    jit_unref(x);
    support_shutdown();
}

/* ---- What threads of the parent had begun ---- */

typedef struct sleeper {
    pthread_t thread;
    jit_var v;
    jit_event *event;
    atomic_int inside, go;
} sleeper;

static void sleep_in_log(void *context, int level, const char *text) {
    sleeper *s = context;
    (void) level;
    if (!strstr(text, "compiled") || atomic_exchange(&s->inside, 1))
        return;
    while (!atomic_load(&s->go))
        usleep(50);
}

static void sleep_in_call(void *context) {
    sleeper *s = context;
    atomic_store(&s->inside, 1);
    while (!atomic_load(&s->go))
        usleep(50);
}

/* ---- Releases that wait for each other ---- */

/* Two arrays end in one evaluation. The first to be released forks, or sleeps; the second waits. */
typedef struct line {
    caller caller;
    sleeper sleeper;
    jit_var sum;
    bool sleeps;
    atomic_int released;
} line;

static void release_in_line(void *context) {
    line *l = context;
    if (atomic_fetch_add(&l->released, 1))
        return;
    if (l->sleeps)
        sleep_in_call(&l->sleeper);
    else
        fork_inside(&l->caller);
}

/* They are read by a kernel that another one of the same evaluation follows. */
static void make_line(line *l) {
    static uint32_t memory[2][SIZE];
    jit_var m[2], x = fork_ones(B, SIZE / 2);
    for (int i = 0; i < 2; ++i) {
        m[i] = jit_map(B, JIT_u32, memory[i], SIZE, release_in_line, l);
        ASSERT_VAR(m[i]);
    }
    l->sum = jit_add(m[0], m[1]);
    l->sleeper.v = jit_add(x, x);
    jit_unref(m[0]), jit_unref(m[1]), jit_unref(x);
}

static void *evaluate_line(void *context) {
    line *l = context;
    jit_schedule(l->sum);
    jit_schedule(l->sleeper.v);
    jit_eval();
    jit_sync_thread();
    return NULL;
}

static void drop_line(line *l) {
    jit_unref(l->sum);
    jit_unref(l->sleeper.v);
}

Test(fork_inside, the_child_of_a_release_calls_those_that_wait_for_it, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    jit_var x = fork_ones(B, SIZE);
    line l = {.caller = new_caller(true)};
    make_line(&l);
    evaluate_line(&l);
    ASSERT_OK(jit_sync_all_devices());
    if (getpid() != l.caller.parent)
        _exit(atomic_load(&l.released) == 2 ? fork_use_everything(x) : 98);
    cr_assert_eq(l.caller.status, FINE, "%d", l.caller.status);
    cr_assert_eq(atomic_load(&l.released), 2);
    drop_line(&l);
    jit_unref(x);
    support_shutdown();
}

/* The one that another thread is calling counts as called; those behind it are called here. */
static int call_the_others(void *context) {
    line *l = context;
    NEED(atomic_load(&l->released) == 1);
    NEED(fork_all_are(l->sleeper.v, 2));
    jit_var again = jit_add(l->sleeper.v, l->sleeper.v);
    NEED(fork_all_are(again, 4));
    NEED(jit_sync_all_devices() == JIT_OK);
    NEED(atomic_load(&l->released) == 2);
    jit_shutdown();
    NEED(atomic_load(&l->released) == 2);
    return FINE;
}

static int call_the_others_at_the_end(void *context) {
    line *l = context;
    jit_shutdown();
    NEED(atomic_load(&l->released) == 2);
    return FINE;
}

Test(fork_inside, what_waits_for_another_threads_release_is_released_by_the_child, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    line l = {.sleeps = true};
    make_line(&l);
    pthread_create(&l.sleeper.thread, NULL, evaluate_line, &l);
    while (!atomic_load(&l.sleeper.inside))
        usleep(20);
    ASSERT_CHILD(call_the_others, &l);
    ASSERT_CHILD(call_the_others_at_the_end, &l);
    atomic_store(&l.sleeper.go, 1);
    pthread_join(l.sleeper.thread, NULL);
    ASSERT_OK(jit_sync_all_devices());
    cr_assert_eq(atomic_load(&l.released), 2);
    drop_line(&l);
    support_shutdown();
}

static void *evaluate(void *context) {
    sleeper *s = context;
    jit_schedule(s->v);
    jit_eval();
    return NULL;
}

static int evaluate_too(void *context) {
    sleeper *s = context;
    jit_set_log(NULL, NULL, 1);
    NEED(fork_all_are(s->v, 11));
    jit_shutdown();
    return FINE;
}

/* It is about to launch the kernel: has claimed the node, is in the list of builds. */
Test(fork_inside, what_another_thread_was_evaluating_can_be_evaluated, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    jit_var x = fork_ones(B, SIZE);
    sleeper s = {.v = jit_add(jit_mul(x, jit_u32(B, 9)), fork_twos(B, SIZE))};
    jit_set_log(sleep_in_log, &s, 3);
    pthread_create(&s.thread, NULL, evaluate, &s);
    while (!atomic_load(&s.inside))
        usleep(20);
    ASSERT_CHILD(evaluate_too, &s);
    atomic_store(&s.go, 1);
    pthread_join(s.thread, NULL);
    jit_set_log(NULL, NULL, 1);
    cr_assert(fork_all_are(s.v, 11));
    jit_unref(s.v);
    jit_unref(x);
    support_shutdown();
}

static void *wait_for_event(void *context) {
    jit_event_wait(((sleeper *) context)->event);
    return NULL;
}

static int use_event(void *context) {
    sleeper *s = context;
    NEED(jit_event_wait(s->event) == JIT_OK);
    jit_shutdown(); /* waits for calls inside of events */
    jit_event_destroy(s->event);
    return FINE;
}

Test(fork_inside, who_waited_for_an_event_is_not_waited_for, .timeout = 120) {
    fork_begin();
    if (B == JIT_CUDA)
        support_skip("the child cannot wait there");
    sleeper s = {0};
    ASSERT_OK(jit_event_create(B, false, &s.event));
    ASSERT_OK(jit_call(B, sleep_in_call, &s));
    ASSERT_OK(jit_event_record(s.event));
    pthread_create(&s.thread, NULL, wait_for_event, &s);
    while (!atomic_load(&s.inside))
        usleep(20);
    usleep(2000); /* better, but not needed: it waits */
    ASSERT_CHILD(use_event, &s);
    atomic_store(&s.go, 1);
    pthread_join(s.thread, NULL);
    jit_event_destroy(s.event);
    support_shutdown();
}

static void *schedule_and_stay(void *context) {
    sleeper *s = context;
    jit_schedule(s->v);
    atomic_store(&s->inside, 1);
    while (!atomic_load(&s->go))
        usleep(50);
    return NULL;
}

static int count_variables(void *context) {
    sleeper *s = context;
    jit_stats stats;
    jit_unref(s->v);
    NEED(jit_get_stats(&stats) == JIT_OK && stats.variables == 0);
    jit_shutdown();
    return FINE;
}

Test(fork_inside, what_other_threads_had_scheduled_is_given_up, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    jit_var x = fork_ones(B, SIZE);
    sleeper s = {.v = fork_compute(x, 1)};
    jit_unref(x);
    pthread_create(&s.thread, NULL, schedule_and_stay, &s);
    while (!atomic_load(&s.inside))
        usleep(20);
    ASSERT_CHILD(count_variables, &s);
    atomic_store(&s.go, 1);
    pthread_join(s.thread, NULL);
    jit_unref(s.v);
    support_shutdown();
}
