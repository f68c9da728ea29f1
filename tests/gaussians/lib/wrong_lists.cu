// SPDX-License-Identifier: MIT
// A camera model that the list names and nothing else does not compile: on the host, in kernels.
#include "distwar_gs.h"

#if WRONG_LIST == 1
#undef GS_CAMERA_LIST
#define GS_CAMERA_LIST(X) X(pinhole, PINHOLE) X(fisheye, FISHEYE) X(ortho, ORTHO) X(nothing, NOTHING)
#endif
#include "camera.cuh"
#include "lenses.h"

inline float of_last_model(const gs::point_of<GS_CAMERA_MODELS - (WRONG_LIST == 2 ? 0 : 1), gs::divisor> &p) {
    return p.at[0];
}
