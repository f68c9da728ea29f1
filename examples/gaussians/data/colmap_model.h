// SPDX-License-Identifier: MIT
// What the readers of COLMAP's binary and text models share: adding records, and refusing bad ones.
#pragma once

#include "reconstruction.h"

// Where a record begins, for error messages.
typedef struct record_place {
    const char *path, *unit; // "byte" or "line"
    uint64_t number;
} record_place;

typedef struct colmap_camera {
    int32_t id;
    lens optics;
} colmap_camera;

typedef struct colmap_image {
    int32_t id, camera;
    double quaternion[4]; // (w, x, y, z), of any length
    double translation[3];
} colmap_image;

// A view by COLMAP's number of it.
typedef struct colmap_view {
    int32_t id;
    uint32_t view;
} colmap_view;

typedef struct colmap_model {
    size_t camera_count, camera_room;
    colmap_camera *cameras; // sorted by id after colmap_end_cameras
    reconstruction *scene;
    bool with_tracks;   // reads the points' tracks into scene->sightings
    colmap_view *views; // [scene->view_count], sorted by id after colmap_end_views; with_tracks
} colmap_model;

// The number of parameters of a camera model. 0, and a message, if the model cannot be read.
int colmap_parameter_count(const record_place *place, int32_t id, int32_t model, fault *why);
bool colmap_add_camera(colmap_model *model, const record_place *place, int32_t id, int32_t camera_model,
                       const uint64_t size[2], const double parameters[], fault *why);
bool colmap_end_cameras(colmap_model *model, const char *path, fault *why);
bool colmap_end_views(colmap_model *model, const char *path, fault *why);
// The pose maps world to camera.
bool colmap_add_view(colmap_model *model, const record_place *place, const colmap_image *image,
                     const char *name, fault *why);
bool colmap_add_point(colmap_model *model, const record_place *place, const double position[3],
                      const uint8_t color[3], fault *why);
// An entry of the track of the last point. Those of images that the model does not have are ignored.
bool colmap_add_sighting(colmap_model *model, int32_t image, fault *why);

// The files of a model that are read.
typedef struct colmap_parts {
    bool cameras_and_images, points;
} colmap_parts;

bool colmap_read_binary(const char *folder, colmap_parts parts, colmap_model *model, fault *why);
bool colmap_read_text(const char *folder, colmap_parts parts, colmap_model *model, fault *why);
