// SPDX-License-Identifier: MIT
#include "sharded.h"

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

void share_out(int32_t ranks_number, int32_t views, int32_t rows, const int64_t *costs, shared_out *out) {
    const row_line line = {(int64_t)views * rows, rows, costs};
    int64_t all = 0, at = 0, before = 0;
    int32_t count = 0;
    for (int64_t row = 0; row < line.length; row++) all += cost_of(&line, row);
    *out = (shared_out){.most = 0};
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
                (gs_part){(int32_t)view, {(int32_t)(at - view * rows), (int32_t)(until - view * rows)}};
            at = until;
        }
        if (count - out->begin[r] > out->most) out->most = count - out->begin[r];
    }
    out->begin[ranks_number] = count;
}
