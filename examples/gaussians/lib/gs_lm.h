// SPDX-License-Identifier: MIT
//
// libgs: the parts of Levenberg and Marquardt's method on Gaussian splatting. The loss is a sum of squares of
// residuals, two for every pixel and channel; J is their derivative by all stored parameters, and it is never
// formed: what is here multiplies by it, by its transpose, and sums the squares of its columns, and products
// of those of one Gaussian. Formulas: docs/math.md, section 8. The rules of gs.h hold; scenes with given
// colours or covariances and antialiased ones are not taken.
//
// One camera, after gs_project, gs_bin and gs_render, in colours C rather than residuals, J = R C:
//   gs_lm_weights       where residuals depend on nothing but their own pixel's colour, as in the paper:
//                       R^T R, which is one weight a value then, and R^T F
//   gs_lm_find_metric   R^T R of the whole loss; its gradient is that of gs_loss
//   gs_lm_tangents      a direction's derivative of every splat, and
//   gs_lm_forward       C times the direction, times a weight if wanted
//   gs_lm_metric_apply  R^T R times that; gs_lm_metric_add_square
//   gs_render_backward, gs_lm_gradients        C^T times a picture
//   gs_lm_metric_diagonal, gs_lm_squares, gs_lm_add_diagonal    diag(C^T weight C), and once for all cameras
//   gs_lm_add_units
//   gs_lm_add_blocks    each Gaussian's own blocks of C^T weight C, from the same squares
// The same products from a cache of all (pixel, splat) pairs that count:
//   gs_lm_cache_begin, gs_lm_cache_fill, gs_lm_cached_forward, gs_lm_metric_apply, gs_lm_cached_backward,
//   gs_lm_cached_squares
// The solver, on vectors of all parameters: gs_lm_pcg_start, gs_lm_pcg_step, gs_lm_pcg_turn, preconditioned
// by gs_lm_factor_blocks and gs_lm_precondition, or gs_lm_precondition_diagonal; gs_lm_limit.
#ifndef GS_LM_H
#define GS_LM_H

#include "gs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GS_LM_SIGHTS = 8,          // cameras that gs_lm_tangents and gs_lm_gradients take at most
    GS_LM_TANGENT_STRIDE = 12, // floats from one splat's record of a direction's derivative to the next
    GS_LM_SQUARES = 31,        // sums of products that gs_lm_squares takes for a splat
    GS_LM_SQUARES_STRIDE = 32  // floats from one splat's record of them to the next
};

typedef enum gs_lm_objective {
    GS_LM_L1_SSIM, // the loss of gs_loss
    GS_LM_L2       // squared differences, one residual a value
} gs_lm_objective;

// Of every value of a picture: weight, the squared slope of its residuals by its colour, summed, and
// gradient, their value times their slope, summed; both [3][height][width], both or neither NULL.
// result: 1 double on the device, the sum of the residuals' squares. For GS_LM_L1_SSIM that is 3 width height
// (loss + epsilon), loss as of gs_loss; SSIM's slope is by the pixel's own colour alone. color, target: as of
// gs_loss. epsilon, in (0, 1], keeps the slopes finite; GS_LM_L2 does not use it.
gs_status gs_lm_weights(const float *color, const uint8_t *target, int32_t width, int32_t height,
                        gs_lm_objective objective, float epsilon, double *result, float *weight,
                        float *gradient, gs_stream stream);

// How the sum of squares bends as a picture changes: R^T R, where R is more than a slope a value. Of a
// change,
//   R^T R change = weight change - window * (coupling (window * change)),
// window * being the weighted sum of SSIM's window. coupling may be NULL: nothing is taken away.
typedef struct gs_lm_metric {
    float *weight;   // [3][height][width]
    float *coupling; // [3][height][width]
} gs_lm_metric;

// Fills in the metric of the loss, from the squares of sqrt(0.8 (|c - c*| + epsilon)) and, about every pixel,
// 0.2 (1 - SSIM), in which the means and the variance of c - c* count as squares over denominators that
// stand still. Never less than 0 along any change. scratch: [3][height][width]. Cost: 1.3 times that of the
// value of gs_loss.
gs_status gs_lm_find_metric(const float *color, const uint8_t *target, int32_t width, int32_t height,
                            float epsilon, float *scratch, const gs_lm_metric *metric, gs_stream stream);
// diagonal: [3][height][width], of a metric with a coupling.
gs_status gs_lm_metric_diagonal(const gs_lm_metric *metric, int32_t width, int32_t height, float *diagonal,
                                gs_stream stream);
// change = R^T R change; [3][height][width], or [height][width][4] if interleaved is not 0. scratch:
// [3][height][width]; not used without a coupling.
gs_status gs_lm_metric_apply(const gs_lm_metric *metric, int32_t width, int32_t height, int interleaved,
                             float *scratch, float *change, gs_stream stream);
// *sum += change^T R^T R change, for a change [3][height][width]. sum: on the device.
gs_status gs_lm_metric_add_square(const gs_lm_metric *metric, int32_t width, int32_t height,
                                  const float *change, double *sum, gs_stream stream);

// A camera, what it sees of the Gaussians, and a record of each splat: GS_LM_TANGENT_STRIDE floats, as many
// as moments have, 16-byte aligned.
typedef struct gs_lm_sight {
    gs_camera camera;
    const gs_splat *splats; // [count]
    float *records;         // [count][GS_LM_TANGENT_STRIDE]
} gs_lm_sight;

// Writes the records of 1 <= views <= GS_LM_SIGHTS cameras: of every splat that is not culled the derivative
// along `direction` (of the shape of gaussians): of its colour (3), then the six coefficients of 1, e0, e1,
// e0^2, e0 e1, e1^2 in the derivative of log alpha; e by gs_splat.whiten. Those of culled splats are not
// written. Cost: Gaussians and direction are read once for all the cameras.
gs_status gs_lm_tangents(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_sight *sights,
                         int views, const gs_gaussians *direction, gs_stream stream);

// The transpose: gradients (of the shape of gaussians), from moments of gs_render_backward as the records,
// summed over the cameras; added to what is there if add is not 0. Agrees with gs_project_backward.
gs_status gs_lm_gradients(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_sight *sights,
                          int views, int add, const gs_gaussians *gradients, gs_stream stream);

// change: [3][height][width], the derivative of the picture that gs_render left along the direction of the
// tangents; times weight unless that is NULL. Cost: that of gs_render, and a tangent a splat.
gs_status gs_lm_forward(const gs_splat *splats, const float *tangents, const gs_lists *lists, int32_t width,
                        int32_t height, const float background[3], const gs_image *image, const float *weight,
                        float *change, gs_stream stream);

// squares: [count][GS_LM_SQUARES_STRIDE], 16-byte aligned; sums over pixels and channels of weight times the
// products of the derivatives of a pixel's colour by a splat's colour and by the six moments, as far as the
// diagonal and the blocks need them. reduction: GS_ATOMIC, GS_SERIAL, GS_BFLY or GS_TREE.
gs_status gs_lm_squares(const gs_splat *splats, int64_t count, const gs_lists *lists, int32_t width,
                        int32_t height, const float background[3], const gs_image *image, const float *weight,
                        gs_reduction reduction, int balance_threshold, float *squares, gs_stream stream);

// Adds this camera's part of diag(J^T J) to diagonal, which has the shape of gaussians.
gs_status gs_lm_add_diagonal(const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                             const gs_splat *splats, const float *squares, const gs_gaussians *diagonal,
                             gs_stream stream);

// Where diagonal is not 0, adds weight / unit^2 to it: to mean, exp(mean log_scale) being its unit; to
// quaternion, its length; to the others 1. Damping in proportion to J^T J alone leaves parameters that the
// pictures hardly depend on free to go anywhere; with this they stay within a few units.
gs_status gs_lm_add_units(const gs_gaussians *gaussians, float weight, const gs_gaussians *diagonal,
                          gs_stream stream);

// Where an update would move a Gaussian farther than radius, all of it but the colour is made shorter, to the
// radius. Farther is the largest of: a change of a log_scale; of the mean, in the Gaussian's own axes, none
// taken for shorter than exp(-2) of the longest; of the rotation, in radians; half a change of the opacity's
// logit. So a few Gaussians whom the derivatives promise too much do not hold up all others.
gs_status gs_lm_limit(const gs_gaussians *gaussians, float radius, const gs_gaussians *update,
                      gs_stream stream);

// ---- the same from a cache ----

// Every pixel and splat that counts there (gs_image.consumed, alpha >= 1/255), sorted by splat. 20 bytes a
// pair and 8 a splat, the caller's memory.
typedef struct gs_lm_cache {
    int64_t pairs;
    int64_t *begin;      // [count + 1]: splat i has pairs begin[i] .. begin[i + 1] - 1
    uint32_t *pixel;     // [pairs]: x + 65536 y
    float *share;        // [pairs]: T alpha, the derivative of the pixel's colour by the splat's
    float *by_log_alpha; // [3][pairs]: that by log alpha, what lies behind accounted for
} gs_lm_cache;

// Bytes of the workspace that gs_lm_cache_begin and gs_lm_cache_fill take for `count` splats.
gs_status gs_lm_cache_workspace(int64_t count, size_t *bytes);
// Counts the pairs: writes cache->begin and cache->pairs, which the caller then provides memory for. Waits.
gs_status gs_lm_cache_begin(const gs_splat *splats, int64_t count, const gs_lists *lists, int32_t width,
                            int32_t height, const gs_image *image, void *workspace, size_t workspace_bytes,
                            gs_lm_cache *cache, gs_stream stream);
// Writes the pairs. Their order within a splat is not defined.
gs_status gs_lm_cache_fill(const gs_splat *splats, int64_t count, const gs_lists *lists, int32_t width,
                           int32_t height, const float background[3], const gs_image *image, void *workspace,
                           size_t workspace_bytes, const gs_lm_cache *cache, gs_stream stream);
// change: [height][width][4], 16-byte aligned, of which the last is 0: as gs_lm_forward's, without a weight.
gs_status gs_lm_cached_forward(const gs_splat *splats, int64_t count, const gs_lm_cache *cache, int32_t width,
                               int32_t height, const float *tangents, float *change, gs_stream stream);
// The moments of gs_render_backward, for a gradient [height][width][4].
gs_status gs_lm_cached_backward(const gs_splat *splats, int64_t count, const gs_lm_cache *cache,
                                int32_t width, const float *color_gradient, gs_reduction reduction,
                                int balance_threshold, float *moments, gs_stream stream);
// As gs_lm_squares; height too, for weight is [3][height][width].
gs_status gs_lm_cached_squares(const gs_splat *splats, int64_t count, const gs_lm_cache *cache, int32_t width,
                               int32_t height, const float *weight, gs_reduction reduction,
                               int balance_threshold, float *squares, gs_stream stream);

// ---- conjugate gradients ----

// Vectors are `values` floats in any order, the same in all; several arrays that lie in one allocation, and
// zeros between them, will do. scalars: 2 iterations + 1 doubles on the device. Nothing waits.

// For (A + lambda diagonal) x = right: x = 0, residual = right (may be the same array), scalars = 0. Then
//   z = P residual into `direction`, and residual^T z added to scalars[0]
// and for every iteration from 0 on
//   gs_lm_pcg_step    x and residual after a step along the direction, of which product = A direction
//   z = P residual, and residual^T z added to scalars[2 iteration + 2]
//   gs_lm_pcg_turn    the next direction
// with any P that is symmetric, positive, and the same throughout: gs_lm_precondition or
// gs_lm_precondition_diagonal.
gs_status gs_lm_pcg_start(const float *right, int64_t values, int iterations, float *x, float *residual,
                          double *scalars, gs_stream stream);
// product is overwritten.
gs_status gs_lm_pcg_step(const float *diagonal, float lambda, int64_t values, int iteration, float *product,
                         float *x, float *residual, const float *direction, double *scalars,
                         gs_stream stream);
gs_status gs_lm_pcg_turn(const float *z, int64_t values, int iteration, float *direction,
                         const double *scalars, gs_stream stream);
// z = residual / diagonal, 0 where the diagonal is; *sum += residual^T z.
gs_status gs_lm_precondition_diagonal(const float *diagonal, const float *residual, int64_t values, float *z,
                                      double *sum, gs_stream stream);

// Of every Gaussian the blocks of A on the diagonal: of mean, log_scale and quaternion with each other, of
// opacity with itself, and of the spherical harmonics of one channel with each other, the mean over channels.
// Preconditions far better than diag(A): from narrow views sixteen harmonics look alike, and so do shape and
// place of a thin splat. Zeros at first, then added to for every camera, then factored once. Bytes for
// `count` Gaussians: 768 each with degree 3.
gs_status gs_lm_blocks_bytes(int64_t count, int sh_degree, size_t *bytes);
// Adds this camera's part, from its squares as gs_lm_add_diagonal has them.
gs_status gs_lm_add_blocks(const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                           const gs_splat *splats, const float *squares, float *blocks, gs_stream stream);
// From blocks of A to factors of those of A + lambda diagonal, in place. What depends on other rows of its
// block to within 1e-5 of its square, or is not finite, is given up: 0 in z.
gs_status gs_lm_factor_blocks(const gs_gaussians *diagonal, float lambda, float *blocks, gs_stream stream);
// z = the inverse of the factored blocks times the residual, a channel's harmonics in inverse proportion to
// its constant's part of the diagonal, which is the one that they were factored with; *sum += residual^T z.
gs_status gs_lm_precondition(const float *blocks, const gs_gaussians *diagonal, const gs_gaussians *residual,
                             const gs_gaussians *z, double *sum, gs_stream stream);

// *sum += the sum of weight a b; weight NULL: of a b. sum: on the device. With a picture's weight and its
// change along a step, or with the gradient and a step, what the model of the objective says of that step.
gs_status gs_lm_add_dot(const float *weight, const float *a, const float *b, int64_t values, double *sum,
                        gs_stream stream);
// to += scale from
gs_status gs_lm_add(float *to, float scale, const float *from, int64_t values, gs_stream stream);
// sum += diagonal x, weights += diagonal: one subset's share in the mean of several updates.
gs_status gs_lm_add_weighted(float *sum, float *weights, const float *diagonal, const float *x,
                             int64_t values, gs_stream stream);
// sum /= weights, 0 where weights are.
gs_status gs_lm_divide(float *sum, const float *weights, int64_t values, gs_stream stream);

#ifdef __cplusplus
}
#endif
#endif
