// SPDX-License-Identifier: MIT
// A curve as inline SVG, for the page of report.h, whose style sheet colours it.
#ifndef SPLAT_REPORT_CHART_H
#define SPLAT_REPORT_CHART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct chart_point {
    double x, y;
} chart_point;

typedef struct chart {
    const char *title, *x_name, *y_name;
    const chart_point
        *points; // by x; those whose y is not finite (for a logarithm: not above 0) are left out
    size_t count;
    bool logarithmic; // the y axis
    bool from_zero;   // so begins the y axis, if it is not logarithmic
    bool marks;       // a dot at every point
} chart;

// A <figure>; says so where there is nothing to draw.
void chart_write(FILE *page, const chart *what);

#ifdef __cplusplus
}
#endif
#endif
