// SPDX-License-Identifier: MIT
// Views of the last scene that others teach: what they show, and from where.
#include "camera.h"
#include "frame.h"
#include "trainer.h"
#include "training_cloud.h"
#include <algorithm>
#include <memory>
#include <tuple>

namespace {

// A cloud at the first step of its last scene, with teachers that differ in their colours.
struct taught_scene {
    cloud c{40, 24, 16};
    training_settings settings = cloud::settings(4000);
    training_state state = {};
    std::unique_ptr<trainer> t = std::make_unique<trainer>(); // what distillation.c reads of it
    explicit taught_scene(int teachers) {
        training_state_open(&state, c.group, &c.host);
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
    ~taught_scene() {
        distillation_close(t.get());
        training_state_close(&state);
    }
    // A step on the first views, after so many.
    step_views step(int64_t first) const {
        step_views of = {};
        of.first = first, of.count = 3;
        for (int v = 0; v < 3; v++)
            of.index[v] = size_t(v), of.view[v] = &c.views[size_t(v)],
            of.camera[v] = c.views[size_t(v)].camera;
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
        const size_t values = 3 * 24 * 16;
        std::vector<double> mean(values);
        for (int k = 0; k < 3; k++) {
            image picture = rendered(l.state.distillation.teacher[k], of.camera[v], of.background);
            for (size_t i = 0; i < values; i++) mean[i] += picture.pixels[i] / 3.0;
            image_close(&picture);
        }
        std::vector<uint8_t> got(values);
        device_download(got.data(), of.view[v]->pixels, values);
        for (size_t i = 0; i < values; i++) ASSERT_NEAR(got[i], mean[i], 1.01) << v << ", " << i;
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

} // namespace
