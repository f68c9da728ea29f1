// SPDX-License-Identifier: MIT
// dsplat train --report: the page of dsplat export, with the curves and the held-out views of the run.
#include "live/exported_page.h"

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

// Each title is the folder's name, also from within it, and of a name that ends with a slash.
TEST_F(Report, WithoutHeldOutViewsShowsThoseTrainedOn) {
    write_colmap(at("data"), 20);
    const fs::path home = fs::current_path();
    fs::current_path(at("data") / "images");
    for (const char *data : {"..", "@data/"}) {
        done("train "s + data + " -o @scene.ply --iterations 3 --holdout 0 --report @report");
        const exported_page page(at("report/index.html"));
        EXPECT_EQ(page.facts["title"].text(), "data") << data;
        EXPECT_TRUE(page.facts["run"]["held_out"].is(false));
        EXPECT_EQ(page.facts["run"]["views"].number(), 5);
        EXPECT_EQ(page.facts["run"]["pictures"].size(), 5u);
    }
    fs::current_path(home);
}

// Only if they are wider than PAGE_WIDEST.
TEST_F(Report, LargePicturesAreShownSmaller) {
    for (const auto &[size, expected] : {std::pair{424, 212}, {PAGE_WIDEST, PAGE_WIDEST}}) {
        done("generate @data --views 2 --test-views 1 --gaussians 1000 --size " + std::to_string(size));
        done("train @data -o @scene.ply --iterations 1 --from @data/scene.ply --report @report");
        const json one = exported_page(at("report/index.html")).facts["run"]["pictures"].at(0);
        EXPECT_EQ(one["width"].number(), size);
        for (const char *kind : {"rendered", "photograph", "error"})
            EXPECT_EQ(shown(one[kind])->width, expected) << kind;
    }
}

// Three series of PSNR in one plot, without points that are not numbers.
TEST_F(Report, DrawsWhatARecordHas) {
    const host_scene scene(3, 0);
    fault why;
    run_record record = {};
    for (int i = 1; i <= 1000; i++) {
        run_point point = {};
        point.event = run_event(i % 3);
        point.iteration = i;
        point.loss = i == 501 ? NAN : 1.0 / i;
        point.mean = {double(i), 0};
        point.training = {2.0 * i, 0};
        ASSERT_TRUE(run_record_add(&record, &point, &why));
    }
    one_view_page page(scene, "made up");
    page.content.record = &record;
    page.write(at("page.html"));
    const json curves = exported_page(at("page.html")).facts["curves"];
    ASSERT_EQ(curves.size(), 4u); // loss, PSNR, Gaussians, time of an iteration
    EXPECT_EQ(curves.at(0)["series"].at(0)["x"].at(0).number(), 3);
    EXPECT_EQ(curves.at(0)["series"].at(0)["x"].size(), 332u);
    const json psnr = curves.at(1)["series"];
    ASSERT_EQ(psnr.size(), 3u);
    const struct {
        const char *name;
        double x, y; // of the last point
    } expected[] = {{"training", 998, 1996}, {"validation", 998, 998}, {"held out", 1000, 1000}};
    for (size_t i = 0; i < 3; i++) {
        const json one = psnr.at(i);
        EXPECT_EQ(one["name"].text(), expected[i].name);
        EXPECT_EQ(one["x"].at(one["x"].size() - 1).number(), expected[i].x);
        EXPECT_EQ(one["y"].at(one["y"].size() - 1).number(), expected[i].y);
    }
    run_record_close(&record);
}

} // namespace
