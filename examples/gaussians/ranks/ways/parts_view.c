// SPDX-License-Identifier: MIT
// Pictures and quality of a scene in parts while it is trained: all ranks render a view, and each gets the whole image.
#include "device.h"
#include "frames/frame.h"
#include "parts.h"
#include <stdlib.h>
#include <string.h>

// Copies the rows that this rank has rendered to an image of the same size.
static bool keep_rows(ranks *group, void *context, const part_image *part, gs_stream stream) {
    float *const image = context;
    const int end = part->rows.end * GS_TILE_SIZE, last = end < part->height ? end : part->height;
    const size_t width = (size_t)part->width, plane = width * (size_t)part->height,
                 first = width * (size_t)(part->rows.begin * GS_TILE_SIZE),
                 bytes = (width * (size_t)last - first) * sizeof *image;
    for (size_t c = 0; c < GS_CHANNELS; c++)
        CUDA_OR_FAIL(group, cudaMemcpyAsync(image + c * plane + first, part->color + c * plane + first, bytes,
                                            cudaMemcpyDeviceToDevice, stream));
    return true;
}

// The frame gets the image of a view, on all ranks. Each pixel is 0 on all ranks but one, so that the sums are exact.
static bool render(const training_state *state, const shown_views *shown, size_t index, frame *f) {
    const gs_camera *const camera = &shown->views[index].camera;
    const int64_t values = GS_CHANNELS * (int64_t)camera->width * camera->height;
    const size_t bytes = (size_t)values * sizeof(float);
    float *const color = device_buffer_reserve(&f->color, bytes);
    part_batch batch = {.gaussians = state->gaussians,
                        .sh_degree_used = state->gaussians.sh_degree,
                        .views = 1,
                        .cameras = camera,
                        .policy = shown->policy,
                        .loss = keep_rows,
                        .context = color};
    const ranks_reduction sum = {color, values, RANKS_FLOAT, RANKS_SUM};
    memcpy(batch.background, shown->background, sizeof batch.background);
    device_clear(color, bytes);
    f->view.camera = *camera, f->view.image.color = color, f->compared[0] = color;
    return parts_render(state->kept, &batch, NULL) && ranks_all_reduce(state->group, &sum, NULL) &&
           ranks_wait(state->group, NULL);
}

// Ranks take turns to measure the images. The numbers are those of one GPU.
bool parts_measure(const training_state *state, const shown_views *shown, size_t first, size_t count,
                   quality *mean, quality *each) {
    enum { VALUES = 2 };
    ranks *const group = state->group;
    frame f = {0};
    double *const result = device_allocate(3 * sizeof *result), *const values = calloc(VALUES * count + 1,
                                                                                       sizeof *values);
    bool done = values || ranks_fail(group, "no memory for the quality of %zu views", count);
    fault why;
    for (size_t i = 0; i < count && done; i++) {
        picture_cache_next_step(shown->pictures);
        done = render(state, shown, first + i, &f);
        if (!done || i % (size_t)ranks_count(group) != (size_t)ranks_own(group)) continue;
        quality own;
        done = quality_of_frame(&f, picture_cache_view(shown->pictures, first + i), result, &own, &why) ||
               ranks_fail_with(group, &why);
        values[VALUES * i] = own.psnr, values[VALUES * i + 1] = own.ssim;
    }
    done = done && ranks_sum(group, values, VALUES * count);
    quality sum = {0, 0};
    for (size_t i = 0; i < count && done; i++) {
        const quality one = {values[VALUES * i], values[VALUES * i + 1]};
        if (each) each[i] = one;
        sum.psnr += one.psnr, sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    device_free(result);
    frame_close(&f);
    free(values);
    return done;
}

bool parts_picture(const training_state *state, const shown_views *shown, size_t index, image *out) {
    frame f = {0};
    fault why;
    *out = (image){0};
    const bool done = render(state, shown, index, &f) &&
                      (frame_picture(&f, out, &why) || ranks_fail_with(state->group, &why));
    frame_close(&f);
    return done;
}
