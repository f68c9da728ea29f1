// SPDX-License-Identifier: MIT
// A training run as one HTML page: the page of its scene in a frame, pictures of held-out views beside their photographs,
// curves, the time of each stage, the choices of the tuner, the settings. The page needs no other file and no network,
// and without the frame no script.
#pragma once

#include "live/page.h"
#include "record/run_record.h"

C_LINKAGE_BEGIN

enum { REPORT_SHOWN = 5 };

// What the page shows of its views: at most REPORT_SHOWN of them, from the worst to the best by PSNR.
typedef struct report_gallery {
    quality mean;
    quality *each; // of all views
    size_t shown;
    size_t index[REPORT_SHOWN];  // of the views shown
    image picture[REPORT_SHOWN]; // rendered
} report_gallery;                // starts as {0}

// With `each` set: chooses `index` and `shown`. count >= 1.
bool report_gallery_choose(report_gallery *gallery, size_t count, fault *why);
void report_gallery_close(report_gallery *gallery); // also after a failure

typedef struct run_report {
    const char *title;
    const run_record *record;
    const training_report *training;
    int64_t gaussians;        // their number
    const page_content *page; // of the scene; NULL: none
    const report_gallery *gallery;
    const target_view *views; // to show; [view_count]
    size_t view_count;        // >= 1
    bool held_out;            // false: the views are training views, as there are no others
} run_report;

// Writes FOLDER/index.html, whole or not at all. The folder is created if it is missing.
bool report_write(const char *folder, const run_report *report, fault *why);
// Fails if that file cannot be written. Call it before long work.
bool report_is_possible(const char *folder, fault *why);

// A part of the page: each view of the gallery as the rendered view, the photograph and their difference.
bool report_views_write(FILE *page, const report_gallery *gallery, const target_view *views, size_t count,
                        fault *why);

C_LINKAGE_END
