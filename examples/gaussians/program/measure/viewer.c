// SPDX-License-Identifier: MIT
#include "measure/viewer.h"
#include "device.h"
#include "device_buffer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static image rows_of(const image *picture, int first, int rows) {
    image out = *picture;
    out.height = rows;
    out.pixels += (size_t)first * (size_t)picture->width * (size_t)picture->channels;
    return out;
}

// The first pixel row of the part, and how many there are.
static int pixel_rows(const sharded_image *part, int *first) {
    const int end = part->rows.end * GS_TILE_SIZE;
    *first = part->rows.begin * GS_TILE_SIZE;
    return (end < part->height ? end : part->height) - *first;
}

// The part's rows as a picture.
static bool download_rows(ranks *group, const sharded_image *part, gs_stream stream, image *out) {
    int first;
    const int rows = pixel_rows(part, &first);
    const size_t width = (size_t)part->width, plane = width * (size_t)rows,
                 whole = width * (size_t)part->height;
    float *const color = malloc(GS_CHANNELS * plane * sizeof *color);
    fault why;
    if (!color) return ranks_fail(group, "no memory for a picture of %d x %d", part->width, rows);
    bool done = ranks_wait(group, stream);
    for (size_t c = 0; done && c < GS_CHANNELS; c++)
        device_download(color + c * plane, part->color + c * whole + (size_t)first * width,
                        plane * sizeof *color);
    done =
        done && (image_from_planes(color, part->width, rows, out, &why) || ranks_fail(group, "%s", why.text));
    free(color);
    return done;
}

static bool render(const viewer *v, const gs_camera *cameras, int32_t views,
                   bool (*look)(ranks *, void *, const sharded_image *, gs_stream), void *context) {
    sharded_batch batch = {.gaussians = *v->gaussians,
                           .sh_degree_used = v->sh_degree,
                           .views = views,
                           .cameras = cameras,
                           .policy = v->policy,
                           .loss = look,
                           .context = context};
    memcpy(batch.background, v->background, sizeof batch.background);
    return sharded_render(v->shared, &batch, NULL);
}

// ---- quality ----

enum { VALUES = 3 }; // of a view: the share of SSIM, squared differences, values that count

typedef struct measurement {
    const viewer *viewer;
    size_t first;            // view of the batch
    double *values;          // host, [count][VALUES]: of the parts that this rank renders
    device_buffer workspace; // of gs_share_loss, after its 3 results
} measurement;

static bool measure_part(ranks *group, void *context, const sharded_image *part, gs_stream stream) {
    enum { RESULT_ROOM = 256 };
    measurement *const m = context;
    picture_cache *const pictures = m->viewer->pictures;
    const size_t index = m->first + (size_t)part->view;
    if (!picture_cache_has(pictures, index) && !ranks_wait(group, stream)) return false;
    const target_view *const view = picture_cache_view(pictures, index);
    const gs_comparison images = {part->width, part->height, part->color, view->pixels, view->mask};
    double result[3]; // loss, mean absolute difference, SSIM
    size_t bytes = 0;
    GS_OR_FAIL(group, gs_loss_bytes(part->width, part->height, &bytes));
    char *const memory = device_buffer_reserve(&m->workspace, RESULT_ROOM + bytes);
    GS_OR_FAIL(group, gs_share_loss(&images, part->rows, memory + RESULT_ROOM, bytes,
                                    (double *)(void *)memory, NULL, stream));
    image shown;
    if (!download_rows(group, part, stream, &shown)) return false;
    device_download(result, memory, sizeof result);
    int first;
    const int rows = pixel_rows(part, &first);
    const image wanted = rows_of(view->picture, first, rows);
    const uint8_t *const mask = view->mask_on_host;
    uint64_t sum, counted;
    image_squared_error(&shown, &wanted, mask ? mask + (size_t)first * (size_t)part->width : NULL, &sum,
                        &counted);
    double *const to = m->values + VALUES * part->view;
    to[0] += isnan(result[2]) ? NAN : result[2]; // of colours that overflow: NaN without a sign
    to[1] += (double)sum;
    to[2] += (double)counted;
    image_close(&shown);
    return true;
}

int viewer_alike(const gs_camera *cameras, size_t count, int64_t most) {
    int n = 1;
    while (n < most && (size_t)n < count && cameras[n].width == cameras->width &&
           cameras[n].height == cameras->height && cameras[n].model == cameras->model)
        n++;
    return n;
}

static bool measure_all(measurement *m, size_t first, size_t count) {
    const viewer *const v = m->viewer;
    double *const values = m->values;
    gs_camera cameras[GS_MAX_VIEWS];
    for (size_t at = first; at < first + count;) {
        size_t listed = 0;
        for (; listed < GS_MAX_VIEWS && at + listed < first + count; listed++)
            cameras[listed] = v->views[at + listed].camera;
        const int32_t views = viewer_alike(cameras, listed, v->batch);
        m->first = at;
        m->values = values + VALUES * (at - first);
        picture_cache_next_step(v->pictures);
        if (!render(v, cameras, views, measure_part, m)) return false;
        at += (size_t)views;
    }
    m->values = values;
    return true;
}

static bool measure_shared(const viewer *v, size_t first, size_t count, quality *mean, quality *each) {
    measurement m = {.viewer = v, .values = calloc(VALUES * count + 1, sizeof(double))};
    double *const values = m.values;
    if (!values) return ranks_fail(v->group, "no memory for the quality of %zu views", count);
    const bool done = measure_all(&m, first, count) && ranks_sum(v->group, values, VALUES * count);
    quality sum = {0, 0};
    for (size_t i = 0; i < count && done; i++) {
        const double *const of = values + VALUES * i;
        const quality one = {image_psnr_of(of[1], of[2]), of[0]};
        if (each) each[i] = one;
        sum.psnr += one.psnr;
        sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    device_buffer_close(&m.workspace);
    free(values);
    return done;
}

// One after another.
static bool measure_cached(const viewer *v, size_t first, size_t count, quality *mean, quality *each,
                           fault *why) {
    quality sum = {0, 0};
    for (size_t i = 0; i < count; i++) {
        quality one;
        picture_cache_next_step(v->pictures);
        target_view view = *picture_cache_view(v->pictures, first + i);
        view.camera = v->views[first + i].camera; // it may have moved
        if (!quality_measure(v->gaussians, &view, 1, v->background, &one, NULL, why)) return false;
        if (each) each[i] = one;
        sum.psnr += one.psnr, sum.ssim += one.ssim;
    }
    *mean = (quality){sum.psnr / (double)count, sum.ssim / (double)count};
    return true;
}

bool viewer_measure(const viewer *v, size_t first, size_t count, quality *mean, quality *each, fault *why) {
    if (v->pictures && !v->shared) return measure_cached(v, first, count, mean, each, why);
    return v->shared ? measure_shared(v, first, count, mean, each) || fail(why, "%s", ranks_error(v->group))
                     : quality_measure(v->gaussians, v->views + first, count, v->background, mean, each, why);
}

// ---- pictures ----

int viewer_at_once(const ranks *group) {
    return ranks_count(group) < GS_MAX_VIEWS ? ranks_count(group) : GS_MAX_VIEWS;
}

typedef struct kept_pictures {
    image *out;
    int32_t wanted;
} kept_pictures;

// The picture's bytes of this rank's part; zeros elsewhere.
static bool keep_part(ranks *group, void *context, const sharded_image *part, gs_stream stream) {
    const kept_pictures *const kept = context;
    image shown;
    int first;
    if (part->view >= kept->wanted) return true;
    if (!download_rows(group, part, stream, &shown)) return false;
    const size_t row = 3 * (size_t)part->width;
    const int rows = pixel_rows(part, &first);
    memcpy(kept->out[part->view].pixels + (size_t)first * row, shown.pixels, (size_t)rows * row);
    image_close(&shown);
    return true;
}

// Each byte is 0 on all ranks but one, so that integers of eight bytes add up without a carry.
static bool combine_bytes(const viewer *v, image *picture) {
    const size_t count = 3 * (size_t)picture->width * (size_t)picture->height, words = (count + 7) / 8;
    if (ranks_count(v->group) == 1) return true;
    char *const memory = device_allocate(8 * words);
    device_clear(memory, 8 * words);
    device_upload(memory, picture->pixels, count);
    const ranks_reduction sum = {memory, (int64_t)words, RANKS_INT64, RANKS_SUM};
    const bool done = ranks_all_reduce(v->group, &sum, NULL) && ranks_wait(v->group, NULL);
    if (done) device_download(picture->pixels, memory, count);
    device_free(memory);
    return done;
}

bool viewer_pictures(const viewer *v, const gs_camera *cameras, int views, int wanted, image *out,
                     fault *why) {
    kept_pictures kept = {out, wanted};
    bool done = true;
    for (int k = 0; k < wanted; k++) out[k] = (image){0};
    for (int k = 0; k < wanted && done; k++) {
        done = image_open(&out[k], cameras->width, cameras->height, 3, why) || ranks_fail_with(v->group, why);
        if (done) memset(out[k].pixels, 0, 3 * (size_t)cameras->width * (size_t)cameras->height);
    }
    done = done && render(v, cameras, views, keep_part, &kept);
    for (int k = 0; k < wanted && done; k++) done = combine_bytes(v, &out[k]);
    for (int k = 0; k < wanted && !done; k++) image_close(&out[k]);
    return done || fail(why, "%s", ranks_error(v->group));
}

bool viewer_picture(const viewer *v, size_t index, image *out, fault *why) {
    const gs_camera *const camera = &v->views[index].camera;
    if (v->shared) return viewer_pictures(v, camera, 1, 1, out, why);
    frame f = {0};
    frame_render(&f, v->gaussians, v->gaussians->sh_degree, camera, v->background);
    const bool done = frame_picture(&f, out, why);
    frame_close(&f);
    return done;
}
