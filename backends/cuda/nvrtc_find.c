/* nvrtc_find.c.  Layer: cuda. */
#include "cuda/text.h"
