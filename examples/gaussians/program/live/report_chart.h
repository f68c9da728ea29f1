// SPDX-License-Identifier: MIT
// A curve as inline SVG. The style sheet of the report colours it.
#pragma once

#include "c_linkage.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

C_LINKAGE_BEGIN

typedef struct chart_point {
    double x, y;
} chart_point;

typedef struct chart {
    const char *title, *x_name, *y_name;
    const chart_point *points; // sorted by x; points with a y that cannot be drawn are left out
    size_t count;
    const chart_point *other; // a second curve, dashed; NULL: none
    size_t other_count;
    bool logarithmic; // the y axis
    bool from_zero;   // the y axis begins at 0, if it is not logarithmic
    bool marks;       // a dot at every point
} chart;

// Writes a <figure>, also if there is nothing to draw.
void chart_write(FILE *page, const chart *what);

C_LINKAGE_END
