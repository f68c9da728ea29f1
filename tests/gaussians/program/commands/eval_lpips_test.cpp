// SPDX-License-Identifier: MIT
// dsplat eval --lpips-weights.
#include "device_vector.h"
#include "json_value.h"
#include "lpips/lpips_file.h"
#include "program_run.h"

namespace {

class EvalLpips : public Program {
  protected:
    static constexpr int width = 37, height = 33;
    const std::vector<uint8_t> pixels = invented_pictures(width, height); // of two photographs
    fs::path weights;

    void SetUp() override {
        Program::SetUp();
        weights = at("alex.safetensors");
    }

    // Two photographs of cameras that see nothing of scene.ply.
    void write_data(int rows = height) {
        fs::create_directories(at("data"));
        std::string frames;
        for (size_t k = 0; k < 2; k++) {
            image picture;
            fault why;
            ASSERT_TRUE(image_open(&picture, width, rows, 3, &why)) << why.text;
            const size_t bytes = 3 * size_t(width) * size_t(rows);
            memcpy(picture.pixels, pixels.data() + k * pixels.size() / 2, bytes);
            const std::string name = "photo" + std::to_string(k) + ".png";
            ASSERT_TRUE(image_write_png((at("data") / name).c_str(), &picture, &why)) << why.text;
            image_close(&picture);
            frames += std::string(k > 0 ? "," : "") + "{\"file_path\":\"" + name +
                      "\",\"transform_matrix\":[[1,0,0,0],[0,1,0,0],[0,0,1,0],[0,0,0,1]]}";
        }
        std::ofstream(at("data") / "transforms.json")
            << "{\"fl_x\":36,\"w\":" << width << ",\"h\":" << rows << ",\"frames\":[" << frames << "]}";
        write_scene(at("scene.ply"), 2, 0, 0, 20); // behind both
    }
    outcome evaluate(std::vector<std::string> more) const {
        more.insert(more.begin(), {"eval", at("scene.ply"), "--cameras", at("data"), "--all", "--background",
                                   "0.2,0.2,0.2"});
        return splat(more);
    }
    // The LPIPS of a gray of 51 of 255 and a photograph.
    double lpips_of_gray_and(size_t photograph) const {
        const device_vector<float> color(std::vector<float>(pixels.size() / 2, 0.2f)),
            values(invented_weights(GS_LPIPS_ALEX));
        const auto first = pixels.begin() + ptrdiff_t(photograph * pixels.size() / 2);
        const device_vector<uint8_t> target(
            std::vector<uint8_t>(first, first + ptrdiff_t(pixels.size() / 2)));
        size_t bytes = 0;
        EXPECT_EQ(gs_lpips_bytes(GS_LPIPS_ALEX, width, height, &bytes), GS_OK);
        const device_vector<uint8_t> workspace(bytes);
        const device_vector<double> result(1 + GS_LPIPS_LEVELS);
        gs_lpips_comparison compared = {};
        compared.images = {width, height, color.data(), target.data(), nullptr};
        compared.network = GS_LPIPS_ALEX, compared.weights = values.data();
        EXPECT_EQ(gs_lpips(&compared, workspace.data(), bytes, result.data(), nullptr), GS_OK);
        return result.read()[0];
    }
};

TEST_F(EvalLpips, IsPrintedForEveryViewAndTheirMean) {
    write_data();
    write_bytes(weights, safetensors_of(lpips_tensors(GS_LPIPS_ALEX)));
    const outcome run = evaluate({"--lpips-weights", weights, "--json", at("eval.json"), "--gpus", "2"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, "PSNR, dB    SSIM   LPIPS\n");
    const json report(contents(at("eval.json")));
    EXPECT_EQ(report["lpips_network"].text(), "AlexNet");
    double sum = 0;
    for (size_t k = 0; k < 2; k++) {
        const json view = report["views"].at(k);
        const double wanted = lpips_of_gray_and(k);
        EXPECT_GT(wanted, 0.01);
        EXPECT_NEAR(view["lpips"].number(), wanted, 1e-9);
        char row[80];
        snprintf(row, sizeof row, "photo%zu.png     37 x 33     %8.2f  %6.4f  %6.4f\n", k,
                 view["psnr"].number(), view["ssim"].number(), wanted);
        EXPECT_CONTAINS(run.out, row);
        sum += wanted;
    }
    EXPECT_NEAR(report["mean"]["lpips"].number(), sum / 2, 1e-9);

    const outcome without = evaluate({"--json", "-"});
    EXPECT_EQ(without.out.find("lpips"), std::string::npos);
}

TEST_F(EvalLpips, BadWeightsAndSmallPicturesAreRefused) {
    write_data(31);
    write_bytes(weights, safetensors_of(lpips_tensors(GS_LPIPS_ALEX)));
    const auto expect_refusal = [&](const std::string &text, int code = 1) {
        const outcome run = evaluate({"--lpips-weights", weights, "--json", at("eval.json")});
        EXPECT_EQ(run.code, code);
        EXPECT_EQ(run.out, "");
        EXPECT_CONTAINS(run.err, text);
        EXPECT_FALSE(fs::exists(at("eval.json")));
    };
    expect_refusal("dsplat: photo0.png: the picture has 37 x 31 pixels; LPIPS takes 32 x 32 or more\n");
    fs::resize_file(weights, fs::file_size(weights) - 1);
    expect_refusal("alex.safetensors: tensor 'lin4.model.1.weight': data_offsets must be");
    write_bytes(weights, "PK\x03\x04 a file of torch");
    expect_refusal("alex.safetensors: at byte 0: the header has ");
    fs::remove(weights);
    expect_refusal("alex.safetensors: cannot open: ");
    const outcome one = evaluate({"--lpips-weights", at("x"), "--json", at("x")});
    EXPECT_EQ(one.code, 2);
    EXPECT_CONTAINS(one.err, "--json and --lpips-weights name one file");
}

} // namespace
