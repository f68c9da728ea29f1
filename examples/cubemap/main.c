// SPDX-License-Identifier: MIT
// cubemap: fits the surroundings that a mesh mirrors, the third workload of the DISTWAR paper.
#include "cubemap.h"
#include "device.h"
#include "fit/fit.h"
#include <stdio.h>
#include <stdlib.h>

enum { ICOSPHERE, TORUS, WAVY };
static const char *const mesh_names[] = {"icosphere", "torus", "wavy", NULL};

static struct {
    // The options:
    int mesh;     // index of mesh_names
    int64_t size; // 0: by the device
    // What is open:
    cubemap_frame frame;
    // Device; frame.sample of each view, which does not change. NULL: the view has not been drawn yet.
    float *samples[FIT_VIEWS];
} own;

static const option_spec options[] = {
    OPTION("mesh", &own.mesh, .choices = mesh_names, .help = "the mesh, made by a formula"),
    OPTION("size", &own.size, .maximum = CUBEMAP_MAX_SIZE, .automatic = true,
           .help = "side of a face in texels, a power of two; auto: 256, on the CPU 64"),
    OPTIONS_END};

static bool complete(int64_t *width, int64_t *iterations, fault *why) {
    if (own.size == 0) own.size = ON_CPU ? 64 : 256;
    if (*width == 0) *width = ON_CPU ? 192 : 1024;
    *iterations = ON_CPU ? 80 : 2000;
    return (own.size & (own.size - 1)) == 0 ||
           fail(why, "--size must be a power of two, not %lld", (long long)own.size);
}

static size_t values_of(int size) {
    return 18 * (size_t)size * (size_t)size;
}

static bool open(int width, int height, fit_scene *out, fault *why) {
    const pinhole_camera camera = scene_camera(0, FIT_VIEWS, width, height);
    const int size = (int)own.size;
    float *const texel = malloc(values_of(size) * sizeof *texel);
    mesh host = {0};
    const bool done = (texel || fail(why, "no memory for faces of %d texels", size)) &&
                      (own.mesh == ICOSPHERE ? shape_icosphere(4, &host, why)
                       : own.mesh == TORUS   ? shape_torus(96, 48, &host, why)
                                             : shape_wavy(&host, why));
    if (done) {
        scene_surroundings(size, texel);
        own.frame = cubemap_frame_open(&host, &camera, size, SCENE_BACKGROUND);
        device_upload(own.frame.texel, texel, values_of(size) * sizeof *texel);
        *out = (fit_scene){.channels = 3,
                           .color = own.frame.color,
                           .color_gradient = own.frame.color_gradient,
                           .sums = &own.frame.sums,
                           .parameters = own.frame.texel,
                           .groups = {{(int64_t)values_of(size), 0.04f}}};
        snprintf(out->text, sizeof out->text, "%s, %d triangles, faces of %d texels", mesh_names[own.mesh],
                 host.triangles, size);
    }
    mesh_close(&host);
    free(texel);
    return done;
}

static void close(void) {
    for (int view = 0; view < FIT_VIEWS; view++) device_free(own.samples[view]);
    cubemap_frame_close(&own.frame);
}

static void draw(int view) {
    cubemap_frame *const f = &own.frame;
    f->camera = scene_camera(view, FIT_VIEWS, f->camera.width, f->camera.height);
    f->sample = own.samples[view];
    if (!f->sample) {
        const size_t pixels = (size_t)f->camera.width * (size_t)f->camera.height;
        f->sample = own.samples[view] = device_allocate(4 * pixels * sizeof *f->sample);
        cubemap_raster(f);
    }
    cubemap_render(f);
}

static void start(float *host) {
    for (size_t k = 0; k < values_of(own.frame.size); k++) host[k] = 0.5f;
}

static void backward(distwar_policy policy, lane_histogram *lanes) {
    cubemap_render_backward(&own.frame, policy, lanes);
}

static void gather(float *gradient) {
    cubemap_gather_levels(&own.frame, gradient);
}

static const fit_workload cubemap = {
    .program = "cubemap",
    .summary = "fit a cubemap to pictures of a mesh that mirrors it",
    .training =
        "Renders a mesh that mirrors generated surroundings from eight sides, then finds the surroundings,\n"
        "a cubemap, from these pictures. Writes DIR/fit.png (target, start, result) and DIR/fit.f32: the\n"
        "texels, [face][row][column][channel] as float32.",
    .examples =
        "  cubemap train\n"
        "  cubemap train -o out --mesh torus --size 128 --reduce fixed\n"
        "  cubemap bench --mesh torus --size 1024 --views 8 --thresholds 0,4,8,16,24 --json cubemap.json\n"
        "  cubemap bench --mesh wavy --reduce tree --thresholds 0,33\n",
    .options = options,
    .complete = complete,
    .open = open,
    .close = close,
    .draw = draw,
    .start = start,
    .backward = backward,
    .gather = gather};

int main(int argc, char **argv) {
    return fit_main(&cubemap, argc, argv);
}
