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

// Headers and directories are at the ends. Numbers: where they overflow, 1, infinity and NaN, or any.
void change(std::string &bytes, const std::string &other) {
    static const char *const words[] = {"-1", "1e999", "nan", "\"", "]", "{", "\n"};
    const size_t size = bytes.size(), near = below(std::min(size, size_t(400)) + 1), choice = below(4),
                 at = choice == 0   ? near
                      : choice == 1 ? size - near
                                    : below(size + 1);
    const uint64_t special = below(2) ? 0x7ff0000000000000 : 0x7fc00000,
                   extreme = below(8) ? ~uint64_t(0) >> below(64) : special,
                   value = below(3) ? extreme + below(2) : random_bits();
    const size_t digit = std::min(bytes.find_first_of("0123456789", at), size);
    switch (below(6)) {
    case 0:
        if (at < size) bytes[at] = char(bytes[at] ^ 1 << below(8));
        break;
    case 1:
        memcpy(bytes.data() + at, &value, std::min(size - at, size_t(1) << below(4)));
        break;
    case 2:
        bytes.insert(at, words[below(std::size(words))]);
        break;
    case 3:
        if (below(4) == 0) bytes.resize(at);
        break;
    case 4: // the next decimal number
        bytes.replace(digit, bytes.find_first_not_of("0123456789", digit) - digit,
                      std::to_string(below(2) ? value % 70 : value));
        break;
    default: // erases, inserts or replaces
        bytes.replace(at, below(2) * below(16), other.substr(below(other.size()), below(2) * below(16)));
    }
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
