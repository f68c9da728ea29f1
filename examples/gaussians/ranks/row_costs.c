// SPDX-License-Identifier: MIT
// What the rows of tiles of each picture cost when it was rendered last: the entries of their lists, and a constant for
// each tile. A picture that has not been rendered is like the ones before it.
#include "sharded_parts.h"
#include <stdlib.h>
#include <string.h>

enum { TILE_COST = 32 }; // entries that an empty tile takes as long as, about

typedef struct picture_costs {
    int32_t rows; // 0: unknown
    int64_t *of;  // [rows]
} picture_costs;

struct row_costs {
    picture_costs *pictures;
    int64_t count; // room
    picture_costs usual;
    int64_t asked[GS_MAX_VIEWS * MOST_ROWS];
};

row_costs *row_costs_open(void) {
    return calloc(1, sizeof(row_costs));
}

void row_costs_close(row_costs *costs) {
    if (!costs) return;
    for (int64_t k = 0; k < costs->count; k++) free(costs->pictures[k].of);
    free(costs->pictures);
    free(costs->usual.of);
    free(costs);
}

static bool resize(picture_costs *picture, int32_t rows) {
    if (picture->rows == rows) return true;
    free(picture->of);
    picture->of = calloc((size_t)rows, sizeof *picture->of);
    picture->rows = picture->of ? rows : 0;
    return picture->of != NULL;
}

static bool has_room(row_costs *costs, int32_t picture) {
    if (picture < costs->count) return true;
    const int64_t count = 2 * (int64_t)picture + 16;
    picture_costs *const grown = realloc(costs->pictures, (size_t)count * sizeof *grown);
    if (!grown) return false;
    memset(grown + costs->count, 0, (size_t)(count - costs->count) * sizeof *grown);
    costs->pictures = grown, costs->count = count;
    return true;
}

const int64_t *row_costs_of(row_costs *costs, const int32_t *pictures, int32_t views, int32_t rows) {
    for (int32_t v = 0; v < views; v++) {
        if (!pictures || pictures[v] < 0) return NULL;
        const picture_costs *picture =
            pictures[v] < costs->count ? &costs->pictures[pictures[v]] : &costs->usual;
        if (picture->rows != rows) picture = &costs->usual;
        if (picture->rows != rows) return NULL;
        memcpy(costs->asked + (size_t)v * (size_t)rows, picture->of, (size_t)rows * sizeof *picture->of);
    }
    return costs->asked;
}

void row_costs_learn(row_costs *costs, int32_t picture, gs_rows part, const int64_t *pairs, int32_t rows,
                     int32_t tiles) {
    if (picture < 0 || !has_room(costs, picture)) return;
    picture_costs *const of = &costs->pictures[picture];
    if (!resize(of, rows) || !resize(&costs->usual, rows)) return;
    for (int32_t row = part.begin; row < part.end; row++) {
        of->of[row] = pairs[row] + (int64_t)TILE_COST * tiles;
        costs->usual.of[row] =
            costs->usual.of[row] == 0 ? of->of[row] : (7 * costs->usual.of[row] + of->of[row]) / 8;
    }
}
