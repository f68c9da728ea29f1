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
static void *allocate_from_pool(size_t bytes) {
    void *memory = NULL;
    const cudaError_t status = cudaMallocAsync(&memory, bytes, NULL);
    if (status == cudaSuccess) return memory;
    cudaGetLastError(); // a device without a pool, or without memory, which is told below
    return device_allocate(bytes);
}

// A copy on the device; NULL of NULL.
static void *uploaded(const void *host, size_t bytes) {
    if (!host) return NULL;
    void *const copy = allocate_from_pool(bytes);
    device_upload(copy, host, bytes);
    return copy;
}

static size_t pixels_of(const image *picture) {
    return (size_t)picture->width * (size_t)picture->height;
}

static bool describe(target_view *view, const gs_camera *camera, const image *picture, fault *why) {
    if (picture->channels != 3 || picture->width != camera->width || picture->height != camera->height)
        return fail(why, "a picture of %d x %d with %d channels for a camera of %d x %d", picture->width,
                    picture->height, picture->channels, camera->width, camera->height);
    *view = (target_view){.camera = *camera, .picture = picture, .counted = (int64_t)pixels_of(picture)};
    return true;
}

static void describe_mask(target_view *view, const uint8_t *mask) {
    const size_t pixels = pixels_of(view->picture);
    view->mask_on_host = mask;
    for (size_t i = 0; mask && i < pixels; i++) view->counted -= mask[i] == 0;
}

bool target_view_open(target_view *view, const gs_camera *camera, const image *picture, fault *why) {
    if (!describe(view, camera, picture, why)) return false;
    target_view_upload(view, false);
    return true;
}

void target_view_set_mask(target_view *view, const uint8_t *mask) {
    describe_mask(view, mask);
    view->mask = uploaded(mask, pixels_of(view->picture));
}

void target_view_set_alpha(target_view *view, const uint8_t *alpha) {
    view->outline = alpha;
    view->alpha = uploaded(alpha, pixels_of(view->picture));
}

bool target_view_list(target_view *view, const dataset_view *source, fault *why) {
    if (!describe(view, &source->camera, &source->picture, why))
        return fail(why, "%s: %s", source->name, why->text);
    describe_mask(view, source->mask);
    view->outline = source->alpha;
    view->name = source->name;
    return true;
}

void target_view_upload(target_view *view, bool with_alpha) {
    const size_t pixels = pixels_of(view->picture);
    view->pixels = uploaded(view->picture->pixels, 3 * pixels);
    view->mask = uploaded(view->mask_on_host, pixels);
    if (with_alpha) view->alpha = uploaded(view->outline, pixels);
    view->depth = uploaded(view->depth_on_host, pixels * sizeof(float));
}

void target_view_set_depth(target_view *view, const float *depth) {
    view->depth = uploaded(depth, pixels_of(view->picture) * sizeof *depth);
    view->depth_on_host = depth;
}

// An array of the device at 1/factor of its size; NULL of NULL. bytes: of the small one.
static void *shrunk(const gs_camera *camera, const void *whole, int factor, gs_shrink_form form, int channels,
                    size_t bytes) {
    if (!whole) return NULL;
    gs_shrinking by = {camera->width, camera->height, factor, form, .channels = channels, .count = 1};
    by.from[0] = whole, by.small = allocate_from_pool(bytes);
    GS_CHECK(gs_shrink(&by, NULL));
    return by.small;
}

// The view at 1/factor of its size (gs_shrink), on the device alone: it has no picture.
static void target_view_shrink(target_view *small, const target_view *view, int factor) {
    const gs_camera *const camera = &view->camera;
    *small = (target_view){.camera = *camera, .name = view->name};
    dataset_downscale_camera(&small->camera, factor);
    const size_t pixels = (size_t)small->camera.width * (size_t)small->camera.height;
    small->counted = (int64_t)pixels;
    small->pixels = shrunk(camera, view->pixels, factor, GS_SHRINK_BYTES, GS_CHANNELS, GS_CHANNELS * pixels);
    small->alpha = shrunk(camera, view->alpha, factor, GS_SHRINK_BYTES, 1, pixels);
    small->mask = shrunk(camera, view->mask, factor, GS_SHRINK_MASK, 0, pixels);
    small->depth = shrunk(camera, view->depth, factor, GS_SHRINK_DEPTH, 0, pixels * sizeof *small->depth);
}

// A picture of the host with `bytes` bytes per pixel on the device, in the corner of a larger one whose other bytes are
// `fill`. picture NULL: bytes of 255. NULL: no memory.
static void *enlarged(const void *picture, size_t bytes, const gs_camera *from, const gs_camera *to,
                      int fill) {
    const size_t row = bytes * (size_t)from->width, to_row = bytes * (size_t)to->width,
                 size = to_row * (size_t)to->height;
    uint8_t *const host = malloc(size);
    if (!host) return NULL;
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
// width, height: at least its own. Reads the view's host arrays. Fails if there is no memory.
static bool target_view_pad(target_view *padded, const target_view *view, int width, int height,
                            bool with_alpha, fault *why) {
    const gs_camera *from = &view->camera;
    *padded = (target_view){.camera = *from, .counted = view->counted, .name = view->name};
    gs_camera *const to = &padded->camera;
    to->width = width, to->height = height;
    const bool alpha = with_alpha && view->outline,
               mask = view->mask_on_host || from->width < width || from->height < height;
    padded->pixels = enlarged(view->picture->pixels, GS_CHANNELS, from, to, 0);
    if (mask) padded->mask = enlarged(view->mask_on_host, 1, from, to, 0);
    if (alpha) padded->alpha = enlarged(view->outline, 1, from, to, 0);
    if (view->depth_on_host)
        padded->depth = enlarged(view->depth_on_host, sizeof(float), from, to, 255); // of bytes 255: NaN
    return (padded->pixels && (padded->mask || !mask) && (padded->alpha || !alpha) &&
            (padded->depth || !view->depth_on_host)) ||
           fail(why, "no memory for a picture of %d x %d", width, height);
}

void target_view_release(target_view *view) {
    device_free(view->depth);
    device_free(view->alpha);
    device_free(view->mask);
    device_free(view->pixels);
    view->depth = NULL, view->alpha = view->mask = view->pixels = NULL;
}

void target_view_close(target_view *view) {
    target_view_release(view);
    *view = (target_view){0};
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

bool view_split_open(view_split *split, const dataset *data, const char *source, bool with_alpha,
                     fault *why) {
    if (!view_split_list(split, data, source, why)) return false;
    for (size_t i = 0; i < split->training + split->held_out; i++)
        target_view_upload(&split->views[i], with_alpha);
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
    const size_t pixels = (size_t)camera.width * (size_t)camera.height;
    return pixels *
           (3u + masked + (cache->with_alpha && view->outline) + (view->depth_on_host ? sizeof(float) : 0));
}

bool picture_cache_open(picture_cache *cache, const target_view *views, size_t count, bool with_alpha,
                        size_t most_bytes, fault *why) {
    *cache = (picture_cache){.pictures = calloc(count + 1, sizeof *cache->pictures),
                             .count = count,
                             .with_alpha = with_alpha,
                             .now = 1};
    if (!cache->pictures) {
        cache->count = 0; // it may be closed
        return fail(why, "no memory for a list of %zu pictures", count);
    }
    for (size_t i = 0; i < count; i++) cache->pictures[i].listed = views[i];
    size_t unused = 0, all = 0;
    DEVICE_CHECK(cudaMemGetInfo(&unused, &all));
    cache->most_bytes = most_bytes > 0 ? most_bytes : all / 4;
    return true;
}

void picture_cache_next_step(picture_cache *cache) {
    cache->now++;
}

// Views of earlier steps go, the one that has not been used for longest first.
static void make_room(picture_cache *cache, size_t bytes) {
    while (cache->bytes + bytes > cache->most_bytes) {
        cached_picture *oldest = NULL;
        for (size_t i = 0; i < cache->count; i++) {
            cached_picture *const p = &cache->pictures[i];
            const bool may_go = p->view.pixels && p->last_used < cache->now;
            if (may_go && (!oldest || p->last_used < oldest->last_used)) oldest = p;
        }
        if (!oldest) return;
        target_view_release(&oldest->view);
        cache->bytes -= bytes_of(cache, oldest);
    }
}

bool target_view_form(target_view *formed, const target_view *listed, const picture_form *form,
                      bool with_alpha, fault *why) {
    target_view whole = *listed;
    if (!is_padded(form, &whole.camera))
        target_view_upload(&whole, with_alpha);
    else if (!target_view_pad(&whole, listed, form->width, form->height, with_alpha, why))
        return false;
    if (form->factor <= 1) {
        *formed = whole;
        return true;
    }
    target_view_shrink(formed, &whole, form->factor);
    target_view_release(&whole);
    return true;
}

const target_view *picture_cache_view(picture_cache *cache, size_t index) {
    cached_picture *const p = &cache->pictures[index];
    if (!p->view.pixels) {
        const size_t bytes = bytes_of(cache, p);
        fault why;
        make_room(cache, bytes);
        if (!target_view_form(&p->view, &p->listed, &cache->form, cache->with_alpha, &why))
            device_give_up("%s", why.text);
        cache->bytes += bytes;
    }
    p->last_used = cache->now;
    return &p->view;
}

bool picture_cache_has(const picture_cache *cache, size_t index) {
    return cache->pictures[index].view.pixels != NULL;
}

void picture_cache_close(picture_cache *cache) {
    for (size_t i = 0; i < cache->count; i++) target_view_release(&cache->pictures[i].view);
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

// All pictures, at one size, and small.
static bool open_sizes(view_source *s, fault *why) {
    const picture_form form = form_of(s, s->schedule->percent > 0);
    if (form.width > 0) s->padded = calloc(s->count, sizeof *s->padded);
    if (form.factor > 1) s->small = calloc(s->count, sizeof *s->small);
    if ((form.width > 0 && !s->padded) || (form.factor > 1 && !s->small))
        return fail(why, "no memory for %zu views", s->count);
    for (size_t i = 0; i < s->count; i++) {
        const target_view *const view = &s->views[i];
        if (s->padded &&
            !target_view_pad(&s->padded[i], view, form.width, form.height, view->alpha != NULL, why))
            return false;
        if (s->small) target_view_shrink(&s->small[i], s->padded ? &s->padded[i] : view, form.factor);
    }
    return true;
}

bool view_source_open(view_source *source, picture_cache *pictures, const target_view *views, size_t count,
                      const resolution_schedule *schedule, int64_t batch, uint64_t seed, bool validates,
                      fault *why) {
    *source = (view_source){.views = views,
                            .count = count,
                            .pictures = pictures,
                            .schedule = schedule,
                            .batch = batch,
                            .shaped = -1};
    size_t trained = 0;
    for (size_t i = 0; i < count; i++) trained += !(validates && views[i].validates);
    if (!view_order_open(&source->order, count, seed, why)) return false;
    if (trained == 0) return fail(why, "all %zu views are validation views", count);
    if (trained < count) {
        size_t to = 0;
        source->trained = malloc(trained * sizeof *source->trained);
        source->asked = malloc(trained * sizeof *source->asked);
        if (!source->trained || !source->asked) return fail(why, "no memory for %zu views", trained);
        for (size_t i = 0; i < count; i++)
            if (!views[i].validates) source->trained[to++] = i;
        if (!view_order_open(&source->trained_order, trained, seed, why)) return false;
    }
    if (!pictures) return open_sizes(source, why);
    source->shapes = calloc(count, sizeof *source->shapes);
    return source->shapes || fail(why, "no memory for %zu views", count);
}

const target_view *view_source_at(view_source *s, bool small) {
    if (!s->pictures) return small && s->small ? s->small : s->padded ? s->padded : s->views;
    if (small == s->shaped) return s->shapes;
    const picture_form form = form_of(s, small);
    for (size_t i = 0; i < s->count; i++)
        s->shapes[i] = (target_view){.camera = picture_form_camera(&form, &s->views[i].camera)};
    // Those of another form go.
    for (size_t i = 0; i < s->pictures->count; i++) target_view_release(&s->pictures->pictures[i].view);
    s->pictures->bytes = 0, s->pictures->form = form;
    s->shaped = small;
    return s->shapes;
}

const target_view *view_source_asked(view_source *s, bool small, bool trained, size_t *count) {
    const target_view *const views = view_source_at(s, small);
    *count = trained ? s->trained_order.count : s->count;
    for (size_t i = 0; trained && i < *count; i++) s->asked[i] = views[s->trained[i]];
    return trained ? s->asked : views;
}

void view_source_close(view_source *s) {
    for (size_t i = 0; s->small && i < s->count; i++) target_view_close(&s->small[i]);
    for (size_t i = 0; s->padded && i < s->count; i++) target_view_close(&s->padded[i]);
    free(s->small);
    free(s->padded);
    free(s->shapes);
    free(s->trained);
    free(s->asked);
    view_order_close(&s->order);
    view_order_close(&s->trained_order);
    *s = (view_source){0};
}

// ---- validation views, and groups of neighbours

enum { FEATURES = 6 }; // position, direction

typedef struct cover {
    const target_view *views;
    size_t count;
    double (*feature)[FEATURES]; // [count]
    size_t *owner;               // [count]: which centre is the nearest
} cover;

static double squared_distance(const double a[FEATURES], const double b[FEATURES]) {
    double sum = 0;
    for (int i = 0; i < FEATURES; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sum;
}

// The mean of the views that one centre owns; SIZE_MAX: of all.
static void mean_feature(const cover *c, size_t owner, double mean[FEATURES]) {
    size_t members = 0;
    memset(mean, 0, FEATURES * sizeof *mean);
    for (size_t v = 0; v < c->count; v++) {
        if (owner != SIZE_MAX && c->owner[v] != owner) continue;
        for (int i = 0; i < FEATURES; i++) mean[i] += c->feature[v][i];
        members++;
    }
    for (int i = 0; i < FEATURES; i++) mean[i] /= (double)members;
}

// The first of the nearest; owner as above; not one that is taken.
static size_t nearest(const cover *c, const double to[FEATURES], size_t owner, const bool *taken) {
    size_t found = SIZE_MAX;
    double least = INFINITY;
    for (size_t v = 0; v < c->count; v++) {
        if ((owner != SIZE_MAX && c->owner[v] != owner) || (taken && taken[v])) continue;
        const double distance = squared_distance(c->feature[v], to);
        if (found == SIZE_MAX || distance < least) found = v, least = distance;
    }
    return found;
}

// Positions count in units of their root mean square distance from their mean, directions as unit vectors.
static void find_features(cover *c) {
    double mean[FEATURES], spread = 0;
    for (size_t v = 0; v < c->count; v++) {
        camera_center(&c->views[v].camera, c->feature[v]);
        for (int i = 0; i < 3; i++) c->feature[v][3 + i] = c->views[v].camera.rotation[6 + i];
    }
    mean_feature(c, SIZE_MAX, mean);
    for (size_t v = 0; v < c->count; v++)
        for (int i = 0; i < 3; i++) spread += pow(c->feature[v][i] - mean[i], 2);
    spread = spread > 0 ? sqrt(spread / (double)c->count) : 1;
    for (size_t v = 0; v < c->count; v++)
        for (int i = 0; i < 3; i++) c->feature[v][i] = (c->feature[v][i] - mean[i]) / spread;
}

bool validation_views_choose(target_view *views, size_t count, size_t wanted, validation_views *out,
                             fault *why) {
    *out = (validation_views){0};
    if (wanted == 0) return true;
    if (2 * wanted > count)
        return fail(why, "--validate %zu: more than half of the %zu training views", wanted, count);
    cover c = {.views = views,
               .count = count,
               .feature = malloc(count * sizeof *c.feature),
               .owner = malloc(count * sizeof *c.owner)};
    double *const distance = malloc(count * sizeof *distance),
                  mean[FEATURES]; // squared, to the nearest centre
    bool *const taken = malloc(count * sizeof *taken);
    *out = (validation_views){wanted, malloc(wanted * sizeof *out->views),
                              malloc(wanted * sizeof *out->trained)};
    const bool done = c.feature && distance && c.owner && taken && out->views && out->trained;
    if (done) {
        find_features(&c);
        mean_feature(&c, SIZE_MAX, mean);
        for (size_t v = 0; v < count; v++) distance[v] = INFINITY;
        for (size_t k = 0, next = nearest(&c, mean, SIZE_MAX, NULL); k < wanted; k++) {
            const size_t centre = next;
            double farthest = -1;
            distance[centre] = -1; // owns itself, also where two cameras are one
            c.owner[centre] = k;
            for (size_t v = 0; v < count; v++) {
                const double d = squared_distance(c.feature[v], c.feature[centre]);
                if (d < distance[v]) distance[v] = d, c.owner[v] = k;
                if (distance[v] > farthest) farthest = distance[v], next = v;
            }
        }
        for (size_t k = 0; k < wanted; k++) {
            mean_feature(&c, k, mean);
            views[nearest(&c, mean, k, NULL)].validates = true;
        }
        for (size_t v = 0, to = 0; v < count; v++)
            if ((taken[v] = views[v].validates)) out->views[to++] = v;
        for (size_t k = 0; k < wanted; k++) {
            out->trained[k] = nearest(&c, c.feature[out->views[k]], SIZE_MAX, taken);
            taken[out->trained[k]] = true;
        }
    } else {
        validation_views_close(out);
    }
    free(taken);
    free(c.owner);
    free(distance);
    free(c.feature);
    return done || fail(why, "no memory for %zu views", count);
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

// Sorts by the feature of the largest spread.
static void sort_along(const cover *c, keyed_view *of, int64_t count) {
    int axis = 0;
    double most = -1;
    for (int i = 0; i < FEATURES; i++) {
        double sum = 0, squares = 0;
        for (int64_t v = 0; v < count; v++) {
            const double x = c->feature[of[v].view][i];
            sum += x, squares += x * x;
        }
        const double spread = squares - sum * sum / (double)count;
        if (spread > most) most = spread, axis = i;
    }
    for (int64_t v = 0; v < count; v++) of[v].key = c->feature[of[v].view][axis];
    qsort(of, (size_t)count, sizeof *of, by_key);
}

// c: NULL for the order as it is.
static void divide(const cover *c, keyed_view *all, int64_t first, int64_t count, neighbours *of) {
    if (count > NEIGHBOURS_MOST) {
        if (c) sort_along(c, all + first, count);
        divide(c, all, first, count / 2, of);
        divide(c, all, first + count / 2, count - count / 2, of);
        return;
    }
    for (int64_t i = 0; i < count; i++) of[all[first + i].view] = (neighbours){first, count, i};
}

bool neighbours_choose(const target_view *views, size_t count, bool in_order, int32_t *order, neighbours *of,
                       fault *why) {
    cover c = {.views = views, .count = count, .feature = malloc(count * sizeof *c.feature)};
    keyed_view *const all = malloc(count * sizeof *all);
    const bool done = c.feature && all;
    int64_t used = 0, alone = (int64_t)count;
    if (done) find_features(&c);
    for (size_t v = 0; done && v < count; v++) all[views[v].validates ? --alone : used++].view = (int32_t)v;
    if (done) divide(in_order ? NULL : &c, all, 0, used, of);
    for (int64_t i = alone; done && i < (int64_t)count; i++) of[all[i].view] = (neighbours){i, 1, 0};
    for (size_t i = 0; done && i < count; i++) order[i] = all[i].view;
    free(all);
    free(c.feature);
    return done || fail(why, "no memory for %zu views", count);
}
