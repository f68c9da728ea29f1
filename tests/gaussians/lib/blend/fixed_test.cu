// SPDX-License-Identifier: MIT
// DISTWAR_FIXED: the same bits in every run, whatever the size of the gradients, and no wrong sum. That its
// sums are right is in render_test.cu, with those of the other strategies.
#include "kernel_frame.h"
#include <cmath>
#include <cstring>
#ifdef DISTWAR_SIMT
#include <simt.h>
#endif

namespace {

constexpr int runs = 6;

// The schedule of the next launches: another under simt, as it comes on a GPU.
void set_schedule(int run) {
#ifdef DISTWAR_SIMT
    simt_set_seed(uint64_t(run));
#else
    (void)run;
#endif
}

std::vector<uint32_t> bits_of(const std::vector<float> &values) {
    std::vector<uint32_t> bits(values.size());
    memcpy(bits.data(), values.data(), values.size() * sizeof(float));
    return bits;
}

class Fixed : public testing::Test {
  protected:
    Fixed() : frame({4, 192, 1, 1, 71, 45}) {
        frame.view.ranges.pixels_per_thread = 2;
        d_color = random_floats(21, size_t(3 * frame.pixels()), -1, 1);
        d_alpha = random_floats(22, size_t(frame.pixels()), -1, 1);
    }
    ~Fixed() { set_schedule(0); }

    // In how many of the runs the moments have other bits than in the first.
    int differing_runs(distwar_strategy strategy) const {
        int differing = 0;
        std::vector<uint32_t> first;
        for (int run = 0; run < runs; run++) {
            set_schedule(run);
            const std::vector<uint32_t> bits = bits_of(frame.backward(d_color, d_alpha, {strategy, 0}));
            if (run == 0) first = bits;
            differing += bits != first;
        }
        return differing;
    }

    kernel_frame frame;
    std::vector<float> d_color, d_alpha;
};

TEST_F(Fixed, HasTheSameBitsInEveryRun) {
    EXPECT_EQ(differing_runs(DISTWAR_FIXED), 0);
#ifdef DISTWAR_SIMT
    EXPECT_GT(differing_runs(DISTWAR_ATOMIC), 0)
        << "the schedules make no difference, so this test shows nothing";
#endif
}

// The loss is summed in a fixed order whatever the strategy.
TEST_F(Fixed, TheLossHasTheSameBitsToo) {
    const int width = frame.choice.width, height = frame.choice.height;
    const device_vector<uint8_t> target(
        std::vector<uint8_t>(frame.scene.target, frame.scene.target + 3 * frame.pixels()));
    const device_vector<double> result(3);
    const gs_loss_image image = {
        {width, height, frame.color.data(), target.data(), nullptr}, result.data(), nullptr};
    std::vector<double> first;
    for (int run = 0; run < runs; run++) {
        set_schedule(run);
        ASSERT_GS_OK(gs_loss(&image, 1, NULL));
        const std::vector<double> value = result.read();
        if (run == 0) first = value;
        EXPECT_EQ(memcmp(value.data(), first.data(), 3 * sizeof(double)), 0) << value[0] - first[0];
    }
}

TEST_F(Fixed, FollowsTheSizeOfTheGradient) {
    for (const int exponent : {-60, -30, -4, 0, 20, 60}) {
        std::vector<float> color = d_color, alpha = d_alpha;
        for (float &value : color) value = ldexpf(value, exponent);
        for (float &value : alpha) value = ldexpf(value, exponent);
        const std::vector<float> got = frame.backward(color, alpha, {DISTWAR_FIXED, 0});
        const std::vector<float> wanted = frame.backward(color, alpha, {DISTWAR_TREE, 0});
        EXPECT_LE(relative_norm({got.begin(), got.end()}, {wanted.begin(), wanted.end()}), 1e-5) << exponent;
    }
}

// One pixel with a gradient a million times all others': the sums of splats that do not reach it keep some
// digits.
TEST_F(Fixed, DoesNotDrownSmallGradientsBesideALargeOne) {
    d_color[0] = 1e6f;
    const std::vector<float> got = frame.backward(d_color, d_alpha, {DISTWAR_FIXED, 0});
    const std::vector<float> wanted = frame.backward(d_color, d_alpha, {DISTWAR_TREE, 0});
    int compared = 0;
    for (size_t i = 0; i < wanted.size(); i++) {
        if (fabsf(wanted[i]) < 1e-2f || fabsf(wanted[i]) > 1) continue;
        EXPECT_NEAR(got[i], wanted[i], 1e-4 * fabsf(wanted[i])) << i;
        compared++;
    }
    EXPECT_GT(compared, 100);
}

// The scales follow the largest colour.
TEST_F(Fixed, TakesColoursOfAnySize) {
    std::vector<gs_splat> splats = frame.splats.read();
    for (const float factor : {1e-6f, 1e6f}) {
        for (gs_splat &splat : splats)
            for (float &channel : splat.color) channel *= factor;
        device_upload(frame.splats.data(), splats.data(), splats.size() * sizeof(gs_splat));
        const std::vector<float> got = frame.backward(d_color, d_alpha, {DISTWAR_FIXED, 0});
        const std::vector<float> wanted = frame.backward(d_color, d_alpha, {DISTWAR_TREE, 0});
        EXPECT_LE(relative_norm({got.begin(), got.end()}, {wanted.begin(), wanted.end()}), 1e-5) << factor;
    }
}

TEST_F(Fixed, WithoutAGradientIsZero) {
    for (const float moment : frame.backward(std::vector<float>(d_color.size()),
                                             std::vector<float>(d_alpha.size()), {DISTWAR_FIXED, 0}))
        ASSERT_EQ(moment, 0);
}

TEST_F(Fixed, MakesNothingOfWhatIsNotFinite) {
    for (const float bad : {float(NAN), float(INFINITY)})
        for (std::vector<float> *const gradient : {&d_color, &d_alpha}) {
            const float good = gradient->back();
            gradient->back() = bad;
            const std::vector<float> splat_grad = frame.backward(d_color, d_alpha, {DISTWAR_FIXED, 0});
            gradient->back() = good;
            for (size_t i = 0; i < splat_grad.size(); i++) {
                if (i % GS_SPLAT_GRAD_STRIDE < GS_SPLAT_GRAD_SUMS)
                    ASSERT_TRUE(std::isnan(splat_grad[i])) << i;
                else
                    ASSERT_EQ(splat_grad[i], 0) << i;
            }
        }
}

} // namespace
