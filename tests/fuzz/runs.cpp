// SPDX-License-Identifier: MIT
// fuzz_runs SEEDS TARGET RUNS: the target on its seeds and on RUNS changed ones, the same each time. For compilers without
// libFuzzer. The last input stays in SEEDS/TARGET.last while it is used, so that a crash can be repeated with
//   fuzz_runs SEEDS TARGET SEEDS/TARGET.last
// fuzz_runs SEEDS: writes SEEDS/checkpoint/N, checkpoints of this version. Inputs of all other targets, whose formats stay,
// are in corpus.tar.gz.
#include "targets.h"
#include "files.h"
#include "frame.h"
#include "scene.h"
#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <vector>

namespace {

std::mt19937 random_bits(1);

size_t below(size_t bound) {
    return bound ? random_bits() % bound : 0;
}

// Writes a number over the bytes, all ones from a bit on or any, or erases, inserts or replaces, by a part of another input or
// a decimal number.
void change(std::string &bytes, const std::string &other) {
    const size_t at = below(bytes.size() + 1), erased = below(2) * below(16), length = below(2) * below(16);
    const uint64_t value = below(2) ? (~uint64_t(0) >> below(64)) + below(2) : random_bits() % 300;
    if (below(2))
        memcpy(bytes.data() + at, &value, std::min(bytes.size() - at, size_t(1) << below(4)));
    else
        bytes.replace(at, erased,
                      below(4) ? other.substr(below(other.size()), length) : std::to_string(value));
}

void use(const fuzz_target *target, const std::string &bytes) {
    fuzz_use(target, reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
}

bool write_checkpoints(const std::string &folder, fault *why) {
    bool done = true;
    std::filesystem::create_directories(folder);
    for (const int64_t views : {0, 2}) {
        ranks *const alone = ranks_alone_open();
        training_state state = {};
        gs_gaussians zeros;
        done = done && scene_open(&zeros, 2, 1, why);
        if (!done) break;
        training_state_open(&state, alone, &zeros);
        scene_close(&zeros);
        if (views > 0) { // one of two teachers is complete
            training_state_open_exposures(&state, views);
            state.place.views = 9, state.place.steps = 3, state.place.ended = 2;
            state.average = {2, device_gaussians_open(2, 1)};
            state.place.scene = 1, state.place.scenes = 2;
            state.distillation.teacher[0] = device_gaussians_open(3, 1);
            done = training_state_open_poses(&state, size_t(views), why) &&
                   scene_open(&state.distillation.start, 1, 1, why);
        }
        done = done && checkpoint_write((folder + std::to_string(views)).c_str(), &fuzz_key, &state, why);
        training_state_close(&state);
        ranks_alone_close(alone);
    }
    return done;
}

} // namespace

int main(int argc, char **argv) {
    fault why = {};
    if (argc == 2 && write_checkpoints(argv[1] + std::string("/checkpoint/"), &why)) return 0;
    const fuzz_target *const target = argc == 4 ? fuzz_find(argv[2]) : nullptr;
    if (!target) return fprintf(stderr, "fuzz_runs SEEDS [TARGET RUNS]: %s\n", why.text), 2;
    const std::string last = std::string(argv[1]) + "/" + argv[2] + ".last";
    if (std::filesystem::exists(argv[3])) return use(target, read_bytes(argv[3])), 0;
    std::set<std::string> sorted;
    for (const auto &entry : std::filesystem::directory_iterator(std::string(argv[1]) + "/" + argv[2]))
        sorted.insert(read_bytes(entry.path()));
    const std::vector<std::string> seeds(sorted.begin(), sorted.end());
    if (seeds.empty()) return fprintf(stderr, "fuzz_runs: no seeds for %s\n", argv[2]), 1;
    for (const std::string &one : seeds) use(target, one);
    for (int run = atoi(argv[3]); run > 0; run--) {
        std::string bytes = seeds[below(seeds.size())];
        for (size_t changes = 1 + below(3); changes > 0; changes--) change(bytes, seeds[below(seeds.size())]);
        FILE *const file = fopen(last.c_str(), "wb");
        if (!file || fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || fclose(file)) return 1;
        use(target, bytes);
    }
    std::filesystem::remove(last);
    return 0;
}
