// SPDX-License-Identifier: MIT
// Which rank renders what: rows of tiles of nearly equal cost. What a row costs is known from the last time that its picture
// was rendered: the entries of its lists, and a constant for each tile. As long as a batch has a picture that has not been
// rendered, all rows cost the same.
#include "parts.h"
#include <stdlib.h>
#include <string.h>

enum { TILE_COST = 32 }; // entries that an empty tile takes as long as, about

void row_costs_close(row_costs *costs) {
    for (int64_t k = 0; k < costs->count; k++) free(costs->pictures[k].of);
    free(costs->pictures);
}

const int64_t *row_costs_of(row_costs *costs, const int32_t *pictures, int32_t views, int32_t rows) {
    for (int32_t v = 0; v < views; v++) {
        const int32_t k = pictures ? pictures[v] : -1;
        if (k < 0 || k >= costs->count || costs->pictures[k].rows != rows) return NULL;
        memcpy(costs->asked + (size_t)v * (size_t)rows, costs->pictures[k].of,
               (size_t)rows * sizeof *costs->asked);
    }
    return costs->asked;
}

void row_costs_learn(row_costs *costs, int32_t picture, gs_rows part, const int64_t *pairs, int32_t rows,
                     int32_t tiles) {
    if (picture < 0) return;
    if (picture >= costs->count) {
        const int64_t count = 2 * (int64_t)picture + 16;
        picture_costs *const grown = realloc(costs->pictures, (size_t)count * sizeof *grown);
        if (!grown) return;
        memset(grown + costs->count, 0, (size_t)(count - costs->count) * sizeof *grown);
        costs->pictures = grown, costs->count = count;
    }
    picture_costs *const of = &costs->pictures[picture];
    if (of->rows != rows) {
        free(of->of);
        of->of = malloc((size_t)rows * sizeof *of->of);
        of->rows = of->of ? rows : 0;
        for (int32_t row = 0; row < of->rows; row++)
            of->of[row] = 1; // until the other parts of the view are told
    }
    for (int32_t row = part.begin; row < part.end && of->of; row++)
        of->of[row] = pairs[row] + (int64_t)TILE_COST * tiles;
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
