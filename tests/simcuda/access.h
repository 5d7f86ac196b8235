/* access.h: every function of this library that kernels call, declared from the table. */
#ifndef SIMCUDA_ACCESS_H
#define SIMCUDA_ACCESS_H
#include "exec.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Also those of libc and libm, so that the compiler compares the rows with their headers. */
#define BUILTIN(result, name, parameters, host) result host parameters;
#define WORD(name, parameters, host)            uint64_t host parameters;
#include "builtins.def"
#endif
