// SPDX-License-Identifier: MIT
// fuzz_runs SEEDS TARGET RUNS: the target on its seeds and on RUNS changed ones, the same each time. For compilers without
// libFuzzer. The last input stays in SEEDS/TARGET.last while it is used, so that a crash can be repeated with
//   fuzz_runs SEEDS TARGET SEEDS/TARGET.last
#include "targets.h"
#include "files.h"
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

// Headers and directories are at the ends.
size_t place_in(const std::string &bytes) {
    const size_t size = bytes.size() + 1, near = below(std::min(size, size_t(400)));
    const size_t choice = below(4);
    return choice == 0 ? near : choice == 1 ? size - 1 - near : below(size);
}

// Where numbers overflow, 0 and 1, infinity and NaN.
uint64_t extreme() {
    static const int bits[] = {1, 7, 8, 15, 16, 31, 32, 63, 64};
    if (below(8) == 0) return below(2) ? 0x7ff0000000000000 : 0x7fc00000;
    return (~uint64_t(0) >> (64 - bits[below(std::size(bits))])) + below(2);
}

void change(std::string &bytes, const std::string &other) {
    const size_t at = place_in(bytes), rest = bytes.size() - at, length = std::min(rest, below(16));
    size_t begin, end;
    static const char *const words[] = {"-1", "0", "1e999", "nan", "99999999999", "2147483648", "\"",
                                        "]",  "{", "\n",    " "};
    const uint64_t value = extreme();
    switch (below(9)) {
    case 0:
        if (rest) bytes[at] = char(below(2) ? below(256) : bytes[at] ^ 1 << below(8));
        break;
    case 1:
        if (rest) memcpy(&bytes[at], &value, std::min(rest, size_t(1) << below(4)));
        break;
    case 2:
        bytes.erase(at, length);
        break;
    case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(16)));
        break;
    case 4:
        bytes.insert(at, words[below(std::size(words))]);
        break;
    case 5:
        if (below(4) == 0) bytes.resize(at);
        break;
    case 6:
    case 7: // another number in place of the next decimal one
        begin = std::min(bytes.find_first_of("0123456789", at), bytes.size());
        end = std::min(bytes.find_first_not_of("0123456789", begin), bytes.size());
        bytes.replace(begin, end - begin, std::to_string(below(2) ? below(70) : value));
        break;
    default:
        bytes.replace(at, length, other.substr(std::min(at, other.size()), length));
    }
}

void use(const fuzz_target *target, const std::string &bytes) {
    fuzz_use(target, reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
}

} // namespace

int main(int argc, char **argv) {
    const fuzz_target *const target = argc == 4 ? fuzz_find(argv[2]) : nullptr;
    if (!target) return fprintf(stderr, "usage: fuzz_runs SEEDS TARGET RUNS\n"), 2;
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
