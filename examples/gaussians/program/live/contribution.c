// SPDX-License-Identifier: MIT
#include "live/contribution.h"
#include "arrays.h"
#include "device.h"
#include "frame.h"
#include <stdlib.h>
#include <string.h>

typedef struct share {
    double sum;
    int64_t index;
} share;

static int compare_shares(const void *a, const void *b) { // the largest first
    const share *x = a, *y = b;
    if (x->sum != y->sum) return x->sum > y->sum ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static int compare_indices(const void *a, const void *b) {
    const share *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

// The gradient of the sum of an image's red by a splat's red is the splat's contribution.
static bool add_contributions(frame *f, const gs_gaussians *device, const gs_camera *camera,
                              gs_splat_grad *splat_grad, share *shares, fault *why) {
    const size_t pixels = (size_t)camera->width * (size_t)camera->height;
    float *red = calloc(GS_CHANNELS * pixels, sizeof *red);
    if (!red) return fail(why, "no memory for a picture of %zu pixels", pixels);
    for (size_t i = 0; i < pixels; i++) red[i] = 1;
    frame_render(f, device, 0, camera, (const float[GS_CHANNELS]){0});
    frame_set_gradient(f, red);
    free(red);
    frame_render_backward(f, (distwar_policy){DISTWAR_FIXED, 0}); // the same bits in every run
    device_download(splat_grad, f->gradient.splat_grad, (size_t)device->count * sizeof *splat_grad);
    for (int64_t i = 0; i < device->count; i++) shares[i].sum += (double)splat_grad[i].color[0];
    return true;
}

static void keep(gs_gaussians *scene, const share *shares, int64_t count) {
    const gs_arrays arrays = gs_arrays_of(scene);
    for (int a = 0; a < GS_ARRAYS; a++)
        for (int64_t i = 0; i < count; i++)
            memmove(arrays.of[a] + i * arrays.width[a], arrays.of[a] + shares[i].index * arrays.width[a],
                    (size_t)arrays.width[a] * sizeof(float));
    scene->count = count;
}

bool keep_contributing(gs_gaussians *scene, const gs_gaussians *device, int64_t most,
                       const gs_camera *cameras, size_t camera_count, fault *why) {
    const size_t count = (size_t)scene->count;
    if (scene->count <= most) return true;
    share *shares = calloc(count, sizeof *shares);
    gs_splat_grad *splat_grad = calloc(count, sizeof *splat_grad);
    bool done = shares && splat_grad;
    if (!done) fail(why, "no memory for the contributions of %zu Gaussians", count);
    if (done) {
        for (size_t i = 0; i < count; i++) shares[i].index = (int64_t)i;
        gs_gaussians copy = device ? (gs_gaussians){0} : device_gaussians_from(scene);
        frame f = {0};
        for (size_t c = 0; done && c < camera_count; c++)
            done = add_contributions(&f, device ? device : &copy, &cameras[c], splat_grad, shares, why);
        frame_close(&f);
        device_gaussians_close(&copy);
    }
    if (done) {
        qsort(shares, count, sizeof *shares, compare_shares);
        qsort(shares, (size_t)most, sizeof *shares, compare_indices);
        keep(scene, shares, most);
    }
    free(shares);
    free(splat_grad);
    return done;
}
