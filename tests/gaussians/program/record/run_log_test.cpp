// SPDX-License-Identifier: MIT
// dsplat train --log: a line of JSON for every step line, evaluation and change of count.
#include "program_run.h"
#include "json_value.h"
#include "distwar_gs.h"
#include <chrono>
#include <map>
#include <sys/stat.h>
#include <thread>

namespace {

class RunLog : public Program {
  protected:
    outcome train(std::vector<std::string> more) {
        write_colmap(at("data"), 20);
        more.insert(more.begin(),
                    {"train", at("data"), "-o", at("scene.ply"), "--iterations", "20", "--holdout", "2"});
        return splat(more);
    }
    // Lines by event, in order.
    std::map<std::string, std::vector<json>> read_log() const {
        std::map<std::string, std::vector<json>> events;
        std::istringstream lines(contents(at("run.jsonl")));
        for (std::string line; std::getline(lines, line);) {
            const json value(line);
            events[value["event"].text()].push_back(value);
        }
        return events;
    }
};

TEST_F(RunLog, SaysHowTrainingWent) {
    outcome run = train({"--log", at("run.jsonl"), "--eval-every", "10"});
    ASSERT_EQ(run.code, 0) << run.err;
    auto events = read_log();
    ASSERT_EQ(events["start"].size(), 1u);
    const json start = events["start"][0], settings = start["settings"];
    EXPECT_EQ(start["backend"].text(), gs_backend());
    EXPECT_EQ(start["dsplat"].text(), gs_version());
    EXPECT_EQ(start["gaussians"].number(), 20);
    EXPECT_EQ(settings["iterations"].number(), 20);
    EXPECT_EQ(settings["data"].text(), at("data").string());
    EXPECT_EQ(settings["held_out"].number(), 3);
    const std::vector<json> &steps = events["step"];
    ASSERT_EQ(steps.size(), 20u); // of a run up to 200 steps each
    double before = 0;
    for (size_t i = 0; i < 20; i++) {
        EXPECT_EQ(steps[i]["iteration"].number(), double(i + 1));
        EXPECT_EQ(steps[i]["gaussians"].number(), 20);
        EXPECT_GT(steps[i]["seconds"].number(), before);
        EXPECT_GT(steps[i]["iteration_ms"].number(), 0);
        EXPECT_GE(steps[i]["wait_ms"].number(), 0);
        before = steps[i]["seconds"].number();
        if (std::string(gs_backend()) == "simt") {
            EXPECT_FALSE(steps[i].has("gpu_ms"));
            EXPECT_EQ(steps[i]["reduce"].text(), "tree");
        } else {
            EXPECT_GT(steps[i]["gpu_ms"]["render"].number(), 0);
        }
    }
    auto [first, last] = change(run.out, "loss"); // the means over 3 steps
    const auto mean = [&steps](size_t from) {
        return (steps[from]["loss"].number() + steps[from + 1]["loss"].number() +
                steps[from + 2]["loss"].number()) /
               3;
    };
    EXPECT_NEAR(mean(0), first, 1e-5);
    EXPECT_NEAR(mean(17), last, 1e-5);
    const std::vector<json> &evaluations = events["evaluation"];
    ASSERT_EQ(evaluations.size(), 2u); // not twice at the end
    EXPECT_EQ(evaluations[0]["iteration"].number(), 10);
    EXPECT_EQ(evaluations[1]["iteration"].number(), 20);
    EXPECT_EQ(evaluations[1]["views"].number(), 3);
    EXPECT_GT(evaluations[1]["psnr"].number(), evaluations[0]["psnr"].number());
    char summary[80];
    snprintf(summary, sizeof summary, "PSNR %.2f dB, SSIM %.4f", evaluations[1]["psnr"].number(),
             evaluations[1]["ssim"].number());
    EXPECT_CONTAINS(run.out, summary);
    ASSERT_EQ(events["end"].size(), 1u);
    EXPECT_EQ(events["end"][0]["iteration"].number(), 20);
    EXPECT_EQ(events.size(), 4u);
}

TEST_F(RunLog, MeasuresHeldOutViewsAsEvalDoes) {
    ASSERT_EQ(train({"--log", at("run.jsonl")}).code, 0);
    outcome run = splat(
        {"eval", at("scene.ply"), "--cameras", at("data"), "--holdout", "2", "--json", at("eval.json")});
    ASSERT_EQ(run.code, 0) << run.err;
    const json mean = json(contents(at("eval.json")))["mean"];
    auto events = read_log();
    EXPECT_EQ(events["step"].size(), 20u); // by default 200 lines, here no more than steps
    ASSERT_EQ(events["evaluation"].size(), 1u);
    EXPECT_EQ(events["evaluation"][0]["psnr"].number(), mean["psnr"].number());
    EXPECT_EQ(events["evaluation"][0]["ssim"].number(), mean["ssim"].number());
}

TEST_F(RunLog, ChangesNothingInTraining) {
    ASSERT_EQ(train({"--reproducible"}).code, 0);
    const std::string plain = contents(at("scene.ply"));
    ASSERT_EQ(
        train({"--reproducible", "--log", at("run.jsonl"), "--eval-every", "5", "--report", at("report")})
            .code,
        0);
    EXPECT_EQ(contents(at("scene.ply")), plain);
}

TEST_F(RunLog, GoesOnWhenARunIsResumed) {
    ASSERT_EQ(train({"--log", at("run.jsonl"), "--checkpoint-every", "8"}).code, 0);
    auto events = read_log();
    ASSERT_EQ(events["checkpoint"].size(), 2u);
    EXPECT_EQ(events["checkpoint"][1]["iteration"].number(), 16);
    const std::string saved = events["checkpoint"][1]["file"].text();
    EXPECT_TRUE(fs::exists(saved)) << saved;
    outcome run = train({"--log", at("run.jsonl"), "--resume", saved, "--report", at("report")});
    ASSERT_EQ(run.code, 0) << run.err;
    events = read_log();
    ASSERT_EQ(events["start"].size(), 2u);
    EXPECT_EQ(events["start"][0]["iteration"].number(), 0);
    EXPECT_EQ(events["start"][1]["iteration"].number(), 16);
    ASSERT_EQ(events["step"].size(), 20u + 4u);
    EXPECT_EQ(events["step"][20]["iteration"].number(), 17);
    EXPECT_EQ(events["step"][23]["iteration"].number(), 20);
    EXPECT_GT(events["step"][23]["loss"].number(), 0);
    EXPECT_EQ(events["end"].size(), 2u);
    EXPECT_TRUE(fs::exists(at("report") / "index.html"));
}

TEST_F(RunLog, OfARunResumedAtItsEndHasNoLosses) {
    ASSERT_EQ(train({"--checkpoint-every", "20"}).code, 0);
    outcome run =
        train({"--resume", at("scene.ply.checkpoint"), "--log", at("run.jsonl"), "--report", at("page")});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.out.find("nan"), std::string::npos) << run.out;
    auto events = read_log();
    EXPECT_EQ(events.count("step"), 0u);
    EXPECT_EQ(events["evaluation"].size(), 1u);
}

TEST_F(RunLog, SaysWhenTheNumberOfGaussiansChanges) {
    outcome run =
        train({"--log", at("run.jsonl"), "--density", "adaptive", "--schedule", "from=4,every=5,until=20"});
    ASSERT_EQ(run.code, 0) << run.err;
    auto events = read_log();
    ASSERT_GE(events["density"].size(), 1u);
    double count = 20;
    for (const json &change : events["density"]) {
        EXPECT_EQ(change["gaussians_before"].number(), count);
        EXPECT_NE(change["gaussians"].number(), count);
        count = change["gaussians"].number();
    }
    EXPECT_GT(count, 20);
    EXPECT_EQ(events["end"][0]["gaussians"].number(), count);
    EXPECT_EQ(events["step"].back()["gaussians"].number(), count);
}

TEST_F(RunLog, WithoutHeldOutViewsNothingIsEvaluated) {
    outcome run = train({"--log", at("run.jsonl"), "--eval-every", "5", "--holdout", "0"});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(read_log().count("evaluation"), 0u);
    EXPECT_EQ(run.out.find("held out "), std::string::npos) << run.out;
}

TEST_F(RunLog, ALogThatCannotBeWrittenIsAFailure) {
    outcome run = train({"--log", at("no/such/run.jsonl")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "run.jsonl");
    EXPECT_FALSE(fs::exists(at("scene.ply")));      // known before the work
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0); // that nobody reads
    run = train({"--log", at("pipe")});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "pipe: cannot write");
    if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
    run = train({"--log", "/dev/full"});
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "/dev/full: incomplete: No space left on device");
    EXPECT_TRUE(fs::exists(at("scene.ply"))); // but training does not end for it
}

TEST_F(RunLog, AReaderThatLeavesDoesNotEndTraining) {
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    const int pipe = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(pipe, 0);
    std::thread reader([pipe] { // of the first line, or of some of it
        char some[80];
        for (int tries = 0; tries < 60000 && read(pipe, some, sizeof some) <= 0; tries++)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        close(pipe);
    });
    const outcome run = train({"--log", at("pipe"), "--iterations", "60"});
    reader.join();
    EXPECT_EQ(run.code, 1);
    EXPECT_CONTAINS(run.err, "pipe: incomplete: Broken pipe");
    EXPECT_TRUE(fs::exists(at("scene.ply")));
}

} // namespace
