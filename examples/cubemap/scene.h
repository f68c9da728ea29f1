// SPDX-License-Identifier: MIT
// The surroundings, made by formulas, and cameras around the mesh.
#pragma once

#include "gpu/pinhole.h"

C_LINKAGE_BEGIN

enum { SCENE_VIEWS = 8 };
#define SCENE_BACKGROUND 0.05f

pinhole_camera scene_camera(int view, int width, int height); // 0 <= view < SCENE_VIEWS
// texel: [6][size][size][3] on the host, numbered as in cubemap.h; a sky with a sun, walls with stripes and
// lamps, a checkered floor.
void scene_surroundings(int size, float *texel);

C_LINKAGE_END
