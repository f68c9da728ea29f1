// SPDX-License-Identifier: MIT
// Steps of Levenberg-Marquardt as the command takes them: they lower the objective, or are undone to the byte.
#include "kernel_frame.h"
extern "C" {
#include "device.h"
#include "frame.h"
#include "solver.h"
#include "scene.h"
}
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

namespace {

// Five cameras before a cloud of grey Gaussians, and pictures of coloured stripes.
class problem {
  public:
    explicit problem(int64_t count = 60) {
        const int width = 24, height = 20;
        fault why;
        EXPECT_TRUE(scene_open(&host, count, 1, &why)) << why.text;
        for (int64_t i = 0; i < host.count; i++) {
            const float column = float(i % 10), row = float(i / 10 % 6);
            const float mean[3] = {0.2f * (column - 4.5f), 0.25f * (row - 2.5f),
                                   3 + 0.1f * std::sin(float(i))};
            const float quaternion[4] = {1, 0.1f * column, -0.1f * row, 0.05f};
            std::memcpy(host.mean + 3 * i, mean, sizeof mean);
            std::memcpy(host.quaternion + 4 * i, quaternion, sizeof quaternion);
            for (int k = 0; k < 3; k++) host.log_scale[3 * i + k] = -2 + 0.1f * float(k);
            host.opacity_logit[i] = 0.5f * std::cos(float(i));
            for (int k = 0; k < 12; k++) host.sh[12 * i + k] = 0;
        }
        for (int v = 0; v < 5; v++) {
            gs_camera camera = {width, height, 20,         21, 12.5f, 9.5f, {1, 0, 0, 0, 1, 0, 0, 0, 1},
                                {},    0.2f,   GS_PINHOLE, {}, 0};
            camera.translation[0] = 0.1f * float(v - 2);
            image picture;
            EXPECT_TRUE(image_open(&picture, width, height, 3, &why)) << why.text;
            for (int i = 0; i < width * height; i++)
                for (int c = 0; c < 3; c++)
                    picture.pixels[3 * i + c] =
                        uint8_t(127 + 100 * std::sin(0.4 * (i % width + 2 * v) + 0.3 * c * (i / width)));
            target_view view;
            EXPECT_TRUE(target_view_open(&view, &camera, &picture, &why)) << why.text;
            pictures.push_back(picture), cameras.push_back(camera), views.push_back(view);
        }
        device = device_gaussians_open(host.count, host.sh_degree);
        device_gaussians_copy(&device, &host);
    }
    ~problem() {
        device_gaussians_close(&device);
        scene_close(&host);
        for (target_view &view : views) target_view_close(&view);
        for (image &picture : pictures) image_close(&picture);
    }
    problem(const problem &) = delete;

    // The steps, which must end well.
    const std::vector<lm_step> &finished(const lm_settings &settings) {
        EXPECT_TRUE(finish_on(views, settings)) << why.text;
        return steps;
    }
    bool finish_on(const std::vector<target_view> &of, const lm_settings &settings) {
        steps.clear();
        const auto observe = [](void *context, const lm_step *step, fault *) {
            static_cast<std::vector<lm_step> *>(context)->push_back(*step);
            return true;
        };
        return finish_lm(&device, of.data(), of.size(), &settings, observe, &steps, &why);
    }
    std::vector<char> bytes() const {
        return downloaded(reinterpret_cast<const char *>(device.mean),
                          device_gaussians_bytes(device.count, device.sh_degree));
    }

    gs_gaussians host = {}, device = {};
    std::vector<gs_camera> cameras;
    std::vector<image> pictures;
    std::vector<target_view> views;
    std::vector<lm_step> steps;
    fault why = {};
};

std::vector<float> read(const gs_gaussians &vector) {
    return downloaded(vector.mean, device_gaussians_bytes(vector.count, vector.sh_degree) / sizeof(float));
}

// A value for each parameter, on the device.
struct vector_of : gs_gaussians {
    explicit vector_of(const problem &p)
        : gs_gaussians(device_gaussians_open(p.device.count, p.device.sh_degree)) {
        device_clear(mean, device_gaussians_bytes(count, sh_degree));
    }
    ~vector_of() { device_gaussians_close(this); }
    vector_of(const vector_of &) = delete;
};

// One view after another, as finish_lm has them.
struct opened_views {
    explicit opened_views(const problem &p, lm_form form = LM_FREE)
        : opened(p.views.size()), objective(p.views.size()) {
        scene.form = form;
        scene.gaussians = &p.device;
        scene.epsilon = 1e-3f;
        scene.policy.strategy = DISTWAR_TREE;
        lm_clock_open(&clock);
        scene.clock = &clock;
    }
    ~opened_views() {
        lm_scene_close(&scene);
        for (lm_view &view : opened) lm_view_close(&view);
        lm_clock_close(&clock);
    }
    void open(const problem &p, size_t i, const gs_gaussians *gradient = NULL) {
        objective[i] = lm_view_open(&opened[i], &scene, &p.views[i], gradient);
    }
    // J^T J p of the first `count` views.
    std::vector<float> product(const problem &p, size_t count) {
        const vector_of out(p);
        lm_views_product(opened.data(), count, &scene, &p.device, &out, NULL);
        return read(out);
    }
    lm_scene scene = {};
    lm_clock clock;
    std::vector<lm_view> opened;
    std::vector<double> objective;
};

void compare_gradient(gs_lm_objective objective, lm_form form, double tolerance) {
    problem p;
    opened_views views(p, form);
    views.scene.objective = objective;
    const vector_of gradient(p);
    views.open(p, 2, &gradient);
    const std::vector<float> by = read(gradient);
    // Along the gradient of each array on its own, by differences of the whole objective. Its jumps where a
    // pixel begins to count, which no gradient sees, are why this agrees so roughly.
    const struct {
        float *gs_gaussians::*array;
        int64_t values;
        float step;
    } arrays[] = {{&gs_gaussians::mean, 3, 1e-3f},
                  {&gs_gaussians::log_scale, 3, 1e-2f},
                  {&gs_gaussians::quaternion, 4, 1e-2f},
                  {&gs_gaussians::opacity_logit, 1, 1e-2f},
                  {&gs_gaussians::sh, 12, 1e-2f}};
    for (const auto &a : arrays) {
        float *const x = p.device.*a.array, *const g = gradient.*a.array;
        const int64_t n = a.values * p.device.count;
        const std::vector<float> part(by.begin() + (g - gradient.mean), by.begin() + (g - gradient.mean) + n);
        double square = 0, largest = 0;
        for (const float value : part) {
            square += double(value) * value;
            largest = std::fmax(largest, std::fabs(value));
        }
        const float step = a.step / float(largest);
        ASSERT_EQ(gs_lm_add(x, step, NULL, g, n), GS_OK);
        const double above = lm_picture_objective(&views.scene, &p.views[2]);
        ASSERT_EQ(gs_lm_add(x, -2 * step, NULL, g, n), GS_OK);
        const double below = lm_picture_objective(&views.scene, &p.views[2]);
        ASSERT_EQ(gs_lm_add(x, step, NULL, g, n), GS_OK);
        EXPECT_NEAR((above - below) / (4 * double(step)), square, tolerance * square) << a.values;
    }
}

TEST(LmView, TheGradientIsThatOfTheObjective) {
    compare_gradient(GS_LM_L1_SSIM, LM_FREE, 0.1);
    compare_gradient(GS_LM_L1_SSIM, LM_CACHED, 0.1);
    compare_gradient(GS_LM_L2, LM_FREE, 0.15);
}

TEST(LmView, KeepsWhatProductsNeedWhileOthersAreOpened) {
    for (const lm_form form : {LM_FREE, LM_CACHED}) {
        problem p(300);
        opened_views views(p, form);
        const vector_of gradient(p);
        views.open(p, 0, &gradient);
        EXPECT_EQ(views.opened[0].cache.pairs > 0, form == LM_CACHED);
        ASSERT_GT(views.opened[0].view.ranges.split_tiles, 0);
        const std::vector<float> before = views.product(p, 1);
        ASSERT_NE(before, std::vector<float>(before.size()));
        for (size_t i = 1; i < p.views.size(); i++) views.open(p, i, &gradient);
        EXPECT_LE(relative_norm(views.product(p, 1), before), 1e-5);
    }
}

// d^T (J^T J d), with the coupling of SSIM's windows and without.
TEST(LmView, TheCurvatureIsThatOfTheProduct) {
    for (const bool centre : {false, true}) {
        problem p;
        opened_views views(p);
        views.scene.centre_only = centre;
        for (size_t i = 0; i < p.views.size(); i++) views.open(p, i);
        const std::vector<float> along = read(p.device), times = views.product(p, 5);
        const double expected = std::inner_product(along.begin(), along.end(), times.begin(), 1.0);
        const device_vector<double> sum(std::vector<double>{1});
        lm_views_product(views.opened.data(), 5, &views.scene, &p.device, NULL, sum.data());
        EXPECT_NEAR(sum.read()[0], expected, 1e-4 * expected) << centre;
    }
}

// For each pixel its metric (24, without a coupling 12), what is left of the light behind all (4) and where that was
// (4); its colours (12) only for tiles that two blocks share. 20 for each pair of a cache.
TEST(LmView, KeepsWhatItNeedsAndNoMore) {
    for (const lm_form form : {LM_FREE, LM_CACHED})
        for (const bool centre : {false, true})
            for (const size_t count : {60, 300}) {
                SCOPED_TRACE(testing::Message() << form << ' ' << centre << ' ' << count);
                problem p{int64_t(count)};
                opened_views views(p, form);
                views.scene.centre_only = centre;
                const vector_of gradient(p);
                for (size_t i = 0; i < p.views.size(); i++) {
                    const size_t needs = lm_view_needs(&views.scene, &p.views[i]);
                    views.open(p, i, &gradient);
                    const lm_view &view = views.opened[i];
                    const gs_tile_ranges &ranges = view.view.ranges;
                    const size_t pixels = 24 * 20, tiles = 4;
                    ASSERT_EQ(size_t(ranges.tiles_x * ranges.tiles_y), tiles);
                    EXPECT_EQ(ranges.split_tiles > 0, count == 300);
                    EXPECT_EQ(view.metric.coupling == NULL, centre);
                    const size_t cache =
                        form == LM_CACHED ? 20 * size_t(view.cache.pairs) + 8 * (count + 2) : 0;
                    const size_t by_pixel = (count == 300 ? 44 : 32) - (centre ? 12 : 0);
                    EXPECT_EQ(needs, by_pixel * pixels + count * sizeof(gs_splat) +
                                         (tiles + 1) * sizeof(int64_t) +
                                         size_t(ranges.isects) * sizeof(uint32_t) +
                                         (ranges.tile_order ? tiles * sizeof(uint32_t) : 0) + cache);
                    EXPECT_EQ(lm_view_bytes(&view), needs);
                }
            }
}

TEST(LmView, PartsAreOfEqualSize) {
    const size_t rows[][3] = {
        {8, 8, 8}, {9, 8, 5}, {4, 8, 4}, {100, 70, 50}, {71, 70, 36}}; // no batch of one
    for (const auto &[views, most, part] : rows) EXPECT_EQ(lm_equal_part(views, most), part) << views;
}

lm_settings settings_with(int64_t steps) {
    lm_settings settings = lm_settings_default();
    settings.steps = steps;
    // For a start from grey: what finishing begins with does not suit it.
    settings.by_length = false;
    settings.radius = 0;
    settings.unit_weight = 1;
    settings.pcg_iterations = 8;
    return settings;
}

lm_settings settings_to_solve(bool diagonal_only, int64_t iterations) {
    lm_settings settings = settings_with(1);
    settings.diagonal_only = diagonal_only;
    settings.pcg_iterations = iterations;
    return settings;
}

TEST(LmFinish, StepsLowerTheObjective) {
    const struct {
        int64_t pcg_iterations;
        bool centre_only;
        gs_lm_objective objective;
        double part; // of the objective, that is left at most
    } cases[] = {{8, false, GS_LM_L1_SSIM, 0.9}, {4, true, GS_LM_L1_SSIM, 0.9}, {4, false, GS_LM_L2, 0.5}};
    for (const auto &c : cases) {
        problem p;
        lm_settings settings = settings_with(4);
        settings.pcg_iterations = c.pcg_iterations;
        settings.centre_only = c.centre_only;
        settings.objective = c.objective;
        const std::vector<lm_step> &steps = p.finished(settings);
        ASSERT_EQ(steps.size(), 4u);
        int kept = 0;
        for (const lm_step &step : steps) {
            kept += step.kept;
            EXPECT_TRUE(!step.kept || step.after < step.before) << step.step;
            EXPECT_EQ(step.images, 5);
            EXPECT_EQ(step.batches, 1);
        }
        EXPECT_GE(kept, 3);
        // Each begins where the one before it ended.
        for (size_t i = 1; i < 4; i++)
            EXPECT_NEAR(steps[i].before, steps[i - 1].kept ? steps[i - 1].after : steps[i - 1].before,
                        1e-6 * steps[i].before);
        EXPECT_LT(steps[3].after, c.part * steps[0].before);
        EXPECT_EQ(steps[1].damping, settings.damping / 2);
    }
}

TEST(LmFinish, AStepThatGainsTooLittleIsUndoneToTheByte) {
    problem p;
    lm_settings settings = settings_with(2);
    settings.least_gain = 1e9;
    const std::vector<char> before = p.bytes();
    EXPECT_FALSE(p.finished(settings)[1].kept);
    EXPECT_EQ(p.steps[1].damping, 2 * settings.damping);
    EXPECT_EQ(p.bytes(), before);
}

TEST(LmFinish, ByLengthTheDampingFollowsTheSearch) {
    problem p;
    lm_settings settings = settings_with(2);
    settings.by_length = true;
    ASSERT_TRUE(p.finished(settings)[0].kept);
    const double factor = std::fmin(std::fmax(0.5 / p.steps[0].gamma, 0.25), 8);
    EXPECT_DOUBLE_EQ(p.steps[1].damping, factor * settings.damping);
    EXPECT_GT(std::fabs(factor - 0.5), 1e-3); // which the other rule would have
}

TEST(LmFinish, NoGaussianGoesFartherThanTheRadius) {
    problem p;
    lm_settings settings = settings_with(1);
    settings.radius = 0.05f;
    ASSERT_TRUE(p.finished(settings)[0].kept);
    const std::vector<float> after = downloaded(p.device.log_scale, size_t(3 * p.host.count));
    float farthest = 0;
    for (size_t k = 0; k < after.size(); k++)
        farthest = std::fmax(farthest, std::fabs(after[k] - p.host.log_scale[k]));
    EXPECT_LE(farthest, 1.0001f * float(p.steps[0].gamma) * settings.radius);
    EXPECT_GE(farthest, 0.9f * float(p.steps[0].gamma) * settings.radius); // some would have
}

// The solution of one step's equations: the Gaussians' change over gamma.
std::vector<double> solution_on(problem &p, const std::vector<target_view> &views,
                                const lm_settings &settings) {
    const std::vector<float> start = read(p.device);
    EXPECT_TRUE(p.finish_on(views, settings)) << p.why.text;
    EXPECT_TRUE(p.steps[0].kept);
    const std::vector<float> end = read(p.device);
    std::vector<double> out(start.size());
    for (size_t k = 0; k < out.size(); k++) out[k] = (double(end[k]) - start[k]) / p.steps[0].gamma;
    return out;
}

// bytes: that the step took, unless NULL.
std::vector<double> solution_of(const lm_settings &settings, size_t *bytes = NULL) {
    problem p;
    const std::vector<double> out = solution_on(p, p.views, settings);
    if (bytes) *bytes = p.steps[0].bytes;
    return out;
}

// The preconditioner changes how soon conjugate gradients converge, not where to.
TEST(LmFinish, EitherPreconditionerLeadsToTheSameStep) {
    size_t with_blocks, without;
    const std::vector<double> by_diagonal = solution_of(settings_to_solve(true, 60), &without),
                              by_blocks = solution_of(settings_to_solve(false, 60), &with_blocks);
    EXPECT_LE(relative_norm(by_blocks, by_diagonal), 1e-2);
    EXPECT_LE(relative_norm(solution_of(settings_to_solve(false, 4)), by_diagonal),
              0.5 * relative_norm(solution_of(settings_to_solve(true, 4)), by_diagonal));
    EXPECT_EQ(with_blocks, without + gs_lm_blocks_bytes(60, 1));
}

TEST(LmFinish, UnitsHoldAllParameters) {
    lm_settings settings = settings_to_solve(false, 8);
    double square[2] = {};
    for (const bool heavy : {false, true}) {
        settings.unit_weight = heavy ? 1e5f : 1;
        for (const double value : solution_of(settings)) square[heavy] += value * value;
    }
    EXPECT_GT(square[true], 0);
    EXPECT_LE(square[true], 1e-2 * square[false]);
}

TEST(LmFinish, TheCachedFormTakesTheSameStep) {
    for (const bool centre : {false, true}) {
        lm_settings settings = settings_with(1);
        settings.centre_only = centre;
        problem p, q;
        const lm_step free = p.finished(settings)[0];
        settings.form = LM_CACHED;
        const lm_step cached = q.finished(settings)[0];
        EXPECT_NEAR(free.before, cached.before, 1e-6 * free.before);
        EXPECT_NEAR(free.after, cached.after, 1e-4 * free.after);
        EXPECT_GT(cached.bytes, free.bytes);
    }
}

// Equation 7: each batch is solved alone, and diag(J^T J) of its images weighs its update. Strided, two batches of two of
// five views are 0 and 2, 1 and 3.
TEST(LmFinish, AStepOfSeveralBatchesIsTheirWeightedMean) {
    lm_settings settings = settings_to_solve(true, 4);
    settings.unit_weight = 0;
    settings.strided = true;
    std::vector<double> sum, weights;
    for (const size_t first : {0u, 1u}) {
        problem p;
        opened_views opened(p);
        const vector_of diagonal(p);
        const std::vector<target_view> batch = {p.views[first], p.views[first + 2]};
        for (const size_t i : {first, first + 2}) {
            opened.open(p, i);
            lm_view_add_diagonal(&opened.opened[i], &opened.scene, &diagonal, NULL);
        }
        const std::vector<float> weight = read(diagonal);
        const std::vector<double> update = solution_on(p, batch, settings);
        sum.resize(update.size()), weights.resize(update.size());
        for (size_t k = 0; k < update.size(); k++) {
            sum[k] += double(weight[k]) * update[k];
            weights[k] += double(weight[k]);
        }
    }
    for (size_t k = 0; k < sum.size(); k++) sum[k] = weights[k] > 0 ? sum[k] / weights[k] : 0;
    settings.batch = settings.batches = 2;
    for (const lm_form form : {LM_FREE, LM_CACHED}) {
        settings.form = form;
        problem p;
        EXPECT_LE(relative_norm(solution_on(p, p.views, settings), sum), 1e-3);
        EXPECT_EQ(p.steps[0].images, 4);
        EXPECT_EQ(p.steps[0].batches, 2);
    }
}

TEST(LmFinish, AStepTakesAsManyViewsAndBatchesAsItIsGiven) {
    const struct {
        int64_t batch, batches;
        bool strided;
    } cases[] = {{3, 1, false}, {2, 2, false}, {2, 2, true}};
    for (const auto &c : cases) {
        problem p;
        lm_settings settings = settings_with(2);
        settings.batch = c.batch, settings.batches = c.batches;
        settings.strided = c.strided;
        settings.pcg_iterations = c.batches > 1 ? 3 : 8;
        for (const lm_step &step : p.finished(settings)) {
            EXPECT_EQ(step.images, c.batch * c.batches);
            EXPECT_EQ(step.batches, c.batches);
            EXPECT_TRUE(step.kept);
            EXPECT_LT(step.after, step.before);
        }
    }
}

// Two of five at equal distances are 0 and 2, in the next step 1 and 3. Steps that are undone leave the Gaussians.
TEST(LmFinish, StridedViewsAreAtEqualDistances) {
    lm_settings settings = settings_with(2);
    settings.batch = 2;
    settings.strided = true;
    settings.pcg_iterations = 1;
    settings.least_gain = 1e9;
    problem strided;
    strided.finished(settings);
    settings.steps = 1;
    for (size_t s = 0; s < 2; s++) {
        problem chosen;
        ASSERT_TRUE(chosen.finish_on({chosen.views[s], chosen.views[s + 2]}, settings)) << chosen.why.text;
        EXPECT_NEAR(strided.steps[s].before, chosen.steps[0].before, 1e-6 * chosen.steps[0].before);
    }
}

// Of squares and short steps the model is right, if it is of all batches.
TEST(LmFinish, TheGainOfSeveralBatchesIsAsPredicted) {
    lm_settings settings = settings_with(1);
    settings.objective = GS_LM_L2;
    settings.damping = 1e3;
    settings.pcg_iterations = 2;
    for (const int64_t batch : {2, 5}) {
        settings.batch = batch;
        settings.batches = 3;
        problem p;
        const lm_step step = p.finished(settings)[0];
        EXPECT_EQ(step.images, 5);
        EXPECT_EQ(step.batches, batch == 2 ? 3 : 1);
        EXPECT_NEAR(step.gain, 1, 0.1) << batch;
    }
}

TEST(LmFinish, KeepsToItsMemory) {
    lm_settings settings = settings_with(1);
    settings.form = LM_CACHED;
    settings.pcg_iterations = 1;
    int64_t batches = 1;
    size_t bytes = 2 << 20;
    for (; batches < 3; bytes = bytes * 3 / 4) {
        settings.memory = double(bytes) / 0x1p30;
        problem less;
        const lm_step step = less.finished(settings)[0];
        EXPECT_LE(step.bytes, bytes);
        batches = step.batches;
        EXPECT_TRUE(step.kept);
    }
    EXPECT_GT(batches, 1);
    settings.memory = 1e-6;
    problem none;
    const std::vector<char> before = none.bytes();
    EXPECT_FALSE(none.finish_on(none.views, settings));
    const std::string said = none.why.text;
    EXPECT_EQ(said.find("one view does not fit: 9.99e-07 GiB are allowed, and 0.000"), 0u) << said;
    EXPECT_NE(said.find(" are in use without it; raise --lm-memory or --downscale, or take --lm-form free"),
              std::string::npos)
        << said;
    EXPECT_EQ(none.bytes(), before);
}

// One iteration from x = P b, in double precision beside the products of the views.
TEST(LmFinish, ConjugateGradientsMayStartAtThePreconditionedRightHandSide) {
    lm_settings settings = settings_to_solve(true, 1);
    settings.unit_weight = 0;
    settings.start_preconditioned = true;
    problem p;
    opened_views views(p);
    const vector_of right_on_device(p), diagonal_on_device(p), direction_on_device(p), product_on_device(p);
    for (size_t i = 0; i < p.views.size(); i++) {
        views.open(p, i, &right_on_device);
        lm_view_add_diagonal(&views.opened[i], &views.scene, &diagonal_on_device, NULL);
    }
    const std::vector<float> gradient = read(right_on_device), diagonal = read(diagonal_on_device);
    const auto times = [&](const std::vector<double> &x) { // (J^T J + lambda D) x
        const std::vector<float> along(x.begin(), x.end());
        device_upload(direction_on_device.mean, along.data(), along.size() * sizeof(float));
        lm_views_product(views.opened.data(), views.opened.size(), &views.scene, &direction_on_device,
                         &product_on_device, NULL);
        const std::vector<float> product = read(product_on_device);
        std::vector<double> out(product.begin(), product.end());
        for (size_t k = 0; k < out.size(); k++) out[k] += settings.damping * double(diagonal[k]) * x[k];
        return out;
    };
    const auto preconditioned = [&](std::vector<double> x) {
        for (size_t k = 0; k < x.size(); k++) x[k] = diagonal[k] > 0 ? x[k] / double(diagonal[k]) : 0;
        return x;
    };
    std::vector<double> right(gradient.begin(), gradient.end());
    for (double &value : right) value = -value;
    std::vector<double> x = preconditioned(right), residual = right;
    const std::vector<double> first = times(x);
    for (size_t k = 0; k < x.size(); k++) residual[k] -= first[k];
    const std::vector<double> direction = preconditioned(residual), product = times(direction);
    const auto dot = [&](const auto &a) {
        return std::inner_product(a.begin(), a.end(), direction.begin(), 0.0);
    };
    for (size_t k = 0; k < x.size(); k++) x[k] += dot(residual) / dot(product) * direction[k];
    EXPECT_LE(relative_norm(solution_of(settings), x), 1e-3);
    settings.start_preconditioned = false;
    EXPECT_GT(relative_norm(solution_of(settings), x), 1e-2);
}

TEST(LmFinish, TheDampingKeepsToItsRange) {
    lm_settings settings = settings_with(4);
    settings.most_damping = 3 * settings.damping;
    settings.least_damping = 0.3 * settings.damping;
    settings.pcg_iterations = 2;
    problem kept, undone, beyond;
    kept.finished(settings);
    const double first = settings.damping;
    const double falling[] = {first, first / 2, 0.3 * first, 0.3 * first},
                 rising[] = {first, 2 * first, 3 * first, 3 * first};
    settings.least_gain = 1e9;
    undone.finished(settings);
    for (int i = 0; i < 4; i++) {
        EXPECT_TRUE(kept.steps[size_t(i)].kept);
        EXPECT_DOUBLE_EQ(kept.steps[size_t(i)].damping, falling[i]);
        EXPECT_DOUBLE_EQ(undone.steps[size_t(i)].damping, rising[i]);
    }
    settings.most_damping = settings.least_damping; // below the first, which then is the most
    for (const lm_step &step : beyond.finished(settings)) EXPECT_DOUBLE_EQ(step.damping, first);
}

// Of five views by a share of 1/5 only the first. It is black, so that what betters the others makes it worse.
TEST(LmFinish, TheLineSearchRendersAShareOfTheViews) {
    lm_settings settings = settings_with(1);
    settings.strided = true; // in their order
    settings.pcg_iterations = 4;
    double gamma[2];
    for (const bool share : {false, true}) {
        problem p;
        image &black = p.pictures[0];
        std::fill_n(black.pixels, size_t(3 * black.width * black.height), uint8_t(0));
        target_view_close(&p.views[0]);
        ASSERT_TRUE(target_view_open(&p.views[0], &p.cameras[0], &black, &p.why)) << p.why.text;
        settings.search_share = share ? 0.2 : 1;
        EXPECT_EQ(p.finished(settings)[0].images, 5);
        gamma[share] = p.steps[0].gamma;
    }
    EXPECT_LT(gamma[true], 0.5 * gamma[false]);
}

TEST(LmOptions, PublishedOnesAreThoseOf3dgsLm) {
    const lm_settings published = lm_settings_published(), ours = lm_settings_default();
    EXPECT_EQ(published.steps, 5);
    EXPECT_EQ(published.pcg_iterations, 8);
    EXPECT_EQ(published.objective, GS_LM_L1_SSIM);
    EXPECT_TRUE(published.centre_only && published.diagonal_only && published.start_preconditioned &&
                published.strided && !published.by_length && published.form == LM_CACHED &&
                published.batch == 70 && published.search_share == 0.3 && published.unit_weight == 1 &&
                published.radius == 0 && published.least_gain == 1e-5);
    EXPECT_FALSE(ours.centre_only || ours.diagonal_only || ours.start_preconditioned || ours.strided ||
                 ours.form != LM_FREE || ours.batches != 1);
    fault why = {};
    EXPECT_TRUE(lm_settings_check(&published, &why) && lm_settings_check(&ours, &why));
    problem p;
    double last = p.finished(published)[0].before; // of a step that is kept
    for (const lm_step &step : p.steps)
        if (step.kept) last = step.after;
    EXPECT_LT(last, 0.9 * p.steps[0].before);
}

// Of a Gaussian that hardly shows, J^T J has next to nothing: b / diag(J^T J) alone takes it far away.
TEST(LmFinish, PublishedStepsHoldGaussiansThatHardlyShow) {
    double farthest[2] = {};
    for (const bool unlimited : {false, true}) {
        problem p;
        for (int64_t i = 0; i < p.host.count; i += 2) { // alpha is little over 1/255, at few pixels
            p.host.opacity_logit[i] = -5.5f;
            for (int k = 0; k < 3; k++) p.host.log_scale[3 * i + k] = -0.1f * float(k);
        }
        device_gaussians_copy(&p.device, &p.host);
        lm_settings settings = lm_settings_published();
        settings.steps = 1, settings.unit_weight = unlimited ? 0 : settings.unit_weight;
        for (const double value : solution_on(p, p.views, settings))
            farthest[unlimited] = std::fmax(farthest[unlimited], std::fabs(value));
    }
    EXPECT_GT(farthest[true], 20 * farthest[false]) << farthest[false];
}

} // namespace
