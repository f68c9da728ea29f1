// SPDX-License-Identifier: MIT
// What every stage that walks gs_bin's lists asks of its caller.
#ifndef GS_LISTS_CHECK_H
#define GS_LISTS_CHECK_H

#include "status.h"

// function: the caller's caller, which the text names. lists: not NULL.
inline gs_status check_lists(const char *function, const gs_splat *splats, const gs_lists *lists, int width,
                             int height) {
    GS_REQUIRE_OF(function, width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
                  "width and height must be in 1..16384");
    GS_REQUIRE_OF(function,
                  lists->tiles_x == (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE &&
                      lists->tiles_y == (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
                  "the lists are of an image of another size");
    GS_REQUIRE_OF(function,
                  lists->pixels_per_thread == 1 || lists->pixels_per_thread == 2 ||
                      lists->pixels_per_thread == 4,
                  "pixels_per_thread must be 1, 2 or 4");
    GS_REQUIRE_OF(function, lists->split_tiles >= 0 && lists->split_tiles <= lists->tiles_x * lists->tiles_y,
                  "split_tiles must be in 0..the number of tiles");
    GS_REQUIRE_OF(function, lists->tile_begin && (lists->pairs == 0 || (lists->splat_index && splats)),
                  "the lists and their splats must be given");
    return GS_OK;
}

#endif
