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

// The size of the picture to shrink, and by what: 1..GS_MAX_SIZE.
typedef struct gs_shrinking {
    int32_t width, height, factor;
} gs_shrinking;

// Means of blocks, rounded. picture: [height][width][channels], small: the same at the new size, 8 bits per value, any
// alignment; channels: 1..4.
gs_status gs_shrink_picture(const gs_shrinking *shrinking, int32_t channels, const uint8_t *picture,
                            uint8_t *small, gs_stream stream);

// The same of the mean of `count` pictures as gs_render leaves them, rounded to 8 bits as in a file: values beyond 0..1
// become 0 and 255, NaN 0. planes: host, [count], each [GS_CHANNELS][height][width]; small: [..][..][GS_CHANNELS].
enum { GS_SHRINK_MOST = 8 };
gs_status gs_shrink_planes(const gs_shrinking *shrinking, const float *const *planes, int32_t count,
                           uint8_t *small, gs_stream stream);

// 255 where all pixels of the block count (are not 0), else 0. mask: [height][width].
gs_status gs_shrink_mask(const gs_shrinking *shrinking, const uint8_t *mask, uint8_t *small,
                         gs_stream stream);

// Means of the known values of a block, NaN where none is known. depth: [height][width]; NaN: unknown.
gs_status gs_shrink_depth(const gs_shrinking *shrinking, const float *depth, float *small, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
