// SPDX-License-Identifier: MIT
// The views of a measurement, and the options that select them.
#pragma once

#include "dataset.h"
#include "cli/options.h"

C_LINKAGE_BEGIN

enum { BENCH_VIEW_STEP = 4 };

typedef struct bench_view_options {
    const char *cameras; // folder
    const char *size;    // "WIDTHxHEIGHT" or NULL
    int64_t views, downscale;
    bool center_principal, undistort;
} bench_view_options;

// Sets the defaults and adds the rows to a table.
void bench_view_options_list(bench_view_options *options, option_table *table);
// Fails if a required option is missing or malformed.
bool bench_view_options_check(const bench_view_options *options, fault *why);

typedef struct bench_views {
    size_t count;
    gs_camera *cameras; // [count]
    const char **names; // [count]
    dataset data;       // owns the names
} bench_views;

// options: checked by the function above. Closed also after a failure.
bool bench_views_open(bench_views *views, const bench_view_options *options, fault *why);
void bench_views_close(bench_views *views);

// A gradient of the colours of the largest view, the same in every run, uniform in -1..1: the first values serve a smaller
// view. For the caller to free(). NULL: there is no memory for so many `values`.
float *bench_color_gradient(const gs_camera *cameras, size_t count, size_t *values);

C_LINKAGE_END
