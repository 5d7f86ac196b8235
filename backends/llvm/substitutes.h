/* substitutes.h: loops over the lanes in the place of SLEEF's functions.
 * Layer: llvm.  May include: core.
 *
 * One file and one table for each set of vector registers: how a vector is passed follows from the
 * instruction set that a file is compiled for (gcc also looks at the function's own attribute,
 * clang does not). Names are those of SLEEF without its prefix: "sinf16_u10avx512f". */
#ifndef JITC_LLVM_SUBSTITUTES_H
#define JITC_LLVM_SUBSTITUTES_H

typedef struct jitc_substitute {
    const char *name;       /* NULL: the end of the table */
    void (*function)(void); /* of the vectors' own type */
} jitc_substitute;

extern const jitc_substitute jitc_substitutes_sse2[], jitc_substitutes_avx2[],
    jitc_substitutes_avx512f[];
#endif
