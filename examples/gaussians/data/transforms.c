// SPDX-License-Identifier: MIT
#include "transforms.h"
#include "json_field.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    static const char *const names[] = {"p1", "p2", "k5",
                                        "k6"}; // no fisheye has the first two, no lens the others
    const char *model = NULL;
    if (!json_get_text(place, "camera_model", &model, why)) return false;
    if (model) {
        const int number = lens_model_number(model);
        if (lens_model_parameter_count(number) == 0)
            return fail(why, "%s: %scamera_model: the lens '%.40s' cannot be read", place->path, place->field,
                        model);
        optics->fisheye = lens_model_is_fisheye(number);
    }
    if (json_is_true(json_object_get(place->object, "is_fisheye"))) optics->fisheye = true;
    for (int i = optics->fisheye ? 0 : 2; i < 4; i++) {
        double value = i == 0 ? optics->p1 : i == 1 ? optics->p2 : 0;
        if (i >= 2 && !json_get_real(place, names[i], &value, why)) return false;
        if (value != 0)
            return fail(why, "%s: %s%s: %g; this distortion cannot be read, so it must be 0", place->path,
                        place->field, names[i], value);
    }
    return true;
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

// To world-to-camera, with y down and z forward.
static bool read_pose(const json_place *place, const char *name, reconstruction *out,
                      reconstruction_view *view, fault *why) {
    double m[16];
    if (!json_get_matrix(place, "transform_matrix", 4, 4, m, why)) return false;
    for (int i = 0; i < 4; i++)
        if (!(fabs(m[12 + i] - (i == 3)) <= 1e-6))
            return fail(why, "%s: %stransform_matrix: the last row is %g %g %g %g; it must be 0 0 0 1",
                        place->path, place->field, m[12], m[13], m[14], m[15]);
    double turn[9], scale;
    fault reason;
    for (int i = 0; i < 9; i++) turn[i] = m[i / 3 * 4 + i % 3];
    if (!rotation_of(turn, &scale, &reason))
        return fail(why, "%s: %stransform_matrix: %s", place->path, place->field, reason.text);
    if (scale != 1) tally_add(&out->scaled, name);
    static const double flip[3] = {1, -1, -1};
    for (int row = 0; row < 3; row++) {
        double translation = 0;
        for (int axis = 0; axis < 3; axis++) {
            const double entry = flip[row] * turn[3 * axis + row]; // the inverse is the transpose
            view->rotation[3 * row + axis] = entry;
            translation -= entry * m[4 * axis + 3];
        }
        view->translation[row] = translation;
    }
    return true;
}

// A path in the folder of the data, or NULL if there is no such key.
static bool read_path(const json_place *place, const char *key, const char **out, fault *why) {
    if (!json_get_text(place, key, out, why)) return false;
    while (*out && strncmp(*out, "./", 2) == 0) *out += 2;
    return !*out || path_stays_inside(*out) ||
           fail(why, "%s: %s%s: '%.200s' is empty or leaves the folder", place->path, place->field, key,
                *out);
}

// nerfstudio's lists of a split: whether the document's list has the name.
static bool is_listed(const json_t *document, const char *list, const char *name) {
    const json_t *one;
    size_t i;
    json_array_foreach(json_object_get(document, list), i, one) {
        const char *text = json_string_value(one);
        while (text && strncmp(text, "./", 2) == 0) text += 2;
        if (text && strcmp(text, name) == 0) return true;
    }
    return false;
}

static bool read_frame(const json_place *place, uint64_t number, const lens *common, const json_t *document,
                       bool held_out, reconstruction *out, fault *why) {
    reconstruction_view view = {.optics = *common};
    const record_place record = {place->path, "frames", number};
    const char *name = NULL, *mask = NULL;
    if (!json_is_object(place->object)) return fail_at(why, &record, "must be an object");
    if (!read_path(place, "file_path", &name, why) || !read_path(place, "mask_path", &mask, why))
        return false;
    if (!name) return fail(why, "%s: %sfile_path: is missing", place->path, place->field);
    view.mask = (char *)(uintptr_t)mask; // copied by reconstruction_add_view
    view.held_out =
        held_out || is_listed(document, "test_filenames", name) || is_listed(document, "val_filenames", name);
    if (!read_lens(place, &view.optics, why) || !read_pose(place, name, out, &view, why)) return false;
    if (view.optics.fx == 0 && view.optics.angle_x == 0)
        return fail(why, "%s: %sfl_x: is missing, and so is camera_angle_x", place->path, place->field);
    return reconstruction_add_view(out, &record, name, &view, why);
}

// The points that the document names, unless another one has named some.
static bool read_points(const json_place *place, const char *folder, reconstruction *out, fault *why) {
    const char *name = NULL;
    char path[PATH_ROOM];
    if (!read_path(place, "ply_file_path", &name, why)) return false;
    if (!name || out->points_file) return true;
    if (!path_join(path, folder, name, why)) return false;
    out->points_file = strdup(path);
    if (!out->points_file) return fail(why, "%s: no memory for '%s'", place->path, name);
    fault reason;
    return ply_read_points(path, out, &reason) ||
           fail(why, "%s: ply_file_path: %s", place->path, reason.text);
}

static bool read_document(const char *path, const char *folder, const json_t *document, bool held_out,
                          reconstruction *out, fault *why) {
    json_place place = {.path = path, .object = document};
    lens common = {.cx = NAN, .cy = NAN};
    if (!read_lens(&place, &common, why) || !read_points(&place, folder, out, why)) return false;
    const json_t *frames = json_object_get(document, "frames");
    if (!json_is_array(frames)) return fail(why, "%s: frames: must be an array", path);
    for (size_t i = 0; i < json_array_size(frames); i++) {
        place.object = json_array_get(frames, i);
        snprintf(place.field, sizeof place.field, "frames[%zu].", i);
        if (!read_frame(&place, i, &common, document, held_out, out, why)) return false;
    }
    return true;
}

static bool read_file(const char *folder, const char *name, bool held_out, reconstruction *out, fault *why) {
    char path[PATH_ROOM];
    if (!path_join(path, folder, name, why)) return false;
    if (!held_out) strcpy(out->file, path);
    json_t *document = json_read(path, why);
    if (!document) return false;
    const bool read = read_document(path, folder, document, held_out, out, why);
    json_decref(document);
    return read;
}

bool transforms_are_in(const char *folder) {
    return is_file_in(folder, "transforms_train.json") || is_file_in(folder, "transforms.json");
}

bool transforms_load(const char *folder, reconstruction *out, fault *why) {
    *out = (reconstruction){0};
    const bool split = is_file_in(folder, "transforms_train.json");
    const bool read =
        read_file(folder, split ? "transforms_train.json" : "transforms.json", false, out, why) &&
        (!split || !is_file_in(folder, "transforms_test.json") ||
         read_file(folder, "transforms_test.json", true, out, why)) &&
        (out->points_file || colmap_load_points(folder, out, why));
    if (!read) reconstruction_close(out);
    return read;
}

// ---- writing

static void put_lens(json_writer *json, const lens *optics) {
    lens copy = *optics;
    json_put_integer(json, "w", optics->width);
    json_put_integer(json, "h", optics->height);
    if (optics->fisheye) json_put_boolean(json, "is_fisheye", true);
    for (int i = 0; i < LENS_PARAMETERS; i++) {
        const lens_parameter *parameter = &lens_parameters[i];
        const double value = *lens_value(&copy, parameter);
        if (parameter->name[0] == 'f') { // fx is named fl_x here
            const char name[] = {'f', 'l', '_', parameter->name[1], '\0'};
            json_put_number(json, name, value);
        } else if (!parameter->distortion || value != 0) {
            json_put_number(json, parameter->name, value);
        }
    }
}

// Camera to world, y up and z backward.
void transforms_put_pose(json_writer *json, const double rotation[9], const double translation[3]) {
    static const double flip[3] = {1, -1, -1};
    json_begin(json, "transform_matrix", '[');
    json->one_line = true;
    for (int row = 0; row < 4; row++) {
        json_begin(json, NULL, '[');
        double center = row == 3;
        for (int k = 0; k < 3; k++) {
            json_put_number(json, NULL, row < 3 ? flip[k] * rotation[3 * k + row] : 0);
            if (row < 3) center -= rotation[3 * k + row] * translation[k];
        }
        json_put_number(json, NULL, center);
        json_end(json, ']');
    }
    json_end(json, ']');
    json->one_line = false;
}

typedef struct all_frames {
    const char *folder;
    const reconstruction_view *views;
    size_t count;
} all_frames;

static void describe(json_writer *json, const void *subject) {
    const all_frames *all = subject;
    json_begin(json, "frames", '[');
    for (size_t i = 0; i < all->count; i++) {
        const reconstruction_view *const view = &all->views[i];
        char path[PATH_ROOM];
        snprintf(path, sizeof path, "%s%s%s", all->folder, *all->folder ? "/" : "", view->name);
        json_begin(json, NULL, '{');
        json_put_text(json, "file_path", path);
        if (view->mask) json_put_text(json, "mask_path", view->mask);
        put_lens(json, &view->optics);
        transforms_put_pose(json, view->rotation, view->translation);
        json_end(json, '}');
    }
    json_end(json, ']');
}

bool transforms_save(const char *path, const char *folder, const reconstruction_view *views, size_t count,
                     fault *why) {
    const all_frames all = {folder, views, count};
    return json_save(path, describe, &all, why);
}
