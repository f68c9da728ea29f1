// SPDX-License-Identifier: MIT
// The steps of training: schedules of resolutions and steps of several views; its end in the mean of what its last steps left,
// unless a signal ends it; the bytes of training that waits for the lists' lengths; the name of the stage that made a number
// that is not finite; gains of photographs.
#include "training_cloud.h"
#include "plan.h"
#include "views.h"
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <random>
#include <tuple>

namespace training_test {

struct training_outcome {
    std::vector<std::vector<float>> seen; // the parameters after each step
    std::vector<float> last;              // when training has ended
    int64_t samples;                      // of an average that has not been taken
};

// end_at: the iteration after which a signal comes; it counts from the next step on.
training_outcome train(const cloud &c, double part, int64_t end_at = 0) {
    training_settings settings = cloud::settings(19);
    settings.average_part = part;
    training_outcome got;
    looking_on look([&](const training_state *state, const training_report *, looking_on *self) {
        got.seen.push_back(trained::read(state->gaussians));
        if (state->place.views == end_at) self->end = 1;
    });
    trained run(c);
    run.train_on(c.views, settings, &look.observer);
    got.last = run.read();
    got.samples = run.state.average.samples;
    return got;
}

TEST(AverageTraining, EndsInTheMeanOfItsLastStepsUnlessASignalEndsIt) {
    const cloud c(60, 32, 24);
    const training_outcome plain = train(c, 0), averaged = train(c, 11.5 / 19); // from step 9 on: 10 and 15
    ASSERT_EQ(plain.seen.size(), 19u);
    EXPECT_EQ(plain.last, plain.seen.back());
    EXPECT_EQ(averaged.samples, 0);
    EXPECT_EQ(averaged.seen.back(), averaged.last) << "the observer of the last step sees the result";
    for (size_t i = 0; i + 1 < 19; i++)
        ASSERT_EQ(averaged.seen[i], plain.seen[i]) << "the average changes no step before the last";
    std::vector<double> mean(plain.last.size());
    for (const int64_t step : {10, 15})
        for (size_t i = 0; i < mean.size(); i++) mean[i] += plain.seen[size_t(step - 1)][i] / 2.0;
    EXPECT_LE(relative(averaged.last, mean), 1e-7);
    EXPECT_GT(relative(averaged.last, plain.last), 1e-4) << "the mean is no other than the end";

    const training_outcome ended = train(c, 1, 12); // after step 13
    ASSERT_EQ(ended.seen.size(), 13u);
    EXPECT_EQ(ended.last, plain.seen[12]);
    EXPECT_EQ(ended.samples, 2);
}

// Everything that training leaves: parameters, moments, exposures, losses. by_steps: in runs of one step, each of which goes on
// from where the one before has stopped, and waits for the lists' lengths: it has no earlier picture to know one from. repeats: of
// forward passes.
std::vector<char> train_bytes(const cloud &c, const training_settings &settings, bool by_steps,
                              int64_t *repeats) {
    trained run(c, true);
    const training_state &state = run.state;
    const volatile sig_atomic_t at_once = by_steps;
    const training_observer observer = {nullptr, nullptr, 1, &at_once, nullptr};
    std::vector<double> losses;
    *repeats = 0;
    while (state.place.views < 14) {
        const auto more = run.train_on(c.views, settings, &observer);
        if (more.empty()) break;
        *repeats += run.report.repeats;
        losses.insert(losses.end(), more.begin(), more.end());
    }
    EXPECT_EQ(losses.size(), 14u);
    std::vector<char> out;
    const auto add = [&out](const auto &values) {
        const char *const from = reinterpret_cast<const char *>(values.data());
        out.insert(out.end(), from, from + values.size() * sizeof values[0]);
    };
    for (const gs_gaussians *set : {&state.gaussians, &state.first_moment, &state.second_moment})
        add(trained::read(*set));
    add(run.exposure());
    add(losses);
    return out;
}

TEST(QueuedTraining, EndsInTheBytesOfTrainingThatWaitsAndGoesOn) {
    int64_t most = 0;
    for (const uint64_t seed : {1, 2, 3, 4}) {
        // Smaller pictures and two views a step first, then three: steps end at 2, 4, 5, 8, 11, 14.
        const bool mixed = seed == 4;
        const cloud c(mixed ? 60 : 200, mixed ? 131 : 48, mixed ? 128 : 40);
        training_settings settings = cloud::settings(14);
        settings.seed = int64_t(seed);
        settings.random_background = true;
        EXPECT_DONE(resolution_schedule_read(mixed ? "2:36:2" : "none", &settings.resolutions, &why));
        if (mixed) settings.batch = 3, settings.exposure_rate = 0.3f; // that gains differ
        int64_t first, repeats;
        const std::vector<char> expected = train_bytes(c, settings, true, &first);
        EXPECT_TRUE(mixed || first == 14) << "a run learns the room of lists by a pass that it repeats";
        EXPECT_TRUE(train_bytes(c, settings, false, &repeats) == expected) << "seed " << seed;
        most = std::max(most, repeats);
    }
    EXPECT_GT(most, 0) << "no list was without room, so that nothing was repeated";
}

TEST(CheckFinite, NamesTheStage) {
    // What fails, and of what; how it is made; a log scale of the first Gaussian, or 0.
    const std::tuple<std::string, const char *, std::function<void(training_settings *)>, float> cases[] = {
        {"the forward and backward pass", "", [](auto *s) { s->background[1] = NAN; }, 0},
        {"the penalty of density control", "log scales",
         [](auto *s) {
             s->density.kind = DENSITY_MCMC, s->density.until = 9, s->density.mcmc.scale_weight = 3e38;
         },
         10},
        {"gs_adam", "mean of Gaussian", [](auto *s) { s->rates.mean = s->final_mean_rate = 3e38f; }, 0},
        {"", "", [](auto *) {}, 0}};
    for (const auto &[stage, what, change, log_scale] : cases)
        for (const bool check : {true, false}) {
            const cloud c; // whose group a failure ends
            trained run(c, true);
            training_settings settings = cloud::settings(3);
            settings.check_finite = check;
            change(&settings);
            if (log_scale > 0) device_upload(run.state.gaussians.log_scale, &log_scale, sizeof log_scale);
            fault why = {};
            const bool done = train_on(nullptr, &run.state, c.views.data(), c.views.size(), &settings,
                                       nullptr, &run.report, &why);
            const std::string text = done ? "" : why.text;
            EXPECT_TRUE(done || !stage.empty()) << text;
            EXPECT_EQ(text.find("--check-finite: " + stage) != std::string::npos, check && !stage.empty())
                << stage << ": " << text;
            EXPECT_TRUE(!check || text.find(what) != std::string::npos) << text;
        }
}

// ---- resolutions, and steps of several views

resolution_schedule schedule_of(const char *text) {
    resolution_schedule out;
    EXPECT_DONE(resolution_schedule_read(text, &out, &why));
    return out;
}

TEST(Resolutions, AreReadFromText) {
    // until: of 99 iterations.
    const std::tuple<const char *, bool, int, int, double, int64_t> rows[] = {
        {"none", false, 0, 0, 0, 0},    {"auto", true, 0, 0, 0, 0},        {"2:50", false, 2, 0, 50, 49},
        {"8:2.5", false, 8, 0, 2.5, 2}, {"4:20:32", false, 4, 32, 20, 19}, {"1:100:1", false, 1, 1, 100, 99},
        {"3:0", false, 3, 0, 0, 0}};
    for (const auto &[text, automatic, factor, batch, percent, until] : rows) {
        const resolution_schedule s = schedule_of(text);
        EXPECT_EQ(std::tie(s.automatic, s.factor, s.batch, s.percent),
                  std::tie(automatic, factor, batch, percent))
            << text;
        EXPECT_EQ(resolution_small_until(&s, 99), until) << text;
    }
    for (const char *text : {"",         "4",        "4:",       ":20",     "4:20,",    "4:20,2:50",
                             "0:20",     "-4:20",    "2.5:20",   "4:101",   "4:-1",     "4:nan",
                             "4:20:0",   "4:20:33",  "4:20:1.5", "4:20:",   "4:20:2:2", "4:20 2:50",
                             "99999:20", "1e300:20", "4:20x",    "nonesuch"}) {
        resolution_schedule schedule;
        fault why;
        EXPECT_FALSE(resolution_schedule_read(text, &schedule, &why)) << text;
        EXPECT_NE(std::string(why.text).find("--resolutions"), std::string::npos) << why.text;
    }
}

constexpr int width = 131, height = 128;
constexpr size_t pixels = size_t(width) * height, views_in_all = cloud::views_in_all;

// Each view also has a mask and depths.
struct detailed_cloud : cloud {
    explicit detailed_cloud(int w = width, int h = height) : cloud(60, w, h) {
        for (size_t v = 0; v < views_in_all; v++) {
            for (size_t i = 0; i < size_t(w * h); i++) {
                masks[v].push_back((i / 40 + v) % 7 != 0);
                depths[v].push_back(float(0.3 + 0.1 * std::sin(0.01 * double(i) + double(v))));
            }
            target_view_set_mask(&views[v], masks[v].data());
            views[v].depth_on_host = depths[v].data(), target_view_upload(&views[v], false);
        }
    }
    static training_settings settings_of(int64_t iterations, int64_t batch) {
        training_settings out = settings(iterations);
        out.batch = batch;
        out.seed = 5;
        out.weights[TERM_depth] = 0.5;
        return out;
    }

    std::vector<uint8_t> masks[views_in_all];
    std::vector<float> depths[views_in_all];
};

// What a step on all views leaves in the first moment, 0.1 times the gradient, is the sum of what each alone leaves.
// alone: the views for steps of one.
void expect_sum_of_each(const cloud &c, const std::vector<target_view> &views,
                        const std::vector<target_view> &alone, training_settings settings,
                        double most_error) {
    settings.iterations = settings.batch = views_in_all;
    trained together(c);
    const auto losses = together.train_on(views, settings);
    ASSERT_EQ(losses.size(), views_in_all);
    const std::vector<float> got = trained::read(together.state.first_moment);
    std::vector<double> sum(got.size());
    double loss = 0;
    settings.iterations = settings.batch = 1;
    for (const target_view &view : alone) {
        trained one(c);
        loss += one.train_on({view}, settings)[0];
        const std::vector<float> moment = trained::read(one.state.first_moment);
        for (size_t i = 0; i < sum.size(); i++) sum[i] += double(moment[i]);
    }
    EXPECT_LT(relative(got, sum), most_error);
    EXPECT_NEAR(std::accumulate(losses.begin(), losses.end(), 0.0), loss, 0.1 * most_error * loss);
}

TEST(SeveralViews, GradientIsTheSumOfThoseOfEach) {
    const detailed_cloud c;
    expect_sum_of_each(c, c.views, c.views, detailed_cloud::settings_of(1, 1), 1e-4);
}

// In a frame of all views, and as ranks do it.
TEST(SeveralViews, EachHasItsOwnPictureBeforeARandomBackground) {
    cloud c(60, width, height);
    std::vector<uint8_t> alpha(pixels);
    for (size_t i = 0; i < pixels; i++) alpha[i] = uint8_t(i);
    for (target_view &view : c.views) view.outline = alpha.data(), target_view_upload(&view, true);
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED}) {
        training_settings settings = cloud::settings(1);
        settings.policy.strategy = strategy;
        settings.random_background = true;
        expect_sum_of_each(c, c.views, c.views, settings, 1e-4);
    }
}

TEST(SeveralViews, RatesGrowAsTheSquareRoot) {
    const detailed_cloud c;
    trained together(c), alone(c);
    const std::vector<float> start = together.read();
    together.train_on(std::vector<target_view>(4, c.views[0]), detailed_cloud::settings_of(4, 4));
    training_settings faster = detailed_cloud::settings_of(1, 1);
    for (float *rate :
         {&faster.rates.mean, &faster.rates.log_scale, &faster.rates.quaternion, &faster.rates.opacity_logit,
          &faster.rates.sh0, &faster.rates.shN, &faster.final_mean_rate})
        *rate *= 2;
    alone.train_on({c.views[0]}, faster);
    std::vector<float> moved = together.read(), expected = alone.read();
    for (size_t i = 0; i < start.size(); i++) moved[i] -= start[i], expected[i] -= start[i];
    EXPECT_LT(relative(moved, expected), 1e-3);
}

TEST(Resolutions, SmallViewsAreTheViewsShrunkAndAreTrainedOnFirst) {
    const detailed_cloud c;
    for (const char *text : {"8:50", "2:50"}) { // an eighth would be shorter than 64 pixels: half in both
        training_settings settings = detailed_cloud::settings_of(4, 1);
        const resolution_schedule schedule = schedule_of(text);
        owned<view_source, view_source_close> all;
        EXPECT_DONE(
            view_source_open(&all, nullptr, c.views.data(), views_in_all, &schedule, 1, 0, false, &why));
        EXPECT_EQ(view_source_at(&all, false), c.views.data());
        const target_view *small = view_source_at(&all, true);
        ASSERT_NE(small, c.views.data());
        for (size_t v = 0; v < views_in_all; v++) {
            EXPECT_EQ(small[v].camera.width, width / 2);
            EXPECT_EQ(small[v].camera.height, height / 2);
            EXPECT_FLOAT_EQ(small[v].camera.fx, c.views[v].camera.fx / 2);
            EXPECT_EQ(small[v].camera.translation[0], c.views[v].camera.translation[0]);
            owned<image, image_close> expected;
            EXPECT_DONE(image_downscale(&c.pictures[v], 2, &expected, &why));
            const auto got = downloaded(small[v].pixels, 3 * (width / 2) * (height / 2));
            EXPECT_EQ(std::memcmp(got.data(), expected.pixels, size_t(3 * expected.width * expected.height)),
                      0)
                << v;
            const auto &mask = c.masks[v];
            const auto &depth = c.depths[v];
            EXPECT_EQ(downloaded(small[v].mask, 1)[0] != 0,
                      mask[0] && mask[1] && mask[width] && mask[width + 1]);
            EXPECT_NEAR(downloaded(small[v].depth, 1)[0],
                        (depth[0] + depth[1] + depth[width] + depth[width + 1]) / 4, 1e-6);
            EXPECT_EQ(small[v].alpha, nullptr);
        }
        trained on_small(c), on_schedule(c), on_whole(c);
        const auto first = on_small.train_on({small, small + views_in_all}, settings),
                   last = on_whole.train_on(c.views, settings);
        settings.resolutions = schedule;
        const auto got = on_schedule.train_on(c.views, settings);
        for (const size_t i : {0, 1}) EXPECT_EQ(got[i], first[i]);
        EXPECT_NE(got[2], first[2]);
        EXPECT_NE(got[0], last[0]);
    }
}

view_sizes sizes_of(int width, int height, size_t count) {
    target_view view = {};
    view.camera.width = width, view.camera.height = height;
    const std::vector<target_view> views(count, view);
    return view_sizes_of(views.data(), views.size());
}

TEST(SeveralViews, FillAGpuEachButAreAQuarterOfARoundAtMost) {
    // On several at least one for each GPU, and more in long runs.
    const std::tuple<int, int, size_t, int64_t, int64_t, int64_t> rows[] = {
        {799, 532, 220, 30000, 1, 4},   {800, 800, 220, 30000, 1, 4},
        {800, 800, 10, 30000, 1, 2},    {1008, 756, 17, 30000, 1, 3},
        {1080, 1920, 220, 30000, 1, 1}, {16384, 16384, 1000, 30000, 1, 1},
        {40, 28, 1, 30000, 1, 1},       {40, 28, 7, 30000, 1, 1},
        {40, 28, 99, 30000, 1, 4},      {1080, 1920, 99, 7000, 2, 2},
        {1080, 1920, 99, 7000, 8, 8},   {1080, 1920, 99, 7000, RANKS_MAX, 24},
        {1080, 1920, 7, 7000, 8, 1},    {799, 532, 220, 7000, 2, 4},
        {799, 532, 220, 30000, 2, 8},   {799, 532, 220, 30000, 4, 8},
        {799, 532, 220, 300000, 4, 16}, {799, 532, 220, 300000, RANKS_MAX, GS_MAX_VIEWS}};
    for (const auto &[w, h, count, iterations, ranks, batch] : rows) {
        const view_sizes sizes = sizes_of(w, h, count);
        EXPECT_EQ(default_batch(&sizes, iterations, ranks), batch)
            << w << " x " << h << ", " << count << ", " << iterations << ", " << ranks;
    }
}

TEST(Resolutions, AreUsualWhereSmallPicturesHaveAPixelForAGaussian) {
    const std::tuple<int, int, size_t, int64_t, bool, int, int, double> rows[] = {
        {799, 532, 220, 300000, true, 0, 0, 0},    {127, 5000, 220, 100, true, 0, 0, 0},
        {1080, 1920, 200, 300000, true, 2, 4, 90}, {1080, 1920, 7, 300000, true, 2, 1, 90},
        {1008, 756, 17, 130000, true, 2, 4, 50},   {1008, 756, 7, 130000, true, 2, 1, 50},
        {1080, 1920, 200, 300000, false, 2, 1, 90}};
    for (const auto &[w, h, count, most, several, factor, batch, percent] : rows) {
        const view_sizes sizes = sizes_of(w, h, count);
        const resolution_schedule got = default_resolutions(&sizes, most, 30000, several);
        EXPECT_EQ(std::tie(got.factor, got.batch, got.percent), std::tie(factor, batch, percent))
            << w << " x " << h << ", " << count;
    }
}

// Views of different sizes, as parts of those of a cloud.
TEST(SeveralViews, OfSeveralSizesAreSummedToo) {
    const detailed_cloud c;
    photographs of;
    std::vector<target_view> &views = of.views;
    const std::vector<float> depth(pixels, 0.3f);
    const std::vector<uint8_t> all(pixels, 255);
    for (size_t v = 0; v < views_in_all; v++) {
        gs_camera camera = c.views[v].camera;
        camera.width -= int(2 * v), camera.height -= int(v % 3);
        of.add(camera, [v](int i) { return 127 + 100 * std::sin(0.03 * i + double(v)); });
        if (v == 2) target_view_set_mask(&views[v], c.masks[v].data());
        views[v].depth_on_host = depth.data(), target_view_upload(&views[v], false);
    }
    EXPECT_DONE(resolution_views_match(views.data(), views.size(), &why));
    std::vector<target_view> alone =
        views; // with the mask that a padded view has: windows at its edges count alike
    for (size_t v = 1; v < views_in_all; v++)
        if (v != 2) target_view_set_mask(&alone[v], all.data()), target_view_upload(&alone[v], false);
    // The field of view also bounds the derivatives of Gaussians beside the picture: here it is a little larger.
    expect_sum_of_each(c, views, alone, detailed_cloud::settings_of(1, 1), 1e-2);
    for (size_t v = 1; v < views_in_all; v++)
        if (v != 2) device_free(alone[v].mask);
    const auto expect_refused = [&](const std::string &text) {
        fault why;
        EXPECT_FALSE(resolution_views_match(views.data(), views.size(), &why));
        EXPECT_EQ(why.text, "several views per step need " + text);
    };
    views[4].camera.model = GS_FISHEYE;
    expect_refused("cameras of one model");
    views[4].camera.model = GS_PINHOLE;
    views[2].camera.width = views[3].camera.width = 40;
    expect_refused("pictures of about one size");
}

// Of a long run, whose rate hardly falls: views of a step do not wait for their neighbours' steps.
TEST(SeveralViews, EachExposureHasItsOwnGradient) {
    const detailed_cloud c;
    const auto log_gains_after = [&](const std::vector<target_view> &views, int64_t batch) {
        trained one(c, true);
        looking_on look([](const training_state *, const training_report *, looking_on *) {});
        look.end = 1; // after a step
        one.train_on(views, detailed_cloud::settings_of(1000000, batch), &look.observer);
        EXPECT_EQ(one.state.place.views, batch);
        return one.exposure();
    };
    const std::vector<float> got = log_gains_after(c.views, views_in_all);
    std::vector<float> expected(got.size());
    for (size_t v = 0; v < views_in_all; v++) {
        // All views are this one; the mean of all is 0, so that those without a step tell the one's.
        const std::vector<float> all = log_gains_after(std::vector<target_view>(views_in_all, c.views[v]), 1);
        for (size_t k = 0; k < GS_EXPOSURE_VALUES; k++) {
            float step = 0;
            for (size_t w = 0; w < views_in_all; w++)
                if (const float own = all[w * GS_EXPOSURE_VALUES + k]; std::abs(own) > std::abs(step))
                    step = own;
            const float whole = step * float(views_in_all) / float(views_in_all - 1);
            for (size_t w = 0; w < views_in_all; w++)
                expected[w * GS_EXPOSURE_VALUES + k] += w == v ? step : step - whole;
        }
    }
    EXPECT_LT(relative(got, expected), 5e-3); // the prior sees what neighbours have moved
}

TEST(Resolutions, PhasesAtFullSizeChangeNothing) {
    const detailed_cloud c(32, 24);
    const std::pair<const char *, int64_t> cases[] = {{"1:50", 1}, {"1:50:1", 1}, {"1:40:2", 2}};
    for (const auto &[text, batch] : cases) {
        training_settings settings = detailed_cloud::settings_of(10, batch);
        trained plain(c, true), phased(c, true);
        const auto losses = plain.train_on(c.views, settings);
        settings.resolutions = schedule_of(text);
        EXPECT_EQ(phased.train_on(c.views, settings), losses) << text;
        EXPECT_TRUE(phased.read() == plain.read()) << text;
    }
}

// ---- gains of photographs: known ones are found, small ones are given up, and those that neighbours tell stay in the scene

constexpr size_t exposed_views = 18;
using gains = std::array<double, 3>;

// A small scene, and photographs of it from places along a line, whose colours are multiplied.
struct gallery : photographs {
    // stride: the v-th photograph is from the v * stride-th place, in turns.
    explicit gallery(const std::vector<gains> &log_gains, size_t stride = 1) {
        EXPECT_DONE(scene_open(&truth, 24, 1, &why));
        std::mt19937 random(3);
        const auto unit = [&] { return float(random() >> 8) * 0x1p-24f; };
        for (int64_t i = 0; i < truth.count; i++) {
            for (int k = 0; k < 3; k++) {
                truth.mean[3 * i + k] = (k == 2 ? 0.5f : 2.4f) * (unit() - 0.5f);
                truth.log_scale[3 * i + k] = -1.3f + 0.4f * unit();
                truth.sh[12 * i + k] = 1.6f * (unit() - 0.5f);
            }
            truth.quaternion[4 * i] = 1;
            truth.opacity_logit[i] = 2;
        }
        static_cast<gs_gaussians &>(on_device) = device_gaussians_from(&truth);
        for (size_t v = 0; v < exposed_views; v++) {
            const double place = double(v * stride % exposed_views);
            const std::vector<uint8_t> seen = picture_of(on_device, place);
            add(camera_at(place), [&](int i) {
                return std::lround(std::min(255., seen[size_t(i)] * std::exp(log_gains[v][size_t(i % 3)])));
            });
        }
    }
    static gs_camera camera_at(double place) {
        gs_camera camera = forward_camera(16, 16, 16); // a tile
        camera.translation[0] = float(1 - 2 * place / (exposed_views - 1)), camera.translation[2] = 3;
        return camera;
    }
    // What a scene (device) looks like from the place of a view, or between two.
    static std::vector<uint8_t> picture_of(const gs_gaussians &scene, double place) {
        const float background[3] = {0.3f, 0.3f, 0.3f};
        return rendered(scene, camera_at(place), background);
    }

    owned<gs_gaussians, scene_close> truth;
    owned<gs_gaussians, device_gaussians_close> on_device;
};

struct learned {
    double psnr; // of places between the photographs'
    exposure_rule rule;
    int64_t exposures;       // 0: given up
    int64_t measured, ended; // measurements of validation views since then; run_place.ended
    std::vector<gains> log_gains;
};

// Trains the scene, whose colours are forgotten.
learned learn(gallery &of, bool exposures, int64_t iterations = 540, bool validates = false) {
    const alone group;
    training_settings settings = cloud::settings(iterations);
    settings.rates = {2e-4f, 1e-3f, 1e-3f, 1e-2f, 1e-2f, 1e-3f, 0};
    settings.final_mean_rate = 2e-6f;
    settings.exposure_rate = 0.05f;
    of.views[4].validates = validates;
    if (validates) settings.validation_until = 2, settings.validate_every = 12;
    for (float &value : settings.background) value = 0.3f;
    std::vector<float> forgotten(size_t(12 * of.truth.count));
    gs_gaussians start = of.truth;
    start.sh = forgotten.data();
    trained run({group, nullptr}, start, exposures ? exposed_views : 0);
    run.train_on(of.views, settings);
    const training_state &state = run.state;
    learned out = {0, state.exposed, state.exposures, state.learning.count, state.place.ended, {}};
    double squares = 0;
    size_t values = 0;
    for (double place = 0.5; place < exposed_views - 1; place++) {
        const std::vector<uint8_t> wanted = gallery::picture_of(of.on_device, place),
                                   got = gallery::picture_of(state.gaussians, place);
        for (size_t i = 0; i < got.size(); i++, values++) squares += std::pow((wanted[i] - got[i]) / 255., 2);
    }
    out.psnr = -10 * std::log10(squares / double(values));
    out.log_gains.resize(exposed_views);
    const std::vector<float> log_gains = run.exposure();
    for (size_t i = 0; i < log_gains.size(); i++)
        out.log_gains[i / GS_EXPOSURE_VALUES][i % GS_EXPOSURE_VALUES] = double(log_gains[i]);
    return out;
}

// Independent ones, whose means are 0.
std::vector<gains> random_gains(double spread) {
    std::vector<gains> out(exposed_views);
    std::mt19937 random(5);
    std::normal_distribution<double> normal(0, spread);
    gains mean = {};
    for (gains &of : out)
        for (size_t k = 0; k < 3; k++) of[k] = normal(random), mean[k] += of[k] / exposed_views;
    for (gains &of : out)
        for (size_t k = 0; k < 3; k++) of[k] -= mean[k];
    return out;
}

TEST(Exposures, KnownOnesAreFoundAndTheSceneIsBetterForIt) {
    const std::vector<gains> known = random_gains(0.07);
    gallery of(known);
    const learned without = learn(of, false), with = learn(of, true);
    EXPECT_EQ(with.rule, EXPOSURE_TOGETHER);
    EXPECT_GT(with.psnr, without.psnr + 3) << without.psnr;
    gains sum = {};
    for (size_t v = 0; v < exposed_views; v++)
        for (size_t k = 0; k < 3; k++) {
            EXPECT_NEAR(with.log_gains[v][k], known[v][k], 0.03) << v << " " << k;
            sum[k] += with.log_gains[v][k];
        }
    for (const double one : sum) EXPECT_NEAR(one, 0, 1e-5);
}

// Of the validation view, by the steps of its measurements alone.
TEST(Exposures, OfViewsThatAreMeasuredAreFoundToo) {
    const std::vector<gains> known = random_gains(0.07);
    gallery of(known);
    const learned with = learn(of, true, 270, true);
    ASSERT_GT(with.exposures, 0);
    for (size_t k = 0; k < 3; k++) EXPECT_NEAR(with.log_gains[4][k], known[4][k], 0.04) << k;
}

TEST(Exposures, ThatDifferLittleAreGivenUp) {
    gallery of(random_gains(0.008));
    const learned with = learn(of, true, 270, true);
    EXPECT_EQ(with.exposures, 0);
    const int64_t last =
        with.ended > 0 ? with.ended : 263;          // of the measurements after iterations 59, 71, ...
    EXPECT_EQ(with.measured, (last - 59) / 12 + 1); // they began anew after 54
}

// A drift with the photographs' places, or with their order, of which neighbours have the same in the mean.
TEST(Exposures, WhatNeighboursTellStaysInTheScene) {
    for (const bool in_order : {false, true}) {
        std::vector<gains> drift(exposed_views);
        for (size_t v = 0; v < exposed_views; v++) drift[v].fill(0.25 * std::sin(0.35 * double(v)));
        gallery of(drift, in_order ? 5 : 1);
        const learned with = learn(of, true);
        ASSERT_EQ(with.rule, in_order ? EXPOSURE_IN_ORDER : EXPOSURE_NEIGHBOURS);
        ASSERT_GT(with.exposures, 0);
        int32_t order[exposed_views];
        neighbours near[exposed_views];
        EXPECT_DONE(neighbours_choose(of.views.data(), exposed_views, in_order, order, near, &why));
        for (size_t v = 0; v < exposed_views; v++) {
            double sum = 0;
            for (int64_t i = 0; i < near[v].count; i++)
                sum += with.log_gains[size_t(order[near[v].first + i])][0];
            EXPECT_NEAR(sum, 0, 1e-6);
            EXPECT_LT(std::abs(with.log_gains[v][0]), 0.1);
        }
    }
}

} // namespace training_test
