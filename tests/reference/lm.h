// SPDX-License-Identifier: MIT
//
// Levenberg-Marquardt in its dense form: residuals, and the normal equations of an explicit J.
// docs/developers/math.md section 8.
#ifndef REFERENCE_LM_H
#define REFERENCE_LM_H

#include "distwar_gs.h"
#include "reference.h"

#ifdef __cplusplus
extern "C" {
#endif

// The number of residuals of a picture, [2][3][height][width].
int64_t reference_lm_residuals_of(int width, int height);

// color, base: [3][height][width]. The SSIM of a pixel reads its own value from color and its neighbours'
// from base, so a residual depends on its own pixel's colour alone. mask: [height][width], or NULL; where it is 0 the
// residuals are 0. sign: of base - target. residuals: overwritten.
void reference_lm_residuals(const double *color, const double *base, const uint8_t *target,
                            const uint8_t *mask, int width, int height, double epsilon,
                            const signed char *sign, double *residuals);

// change^T R^T R change, with R^T R of the whole loss (docs/developers/math.md, section 8), computed window by window.
double reference_lm_square(const double *color, const uint8_t *target, const uint8_t *mask, int width,
                           int height, double epsilon, const double *change);

// Solves (J^T J + lambda diag(J^T J)) update = -J^T residuals by Cholesky decomposition. jacobian[column *
// rows + row]. update is 0 for columns of zeros.
void reference_lm_solve(const double *jacobian, const double *residuals, int64_t rows, int64_t columns,
                        double lambda, double *update);

#ifdef __cplusplus
}
#endif
#endif
