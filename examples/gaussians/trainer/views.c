// SPDX-License-Identifier: MIT
#include "distwar_gs.h"
#include "frame.h"
#include "random.h"
#include "camera.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Memory that this device alone reads and writes, from its pool, if it has one. In a process with several connected GPUs
// cudaMalloc changes what each of them sees, one after the other: half a second for bonsai's 246 pictures on four H100s.
static void *from_pool(size_t bytes) {
    void *memory;
    if (cudaMallocAsync(&memory, bytes, NULL) == cudaSuccess) return memory;
    cudaGetLastError(); // a device without a pool, or without memory, which is told below
    return device_allocate(bytes);
}

// A copy on the device; NULL of NULL.
static void *uploaded(const void *host, size_t bytes) {
    if (!host) return NULL;
    void *const copy = from_pool(bytes);
    device_upload(copy, host, bytes);
    return copy;
}

static bool describe(target_view *view, const gs_camera *camera, const image *picture, fault *why) {
    if (picture->channels != 3 || picture->width != camera->width || picture->height != camera->height)
        return fail(why, "a picture of %d x %d with %d channels for a camera of %d x %d", picture->width,
                    picture->height, picture->channels, camera->width, camera->height);
    *view = (target_view){.camera = *camera, .picture = picture, .counted = (int64_t)camera_pixels(camera)};
    return true;
}

bool target_view_open(target_view *view, const gs_camera *camera, const image *picture, fault *why) {
    if (!describe(view, camera, picture, why)) return false;
    target_view_upload(view, false);
    return true;
}

void target_view_set_mask(target_view *view, const uint8_t *mask) {
    const size_t pixels = camera_pixels(&view->camera);
    view->mask_on_host = mask;
    for (size_t i = 0; mask && i < pixels; i++) view->counted -= mask[i] == 0;
}

bool target_view_list(target_view *view, const dataset_view *source, fault *why) {
    if (!describe(view, &source->camera, &source->picture, why))
        return fail(why, "%s: %s", source->name, why->text);
    target_view_set_mask(view, source->mask);
    view->outline = source->alpha;
    view->name = source->name;
    return true;
}

void target_view_upload(target_view *view, bool with_alpha) {
    const size_t pixels = camera_pixels(&view->camera);
    if (!view->pixels) view->pixels = uploaded(view->picture->pixels, 3 * pixels);
    if (!view->mask) view->mask = uploaded(view->mask_on_host, pixels);
    if (!view->alpha && with_alpha) view->alpha = uploaded(view->outline, pixels);
    if (!view->depth) view->depth = uploaded(view->depth_on_host, pixels * sizeof(float));
}

// An array of the device at 1/factor of its size; NULL of NULL. bytes: of the small one.
static void *shrunk(const gs_camera *camera, const void *whole, int factor, gs_shrink_form form, int channels,
                    size_t bytes) {
    if (!whole) return NULL;
    gs_shrinking by = {camera->width, camera->height, factor, form, .channels = channels, .count = 1};
    by.from[0] = whole, by.small = from_pool(bytes);
    GS_CHECK(gs_shrink(&by, NULL));
    return by.small;
}

// The view at 1/factor of its size (gs_shrink), on the device alone: it has no picture.
static void target_view_shrink(target_view *small, const target_view *view, int factor) {
    const gs_camera *const camera = &view->camera;
    *small = (target_view){.camera = *camera, .name = view->name};
    dataset_downscale_camera(&small->camera, factor);
    const size_t pixels = camera_pixels(&small->camera);
    small->counted = (int64_t)pixels;
    small->pixels = shrunk(camera, view->pixels, factor, GS_SHRINK_BYTES, GS_CHANNELS, GS_CHANNELS * pixels);
    small->alpha = shrunk(camera, view->alpha, factor, GS_SHRINK_BYTES, 1, pixels);
    small->mask = shrunk(camera, view->mask, factor, GS_SHRINK_MASK, 0, pixels);
    small->depth = shrunk(camera, view->depth, factor, GS_SHRINK_DEPTH, 0, pixels * sizeof *small->depth);
}

// A picture of the host with `bytes` bytes per pixel on the device, in the corner of a larger one whose other bytes are
// `fill`. picture NULL: bytes of 255.
static void *enlarged(const void *picture, size_t bytes, const gs_camera *from, const gs_camera *to,
                      int fill) {
    const size_t row = bytes * (size_t)from->width, to_row = bytes * (size_t)to->width,
                 size = to_row * (size_t)to->height;
    uint8_t *const host = malloc(size);
    if (!host) device_give_up("no memory for a picture of %d x %d", to->width, to->height);
    memset(host, fill, size);
    for (size_t y = 0; y < (size_t)from->height; y++)
        if (picture)
            memcpy(host + y * to_row, (const uint8_t *)picture + y * row, row);
        else
            memset(host + y * to_row, 255, row);
    void *const device = uploaded(host, size);
    free(host);
    return device;
}

// The view with rows and columns added at the bottom and at the right that a mask takes out, on the device alone.
// width, height: at least its own. Reads the view's host arrays.
static void target_view_pad(target_view *padded, const target_view *view, int width, int height,
                            bool with_alpha) {
    const gs_camera *from = &view->camera;
    *padded = (target_view){.camera = *from, .counted = view->counted, .name = view->name};
    gs_camera *const to = &padded->camera;
    to->width = width, to->height = height;
    padded->pixels = enlarged(view->picture->pixels, GS_CHANNELS, from, to, 0);
    if (view->mask_on_host || from->width < width || from->height < height)
        padded->mask = enlarged(view->mask_on_host, 1, from, to, 0);
    if (with_alpha && view->outline) padded->alpha = enlarged(view->outline, 1, from, to, 0);
    if (view->depth_on_host)
        padded->depth = enlarged(view->depth_on_host, sizeof(float), from, to, 255); // of bytes 255: NaN
}

static void forget_device(target_view *view) {
    view->depth = NULL, view->alpha = view->mask = view->pixels = NULL;
}

void target_view_close(target_view *view) {
    if (view->pixels)
        DEVICE_CHECK(cudaStreamSynchronize(NULL)); // cudaFree of a pool's memory waits for no kernel
    device_free(view->depth);
    device_free(view->alpha);
    device_free(view->mask);
    device_free(view->pixels);
    forget_device(view);
}

bool view_split_list(view_split *split, const dataset *data, const char *source, fault *why) {
    *split = (view_split){.views = calloc(data->view_count + 1, sizeof *split->views)};
    if (!split->views) return fail(why, "no memory for %zu views", data->view_count);
    target_view *next = split->views;
    for (int held_out = 0; held_out < 2; held_out++)
        for (size_t i = 0; i < data->view_count; i++) {
            if (data->views[i].held_out != held_out) continue;
            if (!target_view_list(next++, &data->views[i], why)) return false;
            (*(held_out ? &split->held_out : &split->training))++;
        }
    return split->training > 0 ||
           fail(why, "%s: no view is left to train on; all %zu are held out", source, data->view_count);
}

bool view_split_open(view_split *split, const dataset *data, const char *source, fault *why) {
    if (!view_split_list(split, data, source, why)) return false;
    for (size_t i = 0; i < split->training + split->held_out; i++)
        target_view_upload(&split->views[i], false);
    return true;
}

void view_split_close(view_split *split) {
    for (size_t i = 0; i < split->training + split->held_out; i++) target_view_close(&split->views[i]);
    free(split->views);
    *split = (view_split){0};
}

// ---- the cache

static gs_camera picture_form_camera(const picture_form *form, const gs_camera *camera) {
    gs_camera out = *camera;
    if (form->width > 0) out.width = form->width, out.height = form->height;
    if (form->factor > 1) dataset_downscale_camera(&out, form->factor);
    return out;
}

static bool is_padded(const picture_form *form, const gs_camera *camera) {
    return form->width > camera->width || form->height > camera->height;
}

static size_t bytes_of(const picture_cache *cache, const cached_picture *p) {
    const target_view *const view = &p->listed;
    const gs_camera camera = picture_form_camera(&cache->form, &view->camera);
    const bool masked = view->mask_on_host || is_padded(&cache->form, &view->camera);
    const size_t pixels = camera_pixels(&camera);
    return pixels *
           (3u + masked + (cache->with_alpha && view->outline) + (view->depth_on_host ? sizeof(float) : 0));
}

bool picture_cache_open(picture_cache *cache, const target_view *views, size_t count, bool with_alpha,
                        size_t most_bytes, fault *why) {
    size_t unused, all;
    *cache = (picture_cache){.with_alpha = with_alpha, .now = 1}; // without pictures it may be closed
    cache->pictures = calloc(count + 1, sizeof *cache->pictures);
    if (!cache->pictures) return fail(why, "no memory for a list of %zu pictures", count);
    cache->count = count;
    for (size_t i = 0; i < count; i++) cache->pictures[i].listed = views[i];
    DEVICE_CHECK(cudaMemGetInfo(&unused, &all));
    cache->most_bytes = most_bytes > 0 ? most_bytes : all / 4;
    return true;
}

void target_view_form(target_view *formed, const target_view *listed, const picture_form *form,
                      bool with_alpha) {
    target_view whole = *listed;
    forget_device(&whole);
    if (is_padded(form, &whole.camera))
        target_view_pad(&whole, listed, form->width, form->height, with_alpha);
    else
        target_view_upload(&whole, with_alpha);
    *formed = whole;
    if (form->factor <= 1) return;
    target_view_shrink(formed, &whole, form->factor);
    target_view_close(&whole);
}

const target_view *picture_cache_view(picture_cache *cache, size_t index) {
    cached_picture *const p = &cache->pictures[index];
    const size_t bytes = bytes_of(cache, p);
    // Where there is no room views of earlier steps go, the one that has not been used for longest first.
    while (!p->view.pixels && cache->bytes + bytes > cache->most_bytes) {
        cached_picture *oldest = NULL;
        for (size_t i = 0; i < cache->count; i++) {
            cached_picture *const other = &cache->pictures[i];
            const bool may_go = other->view.pixels && other->last_used < cache->now;
            if (may_go && (!oldest || other->last_used < oldest->last_used)) oldest = other;
        }
        if (!oldest) break;
        target_view_close(&oldest->view);
        cache->bytes -= bytes_of(cache, oldest);
    }
    if (!p->view.pixels) {
        target_view_form(&p->view, &p->listed, &cache->form, cache->with_alpha);
        cache->bytes += bytes;
    }
    p->last_used = cache->now;
    return &p->view;
}

void picture_cache_close(picture_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) target_view_close(&cache->pictures[i].view);
    free(cache->pictures);
    *cache = (picture_cache){0};
}

// ---- resolutions

bool resolution_schedule_read(const char *text, resolution_schedule *schedule, fault *why) {
    double factor = 0, percent = 0, batch = 1;
    int end = 0;
    *schedule = (resolution_schedule){.automatic = strcmp(text, "auto") == 0};
    if (schedule->automatic || strcmp(text, "none") == 0) return true;
    const int read = sscanf(text, "%lf:%lf%n:%lf%n", &factor, &percent, &end, &batch, &end);
    if (read < 2 || text[end] || !(factor >= 1 && factor <= GS_MAX_SIZE && floor(factor) == factor) ||
        !(percent >= 0 && percent <= 100) || !(batch >= 1 && batch <= GS_MAX_VIEWS && floor(batch) == batch))
        return fail(why,
                    "--resolutions %s: must be auto, none, FACTOR:PERCENT or FACTOR:PERCENT:VIEWS, such as "
                    "2:50: 1/2 of the size until 50%% of the run",
                    text);
    schedule->factor = (int)factor, schedule->percent = percent;
    if (read == 3) schedule->batch = (int)batch;
    return true;
}

int64_t resolution_small_until(const resolution_schedule *schedule, int64_t iterations) {
    return (int64_t)floor((double)iterations * schedule->percent / 100);
}

int64_t resolution_most_views(const resolution_schedule *schedule, int64_t batch) {
    return schedule->batch > batch ? schedule->batch : batch;
}

view_sizes view_sizes_of(const target_view *views, size_t count) {
    view_sizes sizes = {.count = count, .least_side = GS_MAX_SIZE, .one_size = true};
    for (size_t i = 0; i < count; i++) {
        const gs_camera *const camera = &views[i].camera;
        const int width = camera->width, height = camera->height;
        if (width > sizes.width) sizes.width = width;
        if (height > sizes.height) sizes.height = height;
        if (width < sizes.least_side) sizes.least_side = width;
        if (height < sizes.least_side) sizes.least_side = height;
        sizes.one_size &= width == views->camera.width && height == views->camera.height;
    }
    sizes.pixels = (int64_t)sizes.width * sizes.height;
    return sizes;
}

bool resolution_views_match(const target_view *views, size_t count, fault *why) {
    double pixels = 0;
    for (size_t i = 0; i < count; i++) {
        pixels += (double)views[i].camera.width * views[i].camera.height;
        if (views[i].camera.model != views[0].camera.model)
            return fail(why, "several views per step need cameras of one model");
    }
    return (double)view_sizes_of(views, count).pixels * (double)count <= 1.25 * pixels ||
           fail(why, "several views per step need pictures of about one size");
}

// What the pictures are, small ones or whole ones. The factor is lowered where a side would be shorter than
// RESOLUTIONS_LEAST_SIDE. Where steps have several views, those of different sizes become as large as the largest.
static picture_form form_of(const view_source *s, bool small) {
    picture_form form = {.factor = 1};
    const view_sizes sizes = view_sizes_of(s->views, s->count);
    int shortest = sizes.least_side;
    if (resolution_most_views(s->schedule, s->batch) > 1 && !sizes.one_size) {
        form.width = sizes.width, form.height = sizes.height;
        shortest = form.width < form.height ? form.width : form.height;
    }
    const int most = shortest / RESOLUTIONS_LEAST_SIDE, wanted = small ? s->schedule->factor : 1;
    if (most > 1) form.factor = wanted < most ? wanted : most;
    return form;
}

// ---- the order of views

bool view_order_open(view_order *order, size_t count, uint64_t seed, fault *why) {
    *order = (view_order){.count = count, .seed = seed, .round = -1};
    order->order = calloc(count, sizeof *order->order);
    return order->order || fail(why, "no memory for the order of %zu views", count);
}

size_t view_order_at(view_order *order, int64_t step) {
    const int64_t count = (int64_t)order->count, round = step / count;
    if (round != order->round) { // Fisher-Yates shuffle
        random_stream random = random_at(order->seed, RANDOM_VIEW_ORDER, (uint64_t)round, 0);
        for (size_t i = 0; i < order->count; i++) order->order[i] = i;
        for (size_t i = order->count - 1; i > 0; i--) {
            const size_t j = random_below(&random, i + 1), kept = order->order[i];
            order->order[i] = order->order[j];
            order->order[j] = kept;
        }
        order->round = round;
    }
    return order->order[step % count];
}

void view_order_close(view_order *order) {
    free(order->order);
    *order = (view_order){0};
}

// ---- what a run trains on

bool view_source_open(view_source *s, picture_cache *pictures, const target_view *views, size_t count,
                      const resolution_schedule *schedule, int64_t batch, uint64_t seed, bool validates,
                      fault *why) {
    *s = (view_source){views, count, pictures, schedule, batch, .shaped = -1};
    size_t trained = 0;
    s->trained = malloc(count * sizeof *s->trained);
    if (!s->trained) return fail(why, "no memory for %zu views", count);
    for (size_t i = 0; i < count; i++)
        if (!(validates && views[i].validates)) s->trained[trained++] = i;
    if (trained == 0) return fail(why, "all %zu views are validation views", count);
    if (!view_order_open(&s->order, count, seed, why) ||
        (trained < count && !view_order_open(&s->trained_order, trained, seed, why)))
        return false;
    for (int small = 0; small < 2; small++) {
        const picture_form form = form_of(s, small && schedule->percent > 0);
        if (!pictures && (small ? form.factor <= 1 : form.width == 0)) continue;
        target_view *const sized = s->sized[small] = calloc(count, sizeof *sized);
        if (!sized) return fail(why, "no memory for %zu views", count);
        for (size_t i = 0; i < count; i++)
            if (pictures)
                sized[i].camera = picture_form_camera(&form, &views[i].camera);
            else if (small)
                target_view_shrink(&sized[i], s->sized[0] ? &s->sized[0][i] : &views[i], form.factor);
            else
                target_view_pad(&sized[i], &views[i], form.width, form.height, views[i].alpha != NULL);
    }
    return true;
}

const target_view *view_source_at(view_source *s, bool small) {
    picture_cache *const cache = s->pictures;
    if (cache && small != s->shaped) {
        for (size_t i = 0; i < cache->count; i++)
            target_view_close(&cache->pictures[i].view); // of another form
        cache->bytes = 0, cache->form = form_of(s, small);
        s->shaped = small;
    }
    return s->sized[small] ? s->sized[small] : s->sized[0] ? s->sized[0] : s->views;
}

void view_source_close(view_source *s) {
    for (int small = 0; small < 2; small++) {
        for (size_t i = 0; s->sized[small] && i < s->count; i++) target_view_close(&s->sized[small][i]);
        free(s->sized[small]);
    }
    free(s->trained);
    view_order_close(&s->order);
    view_order_close(&s->trained_order);
    *s = (view_source){0};
}

// ---- validation views, and groups of neighbours

enum { FEATURES = 6 }; // position, direction

typedef struct covered_view {
    double feature[FEATURES];
    size_t owner;    // which centre is the nearest
    double distance; // to it, squared
    bool taken;
} covered_view;

static double squared_distance(const double a[FEATURES], const double b[FEATURES]) {
    double sum = 0;
    for (int i = 0; i < FEATURES; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

// The mean of the views that one centre owns; SIZE_MAX: of all.
static void mean_feature(const covered_view *of, size_t count, size_t owner, double mean[FEATURES]) {
    size_t members = 0;
    memset(mean, 0, FEATURES * sizeof *mean);
    for (size_t v = 0; v < count; v++) {
        if (owner != SIZE_MAX && of[v].owner != owner) continue;
        for (int i = 0; i < FEATURES; i++) mean[i] += of[v].feature[i];
        members++;
    }
    for (int i = 0; i < FEATURES; i++) mean[i] /= (double)members;
}

// The first of the nearest; owner as above; not one that is taken.
static size_t nearest(const covered_view *of, size_t count, const double to[FEATURES], size_t owner) {
    size_t found = SIZE_MAX;
    double least = INFINITY;
    for (size_t v = 0; v < count; v++) {
        if ((owner != SIZE_MAX && of[v].owner != owner) || of[v].taken) continue;
        const double distance = squared_distance(of[v].feature, to);
        if (found == SIZE_MAX || distance < least) found = v, least = distance;
    }
    return found;
}

// Positions count in units of their root mean square distance from their mean, directions as unit vectors. NULL: no memory.
static covered_view *find_features(const target_view *views, size_t count) {
    covered_view *const of = calloc(count, sizeof *of);
    double mean[FEATURES], spread = 0;
    if (!of) return NULL;
    for (size_t v = 0; v < count; v++) {
        camera_center(&views[v].camera, of[v].feature);
        for (int i = 0; i < 3; i++) of[v].feature[3 + i] = views[v].camera.rotation[6 + i];
    }
    mean_feature(of, count, SIZE_MAX, mean);
    for (size_t v = 0; v < count; v++)
        for (int i = 0; i < 3; i++) spread += pow(of[v].feature[i] - mean[i], 2);
    spread = spread > 0 ? sqrt(spread / (double)count) : 1;
    for (size_t v = 0; v < count; v++)
        for (int i = 0; i < 3; i++) of[v].feature[i] = (of[v].feature[i] - mean[i]) / spread;
    return of;
}

bool validation_views_choose(target_view *views, size_t count, size_t wanted, validation_views *out,
                             fault *why) {
    *out = (validation_views){0};
    if (wanted == 0) return true;
    if (2 * wanted > count)
        return fail(why, "--validate %zu: more than half of the %zu training views", wanted, count);
    covered_view *const of = find_features(views, count);
    *out = (validation_views){wanted, malloc(wanted * sizeof *out->views),
                              malloc(wanted * sizeof *out->trained)};
    if (!of || !out->views || !out->trained) {
        free(of);
        validation_views_close(out);
        return fail(why, "no memory for %zu views", count);
    }
    double mean[FEATURES];
    mean_feature(of, count, SIZE_MAX, mean);
    for (size_t v = 0; v < count; v++) of[v].distance = INFINITY;
    for (size_t k = 0, next = nearest(of, count, mean, SIZE_MAX); k < wanted; k++) {
        const size_t centre = next;
        double farthest = -1;
        of[centre].distance = -1; // owns itself, also where two cameras are one
        of[centre].owner = k;
        for (size_t v = 0; v < count; v++) {
            const double d = squared_distance(of[v].feature, of[centre].feature);
            if (d < of[v].distance) of[v].distance = d, of[v].owner = k;
            if (of[v].distance > farthest) farthest = of[v].distance, next = v;
        }
    }
    for (size_t k = 0; k < wanted; k++) {
        mean_feature(of, count, k, mean);
        views[nearest(of, count, mean, k)].validates = true;
    }
    for (size_t v = 0, to = 0; v < count; v++)
        if ((of[v].taken = views[v].validates)) out->views[to++] = v;
    for (size_t k = 0; k < wanted; k++) {
        out->trained[k] = nearest(of, count, of[out->views[k]].feature, SIZE_MAX);
        of[out->trained[k]].taken = true;
    }
    free(of);
    return true;
}

void validation_views_close(validation_views *views) {
    free(views->views);
    free(views->trained);
    *views = (validation_views){0};
}

// ---- neighbours

enum { NEIGHBOURS_MOST = 3 };

typedef struct keyed_view {
    double key;
    int32_t view;
} keyed_view;

static int by_key(const void *a, const void *b) {
    const keyed_view *const x = a, *const y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
                            : (x->view > y->view) - (x->view < y->view);
}

// Halves across the feature of the largest spread. features: NULL for the order as it is.
static void divide(const covered_view *features, keyed_view *all, int64_t count, int64_t first,
                   neighbours *of) {
    if (count <= NEIGHBOURS_MOST) {
        for (int64_t i = 0; i < count; i++) of[all[i].view] = (neighbours){first, count, i};
        return;
    }
    int axis = 0;
    double most = -1;
    for (int i = 0; i < FEATURES && features; i++) {
        double sum = 0, squares = 0;
        for (int64_t v = 0; v < count; v++) {
            const double x = features[all[v].view].feature[i];
            sum += x, squares += x * x;
        }
        const double spread = squares - sum * sum / (double)count;
        if (spread > most) most = spread, axis = i;
    }
    for (int64_t v = 0; v < count && features; v++) all[v].key = features[all[v].view].feature[axis];
    if (features) qsort(all, (size_t)count, sizeof *all, by_key);
    divide(features, all, count / 2, first, of);
    divide(features, all + count / 2, count - count / 2, first + count / 2, of);
}

bool neighbours_choose(const target_view *views, size_t count, bool in_order, int32_t *order, neighbours *of,
                       fault *why) {
    covered_view *const features = find_features(views, count);
    keyed_view *const all = malloc(count * sizeof *all);
    const bool done = features && all;
    int64_t used = 0, alone = (int64_t)count;
    for (size_t v = 0; done && v < count; v++) all[views[v].validates ? --alone : used++].view = (int32_t)v;
    if (done) divide(in_order ? NULL : features, all, used, 0, of);
    for (int64_t i = alone; done && i < (int64_t)count; i++) of[all[i].view] = (neighbours){i, 1, 0};
    for (size_t i = 0; done && i < count; i++) order[i] = all[i].view;
    free(all);
    free(features);
    return done || fail(why, "no memory for %zu views", count);
}
