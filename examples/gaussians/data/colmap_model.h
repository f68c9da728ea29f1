// SPDX-License-Identifier: MIT
// What COLMAP's binary and text forms have in common: the records, and what is refused about them.
#ifndef GAUSSIANS_COLMAP_MODEL_H
#define GAUSSIANS_COLMAP_MODEL_H

#include "reconstruction.h"

// Where a record begins, for complaints.
typedef struct record_place {
    const char *path, *unit; // "byte" or "line"
    uint64_t number;
} record_place;

typedef struct colmap_camera {
    int32_t id;
    lens optics;
} colmap_camera;

enum { COLMAP_MAX_PARAMETERS = 8 };

typedef struct colmap_model {
    size_t camera_count, camera_room;
    colmap_camera *cameras; // sorted by id after colmap_end_cameras
    reconstruction *scene;
} colmap_model;

// Of a camera model; 0 if it cannot be read: then the text says so.
int colmap_parameter_count(const record_place *place, int32_t id, int32_t model, fault *why);
// -1 if there is no such name.
int32_t colmap_model_number(const char *name);
bool colmap_add_camera(colmap_model *model, const record_place *place, int32_t id, int32_t camera_model,
                       const uint64_t size[2], const double parameters[], fault *why);
bool colmap_end_cameras(colmap_model *model, const char *path, fault *why);
// quaternion (w, x, y, z), not necessarily normalised; the pose takes world to camera.
bool colmap_add_view(colmap_model *model, const record_place *place, const double quaternion[4],
                     const double translation[3], int32_t camera, const char *name, fault *why);
bool colmap_add_point(colmap_model *model, const record_place *place, const double position[3],
                      const uint8_t color[3], fault *why);

bool colmap_read_binary(const char *folder, bool has_points, colmap_model *model, fault *why);
bool colmap_read_text(const char *folder, bool has_points, colmap_model *model, fault *why);

#endif
