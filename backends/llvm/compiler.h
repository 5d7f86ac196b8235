/* compiler.h: modules to objects, with target machines that are used again.
 * Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_COMPILER_H
#define JITC_LLVM_COMPILER_H
#include "core/mem.h"
#include "llvm/kernel.h"

enum { JITC_LLVM_LEVELS = 4 };

typedef struct jitc_machine jitc_machine; /* a context and its target machines */

/** The idle machines: making one costs three times a small compilation. */
typedef struct jitc_llvm_compiler {
    jitc_llvm_library *library;
    jitc_kernel_target target; /* the level is an argument */
    int max_idle;
    jitc_mutex lock; /* guards the list */
    jitc_machine *idle;
    int idle_count;
} jitc_llvm_compiler;

/** Opens nothing. Borrows `library`. At most `max_idle` idle machines are kept. */
void jitc_llvm_compiler_init(jitc_llvm_compiler *c, jitc_llvm_library *library, jitc_isa isa,
                             unsigned lanes, int max_idle);
void jitc_llvm_compiler_finish(jitc_llvm_compiler *c);

/** An object in memory. Any thread, several at once. `level` 0 ... 3. JIT_UNAVAILABLE,
 *  JIT_COMPILE_FAILED, JIT_OUT_OF_MEMORY. */
jit_status jitc_llvm_compile(jitc_llvm_compiler *c, const jitc_program *p, int level,
                             jitc_blob *out);
/** The machine code as assembly; free(). NULL, with an error. */
char *jitc_llvm_print_code(jitc_llvm_compiler *c, const jitc_program *p, int level);
/** The module as text; free(). NULL, with an error. */
char *jitc_llvm_print(jitc_llvm_compiler *c, const jitc_program *p);
#endif
