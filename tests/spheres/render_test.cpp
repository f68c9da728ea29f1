// SPDX-License-Identifier: MIT
// The stages against the reference: which spheres a pixel counts, what it shows, and every gradient, with
// every reduction.
#include "adjoints.h"
#include "random_spheres.h"
#include <algorithm>
#include <gtest/gtest.h>

namespace {

const sphere_case cases[] = {
    {"one sphere", 1, 3, 20, 20, 8, 2.5, 20},
    {"a list that is full at most pixels", 300, 3, 50, 37, 4, 0.8, 1},
    {"odd sizes, one sphere a pixel", 90, 8, 17, 33, 1, 0.6, 2},
    {"several rounds of candidates", 1900, 3, 24, 20, 16, 0.9, 3},
    {"sixteen channels", 120, 16, 33, 18, 8, 0.7, 4},
    {"thirty-two channels", 120, 32, 33, 18, 8, 0.7, 5},
    {"small spheres", 1500, 3, 48, 48, 8, 0.25, 6},
};

// A frame of the random spheres, drawn.
class drawn {
  public:
    random_spheres scene;
    sphere_set gradient;
    sphere_frame frame;

    explicit drawn(const sphere_case &choice) : drawn(choice, [](random_spheres &) {}) {}
    template <typename Change>
    drawn(const sphere_case &choice, Change &&change) : scene(choice) {
        change(scene);
        const size_t values = size_t(choice.count) * size_t(5 + choice.channels);
        gradient = sphere_set_over(static_cast<float *>(device_allocate(values * sizeof(float))),
                                   choice.count, choice.channels);
        frame = sphere_frame_open(&scene.set, &scene.view.camera, &scene.view.blend);
        spheres_draw(&frame);
    }
    ~drawn() {
        sphere_frame_close(&frame);
        device_free(gradient.center);
    }
    drawn(const drawn &) = delete;

    std::vector<int> lengths() const { return downloaded(frame.list_length, scene.pixels()); }
    std::vector<int> lists() const {
        return downloaded(frame.list, scene.pixels() * size_t(scene.choice.kept));
    }
    std::vector<float> backward(distwar_policy policy) {
        write(frame.color_gradient, gradient_like_l1(scene.colors()));
        spheres_render_backward(&frame, policy, nullptr);
        spheres_project_backward(&frame, &gradient);
        return downloaded(gradient.center, scene.parameters());
    }
};

// The rule itself, up to what rounding may decide: the closest of those that the ray meets, in order.
void expect_the_closest(const drawn &d, const reference_spheres &set, const std::vector<int> &list,
                        int length, size_t pixel) {
    const double eps = 1e-4;
    const sphere_blend &blend = d.frame.blend;
    const int x = int(pixel) % d.frame.camera.width, y = int(pixel) / d.frame.camera.width;
    double last = 0;
    for (int j = 0; j < length; j++) {
        const int i = list[size_t(j) * d.scene.pixels() + pixel];
        ASSERT_GE(i, 0);
        ASSERT_LT(i, set.count);
        const double depth = reference_depth(&set, &d.frame, i);
        EXPECT_GT(reference_closeness(&set, &d.frame, i, x, y), -eps);
        EXPECT_GT(depth, std::max(last, double(blend.near_limit)) - eps);
        EXPECT_LT(depth, blend.far_limit + eps);
        last = depth;
    }
    for (int64_t i = 0; i < set.count; i++) {
        bool listed = false;
        for (int j = 0; j < length; j++) listed |= list[size_t(j) * d.scene.pixels() + pixel] == i;
        const double depth = reference_depth(&set, &d.frame, i);
        if (listed || depth < blend.near_limit + eps || depth > blend.far_limit - eps ||
            reference_closeness(&set, &d.frame, i, x, y) < eps)
            continue;
        EXPECT_EQ(length, blend.kept) << "sphere " << i << " is missing";
        EXPECT_GT(depth, last - eps) << "sphere " << i << " is closer";
    }
}

// The lists are the closest of those that the ray meets; what is shown and its adjoint are those of the lists, and every
// sphere of every list is counted once.
TEST(SpheresRender, IsThatOfTheReference) {
    for (const sphere_case &choice : cases) {
        drawn d(choice);
        const reference_spheres set = d.scene.doubled();
        const std::vector<int> list = d.lists(), length = d.lengths();
        std::vector<int> closest(list.size()), closest_length(length.size());
        reference_lists(&set, &d.frame, closest.data(), closest_length.data());
        size_t differ = 0, listed = 0;
        for (size_t p = 0; p < length.size(); p++) {
            ASSERT_TRUE(length[p] >= 0 && length[p] <= choice.kept) << choice.name;
            listed += size_t(length[p]);
            bool same = length[p] == closest_length[p];
            for (size_t j = 0; same && j < size_t(length[p]); j++)
                same = list[j * length.size() + p] == closest[j * length.size() + p];
            differ += !same;
            if (!same) expect_the_closest(d, set, list, length[p], p);
        }
        EXPECT_LE(double(differ), 1e-3 * double(length.size()) + 1) << choice.name;
        EXPECT_GT(listed, length.size() / 10) << choice.name;

        std::vector<double> color(d.scene.colors()), block(d.scene.parameters());
        reference_render(&set, &d.frame, list.data(), length.data(), color.data());
        expect_color(choice.name, downloaded(d.frame.color, color.size()), color,
                     5e-4); // where a sphere just begins
        const reference_spheres gradient = d.scene.over(block);
        reference_render_backward(&set, &d.frame, list.data(), length.data(),
                                  gradient_like_l1(color.size()).data(), &gradient);
        expect_sums_of_every_strategy(
            choice.name, [&](distwar_policy policy) { return d.backward(policy); }, block, d.scene.begins());
        fault why;
        EXPECT_TRUE(sum_memory_is_exact(&d.frame.moments, &why)) << why.text;
        EXPECT_EQ(counted_lanes([&](lane_histogram *lanes) {
                      spheres_render_backward(&d.frame, {DISTWAR_TREE, 0}, lanes);
                  }),
                  listed)
            << choice.name;
    }
}

TEST(SpheresCandidates, OfEqualDepthAreTheFirst) {
    const sphere_case choice = {"equal", 700, 3, 17, 16, 6, 0.9, 9};
    drawn d(choice, [](random_spheres &scene) { // all spheres at one place
        for (int64_t i = 0; i < scene.set.count; i++)
            for (int axis = 0; axis < 3; axis++) scene.set.center[3 * i + axis] = 0.1f;
        for (int64_t i = 0; i < scene.set.count; i++) scene.set.log_radius[i] = 1;
    });
    const std::vector<int> list = d.lists(), length = d.lengths();
    for (size_t p = 0; p < length.size(); p++) {
        ASSERT_EQ(length[p], choice.kept);
        for (size_t j = 0; j < size_t(choice.kept); j++) ASSERT_EQ(list[j * length.size() + p], int(j));
    }
}

TEST(SpheresAdjoint, WithFixedIsTheSameToTheLastBit) {
    drawn d(cases[1]);
    expect_fixed_has_the_same_bits([&](distwar_policy policy) { return d.backward(policy); });
}

TEST(SpheresAdjoint, OfAGradientThatIsNotANumberIsTold) {
    drawn d(cases[0]);
    d.backward({DISTWAR_FIXED, 0});
    expect_nan_is_told(d.frame.moments, d.frame.color_gradient, d.scene.colors(),
                       [&](distwar_policy policy) { spheres_render_backward(&d.frame, policy, nullptr); });
}

TEST(SpheresEdges, NothingInViewIsTheBackground) {
    drawn d(cases[1], [](random_spheres &scene) {
        for (int64_t i = 0; i < scene.set.count; i++) // behind, beyond a limit, or not a number
            scene.set.center[3 * i + 2] = i % 3 == 0 ? -90.0f : i % 3 == 1 ? 90.0f : float(NAN);
    });
    for (const int length : d.lengths()) ASSERT_EQ(length, 0);
    for (const float value : downloaded(d.frame.color, d.scene.colors()))
        ASSERT_EQ(value, d.frame.blend.background);
    for (const distwar_strategy strategy : {DISTWAR_ATOMIC, DISTWAR_TREE, DISTWAR_FIXED})
        for (const float value : d.backward({strategy, 0})) ASSERT_EQ(value, 0);
}

} // namespace
