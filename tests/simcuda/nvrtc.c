/* nvrtc.c: the entry points of NVRTC. Results and messages are those of the real one. */
#include "code.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
/* Counted; and the result that a test has asked for. */
#define ENTER(function)                                                                            \
    static sim_entry entry = {.name = function};                                                   \
    int injected = sim_enter(&entry);                                                              \
    if (injected) {                                                                                \
        return injected;                                                                           \
    }

typedef enum nvrtc_result {
    SUCCESS,
    OUT_OF_MEMORY,
    PROGRAM_CREATION_FAILURE,
    INVALID_INPUT,
    INVALID_PROGRAM,
    INVALID_OPTION,
    COMPILATION
} nvrtc_result;

typedef struct program {
    char *source, *name, *log;
    char *cubin, *ptx; /* NULL: none */
    size_t cubin_bytes, ptx_bytes;
    sim_code *code; /* alive, so that loading the module does not compile again */
} program;

/* ---- Versions and architectures ---- */

static int version(void) {
    const char *set = getenv("SIMCUDA_NVRTC_VERSION"); /* such as 12.4 */
    int major, minor;
    return set && sscanf(set, "%d.%d", &major, &minor) == 2 ? 1000 * major + 10 * minor
                                                            : sim_version();
}

/* Versions that know an architecture: from `since` on, below `until`. */
static const struct {
    int arch, since, until;
} archs[] = {
    {50, 0, 13000},      {52, 0, 13000},      {53, 0, 13000},      {60, 0, 13000},
    {61, 0, 13000},      {62, 0, 13000},      {70, 0, 13000},      {72, 0, 13000},
    {75, 10000, 99999},  {80, 11000, 99999},  {86, 11010, 99999},  {87, 11040, 99999},
    {88, 13000, 99999},  {89, 11080, 99999},  {90, 11080, 99999},  {100, 12080, 99999},
    {101, 12080, 13000}, {103, 12090, 99999}, {110, 13000, 99999}, {120, 12080, 99999},
    {121, 12090, 99999},
};
enum { ARCHS = sizeof archs / sizeof *archs };

static bool knows(size_t i) {
    return archs[i].since <= version() && version() < archs[i].until;
}

bool sim_knows_arch(int arch) {
    for (size_t i = 0; i < ARCHS; i++) {
        if (archs[i].arch == arch && knows(i)) {
            return true;
        }
    }
    return false;
}

EXPORT int nvrtcVersion(int *major, int *minor);
int nvrtcVersion(int *major, int *minor) {
    ENTER("nvrtcVersion");
    if (!major || !minor) {
        return INVALID_INPUT;
    }
    *major = version() / 1000;
    *minor = version() % 1000 / 10;
    return SUCCESS;
}

EXPORT int nvrtcGetNumSupportedArchs(int *count);
int nvrtcGetNumSupportedArchs(int *count) {
    ENTER("nvrtcGetNumSupportedArchs");
    if (!count) {
        return INVALID_INPUT;
    }
    *count = 0;
    for (size_t i = 0; i < ARCHS; i++) {
        *count += knows(i);
    }
    return SUCCESS;
}

EXPORT int nvrtcGetSupportedArchs(int *out);
int nvrtcGetSupportedArchs(int *out) {
    ENTER("nvrtcGetSupportedArchs");
    if (!out) {
        return INVALID_INPUT;
    }
    for (size_t i = 0; i < ARCHS; i++) {
        if (knows(i)) {
            *out++ = archs[i].arch;
        }
    }
    return SUCCESS;
}

EXPORT const char *nvrtcGetErrorString(int result);
const char *nvrtcGetErrorString(int result) {
    static const char *const names[] = {"NVRTC_SUCCESS",
                                        "NVRTC_ERROR_OUT_OF_MEMORY",
                                        "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                        "NVRTC_ERROR_INVALID_INPUT",
                                        "NVRTC_ERROR_INVALID_PROGRAM",
                                        "NVRTC_ERROR_INVALID_OPTION",
                                        "NVRTC_ERROR_COMPILATION",
                                        "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE",
                                        "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION",
                                        "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION",
                                        "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID",
                                        "NVRTC_ERROR_INTERNAL_ERROR"};
    static sim_entry entry = {.name = "nvrtcGetErrorString"};
    (void) sim_enter(&entry); /* it has no result that could be an error */
    bool known = result >= 0 && (size_t) result < sizeof names / sizeof *names;
    return known ? names[result] : "NVRTC_ERROR unknown";
}

/* ---- Programs ---- */

/* Where the text comes from, and what the options define, stand in front of it. */
static char *text_of(const program *p, const sim_options *o) {
    char *text;
    bool odd = strpbrk(p->name, "\"\\\n");
    int n = asprintf(&text, "#define __CUDA_ARCH__ %d\n%s#line 1 \"%s\"\n%s", 10 * o->arch,
                     o->definitions ? o->definitions : "", odd ? "text" : p->name, p->source);
    return n < 0 ? NULL : text;
}

/* "name:3: error: what" and gcc's "name:3:5: error: what" become "name(3): error: what". */
static void write_line(FILE *to, const char *line, size_t n) {
    const char *colon = memchr(line, ':', n);
    size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    const char *rest = colon ? colon + 1 + digits : NULL;
    if (!digits || *rest != ':') {
        fprintf(to, "%.*s\n", (int) n, line);
        return;
    }
    size_t column = strspn(rest + 1, "0123456789");
    rest += column && rest[1 + column] == ':' ? 1 + column : 0;
    fprintf(to, "%.*s(%.*s)%.*s\n", (int) (colon - line), line, (int) digits, colon + 1,
            (int) (line + n - rest), rest);
}

static char *log_of(const program *p, const char *messages) {
    char *log = NULL;
    size_t bytes, errors = 0;
    FILE *to = open_memstream(&log, &bytes);
    if (!to) {
        return NULL;
    }
    for (const char *line = messages; *line;) {
        size_t n = strcspn(line, "\n");
        write_line(to, line, n);
        errors += memmem(line, n, "error: ", 7) != NULL;
        line += n + (line[n] == '\n');
    }
    fprintf(to, "\n%zu error%s detected in the compilation of \"%s\".\n", errors,
            errors == 1 ? "" : "s", p->name);
    fclose(to);
    return log;
}

/* A copy for people, in the folder SIMCUDA_KEEP. */
static void keep(const char *text) {
    const char *folder = getenv("SIMCUDA_KEEP");
    char *path;
    if (!folder || !*folder ||
        asprintf(&path, "%s/%016llx.cu", folder, (unsigned long long) sim_hash(text)) < 0) {
        return;
    }
    FILE *f = fopen(path, "w");
    if (f) {
        fputs(text, f);
        fclose(f);
    }
    free(path);
}

static void forget_results(program *p) {
    free(p->log);
    free(p->cubin);
    free(p->ptx);
    sim_code_free(p->code);
    p->log = p->cubin = p->ptx = NULL;
    p->cubin_bytes = p->ptx_bytes = 0;
    p->code = NULL;
}

static int compile(program *p, const sim_options *o) {
    char *text = text_of(p, o), *messages = NULL;
    if (!text) {
        return OUT_OF_MEMORY;
    }
    keep(text);
    p->code = sim_code_build(text, &messages);
    if (p->code) {
        p->ptx = sim_image_write(text, o->arch, true, &p->ptx_bytes);
        p->cubin = o->is_virtual ? NULL : sim_image_write(text, o->arch, false, &p->cubin_bytes);
    } else {
        p->log = log_of(p, messages ? messages : "");
    }
    free(messages);
    free(text);
    return !p->code ? COMPILATION : p->ptx && (p->cubin || o->is_virtual) ? SUCCESS : OUT_OF_MEMORY;
}

EXPORT int nvrtcCreateProgram(program **out, const char *source, const char *name, int headers,
                              const char *const *header_texts, const char *const *header_names);
int nvrtcCreateProgram(program **out, const char *source, const char *name, int headers,
                       const char *const *header_texts, const char *const *header_names) {
    ENTER("nvrtcCreateProgram");
    if (!out) {
        return INVALID_PROGRAM;
    }
    if (!source || headers < 0 || (headers && (!header_texts || !header_names))) {
        return INVALID_INPUT;
    }
    if (headers) {
        return PROGRAM_CREATION_FAILURE; /* not simulated */
    }
    program *p = calloc(1, sizeof *p);
    if (p) {
        p->source = strdup(source);
        p->name = strdup(name ? name : "default_program");
    }
    if (!p || !p->source || !p->name) {
        if (p) {
            free(p->source);
            free(p->name);
        }
        free(p);
        return OUT_OF_MEMORY;
    }
    *out = p;
    return SUCCESS;
}

EXPORT int nvrtcDestroyProgram(program **at);
int nvrtcDestroyProgram(program **at) {
    ENTER("nvrtcDestroyProgram");
    if (!at || !*at) {
        return INVALID_PROGRAM;
    }
    program *p = *at;
    forget_results(p);
    free(p->source);
    free(p->name);
    free(p);
    *at = NULL;
    return SUCCESS;
}

EXPORT int nvrtcCompileProgram(program *p, int count, const char *const *options);
int nvrtcCompileProgram(program *p, int count, const char *const *options) {
    ENTER("nvrtcCompileProgram");
    if (!p) {
        return INVALID_PROGRAM;
    }
    if (count < 0 || (count && !options)) {
        return INVALID_INPUT;
    }
    forget_results(p);
    sim_options o;
    int result = INVALID_OPTION;
    if (sim_options_read(count, options, &o, &p->log)) {
        result = compile(p, &o);
    }
    free(o.definitions);
    return result;
}

static int size_out(const program *p, size_t *out, size_t bytes) {
    if (!p || !out) {
        return p ? INVALID_INPUT : INVALID_PROGRAM;
    }
    *out = bytes;
    return SUCCESS;
}

static int bytes_out(const program *p, char *out, const char *data, size_t bytes) {
    if (!p || !out) {
        return p ? INVALID_INPUT : INVALID_PROGRAM;
    }
    memcpy(out, data ? data : "", data ? bytes : 1);
    return SUCCESS;
}

EXPORT int nvrtcGetCUBINSize(const program *p, size_t *out);
int nvrtcGetCUBINSize(const program *p, size_t *out) {
    ENTER("nvrtcGetCUBINSize");
    return size_out(p, out, p ? p->cubin_bytes : 0);
}

EXPORT int nvrtcGetCUBIN(const program *p, char *out);
int nvrtcGetCUBIN(const program *p, char *out) {
    ENTER("nvrtcGetCUBIN");
    return p && !p->cubin ? INVALID_PROGRAM
                          : bytes_out(p, out, p ? p->cubin : NULL, p ? p->cubin_bytes : 0);
}

EXPORT int nvrtcGetPTXSize(const program *p, size_t *out);
int nvrtcGetPTXSize(const program *p, size_t *out) {
    ENTER("nvrtcGetPTXSize");
    return size_out(p, out, p && p->ptx ? p->ptx_bytes : 1);
}

EXPORT int nvrtcGetPTX(const program *p, char *out);
int nvrtcGetPTX(const program *p, char *out) {
    ENTER("nvrtcGetPTX");
    return bytes_out(p, out, p ? p->ptx : NULL, p ? p->ptx_bytes : 0);
}

EXPORT int nvrtcGetProgramLogSize(const program *p, size_t *out);
int nvrtcGetProgramLogSize(const program *p, size_t *out) {
    ENTER("nvrtcGetProgramLogSize");
    return size_out(p, out, p && p->log ? strlen(p->log) + 1 : 1);
}

EXPORT int nvrtcGetProgramLog(const program *p, char *out);
int nvrtcGetProgramLog(const program *p, char *out) {
    ENTER("nvrtcGetProgramLog");
    return bytes_out(p, out, p ? p->log : NULL, p && p->log ? strlen(p->log) + 1 : 0);
}
