// SPDX-License-Identifier: MIT
// The products of Levenberg and Marquardt's method, without and with a cache, against the dense J of the
// reference, each other, and themselves transposed.
#include "kernel_frame.h"
#include "distwar_gs_lm.h"
#include "lm_jacobian.h"
#include <algorithm>
#include <cmath>
#include <numeric>

namespace {

constexpr float epsilon = 1e-3f;

double dot(const std::vector<double> &a, const std::vector<double> &b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::vector<double> doubles(const std::vector<float> &v) {
    return {v.begin(), v.end()};
}

std::vector<double> values_of(const device_gaussians &vector) {
    reference_gaussians read = vector.read();
    const std::vector<double> values(read.mean, read.mean + reference_gaussians_values(&read));
    reference_gaussians_destroy(&read);
    return values;
}

// A frame with the pieces of its normal equations, and the reference that follows its decisions.
struct lm_frame : kernel_frame {
    explicit lm_frame(const scene_choice &c)
        : kernel_frame(c), weight(size_t(3 * pixels())), slope(size_t(3 * pixels())),
          tangents(size_t(choice.count * GS_LM_TANGENT_STRIDE)), change(size_t(3 * pixels())),
          squares(size_t(choice.count * GS_LM_SQUARES_STRIDE)), moments(size_t(choice.count)),
          taken(decisions()) {
        const device_vector<uint8_t> target(std::vector<uint8_t>(scene.target, scene.target + 3 * pixels()));
        const device_vector<double> sum(1);
        const gs_comparison images = {choice.width, choice.height, color.data(), target.data(), nullptr};
        EXPECT_GS_OK(gs_lm_weights(&images, epsilon, sum.data(), weight.data(), slope.data(), NULL));
        objective_sum = sum.read()[0];
        lm.problem = {
            &scene.gaussians, choice.sh_degree_used, &scene.camera, {}, scene.target, nullptr, nullptr, 0, 0};
        std::copy_n(scene.background, 3, lm.problem.background);
        lm.decisions = &taken;
        lm.epsilon = epsilon;
        lm.base = doubles(color.read());
    }
    ~lm_frame() { reference_decisions_destroy(&taken); }

    // Random, in steps that are small against what changes the picture.
    reference_gaussians random_direction(unsigned seed) const {
        reference_gaussians out = reference_gaussians_create(choice.count, choice.sh_degree);
        const std::vector<double> weights = random_weights(size_t(reference_gaussians_values(&out)), seed);
        const std::vector<reference_splat> seen = reference_splats(taken);
        for (int64_t i = 0; i < choice.count; i++)
            for (int group = 0; group < GROUPS; group++) {
                const GroupRange range = group_of(out, i, group);
                const double step =
                    lm_step * (taken.splats[i].visible ? step_of(scene, seen[size_t(i)], i, group) : 0.003);
                for (int64_t k = range.begin; k < range.begin + range.size; k++)
                    out.mean[k] = double(float(step * weights[size_t(k)]));
            }
        return out;
    }
    std::vector<double> forward(const device_gaussians &direction, bool weighted) const {
        const gs_lm_view one = {view.camera, splats.data(), tangents.data()};
        EXPECT_GS_OK(gs_lm_tangents(gaussians.get(), choice.sh_degree_used, &one, 1, direction.get(), NULL));
        EXPECT_GS_OK(
            gs_lm_forward(&view, tangents.data(), weighted ? weight.data() : NULL, change.data(), NULL));
        return doubles(change.read());
    }
    // From `moments`.
    std::vector<double> to_parameters() const {
        const device_gaussians gradients(choice.count, choice.sh_degree);
        gs_gradient gradient = {};
        gradient.moments = moments.data();
        gradient.gaussians = *gradients.get();
        EXPECT_GS_OK(gs_project_backward(&view, &gradient, NULL));
        return values_of(gradients);
    }
    std::vector<double> backward(const float *picture) const {
        gs_gradient gradient = {};
        gradient.color = picture;
        gradient.moments = moments.data();
        gradient.moments_bytes = size_t(choice.count) * sizeof(gs_moments);
        EXPECT_GS_OK(gs_render_backward(&view, &gradient, {DISTWAR_TREE, 0}, NULL));
        return to_parameters();
    }
    std::vector<float> read_moments() const {
        const std::vector<gs_moments> records = moments.read();
        const float *first = reinterpret_cast<const float *>(records.data());
        return {first, first + records.size() * GS_MOMENTS_STRIDE};
    }
    std::vector<double> take_squares(distwar_policy policy) const {
        EXPECT_GS_OK(gs_lm_squares(&view, weight.data(), policy, squares.data(), NULL));
        return doubles(squares.read());
    }
    std::vector<double> diagonal() const { // from `squares`
        const device_gaussians sum(choice.count, choice.sh_degree);
        EXPECT_GS_OK(gs_lm_add_diagonal(&view, squares.data(), sum.get(), NULL));
        return values_of(sum);
    }

    double objective_sum;
    device_vector<float> weight, slope, tangents, change, squares;
    device_vector<gs_moments> moments;
    reference_decisions taken;
    LmProblem lm{};
};

class Lm : public testing::TestWithParam<scene_choice> {};

TEST_P(Lm, WeightsAreTheSquaredSlopesOfTheResiduals) {
    const lm_frame frame(GetParam());
    const std::vector<double> residuals = frame.lm.residuals(frame.lm.base), slope = slopes(frame.lm);
    const size_t values = frame.lm.base.size();
    std::vector<double> weight(values), gradient(values);
    for (size_t r = 0; r < residuals.size(); r++) {
        weight[r % values] += slope[r] * slope[r];
        gradient[r % values] += slope[r] * residuals[r];
    }
    EXPECT_NEAR(frame.objective_sum, dot(residuals, residuals), 1e-5 * frame.objective_sum);
    EXPECT_LE(relative_norm(doubles(frame.weight.read()), weight), 1e-4);
    EXPECT_LE(relative_norm(doubles(frame.slope.read()), gradient), 1e-4);
}

// The metric of the whole loss, found for a frame.
struct lm_metric {
    explicit lm_metric(const lm_frame &frame, bool masked = false)
        : width(frame.choice.width), height(frame.choice.height), values(size_t(3 * frame.pixels())),
          target(frame.scene.target, frame.scene.target + values), weight(values), coupling(values),
          mask(size_t(frame.pixels())), scratch(values),
          mask_on_device(mask_of(&mask)), kernel{width, height, weight.data(), coupling.data(),
                                                 masked ? mask_on_device.data() : NULL} {
        const device_vector<uint8_t> read(target);
        const gs_comparison images = {width, height, frame.color.data(), read.data(), kernel.mask};
        EXPECT_GS_OK(gs_lm_gauss_newton_metric(&images, epsilon, scratch.data(), &kernel, NULL));
    }
    double square(const device_vector<float> &change) const {
        const device_vector<double> sum(std::vector<double>{0});
        EXPECT_GS_OK(gs_lm_metric_add_square(&kernel, change.data(), sum.data(), NULL));
        return sum.read()[0];
    }
    std::vector<float> times(const std::vector<float> &change) const {
        const device_vector<float> picture(change);
        EXPECT_GS_OK(gs_lm_metric_apply(&kernel, 0, scratch.data(), picture.data(), NULL));
        return picture.read();
    }
    int width, height;
    size_t values;
    std::vector<uint8_t> target;
    device_vector<float> weight, coupling;
    std::vector<uint8_t> mask;
    device_vector<float> scratch;
    device_vector<uint8_t> mask_on_device;
    gs_lm_metric kernel;

  private:
    static std::vector<uint8_t> mask_of(std::vector<uint8_t> *mask) {
        for (size_t i = 0; i < mask->size(); i++) (*mask)[i] = i % 5 && i / 40 % 3 ? 7 : 0;
        return *mask;
    }
};

void compare_metric(const lm_frame &frame, bool masked) {
    const lm_metric metric(frame, masked);
    const std::vector<double> color = doubles(frame.color.read());
    const uint8_t *const mask = masked ? metric.mask.data() : NULL;
    const auto expected = [&](const std::vector<double> &change) {
        return reference_lm_square(color.data(), metric.target.data(), mask, metric.width, metric.height,
                                   epsilon, change.data());
    };
    for (unsigned seed = 1; seed < 3; seed++) {
        // Noise, which windows see little of, and the same sign everywhere, which they see all of.
        const std::vector<float> u = random_floats(seed, metric.values, -1, 1),
                                 v = random_floats(seed + 10, metric.values, 0.9f, 1);
        for (const std::vector<float> &change : {u, v}) {
            const double wanted = expected(doubles(change));
            EXPECT_NEAR(metric.square(device_vector<float>(change)), wanted, 1e-4 * wanted);
            const std::vector<float> product = metric.times(change);
            EXPECT_NEAR(dot(doubles(product), doubles(change)), wanted, 1e-4 * wanted);
            for (size_t i = 0; masked && i < metric.values; i++) {
                if (metric.mask[i % metric.mask.size()] == 0) {
                    ASSERT_EQ(product[i], 0) << i;
                }
            }
            // The same, four floats a pixel.
            std::vector<float> four(metric.values / 3 * 4);
            const size_t plane = metric.values / 3;
            for (size_t i = 0; i < metric.values; i++) four[4 * (i % plane) + i / plane] = change[i];
            const device_vector<float> interleaved(four);
            ASSERT_GS_OK(
                gs_lm_metric_apply(&metric.kernel, 1, metric.scratch.data(), interleaved.data(), NULL));
            four = interleaved.read();
            for (size_t i = 0; i < metric.values; i++)
                ASSERT_EQ(four[4 * (i % plane) + i / plane], product[i]) << i;
            for (size_t i = 0; i < plane; i++) ASSERT_EQ(four[4 * i + 3], 0);
        }
        const double left = dot(doubles(metric.times(u)), doubles(v)),
                     right = dot(doubles(metric.times(v)), doubles(u));
        double size = 0;
        const std::vector<float> product = metric.times(u);
        for (size_t i = 0; i < metric.values; i++) size += std::fabs(product[i] * v[i]);
        EXPECT_NEAR(left, right, 1e-5 * size);
    }
    const device_vector<float> diagonal(metric.values);
    ASSERT_GS_OK(gs_lm_metric_diagonal(&metric.kernel, diagonal.data(), NULL));
    const std::vector<float> read = diagonal.read();
    for (size_t i = 3; i < metric.values; i += metric.values / 5) {
        std::vector<double> one(metric.values);
        one[i] = 1;
        EXPECT_NEAR(read[i], expected(one), 1e-4 * expected(one)) << i;
    }
}

TEST_P(Lm, MetricIsThatOfTheReference) {
    const lm_frame frame(GetParam());
    compare_metric(frame, false);
    compare_metric(frame, true);
}

// About one pixel: the SSIM of what counts, by its definition, as the pixel's own colour becomes `center`.
double masked_ssim(const lm_frame &frame, const std::vector<uint8_t> &mask, int at, int channel,
                   double center) {
    const int width = frame.choice.width, height = frame.choice.height;
    double m[6] = {};
    for (int y = at / width - 5; y <= at / width + 5; y++)
        for (int x = at % width - 5; x <= at % width + 5; x++) {
            const bool inside = x >= 0 && x < width && y >= 0 && y < height;
            const int i = y * width + x, dx = x - at % width, dy = y - at / width;
            if (inside && !mask[size_t(i)]) continue;
            const double c = !inside   ? 0
                             : i == at ? center
                                       : frame.lm.base[size_t(channel * width * height + i)];
            const double t = inside ? frame.scene.target[3 * i + channel] / 255.0 : 0;
            const double values[6] = {c, t, c * c, t * t, c * t, 1}, w = exp(-(dx * dx + dy * dy) / 4.5);
            for (int k = 0; k < 6; k++) m[k] += w * values[k];
        }
    for (int k = 0; k < 5; k++) m[k] /= m[5];
    return (2 * m[0] * m[1] + 1e-4) * (2 * (m[4] - m[0] * m[1]) + 9e-4) /
           ((m[0] * m[0] + m[1] * m[1] + 1e-4) * (m[2] - m[0] * m[0] + m[3] - m[1] * m[1] + 9e-4));
}

TEST(LmMask, WeightsAreThoseOfWhatCounts) {
    const lm_frame frame({5, 48, 1, 1, 31, 27});
    const lm_metric metric(frame, true); // for its mask
    const int pixels = int(frame.pixels());
    const device_vector<uint8_t> target(metric.target);
    const gs_comparison images = {31, 27, frame.color.data(), target.data(), metric.kernel.mask};
    const device_vector<float> weight(size_t(3 * pixels)), slope(size_t(3 * pixels));
    const device_vector<double> sum(1);
    ASSERT_GS_OK(gs_lm_weights(&images, epsilon, sum.data(), weight.data(), slope.data(), NULL));
    double expected = 0;
    std::vector<double> weights, slopes_at;
    for (int channel = 0; channel < 3; channel++)
        for (int i = 0; i < pixels; i++) {
            double c = frame.lm.base[size_t(channel * pixels + i)];
            const double difference = c - frame.scene.target[3 * i + channel] / 255.0;
            weights.push_back(0), slopes_at.push_back(0);
            if (metric.mask[size_t(i)] == 0) continue;
            const double ssim = masked_ssim(frame, metric.mask, i, channel, c),
                         size = fabs(difference) + epsilon;
            const double d_ssim =
                derivative([&] { return masked_ssim(frame, metric.mask, i, channel, c); }, c, 1e-4);
            expected += 0.8 * size + 0.2 * (1 - ssim + epsilon);
            weights.back() = 0.25 * (0.8 / size + 0.2 * d_ssim * d_ssim / (1 - ssim + epsilon));
            slopes_at.back() = 0.5 * (0.8 * ((difference > 0) - (difference < 0)) - 0.2 * d_ssim);
        }
    EXPECT_NEAR(sum.read()[0], expected, 1e-5 * expected);
    EXPECT_LE(relative_norm(doubles(weight.read()), weights), 1e-4);
    EXPECT_LE(relative_norm(doubles(slope.read()), slopes_at), 1e-4);
}

// One call for cameras of both models gives what a call for each does.
TEST(LmEdges, ViewsMayHaveDifferentCameraModels) {
    const lm_frame frame({22, 96, 1, 1, 40, 30});
    gs_view fisheye = frame.view;
    const device_vector<gs_splat> splats(size_t(frame.choice.count));
    fisheye.splats = splats.data();
    fisheye.camera.model = GS_FISHEYE;
    fisheye.camera.fx = fisheye.camera.fy = 15;
    ASSERT_GS_OK(gs_project(&fisheye, NULL));
    reference_gaussians along = frame.random_direction(3);
    const device_gaussians direction(along);
    reference_gaussians_destroy(&along);
    const size_t floats = size_t(frame.choice.count * GS_LM_TANGENT_STRIDE);
    const auto tangents = [&](const gs_lm_view *views, int count) {
        ASSERT_GS_OK(gs_lm_tangents(frame.gaussians.get(), 1, views, count, direction.get(), NULL));
    };
    const std::vector<float> zeros(floats); // records of culled splats are not written
    const device_vector<float> of_pinhole(zeros), of_fisheye(zeros), first(zeros), second(zeros);
    const gs_lm_view alone[] = {{frame.view.camera, frame.splats.data(), of_pinhole.data()},
                                {fisheye.camera, splats.data(), of_fisheye.data()}};
    tangents(&alone[0], 1), tangents(&alone[1], 1);
    const gs_lm_view both[] = {{fisheye.camera, splats.data(), first.data()},
                               {frame.view.camera, frame.splats.data(), second.data()}};
    tangents(both, 2);
    EXPECT_EQ(first.read(), of_fisheye.read());
    EXPECT_EQ(second.read(), of_pinhole.read());

    const std::vector<float> moments = random_floats(9, floats, -1, 1);
    const device_vector<float> records(moments);
    const auto gradients = [&](std::vector<gs_lm_view> views) {
        for (gs_lm_view &view : views) view.records = records.data();
        const device_gaussians sum(frame.choice.count, frame.choice.sh_degree);
        EXPECT_GS_OK(
            gs_lm_gradients(frame.gaussians.get(), 1, views.data(), int(views.size()), 0, sum.get(), NULL));
        return values_of(sum);
    };
    std::vector<double> sum = gradients({alone[0]});
    const std::vector<double> other = gradients({alone[1]});
    for (size_t k = 0; k < sum.size(); k++) sum[k] += other[k];
    EXPECT_LE(relative_norm(gradients({both[0], both[1]}), sum), 1e-6);
}

TEST_P(Lm, ForwardAgreesWithFiniteDifferencesOfTheResiduals) {
    const lm_frame frame(GetParam());
    reference_gaussians direction = frame.random_direction(1);
    const reference_gaussians &at = frame.scene.gaussians;
    const int64_t values = reference_gaussians_values(&direction);
    const std::vector<double> start(at.mean, at.mean + values);
    LmProblem problem = frame.lm;
    problem.base = problem.picture();
    const std::vector<double> expected = derivative_of_vector([&](double by) {
        for (int64_t k = 0; k < values; k++) at.mean[k] = start[size_t(k)] + by * direction.mean[k];
        const std::vector<double> out = problem.residuals(problem.picture());
        std::copy(start.begin(), start.end(), at.mean);
        return out;
    });
    const std::vector<double> slope = slopes(problem),
                              change = frame.forward(device_gaussians(direction), false);
    std::vector<double> product(slope.size());
    for (size_t r = 0; r < slope.size(); r++) product[r] = slope[r] * change[r % change.size()];
    EXPECT_LE(relative_norm(product, expected), 1e-4);

    std::vector<double> weighted = frame.forward(device_gaussians(direction), true);
    const std::vector<double> weight = doubles(frame.weight.read());
    for (size_t i = 0; i < change.size(); i++)
        ASSERT_NEAR(weighted[i], weight[i] * change[i], 1e-6 * std::fabs(weighted[i]));
    reference_gaussians_destroy(&direction);
}

// As gs_project_backward has them, over several cameras, as often as it is asked for.
TEST_P(Lm, GradientsOfSeveralCamerasAreThoseOfEach) {
    const lm_frame frame(GetParam());
    const std::vector<double> one = frame.backward(frame.slope.data());
    const size_t values = size_t(frame.choice.count * GS_MOMENTS_STRIDE);
    std::vector<float> other = frame.read_moments();
    for (size_t k = 0; k < values; k++) other[k] *= 0.5f + 0.25f * float(k % 7 % 3);
    const device_vector<float> second(other);
    const device_gaussians sum(frame.choice.count, frame.choice.sh_degree);
    std::vector<double> expected;
    {
        const device_gaussians alone(frame.choice.count, frame.choice.sh_degree);
        gs_gradient gradient = {};
        gradient.moments = reinterpret_cast<gs_moments *>(second.data());
        gradient.gaussians = *alone.get();
        ASSERT_GS_OK(gs_project_backward(&frame.view, &gradient, NULL));
        expected = values_of(alone);
    }
    for (size_t k = 0; k < one.size(); k++) expected[k] = 2 * one[k] + expected[k];
    const gs_lm_view a = {frame.view.camera, frame.splats.data(),
                          reinterpret_cast<float *>(frame.moments.data())};
    const gs_lm_view views[] = {a, {frame.view.camera, frame.splats.data(), second.data()}};
    for (int again = 0; again < 2; again++) // overwrites what is there
        ASSERT_GS_OK(gs_lm_gradients(frame.gaussians.get(), frame.choice.sh_degree_used, views, 2, 0,
                                     sum.get(), NULL));
    ASSERT_GS_OK(
        gs_lm_gradients(frame.gaussians.get(), frame.choice.sh_degree_used, &a, 1, 1, sum.get(), NULL));
    const std::vector<double> got = values_of(sum);
    for (int group = 0; group < GROUPS; group++) {
        std::vector<double> mine, wanted;
        for (int64_t i = 0; i < frame.choice.count; i++) {
            const GroupRange range = group_of(frame.scene.gaussians, i, group);
            mine.insert(mine.end(), got.begin() + range.begin, got.begin() + range.begin + range.size);
            wanted.insert(wanted.end(), expected.begin() + range.begin,
                          expected.begin() + range.begin + range.size);
        }
        EXPECT_LE(relative_norm(mine, wanted), 1e-5) << group_name[group];
    }
}

TEST_P(Lm, BackwardIsTheTransposeOfForward) {
    const lm_frame frame(GetParam());
    for (unsigned seed = 1; seed < 4; seed++) {
        reference_gaussians direction = frame.random_direction(seed);
        const device_gaussians p(direction);
        const std::vector<double> change = frame.forward(p, false), at = values_of(p);
        // Of a random picture the products may cancel, so that one is judged by the sum of their sizes; the
        // change itself has nothing to cancel.
        const std::vector<float> random = random_floats(seed, change.size(), -1, 1);
        const double left = dot(doubles(random), change);
        const double right = dot(frame.backward(device_vector<float>(random).data()), at);
        double size = 0;
        for (size_t i = 0; i < change.size(); i++) size += std::fabs(random[i] * change[i]);
        EXPECT_LE(std::fabs(left - right), 1e-5 * size);
        const double square = dot(change, change);
        EXPECT_LE(std::fabs(square - dot(frame.backward(frame.change.data()), at)), 1e-5 * square);
        reference_gaussians_destroy(&direction);
    }
}

const distwar_policy policies[] = {{DISTWAR_ATOMIC, 0}, {DISTWAR_SERIAL, 8}, {DISTWAR_BFLY, 0},
                                   {DISTWAR_BFLY, 16},  {DISTWAR_TREE, 0},   {DISTWAR_TREE, 16}};

// A cache on the device, in a frame's arrays.
struct cached {
    explicit cached(const lm_frame &f)
        : begin(size_t(f.choice.count + 1)), picture(size_t(4 * f.pixels())), cache{} {
        size_t bytes = 0;
        EXPECT_GS_OK(gs_lm_cache_bytes(f.choice.count, &bytes));
        const device_vector<char> workspace(bytes);
        cache.begin = begin.data();
        EXPECT_GS_OK(gs_lm_cache_begin(&f.view, workspace.data(), bytes, &cache, NULL));
        pixel = std::make_unique<device_vector<uint32_t>>(size_t(cache.pairs));
        share = std::make_unique<device_vector<float>>(size_t(4 * cache.pairs));
        cache.pixel = pixel->data();
        cache.share = share->data();
        cache.d_log_alpha = share->data() + cache.pairs;
        EXPECT_GS_OK(gs_lm_cache_fill(&f.view, workspace.data(), bytes, &cache, NULL));
    }
    device_vector<int64_t> begin;
    std::unique_ptr<device_vector<uint32_t>> pixel;
    std::unique_ptr<device_vector<float>> share;
    device_vector<float> picture; // [height][width][4]
    gs_lm_cache cache;
};

TEST_P(Lm, TheCacheHoldsEveryCountedPairOnce) {
    const lm_frame frame(GetParam());
    const cached held(frame);
    std::vector<int64_t> expected(size_t(frame.choice.count));
    int64_t counted = 0;
    for (int64_t k = 0; k < frame.taken.lists.pairs * REFERENCE_TILE_PIXELS; k++)
        if (frame.taken.blend[k] == REFERENCE_COUNTED || frame.taken.blend[k] == REFERENCE_CUT) {
            expected[frame.taken.lists.splat_index[k / REFERENCE_TILE_PIXELS]]++;
            counted++;
        }
    EXPECT_EQ(held.cache.pairs, counted);
    const std::vector<int64_t> begin = held.begin.read();
    std::vector<uint32_t> pixel = held.pixel->read();
    for (int64_t i = 0; i < frame.choice.count; i++) {
        ASSERT_EQ(begin[size_t(i + 1)] - begin[size_t(i)], expected[size_t(i)]) << "splat " << i;
        std::sort(pixel.begin() + begin[size_t(i)], pixel.begin() + begin[size_t(i + 1)]);
        for (int64_t k = begin[size_t(i)]; k < begin[size_t(i + 1)]; k++) {
            ASSERT_TRUE(k == begin[size_t(i)] || pixel[size_t(k - 1)] < pixel[size_t(k)]);
            ASSERT_TRUE(int(pixel[size_t(k)] & 0xffff) < frame.choice.width &&
                        int(pixel[size_t(k)] >> 16) < frame.choice.height);
        }
    }
}

TEST_P(Lm, TheCachedFormAgreesWithTheFreeOne) {
    const lm_frame frame(GetParam());
    cached held(frame);
    const int width = frame.choice.width, height = frame.choice.height;
    reference_gaussians direction = frame.random_direction(7);
    const std::vector<double> change = frame.forward(device_gaussians(direction), true);
    reference_gaussians_destroy(&direction);
    ASSERT_GS_OK(
        gs_lm_cached_forward(&frame.view, &held.cache, frame.tangents.data(), held.picture.data(), NULL));
    const gs_lm_metric metric = {width, height, frame.weight.data(), NULL, NULL};
    ASSERT_GS_OK(gs_lm_metric_apply(&metric, 1, NULL, held.picture.data(), NULL));
    const std::vector<float> read = held.picture.read();
    std::vector<double> planes(change.size());
    for (int64_t i = 0; i < frame.pixels(); i++) {
        for (int c = 0; c < 3; c++) planes[size_t(c * frame.pixels() + i)] = read[size_t(4 * i + c)];
        ASSERT_EQ(read[size_t(4 * i + 3)], 0);
    }
    EXPECT_LE(relative_norm(planes, change), 1e-5);

    frame.backward(frame.change.data());
    const std::vector<double> moments = doubles(frame.read_moments());
    const std::vector<double> squares = frame.take_squares({DISTWAR_TREE, 0});
    for (const distwar_policy &policy : policies) {
        ASSERT_GS_OK(gs_lm_cached_backward(&frame.view, &held.cache, held.picture.data(), policy,
                                           frame.moments.data(), NULL));
        EXPECT_LE(relative_norm(doubles(frame.read_moments()), moments), 1e-5)
            << distwar_strategy_name(policy.strategy);
        ASSERT_GS_OK(gs_lm_cached_squares(&frame.view, &held.cache, frame.weight.data(), policy,
                                          frame.squares.data(), NULL));
        EXPECT_LE(relative_norm(doubles(frame.squares.read()), squares), 1e-5)
            << distwar_strategy_name(policy.strategy);
    }
}

TEST(LmSquares, DoNotDependOnTheReduction) {
    lm_frame frame({2, 128, 1, 1, 50, 37});
    const std::vector<double> atomic = frame.take_squares({DISTWAR_ATOMIC, 0});
    for (const int pixels : {1, 2, 4}) {
        frame.view.lists.pixels_per_thread = pixels;
        for (const distwar_policy &policy : policies)
            EXPECT_LE(relative_norm(frame.take_squares(policy), atomic), 1e-5)
                << distwar_strategy_name(policy.strategy) << ' ' << pixels;
    }
}

TEST_P(Lm, DoNotDependOnThePixelsOfAThread) {
    lm_frame frame(GetParam());
    reference_gaussians direction = frame.random_direction(1);
    const device_gaussians p(direction);
    reference_gaussians_destroy(&direction);
    frame.view.lists.pixels_per_thread = 1;
    const std::vector<double> change = frame.forward(p, false),
                              squares = frame.take_squares({DISTWAR_TREE, 0});
    for (const int pixels : {2, 4}) {
        frame.view.lists.pixels_per_thread = pixels;
        EXPECT_LE(relative_norm(frame.forward(p, false), change), 1e-5) << pixels;
        EXPECT_LE(relative_norm(frame.take_squares({DISTWAR_TREE, 0}), squares), 1e-5) << pixels;
    }
}

INSTANTIATE_TEST_SUITE_P(Scenes, Lm, testing::ValuesIn(comparison_scenes()));

// Small enough for a dense J.
const scene_choice tiny = {5, 32, 1, 1, 23, 17};

struct dense {
    explicit dense(const lm_frame &frame)
        : jacobian(lm_jacobian(frame.lm, frame.scene)), rows(frame.lm.rows()),
          columns(int64_t(jacobian.size()) / rows) {}
    std::vector<double> jacobian;
    int64_t rows, columns;
};

TEST(LmDense, DiagonalIsThatOfExplicitColumns) {
    const lm_frame frame(tiny);
    const dense explicitly(frame);
    std::vector<double> expected;
    for (int64_t k = 0; k < explicitly.columns; k++) {
        const std::vector<double> column(explicitly.jacobian.begin() + k * explicitly.rows,
                                         explicitly.jacobian.begin() + (k + 1) * explicitly.rows);
        expected.push_back(dot(column, column));
    }
    frame.take_squares({DISTWAR_TREE, 0});
    const std::vector<double> got = frame.diagonal();
    EXPECT_LE(relative_norm(got, expected), 1e-4);
    // Groups differ by orders of magnitude: each on its own as well.
    for (int group = 0; group < GROUPS; group++) {
        std::vector<double> mine, wanted;
        for (int64_t i = 0; i < frame.choice.count; i++) {
            const GroupRange range = group_of(frame.scene.gaussians, i, group);
            for (int64_t k = range.begin; k < range.begin + range.size; k++) {
                mine.push_back(got[size_t(k)]);
                wanted.push_back(expected[size_t(k)]);
            }
        }
        EXPECT_LE(relative_norm(mine, wanted), 1e-4) << group_name[group];
    }
}

// The lower triangle of rows first .. first + size - 1 of J^T J, the columns `stride` apart.
std::vector<double> triangle(const dense &of, int64_t first, int size, int stride = 1) {
    std::vector<double> out;
    const auto column = [&](int k) { return of.jacobian.begin() + (first + k * stride) * of.rows; };
    for (int row = 0; row < size; row++)
        for (int k = 0; k <= row; k++)
            out.push_back(std::inner_product(column(row), column(row) + of.rows, column(k), 0.0));
    return out;
}

// The blocks of a frame's Gaussians, from `squares`.
struct block_memory {
    explicit block_memory(const lm_frame &frame) : memory(std::vector<float>(values_of(frame))) {
        EXPECT_GS_OK(gs_lm_add_blocks(&frame.view, frame.squares.data(), memory.data(), NULL));
    }
    static size_t values_of(const lm_frame &frame) {
        size_t bytes = 0;
        EXPECT_GS_OK(gs_lm_blocks_bytes(frame.choice.count, frame.choice.sh_degree, &bytes));
        return bytes / sizeof(float);
    }
    // Of Gaussian i, `size` entries from `first` on.
    std::vector<double> read(const lm_frame &frame, int64_t i, int first, int size) const {
        const std::vector<float> all = memory.read();
        std::vector<double> out;
        for (int k = first; k < first + size; k++) out.push_back(all[size_t(k * frame.choice.count + i)]);
        return out;
    }
    device_vector<float> memory;
};

enum { SHAPE_ENTRIES = 55, OPACITY_ENTRY = 55, SH_ENTRIES = 56 };

// In scenes of more Gaussians than a block has threads, too.
TEST(LmBlocks, HaveTheDiagonalBetweenThem) {
    for (const scene_choice &choice : comparison_scenes()) {
        const lm_frame frame(choice);
        frame.take_squares({DISTWAR_TREE, 0});
        const int bases = (choice.sh_degree + 1) * (choice.sh_degree + 1);
        const std::vector<double> diagonal = frame.diagonal();
        const std::vector<float> blocks = block_memory(frame).memory.read();
        const auto entry = [&](int first, int row, int64_t i) {
            return double(blocks[size_t((first + row * (row + 3) / 2) * choice.count + i)]);
        };
        const double *from = diagonal.data();
        std::vector<double> got, expected;
        for (const auto &[values, row] : {std::pair(3, 0), std::pair(3, 3), std::pair(4, 6)}) {
            got.clear(), expected.clear(); // each array on its own: they differ by orders of magnitude
            for (int64_t k = 0; k < values * choice.count; k++) {
                got.push_back(entry(0, row + int(k % values), k / values));
                expected.push_back(*from++);
            }
            EXPECT_LE(relative_norm(got, expected), 1e-4)
                << testing::PrintToString(choice) << ", row " << row;
        }
        got.clear(), expected.clear();
        for (int64_t i = 0; i < choice.count; i++) {
            got.push_back(entry(OPACITY_ENTRY, 0, i));
            expected.push_back(*from++);
        }
        EXPECT_LE(relative_norm(got, expected), 1e-4) << testing::PrintToString(choice);
        got.clear(), expected.clear();
        for (int64_t k = 0; k < bases * choice.count; k++, from += 3) {
            got.push_back(entry(SH_ENTRIES, int(k % bases), k / bases));
            expected.push_back((from[0] + from[1] + from[2]) / 3);
        }
        EXPECT_LE(relative_norm(got, expected), 1e-4) << testing::PrintToString(choice);
    }
}

TEST(LmDense, BlocksAreThoseOfTheNormalEquations) {
    const scene_choice choices[] = {{5, 10, 0, 0, 23, 17},
                                    {5, 10, 1, 1, 23, 17},
                                    {5, 10, 2, 2, 23, 17},
                                    {5, 10, 3, 3, 23, 17},
                                    {5, 10, 3, 1, 23, 17, false, false, 0.5f}};
    for (const scene_choice &choice : choices) {
        SCOPED_TRACE(testing::PrintToString(choice));
        const int degree = choice.sh_degree;
        const lm_frame frame(choice);
        const dense explicitly(frame);
        frame.take_squares({DISTWAR_TREE, 0});
        const block_memory blocks(frame);
        const reference_gaussians &g = frame.scene.gaussians;
        const int bases = (degree + 1) * (degree + 1);
        std::vector<double> shape, shape_wanted, opacity, opacity_wanted, sh, sh_wanted;
        const auto append = [](std::vector<double> &to, const std::vector<double> &from) {
            to.insert(to.end(), from.begin(), from.end());
        };
        for (int64_t i = 0; i < frame.choice.count; i++) {
            // Mean, log_scale and quaternion lie in three arrays: gathered into neighbouring columns.
            dense gathered = explicitly;
            gathered.jacobian.clear();
            for (const auto &[array, size] :
                 {std::pair(g.mean, 3), std::pair(g.log_scale, 3), std::pair(g.quaternion, 4)})
                for (int k = 0; k < size; k++) {
                    const auto from =
                        explicitly.jacobian.begin() + (array - g.mean + size * i + k) * explicitly.rows;
                    gathered.jacobian.insert(gathered.jacobian.end(), from, from + explicitly.rows);
                }
            append(shape, blocks.read(frame, i, 0, SHAPE_ENTRIES));
            append(shape_wanted, triangle(gathered, 0, 10));
            append(opacity, blocks.read(frame, i, OPACITY_ENTRY, 1));
            append(opacity_wanted, triangle(explicitly, g.opacity_logit - g.mean + i, 1));
            append(sh, blocks.read(frame, i, SH_ENTRIES, bases * (bases + 1) / 2));
            std::vector<double> mean(size_t(bases * (bases + 1) / 2));
            for (int c = 0; c < 3; c++) {
                const std::vector<double> of_channel =
                    triangle(explicitly, g.sh - g.mean + 3 * bases * i + c, bases, 3);
                for (size_t k = 0; k < mean.size(); k++) mean[k] += of_channel[k] / 3;
            }
            append(sh_wanted, mean);
        }
        EXPECT_LE(relative_norm(shape, shape_wanted), 1e-4);
        EXPECT_LE(relative_norm(opacity, opacity_wanted), 1e-4);
        EXPECT_LE(relative_norm(sh, sh_wanted), 1e-4);
        // Another camera's part is added to it.
        const std::vector<float> once = blocks.memory.read();
        ASSERT_GS_OK(gs_lm_add_blocks(&frame.view, frame.squares.data(), blocks.memory.data(), NULL));
        const std::vector<float> twice = blocks.memory.read();
        for (size_t k = 0; k < once.size(); k++) ASSERT_EQ(twice[k], 2 * once[k]) << k;
    }
}

// Against the blocks in double, multiplied back.
TEST(LmDense, BlocksPreconditionByTheirInverse) {
    const float lambda = 0.1f;
    for (const int degree : {0, 1, 2, 3}) {
        const lm_frame frame({5, 24, degree, degree, 23, 17});
        frame.take_squares({DISTWAR_TREE, 0});
        const block_memory blocks(frame);
        std::vector<double> wanted_shape, got_shape, wanted_sh, got_sh;
        std::vector<std::vector<double>> shape, sh, opacity;
        const int bases = (degree + 1) * (degree + 1);
        for (int64_t i = 0; i < frame.choice.count; i++) {
            shape.push_back(blocks.read(frame, i, 0, SHAPE_ENTRIES));
            opacity.push_back(blocks.read(frame, i, OPACITY_ENTRY, 1));
            sh.push_back(blocks.read(frame, i, SH_ENTRIES, bases * (bases + 1) / 2));
        }
        reference_gaussians d = reference_gaussians_create(frame.choice.count, degree);
        reference_gaussians r = reference_gaussians_create(frame.choice.count, degree);
        const std::vector<double> diagonal = frame.diagonal();
        std::copy(diagonal.begin(), diagonal.end(), d.mean);
        // In the units of the diagonal, and nothing where nobody sees anything.
        const std::vector<double> random = random_weights(diagonal.size(), 9);
        for (size_t k = 0; k < diagonal.size(); k++) r.mean[k] = float(random[k] * std::sqrt(diagonal[k]));
        const device_gaussians on_diagonal(d), residual(r), z(frame.choice.count, degree);
        const device_vector<double> sum(std::vector<double>{1});
        ASSERT_GS_OK(gs_lm_factor_blocks(on_diagonal.get(), lambda, blocks.memory.data(), NULL));
        ASSERT_GS_OK(gs_lm_precondition(blocks.memory.data(), on_diagonal.get(), residual.get(), z.get(),
                                        sum.data(), NULL));
        reference_gaussians x = z.read();
        const auto multiplied = [&](const std::vector<double> &a, const std::vector<double> &damping,
                                    const std::vector<double> &by) {
            std::vector<double> out(by.size());
            for (size_t row = 0; row < by.size(); row++)
                for (size_t k = 0; k < by.size(); k++) {
                    const size_t high = std::max(row, k), low = std::min(row, k);
                    out[row] +=
                        (a[high * (high + 1) / 2 + low] + (row == k ? lambda * damping[k] : 0)) * by[k];
                }
            return out;
        };
        double expected_sum = 1;
        for (size_t k = 0; k < diagonal.size(); k++) expected_sum += x.mean[k] * r.mean[k];
        EXPECT_NEAR(sum.read()[0], expected_sum, 1e-5 * expected_sum);
        for (int64_t i = 0; i < frame.choice.count; i++) {
            const auto of_shape = [&](const reference_gaussians &v) {
                std::vector<double> out(v.mean + 3 * i, v.mean + 3 * i + 3);
                out.insert(out.end(), v.log_scale + 3 * i, v.log_scale + 3 * i + 3);
                out.insert(out.end(), v.quaternion + 4 * i, v.quaternion + 4 * i + 4);
                return out;
            };
            const std::vector<double> damping = of_shape(d), right = of_shape(r);
            const std::vector<double> left = multiplied(shape[size_t(i)], damping, of_shape(x));
            for (size_t k = 0; k < left.size(); k++) {
                if (damping[k] <= 0) continue;
                got_shape.push_back(left[k] / std::sqrt(damping[k]));
                wanted_shape.push_back(right[k] / std::sqrt(damping[k]));
            }
            const double of_opacity = opacity[size_t(i)][0] + lambda * d.opacity_logit[i];
            EXPECT_NEAR(x.opacity_logit[i] * of_opacity, r.opacity_logit[i],
                        1e-5 * std::fabs(r.opacity_logit[i]));
            std::vector<double> mean(static_cast<size_t>(bases));
            for (int k = 0; k < 3 * bases; k++) mean[size_t(k / 3)] += d.sh[3 * bases * i + k] / 3;
            for (int c = 0; c < 3; c++) {
                std::vector<double> of_channel, wanted;
                for (int k = 0; k < bases; k++) {
                    of_channel.push_back(x.sh[3 * (bases * i + k) + c]);
                    wanted.push_back(r.sh[3 * (bases * i + k) + c]);
                }
                const std::vector<double> back = multiplied(sh[size_t(i)], mean, of_channel);
                for (int k = 0; k < bases && mean[0] > 0; k++) {
                    const double unit = std::sqrt(mean[size_t(k)]);
                    got_sh.push_back(back[size_t(k)] * d.sh[3 * bases * i + c] / mean[0] / unit);
                    wanted_sh.push_back(d.sh[3 * bases * i + c] > 0 ? wanted[size_t(k)] / unit : 0);
                }
            }
        }
        EXPECT_LE(relative_norm(got_shape, wanted_shape), 1e-3) << "degree " << degree;
        EXPECT_LE(relative_norm(got_sh, wanted_sh), 1e-3) << "degree " << degree;
        for (reference_gaussians *all : {&d, &r, &x}) reference_gaussians_destroy(all);
    }
}

// Blocks of two Gaussians: of the first a row depends on the one before it, and others are not finite.
TEST(LmSolver, RowsThatCannotBeSolvedForAreGivenUp) {
    const auto at = [](int row, int column) { return row * (row + 1) / 2 + column; };
    std::vector<float> blocks(2 * (SH_ENTRIES + 1));
    const auto put = [&](int entry, int i, float value) { blocks[size_t(2 * entry + i)] = value; };
    for (int i = 0; i < 2; i++) {
        for (int row = 0; row < 10; row++) put(at(row, row), i, 4);
        put(OPACITY_ENTRY, i, 4);
        put(SH_ENTRIES, i, 4);
    }
    put(at(1, 0), 0, -4);
    put(at(1, 1), 0, 4.00001f); // all but rounding
    put(at(4, 2), 0, NAN);
    put(at(6, 6), 0, INFINITY);
    put(at(7, 3), 0, INFINITY);
    put(OPACITY_ENTRY, 0, NAN);
    put(SH_ENTRIES, 0, NAN);
    reference_gaussians ones = reference_gaussians_create(2, 0);
    std::fill_n(ones.mean, reference_gaussians_values(&ones), 1.0);
    const device_gaussians all(ones), z(2, 0);
    const device_vector<float> memory(blocks);
    const device_vector<double> sum(std::vector<double>{0});
    ASSERT_GS_OK(gs_lm_factor_blocks(all.get(), 0, memory.data(), NULL));
    ASSERT_GS_OK(gs_lm_precondition(memory.data(), all.get(), all.get(), z.get(), sum.data(), NULL));
    reference_gaussians x = z.read();
    double expected_sum = 0;
    for (int i = 0; i < 2; i++) {
        const double wanted = 0.25, lost = i == 0 ? 0 : wanted;
        const double shape[10] = {wanted, lost, wanted, wanted, lost, wanted, lost, lost, wanted, wanted};
        for (int k = 0; k < 3; k++) EXPECT_NEAR(x.mean[3 * i + k], shape[k], 1e-6) << i << ' ' << k;
        for (int k = 0; k < 3; k++) EXPECT_NEAR(x.log_scale[3 * i + k], shape[3 + k], 1e-6) << i << ' ' << k;
        for (int k = 0; k < 4; k++) EXPECT_NEAR(x.quaternion[4 * i + k], shape[6 + k], 1e-6) << i << ' ' << k;
        EXPECT_NEAR(x.opacity_logit[i], lost, 1e-6);
        for (int c = 0; c < 3; c++) EXPECT_NEAR(x.sh[3 * i + c], lost, 1e-6);
        expected_sum += std::accumulate(shape, shape + 10, 4 * lost);
    }
    EXPECT_NEAR(sum.read()[0], expected_sum, 1e-6);
    for (reference_gaussians *both : {&ones, &x}) reference_gaussians_destroy(both);
}

TEST(LmDense, ConjugateGradientsFindTheSolutionOfTheNormalEquations) {
    const lm_frame frame(tiny);
    dense explicitly(frame);
    frame.take_squares({DISTWAR_TREE, 0});
    // Some parameters do next to nothing, as the width of a needle: what finite differences make of them is
    // noise. Both sides leave them out.
    std::vector<double> diagonal = frame.diagonal();
    const double largest = *std::max_element(diagonal.begin(), diagonal.end());
    for (size_t k = 0; k < diagonal.size(); k++)
        if (diagonal[k] < 1e-10 * largest) {
            diagonal[k] = 0;
            std::fill_n(explicitly.jacobian.begin() + int64_t(k) * explicitly.rows, explicitly.rows, 0.0);
        }
    const float lambda = 1;
    std::vector<double> expected(static_cast<size_t>(explicitly.columns));
    reference_lm_solve(explicitly.jacobian.data(), frame.lm.residuals(frame.lm.base).data(), explicitly.rows,
                       explicitly.columns, lambda, expected.data());

    std::vector<double> right = frame.backward(frame.slope.data());
    const auto floats = [](const std::vector<double> &v, double scale = 1) {
        std::vector<float> out;
        for (const double value : v) out.push_back(float(scale * value));
        return out;
    };
    const int iterations = 150;
    const int64_t values = explicitly.columns;
    const device_vector<float> b(floats(right, -1)), d(floats(diagonal)), x(b.read().size()),
        residual(b.read().size()), direction(b.read().size());
    const device_vector<double> scalars(size_t(2 * iterations + 1));
    const gs_lm_pcg pcg = {values, x.data(), residual.data(), direction.data(), scalars.data()};
    ASSERT_GS_OK(gs_lm_pcg_start(&pcg, b.data(), iterations, NULL));
    ASSERT_GS_OK(gs_lm_precondition_diagonal(d.data(), residual.data(), values, direction.data(),
                                             scalars.data(), NULL));
    for (int k = 0; k < iterations; k++) {
        reference_gaussians p = reference_gaussians_create(frame.choice.count, frame.choice.sh_degree);
        const std::vector<float> now = direction.read();
        std::copy(now.begin(), now.end(), p.mean);
        frame.forward(device_gaussians(p), true);
        reference_gaussians_destroy(&p);
        const device_vector<float> product(floats(frame.backward(frame.change.data())));
        ASSERT_GS_OK(gs_lm_pcg_step(&pcg, d.data(), lambda, k, product.data(), NULL));
        ASSERT_GS_OK(gs_lm_precondition_diagonal(d.data(), residual.data(), values, product.data(),
                                                 scalars.data() + 2 * k + 2, NULL));
        ASSERT_GS_OK(gs_lm_pcg_update(&pcg, product.data(), k, NULL));
    }
    // In the norm in which the preconditioner sees them: parameters have units of their own.
    std::vector<double> got = doubles(x.read());
    for (size_t k = 0; k < got.size(); k++) {
        if (diagonal[k] == 0) {
            EXPECT_EQ(got[k], 0);
        }
        got[k] *= std::sqrt(diagonal[k]);
        expected[k] *= std::sqrt(diagonal[k]);
    }
    EXPECT_LE(relative_norm(got, expected), 1e-3);
}

TEST(LmEdges, AnEmptySceneHasNoPairsAndNoChange) {
    const lm_frame frame({1, 0, 0, 0, 20, 30});
    cached held(frame);
    EXPECT_EQ(held.cache.pairs, 0);
    const device_gaussians none(0, 0);
    for (const double value : frame.forward(none, true)) ASSERT_EQ(value, 0);
    frame.take_squares({DISTWAR_BFLY, 0});
    ASSERT_GS_OK(gs_lm_cached_forward(&frame.view, &held.cache, NULL, held.picture.data(), NULL));
    for (const float value : held.picture.read()) ASSERT_EQ(value, 0);
    size_t bytes = 1;
    ASSERT_GS_OK(gs_lm_blocks_bytes(0, 3, &bytes));
    EXPECT_EQ(bytes, 0u);
    ASSERT_GS_OK(gs_lm_add_blocks(&frame.view, NULL, NULL, NULL));
    ASSERT_GS_OK(gs_lm_factor_blocks(none.get(), 1, NULL, NULL));
    const device_vector<double> sum(std::vector<double>{7});
    ASSERT_GS_OK(gs_lm_precondition(NULL, none.get(), none.get(), none.get(), sum.data(), NULL));
    EXPECT_EQ(sum.read()[0], 7);
}

TEST(LmEdges, BadArgumentsAreNamed) {
    const lm_frame frame(tiny);
    const device_vector<double> sum(1);
    const device_vector<uint8_t> target(size_t(3 * frame.pixels()));
    const gs_comparison images = {23, 17, frame.color.data(), target.data(), nullptr};
    EXPECT_EQ(gs_lm_weights(&images, 0, sum.data(), NULL, NULL, NULL), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("epsilon"), std::string::npos) << gs_last_error();
    EXPECT_EQ(gs_lm_squares(&frame.view, frame.weight.data(), {DISTWAR_BLOCK, 0}, frame.squares.data(), NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("gs_lm_squares: strategy block is not supported"),
              std::string::npos)
        << gs_last_error();
    const device_gaussians other(31, 1), given(32, 1, true);
    const gs_lm_view one = {frame.view.camera, frame.splats.data(), frame.tangents.data()};
    EXPECT_EQ(gs_lm_tangents(frame.gaussians.get(), 1, &one, 1, other.get(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_lm_tangents(frame.gaussians.get(), 1, &one, 0, given.get(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("GS_LM_VIEWS"), std::string::npos) << gs_last_error();
    EXPECT_EQ(gs_lm_tangents(given.get(), 1, &one, 1, given.get(), NULL), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("not parameters"), std::string::npos) << gs_last_error();
    gs_lm_cache cache = {};
    EXPECT_EQ(gs_lm_cache_begin(&frame.view, NULL, 0, &cache, NULL), GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_lm_cache_begin: cache and its begin must be given");
    const device_vector<int64_t> begin(33);
    cache.begin = begin.data();
    EXPECT_EQ(gs_lm_cache_begin(&frame.view, NULL, 0, &cache, NULL), GS_INVALID_ARGUMENT);
    EXPECT_NE(std::string(gs_last_error()).find("gs_lm_cache_begin: the workspace"), std::string::npos)
        << gs_last_error();
    EXPECT_EQ(gs_lm_cached_squares(&frame.view, &cache, frame.weight.data(), {DISTWAR_FIXED, 0},
                                   frame.squares.data(), NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_lm_cached_squares: strategy fixed is not supported");
    EXPECT_EQ(gs_lm_cached_backward(&frame.view, &cache, frame.weight.data(), {DISTWAR_TREE, 34},
                                    frame.moments.data(), NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_lm_cached_backward: balance_threshold must be in 0..33");
    gs_lm_metric metric = {23, 18, frame.weight.data(), frame.slope.data(), NULL};
    EXPECT_EQ(gs_lm_gauss_newton_metric(&images, epsilon, frame.change.data(), &metric, NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_lm_gauss_newton_metric: the metric must have the size of the images");
    metric.height = 17, metric.mask = target.data();
    EXPECT_EQ(gs_lm_gauss_newton_metric(&images, epsilon, frame.change.data(), &metric, NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_lm_gauss_newton_metric: the metric must have the mask of the images");
    gs_view antialiased = frame.view;
    antialiased.gaussians.antialias = 1;
    EXPECT_EQ(gs_lm_add_diagonal(&antialiased, frame.squares.data(), frame.gaussians.get(), NULL),
              GS_INVALID_ARGUMENT);
    EXPECT_STREQ(gs_last_error(), "gs_lm_add_diagonal: antialiased scenes and a low_pass are not supported");
}

TEST(LmEdges, BadArgumentsOfTheSolverAreNamed) {
    const auto refused = [](gs_status status, const char *text) {
        EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
        EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos) << gs_last_error();
    };
    const device_gaussians a(4, 1), fewer(3, 1), flatter(4, 0);
    const gs_gaussians *v = a.get();
    size_t bytes = 0;
    refused(gs_lm_blocks_bytes(-1, 1, &bytes), "gs_lm_blocks_bytes: count");
    refused(gs_lm_blocks_bytes(int64_t(1) << 31, 1, &bytes), "gs_lm_blocks_bytes: count");
    refused(gs_lm_blocks_bytes(4, 4, &bytes), "gs_lm_blocks_bytes: sh_degree");
    refused(gs_lm_blocks_bytes(4, 1, NULL), "bytes must be given");
    ASSERT_GS_OK(gs_lm_blocks_bytes(4, 1, &bytes));
    EXPECT_EQ(bytes, 4u * 66 * sizeof(float));
    const device_vector<float> blocks(std::vector<float>(bytes / sizeof(float)));
    const device_vector<double> sum(3);
    float *const x = blocks.data();

    const lm_frame frame(tiny);
    const auto add = [&](const float *squares, float *to) {
        return gs_lm_add_blocks(&frame.view, squares, to, NULL);
    };
    refused(add(NULL, x), "gs_lm_add_blocks: squares and blocks");
    refused(add(frame.squares.data(), NULL), "gs_lm_add_blocks: squares and blocks");
    for (const float lambda : {-1.0f, NAN, INFINITY})
        refused(gs_lm_factor_blocks(v, lambda, x, NULL), "gs_lm_factor_blocks: lambda");
    refused(gs_lm_factor_blocks(v, 1, NULL, NULL), "gs_lm_factor_blocks: blocks");
    refused(gs_lm_factor_blocks(NULL, 1, x, NULL), "gs_lm_factor_blocks: Gaussians, and vectors");
    refused(gs_lm_precondition(x, v, fewer.get(), v, sum.data(), NULL),
            "gs_lm_precondition: count or sh_degree");
    refused(gs_lm_precondition(x, v, v, flatter.get(), sum.data(), NULL),
            "gs_lm_precondition: count or sh_degree");
    refused(gs_lm_precondition(NULL, v, v, v, sum.data(), NULL), "gs_lm_precondition: blocks and sum");
    refused(gs_lm_precondition(x, v, v, v, NULL, NULL), "gs_lm_precondition: blocks and sum");

    refused(gs_lm_precondition_diagonal(x, x, -1, x, sum.data(), NULL), "gs_lm_precondition_diagonal: an");
    refused(gs_lm_precondition_diagonal(x, x, 4, x, NULL, NULL), "gs_lm_precondition_diagonal: an");
    const gs_lm_pcg pcg = {4, x, x, x, sum.data()};
    refused(gs_lm_pcg_start(&pcg, x, -1, NULL), "gs_lm_pcg_start: iterations");
    refused(gs_lm_pcg_start(&pcg, NULL, 1, NULL), "gs_lm_pcg_start: right");
    refused(gs_lm_pcg_start(NULL, x, 1, NULL), "gs_lm_pcg_start: pcg");
    refused(gs_lm_pcg_step(&pcg, x, NAN, 0, x, NULL), "gs_lm_pcg_step: lambda");
    refused(gs_lm_pcg_step(&pcg, x, 1, 0, NULL, NULL), "gs_lm_pcg_step: diagonal and product");
    refused(gs_lm_pcg_update(&pcg, x, -1, NULL), "gs_lm_pcg_update: iteration");
    refused(gs_lm_pcg_update(&pcg, NULL, 0, NULL), "gs_lm_pcg_update: z");
    gs_lm_pcg wrong = pcg;
    wrong.values = -1;
    refused(gs_lm_pcg_start(&wrong, x, 1, NULL), "gs_lm_pcg_start: pcg must be given and values");
    for (const auto member : {&gs_lm_pcg::x, &gs_lm_pcg::residual, &gs_lm_pcg::direction}) {
        wrong = pcg;
        wrong.*member = NULL;
        refused(gs_lm_pcg_step(&wrong, x, 1, 0, x, NULL),
                "gs_lm_pcg_step: x, residual, direction and scalars");
    }
}

} // namespace
