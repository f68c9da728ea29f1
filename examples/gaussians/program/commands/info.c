// SPDX-License-Identifier: MIT
// dsplat info: what a scene file holds.
#include "commands/command.h"
#include "arrays.h"
#include "files/json_writer.h"
#include "scene.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { QUANTITIES = 6, LEVELS = 7, LONGEST_AXIS = 4, OPACITY = 5 };

// In percent of the Gaussians: the first is the minimum, the last the maximum.
static const double levels[LEVELS] = {0, 1, 25, 50, 75, 99, 100};

static const struct {
    const char *name, *key;
} quantities[QUANTITIES] = {{"mean, x", "x"},
                            {"mean, y", "y"},
                            {"mean, z", "z"},
                            {"shortest axis", "shortest_axis"},
                            {"longest axis", "longest_axis"},
                            {"opacity", "opacity"}};

typedef struct scene_info {
    const char *path;
    int64_t bytes, count;
    int sh_degree;
    bool antialias;
    int64_t values_not_finite, gaussians_not_finite;
    double percentile[QUANTITIES][LEVELS]; // of the finite values; NaN if there are none
} scene_info;

static double quantity(const gs_gaussians *g, int64_t i, int which) {
    const float *const scale = g->log_scale + 3 * i; // standard deviations, in units of the world
    if (which < 3) return g->mean[3 * i + which];
    if (which == OPACITY) return 1 / (1 + exp(-(double)g->opacity_logit[i]));
    if (!isfinite(scale[0] + scale[1] + scale[2])) return NAN;
    return exp(which == LONGEST_AXIS ? fmax(fmax(scale[0], scale[1]), scale[2])
                                     : fmin(fmin(scale[0], scale[1]), scale[2]));
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// room: [scene->count]. Percentiles by rank: each is a value that occurs.
static void find_percentiles(const gs_gaussians *scene, int which, double *room, double out[LEVELS]) {
    size_t count = 0;
    for (int64_t i = 0; i < scene->count; i++) {
        const double value = quantity(scene, i, which);
        if (isfinite(value)) room[count++] = value;
    }
    qsort(room, count, sizeof *room, compare);
    for (int l = 0; l < LEVELS; l++)
        out[l] = count ? room[(size_t)lround(levels[l] / 100 * (double)(count - 1))] : NAN;
}

static bool gather(const char *path, scene_info *info, fault *why) {
    gs_gaussians scene;
    struct stat status;
    if (!scene_read(path, SCENE_ANY, &scene, why)) return false;
    *info = (scene_info){.path = path,
                         .bytes = stat(path, &status) == 0 ? (int64_t)status.st_size : 0,
                         .count = scene.count,
                         .sh_degree = scene.sh_degree,
                         .antialias = scene.antialias};
    const gs_arrays arrays = gs_arrays_of(&scene);
    for (int64_t i = 0; i < scene.count; i++) {
        int64_t found = 0; // values that are not finite
        for (int a = 0; a < GS_ARRAYS; a++)
            for (int k = 0; k < arrays.width[a]; k++)
                found += !isfinite(arrays.of[a][i * arrays.width[a] + k]);
        info->values_not_finite += found;
        info->gaussians_not_finite += found > 0;
    }
    double *room = calloc((size_t)scene.count + 1, sizeof *room); // + 1, as calloc(0) may return NULL
    for (int q = 0; q < QUANTITIES && room; q++) find_percentiles(&scene, q, room, info->percentile[q]);
    free(room);
    scene_close(&scene);
    return room || fail(why, "%s: no memory for %" PRId64 " values", path, info->count);
}

static void print_table(const scene_info *info) {
    printf("file         %s, %" PRId64 " bytes\n", info->path, info->bytes);
    printf("Gaussians    %" PRId64 ", SH degree %d%s\n", info->count, info->sh_degree,
           info->antialias ? ", antialiased" : "");
    if (info->values_not_finite > 0)
        printf("not finite   %" PRId64 " values in %" PRId64
               " Gaussians: other commands refuse this file; the rest is below\n",
               info->values_not_finite, info->gaussians_not_finite);
    else
        printf("not finite   none\n");
    printf("\n%-13s %11s", "", "least");
    for (int l = 1; l < LEVELS - 1; l++) printf(" %10g%%", levels[l]);
    printf(" %11s\n", "most");
    for (int q = 0; q < QUANTITIES; q++) {
        printf("%-13s", quantities[q].name);
        for (int l = 0; l < LEVELS; l++)
            if (isnan(info->percentile[q][l]))
                printf(" %11s", "-");
            else
                printf(" %11.4g", info->percentile[q][l]);
        printf("\n");
    }
}

static void describe(json_writer *json, const void *subject) {
    const scene_info *info = subject;
    json_put_text(json, "scene", info->path);
    json_put_integer(json, "bytes", info->bytes);
    json_put_integer(json, "gaussians", info->count);
    json_put_integer(json, "sh_degree", info->sh_degree);
    json_put_boolean(json, "antialias", info->antialias);
    json_put_integer(json, "values_not_finite", info->values_not_finite);
    json_put_integer(json, "gaussians_not_finite", info->gaussians_not_finite);
    json_put_numbers(json, "percents", levels, LEVELS);
    json_begin(json, "percentiles", '{');
    for (int q = 0; q < QUANTITIES; q++)
        json_put_numbers(json, quantities[q].key, info->percentile[q], LEVELS);
    json_end(json, '}');
}

int info_command(int argc, char **argv) {
    const char *path, *json = NULL;
    const option_spec table[] = {JSON_OPTION(&json), OPTIONS_END};
    const command_spec command = {
        .name = "dsplat info",
        .arguments = "SCENE.ply [options]",
        .summary = "Prints what a scene file holds: its size, the number of Gaussians, the SH degree,\n"
                   "the number of values that are not finite (other commands refuse them), percentiles\n"
                   "of the means, of the shortest and longest axis (one standard deviation, in world\n"
                   "units) and of the opacity. The percentiles 0 and 100 are the bounds; 1 and 99 are the\n"
                   "bounds without outliers.",
        .examples = "  dsplat info fern.ply\n"
                    "  dsplat info fern.ply --json -\n",
        .options = table,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &path, &code)) return code;
    fault why;
    scene_info info;
    if (!are_two_files("--json", json, "the scene", path, &why)) return report_misuse(&command, &why);
    if (!json_is_possible(json, &why) || !gather(path, &info, &why)) return report_failure("dsplat", &why);
    if (!json_is_stdout(json)) print_table(&info);
    if (json && !json_save(json, describe, &info, &why)) return report_failure("dsplat", &why);
    return EXIT_SUCCESS;
}
