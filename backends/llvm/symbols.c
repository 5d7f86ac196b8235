/* symbols.c: SLEEF, opened when wanted, and loops over the lanes in its place.
 * Layer: llvm.  May include: core. */
#include "llvm/symbols.h"
#include "core/exit.h"
#include "core/mem.h"
#include "core/sync.h"
#include "llvm/substitutes.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct jitc_symbols {
    jitc_mutex lock;
    atomic_bool opened;
    void *sleef; /* valid once opened; NULL: not installed */
};

static const jitc_substitute *find_in(const jitc_substitute *table, const char *name) {
    for (; table->name; ++table)
        if (strcmp(table->name, name) == 0)
            return table;
    return NULL;
}

void *jitc_symbols_substitute(const char *name) {
    static const jitc_substitute *const tables[] = {jitc_substitutes_sse2, jitc_substitutes_avx2,
                                                    jitc_substitutes_avx512f};
    char text[64];
    const char *rest = strchr(name, '_');
    if (!rest || (strncmp(name, "Sleef_", 6) != 0 && strncmp(name, "jitc_", 5) != 0))
        return NULL;
    snprintf(text, sizeof text, "%s", rest + 1);
    char *sse4 = strstr(text, "sse4"); /* the same vectors */
    if (sse4)
        sse4[3] = '2';
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const jitc_substitute *found = find_in(tables[i], text);
        void *address;
        if (found) {
            memcpy(&address, &found->function, sizeof address);
            return address;
        }
    }
    return NULL;
}

jit_status jitc_symbols_create(jitc_symbols **out) {
    void *memory;
    TRY(jitc_calloc(1, sizeof **out, &memory));
    *out = memory;
    jitc_mutex_init(&(*out)->lock);
    return JIT_OK;
}

void jitc_symbols_destroy(jitc_symbols *s) {
    if (!s)
        return;
    jitc_mutex_finish(&s->lock);
    free(s);
}

static void *open_sleef(jitc_symbols *s) {
    if (jitc_load_acquire(&s->opened)) /* pairs with the store_release below */
        return s->sleef;
    jitc_exit_enter_short(); /* a fork waits */
    jitc_mutex_lock(&s->lock);
    if (!jitc_load_relaxed(&s->opened)) {
        s->sleef = dlopen("libsleef.so.3", RTLD_LAZY | RTLD_LOCAL);
        jitc_store_release(&s->opened, true);
    }
    jitc_mutex_unlock(&s->lock);
    jitc_exit_leave();
    return s->sleef;
}

void *jitc_symbols_find(jitc_symbols *s, const char *name) {
    if (strncmp(name, "Sleef_", 6) != 0)
        return jitc_symbols_substitute(name);
    void *sleef = open_sleef(s), *address = sleef ? dlsym(sleef, name) : NULL;
    return address ? address : jitc_symbols_substitute(name);
}

const char *jitc_symbols_describe(jitc_symbols *s) {
    (void) s;
    return "sleef-u10";
}
