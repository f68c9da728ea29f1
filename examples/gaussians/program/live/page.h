// SPDX-License-Identifier: MIT
// The page that shows a scene in a browser (live/page.html), with the scene inside.
#pragma once

#include "live/history.h"
#include "live/packed_scene.h"
#include "images/image.h"
#include <stdio.h>

C_LINKAGE_BEGIN

typedef struct page_view {
    const char *name;
    gs_camera camera; // a pinhole
    image photograph; // of 1/divisor of the camera's size, as image_downscale makes it; empty: none
    int divisor;
    bool held_out;
} page_view;

typedef struct page_content {
    const char *title;
    const gs_gaussians
        *scene; // host; count >= 1, finite; NULL: the page asks its server (live/training_page.h)
    int64_t total;             // Gaussians before some were left out
    float background[GS_CHANNELS];
    double pivot[3], up[3]; // what the camera turns around, and the direction that is up
    size_t view_count;      // >= 1; the page begins with the first
    const page_view *views;
    const image *poster; // the first view, rendered
    const history *run;  // of training; may be empty
} page_content;

typedef struct page_written { // what the program tells
    int sh_degree, whole_degree;
    double step; // as in packed_scene
    size_t bytes;
} page_written;

#define PAGE_TYPE "text/html; charset=utf-8"
enum { PAGE_BYTES = 10 * 1000 * 1000, PAGE_GAUSSIANS = 300 * 1000 };

// Writes the page at the start of a stream. Write errors stay in the stream. It has at most PAGE_BYTES, and in proportion more for more than PAGE_GAUSSIANS;
// for that harmonics become coarser (packed_scene.h). Names may hold anything.
bool page_print(FILE *page, const page_content *content, page_written *written, fault *why);
// Prints the page to a file, whole or not at all.
bool page_write(const char *path, const page_content *content, page_written *written, fault *why);

// The scene alone, as live/page.html describes it: what a page without one asks its server for.
bool page_print_scene(FILE *stream, const page_content *content, fault *why);

C_LINKAGE_END
