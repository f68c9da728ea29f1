// SPDX-License-Identifier: MIT
// COLMAP's binary model. Layout: github.com/colmap/colmap, doc/format.rst; all numbers little-endian, no
// padding.
#include "camera_model.h"
#include "colmap_model.h"
#include "files/input_file.h"
#include "files/path.h"
#include <inttypes.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as the file has them");

enum {
    MAX_NAME = 1024,   // bytes of an image name, the zero included
    CAMERA_BYTES = 24, // the least a record can take
    IMAGE_BYTES = 73,
    POINT_BYTES = 51
};

static record_place here(const input_file *file) {
    return (record_place){file->path, "byte", file->offset};
}

static bool read_camera(input_file *file, colmap_model *model, fault *why) {
    const record_place place = here(file);
    int32_t id, camera_model;
    uint64_t size[2];
    double parameters[CAMERA_MODEL_MAX_PARAMETERS];
    if (!input_file_read(file, &id, 4, "a camera's id", why) ||
        !input_file_read(file, &camera_model, 4, "a camera's model", why))
        return false;
    const int count = colmap_parameter_count(&place, id, camera_model, why);
    return count > 0 && input_file_read(file, size, sizeof size, "a camera's image size", why) &&
           input_file_read(file, parameters, (size_t)count * sizeof *parameters, "a camera's parameters",
                           why) &&
           colmap_add_camera(model, &place, id, camera_model, size, parameters, why);
}

static bool read_name(input_file *file, char name[MAX_NAME], fault *why) {
    const uint64_t at = file->offset;
    for (size_t length = 0; length < MAX_NAME; length++) {
        if (!input_file_read(file, &name[length], 1, "an image's name", why)) return false;
        if (!name[length]) return true;
    }
    return fail(why, "%s: at byte %" PRIu64 ": an image name of more than %d bytes", file->path, at,
                MAX_NAME - 1);
}

static bool read_image(input_file *file, colmap_model *model, fault *why) {
    const record_place place = here(file);
    colmap_image image;
    char name[MAX_NAME];
    uint64_t observations;
    return input_file_read(file, &image.id, 4, "an image's id", why) &&
           input_file_read(file, image.quaternion, sizeof image.quaternion, "an image's rotation", why) &&
           input_file_read(file, image.translation, sizeof image.translation, "an image's translation",
                           why) &&
           input_file_read(file, &image.camera, 4, "an image's camera id", why) &&
           read_name(file, name, why) &&
           input_file_read(file, &observations, 8, "an image's number of 2D points", why) &&
           input_file_expect(file, observations, 24, "2D points", why) &&
           input_file_skip(file, observations * 24, "2D points", why) &&
           colmap_add_view(model, &place, &image, name, why);
}

static bool read_track(input_file *file, uint64_t entries, colmap_model *model, fault *why) {
    if (!model->with_tracks) return input_file_skip(file, entries * 8, "a point's track", why);
    for (uint64_t i = 0; i < entries; i++) {
        int32_t entry[2]; // image, its 2D point
        if (!input_file_read(file, entry, sizeof entry, "a point's track", why) ||
            !colmap_add_sighting(model, entry[0], why))
            return false;
    }
    return true;
}

static bool read_point(input_file *file, colmap_model *model, fault *why) {
    const record_place place = here(file);
    double position[3];
    uint8_t color[3];
    uint64_t track;
    return input_file_skip(file, 8, "a point's id", why) &&
           input_file_read(file, position, sizeof position, "a point's position", why) &&
           input_file_read(file, color, sizeof color, "a point's colour", why) &&
           input_file_skip(file, 8, "a point's error", why) &&
           input_file_read(file, &track, 8, "the length of a point's track", why) &&
           input_file_expect(file, track, 8, "track entries", why) &&
           colmap_add_point(model, &place, position, color, why) && read_track(file, track, model, why);
}

// A file of the model.
typedef struct part {
    const char *name, *what; // what: its records
    uint64_t least_bytes;    // of a record
    bool (*read_one)(input_file *file, colmap_model *model, fault *why);
    bool (*end)(colmap_model *model, const char *path, fault *why); // NULL: nothing is left to check
} part;

// Each file begins with the number of its records.
static bool read_records(input_file *file, const part *of, colmap_model *model, fault *why) {
    uint64_t count;
    if (!input_file_read(file, &count, sizeof count, "the number of records", why) ||
        !input_file_expect(file, count, of->least_bytes, of->what, why))
        return false;
    for (uint64_t i = 0; i < count; i++)
        if (!of->read_one(file, model, why)) return false;
    return file->offset == file->size ||
           fail(why, "%s: %" PRIu64 " bytes follow the last record, at byte %" PRIu64, file->path,
                file->size - file->offset, file->offset);
}

bool colmap_read_binary(const char *folder, colmap_parts wanted, colmap_model *model, fault *why) {
    static const part parts[] = {{"cameras.bin", "cameras", CAMERA_BYTES, read_camera, colmap_end_cameras},
                                 {"images.bin", "images", IMAGE_BYTES, read_image, colmap_end_views},
                                 {"points3D.bin", "points", POINT_BYTES, read_point, NULL}};
    for (const part *p = parts + (wanted.cameras_and_images ? 0 : 2); p < parts + (wanted.points ? 3 : 2);
         p++) {
        char path[PATH_ROOM];
        input_file file = {0};
        const bool done = path_join(path, folder, p->name, why) && input_file_open(&file, path, why) &&
                          read_records(&file, p, model, why) && (!p->end || p->end(model, path, why));
        input_file_close(&file);
        if (!done) return false;
    }
    return true;
}
