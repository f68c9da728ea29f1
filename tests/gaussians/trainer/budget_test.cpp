// SPDX-License-Identifier: MIT
// Training in a given time: the trainer with a clock of its own, and dsplat train --budget
// as users run them.
#include "program_run.h"
#include "training_cloud.h"
#include "json_value.h"
#include "arrays.h"
#include "plan.h"
#include <algorithm>
#include <csignal>
#include <tuple>

namespace {

// ---- the trainer

// Without what has no Gaussian in arrays that have room for more.
std::vector<float> shown_as_floats(const gs_gaussians &of) {
    const gs_arrays arrays = gs_arrays_of(&of);
    std::vector<float> out;
    for (int a = 0; a < GS_ARRAYS; a++) {
        std::vector<float> values(size_t(of.count) * size_t(arrays.width[a]));
        device_download(values.data(), arrays.of[a], values.size() * sizeof(float));
        out.insert(out.end(), values.begin(), values.end());
    }
    return out;
}

// A cloud, and a clock that a step moves on by a time for each Gaussian.
class timed : public cloud {
  public:
    timed() : cloud(40, width, height), settings(cloud::settings(7000)), run(*this) {
        settings.seed = 3;
        settings.sh_interval = 1000;
    }
    // seconds 0: without a budget
    void train_for(double seconds) {
        settings.budget = seconds;
        settings.fit = fit, settings.now = now, settings.context = this;
        looking_on look([this](const training_state *seen, const training_report *, looking_on *self) {
            at.push_back(seen->place.at);
            clock += observing;
            self->end = end_after_one && seen->place.scene == 1;
        });
        seen_iteration = state.place.views;
        run.train_on(views, settings, &look.observer);
    }
    int64_t dead() const {
        std::vector<float> logits(size_t(state.gaussians.count));
        device_download(logits.data(), state.gaussians.opacity_logit, logits.size() * sizeof(float));
        return std::count(logits.begin(), logits.end(), -20.0f);
    }
    void validate(const std::vector<uint8_t> &shown) {
        device_upload(views[0].pixels, shown.data(), shown.size());
        views[0].validates = true;
        settings.validation_until = 0.75;
        settings.teachers = 2;
    }

    static constexpr int width = 16, height = 12;
    training_settings settings;
    trained run;
    training_state &state = run.state;
    training_report &report = run.report;
    double cost = 3e-5;               // seconds of a step, for each Gaussian
    double observing = 0;             // seconds of the observer
    double retired = 0, retiring = 0; // the part, and the seconds of a retirement
    bool end_after_one = false;       // in the second scene
    int64_t usual = 0;                // iterations of the run that a long budget begins with
    std::vector<double> asked;        // of `fit`, one after another: the steps that the budget was worth
    int retirements = 0;
    std::vector<int64_t> at;
    int64_t seen_iteration = 0, seen_dead = 0;
    double clock = 100;

  private:
    static void fit(void *context, double steps, training_settings *s) {
        timed *const t = static_cast<timed *>(context);
        t->asked.push_back(steps);
        if (steps == double(t->usual)) {
            *s = t->settings;
            return;
        }
        s->iterations = 500;
        s->sh_interval = 100;
        s->density.kind = DENSITY_SPLIT;
        s->density.from = 50, s->density.every = 20, s->density.until = 400;
        s->density.least_opacity = 0.005;
        s->density.most_gaussians = 120;
        s->density.retired = t->retired, s->density.retire_every = 100;
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
};

TEST(BudgetedTraining, GoesThroughTheWholeScheduleInItsTime) {
    timed t;
    t.train_for(0.4); // 333 steps of 40 Gaussians, 111 of 120
    EXPECT_NEAR(t.report.seconds, 0.4, 0.03 * 0.4);
    EXPECT_GT(t.asked.size(), 1u); // steps become three times slower
    EXPECT_LT(t.asked.size(), 6u);
    EXPECT_NEAR(t.asked[0], 333, 1);
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
    t.validate(negative);
    t.settings.validate_every = 5;
    t.end_after_one = true;
    t.train_for(1);
    EXPECT_TRUE(t.report.stopped);
    EXPECT_EQ(t.state.place.scene, 1);
    EXPECT_LT(t.state.place.seconds, 0.25);
    t.end_after_one = false;
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
    EXPECT_EQ(t.asked, (std::vector<double>{5000})); // when it is resumed: all scenes have the same schedule
    EXPECT_LE(t.state.gaussians.count,
              std::max(t.state.distillation.teacher[0].count, t.state.distillation.teacher[1].count));
}

// A budget of several usual runs begins with one, and a longer one follows. Where the validation view is white and all others
// are black, that becomes no better: the time that is left is for teachers, or not used.
TEST(BudgetedTraining, ALongBudgetIsNoWorseThanAUsualRun) {
    const std::tuple<bool, double, int32_t, int32_t> cases[] = {
        {true, 0.6, 1, 0}, {false, 0.6, 1, 1}, {false, 2, 2, 2}};
    for (const auto &[confirms, seconds, scene, scenes] : cases) {
        SCOPED_TRACE(testing::Message() << confirms << ", " << seconds);
        timed t, once;
        for (timed *each : {&t, &once}) {
            const size_t bytes = 3 * timed::width * timed::height;
            const std::vector<uint8_t> white(bytes, 255), others(bytes, confirms ? 255 : 0);
            for (const target_view &view : each->views) device_upload(view.pixels, others.data(), bytes);
            each->validate(white);
            each->settings.validate_every = 10000; // but for the last look
            each->settings.iterations = each->usual = 60;
            each->cost = 6e-5; // 250 steps of 40 Gaussians in 0.6 s
        }
        once.train_for(0);
        t.train_for(seconds);
        const run_place &place = t.state.place;
        EXPECT_EQ(shown_as_floats(t.state.distillation.teacher[0]), shown_as_floats(once.state.gaussians));
        EXPECT_EQ(place.scene, scene);
        EXPECT_EQ(place.scenes, scenes);
        EXPECT_EQ(place.first_run, 60);
        EXPECT_EQ(place.progress, 1);
        EXPECT_EQ(place.ended, confirms ? 0 : 45);
        EXPECT_TRUE(place_is_possible(&place));
        if (scenes == 1)
            EXPECT_EQ(shown_as_floats(t.state.gaussians), shown_as_floats(once.state.gaussians));
        else
            EXPECT_NEAR(place.seconds, seconds, 0.03 * seconds);
    }
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

TEST(BudgetedTraining, APlaceFromAFileMustBePossible) {
    const run_place good = {600, 600, 640, 638, 1000, 0.64, 3.2, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_TRUE(place_is_possible(&good));
    run_place fresh = {12, 12, 12, 11, 0, 0, 0.2, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_TRUE(place_is_possible(&fresh));
    fresh.views = 13;
    EXPECT_FALSE(place_is_possible(&fresh));
    const struct {
        int64_t at, before, ended;
        double length, progress, seconds;
    } bad[] = {
        {640, 641, 0, 1000, 0.64, 3.2},  {640, -2, 0, 1000, 0.64, 3.2},   {640, 638, 0, NAN, 0.64, 3.2},
        {640, 638, 0, 1000, NAN, 3.2},   {640, 638, 0, 1000, 1.1, 3.2},   {640, 638, 0, 1000, 0.64, -1},
        {640, 638, 0, 1e300, 0.6, 3.2},  {640, 638, 0, 1000, 0.6, NAN},   {INT64_MAX, 638, 0, 1, 0.6, 1},
        {640, 638, -1, 1000, 0.64, 3.2}, {640, 638, 601, 1000, 0.64, 3.2}};
    for (const auto &b : bad) {
        const run_place place = {600,     600, b.at, b.before, b.length, b.progress, b.seconds,
                                 b.ended, 0,   0,    0,        0,        0,          0};
        EXPECT_FALSE(place_is_possible(&place));
    }
}

// ---- the program

class Budget : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        done("generate @data --views 4 --test-views 2 --size 16 --gaussians 1000");
    }
    // Of the run that was last.
    std::vector<json> lines_of(const std::string &event) const {
        std::vector<json> found;
        std::istringstream lines(contents(at("log")));
        for (std::string line; std::getline(lines, line);)
            if (const json value(line); value["event"].text() == event) found.push_back(value);
        return found;
    }
    const std::string train =
        "train @data -o @scene.ply --random 60 --background 1,1,1 --sh-degree 1 --log @log --budget ";
};

TEST_F(Budget, EndsInTimeAndAResumedRunHasWhatIsLeft) {
    done(train + "2s --checkpoint-every 10");
    json end = lines_of("end").at(0);
    const double whole = end["iteration"].number();
    EXPECT_GT(whole, 10);
    EXPECT_GT(end["seconds"].number(), 1.5); // the machine that tests this does other things too
    EXPECT_LT(end["seconds"].number(), 4);
    EXPECT_EQ(lines_of("start").at(0)["settings"]["budget"].text(), "2s");
    ASSERT_FALSE(lines_of("checkpoint").empty()) << "fewer than 10 steps in 2 seconds";
    const double saved = lines_of("checkpoint").back()["iteration"].number();
    fs::remove(at("log"));
    done(train + "2s --resume @scene.ply.checkpoint");
    end = lines_of("end").at(0);
    EXPECT_TRUE(end["iteration"].number() > saved || whole == saved) << "saved with the last step";
    EXPECT_LT(end["seconds"].number(), 2 - saved / whole);
    refuses({{train + "4 --resume @scene.ply.checkpoint", 1, "--budget 2s; this run has --budget 4"}});
    // Over after one step, which takes longer.
    fs::remove(at("log"));
    done(train + "1e-9");
    EXPECT_EQ(lines_of("end").at(0)["iteration"].number(), 1);
}

TEST_F(Budget, WrongOnesAreRefused) {
    std::vector<refusal> table = {{"train @data -o @scene.ply --reproducible --reduce atomic", 2,
                                   "--reproducible needs --reduce fixed, not atomic"},
                                  {train + "5 --reproducible", 2, "--reproducible excludes --budget"},
                                  {train + "5 --iterations 100", 2, "--budget excludes --iterations"},
                                  {train + "5 --refine-poses", 2, "--budget excludes --refine-poses"}};
    for (const char *wrong : {"0", "-1", "nan", "inf", "1e9", "12d", "x", "10s5", "1e400", "999999m"})
        table.push_back({train + wrong, 2, "--budget "s + wrong + ": must be a time such as"});
    refuses(table);
}

} // namespace
