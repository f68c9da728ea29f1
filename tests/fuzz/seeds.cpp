// SPDX-License-Identifier: MIT
// fuzz_seeds FOLDER: writes FOLDER/checkpoint/N, checkpoints of this version. Inputs of all other targets, whose formats
// stay, are in corpus.tar.gz.
#include "files.h"
#include "frame.h"
#include "fuzz_key.h"
#include "scene.h"
#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    const std::string folder = std::string(argv[1]) + "/checkpoint/";
    fault why = {};
    bool done = true;
    std::filesystem::create_directories(folder);
    for (const int64_t views : {0, 2}) {
        ranks *const alone = ranks_alone_open();
        training_state state = {};
        gs_gaussians zeros;
        done = done && scene_open(&zeros, 2, 1, &why);
        if (!done) break;
        training_state_open(&state, alone, &zeros);
        scene_close(&zeros);
        if (views > 0) { // one of two teachers is complete
            training_state_open_exposures(&state, views);
            state.place.views = 9, state.place.steps = 3, state.place.ended = 2;
            state.average = {2, device_gaussians_open(2, 1)};
            state.place.scene = 1, state.place.scenes = 2;
            state.distillation.teacher[0] = device_gaussians_open(3, 1);
            done = training_state_open_poses(&state, size_t(views), &why) &&
                   scene_open(&state.distillation.start, 1, 1, &why);
        }
        done = done && checkpoint_write((folder + std::to_string(views)).c_str(), &fuzz_key, &state, &why);
        training_state_close(&state);
        ranks_alone_close(alone);
    }
    if (!done) std::fprintf(stderr, "fuzz_seeds: %s\n", why.text);
    return !done;
}
