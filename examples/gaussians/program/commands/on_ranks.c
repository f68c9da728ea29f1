// SPDX-License-Identifier: MIT
#include "commands/on_ranks.h"
#include "distwar/version.h"
#include "gs.h"
#include <string.h>

// FNV-1a, with the 0 at the end of each.
static uint64_t hash_of(uint64_t hash, const char *text) {
    const size_t bytes = strlen(text) + 1;
    for (size_t k = 0; k < bytes; k++) hash = (hash ^ (unsigned char)text[k]) * 0x100000001b3;
    return hash;
}

bool rank_options_check(rank_options *options, int argc, char **argv, fault *why) {
    const ranks_found found = ranks_find_place(&options->place, why);
    if (found == RANKS_WRONG) return false;
    options->arguments = hash_of(0xcbf29ce484222325, DISTWAR_VERSION);
    for (int k = 0; k < argc; k++) options->arguments = hash_of(options->arguments, argv[k]);
    options->launched = found == RANKS_FOUND;
    if (!options->launched) return options->gpus > 0 || !options->nccl || fail(why, "--nccl needs --gpus");
    if (options->gpus > 0)
        return fail(why, "--gpus starts processes, and this is one of %d that a launcher has started",
                    options->place.count);
    options->gpus = options->place.count;
    return true;
}

bool run_on_ranks(const rank_options *options, ranks_body body, void *context, fault *why) {
    const bool on_cpu = strcmp(gs_backend(), "simt") == 0;
    const ranks_plan plan = {.count = (int)options->gpus,
                             .kind = options->launched          ? RANKS_LAUNCHED
                                     : on_cpu && !options->nccl ? RANKS_THREADS
                                                                : RANKS_PROCESSES,
                             .nccl = options->nccl,
                             .devices = on_cpu,
                             .place = &options->place,
                             .arguments = options->arguments,
                             .program = "splat"};
    return ranks_run(&plan, body, context, why);
}
