// SPDX-License-Identifier: MIT
// dsplat poses: photographs or a video -> photographs with cameras, by COLMAP and ffmpeg, which are run as programs.
#define _GNU_SOURCE // nftw
#include "cli/child.h"
#include "cli/progress.h"
#include "commands/command.h"
#include "dataset.h"
#include "files/output_file.h"
#include "files/path.h"
#include "images/image.h"
#include "parallel.h"
#include "record/signals.h"
#include "similarity.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct structure {
    const char *folder; // for all files in between; exists
    const char *camera_model;
    bool one_camera, in_order, gpu;
    const volatile sig_atomic_t *stop; // as of child_program
    size_t photographs;                // how many there are, for progress
    bool newer;                        // COLMAP's options have their new names; set by structure_possible
} structure;

// ---- COLMAP

static const char install_colmap[] = "install COLMAP (Debian and Ubuntu: apt install colmap)";
enum { MOST_ARGUMENTS = 32 };

typedef struct arguments {
    const char *list[MOST_ARGUMENTS];
    int count;
} arguments;

static void add(arguments *to, const char *name, const char *value) {
    to->list[to->count++] = name;
    to->list[to->count++] = value;
}

// ---- progress

static void show_line(void *context, const char *line) {
    progress *const bar = context;
    const char *const registered = strstr(line, "Registering image #"), *const bracket = strchr(line, '[');
    const char *const many = registered ? strchr(registered, '(') : NULL;
    int64_t done, of, column, columns;
    const int read = bracket ? sscanf(bracket, "[%" SCNd64 "/%" SCNd64 ", %" SCNd64 "/%" SCNd64, &done, &of,
                                      &column, &columns)
                             : 0;
    if (many ? sscanf(many, "(%" SCNd64 ")", &done) != 1 : read < 2) return;
    if (!many) bar->total = read == 4 ? of * columns : of;
    if (!many && read == 4) done = (done - 1) * columns + column - 1; // a block of matches that begins
    if (progress_due(bar)) progress_show(bar, done, NAN);
}

// A line with the time at the end, and progress before, from the start on, as some steps are silent for minutes.
static bool run_step(const structure *s, const char *title, const arguments *with, fault *why) {
    progress bar;
    progress_begin(&bar, title, (int64_t)s->photographs);
    if (progress_due(&bar)) progress_show(&bar, 0, NAN);
    const child_program program = {with->list, install_colmap, show_line, &bar, s->stop};
    const bool done = child_run(&program, 0, why);
    progress_end(&bar);
    if (done) printf("%-10s %.1f s\n", title, seconds_now() - bar.started);
    fflush(stdout);
    return done;
}

// ---- features and matches

static void look_at_help(void *context, const char *line) {
    *(bool *)context |= strstr(line, "--FeatureExtraction.use_gpu") != NULL;
}

// Fails, saying what to install, if COLMAP is missing. Newer versions than Debian's 3.8 have other names of options.
static bool structure_possible(structure *s, fault *why) {
    const char *const argv[] = {"colmap", "feature_extractor", "-h", NULL};
    const child_program program = {argv, install_colmap, look_at_help, &s->newer, s->stop};
    return child_run(&program, 0, why);
}

// Finds features in the photographs of the folder and matches them; names: a file of the names of those that are
// meant, which are numbered in its order; NULL: all.
static bool structure_match(const structure *s, const char *photographs, const char *names, fault *why) {
    char database[PATH_ROOM];
    if (!path_join(database, s->folder, "database.db", why)) return false;
    arguments a = {{"colmap", "feature_extractor"}, 2};
    add(&a, "--database_path", database);
    add(&a, "--image_path", photographs);
    add(&a, "--ImageReader.camera_model", s->camera_model);
    add(&a, "--ImageReader.single_camera", s->one_camera ? "1" : "0");
    add(&a, s->newer ? "--FeatureExtraction.use_gpu" : "--SiftExtraction.use_gpu", s->gpu ? "1" : "0");
    if (names) add(&a, "--image_list_path", names);
    // By several threads numbers are given out of order; 3.8 takes views of a model by number, newer ones by name.
    if (names && !s->newer) add(&a, "--SiftExtraction.num_threads", "1");
    if (!run_step(s, "features", &a, why)) return false;
    a = (arguments){{"colmap", s->in_order ? "sequential_matcher" : "exhaustive_matcher"}, 2};
    add(&a, "--database_path", database);
    add(&a, s->newer ? "--FeatureMatching.use_gpu" : "--SiftMatching.use_gpu", s->gpu ? "1" : "0");
    // Pairs are matched in blocks, and COLMAP speaks once a block: 64 of them, not the one of up to 50 photographs.
    char block[32];
    const size_t side = (s->photographs + 7) / 8;
    snprintf(block, sizeof block, "%zu", side < 2 ? 2 : side > 50 ? 50 : side);
    if (!s->in_order && !s->newer) add(&a, "--ExhaustiveMatching.block_size", block);
    return run_step(s, "matches", &a, why);
}

// ---- poses

// The numbered model with the most photographs.
static bool largest_model(const char *models, char largest[PATH_ROOM], size_t *placed, fault *why) {
    DIR *const list = opendir(models);
    *placed = 0;
    if (!list) return fail(why, "%s: cannot open: %s", models, strerror(errno));
    bool good = true;
    for (const struct dirent *entry; good && (entry = readdir(list));) {
        char path[PATH_ROOM];
        reconstruction model;
        if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
        good = path_join(path, models, entry->d_name, why) && colmap_load(path, false, &model, why);
        if (!good) break;
        if (model.view_count > *placed) *placed = model.view_count, strcpy(largest, path);
        reconstruction_close(&model);
    }
    closedir(list);
    return good;
}

// After structure_match: poses and points of the largest group of photographs that belong together, in
// s->folder/model. *placed: how many those are. Fails, saying so, where there is none.
static bool structure_map(const structure *s, const char *photographs, size_t *placed, fault *why) {
    enum { LEAST = 3 };
    char database[PATH_ROOM], models[PATH_ROOM], model[PATH_ROOM], largest[PATH_ROOM];
    if (!path_join(database, s->folder, "database.db", why) || !path_join(models, s->folder, "models", why) ||
        !path_join(model, s->folder, "model", why) || !folder_make(models, why))
        return false;
    arguments a = {{"colmap", "mapper"}, 2};
    add(&a, "--database_path", database);
    add(&a, "--image_path", photographs);
    add(&a, "--output_path", models);
    add(&a, "--Mapper.min_model_size", "3");
    fault reason; // COLMAP fails where it finds no pair to begin with
    const bool mapped = run_step(s, "poses", &a, &reason);
    if (s->stop && *s->stop) return fail(why, "%s", reason.text);
    if (!largest_model(models, largest, placed, why)) return false;
    if (*placed < LEAST)
        return fail(why,
                    "the places of the %zu photographs cannot be found: they show too little of the same "
                    "things. Take more, each overlapping the one before by two thirds, sharp, and with "
                    "texture%s%s",
                    s->photographs, mapped ? "" : "; ", mapped ? "" : reason.text);
    return rename(largest, model) == 0 ||
           fail(why, "%s: cannot rename to %s: %s", largest, model, strerror(errno));
}

// ---- points

// Files of COLMAP, with a line for each view.
typedef enum list_kind { LIST_NAMES, LIST_CAMERAS, LIST_IMAGES, LIST_NOTHING } list_kind;

static void put_line(FILE *to, list_kind kind, size_t number, const dataset_view *view) {
    const lens *const l = &view->optics;
    const float *const t = view->camera.translation;
    double rotation[9], q[4];
    for (int k = 0; k < 9; k++) rotation[k] = (double)view->camera.rotation[k];
    quaternion_of_rotation(rotation, q);
    if (kind == LIST_NAMES) fprintf(to, "%s\n", view->name);
    if (kind == LIST_CAMERAS)
        fprintf(to, "%zu %s %d %d %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g\n", number,
                l->fisheye ? "OPENCV_FISHEYE" : "OPENCV", l->width, l->height, l->fx, l->fy, l->cx, l->cy,
                l->k1, l->k2, l->fisheye ? l->k3 : l->p1, l->fisheye ? l->k4 : l->p2);
    if (kind == LIST_IMAGES)
        fprintf(to, "%zu %.17g %.17g %.17g %.17g %.9g %.9g %.9g %zu %s\n\n", number, q[0], q[1], q[2], q[3],
                (double)t[0], (double)t[1], (double)t[2], number, view->name);
}

static bool write_list(const char *path, list_kind kind, const dataset *data, fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    for (size_t i = 0; i < data->view_count; i++) {
        const lens *const l = &data->views[i].optics;
        if (kind == LIST_CAMERAS && !l->fisheye && (l->k3 != 0 || l->k4 != 0)) {
            output_file_discard(&file);
            return fail(why, "%s: has a lens with k3, k4 = %g, %g, which no lens of COLMAP has",
                        data->views[i].name, l->k3, l->k4);
        }
        put_line(file.stream, kind, i + 1, &data->views[i]);
    }
    return output_file_commit(&file, why);
}

// After structure_match with the names of all views: points that the views see, given their poses, appended to
// *points.
static bool structure_triangulate(const structure *s, const char *photographs, const dataset *data,
                                  reconstruction *points, fault *why) {
    static const struct {
        const char *name;
        list_kind kind;
    } files[] = {{"cameras.txt", LIST_CAMERAS}, {"images.txt", LIST_IMAGES}, {"points3D.txt", LIST_NOTHING}};
    char database[PATH_ROOM], known[PATH_ROOM], out[PATH_ROOM], path[PATH_ROOM];
    if (!path_join(database, s->folder, "database.db", why) || !path_join(known, s->folder, "known", why) ||
        !path_join(out, s->folder, "points", why) || !folder_make(known, why) || !folder_make(out, why))
        return false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!path_join(path, known, files[i].name, why) || !write_list(path, files[i].kind, data, why))
            return false;
    arguments a = {{"colmap", "point_triangulator"}, 2};
    add(&a, "--database_path", database);
    add(&a, "--image_path", photographs);
    add(&a, "--input_path", known);
    add(&a, "--output_path", out);
    if (!run_step(s, "points", &a, why))
        return strstr(why->text, "bundle_adjuster.Solve") != NULL; // it has no points
    return colmap_load_points(out, points, why);
}

// ---- frames of a video

enum { CANDIDATES = 5 }; // frames of an interval that are compared

static const char install_ffmpeg[] = "install ffmpeg (Debian and Ubuntu: apt install ffmpeg)";

typedef struct video {
    double rate, seconds; // frames per second; 0: unknown
} video;

static void read_fact(void *context, const char *line) {
    video *const v = context;
    double above, below;
    if (sscanf(line, "avg_frame_rate=%lf/%lf", &above, &below) == 2 && below > 0) v->rate = above / below;
    if (sscanf(line, "duration=%lf", &above) == 1) v->seconds = above;
}

static bool probe(const structure *s, const char *path, video *v, fault *why) {
    const char *const argv[] = {"ffprobe",
                                "-v",
                                "error",
                                "-select_streams",
                                "v:0",
                                "-show_entries",
                                "stream=avg_frame_rate:format=duration",
                                "-of",
                                "default=noprint_wrappers=1",
                                path,
                                NULL};
    const child_program program = {argv, install_ffmpeg, read_fact, v, s->stop};
    *v = (video){0, 0};
    if (!child_run(&program, 0, why)) return fail(why, "%s: %s", path, why->text);
    return (v->rate > 0 && v->seconds > 0) ||
           fail(why, "%s: not a video of known length: %g frames a second, %g s", path, v->rate, v->seconds);
}

// The variance of the Laplacian of the gray picture: it is the larger, the more fine detail there is.
static double sharpness_of(const image *picture) {
    const size_t width = (size_t)picture->width, channels = (size_t)picture->channels;
    double sum = 0, squares = 0, count = 0;
    const uint8_t *const p = picture->pixels;
#define GRAY(x, y)                                                                                           \
    (p[channels * ((y)*width + (x))] + 2 * p[channels * ((y)*width + (x)) + 1] +                             \
     p[channels * ((y)*width + (x)) + 2])
    for (size_t y = 1; y + 1 < (size_t)picture->height; y++)
        for (size_t x = 1; x + 1 < width; x++) {
            const double value =
                GRAY(x - 1, y) + GRAY(x + 1, y) + GRAY(x, y - 1) + GRAY(x, y + 1) - 4 * GRAY(x, y);
            sum += value, squares += value * value, count++;
        }
#undef GRAY
    return count > 0 ? squares / count - (sum / count) * (sum / count) : 0;
}

typedef struct candidates {
    const char *folder;
    double *sharpness;
} candidates;

static bool candidate_path(const char *folder, size_t i, char path[PATH_ROOM], fault *why) {
    char name[32];
    snprintf(name, sizeof name, "%06zu.jpg", i + 1);
    return path_join(path, folder, name, why);
}

// Measures picture i, for read_in_parallel.
static bool measure_sharpness(void *context, size_t i, fault *why) {
    const candidates *const c = context;
    char path[PATH_ROOM];
    image picture;
    if (!candidate_path(c->folder, i, path, why) || !image_read(path, &picture, why)) return false;
    c->sharpness[i] = sharpness_of(&picture);
    image_close(&picture);
    return true;
}

// Moves the sharpest of each of `wanted` intervals.
static bool choose(const candidates *from, size_t count, size_t wanted, const char *to, fault *why) {
    char path[PATH_ROOM], target[PATH_ROOM], name[32];
    for (size_t k = 0; k < wanted; k++) {
        size_t best = k * count / wanted;
        for (size_t i = best; i < (k + 1) * count / wanted; i++)
            if (from->sharpness[i] > from->sharpness[best]) best = i;
        snprintf(name, sizeof name, "frame_%05zu.jpg", k + 1);
        if (!candidate_path(from->folder, best, path, why) || !path_join(target, to, name, why)) return false;
        if (rename(path, target) != 0) return fail(why, "%s: cannot rename: %s", path, strerror(errno));
    }
    return true;
}

// Takes at most `wanted` frames of a video, the sharpest of each interval, as JPEG files in the folder `to`, which exists.
// *taken: how many. s->folder/frames takes several times as many in between.
static bool video_frames(const structure *s, const char *path, size_t wanted, const char *to, size_t *taken,
                         fault *why) {
    char folder[PATH_ROOM], pattern[PATH_ROOM], filter[64], next[PATH_ROOM];
    video v;
    if (!path_join(folder, s->folder, "frames", why) || !path_join(pattern, folder, "%06d.jpg", why) ||
        !folder_make(folder, why) || !probe(s, path, &v, why))
        return false;
    snprintf(filter, sizeof filter, "fps=%.6f", fmin(v.rate, CANDIDATES * (double)wanted / v.seconds));
    const char *const argv[] = {"ffmpeg", "-nostdin", "-v",        "error", "-i",    path,
                                "-vf",    filter,     "-qscale:v", "2",     pattern, NULL};
    const child_program program = {argv, install_ffmpeg, NULL, NULL, s->stop};
    if (!child_run(&program, 0, why)) return fail(why, "%s: %s", path, why->text);
    size_t count = 0;
    while (candidate_path(folder, count, next, why) && access(next, R_OK) == 0) count++;
    if (count == 0) return fail(why, "%s: ffmpeg has found no frames in it", path);
    candidates all = {folder, calloc(count, sizeof *all.sharpness)};
    *taken = wanted < count ? wanted : count;
    const bool done = (all.sharpness || fail(why, "no memory for %zu frames", count)) &&
                      read_in_parallel(count, measure_sharpness, &all, why) &&
                      choose(&all, count, *taken, to, why);
    free(all.sharpness);
    if (done) printf("frames     the sharpest %zu of %zu, from %.1f s of video\n", *taken, count, v.seconds);
    return done;
}

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

// Of telephones and of cameras' sensors: nothing here reads them.
static int photograph_is_foreign(const struct dirent *entry) {
    static const char *const suffixes[] = {".heic", ".heif", ".dng", ".webp"};
    const char *const dot = strrchr(entry->d_name, '.');
    for (size_t i = 0; dot && i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcasecmp(dot, suffixes[i]) == 0) return true;
    return false;
}

static bool too_few(const char *folder, int found, fault *why) {
    struct dirent **list = NULL;
    const int foreign = scandir(folder, &list, photograph_is_foreign, alphasort);
    char convert[128] = "";
    if (foreign > 0)
        snprintf(convert, sizeof convert,
                 "; it has %d of %s, which ImageMagick converts: mogrify -format jpg *%s", foreign,
                 strrchr(list[0]->d_name, '.'), strrchr(list[0]->d_name, '.'));
    photographs_close(list, foreign);
    return fail(why, "%s: holds %d photographs (.jpg, .jpeg, .png); at least 3 are needed%s", folder, found,
                convert);
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
    bool good = found >= 3 || too_few(from, found, why);
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
    size_t placed = 0;
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
    if (!path_join(names, s->folder, "names.txt", why) || !write_list(names, LIST_NAMES, data, why) ||
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
    if (o->output && !is_free(o->output)) {
        char model[PATH_ROOM];
        return colmap_find(o->output, false, model)
                   ? fail(
                         why,
                         "%s: exists already, with cameras: 'dsplat train %s' trains on it; name another folder by -o",
                         o->output, o->output)
                   : fail(
                         why,
                         "%s: exists already, and is not an empty folder: name another one by -o, or remove it",
                         o->output);
    }
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
