// SPDX-License-Identifier: MIT
#include "frame.h"
#include "arrays.h"
#include "scene.h"
#include "distwar_gs.h"
#include <assert.h>
#include <string.h>

enum { ALIGNMENT = 256 };

size_t device_gaussians_bytes(int64_t count, int sh_degree) {
    gs_gaussians shape = {.count = count, .sh_degree = sh_degree};
    return gaussians_place(&shape, NULL, ALIGNMENT);
}

gs_gaussians device_gaussians_open(int64_t count, int sh_degree) {
    gs_gaussians out = {.count = count, .sh_degree = sh_degree};
    const size_t bytes = gaussians_place(&out, NULL, ALIGNMENT);
    void *memory = device_allocate(bytes);
    device_clear(memory, bytes);
    gaussians_place(&out, memory, ALIGNMENT);
    return out;
}

gs_gaussians device_gaussians_from(const gs_gaussians *host) {
    gs_gaussians out = device_gaussians_open(host->count, host->sh_degree);
    out.antialias = host->antialias;
    device_gaussians_copy(&out, host);
    return out;
}

void device_gaussians_close(gs_gaussians *device) {
    device_free(device->mean);
    *device = (gs_gaussians){0};
}

void device_gaussians_copy(const gs_gaussians *to, const gs_gaussians *from) {
    assert(to->count == from->count && to->sh_degree == from->sh_degree);
    const gs_arrays target = gs_arrays_of(to), source = gs_arrays_of(from);
    for (int i = 0; i < GS_ARRAYS; i++) {
        const size_t bytes = (size_t)from->count * (size_t)source.width[i] * sizeof(float);
        DEVICE_CHECK(cudaMemcpy(target.of[i], source.of[i], bytes, cudaMemcpyDefault));
    }
}

// ---- stages

const char *stage_name(stage which) {
    static const char *const names[STAGES] = {"project",          "bin",  "render", "loss", "render backward",
                                              "project backward", "adam", "density"};
    return names[which];
}

void stage_clock_open(stage_clock *clock) {
    *clock = (stage_clock){.measures = strcmp(gs_backend(), "cuda") == 0};
    if (!clock->measures) return;
    for (int set = 0; set < 2; set++)
        for (int i = 0; i <= STAGES; i++) DEVICE_CHECK(cudaEventCreate(&clock->marks[set][i]));
}

static void collect(stage_clock *clock, int set) {
    if (!clock->complete[set]) return;
    DEVICE_CHECK(cudaEventSynchronize(clock->marks[set][STAGES]));
    for (int i = 0; i < STAGES; i++) {
        float elapsed;
        DEVICE_CHECK(cudaEventElapsedTime(&elapsed, clock->marks[set][i], clock->marks[set][i + 1]));
        clock->milliseconds[i] += elapsed;
    }
    clock->steps++;
    clock->complete[set] = false;
}

void stage_clock_start(stage_clock *clock) {
    if (!clock->measures) return;
    clock->current = !clock->current;
    collect(clock, clock->current);
    DEVICE_CHECK(cudaEventRecord(clock->marks[clock->current][0], NULL));
}

void stage_clock_mark(stage_clock *clock, stage which) {
    device_begin_stage(stage_name((which + 1) % STAGES));
    if (!clock || !clock->measures) return;
    DEVICE_CHECK(cudaEventRecord(clock->marks[clock->current][which + 1], NULL));
    clock->complete[clock->current] = which == STAGES - 1;
}

void stage_clock_close(stage_clock *clock) {
    if (!clock->measures) return;
    for (int set = 0; set < 2; set++) {
        collect(clock, set);
        for (int i = 0; i <= STAGES; i++) DEVICE_CHECK(cudaEventDestroy(clock->marks[set][i]));
    }
    clock->measures = false;
}

// ---- strategies

const offered_strategy blend_strategies[] = {DISTWAR_STRATEGIES(OFFERED_ROW) // of reduce<>
                                             {.strategy = DISTWAR_BLOCK},
                                             {.strategy = DISTWAR_FIXED, .ignores_threshold = true},
                                             {.strategy = DISTWAR_STRATEGY_COUNT}};

// ---- frame

static int32_t views_of(const gs_view *view) {
    return view->views.count > 0 ? view->views.count : 1;
}

// Floats for `channels` values per pixel of the frame's views.
static float *planes(const frame *f, device_buffer *buffer, size_t channels) {
    return device_buffer_reserve(buffer, (size_t)views_of(&f->view) * channels *
                                             camera_pixels(&f->view.camera) * sizeof(float));
}

static float *planes_of_view(const frame *f, float *all, size_t channels, int32_t view) {
    return all + (size_t)view * channels * camera_pixels(&f->view.camera);
}

void frame_close(frame *f) {
    device_buffer *const all[] = {&f->splats,          &f->color_gradient, &f->splat_grad,     &f->mean2d,
                                  &f->camera_gradient, &f->depth,          &f->depth_gradient, &f->picture};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) device_buffer_close(all[i]);
    gs_view_free(&f->view, NULL);
    *f = (frame){0};
}

// Sets f->all.
static void set_all(frame *f, const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *cameras,
                    int32_t count) {
    const size_t splats = (size_t)count * (size_t)gaussians->count;
    for (int32_t v = 0; v < count; v++) f->cameras[v] = cameras[v];
    f->all = (gs_view){.gaussians = *gaussians,
                       .camera = *cameras,
                       .sh_degree_used = sh_degree_used,
                       .inverse_depth = f->with_depth,
                       .views = {count > 1 ? count : 0, f->cameras},
                       .splats = device_buffer_reserve(&f->splats, splats * sizeof(gs_splat))};
}

void frame_project(frame *f, const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *cameras,
                   int32_t count) {
    set_all(f, gaussians, sh_degree_used, cameras, count);
    GS_CHECK(gs_project(&f->all, NULL));
    stage_clock_mark(f->clock, STAGE_PROJECT);
}

// Sets f->view to some of the views that are projected; what it has in its memory stays.
static void set_view(frame *f, int32_t first, int32_t count, const float background[GS_CHANNELS]) {
    gs_view *const view = &f->view;
    const gs_view before = *view;
    *view = f->all;
    view->camera = f->cameras[first];
    view->views = (gs_views){count > 1 ? count : 0, f->cameras + first};
    view->splats += first * view->gaussians.count;
    view->memory = before.memory, view->ranges = before.ranges;
    memcpy(view->background, background, sizeof view->background);
    view->image = (gs_image){.depth = f->with_depth ? planes(f, &f->depth, 1) : NULL};
}

void frame_draw(frame *f, int32_t first, int32_t count, const float background[GS_CHANNELS]) {
    set_view(f, first, count, background);
    GS_CHECK(gs_bin(&f->view, NULL));
    stage_clock_mark(f->clock, STAGE_BIN);
    GS_CHECK(gs_render(&f->view, NULL));
    stage_clock_mark(f->clock, STAGE_RENDER);
}

void frame_render(frame *f, const gs_gaussians *gaussians, int sh_degree_used, const gs_camera *camera,
                  const float background[GS_CHANNELS]) {
    set_all(f, gaussians, sh_degree_used, camera, 1);
    set_view(f, 0, 1, background);
    device_begin_stage(stage_name(STAGE_RENDER));
    GS_CHECK(gs_forward(&f->view, NULL));
}

bool frame_settle(frame *f) {
    const gs_status status = gs_settle(&f->view, NULL);
    if (status != GS_ISECTS_DO_NOT_FIT) GS_CHECK(status);
    f->repeats += status == GS_ISECTS_DO_NOT_FIT;
    return status == GS_OK;
}

const float *frame_color(const frame *f, int32_t view) {
    return planes_of_view(f, f->view.image.color, GS_CHANNELS, view);
}

void frame_loss(frame *f, gs_loss_image *images, bool with_gradient) {
    const int32_t views = views_of(&f->view);
    float *const gradients = with_gradient ? planes(f, &f->color_gradient, GS_CHANNELS) : NULL;
    float *const by_depth = with_gradient && f->with_depth ? planes(f, &f->depth_gradient, 1) : NULL;
    for (int32_t v = 0; v < views; v++) {
        gs_loss_image *const of = &images[v];
        of->images.width = f->view.camera.width, of->images.height = f->view.camera.height;
        of->images.color = of->images.target ? frame_color(f, v) : NULL;
        of->color_gradient = gradients ? planes_of_view(f, gradients, GS_CHANNELS, v) : NULL;
        of->depth = of->depth_target ? planes_of_view(f, f->view.image.depth, 1, v) : NULL;
        of->depth_gradient = by_depth ? planes_of_view(f, by_depth, 1, v) : NULL;
        if (!of->depth_target && by_depth)
            DEVICE_CHECK(
                cudaMemsetAsync(of->depth_gradient, 0, camera_pixels(&f->view.camera) * sizeof(float), NULL));
    }
    GS_CHECK(gs_loss(images, views, NULL));
}

void frame_set_gradient(frame *f, const float *gradient) {
    device_upload(planes(f, &f->color_gradient, GS_CHANNELS), gradient,
                  GS_CHANNELS * camera_pixels(&f->view.camera) * sizeof(float));
}

gs_splat_grad *frame_moments(frame *f) {
    return device_buffer_reserve(&f->splat_grad, (size_t)views_of(&f->all) * (size_t)f->all.gaussians.count *
                                                     sizeof(gs_splat_grad));
}

// first: the first splat whose moments are written or read.
static void set_gradient(frame *f, int64_t first) {
    gs_gradient *const gradient = &f->gradient;
    const size_t values = 2 * (size_t)views_of(&f->all) * (size_t)f->all.gaussians.count;
    float *const mean2d =
        f->screen == SCREEN_NONE ? NULL : device_buffer_reserve(&f->mean2d, values * sizeof(float));
    gradient->mean2d = f->screen == SCREEN_SIGNED ? mean2d : NULL;
    gradient->abs_mean2d = f->screen == SCREEN_ABSOLUTE ? mean2d : NULL;
    gradient->splat_grad = frame_moments(f) + first;
}

void frame_render_backward(frame *f, distwar_policy policy) {
    set_gradient(f, f->view.splats - f->all.splats);
    f->gradient.color = f->color_gradient.memory;
    f->gradient.depth = f->with_depth ? f->depth_gradient.memory : NULL;
    GS_CHECK(gs_render_backward(&f->view, &f->gradient, policy, NULL));
    stage_clock_mark(f->clock, STAGE_RENDER_BACKWARD);
}

void frame_project_backward(frame *f, const gs_gaussians *gradients, bool with_camera,
                            const gs_adam_step *adam) {
    f->gradient.gaussians = *gradients;
    set_gradient(f, 0);
    if (adam && adam->density) f->gradient.abs_mean2d = NULL; // its sum is all that is wanted
    f->gradient.camera =
        with_camera ? device_buffer_reserve(&f->camera_gradient, sizeof *f->gradient.camera) : NULL;
    f->gradient.adam = adam;
    GS_CHECK(gs_project_backward(&f->all, &f->gradient, NULL));
    stage_clock_mark(f->clock, STAGE_PROJECT_BACKWARD);
}

// In bytes on the device, as the host takes longer to make and to fetch them than a view takes to render.
bool frame_picture(frame *f, image *out, fault *why) {
    const gs_camera *camera = &f->view.camera;
    const size_t bytes = GS_CHANNELS * camera_pixels(camera);
    gs_shrinking rounded = {camera->width, camera->height, 1, GS_SHRINK_PLANES, .count = 1};
    if (!image_open(out, camera->width, camera->height, GS_CHANNELS, why)) return false;
    rounded.from[0] = f->view.image.color;
    rounded.small = device_buffer_reserve(&f->picture, bytes);
    GS_CHECK(gs_shrink(&rounded, NULL));
    device_download(out->pixels, rounded.small, bytes);
    return true;
}
