// SPDX-License-Identifier: MIT
// Clone, split, prune and reset against the published rules, written out; and what must hold of them: the
// state moves with its Gaussian, newborns begin without one, nobody is lost.
#include "density_scene.h"
#include <algorithm>
#include <set>

namespace {

const gs_density_rules rules = {2e-4f, 0.01f, 1.6f, 0.005f, 0.1f, 0, 7, 1200};
constexpr uint32_t newborn = 1u << 31;

enum fate { PRUNED, KEPT, CLONED, SPLIT };

// Kerbl et al. 2023, section 5, with sizes in world units.
fate fate_of(host_gaussians &g, int64_t i, const std::vector<float> &density, const gs_density_rules &r) {
    const double size = std::exp(double(*std::max_element(g.log_scale(i), g.log_scale(i) + 3)));
    const double views = density[size_t(2 * i + 1)];
    const bool grows = views > 0 && density[size_t(2 * i)] / views >= r.gradient_threshold;
    const bool splits = grows && size > r.split_size;
    if (!(g.opacity(i) >= r.least_opacity)) return PRUNED;
    if (r.most_size > 0 && !((splits ? size / r.split_factor : size) <= r.most_size)) return PRUNED;
    return splits ? SPLIT : grows ? CLONED : KEPT;
}

struct scene {
    host_gaussians gaussians;
    std::vector<float> density; // [count][2]
};

// Every combination of small, middle, large and too large, of opaque and faint, of much, little and no
// gradient, none of them near a threshold.
scene make_scene(unsigned seed, int64_t count, int sh_degree) {
    scene s = {random_gaussians(seed, count, sh_degree), std::vector<float>(size_t(2 * count))};
    std::mt19937 random(seed + 1);
    for (int64_t i = 0; i < count; i++) {
        const double sizes[] = {0.002, 0.02, 0.13, 0.5}, opacities[] = {0.9, 0.02, 0.001},
                     gradients[] = {1e-3, 1e-5, 0};
        const double size = sizes[random() % 4] * (0.9 + 0.2 * double(random()) / 4294967296.0);
        const double opacity = opacities[random() % 3];
        for (int k = 0; k < 3; k++)
            s.gaussians.log_scale(i)[k] = float(std::log(size * (k == int(i % 3) ? 1 : 0.3)));
        s.gaussians.opacity_logit(i) = float(std::log(opacity / (1 - opacity)));
        const float views = float(random() % 40), gradient = float(gradients[random() % 3]);
        s.density[size_t(2 * i)] = gradient * views * (0.9f + 0.2f * float(i) / float(count));
        s.density[size_t(2 * i + 1)] = views;
    }
    return s;
}

struct outcome {
    host_gaussians parameters, moments;
    std::vector<uint32_t> source;
};

outcome densify(const scene &s, const gs_density_rules &r, const host_gaussians &moments) {
    const device_set parameters(s.gaussians), state(moments);
    const device_vector<float> density(s.density);
    const gs_gaussians from = parameters.get(), from_moments = state.get();
    gs_density_plan plan = {};
    EXPECT_GS_OK(gs_density_plan_step(&from, density.data(), &r, &plan, nullptr));
    const device_set after(plan.count_after, s.gaussians.sh_degree),
        after_moments(plan.count_after, s.gaussians.sh_degree);
    const gs_gaussians to = after.get(), to_moments = after_moments.get();
    EXPECT_GS_OK(gs_density_move(&plan, &r, 0, &from, &to, nullptr));
    EXPECT_GS_OK(gs_density_move(&plan, &r, 1, &from_moments, &to_moments, nullptr));
    return {after.read(), after_moments.read(), downloaded(plan.source, size_t(plan.count_after))};
}

// Rows of `got` that come from Gaussian i begin at `at`.
void expect_fate(scene &s, outcome &got, const host_gaussians &moments, int64_t i, int64_t at,
                 fate expected) {
    const std::vector<float> nothing(moments.row(0).size(), 0.0f), before = s.gaussians.row(i);
    if (expected == KEPT || expected == CLONED) {
        EXPECT_EQ(got.parameters.row(at), before);
        EXPECT_EQ(got.moments.row(at), moments.row(i));
        EXPECT_EQ(got.source[size_t(at)], uint32_t(i));
    }
    if (expected == CLONED) {
        EXPECT_EQ(got.parameters.row(at + 1), before);
        EXPECT_EQ(got.moments.row(at + 1), nothing);
        EXPECT_EQ(got.source[size_t(at + 1)], uint32_t(i) | newborn);
    }
    if (expected == SPLIT)
        for (int64_t child = at; child < at + 2; child++) {
            std::vector<float> row = got.parameters.row(child);
            EXPECT_EQ(got.moments.row(child), nothing);
            EXPECT_EQ(got.source[size_t(child)], uint32_t(i) | newborn);
            for (size_t k = 3; k < 6; k++) EXPECT_NEAR(row[k], before[k] - std::log(1.6), 1e-5);
            EXPECT_TRUE(std::equal(row.begin() + 6, row.end(), before.begin() + 6));
        }
}

TEST(Densify, FollowsThePublishedRules) {
    for (int degree : {0, 3}) {
        scene s = make_scene(3, 1777, degree);
        const host_gaussians moments = random_gaussians(4, 1777, degree);
        for (const float most_size : {0.0f, 0.1f}) {
            gs_density_rules r = rules;
            r.most_size = most_size;
            outcome got = densify(s, r, moments);
            int64_t at = 0;
            int met[4] = {};
            for (int64_t i = 0; i < s.gaussians.count; i++) {
                SCOPED_TRACE(testing::Message() << "Gaussian " << i);
                const fate expected = fate_of(s.gaussians, i, s.density, r);
                const int64_t rows = expected == PRUNED ? 0 : expected == KEPT ? 1 : 2;
                ASSERT_LE(at + rows, got.parameters.count);
                expect_fate(s, got, moments, i, at, expected);
                at += rows;
                met[expected]++;
            }
            EXPECT_EQ(at, got.parameters.count);
            for (int f = PRUNED; f <= SPLIT; f++) EXPECT_GT(met[f], 50) << f;
        }
    }
}

TEST(Densify, ChildrenOfASplitAreDrawnFromTheirParent) {
    scene s = make_scene(5, 3000, 0);
    for (int64_t i = 0; i < 3000; i++) {
        s.gaussians.opacity_logit(i) = 0;
        for (int k = 0; k < 3; k++) s.gaussians.log_scale(i)[k] = float(std::log(0.02 + 0.01 * k));
        s.density[size_t(2 * i)] = s.density[size_t(2 * i + 1)] = 1;
    }
    outcome got = densify(s, rules, s.gaussians);
    ASSERT_EQ(got.parameters.count, 6000);
    normal_check first, second, both;
    for (int64_t i = 0; i < 3000; i++) {
        double own[2][3], mixed[3];
        for (int child = 0; child < 2; child++) {
            double offset[3];
            for (int k = 0; k < 3; k++)
                offset[k] = double(got.parameters.mean(2 * i + child)[k]) - s.gaussians.mean(i)[k];
            to_own_axes(s.gaussians, i, offset, 1, own[child]);
        }
        for (int k = 0; k < 3; k++) mixed[k] = (own[0][k] + own[1][k]) / std::sqrt(2);
        first.add(own[0]);
        second.add(own[1]);
        both.add(mixed); // standard only if the two are independent
    }
    first.expect_standard();
    second.expect_standard();
    both.expect_standard();
    // The same input gives the same places, another iteration or seed others.
    const auto places = [&](const gs_density_rules &r) {
        return densify(s, r, s.gaussians).parameters.array[0];
    };
    gs_density_rules other = rules, other_seed = rules;
    other.iteration++, other_seed.seed++;
    EXPECT_EQ(places(rules), got.parameters.array[0]);
    EXPECT_NE(places(other), got.parameters.array[0]);
    EXPECT_NE(places(other_seed), got.parameters.array[0]);
}

TEST(Densify, GrowthStopsAtTheLimitWhereTheGradientIsLeast) {
    scene s = make_scene(6, 900, 1);
    const host_gaussians moments = random_gaussians(4, 900, 1);
    const int64_t free_count = densify(s, rules, moments).parameters.count;
    std::vector<std::pair<double, int64_t>> growing;
    int64_t survivors = 0;
    for (int64_t i = 0; i < 900; i++) {
        const fate f = fate_of(s.gaussians, i, s.density, rules);
        survivors += f != PRUNED;
        if (f == CLONED || f == SPLIT)
            growing.push_back({s.density[size_t(2 * i)] / s.density[size_t(2 * i + 1)], i});
    }
    std::sort(growing.begin(), growing.end());
    ASSERT_EQ(free_count, survivors + int64_t(growing.size()));
    for (const int64_t limit :
         {survivors - 10, survivors, survivors + 1, survivors + 77, free_count, free_count + 9}) {
        gs_density_rules r = rules;
        r.most_gaussians = limit;
        const outcome got = densify(s, r, moments);
        const int64_t expected = std::min(free_count, std::max(limit, survivors));
        ASSERT_EQ(got.parameters.count, expected) << limit;
        std::set<int64_t> grew, largest;
        for (const uint32_t source : got.source)
            if (source & newborn) grew.insert(int64_t(source & ~newborn));
        for (int64_t k = 0; k < expected - survivors; k++)
            largest.insert(growing[growing.size() - 1 - size_t(k)].second);
        EXPECT_EQ(grew, largest) << limit;
    }
}

TEST(Densify, WhatIsNotANumberIsPrunedOrDoesNotGrow) {
    scene s = make_scene(9, 40, 0);
    for (int64_t i = 0; i < 40; i++) {
        s.gaussians.opacity_logit(i) = 0;
        for (int k = 0; k < 3; k++) s.gaussians.log_scale(i)[k] = -7;
        s.density[size_t(2 * i)] = 0;
        s.density[size_t(2 * i + 1)] = 1;
    }
    s.gaussians.opacity_logit(3) = NAN;
    for (int k = 0; k < 3; k++) s.gaussians.log_scale(5)[k] = NAN;
    s.gaussians.log_scale(6)[1] = INFINITY;
    s.density[2 * 8] = NAN;
    gs_density_rules r = rules;
    for (const float most_size : {0.0f, 0.1f}) {
        r.most_size = most_size;
        const outcome got = densify(s, r, s.gaussians);
        EXPECT_EQ(got.parameters.count, 37);
        EXPECT_EQ(std::count(got.source.begin(), got.source.end(), 8u), 1);
    }
}

TEST(Densify, AllMayGoAndThereMayBeNone) {
    scene s = make_scene(10, 300, 1);
    for (int64_t i = 0; i < 300; i++) s.gaussians.opacity_logit(i) = -20;
    EXPECT_EQ(densify(s, rules, s.gaussians).parameters.count, 0);
    const scene none = {host_gaussians(0, 1), {}};
    EXPECT_EQ(densify(none, rules, none.gaussians).parameters.count, 0);
}

TEST(Densify, GradientsAreSummedOverTheViewsThatSawAGaussian) {
    const int64_t count = 500;
    std::vector<gs_splat> splats(static_cast<size_t>(count));
    std::vector<float> gradient(size_t(2 * count)), density(size_t(2 * count));
    std::mt19937 random(11);
    for (int64_t i = 0; i < count; i++) {
        gs_splat s = {};
        s.depth = random() % 5 == 0 ? 0 : 1;
        s.mean[0] = float(random() % 200) - 60, s.mean[1] = float(random() % 200) - 60;
        s.conic_sqrt[0] = s.conic_sqrt[2] = 0.3f;
        splats[size_t(i)] = s;
        for (size_t k = 0; k < 2; k++) {
            gradient[size_t(2 * i) + k] = float(random() % 1000) - 500;
            density[size_t(2 * i) + k] = float(random() % 10);
        }
    }
    const device_vector<gs_splat> device_splats(splats);
    const device_vector<float> device_gradient(gradient);
    const device_vector<int32_t> device_radii(static_cast<size_t>(count));
    gs_view view = {};
    view.gaussians.count = count;
    view.camera.width = 80, view.camera.height = 70;
    view.splats = device_splats.data();
    ASSERT_GS_OK(gs_radii(&view, device_radii.data(), nullptr));
    const std::vector<int32_t> radii = device_radii.read();
    const gs_camera cameras[5] = {view.camera, view.camera, view.camera, view.camera, view.camera};
    for (const int32_t views : {0, 1, 2, 5}) { // of fewer Gaussians
        view.gaussians.count = count / std::max(views, 1);
        view.views = {views, cameras};
        const size_t own = size_t(view.gaussians.count);
        const device_vector<float> sums(density);
        ASSERT_GS_OK(gs_density_accumulate(&view, device_gradient.data(), sums.data(), nullptr));
        const std::vector<float> got = sums.read();
        int seen = 0;
        for (size_t i = 0; i < own; i++) {
            double length = 0, times = 0;
            for (size_t k = i; k < size_t(count); k += own) {
                if (radii[k] == 0) continue;
                length += std::hypot(double(gradient[2 * k]), double(gradient[2 * k + 1])), times++;
            }
            seen += int(times);
            EXPECT_NEAR(got[2 * i], density[2 * i] + length, 1e-5 * (1 + length));
            EXPECT_EQ(got[2 * i + 1], density[2 * i + 1] + float(times));
        }
        EXPECT_GT(seen, 50);
        EXPECT_LT(seen, 400);
        for (size_t i = 2 * own; i < got.size(); i++) EXPECT_EQ(got[i], density[i]) << "beyond the end";
    }
}

TEST(Densify, AResetCutsOpacitiesAndTheirMomentsAlone) {
    const host_gaussians start = random_gaussians(12, 600, 1), state = random_gaussians(13, 600, 1);
    const device_set gaussians(start), first(state), second(state);
    const gs_gaussians g = gaussians.get(), m = first.get(), v = second.get();
    ASSERT_GS_OK(gs_opacity_reset(&g, &m, &v, 0.3f, nullptr));
    const host_gaussians after = gaussians.read(), after_first = first.read(), after_second = second.read();
    int cut = 0;
    for (int64_t i = 0; i < 600; i++) {
        EXPECT_NEAR(after.opacity(i), std::min(start.opacity(i), 0.3), 1e-6);
        cut += start.opacity(i) > 0.3;
        EXPECT_EQ(after_first.array[3][size_t(i)], 0);
        EXPECT_EQ(after_second.array[3][size_t(i)], 0);
    }
    EXPECT_GT(cut, 100);
    for (int a : {0, 1, 2, 4}) {
        EXPECT_EQ(after.array[a], start.array[a]);
        EXPECT_EQ(after_first.array[a], state.array[a]);
        EXPECT_EQ(after_second.array[a], state.array[a]);
    }
}

} // namespace
