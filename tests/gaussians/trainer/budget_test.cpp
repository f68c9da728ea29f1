// SPDX-License-Identifier: MIT
// Training in a given time: the trainer with a clock of its own, and dsplat train --budget
// as users run them.
#include "program_run.h"
#include "training_cloud.h"
#include "json_value.h"
extern "C" {}
#include "plan.h"
#include <algorithm>
#include <csignal>

namespace {

// ---- the trainer

// A cloud, and a clock that a step moves on by a time for each Gaussian.
class timed : public cloud {
  public:
    timed() : cloud(40, width, height), settings(cloud::settings(7000)) {
        settings.seed = 3;
        settings.sh_interval = 1000;
        training_state_open(&state, group, &host);
    }
    ~timed() {
        training_report_close(&report);
        training_state_close(&state);
    }
    timed(const timed &) = delete;
    timed &operator=(const timed &) = delete;

    // seconds 0: without a budget
    void train_for(double seconds) {
        budget = {seconds, fit, now, this};
        settings.budget = seconds > 0 ? &budget : nullptr;
        const training_observer observer = {observe, this, 1, &end, nullptr, nullptr};
        training_report_close(&report);
        seen_iteration = state.place.views;
        fault why;
        ASSERT_TRUE(
            train_on(nullptr, &state, views.data(), views.size(), &settings, &observer, &report, &why))
            << why.text;
    }
    int64_t dead() const {
        std::vector<float> logits(size_t(state.gaussians.count));
        device_download(logits.data(), state.gaussians.opacity_logit, logits.size() * sizeof(float));
        return std::count(logits.begin(), logits.end(), -20.0f);
    }
    std::vector<char> bytes() const {
        std::vector<char> out(device_gaussians_bytes(state.gaussians.count, state.gaussians.sh_degree));
        device_download(out.data(), state.gaussians.mean, out.size());
        return out;
    }

    static constexpr int width = 16, height = 12;
    training_settings settings;
    training_state state = {};
    training_report report = {};
    double cost = 3e-5;          // seconds of a step, for each Gaussian
    double fitted = 0, most = 0; // the steps that the budget was worth at first, and at most
    std::vector<double> asked;   // of `fit`, one after another
    int fits = 0, retirements = 0;
    double retired = 0, retiring = 0; // the part, and the seconds of a retirement
    sig_atomic_t end = 0;
    int64_t end_at = 0;
    bool end_after_one = false; // in the second scene
    std::vector<int64_t> at;
    int64_t seen_iteration = 0, seen_dead = 0;
    double clock = 100;

  private:
    static void fit(void *context, double steps, training_settings *s) {
        timed *const t = static_cast<timed *>(context);
        if (t->fits++ == 0) t->fitted = steps;
        t->asked.push_back(steps);
        t->most = std::max(t->most, steps);
        s->iterations = 500;
        s->sh_interval = 100;
        s->density.kind = DENSITY_SPLIT;
        s->density.from = 50;
        s->density.every = 20;
        s->density.until = 400;
        s->density.least_opacity = 0.005;
        s->density.most_gaussians = 120;
        s->density.retired = t->retired;
        s->density.retire_every = 100;
    }
    static double now(void *context) {
        timed *const t = static_cast<timed *>(context);
        for (; t->seen_iteration < t->state.place.views; t->seen_iteration++)
            t->clock += t->cost * double(t->state.gaussians.count);
        // The dead are made by a retirement, and a split ends them in the same step.
        const int64_t dead = t->dead();
        if (dead > t->seen_dead) {
            t->retirements++;
            t->clock += t->retiring;
        }
        t->seen_dead = dead;
        return t->clock;
    }
    static bool observe(void *context, const training_state *state, const training_report *, fault *) {
        timed *const t = static_cast<timed *>(context);
        t->at.push_back(state->place.at);
        t->clock += t->observing;
        t->end = (t->end_at > 0 && state->place.views >= t->end_at) ||
                 (t->end_after_one && state->place.scene == 1);
        return true;
    }
    training_budget budget = {};

  public:
    double observing = 0; // seconds of the observer
};

TEST(BudgetedTraining, GoesThroughTheWholeScheduleInItsTime) {
    timed t;
    t.train_for(0.4); // 333 steps of 40 Gaussians, 111 of 120
    EXPECT_NEAR(t.report.seconds, 0.4, 0.03 * 0.4);
    EXPECT_GT(t.fits, 1); // steps become three times slower
    EXPECT_LT(t.fits, 6);
    EXPECT_NEAR(t.fitted, 333, 1);
    EXPECT_EQ(t.state.gaussians.count, 120);
    EXPECT_EQ(t.state.place.at, 500);
    EXPECT_EQ(t.state.place.progress, 1);
    EXPECT_TRUE(std::is_sorted(t.at.begin(), t.at.end()));
    EXPECT_EQ(t.at.front(), 1);
    EXPECT_EQ(int64_t(t.at.size()), t.report.iterations);
    EXPECT_GT(t.report.iterations, 115);
    EXPECT_LT(t.report.iterations, 330);
    for (size_t i = 1; i < t.at.size(); i++) ASSERT_LE(t.at[i] - t.at[i - 1], 16) << i;
    for (int64_t i = 0; i < t.report.iterations; i++) ASSERT_TRUE(std::isfinite(t.report.losses[i])) << i;
    EXPECT_GT(t.report.losses[0], 0);
}

// The validation view shows its negative: training learns nothing that it confirms, and ends long before the time.
TEST(BudgetedTraining, TheTimeThatIsLeftTrainsScenesThatTeachALastOne) {
    timed t;
    std::vector<uint8_t> negative(3 * timed::width * timed::height);
    device_download(negative.data(), t.views[0].pixels, negative.size());
    for (uint8_t &value : negative) value = uint8_t(255 - value);
    device_upload(t.views[0].pixels, negative.data(), negative.size());
    t.views[0].validates = true;
    t.settings.validation_until = 0.75;
    t.settings.validate_every = 5;
    t.settings.teachers = 2;
    t.end_after_one = true;
    t.train_for(1);
    EXPECT_TRUE(t.report.stopped);
    EXPECT_EQ(t.state.place.scene, 1);
    EXPECT_LT(t.state.place.seconds, 0.25);
    t.end = 0, t.end_after_one = false;
    t.state.place.length = 5000; // as if steps had been faster when that was known
    t.asked.clear();
    t.train_for(1);
    ASSERT_GT(t.state.place.ended, 0);
    const int64_t each = t.state.place.ended + (t.state.place.ended + 2) / 3;
    EXPECT_EQ(t.state.place.scene, 2);
    EXPECT_EQ(t.state.place.scenes, 2);
    EXPECT_NEAR(t.state.place.seconds, 1, 0.03);
    EXPECT_EQ(t.state.place.at, 500);
    EXPECT_EQ(t.state.place.progress, 1);
    EXPECT_GT(t.report.iterations, 3 * each);
    // The second teacher, which is resumed, has a schedule of ten times the views until the end, the last scene all.
    EXPECT_EQ(t.asked, (std::vector<double>{10 * double(t.state.place.ended), 5000}));
    EXPECT_LE(t.state.gaussians.count,
              std::max(t.state.distillation.teacher[0].count, t.state.distillation.teacher[1].count));
}

TEST(BudgetedTraining, TwiceTheTimeIsTwiceTheSteps) {
    timed once, twice;
    once.settings.density.kind = twice.settings.density.kind = DENSITY_NONE;
    once.train_for(0.1);
    twice.train_for(0.2);
    EXPECT_NEAR(double(twice.report.iterations) / double(once.report.iterations), 2, 0.2);
    EXPECT_NEAR(twice.fitted / once.fitted, 2, 0.01);
}

TEST(BudgetedTraining, ObservingTakesNoTimeOfTheBudget) {
    timed t;
    t.observing = 1;
    t.train_for(0.2);
    EXPECT_NEAR(t.report.seconds, 0.2, 0.03 * 0.2);
    EXPECT_GT(t.clock, 150);
}

TEST(BudgetedTraining, RetiresWhereThatTakesLittleOfItsTime) {
    for (const auto &[retiring, retirements] : {std::pair{0.005, 3}, {0.05, 1}}) {
        timed t; // after steps 100, 200, 300 of the schedule; what one takes is not known before the first
        t.retired = 0.2;
        t.retiring = retiring;
        t.train_for(0.4);
        EXPECT_EQ(t.retirements, retirements) << retiring;
        EXPECT_NEAR(t.report.seconds, 0.4, 0.03 * 0.4) << retiring;
        EXPECT_EQ(t.state.place.at, 500) << retiring;
    }
}

TEST(BudgetedTraining, ContinuesWithTheTimeThatIsLeft) {
    timed whole, parts;
    whole.train_for(0.4);
    parts.end_at = 60;
    parts.train_for(0.4);
    EXPECT_EQ(parts.state.place.views, 61);
    EXPECT_LT(parts.state.place.progress, 0.5);
    EXPECT_NEAR(parts.state.place.seconds, parts.report.seconds, 1e-12);
    const double first = parts.report.seconds;
    const int fits = parts.fits;
    parts.end_at = 0;
    parts.end = 0;
    parts.train_for(0.4);
    EXPECT_GT(parts.fits, fits);           // the settings are those of the first part
    EXPECT_LT(parts.most, 2 * whole.most); // also before a step of this part was timed
    EXPECT_NEAR(first + parts.report.seconds, 0.4, 0.03 * 0.4);
    EXPECT_NEAR(parts.state.place.seconds, 0.4, 0.03 * 0.4);
    EXPECT_EQ(parts.state.place.at, 500);
    EXPECT_TRUE(std::is_sorted(parts.at.begin(), parts.at.end()));
    EXPECT_NEAR(double(parts.state.place.views), double(whole.state.place.views),
                0.05 * double(whole.state.place.views));
    const int64_t done = parts.state.place.views;
    parts.train_for(0.4); // nothing is left
    EXPECT_EQ(parts.state.place.views, done);
}

TEST(BudgetedTraining, APlaceFromAFileMustBePossible) {
    const run_place good = {600, 600, 640, 638, 1000, 0.64, 3.2, 0, 0, 0};
    EXPECT_TRUE(place_is_possible(&good));
    run_place fresh = {12, 12, 12, 11, 0, 0, 0.2, 0, 0, 0};
    EXPECT_TRUE(place_is_possible(&fresh));
    fresh.views = 13;
    EXPECT_FALSE(place_is_possible(&fresh));
    const struct {
        int64_t at, before;
        double length, progress, seconds;
        int64_t ended;
    } bad[] = {
        {640, 641, 1000, 0.64, 3.2, 0},  {640, -2, 1000, 0.64, 3.2, 0},   {640, 638, NAN, 0.64, 3.2, 0},
        {640, 638, 1000, NAN, 3.2, 0},   {640, 638, 1000, 1.1, 3.2, 0},   {640, 638, 1000, 0.64, -1, 0},
        {640, 638, 1e300, 0.6, 3.2, 0},  {640, 638, 1000, 0.6, NAN, 0},   {INT64_MAX, 638, 1, 0.6, 1, 0},
        {640, 638, 1000, 0.64, 3.2, -1}, {640, 638, 1000, 0.64, 3.2, 601}};
    for (const auto &b : bad) {
        const run_place place = {600, 600, b.at, b.before, b.length, b.progress, b.seconds, b.ended, 0, 0};
        EXPECT_FALSE(place_is_possible(&place));
    }
}

// ---- the program

std::vector<json> lines_of(const fs::path &log, const std::string &event) {
    std::vector<json> found;
    std::istringstream lines(contents(log));
    for (std::string line; std::getline(lines, line);)
        if (const json value(line); value["event"].text() == event) found.push_back(value);
    return found;
}

class Budget : public Program {
  protected:
    void generate(int views) const {
        const outcome run = splat({"generate", at("data"), "--views", std::to_string(views), "--test-views",
                                   "2", "--size", "16", "--gaussians", "1000"});
        ASSERT_EQ(run.code, 0) << run.err;
    }
    outcome train(std::vector<std::string> more) const {
        more.insert(more.begin(), {"train", at("data"), "-o", at("scene.ply"), "--random", "60",
                                   "--background", "1,1,1", "--sh-degree", "1", "--log", at("log")});
        return splat(more);
    }
};

TEST_F(Budget, EndsInTime) {
    generate(4);
    const outcome run = train({"--budget", "2s"});
    ASSERT_EQ(run.code, 0) << run.err;
    const json end = lines_of(at("log"), "end").at(0);
    EXPECT_GT(end["iteration"].number(), 10);
    EXPECT_GT(end["seconds"].number(), 1.5); // the machine that tests this does other things too
    EXPECT_LT(end["seconds"].number(), 4);
    EXPECT_EQ(lines_of(at("log"), "start").at(0)["settings"]["budget"].text(), "2s");
}

TEST_F(Budget, IsOverAfterOneStepThatTakesLonger) {
    generate(4);
    const outcome run = train({"--budget", "1e-9"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(lines_of(at("log"), "end").at(0)["iteration"].number(), 1);
}

TEST_F(Budget, AResumedRunHasTheTimeThatIsLeft) {
    generate(4);
    const outcome first = train({"--budget", "3", "--checkpoint-every", "10"});
    ASSERT_EQ(first.code, 0) << first.err;
    const std::vector<json> checkpoints = lines_of(at("log"), "checkpoint");
    ASSERT_FALSE(checkpoints.empty()) << "fewer than 10 steps in 3 seconds";
    const json saved = checkpoints.back();
    run_place place; // of the checkpoint
    memcpy(&place, contents(at("scene.ply.checkpoint")).data() + 56, sizeof place);
    ASSERT_EQ(double(place.views), saved["iteration"].number());
    ASSERT_GT(place.seconds, 0);
    const double whole = lines_of(at("log"), "end").at(0)["iteration"].number();
    fs::remove(at("log"));
    outcome run = train({"--budget", "3", "--resume", at("scene.ply.checkpoint")});
    ASSERT_EQ(run.code, 0) << run.err;
    const json end = lines_of(at("log"), "end").at(0);
    if (whole > saved["iteration"].number()) { // not saved with the last step
        EXPECT_GT(end["iteration"].number(), saved["iteration"].number());
    }
    EXPECT_LT(end["seconds"].number(), 3 - place.seconds / 2);
    run = train({"--budget", "4", "--resume", at("scene.ply.checkpoint")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "--budget 3; this run has --budget 4");
}

TEST_F(Budget, WrongOnesAreRefused) {
    write_colmap(at("data"), 10);
    for (const char *wrong : {"0", "nan", "inf", "1e9", "12d", "x", "", "10 s", "1e400", "999999m"}) {
        const outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--budget", wrong});
        EXPECT_EQ(run.code, 2) << wrong;
        EXPECT_CONTAINS(run.err, std::string("--budget ") + wrong + ": must be a time such as");
    }
    const struct {
        std::vector<std::string> with;
        const char *text;
    } cases[] = {{{"--reproducible"}, "--reproducible excludes --budget"},
                 {{"--iterations", "100"}, "--budget excludes --iterations"},
                 {{"--refine-poses"}, "--budget excludes --refine-poses"},
                 {{"--budget", "-1"}, "--budget -1: must be a time such as"}};
    for (const auto &c : cases) {
        std::vector<std::string> arguments = {"train", at("data"), "-o", at("scene.ply"), "--budget", "5"};
        arguments.insert(arguments.end(), c.with.begin(), c.with.end());
        const outcome run = splat(arguments);
        EXPECT_EQ(run.code, 2) << c.text;
        EXPECT_CONTAINS(run.err, c.text);
    }
    EXPECT_FALSE(fs::exists(at("scene.ply")));
}

} // namespace
