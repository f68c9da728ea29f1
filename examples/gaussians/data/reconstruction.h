// SPDX-License-Identifier: MIT
// What readers of COLMAP models and transforms.json produce: the pose and the lens of each photograph, and
// points. The photographs are not read yet.
#pragma once

#include "files/fault.h"
#include "lens.h"
#include <stddef.h>

C_LINKAGE_BEGIN

typedef struct reconstruction_view {
    char *name; // the picture's path inside its folder
    char *mask; // the mask's, inside the folder of the data; NULL: not named
    lens optics;
    float rotation[9], translation[3]; // as in gs_camera
    bool held_out;
    int32_t id; // COLMAP's
} reconstruction_view;

// A point that was found in a photograph: indices.
typedef struct sighting {
    uint32_t view, point;
} sighting;

typedef struct reconstruction {
    size_t view_count, view_room;
    reconstruction_view *views;
    size_t point_count, point_room;
    float (*points)[3]; // world
    uint8_t (*colors)[3];
    char *points_file; // that transforms.json names, inside the folder of the data; NULL: none
    size_t sighting_count, sighting_room;
    sighting *sightings; // by point; empty unless asked for
} reconstruction;

// Converts a position in the world or in a camera's space to floats. False if it is not finite or farther
// than 1e18 from the origin, as squares of distances must be floats too.
bool reconstruction_place(const double from[3], float to[3]);
// Append a view (`name` and view->mask are copied) or a point. Both fail if there is no memory, add_view also
// if the name is empty or leaves the folder of the pictures. The messages do not name a file.
bool reconstruction_add_view(reconstruction *scene, const char *name, const reconstruction_view *view,
                             fault *why);
bool reconstruction_add_point(reconstruction *scene, const float point[3], const uint8_t color[3],
                              fault *why);
bool reconstruction_add_sighting(reconstruction *scene, const sighting *seen, fault *why);
// Sorts the views by name. Fails, naming the file `path`, if there is no view or if two have one name.
bool reconstruction_sort(reconstruction *scene, const char *path, fault *why);
void reconstruction_close(reconstruction *scene); // harmless on {0} and twice

C_LINKAGE_END
