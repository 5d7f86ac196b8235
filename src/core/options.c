#include "core/options.h"
#include "core/log.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { TEXT_SIZE = sizeof((jitc_options *) 0)->cache_dir };

typedef enum kind { KIND_BOOL, KIND_INT, KIND_TEXT } kind;

/* What is known of an option, with its place in jitc_options. */
typedef struct row {
    const char *name, *environment;
    kind kind;
    size_t offset;
    int64_t number; /* default of BOOL and INT */
    int64_t least, greatest;
    const char *text;
} row;

#define ROW_BOOL(value) .number = (value)
#define ROW_INT(value)  .number = (value)
#define ROW_TEXT(value) .text = (value)
#define OPTION(option, k, value, low, high, variable, ...)                                         \
    {.name = #option,                                                                              \
     .least = (low),                                                                               \
     .greatest = (high),                                                                           \
     .environment = (variable),                                                                    \
     .kind = KIND_##k,                                                                             \
     .offset = offsetof(jitc_options, option),                                                     \
     ROW_##k(value)},
static const row rows[] = {
#include "core/options.def"
};
#undef ROW_BOOL
#undef ROW_INT
#undef ROW_TEXT

enum { ROW_COUNT = sizeof rows / sizeof *rows };

static const row *find(const char *name) {
    for (size_t i = 0; name && i < ROW_COUNT; ++i)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

static _Atomic bool *flag_at(const jitc_options *o, const row *r) {
    return (_Atomic bool *) ((uintptr_t) o + r->offset);
}
static _Atomic int64_t *number_at(const jitc_options *o, const row *r) {
    return (_Atomic int64_t *) ((uintptr_t) o + r->offset);
}

static bool parse_bool(const char *text, bool *out) {
    static const char *const words[] = {"0", "1", "false", "true", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof *words; ++i)
        if (!strcasecmp(text, words[i])) {
            *out = i % 2;
            return true;
        }
    return false;
}

/* Bits of a suffix: "" 0, "K" 10, ...; -1 if it is none. */
static int suffix_bits(const char *s) {
    static const char letters[] = "KMG";
    if (!*s)
        return 0;
    const char *at = strchr(letters, *s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
    return at && !s[1] ? 10 * (int) (at - letters + 1) : -1;
}

static bool parse_int(const char *text, int64_t *out) {
    if (!strchr("-0123456789", *text)) /* strtoll would skip white space */
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    int bits = suffix_bits(end);
    if (errno || end == text || bits < 0 ||
        __builtin_mul_overflow(value, (long long) 1 << bits, &value))
        return false;
    *out = value;
    return true;
}

/* Set an option; false, and nothing changed, if the text is no value of its kind. */
static bool set(jitc_options *o, const row *r, const char *text) {
    int64_t number = 0;
    bool flag = false;
    if (r->kind == KIND_BOOL ? !parse_bool(text, &flag)
        : r->kind == KIND_INT
            ? !parse_int(text, &number) || number < r->least || number > r->greatest
            : strlen(text) >= TEXT_SIZE)
        return false;
    if (r->kind == KIND_BOOL)
        jitc_store_relaxed(flag_at(o, r), flag);
    else if (r->kind == KIND_INT)
        jitc_store_relaxed(number_at(o, r), number);
    else
        memmove((char *) o + r->offset, text, strlen(text) + 1);
    return true;
}

static void set_default(jitc_options *o, const row *r) {
    if (r->kind == KIND_BOOL)
        jitc_store_relaxed(flag_at(o, r), r->number != 0);
    else if (r->kind == KIND_INT)
        jitc_store_relaxed(number_at(o, r), r->number);
    else
        snprintf((char *) o + r->offset, TEXT_SIZE, "%s", r->text);
}

/* What a value has to be, in `text`. */
static const char *expected(const row *r, char text[128]) {
    if (r->kind == KIND_INT)
        snprintf(text, 128,
                 "a whole number from %" PRId64 " to %" PRId64
                 ", with K, M or G after it if need be",
                 r->least, r->greatest);
    else
        snprintf(text, 128, "%s",
                 r->kind == KIND_BOOL ? "0, 1, false, true, off or on"
                                      : "a text of at most 511 bytes");
    return text;
}

void jitc_options_init(jitc_options *o) {
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < ROW_COUNT; ++i) {
        const row *r = &rows[i];
        const char *value = secure_getenv(r->environment);
        set_default(o, r);
        if (value && *value)
            set(o, r, value);
    }
}

void jitc_options_check_environment(void) {
    jitc_options unused;
    char text[128];
    for (size_t i = 0; i < ROW_COUNT; ++i) {
        const row *r = &rows[i];
        const char *value = secure_getenv(r->environment);
        if (value && *value && !set(&unused, r, value))
            jitc_log(JITC_LOG_WARN, "%s=%.64s is ignored: expected %s", r->environment, value,
                     expected(r, text));
    }
}

jit_status jitc_options_set(jitc_options *o, const char *name, const char *value) {
    const row *r = find(name);
    char text[128];
    if (!r)
        return jitc_fail(JIT_INVALID_ARGUMENT, "there is no option \"%.64s\"", name ? name : "");
    if (!value || !set(o, r, value))
        return jitc_fail(JIT_INVALID_ARGUMENT, "option %s: \"%.64s\" is not %s", r->name,
                         value ? value : "", expected(r, text));
    return JIT_OK;
}

jit_status jitc_options_get(const jitc_options *o, const char *name, char *text, size_t size) {
    const row *r = find(name);
    if (!r)
        return jitc_fail(JIT_INVALID_ARGUMENT, "there is no option \"%.64s\"", name ? name : "");
    if (r->kind == KIND_BOOL)
        snprintf(text, size, "%d", jitc_load_relaxed(flag_at(o, r)));
    else if (r->kind == KIND_INT)
        snprintf(text, size, "%" PRId64, jitc_load_relaxed(number_at(o, r)));
    else
        snprintf(text, size, "%s", (const char *) o + r->offset);
    return JIT_OK;
}
