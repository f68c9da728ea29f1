// SPDX-License-Identifier: MIT
// Which rank renders what: rows of tiles of nearly equal cost. What a row costs is known from the last time that its picture
// was rendered: the entries of its lists, and a constant for each tile. A picture that has not been rendered is like the
// ones before it.
#include "parts.h"
#include <stdlib.h>
#include <string.h>

enum { TILE_COST = 32 }; // entries that an empty tile takes as long as, about

void row_costs_close(row_costs *costs) {
    for (int64_t k = 0; k < costs->count; k++) free(costs->pictures[k].of);
    free(costs->pictures);
}

// NULL: unknown.
static const int64_t *known(const row_costs *costs, int64_t k, int32_t rows) {
    return k < costs->count && costs->pictures[k].rows == rows ? costs->pictures[k].of : NULL;
}

// Zeros if they were unknown. NULL: no memory.
static int64_t *make_known(row_costs *costs, int64_t k, int32_t rows) {
    if (k >= costs->count) {
        const int64_t count = 2 * k + 16;
        picture_costs *const grown = realloc(costs->pictures, (size_t)count * sizeof *grown);
        if (!grown) return NULL;
        memset(grown + costs->count, 0, (size_t)(count - costs->count) * sizeof *grown);
        costs->pictures = grown, costs->count = count;
    }
    picture_costs *const picture = &costs->pictures[k];
    if (picture->rows != rows) {
        free(picture->of);
        picture->of = calloc((size_t)rows, sizeof *picture->of);
        picture->rows = picture->of ? rows : 0;
    }
    return picture->of;
}

const int64_t *row_costs_of(row_costs *costs, const int32_t *pictures, int32_t views, int32_t rows) {
    for (int32_t v = 0; v < views; v++) {
        if (!pictures || pictures[v] < 0) return NULL;
        const int64_t *of = known(costs, 1 + (int64_t)pictures[v], rows);
        if (!of) of = known(costs, 0, rows);
        if (!of) return NULL;
        memcpy(costs->asked + (size_t)v * (size_t)rows, of, (size_t)rows * sizeof *of);
    }
    return costs->asked;
}

void row_costs_learn(row_costs *costs, int32_t picture, gs_rows part, const int64_t *pairs, int32_t rows,
                     int32_t tiles) {
    if (picture < 0) return;
    int64_t *const mean = make_known(costs, 0, rows), *const of =
                                                          make_known(costs, 1 + (int64_t)picture, rows);
    for (int32_t row = part.begin; row < part.end && mean && of; row++) {
        of[row] = pairs[row] + (int64_t)TILE_COST * tiles;
        mean[row] = mean[row] == 0 ? of[row] : (7 * mean[row] + of[row]) / 8;
    }
}

// ---- shares

enum { TOLERANCE = 10 }; // a cut may miss its place by 1 / TOLERANCE of a share, for the end of a view

// The line of rows: all views, one after another.
typedef struct row_line {
    int64_t length, rows; // of all views, of one
    const int64_t *costs; // NULL: 1 each
} row_line;

static int64_t cost_of(const row_line *line, int64_t row) {
    return line->costs ? line->costs[row] : 1;
}

static int64_t distance(int64_t a, int64_t b) {
    return a < b ? b - a : a - b;
}

// From row `at`, before which rows cost *before, to the row where the rank's share ends: as near to the cost `wanted`
// as rows allow, or at the end of a view if that is near enough: a view that is not cut needs one list and no
// exchange of pixels.
static int64_t cut_near(const row_line *line, int64_t at, int64_t *before, int64_t wanted,
                        int64_t tolerance) {
    int64_t best = at, best_cost = *before, view_end = -1, view_cost = 0, cost = *before;
    for (int64_t row = at;; row++) {
        if (distance(cost, wanted) < distance(best_cost, wanted)) best = row, best_cost = cost;
        if (row % line->rows == 0 && distance(cost, wanted) <= tolerance &&
            (view_end < 0 || distance(cost, wanted) < distance(view_cost, wanted)))
            view_end = row, view_cost = cost;
        if (row == line->length || cost > wanted + tolerance) break;
        cost += cost_of(line, row);
    }
    *before = view_end >= 0 ? view_cost : best_cost;
    return view_end >= 0 ? view_end : best;
}

void divide_tiles(int32_t ranks_number, int32_t views, int32_t rows, const int64_t *costs,
                  tile_partition *out) {
    const row_line line = {(int64_t)views * rows, rows, costs};
    int64_t all = 0, at = 0, before = 0;
    int32_t count = 0;
    for (int64_t row = 0; row < line.length; row++) all += cost_of(&line, row);
    *out = (tile_partition){.most = 0};
    for (int32_t r = 0; r < ranks_number; r++) {
        const bool last = r + 1 == ranks_number;
        const int64_t end =
            last ? line.length
                 : cut_near(&line, at, &before, all * (r + 1) / ranks_number, all / ranks_number / TOLERANCE);
        out->begin[r] = count;
        while (at < end) {
            const int64_t view = at / rows, view_end = (view + 1) * rows,
                          until = end < view_end ? end : view_end;
            out->parts[count++] =
                (image_part){(int32_t)view, {(int32_t)(at - view * rows), (int32_t)(until - view * rows)}};
            at = until;
        }
        if (count - out->begin[r] > out->most) out->most = count - out->begin[r];
    }
    out->begin[ranks_number] = count;
}
