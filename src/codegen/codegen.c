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
    return strpbrk(o->dump, "sg") != NULL;
}

jit_status jitc_codegen(jitc_backend *b, int device, const jitc_program *p, const jitc_options *o,
                        jitc_source **out) {
    if (strchr(o->dump, 's'))
        print_text(jitc_program_print(p), "program", b);
    TRY(b->lower(b, device, p, out));
    if (strchr(o->dump, 'g'))
        print_text(b->source_print(*out), "source", b);
    return JIT_OK;
}
