/* fuzz_program_make.h: making programs, between the files that do.  Layer: tests. */
#ifndef JITC_TESTS_FUZZ_PROGRAM_MAKE_H
#define JITC_TESTS_FUZZ_PROGRAM_MAKE_H
#include "dlpack_producer.h"
#include "fuzz_program.h"
#include "reference.h"

typedef struct making {
    program *program;
    size_t size, other; /* of most arrays */
    int open;           /* the innermost block; -1: none */
    int depth;          /* of blocks */
} making;

/* Which steps make_find() takes: of the size or 1, of the size itself, not of a block. */
typedef enum wanted { BROADCAST, WHOLE, OUTSIDE } wanted;
#define ANY_SIZE SIZE_MAX

size_t make_below(size_t n);
bool make_chance(unsigned percent);
/** A step without inputs. */
fuzz_step make_step(fuzz_kind kind, jit_dtype type, size_t size);
int make_append(making *m, fuzz_step s);
int make_literal(making *m, jit_dtype type, uint64_t bits, size_t size);
/** A step of the type (-1: any) that can be used; -1 if none was found. */
int make_find(making *m, int type, size_t size, wanted w);
/** An operation on steps that are found. */
bool make_apply(making *m, jitc_op op, jit_dtype t);
/** Some operation on elements. */
bool make_elements(making *m);
/** About so many steps. */
void make_some(making *m, int steps);
/** Do the lanes that count have distinct indices? */
bool make_distinct(making *m, const int *index_mask, size_t lanes, size_t size);
/** A loop, a branch or a call. */
void make_block(making *m);

static inline uint64_t make_foreign(jit_dtype t, size_t i) {
    return producer_bits(t, i);
}
static inline double reference_double(jit_dtype t, uint64_t bits) {
    uint64_t d = value_cast(t, JIT_f64, bits);
    double x;
    __builtin_memcpy(&x, &d, sizeof x);
    return x;
}
#endif
