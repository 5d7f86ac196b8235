/* test_loop_errors.c: what goes wrong with loops, and that nothing is left of it. */
#include "loop_world.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static jit_var lit(uint32_t v) {
    return jit_u32(B, v);
}

/* The thread's error has this status and says all of the words. */
static void expect_error(jit_status status, const char *words) {
    char copy[200], *rest = copy;
    cr_assert_eq(jit_error_status(), status, "%s: %s", jit_status_name(jit_error_status()),
                 jit_error());
    strcpy(copy, words);
    for (char *word; (word = strtok_r(rest, " ", &rest));)
        cr_assert(strstr(jit_error(), word), "%s: %s", word, jit_error());
    jit_error_clear();
}

TestSuite(loop_errors, .init = loop_world_begin, .fini = loop_world_end);

/* A loop with one state, which counts to 3. */
static jit_loop *counting(jit_var *state, jit_var *active) {
    *state = lit(0);
    jit_loop *l = jit_loop_begin(1, state);
    *active = jit_lt(*state, lit(3));
    return l;
}

Test(loop_errors, states_that_do_not_fit) {
    jit_var s[2], active, x = jit_from_host(B, JIT_u32, (uint32_t[5]) {0}, 5);
    s[0] = 0;
    cr_assert_null(jit_loop_begin(1, s));
    expect_error(JIT_INVALID_HANDLE, "jit_loop_begin: state 0 is 0");
    cr_assert_null(jit_loop_begin(0, s));
    expect_error(JIT_INVALID_ARGUMENT, "jit_loop_begin: no state");
    jit_loop *l = counting(s, &active);
    ASSERT_OK(jit_loop_condition(l, active));
    s[1] = x;
    cr_assert_eq(jit_loop_end(l, 2, s), JIT_INVALID_ARGUMENT);
    cr_assert(!s[0] && !s[1]);
    expect_error(JIT_INVALID_ARGUMENT, "jit_loop_end: 2 states, jit_loop_begin() had 1");
    l = counting(s, &active);
    ASSERT_OK(jit_loop_condition(l, active));
    s[0] = jit_cast(s[0], JIT_f32);
    cr_assert_eq(jit_loop_end(l, 1, s), JIT_TYPE_MISMATCH);
    expect_error(JIT_TYPE_MISMATCH, "jit_loop_end: state 0 u32 f32 jit_cast()");
    s[0] = x;
    l = jit_loop_begin(1, s);
    ASSERT_OK(jit_loop_condition(l, jit_lt(s[0], lit(3))));
    s[0] = jit_from_host(B, JIT_u32, (uint32_t[6]) {0}, 6);
    cr_assert_eq(jit_loop_end(l, 1, s), JIT_SIZE_MISMATCH);
    expect_error(JIT_SIZE_MISMATCH, "jit_loop_end: state 0 6 5 elements");
}

Test(loop_errors, conditions_that_are_none) {
    jit_var s[1], active;
    jit_loop *l = counting(s, &active);
    cr_assert_eq(jit_loop_condition(l, s[0]), JIT_TYPE_MISMATCH);
    expect_error(JIT_TYPE_MISMATCH, "jit_loop_condition: u32 bool");
    cr_assert_eq(jit_loop_condition(l, 0), JIT_INVALID_HANDLE);
    expect_error(JIT_INVALID_HANDLE, "jit_loop_condition: condition is 0");
    cr_assert_eq(jit_loop_condition(l, jit_bool(B, true)), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "jit_loop_condition: always true never end");
    cr_assert_eq(jit_loop_end(l, 1, s), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "jit_loop_end: no condition jit_loop_condition()");
    l = counting(s, &active);
    ASSERT_OK(jit_loop_condition(l, active));
    cr_assert_eq(jit_loop_condition(l, active), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "jit_loop_condition: already");
    jit_loop_cancel(l);
    s[0] = lit(1);
    cr_assert_null(jit_if_begin(s[0], 1, s));
    expect_error(JIT_TYPE_MISMATCH, "jit_if_begin: u32 bool");
}

Test(loop_errors, a_failure_is_told_once_and_goes_through) {
    jit_var s[] = {jit_add(lit(1), jit_f32(B, 1))};
    jit_loop *l = jit_loop_begin(1, s);
    cr_assert_null(l);
    cr_assert_eq(jit_loop_condition(l, jit_lt(s[0], lit(3))), JIT_TYPE_MISMATCH);
    s[0] = jit_add(s[0], lit(1));
    cr_assert_eq(jit_loop_end(l, 1, s), JIT_TYPE_MISMATCH);
    cr_assert_eq(s[0], 0);
    expect_error(JIT_TYPE_MISMATCH, "jit_add: u32 f32");
}

Test(loop_errors, what_is_inside_is_not_evaluated) {
    jit_var s[1], active;
    uint32_t found;
    jit_loop *l = counting(s, &active);
    ASSERT_OK(jit_loop_condition(l, active));
    jit_var inside = jit_add(s[0], lit(5)), phi = s[0];
    cr_assert_eq(jit_read(inside, &found), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "outside loop jit_loop_end()");
    cr_assert_eq(jit_read(phi, &found), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "outside loop jit_loop_end()");
    s[0] = jit_add(s[0], lit(1));
    ASSERT_OK(jit_loop_end(l, 1, s));
    jit_schedule(s[0]); /* the end is there now */
    cr_assert_eq(jit_read(inside, &found), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "inside jit_loop_end() state");
    jit_var t[] = {lit(0)};
    l = jit_loop_begin(1, t);
    ASSERT_OK(jit_loop_condition(l, jit_lt(t[0], lit(9))));
    t[0] = jit_add(t[0], inside);
    ASSERT_OK(jit_loop_end(l, 1, t));
    cr_assert_eq(jit_read(t[0], &found), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "outside loop jit_loop_end()");
    loop_world_expect_u32(s[0], 1, (uint32_t[]) {3}, "the first loop");
}

Test(loop_errors, lanes_do_not_see_each_other_inside) {
    static const char *const words[] = {
        "jit_reduce() combines lanes before behind", "jit_gather() source computed inside outside",
        "state 1 scattered gather before the loop", "state 1 scattered add result behind"};
    uint32_t found[8];
    jit_var x = jit_counter(B, 8);
    for (int i = 0; i < 4; ++i) {
        jit_var t[] = {x, jit_literal(B, JIT_u32, &(uint32_t) {0}, 8), lit(0)};
        jit_loop *l = jit_loop_begin(3, t);
        ASSERT_OK(jit_loop_condition(l, jit_lt(t[0], lit(9))));
        jit_var value = i == 0   ? jit_reduce(JIT_REDUCE_ADD, t[0])
                        : i == 1 ? jit_gather(t[0], lit(1), 0)
                        : i == 2 ? jit_gather(t[1], t[0], 0)
                                 : t[1];
        t[1] = jit_scatter(t[1], t[0], x, 0);
        t[0] = jit_add(t[0], lit(1));
        t[2] = jit_add(t[2], value);
        ASSERT_OK(jit_loop_end(l, 3, t));
        cr_assert_eq(jit_read(t[2], found), JIT_INVALID_ARGUMENT);
        expect_error(JIT_INVALID_ARGUMENT, words[i]);
        cr_assert_eq(jit_read(t[0], found), JIT_OK, "what does not need it: %s", jit_error());
    }
}

Test(loop_errors, targets_of_scatters_are_states) {
    uint32_t found[8];
    jit_var x = jit_counter(B, 8), array = jit_literal(B, JIT_u32, &(uint32_t) {0}, 8);
    jit_var s[] = {x, array};
    jit_loop *l = jit_loop_begin(2, s);
    ASSERT_OK(jit_loop_condition(l, jit_lt(s[0], lit(9))));
    s[1] = jit_scatter(array, s[0], x, 0); /* not the state */
    s[0] = jit_add(s[0], lit(1));
    ASSERT_OK(jit_loop_end(l, 2, s));
    cr_assert_eq(jit_read(s[1], found), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "jit_scatter() target no state jit_loop_begin()");
    jit_var t[] = {array, array};
    l = jit_loop_begin(2, t);
    ASSERT_OK(jit_loop_condition(l, jit_lt(x, lit(9))));
    jit_var a = jit_scatter(t[0], x, x, 0);
    t[0] = t[1];
    t[1] = a;
    cr_assert_eq(jit_loop_end(l, 2, t), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "state 1 array state 0 place");
}

/* ---- life ---- */

static void *end_elsewhere(void *loop) {
    jit_var v = lit(1), s[] = {v};
    cr_assert_eq(jit_loop_end(loop, 1, s), JIT_INVALID_HANDLE);
    cr_assert(strstr(jit_error(), "another thread"), "%s", jit_error());
    jit_unref(v);
    return NULL;
}

Test(loop_errors, a_loop_belongs_to_its_thread_and_ends_in_order) {
    jit_var s[1], t[1], active;
    pthread_t thread;
    jit_loop *outer = counting(s, &active);
    cr_assert_eq(pthread_create(&thread, NULL, end_elsewhere, outer), 0);
    pthread_join(thread, NULL);
    ASSERT_OK(jit_loop_condition(outer, active));
    jit_loop *inner = counting(t, &active);
    cr_assert_eq(jit_loop_condition(outer, active), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "jit_loop_condition: jit_loop_begin() inside ended");
    cr_assert_eq(jit_loop_end(outer, 1, s), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "jit_loop_end: jit_loop_begin() inside end it first");
    cr_assert_eq(jit_loop_end(inner, 1, t), JIT_INVALID_HANDLE, "it went with the outer one");
    expect_error(JIT_INVALID_HANDLE, "jit_loop_end: no such loop ended");
    t[0] = lit(2);
    cr_assert_eq(jit_if_end((jit_if *) outer, 1, t), JIT_INVALID_HANDLE);
    expect_error(JIT_INVALID_HANDLE, "jit_if_end: no such branch");
}

Test(loop_errors, what_is_abandoned_leaves_nothing) {
    jit_var s[2], active;
    jit_loop *l = counting(s, &active);
    ASSERT_OK(jit_loop_condition(l, active));
    jit_var in[] = {s[0]};
    jit_if *f = jit_if_begin(active, 1, in);
    in[0] = jit_add(in[0], s[0]);
    jit_loop_cancel(l); /* and the branch */
    jit_if_cancel(f);
    expect_error(JIT_INVALID_HANDLE, "jit_if_cancel: no such branch");
    jit_loop_cancel(NULL);
    s[0] = lit(3);
    f = jit_if_begin(active, 1, s);
    ASSERT_OK(jit_if_else(f, 1, s));
    cr_assert_eq(jit_if_else(f, 1, s), JIT_INVALID_ARGUMENT);
    expect_error(JIT_INVALID_ARGUMENT, "jit_if_else: already");
    cr_assert_eq(jit_if_end(f, 1, s), JIT_INVALID_HANDLE, "it has ended");
    jit_error_clear();
}

static void *leave_open(void *unused) {
    (void) unused;
    jit_var s[1], active;
    jit_scope_push();
    counting(s, &active);
    counting(s, &active);
    jit_scope_pop(0, NULL);
    return NULL;
}

Test(loop_errors, threads_that_end_abandon_their_loops) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, leave_open, NULL), 0);
    pthread_join(thread, NULL); /* nothing is left: .fini looks */
}

Test(loop_errors, shutdown_ends_loops) {
    jit_var s[1], active;
    jit_loop *l = counting(s, &active);
    jit_shutdown();
    support_init();
    s[0] = lit(1);
    cr_assert_eq(jit_loop_end(l, 1, s), JIT_INVALID_HANDLE);
    expect_error(JIT_INVALID_HANDLE, "jit_loop_end: no such loop ended");
}

/* The child goes on with a loop that its parent has begun, and so does the parent. */
Test(loop_errors, a_fork_leaves_the_loops_of_the_thread_to_both) {
    jit_var s[1], active;
    uint32_t found = 0;
    int status = 0;
    support_need_host_memory(); /* CUDA is not there in a child */
    jit_loop *l = counting(s, &active);
    ASSERT_OK(jit_loop_condition(l, active));
    pid_t child = fork();
    s[0] = jit_add(s[0], lit(1));
    bool good = jit_loop_end(l, 1, s) == JIT_OK && jit_read(s[0], &found) == JIT_OK && found == 3;
    if (!child)
        _exit(good ? 0 : 1);
    cr_assert(good, "%s", jit_error());
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(status, 0, "the child has failed");
}

/* As who has no scope does it: start values, variables, next values, results; each once. */
Test(loop_errors, references_are_given_back_by_hand) {
    jit_scope_pop(0, NULL);
    jit_stats stats;
    jit_var one = lit(1), three = lit(3), start = lit(0), s[] = {start};
    jit_loop *l = jit_loop_begin(1, s);
    jit_var variable = s[0], active = jit_lt(variable, three), next = jit_add(variable, one);
    ASSERT_OK(jit_loop_condition(l, active));
    s[0] = next;
    ASSERT_OK(jit_loop_end(l, 1, s));
    jit_var all[] = {one, three, start, variable, active, next};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
        jit_unref(all[i]);
    loop_world_expect_u32(s[0], 1, (uint32_t[]) {3}, "result");
    jit_unref(s[0]);
    ASSERT_OK(jit_get_stats(&stats));
    cr_assert_eq(stats.variables, 0);
    jit_scope_push();
}
