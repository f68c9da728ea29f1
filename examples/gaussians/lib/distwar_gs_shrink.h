// SPDX-License-Identifier: MIT
//
// libdistwar_gs: pictures, masks and depth maps at a fraction of their size, for training that begins on small
// pictures. The rules of distwar_gs.h hold. A pixel of the result stands for a block of factor x factor pixels; rows
// and columns that fill no block are cut off at the right and at the bottom. A side shorter than the factor is one
// block.
#ifndef GS_SHRINK_H
#define GS_SHRINK_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is shrunk, and what becomes of a block.
typedef enum gs_shrink_form {
    GS_SHRINK_BYTES, // [height][width][channels], 8 bits per value, any alignment: the mean, rounded
    GS_SHRINK_MASK,  // [height][width], 8 bits, any alignment: 255 where all pixels count (are not 0), else 0
    GS_SHRINK_DEPTH, // [height][width], floats: the mean of the known values, NaN where none is known
    // `count` pictures as gs_render leaves them, [GS_CHANNELS][height][width]: their mean as GS_SHRINK_BYTES of 3
    // channels, as in a file: values beyond 0..1 become 0 and 255, NaN 0.
    GS_SHRINK_PLANES
} gs_shrink_form;

enum { GS_SHRINK_MOST = 8 };
typedef struct gs_shrinking {
    int32_t width, height, factor; // 1..GS_MAX_SIZE
    gs_shrink_form form;
    int32_t channels; // of GS_SHRINK_BYTES: 1..4
    int32_t count;    // of GS_SHRINK_PLANES: 1..GS_SHRINK_MOST; others have one picture, from[0]
    const void *from[GS_SHRINK_MOST];
    void *small; // of the new size and the same form, but GS_SHRINK_PLANES
} gs_shrinking;

gs_status gs_shrink(const gs_shrinking *shrinking, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
