// SPDX-License-Identifier: MIT
#include "structure.h"
#include "cli/child.h"
#include "cli/progress.h"
#include "files/output_file.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char install[] = "install COLMAP (Debian and Ubuntu: apt install colmap)";
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
    const char *const registered = strstr(line, "Registering image #"), *at = strchr(line, '[');
    int64_t done = -1, of;
    if (registered && (at = strchr(registered, '(')))
        sscanf(at, "(%" SCNd64 ")", &done);
    else if (at && sscanf(at, "[%" SCNd64 "/%" SCNd64, &done, &of) == 2)
        bar->total = of;
    else
        done = -1;
    if (done >= 0 && progress_due(bar)) progress_show(bar, done, NAN);
}

// A line with the time at the end, and progress before.
static bool run_step(const structure *s, const char *title, const arguments *with, fault *why) {
    progress bar;
    progress_begin(&bar, title, (int64_t)s->photographs);
    const child_program program = {with->list, install, show_line, &bar, s->stop};
    const bool done = child_run(&program, why);
    progress_end(&bar);
    if (done) printf("%-10s %.1f s\n", title, seconds_now() - bar.started);
    fflush(stdout);
    return done;
}

// ---- features and matches

static void look_at_help(void *context, const char *line) {
    *(bool *)context |= strstr(line, "--FeatureExtraction.use_gpu") != NULL;
}

// Newer versions than Debian's 3.8 have other names of options.
bool structure_possible(structure *s, fault *why) {
    const char *const argv[] = {"colmap", "feature_extractor", "-h", NULL};
    const child_program program = {argv, install, look_at_help, &s->newer, s->stop};
    return child_run(&program, why);
}

bool structure_match(const structure *s, const char *photographs, const char *names, fault *why) {
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

bool structure_map(const structure *s, const char *photographs, size_t *placed, fault *why) {
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

// A rotation matrix as a quaternion w, x, y, z: the largest by a square root, the others divided by it (Shepperd 1978).
static void quaternion_of(const float m[9], double q[4]) {
    const double d[4] = {1.0 + m[0] + m[4] + m[8], 1.0 + m[0] - m[4] - m[8], 1.0 - m[0] + m[4] - m[8],
                         1.0 - m[0] - m[4] + m[8]};
    const double with_w[3] = {(double)m[7] - m[5], (double)m[2] - m[6], (double)m[3] - m[1]};
    const double with[3][3] = {{0, (double)m[1] + m[3], (double)m[2] + m[6]},
                               {(double)m[1] + m[3], 0, (double)m[5] + m[7]},
                               {(double)m[2] + m[6], (double)m[5] + m[7], 0}};
    int largest = 0;
    for (int i = 1; i < 4; i++)
        if (d[i] > d[largest]) largest = i;
    const double own = 0.5 * sqrt(d[largest]), part = 0.25 / own;
    q[largest] = own;
    for (int i = 0; i < 4; i++)
        if (i != largest)
            q[i] = part * (i == 0         ? with_w[largest - 1]
                           : largest == 0 ? with_w[i - 1]
                                          : with[largest - 1][i - 1]);
}

static void put_cameras(FILE *to, const dataset *data) {
    for (size_t i = 0; i < data->view_count; i++) {
        const lens *const l = &data->views[i].optics;
        fprintf(to, "%zu %s %d %d %.17g %.17g %.17g %.17g %.17g %.17g %.17g %.17g\n", i + 1,
                l->fisheye ? "OPENCV_FISHEYE" : "OPENCV", l->width, l->height, l->fx, l->fy, l->cx, l->cy,
                l->k1, l->k2, l->fisheye ? l->k3 : l->p1, l->fisheye ? l->k4 : l->p2);
    }
}

static void put_images(FILE *to, const dataset *data) {
    for (size_t i = 0; i < data->view_count; i++) {
        const gs_camera *const c = &data->views[i].camera;
        double q[4];
        quaternion_of(c->rotation, q);
        fprintf(to, "%zu %.17g %.17g %.17g %.17g %.9g %.9g %.9g %zu %s\n\n", i + 1, q[0], q[1], q[2], q[3],
                (double)c->translation[0], (double)c->translation[1], (double)c->translation[2], i + 1,
                data->views[i].name);
    }
}

static void put_names(FILE *to, const dataset *data) {
    for (size_t i = 0; i < data->view_count; i++) fprintf(to, "%s\n", data->views[i].name);
}

static void put_nothing(FILE *to, const dataset *data) {
    (void)to, (void)data;
}

static bool write_list(const char *path, void (*put)(FILE *, const dataset *), const dataset *data,
                       fault *why) {
    output_file file;
    if (!output_file_open(&file, path, why)) return false;
    put(file.stream, data);
    return output_file_commit(&file, why);
}

bool structure_write_names(const char *path, const dataset *data, fault *why) {
    return write_list(path, put_names, data, why);
}

bool structure_triangulate(const structure *s, const char *photographs, const dataset *data,
                           reconstruction *points, fault *why) {
    static const struct {
        const char *name;
        void (*put)(FILE *, const dataset *);
    } files[] = {{"cameras.txt", put_cameras}, {"images.txt", put_images}, {"points3D.txt", put_nothing}};
    char database[PATH_ROOM], known[PATH_ROOM], out[PATH_ROOM], path[PATH_ROOM];
    if (!path_join(database, s->folder, "database.db", why) || !path_join(known, s->folder, "known", why) ||
        !path_join(out, s->folder, "points", why) || !folder_make(known, why) || !folder_make(out, why))
        return false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!path_join(path, known, files[i].name, why) || !write_list(path, files[i].put, data, why))
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
