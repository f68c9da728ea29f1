// SPDX-License-Identifier: MIT
// The lens of a photograph: how it maps rays to pixels, how to undistort the photograph to that of an ideal pinhole, and
// the names that COLMAP and transforms.json have for lenses.
#pragma once

#include "files/fault.h"
#include "images/image.h"
#include "distwar_gs.h"
#include <stddef.h>

C_LINKAGE_BEGIN

// A ray (x, y, 1) maps to the pixel (fx x' + cx, fy y' + cy), where with r^2 = x^2 + y^2 (Brown's model, as
// COLMAP's OPENCV, which has no k3 and k4, and as nerfstudio's)
//     x' = x (1 + k1 r^2 + k2 r^4 + k3 r^6 + k4 r^8) + 2 p1 x y + p2 (r^2 + 2 x^2)
//     y' = y (1 + k1 r^2 + k2 r^4 + k3 r^6 + k4 r^8) + 2 p2 x y + p1 (r^2 + 2 y^2)
// A fisheye (Kannala and Brandt, as COLMAP's OPENCV_FISHEYE) maps a ray at the angle a off the axis to the
// distance a (1 + k1 a^2 + k2 a^4 + k3 a^6 + k4 a^8) from (0, 0), in the direction of (x, y).
typedef struct lens {
    int32_t width, height;   // of the photograph, pixels; 0: the picture's size
    double fx, fy;           // pixels; 0: computed from the angle
    double angle_x, angle_y; // radians, fields of view; used where fx or fy is 0; angle_y 0: fy = fx
    double cx, cy;           // pixels; NaN: the middle
    double k1, k2, p1, p2, k3, k4;
    bool fisheye;
} lens;

// The numbers of a lens by the names that files use.
typedef struct lens_parameter {
    const char *name, *key; // in lens_model.parameters: "fx"; in transforms.json: "fl_x"
    size_t offset;          // in a lens
    bool distortion;
} lens_parameter;

enum { LENS_PARAMETERS = 10 };
extern const lens_parameter lens_parameters[LENS_PARAMETERS];

// In the lens, for its owner to change.
double *lens_value(const lens *optics, const lens_parameter *parameter);

// The lenses by COLMAP's numbers (4.2) and names, which transforms.json has too.
typedef struct lens_model {
    const char *name;
    const char *parameters; // of lens_parameters, in COLMAP's order; f: fx and fy; NULL: cannot be read
    bool fisheye;
    int count; // of parameters
} lens_model;

enum { LENS_MODELS = 18 };
extern const lens_model lens_models[LENS_MODELS];

const lens_model *lens_model_find(const char *name); // NULL: there is no such name
// Sets the parameters of a model that can be read; values: in COLMAP's order.
void lens_model_apply(const lens_model *model, const double *values, lens *optics);
// The names of the models that can be read, separated by commas.
void lens_model_list(char text[160]);

// Whether a reader may accept the lens. If not, the text says what is wrong ("images of 0 x 6 pixels;
// ..."); callers put the file and a name before it. A fisheye needs a focal length, and a distortion that
// grows with the angle up to the picture's corners or to 85 degrees.
bool lens_check(const lens *optics, fault *why);
// Replaces all open values by what follows from the picture's size. Each side: 1..GS_MAX_SIZE.
void lens_complete(lens *optics, int width, int height);
// Scales a complete lens to a picture of another size. False unless one factor explains both sides to less than a pixel.
bool lens_resize(lens *optics, int width, int height);
// The camera of a complete lens, without a pose and a near plane: a fisheye, which gs_camera has too, if the lens is one
// and `undistort` is false; else the ideal pinhole.
gs_camera lens_camera(const lens *optics, bool undistort);
bool lens_is_ideal(const lens *optics); // a pinhole without distortion

// Undistorts a picture (3 channels, of the lens's size): *out is what the ideal pinhole of the same size, focal lengths
// and principal point would have taken. Each pixel is sampled bilinearly where the lens maps it. Where that is outside
// the photograph, the border is repeated: black would be a strong edge that is not in the world, and training would
// reconstruct it. For the same reason the ring where the lens begins to fold the picture over (where r times its radial
// factor stops growing) is repeated beyond it. Of a fisheye the middle keeps its resolution, and what is far off the
// axis is lost: at the border of the pinhole's picture, half a width w from the middle, the angle is atan(w / fx)
// instead of about w / fx. Cost: about 50 ns per pixel.
bool lens_undistort(const lens *optics, const image *picture, image *out, fault *why);
// Undistorts a map of the lens's size. A value that is made of a NaN becomes NaN.
bool lens_undistort_plane(const lens *optics, const plane *map, plane *out, fault *why);

C_LINKAGE_END
