// SPDX-License-Identifier: MIT
// dsplat export: the page holds the scene, is one file of a bounded size, and no name breaks out of it; dsplat train
// --report: the same page, with the curves and the held-out views of the run.
#include "live/exported_page.h"
#include "commands/command.h"
#include <set>

namespace {

// The Gaussian of the scene with the nearest mean.
int64_t nearest(const gs_gaussians &scene, const shown_gaussian &shown) {
    std::vector<double> apart(size_t(scene.count), 0);
    for (int64_t i = 0; i < 3 * scene.count; i++)
        apart[size_t(i / 3)] += std::pow(double(scene.mean[i]) - shown.value[i % 3], 2);
    return std::min_element(apart.begin(), apart.end()) - apart.begin();
}

// Each Gaussian of the page is one of the scene's, within half a step of each value.
void expect_within_steps(const gs_gaussians &scene, const exported_page &page) {
    std::vector<int> found(size_t(scene.count), 0);
    for (const shown_gaussian &shown : page.gaussians) {
        const int64_t i = nearest(scene, shown), coefficients = (scene.sh_degree + 1) * (scene.sh_degree + 1);
        found[size_t(i)]++;
        double length = 0, cosine = 0;
        for (int v = 0; v < 10; v++) {
            const float *const sh = scene.sh + 3 * coefficients * i;
            const double value = v < 3   ? double(scene.mean[3 * i + v])
                                 : v < 6 ? double(scene.log_scale[3 * i + v - 3])
                                 : v < 9 ? double(sh[v - 6])
                                         : 1 / (1 + std::exp(-double(scene.opacity_logit[i])));
            EXPECT_NEAR(shown.value[v], value, 0.501 * shown.step[v] + 1e-6) << "value " << v;
        }
        for (int k = 0; k < 4; k++) {
            const double q = double(scene.quaternion[4 * i + k]);
            length += q * q;
            cosine += q * shown.rotation[k];
        }
        EXPECT_GT(std::abs(cosine) / std::sqrt(length), 1 - 2e-6); // three components, each within 0.0007
        for (size_t k = 0; k < shown.harmonics.size(); k++)
            EXPECT_NEAR(shown.harmonics[k], double(scene.sh[3 * coefficients * i + 3 + int64_t(k)]),
                        0.501 * page.facts["step"].number());
    }
    EXPECT_EQ(std::count(found.begin(), found.end(), 1), std::ptrdiff_t(page.gaussians.size()));
}

class Page : public Program {};

TEST_F(Page, HoldsTheSceneWithinItsSteps) {
    host_scene scene = random_scene(700, 3, 1); // three chunks, the last not full
    scene.antialias = 1;
    scene.write(at("scene.ply"));
    write_colmap(at("data"), 20);
    const outcome run = done("export @scene.ply -o @page.html --cameras @data --views 3");
    EXPECT_CONTAINS(run.out, "700 Gaussians, harmonics of degree 3");
    EXPECT_EQ(files_in_folder(), 3u); // one file more
    const exported_page page(at("page.html"));
    EXPECT_EQ(page.gaussians.size(), 700u);
    expect_within_steps(scene, page);
    EXPECT_TRUE(page.facts["antialias"].is(true));
    EXPECT_EQ(page.facts["total"].number(), 700);
    ASSERT_EQ(page.facts["views"].size(), 3u);
    const json view = page.facts["views"].at(1); // of five the first, third and fifth, or so
    EXPECT_EQ(view["name"].text(), "photo2.png");
    EXPECT_EQ(view["width"].number(), photo_width);
    EXPECT_EQ(view["photo"].text().rfind("data:image/jpeg;base64,", 0), 0u);
    EXPECT_EQ(page.facts["curves"].size(), 0u);
    EXPECT_EQ(page.text.find("http:"),
              page.text.find("http://www.w3.org/2000/svg")); // a name, not an address
    EXPECT_EQ(page.text.find("http:"), page.text.rfind("http:"));
    for (const char *part : {"https:", "@import", "<link", "<iframe", " src=\"/", "@DATA@"})
        EXPECT_EQ(page.text.find(part), std::string::npos) << part;
}

// One view of the whole scene, and colours alone.
TEST_F(Page, NeedsNoPhotographs) {
    host_scene scene = random_scene(40, 0, 2);
    scene.write(at("scene.ply"));
    done("export @scene.ply -o @page.html --background 1,0.5,0");
    const exported_page page(at("page.html"));
    expect_within_steps(scene, page);
    EXPECT_EQ(page.facts["degree"].number(), 0);
    EXPECT_EQ(page.facts["curves"].size(), 0u);
    ASSERT_EQ(page.facts["views"].size(), 1u);
    EXPECT_TRUE(page.facts["views"].at(0)["photo"].null());
    EXPECT_EQ(page.facts["background"].at(1).number(), 0.5);
}

TEST_F(Page, LeavesOutThoseOfLeastOpacityAndSize) {
    host_scene scene = random_scene(20, 1, 3);
    for (int64_t i = 0; i < scene.count; i++) {
        for (int k = 0; k < 3; k++) scene.log_scale[3 * i + k] = i % 4 == 1 ? -4 : -2;
        scene.mean[3 * i] = float(i);
        scene.opacity_logit[i] = i % 2 == 1 ? 1 : -2;
    }
    scene.write(at("scene.ply"));
    const outcome run = done("export @scene.ply -o @page.html --most 10");
    EXPECT_CONTAINS(run.out, "10 Gaussians of 20");
    const exported_page page(at("page.html"));
    std::set<int64_t> shown; // large and opaque, then small and opaque, the first of those that are equal
    for (const shown_gaussian &gaussian : page.gaussians) shown.insert(nearest(scene, gaussian));
    EXPECT_EQ(shown, (std::set<int64_t>{1, 3, 5, 7, 9, 11, 13, 15, 17, 19}));
    EXPECT_EQ(page.facts["total"].number(), 20);
}

// A name is text wherever it stands.
TEST_F(Page, NamesStayText) {
    host_scene scene = random_scene(5, 0, 4);
    const char *const hostile = "</script><!--<script>alert(1)</script>\" & 'x'";
    one_view_page(scene, hostile).write(at("hostile.html"));
    one_view_page named(scene, "plain");
    named.write(at("plain.html"));
    EXPECT_EQ(named.written.bytes, fs::file_size(at("plain.html")));
    const exported_page page(at("hostile.html")), plain(at("plain.html"));
    EXPECT_EQ(page.facts["views"].at(0)["name"].text(), hostile);
    EXPECT_EQ(page.facts["title"].text(), hostile);
    for (const char *part : {"<script", "</script", "<!--", "<title"})
        EXPECT_EQ(occurrences(page.text, part), occurrences(plain.text, part)) << part;
}

// Harmonics become coarser, then they go; the Gaussians stay.
TEST(PackedScene, FitsIntoItsRoom) {
    host_scene scene = random_scene(3000, 3, 5);
    fault why;
    packed_scene whole, coarse, bare;
    ASSERT_TRUE(packed_scene_open(&whole, &scene, SIZE_MAX, &why)) << why.text;
    const size_t room = whole.gaussians.count + whole.harmonics.count / 3;
    ASSERT_TRUE(packed_scene_open(&coarse, &scene, room, &why)) << why.text;
    ASSERT_TRUE(packed_scene_open(&bare, &scene, 0, &why)) << why.text;
    EXPECT_EQ(whole.sh_degree, 3);
    EXPECT_EQ(coarse.sh_degree, 3);
    EXPECT_GT(coarse.step, whole.step);
    EXPECT_LE(coarse.gaussians.count + coarse.harmonics.count, room);
    EXPECT_GT(double(coarse.gaussians.count + coarse.harmonics.count), 0.93 * double(room)); // and fills it
    // A search for matches finds some by chance, and costs time and room.
    const std::string levels = inflated(
        std::string(reinterpret_cast<char *>(coarse.harmonics.bytes), coarse.harmonics.count), 45 * 3000);
    uLongf searched = compressBound(levels.size());
    std::vector<Bytef> room_of_search(searched);
    ASSERT_EQ(compress(room_of_search.data(), &searched, reinterpret_cast<const Bytef *>(levels.data()),
                       levels.size()),
              Z_OK);
    EXPECT_LT(double(coarse.harmonics.count), 0.9 * double(searched));
    EXPECT_EQ(bare.sh_degree, 0);
    EXPECT_EQ(bare.whole_degree, 3);
    EXPECT_EQ(bare.gaussians.count, whole.gaussians.count);
    EXPECT_LT(whole.gaussians.count,
              35u * 3000 / 2); // of 300,000: 5.3 MB of the 7.5 that PAGE_BYTES has before base64
    packed_scene_close(&whole);
    packed_scene_close(&coarse);
    packed_scene_close(&bare);
}

// Harmonics become coarser, so that a page of up to PAGE_GAUSSIANS has at most PAGE_BYTES.
TEST_F(Page, HasAtMostItsBytes) {
    host_scene scene = random_scene(200000, 3, 7);
    one_view_page large(scene, "large");
    large.write(at("page.html"));
    EXPECT_LE(large.written.bytes, size_t(PAGE_BYTES));
    EXPECT_GT(double(large.written.bytes), 0.9 * PAGE_BYTES);
    EXPECT_EQ(large.written.sh_degree, 3);
}

// ---- dsplat train --report

class Report : public Program {
  protected:
    // A picture of the page, decoded.
    std::unique_ptr<picture> shown(const json &uri) const {
        const std::string text = uri.text(), head = "data:image/png;base64,";
        EXPECT_EQ(text.rfind(head, 0), 0u) << text.substr(0, 40);
        std::ofstream(at("decoded.png"), std::ios::binary) << from_base64(text.substr(head.size()));
        return std::make_unique<picture>(at("decoded.png"));
    }
    static void expect_equal(const image &a, const image &b) {
        ASSERT_TRUE(a.width == b.width && a.height == b.height && a.channels == b.channels);
        EXPECT_EQ(memcmp(a.pixels, b.pixels, size_t(a.channels * a.width * a.height)), 0);
    }
};

TEST_F(Report, IsOnePageWithPicturesAndCurves) {
    const char *const name = "da<t>a & \"more\"";
    write_colmap(at(name), 30);
    const outcome run = splat({"train", at(name), "-o", at("scene.ply"), "--iterations", "24", "--holdout",
                               "2", "--eval-every", "8", "--report", at("report")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.err, "");
    const exported_page page(at("report/index.html"));
    EXPECT_EQ(page.facts["title"].text(), name);
    EXPECT_EQ(page.text.find(folder.string()), std::string::npos) << "where the sharer has it";
    EXPECT_EQ(page.gaussians.size(), 30u);
    EXPECT_EQ(page.facts["views"].size(), size_t(photos));
    const json curves = page.facts["curves"], of = page.facts["run"];
    ASSERT_EQ(curves.size(), 4u); // loss, PSNR, Gaussians, time of an iteration
    EXPECT_EQ(curves.at(0)["series"].at(0)["y"].size(), 24u);
    EXPECT_EQ(curves.at(1)["series"].at(0)["x"].size(), 3u); // evaluations at 8, 16, 24
    EXPECT_EQ(curves.at(1)["series"].at(0)["x"].at(2).number(), 24);
    EXPECT_EQ(curves.at(3)["title"].text(), "Time of an iteration, ms");
    EXPECT_GT(curves.at(3)["series"].at(0)["y"].at(0).number(), 0);
    EXPECT_EQ(of["iterations"].number(), 24);
    EXPECT_EQ(of["views_per_step"].number(), 1);
    EXPECT_EQ(of["gaussians"].number(), 30);
    EXPECT_TRUE(of["held_out"].is(true));

    // Three held-out views, from the worst to the best: rendered, photograph, error of each.
    ASSERT_EQ(of["pictures"].size(), 3u);
    double worst = 0, sum = 0;
    for (size_t i = 0; i < 3; i++) {
        const json one = of["pictures"].at(i);
        const auto rendered = shown(one["rendered"]), photo = shown(one["photograph"]);
        const picture original(at(name) / "images" / one["name"].text());
        EXPECT_EQ(one["width"].number(), photo_width);
        expect_equal(*photo, original);
        image errors;
        fault why;
        ASSERT_TRUE(map_errors(rendered.get(), &original, 1, &errors, &why)) << why.text;
        expect_equal(*shown(one["error"]), errors);
        image_close(&errors);
        const double psnr = one["psnr"].number();
        EXPECT_NEAR(psnr, image_psnr(rendered.get(), &original, nullptr), 1e-3);
        EXPECT_GE(psnr, worst) << "not from the worst to the best";
        worst = psnr;
        sum += psnr;
    }
    EXPECT_NEAR(of["psnr"].number(), sum / 3, 1e-6);
    EXPECT_NEAR(number_after(run.out, "PSNR "), sum / 3, 0.00501);
}

// Each title is the folder's name, also from within it, and of a name that ends with a slash.
TEST_F(Report, WithoutHeldOutViewsShowsThoseTrainedOn) {
    write_colmap(at("data"), 20);
    const fs::path home = fs::current_path();
    fs::current_path(at("data") / "images");
    for (const char *data : {"..", "@data/"}) {
        says({{"train "s + data +
                   " -o @scene.ply --iterations 3 --holdout 0 --report @report --log @log --eval-every 1",
               0,
               {"!held out "}}});
        EXPECT_EQ(contents(at("log")).find("evaluation"), std::string::npos);
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
    size_t series = 0;
    for (const auto &[name, x, y] : {std::tuple{"training", 998, 1996},
                                     {"validation", 998, 998},
                                     {"held out", 1000, 1000}}) { // the last point of each
        const json one = psnr.at(series++);
        EXPECT_EQ(one["name"].text(), name);
        EXPECT_EQ(one["x"].at(one["x"].size() - 1).number(), x);
        EXPECT_EQ(one["y"].at(one["y"].size() - 1).number(), y);
    }
    run_record_close(&record);
}

} // namespace
