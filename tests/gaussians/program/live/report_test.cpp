// SPDX-License-Identifier: MIT
// dsplat train --report: the page of dsplat export, with the curves, the held-out views and the settings of the run.
#include "live/exported_page.h"
#include "camera.h"
#include <algorithm>

namespace {

class Report : public Program {
  protected:
    // A picture of the page, decoded.
    std::unique_ptr<picture> shown(const json &uri) const {
        const std::string text = uri.text(), head = "data:image/png;base64,";
        EXPECT_EQ(text.rfind(head, 0), 0u) << text.substr(0, 40);
        std::ofstream(at("decoded.png"), std::ios::binary) << from_base64(text.substr(head.size()));
        return std::make_unique<picture>(at("decoded.png"));
    }
    // The value of a setting that differs from its default, or does not; else "".
    static std::string setting(const json &run, const std::string &name, bool changed) {
        for (size_t i = 0; i < run["settings"].size(); i++) {
            const json one = run["settings"].at(i);
            if (one["name"].text() == name && one["changed"].is(changed)) return one["value"].text();
        }
        return "";
    }
};

TEST_F(Report, IsOnePageWithPicturesAndCurves) {
    const char *const name = "da<t>a & \"more\"";
    const fs::path data = at(name);
    write_colmap(data, 30);
    outcome run = splat({"train", data, "-o", at("scene.ply"), "--iterations", "24", "--holdout", "2",
                         "--eval-every", "8", "--report", at("report")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    const exported_page page(at("report/index.html"));
    EXPECT_EQ(page.facts["title"].text(), name);
    EXPECT_CONTAINS(page.text, "<title>da&lt;t&gt;a &amp; &quot;more&quot;</title>");
    EXPECT_EQ(page.text.find(folder.string()), std::string::npos) << "where the sharer has it";
    EXPECT_EQ(page.gaussians.size(), 30u);
    EXPECT_EQ(page.facts["views"].size(), size_t(photos));
    const json curves = page.facts["curves"];
    ASSERT_EQ(curves.size(), 4u); // loss, PSNR, Gaussians, time of an iteration
    EXPECT_EQ(curves.at(0)["series"].at(0)["y"].size(), 24u);
    EXPECT_EQ(curves.at(1)["series"].at(0)["x"].size(), 3u); // evaluations at 8, 16, 24
    EXPECT_EQ(curves.at(1)["series"].at(0)["x"].at(2).number(), 24);
    EXPECT_EQ(curves.at(3)["title"].text(), "Time of an iteration, ms");
    EXPECT_GT(curves.at(3)["series"].at(0)["y"].at(0).number(), 0);

    const json of = page.facts["run"];
    EXPECT_EQ(of["iterations"].number(), 24);
    EXPECT_EQ(of["views_per_step"].number(), 1);
    EXPECT_EQ(of["gaussians"].number(), 30);
    EXPECT_TRUE(of["held_out"].is(true));
    EXPECT_EQ(of["policies"].at(0)["reduction"].text(), "tree"); // what added gradients
    EXPECT_EQ(setting(of, "holdout", true), "2");
    EXPECT_EQ(setting(of, "iterations", true), "24");
    EXPECT_EQ(setting(of, "output", true), "scene.ply");
    EXPECT_EQ(setting(of, "sh-degree", false), "3");
    EXPECT_EQ(setting(of, "seed", true), "");
    EXPECT_EQ(setting(of, "data", false), name);

    // Three held-out views, from the worst to the best: rendered, photograph, error of each.
    ASSERT_EQ(of["pictures"].size(), 3u);
    double worst = 0, sum = 0;
    for (size_t i = 0; i < 3; i++) {
        const json one = of["pictures"].at(i);
        const auto rendered = shown(one["rendered"]), photo = shown(one["photograph"]),
                   error = shown(one["error"]);
        EXPECT_EQ(one["width"].number(), photo_width);
        ASSERT_TRUE(rendered->width == photo_width && photo->height == photo_height &&
                    error->height == photo_height);
        picture original(data / "images" / one["name"].text());
        EXPECT_EQ(memcmp(photo->pixels, original.pixels, size_t(3 * photo_width * photo_height)), 0);
        const double psnr = image_psnr(rendered.get(), &original, nullptr);
        EXPECT_NEAR(one["psnr"].number(), psnr, 1e-3);
        EXPECT_GE(psnr, worst) << "not from the worst to the best";
        worst = psnr;
        sum += one["psnr"].number();
        // Errors are dark where the two agree, and only there.
        for (int p = 0; p < photo_width * photo_height; p++) {
            int difference = 0;
            for (int c = 0; c < 3; c++)
                difference += std::abs(rendered->pixels[3 * p + c] - original.pixels[3 * p + c]);
            const uint8_t *color = error->pixels + 3 * p;
            const int brightness = color[0] + color[1] + color[2];
            if (difference == 0) {
                EXPECT_EQ(brightness, 4);
            }
            if (difference >= 3 * 64) {
                EXPECT_EQ(brightness, 252 + 255 + 164);
            }
        }
    }
    EXPECT_NEAR(of["psnr"].number(), sum / 3, 1e-6);
    char summary[32];
    snprintf(summary, sizeof summary, "PSNR %.2f dB", of["psnr"].number());
    EXPECT_CONTAINS(run.out, summary);
}

TEST_F(Report, WithoutHeldOutViewsShowsThoseTrainedOn) {
    write_colmap(at("data"), 20);
    outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "3", "--holdout", "0",
                         "--report", at("report")});
    ASSERT_EQ(run.code, 0) << run.err;
    const exported_page page(at("report/index.html"));
    EXPECT_TRUE(page.facts["run"]["held_out"].is(false));
    EXPECT_EQ(page.facts["run"]["views"].number(), 5);
    EXPECT_EQ(page.facts["run"]["pictures"].size(), 5u);
}

// Only if they are wider than PAGE_WIDEST.
TEST_F(Report, LargePicturesAreShownSmaller) {
    for (const auto &[size, expected] : {std::pair{424, 212}, {PAGE_WIDEST, PAGE_WIDEST}}) {
        ASSERT_EQ(splat({"generate", at("data"), "--views", "2", "--test-views", "1", "--size",
                         std::to_string(size), "--gaussians", "1000"})
                      .code,
                  0);
        const outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "1", "--from",
                                   at("data/scene.ply"), "--report", at("report")});
        ASSERT_EQ(run.code, 0) << run.err;
        const json one = exported_page(at("report/index.html")).facts["run"]["pictures"].at(0);
        EXPECT_EQ(one["width"].number(), size);
        for (const char *kind : {"rendered", "photograph", "error"})
            EXPECT_EQ(shown(one[kind])->width, expected) << kind;
    }
}

TEST_F(Report, APlaceThatCannotBeWrittenIsRefusedBeforeTheWork) {
    write_colmap(at("data"), 20);
    std::ofstream(at("file")) << "not a folder";
    fs::create_directories(at("page") / "index.html");
    for (fs::path place : {at("file"), at("no") / "such" / "folder", at("page")}) {
        outcome run = splat(
            {"train", at("data"), "-o", at("scene.ply"), "--iterations", "10000000", "--report", place});
        EXPECT_EQ(run.code, 1);
        EXPECT_CONTAINS(run.err, place.string());
    }
    EXPECT_EQ(contents(at("file")), "not a folder");
}

// A run as on a GPU, made up: times of stages, a tuner that changed its mind.
TEST_F(Report, HasStagesAndTheTunersChoices) {
    gs_gaussians scene;
    image poster;
    fault why;
    ASSERT_TRUE(scene_open(&scene, 3, 0, &why));
    ASSERT_TRUE(image_open(&poster, 32, 24, 3, &why));
    page_view view = {};
    view.name = "view";
    view.camera = camera_with_view_angle(32, 24, 0.8);
    run_record record = {};
    run_record_text(&record, "name", "a <b> & \xff\x01");
    run_record_text(&record, "folder", "/home/somebody/data/fern/");
    run_record_number(&record, "number", 0.001);
    for (int i = 1; i <= 100; i++) {
        run_point point = {};
        point.iteration = 300 * i;
        point.policy.strategy = i < 4 ? DISTWAR_TREE : i < 60 ? DISTWAR_BFLY : DISTWAR_TREE;
        point.policy.balance_threshold = i < 60 ? 0 : 8;
        ASSERT_TRUE(run_record_add(&record, &point, &why));
    }
    training_report training = {};
    training.first_iteration = 1;
    training.iterations = 30000;
    training.seconds = 120.5;
    training.clock.steps = 10000;
    for (int i = 0; i < STAGES; i++) training.clock.milliseconds[i] = 10000 * 0.5 * (i + 1);
    training.strategy.tuned = true;
    training.strategy.measured = 123;
    page_run run = {};
    run.training = &training;
    run.batch = 3;
    page_content content = {};
    content.title = "made up";
    content.scene = &scene;
    content.total = 3;
    content.view_count = 1;
    content.views = &view;
    content.poster = &poster;
    content.record = &record;
    content.run = &run;
    page_written written;
    ASSERT_TRUE(page_write(at("page.html").c_str(), &content, &written, &why)) << why.text;
    const json of = exported_page(at("page.html")).facts["run"];
    ASSERT_EQ(of["stages"].size(), size_t(STAGES));
    for (size_t i = 0; i < STAGES; i++) {
        EXPECT_EQ(of["stages"].at(i)["name"].text(), stage_name(stage(i)));
        EXPECT_NEAR(of["stages"].at(i)["ms"].number(), 0.5 * double(i + 1), 1e-9);
    }
    EXPECT_EQ(of["measured"].number(), 123);
    EXPECT_EQ(of["views_per_step"].number(), 3);
    ASSERT_EQ(of["policies"].size(), 3u);
    const struct {
        double iteration, threshold;
        const char *reduction;
    } expected[] = {{300, 0, "tree"}, {1200, 0, "bfly"}, {18000, 8, "tree"}};
    for (size_t i = 0; i < 3; i++) {
        EXPECT_EQ(of["policies"].at(i)["iteration"].number(), expected[i].iteration);
        EXPECT_EQ(of["policies"].at(i)["reduction"].text(), expected[i].reduction);
        EXPECT_EQ(of["policies"].at(i)["threshold"].number(), expected[i].threshold);
    }
    EXPECT_EQ(of["settings"].at(0)["value"].text().substr(0, 8), "a <b> & ");
    EXPECT_EQ(of["settings"].at(1)["value"].text(), "fern/");
    EXPECT_EQ(of["settings"].at(2)["value"].text(), "0.001");
    run_record_close(&record);
    image_close(&poster);
    scene_close(&scene);
}

} // namespace
