// SPDX-License-Identifier: MIT
// Schedules of resolutions and steps of several views.
#include "training_cloud.h"
#include "plan.h"
#include "views.h"
#include <tuple>

namespace {

TEST(Resolutions, AreReadFromText) {
    // until: of 99 iterations.
    const std::tuple<const char *, int, int, double, int64_t> rows[] = {
        {"none", 0, 0, 0, 0},    {"auto", 0, 0, 0, 0},       {"2:50", 2, 0, 50, 49},
        {"8:2.5", 8, 0, 2.5, 2}, {"4:20:32", 4, 32, 20, 19}, {"1:100:1", 1, 1, 100, 99},
        {"3:0", 3, 0, 0, 0}};
    for (const auto &[text, factor, batch, percent, until] : rows) {
        resolution_schedule s;
        fault why;
        ASSERT_TRUE(resolution_schedule_read(text, &s, &why)) << why.text;
        EXPECT_EQ(s.automatic, std::string(text) == "auto");
        EXPECT_EQ(s.factor, factor) << text;
        EXPECT_EQ(s.batch, batch) << text;
        EXPECT_EQ(s.percent, percent) << text;
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

constexpr int width = 131, height = 128, views_in_all = cloud::views_in_all;

// Each view also has a mask and depths.
class detailed_cloud : public cloud {
  public:
    explicit detailed_cloud(int w = width, int h = height)
        : cloud(60, w, h), masks(views_in_all), depths(views_in_all) {
        const size_t pixels = size_t(w) * size_t(h);
        for (size_t v = 0; v < views_in_all; v++) {
            masks[v].resize(pixels), depths[v].resize(pixels);
            for (size_t i = 0; i < pixels; i++) {
                masks[v][i] = (i / 40 + v) % 7 != 0;
                depths[v][i] = float(0.3 + 0.1 * std::sin(0.01 * double(i) + double(v)));
            }
            target_view_set_mask(&views[v], masks[v].data());
            target_view_set_depth(&views[v], depths[v].data());
        }
    }
    static training_settings settings_of(int64_t iterations, int64_t batch) {
        training_settings out = settings(iterations);
        out.batch = batch;
        out.seed = 5;
        out.weights[TERM_depth] = 0.5;
        return out;
    }

    std::vector<std::vector<uint8_t>> masks;
    std::vector<std::vector<float>> depths;
};

resolution_schedule schedule_of(const char *text) {
    resolution_schedule out;
    fault why;
    EXPECT_TRUE(resolution_schedule_read(text, &out, &why)) << why.text;
    return out;
}

// The sum of what each view alone leaves in the first moment: 0.1 times the gradient.
std::vector<float> sum_of_each(const cloud &c, const std::vector<target_view> &views,
                               training_settings settings, double *loss) {
    std::vector<float> sum;
    settings.iterations = settings.batch = 1;
    for (const target_view &view : views) {
        trained alone(c);
        *loss += alone.train_on({view}, settings)[0];
        const std::vector<float> moment = trained::read(alone.state.first_moment);
        sum.resize(moment.size());
        for (size_t i = 0; i < sum.size(); i++) sum[i] += moment[i];
    }
    return sum;
}

// alone: the views for steps of one.
void expect_sum_of_each(const cloud &c, const std::vector<target_view> &views,
                        const std::vector<target_view> &alone, training_settings settings,
                        double most_error) {
    settings.iterations = settings.batch = views_in_all;
    trained together(c);
    const std::vector<double> losses = together.train_on(views, settings);
    ASSERT_EQ(losses.size(), size_t(views_in_all));
    double loss = 0, of_batch = 0;
    EXPECT_LT(relative(trained::read(together.state.first_moment), sum_of_each(c, alone, settings, &loss)),
              most_error);
    for (const double one : losses) of_batch += one;
    EXPECT_NEAR(of_batch, loss, 0.1 * most_error * loss);
}

TEST(SeveralViews, GradientIsTheSumOfThoseOfEach) {
    const detailed_cloud c;
    expect_sum_of_each(c, c.views, c.views, detailed_cloud::settings_of(1, 1), 1e-4);
}

// In a frame of all views, and as ranks do it.
TEST(SeveralViews, EachHasItsOwnPictureBeforeARandomBackground) {
    cloud c(60, width, height);
    std::vector<uint8_t> alpha(size_t(width) * height);
    for (size_t i = 0; i < alpha.size(); i++) alpha[i] = uint8_t(i);
    for (target_view &view : c.views) target_view_set_alpha(&view, alpha.data());
    for (const distwar_strategy strategy : {DISTWAR_TREE, DISTWAR_FIXED}) {
        training_settings settings = cloud::settings(1);
        settings.policy.strategy = strategy;
        settings.random_background = true;
        expect_sum_of_each(c, c.views, c.views, settings, 1e-4);
    }
}

TEST(SeveralViews, RatesGrowAsTheSquareRoot) {
    const detailed_cloud c;
    const std::vector<target_view> same(4, c.views[0]);
    trained together(c), alone(c);
    together.train_on(same, detailed_cloud::settings_of(4, 4));
    training_settings faster = detailed_cloud::settings_of(1, 1);
    for (float *rate :
         {&faster.rates.mean, &faster.rates.log_scale, &faster.rates.quaternion, &faster.rates.opacity_logit,
          &faster.rates.sh0, &faster.rates.shN, &faster.final_mean_rate})
        *rate *= 2;
    alone.train_on({c.views[0]}, faster);
    const std::vector<float> start = trained::read(trained(c).state.gaussians);
    std::vector<float> moved = trained::read(together.state.gaussians),
                       expected = trained::read(alone.state.gaussians);
    for (size_t i = 0; i < start.size(); i++) moved[i] -= start[i], expected[i] -= start[i];
    EXPECT_LT(relative(moved, expected), 1e-3);
}

TEST(Resolutions, SmallViewsAreTheViewsShrunkAndAreTrainedOnFirst) {
    const detailed_cloud c;
    for (const char *text : {"8:50", "2:50"}) { // an eighth would be shorter than 64 pixels: half in both
        training_settings settings = detailed_cloud::settings_of(4, 1);
        const resolution_schedule schedule = schedule_of(text);
        view_source all;
        fault why;
        ASSERT_TRUE(
            view_source_open(&all, nullptr, c.views.data(), c.views.size(), &schedule, 1, 0, false, &why))
            << why.text;
        EXPECT_EQ(view_source_at(&all, false), c.views.data());
        const target_view *small = view_source_at(&all, true);
        ASSERT_NE(small, c.views.data());
        for (size_t v = 0; v < views_in_all; v++) {
            EXPECT_EQ(small[v].camera.width, width / 2);
            EXPECT_EQ(small[v].camera.height, height / 2);
            EXPECT_FLOAT_EQ(small[v].camera.fx, c.views[v].camera.fx / 2);
            EXPECT_EQ(small[v].camera.translation[0], c.views[v].camera.translation[0]);
            image expected;
            ASSERT_TRUE(image_downscale(&c.pictures[v], 2, &expected, &why)) << why.text;
            const size_t pixels = size_t(expected.width) * size_t(expected.height);
            std::vector<uint8_t> got(3 * pixels), mask(pixels);
            std::vector<float> depth(pixels);
            device_download(got.data(), small[v].pixels, got.size());
            device_download(mask.data(), small[v].mask, mask.size());
            device_download(depth.data(), small[v].depth, depth.size() * sizeof(float));
            EXPECT_EQ(std::memcmp(got.data(), expected.pixels, got.size()), 0) << v;
            EXPECT_EQ(mask[0] != 0,
                      c.masks[v][0] && c.masks[v][1] && c.masks[v][width] && c.masks[v][width + 1]);
            EXPECT_NEAR(depth[0],
                        (c.depths[v][0] + c.depths[v][1] + c.depths[v][width] + c.depths[v][width + 1]) / 4,
                        1e-6);
            EXPECT_EQ(small[v].alpha, nullptr);
            image_close(&expected);
        }
        trained on_small(c), on_schedule(c), on_whole(c);
        const std::vector<double> first = on_small.train_on({small, small + views_in_all}, settings),
                                  last = on_whole.train_on(c.views, settings);
        settings.resolutions = schedule;
        const std::vector<double> got = on_schedule.train_on(c.views, settings);
        for (const size_t i : {0, 1}) EXPECT_EQ(got[i], first[i]);
        EXPECT_NE(got[2], first[2]);
        EXPECT_NE(got[0], last[0]);
        view_source_close(&all);
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
    fault why;
    std::vector<image> pictures(views_in_all);
    std::vector<target_view> views(views_in_all);
    const std::vector<float> depth(size_t(width) * height, 0.3f);
    const std::vector<uint8_t> all(size_t(width) * height, 255);
    for (size_t v = 0; v < views_in_all; v++) {
        gs_camera camera = c.views[v].camera;
        camera.width -= int(2 * v), camera.height -= int(v % 3);
        ASSERT_TRUE(image_open(&pictures[v], camera.width, camera.height, 3, &why)) << why.text;
        for (size_t i = 0; i < 3 * size_t(camera.width) * size_t(camera.height); i++)
            pictures[v].pixels[i] = uint8_t(127 + 100 * std::sin(0.03 * double(i) + double(v)));
        ASSERT_TRUE(target_view_open(&views[v], &camera, &pictures[v], &why)) << why.text;
        if (v == 2) target_view_set_mask(&views[v], c.masks[v].data());
        target_view_set_depth(&views[v], depth.data());
    }
    ASSERT_TRUE(resolution_views_match(views.data(), views.size(), &why)) << why.text;
    std::vector<target_view> alone =
        views; // with the mask that a padded view has: windows at its edges count alike
    for (size_t v = 1; v < views_in_all; v++)
        if (v != 2) target_view_set_mask(&alone[v], all.data());
    // The field of view also bounds the derivatives of Gaussians beside the picture: here it is a little larger.
    expect_sum_of_each(c, views, alone, detailed_cloud::settings_of(1, 1), 1e-2);
    for (size_t v = 1; v < views_in_all; v++)
        if (v != 2) device_free(alone[v].mask);
    views[4].camera.model = GS_FISHEYE;
    EXPECT_FALSE(resolution_views_match(views.data(), views.size(), &why));
    EXPECT_STREQ(why.text, "several views per step need cameras of one model");
    views[4].camera.model = GS_PINHOLE;
    views[2].camera.width = views[3].camera.width = 40;
    EXPECT_FALSE(resolution_views_match(views.data(), views.size(), &why));
    EXPECT_STREQ(why.text, "several views per step need pictures of about one size");
    for (target_view &view : views) target_view_close(&view);
    for (image &picture : pictures) image_close(&picture);
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
        const std::vector<double> losses = plain.train_on(c.views, settings);
        settings.resolutions = schedule_of(text);
        EXPECT_EQ(phased.train_on(c.views, settings), losses) << text;
        EXPECT_TRUE(trained::read(phased.state.gaussians) == trained::read(plain.state.gaussians)) << text;
    }
}

} // namespace
