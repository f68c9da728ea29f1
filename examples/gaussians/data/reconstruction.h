// SPDX-License-Identifier: MIT
// What a loader finds in its files: where each photograph was taken and through which lens, and points. The
// photographs themselves are not read yet.
#ifndef GAUSSIANS_RECONSTRUCTION_H
#define GAUSSIANS_RECONSTRUCTION_H

#include "fault.h"
#include "lens.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct reconstruction_view {
    char *name; // path of the picture inside its folder
    lens optics;
    float rotation[9], translation[3]; // as in gs_camera
    bool held_out;
} reconstruction_view;

typedef struct reconstruction {
    size_t view_count, view_room;
    reconstruction_view *views;
    size_t point_count, point_room;
    float (*points)[3]; // world
    uint8_t (*colors)[3];
} reconstruction;

// A place in the world or in a camera's space as floats. False if it is farther than 1e18 from the origin, or
// not finite: squares of distances must be floats, too.
bool reconstruction_place(const double from[3], float to[3]);
// Append. `name` is copied. Fail if there is no memory, and add_view if the name is empty or leaves the
// pictures' folder. The texts do not name the file.
bool reconstruction_add_view(reconstruction *scene, const char *name, const reconstruction_view *view,
                             fault *why);
bool reconstruction_add_point(reconstruction *scene, const float point[3], const uint8_t color[3],
                              fault *why);
// Sorts the views by name; fails, naming the file `path`, if there are none or two have the same.
bool reconstruction_sort(reconstruction *scene, const char *path, fault *why);
void reconstruction_close(reconstruction *scene); // harmless twice

#ifdef __cplusplus
}
#endif
#endif
