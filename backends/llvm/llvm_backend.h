/* llvm_backend.h: the CPU backend.  Layer: llvm.  May include: core, ir, device. */
#ifndef JITC_LLVM_BACKEND_H
#define JITC_LLVM_BACKEND_H
#include "device/backend.h"

/** Make the backend. `o` is read now. Finds the LLVM library, but does not open it. JIT_UNAVAILABLE
 *  if there is none; JIT_INVALID_ARGUMENT for an llvm_isa that is no name. */
jit_status jitc_llvm_backend_create(const jitc_options *o, jitc_backend **out);
#endif
