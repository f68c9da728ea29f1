// SPDX-License-Identifier: MIT
// Steps of Levenberg-Marquardt as the command takes them: they lower the objective, are undone to the byte where
// they do not.
#include "device_vector.h"
extern "C" {
#include "frames/device_gaussians.h"
#include "solver.h"
#include "scene.h"
}
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
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
            pictures.push_back(picture);
            cameras.push_back(camera);
        }
        for (size_t v = 0; v < pictures.size(); v++) {
            target_view view;
            EXPECT_TRUE(target_view_open(&view, &cameras[v], &pictures[v], &why)) << why.text;
            views.push_back(view);
        }
        device = device_gaussians_open(host.count, host.sh_degree);
        device_gaussians_upload(&device, &host);
    }
    ~problem() {
        device_gaussians_close(&device);
        scene_close(&host);
        for (target_view &view : views) target_view_close(&view);
        for (image &picture : pictures) image_close(&picture);
    }
    problem(const problem &) = delete;
    problem &operator=(const problem &) = delete;

    bool finish(const lm_settings &settings) {
        steps.clear();
        const lm_observer observer = {[](void *context, const lm_step *step, fault *) {
                                          static_cast<std::vector<lm_step> *>(context)->push_back(*step);
                                          return true;
                                      },
                                      &steps};
        return finish_lm(&device, views.data(), views.size(), &settings, &observer, &why);
    }
    std::vector<char> bytes() const {
        std::vector<char> out(device_gaussians_bytes(device.count, device.sh_degree));
        device_download(out.data(), device.mean, out.size());
        return out;
    }

    gs_gaussians host = {}, device = {};
    std::vector<gs_camera> cameras;
    std::vector<image> pictures;
    std::vector<target_view> views;
    std::vector<lm_step> steps;
    fault why = {};
};

// One view after another, as finish_lm has them.
struct opened_views {
    explicit opened_views(const problem &p) : opened(p.views.size()), objective(p.views.size()) {
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
    std::vector<float> read(const gs_gaussians &vector) const {
        std::vector<float> out(device_gaussians_bytes(vector.count, vector.sh_degree) / sizeof(float));
        device_download(out.data(), vector.mean, out.size() * sizeof(float));
        return out;
    }
    lm_scene scene = {};
    lm_clock clock;
    std::vector<lm_view> opened;
    std::vector<double> objective;
};

TEST(LmView, TheGradientIsThatOfTheObjective) {
    problem p;
    opened_views views(p);
    gs_gaussians gradient = device_gaussians_open(p.device.count, p.device.sh_degree);
    views.open(p, 2, &gradient);
    const std::vector<float> by = views.read(gradient);
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
        ASSERT_EQ(gs_lm_add(x, step, NULL, g, n, NULL), GS_OK);
        const double above = lm_picture_objective(&views.scene, &p.views[2]);
        ASSERT_EQ(gs_lm_add(x, -2 * step, NULL, g, n, NULL), GS_OK);
        const double below = lm_picture_objective(&views.scene, &p.views[2]);
        ASSERT_EQ(gs_lm_add(x, step, NULL, g, n, NULL), GS_OK);
        EXPECT_NEAR((above - below) / (4 * double(step)), square, 0.1 * square) << a.values;
    }
    device_gaussians_close(&gradient);
}

TEST(LmView, KeepsWhatProductsNeedWhileOthersAreOpened) {
    problem p(300);
    opened_views views(p);
    gs_gaussians product = device_gaussians_open(p.device.count, p.device.sh_degree);
    views.open(p, 0);
    ASSERT_GT(views.opened[0].view.lists.split_tiles, 0);
    lm_views_product(&views.opened[0], 1, &views.scene, &p.device, &product);
    const std::vector<float> before = views.read(product);
    for (size_t i = 1; i < p.views.size(); i++) views.open(p, i);
    lm_views_product(&views.opened[0], 1, &views.scene, &p.device, &product);
    const std::vector<float> after = views.read(product);
    double difference = 0, size = 0;
    for (size_t k = 0; k < before.size(); k++) {
        difference += std::pow(double(after[k]) - before[k], 2);
        size += std::pow(double(before[k]), 2);
    }
    EXPECT_GT(size, 0);
    EXPECT_LE(difference, 1e-10 * size);
    device_gaussians_close(&product);
}

// Its metric (24), what is left of the light behind all (4) and where that was (4); its colours (12) only for
// tiles that two blocks share.
TEST(LmView, Keeps32BytesAPixel) {
    for (const size_t count : {60, 300}) {
        problem p{int64_t(count)};
        opened_views views(p);
        const size_t pixels = 24 * 20, tiles = 4;
        for (size_t i = 0; i < p.views.size(); i++) {
            views.open(p, i);
            const gs_lists &lists = views.opened[i].view.lists;
            ASSERT_EQ(size_t(lists.tiles_x * lists.tiles_y), tiles);
            EXPECT_EQ(lists.split_tiles > 0, count == 300);
            EXPECT_EQ(lm_view_bytes(&views.opened[i]),
                      (count == 300 ? 44 : 32) * pixels + count * sizeof(gs_splat) +
                          (tiles + 1) * sizeof(int64_t) + size_t(lists.pairs) * sizeof(uint32_t) +
                          (lists.tile_order ? tiles * sizeof(uint32_t) : 0))
                << i;
        }
    }
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

TEST(LmOptions, NameThePreconditioner) {
    const auto parse = [](const char *value, lm_settings *options, fault *why) {
        option_table table = {};
        lm_options_list(options, &table);
        const command_spec command = {"finish", "", "", NULL, table.rows, 0, 0, 0};
        char name[] = "finish", option[] = "--lm-preconditioner";
        std::string text = value;
        char *argv[] = {name, option, &text[0], NULL};
        const char *positional;
        int count;
        return options_parse(&command, 3, argv, &positional, &count, why);
    };
    fault why = {};
    lm_settings options = lm_settings_default();
    EXPECT_FALSE(options.diagonal_only);
    ASSERT_EQ(parse("diagonal", &options, &why), OPTIONS_OK) << why.text;
    EXPECT_TRUE(options.diagonal_only);
    ASSERT_EQ(parse("blocks", &options, &why), OPTIONS_OK) << why.text;
    EXPECT_FALSE(options.diagonal_only);
    EXPECT_EQ(parse("nonsense", &options, &why), OPTIONS_USAGE_ERROR);
    EXPECT_NE(
        std::string(why.text).find("--lm-preconditioner must be one of blocks, diagonal, not 'nonsense'"),
        std::string::npos)
        << why.text;
}

TEST(LmFinish, StepsLowerTheObjective) {
    problem p;
    const lm_settings settings = settings_with(4);
    ASSERT_TRUE(p.finish(settings)) << p.why.text;
    ASSERT_EQ(p.steps.size(), 4u);
    int kept = 0;
    for (const lm_step &step : p.steps) {
        kept += step.kept;
        EXPECT_TRUE(!step.kept || step.after < step.before) << step.step;
        EXPECT_EQ(step.images, 5);
    }
    EXPECT_GE(kept, 3);
    // Each begins where the one before it ended.
    for (size_t i = 1; i < 4; i++)
        EXPECT_NEAR(p.steps[i].before, p.steps[i - 1].kept ? p.steps[i - 1].after : p.steps[i - 1].before,
                    1e-6 * p.steps[i].before);
    EXPECT_LT(p.steps[3].after, 0.9 * p.steps[0].before);
    EXPECT_EQ(p.steps[1].damping, settings.damping / 2);
}

TEST(LmFinish, AStepThatGainsTooLittleIsUndoneToTheByte) {
    problem p;
    lm_settings settings = settings_with(2);
    settings.least_gain = 1e9;
    const std::vector<char> before = p.bytes();
    ASSERT_TRUE(p.finish(settings)) << p.why.text;
    EXPECT_FALSE(p.steps[1].kept);
    EXPECT_EQ(p.steps[1].damping, 2 * settings.damping);
    EXPECT_EQ(p.bytes(), before);
}

TEST(LmFinish, ByLengthTheDampingFollowsTheSearch) {
    problem p;
    lm_settings settings = settings_with(2);
    settings.by_length = true;
    ASSERT_TRUE(p.finish(settings)) << p.why.text;
    ASSERT_TRUE(p.steps[0].kept);
    const double factor = std::fmin(std::fmax(0.5 / p.steps[0].gamma, 0.25), 8);
    EXPECT_DOUBLE_EQ(p.steps[1].damping, factor * settings.damping);
    EXPECT_GT(std::fabs(factor - 0.5), 1e-3); // which the other rule would have
}

TEST(LmFinish, NoGaussianGoesFartherThanTheRadius) {
    problem p;
    lm_settings settings = settings_with(1);
    settings.radius = 0.05f;
    ASSERT_TRUE(p.finish(settings)) << p.why.text;
    ASSERT_TRUE(p.steps[0].kept);
    gs_gaussians after = {};
    ASSERT_TRUE(scene_open(&after, p.host.count, p.host.sh_degree, &p.why)) << p.why.text;
    device_gaussians_download(&after, &p.device);
    float farthest = 0;
    for (int64_t k = 0; k < 3 * after.count; k++)
        farthest = std::fmax(farthest, std::fabs(after.log_scale[k] - p.host.log_scale[k]));
    EXPECT_LE(farthest, 1.0001f * float(p.steps[0].gamma) * settings.radius);
    EXPECT_GE(farthest, 0.9f * float(p.steps[0].gamma) * settings.radius); // some would have
    scene_close(&after);
}

lm_settings settings_to_solve(bool diagonal_only, int64_t iterations) {
    lm_settings settings = settings_with(1);
    settings.diagonal_only = diagonal_only;
    settings.pcg_iterations = iterations;
    return settings;
}

// The solution of one step's equations: the Gaussians' change over gamma. bytes: that the step took, unless NULL.
std::vector<double> solution_of(const lm_settings &settings, size_t *bytes = NULL) {
    problem p;
    const std::vector<char> start = p.bytes();
    EXPECT_TRUE(p.finish(settings)) << p.why.text;
    EXPECT_TRUE(p.steps[0].kept);
    const std::vector<char> end = p.bytes();
    std::vector<double> out(start.size() / sizeof(float));
    for (size_t k = 0; k < out.size(); k++) {
        float before, after;
        std::memcpy(&before, start.data() + k * sizeof before, sizeof before);
        std::memcpy(&after, end.data() + k * sizeof after, sizeof after);
        out[k] = (double(after) - before) / p.steps[0].gamma;
    }
    if (bytes) *bytes = p.steps[0].bytes;
    return out;
}

double relative_distance(const std::vector<double> &a, const std::vector<double> &b) {
    double apart = 0, far = 0;
    for (size_t k = 0; k < b.size(); k++) {
        apart += (a[k] - b[k]) * (a[k] - b[k]);
        far += b[k] * b[k];
    }
    return std::sqrt(apart / far);
}

// The preconditioner changes how soon conjugate gradients converge, not where to.
TEST(LmFinish, EitherPreconditionerLeadsToTheSameStep) {
    size_t with_blocks, without, blocks;
    const std::vector<double> by_diagonal = solution_of(settings_to_solve(true, 60), &without),
                              by_blocks = solution_of(settings_to_solve(false, 60), &with_blocks);
    EXPECT_LE(relative_distance(by_blocks, by_diagonal), 1e-2);
    EXPECT_LE(relative_distance(solution_of(settings_to_solve(false, 4)), by_diagonal),
              0.5 * relative_distance(solution_of(settings_to_solve(true, 4)), by_diagonal));
    ASSERT_EQ(gs_lm_blocks_bytes(60, 1, &blocks), GS_OK);
    EXPECT_EQ(with_blocks, without + blocks);
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

TEST(LmFinish, AStepTakesAsManyViewsAsItIsGiven) {
    problem p;
    lm_settings settings = settings_with(2);
    settings.batch = 3;
    ASSERT_TRUE(p.finish(settings)) << p.why.text;
    for (const lm_step &step : p.steps) {
        EXPECT_EQ(step.images, 3);
        EXPECT_TRUE(step.kept);
        EXPECT_LT(step.after, step.before);
    }
}

TEST(LmFinish, AntialiasedScenesAreRefused) {
    problem p;
    p.device.antialias = 1;
    EXPECT_FALSE(p.finish(settings_with(1)));
    EXPECT_NE(std::string(p.why.text).find("antialiased"), std::string::npos) << p.why.text;
}

} // namespace
