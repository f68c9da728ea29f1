// SPDX-License-Identifier: MIT
#include "depth_maps.h"
#include "companion.h"
#include "parallel.h"
#include "images/image.h"
#include <math.h>
#include <stdlib.h>

typedef struct map_loading {
    const char *folder;
    const dataset_options *options;
    depth_maps_of of;
    dataset *data;
} map_loading;

static bool is_wanted(const dataset_view *view, depth_maps_of of) {
    return of == DEPTH_MAPS_ALL || view->held_out == (of == DEPTH_MAPS_HELD_OUT);
}

static bool find_map(const char *folder, const char *name, char path[PATH_ROOM], fault *why) {
    static const char *const suffixes[] = {".png", ".pfm", NULL};
    return companion_find(folder, name, suffixes, "depth map", path, why);
}

static void replace(plane *map, const plane *by) {
    plane_close(map);
    *map = *by;
}

// Treats the map as the picture was treated: undistorts it unless its camera is a fisheye, then downscales it.
static bool resample(const dataset_view *view, int factor, plane *map, fault *why) {
    plane changed;
    if (view->camera.model == GS_PINHOLE && !lens_is_ideal(&view->optics)) {
        if (!lens_undistort_plane(&view->optics, map, &changed, why)) return false;
        replace(map, &changed);
    }
    if (factor > 1) {
        if (!plane_downscale(map, factor, &changed, why)) return false;
        replace(map, &changed);
    }
    return true;
}

static bool mark_unknown(plane *map, fault *why) {
    size_t known = 0;
    for (size_t i = 0; i < plane_size(map); i++) {
        if (isfinite(map->values[i]))
            known++;
        else
            map->values[i] = NAN;
    }
    return known > 0 || fail(why, "none of its values is finite");
}

static bool load_map(void *context, size_t i, fault *why) {
    const map_loading *work = context;
    dataset_view *view = &work->data->views[i];
    char path[PATH_ROOM];
    plane map = {0};
    if (!is_wanted(view, work->of)) return true;
    if (!find_map(work->folder, view->name, path, why) || !plane_read(path, &map, why)) return false;
    fault wrong;
    bool done = map.width == view->optics.width && map.height == view->optics.height;
    if (!done)
        fail(&wrong, "the depth map has %d x %d values, its picture %d x %d", map.width, map.height,
             view->optics.width, view->optics.height);
    done = done && mark_unknown(&map, &wrong) && resample(view, work->options->downscale, &map, &wrong) &&
           mark_unknown(&map, &wrong);
    const size_t bytes = done ? plane_size(&map) * sizeof(float) : 0;
    float *const kept = done ? picture_store_keep(&work->data->store, map.values, bytes, &wrong) : NULL;
    if (!kept) {
        plane_close(&map);
        return fail(why, "%s: %s", path, wrong.text);
    }
    picture_store_free(&work->data->store, view->depth);
    view->depth = kept;
    return true;
}

static bool add_files(dataset *data, const char *folder, depth_maps_of of, fault *why) {
    file_id *files = realloc(data->files, (data->file_count + data->view_count) * sizeof *files);
    if (!files) return fail(why, "no memory for %zu views", data->view_count);
    data->files = files;
    for (size_t i = 0; i < data->view_count; i++) {
        char path[PATH_ROOM];
        fault ignored; // loading says what is missing
        if (is_wanted(&data->views[i], of) && find_map(folder, data->views[i].name, path, &ignored) &&
            file_id_of(path, &data->files[data->file_count]))
            data->file_count++;
    }
    return true;
}

bool depth_maps_load(dataset *data, const char *folder, const dataset_options *options, depth_maps_of of,
                     fault *why) {
    map_loading work = {folder, options, of, data};
    return add_files(data, folder, of, why) && read_in_parallel(data->view_count, load_map, &work, why);
}
