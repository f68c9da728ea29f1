// SPDX-License-Identifier: MIT
// COLMAP's models, binary or text. Layout: github.com/colmap/colmap, doc/format.rst; binary numbers are little-endian,
// without padding.
#include "reconstruction.h"
#include "files/growing.h"
#include "files/input_file.h"
#include "scene.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as the file has them");

enum {
    MAX_NAME = 1024,   // bytes of an image name in a binary file, the zero included
    CAMERA_BYTES = 24, // of a record before what follows by its kind
    IMAGE_BYTES = 64,
    POINT_BYTES = 51
};

// A file of a model, and the record that is being read.
typedef struct source {
    input_file file;
    bool binary;
    char bytes[LENS_PARAMETERS * sizeof(double)]; // of a binary record
    char *at;                                     // what is read next of bytes, or of the line
    record_place place;
    size_t camera_count, camera_room;
    dataset_view *cameras; // without poses; sorted by id when images are read
    reconstruction *out;
    fault *why;
} source;

// ---- fields

// Binary: reads the next bytes of the record.
static bool take(source *s, size_t bytes, const char *what) {
    s->at = s->binary ? s->bytes : s->at;
    return !s->binary || input_file_read(&s->file, s->bytes, bytes, what, s->why);
}

static bool refuse_word(const source *s, const char *what) {
    return fail_at(s->why, &s->place, "expected %s, not '%.40s'", what, s->at + strspn(s->at, " \t"));
}

static bool ends_word(const char *end) {
    return *end == '\0' || isspace((unsigned char)*end);
}

// Text: within least..most. Binary: of that many bytes, with a sign where there are four.
static bool whole(source *s, size_t bytes, const char *what, int64_t least, int64_t most, int64_t *out) {
    char *end = s->at + bytes;
    if (s->binary) {
        int32_t four;
        *out = 0;
        memcpy(out, s->at, bytes);
        memcpy(&four, s->at, sizeof four);
        if (bytes == sizeof four) *out = four;
    } else {
        errno = 0;
        *out = strtoll(s->at, &end, 10);
        if (end == s->at || !ends_word(end) || errno != 0 || *out < least || *out > most)
            return refuse_word(s, what);
    }
    s->at = end;
    return true;
}

static bool reals(source *s, const char *what, double *out, int count) {
    for (int i = 0; i < count; i++) {
        char *end = s->at + sizeof *out;
        if (s->binary)
            memcpy(&out[i], s->at, sizeof *out);
        else
            out[i] = strtod(s->at, &end);
        if (end == s->at || !(s->binary || ends_word(end))) return refuse_word(s, what);
        s->at = end;
    }
    return true;
}

// Text: moves to the next line that is neither blank nor a comment; s->file.line is NULL at the end.
static bool next_line(source *s) {
    while (input_file_next_line(&s->file, s->why)) {
        char *const line = s->file.line;
        if (!line) return true;
        s->at =
            line + (s->file.number == 1 && strncmp(line, "\xef\xbb\xbf", 3) == 0 ? 3 : 0); // a mark of UTF-8
        s->at += strspn(s->at, " \t");
        if (*s->at != '\0' && *s->at != '#') return true;
    }
    return false;
}

static bool at_end_of_line(const source *s) {
    return s->at[strspn(s->at, " \t")] == '\0';
}

// ---- records

static bool refuse_lens(source *s, int64_t id, int64_t number, const lens_model *model, const char *name) {
    char readable[160], text[96];
    lens_model_list(readable);
    snprintf(text, sizeof text, "%" PRId64 " (%s)", model ? (int64_t)(model - lens_models) : number,
             model ? model->name : "unknown");
    return fail_at(
        s->why, &s->place,
        "camera %" PRId64
        " has model %.40s, which cannot be read; only %s can: `colmap image_undistorter` makes PINHOLE of any",
        id, model || s->binary ? text : name, readable);
}

static bool read_camera(source *s) {
    int64_t id, number = -1, side[2];
    double values[LENS_PARAMETERS];
    char name[64] = "";
    int length = 0;
    const lens_model *model = NULL;
    if (!take(s, CAMERA_BYTES, "a camera") || !whole(s, 4, "a camera's id", INT32_MIN, UINT32_MAX, &id))
        return false;
    if (s->binary) {
        if (!whole(s, 4, "", 0, 0, &number)) return false;
        if (number >= 0 && number < LENS_MODELS) model = &lens_models[number];
    } else {
        sscanf(s->at, " %63s%n", name, &length);
        if (length == 0) return refuse_word(s, "the name of a camera model");
        model = lens_model_find(name);
    }
    const int count = model ? model->count : 0;
    if (count == 0) return refuse_lens(s, id, number, model, name);
    s->at += length;
    if (!whole(s, 8, "a camera's image width", 0, INT64_MAX, &side[0]) ||
        !whole(s, 8, "a camera's image height", 0, INT64_MAX, &side[1]) ||
        !take(s, (size_t)count * sizeof *values, "a camera's parameters") ||
        !reals(s, "a camera's parameter", values, count))
        return false;
    if (!s->binary && !at_end_of_line(s)) return refuse_word(s, "the end of the line");
    for (int k = 0; k < 2; k++)
        if (side[k] < 1 || side[k] > GS_MAX_SIZE)
            return fail_at(s->why, &s->place,
                           "camera %" PRId64 " has images of %" PRIu64 " x %" PRIu64
                           " pixels; each side must be 1..%d",
                           id, (uint64_t)side[0], (uint64_t)side[1], GS_MAX_SIZE);
    dataset_view camera = {.id = id, .optics = {.width = (int32_t)side[0], .height = (int32_t)side[1]}};
    lens *const optics = &camera.optics;
    lens_model_apply(model, values, optics);
    // 0 and NaN mean an open value in a lens; a COLMAP model has none.
    if (optics->fx == 0 || optics->fy == 0 || isnan(optics->cx) || isnan(optics->cy))
        return fail_at(s->why, &s->place,
                       "camera %" PRId64
                       " has fx, fy, cx, cy = %g, %g, %g, %g; they must be finite, the first two above 0",
                       id, optics->fx, optics->fy, optics->cx, optics->cy);
    if (!lens_check(optics, s->why))
        return fail_at(s->why, &s->place, "camera %" PRId64 " has %s", id, s->why->text);
    return append(&s->cameras, &s->camera_count, &s->camera_room, &camera, sizeof camera) ||
           fail_at(s->why, &s->place, "no memory for %zu cameras", s->camera_count + 1);
}

static bool end_cameras(source *s) {
    const char *const path = s->file.path;
    if (s->camera_count == 0) return fail(s->why, "%s: holds no cameras", path);
    qsort(s->cameras, s->camera_count, sizeof *s->cameras, compare_ids);
    for (size_t i = 1; i < s->camera_count; i++)
        if (s->cameras[i].id == s->cameras[i - 1].id)
            return fail(s->why, "%s: two cameras have the id %" PRId64, path, s->cameras[i].id);
    return true;
}

// The matrix of a quaternion (w, x, y, z) of any length. False if the length is 0 or not finite.
static bool turn_quaternion(const double q[4], double matrix[9]) {
    const double length = hypot(hypot(q[0], q[1]), hypot(q[2], q[3])); // no square overflows or underflows
    if (!(length > 0) || !isfinite(length)) return false;
    const double unit[4] = {q[0] / length, q[1] / length, q[2] / length, q[3] / length};
    rotation_of_quaternion(unit, matrix);
    return true;
}

// A name ends at a zero byte, in text at the end of the line. It may hold spaces.
static bool read_name(source *s, char name[MAX_NAME]) {
    const record_place begin = {s->file.path, "byte", s->file.offset};
    if (!s->binary) {
        s->at += strspn(s->at, " \t");
        size_t length = strlen(s->at);
        while (length > 0 && isspace((unsigned char)s->at[length - 1])) length--;
        if (length >= MAX_NAME)
            return fail_at(s->why, &s->place, "an image name of more than %d bytes", MAX_NAME - 1);
        snprintf(name, MAX_NAME, "%.*s", (int)length, s->at);
        return true;
    }
    for (size_t length = 0; length < MAX_NAME; length++) {
        if (!input_file_read(&s->file, &name[length], 1, "an image's name", s->why)) return false;
        if (!name[length]) return true;
    }
    return fail_at(s->why, &begin, "an image name of more than %d bytes", MAX_NAME - 1);
}

// "X Y POINT3D_ID ...": in text a line of its own, which may be empty, and be missing at the end of the file.
static bool skip_observations(source *s) {
    if (s->binary) {
        uint64_t count;
        return input_file_read(&s->file, &count, sizeof count, "an image's number of 2D points", s->why) &&
               input_file_expect(&s->file, count, 24, "2D points", s->why) &&
               input_file_skip(&s->file, count * 24, "2D points", s->why);
    }
    if (!input_file_next_line(&s->file, s->why)) return false;
    size_t words = 0;
    for (const char *at = s->file.line; at && *(at += strspn(at, " \t")) != '\0'; at += strcspn(at, " \t"))
        words++;
    return words % 3 == 0 ||
           fail(s->why,
                "%s: at line %" PRIu64 ": %zu words for an image's 2D points, which have three words each",
                s->file.path, s->file.number, words);
}

static bool read_image(source *s) {
    double q[4];
    int64_t camera;
    char name[MAX_NAME];
    dataset_view view = {.id = 0};
    if (!take(s, IMAGE_BYTES, "an image") || !whole(s, 4, "an image's id", INT32_MIN, UINT32_MAX, &view.id) ||
        !reals(s, "an image's rotation", q, 4) || !reals(s, "an image's translation", view.translation, 3) ||
        !whole(s, 4, "an image's camera id", INT32_MIN, UINT32_MAX, &camera) || !read_name(s, name))
        return false;
    const dataset_view *const found =
        bsearch(&camera, s->cameras, s->camera_count, sizeof *s->cameras, compare_ids);
    if (!found)
        return fail_at(s->why, &s->place,
                       "image '%.200s' is of camera %" PRId64 ", which is not in the model", name, camera);
    view.optics = found->optics;
    if (!turn_quaternion(q, view.rotation))
        return fail_at(s->why, &s->place, "image '%.200s' has the quaternion %g, %g, %g, %g", name, q[0],
                       q[1], q[2], q[3]);
    // The place is the record's, also where the line after it is read by now.
    return reconstruction_add_view(s->out, &s->place, name, &view, s->why) && skip_observations(s);
}

// IMAGE_ID POINT2D_IDX ...
static bool read_track(source *s, uint64_t entries) {
    const char *const what = "a track's image id";
    reconstruction *const r = s->out;
    if (!r->with_tracks)
        return !s->binary || input_file_skip(&s->file, entries * 8, "a point's track", s->why);
    for (uint64_t i = 0; s->binary ? i < entries : !at_end_of_line(s); i++) {
        int64_t image, point;
        if (!take(s, 8, "a point's track") || !whole(s, 4, what, INT32_MIN, UINT32_MAX, &image) ||
            !whole(s, 4, "a track's 2D point", INT32_MIN, UINT32_MAX, &point))
            return false;
        const track_entry seen = {image, (uint32_t)(r->point_count - 1)};
        if (!append(&r->tracks, &r->track_count, &r->track_room, &seen, sizeof seen))
            return fail(s->why, "no memory for %zu track entries", r->track_count + 1);
    }
    return true;
}

static bool read_point(source *s) {
    int64_t value, track = 0;
    double at[3], error;
    uint8_t color[3];
    if (!take(s, POINT_BYTES, "a point")) return false;
    if (s->binary) {
        s->at += 8; // its id
    } else {        // which has 64 bits and no sign
        const size_t digits = strspn(s->at, "+-0123456789");
        if (digits == 0 || !ends_word(s->at + digits)) return refuse_word(s, "a point's id");
        s->at += digits;
    }
    if (!reals(s, "a point's position", at, 3)) return false;
    for (int i = 0; i < 3; i++) {
        if (!whole(s, 1, "a point's colour (0..255)", 0, 255, &value)) return false;
        color[i] = (uint8_t)value;
    }
    if (!reals(s, "a point's error", &error, 1) || (s->binary && !whole(s, 8, "", 0, 0, &track)))
        return false;
    return (!s->binary || input_file_expect(&s->file, (uint64_t)track, 8, "track entries", s->why)) &&
           reconstruction_add_point(s->out, &s->place, at, color, s->why) && read_track(s, (uint64_t)track);
}

// ---- files

// A file of the model.
typedef struct part {
    const char *name, *what; // without its suffix; its records
    uint64_t least_bytes;    // of a binary record
    bool (*read_one)(source *s);
} part;

static const part parts[] = {{"cameras", "cameras", CAMERA_BYTES, read_camera},
                             {"images", "images", IMAGE_BYTES + 9, read_image},
                             {"points3D", "points", POINT_BYTES, read_point},
                             {"points3d", "points", POINT_BYTES, read_point}};

// A binary file begins with the number of its records. Of text, comments say nothing: a hand may have edited the lines.
static bool read_records(source *s, const part *p) {
    uint64_t count = UINT64_MAX;
    if (s->binary && (!input_file_read(&s->file, &count, sizeof count, "the number of records", s->why) ||
                      !input_file_expect(&s->file, count, p->least_bytes, p->what, s->why)))
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!s->binary && !next_line(s)) return false;
        if (!s->binary && !s->file.line) return true;
        s->place = (record_place){s->file.path, s->binary ? "byte" : "line",
                                  s->binary ? s->file.offset : s->file.number};
        if (!p->read_one(s)) return false;
    }
    return s->file.offset == s->file.size ||
           fail(s->why, "%s: %" PRIu64 " bytes follow the last record, at byte %" PRIu64, s->file.path,
                s->file.size - s->file.offset, s->file.offset);
}

// Where a part of the model is: text only where there is no binary file.
static bool find_part(const char *folder, const part *p, char path[PATH_ROOM], fault *why) {
    static const char *const kinds[] = {".bin", ".txt", NULL};
    char binary[32]; // which a message names if neither is there
    snprintf(binary, sizeof binary, "%s%s", p->name, kinds[0]);
    return file_find(folder, p->name, kinds, path) || path_join(path, folder, binary, why);
}

static bool open_part(source *s, const char *path) {
    s->binary = strcmp(strrchr(path, '.'), ".bin") == 0;
    return input_file_open(&s->file, path, s->why);
}

static bool read_part(source *s, const char *path, const part *p) {
    const bool done = open_part(s, path) && read_records(s, p) && (p != parts || end_cameras(s));
    input_file_close(&s->file);
    return done;
}

// Points of the kind of the cameras are preferred.
static bool load_points(source *s, const char *folder, const char *cameras_kind) {
    const char *const kinds[] = {cameras_kind, ".bin", ".txt", ".ply"};
    char path[PATH_ROOM];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (const part *p = &parts[2]; p < &parts[4]; p++) {
            const char *const kind[] = {kinds[k], NULL};
            if (!file_find(folder, p->name, kind, path)) continue;
            s->out->points_file = strdup(path);
            if (!s->out->points_file) return fail(s->why, "%s: no memory for its name", path);
            return strcmp(*kind, ".ply") == 0 ? ply_read_points(path, s->out, s->why) : read_part(s, path, p);
        }
    return true;
}

bool colmap_load_points(const char *folder, reconstruction *out, fault *why) {
    source s = {.out = out, .why = why};
    return load_points(&s, folder, ".bin");
}

bool colmap_load(const char *model_folder, bool with_tracks, reconstruction *out, fault *why) {
    *out = (reconstruction){.with_tracks = with_tracks, .in_images = true};
    source s = {.out = out, .why = why};
    char cameras[PATH_ROOM];
    const bool done = find_part(model_folder, &parts[0], cameras, why) && read_part(&s, cameras, &parts[0]) &&
                      find_part(model_folder, &parts[1], out->file, why) &&
                      read_part(&s, out->file, &parts[1]) &&
                      load_points(&s, model_folder, strrchr(cameras, '.'));
    free(s.cameras);
    if (!done) reconstruction_close(out);
    return done;
}

// ---- where a model is

// How many images a model has, by its first number or its lines; 0, with a warning, if that cannot be read.
static uint64_t image_count(const char *folder) {
    fault why;
    source s = {.why = &why};
    uint64_t count = 0;
    char path[PATH_ROOM];
    bool done = find_part(folder, &parts[1], path, &why) && open_part(&s, path);
    if (s.binary) done = done && input_file_read(&s.file, &count, sizeof count, "images", &why);
    for (; !s.binary && done && (done = next_line(&s)) && s.file.line; count++)
        done = input_file_next_line(&s.file, &why);
    input_file_close(&s.file);
    if (!done) fprintf(stderr, "dsplat: %s\n", why.text);
    return done ? count : 0;
}

typedef struct found_model {
    char *folder;    // of the largest so far
    uint64_t images; // of several
    int models;
} found_model;

// The folders in a folder, by name, then that itself.
static void consider(found_model *best, const char *folder, bool children) {
    struct dirent **entries = NULL;
    const int count = children ? scandir(folder, &entries, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        char path[PATH_ROOM + 256];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.') consider(best, path, false);
        free(entries[i]);
    }
    free(entries);
    if (!is_file_in(folder, "cameras.bin") && !is_file_in(folder, "cameras.txt")) return;
    // A single model is not opened to count its images: it is read anyway, and then says what is wrong.
    if (best->models++ == 1) best->images = image_count(best->folder);
    const uint64_t images = best->models > 1 ? image_count(folder) : 0;
    if (best->models > 1 && images <= best->images) return;
    best->images = images;
    strcpy(best->folder, folder);
}

bool colmap_find(const char *folder, bool elsewhere, char model_folder[PATH_ROOM]) {
    static const char *const places[2][2] = {{"/sparse", ""}, {"/colmap/sparse", "/distorted/sparse"}};
    found_model best = {.folder = model_folder};
    for (int i = 0; i < 2 && (i == 0 || !elsewhere || best.models == 0); i++) {
        char path[PATH_ROOM];
        if (snprintf(path, sizeof path, "%s%s", folder, places[elsewhere][i]) < PATH_ROOM)
            consider(&best, path, *places[elsewhere][i] != 0);
    }
    if (best.models > 1)
        fprintf(stderr, "dsplat: %s: the largest of %d models, with %" PRIu64 " images, is read\n",
                model_folder, best.models, best.images);
    return best.models > 0;
}
