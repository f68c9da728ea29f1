// SPDX-License-Identifier: MIT
// Writes the scene of a run in pieces: of a scene that lies on several GPUs, no GPU and no host ever has all.
#pragma once

#include "scene.h"
#include "training_state.h"

C_LINKAGE_BEGIN

// A collective of the state's group; rank 0 writes. The file is that of scene_write after gaussians_keep_finite: Gaussians that
// are not finite are left out. *written, *dropped: on rank 0. notes: NULL, or for the file. piece: most Gaussians at once; 0:
// 65536. On failure there is no file. Cost: reads all Gaussians twice.
bool scene_pieces_write(const char *path, const training_state *state, int64_t piece,
                        const scene_notes *notes, int64_t *written, int64_t *dropped, fault *why);

C_LINKAGE_END
