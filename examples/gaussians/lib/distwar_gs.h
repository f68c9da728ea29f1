// SPDX-License-Identifier: MIT
//
// libdistwar_gs: 3D Gaussian splatting, forward and backward, one call per stage. C11 and C++11, no CUDA header.
//
// A training step:
//   gs_forward -> gs_loss -> gs_backward -> gs_adam
// The same, stage by stage:
//   gs_project -> gs_bin -> gs_render -> gs_loss -> gs_render_backward -> gs_project_backward -> gs_adam
// Every stage takes a gs_view: it reads the members that earlier stages wrote and writes its own. Formulas:
// docs/developers/math.md. Two programs that use libdistwar_gs, in C and in Python: docs/rasterizer.md. From top to bottom:
// context, scene, cameras, view, forward, backward, loss, Adam, density control, extras.
//
// Rules for every call:
// - Pointers inside structs and pointers to arrays are device pointers (backend "simt": host pointers), owned
//   by the caller and aligned to 16 bytes unless stated otherwise. Structs are host memory; calls copy them.
// - A call queues its work on its context's stream and returns. Three calls wait for it once, to read a number:
//   gs_settle, gs_forward, which calls it, and gs_density_plan_step. The others can be captured into a CUDA graph.
// - Memory: the caller owns arrays, a context what calls need besides, and a view (gs_view_memory) what it needs from gs_bin
//   on, which a context allocates. Both grow when a call needs more than any before, which a capture cannot: call
//   gs_reserve before it, or make a pass that is not captured.
// - Outputs are overwritten, unless the call says that it adds or works in place.
// - Errors: the result is GS_OK or the kind of failure; gs_last_error() returns the text. After a failure outputs are
//   undefined, unless the call says otherwise.
// - Threads: calls are thread-safe if they share no outputs and no contexts.
// - ABI: before 1.0 structs may change, and the soname has the minor version. Begin each struct as {0} and name its
//   members: new ones are then off.
#ifndef GS_H
#define GS_H

#include <distwar/strategy.h>
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *gs_stream; // the same type as cudaStream_t

typedef struct gs_context gs_context;

typedef enum gs_status {
    GS_OK = 0,
    GS_INVALID_ARGUMENT = 1,  // nothing was queued
    GS_ISECTS_DO_NOT_FIT = 2, // the lists had no room; there is now: queue the pass again
    GS_DEVICE_ERROR = 3       // the CUDA runtime or a kernel failed
} gs_status;

// Text of this thread's last failure, "function: reason", until its next failing call; "" before the first failure.
const char *gs_last_error(void);
const char *gs_backend(void); // "cuda" or "simt"

// ---- context: the stream on which calls queue their work, and the memory that they need beside their arguments ----

// Where a context takes memory from. Both may be called by any call that takes the context.
typedef struct gs_allocator {
    // Aligned to 256 bytes; NULL: there is none.
    void *(*allocate)(void *user, size_t bytes, gs_stream stream);
    void (*release)(void *user, void *memory, gs_stream stream); // work that is queued may still use it
    void *user;
} gs_allocator;

// allocator: NULL: the device's stream-ordered pool, cudaMalloc where there is none, malloc under simt. One thread at a
// time may use a context. A call whose context is NULL uses one of the calling thread's own, on stream NULL.
gs_status gs_context_create(const gs_allocator *allocator, gs_stream stream, gs_context **context);
void gs_context_destroy(gs_context *context); // NULL is harmless
void gs_context_trim(gs_context *context);    // gives back all memory, that of a plan too: calls take it anew

// The version of libdistwar_gs, "major.minor.patch"; that of the headers of distwar is another (distwar/version.h). CMake
// and Python take it from here; of libdistwar_train, libdistwar_index and dsplat it is the same.
#define GS_VERSION_MAJOR 0
#define GS_VERSION_MINOR 4
#define GS_VERSION_PATCH 0
const char *gs_version(void);

// Lists of names, for other languages: by distwar_strategy, by gs_camera.model.
typedef enum gs_names { GS_NAMES_STRATEGIES, GS_NAMES_CAMERAS } gs_names;
// Name `number` = 0, 1, 2, ... of a list; NULL beyond its end.
const char *gs_name(gs_names list, int32_t number);

enum {
    GS_TILE_SIZE = 16,                         // pixels, width and height of a tile
    GS_MAX_SIZE = 16384,                       // pixels, largest width and height of an image
    GS_CHANNELS = 3,                           // colour channels of SH, splats and photographs
    GS_MAX_CHANNELS = 1024,                    // of given colours, and of images of them
    GS_EXPOSURE_VALUES = GS_CHANNELS,          // that correct an image's colours
    GS_EXPOSURE_SUMS = 2 * GS_EXPOSURE_VALUES, // gs_loss_image.gain_sums
    GS_MAX_SH_DEGREE = 3,
    GS_MAX_VIEWS = 32 // cameras of a gs_views
};

// The form of scales and opacities.
typedef enum gs_form {
    GS_RAW,      // logarithms of scales and logits of opacities, as they are trained
    GS_ACTIVATED // scales and opacities, in log_scale and opacity_logit as they are; gradients are by these
} gs_form;

// The parameters of `count` Gaussians. Gradients and Adam's moments have the same shape, and use only count, sh_degree and
// arrays. An array that no stage reads may be NULL; that of the gradients may then be NULL too and is not written.
typedef struct gs_gaussians {
    int64_t count;        // 0..2^31 - 2
    int32_t sh_degree;    // 0..3, of `sh`
    float *mean;          // [count][3], world
    float *log_scale;     // [count][3]
    float *quaternion;    // [count][4]: w, x, y, z; need not be normalised
    float *opacity_logit; // [count]
    float *sh;  // [count][(sh_degree + 1)^2][GS_CHANNELS]; if sh0 is given, without a Gaussian's first ones
    float *sh0; // [count][GS_CHANNELS]: these; or NULL. Taken by the calls that take GS_ACTIVATED
    // Replace other arrays unless NULL. Calls that store or step parameters (gs_adam) ignore them.
    float *color;         // [count][channels]; replaces sh; negative values stay
    float *covariance;    // [count][6], world: xx, xy, xz, yy, yz, zz; replaces log_scale and quaternion
    float scale_modifier; // factor of exp(log_scale), not of covariance; 0 counts as 1
    // Not 0: antialiased. The opacity of a splat is reduced by as much as eps2d enlarges its area
    // (docs/developers/math.md, section 2). Render a scene as it was trained.
    int32_t antialias;
    int32_t channels; // of color: 1..GS_MAX_CHANNELS; 0: GS_CHANNELS, as SH have. A view has its Gaussians'
    int32_t form; // a gs_form; GS_ACTIVATED is taken by gs_project and gs_project_backward, refused by others
    float eps2d;  // pixels^2, added to both variances of a splat; 0 counts as 0.3
} gs_gaussians;

// The camera models, X(name, NAME) each: gs_camera.model is GS_NAME. A point (X, Y, Z) of camera space appears at
// x = fx u + cx, y = fy v + cy.
//   pinhole  (u, v) = (X, Y) / Z
//   fisheye  Kannala and Brandt 2006: at an angle a off the axis |(u, v)| = a (1 + k1 a^2 + k2 a^4 + k3 a^6 + k4 a^8),
//            as in COLMAP's and OpenCV's fisheye models. Depth is the distance. A Gaussian is also culled if a is
//            beyond 160 degrees or beyond the first angle where the formula no longer grows.
//   ortho    (u, v) = (X, Y): fx and fy are pixels per world unit. SH are seen from the camera's centre, as always.
#define GS_CAMERA_LIST(X) X(pinhole, PINHOLE) X(fisheye, FISHEYE) X(ortho, ORTHO)
#define GS_CAMERA_VALUE(name, NAME) GS_##NAME,
enum { GS_CAMERA_LIST(GS_CAMERA_VALUE) GS_CAMERA_MODELS };
#undef GS_CAMERA_VALUE

typedef struct gs_camera {
    int32_t width, height; // 1..GS_MAX_SIZE
    float fx, fy, cx, cy;  // pixels; fx, fy > 0; the centre of pixel (i, j) is (i + 0.5, j + 0.5)
    float rotation[9];     // world to camera, row-major; +x right, +y down, +z forward
    float translation[3];  // x' = rotation x + translation
    float near_plane;      // > 0; a Gaussian with z <= near_plane (fisheye: distance) is culled
    int32_t model;         // GS_PINHOLE, ...
    float distortion[4];   // of GS_FISHEYE: k1, k2, k3, k4
    float far_plane;       // a Gaussian with a larger z (fisheye: distance) is culled; 0: none is
} gs_camera;

// The footprint of a Gaussian in one view. 48 bytes, loaded as three 16-byte words.
typedef struct gs_splat {
    alignas(16) float mean[2]; // pixels; d = pixel - mean
    float conic_sqrt[3];       // w: alpha = 2^(log2_opacity - e0^2 - e1^2), e = (w0 dx + w1 dy, w2 dy)
    float log2_opacity;
    float color[GS_CHANNELS]; // >= 0 from sh; 0 if the view has another number of channels
    float depth;              // camera z (fisheye: distance), > 0; 0: culled
    float reserved[2];
} gs_splat;

// What gs_render_backward sums over the pixels of a splat; e as in gs_splat.conic_sqrt (math.md, section 3).
typedef struct gs_splat_grad {
    alignas(16) float color[GS_CHANNELS]; // d loss / d color
    float h;                              // d loss / d log alpha
    float h_e0, h_e1;                     // h e
    float h_e0e0, h_e0e1, h_e1e1;         // h e e^T
    float depth;                          // d loss / d depth
    // |h e0| and |h n e|, n = (w1, w2) / |(w1, w2)|: times 2 ln 2 w0 and 2 ln 2 |(w1, w2)| the sums of |d loss / d mean|
    float abs_x, abs_y;
} gs_splat_grad;

enum {
    GS_SPLAT_GRAD_SUMS = GS_CHANNELS + 6, // floats of a gs_splat_grad that are always summed
    GS_SPLAT_GRAD_STRIDE = sizeof(gs_splat_grad) / sizeof(float) // floats of a gs_splat_grad
};

// The splats of each tile, ordered by (depth, index). gs_bin writes it; its arrays lie in gs_view.memory.
typedef struct gs_tile_ranges {
    int32_t tiles_x, tiles_y;
    int64_t isects;      // entries of splat_index; before gs_settle the room for them
    int64_t *tile_begin; // [tiles_y * tiles_x + 1]: tile t has entries tile_begin[t] .. tile_begin[t + 1] - 1
    uint32_t *splat_index; // [isects]
    // How the blend divides the work; other valid values give the same image in another time, and round gradients otherwise.
    int32_t pixels_per_thread; // 1, 2 or 4
    int32_t split_tiles;  // the first split_tiles of tile_order, with long lists, get more warps than others
    uint32_t *tile_order; // [tiles_y * tiles_x]: each tile once, long lists first; NULL: 0, 1, 2, ...
    // Number of gs_view.views; 0 counts as 1. Tile t of view v has the number v tiles_y tiles_x + t, its splat i v count + i.
    int32_t views;
    int64_t call; // number of the context's gs_bin that wrote the lists; 0: it was captured into a graph
    // Device: the entries that the lists need. NULL: gs_settle has seen that they fit.
    const int64_t *device_isects;
} gs_tile_ranges;

// Where a view's lists lie, and its arrays that the caller left NULL. gs_bin takes it from a context and lets it grow. It
// lasts until gs_view_free, longer than the context; its content until the view's next gs_bin or gs_forward. Starts as {0}.
typedef struct gs_view_memory {
    void *memory;
    size_t bytes;
    // Room for entries of the lists, and of gs_bin's buckets: 0..2^40. gs_settle lets them grow before there is none left; a
    // caller who can estimate them may set them at the start.
    int64_t isect_capacity;  // 0: the first pass only counts
    int64_t bucket_capacity; // with too few it is slower; 0: by isect_capacity
} gs_view_memory;

typedef struct gs_image {
    float *color;         // [channels][height][width]
    float *transmittance; // [height][width]; 1 - alpha
    uint32_t *n_contrib;  // [height][width]; entries of the tile's list up to the last that contributes
    // [height][width] each; NULL: not computed.
    float *depth;        // sum of weight times gs_splat.depth, see gs_view; 0 where alpha is 0
    float *median_depth; // depth of the splat behind which transmittance is 1/2 or less; 0: there is none
    float *alpha;        // 1 - transmittance
} gs_image;

// Several cameras that every stage serves in one launch, for images too small to fill a GPU. All arrays of the view and of
// its gradient then begin with a dimension of `count` cameras: splats [cameras][count], image.color
// [cameras][GS_CHANNELS][height][width], and likewise splat_grad, mean2d and the rest. Only gradient.gaussians does not: it
// is the sum over the cameras. Of gs_view.camera only width and height count. Several cameras take GS_CHANNELS channels.
typedef struct gs_views {
    int32_t count;            // 0..GS_MAX_VIEWS; 0: the one camera is gs_view.camera
    const gs_camera *cameras; // host, [count]; of one model, their size is that of gs_view.camera
} gs_views;

// Rows of tiles, begin .. end - 1.
typedef struct gs_rows {
    int32_t begin, end;
} gs_rows;

// One camera's view of a scene, from the parameters to the image: what every stage takes.
typedef struct gs_view {
    // Scene:
    gs_gaussians gaussians;
    int32_t sh_degree_used;          // stages use the degree min(sh_degree_used, gaussians.sh_degree)
    float background[GS_CHANNELS];   // of GS_CHANNELS channels; others: channel_background
    const float *channel_background; // host, [channels], unless there are GS_CHANNELS; NULL: zeros
    // Camera:
    gs_camera camera;
    // Taken by gs_forward, gs_backward, their stages and gs_reserve. For other calls make a copy of the view for each
    // camera v: with that camera, splats + v gaussians.count and views {0}. gaussians.count times cameras: up to 2^31 - 2.
    gs_views views;
    gs_rows rows;            // gs_bin leaves the lists of other rows empty: background. {0, 0}: all rows
    int32_t normalize_depth; // not 0: image.depth is divided by alpha
    int32_t inverse_depth;   // not 0: it is of 1 / gs_splat.depth, as monocular estimates; 0 where nothing is
    gs_view_memory memory;   // belongs to this view, not to copies of it
    gs_splat *splats;        // [count], written by gs_project; NULL: gs_forward places it in memory
    gs_image image; // written by gs_render; gs_bin places in memory what of its first three arrays is NULL
    gs_tile_ranges ranges; // written by gs_bin
    int64_t isects_needed; // written by gs_settle: entries that the lists have or would need
} gs_view;

// The gradient of a loss by a camera, summed over the Gaussians. Written on the device.
typedef struct gs_camera_gradient {
    float matrix[12]; // by the rotation and, as the last column, the translation: 3x4, row-major
    // By a motion x' -> exp([w]) x' + v of camera space, to first order: rotation becomes exp([w]) rotation
    // and translation exp([w]) translation + v. First w, radians about the camera's axes; then v, along them.
    float se3_grad[6];
    float intrinsics[4]; // by fx, fy, cx, cy
    float reserved[2];   // 0
} gs_camera_gradient;

typedef struct gs_adam_rates {
    float mean, log_scale, quaternion, opacity_logit, sh0, shN; // each finite, >= 0
    // SH coefficients of a Gaussian that any view has read so far, (degree + 1)^2; 0: all. Saves time: the others, whose
    // gradients and moments must be 0, would not change.
    int32_t sh_coefficients;
} gs_adam_rates;

// The arguments of gs_adam, without the gradients.
typedef struct gs_adam_step {
    const gs_gaussians *gaussians, *first_moment, *second_moment;
    gs_adam_rates rates;
    int64_t step; // 1, 2, ...
    float *
        density; // [count][2], or NULL: for gs_refill density[i][0] gets the sum of |abs_mean2d| over the views
} gs_adam_step;

// The gradient of a loss, from the image to the parameters: inputs and outputs of the backward stages.
typedef struct gs_gradient {
    // Read by gs_render_backward:
    const float *color; // d loss / d image.color, [channels][height][width]
    const float *alpha; // d loss / d (1 - image.transmittance), [height][width]; NULL: zeros
    // Written by gs_render_backward, read by gs_project_backward:
    gs_splat_grad *splat_grad; // [count]
    // Written by gs_project_backward:
    gs_gaussians gaussians; // of the shape of view.gaussians
    float *mean2d;          // [count][2]: d loss / d mean in units of half the width and height; or NULL
    // Read by gs_render_backward:
    const float *depth; // d loss / d image.depth, [height][width]; NULL: zeros
    // Written by gs_project_backward; NULL: not computed.
    float *abs_mean2d;          // [count][2]: as mean2d, but sums of the absolute values of each pixel
    gs_camera_gradient *camera; // by view.camera; of one camera only
    // Read by gs_project_backward: [count][2], d loss / d gs_splat.mean, of a loss that depends on the means directly too.
    // Replaces what follows from splat_grad (gs_mean2d_gradient). NULL: that stays.
    const float *pixel_mean2d;
    // Read by gs_render_backward with DISTWAR_FIXED: bounds of the whole image, where the view has only some of its
    // splats or of its rows. NULL: of the view.
    const struct gs_largest_values *largest; // device
    // Read by gs_render_backward with DISTWAR_BLOCK: a thread's part of each sum is clamped to [-block_limit, block_limit]
    // before the tile adds it up, against outliers. With ranges.pixels_per_thread 1 it is a pixel's. 0: not clamped.
    float block_limit;
    // Read by gs_project_backward. Not NULL: makes the step of gs_adam in place of writing gradients; `gaussians` is neither
    // read nor written. The result is that of the two calls, up to rounding. The arrays of adam's gaussians may be those
    // of view.gaussians. Those of sh are aligned to 16 bytes. camera must be NULL. Cost: one launch.
    const gs_adam_step *adam;
} gs_gradient;

// ---- one call each way ----

// Calls gs_project, gs_bin, gs_render and gs_settle, again with more room until the lists fit. Queues all before it waits.
gs_status gs_forward(gs_view *view, gs_context *context);

gs_status gs_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                      gs_context *context);

// ---- stage by stage ----

// Writes view->splats.
// Reads:   gaussians, sh_degree_used, camera.
// Cost:    one thread per Gaussian; reads 44 + 12 (degree + 1)^2 bytes, writes 48. A given covariance adds some 60
//          operations in double precision; it need not be positive definite if its projection is.
// Given colours of GS_CHANNELS channels that are not finite cull a Gaussian; others make its pixels not finite.
gs_status gs_project(const gs_view *view, gs_context *context);

// radii[count]: ceil(3 sigma) in pixels, sigma^2 the larger eigenvalue of the splat's 2D covariance, at most 2^30. 0: culled,
// or the square of side 2 radius around its mean is outside the image. (Such a splat may still reach a pixel: gs_bin
// decides by alpha, not by radius.) Reads: splats, gaussians.count, the camera's size.
gs_status gs_radii(const gs_view *view, int32_t *radii, gs_context *context);

// visible[count], any alignment: 1 if the mean's camera z (fisheye: distance) is finite and > near_plane and its angle, of
// a fisheye, within the limit; else 0: gs_project culls the Gaussian. 1: no guarantee. Reads: gaussians.mean, camera.
gs_status gs_mark_visible(const gs_view *view, uint8_t *visible, gs_context *context);

// Sorts the splats into tiles. Writes view->ranges and what lies in view->memory.
// Reads:   splats, gaussians.count, the camera's size, rows, memory.
// Result:  the list of a tile has every splat with alpha >= 1/255 at one of its pixel centres inside the image. (Rounding
//          may add one just below.) Until gs_settle the host does not know whether they fit: if not, they are empty,
//          gs_render makes all of the image but n_contrib NaN, and gs_backward returns gradients of 0 (DISTWAR_FIXED: NaN,
//          if those of the image are). ranges.pixels_per_thread and split_tiles keep values that are valid (those of an
//          earlier view, for example); others become what suits the number of tiles.
gs_status gs_bin(gs_view *view, gs_context *context);

// Waits until the lists of the view's last gs_bin, in the same context, are counted; not for their sorting, nor for what is
// queued behind gs_bin: queue gs_render and the loss first. Several views may be queued, up to 64, before each is settled.
// Writes isects_needed and of ranges isects, pixels_per_thread and split_tiles: gradients then have the bits that they have
// after gs_forward. Lets memory.isect_capacity and bucket_capacity grow for the next pass. Settled views return at once.
// GS_ISECTS_DO_NOT_FIT: ranges is unchanged. Queue the pass again, from gs_bin on; where the splats lie in the view's
// memory, which gs_bin lets grow and so loses, from gs_project on.
// After the replay of a graph that has captured gs_bin: says the same of that replay, and waits for the stream.
gs_status gs_settle(gs_view *view, gs_context *context);

// Takes memory for a pass with `isects` entries in its lists: gs_forward, gs_loss of its images without log_gain and
// gs_backward with the strategy then allocate nothing. Reads gaussians.count, channels, the camera's size, and which
// arrays are NULL.
gs_status gs_reserve(gs_view *view, distwar_strategy strategy, int64_t isects, gs_context *context);

// Gives back view->memory. context: any whose allocator has the memory. Arrays that lay there become NULL.
void gs_view_free(gs_view *view, gs_context *context);

// Blends front to back over the background. Writes the arrays of view->image.
// Reads:   splats, ranges, background, the camera's size; normalize_depth, inverse_depth. Unless there are
//          GS_CHANNELS channels: gaussians.color, gaussians.channels, channel_background.
// Cost:    a pass over the lists for every 32 channels, with room for 1, 3, 4, 8, 16 or 32.
gs_status gs_render(const gs_view *view, gs_context *context);

// 1 if gs_render_backward takes the strategy, else 0: atomic, serial, bfly, tree, block, fixed. Of these
//   block  a tree over the whole tile in shared memory, then one compare-and-swap a sum; may clamp its summands
//          (gs_gradient.block_limit)
//   fixed  a tree, then 64-bit integers: the same bits in every run on one kind of GPU; if a sum could have
//          overflowed, all are NaN
int gs_has_strategy(distwar_strategy strategy);

// Adjoint of gs_render. Writes gradient->splat_grad[count]. The gradient of given colours of other than GS_CHANNELS
// channels goes to gradient->gaussians.color, [count][channels]; gs_splat_grad.color is then unused.
// Reads:   as gs_render, and view->image as gs_render left it; image.color may be NULL if ranges.split_tiles is 0;
//          image.depth if gradient->depth is given and split_tiles or normalize_depth is not 0. gradient->color, alpha,
//          depth, block_limit.
// Cost:    as gs_render. gs_splat_grad.depth, abs_x and abs_y are summed only if gradient->depth or abs_mean2d asks for
//          them; else depth is 0, and abs_x and abs_y are undefined if only depth is. abs_mean2d: 32 channels at most.
// policy:  how the sums of a warp reach memory, see distwar/reduce.cuh; balance_threshold in 0..33, which block and
//          fixed ignore. With other than GS_CHANNELS channels every strategy but fixed is the tree.
gs_status gs_render_backward(const gs_view *view, const gs_gradient *gradient, distwar_policy policy,
                             gs_context *context);

// The gradient by the means of the splats, in pixels, from splat_grad. mean2d, abs_mean2d: [count][2] each, sums of values
// and of absolute values; either may be NULL. Reads: splats, gaussians.count.
gs_status gs_mean2d_gradient(const gs_view *view, const gs_splat_grad *splat_grad, float *mean2d,
                             float *abs_mean2d, gs_context *context);

// Adjoint of gs_project. Writes gradient->gaussians, mean2d, abs_mean2d and camera. Leaves gaussians.color
// alone if gs_render_backward has written it.
// Reads:   gaussians, sh_degree_used, camera, splats; gradient->splat_grad, pixel_mean2d.
// Result:  every array that gs_project read has a gradient: 0 for culled Gaussians and for unused SH coefficients. An
//          off-diagonal covariance counts once: it is stored once. gradient->camera has the same bits in every run if
//          splat_grad has. matrix and se3_grad are undefined unless camera.rotation is a rotation.
// Cost:    with gradient->camera a tree of 19 values per warp and two small kernels more.
gs_status gs_project_backward(const gs_view *view, const gs_gradient *gradient, gs_context *context);

// ---- losses ----

// A rendered image and the photograph that it should equal.
typedef struct gs_comparison {
    int32_t width, height;
    const float *color;    // [GS_CHANNELS][height][width]
    const uint8_t *target; // [height][width][GS_CHANNELS], any alignment
    // [height][width], any alignment: pixels with 0 count in no mean and in no window; NULL: all count. If
    // none counts, the loss is 0 and SSIM 1.
    const uint8_t *mask;
} gs_comparison;

// An image of gs_loss. Its result is written to memory of the device.
typedef struct gs_loss_image {
    gs_comparison images;  // color NULL: of depth alone
    double *result;        // [3]: loss, mean |c - c*|, mean SSIM, of the pixels that count
    float *color_gradient; // d loss / d color, [GS_CHANNELS][height][width]; NULL: not computed
    // A correction for exposure and white balance: in every channel exp(log_gain) color is compared. [GS_EXPOSURE_VALUES];
    // NULL: color as it is.
    const float *log_gain;
    // With color_gradient: [2][GS_EXPOSURE_VALUES]: over pixels of d loss / d log_gain, of its magnitude.
    float *gain_sums;
    // A rendered depth and the one that it should equal, of one form, [height][width]. images.mask counts here too, and a
    // target of NaN is unknown: the pixel does not count. depth_target NULL: no loss of depth.
    const float *depth, *depth_target;
    double *depth_result;  // [1]: mean |depth - target| of the pixels that count, 0 if none does
    float *depth_gradient; // as gs_gradient.depth: depth_weight d depth_result / d depth; NULL: not computed
    float depth_weight;    // finite
} gs_loss_image;

// 0.8 L1 + 0.2 (1 - SSIM) of images of one size, and the loss of depths; docs/developers/math.md, section 5. of: host,
// [count]. The bits of an image's results depend neither on the run nor on other images. Each may have a mask and a
// gradient or not; neighbours in `of` that are alike go through each stage in one launch, up to 2 million pixels.
// Cost:    with log_gain three small kernels more for an image, and memory for its colours; with depth three.
gs_status gs_loss(const gs_loss_image *of, int32_t count, gs_context *context);

// Views whose log gains keep the mean 0, so that scene and gains do not drift together: all, or neighbours.
typedef struct gs_exposure_group {
    const int32_t *views; // device, [count]: their numbers
    int64_t count, view;  // view: the place in `views` of the one that steps
} gs_exposure_group;
// Moves a view's gains by -rate * (quotient of its sums + prior * log_gain); a group of several then gets the mean 0.
// log_gains: [views][GS_EXPOSURE_VALUES], zeros at first; sums: gs_loss_image.gain_sums; rate, prior: finite, >= 0.
gs_status gs_exposure_step(float *log_gains, const gs_exposure_group *group, const float *sums, float rate,
                           float prior, gs_context *context);

enum {
    GS_SSIM_WINDOW = 11,       // pixels, width and height of the window
    GS_SSIM_MAX_PLANES = 65535 // images times their channels
};

// SSIM of two images of any number of channels, and its gradient.
typedef struct gs_ssim_pair {
    int32_t width, height; // 1..GS_MAX_SIZE; with `valid` at least GS_SSIM_WINDOW
    int32_t planes;        // 1..GS_SSIM_MAX_PLANES
    // Not 0: the mean is over the pixels whose window lies inside the image. 0: over all; outside are zeros.
    int32_t valid;
    const float *first, *second; // [planes][height][width], values from 0 to 1, aligned to 4 bytes
} gs_ssim_pair;

// result: 3 doubles on the device, the first is the mean of SSIM, with the same bits in every run; the others are scratch.
// gradient: d mean / d first, [planes][height][width]; NULL: not computed. The gradient by the second is that of the pair
// in the other order. Cost: three small kernels; reads 8 bytes per value twice, writes and reads 12, writes 4.
gs_status gs_ssim(const gs_ssim_pair *pair, double *result, float *gradient, gs_context *context);

// ---- Adam: docs/developers/math.md, section 6 ----

// One step of Adam on every stored parameter. step = 1, 2, ... Moments have the shape of gaussians and start as zeros.
gs_status gs_adam(const gs_gaussians *gaussians, const gs_gaussians *gradients,
                  const gs_gaussians *first_moment, const gs_gaussians *second_moment,
                  const gs_adam_rates *rates, int64_t step, gs_context *context);

// average += (sample - average) / samples, for every stored parameter: if average is the mean of samples - 1 sets of
// parameters, it becomes that of these and the sample. Quaternions are averaged as stored. samples >= 1; at 1 it
// becomes the sample, whatever it held. Cost: one pass; reads 8 bytes per value, writes 4.
gs_status gs_average(const gs_gaussians *average, const gs_gaussians *sample, int64_t samples,
                     gs_context *context);

enum { GS_ADAM_ARRAYS = 8 };

// Rows of parameters for gs_adam_rows.
typedef struct gs_adam_array {
    float *value;                        // [count][width]
    const float *gradient;               // the same shape
    float *first_moment, *second_moment; // the same shape; start as zeros
    int32_t width;                       // values of a row, >= 1
    float rate;                          // finite, >= 0
} gs_adam_array;

typedef struct gs_adam_rows_step {
    int64_t count;              // rows of each array, 0..2^31 - 2
    const uint8_t *visible;     // [count]: rows of 0 keep their values and moments; NULL: all are stepped
    const gs_adam_array *array; // [array_count], host memory
    int32_t array_count;        // 1..GS_ADAM_ARRAYS
    double beta1, beta2;        // 0 <= beta < 1
    float epsilon;              // >= 0
} gs_adam_rows_step;

// One step of Adam on some rows, without the corrections for moments that started at 0 ("sparse Adam"): m += (1 - beta1)
// (g - m), v += (1 - beta2) (g^2 - v), value -= rate m / (sqrt(v) + epsilon). No array overlaps another. Cost: one launch,
// faster where the pointers of an array are aligned to 16 bytes; reads 16 bytes per value of a visible row, writes 12.
gs_status gs_adam_rows(const gs_adam_rows_step *step, gs_context *context);

// ---- density control, which decides which Gaussians there are, and dropout: docs/developers/math.md, section 9 ----
//
// gs_density_accumulate, after each step, sums what the other calls use. Then, every n-th step, one of:
// - gs_density_plan_step, gs_density_move of the parameters and of each moment of Adam into other memory
//   (Kerbl et al. 2023: prune, clone, split), and gs_opacity_reset
// - gs_refill by relocation, in place; gs_density_penalty before and gs_density_noise after every step (Kheradmand et
//   al. 2024: MCMC)
// - gs_refill by splits, in place; before it gs_score_add and gs_retire, to free rows that no view needs
// Results do not depend on the order in which threads run.

// Adds to density, [count][2] floats, zeros at the start: the sum of |mean2d| over the views that saw a Gaussian (radius > 0,
// see gs_radii), and the number of these views; several cameras in their order. mean2d: mean2d or abs_mean2d of gs_gradient.
// Reads:   view->splats, gaussians.count, the camera's size, views.
gs_status gs_density_accumulate(const gs_view *view, const float *mean2d, float *density,
                                gs_context *context);

// The size of a Gaussian is exp(log_scale) of its largest axis.
typedef struct gs_density_rules {
    float gradient_threshold; // a Gaussian grows if its mean |mean2d| over the views is at least this
    float split_size;         // a growing Gaussian larger than this is split in two, others are cloned
    float split_factor;       // >= 1: divides the sizes of the two
    float least_opacity;      // less opaque Gaussians are pruned
    float most_size;          // larger ones (after a split) are pruned; 0: no limit
    int64_t most_gaussians;   // growth stops here, the largest gradients first; 0: no limit
    uint64_t seed, iteration; // random positions of split Gaussians depend on these two alone
} gs_density_rules;

// The fate of each Gaussian. Arrays lie in the context's memory until the next gs_density_plan_step.
typedef struct gs_density_plan {
    // gs_density_move moves `count` rows from `first` on to count_after rows from first_after on: here all. A caller whose
    // GPU has a part of the scene names that part; `begin` says where it begins and ends after the move.
    int64_t count, count_after, first, first_after;
    uint8_t *action;  // of all: [count]
    uint32_t *source; // of all: [count_after]: row of the Gaussian that this one comes from; top bit: new
    int64_t *begin;   // of all: [count + 1]: the row that the first one becomes, and the end
} gs_density_plan;

// Reads log_scale, opacity_logit and density, of a scene on several GPUs those of all Gaussians. Gaussians keep their order;
// a clone follows its original, and the two of a split are neighbours. Waits for the stream.
gs_status gs_density_plan_step(const gs_gaussians *gaussians, const float *density,
                               const gs_density_rules *rules, gs_density_plan *plan, gs_context *context);

// Writes to[plan->count_after] from from[plan->count]; the two do not overlap. moments 0: `from` has parameters: a clone is
// a copy; the two of a split have random positions inside the original and scales divided by split_factor. moments not 0:
// `from` has a moment of Adam, which is 0 for new Gaussians.
gs_status gs_density_move(const gs_density_plan *plan, const gs_density_rules *rules, int moments,
                          const gs_gaussians *from, const gs_gaussians *to, gs_context *context);

// Cuts all opacities at `most` (0..1, exclusive) and sets their moments to 0.
gs_status gs_opacity_reset(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                           const gs_gaussians *second_moment, float most, gs_context *context);

typedef struct gs_refill_rules {
    int64_t existing;         // 0..count: rows from here on are new and may hold anything
    float least_opacity;      // 0 to below 1: Gaussians with at most this, or NaN, are dead
    uint64_t seed, iteration; // the random choice depends on these two alone
    // [count][2], of gs_density_accumulate, whose number of views is not read: by splits. NULL: by relocation.
    const float *density;
    uint64_t *dead; // NULL, or device: grows by the number of dead Gaussians below `existing`; of relocation
} gs_refill_rules;

// Fills each dead or new row.
// By relocation: it moves to the position of a living Gaussian, drawn with probability proportional to opacity. All
//   Gaussians that then share a position get opacity and scales that keep the image there about as it was, and moments
//   of 0. If no Gaussian is alive, new rows become dead and nothing else changes.
// By splits: for each such row draws a living Gaussian, with probability proportional to its sum in `density`, each at
//   most once. One half stays in its row, the other takes the row that was dead or new. Both halves have 1 / sqrt 2 of
//   its longest axis, lie as far from its mean to either side along it, and stop about the light that it stopped. Their
//   moments are 0. A Gaussian whose sum is 0, negative or not finite is not drawn. When none is left to draw, dead rows
//   stay as they are and new rows become dead.
// Cost: prefix sums of count values, by splits a sort of them too. Does not wait.
gs_status gs_refill(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                    const gs_gaussians *second_moment, const gs_refill_rules *rules, gs_context *context);

// Adds S(opacity) scale C n to each mean: scale finite, >= 0; C the covariance; n standard normal; S = 1 /
// (1 + exp(100 (opacity - 0.005))), and 0 where that is below 1e-8. Along an axis of size s > 1 / scale the deviation is
// S s in place of S scale s^2: without that bound, which the paper has not, large Gaussians fly ever farther.
// first: the index of the first Gaussian among all of the scene; 0 for a whole scene.
gs_status gs_density_noise(const gs_gaussians *gaussians, int64_t first, float scale, uint64_t seed,
                           uint64_t iteration, gs_context *context);

// Adds to the gradients those of opacity_weight mean(opacity) + scale_weight mean(exp(log_scale)); both
// weights finite, >= 0. all: the Gaussians of the scene, over which the means are; gaussians->count for a whole scene.
gs_status gs_density_penalty(const gs_gaussians *gaussians, int64_t all, float opacity_weight,
                             float scale_weight, const gs_gaussians *gradients, gs_context *context);

// Leaves a random share of the Gaussians out of a step, which teaches the others to do without any one of them. Writes
// logits[count], to render with in place of gaussians->opacity_logit: with probability `share` (0..0.9) that of a Gaussian
// that is never seen, else that of min(opacity / (1 - share), 0.9999), so that pictures keep their brightness. The choice is
// a function of seed, iteration and index among all Gaussians; first: the index of row 0, where rows are a part of a scene.
gs_status gs_dropout(const gs_gaussians *gaussians, int64_t first, float share, uint64_t seed,
                     uint64_t iteration, float *logits, gs_context *context);

// Adds a view to scores: score[i] becomes the larger of score[i] and what the Gaussian i contributes to the view, the
// sum over its pixels of alpha T. splat_grad: what gs_render_backward leaves for an image gradient that is 1 in channel 0
// of every pixel; with another number than 1 scores are multiplied by it. score: [count], zeros at the start.
gs_status gs_score_add(const gs_splat_grad *splat_grad, int64_t count, float *score, gs_context *context);

// Makes Gaussians dead whose score is at most part * q, part in 0..1, q the upper quartile of all scores: the next gs_refill
// takes their rows. As q follows the size of the pictures and the number of Gaussians, one `part` suits them all. Those of
// score 0 always die. score: [count]; NaN and negative values count as 0. Cost: a sort of count values. Does not wait.
gs_status gs_retire(const gs_gaussians *gaussians, const float *score, float part, gs_context *context);

// ---- extras ----

// Moves the photograph of a cut-out object to another background: moved = picture + change (1 - alpha), rounded. picture,
// moved: [height][width][GS_CHANNELS]; alpha: [height][width]; 8 bits per value, any alignment. change: host, GS_CHANNELS
// values in -1..1: new background minus old background.
gs_status gs_backdrop(const uint8_t *picture, const uint8_t *alpha, int32_t width, int32_t height,
                      const float change[GS_CHANNELS], uint8_t *moved, gs_context *context);

// Pictures, masks and depth maps at a fraction of their size, for training that begins on small pictures. A pixel of the
// result stands for a block of factor x factor pixels; rows and columns that fill no block are cut off at the right and at
// the bottom. A side shorter than the factor is one block.

// What is shrunk, and what becomes of a block.
typedef enum gs_shrink_form {
    GS_SHRINK_BYTES, // [height][width][channels], 8 bits per value, any alignment: the mean, rounded
    GS_SHRINK_MASK,  // [height][width], 8 bits, any alignment: 255 where all pixels count (are not 0), else 0
    GS_SHRINK_DEPTH, // [height][width], floats: the mean of the known values, NaN where none is known
    // `count` pictures as gs_render leaves them, [GS_CHANNELS][height][width]: their mean as GS_SHRINK_BYTES of 3
    // channels, as in a file: values beyond 0..1 become 0 and 255, NaN 0.
    GS_SHRINK_PLANES
} gs_shrink_form;

enum { GS_SHRINK_MOST = 8 };
typedef struct gs_shrinking {
    int32_t width, height, factor; // 1..GS_MAX_SIZE
    int32_t form;                  // a gs_shrink_form
    int32_t channels;              // of GS_SHRINK_BYTES: 1..4
    int32_t count;                 // of GS_SHRINK_PLANES: 1..GS_SHRINK_MOST; others have one picture, from[0]
    const void *from[GS_SHRINK_MOST];
    void *small; // of the new size and the same form, but GS_SHRINK_PLANES
} gs_shrinking;

gs_status gs_shrink(const gs_shrinking *shrinking, gs_context *context);

// Depth of pictures whose cameras are known, by a plane sweep (Collins 1996), and the points on which the views agree:
// gs_stereo_depths, then gs_stereo_points for one view after another.

enum { GS_STEREO_NEIGHBOURS = 4 };

typedef struct gs_stereo_view {
    gs_camera camera;                        // GS_PINHOLE
    const uint8_t *rgb;                      // [height][width][3], any alignment; green is compared
    const uint8_t *mask;                     // [height][width]: a pixel with 0 gets no depth; NULL: all count
    float *inverse_depth;                    // [height][width]: 1 / z; NaN: unknown
    uint8_t *covered;                        // [height][width]: not 0: a point of gs_stereo_points is there
    float step;                              // planes are at inverse depths 0, step, ..., (steps - 1) step
    int32_t steps, neighbours;               // at least 3; 0..GS_STEREO_NEIGHBOURS
    int32_t neighbour[GS_STEREO_NEIGHBOURS]; // indices of other views
} gs_stereo_view;

typedef struct gs_stereo {
    const gs_stereo_view *views; // [count]
    int32_t count;               // 1..65535
    int64_t most_pixels;         // at least those of each view
    float least_score;           // a depth with a lower score, -1..1, is unknown
    float least_lead;            // so is one whose score is not this much above that of the next best peak
    float tolerance;             // steps of a view within which its depth agrees with a point
} gs_stereo;

// Writes inverse_depth of all views. A plane's score at a pixel is the mean of the two best normalised correlations with
// the neighbours, over 25 samples of a window of 7x7 pixels, warped by the plane. The depth is the vertex of a parabola
// through the best score and those of the planes next to it; half a step where plane 0, at infinity, is best. A pixel's
// depth is unknown within 3 pixels of the border, in a window of one colour, where fewer than two neighbours see it, where
// the last plane is best, and by least_score and least_lead. Cost: pixels * steps * neighbours * 25 samples.
gs_status gs_stereo_depths(const gs_stereo *stereo, gs_context *context);

// Writes the points of view `view`: points[pixel] in the world, NaN where there is none; room for most_pixels. A pixel of
// known depth that is not covered becomes a point if the depths of at least 2 other views agree with it, and no more
// views than agree look through it. Its depth is corrected by the mean of what they say. Sets `covered` here and where they
// see the point, so that a surface becomes points once; clear it before the first view. Cost: pixels * count projections.
gs_status gs_stereo_points(const gs_stereo *stereo, int32_t view, float *points, gs_context *context);

#ifdef __cplusplus
}
#endif
#endif
