// SPDX-License-Identifier: MIT
// DISTWAR_FIXED: the same bits in every run, whatever the size of the gradients, and no wrong sum. That its
// sums are right is in render_test.cu, with those of the other strategies.
#include "blend_cases.h"
#include <cmath>
#include <cstring>
#include <utility>
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

class Fixed : public testing::Test {
  protected:
    Fixed() : frame({4, 192, 1, 1, 71, 45}) { frame.view.ranges.pixels_per_thread = 2; }
    ~Fixed() { set_schedule(0); }

    // In how many of the runs values() has other bits than in the first.
    template <typename Values>
    int differing_runs(const Values &values) const {
        int differing = 0;
        auto first = values();
        for (int run = 1; run < runs; run++) {
            set_schedule(run);
            const auto now = values();
            differing += memcmp(now.data(), first.data(), first.size() * sizeof first[0]) != 0;
        }
        return differing;
    }
    void expect_sums_of_the_tree(const char *what, float size) const {
        EXPECT_LE(relative_norm(frame.backward({DISTWAR_FIXED, 0}), frame.backward({DISTWAR_TREE, 0})), 1e-5)
            << what << " " << size;
    }

    blend_frame frame;
};

TEST_F(Fixed, HasTheSameBitsInEveryRun) {
    blend_frame wide(small_scene, 13);
    wide.view.image.depth = wide.depth.data(), wide.view.normalize_depth = 1;
    ASSERT_GS_OK(gs_render(&wide.view, NULL));
    EXPECT_EQ(differing_runs([this] { return frame.backward({DISTWAR_FIXED, 0}); }), 0);
    EXPECT_EQ(differing_runs([&] { return wide.backward({DISTWAR_FIXED, 0}, wide.extras(true, true)); }), 0);
#ifdef DISTWAR_SIMT
    EXPECT_GT(differing_runs([this] {
                  return frame.backward({DISTWAR_ATOMIC, 0});
              }),
              0)
        << "the schedules make no difference, so this test shows nothing";
#endif
    // The loss is summed in a fixed order whatever the strategy.
    const device_vector<uint8_t> target(
        std::vector<uint8_t>(frame.scene.target, frame.scene.target + 3 * frame.pixels()));
    const device_vector<double> result(3);
    const gs_loss_image image =
        loss_image({frame.choice.width, frame.choice.height, frame.color.data(), target.data(), nullptr},
                   result.data(), nullptr);
    EXPECT_EQ(differing_runs([&] {
                  EXPECT_GS_OK(gs_loss(&image, 1, NULL));
                  return result.read();
              }),
              0);
}

// The scales follow the gradient and the largest colour.
TEST_F(Fixed, TakesGradientsAndColoursOfAnySize) {
    const std::vector<float> d_color = frame.d_color, d_alpha = frame.d_alpha;
    for (const int exponent : {-60, -30, -4, 0, 20, 60}) {
        for (size_t i = 0; i < d_color.size(); i++) frame.d_color[i] = ldexpf(d_color[i], exponent);
        for (size_t i = 0; i < d_alpha.size(); i++) frame.d_alpha[i] = ldexpf(d_alpha[i], exponent);
        expect_sums_of_the_tree("gradients of 2 to the power", float(exponent));
    }
    frame.d_color = d_color, frame.d_alpha = d_alpha;
    std::vector<gs_splat> splats = frame.splats.read();
    for (const float factor : {1e-6f, 1e6f}) {
        for (gs_splat &splat : splats)
            for (float &channel : splat.color) channel *= factor;
        device_upload(frame.splats.data(), splats.data(), splats.size() * sizeof(gs_splat));
        expect_sums_of_the_tree("colours times", factor);
    }
}

// One pixel with a gradient a million times all others': the sums of splats that do not reach it keep some
// digits.
TEST_F(Fixed, KeepsSmallGradientsNextToALargeOne) {
    frame.d_color[0] = 1e6f;
    const std::vector<float> got = frame.backward({DISTWAR_FIXED, 0}),
                             wanted = frame.backward({DISTWAR_TREE, 0});
    int compared = 0;
    for (size_t i = 0; i < wanted.size(); i++) {
        if (fabsf(wanted[i]) < 1e-2f || fabsf(wanted[i]) > 1) continue;
        EXPECT_NEAR(got[i], wanted[i], 1e-4 * fabsf(wanted[i])) << i;
        compared++;
    }
    EXPECT_GT(compared, 100);
}

// All sums, of Gaussians that no such pixel sees as well; with given colours those are in rows, behind the others.
TEST_F(Fixed, SumsOfWhatIsNotFiniteAreNaN) {
    blend_frame wide(small_scene, 35); // two passes
    for (blend_frame *const f : {&frame, &wide})
        for (const float bad : {float(NAN), float(INFINITY)})
            for (std::vector<float> *const gradient : {&f->d_color, &f->d_alpha}) {
                const float good = std::exchange(gradient->back(), bad);
                const std::vector<float> all = f->backward({DISTWAR_FIXED, 0});
                gradient->back() = good;
                const size_t moments = size_t(f->choice.count) * GS_SPLAT_GRAD_STRIDE;
                for (size_t i = 0; i < all.size(); i++) {
                    const size_t k = i % GS_SPLAT_GRAD_STRIDE;
                    if (f == &wide && i < moments && k < GS_CHANNELS) continue;
                    ASSERT_TRUE(i >= moments || k < GS_SPLAT_GRAD_SUMS ? std::isnan(all[i]) : all[i] == 0)
                        << i;
                }
            }
    for (std::vector<float> *const gradient : {&frame.d_color, &frame.d_alpha})
        gradient->assign(gradient->size(), 0);
    for (const float moment : frame.backward({DISTWAR_FIXED, 0})) ASSERT_EQ(moment, 0);
}

} // namespace
