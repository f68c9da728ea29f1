// SPDX-License-Identifier: MIT
// The reference: every stage of examples/gaussians on the CPU, in double precision and in textbook form, with
// covariances and their inverses where the kernels use offsets times conic_sqrt, and gradients by the covariance
// where they use moments. Kernels are compared with it; finite differences check it.
//
// Discrete choices (culled, clamped, counted, cut, stopped, signs) are decisions. A stage makes its own, or
// holds decisions that the caller passes in: a kernel's, so that a comparison sees rounding only, or those of
// a base point, so that finite differences see a smooth function. A margin says how close a decision was.
//
// Pointers are host pointers, outputs are overwritten, formulas are in docs/developers/math.md. _destroy frees what the
// matching _create or reference_bin allocates. Out of memory ends the program.
#ifndef REFERENCE_H
#define REFERENCE_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- the scene ----

// As gs_gaussians. All values are in one block that begins at `mean`, in the order of the members. color and
// covariance are NULL unless reference_gaussians_extend added them.
typedef struct reference_gaussians {
    int64_t count;
    int32_t sh_degree;     // 0..3
    double *mean;          // [count][3]
    double *log_scale;     // [count][3]
    double *quaternion;    // [count][4]
    double *opacity_logit; // [count]
    double *sh;            // [count][(sh_degree + 1)^2][3]
    double *color;         // [count][3]
    double *covariance;    // [count][6]
    double scale_modifier; // 0 counts as 1
    int32_t antialias;
} reference_gaussians;

// As gs_camera.
typedef struct reference_camera {
    int32_t width, height;
    double fx, fy, cx, cy;
    double rotation[9];
    double translation[3];
    double near_plane;
    int32_t model;
    double distortion[4];
} reference_camera;

reference_gaussians reference_gaussians_create(int64_t count, int sh_degree); // zeros
// Adds colours, covariances or both, zeros. Moves the block.
void reference_gaussians_extend(reference_gaussians *gaussians, int with_color, int with_covariance);
void reference_gaussians_destroy(reference_gaussians *gaussians);
int64_t reference_gaussians_values(const reference_gaussians *gaussians); // in the block
// From host floats, and to host floats of the same count and degree (rounded). An array that is NULL among
// the floats becomes zeros here (color and covariance: NULL), and is not written there.
reference_gaussians reference_gaussians_from_floats(const gs_gaussians *gaussians);
void reference_gaussians_to_floats(const reference_gaussians *gaussians, const gs_gaussians *floats);
reference_camera reference_camera_from_floats(const gs_camera *camera);
gs_camera reference_camera_to_floats(const reference_camera *camera);

// ---- project ----

typedef struct reference_splat_decisions {
    signed char visible;           // 0: culled
    signed char ratio_clamped[2];  // x/z and y/z: -1 at the lower bound, 1 at the upper, 0 free; fisheye: 0
    signed char color_positive[3]; // 0: the channel was cut at zero; always 1 for a given colour
} reference_splat_decisions;

typedef struct reference_splat {
    double mean[2];       // pixels
    double covariance[3]; // a, b, c, with the 0.3 on the diagonal
    double opacity;
    double color[3];
    double depth; // camera z, fisheye: distance; also if culled
    reference_splat_decisions decisions;
    // How close each decision was:
    double near_margin;    // |depth / near - 1|; fisheye: also |angle / limit - 1|
    double opacity_margin; // |255 opacity - 1|, the opacity as it is with antialias
    double ratio_margin;   // nearest bound of x/z or y/z, in widths of the free interval; fisheye: infinite
    double color_margin;   // smallest |0.5 + SH| of the three channels; infinite for a given colour
} reference_splat;

// Gradients by a splat's values. covariance[1]: by the one number b that stands in two places of the matrix.
typedef struct reference_splat_gradient {
    double mean[2];
    double covariance[3];
    double log_opacity;
    double color[3];
    double depth;
    double abs_mean[2]; // the sum over pixels of the absolute value of each pixel's part of `mean`
} reference_splat_gradient;

// Gaussian i as the camera sees it. held: NULL, or the decisions to hold. A culled splat's values may be
// anything, NaN included; no other stage reads them.
void reference_project(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                       const reference_camera *camera, const reference_splat_decisions *held,
                       reference_splat *splat);

// Adjoint: writes the gradients of Gaussian i, zeros if it is culled.
void reference_project_backward(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                                const reference_camera *camera, const reference_splat_decisions *decisions,
                                const reference_splat_gradient *splat_gradient,
                                const reference_gaussians *gradients);

// As gs_camera_gradient.
typedef struct reference_camera_gradient {
    double matrix[12], se3_grad[6], intrinsics[4];
} reference_camera_gradient;

// Adds to *sum what Gaussian i contributes to the gradient by the camera, nothing if it is culled.
void reference_project_by_camera(const reference_gaussians *gaussians, int64_t i, int sh_degree_used,
                                 const reference_camera *camera, const reference_splat_decisions *decisions,
                                 const reference_splat_gradient *splat_gradient,
                                 reference_camera_gradient *sum);

// The upper triangle of Gaussian i's covariance in the world's frame: xx, xy, xz, yy, yz, zz.
void reference_covariance(const reference_gaussians *gaussians, int64_t i, double upper[6]);

// The basis Y_k of docs/developers/math.md. direction: a unit vector.
void reference_sh_basis(const double direction[3], double basis[16]);

// ---- bin ----

// The largest opacity exp(-q) (not cut at 0.99) that a splat reaches at a pixel centre of the tile inside the
// image; 0 if it is culled. The tile's list must hold the splat if this is >= 1/255.
double reference_reach(const reference_splat *splat, int width, int height, int tile_x, int tile_y);

// The same at any place of the rectangle of these pixel centres, between them too: what gs_bin decides by.
double reference_area_reach(const reference_splat *splat, int width, int height, int tile_x, int tile_y);

// The exact lists, each in the order (depth, index), by brute force. Cost: pixels times splats.
gs_tile_ranges reference_bin(const reference_splat *splats, int64_t count, int width, int height);
void reference_lists_destroy(gs_tile_ranges *ranges);

// ---- render ----

enum { REFERENCE_TILE_PIXELS = GS_TILE_SIZE * GS_TILE_SIZE };

// The decision on one list entry at one pixel. A tape has one for each entry of splat_index and each pixel of
// its tile, row by row, [pairs][REFERENCE_TILE_PIXELS]; 0 for pixels outside the image.
enum {
    REFERENCE_SKIPPED = 0, // alpha < 1/255, or the pixel had stopped
    REFERENCE_COUNTED = 1,
    REFERENCE_CUT = 2,    // counted, alpha cut at 0.99
    REFERENCE_STOPPED = 3 // the pixel stopped before this entry
};

typedef struct reference_image {
    double *color;         // [channels][height][width]
    double *transmittance; // [height][width]
    uint32_t *n_contrib;   // [height][width], as in gs_image
    double *margin; // [height][width]: of the closest decision among |255 alpha - 1|, |alpha / 0.99 - 1| and
                    // |T (1 - alpha) / 1e-4 - 1|; infinite where there was none
    double *depth, *median_depth; // [height][width], as in gs_image
    double *median_margin;        // [height][width]: the smallest |T / 0.5 - 1| behind a splat
} reference_image;

reference_image reference_image_create(int width, int height); // of 3 channels
reference_image reference_image_of_channels(int channels, int width, int height);
void reference_image_destroy(reference_image *image);

// What is blended. Zeros from `channels` on: the three channels of the splats.
typedef struct reference_blend {
    const reference_splat *splats;
    int64_t count;
    const gs_tile_ranges *ranges;
    int width, height;
    const double *background; // [channels]
    const uint8_t *held;      // NULL, or the tape to replay
    int channels;             // 0 counts as 3
    const double *color;      // [count][channels]; NULL: the splats'
    int normalize_depth, inverse_depth;
} reference_blend;

// taken: NULL, or the tape to write.
void reference_render(const reference_blend *blend, uint8_t *taken, const reference_image *image);

typedef struct reference_image_gradient {
    const double *color; // [channels][height][width]
    const double *alpha; // [height][width], or NULL for 0
    const double *depth; // [height][width], or NULL for 0
} reference_image_gradient;

// Adjoint. gradients: [count]; color is 0 if the blend has colours of its own. color_gradients: by those,
// [count][channels], or NULL.
void reference_render_backward(const reference_blend *blend, const reference_image_gradient *image_gradient,
                               reference_splat_gradient *gradients, double *color_gradients);

// The moments that gs_render_backward should give a visible splat with this gradient, in the order of
// gs_splat_grad.
void reference_splat_grad(const reference_splat *splat, const reference_splat_gradient *gradient,
                          double splat_grad[GS_SPLAT_GRAD_STRIDE]);

// ---- loss ----

typedef struct reference_loss_value {
    double loss;
    double l1;   // mean |c - c*|
    double ssim; // mean
} reference_loss_value;

// Of the pixels whose mask, [height][width] or NULL, is not 0; of none a loss of 0 and an SSIM of 1.
// color: [3][height][width]; target: [height][width][3]. held, taken: NULL, or the sign of c - c* of every
// value, [3][height][width]. gradient: [3][height][width] or NULL.
void reference_loss(const double *color, const uint8_t *target, const uint8_t *mask, int width, int height,
                    const signed char *held, signed char *taken, reference_loss_value *value,
                    double *gradient);

typedef struct reference_ssim_shape {
    int width, height;
    int64_t planes;
    int valid; // not 0: the pixels whose window lies inside the image
} reference_ssim_shape;

// The mean of SSIM over planes [planes][height][width], and unless NULL its gradient by the first.
double reference_ssim(const double *first, const double *second, const reference_ssim_shape *shape,
                      double *gradient);

// The mean of |depth - target| over the pixels whose target is not NaN and whose mask is not 0; 0 if there is
// none. held, taken, gradient: as above, [height][width]; the gradient is not weighted.
double reference_depth_loss(const double *depth, const float *target, const uint8_t *mask, int64_t pixels,
                            const signed char *held, signed char *taken, double *gradient);

// ---- all of it ----

typedef struct reference_decisions {
    reference_splat_decisions *splats; // [count]
    gs_tile_ranges ranges;
    uint8_t *blend;    // the tape, [pairs][REFERENCE_TILE_PIXELS]
    signed char *sign; // [3][height][width]
} reference_decisions;

void reference_decisions_destroy(reference_decisions *decisions);

typedef struct reference_problem {
    const reference_gaussians *gaussians;
    int sh_degree_used;
    const reference_camera *camera;
    double background[3];
    const uint8_t *target;      // [height][width][3]
    const double *alpha_weight; // [height][width], or NULL for 0
    const double *depth_weight; // the same
    int normalize_depth, inverse_depth;
} reference_problem;

typedef struct reference_outputs {
    reference_loss_value value;
    double objective; // loss + sum of alpha_weight times alpha and depth_weight times depth
    // The caller's memory, or NULL pointers where not wanted:
    reference_image image;
    reference_gaussians gradients;
    double *mean2d_gradient;     // [count][2], in units of half the image's width and height
    double *abs_mean2d_gradient; // the same of abs_mean
    reference_camera_gradient *camera_gradient;
} reference_outputs;

// project, bin, render, loss, and their adjoints. held: NULL, or the decisions to hold. taken: NULL, or where
// to store the decisions made, allocated here. Not both.
void reference_pipeline(const reference_problem *problem, const reference_decisions *held,
                        reference_decisions *taken, reference_outputs *outputs);

// ---- random scenes ----

// The kinds of Gaussians in a random scene. Even indices are ordinary; odd indices cycle through the other
// kinds, so REFERENCE_KIND_CYCLE consecutive Gaussians have every kind.
typedef enum reference_kind {
    REFERENCE_ORDINARY,
    REFERENCE_OPAQUE,          // some pixels are cut at 0.99; several stop a pixel
    REFERENCE_CLAMPED,         // x/z or y/z out of bounds, yet large enough to be seen
    REFERENCE_NEEDLE,          // two scales extremely small
    REFERENCE_FLAT,            // one scale extremely small
    REFERENCE_HUGE,            // larger than the image
    REFERENCE_TINY,            // far smaller than a pixel
    REFERENCE_CLOSE,           // just behind the near plane
    REFERENCE_FAINT,           // opacity just above 1/255
    REFERENCE_TRANSPARENT,     // opacity below 1/255: culled
    REFERENCE_BEHIND,          // behind the camera, or before the near plane: culled
    REFERENCE_OFF_SCREEN,      // visible, but no pixel sees it
    REFERENCE_ZERO_QUATERNION, // culled
    REFERENCE_KINDS
} reference_kind;

enum { REFERENCE_KIND_CYCLE = 32 };

reference_kind reference_kind_of(int64_t i);

// All values are exactly representable in float, so kernels and reference get the same input.
typedef struct reference_scene {
    reference_gaussians gaussians;
    reference_camera camera; // any pose, principal point off centre, fx != fy
    double background[3];    // not 0
    uint8_t *target;         // [height][width][3]
} reference_scene;

// The same scene for the same arguments on every machine. width, height >= 1.
reference_scene reference_scene_create(uint64_t seed, int64_t count, int sh_degree, int width, int height);
// The same by a camera of this model. A fisheye sees some 85 degrees off its axis at the left and the right and more in the
// corners.
reference_scene reference_scene_seen_by(int model, uint64_t seed, int64_t count, int sh_degree, int width,
                                        int height);
// Gives the scene's Gaussians colours (0.5 + SH as the camera sees it, not cut at 0), covariances (of scale,
// modifier and quaternion) or both, rounded to float.
void reference_scene_precompute(reference_scene *scene, int color, int covariance);
void reference_scene_destroy(reference_scene *scene);

#ifdef __cplusplus
}
#endif
#endif
