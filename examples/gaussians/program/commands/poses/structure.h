// SPDX-License-Identifier: MIT
// Structure from motion by COLMAP and frames by ffmpeg, which are run as programs.
#pragma once

#include "dataset.h"
#include "files/path.h"
#include "reconstruction.h"
#include <signal.h>

typedef struct structure {
    const char *folder; // for all files in between; exists
    const char *camera_model;
    bool one_camera, in_order, gpu;
    const volatile sig_atomic_t *stop; // as of child_program
    size_t photographs;                // how many there are, for progress
    bool newer;                        // COLMAP's options have their new names; set by structure_possible
} structure;

// Call it first. Fails, saying what to install, if COLMAP is missing.
bool structure_possible(structure *s, fault *why);
// Finds features in the photographs of the folder and matches them; names: a file of the names of those that are
// meant, which are numbered in its order; NULL: all.
bool structure_match(const structure *s, const char *photographs, const char *names, fault *why);
// After structure_match: poses and points of the largest group of photographs that belong together, in
// s->folder/model. *placed: how many those are. Fails, saying so, where there is none.
bool structure_map(const structure *s, const char *photographs, size_t *placed, fault *why);
// After structure_match with the names of all views: points that the views see, given their poses, appended to *points.
bool structure_triangulate(const structure *s, const char *photographs, const dataset *data,
                           reconstruction *points, fault *why);
// Writes the names of the data's views, for structure_match.
bool structure_write_names(const char *path, const dataset *data, fault *why);

// Takes at most `wanted` frames of a video, the sharpest of each interval, as JPEG files in the folder `to`, which
// exists. *taken: how many. s->folder/frames takes several times as many in between.
bool video_frames(const structure *s, const char *video, size_t wanted, const char *to, size_t *taken,
                  fault *why);
