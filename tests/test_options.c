/* test_options.c: options from defaults, environment and text; the log. */
#include "core/log.h"
#include "core/options.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char logged[4096];
static int logged_level = -1;

static void keep_log(void *context, int level, const char *text) {
    snprintf(context, sizeof logged, "%s", text);
    logged_level = level;
}

static jitc_options o;

static void start(void) {
#define OPTION(name, kind, value, least, greatest, environment, ...) unsetenv(environment);
#include "core/options.def"
    jitc_log_set(keep_log, logged, JITC_LOG_WARN);
    jitc_options_init(&o);
}

TestSuite(options, .init = start);

static const char *get(const char *name) {
    static char text[600];
    cr_assert_eq(jitc_options_get(&o, name, text, sizeof text), JIT_OK);
    return text;
}

Test(options, every_option_starts_with_its_default) {
    char want[600];
#define DEFAULT_BOOL(value) snprintf(want, sizeof want, "%d", value)
#define DEFAULT_INT(value)  snprintf(want, sizeof want, "%lld", (long long) (value))
#define DEFAULT_TEXT(value) snprintf(want, sizeof want, "%s", value)
#define OPTION(name, kind, value, ...)                                                             \
    DEFAULT_##kind(value);                                                                         \
    cr_assert_str_eq(get(#name), want);
#include "core/options.def"
    cr_assert_eq(o.cache_disk, true);
    cr_assert_eq(o.llvm_level, -1);
    cr_assert_eq(logged_level, -1);
}

Test(options, the_environment_overrides_defaults) {
    setenv("JITC_CACHE_DIR", "/somewhere/else", 1);
    setenv("JITC_CACHE_DISK", "off", 1);
    setenv("JITC_CACHE_LIMIT", "64M", 1);
    setenv("JITC_SPIN_US", "", 1); /* as if it were not set */
    jitc_options_init(&o);
    cr_assert_str_eq(o.cache_dir, "/somewhere/else");
    cr_assert_eq(o.cache_disk, false);
    cr_assert_eq(o.cache_limit, 64 << 20);
    cr_assert_eq(o.spin_us, 150);
    cr_assert_eq(logged_level, -1);
}

Test(options, an_environment_that_does_not_parse_is_a_warning) {
    setenv("JITC_SPIN_US", "many", 1);
    jitc_options_init(&o);
    cr_assert_eq(o.spin_us, 150);
    cr_assert_eq(logged_level, -1);
    jitc_options_check_environment();
    cr_assert_eq(logged_level, JITC_LOG_WARN);
    cr_assert_str_eq(logged, "JITC_SPIN_US=many is ignored: expected a whole number from 0 to "
                             "1000000, with K, M or G after it if need be");
    cr_assert_eq(jit_error_status(), JIT_OK);
}

Test(options, booleans_have_six_spellings) {
    static const char *const yes[] = {"1", "true", "on", "ON", "True"};
    static const char *const no[] = {"0", "false", "off"};
    static const char *const wrong[] = {"", "2", "yes", "1 ", "tru"};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; ++i) {
        o.bounds_check = false;
        cr_assert_eq(jitc_options_set(&o, "bounds_check", yes[i]), JIT_OK);
        cr_assert(o.bounds_check);
    }
    for (size_t i = 0; i < sizeof no / sizeof *no; ++i) {
        o.bounds_check = true;
        cr_assert_eq(jitc_options_set(&o, "bounds_check", no[i]), JIT_OK);
        cr_assert(!o.bounds_check);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        cr_assert_eq(jitc_options_set(&o, "cache_disk", wrong[i]), JIT_INVALID_ARGUMENT);
    cr_assert(o.cache_disk);
}

Test(options, integers_may_have_a_suffix) {
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0},
                {"1234567890123", 1234567890123},
                {"3K", 3 << 10},
                {"2k", 2048},
                {"5M", 5 << 20},
                {"7g", (int64_t) 7 << 30},
                {"9223372036854775807", INT64_MAX},
                {"8589934591G", (int64_t) 8589934591 << 30}};
    static const char *const wrong[] = {"",
                                        " 1",
                                        "1 ",
                                        "x",
                                        "1KB",
                                        "1T",
                                        "0x10",
                                        "1.5",
                                        "--1",
                                        "-",
                                        "K",
                                        "-1",
                                        "-2k",
                                        "9223372036854775808",
                                        "8589934592G",
                                        "+1"};
    for (size_t i = 0; i < sizeof good / sizeof *good; ++i) {
        cr_assert_eq(jitc_options_set(&o, "memory_limit", good[i].text), JIT_OK, "%s",
                     good[i].text);
        cr_assert_eq(o.memory_limit, good[i].value, "%s", good[i].text);
    }
    o.memory_limit = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
        cr_assert_eq(jitc_options_set(&o, "memory_limit", wrong[i]), JIT_INVALID_ARGUMENT, "%s",
                     wrong[i]);
    cr_assert_eq(o.memory_limit, 77);
}

Test(options, numbers_have_a_range) {
    static const char *const wrong[][2] = {{"llvm_level", "-2"},   {"llvm_level", "4"},
                                           {"num_threads", "-1"},  {"num_threads", "4097"},
                                           {"kernel_ops", "1"},    {"cache_entries", "0"},
                                           {"memory_limit", "-5"}, {"log_level", "4"}};
    jitc_options_init(&o);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        cr_assert_eq(jitc_options_set(&o, wrong[i][0], wrong[i][1]), JIT_INVALID_ARGUMENT);
        cr_assert(strstr(jit_error(), " to "), "%s", jit_error());
        jit_error_clear();
    }
    cr_assert_eq(jitc_options_set(&o, "llvm_level", "-1"), JIT_OK);
    cr_assert_eq(jitc_options_set(&o, "llvm_level", "3"), JIT_OK);
    cr_assert_eq(o.llvm_level, 3);
}

Test(options, texts_have_a_limit) {
    char text[513];
    memset(text, 'x', sizeof text);
    text[511] = 0;
    cr_assert_eq(jitc_options_set(&o, "dump", text), JIT_OK);
    cr_assert_str_eq(o.dump, text);
    text[511] = 'x';
    text[512] = 0;
    cr_assert_eq(jitc_options_set(&o, "dump", text), JIT_INVALID_ARGUMENT);
    cr_assert_eq(strlen(o.dump), 511);
    cr_assert_eq(jitc_options_set(&o, "dump", ""), JIT_OK);
    cr_assert_str_eq(o.dump, "");
    cr_assert_eq(jitc_options_set(&o, "dump", NULL), JIT_INVALID_ARGUMENT);
}

Test(options, mistakes_are_named) {
    char text[4];
    cr_assert_eq(jitc_options_set(&o, "nothing", "1"), JIT_INVALID_ARGUMENT);
    cr_assert_str_eq(jit_error(), "there is no option \"nothing\"");
    jit_error_clear();
    cr_assert_eq(jitc_options_set(&o, NULL, "1"), JIT_INVALID_ARGUMENT);
    cr_assert_eq(jitc_options_get(&o, "nothing", text, sizeof text), JIT_INVALID_ARGUMENT);
    jit_error_clear();
    cr_assert_eq(jitc_options_set(&o, "fast_math", "maybe"), JIT_INVALID_ARGUMENT);
    cr_assert_str_eq(jit_error(),
                     "option fast_math: \"maybe\" is not 0, 1, false, true, off or on");
    cr_assert_eq(jitc_options_get(&o, "cache_limit", text, sizeof text), JIT_OK);
    cr_assert_str_eq(text, "268"); /* cut */
}

Test(log, passes_what_is_severe_enough) {
    jitc_log_set(keep_log, logged, JITC_LOG_INFO);
    jitc_log(JITC_LOG_DEBUG, "no");
    cr_assert_eq(logged_level, -1);
    jitc_log(JITC_LOG_INFO, "%d of %s", 3, "four");
    cr_assert_eq(logged_level, JITC_LOG_INFO);
    cr_assert_str_eq(logged, "3 of four");
    jitc_log(JITC_LOG_ERROR, "yes");
    cr_assert_eq(logged_level, JITC_LOG_ERROR);
    jitc_log_set(NULL, NULL, -1);
    jitc_log(JITC_LOG_ERROR, "not even to stderr");
    cr_assert_str_eq(logged, "yes");
}
