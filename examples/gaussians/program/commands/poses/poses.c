// SPDX-License-Identifier: MIT
// dsplat poses: photographs or a video -> photographs with cameras, by COLMAP.
#define _GNU_SOURCE // nftw
#include "commands/command.h"
#include "structure.h"
#include "dataset.h"
#include "files/output_file.h"
#include "record/signals.h"
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct poses_options {
    const char *source, *output, *camera_model;
    int64_t frames;
    bool one_camera, in_order, gpu, points;
} poses_options;

// ---- the folder of what is not ready yet

static int remove_entry(const char *path, const struct stat *status, int kind, struct FTW *place) {
    (void)status, (void)kind, (void)place;
    return remove(path);
}

static void remove_tree(const char *path) {
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

// Beside `path`, so that it can be renamed.
static bool make_beside(const char *path, char out[PATH_ROOM], fault *why) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    if (snprintf(out, PATH_ROOM, "%.*s.partXXXXXX", (int)length, path) >= PATH_ROOM)
        return fail(why, "%.200s...: the path is too long", path);
    if (!mkdtemp(out)) return fail(why, "%s: cannot make a folder beside it: %s", path, strerror(errno));
    const mode_t mask = umask(0); // as mkdir would have made it
    umask(mask);
    return chmod(out, 0777 & ~mask) == 0 || fail(why, "%s: cannot change it: %s", out, strerror(errno));
}

static bool move(const char *folder, const char *from, const char *to_folder, const char *to, fault *why) {
    char a[PATH_ROOM], b[PATH_ROOM];
    if (!path_join(a, folder, from, why) || !path_join(b, to_folder, to, why)) return false;
    return rename(a, b) == 0 || fail(why, "%s: cannot rename to %s: %s", a, b, strerror(errno));
}

// ---- photographs

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool copy_file(const char *from, const char *to, fault *why) {
    char bytes[1 << 16];
    output_file file;
    FILE *const stream = fopen(from, "rb");
    if (!stream) return fail(why, "%s: cannot open: %s", from, strerror(errno));
    bool good = output_file_open(&file, to, why);
    for (size_t got; good && (got = fread(bytes, 1, sizeof bytes, stream)) > 0;)
        fwrite(bytes, 1, got, file.stream); // errors stay in the stream
    if (good && ferror(stream)) {
        good = fail(why, "%s: cannot read: %s", from, strerror(errno));
        output_file_discard(&file);
    } else if (good) {
        good = output_file_commit(&file, why);
    }
    fclose(stream);
    return good;
}

// A link where both are on one file system.
static bool put_photograph(const char *from_folder, const char *name, const char *to_folder, fault *why) {
    char from[PATH_ROOM], to[PATH_ROOM], real[PATH_ROOM];
    return path_join(from, from_folder, name, why) && path_join(to, to_folder, name, why) &&
           ((realpath(from, real) && link(real, to) == 0) || copy_file(from, to, why));
}

static bool put_photographs(const char *source, const char *to, size_t *count, fault *why) {
    char inside[PATH_ROOM];
    struct dirent **list = NULL;
    const char *from = source;
    if (!path_join(inside, source, "images", why)) return false;
    int found = scandir(from, &list, photograph_is, alphasort);
    if (found == 0 && is_folder(inside)) {
        photographs_close(list, found);
        found = scandir(from = inside, &list, photograph_is, alphasort);
    }
    if (found < 0) return fail(why, "%s: cannot open: %s", from, strerror(errno));
    bool good = found >= 3 ||
                fail(why, "%s: holds %d photographs (.jpg, .jpeg, .png); at least 3 are needed", from, found);
    for (int i = 0; good && i < found; i++) good = put_photograph(from, list[i]->d_name, to, why);
    *count = (size_t)found;
    photographs_close(list, found);
    if (good) printf("data       %s: %zu photographs\n", from, *count);
    return good;
}

// ---- the two ways

static bool find_poses(const poses_options *o, structure *s, fault *why) {
    char images[PATH_ROOM], sparse[PATH_ROOM], data[PATH_ROOM];
    const bool is_video = !is_folder(o->source);
    size_t placed;
    if (!path_join(data, s->folder, "data", why) || !path_join(images, data, "images", why) ||
        !path_join(sparse, data, "sparse", why) || !folder_make(data, why) || !folder_make(images, why) ||
        !folder_make(sparse, why))
        return false;
    if (!(is_video ? video_frames(s, o->source, (size_t)o->frames, images, &s->photographs, why)
                   : put_photographs(o->source, images, &s->photographs, why)))
        return false;
    s->one_camera |= is_video;
    s->in_order |= is_video;
    if (!structure_match(s, images, NULL, why) || !structure_map(s, images, &placed, why) ||
        !move(s->folder, "model", sparse, "0", why))
        return false;
    if (rename(data, o->output) != 0)
        return fail(why, "%s: cannot rename to %s: %s", data, o->output, strerror(errno));
    printf("written    %s: %zu of %zu photographs have a place\n", o->output, placed, s->photographs);
    return true;
}

// points3D.bin of COLMAP, without tracks.
static bool write_points(const char *path, const reconstruction *points, const double offset[3], fault *why) {
    output_file file;
    const uint64_t count = points->point_count, none = 0;
    const double error = 0;
    if (!output_file_open(&file, path, why)) return false;
    fwrite(&count, sizeof count, 1, file.stream); // errors stay in the stream
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t number = i + 1;
        double place[3];
        for (int axis = 0; axis < 3; axis++) place[axis] = points->points[i].place[axis] + offset[axis];
        fwrite(&number, sizeof number, 1, file.stream);
        fwrite(place, sizeof place, 1, file.stream);
        fwrite(points->points[i].color, 3, 1, file.stream);
        fwrite(&error, sizeof error, 1, file.stream);
        fwrite(&none, sizeof none, 1, file.stream);
    }
    return output_file_commit(&file, why);
}

static bool add_points(const poses_options *o, structure *s, const dataset *data, fault *why) {
    char names[PATH_ROOM], photographs[PATH_ROOM], model[PATH_ROOM], path[PATH_ROOM];
    reconstruction points = {0};
    if (!colmap_find(o->source, false, model) && !colmap_find(o->source, true, model))
        snprintf(model, sizeof model, "%s", o->source);
    if (!path_join(names, s->folder, "names.txt", why) || !structure_write_names(names, data, why) ||
        !path_join(photographs, o->source, data->picture_folder, why) ||
        !path_join(path, model, "points3D.bin", why))
        return false;
    s->photographs = data->view_count;
    bool good = structure_match(s, photographs, names, why) &&
                structure_triangulate(s, photographs, data, &points, why);
    if (good && points.point_count == 0)
        good = fail(why, "%s: no point is seen by two of the %zu photographs, as their cameras stand",
                    o->source, data->view_count);
    good = good && write_points(path, &points, data->offset, why);
    if (good) printf("written    %s: %zu points\n", path, points.point_count);
    reconstruction_close(&points);
    return good;
}

static bool find_points(const poses_options *o, structure *s, fault *why) {
    const dataset_options cameras = {.downscale = 1, .wanted = dataset_no_picture};
    dataset data;
    if (!dataset_load(o->source, &cameras, &data, why)) return false;
    const bool good = data.point_count > 0
                          ? fail(why, "%s: has %zu points already", o->source, data.point_count)
                          : add_points(o, s, &data, why);
    dataset_close(&data);
    return good;
}

// ---- the command

static bool check(const poses_options *o, fault *why) {
    if (lens_model_parameter_count(lens_model_number(o->camera_model)) == 0) {
        char known[160];
        lens_model_list(known);
        return fail(why, "--camera-model %s: must be one of %s", o->camera_model, known);
    }
    if (o->points) return !o->output || fail(why, "--points excludes -o: it adds points3D.bin to DATA");
    return o->output || fail(why, "-o is missing: the folder to write");
}

// The path does not exist, or is an empty folder, which rename replaces.
static bool is_free(const char *path) {
    struct stat status;
    struct dirent **entries = NULL;
    if (lstat(path, &status) != 0) return errno == ENOENT;
    const int count = scandir(path, &entries, NULL, NULL);
    photographs_close(entries, count);
    return count == 2; // . and ..
}

// Works in a folder beside what is written; nothing else is left.
static bool work(const poses_options *o, structure *s, fault *why) {
    char folder[PATH_ROOM];
    struct stat status;
    if (stat(o->source, &status) != 0) return fail(why, "%s: cannot open: %s", o->source, strerror(errno));
    if (o->output && !is_free(o->output))
        return fail(why, "%s: exists already, and is not an empty folder", o->output);
    if (!structure_possible(s, why) || !make_beside(o->points ? o->source : o->output, folder, why))
        return false;
    s->folder = folder;
    const bool done = (o->points ? find_points : find_poses)(o, s, why);
    remove_tree(folder);
    return done;
}

int poses_command(int argc, char **argv) {
    poses_options o = {.frames = 150, .camera_model = "OPENCV"};
    const option_spec table[] = {
        OUTPUT_OPTION(&o.output,
                      .help = "the folder to write, which must not exist; required without --points"),
        OPTION("frames", &o.frames, .minimum = 3, .maximum = 10000,
               .help = "number of frames to take from a video, the sharpest of each interval"),
        OPTION("camera-model", &o.camera_model, .help = "COLMAP's model of the lens"),
        OPTION("one-camera", &o.one_camera,
               .help = "take all photographs as of one lens at one zoom, as those of a video are taken"),
        OPTION("in-order", &o.in_order,
               .help =
                   "match each photograph only with its neighbours by name, as those of a video are matched"),
        OPTION("gpu", &o.gpu, .help = "find and match features on a GPU, which needs a COLMAP with CUDA"),
        OPTION("points", &o.points,
               .help = "find points for DATA, which has cameras, and write points3D.bin beside them"),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat poses",
        .arguments = "PHOTOS|VIDEO -o DATA | DATA --points [options]",
        .summary =
            "Finds where photographs were taken, with COLMAP, which must be installed, as must ffmpeg for a\n"
            "video. DATA then holds images/ (the photographs, or frames of the video) and sparse/0, as\n"
            "'dsplat train' reads them. On a CPU it takes minutes for a hundred photographs.",
        .examples = "  dsplat poses photos -o data/garden\n"
                    "  dsplat poses garden.mp4 -o data/garden --frames 200\n"
                    "  dsplat train data/garden -o garden.ply\n"
                    "  dsplat poses data/fox --points\n",
        .options = table,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &o.source, &code)) return code;
    fault why;
    if (!check(&o, &why)) return report_misuse(&command, &why);
    structure s = {.camera_model = o.camera_model,
                   .one_camera = o.one_camera,
                   .in_order = o.in_order,
                   .gpu = o.gpu,
                   .stop = stop_request_flag()};
    stop_request_begin();
    const bool done = work(&o, &s, &why);
    const int number = stop_request_end();
    if (done) return EXIT_SUCCESS;
    code = report_failure("dsplat", &why);
    return number ? 128 + number : code;
}
