// SPDX-License-Identifier: MIT
// What goes over all Gaussians asks of its caller: a scene that Levenberg-Marquardt takes, and a vector of
// its shape.
#ifndef GS_LM_CHECK_H
#define GS_LM_CHECK_H

#include "gs.h"
#include "status.h"

inline bool complete(const gs_gaussians *g) {
    return g->mean && g->log_scale && g->quaternion && g->opacity_logit && g->sh;
}

// *in becomes what the kernels read. function: the caller, which the text names.
inline gs_status check_lm(const char *function, const gs_gaussians *gaussians, int sh_degree_used,
                          const gs_camera *camera, const gs_splat *splats, const gs_gaussians *other,
                          gs_gaussians *in, int *degree) {
    GS_REQUIRE_OF(function, gaussians && camera && other, "gaussians, camera and a vector must be given");
    GS_REQUIRE_OF(function, gaussians->count >= 0 && gaussians->count < INT32_MAX,
                  "count must be in 0..2^31 - 2");
    GS_REQUIRE_OF(function, gaussians->sh_degree >= 0 && gaussians->sh_degree <= GS_MAX_SH_DEGREE,
                  "sh_degree must be in 0..3");
    GS_REQUIRE_OF(function, sh_degree_used >= 0, "sh_degree_used must not be negative");
    GS_REQUIRE_OF(function, !gaussians->color && !gaussians->covariance,
                  "given colours and covariances are not parameters");
    GS_REQUIRE_OF(function, !gaussians->antialias, "antialiased scenes are not taken");
    GS_REQUIRE_OF(function, other->count == gaussians->count && other->sh_degree == gaussians->sh_degree,
                  "the vector must have the shape of gaussians");
    GS_REQUIRE_OF(function, gaussians->count == 0 || (complete(gaussians) && complete(other) && splats),
                  "every array of gaussians and the vector, and splats, must be given");
    *in = *gaussians;
    if (in->scale_modifier == 0) in->scale_modifier = 1;
    *degree = sh_degree_used < in->sh_degree ? sh_degree_used : in->sh_degree;
    return GS_OK;
}

#endif
