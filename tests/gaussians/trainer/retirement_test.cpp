// SPDX-License-Identifier: MIT
// Which Gaussians are retired: those that contribute least to every view.
#include "density/density_scene.h"
#include "plan.h"
#include <algorithm>

namespace {

enum { FRONT, BEHIND, FAINT, UNSEEN, COUNT };

// Round Gaussians of one size before a camera at the origin, and one at its back.
host_gaussians scene() {
    host_gaussians out(COUNT, 0);
    const float place[COUNT][3] = {{0, 0, 3}, {0, 0, 6}, {0.5f, 0, 3}, {0, 0, -3}};
    for (int64_t i = 0; i < COUNT; i++) {
        std::copy_n(place[i], 3, out.mean(i));
        std::fill_n(out.log_scale(i), 3, std::log(0.1f));
        out.quaternion(i)[0] = 1;
        out.opacity_logit(i) = i == FAINT ? -2.0f : 5.0f;
    }
    return out;
}

target_view view_from(float x) {
    target_view view = {};
    gs_camera &camera = view.camera;
    camera.width = 64, camera.height = 48;
    camera.fx = camera.fy = 60, camera.cx = 32, camera.cy = 24, camera.near_plane = 0.01f;
    for (int i = 0; i < 3; i++) camera.rotation[4 * i] = 1;
    camera.translation[0] = -x;
    return view;
}

std::vector<bool> retired(const std::vector<target_view> &views, double part, distwar_policy policy,
                          int64_t batch = 1) {
    const host_gaussians host = scene();
    const device_set set(host);
    training_state state = {};
    state.gaussians = set.get();
    state.group = ranks_alone_open();
    state.all = COUNT;
    retirement r = {};
    // As a step leaves it: with depth and a clock, which scores have not.
    frame of_steps = {};
    stage_clock clock = {}; // no mark can be set on it
    clock.measures = true;
    of_steps.clock = &clock;
    of_steps.with_depth = true;
    const device_vector<float> score(std::vector<float>(COUNT, 0.0f));
    const scored_views by = {views.data(), nullptr, views.size(), batch};
    retirement_score(&r, &of_steps, &state, &by, policy, score.data());
    EXPECT_TRUE(retirement_end(&r, &state, score.data(), part));
    EXPECT_EQ(of_steps.view.image.depth, nullptr);
    EXPECT_EQ(of_steps.clock, &clock);
    retirement_close(&r);
    frame_close(&of_steps);
    ranks_alone_close(state.group);
    const host_gaussians after = set.read();
    std::vector<bool> out;
    for (int64_t i = 0; i < COUNT; i++) {
        const bool dead = after.opacity(i) < 1e-6;
        out.push_back(dead);
        if (!dead) {
            EXPECT_EQ(after.row(i), host.row(i)) << i;
        }
    }
    return out;
}

TEST(Retirement, EndsWhatContributesLeastToEveryView) {
    using v = std::vector<bool>;
    for (const distwar_policy policy : {distwar_policy{DISTWAR_TREE, 0}, distwar_policy{DISTWAR_FIXED, 0}}) {
        EXPECT_EQ(retired({view_from(0)}, 0.01, policy), (v{false, false, false, true}));
        EXPECT_EQ(retired({view_from(0)}, 0.9, policy), (v{false, true, false, true}));
        // Beside the first, the second view sees what is behind.
        EXPECT_EQ(retired({view_from(0), view_from(1)}, 0.9, policy), (v{false, false, true, true}));
        EXPECT_EQ(retired({view_from(1), view_from(0)}, 0.9, policy), (v{false, false, true, true}));
        // Three views, two at a time: only the last sees what is behind.
        for (const int64_t batch : {1, 2, 3, 8})
            EXPECT_EQ(retired({view_from(0), view_from(0), view_from(1)}, 0.9, policy, batch),
                      (v{false, false, true, true}))
                << batch;
    }
}

TEST(Retirement, AsksEverySecondToFourthOfManyViews) {
    const std::pair<size_t, size_t> asked[] = {{1, 1},    {99, 99},  {100, 50},
                                               {175, 58}, {220, 55}, {100000, 25000}};
    for (const auto &[count, views] : asked) EXPECT_EQ(retirement_views(count), views) << count;
    // The one that sees what is behind is asked if its number is even.
    for (const size_t seeing : {0, 1, 48, 49, 98, 99}) {
        std::vector<target_view> views(100, view_from(0));
        views[seeing] = view_from(1);
        EXPECT_EQ(retired(views, 0.9, {DISTWAR_TREE, 0}, 4),
                  (std::vector<bool>{false, seeing % 2 == 1, seeing % 2 == 0, true}))
            << seeing;
    }
}

TEST(Retirement, IsDueBeforeActionsOfDensityControl) {
    density_settings settings = {};
    settings.from = 500, settings.until = 5000, settings.every = 100, settings.retire_every = 1000;
    std::vector<int64_t> steps;
    const auto collect = [&] {
        steps.clear();
        for (int64_t step = 1; step <= 7000; step++)
            if (retirement_is_due(&settings, step - 1, step)) steps.push_back(step);
        return steps;
    };
    EXPECT_EQ(collect(), std::vector<int64_t>());
    EXPECT_EQ(retirements_left(&settings, 0), 0);
    settings.retired = 0.1;
    EXPECT_EQ(collect(), (std::vector<int64_t>{1000, 2000, 3000, 4000}));
    EXPECT_TRUE(retirement_is_due(&settings, 1996, 2004)); // a step of eight views
    for (int64_t from : {0, 500, 1000, 1500}) {
        settings.from = from;
        const std::vector<int64_t> all = collect();
        for (int64_t at = 0; at <= 7000; at += 100)
            EXPECT_EQ(retirements_left(&settings, at),
                      std::count_if(all.begin(), all.end(), [&](int64_t step) { return step > at; }))
                << from << " " << at;
    }
}

} // namespace
