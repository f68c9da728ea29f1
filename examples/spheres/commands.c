// SPDX-License-Identifier: MIT
#include "commands.h"
#include "strategies/kernel_counts.h"

const char *const channel_names[5] = {"3", "8", "16", "32", NULL};

view_options view_options_default(void) {
    return (view_options){.data = DATA_SMALL, .kept = 8};
}

int view_options_channels(const view_options *options) {
    static const int channels[] = {3, 8, 16, 32};
    return channels[options->channels];
}

void view_options_complete(view_options *options) {
    static const int widths[2][DATA_SETS] = {{512, 1024}, {192, 160}}; // on a GPU, on the CPU
    kernel_counts unused;
    if (options->width == 0) options->width = widths[kernel_counts_now(&unused)][options->data];
    if (options->height == 0) options->height = (options->width * 3 + 3) / 4;
}
