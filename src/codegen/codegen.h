/* codegen.h: a program to the compiler's input.  Layer: codegen.  May include: core, ir, device. */
#ifndef JITC_CODEGEN_CODEGEN_H
#define JITC_CODEGEN_CODEGEN_H
#include "device/backend.h"

/** Is the program (s) or its source text (g) to be printed? */
bool jitc_codegen_dumps(const jitc_options *o);
/** Lower a program for a device, and print what the option `dump` asks for to stderr. Any thread.
 *  The result is destroyed by the backend's source_destroy. */
jit_status jitc_codegen(jitc_backend *b, int device, const jitc_program *p, const jitc_options *o,
                        jitc_source **out);
#endif
