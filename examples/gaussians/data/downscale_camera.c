// SPDX-License-Identifier: MIT
#include "dataset.h"

void dataset_downscale_camera(gs_camera *camera, int factor) {
    // A pixel is now a block. Cutting off the right and the bottom does not move the others.
    const float block_x = (float)(factor < camera->width ? factor : camera->width);
    const float block_y = (float)(factor < camera->height ? factor : camera->height);
    camera->fx /= block_x;
    camera->cx /= block_x;
    camera->fy /= block_y;
    camera->cy /= block_y;
    camera->width = camera->width > factor ? camera->width / factor : 1; // as image_downscale does
    camera->height = camera->height > factor ? camera->height / factor : 1;
}
