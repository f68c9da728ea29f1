// SPDX-License-Identifier: MIT
// dsplat train as users run it: --reproducible, on maps of depth, with a budget of time, with validation views. Killed, and under
// other schedules: tests/faults/runs_test.py; after a signal: gpus_test.cpp.
#include "images/image.h"
#include "json_value.h"
#include "program_run.h"
#include "training_cloud.h"
#include <algorithm>
#include <functional>
#include <set>
#include <tuple>
#include <zlib.h>

namespace train_command_test {

class LoggedTraining : public Program {
  protected:
    // Of the run that was last.
    std::vector<json> lines_of(const std::string &event) const {
        std::vector<json> found;
        std::istringstream lines(contents(at("log")));
        for (std::string line; std::getline(lines, line);)
            if (const json value(line); value["event"].text() == event) found.push_back(value);
        return found;
    }
};

// ---- --budget

class Budget : public LoggedTraining {
  protected:
    void SetUp() override {
        Program::SetUp();
        done("generate @data --views 4 --test-views 2 --size 16 --gaussians 1000");
    }
    const std::string train =
        "train @data -o @scene.ply --random 60 --background 1,1,1 --sh-degree 1 --log @log --budget ";
};

TEST_F(Budget, EndsInTimeAndAResumedRunHasWhatIsLeft) {
    done(train + "2s --checkpoint-every 4");
    json end = lines_of("end").at(0);
    const double whole = end["iteration"].number();
    EXPECT_GT(whole, 4);
    EXPECT_GT(end["seconds"].number(), 1.5); // the machine that tests this does other things too
    EXPECT_LT(end["seconds"].number(), 4);
    EXPECT_EQ(lines_of("start").at(0)["settings"]["budget"].text(), "2s");
    ASSERT_FALSE(lines_of("checkpoint").empty()) << "fewer than 4 steps in 2 seconds";
    const double saved = lines_of("checkpoint").back()["iteration"].number();
    fs::remove(at("log"));
    done(train + "2s --resume @scene.ply.checkpoint");
    end = lines_of("end").at(0);
    EXPECT_TRUE(end["iteration"].number() > saved || whole == saved) << "saved with the last step";
    EXPECT_LT(end["seconds"].number(), 2 - saved / whole);
    refuses({{train + "4 --resume @scene.ply.checkpoint", 1, "--budget 2s; this run has --budget 4"}});
    // Over after one step, which takes longer.
    fs::remove(at("log"));
    done(train + "1e-9");
    EXPECT_EQ(lines_of("end").at(0)["iteration"].number(), 1);
}

TEST_F(Budget, WrongOnesAreRefused) {
    std::vector<refusal> table = {{"train @data -o @scene.ply --reproducible --reduce atomic", 2,
                                   "--reproducible needs --reduce fixed, not atomic"},
                                  {train + "5 --reproducible", 2, "--reproducible excludes --budget"},
                                  {train + "5 --iterations 100", 2, "--budget excludes --iterations"},
                                  {train + "5 --refine-poses", 2, "--budget excludes --refine-poses"}};
    for (const char *wrong : {"0", "-1", "nan", "inf", "1e9", "12d", "x", "10s5", "1e400", "999999m"})
        table.push_back({train + wrong, 2, "--budget "s + wrong + ": must be a time such as"});
    refuses(table);
}

// ---- --validate

class Validation : public LoggedTraining {
  protected:
    const std::string train =
        "train @data -o @scene.ply --log @log --holdout 0 --iterations 40 --seed 7 --batch 1 "
        "--retire 0.5 --schedule from=2,every=4,retire=4 --sh-degree 0 ";
};

TEST_F(Validation, IsInLogAndReportUntilViewsAreGivenBack) {
    write_colmap(at("data"), 30);
    EXPECT_CONTAINS(done(train + "--validate 2 --report @report --reproducible").out,
                    "validation after iteration 30: PSNR ");
    const std::vector<json> seen = lines_of("validation");
    ASSERT_EQ(seen.size(), 15u); // every second of the 30 before 3/4
    EXPECT_EQ(seen.back()["iteration"].number(), 30);
    EXPECT_EQ(seen.back()["views"].number(), 2);
    EXPECT_LT(seen.front()["training_psnr"].number(), seen.back()["training_psnr"].number());
    EXPECT_NE(seen.back()["psnr"].number(), seen.back()["training_psnr"].number());
    const std::string scene = contents(at("scene.ply"));
    EXPECT_CONTAINS(contents(at("report/index.html")), R"("name": "validation")");

    // The same on ranks, and resumed.
    done(train + "--validate 2 --gpus 2 --reproducible --checkpoint-every 27");
    fs::rename(at("scene.ply.checkpoint"), at("saved"));
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
    const std::vector<json> on_ranks = lines_of("validation");
    ASSERT_EQ(on_ranks.size(), seen.size());
    for (size_t i = 0; i < seen.size(); i++)
        for (const char *key : {"psnr", "training_psnr"})
            EXPECT_EQ(on_ranks[i][key].number(), seen[i][key].number()) << i << " " << key;
    done(train + "--validate 2 --reproducible --resume @saved");
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
    EXPECT_EQ(dsplat(train + "--validate 1 --reproducible --resume @saved").code, 1);
}

TEST_F(Validation, IsOffByDefaultAndRefusesWhatItCannotDo) {
    write_colmap(at("data"), 30);
    EXPECT_EQ(done(train).out.find("validation"), std::string::npos);
    EXPECT_EQ(lines_of("validation").size(), 0u);
    refuses({{train + "--validate 3", 1, "more than half of the 5 training views"},
             {train + "--validate some", 2, "--validate some: must be a number"},
             {train + "--validate=-1", 2, "--validate -1: must be a number"},
             {train + "--validate 2 --refine-poses", 2, "--validate excludes --refine-poses"}});
}

// ---- --reproducible

class Reproducible : public Program {
  protected:
    static std::string run_of(const std::string &output, int iterations, const std::string &more = "") {
        return "train --reproducible --holdout 5 --seed 7 @data -o @" + output + " --iterations " +
               std::to_string(iterations) + " " + more;
    }
};

// Everything that draws, sums or moves: all ways of density control, antialiasing, corrected colours, poses, depth.
const char *const ways[] = {
    "",
    "--density adaptive --schedule from=1,every=4,until=11 --antialias",
    "--density mcmc --max-gaussians 60 --schedule from=1,every=4 --random 40",
    "--density split --max-gaussians 60 --schedule from=1,every=4 --random 40",
    "--refine-poses --perturb-poses 1,0.01 --depth @data/depth",
    "--schedule average=1,until=2,dropout=0", // iterations 5 and 10
    "--depth @data/depth --depth-weight 0.5 --mask-from-alpha --undistort",
};

TEST_F(Reproducible, AResumedRunEndsAsIfItHadNotBeenInterrupted) {
    done("generate @data --views 4 --test-views 1 --size 32 --gaussians 1000 --depth --fisheye 120");
    for (const std::string way : ways) {
        const std::string saving = way + " --checkpoint-every 7";
        done(run_of("whole.ply", 12, saving));
        fs::rename(at("whole.ply.checkpoint"),
                   at("saved")); // of iteration 7, before density control acts again
        done(run_of("resumed.ply", 12, saving + " --resume @saved"));
        EXPECT_TRUE(contents(at("whole.ply")) == contents(at("resumed.ply")));
        EXPECT_GT(fs::file_size(at("whole.ply")), 20 * 200u) << "too few Gaussians to show anything";
        fs::remove(at("saved"));
    }
    // At its end.
    done(run_of("whole.ply", 6, "--checkpoint-every 6"));
    done(run_of("resumed.ply", 6, "--resume @whole.ply.checkpoint"));
    EXPECT_TRUE(contents(at("whole.ply")) == contents(at("resumed.ply")));
}

// With a sum that is right: only then are its numbers looked at.
TEST_F(Reproducible, AForgedCheckpointIsRefused) {
    write_colmap(at("data"), 12);
    done(run_of("scene.ply", 2, "--checkpoint-every 2"));
    struct {
        char before[24]; // magic, version, bytes of settings, bytes of the file
        int64_t count, exposures, poses, averaged;
        run_place place;
    } header;
    const std::string saved = contents(at("scene.ply.checkpoint"));
    memcpy(&header, saved.data(), sizeof header);
    ASSERT_EQ(header.place.views, 2);
    ASSERT_EQ(header.exposures, photos - 1);
    // Resumes from this header and what follows it, some bytes longer, with the right size and checksum.
    const auto resumed_from = [&](auto changed, int64_t longer) {
        std::string bytes = saved.substr(0, saved.size() - 4);
        bytes.resize(size_t(int64_t(bytes.size()) + longer));
        const uint64_t size = bytes.size() + 4;
        memcpy(changed.before + 16, &size, sizeof size);
        memcpy(bytes.data(), &changed, sizeof changed);
        const uint32_t sum =
            uint32_t(crc32(0, reinterpret_cast<const Bytef *>(bytes.data()), uInt(bytes.size())));
        bytes.append(reinterpret_cast<const char *>(&sum), sizeof sum);
        std::ofstream(at("forged"), std::ios::binary) << bytes;
        return dsplat(run_of("scene.ply", 2, "--resume @forged"));
    };
    const std::string counts = "no run with these options has its counts",
                      inconsistent = "its header is inconsistent";
    const int64_t gains = GS_EXPOSURE_VALUES * int64_t(sizeof(float)), views = photos - 1,
                  average = header.count * 59 * int64_t(sizeof(float));
    const std::tuple<int64_t, int64_t, int64_t, int64_t, std::string> cases[] = {
        {2, views, 1, 0, counts},       // poses of which the options know nothing
        {2, views, 0, 3, inconsistent}, // parameters in an average as no run has after two iterations
        {0, 1, 0, 0, ""},
        {0, 0, 0, 0, ""},
        {0, photos, 0, 0, ""},
        {3, views, 0, 0, ""},
        {INT64_MAX, views, 0, 0, ""}};
    EXPECT_EQ(resumed_from(header, 0).code, 0);
    for (const auto &[iteration, exposures, poses, averaged, text] : cases) {
        auto changed = header;
        changed.place.views = iteration, changed.exposures = exposures;
        changed.poses = poses, changed.averaged = averaged;
        const outcome run =
            resumed_from(changed, (exposures - views) * gains + poses * int64_t(sizeof(refined_pose)) +
                                      (averaged > 0 ? average : 0));
        EXPECT_EQ(run.code, 1) << iteration << " " << exposures;
        EXPECT_CONTAINS(run.err, "forged: damaged: " + text);
    }
}

// The scene's file says that it is antialiased, and its readers follow.
TEST_F(Program, AnAntialiasedSceneIsRenderedAsOne) {
    write_colmap(at("data"), 20);
    done("train @data -o @scene.ply --iterations 5 --antialias");
    std::string scene = contents(at("scene.ply"));
    EXPECT_CONTAINS(scene, "comment SplatRenderMode: mip\n");
    done("render @scene.ply -o @a.png --cameras @data");
    scene.replace(scene.find("SplatRenderMode"), 11, "something x");
    std::ofstream(at("plain.ply"), std::ios::binary) << scene;
    done("render @plain.ply -o @b.png --cameras @data");
    EXPECT_TRUE(contents(at("a.png")) != contents(at("b.png")));
}

TEST_F(Program, TheSummarySaysWhatGainsThePhotographsHave) {
    write_colmap(at("data"), 20);
    // One photograph is darker than the scene that the others show.
    const fs::path name = at("data") / "images/photo1.png";
    const picture dark(name);
    for (int i = 0; i < 3 * dark.width * dark.height; i++) dark.pixels[i] = uint8_t(dark.pixels[i] / 2);
    dark.write(name);
    const std::string out =
        done("train @data -o @scene.ply --iterations 150 --holdout 0 --sh-degree 0 --density none").out;
    EXPECT_GT(std::stod(out.substr(out.find("photographs differ by ") + 22)), 5) << out;
}

// ---- --depth, on data of dsplat generate --depth

class DepthTraining : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        done("generate @data --views 4 --test-views 2 --size 40 --gaussians 1500 --depth");
    }
    static std::string train(int iterations, const std::string &more) {
        return "train @data --reproducible -o @scene.ply --iterations " + std::to_string(iterations) + " " +
               more;
    }
    // Of the view of this number that is trained on.
    fs::path map_of(int view) const {
        return at("data") / ("depth/train/r_000" + std::to_string(view) + ".png");
    }
    void change_map(int view, const std::function<float(float)> &value_of) const {
        owned<plane, plane_close> map;
        EXPECT_DONE(plane_read(map_of(view).c_str(), &map, &why));
        for (size_t i = 0; i < plane_size(&map); i++) map.values[i] = value_of(map.values[i]);
        EXPECT_DONE(plane_write_png(map_of(view).c_str(), &map, &why));
    }
    const std::string with_maps = train(9, "--depth @data/depth");
};

TEST_F(DepthTraining, GeneratedMapsAreThoseOfTheScene) {
    EXPECT_CONTAINS(done("eval @data/scene.ply --cameras @data --depth @data/depth --json @eval.json").out,
                    "depth error, %");
    EXPECT_LT(json(contents(at("eval.json")))["mean"]["depth_error"].number(), 1e-5);
    // Those of the training views are scaled and shifted, and fit to the points.
    const outcome run = done(train(1, "--depth @data/depth"));
    EXPECT_EQ(run.err, "");
    EXPECT_CONTAINS(run.out, "depth      4 of 4 maps fitted, to ");
    std::set<float> lowest;
    for (const int view : {0, 1}) {
        float least = INFINITY;
        change_map(view, [&](float v) { return least = std::min(least, v), v; });
        lowest.insert(least);
    }
    EXPECT_EQ(lowest.size(), 2u); // of the background, which is infinitely far
}

// The loss that is reported includes the depth.
TEST_F(DepthTraining, AddsToTheLoss) {
    const auto loss = [&](const std::string &more) {
        return change(done(train(1, "--seed 3 " + more)).out, "loss")[0];
    };
    const double none = loss(""), one = loss("--depth @data/depth"),
                 three = loss("--depth @data/depth --depth-weight 3");
    EXPECT_GT(one, none + 1e-3);
    EXPECT_NEAR(three - none, 3 * (one - none), 1e-4);
}

TEST_F(DepthTraining, MapsThatCannotBeFittedAreLeftOut) {
    const auto turned = [](float v) { return 1 - v; };
    change_map(1, [](float) { return 0.5f; });
    change_map(3, turned);
    const outcome run = done(with_maps);
    const std::string says =
        "dsplat: " + at("data").string() +
        "/depth: 2 of 4 depth maps are left out (the first: train/r_0001.png: its values at the ";
    EXPECT_EQ(run.err.rfind(says, 0), 0u) << run.err;
    EXPECT_CONTAINS(run.out, "depth      2 of 4 maps fitted, to ");
    for (const int view : {0, 1, 2}) change_map(view, turned);
    refuses(
        {{with_maps, 1,
          "depth: no depth map can be fitted; train/r_0000.png: its values fall where the points are nearer: it "
          "must hold inverse depth, not depth"}});
}

// Files that are no maps: messages_test.cpp.
TEST_F(DepthTraining, NeedsMapsOfTrainedViewsPointsAndAWeight) {
    fs::remove_all(at("data") / "depth/test"); // held out
    done(with_maps);
    fs::remove(at("scene.ply"));
    // Two lines of comments, and nine points.
    const std::string points = contents(at("data") / "points3D.txt");
    size_t end = 0;
    for (int line = 0; line < 11; line++) end = points.find('\n', end) + 1;
    std::ofstream(at("data") / "points3D.txt") << points.substr(0, end);
    refuses({{with_maps + " --depth-weight 0", 2, "--depth-weight"},
             {with_maps + " --depth-weight nan", 2, "--depth-weight"},
             {with_maps, 1, "r_0000.png: 9 points are seen where it has values; 10 are needed"}});
    fs::remove(map_of(2));
    refuses({{with_maps, 1, "depth: has no depth map of the picture train/r_0002.png, a PNG or PFM named"}});
    fs::remove(at("data") / "points3D.txt");
    refuses({{with_maps, 1, "data: --depth needs points to fit the depth maps to"}});
}

} // namespace train_command_test
