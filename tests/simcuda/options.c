/* options.c: the options of NVRTC's compiler, with its messages. Others are refused. */
#include "code.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `values`: what may stand behind the =; NULL: nothing may. */
static const struct {
    const char *name, *values;
} accepted[] = {
    {"fmad", "true false"},
    {"ftz", "true false"},
    {"prec-div", "true false"},
    {"prec-sqrt", "true false"},
    {"std", "c++03 c++11 c++14 c++17 c++20"},
    {"device-as-default-execution-space", NULL},
    {"default-device", NULL},
    {"minimal", NULL},
    {"no-cache", NULL},
    {"disable-warnings", NULL},
    {"w", NULL},
    {"restrict", NULL},
    {"extra-device-vectorization", NULL},
    {"generate-line-info", NULL},
    {"lineinfo", NULL},
};

__attribute__((format(printf, 2, 3))) static bool say(char **log, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    free(*log);
    if (vasprintf(log, format, arguments) < 0) {
        *log = NULL;
    }
    va_end(arguments);
    return false;
}

static bool is_among(const char *values, const char *value) {
    size_t n = strlen(value);
    for (const char *p = values; n && (p = strstr(p, value)); p += n) {
        if ((p == values || p[-1] == ' ') && (p[n] == ' ' || !p[n])) {
            return true;
        }
    }
    return false;
}

static bool read_arch(const char *value, sim_options *out, char **log) {
    out->is_virtual = strncmp(value, "compute_", 8) == 0;
    char *end = NULL;
    if (out->is_virtual || strncmp(value, "sm_", 3) == 0) {
        out->arch = (int) strtol(strchr(value, '_') + 1, &end, 10);
    }
    if (!end || *end || !sim_knows_arch(out->arch)) {
        return say(log, "nvrtc: error: invalid value for --gpu-architecture (-arch)\n");
    }
    return true;
}

/* NAME or NAME=VALUE */
static bool define(const char *what, sim_options *out) {
    size_t n = strcspn(what, "=");
    const char *value = what[n] ? what + n + 1 : "1";
    char *more;
    if (asprintf(&more, "%s#define %.*s %s\n", out->definitions ? out->definitions : "", (int) n,
                 what, value) < 0) {
        return false;
    }
    free(out->definitions);
    out->definitions = more;
    return true;
}

/* `name` without dashes, as far as the =; `value` behind it, or NULL. */
static bool check(const char *whole, const char *name, size_t n, const char *value, char **log) {
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        const char *values = accepted[i].values;
        if (strlen(accepted[i].name) != n || memcmp(accepted[i].name, name, n) != 0 ||
            (value && !values)) {
            continue;
        }
        if (values && (!value || !is_among(values, value))) {
            return say(log, "nvrtc: error: invalid value for --%s\n", accepted[i].name);
        }
        return true;
    }
    return say(log, "nvrtc: error: unrecognized option %s found\n", whole);
}

bool sim_options_read(int count, const char *const *options, sim_options *out, char **log) {
    *out = (sim_options) {.arch = 75, .is_virtual = true};
    bool good = true;
    for (int i = 0; good && i < count; i++) {
        const char *name = options[i] + strspn(options[i], "-");
        size_t dashes = (size_t) (name - options[i]), n = strcspn(name, "=");
        const char *value = name[n] ? name + n + 1 : NULL;
        bool arch = (n == 16 && memcmp(name, "gpu-architecture", n) == 0) ||
                    (n == 4 && memcmp(name, "arch", n) == 0);
        if (dashes == 0 || dashes > 2) {
            good = say(log, "nvrtc: error: unrecognized option %s found\n", options[i]);
        } else if (arch) {
            value = value ? value : i + 1 < count ? options[++i] : "";
            good = read_arch(value, out, log);
        } else if (*name == 'D' && dashes == 1) {
            good = define(name + 1, out);
        } else if (n == 12 && memcmp(name, "define-macro", n) == 0 && value) {
            good = define(value, out);
        } else {
            good = check(options[i], name, n, value, log);
        }
    }
    return good;
}
