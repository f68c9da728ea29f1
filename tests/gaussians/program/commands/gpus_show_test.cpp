// SPDX-License-Identifier: MIT
// dsplat eval and render --gpus. Processes use fake_nccl.c, so only simt has these tests.
#ifdef DISTWAR_SIMT
#include "depth_data.h"
#include "gpus_run.h"
#include <map>

namespace {

// What shows a scene: the same on any number of GPUs.
class GpusShow : public OnGpus {
  protected:
    void SetUp() override {
        OnGpus::SetUp();
        write_colmap(at("data"), 30);
        ASSERT_EQ(run(DSPLAT_PROGRAM, train("scene.ply", 0, {})).code, 0);
    }
    std::vector<std::string> words(const std::vector<std::string> &command, int gpus,
                                   const std::vector<std::string> &more) const {
        std::vector<std::string> all = command;
        all.insert(all.begin() + 1, at("scene.ply").string());
        all.insert(all.end(), {"--gpus", std::to_string(gpus)});
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    outcome show(const std::vector<std::string> &command, int gpus,
                 const std::vector<std::string> &more = {}) const {
        const outcome got = run(DSPLAT_PROGRAM, words(command, gpus, more));
        EXPECT_EQ(got.code, 0) << got.err;
        return got;
    }
    std::string all_files(const char *folder) const {
        std::map<std::string, std::string> files;
        for (const auto &entry : fs::directory_iterator(at(folder)))
            files[entry.path().filename()] = contents(entry.path());
        std::string all;
        for (const auto &[name, text] : files) all += name + text;
        return all;
    }
};

const std::vector<std::vector<std::string>> any_number = {{}, {"--nccl", FAKE_NCCL}};

TEST_F(GpusShow, EvalMeasuresTheSame) {
    const std::string data = at("data").string(), json = at("quality.json").string();
    write_depth_maps(at("data"), at("depth"));
    const std::vector<std::string> command = {"eval",      "--cameras", data, "--all",         "--depth",
                                              at("depth"), "--json",    json, "--align-steps", "2"};
    const std::string table = show(command, 0).out, numbers = contents(json);
    EXPECT_CONTAINS(table, "photo4.png"); // the fifth: three ranks take them in two rounds
    EXPECT_CONTAINS(table, "depth error, %");
    for (const auto &[gpus, more] : {std::pair(1, any_number[0]), {3, any_number[0]}, {2, any_number[1]}}) {
        fs::remove(json);
        EXPECT_EQ(show(command, gpus, more).out, table) << gpus;
        EXPECT_TRUE(contents(json) == numbers) << gpus;
    }
}

TEST_F(GpusShow, EvalTakesPicturesOfSeveralSizes) {
    write_two_sizes(at("sizes"));
    const std::vector<std::string> command = {"eval", "--cameras", at("sizes").string(), "--all"};
    EXPECT_EQ(show(command, 3).out, show(command, 0).out);
}

TEST_F(GpusShow, RenderWritesTheSamePictures) {
    const std::string data = at("data").string(), one = at("one.png").string(), all = at("flight").string();
    const std::vector<std::string> picture = {"render", "-o",     one, "--cameras",
                                              data,     "--view", "1", "--photo"},
                                   flight = {"render", "-o",    all,        "--cameras", data,
                                             "--path", "orbit", "--frames", "7"};
    const std::string told = show(picture, 0).out + show(flight, 0).out, before = contents(one),
                      frames = all_files("flight");
    for (const auto &[gpus, more] : {std::pair(1, any_number[0]), {3, any_number[0]}, {2, any_number[1]}}) {
        fs::remove(one);
        fs::remove_all(all);
        EXPECT_EQ(show(picture, gpus, more).out + show(flight, gpus, more).out, told) << gpus;
        EXPECT_TRUE(contents(one) == before) << gpus;
        EXPECT_TRUE(all_files("flight") == frames) << gpus;
    }
    show({"render", "-o", all, "--cameras", data, "--path", "orbit", "--frames", "5"}, 2);
    EXPECT_FALSE(fs::exists(at("flight") / "frame_00005.png")); // of the longer flight
}

TEST_F(GpusShow, FailuresLeaveTheFiles) {
    const std::string data = at("data").string(), json = at("quality.json").string();
    std::ofstream(json) << "of an earlier run";
    setenv("FAKE_NCCL_BREAKS", "1,2", 1);
    const outcome killed =
        run(DSPLAT_PROGRAM, words({"eval", "--cameras", data, "--all", "--json", json}, 2, any_number[1]));
    unsetenv("FAKE_NCCL_BREAKS");
    EXPECT_EQ(killed.code, 1);
    EXPECT_EQ(killed.out, "");
    EXPECT_EQ(killed.err.find("dsplat: rank 1: "), 0u) << killed.err;
    EXPECT_CONTAINS(killed.err, ": unhandled cuda error");
    EXPECT_EQ(contents(json), "of an earlier run");
    const outcome nowhere = run(DSPLAT_PROGRAM, words({"eval", "--cameras", at("none").string()}, 2, {}));
    EXPECT_EQ(nowhere.code, 1);
    EXPECT_EQ(nowhere.err, "dsplat: " + at("none").string() + ": cannot open: No such file or directory\n");
}

} // namespace
#endif
