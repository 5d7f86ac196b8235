/* substitutes_sse2.c: vectors of 16 bytes.  Layer: llvm. */
#define ISA          sse2
#define FLOATS       4
#define DOUBLES      2
#define VECTOR_BYTES 16
#include "llvm/substitutes_of.h"
