// SPDX-License-Identifier: MIT
#include "train_depth.h"
#include "start.h"
#include <stdio.h>
#include <stdlib.h>

// The tracks of the points, by view.
typedef struct view_tracks {
    size_t *begin;   // [views + 1]
    uint32_t *point; // [begin[views]]
} view_tracks;

// A counting sort by view.
static bool tracks_open(view_tracks *tracks, const dataset *data, fault *why) {
    const size_t views = data->view_count, count = data->track_count;
    tracks->begin = calloc(views + 2, sizeof *tracks->begin);
    tracks->point = calloc(count + 1, sizeof *tracks->point);
    if (!tracks->begin || !tracks->point) return fail(why, "no memory for %zu track entries", count);
    for (size_t i = 0; i < count; i++) tracks->begin[data->tracks[i].view + 2]++;
    for (size_t v = 0; v < views; v++) tracks->begin[v + 2] += tracks->begin[v + 1];
    for (size_t i = 0; i < count; i++)
        tracks->point[tracks->begin[data->tracks[i].view + 1]++] = data->tracks[i].point;
    return true;
}

static void tracks_close(view_tracks *tracks) {
    free(tracks->begin);
    free(tracks->point);
}

static bool fit_map(const dataset_view *source, target_view *view, const depth_points *points, depth_fit *fit,
                    fault *why) {
    const depth_view seen = {&view->camera, source->depth, source->mask};
    const size_t pixels = (size_t)view->camera.width * (size_t)view->camera.height;
    const size_t room = points->seen ? points->seen_count : points->count;
    depth_sample *samples = calloc(room + 1, sizeof *samples);
    if (!samples) return fail(why, "no memory for %zu points", room);
    size_t found;
    const bool done =
        depth_samples(&seen, points, samples, &found, why) && depth_fit_line(samples, found, fit, why);
    free(samples);
    if (!done) return false;
    depth_fit_apply(fit, source->depth, pixels);
    view->depth_on_host = source->depth;
    return true;
}

static void fit_maps(train_depth *d, const dataset *data, view_split *split, const view_tracks *tracks,
                     fault *first) {
    size_t next = 0; // the split has the views to train on first, in the order of the data
    for (size_t i = 0; i < data->view_count; i++) {
        if (data->views[i].held_out) continue;
        const size_t seen = tracks->begin[i + 1] - tracks->begin[i];
        const depth_points points = {(const float(*)[3])data->points, data->point_count,
                                     seen > 0 ? tracks->point + tracks->begin[i] : NULL, seen};
        depth_fit fit;
        fault reason;
        if (fit_map(&data->views[i], &split->views[next++], &points, &fit, &reason)) {
            d->mean_points += (double)fit.used;
            d->mean_error += fit.error;
            d->fitted++;
        } else if (next - d->fitted == 1) {
            fail(first, "%s: %s", data->views[i].name, reason.text);
        }
    }
}

bool train_depth_open(train_depth *d, const dataset *data, view_split *split, const char *folder,
                      fault *why) {
    *d = (train_depth){.maps = split->training};
    fault first = {0};
    view_tracks tracks = {0};
    const bool done = tracks_open(&tracks, data, why);
    if (done) fit_maps(d, data, split, &tracks, &first);
    tracks_close(&tracks);
    if (!done) return false;
    if (d->fitted == 0) return fail(why, "%s: no depth map can be fitted; %s", folder, first.text);
    d->mean_points /= (double)d->fitted;
    d->mean_error /= (double)d->fitted;
    if (d->fitted < d->maps)
        fprintf(stderr, "dsplat: %s: %zu of %zu depth maps are left out (the first: %s)\n", folder,
                d->maps - d->fitted, d->maps, first.text);
    return true;
}
