// SPDX-License-Identifier: MIT
#include "measure/sharded_viewer.h"
#include "device.h"
#include "device_buffer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GS_OR_FAIL(call)                                                                                     \
    do {                                                                                                     \
        if ((call) != GS_OK) return ranks_fail(group, "%s", gs_last_error());                                \
    } while (0)

static bool download_picture(ranks *group, const sharded_image *from, gs_stream stream, image *out) {
    const size_t values = GS_CHANNELS * (size_t)from->width * (size_t)from->height;
    float *const color = malloc(values * sizeof *color);
    fault why;
    if (!color) return ranks_fail(group, "no memory for a picture of %d x %d", from->width, from->height);
    bool done = ranks_wait(group, stream);
    if (done) {
        device_download(color, from->color, values * sizeof *color);
        done = image_from_planes(color, from->width, from->height, out, &why) ||
               ranks_fail(group, "%s", why.text);
    }
    free(color);
    return done;
}

static bool render(const sharded_viewer *v, const gs_camera *cameras, int32_t views,
                   bool (*look)(ranks *, void *, const sharded_image *, gs_stream), void *context) {
    sharded_batch batch = {.gaussians = *v->gaussians,
                           .sh_degree_used = v->gaussians->sh_degree,
                           .views = views,
                           .cameras = cameras,
                           .policy = v->policy,
                           .loss = look,
                           .context = context};
    memcpy(batch.background, v->background, sizeof batch.background);
    return sharded_render(v->shared, &batch, NULL);
}

// ---- quality ----

typedef struct measurement {
    const sharded_viewer *viewer;
    size_t first;   // view of the batch
    double *values; // host, [count][2]: PSNR and SSIM of the views that this rank measures; 0 of others
    device_buffer workspace; // of gs_loss, after its 3 results
} measurement;

static bool measure_image(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    enum { RESULT_ROOM = 256 };
    measurement *const m = context;
    if (!image->counts) return true;
    const target_view *const view = picture_cache_view(m->viewer->pictures, m->first + (size_t)image->view);
    const gs_comparison images = {image->width, image->height, image->color, view->pixels, view->mask};
    double result[3]; // loss, mean absolute difference, SSIM
    size_t bytes = 0;
    GS_OR_FAIL(gs_loss_bytes(image->width, image->height, &bytes));
    char *const memory = device_buffer_reserve(&m->workspace, RESULT_ROOM + bytes);
    GS_OR_FAIL(gs_loss(&images, memory + RESULT_ROOM, bytes, (double *)(void *)memory, NULL, stream));
    struct image picture;
    if (!download_picture(group, image, stream, &picture)) return false;
    device_download(result, memory, sizeof result);
    double *const to = m->values + 2 * image->view;
    to[0] = image_masked_psnr(&picture, view->picture, view->mask_on_host);
    to[1] = isnan(result[2]) ? NAN : result[2]; // of colours that overflow: NaN without a sign
    image_close(&picture);
    return true;
}

// Views from `first` on that can be rendered at once.
static int32_t views_at_once(const sharded_viewer *v, size_t first, size_t end, gs_camera *cameras) {
    int64_t n = 0;
    for (; n < v->batch && first + (size_t)n < end; n++) {
        const gs_camera *const camera = &v->pictures->pictures[first + (size_t)n].view.camera;
        if (n > 0 && (camera->width != cameras[0].width || camera->height != cameras[0].height ||
                      camera->model != cameras[0].model))
            break;
        cameras[n] = *camera;
    }
    return (int32_t)n;
}

static bool measure_all(measurement *m, size_t first, size_t count) {
    const sharded_viewer *const v = m->viewer;
    double *const values = m->values;
    gs_camera cameras[GS_MAX_VIEWS];
    for (size_t at = first; at < first + count;) {
        const int32_t views = views_at_once(v, at, first + count, cameras);
        m->first = at;
        m->values = values + 2 * (at - first);
        picture_cache_next_step(v->pictures);
        if (!render(v, cameras, views, measure_image, m)) return false;
        at += (size_t)views;
    }
    m->values = values;
    return true;
}

// The values of all ranks.
static bool share_values(const sharded_viewer *v, double *values, size_t count) {
    const size_t bytes = count * sizeof *values;
    double *const memory = device_allocate(bytes);
    device_upload(memory, values, bytes);
    const ranks_reduction sum = {memory, (int64_t)count, RANKS_DOUBLE, RANKS_SUM};
    const bool done = ranks_all_reduce(v->group, &sum, NULL) && ranks_wait(v->group, NULL);
    if (done) device_download(values, memory, bytes);
    device_free(memory);
    return done;
}

bool sharded_quality_measure(const sharded_viewer *v, size_t first, size_t count, quality *mean,
                             quality *each) {
    measurement m = {.viewer = v, .values = calloc(2 * count + 1, sizeof(double))};
    double *const values = m.values;
    if (!values) return ranks_fail(v->group, "no memory for the quality of %zu views", count);
    const bool done = measure_all(&m, first, count) && share_values(v, values, 2 * count);
    quality sum = {0, 0};
    for (size_t i = 0; i < count && done; i++) {
        const quality one = {values[2 * i], values[2 * i + 1]};
        if (each) each[i] = one;
        sum.psnr += one.psnr;
        sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    device_buffer_close(&m.workspace);
    free(values);
    return done;
}

// ---- a picture ----

static bool keep_image(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    return !image->counts || download_picture(group, image, stream, context);
}

// The rank that renders the first row.
static int first_row_on(const sharded_viewer *v, int32_t height) {
    shared_out out;
    share_out(ranks_count(v->group), 1, (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE, &out);
    int r = 0;
    while (out.begin[r + 1] == 0) r++;
    return r;
}

bool sharded_picture(const sharded_viewer *v, size_t index, image *out) {
    const gs_camera *const camera = &v->pictures->pictures[index].view.camera;
    const int root = first_row_on(v, camera->height);
    const int64_t bytes = 3 * (int64_t)camera->width * camera->height;
    fault why;
    *out = (image){0};
    if (!render(v, camera, 1, keep_image, out)) return false;
    if (ranks_own(v->group) != root && !image_open(out, camera->width, camera->height, 3, &why))
        return ranks_fail(v->group, "%s", why.text);
    uint8_t *const memory = device_allocate((size_t)bytes);
    device_upload(memory, out->pixels, (size_t)bytes);
    const bool done = ranks_broadcast(v->group, memory, bytes, root, NULL) && ranks_wait(v->group, NULL);
    if (done) device_download(out->pixels, memory, (size_t)bytes);
    device_free(memory);
    return done;
}
