// SPDX-License-Identifier: MIT
// Meshes made by formulas, in host memory, with normals. All lie in the unit ball around the origin.
#pragma once

#include "mesh.h"

C_LINKAGE_BEGIN

enum { ICOSPHERE_MAX_LEVEL = 8 };

// An icosahedron whose triangles are cut into 4^level each, on the sphere; 0 <= level <= ICOSPHERE_MAX_LEVEL.
bool shape_icosphere(int level, mesh *out, fault *why);
// The icosphere with waves.
bool shape_bumpy(int level, mesh *out, fault *why);
// rings >= 3 along the ring, sides >= 3 around its tube; rings * sides <= 2^24.
bool shape_torus(int rings, int sides, mesh *out, fault *why);
// Moves and scales the mesh: its bounding box is centred at the origin, its farthest vertex at distance 1.
// Returns false if the mesh has no extent.
bool shape_fit(mesh *host);

C_LINKAGE_END
