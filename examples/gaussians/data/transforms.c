// SPDX-License-Identifier: MIT
#include "formats/formats.h"
#include "reconstruction.h"
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- fields, whose messages name the file and the field

// An object in a document.
typedef struct json_place {
    const char *path; // of the file
    char field[32];   // of the object, with a dot: "frames[3]."; empty: the document itself
    const json_t *object;
    fault *why;
} json_place;

// "FILE: frames[3].KEY: ..."
static bool __attribute__((format(printf, 3, 4)))
refuse(const json_place *place, const char *key, const char *format, ...) {
    char text[sizeof place->why->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    return fail(place->why, "%s: %s%s: %s", place->path, place->field, key, text);
}

// Reads the whole document; freed by json_decref. Refuses, with line, column and byte: anything but one JSON object,
// duplicate keys, numbers that overflow, nesting deeper than 2048 (jansson's limit). All numbers are reals. Memory: a few
// tens of bytes for each byte of the file.
static json_t *json_read(const char *path, fault *why) {
    input_file file;
    uint8_t *bytes;
    size_t count;
    json_error_t error;
    if (!input_file_open(&file, path, why)) return NULL;
    const bool read = read_rest(&file, "JSON", &bytes, &count, why);
    input_file_close(&file);
    if (!read) return NULL;
    // Behind the mark of UTF-8, as editors on Windows write it.
    const size_t mark = count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    json_t *const document = json_loadb((const char *)bytes + mark, count - mark,
                                        JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    free(bytes);
    if (json_is_object(document)) return document;
    if (document)
        fail(why, "%s: at byte 0: not an object", path);
    else
        fail(why, "%s: at line %d, column %d (byte %d): %s", path, error.line, error.column, error.position,
             error.text);
    json_decref(document);
    return NULL;
}

// If the key is absent, *out is unchanged. Fails if the value has another type.
static bool get_real(const json_place *place, const char *key, double *out) {
    const json_t *const value = json_object_get(place->object, key);
    if (value && !json_is_real(value)) return refuse(place, key, "must be a number");
    if (value) *out = json_real_value(value);
    return true;
}

static bool get_text(const json_place *place, const char *key, const char **out) {
    const json_t *const value = json_object_get(place->object, key);
    if (value && !json_is_string(value)) return refuse(place, key, "must be a string");
    if (value) *out = json_string_value(value);
    return true;
}

// ---- frames

// Pixels take precedence over the angle of view.
static bool read_focal(const json_place *place, const char *pixels, const char *angle, double *focal,
                       double *view_angle) {
    const bool has_pixels = json_object_get(place->object, pixels);
    const char *const key = has_pixels ? pixels : angle;
    double value = 0;
    if (!json_object_get(place->object, key)) return true;
    if (!get_real(place, key, &value)) return false;
    *focal = has_pixels ? value : 0, *view_angle = has_pixels ? 0 : value;
    return value > 0 || refuse(place, key, "%g; must be above 0", value);
}

static bool read_side(const json_place *place, const char *key, int32_t *out) {
    double value = *out;
    if (!json_object_get(place->object, key)) return true;
    if (!get_real(place, key, &value)) return false;
    if (!(value >= 1 && value <= GS_MAX_SIZE && value == floor(value)))
        return refuse(place, key, "%g; must be a whole number, 1..%d", value, GS_MAX_SIZE);
    *out = (int32_t)value;
    return true;
}

// Reads which model the lens has, and refuses distortions that are of another.
static bool read_model(const json_place *place, lens *optics) {
    // No fisheye has the first two, no lens the others.
    static const char *const names[] = {"p1", "p2", "k5", "k6"};
    const char *model = NULL;
    if (!get_text(place, "camera_model", &model)) return false;
    if (model) {
        const lens_model *const known = lens_model_find(model);
        if (!known || known->count == 0)
            return refuse(place, "camera_model", "the lens '%.40s' cannot be read", model);
        optics->fisheye = known->fisheye;
    }
    if (json_is_true(json_object_get(place->object, "is_fisheye"))) optics->fisheye = true;
    for (int i = optics->fisheye ? 0 : 2; i < 4; i++) {
        double value = i == 0 ? optics->p1 : i == 1 ? optics->p2 : 0;
        if (i >= 2 && !get_real(place, names[i], &value)) return false;
        if (value != 0)
            return refuse(place, names[i], "%g; this distortion cannot be read, so it must be 0", value);
    }
    return true;
}

// Values of this object replace those that the lens has.
static bool read_lens(const json_place *place, lens *optics) {
    for (int i = 0; i < LENS_PARAMETERS; i++) {
        const lens_parameter *const parameter = &lens_parameters[i];
        const bool focal = parameter->key[0] == 'f'; // see below
        if (!focal && !get_real(place, parameter->key, lens_value(optics, parameter))) return false;
    }
    return read_model(place, optics) && read_side(place, "w", &optics->width) &&
           read_side(place, "h", &optics->height) &&
           read_focal(place, "fl_x", "camera_angle_x", &optics->fx, &optics->angle_x) &&
           read_focal(place, "fl_y", "camera_angle_y", &optics->fy, &optics->angle_y);
}

// The transform_matrix: four rows of four numbers, the last 0 0 0 1.
static bool read_matrix(const json_place *place, double m[16]) {
    char key[32] = "transform_matrix";
    const json_t *const matrix = json_object_get(place->object, key);
    if (!json_is_array(matrix) || json_array_size(matrix) != 4)
        return refuse(place, key, "must be an array of 4 rows");
    for (size_t i = 0; i < 16; i++) {
        const json_t *const row = json_array_get(matrix, i / 4), *const value = json_array_get(row, i % 4);
        snprintf(key, sizeof key, "transform_matrix[%zu]", i / 4);
        if (!json_is_array(row) || json_array_size(row) != 4)
            return refuse(place, key, "must be an array of 4 numbers");
        snprintf(key, sizeof key, "transform_matrix[%zu][%zu]", i / 4, i % 4);
        if (!json_is_real(value)) return refuse(place, key, "must be a number");
        m[i] = json_real_value(value);
    }
    for (int k = 0; k < 4; k++)
        if (!(fabs(m[12 + k] - (k == 3)) <= 1e-6))
            return refuse(place, "transform_matrix", "the last row is %g %g %g %g; it must be 0 0 0 1", m[12],
                          m[13], m[14], m[15]);
    return true;
}

// To world-to-camera, with y down and z forward.
static bool read_pose(const json_place *place, const char *name, reconstruction *out, dataset_view *view) {
    static const double flip[3] = {1, -1, -1};
    double m[16], turn[9], scale;
    if (!read_matrix(place, m)) return false;
    for (int i = 0; i < 9; i++) turn[i] = m[i / 3 * 4 + i % 3];
    if (!rotation_of(turn, &scale, place->why))
        return refuse(place, "transform_matrix", "%s", place->why->text);
    if (scale != 1) tally_add(&out->scaled, name);
    for (int row = 0; row < 3; row++) {
        view->translation[row] = 0;
        for (int axis = 0; axis < 3; axis++) {
            const double entry = flip[row] * turn[3 * axis + row]; // the inverse is the transpose
            view->rotation[3 * row + axis] = entry;
            view->translation[row] -= entry * m[4 * axis + 3];
        }
    }
    return true;
}

// A path in the folder of the data, or NULL if there is no such key.
static bool read_path(const json_place *place, const char *key, const char **out) {
    if (!get_text(place, key, out)) return false;
    while (*out && strncmp(*out, "./", 2) == 0) *out += 2;
    return !*out || path_stays_inside(*out) ||
           refuse(place, key, "'%.200s' is empty or leaves the folder", *out);
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
                       bool held_out, reconstruction *out) {
    dataset_view view = {.optics = *common};
    const record_place record = {place->path, "frames", number};
    const char *name = NULL, *mask = NULL;
    if (!json_is_object(place->object)) return fail_at(place->why, &record, "must be an object");
    if (!read_path(place, "file_path", &name) || !read_path(place, "mask_path", &mask)) return false;
    if (!name) return refuse(place, "file_path", "is missing");
    view.mask_path = (char *)(uintptr_t)mask; // copied by reconstruction_add_view
    view.held_out =
        held_out || is_listed(document, "test_filenames", name) || is_listed(document, "val_filenames", name);
    if (!read_lens(place, &view.optics) || !read_pose(place, name, out, &view)) return false;
    if (view.optics.fx == 0 && view.optics.angle_x == 0)
        return refuse(place, "fl_x", "is missing, and so is camera_angle_x");
    return reconstruction_add_view(out, &record, name, &view, place->why);
}

// The points that the document names, unless another one has named some.
static bool read_points(const json_place *place, const char *folder, reconstruction *out) {
    const char *name = NULL;
    char path[PATH_ROOM];
    if (!read_path(place, "ply_file_path", &name)) return false;
    if (!name || out->points_file) return true;
    if (!path_join(path, folder, name, place->why)) return false;
    out->points_file = strdup(path);
    if (!out->points_file) return fail(place->why, "%s: no memory for '%s'", place->path, name);
    return ply_read_points(path, out, place->why) || refuse(place, "ply_file_path", "%s", place->why->text);
}

static bool read_file(const char *folder, const char *name, bool held_out, reconstruction *out, fault *why) {
    char path[PATH_ROOM];
    if (!path_join(path, folder, name, why)) return false;
    if (!held_out) strcpy(out->file, path);
    json_t *const document = json_read(path, why);
    const json_t *const frames = json_object_get(document, "frames");
    json_place place = {path, "", document, why};
    lens common = {.cx = NAN, .cy = NAN};
    bool read = document && read_lens(&place, &common) && read_points(&place, folder, out) &&
                (json_is_array(frames) || refuse(&place, "frames", "must be an array"));
    for (size_t i = 0; read && i < json_array_size(frames); i++) {
        place.object = json_array_get(frames, i);
        snprintf(place.field, sizeof place.field, "frames[%zu].", i);
        read = read_frame(&place, i, &common, document, held_out, out);
    }
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
    json_put_integer(json, "w", optics->width);
    json_put_integer(json, "h", optics->height);
    if (optics->fisheye) json_put_boolean(json, "is_fisheye", true);
    for (int i = 0; i < LENS_PARAMETERS; i++) {
        const lens_parameter *parameter = &lens_parameters[i];
        const double value = *lens_value(optics, parameter);
        if (!parameter->distortion || value != 0) json_put_number(json, parameter->key, value);
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
    const dataset_view *views;
    size_t count;
} all_frames;

static void describe(json_writer *json, const void *subject) {
    const all_frames *all = subject;
    json_begin(json, "frames", '[');
    for (size_t i = 0; i < all->count; i++) {
        const dataset_view *const view = &all->views[i];
        char path[PATH_ROOM];
        snprintf(path, sizeof path, "%s%s%s", all->folder, *all->folder ? "/" : "", view->name);
        json_begin(json, NULL, '{');
        json_put_text(json, "file_path", path);
        if (view->mask_path) json_put_text(json, "mask_path", view->mask_path);
        put_lens(json, &view->optics);
        transforms_put_pose(json, view->rotation, view->translation);
        json_end(json, '}');
    }
    json_end(json, ']');
}

bool transforms_save(const char *path, const char *folder, const dataset_view *views, size_t count,
                     fault *why) {
    const all_frames all = {folder, views, count};
    return json_save(path, describe, &all, why);
}
