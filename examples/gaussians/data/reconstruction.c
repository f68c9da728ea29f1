// SPDX-License-Identifier: MIT
#include "reconstruction.h"
#include "gpu/growing.h"
#include "files/path.h"
#include <math.h>
#include <string.h>

bool reconstruction_place(const double from[3], float to[3]) {
    for (int i = 0; i < 3; i++) to[i] = (float)from[i];
    return hypot(hypot(from[0], from[1]), from[2]) <= 1e18;
}

bool reconstruction_add_view(reconstruction *scene, const char *name, const reconstruction_view *view,
                             fault *why) {
    if (!path_stays_inside(name))
        return fail(why, "image name '%.200s' is empty or leaves the images folder", name);
    reconstruction_view *views =
        growing(scene->views, scene->view_count, &scene->view_room, sizeof *scene->views);
    char *copy = views ? strdup(name) : NULL, *mask = copy && view->mask ? strdup(view->mask) : NULL;
    if (views) scene->views = views;
    if (!copy || (view->mask && !mask)) {
        free(copy);
        return fail(why, "no memory for %zu images", scene->view_count + 1);
    }
    views[scene->view_count] = *view;
    views[scene->view_count].mask = mask;
    views[scene->view_count++].name = copy;
    return true;
}

bool reconstruction_add_point(reconstruction *scene, const float point[3], const uint8_t color[3],
                              fault *why) {
    size_t room = scene->point_room;
    float(*points)[3] = growing(scene->points, scene->point_count, &room, sizeof *scene->points);
    if (points) scene->points = points;
    uint8_t(*colors)[3] =
        points ? growing(scene->colors, scene->point_count, &scene->point_room, sizeof *scene->colors) : NULL;
    if (!colors) return fail(why, "no memory for %zu points", scene->point_count + 1);
    scene->colors = colors;
    memcpy(points[scene->point_count], point, sizeof *points);
    memcpy(colors[scene->point_count++], color, sizeof *colors);
    return true;
}

bool reconstruction_add_sighting(reconstruction *scene, const sighting *seen, fault *why) {
    sighting *all =
        growing(scene->sightings, scene->sighting_count, &scene->sighting_room, sizeof *scene->sightings);
    if (!all) return fail(why, "no memory for %zu track entries", scene->sighting_count + 1);
    scene->sightings = all;
    all[scene->sighting_count++] = *seen;
    return true;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const reconstruction_view *)a)->name, ((const reconstruction_view *)b)->name);
}

bool reconstruction_sort(reconstruction *scene, const char *path, fault *why) {
    if (scene->view_count == 0) return fail(why, "%s: holds no images", path);
    qsort(scene->views, scene->view_count, sizeof *scene->views, compare_names);
    for (size_t i = 1; i < scene->view_count; i++)
        if (strcmp(scene->views[i].name, scene->views[i - 1].name) == 0)
            return fail(why, "%s: two images are named '%.500s'", path, scene->views[i].name);
    return true;
}

void reconstruction_close(reconstruction *scene) {
    for (size_t i = 0; i < scene->view_count; i++) {
        free(scene->views[i].name);
        free(scene->views[i].mask);
    }
    free(scene->views);
    free(scene->points_file);
    free(scene->points);
    free(scene->colors);
    free(scene->sightings);
    *scene = (reconstruction){0};
}
