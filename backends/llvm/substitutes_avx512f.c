/* substitutes_avx512f.c: vectors of 64 bytes. Compiled with -mavx512f.  Layer: llvm. */
#define ISA          avx512f
#define FLOATS       16
#define DOUBLES      8
#define VECTOR_BYTES 64
#include "llvm/substitutes_of.h"
