// SPDX-License-Identifier: MIT
// What Gaussians contribute to views, and which of them are retired. How many a step leaves out, which ones, and the opacity
// of the others.
#include "density_scene.h"
#include <algorithm>

namespace {

std::vector<float> scored(const std::vector<std::vector<float>> &views) {
    const size_t count = views[0].size();
    const device_vector<float> score(std::vector<float>(count, 0));
    for (const std::vector<float> &view : views) {
        std::vector<gs_splat_grad> splat_grad(count);
        for (size_t i = 0; i < count; i++)
            splat_grad[i].color[0] = view[i], splat_grad[i].color[1] = 99, splat_grad[i].h = 99;
        const device_vector<gs_splat_grad> on_device(splat_grad);
        EXPECT_GS_OK(gs_score_add(on_device.data(), int64_t(count), score.data(), nullptr));
    }
    return score.read();
}

host_gaussians retire(const host_gaussians &start, const std::vector<float> &score, float part) {
    const device_set gaussians(start);
    const gs_gaussians g = gaussians.get();
    const device_vector<float> on_device(score);
    EXPECT_GS_OK(gs_retire(&g, on_device.data(), part, nullptr));
    return gaussians.read();
}

TEST(Retire, AScoreIsTheLargestContribution) {
    std::vector<float> one(1000), other(1000), wanted(1000);
    for (size_t i = 0; i < 1000; i++) {
        one[i] = float(i * 7 % 101), other[i] = float(i * 5 % 97);
        wanted[i] = std::max(one[i], other[i]);
    }
    EXPECT_EQ(scored({one, other}), wanted);
}

TEST(Retire, RetiresWhatIsFarBelowTheUpperQuartile) {
    const host_gaussians start = random_gaussians(3, 701, 1);
    std::vector<float> score(701);
    for (size_t i = 0; i < 701; i++) score[i] = float(i * 37 % 100) / 8; // about 7 of each value
    score[100] = NAN, score[200] = -5;                                   // as 0
    const auto value = [&](size_t i) { return score[i] > 0 ? score[i] : 0; };
    std::vector<float> sorted;
    for (size_t i = 0; i < 701; i++) sorted.push_back(value(i));
    std::sort(sorted.begin(), sorted.end());
    for (const float part : {0.0f, 0.001f, 0.25f, 1.0f}) {
        host_gaussians wanted = start;
        int64_t retired = 0;
        for (size_t i = 0; i < 701; i++)
            if (value(i) <= part * sorted[525]) wanted.opacity_logit(int64_t(i)) = -20, retired++;
        const int64_t expected = part == 1 ? 526 : part == 0.25f ? 134 : 9;
        EXPECT_NEAR(double(retired), double(expected), 5) << part;
        const host_gaussians got = retire(start, score, part);
        for (int a = 0; a < 5; a++) EXPECT_EQ(got.array[a], wanted.array[a]) << part << " " << a;
    }
}

TEST(Retire, RetiresWhatNoViewShows) {
    for (const int64_t count : {0, 1, 2, 3, 4, 5, 1000}) {
        std::vector<float> score(size_t(count), 0.0f);
        const host_gaussians start = random_gaussians(4, count, 0);
        host_gaussians wanted = start;
        for (int64_t i = 1; i < count; i++) wanted.opacity_logit(i) = -20;
        if (count > 0) score[0] = 8;
        EXPECT_EQ(retire(start, score, 0.5f).array[3], wanted.array[3]) << count;
    }
}

// ---- dropout ----

constexpr int64_t count = 4000;

// Opacities from nearly 0 to nearly 1.
double opacity_of(int64_t i) {
    return (double(i % 97) + 0.5) / 97;
}

// Of the Gaussians from `first` on.
std::vector<float> dropout(float share, uint64_t seed, uint64_t iteration, int64_t first = 0) {
    host_gaussians scene(count - first, 0);
    for (int64_t i = first; i < count; i++)
        scene.opacity_logit(i - first) = float(std::log(opacity_of(i) / (1 - opacity_of(i))));
    const device_set set(scene);
    const gs_gaussians g = set.get();
    const device_vector<float> logits(size_t(count - first));
    EXPECT_GS_OK(gs_dropout(&g, first, share, seed, iteration, logits.data(), nullptr));
    return logits.read();
}

TEST(Dropout, LeavesAShareOutAndMakesUpForIt) {
    for (const double share : {0.0, 0.1, 0.5}) {
        const std::vector<float> logits = dropout(float(share), 1, 7);
        int64_t out = 0;
        double difference = 0, norm = 0;
        for (int64_t i = 0; i < count; i++) {
            const double expected = std::fmin(opacity_of(i) / (1 - share), 0.9999);
            const double got = 1 / (1 + std::exp(-double(logits[size_t(i)])));
            if (got < 1e-6)
                out++;
            else
                difference += std::pow(got - expected, 2), norm += std::pow(expected, 2);
        }
        EXPECT_LE(std::sqrt(difference), 1e-6 * std::sqrt(norm)) << share;
        EXPECT_NEAR(double(out), share * count, 5 * std::sqrt(share * (1 - share) * count)) << share;
    }
}

TEST(Dropout, DrawsAnewForEachSeedAndIteration) {
    const std::vector<float> one = dropout(0.5f, 1, 7);
    EXPECT_EQ(dropout(0.5f, 1, 7), one);
    for (const std::vector<float> &other : {dropout(0.5f, 2, 7), dropout(0.5f, 1, 8)}) {
        int64_t differ = 0;
        for (size_t i = 0; i < one.size(); i++) differ += (one[i] < -19) != (other[i] < -19);
        EXPECT_NEAR(double(differ), count / 2.0, 5 * std::sqrt(count / 4.0));
    }
    EXPECT_NE(dropout(0.1f, 1, 7), one);
}

TEST(Dropout, APartOfASceneDrawsAsTheSceneDoes) {
    const std::vector<float> all = dropout(0.5f, 1, 7);
    EXPECT_EQ(dropout(0.5f, 1, 7, 1500), std::vector<float>(all.begin() + 1500, all.end()));
}

} // namespace
