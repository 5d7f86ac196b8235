/* nvrtc.c.  Layer: cuda. */
#include "cuda/text.h"
