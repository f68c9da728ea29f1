// SPDX-License-Identifier: MIT
#include "start/spared_views.h"
#include "frames/camera.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEATURES = 6 }; // position, direction

typedef struct cover {
    const target_view *views;
    size_t count;
    double (*feature)[FEATURES]; // [count]
    double *distance;            // [count]: squared, to the nearest centre
    size_t *owner;               // [count]: which centre that is
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

static void find_centres(cover *c, size_t wanted) {
    double mean[FEATURES];
    mean_feature(c, SIZE_MAX, mean);
    size_t next = nearest(c, mean, SIZE_MAX, NULL);
    for (size_t v = 0; v < c->count; v++) c->distance[v] = INFINITY;
    for (size_t k = 0; k < wanted; k++) {
        double farthest = -1;
        const size_t centre = next;
        c->distance[centre] = -1; // owns itself, also where two cameras are one
        c->owner[centre] = k;
        for (size_t v = 0; v < c->count; v++) {
            const double distance = squared_distance(c->feature[v], c->feature[centre]);
            if (distance < c->distance[v]) c->distance[v] = distance, c->owner[v] = k;
            if (c->distance[v] > farthest) farthest = c->distance[v], next = v;
        }
    }
}

static void choose(cover *c, target_view *views, bool *taken, spared_views *out) {
    double mean[FEATURES];
    size_t to = 0;
    for (size_t k = 0; k < out->count; k++) {
        mean_feature(c, k, mean);
        views[nearest(c, mean, k, NULL)].set_aside = true;
    }
    for (size_t v = 0; v < c->count; v++)
        if ((taken[v] = views[v].set_aside)) out->aside[to++] = v;
    for (size_t k = 0; k < out->count; k++) {
        out->beside[k] = nearest(c, c->feature[out->aside[k]], SIZE_MAX, taken);
        taken[out->beside[k]] = true;
    }
}

bool spared_views_choose(target_view *views, size_t count, size_t wanted, spared_views *out, fault *why) {
    *out = (spared_views){0};
    if (wanted == 0) return true;
    if (2 * wanted > count)
        return fail(why, "--validate %zu: more than half of the %zu training views", wanted, count);
    cover c = {.views = views,
               .count = count,
               .feature = malloc(count * sizeof *c.feature),
               .distance = malloc(count * sizeof *c.distance),
               .owner = malloc(count * sizeof *c.owner)};
    bool *const taken = malloc(count * sizeof *taken);
    *out = (spared_views){wanted, malloc(wanted * sizeof *out->aside), malloc(wanted * sizeof *out->beside)};
    const bool done = c.feature && c.distance && c.owner && taken && out->aside && out->beside;
    if (done) {
        find_features(&c);
        find_centres(&c, wanted);
        choose(&c, views, taken, out);
    } else {
        spared_views_close(out);
    }
    free(taken);
    free(c.owner);
    free(c.distance);
    free(c.feature);
    return done || fail(why, "no memory for %zu views", count);
}

void spared_views_close(spared_views *views) {
    free(views->aside);
    free(views->beside);
    *views = (spared_views){0};
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
    for (size_t v = 0; done && v < count; v++) all[views[v].set_aside ? --alone : used++].view = (int32_t)v;
    if (done) divide(in_order ? NULL : &c, all, 0, used, of);
    for (int64_t i = alone; done && i < (int64_t)count; i++) of[all[i].view] = (neighbours){i, 1, 0};
    for (size_t i = 0; done && i < count; i++) order[i] = all[i].view;
    free(all);
    free(c.feature);
    return done || fail(why, "no memory for %zu views", count);
}
