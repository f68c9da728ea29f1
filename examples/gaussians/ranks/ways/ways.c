// SPDX-License-Identifier: MIT
#include "ways.h"
#include "parts.h"

static void *open_parts(ranks *group) {
    return parts_open(group);
}

static void close_parts(void *kept) {
    parts_close(kept);
}

// Each two H100s took 1.45 and 1.10 times the seconds of one for 7,000 and 30,000 views of bonsai with 300,000 Gaussians; two
// H200s 0.62 with a million.
static const char *few(const training_settings *settings, int ranks) {
    const bool many = settings->density.most_gaussians >= 500000;
    return !many && (ranks == 2 || settings->batch < ranks) ? "few Gaussians for several GPUs" : NULL;
}

const training_way parts_way = {.open = open_parts,
                                .close = close_parts,
                                .few = few,
                                .gradient = parts_gradient,
                                .scores = parts_scores,
                                .range = parts_range,
                                .gather = parts_bring_rows,
                                .grow = parts_grow,
                                .relocate = parts_relocate,
                                .split = parts_split,
                                .measure = parts_measure,
                                .picture = parts_picture};

const training_way *way_of_ranks(const training_settings *settings, int64_t first, int ranks) {
    // With more Gaussians what all ranks do alike, and the moments of all views, take longer than parts do
    // (docs/notes/systems.md).
    const int64_t most_whole = 8000000 / ((int64_t)ranks * ranks), most = settings->density.most_gaussians;
    if (ranks <= 1) return NULL;
    return settings->policy.strategy != DISTWAR_FIXED && settings->batch >= ranks &&
                   (most > first ? most : first) <= most_whole
               ? &whole_way
               : &parts_way;
}
