// SPDX-License-Identifier: MIT
// The page that shows a scene in a browser (live/page.html). Alone it is one file with the scene; that of a training has
// curves and held-out views too. A page without a scene asks its server for one (live/live_page.h).
#pragma once

#include "images/image.h"
#include "live/packed_scene.h"
#include "record/run_log.h"
#include <stdio.h>

C_LINKAGE_BEGIN

typedef struct page_view {
    const char *name;
    gs_camera camera; // a pinhole
    image photograph; // of 1/divisor of the camera's size, as image_downscale makes it; empty: none
    int divisor;
    bool held_out;
} page_view;

enum { PAGE_SHOWN = 5, PAGE_WIDEST = 420 }; // pictures of a run; pixels across one

// A view that was measured. Pictures are of 1/n of the view's size, so that they have at most PAGE_WIDEST pixels across.
typedef struct page_picture {
    const char *name;
    int width, height; // of the view
    quality measured;
    image trio[3]; // rendered, the photograph, the error
} page_picture;

typedef struct page_run {
    const training_report *training;
    int64_t gaussians, batch; // batch: views per step
    bool held_out;            // false: the views are training views, as there are no others
    size_t views, shown;      // that were measured; of these are shown
    quality mean;
    page_picture pictures[PAGE_SHOWN]; // [shown], from the worst to the best by PSNR
} page_run;

typedef struct page_content {
    const char *title;
    const gs_gaussians *scene; // host; count >= 1, finite; NULL: the page asks its server
    int64_t total;             // Gaussians before some were left out
    float background[GS_CHANNELS];
    double pivot[3], up[3]; // what the camera turns around, and the direction that is up
    size_t view_count;      // >= 1; the page begins with the first
    page_view *views;
    const run_record *record; // of training, for the curves; NULL: there are none
    const page_run *run;      // the rest of a report; NULL: none
} page_content;

typedef struct page_written { // what the program tells
    int64_t gaussians, total;
    int sh_degree, whole_degree;
    double step; // as in packed_scene
    size_t views, bytes;
} page_written;

#define PAGE_TYPE "text/html; charset=utf-8"
enum { PAGE_BYTES = 10 * 1000 * 1000, PAGE_GAUSSIANS = 300 * 1000 };

// Writes the page. Write errors stay in the stream. It has at most PAGE_BYTES, and in proportion more for more than
// PAGE_GAUSSIANS; for that harmonics become coarser (packed_scene.h). Names may hold anything.
bool page_print(FILE *page, const page_content *content, page_written *written, fault *why);
// Prints the page to a file, whole or not at all.
bool page_write(const char *path, const page_content *content, page_written *written, fault *why);
// The scene alone, as live/page.html describes it: what a page without one asks its server for.
bool page_print_scene(FILE *stream, const page_content *content, page_written *written, fault *why);
// The last part of a path: folders say more of who made a page than of its scene.
const char *page_name_of(const char *path);
// On stdout: what the page of this name holds.
void page_tell(const char *name, const page_written *written);

C_LINKAGE_END
