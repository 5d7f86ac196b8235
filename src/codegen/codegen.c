/* codegen.c: lowering is the backend's; what is common is printing.  Layer: codegen. */
#include "codegen/codegen.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One call of stdio for one text: kernels are made on several threads at once. */
static void print_text(char *text, const char *title, const jitc_backend *b) {
    if (text)
        fprintf(stderr, "---- %s (%s)\n%s\n", title, b->name, text);
    free(text);
}

bool jitc_codegen_dumps(const jitc_options *o) {
    return *o->dump && strpbrk(o->dump, "gk");
}

jit_status jitc_codegen(jitc_backend *b, int device, const jitc_program *p, jitc_source **out) {
    return b->lower(b, device, p, out);
}

void jitc_codegen_dump(jitc_backend *b, jitc_source *s, const jitc_options *o, int level) {
    if (strchr(o->dump, 'g'))
        print_text(b->source_print(s, -1), "codegen", b);
    if (strchr(o->dump, 'k'))
        print_text(b->source_print(s, level), "kernel", b);
}
