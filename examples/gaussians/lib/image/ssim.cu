// SPDX-License-Identifier: MIT
// SSIM of two images and its gradient, by the kernels of the loss.
#include "distwar_gs_ssim.h"
#include "loss.cuh"

using namespace gs;

static gs_status check_pair(const char *function, const gs_ssim_pair *pair) {
    GS_REQUIRE_OF(function, pair, "pair must be given");
    GS_TRY(check_size(function, pair->width, pair->height));
    GS_REQUIRE_OF(function, pair->planes >= 1 && pair->planes <= GS_SSIM_MAX_PLANES,
                  "planes must be in 1..65535");
    const dim3 grid = grid_of(pair->width, pair->height, pair->planes);
    GS_REQUIRE_OF(function, uint64_t(grid.x) * grid.y * grid.z < INT32_MAX, "the images are too large");
    return libgs_require(function,
                         !pair->valid || (pair->width >= GS_SSIM_WINDOW && pair->height >= GS_SSIM_WINDOW),
                         "width and height must be at least 11 if only windows inside the image count");
}

gs_status gs_ssim_bytes(const gs_ssim_pair *pair, size_t *bytes) {
    GS_TRY(check_pair(__func__, pair));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = loss_bytes(pair->width, pair->height, pair->planes);
    return GS_OK;
}

gs_status gs_ssim(const gs_ssim_pair *pair, void *workspace, size_t workspace_bytes, double *result,
                  float *gradient, gs_stream stream) {
    GS_TRY(check_pair(__func__, pair));
    GS_REQUIRE(pair->first && pair->second && result, "first, second and result must be given");
    const int32_t width = pair->width, height = pair->height, border = pair->valid ? 2 * RADIUS : 0;
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, loss_bytes(width, height, pair->planes)));
    const int64_t plane = int64_t(width) * height;
    const loss_images<float> in = {width, height, pair->planes,
                                   1,     plane,  {{pair->first, pair->second, nullptr, result, gradient}}};
    const loss_run run = {{0, 1, 0, pair->valid != 0},
                          {0, plane},
                          {double(pair->planes) * (width - border) * (height - border), 1, nullptr}};
    return launch_loss<false>(in, run, workspace, stream);
}
