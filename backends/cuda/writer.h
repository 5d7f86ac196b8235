/* writer.h: text that grows.  Layer: cuda.  May include: core. */
#ifndef JITC_CUDA_WRITER_H
#define JITC_CUDA_WRITER_H
#include "core/mem.h"
#include <string.h>

/** Zero-initialised. Failures are kept until jitc_cuda_writer_take(). */
typedef struct jitc_cuda_writer {
    char *data; /* without a final 0 */
    size_t size, capacity;
    jit_status status;
} jitc_cuda_writer;

void jitc_cuda_put(jitc_cuda_writer *w, const char *text, size_t size);
static inline void jitc_cuda_put_text(jitc_cuda_writer *w, const char *text) {
    jitc_cuda_put(w, text, strlen(text));
}
static inline void jitc_cuda_put_char(jitc_cuda_writer *w, char c) {
    jitc_cuda_put(w, &c, 1);
}
void jitc_cuda_put_number(jitc_cuda_writer *w, uint64_t number);
/** A variable of one instruction: v12. */
static inline void jitc_cuda_put_name(jitc_cuda_writer *w, char kind, uint32_t inst) {
    jitc_cuda_put_char(w, kind);
    jitc_cuda_put_number(w, inst);
}

/** Write `format` with %s (const char *), %u (uint32_t) and %v, %k, ... (uint32_t: a variable of an
 *  instruction) replaced; %% is a percent sign. Ten times as quick as printf. */
void jitc_cuda_putf(jitc_cuda_writer *w, const char *format, ...);
/** The text with its final 0; free(). The writer is empty again. JIT_OUT_OF_MEMORY. */
jit_status jitc_cuda_writer_take(jitc_cuda_writer *w, char **out);
#endif
