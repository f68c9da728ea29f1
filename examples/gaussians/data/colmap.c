// SPDX-License-Identifier: MIT
// COLMAP's binary model. Layout: github.com/colmap/colmap, doc/format.rst; all numbers little-endian, no
// padding.
#include "colmap.h"
#include "input_file.h"
#include "path.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are copied as the file has them");

enum {
    PINHOLE = 1,
    MAX_NAME = 1024,   // bytes of an image name, the zero included
    CAMERA_BYTES = 24, // the least a record can take
    IMAGE_BYTES = 73,
    POINT_BYTES = 51
};

typedef struct lens {
    int32_t id;
    gs_camera camera; // without a pose
} lens;

typedef struct lenses {
    size_t count;
    lens *list; // sorted by id
} lenses;

static int by_id(const void *a, const void *b) {
    const int32_t x = ((const lens *)a)->id, y = ((const lens *)b)->id;
    return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const dataset_view *)a)->name, ((const dataset_view *)b)->name);
}

// Narrows to float; false if one is not finite after that.
static bool narrow(const double *from, float *to, int count) {
    for (int i = 0; i < count; i++) {
        to[i] = (float)from[i];
        if (!isfinite(to[i])) return false;
    }
    return true;
}

static const char *model_name(int32_t model) {
    static const char *const names[] = {"SIMPLE_PINHOLE",
                                        "PINHOLE",
                                        "SIMPLE_RADIAL",
                                        "RADIAL",
                                        "OPENCV",
                                        "OPENCV_FISHEYE",
                                        "FULL_OPENCV",
                                        "FOV",
                                        "SIMPLE_RADIAL_FISHEYE",
                                        "RADIAL_FISHEYE",
                                        "THIN_PRISM_FISHEYE"};
    return model >= 0 && model < (int32_t)(sizeof names / sizeof *names) ? names[model] : "unknown to us";
}

// Each file begins with the number of its records. Gives memory for them, cleared, to be freed by the caller.
static bool begin(input_file *file, uint64_t least_bytes, size_t record_bytes, const char *what,
                  uint64_t *count, void **records, fault *why) {
    if (!input_file_read(file, count, sizeof *count, "the number of records", why) ||
        !input_file_expect(file, *count, least_bytes, what, why))
        return false;
    *records = calloc(*count ? (size_t)*count : 1, record_bytes);
    return *records || fail(why, "%s: no memory for %" PRIu64 " %s", file->path, *count, what);
}

static bool end(const input_file *file, fault *why) {
    if (file->offset == file->size) return true;
    return fail(why, "%s: %" PRIu64 " bytes follow the last record, at byte %" PRIu64, file->path,
                file->size - file->offset, file->offset);
}

static bool read_camera(input_file *file, lens *out, fault *why) {
    const uint64_t at = file->offset;
    int32_t model;
    uint64_t size[2];
    double parameters[4];
    float f[4];
    if (!input_file_read(file, &out->id, 4, "a camera's id", why) ||
        !input_file_read(file, &model, 4, "a camera's model", why))
        return false;
    if (model != PINHOLE)
        return fail(why,
                    "%s: at byte %" PRIu64 ": camera %" PRId32 " has model %" PRId32
                    " (%s); only PINHOLE can be read: `colmap image_undistorter` makes one",
                    file->path, at, out->id, model, model_name(model));
    if (!input_file_read(file, size, sizeof size, "a camera's image size", why) ||
        !input_file_read(file, parameters, sizeof parameters, "a camera's parameters", why))
        return false;
    if (size[0] < 1 || size[0] > GS_MAX_SIZE || size[1] < 1 || size[1] > GS_MAX_SIZE)
        return fail(why,
                    "%s: at byte %" PRIu64 ": camera %" PRId32 " has images of %" PRIu64 " x %" PRIu64
                    " pixels; each side must be 1..%d",
                    file->path, at, out->id, size[0], size[1], GS_MAX_SIZE);
    if (!narrow(parameters, f, 4) || !(f[0] > 0.0f && f[1] > 0.0f))
        return fail(why,
                    "%s: at byte %" PRIu64 ": camera %" PRId32
                    " has fx, fy, cx, cy = %g, %g, %g, %g; they must be finite, the first two above 0",
                    file->path, at, out->id, parameters[0], parameters[1], parameters[2], parameters[3]);
    out->camera = (gs_camera){.width = (int32_t)size[0],
                              .height = (int32_t)size[1],
                              .fx = f[0],
                              .fy = f[1],
                              .cx = f[2],
                              .cy = f[3],
                              .near_plane = 0.2f};
    return true;
}

static bool read_cameras(input_file *file, lenses *out, fault *why) {
    uint64_t count;
    void *records;
    if (!begin(file, CAMERA_BYTES, sizeof(lens), "cameras", &count, &records, why)) return false;
    *out = (lenses){(size_t)count, records};
    for (size_t i = 0; i < out->count; i++)
        if (!read_camera(file, &out->list[i], why)) return false;
    if (!end(file, why)) return false;
    qsort(out->list, out->count, sizeof(lens), by_id);
    for (size_t i = 1; i < out->count; i++)
        if (out->list[i].id == out->list[i - 1].id)
            return fail(why, "%s: before byte %" PRIu64 ": two cameras have the id %" PRId32, file->path,
                        file->offset, out->list[i].id);
    return true;
}

// Of a quaternion (w, x, y, z) that need not be normalised; false if it has no direction.
static bool rotation_of(const double quaternion[4], float rotation[9]) {
    double largest = 0.0, q[4], square = 0.0;
    for (int i = 0; i < 4; i++) {
        if (!isfinite(quaternion[i])) return false;
        largest = fmax(largest, fabs(quaternion[i]));
    }
    if (!(largest > 0.0)) return false;
    for (int i = 0; i < 4; i++) {
        q[i] = quaternion[i] / largest; // so that squares neither overflow nor vanish
        square += q[i] * q[i];
    }
    for (int i = 0; i < 4; i++) q[i] /= sqrt(square);
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double matrix[9] = {1 - 2 * (y * y + z * z), 2 * (x * y - w * z),     2 * (x * z + w * y),
                              2 * (x * y + w * z),     1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                              2 * (x * z - w * y),     2 * (y * z + w * x),     1 - 2 * (x * x + y * y)};
    return narrow(matrix, rotation, 9);
}

static bool read_name(input_file *file, char **out, fault *why) {
    const uint64_t at = file->offset;
    char name[MAX_NAME];
    for (size_t length = 0; length < sizeof name; length++) {
        if (!input_file_read(file, &name[length], 1, "an image's name", why)) return false;
        if (name[length]) continue;
        if (!path_stays_inside(name))
            return fail(why,
                        "%s: at byte %" PRIu64 ": image name '%.200s' is empty or leaves the images folder",
                        file->path, at, name);
        *out = strdup(name);
        return *out || fail(why, "%s: no memory for a name", file->path);
    }
    return fail(why, "%s: at byte %" PRIu64 ": an image name of more than %d bytes", file->path, at,
                MAX_NAME - 1);
}

static bool read_image(input_file *file, const lenses *cameras, dataset_view *out, fault *why) {
    const uint64_t at = file->offset;
    int32_t id;
    double quaternion[4], translation[3];
    lens wanted = {0};
    uint64_t observations;
    if (!input_file_read(file, &id, 4, "an image's id", why) ||
        !input_file_read(file, quaternion, sizeof quaternion, "an image's rotation", why) ||
        !input_file_read(file, translation, sizeof translation, "an image's translation", why) ||
        !input_file_read(file, &wanted.id, 4, "an image's camera id", why) ||
        !read_name(file, &out->name, why) ||
        !input_file_read(file, &observations, 8, "an image's number of 2D points", why) ||
        !input_file_expect(file, observations, 24, "2D points", why) ||
        !input_file_skip(file, observations * 24, "2D points", why))
        return false;
    const lens *camera = bsearch(&wanted, cameras->list, cameras->count, sizeof wanted, by_id);
    if (!camera)
        return fail(why,
                    "%s: at byte %" PRIu64 ": image '%s' is of camera %" PRId32
                    ", which cameras.bin does not have",
                    file->path, at, out->name, wanted.id);
    out->camera = camera->camera;
    if (!rotation_of(quaternion, out->camera.rotation))
        return fail(why, "%s: at byte %" PRIu64 ": image '%s' has the quaternion %g, %g, %g, %g", file->path,
                    at, out->name, quaternion[0], quaternion[1], quaternion[2], quaternion[3]);
    if (!narrow(translation, out->camera.translation, 3))
        return fail(why, "%s: at byte %" PRIu64 ": image '%s' has the translation %g, %g, %g", file->path, at,
                    out->name, translation[0], translation[1], translation[2]);
    return true;
}

static bool read_images(input_file *file, const lenses *cameras, dataset *out, fault *why) {
    uint64_t count;
    void *records;
    if (!begin(file, IMAGE_BYTES, sizeof(dataset_view), "images", &count, &records, why)) return false;
    out->views = records;
    for (; out->view_count < count; out->view_count++)
        if (!read_image(file, cameras, &out->views[out->view_count], why)) {
            free(out->views[out->view_count].name);
            return false;
        }
    if (!end(file, why)) return false;
    qsort(out->views, out->view_count, sizeof(dataset_view), by_name);
    for (size_t i = 1; i < out->view_count; i++)
        if (strcmp(out->views[i].name, out->views[i - 1].name) == 0)
            return fail(why, "%s: before byte %" PRIu64 ": two images are named '%s'", file->path,
                        file->offset, out->views[i].name);
    return true;
}

static bool read_points(input_file *file, dataset *out, fault *why) {
    uint64_t count;
    void *points, *colors;
    if (!begin(file, POINT_BYTES, sizeof *out->points, "points", &count, &points, why)) return false;
    out->points = points;
    colors = calloc(count ? (size_t)count : 1, sizeof *out->colors);
    if (!colors) return fail(why, "%s: no memory for %" PRIu64 " points", file->path, count);
    out->colors = colors;
    for (; out->point_count < count; out->point_count++) {
        const uint64_t at = file->offset;
        double position[3];
        uint64_t track;
        if (!input_file_skip(file, 8, "a point's id", why) ||
            !input_file_read(file, position, sizeof position, "a point's position", why) ||
            !input_file_read(file, out->colors[out->point_count], 3, "a point's colour", why) ||
            !input_file_skip(file, 8, "a point's error", why) ||
            !input_file_read(file, &track, 8, "the length of a point's track", why) ||
            !input_file_expect(file, track, 8, "track entries", why) ||
            !input_file_skip(file, track * 8, "a point's track", why))
            return false;
        if (!narrow(position, out->points[out->point_count], 3))
            return fail(why, "%s: at byte %" PRIu64 ": point number %zu is at %g, %g, %g", file->path, at,
                        out->point_count, position[0], position[1], position[2]);
    }
    return end(file, why);
}

static bool open_in(const char *folder, const char *name, input_file *file, fault *why) {
    char path[PATH_ROOM];
    *file = (input_file){0};
    return path_join(path, folder, name, why) && input_file_open(file, path, why);
}

bool colmap_load(const char *model_folder, dataset *out, fault *why) {
    *out = (dataset){0};
    lenses cameras = {0};
    input_file file;
    bool ok = open_in(model_folder, "cameras.bin", &file, why) && read_cameras(&file, &cameras, why);
    input_file_close(&file);
    if (ok) {
        ok = open_in(model_folder, "images.bin", &file, why) && read_images(&file, &cameras, out, why);
        input_file_close(&file);
    }
    if (ok) {
        ok = open_in(model_folder, "points3D.bin", &file, why) && read_points(&file, out, why);
        input_file_close(&file);
    }
    free(cameras.list);
    if (!ok) dataset_free(out);
    return ok;
}
