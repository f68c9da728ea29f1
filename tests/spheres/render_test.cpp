// SPDX-License-Identifier: MIT
// The stages against the reference: which spheres a pixel counts, what it shows, and every gradient, with
// every reduction.
#include "adjoints.h"
#include "sphere_reference.h"
#include <functional>

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

// A frame of the random spheres, changed.
struct drawn : drawn_frame {
    random_spheres scene;
    sphere_set by_parameters;
    sphere_frame frame;

    explicit drawn(
        const sphere_case &choice, const std::function<void(const sphere_set &)> &change = [](auto &) {})
        : scene(choice) {
        change(scene.set);
        by_parameters =
            sphere_set_over(static_cast<float *>(device_allocate(scene.begins[4] * sizeof(float))),
                            choice.count, choice.channels);
        frame = sphere_frame_open(&scene.set, &scene.view.camera, &scene.view.blend);
        name = choice.name, colors = scene.colors, sums = &frame.moments;
        color = frame.color, color_gradient = frame.color_gradient;
        spheres_draw(&frame);
    }
    ~drawn() {
        sphere_frame_close(&frame);
        device_free(by_parameters.center);
    }
    drawn(const drawn &) = delete;

    void add(distwar_policy policy, lane_histogram *lanes) override {
        spheres_render_backward(&frame, policy, lanes);
    }
    std::vector<float> gradient() override {
        spheres_project_backward(&frame, &by_parameters);
        return downloaded(by_parameters.center, scene.begins[4]);
    }
    sphere_lists lists() const {
        const size_t pixels = scene.pixels, kept = size_t(scene.choice.kept);
        const std::vector<int> length = downloaded(frame.list_length, pixels),
                               list = downloaded(frame.list, pixels * kept);
        sphere_lists out(pixels);
        for (size_t p = 0; p < pixels; p++) {
            EXPECT_TRUE(length[p] >= 0 && length[p] <= scene.choice.kept) << name;
            for (size_t j = 0; j < std::min(size_t(length[p]), kept); j++)
                out[p].push_back(list[j * pixels + p]);
        }
        return out;
    }
};

// The rule itself, up to what rounding may decide: the closest of those that the ray meets, in order.
void expect_the_closest(const sphere_frame &frame, const reference_spheres &set, const std::vector<int> &list,
                        size_t pixel) {
    const double eps = 1e-4, near_limit = frame.blend.near_limit, far_limit = frame.blend.far_limit;
    double last = near_limit;
    for (const int i : list) {
        ASSERT_TRUE(i >= 0 && i < set.count);
        const sphere_meeting m(set, frame, i, pixel);
        EXPECT_GT(m.closeness, -eps);
        EXPECT_GT(m.depth, last - eps);
        EXPECT_LT(m.depth, far_limit + eps);
        last = std::max(m.depth, near_limit);
    }
    for (int i = 0; i < set.count; i++) {
        const sphere_meeting m(set, frame, i, pixel);
        if (std::count(list.begin(), list.end(), i) || m.depth < near_limit + eps ||
            m.depth > far_limit - eps || m.closeness < eps)
            continue;
        EXPECT_EQ(list.size(), size_t(frame.blend.kept)) << "sphere " << i << " is missing";
        EXPECT_GT(m.depth, last - eps) << "sphere " << i << " is closer";
    }
}

// The lists are the closest of those that the ray meets; what is shown and its adjoint are those of the lists, and every
// sphere of every list is counted once.
TEST(SpheresRender, IsThatOfTheReference) {
    for (const sphere_case &choice : cases) {
        drawn d(choice);
        const reference_spheres set(d.scene.set);
        reference_spheres gradient(d.scene.set);
        const sphere_lists lists = d.lists(), closest = reference_lists(set, d.frame);
        size_t differ = 0, listed = 0;
        for (size_t p = 0; p < lists.size(); p++) {
            listed += lists[p].size();
            if (lists[p] == closest[p]) continue;
            differ++;
            expect_the_closest(d.frame, set, lists[p], p);
        }
        EXPECT_LE(double(differ), 1e-3 * double(lists.size()) + 1) << choice.name;
        EXPECT_GT(listed, lists.size() / 10) << choice.name;
        reference_render_backward(set, d.frame, lists, gradient_like_l1(d.colors), gradient);
        expect_as(d, reference_render(set, d.frame, lists), 5e-4, // where a sphere just begins
                  gradient.values, d.scene.begins);
        EXPECT_EQ(counted_lanes(d), listed) << choice.name;
    }
}

TEST(SpheresCandidates, OfEqualDepthAreTheFirst) {
    const drawn d({"equal", 700, 3, 17, 16, 6, 0.9, 9}, [](const sphere_set &set) { // all at one place
        std::fill_n(set.center, 3 * set.count, 0.1f);
        std::fill_n(set.log_radius, set.count, 1.0f);
    });
    for (const std::vector<int> &list : d.lists()) ASSERT_EQ(list, (std::vector<int>{0, 1, 2, 3, 4, 5}));
}

TEST(SpheresAdjoint, WithFixedIsTheSameToTheLastBit) {
    drawn d(cases[1]);
    expect_fixed_is_exact(d);
}

TEST(SpheresEdges, NothingInViewIsTheBackground) {
    drawn d(cases[1], [](const sphere_set &set) {
        for (int64_t i = 0; i < set.count; i++) // behind, beyond a limit, or not a number
            set.center[3 * i + 2] = i % 3 == 0 ? -90.0f : i % 3 == 1 ? 90.0f : float(NAN);
    });
    for (const std::vector<int> &list : d.lists()) ASSERT_TRUE(list.empty());
    for (const float value : downloaded(d.color, d.colors)) ASSERT_EQ(value, d.frame.blend.background);
    for (const distwar_strategy strategy : {DISTWAR_ATOMIC, DISTWAR_TREE, DISTWAR_FIXED})
        for (const float value : d.backward({strategy, 0})) ASSERT_EQ(value, 0);
}

} // namespace
