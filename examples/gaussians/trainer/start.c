// SPDX-License-Identifier: MIT
#include "start.h"
#include "scene.h"
#include "random.h"
#include "camera.h"
#include "lenses.h"
#include "frame.h"
#include "distwar_gs.h"
#include "gpu/vector.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gaussians_from_points(const float (*points)[3], const uint8_t (*colors)[3], size_t count,
                           const start_settings *settings, gs_gaussians *out, fault *why) {
    const int degree = settings->sh_degree;
    const double smallest = 1e-4 * settings->extent, opacity = settings->opacity;
    const size_t coefficients = GS_CHANNELS * (size_t)((degree + 1) * (degree + 1));
    if (count > INT32_MAX) return fail(why, "%zu points are more than libdistwar_gs takes", count);
    if (!scene_open(out, (int64_t)count, degree, why)) return false;
    double *distance = calloc(count + 1, sizeof *distance); // + 1, as calloc(0) may return NULL
    bool done = distance ? nearest_mean_distance(points, count, distance, why)
                         : fail(why, "no memory for %zu points", count);
    for (size_t i = 0; i < count && done; i++) {
        float log_scale = (float)log(fmax(settings->size * distance[i], smallest));
        for (int axis = 0; axis < 3; axis++) {
            out->mean[3 * i + axis] = points[i][axis];
            out->log_scale[3 * i + axis] = log_scale;
            out->sh[coefficients * i + axis] = (float)scene_sh_constant(colors[i][axis] / 255.0);
        }
        out->quaternion[4 * i] = 1;
        out->opacity_logit[i] = (float)log(opacity / (1 - opacity));
    }
    free(distance);
    if (!done) scene_close(out);
    return done;
}

// ---- the nearest points

enum { NEIGHBOURS = 3, LEAF = 8 };

// A node of the tree is a range of `order`. Its middle entry splits the others by the coordinate along axis[middle].
typedef struct tree {
    const float (*points)[3];
    size_t *order;
    unsigned char *axis;
    random_stream random;
} tree;

static float coordinate(const tree *t, int64_t place, int axis) {
    return t->points[t->order[place]][axis];
}

static void build(tree *t, int64_t begin, int64_t end) {
    const int64_t middle = begin + (end - begin) / 2;
    int axis = 0;
    double width = -1;
    if (end - begin <= LEAF) return;
    for (int a = 0; a < 3; a++) { // the widest
        double low = INFINITY, high = -INFINITY;
        for (int64_t i = begin; i < end; i++) {
            low = fmin(low, coordinate(t, i, a));
            high = fmax(high, coordinate(t, i, a));
        }
        if (high - low > width) width = high - low, axis = a;
    }
    // Quickselect (Hoare). Afterwards no entry before `middle` is greater than it, and none after it is smaller.
    for (int64_t first = begin, last = end - 1, i, j; first < last;) {
        const uint64_t drawn = random_below(&t->random, (uint64_t)(last - first + 1));
        const float pivot = coordinate(t, first + (int64_t)drawn, axis);
        for (i = first, j = last; i <= j;) {
            while (coordinate(t, i, axis) < pivot) i++;
            while (coordinate(t, j, axis) > pivot) j--;
            if (i > j) break;
            const size_t kept = t->order[i];
            t->order[i++] = t->order[j];
            t->order[j--] = kept;
        }
        if (middle > j && middle < i) break;
        if (middle <= j)
            last = j;
        else
            first = i;
    }
    t->axis[middle] = (unsigned char)axis;
    build(t, begin, middle);
    build(t, middle + 1, end);
}

typedef struct nearest {
    size_t self;
    double square[NEIGHBOURS]; // ascending; infinite: none found yet
} nearest;

static void offer(const tree *t, nearest *found, int64_t place) {
    size_t other = t->order[place];
    if (other == found->self) return;
    double square = 0;
    for (int axis = 0; axis < 3; axis++) {
        double offset = (double)t->points[other][axis] - t->points[found->self][axis];
        square += offset * offset;
    }
    for (int i = 0; i < NEIGHBOURS; i++) {
        if (square >= found->square[i]) continue;
        double pushed = found->square[i];
        found->square[i] = square;
        square = pushed;
    }
}

static void search(const tree *t, nearest *found, int64_t begin, int64_t end) {
    if (end - begin <= LEAF) {
        for (int64_t i = begin; i < end; i++) offer(t, found, i);
        return;
    }
    int64_t middle = begin + (end - begin) / 2;
    int axis = t->axis[middle];
    double offset = (double)t->points[found->self][axis] - coordinate(t, middle, axis);
    offer(t, found, middle);
    bool below = offset < 0;
    search(t, found, below ? begin : middle + 1, below ? middle : end);
    if (offset * offset < found->square[NEIGHBOURS - 1])
        search(t, found, below ? middle + 1 : begin, below ? end : middle);
}

bool nearest_mean_distance(const float (*points)[3], size_t count, double *distance, fault *why) {
    tree t = {points, calloc(count + 1, sizeof *t.order), calloc(count + 1, sizeof *t.axis), {count}};
    bool allocated = t.order && t.axis;
    if (allocated) {
        for (size_t i = 0; i < count; i++) t.order[i] = i;
        build(&t, 0, (int64_t)count);
        for (size_t i = 0; i < count; i++) {
            nearest found = {i, {INFINITY, INFINITY, INFINITY}};
            search(&t, &found, 0, (int64_t)count);
            double sum = 0;
            int present = 0;
            for (; present < NEIGHBOURS && isfinite(found.square[present]); present++)
                sum += sqrt(found.square[present]);
            distance[i] = present > 0 ? sum / present : 0;
        }
    }
    free(t.order);
    free(t.axis);
    return allocated || fail(why, "no memory to search the neighbours of %zu points", count);
}

// ---- random points

enum { ENOUGH_CAMERAS = 3, MOST_REFUSALS = 20, MOST_EMPTY = 300 };

// Where a pixel lies in an array of the camera's picture.
static size_t index_of(const gs_camera *camera, double x, double y) {
    return (size_t)y * (size_t)camera->width + (size_t)x;
}

// False if the pixel does not count.
static bool take_color(const target_view *view, size_t pixel, uint8_t color[3]) {
    if (view->mask_on_host && view->mask_on_host[pixel] == 0) return false;
    memcpy(color, view->picture->pixels + GS_CHANNELS * pixel, GS_CHANNELS);
    return true;
}

// Whether some picture contains the point and none shows transparent pixels there.
static bool may_hold_something(const target_view *views, size_t count, const double point[3]) {
    bool seen = false;
    double pixel[2];
    for (size_t i = 0; i < count; i++) {
        if (!camera_pixel(&views[i].camera, point, pixel)) continue;
        const uint8_t *const outline = views[i].outline;
        if (outline && outline[index_of(&views[i].camera, pixel[0], pixel[1])] == 0) return false;
        seen = true;
    }
    return seen;
}

void random_points(const target_view *views, size_t count, bool is_object, size_t wanted, uint64_t seed,
                   float (*points)[3], uint8_t (*colors)[3]) {
    random_stream random = {seed};
    double focus[3], point[3], inside[3], pixel[2];
    camera_focus(views, count, focus);
    double half = INFINITY; // the side of the cube around an object, see start.h
    for (size_t i = 0; i < count; i++) {
        const gs_camera *const camera = &views[i].camera;
        camera_inside(camera, focus, inside);
        const double depth = inside[2];
        double slope = fmin(camera->width / camera->fx, camera->height / camera->fy) / 2;
        if (camera->model == GS_FISHEYE) slope = tan(fmin(fisheye_angle(camera->distortion, slope), 1));
        if (depth > 0) half = fmin(half, depth * slope);
    }
    if (!isfinite(half)) half = scene_extent(views, count);
    const double least_depth = scene_extent(views, count) / 2; // for cameras that look away from the focus
    for (size_t k = 0; k < wanted; k++) {
        bool found = false;
        memset(colors[k], 128, GS_CHANNELS);
        if (is_object) {
            for (int refusals = 0; refusals < MOST_EMPTY && !found; refusals++) {
                for (int i = 0; i < 3; i++) point[i] = focus[i] + half * (2 * random_unit(&random) - 1);
                found = may_hold_something(views, count, point);
            }
            for (size_t i = 0, first = random_below(&random, count); i < count; i++) {
                const target_view *const view = &views[(first + i) % count];
                if (camera_pixel(&view->camera, point, pixel) &&
                    take_color(view, index_of(&view->camera, pixel[0], pixel[1]), colors[k]))
                    break;
            }
        } else
            for (int refusals = 0; refusals < MOST_REFUSALS && !found; refusals++) {
                const target_view *const view = &views[random_below(&random, count)];
                const gs_camera *const camera = &view->camera;
                const int x = (int)random_below(&random, (uint64_t)camera->width);
                const int y = (int)random_below(&random, (uint64_t)camera->height);
                camera_inside(camera, focus, inside);
                const double middle = fmax(inside[2], least_depth);
                camera_point_at(camera, (const double[2]){x + 0.5, y + 0.5},
                                middle * exp(log(4) * (2 * random_unit(&random) - 1)), point);
                size_t seen = 0;
                for (size_t i = 0; i < count && seen < ENOUGH_CAMERAS; i++)
                    seen += camera_pixel(&views[i].camera, point, pixel);
                found = take_color(view, index_of(camera, x, y), colors[k]) &&
                        (seen == ENOUGH_CAMERAS || seen == count);
            }
        for (int i = 0; i < 3; i++) points[k][i] = (float)point[i];
    }
}

// ---- points by stereo

enum { MOST_VIEWS = 150, MOST_SIDE = 320, LEAST_STEPS = 32, MOST_STEPS = 256, LEAST_POINTS = 2000 };
// The nearest plane, in depths of what the cameras look at. Pixels that are drawn, of which those without a point get one,
// as a part of the points that are wanted.
static const double nearest_part = 0.25, drawn_part = 0.2;

// A view at its working size. rgb, covered, inverse: on the host.
typedef struct swept_view {
    const target_view *whole;
    target_view small;
    double middle; // the depth of what the cameras look at
    double worth;  // as the next neighbour
    uint8_t (*rgb)[3], *covered;
    float *inverse;
} swept_view;

typedef struct sweep {
    size_t count, room;
    swept_view *of;       // [count]
    gs_stereo_view *view; // [count]
    gs_stereo in;
    random_stream random;
    float (*points)[3];
    uint8_t (*colors)[3];
    stereo_result *result;
} sweep;

static int factor_of(const gs_camera *camera) {
    const int side = camera->width > camera->height ? camera->width : camera->height;
    return (side + MOST_SIDE - 1) / MOST_SIDE;
}

// stereo: neighbours

// How well `to` serves as neighbour of a view, 0..1: a mean over points that the view sees. Small angles between the rays
// tell depth badly, at large ones things look different.
static double worth_of(const gs_camera *from, const gs_camera *to, double middle) {
    enum { SIDE = 3, POINTS = SIDE * SIDE * 3 };
    double a[3], b[3], point[3], pixel[2], sum = 0;
    camera_center(from, a);
    camera_center(to, b);
    for (int i = 0; i < POINTS; i++) {
        const int x = i % SIDE, y = i / SIDE % SIDE, depth = i / (SIDE * SIDE);
        const double at[2] = {(x + 0.5) / SIDE * from->width, (y + 0.5) / SIDE * from->height};
        camera_point_at(from, at, middle * pow(2, depth - 1), point);
        if (!camera_pixel(to, point, pixel)) continue;
        const double p[3] = {point[0] - a[0], point[1] - a[1], point[2] - a[2]};
        const double q[3] = {point[0] - b[0], point[1] - b[1], point[2] - b[2]};
        const double degrees = acos(fmin(1, dot(p, q) / sqrt(dot(p, p) * dot(q, q)))) * 57.29577951308232;
        sum += fmax(0, fmin(fmin(degrees / 6, 1), (35 - degrees) / (35 - 14)));
    }
    return sum / POINTS;
}

// The best neighbours; one that stands beside one already chosen, seen from the view, is worth less. Then the planes.
static void choose_neighbours(sweep *s, size_t v) {
    gs_stereo_view *const view = &s->view[v];
    const double nearest = 1 / (nearest_part * s->of[v].middle);
    double most =
        LEAST_STEPS; // from one plane to the next no neighbour's picture moves by much more than a pixel
    for (size_t n = 0; n < s->count; n++)
        s->of[n].worth = n == v ? 0 : worth_of(&view->camera, &s->view[n].camera, s->of[v].middle);
    while (view->neighbours < GS_STEREO_NEIGHBOURS) {
        size_t best = 0;
        for (size_t n = 1; n < s->count; n++)
            if (s->of[n].worth > s->of[best].worth) best = n;
        if (s->of[best].worth <= 0) break;
        const gs_camera *const to = &s->view[best].camera;
        view->neighbour[view->neighbours++] = (int32_t)best;
        most = fmax(most, camera_separation(&view->camera, to) * to->fx * nearest);
        for (size_t n = 0; n < s->count; n++)
            if (s->of[n].worth > 0)
                s->of[n].worth *= fmin(1, 2 * camera_separation(to, &s->view[n].camera) /
                                              camera_separation(&view->camera, &s->view[n].camera));
    }
    view->steps = (int32_t)fmin(ceil(most), MOST_STEPS);
    view->step = (float)(nearest / view->steps);
}

// stereo: points

static bool find_points(sweep *s) {
    const size_t bytes = (size_t)s->in.most_pixels * sizeof(float[3]);
    float *const device = device_allocate(bytes), (*const host)[3] = malloc(bytes);
    GS_CHECK(gs_stereo_depths(&s->in, NULL));
    for (size_t v = 0; v < s->count && host; v++) {
        const size_t pixels = camera_pixels(&s->view[v].camera);
        GS_CHECK(gs_stereo_points(&s->in, (int32_t)v, device, NULL));
        device_download(host, device, pixels * sizeof *host);
        for (size_t i = 0; i < pixels; i++) {
            if (isnan(host[i][0])) continue;
            // Of all, s->room are kept, any with the same chance (Vitter 1985, algorithm R).
            const size_t before = s->result->found++;
            const size_t to = before < s->room ? before : random_below(&s->random, before + 1);
            if (to >= s->room) continue;
            memcpy(s->points[to], host[i], sizeof *s->points);
            memcpy(s->colors[to], s->of[v].rgb[i], sizeof *s->colors);
        }
    }
    for (size_t v = 0; v < s->count; v++) { // points of one view cover pixels of others
        const size_t pixels = camera_pixels(&s->view[v].camera);
        device_download(s->of[v].inverse, s->view[v].inverse_depth, pixels * sizeof(float));
        device_download(s->of[v].covered, s->view[v].covered, pixels);
    }
    device_free(device);
    free(host);
    return host != NULL;
}

// A point at a random pixel of view v, unless the pixel has one: at the inverse depth of the first covered pixel in a random
// direction, of the first of four directions that have one.
static void fill(sweep *s, size_t v) {
    const gs_camera *const camera = &s->view[v].camera;
    const int x = (int)random_below(&s->random, (uint64_t)camera->width);
    const int y = (int)random_below(&s->random, (uint64_t)camera->height);
    const target_view *const whole = s->of[v].whole;
    const int factor = factor_of(&whole->camera);
    const size_t i = index_of(camera, x, y), in_whole = index_of(&whole->camera, x * factor, y * factor);
    if (s->of[v].covered[i] || (whole->mask_on_host && whole->mask_on_host[in_whole] == 0) ||
        (whole->outline && whole->outline[in_whole] == 0))
        return;
    double w = 0, point[3];
    for (int tries = 0; tries < 4 && w <= 0; tries++) {
        const double angle = 6.283185307179586 * random_unit(&s->random);
        double to_x = x + 0.5, to_y = y + 0.5;
        for (;;) {
            to_x += cos(angle), to_y += sin(angle);
            if (!(to_x >= 0 && to_x < camera->width && to_y >= 0 && to_y < camera->height)) break;
            const size_t k = index_of(camera, to_x, to_y);
            if (!s->of[v].covered[k]) continue;
            w = s->of[v].inverse[k];
            break;
        }
    }
    if (w <= 0) w = (0.02 + 0.98 * random_unit(&s->random)) / s->of[v].middle;
    camera_point_at(camera, (const double[2]){x + 0.5, y + 0.5}, 1 / w, point);
    for (int c = 0; c < 3; c++) s->points[s->result->points][c] = (float)point[c];
    memcpy(s->colors[s->result->points++], s->of[v].rgb[i], sizeof *s->colors);
}

static bool open_view(sweep *s, size_t v) {
    swept_view *const of = &s->of[v];
    const picture_form form = {.factor = factor_of(&of->whole->camera)};
    target_view_form(&of->small, of->whole, &form, true);
    const size_t pixels = camera_pixels(&of->small.camera);
    s->view[v] = (gs_stereo_view){.camera = of->small.camera,
                                  .rgb = of->small.pixels,
                                  .mask = of->small.alpha ? of->small.alpha : of->small.mask,
                                  .inverse_depth = device_allocate(pixels * sizeof(float)),
                                  .covered = device_allocate(pixels)};
    device_clear(s->view[v].covered, pixels);
    if ((int64_t)pixels > s->in.most_pixels) s->in.most_pixels = (int64_t)pixels;
    of->rgb = malloc(pixels * sizeof *of->rgb);
    of->covered = malloc(pixels);
    of->inverse = malloc(pixels * sizeof *of->inverse);
    if (of->rgb) device_download(of->rgb, of->small.pixels, pixels * sizeof *of->rgb);
    return of->rgb && of->covered && of->inverse;
}

bool stereo_points(const target_view *views, size_t count, size_t wanted, uint64_t seed, float (*points)[3],
                   uint8_t (*colors)[3], stereo_result *result) {
    const size_t stride = (count + MOST_VIEWS - 1) / MOST_VIEWS;
    const size_t swept = (count + stride - 1) / stride, draws = (size_t)(drawn_part * (double)wanted);
    *result = (stereo_result){0};
    for (size_t v = 0; v < count; v++)
        if (views[v].camera.model != GS_PINHOLE) return true;
    sweep s = {.count = swept,
               .room = wanted - draws,
               .of = calloc(swept, sizeof *s.of),
               .view = calloc(swept, sizeof *s.view),
               .in = {.count = (int32_t)swept, .least_score = 0.7f, .least_lead = 0.03f, .tolerance = 1},
               .random = random_at(seed, RANDOM_STEREO, 0, 0),
               .points = points,
               .colors = colors,
               .result = result};
    gs_stereo_view *const device = device_allocate(swept * sizeof *device);
    const double least = scene_extent(views, count) / 2; // for cameras that look away from the focus
    double focus[3];
    camera_focus(views, count, focus);
    bool done = s.of && s.view;
    for (size_t v = 0; v < swept && done; v++) {
        s.of[v].whole = &views[v * stride];
        s.of[v].middle = fmax(camera_depth(&s.of[v].whole->camera, focus), least);
    }
    s.in.views = device;
    for (size_t v = 0; v < swept && done; v++) done = open_view(&s, v);
    for (size_t v = 0; v < swept && done; v++) choose_neighbours(&s, v);
    if (done) device_upload(device, s.view, swept * sizeof *device);
    done = done && find_points(&s);
    result->views = swept;
    if (done && (result->found >= LEAST_POINTS || result->found >= wanted)) {
        result->points = result->found < s.room ? result->found : s.room;
        for (size_t k = 0; k < draws; k++) fill(&s, k * swept / draws);
    }
    for (size_t v = 0; v < swept && s.of && s.view; v++) {
        target_view_close(&s.of[v].small);
        device_free(s.view[v].inverse_depth);
        device_free(s.view[v].covered);
        free(s.of[v].rgb);
        free(s.of[v].covered);
        free(s.of[v].inverse);
    }
    device_free(device);
    free(s.view);
    free(s.of);
    return done;
}

// ---- depth maps

enum { CELLS = 64, PAIRS = 500, SUBSET = 2000, ROUNDS = 20 };

bool depth_samples(const depth_view *view, const depth_points *points, depth_sample *samples, size_t *found,
                   fault *why) {
    const gs_camera *const camera = view->camera;
    const int longer = camera->width > camera->height ? camera->width : camera->height,
              side = (longer + CELLS - 1) / CELLS, columns = camera->width / side + 3;
    const size_t cells = (size_t)columns * (size_t)(camera->height / side + 3),
                 count = points->seen ? points->seen_count : points->count;
    // If `seen` is not known: of cells of `side` pixels, in a frame of empty ones, the largest inverse depth of a point.
    double *const nearest = points->seen ? NULL : calloc(cells, sizeof *nearest);
    *found = 0;
    if (!points->seen && !nearest) return fail(why, "no memory for a grid of %zu cells", cells);
    for (int pass = nearest ? 0 : 1; pass < 2; pass++) // first the cells, then the samples
        for (size_t i = 0; i < count; i++) {
            const float *const point = points->at[points->seen ? points->seen[i] : i];
            const double world[3] = {point[0], point[1], point[2]};
            double pixel[2], before = 0;
            if (!camera_pixel(camera, world, pixel)) continue;
            const double inverse = 1 / camera_depth(camera, world);
            const int cell = ((int)pixel[1] / side + 1) * columns + (int)pixel[0] / side + 1;
            if (pass == 0) {
                nearest[cell] = fmax(nearest[cell], inverse);
                continue;
            }
            for (int k = 0; k < 9 && nearest; k++)
                before = fmax(before, nearest[cell + (k / 3 - 1) * columns + k % 3 - 1]);
            const size_t at = index_of(camera, pixel[0], pixel[1]);
            if (0.98 * before > inverse || isnan(view->map[at]) || (view->mask && view->mask[at] == 0))
                continue;
            samples[(*found)++] = (depth_sample){(double)view->map[at], inverse};
        }
    free(nearest);
    return true;
}

// ---- the line

static double difference(const depth_fit *line, const depth_sample *s) {
    return fabs(line->scale * s->value + line->shift - s->inverse);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The median absolute difference of `step`-th samples from the line; INFINITY if it is not below `least`. room: of `count`
// values.
static double median_below(double least, const depth_fit *line, const depth_sample *samples, size_t count,
                           size_t step, double *room) {
    size_t n = 0, below = 0;
    for (size_t i = 0; i < count; i += step) {
        room[n] = difference(line, &samples[i]);
        below += room[n++] < least;
    }
    if (below <= n / 2) return INFINITY;
    qsort(room, n, sizeof *room, by_value);
    return room[n / 2];
}

// Least squares through the samples that differ from the line by at most `most`. False if their values are alike.
static bool refit(const depth_sample *samples, size_t count, double most, depth_fit *line) {
    double value = 0, inverse = 0, spread = 0, product = 0, square = 0, size = 0;
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (difference(line, &samples[i]) <= most)
            value += samples[i].value, inverse += samples[i].inverse, n++;
    value /= (double)n;
    inverse /= (double)n;
    for (size_t i = 0; i < count; i++) {
        if (!(difference(line, &samples[i]) <= most)) continue;
        const double v = samples[i].value - value;
        spread += v * v;
        product += v * (samples[i].inverse - inverse);
        size += samples[i].value * samples[i].value;
    }
    if (!(spread > 1e-12 * size)) return false;
    depth_fit next = {.scale = product / spread, .used = n};
    next.shift = inverse - next.scale * value;
    for (size_t i = 0; i < count; i++)
        if (difference(line, &samples[i]) <= most)
            square += difference(&next, &samples[i]) * difference(&next, &samples[i]);
    next.error = sqrt(square / (double)n) / inverse;
    *line = next;
    return true;
}

bool depth_fit_line(const depth_sample *samples, size_t count, depth_fit *out, fault *why) {
    *out = (depth_fit){0};
    if (count < DEPTH_FIT_LEAST)
        return fail(why, "%zu points are seen where it has values; %d are needed", count, DEPTH_FIT_LEAST);
    double *const room = malloc(count * sizeof *room);
    if (!room) return fail(why, "no memory for %zu points", count);
    random_stream random = random_at(0, RANDOM_DEPTH_FIT, 0, 0);
    double least = INFINITY, mean = 0;
    for (int pair = 0; pair < PAIRS; pair++) {
        const depth_sample a = samples[random_below(&random, count)],
                           b = samples[random_below(&random, count)];
        depth_fit line = {.scale = (b.inverse - a.inverse) / (b.value - a.value)};
        line.shift = a.inverse - line.scale * a.value;
        if (!isfinite(line.scale) || !isfinite(line.shift)) continue;
        const double median = median_below(least, &line, samples, count, (count + SUBSET - 1) / SUBSET, room);
        if (median < least) least = median, *out = line;
    }
    bool found = isfinite(least);
    for (size_t i = 0; i < count; i++) mean += samples[i].inverse / (double)count;
    for (int round = 0; round < ROUNDS && found; round++) {
        const depth_fit before = *out;
        const double median = median_below(INFINITY, out, samples, count, 1, room);
        const double deviation = 1.4826 * (1 + 5 / ((double)count - 2)) * median; // of normal errors
        // Rounding is no outlier.
        found = refit(samples, count, fmax(2.5 * deviation, 1e-6 * mean), out);
        if (round > 0 && before.scale - out->scale == 0 && before.shift - out->shift == 0) break;
    }
    free(room);
    if (!found) return fail(why, "its values at the %zu points that are seen are alike", count);
    return out->scale > 0 ||
           fail(why, "its values fall where the points are nearer: it must hold inverse depth, not depth");
}

void depth_fit_apply(const depth_fit *fit, float *map, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const float inverse = (float)(fit->scale * (double)map[i] + fit->shift);
        map[i] = !isfinite(inverse) ? NAN : inverse > 0 ? inverse : 0;
    }
}
