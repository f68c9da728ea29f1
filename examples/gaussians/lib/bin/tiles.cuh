// SPDX-License-Identifier: MIT
// The tiles of a view's images, and those that a splat may reach.
#pragma once

#include "check.h"
#include "reach.cuh"

namespace gs {

struct tile_grid {
    int width, height, tiles_x, tiles_y; // of one view
    int views;
    gs_rows rows;
};

__host__ __device__ inline int tiles_of(const tile_grid &grid) {
    return grid.tiles_x * grid.tiles_y * grid.views;
}

// Half-open ranges of tiles.
struct tile_box {
    int x_begin, x_end, y_begin, y_end;
};

__device__ inline int area_of(const tile_box &box) {
    return box.x_end > box.x_begin && box.y_end > box.y_begin
               ? (box.x_end - box.x_begin) * (box.y_end - box.y_begin)
               : 0;
}

__device__ inline int clamped_tile(float tile, int tiles) {
    return int(fminf(fmaxf(tile, 0.0f), float(tiles)));
}

// The tiles of grid.rows that the slightly enlarged bounding box of the splat's ellipse touches. Tile t has the pixel
// centres 16 t + 0.5 .. 16 t + 15.5.
__device__ inline tile_box box_of(const splat_reach &r, const tile_grid &grid) {
    const float root = sqrtf(r.limit), tilt = r.whiten[1] / r.whiten[2];
    const float half_x = root / r.whiten[0] * sqrtf(1 + tilt * tilt) * 1.001f + 0.01f;
    const float half_y = root / r.whiten[2] * 1.001f + 0.01f;
    constexpr float size = GS_TILE_SIZE;
    return {
        clamped_tile(ceilf((r.mean[0] - half_x - (size - 0.5f)) / size), grid.tiles_x),
        clamped_tile(floorf((r.mean[0] + half_x - 0.5f) / size) + 1, grid.tiles_x),
        max(clamped_tile(ceilf((r.mean[1] - half_y - (size - 0.5f)) / size), grid.tiles_y), grid.rows.begin),
        min(clamped_tile(floorf((r.mean[1] + half_y - 0.5f) / size) + 1, grid.tiles_y), grid.rows.end)};
}

inline tile_grid grid_of(const gs_view *view) {
    const int width = view->camera.width, height = view->camera.height;
    const int tiles_y = tile_rows_of(view);
    const bool all = view->rows.begin == 0 && view->rows.end == 0;
    return {width,   height,           (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
            tiles_y, view_count(view), all ? gs_rows{0, tiles_y} : view->rows};
}

} // namespace gs
