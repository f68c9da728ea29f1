// SPDX-License-Identifier: MIT
// dsplat export: the page holds the scene, is one file of a bounded size, and no name breaks out of it.
#include "live/exported_page.h"
#include <set>

namespace {

// Values as trained scenes have them, one behind another in front of a camera at the origin.
host_scene random_scene(int64_t count, int degree, unsigned seed) {
    host_scene scene(count, degree);
    std::mt19937 random(seed);
    const auto uniform = [&](double least, double most) {
        return float(least + (most - least) * (double(random()) / 4294967296.0));
    };
    const int64_t coefficients = (degree + 1) * (degree + 1);
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) {
            scene.mean[3 * i + k] = uniform(-2, 2) + (k == 2 ? 5 : 0);
            scene.log_scale[3 * i + k] = uniform(-6, -2);
        }
        for (int k = 0; k < 4; k++) scene.quaternion[4 * i + k] = uniform(-2, 2);
        scene.opacity_logit[i] = uniform(-4, 4);
        for (int64_t k = 0; k < 3 * coefficients; k++)
            scene.sh[3 * coefficients * i + k] = k < 3 ? uniform(-1.7, 1.7) : uniform(-0.2, 0.2);
    }
    return scene;
}

// The Gaussian of the scene with the nearest mean.
int64_t nearest(const gs_gaussians &scene, const shown_gaussian &shown) {
    int64_t best = 0;
    double least = INFINITY;
    for (int64_t i = 0; i < scene.count; i++) {
        double square = 0;
        for (int k = 0; k < 3; k++) square += std::pow(double(scene.mean[3 * i + k]) - shown.value[k], 2);
        if (square < least) {
            least = square;
            best = i;
        }
    }
    return best;
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
    const page_written &written = large.written;
    EXPECT_LE(written.bytes, size_t(PAGE_BYTES));
    EXPECT_GT(double(written.bytes), 0.9 * PAGE_BYTES);
    EXPECT_EQ(written.sh_degree, 3);
}

TEST_F(Page, RefusesBadInput) {
    host_scene scene = random_scene(5, 0, 6);
    scene.write(at("scene.ply"));
    write_colmap(at("data"), 5);
    const fs::path page = at("page.html");
    std::ofstream(page) << "old";
    const std::string to_page = "export @scene.ply -o @page.html --";
    refuses({{"export @scene.ply", 2, "-o is missing"},
             {"export @scene.ply -o @scene.ply", 2, "name one file"},
             {to_page + "most 0", 2, "most"},
             {"export @none.ply -o @page.html", 1, "none.ply"},
             {"export @scene.ply -o @none/page.html", 1, "none/page.html: cannot write"},
             {to_page + "cameras @none", 1, "none"},
             {to_page + "background red", 1, "'red' is not a colour"},
             {"export @scene.ply -o @data/images/photo1.png --cameras @data", 1, "photo1.png"}});
    EXPECT_EQ(contents(page), "old");
    {
        const small_disk disk(20000); // less than the page without a scene
        refuses({{"export @scene.ply -o @page.html", 1, "page.html"}});
    }
    EXPECT_EQ(contents(page), "old");
    EXPECT_EQ(files_in_folder(), 3u);
}

} // namespace
