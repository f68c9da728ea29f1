// SPDX-License-Identifier: MIT
//
// The splats that each tile needs, in order, found by testing every pixel.
#include "reference.h"

#include "conic.h"
#include "memory.h"

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static double reach(const reference_splat *splat, const conic *k, int width, int height, int tile_x,
                    int tile_y) {
    const int right = smaller(width, (tile_x + 1) * GS_TILE_SIZE),
              bottom = smaller(height, (tile_y + 1) * GS_TILE_SIZE);
    double nearest = INFINITY;
    for (int y = tile_y * GS_TILE_SIZE; y < bottom; y++)
        for (int x = tile_x * GS_TILE_SIZE; x < right; x++)
            nearest = fmin(nearest, half_square(k, x + 0.5 - splat->mean[0], y + 0.5 - splat->mean[1]));
    return splat->opacity * exp(-nearest);
}

double reference_reach(const reference_splat *splat, int width, int height, int tile_x, int tile_y) {
    if (!splat->decisions.visible) return 0;
    const conic k = conic_of(splat);
    return reach(splat, &k, width, height, tile_x, tile_y);
}

// The least half square on the segment from (dx, dy) by (sx, sy): a parabola.
static double least_on(const conic *k, double dx, double dy, double sx, double sy) {
    const double square = k->xx * sx * sx + 2 * k->xy * sx * sy + k->yy * sy * sy;
    const double slope = k->xx * dx * sx + k->xy * (dx * sy + dy * sx) + k->yy * dy * sy;
    const double t = square > 0 ? fmin(fmax(-slope / square, 0), 1) : 0;
    return half_square(k, dx + t * sx, dy + t * sy);
}

double reference_area_reach(const reference_splat *splat, int width, int height, int tile_x, int tile_y) {
    if (!splat->decisions.visible) return 0;
    const conic k = conic_of(splat);
    const double x = tile_x * GS_TILE_SIZE + 0.5 - splat->mean[0],
                 y = tile_y * GS_TILE_SIZE + 0.5 - splat->mean[1];
    const double wide = smaller(GS_TILE_SIZE, width - tile_x * GS_TILE_SIZE) - 1,
                 high = smaller(GS_TILE_SIZE, height - tile_y * GS_TILE_SIZE) - 1;
    if (x <= 0 && y <= 0 && x + wide >= 0 && y + high >= 0) return splat->opacity;
    const double nearest = fmin(fmin(least_on(&k, x, y, wide, 0), least_on(&k, x, y + high, wide, 0)),
                                fmin(least_on(&k, x, y, 0, high), least_on(&k, x + wide, y, 0, high)));
    return splat->opacity * exp(-nearest);
}

typedef struct ranked {
    double depth;
    uint32_t index;
} ranked;

static int by_depth_then_index(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

gs_tile_ranges reference_bin(const reference_splat *splats, int64_t count, int width, int height) {
    ranked *order = allocate(count, sizeof(ranked));
    conic *conics = allocate(count, sizeof(conic));
    int64_t visible = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!splats[i].decisions.visible) continue;
        conics[i] = conic_of(&splats[i]);
        order[visible++] = (ranked){splats[i].depth, (uint32_t)i};
    }
    qsort(order, (size_t)visible, sizeof(ranked), by_depth_then_index);

    gs_tile_ranges ranges = {.tiles_x = (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
                             .tiles_y = (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE};
    const int64_t tiles = (int64_t)ranges.tiles_x * ranges.tiles_y;
    ranges.tile_begin = allocate(tiles + 1, sizeof(int64_t));
    ranges.splat_index = allocate(tiles * visible, sizeof(uint32_t));
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int tile_x = (int)(tile % ranges.tiles_x), tile_y = (int)(tile / ranges.tiles_x);
        for (int64_t r = 0; r < visible; r++) {
            const uint32_t i = order[r].index;
            if (reach(&splats[i], &conics[i], width, height, tile_x, tile_y) >= 1.0 / 255)
                ranges.splat_index[ranges.isects++] = i;
        }
        ranges.tile_begin[tile + 1] = ranges.isects;
    }
    free(conics);
    free(order);
    return ranges;
}

void reference_lists_destroy(gs_tile_ranges *ranges) {
    free(ranges->tile_begin);
    free(ranges->splat_index);
    *ranges = (gs_tile_ranges){0};
}
