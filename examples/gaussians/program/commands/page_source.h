// SPDX-License-Identifier: MIT
// What a page shows of a scene and its data: export.c.
#pragma once

#include "dataset.h"
#include "live/page.h"
#include "views.h"

C_LINKAGE_BEGIN

enum { PAGE_VIEWS = 16, PAGE_MOST = 1000000 }; // by default: views, and Gaussians

typedef struct page_source {
    page_content content; // of what is below
    gs_gaussians scene;
    dataset data;
    size_t room; // of content.views
} page_source;   // starts as {0}

// Opens a source without a scene: some views of a run, evenly spread, which must outlive the source. A view that is no
// pinhole has no photograph there.
bool page_source_of_run(page_source *source, const view_split *split, const char *title,
                        const float background[GS_CHANNELS], fault *why);
// Takes source->scene, which is not empty: the page shows `most` of its Gaussians.
bool page_source_take_scene(page_source *source, int64_t most, fault *why);
void page_source_close(page_source *source);

C_LINKAGE_END
