/* codegen.h: a program to the compiler's input.  Layer: codegen.  May include: core, ir, device. */
#ifndef JITC_CODEGEN_CODEGEN_H
#define JITC_CODEGEN_CODEGEN_H
#include "device/backend.h"

/** Is the source text (g) or the machine code (k) to be printed? */
bool jitc_codegen_dumps(const jitc_options *o);
/** Lower a program for a device. Any thread. The result is destroyed by the backend's
 *  source_destroy. */
jit_status jitc_codegen(jitc_backend *b, int device, const jitc_program *p, jitc_source **out);
/** Print what the option `dump` asks for to stderr. `level`: the one that is compiled. */
void jitc_codegen_dump(jitc_backend *b, jitc_source *s, const jitc_options *o, int level);
#endif
