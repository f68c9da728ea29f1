// SPDX-License-Identifier: MIT
// dsplat convert: scenes -> one scene, in the format of its suffix.
#include "commands/cameras.h"
#include "commands/command.h"
#include "arrays.h"
#include "camera.h"
#include "frame.h"
#include "live/packed_scene.h"
#include "scene.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_INPUTS = 64, MOST_VIEWS = 16, FIRST_SPZ_VERSION = 2 };

typedef struct convert_options {
    const char *paths[MOST_INPUTS + 2]; // inputs, then the output, then NULL
    int inputs;
    const char *output, *crop, *transform, *cameras;
    double prune;
    int64_t sh_degree, downscale;
    int spz_version; // an index of spz_versions
    bool check;
    // From these texts:
    double box[6];
    similarity move;
    scene_notes notes; // of the inputs: their offset
} convert_options;

static const char *const spz_versions[] = {"2", "3", "4", NULL};

// One number scales, three shift, twelve are the rows of a 3x4 matrix.
static bool parse_transform(const char *text, similarity *out) {
    double rows[12] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, numbers[3];
    if (parse_numbers(text, numbers, 1)) {
        for (int k = 0; k < 3; k++) rows[5 * k] = numbers[0];
    } else if (parse_numbers(text, numbers, 3)) {
        for (int k = 0; k < 3; k++) rows[4 * k + 3] = numbers[k];
    } else if (!parse_numbers(text, rows, 12)) {
        return false;
    }
    return similarity_of(rows, out);
}

static bool check(convert_options *o, fault *why) {
    for (o->inputs = 0; o->paths[o->inputs + 1]; o->inputs++) {
    }
    o->output = o->paths[o->inputs];
    if (o->crop && (!parse_numbers(o->crop, o->box, 6) || o->box[0] > o->box[3] || o->box[1] > o->box[4] ||
                    o->box[2] > o->box[5]))
        return fail(why, "--crop '%s': write X0,Y0,Z0,X1,Y1,Z1, the least corner first", o->crop);
    if (o->transform && !parse_transform(o->transform, &o->move))
        return fail(
            why,
            "--transform '%s': write a factor, a shift X,Y,Z, or twelve numbers: the rows of a 3x4 matrix, a "
            "rotation times a factor and a shift",
            o->transform);
    if (o->cameras && !o->check) return fail(why, "--cameras is for --check");
    return true;
}

// ---- the scene

// All of one SH degree, the highest; missing coefficients are 0.
static bool merge(const gs_gaussians *parts, int count, gs_gaussians *out, fault *why) {
    int64_t all = 0;
    int degree = 0;
    for (int p = 0; p < count; p++) {
        all += parts[p].count;
        if (parts[p].sh_degree > degree) degree = parts[p].sh_degree;
    }
    if (!scene_open(out, all, degree, why)) return false;
    out->antialias = parts[0].antialias;
    int64_t at = 0;
    for (int p = 0; p < count; at += parts[p++].count) {
        const gs_arrays from = gs_arrays_of(&parts[p]), to = gs_arrays_of(out);
        for (int a = 0; a < GS_ARRAYS; a++)
            for (int64_t i = 0; i < parts[p].count; i++)
                memcpy(to.of[a] + (at + i) * to.width[a], from.of[a] + i * from.width[a],
                       (size_t)from.width[a] * sizeof(float));
    }
    return true;
}

static bool read_inputs(convert_options *o, gs_gaussians *out, fault *why) {
    gs_gaussians parts[MOST_INPUTS] = {{0}};
    bool done = true;
    for (int p = 0; p < o->inputs && done; p++) {
        scene_notes notes;
        done =
            scene_read(o->paths[p], SCENE_DROP, &parts[p], why) && scene_read_notes(o->paths[p], &notes, why);
        if (done && p == 0) memcpy(o->notes.offset, notes.offset, sizeof notes.offset);
        if (done && memcmp(notes.offset, o->notes.offset, sizeof notes.offset) != 0)
            done = fail(why, "%s has coordinates of another offset than %s: one scene cannot have both",
                        o->paths[p], o->paths[0]);
        if (done && parts[p].antialias != parts[0].antialias)
            done = fail(why, "%s is antialiased and %s is not: one scene cannot be both",
                        o->paths[parts[p].antialias ? p : 0], o->paths[parts[p].antialias ? 0 : p]);
    }
    if (done && o->inputs == 1) {
        *out = parts[0];
        return true;
    }
    done = done && merge(parts, o->inputs, out, why);
    for (int p = 0; p < o->inputs; p++) scene_close(&parts[p]);
    return done;
}

static bool is_in_box(const gs_gaussians *g, int64_t i, const void *context) {
    const convert_options *const o = context;
    for (int k = 0; k < 3; k++) {
        const double at = g->mean[3 * i + k] + o->notes.offset[k];
        if (!(at >= o->box[k] && at <= o->box[3 + k])) return false;
    }
    return true;
}

// Drops coefficients; rows move to lower places.
static void lower_degree(gs_gaussians *g, int degree) {
    if (degree >= g->sh_degree) return;
    const int from = gs_arrays_of(g).width[GS_ARRAYS - 1];
    g->sh_degree = degree;
    const int to = gs_arrays_of(g).width[GS_ARRAYS - 1];
    for (int64_t i = 0; i < g->count; i++)
        memmove(g->sh + i * to, g->sh + i * from, (size_t)to * sizeof *g->sh);
}

static bool write_output(const convert_options *o, const gs_gaussians *scene, fault *why) {
    scene_stream s;
    if (!scene_stream_open(&s, o->output, scene, &o->notes, why)) return false;
    s.variant = FIRST_SPZ_VERSION + o->spz_version;
    if (scene_stream_put(&s, scene, why)) return scene_stream_commit(&s, why);
    scene_stream_discard(&s);
    return false;
}

// ---- --check

typedef struct views {
    gs_camera camera[MOST_VIEWS];
    int count;
} views;

// Chooses evenly spaced views of the data or, without data, eight around the scene, from a little above and below.
static bool choose_views(const convert_options *o, const gs_gaussians *scene, const dataset *data, views *out,
                         fault *why) {
    enum { AROUND = 8 };
    const size_t all = data->view_count;
    out->count = !o->cameras ? AROUND : all < MOST_VIEWS ? (int)all : MOST_VIEWS;
    for (int v = 0; v < out->count; v++) {
        const double turn = v * acos(-1) / 4, rise = v % 2 ? 0.2 : -0.5;
        const double direction[3] = {sin(turn) * cos(rise), -sin(rise), cos(turn) * cos(rise)};
        out->camera[v] = camera_with_view_angle(400, 300, 0.8);
        if (o->cameras)
            out->camera[v] = data->views[(size_t)v * all / (size_t)out->count].camera;
        else if (!camera_around(scene, direction, &out->camera[v], NULL, why))
            return false;
    }
    return true;
}

// Prints the PSNR of the written scene's pictures against those of `source` (device).
static bool compare_pictures(const convert_options *o, const gs_gaussians *source, const views *v,
                             fault *why) {
    gs_gaussians host;
    if (!scene_read(o->output, SCENE_FINITE, &host, why)) return false;
    gs_gaussians written = device_gaussians_from(&host);
    scene_close(&host);
    const float black[GS_CHANNELS] = {0};
    double sum = 0, least = INFINITY;
    bool done = true;
    for (int k = 0; k < v->count && done; k++) {
        image a = {0}, b = {0};
        done = map_picture(source, GS_MAX_SH_DEGREE, &v->camera[k], black, &a, why) &&
               map_picture(&written, GS_MAX_SH_DEGREE, &v->camera[k], black, &b, why);
        if (done) {
            const double psnr = image_psnr(&a, &b, NULL);
            sum += psnr;
            least = fmin(least, psnr);
        }
        image_close(&a);
        image_close(&b);
    }
    device_gaussians_close(&written);
    if (!done) return false;
    if (isinf(least))
        printf("check      the pictures of %d views are equal\n", v->count);
    else
        printf("check      PSNR %.2f dB, least %.2f, of %d views\n", sum / v->count, least, v->count);
    return true;
}

// ---- the command

static double megabytes(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 ? (double)status.st_size / 1e6 : NAN;
}

// x + o becomes s R (x + o) + t: of the data's coordinates, so that the shift goes into an offset if there is one.
static void move_scene(convert_options *o, gs_gaussians *scene) {
    double *const offset = o->notes.offset;
    if (scene_notes_move(&o->notes)) {
        const double old[3] = {offset[0], offset[1], offset[2]};
        for (int k = 0; k < 3; k++) {
            const double *const row = o->move.rotation + 3 * k;
            offset[k] = o->move.scale * (row[0] * old[0] + row[1] * old[1] + row[2] * old[2]) +
                        o->move.translation[k];
            o->move.translation[k] = 0;
        }
    }
    gaussians_move(scene, &o->move);
}

static bool convert(convert_options *o, fault *why) {
    gs_gaussians scene = {0}, source = {0};
    dataset data = {0};
    views v = {.count = 0};
    double before = 0;
    const dataset_options loading = {.downscale = (int)o->downscale, .wanted = dataset_no_picture};
    for (int p = 0; p < o->inputs; p++) before += megabytes(o->paths[p]);
    bool done = scene_is_possible(o->output, why) && read_inputs(o, &scene, why) &&
                (!o->cameras || dataset_load(o->cameras, &loading, &data, why)) &&
                dataset_may_write(&data, o->output, why);
    if (done && o->transform) move_scene(o, &scene);
    if (done && o->crop) gaussians_keep(&scene, is_in_box, o);
    done = done && (!o->check || choose_views(o, &scene, &data, &v, why));
    if (done && o->check) source = device_gaussians_from(&scene);
    done = done && scene_keep_heaviest(&scene, scene.count - (int64_t)(o->prune * (double)scene.count), why);
    if (done) lower_degree(&scene, (int)o->sh_degree);
    done = done && write_output(o, &scene, why);
    if (done)
        printf("%s: %lld Gaussians, SH degree %d, %.2f MB of %.2f MB\n", o->output, (long long)scene.count,
               scene.sh_degree, megabytes(o->output), before);
    done = done && (!o->check || compare_pictures(o, &source, &v, why));
    device_gaussians_close(&source);
    dataset_close(&data);
    scene_close(&scene);
    return done;
}

int convert_command(int argc, char **argv) {
    convert_options options = {
        .sh_degree = GS_MAX_SH_DEGREE, .downscale = 1, .spz_version = 3 - FIRST_SPZ_VERSION};
    const option_spec table[] = {
        OPTION("transform", &options.transform,
               .help = "scale by a factor, shift by X,Y,Z, or apply the 12 numbers of a 3x4 matrix by rows"),
        OPTION("crop", &options.crop,
               .help = "keep Gaussians whose means are inside X0,Y0,Z0,X1,Y1,Z1, after --transform"),
        OPTION("prune", &options.prune, .maximum = 0.99,
               .help = "remove this fraction of the Gaussians, those of least opacity and size"),
        OPTION("sh-degree", &options.sh_degree, .maximum = GS_MAX_SH_DEGREE,
               .help = "keep spherical harmonics up to this degree"),
        OPTION("spz-version", &options.spz_version, .choices = spz_versions,
               .help = "version of a .spz file to write"),
        OPTION("check", &options.check,
               .help = "read the file again and compare its pictures with those before --prune"),
        OPTION("cameras", &options.cameras,
               .help = "with --check: up to 16 views of this folder; default: eight around the scene"),
        DOWNSCALE_OPTION(&options.downscale, "the cameras' pictures"),
        OPTIONS_END};
    const command_spec command = {
        .name = "dsplat convert",
        .arguments = "SCENE... OUT [options]",
        .summary =
            "Reads one scene or several, which it merges, and writes one in the format of its suffix.\n"
            "Reads .ply (also PlayCanvas's compressed ones), .spz, .sog, .splat and .glb with\n"
            "KHR_gaussian_splatting; writes .ply, .spz and .sog. docs/share.md says which viewers take which.",
        .examples = "  dsplat convert fern.ply fern.spz --check\n"
                    "  dsplat convert fern.ply fern.sog --prune 0.3 --sh-degree 1\n"
                    "  dsplat convert left.spz right.splat both.ply\n"
                    "  dsplat convert fern.ply upright.ply --transform 1,0,0,0,0,-1,0,0,0,0,-1,0\n",
        .options = table,
        .positional = 2,
        .most_positional = MOST_INPUTS + 1};
    int code;
    if (!read_command_line(&command, argc, argv, options.paths, &code)) return code;
    fault why;
    if (!check(&options, &why)) return report_misuse(&command, &why);
    return convert(&options, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
