// SPDX-License-Identifier: MIT
// The page on a server, which gives it scenes as they come. dsplat view: those of a file that changes. dsplat train --view:
// copies, which the trainer's observer makes when a browser asks. Only the page's buttons make training wait. EXPERIMENTAL.
#pragma once

#include "live/page.h"
#include "live/server.h"

C_LINKAGE_BEGIN

enum {
    LIVE_PAGE_REST = 25,     // after a copy training goes on for at least so many times as long as it took
    LIVE_PAGE_PATIENCE = 150 // seconds without a request after which a pause ends: a hidden page asks seldom
};

typedef struct live_page live_page;

typedef struct live_page_options {
    const char *listen; // as of page_server_start
    // All but `scene`, `total` and `record`; what it points to must outlive the page.
    page_content content;
    bool training;      // the page has its state and buttons; the members below are of it
    int64_t most;       // Gaussians that the page gets
    int64_t iterations; // of training; 0: unknown
    double patience;    // LIVE_PAGE_PATIENCE
} live_page_options;

// NULL: *why is set.
live_page *live_page_start(const live_page_options *options, fault *why);
const page_server *live_page_server(const live_page *page);
// Packs content->scene, which the page shows from then on. *written: of the page with it.
bool live_page_show(live_page *page, const page_content *content, page_written *written, fault *why);

// For training_observer.wants: whether a browser has asked for something. Cost: an atomic read.
bool live_page_wants(live_page *page);
// For training_observer.observe, on one rank: copies the scene if a browser has asked and the time has come; waits
// while the page has paused training, until `end` is not 0.
bool live_page_observe(live_page *page, const training_state *state, const training_report *report,
                       const run_record *record, const volatile sig_atomic_t *end, fault *why);
// After the last step: the page gets what there is, if one is open, and says that training is over.
bool live_page_finish(live_page *page, const training_state *state, const training_report *report,
                      const run_record *record, fault *why);
// Waits for at most 3 s until an open page has the last scene. NULL is harmless.
void live_page_stop(live_page *page);

C_LINKAGE_END
