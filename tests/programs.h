/* programs.h: programs built by hand, and values to try them on, for the tests of backends. */
#ifndef JITC_TESTS_PROGRAMS_H
#define JITC_TESTS_PROGRAMS_H
#include "ir/program.h"

/** Append an instruction; its index. */
uint32_t add(jitc_program *p, jitc_op op, jit_dtype type, uint32_t a, uint32_t b, uint32_t c);
/** The same, with flags. */
uint32_t add_flagged(jitc_program *p, jitc_inst i);
/** Append a data instruction or store of a new parameter, whose value is noted in params. */
uint32_t add_data(jitc_program *p, jit_dtype type, const void *pointer, uint64_t *params);
void add_store(jitc_program *p, jit_dtype type, uint32_t value, void *pointer, uint64_t *params);
uint32_t add_buffer(jitc_program *p, jit_dtype type, const void *pointer, uint64_t size,
                    uint64_t *params);
uint32_t add_literal(jitc_program *p, jit_dtype type, uint64_t bits, uint64_t *params);
uint32_t add_baked(jitc_program *p, jit_dtype type, uint64_t bits);

static inline uint64_t read_element(jit_dtype t, const void *array, size_t i) {
    const char *p = (const char *) array + i * jitc_dtypes[t].bytes;
    uint64_t bits = 0;
    __builtin_memcpy(&bits, p, jitc_dtypes[t].bytes);
    return bits;
}
static inline void write_element(jit_dtype t, void *array, size_t i, uint64_t bits) {
    __builtin_memcpy((char *) array + i * jitc_dtypes[t].bytes, &bits, jitc_dtypes[t].bytes);
}

/** Values of a type at which things go wrong; how many. `out` has room for 64. */
size_t edge_values(jit_dtype t, uint64_t *out);
bool is_nan_bits(jit_dtype t, uint64_t bits);
/** Distance of two floats of a type in units of the last place; NaN equals NaN. */
uint64_t ulp_distance(jit_dtype t, uint64_t a, uint64_t b);
#endif
