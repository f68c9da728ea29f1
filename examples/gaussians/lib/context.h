// SPDX-License-Identifier: MIT
// What calls share: how libdistwar_gs reports a failure, by a gs_status to the caller and the text in this thread's
// gs_last_error(); the memory of calls, which a context owns; and the checks of arguments that several calls share.
// `function` is the public call, which the text of the failure names: pass __func__. Internal to libdistwar_gs. The macros
// return from the enclosing function, which must return gs_status.
#pragma once

#include "c_linkage.h"
#include "distwar_gs.h"
#include "lenses.h"
#include <cuda_runtime.h>
#include <float.h>
#include <stdbool.h>

C_LINKAGE_BEGIN

// Sets this thread's text (truncated to fit) and returns status.
gs_status libgs_fail(gs_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
// GS_OK, or GS_DEVICE_ERROR with the text "file:line: text of the error: call".
gs_status libgs_status(cudaError_t error, const char *call, const char *file, int line);

// GS_OK if the condition holds, else GS_INVALID_ARGUMENT with the text "function: text".
gs_status libgs_require(const char *function, bool condition, const char *text);

// ---- memory ----

// The buffers of a context that calls take.
typedef enum context_buffer {
    CONTEXT_SCRATCH, // until the next call
    CONTEXT_PLAN,    // of gs_density_plan, until the next one
    CONTEXT_BUFFERS
} context_buffer;

// What gs_bin tells the host, in pinned memory of the context.
typedef struct bin_report {
    int64_t isects, buckets; // that the lists and all buckets need
    int32_t pixels_per_thread, split_tiles;
    int64_t call; // number of the gs_bin that wrote it; written last
} bin_report;

enum { CONTEXT_REPORTS = 64 }; // passes that may wait for gs_settle

struct gs_context {
    gs_allocator allocator;
    gs_stream stream;
    gs_context *next; // of the contexts that a thread owns, one for each device
    int device;
    void *memory[CONTEXT_BUFFERS];
    size_t bytes[CONTEXT_BUFFERS];
    int64_t calls;       // of gs_bin
    bin_report *reports; // [CONTEXT_REPORTS], of the last calls; NULL before the first
};

// *context: NULL becomes this thread's own.
gs_status libgs_context(const char *function, gs_context **context);
// *report becomes the place where call number `call` of gs_bin reports.
gs_status libgs_report(const char *function, gs_context *context, int64_t call, bin_report **report);
// *memory gets at least `needed` bytes; what was in it is lost where it grows.
gs_status libgs_grow(const char *function, gs_context *context, void **memory, size_t *bytes, size_t needed);

// *memory, a pointer of any type, becomes that of at least `bytes` of the context's. context: NULL: this thread's own.
gs_status libgs_memory(const char *function, gs_context *context, context_buffer which, size_t bytes,
                       void *memory);

// For gs_reserve: takes the view's memory, with the arrays that the caller has not given; and the bytes that calls take of a
// context.
gs_status libgs_hold(const char *function, gs_view *view, gs_context *context);
size_t libgs_loss_bytes(int32_t width, int32_t height, int32_t count); // of `count` images
size_t libgs_fixed_bytes(int64_t splats, int32_t channels); // gs_render_backward with DISTWAR_FIXED

static inline gs_stream stream_of(const gs_context *context) {
    return context ? context->stream : NULL;
}

C_LINKAGE_END

// Returns the status of the call unless it is GS_OK.
#define GS_TRY(call)                                                                                         \
    do {                                                                                                     \
        const gs_status gs_status_ = (call);                                                                 \
        if (gs_status_ != GS_OK) return gs_status_;                                                          \
    } while (0)

// The status of a runtime call, or of launch().
#define GS_STATUS(call) libgs_status((call), #call, __FILE__, __LINE__)
// Returns that status unless it is GS_OK.
#define GS_CUDA(call) GS_TRY(GS_STATUS(call))

// Returns unless the condition holds. Write it so that NaN fails.
#define GS_REQUIRE(condition, text) GS_TRY(libgs_require(__func__, condition, text))
// The same inside a function that checks the arguments of another one, `function`.
#define GS_ARGUMENT(condition, text) GS_TRY(libgs_require(function, condition, text))

// ---- arguments ----

// The strategies that each kind of kernel takes, as bits 1 << distwar_strategy.
enum {
#define GS_CALL_BIT(name, NAME, has_threshold, has_call) | has_call << DISTWAR_##NAME
    warp_strategy_bits = 0 DISTWAR_STRATEGIES(GS_CALL_BIT), // those of distwar::reduce<>
#undef GS_CALL_BIT
    blend_strategy_bits = warp_strategy_bits | 1 << DISTWAR_BLOCK | 1 << DISTWAR_FIXED
};

static inline gs_status check_count(const char *function, int64_t count) {
    return libgs_require(function, count >= 0 && count < INT32_MAX, "count must be in 0..2^31 - 2");
}

static inline gs_status check_size(const char *function, int32_t width, int32_t height) {
    return libgs_require(function, width >= 1 && width <= GS_MAX_SIZE && height >= 1 && height <= GS_MAX_SIZE,
                         "width and height must be in 1..16384");
}

static inline gs_status check_degree(const char *function, int32_t sh_degree) {
    return libgs_require(function, sh_degree >= 0 && sh_degree <= GS_MAX_SH_DEGREE,
                         "sh_degree must be in 0..3");
}

static inline gs_status check_camera(const char *function, const gs_camera *camera) {
    GS_TRY(check_size(function, camera->width, camera->height));
    GS_ARGUMENT(camera->fx > 0 && camera->fy > 0 && camera->near_plane > 0,
                "fx, fy and near_plane must be positive");
    GS_ARGUMENT(camera->far_plane >= 0, "far_plane must not be negative");
    GS_ARGUMENT(camera->model >= 0 && camera->model < GS_CAMERA_MODELS,
                "model must be in 0..GS_CAMERA_MODELS - 1");
    for (int k = 0; k < lens_of(camera)->distortions; k++)
        GS_ARGUMENT(camera->distortion[k] - camera->distortion[k] == 0, "distortion must be finite");
    return GS_OK;
}

static inline gs_status check_channels(const char *function, int32_t channels) {
    return libgs_require(function, channels >= 0 && channels <= GS_MAX_CHANNELS,
                         "channels must be in 0..1024");
}

// The channels of these Gaussians; 0 stands for GS_CHANNELS.
static inline int32_t channels_of(const gs_gaussians *gaussians) {
    return gaussians->channels == 0 ? GS_CHANNELS : gaussians->channels;
}

// Checks that colours are given unless they may come from SH.
static inline gs_status check_colors(const char *function, const gs_gaussians *gaussians) {
    GS_TRY(check_channels(function, gaussians->channels));
    return libgs_require(function,
                         channels_of(gaussians) == GS_CHANNELS || gaussians->color || gaussians->count == 0,
                         "color must be given unless there are 3 channels");
}

static inline int is_one_of(distwar_strategy strategy, unsigned strategies) {
    return (unsigned)strategy < DISTWAR_STRATEGY_COUNT && (strategies >> strategy & 1) != 0;
}

static inline gs_status check_strategy(const char *function, distwar_strategy strategy, unsigned strategies) {
    if (is_one_of(strategy, strategies)) return GS_OK;
    const char *name = distwar_strategy_name(strategy);
    if (!name) return libgs_fail(GS_INVALID_ARGUMENT, "%s: %d is not a strategy", function, (int)strategy);
    return libgs_fail(GS_INVALID_ARGUMENT, "%s: strategy %s is not supported", function, name);
}

static inline gs_status check_policy(const char *function, distwar_policy policy, unsigned strategies) {
    GS_ARGUMENT(policy.balance_threshold >= 0 && policy.balance_threshold <= 33,
                "balance_threshold must be in 0..33");
    return check_strategy(function, policy.strategy, strategies);
}

static inline int32_t view_count(const gs_view *view) {
    return view->views.count > 0 ? view->views.count : 1;
}

static inline const gs_camera *camera_of(const gs_view *view, int32_t v) {
    return view->views.count > 0 ? &view->views.cameras[v] : &view->camera;
}

// Splats of all cameras.
static inline int64_t splat_count(const gs_view *view) {
    return view_count(view) * view->gaussians.count;
}

// Checks that the view is given, its numbers of Gaussians and cameras, and the size of its images.
static inline gs_status check_extent(const char *function, const gs_view *view) {
    GS_ARGUMENT(view, "view must be given");
    GS_TRY(check_count(function, view->gaussians.count));
    GS_TRY(check_size(function, view->camera.width, view->camera.height));
    const gs_views *views = &view->views;
    GS_ARGUMENT(views->count >= 0 && views->count <= GS_MAX_VIEWS, "views.count must be in 0..32");
    GS_ARGUMENT(views->count == 0 || views->cameras, "views.cameras must be given");
    GS_ARGUMENT(views->count <= 1 || channels_of(&view->gaussians) == GS_CHANNELS,
                "several cameras take 3 channels");
    GS_ARGUMENT(splat_count(view) < INT32_MAX, "count of Gaussians times cameras must be in 0..2^31 - 2");
    for (int32_t v = 0; v < views->count; v++)
        GS_ARGUMENT(views->cameras[v].width == view->camera.width &&
                        views->cameras[v].height == view->camera.height,
                    "all cameras must have the size of gs_view.camera");
    return GS_OK;
}

// Checks the extent, and that the view has one camera.
static inline gs_status check_one_view(const char *function, const gs_view *view) {
    GS_TRY(check_extent(function, view));
    GS_ARGUMENT(view->views.count == 0, "several cameras are not supported");
    return GS_OK;
}

// The tiles along so many pixels.
static inline int32_t tiles_along(int32_t pixels) {
    return (pixels + GS_TILE_SIZE - 1) / GS_TILE_SIZE;
}

static inline int32_t tile_rows_of(const gs_view *view) {
    return tiles_along(view->camera.height);
}

// Checks that gs_bin has written the lists of the view.
static inline gs_status check_lists(const char *function, const gs_view *view) {
    GS_TRY(check_extent(function, view));
    const gs_tile_ranges *ranges = &view->ranges;
    GS_ARGUMENT(ranges->tile_begin, "the view has no lists: gs_bin writes them");
    GS_ARGUMENT(ranges->tiles_x == tiles_along(view->camera.width) && ranges->tiles_y == tile_rows_of(view),
                "the lists are of an image of another size");
    GS_ARGUMENT((ranges->views > 0 ? ranges->views : 1) == view_count(view),
                "the lists are of another number of cameras");
    GS_ARGUMENT(ranges->pixels_per_thread == 1 || ranges->pixels_per_thread == 2 ||
                    ranges->pixels_per_thread == 4,
                "pixels_per_thread must be 1, 2 or 4");
    GS_ARGUMENT(ranges->split_tiles >= 0 &&
                    ranges->split_tiles <= view_count(view) * ranges->tiles_x * ranges->tiles_y,
                "split_tiles must be in 0..the number of tiles");
    return libgs_require(
        function, ranges->isects == 0 || view->gaussians.count == 0 || (ranges->splat_index && view->splats),
        "splat_index and splats must be given");
}

// Checks the lists, and that the image has what gs_render leaves for later stages.
static inline gs_status check_blended(const char *function, const gs_view *view) {
    GS_TRY(check_lists(function, view));
    GS_ARGUMENT(view->image.transmittance && view->image.n_contrib,
                "transmittance and n_contrib of the image must be given");
    return check_colors(function, &view->gaussians);
}

static inline gs_status check_comparison(const char *function, const gs_comparison *images) {
    GS_ARGUMENT(images, "images must be given");
    GS_TRY(check_size(function, images->width, images->height));
    return libgs_require(function, images->color && images->target, "color and target must be given");
}

static inline int same_shape(const gs_gaussians *a, const gs_gaussians *b) {
    return a->count == b->count && a->sh_degree == b->sh_degree;
}

// Checks that all arrays of stored parameters, or of a vector of their shape, are given.
static inline gs_status check_parameters(const char *function, const gs_gaussians *g) {
    GS_ARGUMENT(g, "Gaussians, and vectors of their shape, must be given");
    GS_ARGUMENT(g->form == GS_RAW, "activated scales and opacities are taken by gs_project alone");
    GS_ARGUMENT(!g->sh0, "sh0 is taken by gs_project alone");
    GS_TRY(check_count(function, g->count));
    GS_TRY(check_degree(function, g->sh_degree));
    return libgs_require(
        function, g->count == 0 || (g->mean && g->log_scale && g->quaternion && g->opacity_logit && g->sh),
        "mean, log_scale, quaternion, opacity_logit and sh must be given");
}

// Checks the arrays of both, and that they have one shape.
static inline gs_status check_vector(const char *function, const gs_gaussians *gaussians,
                                     const gs_gaussians *vector) {
    GS_TRY(check_parameters(function, gaussians));
    GS_TRY(check_parameters(function, vector));
    return libgs_require(function, same_shape(vector, gaussians),
                         "count or sh_degree of the arguments differ");
}

static inline int used_degree(int sh_degree_used, const gs_gaussians *gaussians) {
    return sh_degree_used < gaussians->sh_degree ? sh_degree_used : gaussians->sh_degree;
}

static inline bool valid_rate(float rate) {
    return rate >= 0 && rate <= FLT_MAX;
}

static inline gs_status check_adam(const char *function, const gs_adam_step *adam) {
    const gs_adam_rates *const rates = &adam->rates;
    GS_TRY(check_vector(function, adam->gaussians, adam->first_moment));
    GS_TRY(check_vector(function, adam->gaussians, adam->second_moment));
    GS_ARGUMENT(adam->step >= 1, "step must be 1 or more");
    GS_ARGUMENT(valid_rate(rates->mean) && valid_rate(rates->log_scale) && valid_rate(rates->quaternion) &&
                    valid_rate(rates->opacity_logit) && valid_rate(rates->sh0) && valid_rate(rates->shN),
                "rates must be finite and not negative");
    return libgs_require(function, rates->sh_coefficients >= 0, "sh_coefficients must not be negative");
}

#ifdef __cplusplus
#include "gpu/block_layout.h"

// Takes memory of the context for the arrays that place(layout) adds to a layout, which first only counts their bytes.
template <typename Place>
gs_status libgs_place(const char *function, gs_context *context, context_buffer which, const Place &place) {
    block_layout layout = {};
    GS_TRY(place(&layout));
    GS_TRY(libgs_memory(function, context, which, layout.bytes, &layout.memory));
    layout.bytes = 0;
    return place(&layout);
}
#endif
