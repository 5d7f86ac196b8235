/* substitutes_avx2.c: vectors of 32 bytes. Compiled with -mavx2.  Layer: llvm. */
#define ISA          avx2
#define FLOATS       8
#define DOUBLES      4
#define VECTOR_BYTES 32
#include "llvm/substitutes_of.h"
