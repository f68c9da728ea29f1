// SPDX-License-Identifier: MIT
// The results of splat bench, for people and for programs.
#ifndef SPLAT_BENCH_REPORT_H
#define SPLAT_BENCH_REPORT_H

#include "measure/bench_run.h"
#include "json_writer.h"

typedef struct bench_report {
    const char *scene, *cameras; // as on the command line
    int64_t gaussians;
    int sh_degree; // stored, and evaluated
    size_t views_in_all;
    int view_step;
    bool center_principal;
    int64_t downscale;
    const char *size;         // or NULL
    const char *const *names; // of the views measured
    const gs_camera *views;
    const bench_settings *settings;
    const bench_result *result;
} bench_report;

void bench_report_print(const bench_report *report); // on stdout
void bench_report_describe(json_writer *json, const void *report);

#endif
