// SPDX-License-Identifier: MIT
// How a ray becomes a pixel of a photograph, and the photograph that an ideal pinhole would have made.
#ifndef GAUSSIANS_LENS_H
#define GAUSSIANS_LENS_H

#include "fault.h"
#include "image.h"
#include "gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// A ray (x, y, 1) meets the pixel (fx x' + cx, fy y' + cy), where with r^2 = x^2 + y^2 (Brown's model, as
// COLMAP's OPENCV)
//     x' = x (1 + k1 r^2 + k2 r^4) + 2 p1 x y + p2 (r^2 + 2 x^2)
//     y' = y (1 + k1 r^2 + k2 r^4) + 2 p2 x y + p1 (r^2 + 2 y^2)
typedef struct lens {
    int32_t width, height;   // of the photograph, pixels; 0: as the picture turns out to be
    double fx, fy;           // pixels; 0: from the angle
    double angle_x, angle_y; // radians, fields of view; used where fx or fy is 0; angle_y 0: fy = fx
    double cx, cy;           // pixels; NaN: the middle
    double k1, k2, p1, p2;
} lens;

// Whether a loader may accept it. If not, the text says what it has ("images of 0 x 6 pixels; ..."), to be
// put after its file and name.
bool lens_check(const lens *optics, fault *why);
// Puts in place of everything left open what follows from the picture's size, each side 1..GS_MAX_SIZE.
void lens_complete(lens *optics, int width, int height);
// The ideal pinhole, without a pose and with near_plane 0.2, of a complete lens.
gs_camera lens_pinhole(const lens *optics);
bool lens_is_ideal(const lens *optics); // no distortion

// The picture (3 channels, of the lens's size) as the ideal pinhole of the same size, focal lengths and
// principal point would have taken it: each pixel is sampled, bilinearly, where the lens put it. Where that
// is outside the photograph its border is repeated: black would be a strong edge that is not in the world,
// and a trainer would build it. For the same reason the ring where the lens begins to fold the picture over
// (where r (1 + k1 r^2 + k2 r^4) stops growing) is repeated beyond. Cost: about 50 ns a pixel.
bool lens_undistort(const lens *optics, const image *picture, image *out, fault *why);

#ifdef __cplusplus
}
#endif
#endif
