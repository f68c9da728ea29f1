// SPDX-License-Identifier: MIT
#include "colmap_model.h"
#include "camera_model.h"
#include "gpu/growing.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

// fail() with the place before the text
#define REFUSE(why, place, format, ...)                                                                      \
    fail(why, "%s: at %s %" PRIu64 ": " format, (place)->path, (place)->unit, (place)->number, __VA_ARGS__)

int colmap_parameter_count(const record_place *place, int32_t id, int32_t model, fault *why) {
    const int count = camera_model_parameter_count(model);
    if (count > 0) return count;
    char readable[128];
    camera_model_list(readable);
    REFUSE(why, place,
           "camera %" PRId32 " has model %" PRId32
           " (%s), which cannot be read; only %s can: `colmap image_undistorter` makes PINHOLE of any",
           id, model, camera_model_name(model), readable);
    return 0;
}

static int compare_ids(const void *a, const void *b) {
    const int32_t x = ((const colmap_camera *)a)->id, y = ((const colmap_camera *)b)->id;
    return (x > y) - (x < y);
}

bool colmap_add_camera(colmap_model *model, const record_place *place, int32_t id, int32_t camera_model,
                       const uint64_t size[2], const double parameters[], fault *why) {
    if (size[0] < 1 || size[0] > GS_MAX_SIZE || size[1] < 1 || size[1] > GS_MAX_SIZE)
        return REFUSE(why, place,
                      "camera %" PRId32 " has images of %" PRIu64 " x %" PRIu64
                      " pixels; each side must be 1..%d",
                      id, size[0], size[1], GS_MAX_SIZE);
    lens optics = {.width = (int32_t)size[0], .height = (int32_t)size[1]};
    camera_model_apply(camera_model, parameters, &optics);
    // 0 and NaN mean an open value in a lens; a COLMAP model has none.
    if (optics.fx == 0 || optics.fy == 0 || isnan(optics.cx) || isnan(optics.cy))
        return REFUSE(why, place,
                      "camera %" PRId32
                      " has fx, fy, cx, cy = %g, %g, %g, %g; they must be finite, the first "
                      "two above 0",
                      id, optics.fx, optics.fy, optics.cx, optics.cy);
    if (!lens_check(&optics, why)) return REFUSE(why, place, "camera %" PRId32 " has %s", id, why->text);
    const colmap_camera camera = {id, optics};
    return append(&model->cameras, &model->camera_count, &model->camera_room, &camera, sizeof camera) ||
           REFUSE(why, place, "no memory for %zu cameras", model->camera_count + 1);
}

bool colmap_end_cameras(colmap_model *model, const char *path, fault *why) {
    if (model->camera_count == 0) return fail(why, "%s: holds no cameras", path);
    qsort(model->cameras, model->camera_count, sizeof *model->cameras, compare_ids);
    for (size_t i = 1; i < model->camera_count; i++)
        if (model->cameras[i].id == model->cameras[i - 1].id)
            return fail(why, "%s: two cameras have the id %" PRId32, path, model->cameras[i].id);
    return true;
}

static int compare_views(const void *a, const void *b) {
    const int32_t x = ((const colmap_view *)a)->id, y = ((const colmap_view *)b)->id;
    return (x > y) - (x < y);
}

bool colmap_end_views(colmap_model *model, const char *path, fault *why) {
    const reconstruction *scene = model->scene;
    if (!reconstruction_sort(model->scene, path, why)) return false;
    if (!model->with_tracks) return true;
    model->views = calloc(scene->view_count, sizeof *model->views);
    if (!model->views) return fail(why, "%s: no memory for %zu images", path, scene->view_count);
    for (size_t i = 0; i < scene->view_count; i++)
        model->views[i] = (colmap_view){scene->views[i].id, (uint32_t)i};
    qsort(model->views, scene->view_count, sizeof *model->views, compare_views);
    return true;
}

bool colmap_add_sighting(colmap_model *model, int32_t image, fault *why) {
    const colmap_view wanted = {.id = image};
    const colmap_view *found =
        bsearch(&wanted, model->views, model->scene->view_count, sizeof wanted, compare_views);
    if (!found) return true;
    const sighting seen = {found->view, (uint32_t)(model->scene->point_count - 1)};
    return reconstruction_add_sighting(model->scene, &seen, why);
}

// The rotation of a quaternion (w, x, y, z) of any length. False if the length is 0 or not finite.
static bool rotation_of(const double quaternion[4], float rotation[9]) {
    double largest = 0.0, q[4], square = 0.0;
    for (int i = 0; i < 4; i++) {
        if (!isfinite(quaternion[i])) return false;
        largest = fmax(largest, fabs(quaternion[i]));
    }
    if (!(largest > 0.0)) return false;
    for (int i = 0; i < 4; i++) {
        q[i] = quaternion[i] / largest; // so that squares neither overflow nor underflow
        square += q[i] * q[i];
    }
    for (int i = 0; i < 4; i++) q[i] /= sqrt(square);
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double matrix[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                              2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                              2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    for (int i = 0; i < 9; i++) rotation[i] = (float)matrix[i];
    return true;
}

bool colmap_add_view(colmap_model *model, const record_place *place, const colmap_image *image,
                     const char *name, fault *why) {
    const colmap_camera wanted = {.id = image->camera};
    const double *q = image->quaternion, *t = image->translation;
    const colmap_camera *found =
        bsearch(&wanted, model->cameras, model->camera_count, sizeof wanted, compare_ids);
    if (!found)
        return REFUSE(why, place, "image '%.200s' is of camera %" PRId32 ", which is not in the model", name,
                      image->camera);
    reconstruction_view view = {.optics = found->optics, .id = image->id};
    if (!rotation_of(q, view.rotation))
        return REFUSE(why, place, "image '%.200s' has the quaternion %g, %g, %g, %g", name, q[0], q[1], q[2],
                      q[3]);
    if (!reconstruction_place(t, view.translation))
        return REFUSE(why, place, "image '%.200s' has the translation %g, %g, %g", name, t[0], t[1], t[2]);
    return reconstruction_add_view(model->scene, name, &view, why) || REFUSE(why, place, "%s", why->text);
}

bool colmap_add_point(colmap_model *model, const record_place *place, const double position[3],
                      const uint8_t color[3], fault *why) {
    float point[3];
    if (!reconstruction_place(position, point))
        return REFUSE(why, place, "point number %zu is at %g, %g, %g", model->scene->point_count, position[0],
                      position[1], position[2]);
    return reconstruction_add_point(model->scene, point, color, why) || REFUSE(why, place, "%s", why->text);
}
