// SPDX-License-Identifier: MIT
#include "start/depth_fit.h"
#include "random.h"
#include "frames/view_order.h"
#include "frames/camera.h"
#include <math.h>
#include <stdlib.h>

enum { CELLS = 64, PAIRS = 500, SUBSET = 2000, ROUNDS = 20 };

// ---- the points that a view sees

// Cells of `side` pixels, each with the largest inverse depth of its points.
typedef struct cell_grid {
    int side, columns, rows;
    double *nearest; // 0: none
} cell_grid;

static bool grid_open(cell_grid *grid, const gs_camera *camera, fault *why) {
    const int longer = camera->width > camera->height ? camera->width : camera->height;
    grid->side = (longer + CELLS - 1) / CELLS;
    grid->columns = camera->width / grid->side + 1;
    grid->rows = camera->height / grid->side + 1;
    grid->nearest = calloc((size_t)grid->columns * (size_t)grid->rows, sizeof *grid->nearest);
    return grid->nearest || fail(why, "no memory for a grid of %d x %d cells", grid->columns, grid->rows);
}

static double *cell_at(const cell_grid *grid, int column, int row) {
    return &grid->nearest[(size_t)row * (size_t)grid->columns + (size_t)column];
}

static bool is_hidden(const cell_grid *grid, const double pixel[2], double inverse) {
    const int column = (int)pixel[0] / grid->side, row = (int)pixel[1] / grid->side;
    double nearest = 0;
    for (int r = row - 1; r <= row + 1; r++)
        for (int c = column - 1; c <= column + 1; c++)
            if (r >= 0 && r < grid->rows && c >= 0 && c < grid->columns)
                nearest = fmax(nearest, *cell_at(grid, c, r));
    return 0.98 * nearest > inverse;
}

// Where the camera sees a point, and 1 / depth. False if it does not.
static bool project(const gs_camera *camera, const float point[3], double pixel[2], double *inverse) {
    const double at[3] = {point[0], point[1], point[2]};
    if (!camera_pixel(camera, at, pixel)) return false;
    *inverse = 1 / camera_depth(camera, at);
    return true;
}

static void add_sample(const depth_view *view, const double pixel[2], double inverse, depth_sample *samples,
                       size_t *found) {
    const size_t at = (size_t)pixel[1] * (size_t)view->camera->width + (size_t)pixel[0];
    if (isnan(view->map[at]) || (view->mask && view->mask[at] == 0)) return;
    samples[(*found)++] = (depth_sample){(double)view->map[at], inverse};
}

bool depth_samples(const depth_view *view, const depth_points *points, depth_sample *samples, size_t *found,
                   fault *why) {
    cell_grid grid;
    double pixel[2], inverse;
    *found = 0;
    for (size_t i = 0; points->seen && i < points->seen_count; i++)
        if (project(view->camera, points->at[points->seen[i]], pixel, &inverse))
            add_sample(view, pixel, inverse, samples, found);
    if (points->seen) return true;
    if (!grid_open(&grid, view->camera, why)) return false;
    for (size_t i = 0; i < points->count; i++) {
        if (!project(view->camera, points->at[i], pixel, &inverse)) continue;
        double *nearest = cell_at(&grid, (int)pixel[0] / grid.side, (int)pixel[1] / grid.side);
        *nearest = fmax(*nearest, inverse);
    }
    for (size_t i = 0; i < points->count; i++)
        if (project(view->camera, points->at[i], pixel, &inverse) && !is_hidden(&grid, pixel, inverse))
            add_sample(view, pixel, inverse, samples, found);
    free(grid.nearest);
    return true;
}

// ---- the line

static double difference(const depth_fit *line, const depth_sample *s) {
    return fabs(line->scale * s->value + line->shift - s->inverse);
}

// The k-th smallest of the values, which are reordered (Hoare's selection).
static double select_smallest(double *values, size_t count, size_t k) {
    size_t low = 0, high = count - 1;
    while (low < high) {
        const double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot) i++;
            while (pivot < values[j]) j--;
            if (i >= j) break;
            const double kept = values[i];
            values[i++] = values[j];
            values[j--] = kept;
        }
        const size_t last = values[j] > pivot ? j - 1 : j; // of the part not above the pivot
        if (k <= last)
            high = last;
        else
            low = last + 1;
    }
    return values[low];
}

// The median absolute difference of `step`-th samples from the line. room: of `count` values.
static double median_difference(const depth_fit *line, const depth_sample *samples, size_t count, size_t step,
                                double *room) {
    size_t n = 0;
    for (size_t i = 0; i < count; i += step) room[n++] = difference(line, &samples[i]);
    return select_smallest(room, n, n / 2);
}

static bool line_through(const depth_sample *a, const depth_sample *b, depth_fit *out) {
    out->scale = (b->inverse - a->inverse) / (b->value - a->value);
    out->shift = a->inverse - out->scale * a->value;
    return isfinite(out->scale) && isfinite(out->shift);
}

static bool start_line(const depth_sample *samples, size_t count, depth_fit *best, double *room) {
    random_stream random = random_at(0, RANDOM_DEPTH_FIT, 0, 0);
    const size_t step = (count + SUBSET - 1) / SUBSET;
    double least = INFINITY;
    for (int pair = 0; pair < PAIRS; pair++) {
        depth_fit line = {0};
        const size_t a = random_below(&random, count), b = random_below(&random, count);
        if (!line_through(&samples[a], &samples[b], &line)) continue;
        const double median = median_difference(&line, samples, count, step, room);
        if (median < least) least = median, *best = line;
    }
    return isfinite(least);
}

// Least squares through the samples that differ from the line by at most `most`. False if their values are alike.
static bool refit(const depth_sample *samples, size_t count, double most, depth_fit *line) {
    double value = 0, inverse = 0, spread = 0, product = 0, square = 0, size = 0;
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (difference(line, &samples[i]) <= most)
            value += samples[i].value, inverse += samples[i].inverse, n++;
    value /= (double)n;
    inverse /= (double)n;
    for (size_t i = 0; i < count; i++) {
        if (!(difference(line, &samples[i]) <= most)) continue;
        const double v = samples[i].value - value;
        spread += v * v;
        product += v * (samples[i].inverse - inverse);
        size += samples[i].value * samples[i].value;
    }
    if (!(spread > 1e-12 * size)) return false;
    depth_fit next = {.scale = product / spread, .used = n};
    next.shift = inverse - next.scale * value;
    for (size_t i = 0; i < count; i++)
        if (difference(line, &samples[i]) <= most)
            square += difference(&next, &samples[i]) * difference(&next, &samples[i]);
    next.error = sqrt(square / (double)n) / inverse;
    *line = next;
    return true;
}

static bool same_line(const depth_fit *a, const depth_fit *b) {
    return a->scale - b->scale == 0 && a->shift - b->shift == 0;
}

static bool improve(const depth_sample *samples, size_t count, depth_fit *line, double *room) {
    double mean = 0;
    for (size_t i = 0; i < count; i++) mean += samples[i].inverse / (double)count;
    for (int round = 0; round < ROUNDS; round++) {
        const depth_fit before = *line;
        const double median = median_difference(line, samples, count, 1, room);
        const double deviation = 1.4826 * (1 + 5 / ((double)count - 2)) * median; // of normal errors
        // Rounding is no outlier.
        if (!refit(samples, count, fmax(2.5 * deviation, 1e-6 * mean), line)) return false;
        if (round > 0 && same_line(&before, line)) break;
    }
    return true;
}

bool depth_fit_line(const depth_sample *samples, size_t count, depth_fit *out, fault *why) {
    *out = (depth_fit){0};
    if (count < DEPTH_FIT_LEAST)
        return fail(why, "%zu points are seen where it has values; %d are needed", count, DEPTH_FIT_LEAST);
    double *room = malloc(count * sizeof *room);
    if (!room) return fail(why, "no memory for %zu points", count);
    const bool found = start_line(samples, count, out, room) && improve(samples, count, out, room);
    free(room);
    if (!found) return fail(why, "its values at the %zu points that are seen are alike", count);
    return out->scale > 0 ||
           fail(why, "its values fall where the points are nearer: it must hold inverse depth, not depth");
}

void depth_fit_apply(const depth_fit *fit, float *map, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float inverse = (float)(fit->scale * (double)map[i] + fit->shift);
        map[i] = !isfinite(inverse) ? NAN : inverse > 0 ? inverse : 0;
    }
}
