// SPDX-License-Identifier: MIT
// The page in headless Chromium, drawn in software: its picture is the rasterizer's. For `make extra`.
#include "live/page_client.h"

namespace {

class PageInABrowser : public Program {
  protected:
    static constexpr int size = 240, view = 2;

    // The page alone, as a photograph of the window.
    void photograph(const std::string &url, const char *to) const {
        const std::string command =
            "timeout 200 chromium --headless --no-sandbox --use-angle=swiftshader --enable-unsafe-swiftshader "
            "--hide-scrollbars --window-size=600,400 --virtual-time-budget=8000 --user-data-dir='" +
            at("profile").string() + "' --screenshot='" + at(to).string() + "' '" + url +
            "#plain=1&view=" + std::to_string(view) + "' >/dev/null 2>&1";
        if (system(command.c_str()) != 0) fs::remove(at(to));
    }
    // Its upper left corner, where the picture is.
    double psnr(const char *photographed, const char *rendered) const {
        picture screen(at(photographed)), expected(at(rendered));
        const picture corner(size, size, 0);
        for (int y = 0; y < size; y++)
            for (int x = 0; x < size; x++)
                memcpy(corner.pixels + 3 * (size * y + x),
                       screen.pixels + screen.channels * (screen.width * y + x), 3);
        return image_psnr(&corner, &expected, NULL);
    }
};

TEST_F(PageInABrowser, DrawsWhatTheRasterizerDraws) {
    if (system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium";
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
        const double here = psnr("screen.png", (kind + ".png").c_str());
        EXPECT_GT(here, 48) << kind; // 41 if 0.45 is added to the variances in place of 0.3
        printf("%s: %.1f dB\n", kind.c_str(), here);
    }
    // Antialiasing shows, and so does the view: neither picture passes for another one.
    picture plain(at("plain.png")), antialiased(at("antialiased.png"));
    EXPECT_LT(image_psnr(&plain, &antialiased, NULL), 35);
}

#ifdef DSPLAT_MICROHTTPD

// The scene comes from the server, and is the one that is written.
TEST_F(PageInABrowser, ShowsATraining) {
    if (system("command -v chromium >/dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium";
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
