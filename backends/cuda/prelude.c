/* prelude.c: what a text begins with: as short as it can be, since NVRTC's time grows with it.
 * Layer: cuda.  May include: core. */
#include "cuda/prelude.h"

typedef struct helper {
    const char *name, *text;
} helper;

static const helper helpers[] = {
#define HELPER(name, text) {#name, text},
#include "cuda/prelude.def"
};
enum { HELPERS = sizeof helpers / sizeof *helpers, SLOTS = 1024 };
_Static_assert(HELPERS < SLOTS / 2, "the table has to have free slots");

static const char common[] =
#define COMMON(text) text "\n"
#include "cuda/prelude.def"
    ;

/** Where helpers are, by a hash of their names: number + 1, or 0. */
typedef struct table {
    uint16_t slot[SLOTS];
    bool used[HELPERS];
} table;

static unsigned slot_of(const char *name, size_t size) {
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < size; ++i)
        h = (h ^ (uint8_t) name[i]) * 16777619u;
    return (h ^ h >> 15) % SLOTS;
}

static void fill(table *t) {
    for (unsigned i = 0; i < HELPERS; ++i) {
        unsigned at = slot_of(helpers[i].name, strlen(helpers[i].name));
        while (t->slot[at])
            at = (at + 1) % SLOTS;
        t->slot[at] = (uint16_t) (i + 1);
    }
}

static void note(table *t, const char *name, size_t size) {
    for (unsigned at = slot_of(name, size); t->slot[at]; at = (at + 1) % SLOTS) {
        const char *known = helpers[t->slot[at] - 1].name;
        if (strncmp(known, name, size) == 0 && !known[size])
            t->used[t->slot[at] - 1] = true;
    }
}

static bool in_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || (c >= 'A' && c <= 'Z');
}

/** Note the helpers that a text names: names with _ inside. */
static void note_all(table *t, const char *text, size_t size) {
    for (size_t i = 0; i < size; ++i) {
        size_t begin = i, mark = 0;
        for (; i < size && in_name(text[i]); ++i)
            if (text[i] == '_')
                mark = i;
        if (mark > begin)
            note(t, text + begin, i - begin);
    }
}

void jitc_cuda_put_prelude(jitc_cuda_writer *w, const char *body, size_t size) {
    table t = {0};
    fill(&t);
    note_all(&t, body, size);
    for (size_t i = HELPERS; i-- > 0;) /* from the last: it names earlier ones */
        if (t.used[i])
            note_all(&t, helpers[i].text, strlen(helpers[i].text));
    jitc_cuda_put_text(w, common);
    for (size_t i = 0; i < HELPERS; ++i)
        if (t.used[i]) {
            jitc_cuda_put_text(w, helpers[i].text);
            jitc_cuda_put_char(w, '\n');
        }
}
