// SPDX-License-Identifier: MIT
#include "commands.h"
#include "strategies/kernel_counts.h"
#include "obj_file.h"
#include "shapes.h"
#include <string.h>

view_options view_options_default(void) {
    return (view_options){.mesh = "icosphere"};
}

bool view_options_complete(view_options *options, fault *why) {
    kernel_counts unused;
    const bool on_cpu = kernel_counts_now(&unused);
    if (options->size == 0) options->size = on_cpu ? 64 : 256;
    if (options->width == 0) options->width = on_cpu ? 192 : 1024;
    if (options->height == 0) options->height = (options->width * 3 + 3) / 4;
    return (options->size & (options->size - 1)) == 0 ||
           fail(why, "--size must be a power of two, not %lld", (long long)options->size);
}

bool view_options_mesh(const view_options *options, mesh *host, fault *why) {
    if (strcmp(options->mesh, "icosphere") == 0) return shape_icosphere(4, host, why);
    if (strcmp(options->mesh, "torus") == 0) return shape_torus(96, 48, host, why);
    if (strcmp(options->mesh, "bumpy") == 0) return shape_bumpy(5, host, why);
    return obj_file_read(options->mesh, host, why);
}
