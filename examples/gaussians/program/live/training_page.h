// SPDX-License-Identifier: MIT
// The page while its scene is trained: served from a thread of its own, with copies of the scene that the trainer's observer
// makes when a browser asks. No client makes training wait, but by the page's buttons. EXPERIMENTAL.
#pragma once

#include "live/page.h"
#include "live/server.h"

C_LINKAGE_BEGIN

enum {
    TRAINING_PAGE_REST = 25, // after a copy training goes on for at least so many times as long as it took
    TRAINING_PAGE_PATIENCE =
        150 // seconds without a request of a page after which a pause ends: a hidden page asks seldom
};

typedef struct training_page training_page;

typedef struct training_page_options {
    const char *listen; // as of page_server_start
    // All but `scene`, `total` and `run`; what it points to must outlive the page.
    page_content content;
    const gs_camera *cameras; // [content.view_count], small: whose pictures say what a Gaussian contributes
    int64_t most;             // Gaussians that the page gets
    int64_t iterations;       // of training; 0: unknown
    double patience;          // TRAINING_PAGE_PATIENCE
} training_page_options;

// NULL: *why is set.
training_page *training_page_start(const training_page_options *options, fault *why);
const page_server *training_page_server(const training_page *page);
// For training_observer.wants: whether a browser has asked for something. Cost: an atomic read.
bool training_page_wants(training_page *page);
// For training_observer.observe, on one rank: copies the scene if a browser has asked and the time has come; waits
// while the page has paused training, until `end` is not 0. Where the scene is larger than `most`, a copy also renders
// each camera.
bool training_page_observe(training_page *page, const training_state *state, const training_report *report,
                           const run_record *record, const volatile sig_atomic_t *end, fault *why);
// After the last step: the page gets what there is, if one is open, and says that training is over.
bool training_page_finish(training_page *page, const training_state *state, const training_report *report,
                          const run_record *record, fault *why);
// Waits for at most 3 s until an open page has the last scene. NULL is harmless.
void training_page_stop(training_page *page);

C_LINKAGE_END
