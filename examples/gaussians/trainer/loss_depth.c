// SPDX-License-Identifier: MIT
// The depth of a view beside its map, as a term of the loss.
#include "trainer_parts.h"

bool has_depth(const target_view *view) {
    return view->depth || view->depth_on_host;
}

void queue_depth(trainer *t, const step_views *of, int32_t v) {
    const target_view *const view = of->view[v];
    const int64_t place = t->waiting + of->before + v;
    if (t->one.f.with_depth)
        frame_depth_loss(&t->one.f, view->depth, view->mask, (float)t->weights[place].depth,
                         t->results[place].depth, true);
}

// Pixels begin .. end - 1 of the image get the depth of the map: they do not differ.
static bool agree_with_map(trainer *t, const sharded_image *image, const target_view *view, int64_t begin,
                           int64_t end, gs_stream stream) {
    const size_t bytes = end > begin ? (size_t)(end - begin) * sizeof(float) : 0;
    const cudaError_t status =
        cudaMemcpyAsync(image->depth + begin, view->depth + begin, bytes, cudaMemcpyDeviceToDevice, stream);
    return status == cudaSuccess || ranks_fail_cuda(t->group, status, "copying a depth map");
}

// The map is compared whole, as its pixels that count are counted; other rows do not differ.
bool queue_depth_rows(trainer *t, const sharded_image *image, const target_view *view, gs_stream stream) {
    const int64_t width = image->width, pixels = width * image->height, row = GS_TILE_SIZE * width;
    const int64_t place = t->waiting + image->view;
    size_t bytes = 0;
    if (!image->depth) return true;
    if (!view->depth) {
        const cudaError_t status = cudaMemsetAsync(image->d_depth, 0, (size_t)pixels * sizeof(float), stream);
        return status == cudaSuccess || ranks_fail_cuda(t->group, status, "clearing a gradient");
    }
    if (!agree_with_map(t, image, view, 0, image->rows.begin * row, stream) ||
        !agree_with_map(t, image, view, image->rows.end * row, pixels, stream))
        return false;
    const gs_depth_comparison depths = {image->width, image->height, image->depth,
                                        view->depth,  view->mask,    (float)t->weights[place].depth};
    GS_OR_FAIL(t->group, gs_depth_loss_bytes(image->width, image->height, &bytes));
    void *const workspace = device_buffer_reserve(&t->several.loss_workspace, bytes);
    GS_OR_FAIL(t->group,
               gs_depth_loss(&depths, workspace, bytes, t->results[place].depth, image->d_depth, stream));
    return true;
}
