// SPDX-License-Identifier: MIT
// A scene as the page reads it: small numbers of Gaussians that lie together, compressed. live/page.html describes the
// format.
#pragma once

#include "scene.h"

C_LINKAGE_BEGIN

enum { PACKED_CHUNK = 256, PACKED_VALUES = 10 }; // Gaussians of a chunk, and values that it bounds

// Keeps the `most` Gaussians of most opacity and size, in their order, or all if there are fewer. The scene's memory stays
// as large as it was.
bool scene_keep_heaviest(gs_gaussians *scene, int64_t most, fault *why);

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
