/* plain_runner.c: runs Criterion's tests without Criterion's runner, for ThreadSanitizer.
 * Layer: tests.  May include: nothing of the library.
 *
 * Criterion's runner maps memory at addresses that ThreadSanitizer keeps to itself, so it does not
 * start there. This one forks a process per test, too, and defines what the Test() and cr_assert()
 * macros call; libcriterion serves only to format messages.
 * usage: test_<name> [pattern], such as "pool/queue_*", matched with fnmatch() against suite/test
 */
#include <criterion/criterion.h>
#include <criterion/event.h>
#include <criterion/parameterized.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The linker makes these two around the section in which Test() leaves its pointers. */
extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
/* ... and TestSuite(); a program need not have any. */
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak));
extern struct criterion_suite *__stop_cr_sts[] __attribute__((weak));

static struct criterion_test *current;
static void *current_param;
static bool failed; /* by cr_expect() */

enum { SKIPPED = 77 }; /* exit status of a test that has left itself out */

void criterion_send_assert(struct criterion_assert_stats *stats) {
    if (!stats->passed)
        fprintf(stderr, "%s:%u: %s\n", stats->file, stats->line, stats->message);
}
void criterion_abort_test(void) {
    _exit(1);
}
void criterion_skip_test(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s is skipped: ", current->data->identifier_);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    _exit(SKIPPED);
}
void criterion_continue_test(void) {
    failed = true;
}
void cri_asserts_passed_incr(void) {}

/** What TestSuite() says of the current test's suite; NULL: nothing. */
static const struct criterion_test_extra_data *suite_data(void) {
    for (struct criterion_suite **s = __start_cr_sts; s < __stop_cr_sts; s++)
        if (*s && strcmp((*s)->name, current->category) == 0)
            return (*s)->data;
    return NULL;
}

void criterion_internal_test_setup(void) {
    const struct criterion_test_extra_data *suite = suite_data();
    if (suite && suite->init)
        suite->init();
    if (current->data->init)
        current->data->init();
}
void criterion_internal_test_main(void (*function)(void)) {
    if (current->data->kind_ == CR_TEST_PARAMETERIZED)
        ((void (*)(void *)) function)(current_param);
    else
        function();
}
void criterion_internal_test_teardown(void) {
    if (current->data->fini)
        current->data->fini();
    const struct criterion_test_extra_data *suite = suite_data();
    if (suite && suite->fini)
        suite->fini();
}

/** Is it chosen? ThreadSanitizer cannot follow a child that was forked beside other threads, so
 * tests about that, known by their names, are left out. */
static bool is_chosen(const struct criterion_test *test, const char *pattern) {
    if (test->data->disabled || strstr(test->name, "fork"))
        return false;
    return !pattern || fnmatch(pattern, test->data->identifier_, 0) == 0;
}

/** Run `test` in a process of its own. */
static bool passes(struct criterion_test *test, void *param) {
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0) {
        current = test;
        current_param = param;
        test->test();
        exit(failed); /* where the sanitizer adds its verdict */
    }
    int status = 0;
    waitpid(child, &status, 0);
    int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    bool good = signal == test->data->signal && (code == test->data->exit_code || code == SKIPPED);
    if (!good)
        fprintf(stderr, "%s failed: exit status %d, signal %d\n", test->data->identifier_, code,
                signal);
    return good;
}

/** Run `test` for each of its parameters. */
static bool passes_all(struct criterion_test *test) {
    if (test->data->kind_ != CR_TEST_PARAMETERIZED)
        return passes(test, NULL);
    struct criterion_test_params p = test->data->param_();
    bool good = true;
    for (size_t i = 0; i < p.length; i++)
        good = passes(test, (char *) p.params + i * p.size) && good;
    if (p.cleanup)
        p.cleanup(&p);
    return good;
}

int main(int argc, char **argv) {
    int good = 0, bad = 0;
    for (struct criterion_test **t = __start_cr_tst; t < __stop_cr_tst; t++) {
        if (!*t || !is_chosen(*t, argc > 1 ? argv[1] : NULL))
            continue;
        if (passes_all(*t))
            good++;
        else
            bad++;
    }
    printf("%d passed, %d failed\n", good, bad);
    return bad > 0 || good == 0;
}
