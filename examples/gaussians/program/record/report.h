// SPDX-License-Identifier: MIT
// A training run as one HTML page: pictures of held-out views beside their photographs, curves, the time of
// each stage, the choices of the tuner, the settings. The page needs no other file, no network and no
// script.
#pragma once

#include "record/run_record.h"

C_LINKAGE_BEGIN

typedef struct run_report {
    const char *title;
    const run_record *record;
    const training_report *training;
    const gs_gaussians *gaussians; // device
    const target_view *views;      // to show; [view_count]
    size_t view_count;             // >= 1
    bool held_out;                 // false: the views are training views, as there are no others
    float background[3];
} run_report;

// Writes FOLDER/index.html, whole or not at all. The folder is created if it is missing. Renders all views.
bool report_write(const char *folder, const run_report *report, fault *why);
// Fails if that file cannot be written. Call it before long work.
bool report_is_possible(const char *folder, fault *why);

// A part of the page: at most five views, from the worst to the best by PSNR, each as the rendered view, the
// photograph and their difference. gaussians: device. each: [count]. count >= 1.
bool report_views_write(FILE *page, const gs_gaussians *gaussians, const target_view *views,
                        const quality *each, size_t count, const float background[3], fault *why);

C_LINKAGE_END
