/* compile.c: C to machine code. TinyCC does it in this process, in less than a millisecond; with
 * SIMCUDA_CC=gcc the same text goes through gcc, which checks TinyCC. */
#include "code.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <libtcc.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Debian has libtcc.a only, made for programs: it reaches stdout, stderr and environ relative to
 * its code, which in a shared library does not do for objects of libc. In the copy of the archive
 * that is linked they have these names. */
FILE *sim_tcc_stdout, *sim_tcc_stderr;
char **sim_tcc_environ;

__attribute__((constructor)) static void set_streams(void) {
    sim_tcc_stdout = stdout;
    sim_tcc_stderr = stderr;
    sim_tcc_environ = environ;
}

static void *data_of(void (*function)(void)) {
    return (void *) (uintptr_t) function;
}

/* Does a text name a type such as float4? */
static bool names_vector(const char *text, const char *family) {
    size_t n = strlen(family);
    for (const char *p = text; (p = strstr(p, family)); p += n) {
        if (p[n] >= '2' && p[n] <= '4') {
            return true;
        }
    }
    return false;
}

/* Which parts of the prelude a text needs. */
static void write_needs(FILE *to, const char *text, bool waits) {
    static const char *const families[] = {"char",     "uchar",     "short", "ushort", "int",
                                           "longlong", "ulonglong", "float", "double"};
    fputs(waits ? "#define SIM_WAITS\n" : "", to);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (names_vector(text, families[i])) {
            fprintf(to, "#define SIM_NAMES_%s\n", families[i]);
        }
    }
}

/* The declarations of the builtins, the prelude, the text, the calls. `stubs`: C before all that.
 */
static char *whole_text(const char *stubs, const char *text, const sim_scan *s) {
    char *whole = NULL;
    size_t n;
    FILE *to = open_memstream(&whole, &n);
    if (!to) {
        return NULL;
    }
    fputs(stubs, to);
    for (const sim_builtin *b = sim_builtins; b->name; b++) {
        fprintf(to, "%s;\n", b->declaration);
    }
    write_needs(to, text, s->waits);
    fputs(sim_host_prelude, to);
    /* The text says itself, by #line, where it comes from. */
    fprintf(to, "#line 1 \"text\"\n%s\n#line 1 \"calls\"\n%s", text, s->calls);
    fclose(to);
    return whole;
}

/* ---- TinyCC ---- */

static void add_line(void *opaque, const char *message) {
    char **log = opaque, *more = NULL;
    if (asprintf(&more, "%s%s\n", *log ? *log : "", message) >= 0) {
        free(*log);
        *log = more;
    }
}

static TCCState *parse(const char *whole, char **log) {
    TCCState *t = tcc_new();
    if (!t) {
        return NULL;
    }
    tcc_set_error_func(t, log, add_line);
    /* What C only warns of (pointers of different types, undeclared functions) CUDA's C++ refuses.
     */
    tcc_set_options(t, "-nostdlib -Wall -Werror -Wimplicit-function-declaration");
    tcc_set_output_type(t, TCC_OUTPUT_MEMORY);
    for (const sim_builtin *b = sim_builtins; b->name; b++) {
        tcc_add_symbol(t, b->name, data_of(b->host));
    }
    if (tcc_compile_string(t, whole)) {
        tcc_delete(t);
        return NULL;
    }
    return t;
}

/* Into pages of its own: TinyCC's way would make pages of the heap executable. */
static bool place(TCCState *t, sim_binary *out) {
    int bytes = tcc_relocate(t, NULL);
    if (bytes < 0) {
        return false;
    }
    void *memory = mmap(NULL, (size_t) bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    *out = (sim_binary) {.memory = memory, .bytes = (size_t) bytes};
    if (tcc_relocate(t, memory) < 0) {
        sim_binary_free(out);
        return false;
    }
    return true;
}

static bool by_tcc(const char *whole, const char *const *symbols, size_t count, void **addresses,
                   sim_binary *out, char **log) {
    TCCState *t = parse(whole, log);
    bool good = t && place(t, out);
    for (size_t i = 0; good && i < count; i++) {
        addresses[i] = tcc_get_symbol(t, symbols[i]);
    }
    if (t) {
        tcc_delete(t);
    }
    return good;
}

/* ---- gcc ---- */

/* The object does not see this library's symbols, since that may have been opened RTLD_LOCAL: each
 * builtin is a jump through a table that is filled after loading. */
static char *gcc_stubs(void) {
    char *stubs = NULL;
    size_t n, i = 0;
    FILE *to = open_memstream(&stubs, &n);
    if (!to) {
        return NULL;
    }
    for (const sim_builtin *b = sim_builtins; b->name; b++, i++) {
        fprintf(to, "__asm__(\"%s: jmp *sim_table + %zu(%%rip)\");\n", b->name, 8 * i);
    }
    fprintf(to,
            "__attribute__((used)) static void *sim_table[%zu];\n"
            "void **sim_stubs(void) { return sim_table; }\n",
            i);
    fclose(to);
    return stubs;
}

static bool write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    if (!f) {
        return false;
    }
    bool good = fputs(text, f) >= 0;
    return fclose(f) == 0 && good;
}

static char *read_file(const char *path) {
    char *text = calloc(1, 1 << 16);
    FILE *f = fopen(path, "r");
    if (f && text) {
        text[fread(text, 1, (1 << 16) - 1, f)] = 0;
    }
    if (f) {
        fclose(f);
    }
    return text;
}

static bool run_gcc(const char *source, const char *object, const char *log) {
    /* What TinyCC refuses is an error here, too. */
    const char *const arguments[] = {"gcc",
                                     "-O1",
                                     "-shared",
                                     "-fPIC",
                                     "-fno-builtin",
                                     "-ffp-contract=off",
                                     "-fwrapv",
                                     "-fno-strict-aliasing",
                                     "-Werror=implicit-function-declaration",
                                     "-Werror=incompatible-pointer-types",
                                     "-Werror=discarded-qualifiers",
                                     "-Werror=int-conversion",
                                     "-o",
                                     object,
                                     source,
                                     NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t pid;
    int status = -1;
    bool good =
        posix_spawnp(&pid, "gcc", &actions, NULL, (char *const *) arguments, environ) == 0 &&
        waitpid(pid, &status, 0) == pid && status == 0;
    posix_spawn_file_actions_destroy(&actions);
    return good;
}

static bool load(const char *path, const char *const *symbols, size_t count, void **addresses,
                 sim_binary *out) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *stubs = library ? dlsym(library, "sim_stubs") : NULL;
    void **table = stubs ? ((void **(*) (void) )(uintptr_t) stubs)() : NULL;
    for (size_t i = 0; table && sim_builtins[i].name; i++) {
        table[i] = data_of(sim_builtins[i].host);
    }
    for (size_t i = 0; table && i < count; i++) {
        addresses[i] = dlsym(library, symbols[i]);
    }
    *out = (sim_binary) {.library = library};
    return table;
}

/* In a folder of its own, which is gone afterwards. */
static bool by_gcc(const char *whole, const char *const *symbols, size_t count, void **addresses,
                   sim_binary *out, char **log) {
    const char *base = getenv("TMPDIR");
    char folder[4000], source[4096], object[4096], errors[4096];
    snprintf(folder, sizeof folder, "%s/simcuda-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(folder)) {
        return false;
    }
    snprintf(source, sizeof source, "%s/text.c", folder);
    snprintf(object, sizeof object, "%s/text.so", folder);
    snprintf(errors, sizeof errors, "%s/log", folder);
    bool good = write_file(source, whole) && run_gcc(source, object, errors);
    if (good) {
        good = load(object, symbols, count, addresses, out);
    } else {
        *log = read_file(errors);
    }
    unlink(source);
    unlink(object);
    unlink(errors);
    rmdir(folder);
    return good;
}

bool sim_compile(const char *text, const sim_scan *s, const char *const *symbols, size_t count,
                 void **addresses, sim_binary *out, char **log) {
    const char *cc = getenv("SIMCUDA_CC");
    bool gcc = cc && strcmp(cc, "gcc") == 0;
    char *stubs = gcc ? gcc_stubs() : NULL;
    char *whole = whole_text(stubs ? stubs : "", text, s);
    bool good = whole && (gcc ? by_gcc : by_tcc)(whole, symbols, count, addresses, out, log);
    free(stubs);
    free(whole);
    if (!good && !*log) {
        *log = strdup("error: the host's compiler cannot be used\n");
    }
    return good;
}

void sim_binary_free(sim_binary *o) {
    if (o->memory) {
        munmap(o->memory, o->bytes);
    }
    if (o->library) {
        dlclose(o->library);
    }
    *o = (sim_binary) {0};
}
