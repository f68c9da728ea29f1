// SPDX-License-Identifier: MIT
// What a page shows of a scene and its data, and the options that choose it: of `dsplat export`, `view` and `train`.
#pragma once

#include "cli/command_line.h"
#include "dataset.h"
#include "live/page.h"
#include "views.h"

C_LINKAGE_BEGIN

enum { PAGE_VIEWS = 16, PAGE_MOST = 1000000 }; // by default: views, and Gaussians

typedef struct page_options {
    const char *scene, *cameras, *background, *title;
    int64_t views, most, downscale;
} page_options;

// Sets the defaults and adds the rows to a table.
void page_options_list(page_options *options, option_table *table);

typedef struct page_source {
    page_content content; // of what is below
    gs_gaussians scene;
    dataset data;
    page_view *views; // [content.view_count]
} page_source; // starts as {0}

// Reads everything and takes the scene. output: no file of the data may be
// there; NULL: nothing is written. Closed also after a failure.
bool page_source_open(page_source *source, const page_options *options, const char *output, fault *why);
// Reads the scene's file again. After a failure the source has what it had.
bool page_source_reread(page_source *source, const page_options *options, fault *why);
// Opens a source without a scene: `wanted` views of a run, evenly spread, which must outlive the source. A view that is
// no pinhole has no photograph there.
bool page_source_of_run(page_source *source, const view_split *split, fault *why);
// Takes source->scene, which is not empty: the page shows `most` of its Gaussians.
bool page_source_take_scene(page_source *source, int64_t most, fault *why);
void page_source_close(page_source *source);

C_LINKAGE_END
