// SPDX-License-Identifier: MIT
// What several views agree on: sums by groups, the weight against its definition, noise against texture.
#include "density_scene.h"
#include "distwar_gs_split.h"
#include <algorithm>
#include <string>

namespace agreement_test {

constexpr int groups = GS_AGREEMENT_GROUPS, width = GS_AGREEMENT_ROW;
constexpr gs_agreement_rules rules_of_all = {0, 1 << 20, 0.005f, 1, 3, 600};

struct weighed {
    std::vector<float> weight;
    int64_t agree = 0, by_chance = 0;
};

weighed weigh(const host_gaussians &gaussians, const std::vector<float> &sums,
              gs_agreement_rules rules = rules_of_all) {
    const device_set set(gaussians);
    const gs_gaussians g = set.get();
    const device_vector<float> of(sums);
    const device_vector<int64_t> counts(std::vector<int64_t>(2));
    rules.existing = std::min(rules.existing, g.count);
    EXPECT_GS_OK(gs_agreement_weigh(&g, &rules, of.data(), counts.data(), nullptr));
    const std::vector<float> rows = of.read();
    weighed out;
    for (int64_t i = 0; i < g.count; i++) out.weight.push_back(rows[size_t(i * width)]);
    out.agree = counts.read()[0], out.by_chance = counts.read()[1];
    return out;
}

host_gaussians living(int64_t count) {
    host_gaussians out = random_gaussians(1, count, 0);
    std::fill(out.array[3].begin(), out.array[3].end(), 0.0f);
    return out;
}

std::vector<float> normal_numbers(unsigned seed, size_t count, double deviation, double mean = 0) {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal(mean, deviation);
    std::vector<float> out(count);
    for (float &value : out) value = float(normal(random));
    return out;
}

TEST(Agreement, ViewsAddToTheirGroups) {
    const int64_t count = 70;
    const int32_t of[5] = {2, 0, 2, 7, 2};
    const std::vector<float> tilt = normal_numbers(4, size_t(5 * count * 3), 1),
                             start = normal_numbers(5, size_t(count * width) + 9, 1);
    const device_vector<float> device_tilt(tilt), sums(start);
    ASSERT_GS_OK(gs_agreement_add(device_tilt.data(), count, of, 5, sums.data(), nullptr));
    std::vector<float> expected = start;
    for (size_t v = 0; v < 5; v++)
        for (size_t k = 0; k < size_t(3 * count); k++)
            expected[k / 3 * width + size_t(3 * of[v]) + k % 3] += tilt[v * size_t(3 * count) + k];
    EXPECT_EQ(sums.read(), expected);
}

// Gradients are small: products of four of them are below the least float.
TEST(Agreement, TheWeightIsTheRootOfWhatExceedsTheError) {
    const size_t count = 300;
    host_gaussians all = living(int64_t(count));
    for (int64_t i = 0; i < int64_t(count); i += 10) all.opacity_logit(i) = -9;
    std::vector<float> sums = normal_numbers(6, count * width, 1e-11, 5e-12);
    const weighed got = weigh(all, sums);
    int64_t positive = 0;
    for (size_t i = 0; i < count; i++) {
        double total[3] = {}, own = 0, squares = 0;
        const auto at = [&](int g, size_t c) { return double(sums[i * width + size_t(3 * g) + c]); };
        for (int g = 0; g < groups; g++)
            for (size_t c = 0; c < 3; c++) total[c] += at(g, c), own += at(g, c) * at(g, c);
        for (int g = 0; g < groups; g++)
            for (int h = g + 1; h < groups; h++) {
                const double product = at(g, 0) * at(h, 0) + at(g, 1) * at(h, 1) + at(g, 2) * at(h, 2);
                squares += product * product;
            }
        // (|sum g|^2 - sum |g|^2) / 2, less the deviation under random signs.
        const double excess =
            (total[0] * total[0] + total[1] * total[1] + total[2] * total[2] - own) / 2 - std::sqrt(squares);
        const double want = i % 10 == 0 || excess < 0 ? 0 : std::sqrt(excess);
        EXPECT_NEAR(double(got.weight[i]), want, 1e-5 * want + 1e-17) << i;
        positive += want > 0;
    }
    EXPECT_EQ(got.agree, positive);
    EXPECT_GT(positive, 50);
    EXPECT_LT(positive, 250);
    gs_agreement_rules strict = rules_of_all;
    strict.errors = 2;
    EXPECT_LT(weigh(all, sums, strict).agree, positive);
}

// However strong: the numbers agree within the deviation of their difference, and no two draws of signs are alike.
TEST(Agreement, NoiseAgreesAsOftenAsChanceAndTextureDoesMoreOften) {
    const size_t count = 20000;
    const host_gaussians all = living(int64_t(count));
    const auto difference = [&](double noise, double texture) {
        std::vector<float> sums = normal_numbers(7, count * width, noise);
        const std::vector<float> shared = normal_numbers(8, count * 3, texture);
        for (size_t k = 0; k < sums.size(); k++) sums[k] += shared[k / width * 3 + k % 3];
        const weighed got = weigh(all, sums);
        EXPECT_GT(got.by_chance, 0);
        return double(got.agree - got.by_chance) / std::sqrt(double(got.agree + got.by_chance));
    };
    for (const double noise : {1e-9, 1.0, 1e6}) EXPECT_LT(std::abs(difference(noise, 0)), 3) << noise;
    EXPECT_GT(difference(1, 0.3), 30);
    EXPECT_GT(difference(1e-3, 1), 100);
    const std::vector<float> noise = normal_numbers(9, count * width, 1);
    gs_agreement_rules other = rules_of_all;
    other.iteration = 700;
    const weighed one = weigh(all, noise), again = weigh(all, noise), next = weigh(all, noise, other);
    EXPECT_EQ(one.by_chance, again.by_chance);
    EXPECT_NE(one.by_chance, next.by_chance);
    EXPECT_EQ(one.weight, next.weight);
}

TEST(Agreement, TakesThreeGroupsOfOneMind) {
    const std::vector<int> signs[5] = {{1}, {1, 1}, {1, 1, 1}, {1, 1, -1}, {-1, -1, -1}};
    std::vector<float> sums(5 * width);
    for (size_t i = 0; i < 5; i++)
        for (size_t g = 0; g < signs[i].size(); g++) sums[i * width + 6 * g + 1] = float(signs[i][g]);
    const weighed got = weigh(living(5), sums);
    EXPECT_EQ(got.weight[0], 0);
    EXPECT_EQ(got.weight[1], 0);
    EXPECT_NEAR(double(got.weight[2]), std::sqrt(3 - std::sqrt(3.0)), 1e-6);
    EXPECT_EQ(got.weight[3], 0);
    EXPECT_EQ(got.weight[4], got.weight[2]);
    EXPECT_EQ(got.agree, 2);
}

TEST(Agreement, RefusesBadArguments) {
    const device_set set(living(4));
    const gs_gaussians g = set.get();
    const device_vector<float> sums(4 * width);
    const device_vector<int64_t> counts(2);
    const auto refused = [&](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT);
        EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
    };
    const int32_t high = groups, low = -1;
    refused(gs_agreement_add(sums.data(), 4, &high, 1, sums.data(), nullptr), "groups");
    refused(gs_agreement_add(sums.data(), 4, &low, 1, sums.data(), nullptr), "groups");
    refused(gs_agreement_add(sums.data(), 4, &high, 33, sums.data(), nullptr), "views");
    refused(gs_agreement_add(nullptr, 4, &high, 1, sums.data(), nullptr), "tilt");
    gs_agreement_rules bad = {0, 4, 0.005f, 1, 0, 0};
    refused(gs_agreement_weigh(&g, nullptr, sums.data(), counts.data(), nullptr), "rules");
    refused(gs_agreement_weigh(&g, &bad, nullptr, counts.data(), nullptr), "sums");
    refused(gs_agreement_weigh(&g, &bad, sums.data(), nullptr, nullptr), "counts");
    bad.existing = 5;
    refused(gs_agreement_weigh(&g, &bad, sums.data(), counts.data(), nullptr), "existing");
    bad.existing = 4, bad.errors = float(NAN);
    refused(gs_agreement_weigh(&g, &bad, sums.data(), counts.data(), nullptr), "errors");
}

// ---- a wall seen by many cameras ----

// Gaussians in a plane, which cameras on an arc look at. The residual: stripes on the wall's left half, the same in all
// views; on the right half numbers that have nothing to do with each other, three times as strong.
class wall {
  public:
    static constexpr int views = 24, size = 48, side = 10, count = side * side;
    wall()
        : gaussians(host()), set(gaussians), splats(views * count), tilt(3 * views * count),
          absolute(2 * views * count) {
        for (int v = 0; v < views; v++) {
            gs_camera camera = {};
            camera.width = camera.height = size;
            camera.fx = camera.fy = 60, camera.cx = camera.cy = size / 2.0f, camera.near_plane = 0.1f;
            const double angle = 0.03 * (v - views / 2);
            const float c = float(std::cos(angle)), s = float(std::sin(angle));
            const float rotation[9] = {c, 0, s, 0, 1, 0, -s, 0, c};
            std::copy(rotation, rotation + 9, camera.rotation);
            camera.translation[2] = 3;
            cameras.push_back(camera);
        }
        view.gaussians = set.get(), view.camera = cameras[0], view.views = {views, cameras.data()};
        view.pair_capacity = 400000;
        gs_view_parts parts = {};
        parts.image = parts.moments = 1, parts.strategy = DISTWAR_TREE;
        size_t bytes = 0;
        EXPECT_GS_OK(gs_view_bytes(&view, &parts, &bytes));
        block = std::make_unique<device_vector<char>>(bytes);
        EXPECT_GS_OK(gs_view_place(&view, &gradient, &parts, block->data(), bytes));
        EXPECT_GS_OK(gs_forward(&view, nullptr));
        EXPECT_GS_OK(gs_project_tilt(&view, nullptr));
    }
    static host_gaussians host() {
        host_gaussians out(count, 0);
        for (int64_t i = 0; i < count; i++) {
            out.mean(i)[0] = 0.2f * (float(i % side) - 4.5f),
            out.mean(i)[1] = 0.2f * (float(i / side) - 4.5f);
            for (int k = 0; k < 3; k++) out.log_scale(i)[k] = k == 0 ? -2.0f : k == 1 ? -2.3f : -6;
            out.quaternion(i)[0] = 1, out.opacity_logit(i) = 2;
        }
        return out;
    }
    static bool is_left(int64_t i) { return i % side < side / 2; }

    // Writes the sums of tilts by groups, and those of absolute gradients.
    void look(double stripes, double noise, std::vector<float> *sums, std::vector<float> *gradients) {
        std::mt19937 random(11);
        std::normal_distribution<float> normal(0, float(noise));
        std::vector<float> d_color;
        for (const gs_camera &camera : cameras)
            for (int k = 0; k < 3 * size * size; k++) {
                // Where the pixel's ray meets the wall.
                const double u = (k % size + 0.5 - camera.cx) / camera.fx, c = camera.rotation[0],
                             s = camera.rotation[2], x = 3 * u / (c + u * s);
                d_color.push_back(x < 0 ? float(stripes * std::sin(8 * x)) : normal(random));
            }
        const device_vector<float> d(d_color), own(std::vector<float>(count * width)),
            density(std::vector<float>(2 * count));
        const device_set out(count, 0);
        gradient.color = d.data(), gradient.gaussians = out.get();
        std::vector<int32_t> of;
        for (int v = 0; v < views; v++) of.push_back(v / (views / groups));
        gradient.tilt = tilt.data(), gradient.abs_mean2d = nullptr;
        EXPECT_GS_OK(gs_backward(&view, &gradient, {DISTWAR_TREE, 0}, nullptr));
        EXPECT_GS_OK(gs_agreement_add(tilt.data(), count, of.data(), views, own.data(), nullptr));
        gradient.tilt = nullptr, gradient.abs_mean2d = absolute.data();
        EXPECT_GS_OK(gs_backward(&view, &gradient, {DISTWAR_TREE, 0}, nullptr));
        EXPECT_GS_OK(gs_density_accumulate(&view, absolute.data(), density.data(), nullptr));
        *sums = own.read(), *gradients = density.read();
    }

    // How many of `more` splits are on the left.
    int left_splits(const std::vector<float> &density, int32_t row, int more) const {
        host_gaussians start(count + more, 0);
        for (int a = 0; a < 5; a++)
            std::copy(gaussians.array[a].begin(), gaussians.array[a].end(), start.array[a].begin());
        std::vector<float> rows = density;
        rows.resize(size_t(row * start.count));
        const device_set all(start), first(start.count, 0), second(start.count, 0);
        const gs_gaussians g = all.get(), m = first.get(), s = second.get();
        const device_vector<float> weights(rows);
        size_t bytes = 0;
        EXPECT_GS_OK(gs_split_bytes(start.count, &bytes));
        const device_vector<char> workspace(bytes);
        const gs_split_rules rules = {count, 0.005f, weights.data(), 1, 600, row, 0};
        EXPECT_GS_OK(gs_split(&g, &m, &s, &rules, workspace.data(), bytes, nullptr));
        host_gaussians got = all.read();
        int left = 0;
        for (int64_t i = 0; i < count; i++) left += is_left(i) && got.row(i) != start.row(i);
        return left;
    }

    host_gaussians gaussians;
    device_set set;
    device_vector<gs_splat> splats;
    device_vector<float> tilt, absolute;
    std::vector<gs_camera> cameras;
    gs_view view = {};
    gs_gradient gradient = {};
    std::unique_ptr<device_vector<char>> block;
};

TEST(Agreement, GrowthGoesWhereViewsAgreeNotWhereTheyAreNoisy) {
    wall w;
    std::vector<float> sums, gradients;
    w.look(1, 3, &sums, &gradients);
    const weighed got = weigh(w.gaussians, sums);
    // Products of the sums of two groups: their mean over the noisy half is 0 within its error, that over stripes is not.
    double mean[2] = {}, squares[2] = {}, gradient[2] = {};
    const int half = wall::count / 2;
    for (int64_t i = 0; i < wall::count; i++) {
        double total[3] = {}, own = 0;
        for (size_t k = 0; k < width; k++) {
            const double value = sums[size_t(i * width) + k];
            total[k % 3] += value, own += value * value;
        }
        const double score = total[0] * total[0] + total[1] * total[1] + total[2] * total[2] - own;
        const int side = wall::is_left(i) ? 0 : 1;
        mean[side] += score / half, squares[side] += score * score / half;
        gradient[side] += gradients[size_t(2 * i)];
    }
    EXPECT_LT(std::abs(mean[1]), 4 * std::sqrt(squares[1] / half));
    EXPECT_GT(mean[0], 4 * std::sqrt(squares[0] / half));
    EXPECT_GT(gradient[1], gradient[0]) << "by the gradient the noise is more";
    EXPECT_GT(got.agree, half / 2 + 2 * got.by_chance);
    std::vector<float> weights(size_t(wall::count * width));
    for (size_t i = 0; i < size_t(wall::count); i++) weights[i * width] = got.weight[i];
    EXPECT_GE(w.left_splits(weights, width, 20), 18);
    EXPECT_LE(w.left_splits(gradients, 2, 20), 10);
}

TEST(Agreement, NoiseAloneHasNothingToSplit) {
    wall w;
    std::vector<float> sums, gradients;
    w.look(0, 3, &sums, &gradients);
    host_gaussians all = w.gaussians;
    for (int64_t i = 0; i < wall::count; i++)
        if (wall::is_left(i)) all.opacity_logit(i) = -9;
    const weighed got = weigh(all, sums);
    EXPECT_LT(double(std::abs(got.agree - got.by_chance)),
              3 * std::sqrt(double(got.agree + got.by_chance) + 1));
}

} // namespace agreement_test
