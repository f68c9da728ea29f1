// SPDX-License-Identifier: MIT
// gs_dropout: how many Gaussians it leaves out, which ones, and the opacity of the others.
#include "distwar_gs.h"
#include "kernel_frame.h"

#include <math.h>
#include <string>

namespace {

constexpr int64_t count = 4000;

// Opacities from nearly 0 to nearly 1.
double opacity_of(int64_t i) {
    return (double(i % 97) + 0.5) / 97;
}

class scene {
  public:
    scene() : values(reference_gaussians_create(count, 0)) {
        for (int64_t i = 0; i < count; i++)
            values.opacity_logit[i] = log(opacity_of(i) / (1 - opacity_of(i)));
        device = std::make_unique<device_gaussians>(values);
    }
    ~scene() { reference_gaussians_destroy(&values); }

    std::vector<float> dropout(float share, uint64_t seed, uint64_t iteration) const {
        const device_vector<float> logits(static_cast<size_t>(count));
        EXPECT_GS_OK(gs_dropout(device->get(), 0, share, seed, iteration, logits.data(), nullptr));
        return logits.read();
    }

    reference_gaussians values;
    std::unique_ptr<device_gaussians> device;
};

double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

TEST(Dropout, LeavesAShareOutAndMakesUpForIt) {
    const scene s;
    for (const double share : {0.0, 0.1, 0.5}) {
        const std::vector<float> logits = s.dropout(float(share), 1, 7);
        int64_t out = 0;
        double difference = 0, norm = 0;
        for (int64_t i = 0; i < count; i++) {
            const double expected = fmin(opacity_of(i) / (1 - share), 0.9999);
            const double got = sigmoid(double(logits[size_t(i)]));
            if (got < 1e-6)
                out++;
            else
                difference += pow(got - expected, 2), norm += pow(expected, 2);
        }
        EXPECT_LE(sqrt(difference), 1e-6 * sqrt(norm)) << share;
        EXPECT_NEAR(double(out), share * count, 5 * sqrt(share * (1 - share) * count)) << share;
    }
}

TEST(Dropout, DrawsAnewForEachSeedAndIteration) {
    const scene s;
    const std::vector<float> one = s.dropout(0.5f, 1, 7);
    EXPECT_EQ(s.dropout(0.5f, 1, 7), one);
    for (const std::vector<float> &other : {s.dropout(0.5f, 2, 7), s.dropout(0.5f, 1, 8)}) {
        int64_t differ = 0;
        for (size_t i = 0; i < one.size(); i++) differ += (one[i] < -19) != (other[i] < -19);
        EXPECT_NEAR(double(differ), count / 2.0, 5 * sqrt(count / 4.0));
    }
    EXPECT_NE(s.dropout(0.1f, 1, 7), one);
}

TEST(Dropout, APartOfASceneDrawsAsTheSceneDoes) {
    const scene s;
    const std::vector<float> all = s.dropout(0.5f, 1, 7);
    const int64_t first = 1500, some = count - first;
    gs_gaussians part = *s.device->get();
    part.count = some, part.opacity_logit += first;
    const device_vector<float> logits(static_cast<size_t>(some));
    ASSERT_GS_OK(gs_dropout(&part, first, 0.5f, 1, 7, logits.data(), nullptr));
    EXPECT_EQ(logits.read(), std::vector<float>(all.begin() + first, all.end()));
}

} // namespace
