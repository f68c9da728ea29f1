// SPDX-License-Identifier: MIT
// dsplat train --refine-poses and what it writes, and eval --align-steps, as their users run them.
#include "program_run.h"

namespace train_poses_test {

TEST_F(Program, RefinesPosesAndWritesCameras) {
    write_colmap(at("data"), 30);
    fs::create_directories(at("data") / "masks");
    image mask;
    fault why;
    ASSERT_TRUE(image_open(&mask, photo_width, photo_height, 3, &why)) << why.text;
    memset(mask.pixels + 300, 255, 3 * size_t(photo_width) * size_t(photo_height) - 300);
    for (int i = 0; i < photos; i++) {
        const std::string name = "photo" + std::to_string(i) + ".png";
        ASSERT_TRUE(image_write_png((at("data") / "masks" / name).c_str(), &mask, &why)) << why.text;
    }
    image_close(&mask);
    const std::vector<std::string> run = words(
        "train @data -o @scene.ply --iterations 12 --density none --perturb-poses 1,0.01 --refine-poses --write-cameras @cameras.json --log @run.jsonl");
    const outcome refined = splat(run);
    ASSERT_EQ(refined.code, 0) << refined.err;
    EXPECT_CONTAINS(refined.out, "poses      from those of the data");
    const std::string log = contents(at("run.jsonl"));
    EXPECT_CONTAINS(log, "\"event\": \"poses\", \"iteration\": 12, \"views\": 4, \"seconds\": ");
    // The file gives the same views with the same pictures and masks.
    EXPECT_CONTAINS(contents(at("cameras.json")), "\"mask_path\": \"masks/photo0.png\"");
    fs::create_directories(at("again"));
    fs::copy(at("data") / "images", at("again") / "images");
    fs::copy(at("data") / "masks", at("again") / "masks");
    fs::copy(at("cameras.json"), at("again") / "transforms.json");
    const outcome info = dsplat("eval @scene.ply --cameras @again");
    ASSERT_EQ(info.code, 0) << info.err;
    const outcome data = dsplat("eval @scene.ply --cameras @data");
    EXPECT_NE(info.out, data.out);
}

// What a program prints between two texts, as numbers.
std::vector<double> numbers_after(const std::string &text, const std::string &mark) {
    std::vector<double> found;
    std::istringstream rest(text.substr(text.find(mark) + mark.size()));
    std::string word;
    while (rest >> word && found.size() < 4)
        if (std::isdigit(static_cast<unsigned char>(word[0]))) found.push_back(std::stod(word));
    return found;
}

// On a half of 128 x 128 pixels.
TEST_F(Program, RefinesPosesOnSmallerPicturesFirst) {
    outcome run = dsplat("generate @data --views 4 --test-views 1 --size 128 --gaussians 2000");
    ASSERT_EQ(run.code, 0) << run.err;
    const std::vector<std::string> train = words(
        "train @data -o @scene.ply --random 200 --density none --perturb-poses 2,0.01 --refine-poses --iterations 2 --resolutions 2:50 --align-steps 2 --log @run.jsonl --reproducible --checkpoint-every 1");
    run = splat(train);
    fs::rename(at("scene.ply.checkpoint"), at("kept"));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_CONTAINS(run.out, ", 1/2 of the size until 50%\n");
    const std::string log = contents(at("run.jsonl"));
    EXPECT_CONTAINS(log, "\"sizes\": [{\"divided_by\": 2, \"mean_degrees\": ");
    const auto settled = numbers_after(log, "\"divided_by\": 2, \"mean_degrees\":"),
               before = numbers_after(log, "\"before\": {\"mean_degrees\":");
    ASSERT_FALSE(settled.empty());
    EXPECT_NE(settled.at(0), before.at(0));
    const auto seconds = numbers_after(log, "\"views\": 4, \"seconds\":");
    ASSERT_FALSE(seconds.empty()) << log;
    EXPECT_LE(seconds.at(0), 600); // a duration, not a time of day
    // A resumed run has the poses that were saved, and aligns as before.
    const std::string scene = contents(at("scene.ply"));
    const auto measured = [](const std::string &out) { // PSNR and SSIM
        std::vector<double> numbers = numbers_after(out, "held out   PSNR");
        numbers.resize(2);
        return numbers;
    };
    const std::vector<double> before_resuming = measured(run.out);
    std::vector<std::string> again = train;
    again.insert(again.end(), {"--resume", at("kept")});
    fs::remove(at("scene.ply"));
    run = splat(again);
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
    EXPECT_EQ(measured(run.out), before_resuming) << run.out;
}

// The scene that the pictures show, and cameras that are wrong.
TEST_F(Program, AlignsViewsBeforeTheyAreMeasured) {
    outcome run = splat(
        {"generate", at("data"), "--views", "3", "--test-views", "0", "--size", "64", "--gaussians", "2000"});
    ASSERT_EQ(run.code, 0) << run.err;
    fs::create_directories(at("moved"));
    fs::copy(at("data") / "train", at("moved") / "train");
    run = dsplat(
        "train @data -o @unused.ply --random 10 --iterations 1 --holdout 0 --density none --perturb-poses 0.5,0.005 --write-cameras @moved/transforms.json");
    ASSERT_EQ(run.code, 0) << run.err;
    const auto psnr_of = [&](const std::vector<std::string> &more) {
        std::vector<std::string> arguments = {"eval", at("data/scene.ply"), "--cameras", at("moved"),
                                              "--all"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const outcome measured = splat(arguments);
        EXPECT_EQ(measured.code, 0) << measured.err;
        return numbers_after(measured.out, "mean").at(0);
    };
    const double before = psnr_of({});
    EXPECT_EQ(psnr_of({"--align-steps", "0"}), before);
    EXPECT_GT(psnr_of({"--align-steps", "40"}), before + 5);
}

} // namespace train_poses_test
