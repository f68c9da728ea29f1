// SPDX-License-Identifier: MIT
// Whole runs: in a given time, by a clock of the test's own; which views validate and when they end training; distillation.
#include "training_cloud.h"
#include "plan.h"
#include "views.h"
#include "checkpoint.h"
#include "camera.h"
#include <algorithm>
#include <memory>
#include <set>
#include <tuple>

namespace runs_test {

// A cloud, and a clock that a step moves on by a time for each Gaussian.
class timed : public cloud {
  public:
    timed() : cloud(40, 16, 12), settings(cloud::settings(7000)), run(*this) {
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
    // The first view validates, and shows this.
    void validate(const std::vector<uint8_t> &shown) {
        device_upload(views[0].pixels, shown.data(), shown.size());
        views[0].validates = true;
        settings.validation_until = 0.75;
        settings.teachers = 2;
    }

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
        const gs_gaussians &scene = t->state.gaussians;
        for (; t->seen_iteration < t->state.place.views; t->seen_iteration++)
            t->clock += t->cost * double(scene.count);
        // The dead are made by a retirement, and a split ends them in the same step.
        const auto logits = downloaded(scene.opacity_logit, size_t(scene.count));
        const int64_t dead = std::count(logits.begin(), logits.end(), -20.0f);
        if (dead > t->seen_dead) {
            t->retirements++;
            t->clock += t->retiring;
        }
        t->seen_dead = dead;
        return t->clock;
    }
    int64_t seen_iteration = 0, seen_dead = 0;
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
    std::vector<uint8_t> negative = downloaded(t.views[0].pixels, 3 * 16 * 12);
    for (uint8_t &value : negative) value = uint8_t(255 - value);
    t.validate(negative);
    t.settings.validate_every = 5;
    t.end_after_one = true;
    t.train_for(1);
    run_place &place = t.state.place;
    EXPECT_TRUE(t.report.stopped);
    EXPECT_EQ(place.scene, 1);
    EXPECT_LT(place.seconds, 0.25);
    t.end_after_one = false;
    place.length = 5000; // as if steps had been faster when that was known
    t.asked.clear();
    t.train_for(1);
    ASSERT_GT(place.ended, 0);
    const int64_t each = place.ended + (place.ended + 2) / 3;
    EXPECT_EQ(place.scene, 2);
    EXPECT_EQ(place.scenes, 2);
    EXPECT_NEAR(place.seconds, 1, 0.03);
    EXPECT_EQ(place.at, 500);
    EXPECT_EQ(place.progress, 1);
    EXPECT_GT(t.report.iterations, 3 * each);
    EXPECT_EQ(t.asked, (std::vector<double>{5000})); // when it is resumed: all scenes have the same schedule
    const auto &teacher = t.state.distillation.teacher;
    EXPECT_LE(t.state.gaussians.count, std::max(teacher[0].count, teacher[1].count));
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
            const std::vector<uint8_t> white(3 * 16 * 12, 255), others(3 * 16 * 12, confirms ? 255 : 0);
            for (const target_view &view : each->views)
                device_upload(view.pixels, others.data(), others.size());
            each->validate(white);
            each->settings.validate_every = 10000; // but for the last look
            each->settings.iterations = each->usual = 60;
            each->cost = 6e-5; // 250 steps of 40 Gaussians in 0.6 s
        }
        once.train_for(0);
        t.train_for(seconds);
        const run_place &place = t.state.place;
        EXPECT_EQ(trained::read(t.state.distillation.teacher[0]), once.run.read());
        EXPECT_EQ(place.scene, scene);
        EXPECT_EQ(place.scenes, scenes);
        EXPECT_EQ(place.first_run, 60);
        EXPECT_EQ(place.progress, 1);
        EXPECT_EQ(place.ended, confirms ? 0 : 45);
        EXPECT_TRUE(place_is_possible(&place));
        if (scenes == 1)
            EXPECT_EQ(t.run.read(), once.run.read());
        else
            EXPECT_NEAR(place.seconds, seconds, 0.03 * seconds);
    }
}

// An observer takes none of it. A retirement, after steps 100, 200, 300 of the schedule, is made where it takes little: what
// one takes is not known before the first.
TEST(BudgetedTraining, CountsRetirementsAndNoObserver) {
    // Seconds of the budget, of the observer, of a retirement (0: none is wanted); retirements.
    const std::tuple<double, double, double, int> cases[] = {
        {0.2, 1, 0, 0}, {0.4, 0, 0.005, 3}, {0.4, 0, 0.05, 1}};
    for (const auto &[seconds, observing, retiring, retirements] : cases) {
        timed t;
        t.observing = observing;
        t.retired = retiring > 0 ? 0.2 : 0, t.retiring = retiring;
        t.train_for(seconds);
        EXPECT_EQ(t.retirements, retirements) << retiring;
        EXPECT_NEAR(t.report.seconds, seconds, 0.03 * seconds) << retiring;
        EXPECT_EQ(t.state.place.at, 500) << retiring;
        EXPECT_GT(t.clock, 100 + 50 * observing);
    }
}

TEST(BudgetedTraining, APlaceFromAFileMustBePossible) {
    const run_place good = {600, 600, 640, 638, 1000, 0.64, 3.2, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_TRUE(place_is_possible(&good));
    run_place fresh = {12, 12, 12, 11, 0, 0, 0.2, 0, 0, 0, 0, 0, 0, 0};
    EXPECT_TRUE(place_is_possible(&fresh));
    fresh.views = 13;
    EXPECT_FALSE(place_is_possible(&fresh));
    // at, before, ended; length, progress, seconds
    const std::tuple<int64_t, int64_t, int64_t, double, double, double> bad[] = {
        {640, 641, 0, 1000, 0.64, 3.2},  {640, -2, 0, 1000, 0.64, 3.2},    {640, 638, 0, NAN, 0.64, 3.2},
        {640, 638, 0, 1000, NAN, 3.2},   {640, 638, 0, 1000, 1.1, 3.2},    {640, 638, 0, 1000, 0.64, -1},
        {640, 638, 0, 1e300, 0.6, 3.2},  {640, 638, 0, 1000, 0.6, NAN},    {INT64_MAX, 638, 0, 1, 0.6, 1},
        {640, 638, -1, 1000, 0.64, 3.2}, {640, 638, 601, 1000, 0.64, 3.2}, {640, 638, 10, -1, 0.64, 3.2},
        {640, 638, 0, 1000, -0.1, 3.2}};
    for (const auto &of : bad) {
        run_place place = good;
        std::tie(place.at, place.before, place.ended, place.length, place.progress, place.seconds) = of;
        EXPECT_FALSE(place_is_possible(&place)) << place.at << " " << place.before << " " << place.ended;
    }
}

// ---- validation views, and neighbours

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

struct choice : owned<validation_views, validation_views_close> {
    choice(std::vector<target_view> &of, size_t wanted) {
        EXPECT_DONE(validation_views_choose(of.data(), of.size(), wanted, this, &why));
    }
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
    EXPECT_DONE(neighbours_choose(views.data(), 20, false, order.data(), of.data(), &why));
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
        trained run(c);
        run.train_on(c.views, settings, &look.observer);
        return run.read();
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
    int64_t teachers = 0;    // then an interrupted run passes through a file
    run_place place = {};    // at the end
    static void pass_through_a_file(training_state *state) {
        const std::string path = testing::TempDir() + "teachers.checkpoint";
        const checkpoint_key key = {"", 0, nullptr};
        const training_place alone = {state->group, nullptr};
        EXPECT_DONE(checkpoint_write(path.c_str(), &key, state, &why));
        training_state_close(state);
        EXPECT_DONE(checkpoint_read(path.c_str(), &key, &alone, state, &why));
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
        looking_on look([&](const training_state *seen, const training_report *report, looking_on *self) {
            self->end =
                at_end ? report->iterations == seen->place.ended + 1 : after.count(report->iterations) > 0;
        });
        do {
            look.end = 0;
            run.train_on(c.views, settings, &look.observer);
            if (run.report.stopped && teachers > 0) pass_through_a_file(&state);
        } while (run.report.stopped);
        place = state.place;
        if (teachers > 0) {
            EXPECT_EQ(memcmp(state.distillation.start.mean, c.host.mean, 40 * 3 * sizeof(float)), 0);
            EXPECT_EQ(memcmp(state.distillation.start.sh, c.host.sh, 40 * 12 * sizeof(float)), 0);
        }
        return {run.read(), {reinterpret_cast<const char *>(&state.learning), sizeof state.learning}};
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

// ---- views of the last scene that others teach: what they show, and from where

// A cloud at the first step of its last scene, with teachers that differ in their colours.
struct taught_scene {
    cloud c{40, 24, 16};
    training_settings settings = cloud::settings(4000);
    trained run{c};
    training_state &state = run.state;
    std::unique_ptr<trainer> t = std::make_unique<trainer>(); // what distillation.c reads of it
    explicit taught_scene(int teachers) {
        settings.density.extent = 5;
        state.place.ended = 75; // so that a teacher sees 100 views
        state.place.scene = state.place.scenes = teachers, state.place.began = 100 * teachers;
        for (int k = 0; k < teachers; k++) {
            for (int i = 0; i < 40; i++) c.host.sh[12 * i] = 0.3f * float(k) - 0.2f;
            state.distillation.teacher[k] = device_gaussians_from(&c.host);
        }
        t->state = &state, t->settings = &settings;
        t->source.views = c.views.data(), t->source.count = c.views.size();
    }
    ~taught_scene() { distillation_close(t.get()); }
    // A step on the first views, after so many.
    step_views step(int64_t first) const {
        step_views of = {};
        of.first = first, of.count = 3;
        for (size_t v = 0; v < 3; v++)
            of.index[v] = v, of.view[v] = &c.views[v], of.camera[v] = c.views[v].camera;
        return of;
    }
    // A photograph is of its view; what is taught is on the first half of the way to another.
    void expect_choice(const step_views &of, int v) const {
        const gs_camera *const was = &c.views[size_t(v)].camera, *const now = &of.camera[v];
        if (!of.taught[v]) {
            EXPECT_EQ(std::memcmp(was, now, sizeof *now), 0);
            return;
        }
        for (int a = 0; a < 3; a++)
            for (int b = 0; b < 3; b++) {
                float dot = 0;
                for (int k = 0; k < 3; k++) dot += now->rotation[3 * a + k] * now->rotation[3 * b + k];
                ASSERT_NEAR(dot, a == b, 1e-5);
            }
        bool between = false;
        for (const target_view &other : c.views) {
            const double way = camera_separation(was, &other.camera), done = camera_separation(was, now),
                         left = camera_separation(now, &other.camera);
            between |= way > 0 && std::abs(done + left - way) < 1e-4 * way && done <= 0.5001 * way;
        }
        ASSERT_TRUE(between) << of.first << ", " << v;
        EXPECT_EQ(now->fx, was->fx);
    }
};

TEST(Distillation, ShowsTheMeanOfTheTeachersPictures) {
    const taught_scene l(3);
    step_views of = l.step(0);
    of.taught[0] = of.taught[2] = true;
    of.background[1] = 0.25f;
    distillation_render(l.t.get(), &of);
    EXPECT_EQ(of.view[1], &l.c.views[1]) << "a photograph stays";
    for (const int v : {0, 2}) {
        std::vector<double> mean(3 * 24 * 16);
        for (int k = 0; k < 3; k++) {
            const std::vector<uint8_t> picture =
                rendered(l.state.distillation.teacher[k], of.camera[v], of.background);
            for (size_t i = 0; i < mean.size(); i++) mean[i] += picture[i] / 3.0;
        }
        const auto got = downloaded(of.view[v]->pixels, mean.size());
        for (size_t i = 0; i < mean.size(); i++) ASSERT_NEAR(got[i], mean[i], 1.01) << v << ", " << i;
        EXPECT_GT(*std::max_element(mean.begin(), mean.end()), 30);
        EXPECT_EQ(of.view[v]->depth, nullptr);
    }
}

TEST(Distillation, ShowsPlacesBetweenViewsAndFewPhotographs) {
    taught_scene l(2);
    for (size_t v = 0; v < l.c.views.size(); v++) { // turned by less than 30 degrees, about the vertical axis
        gs_camera *const camera = &l.c.views[v].camera;
        const float angle = 0.1f * float(v);
        camera->rotation[0] = camera->rotation[8] = std::cos(angle);
        camera->rotation[2] = std::sin(angle), camera->rotation[6] = -std::sin(angle);
    }
    const auto share_of_photographs = [&l] {
        int taught = 0, all = 0;
        for (int64_t first = 200; first < 3000; first += 3) {
            step_views of = l.step(first);
            distillation_choose(l.t.get(), &of);
            for (int v = 0; v < 3; v++, all++) {
                taught += of.taught[v];
                l.expect_choice(of, v);
            }
        }
        return double(all - taught) / all;
    };
    // 200 views are the teachers'; of the other 3800 half as many as a teacher has seen are photographs.
    EXPECT_NEAR(share_of_photographs(), 50.0 / 3800, 0.008);
    // Under a budget by the views that there is time for: three at once, a hundred times.
    l.settings.budget = 100;
    l.state.place.views = 200;
    l.t->pace = {}; // as if a second of the budget were left, and each step took a hundredth
    l.t->pace.budget = 100;
    for (int i = 0; i <= PACE_WINDOW; i++) pace_note(&l.t->pace, 99 - 0.01 * (PACE_WINDOW - i));
    EXPECT_NEAR(share_of_photographs(), 50.0 / 300, 0.025);
}

TEST(Distillation, BeginsWhereAQuarterOfTheViewsSufficesForOne) {
    const std::tuple<double, int64_t, double, int64_t> rows[] = {
        {0, 0, 0, 0},   {0, 76, 0, 0}, // 102 views each
        {0, 75, 0, 2},                 // 100 views each, and 200 for the last
        {0, 60, 0, 3},  {0, 30, 0, 4}, {8, 75, 0, 0},
        {8, 75, 1, 4},  {8, 75, 2, 2}, // 2 s each, and 4 for the last
        {8, 75, 2.1, 0}};
    for (const auto &[budget, ended, seconds, teachers] : rows) {
        training_settings settings = cloud::settings(400);
        run_place place = {};
        settings.teachers = 4, settings.budget = budget;
        place.ended = ended, place.seconds = seconds;
        EXPECT_EQ(scheduled_teachers(&settings, &place), teachers) << ended << ", " << seconds;
    }
}

} // namespace runs_test
