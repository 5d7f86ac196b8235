/* scan.c: the kernels of a text. It is read word by word; its style is known: kernels are declared
 * `KERNEL void name(type a, type b)`, and the type of a parameter is its text less the last name.
 */
#include "code.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_word(char c) {
    return isalnum((unsigned char) c) || c == '_';
}

/* Comments, strings, lines of the preprocessor and what is only for NVRTC become spaces; lines stay
 * where they are. */
static void blank(char *from, const char *to) {
    for (; from < to; from++) {
        if (*from != '\n') {
            *from = ' ';
        }
    }
}

static char *end_of_line(char *p) {
    while (*p && !(*p == '\n' && p[-1] != '\\')) {
        p++;
    }
    return p;
}

/* A conditional that starts at `p`: +1; one that ends there: -1; #else of this one: 0 and *other.
 */
static int nesting(const char *p, bool *other) {
    p += strspn(p, "# \t");
    *other = strncmp(p, "else", 4) == 0 || strncmp(p, "elif", 4) == 0;
    return strncmp(p, "if", 2) == 0 ? 1 : strncmp(p, "endif", 5) == 0 ? -1 : 0;
}

/* Behind the lines that only NVRTC sees: `p` is at the #ifdef, the result at the #else or #endif.
 */
static char *skip_for_device(char *p) {
    int depth = 0;
    for (char *line = p; *line; line += *line == '\n') {
        char *start = line + strspn(line, " \t");
        line = end_of_line(line);
        if (*start == '#') {
            bool other;
            depth += nesting(start, &other);
            if (depth == 0 || (other && depth == 1)) {
                return start;
            }
        }
    }
    return p + strlen(p);
}

/* Is it a condition under which only NVRTC reads on? */
static bool is_for_device(const char *line, size_t n) {
    const char *word = line + strspn(line, "# \t");
    bool positive = strncmp(word, "if", 2) == 0 && word[2] != 'n' && !memchr(line, '!', n);
    return positive && memmem(line, n, "__CUDACC_RTC__", 14);
}

static char *skip_line(char *p) {
    char *end = end_of_line(p);
    return is_for_device(p, (size_t) (end - p)) ? skip_for_device(p) : end;
}

static char *skip_quoted(char *p) {
    char quote = *p++;
    while (*p && *p != quote) {
        p += *p == '\\' && p[1] ? 2 : 1;
    }
    return *p ? p + 1 : p;
}

static void reduce(char *text) {
    bool fresh = true; /* only white space since the line began */
    for (char *p = text; *p;) {
        char *start = p;
        if (p[0] == '/' && p[1] == '/') {
            p = end_of_line(p);
        } else if (p[0] == '/' && p[1] == '*') {
            char *end = strstr(p + 2, "*/");
            p = end ? end + 2 : p + strlen(p);
        } else if (*p == '"' || *p == '\'') {
            p = skip_quoted(p);
        } else if (*p == '#' && fresh) {
            p = skip_line(p);
        } else {
            fresh = *p == '\n' || (fresh && isspace((unsigned char) *p));
            p++;
            continue;
        }
        blank(start, p);
    }
}

/* The next word at or behind *p; its length, 0 at the end. */
static size_t next_word(const char **p) {
    for (; **p; ++*p) {
        size_t n = 0;
        while (is_word((*p)[n])) {
            n++;
        }
        if (n && !isdigit((unsigned char) **p)) {
            return n;
        }
        *p += n ? n - 1 : 0; /* a number with its suffix */
    }
    return 0;
}

static bool same(const char *word, size_t n, const char *what) {
    return strlen(what) == n && memcmp(word, what, n) == 0;
}

/* Does a word mean that threads may wait for each other? */
static bool is_wait(const char *word, size_t n, bool after_asm) {
    static const char *const words[] = {"SHARED", "SHARED_DYNAMIC", "__nanosleep", "__activemask"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (same(word, n, words[i])) {
            return true;
        }
    }
    return (same(word, n, "volatile") && !after_asm) || memmem(word, n, "__sync", 6) ||
           memmem(word, n, "__threadfence", 13) || (n > 5 && same(word + n - 5, 5, "_sync"));
}

static const char *matching(const char *open) {
    int depth = 0;
    for (const char *p = open; *p; p++) {
        depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
        if (depth == 0) {
            return p;
        }
    }
    return NULL;
}

/* SHARED(T, name, count): its bytes, with what access.c puts behind it. */
static bool write_shared(FILE *to, const char *open) {
    const char *end = *open == '(' ? matching(open) : NULL;
    const char *comma = end ? memchr(open, ',', (size_t) (end - open)) : NULL;
    const char *last = end ? memrchr(open, ',', (size_t) (end - open)) : NULL;
    if (!comma || comma == last) {
        return false;
    }
    fprintf(to, " + (sizeof(%.*s) * (%.*s) + 15) / 16 * 16", (int) (comma - open - 1), open + 1,
            (int) (end - last - 1), last + 1);
    return true;
}

typedef struct parameter {
    const char *text;
    int length; /* of its type */
} parameter;

/* The parameters between the parentheses; their number, -1 if they are not understood. */
static int split(const char *open, const char *close, parameter *out) {
    int n = 0;
    const char *first = open + 1 + strspn(open + 1, " \n\t");
    if (first == close ||
        (same(first, 4, "void") && first + 4 + strspn(first + 4, " \n") == close)) {
        return 0;
    }
    for (const char *p = open + 1; p < close; n++) {
        const char *end = memchr(p, ',', (size_t) (close - p));
        end = end ? end : close;
        const char *type = end;
        while (type > p && isspace((unsigned char) type[-1])) {
            type--;
        }
        const char *name = type;
        while (type > p && is_word(type[-1])) {
            type--;
        }
        if (n == SIM_MOST_ARGUMENTS || type == name || type == p ||
            memchr(p, '(', (size_t) (end - p))) {
            return -1;
        }
        out[n] = (parameter) {p, (int) (type - p)};
        p = end + 1;
    }
    return n;
}

static void write_call(FILE *to, const char *name, const parameter *p, int n) {
    fprintf(to, "void sim_call_%s(void **a) { (void) a; %s(", name, name);
    for (int i = 0; i < n; i++) {
        fprintf(to, "%s*(%.*s*) a[%d]", i ? ", " : "", p[i].length, p[i].text, i);
    }
    fprintf(to, "); }\nconst unsigned long sim_info_%s[] = {%d, 1", name, n);
}

/* Behind __launch_bounds__: how many threads a multiprocessor is to have. */
static void write_bounds(FILE *to, const char *open) {
    const char *close = matching(open);
    const char *comma = memchr(open, ',', (size_t) (close - open));
    if (comma)
        fprintf(to, " * (%.*s)", (int) (close - comma - 1), comma + 1);
    fprintf(to, " * (%.*s)", (int) ((comma ? comma : close) - open - 1), open + 1);
}

typedef struct scanner {
    sim_scan *out;
    FILE *calls;
    char *shared; /* sum of what stands before the first kernel, then of one kernel */
    char *common;
    parameter parameters[SIM_MOST_ARGUMENTS];
    int count;
} scanner;

static bool fail(char **log, const char *what, const char *name, size_t n) {
    if (asprintf(log, "error: %s: %.*s\n", what, (int) n, name) < 0) {
        *log = NULL;
    }
    return false;
}

/* The words of sim_info that come last, once all of the kernel's text was read. */
static void finish_kernel(scanner *s) {
    if (s->out->count) {
        fprintf(s->calls, ", 0%s%s", s->common ? s->common : "", s->shared ? s->shared : "");
        for (int i = 0; i < s->count; i++) {
            const parameter *p = &s->parameters[i];
            fprintf(s->calls, ", sizeof(%.*s), _Alignof(%.*s)", p->length, p->text, p->length,
                    p->text);
        }
        fprintf(s->calls, "};\n");
        free(s->shared);
    } else {
        s->common = s->shared;
    }
    s->shared = NULL;
}

/* Behind KERNEL: `void name(...)`, perhaps with __launch_bounds__(...). */
static bool start_kernel(scanner *s, const char **at, char **log) {
    const char *p = *at, *name = p, *open, *limits = NULL;
    size_t n = 0, length = 0;
    while ((n = next_word(&p))) {
        name = p, length = n;
        p += n + strspn(p + n, " \n\t");
        bool bounds = same(name, length, "__launch_bounds__");
        if (*p == '(' && !bounds) {
            break;
        }
        if (*p == '(' && matching(p)) {
            limits = bounds ? p : limits;
            p = matching(p) + 1;
        }
    }
    open = p;
    const char *close = n ? matching(open) : NULL;
    if (!close) {
        return fail(log, "a kernel without parameters", name, length);
    }
    finish_kernel(s);
    s->count = split(open, close, s->parameters);
    if (s->count < 0) {
        return fail(log, "parameters that are not understood", name, (size_t) (close + 1 - name));
    }
    char **names = realloc(s->out->names, (s->out->count + 1) * sizeof *names);
    char *copy = strndup(name, length);
    if (names) {
        s->out->names = names;
    }
    if (!names || !copy) {
        free(copy);
        return fail(log, "no memory for a kernel", name, length);
    }
    names[s->out->count++] = copy;
    write_call(s->calls, copy, s->parameters, s->count);
    if (limits)
        write_bounds(s->calls, limits);
    *at = close + 1;
    return true;
}

static bool add_shared(scanner *s, const char *open, char **log) {
    char *sum = NULL;
    size_t n;
    FILE *to = open_memstream(&sum, &n);
    if (!to) {
        return fail(log, "no memory", "", 0);
    }
    fputs(s->shared ? s->shared : "", to);
    bool good = write_shared(to, open);
    fclose(to);
    free(s->shared);
    s->shared = sum;
    return good || fail(log, "SHARED(type, name, count) expected", open, strcspn(open, "\n"));
}

static bool scan_words(scanner *s, const char *text, char **log) {
    bool good = true, after_asm = false;
    size_t n;
    for (const char *p = text; good && (n = next_word(&p));) {
        const char *word = p;
        p += n;
        s->out->waits |= is_wait(word, n, after_asm);
        after_asm = same(word, n, "asm") || same(word, n, "__asm__");
        if (same(word, n, "KERNEL")) {
            good = start_kernel(s, &p, log);
        } else if (same(word, n, "SHARED")) {
            good = add_shared(s, p + strspn(p, " "), log);
        }
    }
    return good;
}

bool sim_scan_text(const char *text, sim_scan *out, char **log) {
    *out = (sim_scan) {0};
    scanner s = {.out = out};
    size_t n;
    char *copy = strdup(text);
    s.calls = copy ? open_memstream(&out->calls, &n) : NULL;
    if (!s.calls) {
        free(copy);
        return fail(log, "no memory", "", 0);
    }
    reduce(copy);
    bool good = scan_words(&s, copy, log);
    finish_kernel(&s);
    good &= fclose(s.calls) == 0;
    for (const char *p = copy; *p; p++) {
        out->statements += *p == ';';
    }
    free(s.common);
    free(copy);
    if (!good) {
        sim_scan_free(out);
    }
    return good;
}

void sim_scan_free(sim_scan *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->names[i]);
    }
    free(s->names);
    free(s->calls);
    *s = (sim_scan) {0};
}
