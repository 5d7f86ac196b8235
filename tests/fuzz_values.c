/* fuzz_values.c: variables along with what they have to be.  Layer: tests. */
#include "fuzz_values.h"
#include "support.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t running;

void fuzz_running(uint64_t seed) {
    running = seed;
}

void fuzz_stop(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "program %llu: ", (unsigned long long) running);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    const char *(*text)(void);
    *(void **) &text = support_driver("simcuda_fault_text");
    if (text && *text())
        fprintf(stderr, "the simulated driver found: %s\n", text());
    _Exit(1);
}

jit_var fuzz_must(jit_var v, const char *what) {
    if (!v)
        fuzz_stop("%s: %s", what, jit_error());
    return v;
}

void fuzz_must_be_ok(jit_status status, const char *what) {
    if (status != JIT_OK)
        fuzz_stop("%s: %s", what, jit_error());
}

static value create(int device, size_t size) {
    array *a = malloc(sizeof *a + (size + 1) * sizeof *a->at);
    if (!a)
        fuzz_stop("no memory");
    atomic_init(&a->refs, 1);
    a->size = size;
    return (value) {.want = a, .device = device};
}

value value_none(void) {
    return (value) {0, NULL, 0};
}

value value_share(value x) {
    if (x.v) {
        jit_ref(x.v);
        atomic_fetch_add(&x.want->refs, 1);
    }
    return x;
}

void value_drop(value x) {
    jit_unref(x.v);
    if (x.want && atomic_fetch_sub(&x.want->refs, 1) == 1)
        free(x.want);
}

/* ---- Leaves ---- */

value value_literal(int device, uint32_t bits) {
    value x = create(device, 1);
    x.want->at[0] = bits;
    x.v = fuzz_must(jit_u32(support_backend(), bits), "jit_u32");
    return x;
}

value value_counter(int device, size_t size) {
    value x = create(device, size);
    for (size_t i = 0; i < size; ++i)
        x.want->at[i] = (uint32_t) i;
    x.v = fuzz_must(jit_counter(support_backend(), size), "jit_counter");
    return x;
}

/* Nobody uses the memory any more: who does is caught. */
static void end_mapping(void *memory) {
    free(memory);
}

static jit_var map(const array *want) {
    size_t bytes = want->size * 4;
    void *memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
    if (!memory)
        fuzz_stop("no memory");
    memcpy(memory, want->at, bytes);
    return fuzz_must(jit_map(support_backend(), JIT_u32, memory, want->size, end_mapping, memory),
                     "jit_map");
}

value value_ramp(int device, size_t size, uint32_t first, uint32_t step, bool mapped) {
    value x = create(device, size);
    for (size_t i = 0; i < size; ++i)
        x.want->at[i] = first + (uint32_t) i * step;
    x.v = mapped && support_maps_host_memory()
              ? map(x.want)
              : fuzz_must(jit_from_host(support_backend(), JIT_u32, x.want->at, size),
                          "jit_from_host");
    return x;
}

/* ---- Operations ---- */

static uint32_t element(value x, size_t i) {
    return x.want->at[x.want->size == 1 ? 0 : i];
}

value value_combined(size_t op, value x, value y) {
    jit_var (*const record[])(jit_var, jit_var) = {jit_add, jit_sub, jit_mul, jit_xor};
    size_t size = x.want->size == 1 ? y.want->size : x.want->size;
    value z = create(x.device, size);
    for (size_t i = 0; i < size; ++i) {
        uint32_t l = element(x, i), r = element(y, i);
        z.want->at[i] = op == 0 ? l + r : op == 1 ? l - r : op == 2 ? l * r : l ^ r;
    }
    z.v = fuzz_must(record[op](x.v, y.v), "an operation");
    return z;
}

value value_plus(value x, uint32_t k) {
    value y = value_literal(x.device, k), z = value_combined(0, x, y);
    value_drop(y);
    return z;
}

value value_gathered(value source, value index) {
    value z = create(source.device, index.want->size);
    for (size_t i = 0; i < index.want->size; ++i) {
        uint32_t at = index.want->at[i];
        z.want->at[i] = at < source.want->size ? source.want->at[at] : 0;
    }
    z.v = fuzz_must(jit_gather(source.v, index.v, 0), "jit_gather");
    return z;
}

value value_scattered(value target, size_t first, size_t stride, uint32_t word) {
    size_t size = target.want->size, count = (size - first + stride - 1) / stride;
    value index = value_ramp(target.device, count, (uint32_t) first, (uint32_t) stride, true);
    value y = value_literal(target.device, word), z = create(target.device, size);
    memcpy(z.want->at, target.want->at, size * 4);
    for (size_t i = first; i < size; i += stride)
        z.want->at[i] = word;
    z.v = fuzz_must(jit_scatter(target.v, y.v, index.v, 0), "jit_scatter");
    value_drop(index);
    value_drop(y);
    return z;
}

/* ---- Looking ---- */

void value_check(value x, const uint32_t *got, size_t offset, size_t count, const char *how) {
    for (size_t i = 0; i < count; ++i)
        if (got[i] != x.want->at[offset + i])
            fuzz_stop("%s: element %zu of %zu: want %#x, got %#x", how, offset + i, x.want->size,
                      x.want->at[offset + i], got[i]);
}

void value_read(value x) {
    uint32_t *got = malloc((x.want->size + 1) * sizeof *got);
    fuzz_must_be_ok(jit_read(x.v, got), "jit_read");
    value_check(x, got, 0, x.want->size, "jit_read");
    free(got);
}

void value_read_range(value x, size_t offset, size_t count) {
    uint32_t *got = malloc((count + 1) * sizeof *got);
    fuzz_must_be_ok(jit_read_range(x.v, offset, count, got), "jit_read_range");
    value_check(x, got, offset, count, "jit_read_range");
    free(got);
}
