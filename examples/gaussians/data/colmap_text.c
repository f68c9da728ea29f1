// SPDX-License-Identifier: MIT
// COLMAP's text model. Layout: github.com/colmap/colmap, doc/format.rst.
#include "camera_model.h"
#include "colmap_model.h"
#include "files/path.h"
#include "files/input_file.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The rest of a line.
typedef struct cursor {
    const input_file *text;
    char *at;
} cursor;

static bool refuse_word(const cursor *rest, const char *what, fault *why) {
    const char *word = rest->at + strspn(rest->at, " \t");
    return fail(why, "%s: at line %" PRIu64 ": expected %s, not '%.40s'", rest->text->path,
                rest->text->number, what, word);
}

static bool ends_word(const char *end) {
    return *end == '\0' || isspace((unsigned char)*end);
}

static bool read_real(cursor *rest, const char *what, double *out, fault *why) {
    char *end;
    *out = strtod(rest->at, &end);
    if (end == rest->at || !ends_word(end)) return refuse_word(rest, what, why);
    rest->at = end;
    return true;
}

static bool read_reals(cursor *rest, const char *what, double *out, int count, fault *why) {
    for (int i = 0; i < count; i++)
        if (!read_real(rest, what, &out[i], why)) return false;
    return true;
}

static bool read_whole(cursor *rest, const char *what, int64_t least, int64_t most, int64_t *out,
                       fault *why) {
    char *end;
    errno = 0;
    *out = strtoll(rest->at, &end, 10);
    if (end == rest->at || !ends_word(end) || errno != 0 || *out < least || *out > most)
        return refuse_word(rest, what, why);
    rest->at = end;
    return true;
}

// Moves to the next line that is neither blank nor a comment. *announced: the number of records in COLMAP's
// comment, as in "# Number of cameras: 3".
static bool next_record(input_file *text, const char *what, int64_t *announced, fault *why) {
    char note[40];
    snprintf(note, sizeof note, "Number of %s:", what);
    while (input_file_next_line(text, why)) {
        if (!text->line) return true;
        const char *begin = text->line + strspn(text->line, " \t");
        if (*begin != '\0' && *begin != '#') return true;
        const char *number = strstr(begin, note);
        if (number) *announced = strtoll(number + strlen(note), NULL, 10);
    }
    return false;
}

static record_place here(const input_file *text) {
    return (record_place){text->path, "line", text->number};
}

static bool read_camera(input_file *text, colmap_model *model, fault *why) {
    const record_place place = here(text);
    cursor rest = {text, text->line};
    int64_t id, side[2];
    char name[32] = "";
    int length = 0;
    double parameters[CAMERA_MODEL_MAX_PARAMETERS];
    if (!read_whole(&rest, "a camera's id", INT32_MIN, INT32_MAX, &id, why)) return false;
    sscanf(rest.at, " %31s%n", name, &length);
    const int32_t camera_model = camera_model_number(name);
    if (camera_model < 0) return refuse_word(&rest, "the name of a camera model", why);
    rest.at += length;
    const int count = colmap_parameter_count(&place, (int32_t)id, camera_model, why);
    if (count == 0 || !read_whole(&rest, "a camera's image width", 0, INT64_MAX, &side[0], why) ||
        !read_whole(&rest, "a camera's image height", 0, INT64_MAX, &side[1], why) ||
        !read_reals(&rest, "a camera's parameter", parameters, count, why))
        return false;
    if (rest.at[strspn(rest.at, " \t")] != '\0') return refuse_word(&rest, "the end of the line", why);
    const uint64_t size[2] = {(uint64_t)side[0], (uint64_t)side[1]};
    return colmap_add_camera(model, &place, (int32_t)id, camera_model, size, parameters, why);
}

// Skips the line after an image's: "X Y POINT3D_ID ...", or empty. Its words are counted.
static bool skip_observations(input_file *text, fault *why) {
    if (!input_file_next_line(text, why)) return false;
    if (!text->line)
        return fail(why, "%s: truncated after line %" PRIu64 ": the line of the image's 2D points is missing",
                    text->path, text->number);
    size_t words = 0;
    for (const char *at = text->line; *(at += strspn(at, " \t")) != '\0'; at += strcspn(at, " \t")) words++;
    if (words % 3 == 0) return true;
    return fail(why,
                "%s: at line %" PRIu64 ": %zu words for an image's 2D points, which have three words each",
                text->path, text->number, words);
}

static bool read_image(input_file *text, colmap_model *model, fault *why) {
    const record_place place = here(text);
    cursor rest = {text, text->line};
    int64_t id, camera;
    colmap_image image;
    if (!read_whole(&rest, "an image's id", INT32_MIN, INT32_MAX, &id, why) ||
        !read_reals(&rest, "an image's rotation", image.quaternion, 4, why) ||
        !read_reals(&rest, "an image's translation", image.translation, 3, why) ||
        !read_whole(&rest, "an image's camera id", INT32_MIN, INT32_MAX, &camera, why))
        return false;
    char *name = rest.at + strspn(rest.at, " \t"); // to the end of the line, so it may hold spaces
    for (size_t length = strlen(name); length > 0 && isspace((unsigned char)name[length - 1]); length--)
        name[length - 1] = '\0';
    image.id = (int32_t)id;
    image.camera = (int32_t)camera;
    return colmap_add_view(model, &place, &image, name, why) && skip_observations(text, why);
}

// To the end of the line: IMAGE_ID POINT2D_IDX ...
static bool read_track(cursor *rest, colmap_model *model, fault *why) {
    while (model->with_tracks && rest->at[strspn(rest->at, " \t")] != '\0') {
        int64_t image, point;
        if (!read_whole(rest, "a track's image id", INT32_MIN, INT32_MAX, &image, why) ||
            !read_whole(rest, "a track's 2D point", INT32_MIN, INT32_MAX, &point, why) ||
            !colmap_add_sighting(model, (int32_t)image, why))
            return false;
    }
    return true;
}

static bool read_point(input_file *text, colmap_model *model, fault *why) {
    const record_place place = here(text);
    cursor rest = {text, text->line};
    int64_t id, value;
    double position[3], error;
    uint8_t color[3];
    if (!read_whole(&rest, "a point's id", INT64_MIN, INT64_MAX, &id, why) ||
        !read_reals(&rest, "a point's position", position, 3, why))
        return false;
    for (int i = 0; i < 3; i++) {
        if (!read_whole(&rest, "a point's colour (0..255)", 0, 255, &value, why)) return false;
        color[i] = (uint8_t)value;
    }
    return read_real(&rest, "a point's error", &error, why) &&
           colmap_add_point(model, &place, position, color, why) && read_track(&rest, model, why);
}

// A file of the model.
typedef struct part {
    const char *name, *what; // what: its records
    bool (*read_one)(input_file *text, colmap_model *model, fault *why);
    bool (*end)(colmap_model *model, const char *path, fault *why); // NULL: nothing is left to check
} part;

static bool read_records(input_file *text, const part *of, colmap_model *model, fault *why) {
    int64_t announced = -1, count = 0;
    for (;; count++) {
        if (!next_record(text, of->what, &announced, why)) return false;
        if (!text->line) break;
        if (!of->read_one(text, model, why)) return false;
    }
    return announced < 0 || count == announced ||
           fail(why,
                "%s: truncated or damaged: a comment announces %" PRId64 " %s, but %" PRId64
                " stand before its end, line %" PRIu64,
                text->path, announced, of->what, count, text->number);
}

bool colmap_read_text(const char *folder, colmap_parts wanted, colmap_model *model, fault *why) {
    static const part parts[] = {{"cameras.txt", "cameras", read_camera, colmap_end_cameras},
                                 {"images.txt", "images", read_image, colmap_end_views},
                                 {"points3D.txt", "points", read_point, NULL}};
    for (const part *p = parts + (wanted.cameras_and_images ? 0 : 2); p < parts + (wanted.points ? 3 : 2);
         p++) {
        char path[PATH_ROOM];
        input_file text = {0};
        const bool done = path_join(path, folder, p->name, why) && input_file_open(&text, path, why) &&
                          read_records(&text, p, model, why) && (!p->end || p->end(model, path, why));
        input_file_close(&text);
        if (!done) return false;
    }
    return true;
}
