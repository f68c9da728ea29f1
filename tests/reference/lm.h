// SPDX-License-Identifier: MIT
//
// Levenberg and Marquardt's method in its dense form: residuals, and the normal equations of an explicit J.
// docs/math.md section 8.
#ifndef REFERENCE_LM_H
#define REFERENCE_LM_H

#include "gs_lm.h"
#include "reference.h"

#ifdef __cplusplus
extern "C" {
#endif

// Residuals of a picture: [3][height][width] for GS_LM_L2, [2][3][height][width] for GS_LM_L1_SSIM.
int64_t reference_lm_residuals_of(int width, int height, gs_lm_objective objective);

// color, base: [3][height][width]. A pixel's SSIM sees its own value in color and its neighbours' in base, so
// that a residual depends on its own pixel's colour alone. sign: of base - target. residuals: overwritten.
void reference_lm_residuals(const double *color, const double *base, const uint8_t *target, int width,
                            int height, gs_lm_objective objective, double epsilon, const signed char *sign,
                            double *residuals);

// change^T R^T R change for R^T R of the whole loss (docs/math.md, section 8), window by window.
double reference_lm_square(const double *color, const uint8_t *target, int width, int height, double epsilon,
                           const double *change);

// Solves (J^T J + lambda diag(J^T J)) update = -J^T residuals, where jacobian[column * rows + row]. Columns
// of zeros get 0. By Cholesky's decomposition.
void reference_lm_solve(const double *jacobian, const double *residuals, int64_t rows, int64_t columns,
                        double lambda, double *update);

#ifdef __cplusplus
}
#endif
#endif
