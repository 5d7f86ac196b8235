/* error_bound.h: how far operations marked INEXACT may be from the true value. */
#ifndef JITC_TESTS_ERROR_BOUND_H
#define JITC_TESTS_ERROR_BOUND_H
#include "ir/ir.h"

/** In ULP, for the backend under test and what it runs on. */
double error_bound(jitc_op op, jit_dtype t);
#endif
