// SPDX-License-Identifier: MIT
// A scene as the page reads it: small numbers of Gaussians that lie together, compressed. live/page.html describes the
// format.
#pragma once

#include "scene.h"

C_LINKAGE_BEGIN

enum { PACKED_CHUNK = 256, PACKED_VALUES = 10 }; // Gaussians of a chunk, and values that it bounds

// Keeps the `most` Gaussians that contribute most to the pictures of cameras, in their order; all, if they are no more.
// A contribution is the sum over pixels of transmittance times alpha: the part of the pixel that is the Gaussian's.
// scene: host; its memory stays as large as it was. device: the same on the device; NULL: it is copied there. camera_count
// >= 1. Renders each camera forward and backward.
bool keep_contributing(gs_gaussians *scene, const gs_gaussians *device, int64_t most,
                       const gs_camera *cameras, size_t camera_count, fault *why);

typedef struct packed_stream {
    uint8_t *bytes; // of zlib
    size_t count;
} packed_stream;

typedef struct packed_scene {
    packed_stream gaussians, harmonics;
    int64_t count;
    int sh_degree, antialias;
    int whole_degree; // of the scene's harmonics that are not 0; sh_degree is less if there was no room
    double step;      // between two values of an SH coefficient above 0
} packed_scene;

// Packs a scene of the host, count >= 1, finite. most: bytes that both streams should not exceed together. The steps of
// the harmonics grow until they do not; if that is not enough, there are no harmonics above degree 0. The first stream
// alone may exceed them: it takes 12 to 17 bytes per Gaussian. Cost: seconds for a million Gaussians, of which it holds
// some 150 bytes each.
bool packed_scene_open(packed_scene *out, const gs_gaussians *scene, size_t most, fault *why);
void packed_scene_close(packed_scene *packed); // harmless on {0}

C_LINKAGE_END
