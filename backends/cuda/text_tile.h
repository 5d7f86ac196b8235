/* text_tile.h: the lanes of a tile in a text.  Layer: cuda.  May include: core, ir. */
#ifndef JITC_CUDA_TEXT_TILE_H
#define JITC_CUDA_TEXT_TILE_H
#include "cuda/text_parts.h"

/** The lanes of a thread, in rows of `lanes` consecutive ones. The text defines what FIRST(r) is,
 *  the number of the first of row r; lane j of it is number i. */
typedef struct jitc_cuda_rows {
    uint32_t rows, lanes;
    uint32_t together; /* rows that are loaded before the first one is computed */
    bool vectors;      /* else element by element, and nothing is written out more than once */
    bool unrolled;     /* all rows */
    bool guarded;      /* lanes may be behind the end, */
    const char *end;   /* which is this; NULL: n */
    bool aligned;      /* vectors of foreign arrays, too */
    void (*before)(jitc_cuda_body *k), (*after)(jitc_cuda_body *k); /* each lane; or NULL */
} jitc_cuda_rows;

/** Types for vectors of so many elements; in front of the kernel. */
void jitc_cuda_put_vector_types(jitc_cuda_body *k, uint32_t lanes);
void jitc_cuda_put_rows(jitc_cuda_body *k, const jitc_cuda_rows *rows);
/** The type that is loaded and stored for `lanes` elements of type t, and how many of it. */
const char *jitc_cuda_piece_type(jit_dtype t, uint32_t lanes);
uint32_t jitc_cuda_pieces(jit_dtype t, uint32_t lanes);
#endif
