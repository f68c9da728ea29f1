// SPDX-License-Identifier: MIT
// dsplat poses: photographs -> photographs with cameras, by COLMAP, which is run as a program.
#define _GNU_SOURCE // nftw
#include "cli/child.h"
#include "cli/progress.h"
#include "commands/command.h"
#include "files/output_file.h"
#include "files/path.h"
#include "record/signals.h"
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct poses_options {
    const char *source, *output, *camera_model;
    bool one_camera, in_order, gpu;
} poses_options;

typedef struct structure {
    const poses_options *options;
    char folder[PATH_ROOM];   // for all files in between; exists
    char database[PATH_ROOM]; // COLMAP's, in that folder
    size_t photographs;       // how many there are, for progress
    bool newer;               // COLMAP's options have their new names
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

// Shows progress from the start on, because some steps are silent for minutes. Prints a line with the time at the end.
static bool run_step(const structure *s, const char *title, const arguments *with, fault *why) {
    progress bar;
    progress_begin(&bar, title, (int64_t)s->photographs);
    if (progress_due(&bar)) progress_show(&bar, 0, NAN);
    const child_program program = {with->list, install_colmap, show_line, &bar, stop_request_flag()};
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

// Fails, saying what to install, if COLMAP is missing. Newer versions than Debian's 3.8 have other names of options.
static bool is_possible(structure *s, fault *why) {
    const char *const argv[] = {"colmap", "feature_extractor", "-h", NULL};
    const child_program program = {argv, install_colmap, look_at_help, &s->newer, stop_request_flag()};
    return child_run(&program, why);
}

// Finds features in the photographs of the folder and matches them.
static bool match(const structure *s, const char *photographs, fault *why) {
    const poses_options *const o = s->options;
    arguments a = {{"colmap", "feature_extractor"}, 2};
    add(&a, "--database_path", s->database);
    add(&a, "--image_path", photographs);
    add(&a, "--ImageReader.camera_model", o->camera_model);
    add(&a, "--ImageReader.single_camera", o->one_camera ? "1" : "0");
    add(&a, s->newer ? "--FeatureExtraction.use_gpu" : "--SiftExtraction.use_gpu", o->gpu ? "1" : "0");
    if (!run_step(s, "features", &a, why)) return false;
    a = (arguments){{"colmap", o->in_order ? "sequential_matcher" : "exhaustive_matcher"}, 2};
    add(&a, "--database_path", s->database);
    add(&a, s->newer ? "--FeatureMatching.use_gpu" : "--SiftMatching.use_gpu", o->gpu ? "1" : "0");
    // Pairs are matched in blocks, and COLMAP speaks once a block: 64 of them, not the one of up to 50 photographs.
    char block[32];
    const size_t side = (s->photographs + 7) / 8;
    snprintf(block, sizeof block, "%zu", side < 2 ? 2 : side > 50 ? 50 : side);
    if (!o->in_order && !s->newer) add(&a, "--ExhaustiveMatching.block_size", block);
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

// After match: poses and points of the largest group of photographs that belong together become `model`. *placed: how many
// those are. Fails, saying so, where there is none.
static bool map(const structure *s, const char *photographs, const char *model, size_t *placed, fault *why) {
    enum { LEAST = 3 };
    char models[PATH_ROOM], largest[PATH_ROOM];
    if (!path_join(models, s->folder, "models", why) || !folder_make(models, why)) return false;
    arguments a = {{"colmap", "mapper"}, 2};
    add(&a, "--database_path", s->database);
    add(&a, "--image_path", photographs);
    add(&a, "--output_path", models);
    add(&a, "--Mapper.min_model_size", "3");
    fault reason; // COLMAP fails where it finds no pair to begin with
    const bool mapped = run_step(s, "poses", &a, &reason);
    if (*stop_request_flag()) return fail(why, "%s", reason.text);
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

// ---- photographs

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
    struct stat status;
    const char *from = source;
    if (!path_join(inside, source, "images", why)) return false;
    int found = scandir(from, &list, photograph_is, alphasort);
    if (found == 0 && stat(inside, &status) == 0 && S_ISDIR(status.st_mode)) {
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

// ---- the whole

static bool find_poses(structure *s, fault *why) {
    const char *const output = s->options->output;
    char data[PATH_ROOM], images[PATH_ROOM], sparse[PATH_ROOM], model[PATH_ROOM];
    size_t placed = 0;
    if (!path_join(s->database, s->folder, "database.db", why) || !path_join(data, s->folder, "data", why) ||
        !path_join(images, data, "images", why) || !path_join(sparse, data, "sparse", why) ||
        !path_join(model, sparse, "0", why) || !folder_make(data, why) || !folder_make(images, why) ||
        !folder_make(sparse, why) || !put_photographs(s->options->source, images, &s->photographs, why) ||
        !match(s, images, why) || !map(s, images, model, &placed, why))
        return false;
    if (rename(data, output) != 0)
        return fail(why, "%s: cannot rename to %s: %s", data, output, strerror(errno));
    printf("written    %s: %zu of %zu photographs have a place\n", output, placed, s->photographs);
    return true;
}

// ---- the command

static bool check(const poses_options *o, fault *why) {
    const lens_model *const model = lens_model_find(o->camera_model);
    if (!model || model->count == 0) {
        char known[160];
        lens_model_list(known);
        return fail(why, "--camera-model %s: must be one of %s", o->camera_model, known);
    }
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
static bool work(const poses_options *o, fault *why) {
    structure s = {.options = o};
    struct stat status;
    char model[PATH_ROOM];
    if (stat(o->source, &status) != 0) return fail(why, "%s: cannot open: %s", o->source, strerror(errno));
    if (!S_ISDIR(status.st_mode))
        return fail(
            why,
            "%s: not a folder of photographs; of a video, ffmpeg makes one: mkdir photos; ffmpeg -i %s -vf "
            "fps=2 -qscale:v 2 photos/%%05d.jpg",
            o->source, o->source);
    if (!is_free(o->output) && colmap_find(o->output, false, model))
        return fail(
            why,
            "%s: exists already, with cameras: 'dsplat train %s' trains on it; name another folder by -o",
            o->output, o->output);
    if (!is_free(o->output))
        return fail(why,
                    "%s: exists already, and is not an empty folder: name another one by -o, or remove it",
                    o->output);
    if (!is_possible(&s, why) || !make_beside(o->output, s.folder, why)) return false;
    const bool done = find_poses(&s, why);
    remove_tree(s.folder);
    return done;
}

int poses_command(int argc, char **argv) {
    poses_options o = {.camera_model = "OPENCV"};
    const option_spec table[] = {
        OUTPUT_OPTION(&o.output, .help = "the folder to write, which must not exist; required"),
        OPTION("camera-model", &o.camera_model, .help = "COLMAP's model of the lens"),
        OPTION("one-camera", &o.one_camera, .help = "take all photographs as of one lens at one zoom"),
        OPTION("in-order", &o.in_order,
               .help = "match each photograph only with its neighbours by name, as for frames of a video"),
        OPTION("gpu", &o.gpu, .help = "find and match features on a GPU, which needs a COLMAP with CUDA"),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat poses",
        .arguments = "PHOTOS -o DATA [options]",
        .summary =
            "Finds where photographs were taken, with COLMAP, which must be installed. DATA then holds images/\n"
            "(the photographs) and sparse/0, as 'dsplat train' reads them. On a CPU it takes minutes for a\n"
            "hundred photographs.",
        .examples = "  dsplat poses photos -o data/garden\n"
                    "  dsplat train data/garden -o garden.ply\n"
                    "  ffmpeg -i garden.mp4 -vf fps=2 -qscale:v 2 frames/%05d.jpg\n"
                    "  dsplat poses frames -o data/garden --one-camera --in-order\n",
        .options = table,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &o.source, &code)) return code;
    fault why;
    if (!check(&o, &why)) return report_misuse(&command, &why);
    stop_request_begin();
    const bool done = work(&o, &why);
    const int number = stop_request_end();
    if (done) return EXIT_SUCCESS;
    code = report_failure("dsplat", &why);
    return number ? 128 + number : code;
}
