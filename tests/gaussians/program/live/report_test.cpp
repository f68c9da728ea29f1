// SPDX-License-Identifier: MIT
// dsplat train --report: the page is whole, and needs nothing but itself.
#include "program_run.h"
#include "html_page.h"
#include "exported_page.h"
#include "frame.h"
#include "record/html.h"
#include "live/report.h"
#include "measure/viewer.h"
#include <algorithm>

namespace {

// What fetches something, or runs.
void expect_self_contained(const std::string &text, const page &parsed) {
    for (const char *tag : {"script", "link", "object", "embed", "base", "form"})
        EXPECT_EQ(parsed.tags.count(tag), 0u) << tag;
    EXPECT_EQ(parsed.values.count("iframe src"), 0u);
    for (const char *part : {"url(", "@import", "javascript:"})
        EXPECT_EQ(text.find(part), std::string::npos) << part;
    for (const auto &[attribute, values] : parsed.values)
        for (const std::string &value : values) {
            if (attribute == "iframe srcdoc") continue; // a page of its own, which page_test.cpp looks at
            if (attribute.find(" src") != std::string::npos) {
                EXPECT_EQ(value.rfind("data:image/png;base64,", 0), 0u) << attribute;
            } else if (attribute != "html xmlns") {
                EXPECT_EQ(value.find("//"), std::string::npos) << attribute << " " << value;
            }
            EXPECT_EQ(attribute.find(" href"), std::string::npos);
            EXPECT_EQ(attribute.find(" on"), std::string::npos) << attribute;
        }
}

class Report : public Program {
  protected:
    // The page's pictures, decoded.
    std::vector<std::unique_ptr<picture>> pictures(const page &parsed) const {
        std::vector<std::unique_ptr<picture>> all;
        const auto sources = parsed.values.find("img src");
        if (sources == parsed.values.end()) return all;
        for (const std::string &source : sources->second) {
            const fs::path file = at("decoded.png");
            std::ofstream(file, std::ios::binary) << from_base64(source.substr(source.find(',') + 1));
            all.push_back(std::make_unique<picture>(file));
        }
        return all;
    }
};

TEST_F(Report, IsOnePageWithPicturesAndCurves) {
    const fs::path data = at("da<t>a & \"more\"");
    write_colmap(data, 30);
    outcome run = splat({"train", data, "-o", at("scene.ply"), "--iterations", "24", "--holdout", "2",
                         "--eval-every", "8", "--report", at("report")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    const std::string text = contents(at("report") / "index.html");
    const page parsed(text);
    expect_self_contained(text, parsed);
    EXPECT_CONTAINS(text, "da&lt;t&gt;a &amp; &quot;more&quot;");
    EXPECT_CONTAINS(text, "Held-out views");
    EXPECT_CONTAINS(text, "@media(prefers-color-scheme:dark)");
    EXPECT_CONTAINS(text, "tree"); // what added gradients
    EXPECT_CONTAINS(text, "<dt>holdout</dt><dd>2</dd>");
    const size_t changed = text.find("differ from the defaults"), others = text.find("<h2>Other settings");
    const auto between = [&](const char *part) {
        return text.find(part) > changed && text.find(part) < others;
    };
    EXPECT_TRUE(between("<dt>holdout</dt>") && between("<dt>iterations</dt>") &&
                between("<dt>eval-every</dt>"));
    EXPECT_FALSE(between("<dt>sh-degree</dt>") || between("<dt>seed</dt>"));
    // The page of the scene is an attribute, with its own curves.
    ASSERT_EQ(parsed.values.at("iframe srcdoc").size(), 1u);
    std::string inner = parsed.values.at("iframe srcdoc")[0];
    for (const auto &[written, is] :
         {std::pair{"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&amp;", "&"}})
        for (size_t i = 0; (i = inner.find(written, i)) != std::string::npos; i++)
            inner.replace(i, strlen(written), is);
    std::ofstream(at("inner.html"), std::ios::binary) << inner;
    const exported_page scene(at("inner.html"));
    EXPECT_EQ(scene.gaussians.size(), 30u);
    EXPECT_EQ(scene.facts["views"].size(), size_t(photos));
    EXPECT_EQ(scene.facts["curves"].at(0)["series"].at(0)["y"].size(), 24u);
    EXPECT_EQ(scene.facts["curves"].at(1)["series"].at(0)["x"].at(2).number(), 24);
    ASSERT_EQ(scene.facts["curves"].size(), 4u); // loss, PSNR, Gaussians, time of a step
    EXPECT_EQ(scene.facts["curves"].at(1)["series"].at(0)["x"].size(), 3u); // evaluations at 8, 16, 24
    EXPECT_GT(scene.facts["curves"].at(3)["series"].at(0)["y"].at(0).number(), 0);

    // Three held-out views: rendered, photograph, error of each.
    const auto shown = pictures(parsed);
    ASSERT_EQ(shown.size(), 9u);
    for (const auto &one : shown) {
        EXPECT_EQ(one->width, photo_width);
        EXPECT_EQ(one->height, photo_height);
    }
    const std::vector<std::string> &names = parsed.values.at("img alt");
    double worst = 0;
    for (size_t i = 0; i < 3; i++) {
        const std::string &name = names[3 * i + 1];
        EXPECT_EQ(name.rfind("photograph, photo", 0), 0u) << name;
        picture photo(data / "images" / name.substr(strlen("photograph, ")));
        EXPECT_EQ(memcmp(photo.pixels, shown[3 * i + 1]->pixels, size_t(3 * photo_width * photo_height)), 0);
        const double psnr = image_psnr(shown[3 * i].get(), &photo, nullptr);
        EXPECT_GE(psnr, worst) << "not from the worst to the best";
        worst = psnr;
        char caption[32];
        snprintf(caption, sizeof caption, "%.2f dB", psnr);
        EXPECT_CONTAINS(text, caption);
        // Errors are dark where the two agree, and only there.
        for (int p = 0; p < photo_width * photo_height; p++) {
            int difference = 0;
            for (int c = 0; c < 3; c++)
                difference += std::abs(shown[3 * i]->pixels[3 * p + c] - photo.pixels[3 * p + c]);
            const uint8_t *error = shown[3 * i + 2]->pixels + 3 * p;
            const int brightness = error[0] + error[1] + error[2];
            if (difference == 0) {
                EXPECT_EQ(brightness, 4);
            }
            if (difference >= 3 * 64) {
                EXPECT_EQ(brightness, 252 + 255 + 164);
            }
        }
    }
}

TEST_F(Report, WithoutHeldOutViewsShowsThoseTrainedOn) {
    write_colmap(at("data"), 20);
    outcome run = splat({"train", at("data"), "-o", at("scene.ply"), "--iterations", "3", "--holdout", "0",
                         "--report", at("report")});
    ASSERT_EQ(run.code, 0) << run.err;
    const std::string text = contents(at("report") / "index.html");
    const page parsed(text);
    expect_self_contained(text, parsed);
    EXPECT_CONTAINS(text, "none was held out");
    EXPECT_EQ(pictures(parsed).size(), 15u);
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

// A run as on a GPU, made up: large pictures, a million Gaussians, times of stages, a tuner that changed its
// mind.
class MadeUp : public Report {
  protected:
    std::string write(int width, int height) {
        fault why;
        gs_gaussians gaussians = device_gaussians_open(3, 0); // zeros: nothing to see
        image photo;
        EXPECT_TRUE(image_open(&photo, width, height, 3, &why));
        memset(photo.pixels, 128, size_t(3 * width * height));
        gs_camera camera = {};
        camera.width = width;
        camera.height = height;
        camera.fx = camera.fy = 100;
        camera.near_plane = 0.2f;
        camera.rotation[0] = camera.rotation[4] = camera.rotation[8] = 1;
        target_view view = {};
        EXPECT_TRUE(target_view_open(&view, &camera, &photo, &why));
        run_record record = {};
        run_record_text(&record, "name", "a <b> & \xff\x01");
        run_record_number(&record, "number", 0.001);
        for (int i = 1; i <= 100; i++) {
            run_point point = {};
            point.iteration = 300 * i;
            point.gaussians = std::min(100000 + 40000 * i, 1200000);
            point.seconds = 0.4 * i;
            point.loss = 0.3 / i + 0.02;
            point.step_milliseconds = 2 + 0.05 * std::min(i, 50);
            point.policy.strategy = i < 4 ? DISTWAR_TREE : i < 60 ? DISTWAR_BFLY : DISTWAR_TREE;
            point.policy.balance_threshold = i < 60 ? 0 : 8;
            EXPECT_TRUE(run_record_add_point(&record, &point, &why));
            const run_evaluation evaluation = {300 * i, 0.4 * i, {20 + 8 * (1 - std::exp(-0.1 * i)), 0.8}};
            if (i % 10 == 0) {
                EXPECT_TRUE(run_record_add_evaluation(&record, &evaluation, &why));
            }
        }
        training_report training = {};
        training.first_iteration = 1;
        training.iterations = 30000;
        training.seconds = 120.5;
        training.clock.steps = 30000;
        for (int i = 0; i < STAGES; i++) training.clock.milliseconds[i] = 30000 * 0.1 * (i + 1);
        training.strategy.tuned = true;
        training.strategy.measured = 123;
        training.strategy.cost = 45.5;
        run_report whole = {};
        whole.title = "made up";
        whole.record = &record;
        whole.training = &training;
        report_gallery gallery = {};
        quality of_view = {};
        training_state state = {};
        state.gaussians = gaussians;
        viewer look = {};
        look.state = &state;
        look.shown.views = &view;
        EXPECT_TRUE(viewer_measure(&look, 0, 1, &gallery.mean, &of_view, &why)) << why.text;
        gallery.each = static_cast<quality *>(malloc(sizeof of_view));
        *gallery.each = of_view;
        EXPECT_TRUE(report_gallery_choose(&gallery, 1, &why)) << why.text;
        EXPECT_TRUE(viewer_picture(&look, 0, &gallery.picture[0], &why)) << why.text;
        whole.gaussians = gaussians.count;
        whole.gallery = &gallery;
        whole.views = &view;
        whole.view_count = 1;
        whole.held_out = true;
        EXPECT_TRUE(report_write(at("report").c_str(), &whole, &why)) << why.text;
        report_gallery_close(&gallery);
        run_record_close(&record);
        target_view_close(&view);
        image_close(&photo);
        device_gaussians_close(&gaussians);
        return contents(at("report") / "index.html");
    }
};

TEST_F(MadeUp, HasStagesAndTheTunersChoices) {
    const std::string text = write(30, 20);
    const page parsed(text);
    expect_self_contained(text, parsed);
    for (int i = 0; i < STAGES; i++) EXPECT_CONTAINS(text, std::string("<tr><td>") + stage_name(stage(i)));
    EXPECT_CONTAINS(text, "123 launches");
    EXPECT_CONTAINS(text, "<td class=\"n\">300</td><td>tree</td><td class=\"n\">0</td>");
    EXPECT_CONTAINS(text, "<td class=\"n\">1200</td><td>bfly</td><td class=\"n\">0</td>");
    EXPECT_CONTAINS(text, "<td class=\"n\">18000</td><td>tree</td><td class=\"n\">8</td>");
    EXPECT_CONTAINS(text, "a &lt;b&gt; &amp; \xef\xbf\xbd\xef\xbf\xbd");
    EXPECT_CONTAINS(text, "<dd>249 <small>steps/s");
}

TEST_F(MadeUp, LargePicturesAreShownSmaller) {
    const page parsed(write(1300, 700));
    const auto shown = pictures(parsed);
    ASSERT_EQ(shown.size(), 3u);
    EXPECT_EQ(shown[0]->width, 1300 / 4);
    EXPECT_EQ(shown[0]->height, 700 / 4);
    EXPECT_EQ(parsed.values.at("img width")[0], "325");
    EXPECT_EQ(shown[1]->others({128, 128, 128}), 0);
    EXPECT_EQ(shown[2]->others({252, 255, 164}), 0); // as different as it is drawn
}

// The layout is for the eye; that a browser draws something at all is for this test.
TEST_F(MadeUp, IsDrawnByABrowser) {
    if (system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium";
    write(640, 480);
    const std::string command =
        "timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars "
        "--window-size=1200,1600 --user-data-dir='" +
        at("profile").string() + "' --screenshot='" + at("page.png").string() + "' 'file://" +
        (at("report") / "index.html").string() + "' >/dev/null 2>&1";
    if (system(command.c_str()) != 0 || !fs::exists(at("page.png")))
        GTEST_SKIP() << "chromium does not run here";
    picture drawn(at("page.png"));
    ASSERT_EQ(drawn.width, 1200);
    const uint8_t *corner = drawn.pixels;
    EXPECT_GT(drawn.others({corner[0], corner[1], corner[2]}), 100000);
    int gray = 0; // the photograph, larger than it is
    for (int p = 0; p < drawn.width * drawn.height; p++) {
        const uint8_t *pixel = drawn.pixels + drawn.channels * p;
        gray += pixel[0] == 128 && pixel[1] == 128 && pixel[2] == 128;
    }
    EXPECT_GT(gray, 300 * 200);
}

// ---- parts of it

TEST(Html, NumbersAreShort) {
    const std::pair<double, const char *> cases[] = {
        {0, "0"},          {0.041234, "0.04123"}, {27.314, "27.31"},  {9999, "9999"},
        {10000, "10k"},    {310544, "311k"},      {999499, "999k"},   {999500, "1M"},
        {1.25e6, "1.25M"}, {-2.5e9, "-2.5G"},     {INFINITY, "none"}, {std::nan(""), "none"}};
    for (auto [value, expected] : cases) {
        char text[32] = "";
        FILE *stream = fmemopen(text, sizeof text, "w");
        html_number(stream, value);
        fclose(stream);
        EXPECT_STREQ(text, expected);
    }
}

} // namespace
