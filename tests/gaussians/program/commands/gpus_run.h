// SPDX-License-Identifier: MIT
// Runs of dsplat train --gpus.
#ifndef GPUS_RUN_H
#define GPUS_RUN_H

#include "program_run.h"

class OnGpus : public Program {
  protected:
    std::vector<std::string> train(const char *output, int gpus,
                                   const std::vector<std::string> &more = {}) const {
        std::vector<std::string> arguments = {"train",        at("data").string(),
                                              "-o",           at(output).string(),
                                              "--gpus",       std::to_string(gpus),
                                              "--iterations", "12",
                                              "--holdout",    "5",
                                              "--seed",       "7"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return arguments;
    }
    std::string checkpoint() const { return at("scene.ply.checkpoint").string(); } // of scene_of
    std::string scene_of(int gpus, const std::vector<std::string> &more) const {
        const outcome got = run(DSPLAT_PROGRAM, train("scene.ply", gpus, more));
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_NE(got.out.find("scene "), std::string::npos) << got.out;
        return contents(at("scene.ply"));
    }
};

// With a view a step, an average from step 10. Growth from 130 to 200: by relocation, noise, penalties; by splits, with
// corrected colours.
inline const std::vector<std::string> growth = {"--max-gaussians",
                                                "200",
                                                "--random",
                                                "130",
                                                "--reproducible",
                                                "--schedule",
                                                "from=1,until=9,every=4,average=1"};
// The same with retirement every 4 steps.
inline const std::vector<std::string> retiring = {"--retire", "0.5", "--schedule",
                                                  "from=1,until=9,every=4,average=1,retire=4"};
inline std::vector<std::string> with(std::vector<std::string> options, const std::vector<std::string> &more) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
}
inline const std::vector<std::string> growing = with(growth, {"--density", "mcmc"});
inline const std::vector<std::string> splitting = with(growth, {"--density", "split"});

// The second photograph has another size, and a camera of its own.
inline void write_two_sizes(const fs::path &folder) {
    const int taller = photo_height + 4;
    write_colmap(folder, 30);
    bytes(folder / "sparse/0/cameras.bin")
        << uint64_t(2) << uint32_t(1) << int32_t(1) << uint64_t(photo_width) << uint64_t(photo_height) << 36.0
        << 36.0 << photo_width / 2.0 << photo_height / 2.0 << uint32_t(2) << int32_t(1)
        << uint64_t(photo_width) << uint64_t(taller) << 36.0 << 36.0 << photo_width / 2.0 << taller / 2.0;
    std::fstream images(folder / "sparse/0/images.bin", std::ios::in | std::ios::out | std::ios::binary);
    constexpr int before_camera = 4 + 7 * 8, record = before_camera + 4 + sizeof "photo0.png" + 8;
    const uint32_t camera = 2;
    images.seekp(8 + record + before_camera);
    images.write(reinterpret_cast<const char *>(&camera), sizeof camera);
    image picture;
    fault why;
    ASSERT_TRUE(image_open(&picture, photo_width, taller, 3, &why)) << why.text;
    ASSERT_TRUE(image_write_png((folder / "images/photo1.png").c_str(), &picture, &why)) << why.text;
    image_close(&picture);
}

#endif
