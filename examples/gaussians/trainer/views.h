// SPDX-License-Identifier: MIT
// The photographs that a scene is trained on: on the device, small or whole, in an order.
#pragma once

#include "images/image.h"
#include "distwar_gs.h"
#include "dataset.h"
#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

// ---- a camera and the picture to fit

static inline size_t camera_pixels(const gs_camera *camera) {
    return (size_t)camera->width * (size_t)camera->height;
}

// Arrays: [height][width]. It owns those on the device.
typedef struct target_view {
    gs_camera camera;
    const image *picture;        // RGB, of the camera's size
    uint8_t *pixels;             // the same on the device
    uint8_t *alpha;              // device; NULL: opaque
    uint8_t *mask;               // device: pixels with 0 do not count; NULL: all count
    const uint8_t *mask_on_host; // the same
    int64_t counted;             // pixels that count
    float *depth;                // device: inverse depth, NaN: unknown; NULL: none
    const float *depth_on_host;  // the same
    const char *name;            // NULL if it has none
    const uint8_t *outline;      // alpha on the host, for random_points; NULL: opaque
    bool validates;              // to be measured: see training_settings.validation_until
} target_view;

// Uploads the picture. A mask, outline, depth_on_host may follow, and then target_view_upload.
bool target_view_open(target_view *view, const gs_camera *camera, const image *picture, fault *why);
void target_view_set_mask(target_view *view, const uint8_t *mask); // on the host; NULL: none
// A view of a dataset, which must outlive it, without a call to the device. Failures name it.
bool target_view_list(target_view *view, const dataset_view *source, fault *why);
// Uploads what a view has on the host and not yet on the device, its alpha if with_alpha.
void target_view_upload(target_view *view, bool with_alpha);
void target_view_close(target_view *view); // what it has on the device, which may come again; harmless on {0}

// The views of a dataset, split into those to train on and those held out.
typedef struct view_split {
    target_view *views; // [training + held_out], those to train on first
    size_t training, held_out;
} view_split; // starts as {0}

// All views as target_view_list leaves them; the other call uploads them too. The dataset must outlive the split. Fails,
// naming `source`, if no view is left to train on. Closed also after a failure.
bool view_split_list(view_split *split, const dataset *data, const char *source, fault *why);
bool view_split_open(view_split *split, const dataset *data, const char *source, fault *why);
void view_split_close(view_split *split);

// ---- the cache: views are uploaded when they are asked for, and stay until the memory is needed for others: then the one
// that has not been used for longest goes

// What becomes of a view on the device: padded to width x height (0: as it is), and then 1/factor of that (1, 0: all).
typedef struct picture_form {
    int factor, width, height;
} picture_form;
// A listed view on the device in that form. For target_view_close.
void target_view_form(target_view *formed, const target_view *listed, const picture_form *form,
                      bool with_alpha);

typedef struct cached_picture {
    target_view listed; // as it was given
    target_view view;   // in the cache's form; its pixels are NULL where it is not on the device
    int64_t last_used;  // picture_cache.now at that time
} cached_picture;

typedef struct picture_cache {
    cached_picture *pictures; // [count]
    size_t count;
    bool with_alpha;
    picture_form form;
    size_t bytes, most_bytes;
    int64_t now; // steps so far: where this rises, what earlier calls have returned may go
} picture_cache; // starts as {0}

// views: listed; must outlive the cache. most_bytes: on the device; what one step needs is held also if it is more. 0: a
// quarter of the device's memory. Failures of the device end the program.
bool picture_cache_open(picture_cache *cache, const target_view *views, size_t count, bool with_alpha,
                        size_t most_bytes, fault *why);
// A view on the device, valid until the next step. Waits for the default stream if it uploads.
const target_view *picture_cache_view(picture_cache *cache, size_t index);
void picture_cache_close(picture_cache *cache); // harmless on {0}

// ---- training may begin on small pictures, which cost less time and have no detail that the first Gaussians could follow

enum { RESOLUTIONS_LEAST_SIDE = 64 }; // pixels

typedef struct resolution_schedule {
    bool automatic; // "auto" was read: default_resolutions says the rest
    int factor;     // of the pictures' size: 1, 2, ...
    int batch;      // views per step; 0: as of whole pictures
    double percent; // of the iterations, until which pictures are small; 0: none are
} resolution_schedule;

// "2:50": half of the size until 50% of the iterations. "2:50:4": four views per step. "none". "auto".
bool resolution_schedule_read(const char *text, resolution_schedule *schedule, fault *why);
// The last step on small pictures.
int64_t resolution_small_until(const resolution_schedule *schedule, int64_t iterations);
// The most views of a step.
int64_t resolution_most_views(const resolution_schedule *schedule, int64_t batch);

typedef struct view_sizes {
    size_t count;
    int width, height; // of the widest and of the highest
    int64_t pixels;    // of a picture of that size
    int least_side;    // of any picture
    bool one_size;
} view_sizes;
view_sizes view_sizes_of(const target_view *views, size_t count);

// Fails unless the views can share a step: cameras of one model, and pictures that, all made as large as the widest
// and the highest, have at most a quarter more pixels.
bool resolution_views_match(const target_view *views, size_t count, fault *why);

// ---- the order of views: a random permutation of all views, then another one; a function of the step, so that a resumed run
// continues with the same views

// The purposes of random numbers in training: the second argument of random_at.
typedef enum random_purpose {
    RANDOM_VIEW_ORDER,
    RANDOM_BACKGROUND,
    RANDOM_DENSITY, // density control; libdistwar_gs derives more purposes from it
    RANDOM_POSES,
    RANDOM_DEPTH_FIT,
    RANDOM_STEREO,
    RANDOM_DISTILLATION
} random_purpose;

typedef struct view_order {
    size_t count;
    uint64_t seed;
    int64_t round; // the round that `order` is for; -1: none yet
    size_t *order; // a permutation of 0..count-1
} view_order;

bool view_order_open(view_order *order, size_t count, uint64_t seed, fault *why); // count >= 1
// The view of step 0, 1, ... Cost: `count` random numbers when the round changes.
size_t view_order_at(view_order *order, int64_t step);
void view_order_close(view_order *order);

// ---- what a run trains on: views that are all on the device from the start, small and whole, or come as steps need them

typedef struct view_source {
    const target_view *views; // [count]: as they were given, not owned
    size_t count;
    picture_cache *pictures; // NULL: all are on the device
    const resolution_schedule *schedule;
    int64_t batch;
    view_order order;         // of all views
    view_order trained_order; // of those that are not validation views; count 0: none is one
    size_t *trained;          // [trained_order.count]: which these are
    target_view *sized[2];    // [count] each: at one size, and small; NULL: they have one, none are small
    int shaped;               // whether the pictures that come are small; -1: there are none yet
} view_source;                // starts as {0}

// schedule, views and pictures must outlive it. batch: whole views per step. validates: whether validation views are left
// out of trained_order. Closed also after a failure.
bool view_source_open(view_source *source, picture_cache *pictures, const target_view *views, size_t count,
                      const resolution_schedule *schedule, int64_t batch, uint64_t seed, bool validates,
                      fault *why);
// [count]; of those that come when they are needed only the cameras.
const target_view *view_source_at(view_source *source, bool small);
void view_source_close(view_source *source); // harmless on {0}

// ---- validation views, which are measured and not trained on until training_settings.validation_until, and neighbours.
// Both choices are deterministic and read only cameras

typedef struct validation_views {
    size_t count;
    size_t *views;   // [count], rising
    size_t *trained; // [count]: for each the nearest view that is trained on; all differ
} validation_views;  // starts as {0}

// Chooses `wanted` of the views, sets their `validates`, and finds as many others to compare them with. The rule is a
// cover of the cameras' positions, in units of their spread, and directions: centres, each the view that is farthest
// from those before; from the views nearest to each centre the one nearest to their mean. So a choice is spread over
// the scene and not made of its outermost views. Fails if more than half are wanted. Cost: count * wanted distances.
bool validation_views_choose(target_view *views, size_t count, size_t wanted, validation_views *out,
                             fault *why);
void validation_views_close(validation_views *views); // harmless on {0}

// Where a view is in the order of neighbours_choose.
typedef struct neighbours {
    int64_t first, count; // the views of its group are order[first..first + count - 1]
    int64_t place;        // its own is order[first + place]
} neighbours;

// Divides the views by the positions and directions of their cameras, in the units above, into pairs and threes that are
// near each other: halves, again and again, across the axis of the largest spread. in_order: as they are given, instead,
// as in a video. Validation views are alone, the last of the order. order, of: [count].
bool neighbours_choose(const target_view *views, size_t count, bool in_order, int32_t *order, neighbours *of,
                       fault *why);

C_LINKAGE_END
