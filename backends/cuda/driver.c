/* driver.c.  Layer: cuda. */
#include "cuda/cuda_backend.h"
