// SPDX-License-Identifier: MIT
// Commands that work on several GPUs: as ranks that they start on this host (--gpus), or as one of the ranks that a
// launcher has started.
#pragma once

#include "dataset.h"
#include "cli/command_line.h"
#include "ranks.h"

typedef struct rank_options {
    int64_t gpus; // 0: one
    const char *nccl;
    // After rank_options_check:
    bool launched;
    ranks_place place;
    uint64_t arguments; // their hash
} rank_options;

// what: what --gpus does, for --help.
#define GPUS_OPTION(at, what)                                                                                \
    OPTION("gpus", at, .maximum = RANKS_MAX, .free_on_resume = true, .automatic = true,                      \
           .help = what " across N GPUs of this host; auto: one, or as mpirun, srun or torchrun says")
#define NCCL_OPTION(at)                                                                                      \
    OPTION("nccl", at, .free_on_resume = true,                                                               \
           .help = "the path of libnccl.so.2, if the loader does not find it")

// After parsing: looks for a launcher, which sets gpus. argv: the command line, the same for all ranks.
bool rank_options_check(rank_options *options, int argc, char **argv, fault *why);

typedef struct rank_work {
    // Does what needs no device, such as reading files. Called once while ranks are started, which share it, or in
    // each rank that a launcher has started. own: the rank's number; 0 if they share it.
    bool (*load)(void *context, int own, fault *why);
    ranks_body body;
    void *context;
    // The data and scene that `load` reads. Ranks that a launcher has started must have as many views of the same names
    // and sizes, and as many points and Gaussians.
    const dataset *data;
    const gs_gaussians *scene;
} rank_work;

// ranks_run. On a CPU ranks are threads, unless a stand-in for NCCL is named.
bool run_on_ranks(const rank_options *options, rank_work *work, fault *why);
