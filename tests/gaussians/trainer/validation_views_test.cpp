// SPDX-License-Identifier: MIT
// Validation views: which, from when on they are trained on, and what a run says of them.
#include "json_value.h"
#include "plan.h"
#include "program_run.h"
#include "views.h"
#include "checkpoint.h"
#include "training_cloud.h"
#include <algorithm>
#include <set>

namespace {

// Looks forward from its place, turned by an angle about the vertical axis.
target_view view_at(double x, double z, double angle) {
    target_view view = {};
    const float c = float(std::cos(angle)), s = float(std::sin(angle));
    const float rotation[9] = {c, 0, -s, 0, 1, 0, s, 0, c};
    std::memcpy(view.camera.rotation, rotation, sizeof rotation);
    view.camera.translation[0] = float(-(double(c) * x - double(s) * z));
    view.camera.translation[2] = float(-(double(s) * x + double(c) * z));
    return view;
}

struct choice : validation_views {
    choice(std::vector<target_view> &of, size_t wanted) : validation_views{} {
        fault why;
        EXPECT_TRUE(validation_views_choose(of.data(), of.size(), wanted, this, &why)) << why.text;
    }
    ~choice() { validation_views_close(this); }
    choice(const choice &) = delete;
};

// Forty views in one place that look the same way, five elsewhere: every n-th view would miss some of these.
TEST(ValidationViews, CoverPlacesAndDirections) {
    std::vector<target_view> views;
    for (int i = 0; i < 40; i++) views.push_back(view_at(0.01 * i, 0, 0.001 * i));
    for (int i = 0; i < 3; i++) views.push_back(view_at(5 + 0.01 * i, 0, 0));
    for (int i = 0; i < 2; i++) views.push_back(view_at(0.2, 0, 3.1 + 0.01 * i));
    const choice got(views, 3);
    ASSERT_EQ(got.count, 3u);
    const size_t *const validation = got.views, *const trained = got.trained;
    EXPECT_TRUE(validation[0] >= 15 && validation[0] <= 24)
        << "the middle of the forty, not their end: " << validation[0];
    EXPECT_EQ(validation[1], 41u);
    EXPECT_GE(validation[2], 43u);
    for (size_t i = 0; i < views.size(); i++)
        EXPECT_EQ(views[i].validates, std::count(validation, validation + 3, i) == 1) << i;
    EXPECT_EQ(trained[0] + 1 == validation[0] || trained[0] == validation[0] + 1, true);
    EXPECT_TRUE(trained[1] == 40 || trained[1] == 42);
    EXPECT_EQ(trained[2], 87 - validation[2]);
}

// Twenty views along a line, in an order of their own, of which two validate.
TEST(Neighbours, ArePairsAndThreesThatAreNearAndThoseSetAsideAlone) {
    std::vector<target_view> views;
    for (int i = 0; i < 20; i++) views.push_back(view_at(7 * i % 20, 0, 0));
    views[4].validates = views[11].validates = true;
    std::vector<int32_t> order(20);
    std::vector<neighbours> of(20);
    fault why;
    ASSERT_TRUE(neighbours_choose(views.data(), 20, false, order.data(), of.data(), &why)) << why.text;
    EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 20u);
    EXPECT_TRUE(order[18] + order[19] == 15 && (order[18] == 4 || order[19] == 4));
    for (size_t v = 0; v < 20; v++) {
        EXPECT_EQ(order[size_t(of[v].first + of[v].place)], int32_t(v));
        EXPECT_TRUE(views[v].validates ? of[v].count == 1 : of[v].count == 2 || of[v].count == 3) << v;
        for (int64_t i = 0; i < of[v].count; i++) {
            const int32_t other = order[size_t(of[v].first + i)];
            EXPECT_EQ(of[size_t(other)].first, of[v].first);
            EXPECT_LE(std::abs(int(7 * v % 20) - 7 * other % 20), 3) << v << " " << other;
        }
    }
}

TEST(ValidationViews, OfOneCameraDiffer) {
    std::vector<target_view> views(6, view_at(1, 2, 0));
    const choice half(views, 3);
    ASSERT_EQ(half.count, 3u);
    std::vector<size_t> all(half.views, half.views + 3);
    all.insert(all.end(), half.trained, half.trained + 3);
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, (std::vector<size_t>{0, 1, 2, 3, 4, 5}));
    const std::pair<size_t, size_t> usual[] = {{39, 0}, {47, 4}, {100, 6}, {1000, 16}};
    for (const auto &[count, validating] : usual) EXPECT_EQ(default_validation(count), validating) << count;
}

// Nothing of the pictures of validation views is in the result.
TEST(ValidationViews, AreTrainedOnFromTheirPartOfTheScheduleOn) {
    int64_t last = 0; // the last step that left them out
    const auto with = [&](double until, size_t validating, bool other_pictures) {
        cloud c(40, 16, 12);
        for (size_t v = 0; v < 2; v++) {
            c.views[v].validates = v < validating;
            const std::vector<uint8_t> black(3 * 16 * 12, 0);
            if (other_pictures) device_upload(c.views[v].pixels, black.data(), black.size());
        }
        training_settings settings = cloud::settings(31);
        settings.validation_until = until;
        looking_on look([&](const training_state *, const training_report *report, looking_on *) {
            if (report->validating) last = report->iterations;
        });
        trained state(c);
        state.train_on(c.views, settings, &look.observer);
        return trained::read(state.state.gaussians);
    };
    EXPECT_EQ(with(1.1, 2, false), with(1.1, 2, true));
    EXPECT_EQ(last, 31);
    EXPECT_NE(with(1.1, 1, false), with(1.1, 1, true));
    last = 0;
    EXPECT_NE(with(0.5, 2, false), with(0.5, 2, true));
    EXPECT_EQ(last, 15); // steps 1 .. 31 are at 0, 1/30, ..., 1
    EXPECT_EQ(with(0, 2, false), with(1.1, 0, false));
}

// The validation view shows stripes: training learns nothing that they confirm.
struct noise_run {
    std::set<int64_t> after; // the iterations that are interrupted
    bool at_end = false;     // the iteration after the end is
    int64_t teachers = 0;
    run_place place = {}; // at the end
    static void pass_through_a_file(training_state *state) {
        const std::string path = testing::TempDir() + "teachers.checkpoint";
        const checkpoint_key key = {"", 0, nullptr};
        ranks *const group = state->group;
        fault why;
        EXPECT_TRUE(checkpoint_write(path.c_str(), &key, state, &why)) << why.text;
        training_state_close(state);
        const training_place alone = {group, nullptr};
        EXPECT_TRUE(checkpoint_read(path.c_str(), &key, &alone, state, &why)) << why.text;
        std::remove(path.c_str());
    }
    // The Gaussians, and the curve of the losses.
    std::pair<std::vector<float>, std::string> of(bool striped) {
        cloud c(40, 16, 12);
        std::vector<uint8_t> picture(3 * 16 * 12);
        for (size_t i = 0; i < picture.size(); i += 2) picture[i] = 255;
        c.views[0].validates = true;
        if (striped) device_upload(c.views[0].pixels, picture.data(), picture.size());
        training_settings settings = cloud::settings(teachers > 0 ? 700 : 200);
        settings.validation_until = 0.75;
        settings.validate_every = 5;
        settings.teachers = teachers;
        trained run(c);
        training_state &state = run.state;
        for (bool stopped = true; stopped;) {
            looking_on look(
                [this](const training_state *seen, const training_report *report, looking_on *self) {
                    self->end = at_end ? report->iterations == seen->place.ended + 1
                                       : after.count(report->iterations) > 0;
                });
            run.train_on(c.views, settings, &look.observer);
            stopped = run.report.stopped;
            if (stopped && teachers > 0) pass_through_a_file(&state);
        }
        place = state.place;
        if (teachers > 0) {
            EXPECT_EQ(memcmp(state.distillation.start.mean, c.host.mean, 40 * 3 * sizeof(float)), 0);
            EXPECT_EQ(memcmp(state.distillation.start.sh, c.host.sh, 40 * 12 * sizeof(float)), 0);
        }
        return {trained::read(state.gaussians),
                {reinterpret_cast<const char *>(&state.learning), sizeof state.learning}};
    }
};

TEST(ValidationViews, EndTrainingThatLearnsOnlyNoise) {
    noise_run r;
    r.of(false);
    EXPECT_EQ(r.place.ended, 0);
    EXPECT_EQ(r.place.views, 200);
    const auto whole = r.of(true);
    const int64_t ended = r.place.ended;
    EXPECT_GE(ended, 15) << "three measurements";
    EXPECT_LT(ended, 150);
    EXPECT_EQ(r.place.views, ended + (ended + 2) / 3);
    for (const int64_t after : {13, 61}) {
        r.after = {after};
        EXPECT_EQ(r.of(true), whole) << "interrupted after " << after;
    }
    r.at_end = true;
    EXPECT_EQ(r.of(true), whole) << "interrupted in the last part";
}

TEST(ValidationViews, ScenesWhoseTrainingEndsTeachALastOne) {
    noise_run r;
    r.teachers = 2;
    const auto taught = r.of(true);
    EXPECT_EQ(r.place.scene, 2);
    EXPECT_EQ(r.place.views, 700);
    const int64_t ended = r.place.ended, each = ended + (ended + 2) / 3;
    r.after = {each, each + ended + 1, 2 * each + 5};
    EXPECT_EQ(r.of(true), taught) << "interrupted in each scene";
}

class Validation : public Program {
  protected:
    const std::string train =
        "train @data -o @scene.ply --log @log --holdout 0 --iterations 40 --seed 7 --batch 1 "
        "--retire 0.5 --schedule from=2,every=4,retire=4 --sh-degree 0 ";
    std::vector<json> lines() const {
        std::vector<json> out;
        std::istringstream text(contents(at("log")));
        for (std::string line; std::getline(text, line);)
            if (const json one(line); one["event"].text() == "validation") out.push_back(one);
        return out;
    }
};

TEST_F(Validation, IsInLogAndReportUntilViewsAreGivenBack) {
    write_colmap(at("data"), 30);
    EXPECT_CONTAINS(done(train + "--validate 2 --report @report --reproducible").out,
                    "validation after iteration 30: PSNR ");
    const std::vector<json> seen = lines();
    ASSERT_EQ(seen.size(), 15u); // every second of the 30 before 3/4
    EXPECT_EQ(seen.back()["iteration"].number(), 30);
    EXPECT_EQ(seen.back()["views"].number(), 2);
    EXPECT_LT(seen.front()["training_psnr"].number(), seen.back()["training_psnr"].number());
    EXPECT_NE(seen.back()["psnr"].number(), seen.back()["training_psnr"].number());
    const std::string scene = contents(at("scene.ply"));
    EXPECT_CONTAINS(contents(at("report/index.html")), R"("name": "validation")");

    // The same on ranks, and resumed.
    done(train + "--validate 2 --gpus 2 --reproducible --checkpoint-every 27");
    fs::rename(at("scene.ply.checkpoint"), at("saved"));
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
    const std::vector<json> on_ranks = lines();
    ASSERT_EQ(on_ranks.size(), seen.size());
    for (size_t i = 0; i < seen.size(); i++)
        for (const char *key : {"psnr", "training_psnr"})
            EXPECT_EQ(on_ranks[i][key].number(), seen[i][key].number()) << i << " " << key;
    done(train + "--validate 2 --reproducible --resume @saved");
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
    EXPECT_EQ(dsplat(train + "--validate 1 --reproducible --resume @saved").code, 1);
}

TEST_F(Validation, IsOffByDefaultAndRefusesWhatItCannotDo) {
    write_colmap(at("data"), 30);
    EXPECT_EQ(done(train).out.find("validation"), std::string::npos);
    EXPECT_EQ(lines().size(), 0u);
    refuses({{train + "--validate 3", 1, "more than half of the 5 training views"},
             {train + "--validate some", 2, "--validate some: must be a number"},
             {train + "--validate=-1", 2, "--validate -1: must be a number"},
             {train + "--validate 2 --refine-poses", 2, "--validate excludes --refine-poses"}});
}

} // namespace
