// SPDX-License-Identifier: MIT
#include "poses/pose_metric.h"
#include "frames/camera.h"
#include <math.h>

enum { MOST_POINTS = 4096 };

static int at(int row, int column) { // of the lower triangle
    return row * (row + 1) / 2 + column;
}

static double length(const double x[3]) {
    return sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2]);
}

static double distance_to(const gs_camera *camera, const double point[3]) {
    double inside[3];
    camera_inside(camera, point, inside);
    return fmax(length(inside), 4 * (double)camera->near_plane);
}

// The derivative of the pixel by the point of camera space, by central differences: it serves every lens.
static bool pixel_by_point(const gs_camera *camera, const double inside[3], double by[2][3]) {
    const double step = 1e-4 * length(inside);
    for (int k = 0; k < 3; k++) {
        double before[3] = {inside[0], inside[1], inside[2]}, after[3] = {inside[0], inside[1], inside[2]};
        double from[2], to[2];
        before[k] -= step;
        after[k] += step;
        if (!camera_project(camera, before, from) || !camera_project(camera, after, to)) return false;
        for (int i = 0; i < 2; i++) by[i][k] = (to[i] - from[i]) / (2 * step);
    }
    return true;
}

// Adds weight J^T J. False if the camera does not see the point. A turn w moves it by w x inside.
static bool add_point(const gs_camera *camera, const double inside[3], double weight,
                      double sum[POSE_METRIC_VALUES]) {
    double by[2][3];
    if (!pixel_by_point(camera, inside, by)) return false;
    for (int i = 0; i < 2; i++) {
        double row[6];
        for (int k = 0; k < 3; k++) {
            const int a = (k + 1) % 3, b = (k + 2) % 3;
            row[k] = inside[a] * by[i][b] - inside[b] * by[i][a];
            row[3 + k] = by[i][k];
        }
        for (int r = 0; r < 6; r++)
            for (int c = 0; c <= r; c++) sum[at(r, c)] += weight * row[r] * row[c];
    }
    return true;
}

static void factorise(double m[POSE_METRIC_VALUES]) {
    for (int c = 0; c < 6; c++)
        for (int r = c; r < 6; r++) {
            double value = m[at(r, c)];
            for (int k = 0; k < c; k++) value -= m[at(r, k)] * m[at(c, k)];
            m[at(r, c)] = r == c ? sqrt(value) : value / m[at(c, c)];
        }
}

void pose_metric(const gs_camera *camera, const weighted_points *points, const pose_scale *scale,
                 double factor[POSE_METRIC_VALUES]) {
    const double certain = 0.3, nearest = distance_to(camera, scale->focus) / 16;
    double sum[POSE_METRIC_VALUES] = {0}, total = 0;
    const size_t stride = points->count / MOST_POINTS + 1;
    for (size_t i = 0; i < points->count; i += stride) {
        const double point[3] = {points->points[i][0], points->points[i][1], points->points[i][2]};
        const double weight = points->weights ? points->weights[i] : 1;
        double inside[3];
        camera_inside(camera, point, inside);
        // One that is very near would count for all others.
        if (weight > 0 && length(inside) > nearest && add_point(camera, inside, weight, sum)) total += weight;
    }
    for (int k = 0; k < POSE_METRIC_VALUES; k++) factor[k] = total > 0 ? sum[k] / total : 0;
    for (int k = 0; k < 6; k++) {
        const double expected = k < 3 ? scale->radians : scale->distance;
        factor[at(k, k)] += certain * certain / (expected * expected);
    }
    factorise(factor);
}

void pose_metric_solve(const double factor[POSE_METRIC_VALUES], double x[6]) {
    for (int r = 0; r < 6; r++) {
        for (int c = 0; c < r; c++) x[r] -= factor[at(r, c)] * x[c];
        x[r] /= factor[at(r, r)];
    }
}

void pose_metric_solve_transposed(const double factor[POSE_METRIC_VALUES], double x[6]) {
    for (int r = 5; r >= 0; r--) {
        for (int c = r + 1; c < 6; c++) x[r] -= factor[at(c, r)] * x[c];
        x[r] /= factor[at(r, r)];
    }
}
