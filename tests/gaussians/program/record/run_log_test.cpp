// SPDX-License-Identifier: MIT
// dsplat train --log: a line of JSON for every step line, evaluation and change of count.
#include "program_run.h"
#include "json_value.h"
#include "record/run_log.h"
#include "distwar_gs.h"
#include <sys/stat.h>
#include <thread>

namespace {

class RunLog : public Program {
  protected:
    std::string command(const std::string &more) const {
        write_colmap(at("data"), 20);
        return "train @data -o @scene.ply --iterations 20 --holdout 2 " + more;
    }
    outcome train(const std::string &more) const { return done(command(more)); }
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
    const outcome run = train("--log @run.jsonl --eval-every 10");
    auto events = read_log();
    EXPECT_EQ(events.size(), 4u);
    ASSERT_EQ(events["start"].size(), 1u);
    const json start = events["start"][0], settings = start["settings"];
    EXPECT_EQ(start["backend"].text(), gs_backend());
    EXPECT_EQ(start["dsplat"].text(), gs_version());
    EXPECT_EQ(start["gaussians"].number(), 20);
    EXPECT_EQ(settings["iterations"].number(), 20);
    EXPECT_EQ(settings["data"].text(), at("data").string());
    EXPECT_EQ(settings["held_out"].number(), 3);
    const std::vector<json> &steps = events["step"], &evaluations = events["evaluation"];
    ASSERT_EQ(steps.size(), 20u); // of a run up to 200 steps each
    double before = 0;
    for (size_t i = 0; i < 20; i++) {
        EXPECT_EQ(steps[i]["iteration"].number(), double(i + 1));
        EXPECT_EQ(steps[i]["gaussians"].number(), 20);
        EXPECT_GT(steps[i]["seconds"].number(), before);
        EXPECT_GT(steps[i]["iteration_ms"].number(), 0);
        EXPECT_GE(steps[i]["wait_ms"].number(), 0);
        before = steps[i]["seconds"].number();
        if (ON_CPU) {
            EXPECT_FALSE(steps[i].has("gpu_ms"));
            EXPECT_EQ(steps[i]["reduce"].text(), "tree");
        } else if (i > 1) { // read two steps later
            EXPECT_GT(steps[i]["gpu_ms"]["render"].number(), 0);
        }
    }
    const auto [first, last] = change(run.out, "loss"); // the means over 3 steps
    for (const auto &[from, said] : {std::pair<size_t, double>{0, first}, {17, last}}) {
        double sum = 0;
        for (size_t i = from; i < from + 3; i++) sum += steps[i]["loss"].number();
        EXPECT_NEAR(sum / 3, said, 1e-5);
    }
    ASSERT_EQ(evaluations.size(), 2u); // not twice at the end
    EXPECT_EQ(evaluations[0]["iteration"].number(), 10);
    EXPECT_EQ(evaluations[1]["iteration"].number(), 20);
    EXPECT_EQ(evaluations[1]["views"].number(), 3);
    EXPECT_GT(evaluations[1]["psnr"].number(), evaluations[0]["psnr"].number());
    EXPECT_NEAR(number_after(run.out, "PSNR "), evaluations[1]["psnr"].number(), 0.00501);
    EXPECT_NEAR(number_after(run.out, " dB, SSIM "), evaluations[1]["ssim"].number(), 0.0000501);
    ASSERT_EQ(events["end"].size(), 1u);
    EXPECT_EQ(events["end"][0]["iteration"].number(), 20);
}

// On a GPU, whose clocks are sums over steps since the start.
TEST_F(RunLog, TimesOfStagesAreMeansSinceTheLineBefore) {
    run_log log;
    run_log_options options = {};
    const std::string path = at("run.jsonl");
    options.path = path.c_str();
    options.every = 1;
    fault why;
    ASSERT_TRUE(run_log_open(&log, &options, &why)) << why.text;
    training_state state = {};
    double losses[3] = {1, 2, 3};
    training_report report = {};
    report.first_iteration = 1, report.step_views = 1, report.losses = losses;
    for (const int steps : {1, 3}) {
        report.iterations = report.clock.steps = steps;
        for (int i = 0; i < STAGES; i++) report.clock.milliseconds[i] = (i + 1) * steps * steps;
        ASSERT_TRUE(run_log_observe(&log, &state, &report, &why)) << why.text;
    }
    ASSERT_TRUE(run_log_close(&log, &why)) << why.text;
    const std::vector<json> lines = read_log()["step"];
    ASSERT_EQ(lines.size(), 2u);
    for (int i = 0; i < STAGES; i++) {
        const char *const name = stage_name(stage(i));
        EXPECT_EQ(lines[0]["gpu_ms"][name].number(), i + 1) << name;
        EXPECT_EQ(lines[1]["gpu_ms"][name].number(), 4 * (i + 1)) << name;
    }
    EXPECT_EQ(lines[1]["loss"].number(), 2.5);
}

// The end is measured as `dsplat eval` does.
TEST_F(RunLog, ChangesNothingInTraining) {
    train("--reproducible");
    const std::string plain = contents(at("scene.ply"));
    train("--reproducible --log @run.jsonl --eval-every 5 --report @report");
    EXPECT_EQ(contents(at("scene.ply")), plain);
    done("eval @scene.ply --cameras @data --holdout 2 --json @eval.json");
    const json mean = json(contents(at("eval.json")))["mean"];
    const std::vector<json> evaluations = read_log()["evaluation"];
    ASSERT_EQ(evaluations.size(), 4u);
    for (const char *name : {"psnr", "ssim"}) EXPECT_EQ(evaluations[3][name].number(), mean[name].number());
}

TEST_F(RunLog, GoesOnWhenARunIsResumed) {
    train("--log @run.jsonl --checkpoint-every 8");
    const std::vector<json> checkpoints = read_log()["checkpoint"];
    ASSERT_EQ(checkpoints.size(), 2u);
    EXPECT_EQ(checkpoints[1]["iteration"].number(), 16);
    const std::string saved = checkpoints[1]["file"].text();
    EXPECT_TRUE(fs::exists(saved)) << saved;
    train("--log @run.jsonl --report @report --checkpoint-every 20 --resume " + saved);
    auto events = read_log();
    ASSERT_EQ(events["start"].size(), 2u);
    EXPECT_EQ(events["start"][0]["iteration"].number(), 0);
    EXPECT_EQ(events["start"][1]["iteration"].number(), 16);
    ASSERT_EQ(events["step"].size(), 20u + 4u);
    EXPECT_EQ(events["step"][20]["iteration"].number(), 17);
    EXPECT_EQ(events["step"][23]["iteration"].number(), 20);
    EXPECT_GT(events["step"][23]["loss"].number(), 0);
    EXPECT_EQ(events["end"].size(), 2u);
    EXPECT_TRUE(fs::exists(at("report") / "index.html"));
    // At its end there are no losses any more.
    says({{command("--resume @scene.ply.checkpoint --log @run.jsonl --report @page"), 0, {"!nan"}}});
    events = read_log();
    EXPECT_EQ(events["step"].size(), 20u + 4u);
    EXPECT_EQ(events["evaluation"].size(), 3u);
}

TEST_F(RunLog, SaysWhenTheNumberOfGaussiansChanges) {
    train("--log @run.jsonl --density adaptive --schedule from=4,every=5,until=20");
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

TEST_F(RunLog, ALogThatCannotBeWrittenIsAFailure) {
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0); // that nobody reads
    says({{command("--log @no/such/run.jsonl"), 1, {"run.jsonl"}},
          {command("--log @pipe"), 1, {"pipe: cannot write"}}});
    EXPECT_FALSE(fs::exists(at("scene.ply"))); // known before the work
    says({{command("--log /dev/full"), 1, {"/dev/full: incomplete: No space left on device"}}});
    EXPECT_TRUE(fs::exists(at("scene.ply"))); // but training does not end for it
}

TEST_F(RunLog, AReaderThatLeavesDoesNotEndTraining) {
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    const int pipe = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ASSERT_GE(pipe, 0);
    std::thread reader([pipe] { // of the first line, or of some of it
        char some[80];
        for (int tries = 0; tries < 60000 && read(pipe, some, sizeof some) <= 0; tries++) usleep(1000);
        close(pipe);
    });
    says({{command("--log @pipe --iterations 60"), 1, {"pipe: incomplete: Broken pipe"}}});
    reader.join();
    EXPECT_TRUE(fs::exists(at("scene.ply")));
}

} // namespace
