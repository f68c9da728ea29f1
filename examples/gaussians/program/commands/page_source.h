// SPDX-License-Identifier: MIT
// What a page shows of a scene and its data, and the options that choose it: of `dsplat export`, `view` and `train`.
#pragma once

#include "dataset.h"
#include "cli/command_line.h"
#include "views.h"
#include "live/page.h"
#include "scene.h"

C_LINKAGE_BEGIN

typedef struct page_options {
    const char *scene, *cameras, *background, *log, *title;
    int64_t views, most, downscale;
} page_options;

// Sets the defaults and adds the rows to a table.
void page_options_list(page_options *options, option_table *table);

typedef struct page_source {
    page_content content; // of what is below
    gs_gaussians scene;
    dataset data;
    history training;
    page_view *views;
    gs_camera *cameras, *small; // of the views; small: of pictures as the page shows them
    size_t view_count;
    image poster;
} page_source; // starts as {0}

// Reads everything and takes the scene. output: no file of the data may be
// there; NULL: nothing is written. Closed also after a failure.
bool page_source_open(page_source *source, const page_options *options, const char *output, fault *why);
// Opens a source without a scene: `wanted` views of a run, evenly spread, which must outlive the source. A view that is
// no pinhole has no photograph there. The poster is the first one.
bool page_source_of_run(page_source *source, const view_split *split, size_t wanted, fault *why);
// Takes source->scene, which is not empty: the page shows `most` of its Gaussians, and the first view as poster.
bool page_source_take_scene(page_source *source, int64_t most, fault *why);
void page_source_close(page_source *source);
// On stdout: what the page holds.
void page_source_print(const page_source *source, const char *page, const page_written *written);

C_LINKAGE_END
