// SPDX-License-Identifier: MIT
#include "transforms.h"
#include "camera_model.h"
#include "json_field.h"
#include "formats/ply.h"
#include "files/path.h"
#include "gpu/vector.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

// Frames whose picture does not exist.
typedef struct skipped {
    size_t frames, total;
    char first[200];
} skipped;

static bool exists(const char *folder, const char *name) {
    char path[PATH_ROOM];
    fault ignored;
    struct stat status;
    if (!path_join(path, folder, name, &ignored)) return false;
    // A file that cannot be examined counts as existing: reading it gives the reason.
    return stat(path, &status) == 0 ? !S_ISDIR(status.st_mode) : errno != ENOENT && errno != ENOTDIR;
}

static bool read_focal(const json_place *place, const char *pixels, const char *angle, double *focal,
                       double *view_angle, fault *why) {
    double of_this[2] = {0, 0};
    const bool has_pixels = json_object_get(place->object, pixels) != NULL;
    const bool has_angle = json_object_get(place->object, angle) != NULL;
    if (!json_get_real(place, pixels, &of_this[0], why) || !json_get_real(place, angle, &of_this[1], why))
        return false;
    if (has_pixels && !(of_this[0] > 0))
        return fail(why, "%s: %s%s: %g; must be above 0", place->path, place->field, pixels, of_this[0]);
    if (!has_pixels && has_angle && !(of_this[1] > 0))
        return fail(why, "%s: %s%s: %g; must be above 0", place->path, place->field, angle, of_this[1]);
    if (has_pixels || has_angle) *focal = of_this[0], *view_angle = of_this[1];
    return true;
}

static bool read_side(const json_place *place, const char *key, int32_t *out, fault *why) {
    double value = *out;
    if (!json_object_get(place->object, key)) return true;
    if (!json_get_real(place, key, &value, why)) return false;
    if (!(value >= 1 && value <= GS_MAX_SIZE && value == floor(value)))
        return fail(why, "%s: %s%s: %g; must be a whole number, 1..%d", place->path, place->field, key, value,
                    GS_MAX_SIZE);
    *out = (int32_t)value;
    return true;
}

// Reads which model the lens has, and refuses distortions that are of another.
static bool read_model(const json_place *place, lens *optics, fault *why) {
    static const char *const others[] = {"k5", "k6"}; // of models that cannot be read
    const char *model = NULL;
    if (!json_get_text(place, "camera_model", &model, why)) return false;
    if (model) {
        const int number = camera_model_number(model);
        if (camera_model_parameter_count(number) == 0)
            return fail(why, "%s: %scamera_model: '%.40s' cannot be read", place->path, place->field, model);
        optics->fisheye = camera_model_is_fisheye(number);
    }
    if (json_is_true(json_object_get(place->object, "is_fisheye"))) optics->fisheye = true;
    const lens_parameter *foreign = lens_foreign_distortion(optics);
    const char *name = foreign ? foreign->name : NULL;
    double value = foreign ? *lens_value(optics, foreign) : 0;
    for (size_t i = 0; !name && i < sizeof others / sizeof *others; i++) {
        if (!json_get_real(place, others[i], &value, why)) return false;
        if (value != 0) name = others[i];
    }
    return !name || fail(why, "%s: %s%s: %g; this distortion cannot be read, so it must be 0", place->path,
                         place->field, name, value);
}

// Values of this object replace those that the lens has.
static bool read_lens(const json_place *place, lens *optics, fault *why) {
    for (int i = 0; i < LENS_PARAMETERS; i++) {
        const lens_parameter *parameter = &lens_parameters[i];
        const bool focal = parameter->name[0] == 'f'; // named fl_x and fl_y here, see below
        if (!focal && !json_get_real(place, parameter->name, lens_value(optics, parameter), why))
            return false;
    }
    return read_model(place, optics, why) && read_side(place, "w", &optics->width, why) &&
           read_side(place, "h", &optics->height, why) &&
           read_focal(place, "fl_x", "camera_angle_x", &optics->fx, &optics->angle_x, why) &&
           read_focal(place, "fl_y", "camera_angle_y", &optics->fy, &optics->angle_y, why);
}

// The largest entry of M^T M - 1, or infinity.
static double skewness(const double m[9]) {
    double largest = 0;
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            const double entry = m[i] * m[j] + m[3 + i] * m[3 + j] + m[6 + i] * m[6 + j] - (i == j);
            if (!(fabs(entry) <= largest)) largest = isfinite(entry) ? fabs(entry) : INFINITY;
        }
    return largest;
}

static bool read_pose(const json_place *place, reconstruction_view *view, fault *why) {
    const double tolerance = 5e-3;
    double m[16], rotation[9], cofactors[9];
    if (!json_get_matrix(place, "transform_matrix", 4, 4, m, why)) return false;
    for (int i = 0; i < 4; i++)
        if (!(fabs(m[12 + i] - (i == 3)) <= 1e-6))
            return fail(why, "%s: %stransform_matrix: the last row is %g %g %g %g; it must be 0 0 0 1",
                        place->path, place->field, m[12], m[13], m[14], m[15]);
    for (int i = 0; i < 9; i++) rotation[i] = m[i / 3 * 4 + i % 3];
    const double skew = skewness(rotation), determinant = determinant_and_cofactors(rotation, cofactors);
    if (!(skew <= tolerance) || !(determinant > 0))
        return fail(why,
                    "%s: %stransform_matrix: not a rotation: M^T M differs from 1 by up to %g (%g is "
                    "tolerated), and its determinant is %g",
                    place->path, place->field, skew, tolerance, determinant);
    nearest_rotation(rotation);
    const double flip[3] = {1, -1, -1}; // y up and z backward become y down and z forward
    double translation[3] = {0};
    for (int row = 0; row < 3; row++)
        for (int axis = 0; axis < 3; axis++) {
            const double entry = flip[row] * rotation[3 * axis + row]; // the inverse is the transpose
            view->rotation[3 * row + axis] = (float)entry;
            translation[row] -= entry * m[4 * axis + 3];
        }
    return reconstruction_place(translation, view->translation) ||
           fail(why, "%s: %stransform_matrix: the camera is at %g %g %g", place->path, place->field, m[3],
                m[7], m[11]);
}

// A path in the folder of the data, or NULL if there is no such key.
static bool read_path(const json_place *place, const char *key, const char **out, fault *why) {
    if (!json_get_text(place, key, out, why)) return false;
    while (*out && strncmp(*out, "./", 2) == 0) *out += 2;
    return !*out || path_stays_inside(*out) ||
           fail(why, "%s: %s%s: '%.200s' is empty or leaves the folder", place->path, place->field, key,
                *out);
}

static bool read_frame(const json_place *place, const char *folder, const lens *common, bool held_out,
                       reconstruction *out, skipped *missing, fault *why) {
    reconstruction_view view = {.optics = *common, .held_out = held_out};
    const char *name = NULL, *mask = NULL;
    if (!json_is_object(place->object))
        return fail(why, "%s: %.*s: must be an object", place->path, (int)strlen(place->field) - 1,
                    place->field);
    if (!read_path(place, "file_path", &name, why) || !read_path(place, "mask_path", &mask, why))
        return false;
    if (!name) return fail(why, "%s: %sfile_path: is missing", place->path, place->field);
    view.mask = (char *)mask; // copied by reconstruction_add_view
    if (!read_lens(place, &view.optics, why) || !read_pose(place, &view, why)) return false;
    if (view.optics.fx == 0 && view.optics.angle_x == 0)
        return fail(why, "%s: %sfl_x: is missing, and so is camera_angle_x", place->path, place->field);
    fault reason;
    if (!lens_check(&view.optics, &reason))
        return fail(why, "%s: %sfile_path: the camera has %s", place->path, place->field, reason.text);
    missing->total++;
    char with_suffix[PATH_ROOM];
    if (!exists(folder, name)) {
        if (snprintf(with_suffix, sizeof with_suffix, "%s.png", name) >= (int)sizeof with_suffix ||
            !exists(folder, with_suffix)) {
            if (missing->frames++ == 0) snprintf(missing->first, sizeof missing->first, "%s", name);
            return true;
        }
        name = with_suffix;
    }
    return reconstruction_add_view(out, name, &view, why) ||
           fail(why, "%s: %sfile_path: %s", place->path, place->field, why->text);
}

// The points that the document names, unless another one has named some.
static bool read_points(const json_place *place, const char *folder, reconstruction *out, fault *why) {
    const char *name = NULL;
    char path[PATH_ROOM];
    if (!read_path(place, "ply_file_path", &name, why)) return false;
    if (!name || out->points_file) return true;
    out->points_file = strdup(name);
    if (!out->points_file) return fail(why, "%s: no memory for '%s'", place->path, name);
    return (path_join(path, folder, name, why) && ply_read_points(path, out, why)) ||
           fail(why, "%s: ply_file_path: %s", place->path, why->text);
}

static bool read_document(const char *path, const char *folder, const json_t *document, bool held_out,
                          reconstruction *out, skipped *missing, fault *why) {
    json_place place = {.path = path, .object = document};
    lens common = {.cx = NAN, .cy = NAN};
    if (!read_lens(&place, &common, why) || !read_points(&place, folder, out, why)) return false;
    const json_t *frames = json_object_get(document, "frames");
    if (!json_is_array(frames)) return fail(why, "%s: frames: must be an array", path);
    for (size_t i = 0; i < json_array_size(frames); i++) {
        place.object = json_array_get(frames, i);
        snprintf(place.field, sizeof place.field, "frames[%zu].", i);
        if (!read_frame(&place, folder, &common, held_out, out, missing, why)) return false;
    }
    return true;
}

static bool read_file(const char *folder, const char *name, bool held_out, reconstruction *out,
                      skipped *missing, fault *why) {
    char path[PATH_ROOM];
    if (!path_join(path, folder, name, why)) return false;
    json_t *document = json_read(path, why);
    if (!document) return false;
    const bool read = read_document(path, folder, document, held_out, out, missing, why);
    json_decref(document);
    return read;
}

bool transforms_are_in(const char *folder) {
    return exists(folder, "transforms_train.json") || exists(folder, "transforms.json");
}

bool transforms_load(const char *folder, reconstruction *out, fault *why) {
    *out = (reconstruction){0};
    skipped missing = {0};
    const bool split = exists(folder, "transforms_train.json");
    const char *name = split ? "transforms_train.json" : "transforms.json";
    char path[PATH_ROOM];
    bool read = path_join(path, folder, name, why) && read_file(folder, name, false, out, &missing, why);
    if (read && split && exists(folder, "transforms_test.json"))
        read = read_file(folder, "transforms_test.json", true, out, &missing, why);
    if (read && missing.total > 0 && missing.frames == missing.total)
        read = fail(why, "%s: none of the pictures of its %zu frames exists; the first is '%s'", path,
                    missing.total, missing.first);
    read = read && reconstruction_sort(out, path, why);
    if (!read)
        reconstruction_close(out);
    else if (missing.frames > 0)
        fprintf(stderr, "dsplat: %s: %zu of %zu frames have no picture and are skipped (the first: '%s')\n",
                path, missing.frames, missing.total, missing.first);
    return read;
}
