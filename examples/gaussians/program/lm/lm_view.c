// SPDX-License-Identifier: MIT
#include "lm/lm_view.h"
#include "device.h"
#include "view/gs_check.h"
#include <assert.h>

static size_t pixels_of(const gs_camera *camera) {
    return (size_t)camera->width * (size_t)camera->height;
}

// Of the n-th of the views that are worked on together.
static float *records(lm_scene *s, size_t n) {
    const size_t values = (size_t)s->gaussians->count * GS_LM_TANGENT_STRIDE;
    return (float *)device_buffer_reserve(&s->records, GS_LM_SIGHTS * values * sizeof(float)) + n * values;
}

void lm_scene_close(lm_scene *s) {
    device_buffer *const all[] = {&s->bin,    &s->color,         &s->change,   &s->records, &s->cache,
                                  &s->splats, &s->transmittance, &s->consumed, &s->result,  &s->loss};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) device_buffer_close(all[i]);
}

void lm_scene_reserve(lm_scene *s, const gs_camera *camera) {
    const size_t count = (size_t)s->gaussians->count, pixels = pixels_of(camera);
    size_t cache, loss;
    GS_CHECK(gs_loss_workspace(camera->width, camera->height, &loss));
    GS_CHECK(gs_lm_cache_workspace(s->gaussians->count, &cache));
    device_buffer_reserve(&s->color, 3 * pixels * sizeof(float));
    device_buffer_reserve(&s->transmittance, pixels * sizeof(float));
    device_buffer_reserve(&s->consumed, pixels * sizeof(uint32_t));
    device_buffer_reserve(&s->change, 4 * pixels * sizeof(float));
    device_buffer_reserve(&s->loss, loss);
    device_buffer_reserve(&s->splats, count * sizeof(gs_splat));
    records(s, GS_LM_SIGHTS - 1);
    device_buffer_reserve(&s->cache, s->form == LM_CACHED ? cache : 0);
    device_buffer_reserve(&s->result, 3 * sizeof(double));
}

size_t lm_scene_bytes(const lm_scene *s) {
    return s->bin.bytes + s->color.bytes + s->change.bytes + s->records.bytes + s->cache.bytes +
           s->splats.bytes + s->transmittance.bytes + s->consumed.bytes + s->result.bytes + s->loss.bytes;
}

// Projects, bins and renders: lists point into the scene's workspace.
static void render(lm_scene *s, const gs_camera *camera, gs_splat *splats, const gs_image *image,
                   gs_lists *lists) {
    const gs_gaussians *g = s->gaussians;
    GS_CHECK(gs_project(g, g->sh_degree, camera, splats, NULL));
    for (;;) {
        size_t bytes;
        GS_CHECK(gs_bin_workspace(g->count, camera->width, camera->height, s->pair_capacity, &bytes));
        int64_t needed;
        gs_status status = gs_bin(splats, g->count, camera->width, camera->height, s->pair_capacity,
                                  device_buffer_reserve(&s->bin, bytes), bytes, lists, &needed, NULL);
        if (status == GS_OK) break;
        if (status != GS_PAIRS_DO_NOT_FIT) GS_CHECK(status);
        s->pair_capacity = needed + needed / 4; // other views need a little more
    }
    GS_CHECK(gs_render(splats, lists, camera->width, camera->height, s->background, image, NULL));
}

// The loss of training, or residuals that look at one pixel each.
static bool whole_loss(const lm_scene *s) {
    return s->objective == GS_LM_L1_SSIM && !s->centre_only;
}

// The sum of squared residuals. gradient: half of its gradient; metric and gradient both or neither NULL.
static double residuals(lm_scene *s, const target_view *target, const float *color,
                        const gs_lm_metric *metric, float *gradient) {
    const int32_t width = target->camera.width, height = target->camera.height;
    const int64_t values = 3 * (int64_t)pixels_of(&target->camera);
    double *result = device_buffer_reserve(&s->result, 3 * sizeof(double)), value;
    if (whole_loss(s)) {
        size_t bytes;
        GS_CHECK(gs_loss_workspace(width, height, &bytes));
        void *workspace = device_buffer_reserve(&s->loss, bytes); // larger than one picture
        GS_CHECK(gs_loss(color, target->pixels, width, height, workspace, bytes, result, gradient, NULL));
        if (gradient) { // n (loss + epsilon) is the sum of squares
            GS_CHECK(gs_lm_add(gradient, (float)((double)values / 2 - 1), gradient, values, NULL));
            GS_CHECK(
                gs_lm_find_metric(color, target->pixels, width, height, s->epsilon, workspace, metric, NULL));
        }
    } else {
        GS_CHECK(gs_lm_weights(color, target->pixels, width, height, s->objective, s->epsilon, result,
                               metric ? metric->weight : NULL, gradient, NULL));
    }
    lm_clock_mark(s->clock, LM_PICTURES);
    device_download(&value, result, sizeof value);
    return whole_loss(s) ? (double)values * (value + (double)s->epsilon) : value;
}

double lm_picture_objective(lm_scene *s, const target_view *target) {
    const size_t pixels = pixels_of(&target->camera);
    const gs_image image = {.color = device_buffer_reserve(&s->color, 3 * pixels * sizeof(float)),
                            .transmittance = device_buffer_reserve(&s->transmittance, pixels * sizeof(float)),
                            .consumed = device_buffer_reserve(&s->consumed, pixels * sizeof(uint32_t))};
    gs_lists lists;
    gs_splat *splats = device_buffer_reserve(&s->splats, (size_t)s->gaussians->count * sizeof(gs_splat));
    render(s, &target->camera, splats, &image, &lists);
    return residuals(s, target, image.color, NULL, NULL);
}

// A copy of what lies in the scene's workspace, which the next view overwrites; NULL where there is no room.
static void *keep(lm_arena *arena, const void *from, size_t bytes) {
    void *to = lm_arena_take(arena, bytes);
    if (to) DEVICE_CHECK(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, NULL));
    return to;
}

static bool build_cache(lm_view *v, lm_scene *s, lm_arena *arena) {
    const int64_t count = s->gaussians->count;
    const gs_camera *camera = &v->target->camera;
    gs_lm_cache *cache = &v->cached;
    size_t bytes;
    GS_CHECK(gs_lm_cache_workspace(count, &bytes));
    void *workspace = device_buffer_reserve(&s->cache, bytes);
    cache->begin = lm_arena_take(arena, (size_t)(count + 1) * sizeof(int64_t));
    if (!cache->begin) return false;
    GS_CHECK(gs_lm_cache_begin(v->splats, count, &v->lists, camera->width, camera->height, &v->image,
                               workspace, bytes, cache, NULL));
    lm_clock_mark(s->clock, LM_SORT);
    const size_t pairs = (size_t)cache->pairs;
    cache->pixel = lm_arena_take(arena, pairs * sizeof(uint32_t));
    cache->share = lm_arena_take(arena, pairs * sizeof(float));
    cache->by_log_alpha = lm_arena_take(arena, 3 * pairs * sizeof(float));
    if (!cache->pixel || !cache->share || !cache->by_log_alpha) return false;
    GS_CHECK(gs_lm_cache_fill(v->splats, count, &v->lists, camera->width, camera->height, s->background,
                              &v->image, workspace, bytes, cache, NULL));
    lm_clock_mark(s->clock, LM_BUILD);
    return true;
}

static gs_lm_sight sight_of(const lm_view *v, lm_scene *s, size_t n) {
    return (gs_lm_sight){v->target->camera, v->splats, records(s, n)};
}

// Leaves moments in place n of the records.
static void blend_backward(const lm_view *v, lm_scene *s, size_t n, const float *picture) {
    GS_CHECK(gs_render_backward(v->splats, s->gaussians->count, &v->lists, v->target->camera.width,
                                v->target->camera.height, s->background, &v->image, picture, NULL,
                                s->reduction, s->threshold, records(s, n), NULL));
    lm_clock_mark(s->clock, LM_BACKWARD);
}

static void project_backward(const gs_lm_sight *sights, size_t count, lm_scene *s, bool add,
                             const gs_gaussians *product) {
    GS_CHECK(gs_lm_gradients(s->gaussians, s->gaussians->sh_degree, sights, (int)count, add, product, NULL));
    lm_clock_mark(s->clock, LM_PROJECTION);
}

static bool open_in(lm_view *v, lm_scene *s, lm_arena *arena, double *objective,
                    const gs_gaussians *gradient) {
    const gs_camera *camera = &v->target->camera;
    const size_t pixels = pixels_of(camera);
    v->splats = lm_arena_take(arena, (size_t)s->gaussians->count * sizeof(gs_splat));
    v->metric.weight = lm_arena_take(arena, 3 * pixels * sizeof(float));
    v->metric.coupling = whole_loss(s) ? lm_arena_take(arena, 3 * pixels * sizeof(float)) : NULL;
    v->image = (gs_image){.color = device_buffer_reserve(&s->color, 3 * pixels * sizeof(float)),
                          .transmittance = lm_arena_take(arena, pixels * sizeof(float)),
                          .consumed = lm_arena_take(arena, pixels * sizeof(uint32_t))};
    if (!v->splats || !v->metric.weight || (whole_loss(s) && !v->metric.coupling) ||
        !v->image.transmittance || !v->image.consumed)
        return false;
    render(s, camera, v->splats, &v->image, &v->lists);
    const size_t tiles = (size_t)v->lists.tiles_x * (size_t)v->lists.tiles_y;
    v->lists.tile_begin = keep(arena, v->lists.tile_begin, (tiles + 1) * sizeof(int64_t));
    v->lists.splat_index = keep(arena, v->lists.splat_index, (size_t)v->lists.pairs * sizeof(uint32_t));
    if (!v->lists.tile_begin || !v->lists.splat_index) return false;
    if (v->lists.tile_order) {
        v->lists.tile_order = keep(arena, v->lists.tile_order, tiles * sizeof(uint32_t));
        if (!v->lists.tile_order) return false;
    }
    float *by_pixel = device_buffer_reserve(&s->change, 4 * pixels * sizeof(float));
    *objective = residuals(s, v->target, v->image.color, &v->metric, by_pixel);
    // Tiles that two blocks share are all that need the colours again.
    v->image.color =
        v->lists.split_tiles > 0 ? keep(arena, v->image.color, 3 * pixels * sizeof(float)) : NULL;
    if (v->lists.split_tiles > 0 && !v->image.color) return false;
    if (s->form == LM_CACHED && !build_cache(v, s, arena)) return false;
    if (!gradient) return true;
    blend_backward(v, s, 0, by_pixel);
    const gs_lm_sight sight = sight_of(v, s, 0);
    project_backward(&sight, 1, s, true, gradient);
    return true;
}

bool lm_view_open(lm_view *v, lm_scene *s, const target_view *target, lm_arena *arena, double *objective,
                  const gs_gaussians *gradient) {
    const lm_arena_mark before = lm_arena_now(arena);
    *v = (lm_view){.target = target};
    if (open_in(v, s, arena, objective, gradient)) return true;
    lm_arena_return(arena, before);
    return false;
}

void lm_view_add_diagonal(const lm_view *v, lm_scene *s, const gs_gaussians *diagonal, float *blocks) {
    const gs_camera *camera = &v->target->camera;
    const int64_t count = s->gaussians->count;
    static_assert(GS_LM_SQUARES_STRIDE <= GS_LM_SIGHTS * GS_LM_TANGENT_STRIDE, "records have room for them");
    float *squares = records(s, 0);
    const float *weight = v->metric.weight;
    if (v->metric.coupling) {
        float *diagonal_of_metric = device_buffer_reserve(&s->change, 4 * pixels_of(camera) * sizeof(float));
        GS_CHECK(gs_lm_metric_diagonal(&v->metric, camera->width, camera->height, diagonal_of_metric, NULL));
        weight = diagonal_of_metric;
    }
    if (s->form == LM_CACHED)
        GS_CHECK(gs_lm_cached_squares(v->splats, count, &v->cached, camera->width, camera->height, weight,
                                      s->reduction, s->threshold, squares, NULL));
    else
        GS_CHECK(gs_lm_squares(v->splats, count, &v->lists, camera->width, camera->height, s->background,
                               &v->image, weight, s->reduction, s->threshold, squares, NULL));
    GS_CHECK(gs_lm_add_diagonal(s->gaussians, s->gaussians->sh_degree, camera, v->splats, squares, diagonal,
                                NULL));
    if (blocks)
        GS_CHECK(gs_lm_add_blocks(s->gaussians, s->gaussians->sh_degree, camera, v->splats, squares, blocks,
                                  NULL));
    lm_clock_mark(s->clock, LM_DIAGONAL);
}

// Fills in the sights of these views, at most GS_LM_SIGHTS.
static void tangents_along(const lm_view *views, size_t count, lm_scene *s, const gs_gaussians *direction,
                           gs_lm_sight *sights) {
    for (size_t n = 0; n < count; n++) sights[n] = sight_of(&views[n], s, n);
    GS_CHECK(gs_lm_tangents(s->gaussians, s->gaussians->sh_degree, sights, (int)count, direction, NULL));
    lm_clock_mark(s->clock, LM_FORWARD);
}

// [3][height][width]
static float *forward(const lm_view *v, lm_scene *s, const float *tangents) {
    const gs_camera *camera = &v->target->camera;
    float *change = device_buffer_reserve(&s->change, 4 * pixels_of(camera) * sizeof(float));
    GS_CHECK(gs_lm_forward(v->splats, tangents, &v->lists, camera->width, camera->height, s->background,
                           &v->image, NULL, change, NULL));
    return change;
}

// The change times the metric.
static void bend(const lm_view *v, lm_scene *s, bool interleaved, float *change) {
    const gs_camera *camera = &v->target->camera;
    float *scratch = device_buffer_reserve(&s->color, 3 * pixels_of(camera) * sizeof(float));
    GS_CHECK(
        gs_lm_metric_apply(&v->metric, camera->width, camera->height, interleaved, scratch, change, NULL));
}

// [height][width][4]
static float *cached_forward(const lm_view *v, lm_scene *s, const float *tangents) {
    const gs_camera *camera = &v->target->camera;
    float *change = device_buffer_reserve(&s->change, 4 * pixels_of(camera) * sizeof(float));
    GS_CHECK(gs_lm_cached_forward(v->splats, s->gaussians->count, &v->cached, camera->width, camera->height,
                                  tangents, change, NULL));
    bend(v, s, true, change);
    lm_clock_mark(s->clock, LM_FORWARD);
    return change;
}

// J^T J direction of one view, from the tangents in place n of the records to the moments in the same place.
static void multiply(const lm_view *v, lm_scene *s, size_t n) {
    const float *tangents = records(s, n);
    if (s->form == LM_CACHED) {
        const float *change = cached_forward(v, s, tangents);
        GS_CHECK(gs_lm_cached_backward(v->splats, s->gaussians->count, &v->cached, v->target->camera.width,
                                       change, s->reduction, s->threshold, records(s, n), NULL));
        lm_clock_mark(s->clock, LM_BACKWARD);
    } else {
        float *change = forward(v, s, tangents);
        bend(v, s, false, change);
        lm_clock_mark(s->clock, LM_FORWARD);
        blend_backward(v, s, n, change);
    }
}

// How many of the views from `first` on to take at once: as few times as possible, and equal shares.
static size_t together(size_t count, size_t first) {
    const size_t left = count - first, times = (left + GS_LM_SIGHTS - 1) / GS_LM_SIGHTS;
    return (left + times - 1) / times;
}

void lm_views_product(const lm_view *views, size_t count, lm_scene *s, const gs_gaussians *direction,
                      const gs_gaussians *product) {
    for (size_t first = 0, n; first < count; first += n) {
        gs_lm_sight sights[GS_LM_SIGHTS];
        n = together(count, first);
        tangents_along(views + first, n, s, direction, sights);
        for (size_t i = 0; i < n; i++) multiply(&views[first + i], s, i);
        project_backward(sights, n, s, first > 0, product);
    }
}

static void add_curvature(const lm_view *v, lm_scene *s, size_t n, double *sum) {
    const gs_camera *camera = &v->target->camera;
    const float *change = forward(v, s, records(s, n));
    GS_CHECK(gs_lm_metric_add_square(&v->metric, camera->width, camera->height, change, sum, NULL));
    lm_clock_mark(s->clock, LM_FORWARD);
}

void lm_views_add_curvature(const lm_view *views, size_t count, lm_scene *s, const gs_gaussians *direction,
                            double *sum) {
    for (size_t first = 0, n; first < count; first += n) {
        gs_lm_sight sights[GS_LM_SIGHTS];
        n = together(count, first);
        tangents_along(views + first, n, s, direction, sights);
        for (size_t i = 0; i < n; i++) add_curvature(&views[first + i], s, i, sum);
    }
}
