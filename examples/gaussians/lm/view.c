// SPDX-License-Identifier: MIT
#include "view.h"
#include "device.h"
#include "frame.h"
#include "rows.h"
#include <assert.h>
#include <string.h>

// ---- times ----

const char *lm_part_name(lm_part part) {
    static const char *const names[LM_PARTS] = {"pictures",     "diagonal", "Jp",          "J^Tu blend",
                                                "J^Tu project", "solver",   "build cache", "sort cache"};
    return names[part];
}

void lm_clock_open(lm_clock *clock) {
    memset(clock, 0, sizeof *clock);
    clock->measures = strcmp(gs_backend(), "cuda") == 0;
    for (int i = 0; clock->measures && i < LM_CLOCK_MARKS; i++) DEVICE_CHECK(cudaEventCreate(&clock->at[i]));
}

void lm_clock_close(lm_clock *clock) {
    for (int i = 0; clock->measures && i < LM_CLOCK_MARKS; i++) DEVICE_CHECK(cudaEventDestroy(clock->at[i]));
    clock->measures = false;
}

void lm_clock_mark(lm_clock *clock, lm_part part) {
    if (!clock->measures) return;
    if (clock->marks == LM_CLOCK_MARKS) lm_clock_stop(clock);
    clock->part[clock->marks] = part;
    DEVICE_CHECK(cudaEventRecord(clock->at[clock->marks++], NULL));
}

void lm_clock_stop(lm_clock *clock) {
    if (!clock->measures || clock->marks == 0) return;
    DEVICE_CHECK(cudaEventSynchronize(clock->at[clock->marks - 1]));
    for (int i = 1; i < clock->marks; i++) {
        float elapsed;
        DEVICE_CHECK(cudaEventElapsedTime(&elapsed, clock->at[i - 1], clock->at[i]));
        clock->milliseconds[clock->part[i]] += elapsed;
    }
    clock->marks = 0;
}

// ---- views ----

static size_t pixels_of(const gs_camera *camera) {
    return (size_t)camera->width * (size_t)camera->height;
}

// [channels][height][width]
static size_t plane_bytes(const gs_camera *camera, size_t channels) {
    return channels * pixels_of(camera) * sizeof(float);
}

static void *reserve(lm_scene *s, int buffer, size_t bytes) {
    return device_buffer_reserve(&s->buffers[buffer], bytes);
}

// The records of the n-th of the views that are solved together.
static float *records(lm_scene *s, size_t n) {
    const size_t values = (size_t)s->gaussians->count * GS_LM_TANGENT_STRIDE;
    return (float *)reserve(s, LM_RECORDS, GS_LM_VIEWS * values * sizeof(float)) + n * values;
}

static float *change_of(lm_scene *s, const gs_camera *camera) {
    return reserve(s, LM_CHANGE, plane_bytes(camera, GS_CHANNELS));
}

static void close_all(device_buffer *buffers, int count) {
    for (int i = 0; i < count; i++) device_buffer_close(&buffers[i]);
}

static size_t bytes_of_all(const device_buffer *buffers, int count) {
    size_t bytes = 0;
    for (int i = 0; i < count; i++) bytes += buffers[i].bytes;
    return bytes;
}

void lm_scene_close(lm_scene *s) {
    gs_view_free(&(gs_view){.memory = s->memory}, NULL);
    close_all(s->buffers, LM_BUFFERS);
}

size_t lm_scene_bytes(const lm_scene *s) {
    return bytes_of_all(s->buffers, LM_BUFFERS) + s->memory.bytes + s->scratch;
}

void lm_view_close(lm_view *v) {
    close_all(v->kept, LM_KEPT);
}

size_t lm_view_bytes(const lm_view *v) {
    return bytes_of_all(v->kept, LM_KEPT);
}

// The residuals are those of the whole loss, whose SSIM couples the pixels of a window.
static bool is_coupled(const lm_scene *s) {
    return s->objective == GS_LM_L1_SSIM && !s->centre_only;
}

// The sum of squared residuals. gradient: half of its gradient; metric and gradient both or neither NULL.
static double residuals(lm_scene *s, const target_view *target, const float *color,
                        const gs_lm_metric *metric, float *gradient) {
    const gs_camera *camera = &target->camera;
    const gs_comparison images = {camera->width, camera->height, color, target->pixels, target->mask};
    const int64_t values = GS_CHANNELS * (int64_t)pixels_of(camera);
    const double counted = (double)GS_CHANNELS * (double)target->counted;
    double *result = reserve(s, LM_RESULT, 3 * sizeof(double)), value;
    if (is_coupled(s)) {
        GS_CHECK(gs_loss(&(gs_loss_image){.images = images, .result = result, .color_gradient = gradient}, 1,
                         NULL));
        if (gradient) { // n (loss + epsilon) is the sum of squares
            GS_CHECK(gs_lm_add(gradient, (float)(counted / 2 - 1), NULL, gradient, values));
            GS_CHECK(gs_lm_gauss_newton_metric(&images, s->epsilon, metric));
        }
    } else {
        float *const weight = metric ? metric->weight : NULL;
        GS_CHECK(gs_lm_weights(&images, s->objective, s->epsilon, result, weight, gradient));
    }
    lm_clock_mark(s->clock, LM_PICTURES);
    device_download(&value, result, sizeof value);
    return is_coupled(s) ? counted * (value + (double)s->epsilon) : value;
}

// The view, rendered: its splats, lists and image lie in the scene's memory.
static gs_view rendered(lm_scene *s, const target_view *target) {
    const gs_camera *camera = &target->camera;
    gs_view view = {.gaussians = *s->gaussians,
                    .camera = *camera,
                    .sh_degree_used = s->gaussians->sh_degree,
                    .memory = s->memory};
    memcpy(view.background, s->background, sizeof view.background);
    view.splats = reserve(s, LM_SPLATS, (size_t)s->gaussians->count * sizeof(gs_splat));
    view.image = (gs_image){.color = reserve(s, LM_COLOR, plane_bytes(camera, GS_CHANNELS)),
                            .transmittance = reserve(s, LM_TRANSMITTANCE, plane_bytes(camera, 1)),
                            .n_contrib = reserve(s, LM_N_CONTRIB, pixels_of(camera) * sizeof(uint32_t))};
    GS_CHECK(gs_forward(&view, NULL));
    s->memory = view.memory;
    if (s->scratch < libgs_bin_bytes(&view)) s->scratch = libgs_bin_bytes(&view);
    return view;
}

double lm_picture_objective(lm_scene *s, const target_view *target) {
    const gs_view view = rendered(s, target);
    return residuals(s, target, view.image.color, NULL, NULL);
}

// A copy in the view's memory of what lies in the scene's, which the next view overwrites; NULL: nothing is kept.
static void *keep(device_buffer *buffer, const void *from, size_t bytes) {
    if (bytes == 0) return NULL;
    void *const to = device_buffer_reserve(buffer, bytes);
    DEVICE_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NULL));
    return to;
}

// NULL: the view has none.
static const gs_lm_cache *cache_of(const lm_view *v) {
    return v->cache.begin ? &v->cache : NULL;
}

// Writes the moments to records(s, n).
static void backward(const lm_view *v, lm_scene *s, size_t n, const float *picture) {
    const gs_gradient gradient = {.color = picture, .splat_grad = (gs_splat_grad *)(void *)records(s, n)};
    if (cache_of(v))
        GS_CHECK(gs_lm_cached_backward(&v->view, &v->cache, picture, s->policy, records(s, n)));
    else
        GS_CHECK(gs_render_backward(&v->view, &gradient, s->policy, NULL));
    lm_clock_mark(s->clock, LM_BACKWARD);
}

static void project_backward(const gs_lm_view *views, size_t count, lm_scene *s, bool add,
                             const gs_gaussians *product) {
    GS_CHECK(gs_lm_gradients(s->gaussians, s->gaussians->sh_degree, views, (int)count, add, product));
    lm_clock_mark(s->clock, LM_PROJECTION);
}

static size_t begin_bytes(const lm_scene *s) {
    return (size_t)(s->gaussians->count + 2) * sizeof(int64_t);
}

// A cache whose pairs are counted, with its begin in the buffer.
static gs_lm_cache counted_cache(lm_scene *s, const gs_view *view, device_buffer *begin) {
    gs_lm_cache cache = {.begin = device_buffer_reserve(begin, begin_bytes(s))};
    GS_CHECK(gs_lm_cache_begin(view, &cache));
    lm_clock_mark(s->clock, LM_SORT);
    return cache;
}

static size_t pairs_bytes(const gs_lm_cache *cache) {
    return (size_t)cache->pairs * (2 + GS_CHANNELS) * sizeof(float);
}

static void build_cache(lm_view *v, lm_scene *s) {
    gs_lm_cache *const cache = &v->cache;
    *cache = counted_cache(s, &v->view, &v->kept[LM_CACHE_BEGIN]);
    cache->share = device_buffer_reserve(&v->kept[LM_CACHE_PAIRS], pairs_bytes(cache));
    cache->d_log_alpha = cache->share + cache->pairs;
    cache->pixel = (uint32_t *)(void *)(cache->d_log_alpha + GS_CHANNELS * cache->pairs);
    GS_CHECK(gs_lm_cache_fill(&v->view, cache));
    lm_clock_mark(s->clock, LM_BUILD);
}

// What an open view keeps of a rendered one, without its cache.
static void sizes_of(const lm_scene *s, const gs_view *view, size_t bytes[LM_KEPT]) {
    const gs_camera *const camera = &view->camera;
    const size_t tiles = (size_t)view->ranges.tiles_x * (size_t)view->ranges.tiles_y;
    memset(bytes, 0, LM_KEPT * sizeof *bytes);
    bytes[LM_SPLATS] = (size_t)s->gaussians->count * sizeof(gs_splat);
    bytes[LM_METRIC] = (is_coupled(s) ? 2 : 1) * plane_bytes(camera, GS_CHANNELS); // weight, coupling
    bytes[LM_TRANSMITTANCE] = plane_bytes(camera, 1);
    bytes[LM_N_CONTRIB] = pixels_of(camera) * sizeof(uint32_t);
    bytes[LM_TILE_BEGIN] = (tiles + 1) * sizeof(int64_t);
    bytes[LM_SPLAT_INDEX] = (size_t)view->ranges.isects * sizeof(uint32_t);
    bytes[LM_TILE_ORDER] = view->ranges.tile_order ? tiles * sizeof(uint32_t) : 0;
    // Only tiles that two blocks share need the colours again.
    bytes[LM_COLOR] = view->ranges.split_tiles > 0 ? plane_bytes(camera, GS_CHANNELS) : 0;
}

size_t lm_view_needs(lm_scene *s, const target_view *target) {
    const gs_view view = rendered(s, target);
    size_t kept[LM_KEPT], bytes = 0;
    sizes_of(s, &view, kept);
    for (int i = 0; i < LM_KEPT; i++) bytes += kept[i];
    residuals(s, target, view.image.color, NULL, NULL); // for the memory that it takes
    change_of(s, &target->camera);
    records(s, 0);
    if (s->form == LM_FREE) return bytes;
    const gs_lm_cache counted = counted_cache(s, &view, &s->buffers[LM_CACHE_BEGIN]);
    return bytes + begin_bytes(s) + pairs_bytes(&counted);
}

double lm_view_open(lm_view *v, lm_scene *s, const target_view *target, const gs_gaussians *gradient) {
    device_buffer *const kept = v->kept;
    size_t bytes[LM_KEPT];
    v->target = target;
    v->view = rendered(s, target);
    v->cache = (gs_lm_cache){0};
    sizes_of(s, &v->view, bytes);
    v->metric = (gs_lm_metric){.width = target->camera.width,
                               .height = target->camera.height,
                               .weight = device_buffer_reserve(&kept[LM_METRIC], bytes[LM_METRIC]),
                               .mask = target->mask};
    if (is_coupled(s)) v->metric.coupling = v->metric.weight + GS_CHANNELS * pixels_of(&target->camera);
    gs_view *const view = &v->view;
    view->splats = keep(&kept[LM_SPLATS], view->splats, bytes[LM_SPLATS]);
    view->image.transmittance =
        keep(&kept[LM_TRANSMITTANCE], view->image.transmittance, bytes[LM_TRANSMITTANCE]);
    view->image.n_contrib = keep(&kept[LM_N_CONTRIB], view->image.n_contrib, bytes[LM_N_CONTRIB]);
    view->ranges.tile_begin = keep(&kept[LM_TILE_BEGIN], view->ranges.tile_begin, bytes[LM_TILE_BEGIN]);
    view->ranges.splat_index = keep(&kept[LM_SPLAT_INDEX], view->ranges.splat_index, bytes[LM_SPLAT_INDEX]);
    view->ranges.tile_order = keep(&kept[LM_TILE_ORDER], view->ranges.tile_order, bytes[LM_TILE_ORDER]);
    float *const d_color = change_of(s, &target->camera);
    const double objective = residuals(s, target, view->image.color, &v->metric, d_color);
    view->image.color = keep(&kept[LM_COLOR], view->image.color, bytes[LM_COLOR]);
    if (gradient) {
        if (s->form == LM_CACHED) build_cache(v, s);
        backward(v, s, 0, d_color);
        const gs_lm_view one = {view->camera, view->splats, records(s, 0)};
        project_backward(&one, 1, s, true, gradient);
    }
    return objective;
}

void lm_view_add_diagonal(const lm_view *v, lm_scene *s, const gs_gaussians *diagonal, float *blocks) {
    static_assert(GS_LM_SQUARES_STRIDE <= GS_LM_VIEWS * GS_LM_TANGENT_STRIDE, "records have room for them");
    float *squares = records(s, 0), *weight = v->metric.weight;
    if (v->metric.coupling) {
        weight = change_of(s, &v->view.camera);
        GS_CHECK(gs_lm_metric_diagonal(&v->metric, weight));
    }
    GS_CHECK(gs_lm_squares(&v->view, cache_of(v), weight, s->policy, squares));
    GS_CHECK(gs_lm_add_diagonal(&v->view, squares, diagonal, blocks));
    lm_clock_mark(s->clock, LM_DIAGONAL);
}

// The change of the picture along the tangents in records(s, n), times R^T R. Or, if square is not NULL, adds the change
// times that to *square.
static float *changed(const lm_view *v, lm_scene *s, size_t n, double *square) {
    const gs_lm_metric *const metric = &v->metric;
    const size_t bytes = plane_bytes(&v->view.camera, GS_CHANNELS), values = bytes / sizeof(float);
    float *const change = change_of(s, &v->view.camera);
    const float *const weight = metric->coupling || square ? NULL : metric->weight;
    GS_CHECK(gs_lm_forward(&v->view, cache_of(v), records(s, n), weight, change));
    if (metric->coupling) {
        const float *const before = square ? keep(&s->buffers[LM_LOSS], change, bytes) : NULL;
        GS_CHECK(gs_lm_metric_apply(metric, reserve(s, LM_COLOR, bytes), change));
        if (square) GS_CHECK(gs_lm_add_dot(NULL, before, change, (int64_t)values, square));
    } else if (square)
        GS_CHECK(gs_lm_add_dot(metric->weight, change, change, (int64_t)values, square));
    lm_clock_mark(s->clock, LM_FORWARD);
    return change;
}

size_t lm_equal_part(size_t left, size_t most) {
    const size_t parts = (left + most - 1) / most;
    return (left + parts - 1) / parts;
}

void lm_views_product(const lm_view *views, size_t count, lm_scene *s, const gs_gaussians *direction,
                      const gs_gaussians *product, double *square) {
    for (size_t first = 0, n; first < count; first += n) {
        gs_lm_view with[GS_LM_VIEWS];
        n = lm_equal_part(count - first, GS_LM_VIEWS);
        for (size_t i = 0; i < n; i++) {
            const gs_view *const of = &views[first + i].view;
            with[i] = (gs_lm_view){of->camera, of->splats, records(s, i)};
        }
        GS_CHECK(gs_lm_tangents(s->gaussians, s->gaussians->sh_degree, with, (int)n, direction));
        lm_clock_mark(s->clock, LM_FORWARD);
        for (size_t i = 0; i < n; i++) {
            const float *const change = changed(&views[first + i], s, i, square);
            if (product) backward(&views[first + i], s, i, change);
        }
        if (product) project_backward(with, n, s, first > 0, product);
    }
}
