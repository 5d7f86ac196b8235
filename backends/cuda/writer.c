/* writer.c: text that grows.  Layer: cuda.  May include: core. */
#include "cuda/writer.h"
#include <stdarg.h>
#include <stdlib.h>

void jitc_cuda_put(jitc_cuda_writer *w, const char *text, size_t size) {
    if (w->capacity - w->size < size) {
        if (w->status == JIT_OK)
            w->status = jitc_grow((void **) &w->data, &w->capacity, w->size + size, 1);
        if (w->status != JIT_OK)
            return;
    }
    if (size)
        memcpy(w->data + w->size, text, size);
    w->size += size;
}
void jitc_cuda_put_number(jitc_cuda_writer *w, uint64_t number) {
    char digits[20];
    size_t n = sizeof digits;
    do
        digits[--n] = (char) ('0' + number % 10);
    while (number /= 10);
    jitc_cuda_put(w, digits + n, sizeof digits - n);
}
void jitc_cuda_putf(jitc_cuda_writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    for (const char *p = format, *end; *p; p = end) {
        end = strchr(p, '%');
        if (!end)
            end = p + strlen(p);
        jitc_cuda_put(w, p, (size_t) (end - p));
        if (!*end)
            break;
        char kind = end[1];
        end += 2;
        if (kind == 's')
            jitc_cuda_put_text(w, va_arg(args, const char *));
        else if (kind == 'u')
            jitc_cuda_put_number(w, va_arg(args, uint32_t));
        else if (kind == '%')
            jitc_cuda_put_char(w, '%');
        else
            jitc_cuda_put_name(w, kind, va_arg(args, uint32_t));
    }
    va_end(args);
}

jit_status jitc_cuda_writer_take(jitc_cuda_writer *w, char **out) {
    jitc_cuda_put_char(w, 0);
    jit_status status = w->status;
    if (status == JIT_OK)
        *out = w->data;
    else
        free(w->data);
    *w = (jitc_cuda_writer) {0};
    return status;
}
