/* expression.c.  Layer: cuda. */
#include "cuda/text.h"
