// SPDX-License-Identifier: MIT
//
// EXPERIMENTAL: may change or go in any version. docs/benchmarks/papers.md says where the method helps and
// where it harms.
//
// libdistwar_gs: the parts of a Levenberg-Marquardt solver for Gaussian splatting. The loss is a sum of squares of
// residuals, two for every pixel and channel. J is the derivative of the residuals by all stored parameters;
// it is never stored. These calls multiply by J and by its transpose, and sum products of its columns: the
// diagonal of J^T J, and its blocks for one Gaussian. Formulas: math.md, section 8. The rules of distwar_gs.h
// hold, but for arguments, which callers have checked: views are those of a gs_forward, without given colours, given
// covariances or antialiasing. Work is queued on the default stream.
//
// J = R C: C is the derivative of the image by the parameters, R that of the residuals by the image. For one
// view, after gs_forward:
//   gs_lm_gauss_newton_metric  R^T R of the whole loss; gs_loss returns its gradient
//   gs_lm_weights              R^T R, one weight per value, and R^T F of residuals of one pixel each, as in 3DGS-LM
//   gs_lm_tangents             derivative of every splat along a direction
//   gs_lm_forward              C times the direction, times a weight if given
//   gs_lm_metric_apply         R^T R times an image
//   gs_render_backward, then gs_lm_gradients                     C^T times an image
//   gs_lm_metric_diagonal, gs_lm_squares, gs_lm_add_diagonal     diag(C^T weight C), and each Gaussian's own blocks of it
//   gs_lm_add_units            damping, once for all views
// gs_lm_forward, gs_lm_squares and gs_lm_cached_backward, in place of gs_render_backward, read a cache of all pairs of a
// pixel and a splat that contribute, if there is one: gs_lm_cache_begin, gs_lm_cache_fill.
// The solver, on vectors of all parameters:
//   gs_lm_pcg_start, gs_lm_pcg_step, gs_lm_pcg_update, gs_lm_limit; as preconditioner gs_lm_factor_blocks and
//   gs_lm_precondition, or gs_lm_precondition_diagonal
#ifndef GS_LM_H
#define GS_LM_H

#include "distwar_gs.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    GS_LM_VIEWS = 8,                             // most views of one gs_lm_tangents or gs_lm_gradients
    GS_LM_TANGENT_STRIDE = GS_SPLAT_GRAD_STRIDE, // floats of a splat's derivative
    GS_LM_SQUARES = 6 * GS_CHANNELS + 13,        // sums of products that gs_lm_squares takes for a splat
    GS_LM_SQUARES_STRIDE = (GS_LM_SQUARES + 3) / 4 * 4 // floats of a splat's record of them
};

// ---- from images to residuals ----

typedef enum gs_lm_objective {
    GS_LM_L1_SSIM, // the loss of gs_loss
    GS_LM_L2       // squared differences, one residual per value
} gs_lm_objective;

// The residuals of 3DGS-LM, in which SSIM's slope is by the pixel's own colour alone.
// epsilon:  in (0, 1], keeps the slopes finite; GS_LM_L2 does not use it.
// result:   1 double on the device: the sum of squares of the residuals. For GS_LM_L1_SSIM it is
//           3 (pixels that count) (loss + epsilon), loss as of gs_loss.
// weight, gradient: [GS_CHANNELS][height][width], both or neither NULL. For every value, summed over its residuals:
//           the squared slope by the colour, and the residual times its slope; 0 where the mask is 0.
// Cost:     that of the value of gs_loss.
gs_status gs_lm_weights(const gs_comparison *images, gs_lm_objective objective, float epsilon, double *result,
                        float *weight, float *gradient);

// R^T R, the second derivative of half the sum of squares by the image (Gauss-Newton):
//   R^T R change = weight change - window * (coupling (window * change))
// window * is the weighted sum over SSIM's window. With coupling NULL, and weight by gs_lm_weights, R^T R is the weight
// alone: pass it to gs_lm_forward; the calls on a metric refuse it.
typedef struct gs_lm_metric {
    int32_t width, height;
    float *weight;   // [GS_CHANNELS][height][width]
    float *coupling; // [GS_CHANNELS][height][width], or NULL
    // The images' mask, [height][width], or NULL. Where it is 0 a value has no residual, and its change is
    // ignored.
    const uint8_t *mask;
} gs_lm_metric;

// Writes the arrays of a metric, of the images' size. Its residuals are sqrt(0.8 (|c - c*| + epsilon)) and
// sqrt(0.2 (1 - SSIM)); 1 - SSIM is the squared mean and the variance of c - c* over denominators that are
// taken as constant. Positive semidefinite. epsilon: in (0, 1], keeps the slopes finite.
// Cost: 1.3 times that of the value of gs_loss.
gs_status gs_lm_gauss_newton_metric(const gs_comparison *images, float epsilon, const gs_lm_metric *metric);
// diagonal: [GS_CHANNELS][height][width]
gs_status gs_lm_metric_diagonal(const gs_lm_metric *metric, float *diagonal);
// change = R^T R change, in place. change, scratch: [GS_CHANNELS][height][width].
gs_status gs_lm_metric_apply(const gs_lm_metric *metric, float *scratch, float *change);

// ---- products with C ----

// One of the views of a product, and a record for each of its splats.
typedef struct gs_lm_view {
    gs_camera camera;
    const gs_splat *splats; // [count], of gs_project
    float *records;         // [count][GS_LM_TANGENT_STRIDE]: tangents, or gs_splat_grad
} gs_lm_view;

// Writes the records of 1..GS_LM_VIEWS views. direction has the shape of gaussians. A record holds a splat's
// derivatives along it: of the colour (3), and of log alpha as the coefficients of 1, e0, e1, e0^2, e0 e1,
// e1^2 (6), with e as in gs_splat.conic_sqrt. Records of culled splats are not written. Cost: reads gaussians
// and direction once for all views.
gs_status gs_lm_tangents(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_view *views,
                         int count, const gs_gaussians *direction);

// The transpose. records: the moments of gs_render_backward. gradients, of the shape of gaussians: overwritten
// with the sum over the views, or added to unless add is 0. Agrees with gs_project_backward.
gs_status gs_lm_gradients(const gs_gaussians *gaussians, int sh_degree_used, const gs_lm_view *views,
                          int count, int add, const gs_gaussians *gradients);

// Every pair of a pixel and a splat that contributes there, sorted by splat: the intermediate gradients of 3DGS-LM. The
// arrays are the caller's, 20 bytes per pair and 8 per splat.
typedef struct gs_lm_cache {
    int64_t pairs;
    int64_t *begin;     // [count + 2]: splat i has pairs begin[i] .. begin[i + 1] - 1
    uint32_t *pixel;    // [pairs]: x + 65536 y
    float *share;       // [pairs]: T alpha, the derivative of the pixel's colour by the splat's
    float *d_log_alpha; // [GS_CHANNELS][pairs]: by log alpha, with what is behind
} gs_lm_cache;

// Once for a view after gs_forward: counts the pairs. Reads cache->begin, writes its array and cache->pairs. The caller
// then sets the other arrays and calls gs_lm_cache_fill once with the same view. Waits for the stream. Cost: a pass down
// the rays and a prefix sum.
gs_status gs_lm_cache_begin(const gs_view *view, gs_lm_cache *cache);
// Writes the pairs. Their order within a splat is undefined. Cost: a pass down the rays and 20 bytes per pair.
gs_status gs_lm_cache_fill(const gs_view *view, const gs_lm_cache *cache);

// The calls below take the view's cache, or NULL; it changes the order of the sums. Cost with a cache: they read 20
// bytes per pair. gs_lm_forward adds 12 bytes per pair by atomics, the others a record per splat and 2,048 pairs.

// change: [GS_CHANNELS][height][width], the derivative of the view's image along the direction of the
// tangents, times weight unless that is NULL. tangents: [count][GS_LM_TANGENT_STRIDE]. Cost without a cache: that of
// gs_render, and one tangent per splat.
gs_status gs_lm_forward(const gs_view *view, const gs_lm_cache *cache, const float *tangents,
                        const float *weight, float *change);

// Writes the moments of gs_render_backward, [count][GS_LM_TANGENT_STRIDE]. cache: not NULL. policy: as gs_lm_squares.
gs_status gs_lm_cached_backward(const gs_view *view, const gs_lm_cache *cache, const float *color_gradient,
                                distwar_policy policy, float *splat_grad);

// Writes squares, [count][GS_LM_SQUARES_STRIDE]: for each splat sums of weight d_i d_j over pixels and channels.
// d_i are the derivatives of a pixel's colour by the splat's colour and by the six coefficients of log alpha.
// Only the pairs i, j that the diagonal and the blocks need are summed. policy: atomic, serial, bfly or tree.
gs_status gs_lm_squares(const gs_view *view, const gs_lm_cache *cache, const float *weight,
                        distwar_policy policy, float *squares);

// Adds this view's part of diag(J^T J) to diagonal, which has the shape of the Gaussians; and to blocks, unless that is
// NULL, those of gs_lm_blocks_bytes.
gs_status gs_lm_add_diagonal(const gs_view *view, const float *squares, const gs_gaussians *diagonal,
                             float *blocks);

// Adds weight / unit^2 to diagonal where that is not 0. The unit of a mean is exp(mean log_scale), of a quaternion
// its length, of all else 1. Damping in proportion to J^T J alone does not bound parameters that hardly change the
// images; this keeps them within a few units.
gs_status gs_lm_add_units(const gs_gaussians *gaussians, float weight, const gs_gaussians *diagonal);

// Scales the update of each Gaussian, all but its colour, down to a length of at most radius. The length is
// the largest of: the change of a log_scale; the change of the mean in the Gaussian's own axes, none taken
// shorter than exp(-2) of the longest; the rotation in radians; half the change of the opacity's logit. So a
// few Gaussians with large updates do not shorten the step of all others.
gs_status gs_lm_limit(const gs_gaussians *gaussians, float radius, const gs_gaussians *update);

// ---- conjugate gradients ----

// Solves (A + lambda diagonal) x = right by conjugate gradients with preconditioner P. A vector has `values`
// floats in one allocation, in the same order everywhere; gaps between its arrays hold zeros. No call waits.
//   gs_lm_pcg_start; to start at another x than 0: x = that, residual -= (A + lambda diagonal) x
//   direction = P residual; residual^T direction is added to scalars[0]
//   for iteration = 0, 1, ...
//     product = A direction
//     gs_lm_pcg_step
//     z = P residual; residual^T z is added to scalars[2 iteration + 2]
//     gs_lm_pcg_update
// P is symmetric, positive definite and constant: gs_lm_precondition or gs_lm_precondition_diagonal.
typedef struct gs_lm_pcg {
    int64_t values;
    float *x, *residual, *direction; // [values]
    double *scalars;                 // [2 iterations + 1], on the device
} gs_lm_pcg;

// x = 0, residual = right (may be the same array), scalars = 0.
gs_status gs_lm_pcg_start(const gs_lm_pcg *pcg, const float *right, int iterations);
// One step along the direction: changes x and residual. Overwrites product.
gs_status gs_lm_pcg_step(const gs_lm_pcg *pcg, const float *diagonal, float lambda, int iteration,
                         float *product);
// The next direction, from z.
gs_status gs_lm_pcg_update(const gs_lm_pcg *pcg, const float *z, int iteration);
// z = residual / diagonal, 0 where diagonal is 0; *sum += residual^T z.
gs_status gs_lm_precondition_diagonal(const float *diagonal, const float *residual, int64_t values, float *z,
                                      double *sum);

// The diagonal blocks of A for every Gaussian: mean, log_scale and quaternion together; opacity; and the
// spherical harmonics of one channel, as the mean over channels. A far better preconditioner than diag(A):
// seen from similar directions, 16 harmonics are nearly dependent, as are shape and position of a thin splat.
// Order of calls: zeros, gs_lm_add_diagonal for every view, gs_lm_factor_blocks once. Bytes for count
// Gaussians: 768 each at degree 3.
size_t gs_lm_blocks_bytes(int64_t count, int sh_degree);
// Factors the blocks of A + lambda diagonal, in place. A row that depends on other rows of its block to
// within 1e-5 of its square, or is not finite, is dropped: 0 in z.
gs_status gs_lm_factor_blocks(const gs_gaussians *diagonal, float lambda, float *blocks);
// z = inverse of the factored blocks times residual; *sum += residual^T z. The harmonics of a channel are
// scaled by the inverse of the diagonal at that channel's constant term. diagonal: the one of
// gs_lm_factor_blocks.
gs_status gs_lm_precondition(const float *blocks, const gs_gaussians *diagonal, const gs_gaussians *residual,
                             const gs_gaussians *z, double *sum);

// *sum += the sum of weight a b; weight NULL: of a b. sum: on the device. For a step p that changes the image by c = C
// p, the sums g^T p and c^T (R^T R c) give the change of the objective that the model predicts.
gs_status gs_lm_add_dot(const float *weight, const float *a, const float *b, int64_t values, double *sum);
// to += scale weight from; weight NULL: scale from. With gs_lm_precondition_diagonal, which divides, it forms the
// weighted mean of the updates of several batches of images (3DGS-LM, equation 7).
gs_status gs_lm_add(float *to, float scale, const float *weight, const float *from, int64_t values);

#ifdef __cplusplus
}
#endif
#endif
