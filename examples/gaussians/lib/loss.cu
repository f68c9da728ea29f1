// SPDX-License-Identifier: MIT
// 0.8 L1 + 0.2 (1 - SSIM) and its gradient (docs/math.md, section 5).
#include "loss.cuh"

using namespace gs;

gs_status gs_loss_bytes(int32_t width, int32_t height, size_t *bytes) {
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(bytes, "bytes must be given");
    *bytes = loss_bytes(width, height, GS_CHANNELS);
    return GS_OK;
}

gs_status gs_loss(const gs_comparison *compared, void *workspace, size_t workspace_bytes, double *result,
                  float *color_gradient, gs_stream stream) {
    GS_TRY(check_comparison(__func__, compared));
    GS_REQUIRE(result, "result must be given");
    size_t needed = 0;
    GS_TRY(gs_loss_bytes(compared->width, compared->height, &needed));
    GS_TRY(check_workspace(__func__, workspace, workspace_bytes, needed));
    const images in = images_of(*compared);
    const loss_run run = {{L1_WEIGHT, -SSIM_WEIGHT, SSIM_WEIGHT, false},
                          GS_CHANNELS,
                          double(GS_CHANNELS) * in.width * in.height};
    const auto queue = compared->mask ? launch_loss<true, uint8_t> : launch_loss<false, uint8_t>;
    return queue(in, run, workspace, result, color_gradient, stream);
}
