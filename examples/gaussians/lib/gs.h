// SPDX-License-Identifier: MIT
//
// libgs: 3D Gaussian splatting, forward and backward, one call a stage. C11; needs no CUDA header.
//
// A training step, whole:
//   gs_forward -> gs_loss -> gs_backward -> gs_adam
// or stage by stage:
//   gs_project -> gs_bin -> gs_render -> gs_loss -> gs_render_backward -> gs_project_backward -> gs_adam
// A stage reads what earlier stages wrote and writes its own outputs. The formulas are in docs/math.md, two
// programs that use all this, in C and in Python, in docs/interface.md.
//
// Rules that hold for every call:
// - Pointers inside the structs are device pointers (with the "simt" backend: plain host pointers), owned by
//   the caller, aligned to 16 bytes unless said otherwise. Structs are passed by host pointer and copied.
// - Work is queued on `stream` (a cudaStream_t, or NULL) and the call returns at once. Three wait for the
//   stream, once, to read a number: gs_bin, and so gs_forward; gs_density_plan_step; gs_lm_cache_begin.
// - Nothing is allocated. Sizes are asked first (gs_*_workspace), the memory comes from the caller.
// - Outputs are overwritten. What a call adds to or changes in place, it says.
// - The return value is GS_OK or says what failed; gs_last_error() then has the text. After a failure outputs
//   are unspecified, unless the call says otherwise.
// - Structs may grow at their end: begin them as {0}, so that what you do not know of is not asked for.
// - Thread-safe as long as outputs and workspaces are not shared.
#ifndef GS_H
#define GS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st;
typedef struct CUstream_st *gs_stream; // the same type as cudaStream_t

typedef enum gs_status {
    GS_OK = 0,
    GS_INVALID_ARGUMENT = 1, // nothing was queued
    GS_PAIRS_DO_NOT_FIT = 2, // the pair list is longer than the capacity; no list, no image was written
    GS_DEVICE_ERROR = 3      // the runtime or a kernel failed
} gs_status;

// Text of this thread's last failure, valid until its next failing call; "" before the first.
const char *gs_last_error(void);
// "cuda" or "simt".
const char *gs_backend(void);
// "major.minor.patch"
const char *gs_version(void);

enum {
    GS_TILE_SIZE = 16,       // pixels, both ways
    GS_MAX_SIZE = 16384,     // of an image, both ways
    GS_CHANNELS = 3,         // colour channels of splats, images and pictures
    GS_EXPOSURE_VALUES = 12, // of the matrix that corrects a picture's colours
    GS_MAX_SH_DEGREE = 3
};

// The parameters of `count` Gaussians; also the shape of their gradients and of Adam's two moments. Arrays
// that a view does not read may be NULL, and so may the same arrays of its gradients, which stay unwritten.
typedef struct gs_gaussians {
    int64_t count;        // 0 <= count < 2^31 - 1
    int32_t sh_degree;    // 0..3: what `sh` has room for
    float *mean;          // [count][3]   world
    float *log_scale;     // [count][3]
    float *quaternion;    // [count][4]   w, x, y, z; need not be normalised
    float *opacity_logit; // [count]
    float *sh;            // [count][(sh_degree + 1)^2][3]
    // Read instead of others unless NULL; stages that store or step parameters (gs_adam) ignore them.
    float *color;         // [count][3]; instead of sh, used as it is: not cut at 0
    float *covariance;    // [count][6]   world: xx, xy, xz, yy, yz, zz; instead of log_scale and quaternion
    float scale_modifier; // multiplies exp(log_scale), not `covariance`; 0 counts as 1; unused in gradients
    // Not 0: what the 0.3 pixels^2 add to a splat's area is taken from its opacity, so that small or distant
    // Gaussians keep their weight (docs/math.md section 2). Render with it what was trained with it. Unused
    // in gradients.
    int32_t antialias;
} gs_gaussians;

typedef struct gs_camera {
    int32_t width, height; // 1..GS_MAX_SIZE
    float fx, fy, cx, cy;  // pixels, fx and fy > 0; pixel (i, j) has its centre at (i + 0.5, j + 0.5)
    float rotation[9];     // world to camera, row-major; +x right, +y down, +z forward
    float translation[3];  // x' = rotation x + translation
    float near_plane;      // > 0; Gaussians with z <= near_plane are culled
} gs_camera;

#ifdef __cplusplus
#define GS_ALIGNED_16 alignas(16)
#else
#define GS_ALIGNED_16 _Alignas(16)
#endif

// A Gaussian as one camera sees it: what the blend reads. 48 bytes, aligned to be moved 16 bytes at a time.
typedef struct gs_splat {
    GS_ALIGNED_16 float mean[2]; // pixels
    float whiten[3];             // w: the exponent of 2 is -((w0 dx + w1 dy)^2 + (w2 dy)^2), d = pixel - mean
    float log2_opacity;
    float color[3]; // >= 0, or as given
    float depth;    // camera z; 0 if culled, else > 0
    float reserved[2];
} gs_splat;

// What gs_render_backward sums over pixels for a splat, e by gs_splat.whiten (docs/math.md section 3).
typedef struct gs_moments {
    GS_ALIGNED_16 float color[GS_CHANNELS]; // d loss / d color
    float h;                                // d loss / d log alpha
    float h_e0, h_e1;                       // h e
    float h_e0e0, h_e0e1, h_e1e1;           // h e e^T
    float reserved[3];                      // 0
} gs_moments;

enum {
    GS_MOMENTS = GS_CHANNELS + 6,                          // values of a gs_moments that are summed
    GS_MOMENTS_STRIDE = sizeof(gs_moments) / sizeof(float) // floats from one splat's record to the next
};

// For every tile, its splats in the order (depth, index). Points into gs_bin's workspace.
typedef struct gs_lists {
    int32_t tiles_x, tiles_y;
    int64_t pairs;       // entries of splat_index
    int64_t *tile_begin; // [tiles_y * tiles_x + 1]: tile t has entries tile_begin[t] .. tile_begin[t + 1] - 1
    uint32_t *splat_index; // [pairs]
    // Of the blend: 1, 2 or 4. gs_bin proposes a number by the lists and the GPU; another gives the same
    // picture, sooner or later.
    int32_t pixels_per_thread;
    // Where one list decides how long the blend takes; gs_bin sets both, 0 and NULL do without.
    int32_t split_tiles;  // the first so many of tile_order get twice the warps in gs_render_backward
    uint32_t *tile_order; // [tiles_y * tiles_x]: each tile once, long lists first
} gs_lists;

typedef struct gs_image {
    float *color;         // [3][height][width]
    float *transmittance; // [height][width]; 1 - alpha
    uint32_t *consumed;   // [height][width]; entries of the tile's list up to and with the last that counted
} gs_image;

// One camera's view, from the parameters to the picture: what gs_forward reads and leaves for gs_backward.
typedef struct gs_frame {
    // From the caller:
    gs_gaussians gaussians;
    int32_t sh_degree_used; // min(sh_degree_used, gaussians.sh_degree) counts
    gs_camera camera;
    float background[3];
    gs_image image;        // the memory for gs_forward's picture
    int64_t pair_capacity; // most entries of the lists, at most 2^40: begin with some 10 a Gaussian, grow to
                           // pairs_needed
    void *workspace;       // device, of gs_frame_workspace's bytes
    size_t workspace_bytes;
    // From gs_forward, all in the workspace:
    int64_t pairs_needed;
    gs_splat *splats; // [count]
    gs_lists lists;
    // From the caller again: not 0 if gs_backward will be called with GS_FIXED, whose sums need room.
    int32_t with_fixed;
} gs_frame;

typedef enum gs_reduction {
    GS_ATOMIC,
    GS_SERIAL,
    GS_BFLY,
    GS_TREE,
    GS_BLOCK, // a tree over the whole tile in shared memory, one compare-and-swap a sum; no balance_threshold
    GS_FIXED, // a tree, then 64-bit integers: the same bits in every run on one kind of GPU, or if a sum
              // could have overflowed, NaN everywhere; needs more memory; no balance_threshold
    GS_REDUCTIONS
} gs_reduction;

// "atomic", "serial", "bfly", "tree", "block", "fixed"; NULL if out of range. And back: -1 if unknown.
const char *gs_reduction_name(gs_reduction reduction);
int gs_reduction_from_name(const char *name);

// Bytes of workspace for a frame of its Gaussians' count, its camera's size, its pair_capacity and
// with_fixed; the rest of it is not read. Enough for gs_forward and the gs_backward after it.
gs_status gs_frame_workspace(const gs_frame *frame, size_t *bytes);

// gs_project, gs_bin and gs_render. Writes frame->image and the frame's last members. GS_PAIRS_DO_NOT_FIT:
// frame->pairs_needed is written, the image and the other members are as before; set pair_capacity to it or
// more, give a workspace of the new size and call again.
gs_status gs_forward(gs_frame *frame, gs_stream stream);

// gs_render_backward and gs_project_backward of the frame that gs_forward left, with the arguments of those.
// mean2d_gradient may be NULL.
gs_status gs_backward(const gs_frame *frame, const float *color_gradient, const float *alpha_gradient,
                      gs_reduction reduction, int balance_threshold, const gs_gaussians *gradients,
                      float *mean2d_gradient, gs_stream stream);

// Writes splats[count] (gs_splat, device). Uses sh degree min(sh_degree_used, gaussians->sh_degree).
// Cost: one thread a Gaussian; reads 44 + 12 (degree + 1)^2 bytes, writes 48. A given covariance, which need
// not be positive definite as long as what is seen of it is, takes some 60 operations in double precision.
gs_status gs_project(const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                     gs_splat *splats, gs_stream stream);

// radii[count] (device): ceil(3 sigma) in pixels, sigma^2 the larger eigenvalue of a splat's 2D covariance;
// at most 2^30. 0 if the splat was culled, or if the square of twice this side around its mean misses the
// image. (It may still be drawn a little farther out: gs_bin goes by alpha, not by the radius.)
gs_status gs_radii(const gs_splat *splats, int64_t count, int32_t width, int32_t height, int32_t *radii,
                   gs_stream stream);

// visible[count] (device, any alignment): 1 if the mean's camera z is finite and > near_plane, else 0.
// Whoever has a 0 is culled by gs_project; a 1 promises nothing more. Reads the means only; the other arrays
// may be NULL.
gs_status gs_mark_visible(const gs_gaussians *gaussians, const gs_camera *camera, uint8_t *visible,
                          gs_stream stream);

// Bytes that gs_bin needs for `count` splats, an image of this size and at most pair_capacity pairs.
gs_status gs_bin_workspace(int64_t count, int32_t width, int32_t height, int64_t pair_capacity,
                           size_t *bytes);

// Sorts splats into tiles. A tile's list holds every splat that reaches alpha >= 1/255 at one of its pixel
// centres inside the image (and perhaps, by rounding, one that just does not). Always writes *pairs_needed.
// Waits for the stream. GS_PAIRS_DO_NOT_FIT: *pairs_needed > pair_capacity; ask for a larger workspace and
// call again.
gs_status gs_bin(const gs_splat *splats, int64_t count, int32_t width, int32_t height, int64_t pair_capacity,
                 void *workspace, size_t workspace_bytes, gs_lists *lists, int64_t *pairs_needed,
                 gs_stream stream);

// Blends front to back over `background` (host, 3 values).
gs_status gs_render(const gs_splat *splats, const gs_lists *lists, int32_t width, int32_t height,
                    const float background[3], const gs_image *image, gs_stream stream);

// Bytes of moments for `count` splats: [count][GS_MOMENTS_STRIDE] floats, and for GS_FIXED the integers that
// they are summed in.
gs_status gs_moments_bytes(int64_t count, gs_reduction reduction, size_t *bytes);

// Adjoint of gs_render. color_gradient: [3][height][width]; alpha_gradient: [height][width] or NULL for 0.
// moments: gs_moments_bytes, beginning with [count][GS_MOMENTS_STRIDE], 16-byte aligned; the first 9 of a
// record are the sums over pixels of d/d color[0..2] and h, h e0, h e1, h e0^2, h e0 e1, h e1^2 (docs/math.md
// section 3, e by gs_splat.whiten); the rest are 0. reduction and balance_threshold (0..33): how a warp's
// sums reach memory, see distwar/reduce.cuh. image: as gs_render left it; its color may be NULL if
// lists->split_tiles is 0.
gs_status gs_render_backward(const gs_splat *splats, int64_t count, const gs_lists *lists, int32_t width,
                             int32_t height, const float background[3], const gs_image *image,
                             const float *color_gradient, const float *alpha_gradient, gs_reduction reduction,
                             int balance_threshold, float *moments, gs_stream stream);

// Adjoint of gs_project. Writes the gradient of every array that gs_project read (zeros for culled Gaussians
// and unused SH coefficients; an off-diagonal covariance counts as the one number it is stored as), and
// mean2d_gradient, NULL or [count][2]: by the mean in units of half the image's width and height.
gs_status gs_project_backward(const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                              const gs_splat *splats, const float *moments, const gs_gaussians *gradients,
                              float *mean2d_gradient, gs_stream stream);

// What a picture of a cut-out object looks like before another background. picture, moved:
// [height][width][3]; alpha: [height][width]; any alignment, 8 bits each. change: host, 3 values -1..1: the
// new background minus the one that the picture was put on. moved = picture + change (1 - alpha), rounded.
gs_status gs_backdrop(const uint8_t *picture, const uint8_t *alpha, int32_t width, int32_t height,
                      const float change[3], uint8_t *moved, gs_stream stream);

// Bytes that gs_loss needs for an image of this size.
gs_status gs_loss_workspace(int32_t width, int32_t height, size_t *bytes);

// 0.8 L1 + 0.2 (1 - SSIM), docs/math.md section 5. color: [3][height][width]; target: [height][width][3], 8
// bits a channel, any alignment. result: 3 doubles on the device: loss, mean |c - c*|, mean SSIM.
// color_gradient: [3][height][width], or NULL if only the value is wanted.
gs_status gs_loss(const float *color, const uint8_t *target, int32_t width, int32_t height, void *workspace,
                  size_t workspace_bytes, double *result, float *color_gradient, gs_stream stream);

typedef struct gs_adam_rates {
    float mean, log_scale, quaternion, opacity_logit, sh_constant, sh_rest; // each finite, >= 0
    // Of each Gaussian, those that any view has read so far, (degree + 1)^2; 0: all. It saves time, and
    // changes nothing if the others have gradients and moments of 0.
    int32_t sh_coefficients;
} gs_adam_rates;

// Corrects the colours of a picture, as the exposure and white balance of its photograph may ask for: at
// every pixel corrected = A color + b. matrix: [3][4], A and as the last column b; color, corrected:
// [3][height][width]. All of them device memory.
gs_status gs_exposure(const float *matrix, const float *color, int32_t width, int32_t height,
                      float *corrected, gs_stream stream);

// Bytes that gs_exposure_backward needs for an image of this size.
gs_status gs_exposure_workspace(int32_t width, int32_t height, size_t *bytes);

// Adjoint of gs_exposure. gradient, [3][height][width]: by `corrected`, and becomes that by `color`, in
// place. matrix_gradient: [3][4].
gs_status gs_exposure_backward(const float *matrix, const float *color, int32_t width, int32_t height,
                               void *workspace, size_t workspace_bytes, float *gradient,
                               float *matrix_gradient, gs_stream stream);

// One step of Adam, as gs_adam, on the matrix of one view. exposures: [views][3][GS_EXPOSURE_VALUES], of each
// view its matrix and the two moments, which start as zeros. All matrices move against the step by a share
// each, so that their mean stays what it was: else scene and matrices could drift apart together, and a
// picture without a matrix would show it. step = 1, 2, ... counts the view's own; rate is finite, >= 0.
gs_status gs_exposure_adam(float *exposures, int64_t views, int64_t view, const float *gradient, float rate,
                           int64_t step, gs_stream stream);

// One step of Adam on every stored parameter; step = 1, 2, ... first_moment and second_moment have the shape
// of gaussians and start as zeros.
gs_status gs_adam(const gs_gaussians *gaussians, const gs_gaussians *gradients,
                  const gs_gaussians *first_moment, const gs_gaussians *second_moment,
                  const gs_adam_rates *rates, int64_t step, gs_stream stream);

// Density control: which Gaussians to have. After each step gs_density_accumulate adds to what the other
// calls go by, `density`, [count][2] floats, zeros to begin with: the sum of |mean2d_gradient| over the views
// that saw a Gaussian (radius > 0, see gs_radii), and their number. Then, now and then, one of two ways:
// - gs_density_plan_step, then gs_density_move of the parameters and of each of Adam's moments into other
//   memory (Kerbl et al. 2023: prune, clone, split), and gs_opacity_reset;
// - gs_relocate, in place, and after every step gs_density_noise, before it gs_density_penalty (Kheradmand et
//   al. 2024: MCMC).
// Results do not depend on the order in which threads run. docs/math.md section 9.
gs_status gs_density_accumulate(const gs_splat *splats, const float *mean2d_gradient, int64_t count,
                                int32_t width, int32_t height, float *density, gs_stream stream);

// A Gaussian's size is its largest axis, exp(log_scale).
typedef struct gs_density_rules {
    float gradient_threshold; // grow where the mean of |mean2d_gradient| over the views is at least this
    float split_size;         // of those, larger ones are split in two, others cloned
    float split_factor;       // >= 1: what the sizes of the two are divided by
    float least_opacity;      // less opaque: pruned
    float most_size;          // larger (after a split): pruned; 0: no limit
    int64_t most_gaussians;   // no growth beyond: where the gradient is largest first; 0: no limit
    uint64_t seed, iteration; // what the places of split Gaussians are drawn from
} gs_density_rules;

// What becomes of whom. Points into the workspace, which must stay as it is.
typedef struct gs_density_plan {
    int64_t count, count_after;
    uint8_t *action;  // [count]
    uint32_t *source; // [count_after]: the row that this one comes from; the top bit: newborn
} gs_density_plan;

// For `count` Gaussians; device memory.
gs_status gs_density_workspace(int64_t count, size_t *bytes);

// Reads log_scale, opacity_logit and density. A survivor and its clone, or the two of a split, are next to
// each other, in the order of the Gaussians they come from. Waits for the stream.
gs_status gs_density_plan_step(const gs_gaussians *gaussians, const float *density,
                               const gs_density_rules *rules, void *workspace, size_t workspace_bytes,
                               gs_density_plan *plan, gs_stream stream);

// Writes to[plan->count_after] from from[plan->count]; the two do not overlap. moments 0: parameters. A clone
// is a copy; the two of a split have places drawn from the Gaussian, and scales divided by split_factor.
// Else: one of Adam's moments, 0 for newborns.
gs_status gs_density_move(const gs_density_plan *plan, const gs_density_rules *rules, int moments,
                          const gs_gaussians *from, const gs_gaussians *to, gs_stream stream);

// No opacity above `most` (0..1, exclusive) stays; the moments of all opacities become 0.
gs_status gs_opacity_reset(const gs_gaussians *gaussians, const gs_gaussians *first_moment,
                           const gs_gaussians *second_moment, float most, gs_stream stream);

// Bytes of device memory that gs_relocate needs for `count` Gaussians.
gs_status gs_relocate_workspace(int64_t count, size_t *bytes);

// Gives a new place to each Gaussian that is dead (opacity at most least_opacity, 0 to below 1, or not a
// number) and to the rows from `existing` on, which may hold anything: that of a living one, drawn with
// probability in proportion to opacity. All that then share a place get opacity and scales that leave the
// picture there about as it was, and moments of 0. If none is alive, nothing changes but that new rows become
// dead.
gs_status gs_relocate(const gs_gaussians *gaussians, int64_t existing, const gs_gaussians *first_moment,
                      const gs_gaussians *second_moment, float least_opacity, uint64_t seed,
                      uint64_t iteration, void *workspace, size_t workspace_bytes, gs_stream stream);

// Adds to the means `scale` (finite, >= 0) times S(opacity) C n: C the covariance, n standard normal, S = 1 /
// (1 + exp(100 (opacity - 0.005))), which is left out where it is below 1e-8.
gs_status gs_density_noise(const gs_gaussians *gaussians, float scale, uint64_t seed, uint64_t iteration,
                           gs_stream stream);

// Adds to the gradients those of opacity_weight times the mean opacity and scale_weight times the mean
// exp(log_scale); both weights are finite, >= 0.
gs_status gs_density_penalty(const gs_gaussians *gaussians, float opacity_weight, float scale_weight,
                             const gs_gaussians *gradients, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
