/* code.c: the texts that are compiled. Equal ones are compiled once while one is alive, and a few
 * are kept when the last user is gone: NVRTC's program usually ends before its module is loaded. */
#include "code.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 16, MOST_SHARED = 48 << 10 };

struct sim_code {
    char *text;
    uint64_t hash;
    sim_binary binary;
    sim_function *functions;
    size_t count;
    unsigned users;
    struct sim_code *next; /* in the table; newest first */
};

/* One compiler at a time: TinyCC has global state. */
static struct {
    pthread_mutex_t lock;
    sim_code *first;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint64_t sim_hash(const char *text) { /* FNV-1a */
    uint64_t hash = 0xcbf29ce484222325;
    for (; *text; text++) {
        hash = (hash ^ (unsigned char) *text) * 0x100000001b3;
    }
    return hash;
}

static void destroy(sim_code *c) {
    for (size_t i = 0; i < c->count; i++) {
        free(c->functions[i].name);
        free(c->functions[i].sizes);
        free(c->functions[i].offsets);
    }
    free(c->functions);
    sim_binary_free(&c->binary);
    free(c->text);
    free(c);
}

/* Drops what nobody uses, but for the newest `keep`. */
static void drop_unused(unsigned keep) {
    for (sim_code **p = &table.first; *p;) {
        sim_code *c = *p;
        if (c->users || keep) {
            keep -= c->users ? 0 : 1;
            p = &c->next;
        } else {
            *p = c->next;
            destroy(c);
        }
    }
}

static bool fill_function(sim_function *f, const sim_scan *s, size_t i, void *call, void *info) {
    const unsigned long *words = info;
    size_t offset = 0, n = words[SIM_INFO_COUNT];
    /* A guess that grows with the text, so that occupancy differs among kernels; no more than there
     * are for the threads that the kernel is bound to. */
    size_t registers = 16 + s->statements / 4, most = 65536 / words[SIM_INFO_THREADS] / 8 * 8;
    if (registers > most)
        registers = most;
    *f = (sim_function) {
        .name = strdup(s->names[i]),
        .call = (void (*)(void **))(uintptr_t) call,
        .count = n,
        .sizes = calloc(n + 1, sizeof(size_t)),
        .offsets = calloc(n + 1, sizeof(size_t)),
        .shared = words[SIM_INFO_SHARED],
        .registers = registers > 255 ? 255 : (unsigned) registers,
        .waits = s->waits,
    };
    for (size_t k = 0; f->sizes && f->offsets && k < n; k++) {
        size_t size = words[SIM_INFO_ARGUMENTS + 2 * k];
        size_t alignment = words[SIM_INFO_ARGUMENTS + 2 * k + 1];
        offset = (offset + alignment - 1) / alignment * alignment;
        f->sizes[k] = size;
        f->offsets[k] = offset;
        offset += size;
    }
    return f->name && f->sizes && f->offsets;
}

static bool fill(sim_code *c, const sim_scan *s, void **addresses, char **log) {
    c->functions = calloc(s->count + 1, sizeof *c->functions);
    bool good = c->functions;
    for (size_t i = 0; good && i < s->count; i++) {
        good = addresses[2 * i] && addresses[2 * i + 1] &&
               fill_function(&c->functions[i], s, i, addresses[2 * i], addresses[2 * i + 1]);
        c->count += good;
    }
    for (size_t i = 0; good && i < c->count; i++) {
        if (c->functions[i].shared > MOST_SHARED) {
            good = false;
            if (asprintf(
                    log,
                    "error: Entry function '%s' uses too much shared data (%zu bytes, %d max)\n",
                    c->functions[i].name, c->functions[i].shared, MOST_SHARED) < 0) {
                *log = NULL;
            }
        }
    }
    return good;
}

static bool compile(sim_code *c, const sim_scan *s, char **log) {
    char **symbols = calloc(2 * s->count + 1, sizeof *symbols);
    void **addresses = calloc(2 * s->count + 1, sizeof *addresses);
    bool good = symbols && addresses;
    for (size_t i = 0; good && i < s->count; i++) {
        good = asprintf(&symbols[2 * i], "sim_call_%s", s->names[i]) > 0 &&
               asprintf(&symbols[2 * i + 1], "sim_info_%s", s->names[i]) > 0;
    }
    good = good &&
           sim_compile(c->text, s, (const char *const *) symbols, 2 * s->count, addresses,
                       &c->binary, log) &&
           fill(c, s, addresses, log);
    for (size_t i = 0; symbols && i < 2 * s->count; i++) {
        free(symbols[i]);
    }
    free(symbols);
    free(addresses);
    return good;
}

static sim_code *create(const char *text, char **log) {
    sim_scan scan;
    sim_code *c = calloc(1, sizeof *c);
    if (!c || !sim_scan_text(text, &scan, log)) {
        free(c);
        return NULL;
    }
    c->text = strdup(text);
    bool good = c->text && compile(c, &scan, log);
    sim_scan_free(&scan);
    if (!good) {
        destroy(c);
        return NULL;
    }
    return c;
}

sim_code *sim_code_build(const char *text, char **log) {
    *log = NULL;
    pthread_mutex_lock(&table.lock);
    sim_code **p = &table.first;
    uint64_t hash = sim_hash(text);
    while (*p && ((*p)->hash != hash || strcmp((*p)->text, text) != 0)) {
        p = &(*p)->next;
    }
    sim_code *c = *p;
    if (c) {
        *p = c->next;
    } else {
        c = create(text, log);
    }
    if (c) {
        c->hash = hash;
        c->users++;
        c->next = table.first;
        table.first = c;
    }
    pthread_mutex_unlock(&table.lock);
    if (!c && !*log) {
        *log = strdup("error: no memory for the text\n");
    }
    return c;
}

void sim_code_free(sim_code *c) {
    if (!c) {
        return;
    }
    pthread_mutex_lock(&table.lock);
    c->users--;
    drop_unused(KEPT);
    pthread_mutex_unlock(&table.lock);
}

sim_function *sim_code_function(sim_code *c, const char *name) {
    for (size_t i = 0; i < c->count; i++) {
        if (strcmp(c->functions[i].name, name) == 0) {
            return &c->functions[i];
        }
    }
    return NULL;
}

size_t sim_function_arguments(const sim_function *f, const size_t **sizes) {
    *sizes = f->sizes;
    return f->count;
}

const size_t *sim_function_offsets(const sim_function *f) {
    return f->offsets;
}
unsigned sim_function_registers(const sim_function *f) {
    return f->registers;
}
size_t sim_function_shared(const sim_function *f) {
    return f->shared;
}
