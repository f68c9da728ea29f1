// SPDX-License-Identifier: MIT
// The page in headless Chromium, drawn in software: its picture is the rasterizer's, and page_hands.html checks it under
// hands. For `make extra`.
#include "live/page_client.h"

namespace {

class PageInABrowser : public Program {
  protected:
    static constexpr int size = 240, view = 2;

    void SetUp() override {
        Program::SetUp();
        if (system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium";
    }
    bool browse(const std::string &options, const std::string &url) const {
        return system(
                   ("timeout 300 chromium --headless --no-sandbox --use-angle=swiftshader --hide-scrollbars "
                    "--enable-unsafe-swiftshader --enable-logging=stderr --user-data-dir='" +
                    at("profile").string() + "' " + options + " '" + url + "' >/dev/null 2>'" +
                    at("console").string() + "'")
                       .c_str()) == 0;
    }
    // The page alone, as a photograph of a window of the picture's size.
    void photograph(const std::string &url, const char *to) const {
        if (!browse("--window-size=" + std::to_string(size) + "," + std::to_string(size) +
                        " --virtual-time-budget=8000 --screenshot='" + at(to).string() + "'",
                    url + "#plain=1&view=" + std::to_string(view)))
            fs::remove(at(to));
    }
    double psnr(const char *photographed, const std::string &rendered) const {
        const picture screen(at(photographed)), expected(folder / rendered);
        return image_psnr(&screen, &expected, NULL);
    }
};

TEST_F(PageInABrowser, DrawsWhatTheRasterizerDraws) {
    done("generate @data --views 3 --test-views 1 --gaussians 12000 --size " + std::to_string(size));
    host_scene scene(at("data/scene.ply"));
    ASSERT_GT(scene.sh_degree, 0);
    scene.antialias = 1;
    scene.write(at("antialiased.ply"));
    fs::copy(at("data/scene.ply"), at("plain.ply"));
    for (const std::string kind : {"plain", "antialiased"}) {
        done("export @" + kind + ".ply -o @page.html --cameras @data");
        done("render @" + kind + ".ply -o @" + kind + ".png --cameras @data --view " + std::to_string(view));
        photograph("file://" + at("page.html").string(), "screen.png");
        if (!fs::exists(at("screen.png"))) GTEST_SKIP() << "chromium does not run here";
        const double here = psnr("screen.png", kind + ".png");
        EXPECT_GT(here, 48) << kind; // 41 if 0.45 is added to the variances in place of 0.3
        printf("%s: %.1f dB\n", kind.c_str(), here);
    }
    // Antialiasing shows, and so does the view: neither picture passes for another one.
    picture plain(at("plain.png")), antialiased(at("antialiased.png"));
    EXPECT_LT(image_psnr(&plain, &antialiased, NULL), 35);
}

// Light, which is preferred color scheme 1, and dark.
TEST_F(PageInABrowser, UnderHands) {
    done("generate @knot --views 4 --test-views 1 --size 96 --gaussians 1000");
    done("export @knot/scene.ply -o @page.html --cameras @knot --most 900");
    done("train @knot -o @a.ply --from @knot/scene.ply --iterations 6 --eval-every 2 --report @report");
    fs::copy(PAGE_HANDS, at("hands.html"));
    for (const std::string scheme : {"dark", "light"}) {
        browse(
            "--window-size=1920,1080 --allow-file-access-from-files --blink-settings=preferredColorScheme=" +
                std::to_string(scheme == "light"),
            "file://" + at("hands.html").string() + "#" + scheme);
        const std::string said = contents(at("console"));
        if (said.find("\"hands begin\"") == std::string::npos) GTEST_SKIP() << "chromium does not run here";
        EXPECT_CONTAINS(said, "\"all is as it should be\"");
        for (const char *part : {"\"Uncaught", "Security Policy"}) // it asks for nothing elsewhere
            EXPECT_EQ(said.find(part), std::string::npos) << said;
    }
}

#ifdef DSPLAT_MICROHTTPD

// The scene comes from the server, and is the one that is written.
TEST_F(PageInABrowser, ShowsATraining) {
    done("generate @data --views 3 --test-views 1 --gaussians 3000 --size " + std::to_string(size));
    const viewed_training training(folder, {"train", at("data"), "-o", at("scene.ply"), "--iterations",
                                            "1000000", "--from", at("data/scene.ply"), "--density", "none"});
    EXPECT_EQ(training.ask("pause", "POST").status, "200");
    EXPECT_TRUE(soon([&] { return training.ask("scene").status == "200"; })); // a slow step
    photograph(training.url, "screen.png");
    EXPECT_EQ(training.ask("stop", "POST").status, "200");
    EXPECT_EQ(training.wait(), 130);
    if (!fs::exists(at("screen.png"))) GTEST_SKIP() << "chromium does not run here";
    done("render @scene.ply -o @trained.png --cameras @data --view " + std::to_string(view + 1));
    const double here = psnr("screen.png", "trained.png");
    EXPECT_GT(here, 30);
    printf("training: %.1f dB\n", here);
}

#endif

} // namespace
