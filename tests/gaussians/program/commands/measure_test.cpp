// SPDX-License-Identifier: MIT
// The program's commands eval and info.
#include "program_run.h"
#include "json_value.h"
#include "distwar_gs.h"
#include "commands/command.h"

namespace {

// Overwrites the float at `slot` of Gaussian i of a file of write_scene.
void put_float(const fs::path &path, int i, int slot, float value) {
    const char end[] = "end_header\n";
    const size_t begin = contents(path).find(end) + strlen(end);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff(begin + sizeof(float) * size_t(17 * i + slot)));
    file.write(reinterpret_cast<const char *>(&value), sizeof value);
}

TEST(Maps, AnErrorIsTheMeanOfTheChannelsDifferences) {
    fault why;
    image errors;
    const picture black(3, 1, 0), other(3, 1, 0);
    const uint8_t colors[3][GS_CHANNELS] = {{0, 1, 0}, {2, 0, 0}, {10, 0, 20}};
    const int means[3] = {0, 1, 10}; // rounded to nearest
    memcpy(other.pixels, colors, sizeof colors);
    ASSERT_TRUE(map_errors(&black, &other, 1, &errors, &why)) << why.text;
    for (int pixel = 0; pixel < 3; pixel++) {
        uint8_t wanted[GS_CHANNELS];
        map_color(double(means[pixel]) / FULL_ERROR, wanted);
        EXPECT_EQ(memcmp(errors.pixels + GS_CHANNELS * pixel, wanted, sizeof wanted), 0) << pixel;
    }
    image_close(&errors);
    uint8_t ends[2][GS_CHANNELS];
    const uint8_t dark_and_pale[2][GS_CHANNELS] = {{0, 0, 4}, {252, 255, 164}};
    for (int i = 0; i < 2; i++) map_color(i, ends[i]);
    EXPECT_EQ(memcmp(ends, dark_and_pale, sizeof ends), 0);
}

// ---- eval

class Eval : public Program {
  protected:
    // Photographs of one gray each, 40 brighter from one to the next, of cameras that see nothing of
    // scene.ply.
    void write_grays() {
        write_colmap(at("data"), 4);
        for (int v = 0; v < photos; v++) write_gray(v, 40 * (v + 1));
        write_scene(at("scene.ply"), 2, 0, 0, -20);
    }
    void write_gray(int view, int value) {
        picture(photo_width, photo_height, value).write(at("data/images") / photo_name(view));
    }
    outcome evaluate(const std::string &more) const {
        return done("eval @scene.ply --cameras @data " + more);
    }
    json report() const { return json(contents(at("eval.json"))); }
};

// SSIM of black and gray g: the mean over pixels of c1 / (g^2 m^2 + c1) * c2 / (g^2 (m - m^2) + c2), where m is the part of
// the window's weights that the border leaves, c1 = 1e-4 and c2 = 9e-4.
TEST_F(Eval, MeasuresWhatCanBeComputedByHand) {
    write_grays();
    const outcome run = evaluate("--holdout 2 --json @eval.json");
    EXPECT_EQ(run.err, "");
    const json report = this->report();
    ASSERT_EQ(report["views"].size(), 3u);                      // 0, 2, 4
    const double by_hand[] = {0.0031400, 0.0002725, 0.0000903}; // SSIM
    double psnr_sum = 0, ssim_sum = 0;
    for (int i = 0; i < 3; i++) {
        const double gray = 40 * (2 * i + 1);
        const json view = report["views"].at(size_t(i));
        const double psnr = view["psnr"].number(), ssim = view["ssim"].number();
        EXPECT_EQ(view["name"].text(), photo_name(2 * i));
        EXPECT_EQ(view["width"].number(), photo_width);
        EXPECT_EQ(view["height"].number(), photo_height);
        EXPECT_NEAR(psnr, 20 * std::log10(255 / gray), 1e-9);
        EXPECT_NEAR(ssim, by_hand[i], 1e-5);
        psnr_sum += psnr, ssim_sum += ssim;
        char row[80];
        snprintf(row, sizeof row, "photo%d.png     40 x 28     %8.2f  %6.4f\n", 2 * i, psnr, ssim);
        EXPECT_CONTAINS(run.out, row);
    }
    EXPECT_NEAR(report["mean"]["psnr"].number(), psnr_sum / 3, 1e-9);
    EXPECT_NEAR(report["mean"]["ssim"].number(), ssim_sum / 3, 1e-9);
    EXPECT_EQ(report["gaussians"].number(), 2);
}

// Side by side, numbered in the order of the table; those of an earlier run with more views go, and photographs stay.
TEST_F(Eval, WritesEachPictureBesideItsPhotograph) {
    write_grays();
    evaluate("--all --pictures @pairs");
    ASSERT_TRUE(fs::exists(at("pairs/view_00004.png")));
    evaluate("--holdout 2 --pictures @pairs");
    EXPECT_FALSE(fs::exists(at("pairs/view_00003.png")));
    for (int v = 0; v < 3; v++) {
        const picture pair(at("pairs") / ("view_0000" + std::to_string(v) + ".png"));
        ASSERT_EQ(pair.width, 2 * photo_width);
        ASSERT_EQ(pair.height, photo_height);
        EXPECT_EQ(int(pair.pixels[3 * (5 * pair.width + 5)]), 0);
        EXPECT_EQ(int(pair.pixels[3 * (5 * pair.width + photo_width + 5)]), 40 + 80 * v);
    }
}

TEST_F(Eval, AnEqualPictureIsInfinitelyGood) {
    write_grays();
    EXPECT_EQ(json(evaluate("--all --json -").out)["views"].size(),
              size_t(photos)); // stdout holds nothing else
    for (int v = 0; v < photos; v++) write_gray(v, 51);
    EXPECT_CONTAINS(evaluate("--background 0.2,0.2,0.2 --json @eval.json").out, " inf ");
    EXPECT_TRUE(report()["mean"]["psnr"].null());
    EXPECT_NEAR(report()["mean"]["ssim"].number(), 1, 1e-6);
}

TEST_F(Eval, ASceneEqualsWhatWasRenderedOfIt) {
    write_colmap(at("data"), 4);
    write_scene(at("scene.ply"), 3, 0, 0, 3);
    for (int v = 0; v < photos; v++) {
        done("render @scene.ply -o @view.png --cameras @data --view " + photo_name(v));
        ASSERT_GT(picture(at("view.png")).others({0, 0, 0}), 5);
        fs::rename(at("view.png"), at("data/images") / photo_name(v));
    }
    evaluate("--all --json @eval.json");
    EXPECT_TRUE(report()["mean"]["psnr"].null());
    EXPECT_GT(report()["mean"]["ssim"].number(), 0.999);
    evaluate("--all --json @eval.json --background 0.1,0,0");
    EXPECT_LT(report()["mean"]["psnr"].number(), 30);
    put_float(at("scene.ply"), 0, 6, 1e38f); // f_dc_0: colours that overflow have no SSIM
    EXPECT_CONTAINS(evaluate("--json @eval.json").out, " nan\n");
    EXPECT_TRUE(report()["mean"]["ssim"].null());
    EXPECT_GT(report()["mean"]["psnr"].number(), 0);
}

TEST_F(Eval, RefusesScenesThatShowNothing) {
    write_grays();
    put_float(at("scene.ply"), 1, 0, NAN);
    refuses({{"eval @scene.ply --cameras @data", 1, "Gaussian 1 has mean[0] = nan"}});
    write_scene(at("scene.ply"), 0, 0, 0, 0);
    refuses({{"eval @scene.ply --cameras @data", 1, "holds no Gaussians"}});
}

// ---- info

class Info : public Program {};

TEST_F(Info, DescribesAScene) {
    write_scene(at("scene.ply"), 5, 1.5f, -2, 3);
    put_float(at("scene.ply"), 2, 0, -7);    // x
    put_float(at("scene.ply"), 3, 11, 0.5f); // second log-scale
    put_float(at("scene.ply"), 4, 9, 0);     // opacity logit
    const outcome run = done("info @scene.ply --json @info.json");
    EXPECT_CONTAINS(run.out, "Gaussians    5, SH degree 0");
    EXPECT_CONTAINS(run.out, "not finite   none");
    const json report(contents(at("info.json")));
    EXPECT_EQ(report["bytes"].number(), double(fs::file_size(at("scene.ply"))));
    EXPECT_EQ(report["gaussians"].number(), 5);
    EXPECT_EQ(report["sh_degree"].number(), 0);
    EXPECT_EQ(report["values_not_finite"].number(), 0);
    EXPECT_EQ(report["percents"].at(3).number(), 50);
    const auto percentile = [&](const char *of, int at) { // 0: the least, 3: the median, 6: the most
        return report["percentiles"][of].at(size_t(at)).number();
    };
    EXPECT_EQ(percentile("x", 0), -7);
    EXPECT_EQ(percentile("x", 3), 1.5);
    EXPECT_EQ(percentile("y", 6), -2);
    EXPECT_EQ(percentile("z", 0), 3);
    EXPECT_NEAR(percentile("longest_axis", 6), std::exp(0.5), 1e-12);
    EXPECT_NEAR(percentile("longest_axis", 3), std::exp(-2), 1e-12);
    EXPECT_NEAR(percentile("shortest_axis", 6), std::exp(-2), 1e-12);
    EXPECT_NEAR(percentile("opacity", 0), 0.5, 1e-12);
    EXPECT_NEAR(percentile("opacity", 6), 1 / (1 + std::exp(-3)), 1e-12);
}

TEST_F(Info, CountsWhatIsNotFinite) {
    write_scene(at("scene.ply"), 4, 1, 2, 3);
    put_float(at("scene.ply"), 0, 0, NAN);
    put_float(at("scene.ply"), 0, 12, INFINITY); // log-scale
    put_float(at("scene.ply"), 2, 6, -INFINITY); // colour
    says({{"render @scene.ply -o @view.png", 1, {}},
          {"info @scene.ply", 0, {"not finite   3 values in 2 Gaussians"}}});
    const json report(done("info @scene.ply --json -").out);
    EXPECT_EQ(report["values_not_finite"].number(), 3);
    EXPECT_EQ(report["gaussians_not_finite"].number(), 2);
    EXPECT_EQ(report["percentiles"]["x"].at(6).number(), 1);
    EXPECT_NEAR(report["percentiles"]["longest_axis"].at(6).number(), std::exp(-2), 1e-12);
    write_scene(at("empty.ply"), 0, 0, 0, 0);
    says({{"info @empty.ply", 0, {"Gaussians    0"}}});
    EXPECT_TRUE(json(done("info @empty.ply --json -").out)["percentiles"]["x"].at(0).null());
}

} // namespace
