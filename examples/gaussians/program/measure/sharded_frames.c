// SPDX-License-Identifier: MIT
#include "measure/sharded_frames.h"
#include "device.h"
#include "sharded_density.h"
#include "frames/device_gaussians.h"
#include <string.h>

bool sharded_frames_open(sharded_frames *f, ranks *group, const gs_gaussians *host, int sh_degree_used,
                         const float background[GS_CHANNELS]) {
    int64_t begin[RANKS_MAX + 1];
    const int own = ranks_own(group);
    shard_begin(group, host->count, begin);
    *f = (sharded_frames){
        .group = group,
        .gaussians = device_gaussians_from_rows(host, begin[own], begin[own + 1] - begin[own]),
        .sh_degree_used = sh_degree_used < host->sh_degree ? sh_degree_used : host->sh_degree};
    memcpy(f->background, background, sizeof f->background);
    f->shared = sharded_open(group);
    return f->shared != NULL;
}

void sharded_frames_close(sharded_frames *f) {
    sharded_close(f->shared);
    device_gaussians_close(&f->gaussians);
    for (int k = 0; k < MOST_STRIPS; k++) device_buffer_close(&f->strips[k].pixels);
    device_buffer_close(&f->received);
    device_buffer_close(&f->images);
    *f = (sharded_frames){0};
}

int sharded_frames_at_once(const ranks *group) {
    return ranks_count(group) < GS_MAX_VIEWS ? ranks_count(group) : GS_MAX_VIEWS;
}

int sharded_frames_alike(const gs_camera *cameras, size_t count, int most) {
    int n = 1;
    while (n < most && (size_t)n < count && cameras[n].width == cameras->width &&
           cameras[n].height == cameras->height && cameras[n].model == cameras->model)
        n++;
    return n;
}

// ---- a strip ----

// Rows of pixels.
static int64_t rows_of(const gs_rows *tiles, int32_t height) {
    const int64_t begin = (int64_t)tiles->begin * GS_TILE_SIZE, end = (int64_t)tiles->end * GS_TILE_SIZE;
    return (end < height ? end : height) - begin;
}

static int64_t strip_bytes(const sharded_frames *f, const gs_rows *tiles) {
    const gs_camera *const camera = &f->cameras[0];
    return GS_CHANNELS * (int64_t)sizeof(float) * camera->width * rows_of(tiles, camera->height);
}

// Between an image and a strip of it.
static bool copy_strip(const sharded_frames *f, const gs_rows *tiles, float *image, float *strip, bool packs,
                       gs_stream stream) {
    const int64_t width = f->cameras[0].width, height = f->cameras[0].height;
    const int64_t values = width * rows_of(tiles, (int32_t)height);
    for (int c = 0; c < GS_CHANNELS; c++) {
        float *const rows = image + (c * height + (int64_t)tiles->begin * GS_TILE_SIZE) * width;
        float *const part = strip + c * values;
        const cudaError_t status =
            cudaMemcpyAsync(packs ? part : rows, packs ? rows : part, (size_t)values * sizeof(float),
                            cudaMemcpyDeviceToDevice, stream);
        if (status != cudaSuccess) return ranks_fail_cuda(f->group, status, "copying rows of an image");
    }
    return true;
}

// Of sharded_batch: the image is gone after this.
static bool keep_strip(ranks *group, void *context, const sharded_image *image, gs_stream stream) {
    sharded_frames *const f = context;
    if (f->strip_count == MOST_STRIPS) return ranks_fail(group, "too many parts of images");
    frame_strip *const strip = &f->strips[f->strip_count++];
    strip->view = image->view, strip->rows = image->rows;
    float *const memory = device_buffer_reserve(&strip->pixels, (size_t)strip_bytes(f, &strip->rows));
    return copy_strip(f, &strip->rows, (float *)(uintptr_t)image->color, memory, true, stream);
}

// ---- to rank 0 ----

// What each rank tells each: the number of its strips, and of each view, first and last row of tiles.
enum { STRIP_VALUES = 3, TOLD = 1 + STRIP_VALUES * MOST_STRIPS };

static bool tell_strips(const sharded_frames *f, int views, int64_t *all) {
    int64_t own[RANKS_MAX * TOLD] = {0};
    for (int r = 0; r < ranks_count(f->group); r++) {
        int64_t *const to = own + r * TOLD;
        for (int k = 0; k < f->strip_count; k++) {
            const frame_strip *const strip = &f->strips[k];
            if (strip->view >= views) continue; // a view that nobody wants
            int64_t *const one = to + 1 + STRIP_VALUES * to[0]++;
            one[0] = strip->view, one[1] = strip->rows.begin, one[2] = strip->rows.end;
        }
    }
    return ranks_exchange_sizes(f->group, TOLD, own, all, NULL);
}

static bool is_strip(const sharded_frames *f, const int64_t *told, int k, gs_rows *rows) {
    if (k >= told[0]) return false;
    const int64_t *const one = told + 1 + STRIP_VALUES * k;
    *rows = (gs_rows){(int32_t)one[1], (int32_t)one[2]};
    return strip_bytes(f, rows) > 0;
}

// The k-th strips of all ranks go to rank 0 and into their images.
static bool gather_round(sharded_frames *f, const int64_t *all, int k) {
    const int own = ranks_own(f->group), count = ranks_count(f->group);
    int64_t zeros[RANKS_MAX] = {0}, sent[RANKS_MAX] = {0}, begin[RANKS_MAX] = {0}, bytes[RANKS_MAX] = {0},
            room = 0;
    gs_rows rows;
    if (is_strip(f, all + own * TOLD, k, &rows)) sent[0] = strip_bytes(f, &rows);
    for (int r = 0; r < count && own == 0; r++) {
        begin[r] = room;
        if (is_strip(f, all + r * TOLD, k, &rows)) room += bytes[r] = strip_bytes(f, &rows);
    }
    char *const received = own == 0 ? device_buffer_reserve(&f->received, (size_t)room) : NULL;
    const ranks_exchange exchange = {f->strips[k].pixels.memory, zeros, sent, received, begin, bytes};
    if (!ranks_all_to_all(f->group, &exchange, NULL)) return false;
    const int64_t values = GS_CHANNELS * (int64_t)f->cameras[0].width * f->cameras[0].height;
    for (int r = 0; r < count && own == 0; r++) {
        if (!is_strip(f, all + r * TOLD, k, &rows)) continue;
        float *const image = (float *)f->images.memory + all[r * TOLD + 1 + STRIP_VALUES * k] * values;
        if (!copy_strip(f, &rows, image, (float *)(void *)(received + begin[r]), false, NULL)) return false;
    }
    return ranks_wait(f->group, NULL);
}

bool sharded_frames_render(sharded_frames *f, const gs_camera *cameras, int views) {
    const int all_views = sharded_frames_at_once(f->group) > views ? sharded_frames_at_once(f->group) : views;
    int64_t told[RANKS_MAX * TOLD];
    // With fewer views than ranks some would be cut: the last one is rendered again instead.
    for (int v = 0; v < all_views; v++) f->cameras[v] = cameras[v < views ? v : views - 1];
    f->strip_count = 0;
    sharded_batch batch = {.gaussians = f->gaussians,
                           .sh_degree_used = f->sh_degree_used,
                           .views = all_views,
                           .cameras = f->cameras,
                           .policy = {DISTWAR_TREE, 0},
                           .loss = keep_strip,
                           .context = f};
    memcpy(batch.background, f->background, sizeof batch.background);
    if (!sharded_render(f->shared, &batch, NULL) || !tell_strips(f, views, told)) return false;
    if (ranks_own(f->group) == 0)
        device_buffer_reserve(&f->images, (size_t)views * GS_CHANNELS * (size_t)cameras->width *
                                              (size_t)cameras->height * sizeof(float));
    int64_t rounds = 0;
    for (int r = 0; r < ranks_count(f->group); r++)
        if (told[r * TOLD] > rounds) rounds = told[r * TOLD];
    for (int k = 0; k < rounds; k++)
        if (!gather_round(f, told, k)) return false;
    return true;
}

void sharded_frames_look(const sharded_frames *f, int view, frame *out) {
    const gs_camera *const camera = &f->cameras[view];
    out->view.camera = *camera;
    out->view.image.color =
        (float *)f->images.memory + (int64_t)view * GS_CHANNELS * camera->width * camera->height;
    out->compared = out->view.image.color;
}
