// SPDX-License-Identifier: MIT
// cubemap: fits the surroundings that a mesh mirrors, the third workload of the DISTWAR paper.
#include "cubemap.h"
#include "device.h"
#include "face_file.h"
#include "fit/fit.h"
#include "obj_file.h"
#include "scene.h"
#include "shapes.h"
#include "strategies/kernel_counts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    // The options:
    const char *mesh; // the name of a shape, or of an OBJ file
    int64_t size;     // 0: by the device
    // What is open:
    mesh host, surface; // surface: device
    cubemap_frame frame;
    float *
        samples[SCENE_VIEWS]; // device; of a view as frame.sample, which does not change; NULL: not drawn yet
    size_t values;            // of level 0
    float *texel;             // host: level 0
    float *gradient, *first_moment, *second_moment; // device: of level 0, the last two after it
} own = {.mesh = "icosphere"};

static void list(fit_command command, option_table *table) {
    (void)command;
    const option_spec rows[] = {
        OPTION("mesh", &own.mesh,
               .help = "the mesh: icosphere, torus, bumpy, or an OBJ file, scaled to the same size"),
        OPTION("size", &own.size, .maximum = CUBEMAP_MAX_SIZE, .automatic = true,
               .help = "side of a face in texels, a power of two; auto: 256, on the CPU 64"),
        OPTIONS_END};
    option_table_add(table, rows);
}

static bool complete(int64_t *width, int64_t *iterations, fault *why) {
    kernel_counts unused;
    const bool on_cpu = kernel_counts_now(&unused);
    if (own.size == 0) own.size = on_cpu ? 64 : 256;
    if (*width == 0) *width = on_cpu ? 192 : 1024;
    *iterations = on_cpu ? 80 : 2000;
    return (own.size & (own.size - 1)) == 0 ||
           fail(why, "--size must be a power of two, not %lld", (long long)own.size);
}

static bool open_mesh(fault *why) {
    if (strcmp(own.mesh, "icosphere") == 0) return shape_icosphere(4, &own.host, why);
    if (strcmp(own.mesh, "torus") == 0) return shape_torus(96, 48, &own.host, why);
    if (strcmp(own.mesh, "bumpy") == 0) return shape_bumpy(5, &own.host, why);
    return obj_file_read(own.mesh, &own.host, why);
}

static void set_texels(void) {
    device_upload(own.frame.texel, own.texel, own.values * sizeof *own.texel);
    cubemap_reduce_levels(&own.frame);
}

static bool open(const char *path, int width, int height, fit_scene *out, fault *why) {
    const pinhole_camera camera = scene_camera(0, width, height);
    int size = (int)own.size;
    if (path && !face_file_read(path, &own.texel, &size, why)) return false;
    own.values = 18 * (size_t)size * (size_t)size;
    if (!path) own.texel = malloc(own.values * sizeof *own.texel);
    if (!own.texel) return fail(why, "no memory for faces of %d texels", size);
    if (!path) scene_surroundings(size, own.texel);
    if (!open_mesh(why)) return false;
    own.surface = device_mesh_open(&own.host);
    own.frame = cubemap_frame_open(&own.surface, &camera, size, SCENE_BACKGROUND);
    own.samples[0] = own.frame.sample;
    cubemap_project(&own.frame);
    cubemap_raster(&own.frame);
    set_texels();
    *out = (fit_scene){3, own.frame.color, own.frame.color_gradient, &own.frame.sums, ""};
    snprintf(out->text, sizeof out->text, "%s, %d triangles, faces of %d texels", own.mesh,
             own.host.triangles, size);
    return true;
}

static void close(void) {
    for (int view = 1; view < SCENE_VIEWS; view++) device_free(own.samples[view]);
    own.frame.sample = own.samples[0];
    cubemap_frame_close(&own.frame);
    device_mesh_close(&own.surface);
    mesh_close(&own.host);
    device_free(own.gradient);
    free(own.texel);
}

static void draw(int view) {
    cubemap_frame *const f = &own.frame;
    f->camera = scene_camera(view, f->camera.width, f->camera.height);
    f->sample = own.samples[view];
    if (!f->sample) {
        const size_t pixels = (size_t)f->camera.width * (size_t)f->camera.height;
        f->sample = own.samples[view] = device_allocate(4 * pixels * sizeof *f->sample);
        cubemap_project(f);
        cubemap_raster(f);
    }
    cubemap_render(f);
}

static void start(void) {
    for (size_t k = 0; k < own.values; k++) own.texel[k] = 0.5f;
    set_texels();
    own.gradient = device_allocate(3 * own.values * sizeof *own.gradient);
    own.first_moment = own.gradient + own.values;
    own.second_moment = own.first_moment + own.values;
    device_clear(own.gradient, 3 * own.values * sizeof *own.gradient);
}

static void backward(distwar_policy policy) {
    cubemap_render_backward(&own.frame, policy);
}

static void update(float rate, int64_t step) {
    cubemap_gather_levels(&own.frame, own.gradient);
    cubemap_adam(&own.frame, own.gradient, own.first_moment, own.second_moment, 0.04f * rate, step);
    cubemap_reduce_levels(&own.frame);
}

static bool write(const char *path, fault *why) {
    device_download(own.texel, own.frame.texel, own.values * sizeof *own.texel);
    return face_file_write(path, own.texel, own.frame.size, why);
}

static void count_lanes(lane_histogram *counts) {
    cubemap_count_lanes(&own.frame, counts);
}

static void describe(json_writer *json) {
    json_put_text(json, "mesh", own.mesh);
    json_put_integer(json, "triangles", own.surface.triangles);
    json_put_integer(json, "size", own.frame.size);
    json_put_integer(json, "texels", own.frame.texels);
}

static const fit_workload cubemap = {
    .program = "cubemap",
    .summary = "fits the surroundings that a mesh mirrors",
    .file = "faces.png",
    .file_name = "FACES.png",
    .help =
        {[FIT_TRAIN] =
             {"fit a cubemap to pictures of a mesh that mirrors it",
              "Renders a mesh that mirrors generated surroundings from eight sides, then finds the surroundings,\n"
              "a cubemap, from these pictures. Writes DIR/cubemap.png (target, start, result) and DIR/faces.png\n"
              "(the cubemap).",
              "  cubemap train\n"
              "  cubemap train -o out --mesh bumpy --size 128\n"
              "  cubemap train -o out --mesh bunny.obj --reduce fixed\n"},
         [FIT_RENDER] =
             {"one view of the mesh in the surroundings or in a trained cubemap -> a picture",
              "Renders one view of a mesh that mirrors the generated surroundings, or the cubemap in a file that\n"
              "'cubemap train' wrote, whose size is its own.",
              "  cubemap render -o mirror.png --mesh bumpy\n"
              "  cubemap render out/faces.png -o view.png --view 3 --width 640\n"},
         [FIT_BENCH] =
             {"measure the adjoint with every strategy and threshold",
              "Measures the adjoint of the lookup with every strategy and threshold.",
              "  cubemap bench\n"
              "  cubemap bench --mesh torus --size 1024 --views 8 --thresholds 0,4,8,16,24 --json cubemap.json\n"
              "  cubemap bench --mesh bunny.obj --reduce tree --thresholds 0,33\n"}},
    .list = list,
    .complete = complete,
    .open = open,
    .close = close,
    .draw = draw,
    .start = start,
    .backward = backward,
    .update = update,
    .write = write,
    .count_lanes = count_lanes,
    .describe = describe};

int main(int argc, char **argv) {
    return fit_main(&cubemap, argc, argv);
}
