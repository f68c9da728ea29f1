// SPDX-License-Identifier: MIT
// random_scenes SCENES [FIRST]: random scenes of seeds FIRST, FIRST + 1, ... through all stages and back, by random
// strategies, beside the double reference; under simt each by a schedule of its own. Prints the errors as a table: median,
// largest of 99 and of 99.9% of the scenes, worst and the seed of the worst. Exit 1 if one is above its limit.
#include "pipeline_errors.h"
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#ifdef DISTWAR_SIMT
#include "simt.h"
#endif

namespace {

scene_choice choice_of(uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&random](int bound) { return int(random() % uint64_t(bound)); };
    scene_choice c = {seed, 1 + below(below(4) ? 64 : 256), below(4), 0, 1 + below(40), 1 + below(40)};
    c.sh_degree_used = below(c.sh_degree + 2);
    c.color = below(5) == 0, c.covariance = below(5) == 0, c.antialias = below(3) == 0;
    c.scale_modifier = below(4) ? 0.0f : float(1 + below(8)) / 4;
    c.model = below(3);
    return c;
}

// An image and a loss are sums of few terms; a gradient is divided by a norm that may be that of small differences.
double limit_of(const std::string &what) {
    if (what == "values that should be 0") return 0;
    return what == "image" || what == "loss" || what == "L1" || what == "SSIM" ? 2e-5 : 1e-2;
}

struct measured {
    double value;
    uint64_t seed;
    bool operator<(const measured &other) const { return value < other.value; }
};

} // namespace

int main(int argc, char **argv) {
    const uint64_t scenes = argc > 1 ? strtoull(argv[1], nullptr, 10) : 0,
                   first = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    if (scenes == 0 || argc > 3) return fprintf(stderr, "usage: random_scenes SCENES [FIRST]\n"), 2;
    testing::InitGoogleTest(); // kernel_frame.h expects
    std::vector<std::string> order;
    std::map<std::string, std::vector<measured>> errors;
    for (uint64_t seed = first; seed < first + scenes; seed++) {
#ifdef DISTWAR_SIMT
        simt_set_threads(1);
        simt_set_seed(seed);
#endif
        const distwar_strategy strategies[] = {DISTWAR_ATOMIC, DISTWAR_SERIAL, DISTWAR_BFLY,
                                               DISTWAR_TREE,   DISTWAR_BLOCK,  DISTWAR_FIXED};
        const distwar_policy policy = {strategies[seed % std::size(strategies)], int(seed / 7 % 34)};
        for (const group_error &error : pipeline_errors(choice_of(seed), policy)) {
            std::vector<measured> &of = errors[error.what];
            if (of.empty()) order.push_back(error.what);
            of.push_back({std::isnan(error.value) ? INFINITY : error.value, seed});
        }
    }
    bool good = true;
    printf(
        "| %s | scenes | median | 99%% | 99.9%% | worst | its seed | limit |\n|---|---|---|---|---|---|---|---|\n",
        "error");
    for (const std::string &what : order) {
        std::vector<measured> &of = errors[what];
        std::sort(of.begin(), of.end());
        const auto at = [&of](double part) { return of[size_t(part * double(of.size() - 1))].value; };
        printf("| %s | %zu | %.1e | %.1e | %.1e | %.1e | %llu | %.0e |\n", what.c_str(), of.size(), at(0.5),
               at(0.99), at(0.999), of.back().value, static_cast<unsigned long long>(of.back().seed),
               limit_of(what));
        good = good && of.back().value <= limit_of(what);
    }
    return good ? 0 : 1;
}
