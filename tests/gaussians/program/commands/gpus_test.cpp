// SPDX-License-Identifier: MIT
// Training on several GPUs, from the start to the files: the same bits on any number of ranks, checkpoints, signals, kills,
// hosts, what is said of held-out views; and the start by stereo. Ranks of processes use fake_nccl.c, so only simt has them.
#include "program_run.h"
#include "plan.h"
#include "ways.h"

namespace {

class OnGpus : public Program {
  protected:
    void SetUp() override {
        Program::SetUp();
        write_colmap(at("data"), 30);
    }
    // A command of training; of an option that is there twice the last counts.
    static std::string train(int gpus, const std::string &more = "") {
        return "train @data -o @scene.ply --gpus " + std::to_string(gpus) +
               " --iterations 12 --holdout 5 --seed 7 " + more;
    }
    fs::path checkpoint() const { return at("scene.ply.checkpoint"); }
    std::string scene_of(int gpus, const std::string &more) const {
        const outcome got = done(train(gpus, more));
        EXPECT_NE(got.out.find("scene "), std::string::npos) << got.out;
        return contents(at("scene.ply"));
    }
};

// With a view a step, an average from step 10. Growth from 130 to 200: by relocation, noise, penalties; by splits, with
// corrected colours.
const std::string growth = " --max-gaussians 200 --random 130 --reproducible"
                           " --schedule from=1,until=9,every=4,average=1",
                  growing = growth + " --density mcmc", splitting = growth + " --density split";
// The same with retirement every 4 steps.
const std::string retiring = " --retire 0.5 --schedule from=1,until=9,every=4,average=1,retire=4";

using Gpus = OnGpus;

TEST_F(Gpus, WhatTheyDoNotTrainIsRefused) {
    const std::string excludes = "--gpus excludes --";
    refuses({{train(0, "--nccl 2"), 2, "--nccl needs --gpus"},
             {train(2, "--view"), 2, excludes + "view: the page shows the Gaussians of one GPU"},
             {train(2, "--depth maps"), 2, excludes + "depth: "},
             {train(2, "--refine-poses"), 2, excludes + "refine-poses: "},
             {train(2, "--density adaptive"), 2, excludes + "density adaptive: "},
             {"render scene.ply -o scene.png --gpus 2", 2, "--gpus"}});
    says({{train(1, "--nccl /nowhere/libnccl.so.2"),
           1,
           {"dsplat: rank 0: several GPUs need NCCL 2.18 or later: /nowhere/libnccl.so.2"}}});
}

// 80 are wanted: so many that there may be no more Gaussians.
TEST_F(Gpus, AStartByStereoIsTheSameOnAnyNumberOfRanksAndAfterAResumption) {
    write_colmap(at("data"), 90);
    std::ofstream(at("data") / "sparse/0/points3D.txt") << "";
    const std::string options = "--max-gaussians 80 --schedule from=1,every=4 --reproducible",
                      saving = options + " --checkpoint-every 7";
    for (const char *other : {" --random 50", " --refine-poses"})
        says({{train(1, options + other), 0, {"!stereo", " random points", "density control mcmc"}}});
    says({{train(1, options),
           0,
           {" points by stereo; stereo found ", " in 4 views, ", "density control split"}}});
    const std::string whole = contents(at("scene.ply"));
    EXPECT_TRUE(scene_of(1, saving) == whole);
    EXPECT_TRUE(scene_of(1, saving + " --resume @scene.ply.checkpoint") == whole);
#ifdef FAKE_NCCL
    EXPECT_TRUE(scene_of(2, options) == whole) << "threads";
    EXPECT_TRUE(scene_of(2, options + " --nccl " FAKE_NCCL) == whole) << "processes";
#endif
}

#ifdef DISTWAR_SIMT

// An environment that cannot be, and bad data, which one message tells.
TEST_F(Gpus, WhatCannotBeginIsRefused) {
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "2", 1);
    refuses({{train(0), 2, "RANK=2 in the environment: must be a number from 0 to 1"}});
    setenv("RANK", "1", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    refuses(
        {{train(2), 2, "--gpus starts ranks of its own, and this is one of 2 that a launcher has started"}});
    for (const char *name : {"RANK", "WORLD_SIZE", "MASTER_ADDR"}) unsetenv(name);
    fs::remove_all(at("data"));
    const outcome got = dsplat(train(2));
    EXPECT_EQ(got.code, 1);
    EXPECT_EQ(got.err, "dsplat: " + at("data").string() + ": cannot open: No such file or directory\n");
}

// ---- the same scene

class GpuTraining : public OnGpus {
  protected:
    // As on one GPU: with each number of ranks, of which the first saves a checkpoint and the second goes on from it.
    void expect_the_same(const std::string &options, const std::vector<int> &ranks, bool grows = true) const {
        const std::string whole = scene_of(1, options), saving = options + " --checkpoint-every 7";
        ASSERT_EQ(whole.size() > 150 * 248u, grows) << "from 130 rows of 248 bytes: " << options;
        EXPECT_TRUE(scene_of(ranks[0], saving) == whole) << "it saves" << options;
        ASSERT_TRUE(fs::exists(checkpoint()));
        for (const auto &file : fs::directory_iterator(folder))
            EXPECT_NE(file.path().filename().string().find("scene.ply.checkpoint."), 0u)
                << "one file: " << file.path();
        EXPECT_TRUE(scene_of(ranks[1], saving + " --resume @scene.ply.checkpoint") == whole)
            << ranks[0] << " then " << ranks[1] << options;
        fs::remove(checkpoint());
        for (size_t i = 2; i < ranks.size(); i++)
            EXPECT_TRUE(scene_of(ranks[i], options) == whole) << ranks[i] << options;
    }
};

TEST_F(GpuTraining, GiveTheSameSceneWhateverTheirNumber) {
    const std::string processes = " --nccl " FAKE_NCCL;
    for (const std::string &options : {growing + " --batch 1", splitting + " --batch 3"})
        EXPECT_TRUE(scene_of(2, options + processes) == scene_of(1, options)) << options;
    expect_the_same(growing + " --batch 1", {2, 3, 4});
    expect_the_same(splitting + " --batch 1", {3, 1, 2});
    expect_the_same(splitting + " --batch 3", {4, 2, 3});
    expect_the_same(growing + " --batch 3", {1, 4, 2, 3});
}

// Every density control, and every option that adds to the loss or to what is trained.
TEST_F(GpuTraining, EveryTermIsTheSameWhateverTheirNumber) {
    const std::string rare = " --density mcmc --retire 0.5 --schedule "
                             "from=1,until=9,every=4,average=1,retire=4,dropout=0.3 --batch 1",
                      drawn = " --random-background --batch 2";
    expect_the_same(splitting + " --random-background --batch 3", {3, 4, 2});
    expect_the_same(splitting + rare, {3, 4, 2});
    expect_the_same(growing + retiring + drawn, {2, 3});
    expect_the_same(splitting + retiring + drawn, {3, 2});
    for (const std::string &way : {growing, splitting})
        EXPECT_FALSE(scene_of(1, way + drawn) == scene_of(1, way + drawn + retiring)) << "nothing retires";
    EXPECT_FALSE(scene_of(1, growing + drawn) == scene_of(1, growing + " --batch 2")) << "one background";
    for (int kind = 0; kind < DENSITY_KINDS; kind++)
        if (kind != DENSITY_ADAPTIVE) // refused
            expect_the_same(growth + " --batch 3 --density " + density_method_of(kind)->name, {2, 1},
                            kind != DENSITY_NONE);
    // What is chosen is the same without --gpus, but for the order of sums.
    const std::string chosen = "--schedule from=1,every=4";
    EXPECT_EQ(scene_of(2, chosen).size(), scene_of(1, chosen).size());
}

// Rank 0's clock counts for all.
TEST_F(GpuTraining, KeepToABudget) {
    const outcome got = done("train @data -o @scene.ply --gpus 2 --budget 2s --sh-degree 0");
    const bool few = number_after(got.out, "training ") < 400;
    EXPECT_EQ(occurrences(got.out, "few iterations: under 400 give blur"), size_t(few)) << got.out;
#ifdef DISTWAR_SANITIZE // a step takes long
    const double late = 1;
#else
    const double late = 0.5;
#endif
    EXPECT_NEAR(number_after(got.out, " iterations in "), 2, late) << got.out;
}

// Pictures of two sizes, the smaller made as large as the larger, and at first a quarter or half as large.
TEST_F(GpuTraining, TakePicturesOfSeveralSizesSmallOnesFirst) {
    const auto expect_the_scene_of_one = [&](const std::string &options) {
        const std::string scene = scene_of(1, options);
        for (const int gpus : {2, 3}) EXPECT_TRUE(scene_of(gpus, options) == scene) << gpus << options;
        return scene;
    };
    // The second photograph's size and camera are its own.
    std::ofstream(at("data/sparse/0/cameras.txt"), std::ios::app) << "2 PINHOLE 40 32 36 36 20 16\n";
    std::string images = contents(at("data/sparse/0/images.txt"));
    images.replace(images.find("1 photo1.png"), 1, "2");
    std::ofstream(at("data/sparse/0/images.txt")) << images;
    picture(photo_width, 32, 0).write(at("data/images/photo1.png"));
    for (const char *batch : {" --batch 1", " --batch 3"}) expect_the_scene_of_one(splitting + batch);
    fs::remove_all(at("data"));
    done("generate @data --views 4 --test-views 1 --size 128 --gaussians 1000");
    const std::string small = "--iterations 8 --sh-degree 0 --random 200 --reproducible --resolutions ";
    EXPECT_FALSE(expect_the_scene_of_one(small + "2:50:2") == scene_of(1, small + "none"));
}

class MemoryOfGpus : public OnGpus {
  protected:
    // The MB that training takes with memory for one photograph, as the refusal of too few says, and a little more.
    double least(int gpus, const std::string &options) const {
        const outcome refused = dsplat(train(gpus, options + " --memory 0.001"));
        const double megabytes = number_after(refused.err, " take ");
        EXPECT_EQ(refused.code, 1) << refused.err;
        EXPECT_GT(megabytes, 0) << refused.err;
        return megabytes + 0.004;
    }
    // A run that may take the least, on a GPU that has so many MB.
    outcome with_megabytes(double megabytes, double its_least, const std::string &options) const {
        setenv("SIMT_MEMORY", std::to_string(megabytes).c_str(), 1);
        const outcome got = dsplat(train(1, options + " --memory " + std::to_string(its_least)));
        unsetenv("SIMT_MEMORY");
        return got;
    }
};

// Photographs that come and go, also where a GPU has no more memory than training may take.
TEST_F(MemoryOfGpus, IsNoMoreThanTrainingMayTake) {
    for (const char *batch : {" --batch 1", " --batch 3"}) {
        const std::string options = splitting + batch, whole = scene_of(1, options),
                          larger = options + " --random 3000 --max-gaussians 4000",
                          shared = " --memory " + std::to_string(least(2, options));
        const double small = least(1, options), large = least(1, larger);
        EXPECT_EQ(with_megabytes(small, small, options).code, 0);
        EXPECT_TRUE(contents(at("scene.ply")) == whole);
        EXPECT_TRUE(scene_of(2, options + shared) == whole) << "ranks share this GPU";
        // The number is what training takes: seven tenths of it do not suffice.
        const outcome fits = with_megabytes(large, large, larger);
        EXPECT_EQ(fits.code, 0) << large << fits.err;
        EXPECT_EQ(with_megabytes(0.7 * large, large, larger).code, 1) << large;
    }
    setenv("SIMT_MEMORY", "0.15", 1);
    says({{train(1, splitting), 1, {"bytes left", "MB that are free: --max-gaussians "}}});
    unsetenv("SIMT_MEMORY");
}

// 60 photographs of 30 kB, on a GPU that has 1 MB for them.
TEST_F(MemoryOfGpus, PhotographsAreUploadedByStepsWhereItDoesNotHoldAll) {
    fs::remove_all(at("data"));
    done("generate @data --views 60 --test-views 1 --size 100 --gaussians 1000");
    const std::string options = "--random 100 --max-gaussians 100 --density none --batch 1 --reproducible",
                      scene = scene_of(1, options);
    setenv("SIMT_MEMORY", std::to_string(least(1, options) + 1).c_str(), 1);
    says({{train(1, options), 0, {"photographs are uploaded when a step needs them"}}});
    unsetenv("SIMT_MEMORY");
    EXPECT_TRUE(contents(at("scene.ply")) == scene);
}

// Each rank checks the file that it reads, and one message tells.
TEST_F(GpuTraining, WhatIsNoCheckpointOfTheRunIsRefused) {
    for (const char *seed : {"5", "7"}) {
        scene_of(2, splitting + " --checkpoint-every 7 --seed " + seed);
        fs::rename(checkpoint(), at("saved"s.append(seed).c_str()));
    }
    scene_of(3, splitting + " --resume @saved7");
    fs::remove(at("scene.ply"));
    fs::resize_file(at("saved7"), fs::file_size(at("saved7")) / 2);
    std::ofstream(at("saved.a0"), std::ios::binary)
        << "SPLATROW" + std::string(1000, '\0'); // what earlier versions wrote on several GPUs
    const auto resumed = [&](const char *name) { return train(2, splitting + " --resume @" + name); };
    refuses({{resumed("saved7"), 1, "saved7: truncated or damaged"},
             {resumed("saved.a0"), 1, "saved.a0: not a checkpoint of dsplat train"},
             {resumed("nothing"), 1, "nothing: cannot open"},
             {resumed("saved5"), 1, "written by a run with --seed 5; this run has --seed 7"}});
}

using Killed = OnGpus;

TEST_F(Killed, SignalsSaveAndEndIt) {
    for (const std::string ranks : {"", " --nccl " FAKE_NCCL}) // threads, processes
        for (const int signal : {SIGINT, SIGTERM}) {
            const pid_t child = background(train(2, "--iterations 1000000 --checkpoint-every 1" + ranks));
            for (int n = 0; n < 3000 && !fs::exists(checkpoint()); n++) usleep(10000);
            kill(child, signal);
            const outcome got = ended(child, at("out"), at("err"));
            EXPECT_EQ(got.code, 128 + signal) << got.err;
            EXPECT_CONTAINS(got.err, "--resume " + checkpoint().string());
            EXPECT_TRUE(fs::exists(at("scene.ply"))) << "what there is";
            fs::remove(at("scene.ply"));
            fs::remove(checkpoint());
        }
}

// One GPU's line is that of `dsplat eval`: RunLog.ChangesNothingInTraining.
TEST_F(GpuTraining, SayWhatTheHeldOutViewsAreLike) {
    std::string first;
    for (const int gpus : {1, 3}) {
        const outcome got =
            done(train(gpus, growing + " --holdout 2 --batch 3 --log @log --report @report --eval-every 5 "
                                       "--checkpoint-every 6 --write-cameras @cameras"));
        const size_t place = got.out.find("held out   PSNR ");
        ASSERT_NE(place, std::string::npos) << got.out;
        const std::string line = got.out.substr(place, got.out.find('\n', place) - place);
        if (first.empty()) first = line;
        EXPECT_EQ(line, first);
        const std::string log = contents(at("log"));
        const std::pair<const char *, size_t> events[] = {
            {"start", 1}, {"step", 4}, {"evaluation", 2}, {"checkpoint", 2}, {"end", 1}};
        for (const auto &[event, times] : events) // evaluations after 6 and 12, steps of 3 views
            EXPECT_EQ(occurrences(log, "\"event\": \""s + event), times) << event << log;
        EXPECT_CONTAINS(contents(at("report") / "index.html"), "worst: ");
        EXPECT_TRUE(fs::exists(at("cameras")));
    }
}

// ---- whole scenes on each rank

// Without --reproducible each rank has the whole scene where it is small.
class WholeScenes : public OnGpus {
  protected:
    // Adam takes gradients of nearly 0 for whole steps.
    static constexpr double small_difference = 4e-3;
    outcome trained(int gpus, const std::string &more) const {
        const outcome got = done(train(gpus, more));
        for (const char *said : {"each has the whole scene", "short for several GPUs: one GPU may be faster"})
            EXPECT_EQ(got.out.find(said) != std::string::npos, gpus > 1) << got.out;
        return got;
    }
    std::vector<float> values_of_scene() const {
        const std::string file = contents(at("scene.ply"));
        const size_t begin = file.find("end_header") + sizeof "end_header";
        std::vector<float> values((file.size() - begin) / sizeof(float));
        memcpy(values.data(), file.data() + begin, values.size() * sizeof(float));
        return values;
    }
    static double difference(const std::vector<float> &a, const std::vector<float> &b) {
        double sum = 0, all = 0;
        for (size_t i = 0; i < a.size() && a.size() == b.size(); i++)
            sum += std::pow(double(a[i]) - double(b[i]), 2), all += double(a[i]) * double(a[i]);
        return a.size() == b.size() && all > 0 ? std::sqrt(sum / all) : NAN;
    }
};

// Views of a step are more than ranks, as many, and no multiple of them; a checkpoint is of any number of ranks.
TEST_F(WholeScenes, BecomeThoseOfOneGpu) {
    const std::string options = "--random 130 --density none --batch 3",
                      saving = options + " --checkpoint-every 5";
    const double loss = change(trained(1, options).out, "loss")[1];
    const std::vector<float> one = values_of_scene();
    const auto expect_the_same = [&](int gpus, const std::string &more) {
        EXPECT_NEAR(change(trained(gpus, more).out, "loss")[1], loss, 1e-4) << gpus << more;
        EXPECT_LT(difference(one, values_of_scene()), small_difference) << gpus << more;
    };
    expect_the_same(3, options);
    expect_the_same(2, saving);
    EXPECT_FALSE(fs::exists(at("scene.ply.checkpoint.a0"))) << "one file";
    fs::rename(checkpoint(), at("saved"));
    for (const int gpus : {1, 3}) {
        trained(gpus, saving + " --resume @saved");
        EXPECT_LT(difference(one, values_of_scene()), small_difference) << gpus;
    }
    expect_the_same(2, options + " --nccl " FAKE_NCCL); // processes
    trained(1, options + " --seed 8");
    EXPECT_GT(difference(one, values_of_scene()), 5 * small_difference) << "other views first";
    // Fewer views than ranks, or the same bytes: each rank has a part.
    for (const char *more : {"--random 130 --batch 1", "--random 130 --batch 3 --reproducible"})
        says(
            {{train(2, more), 0, {"!whole scene", "few Gaussians for several GPUs: one GPU may be faster"}}});
    training_settings settings = {};
    settings.iterations = 4999; // short: under 2500 views of each GPU
    EXPECT_STREQ(whole_way.few(&settings, 2), "short for several GPUs");
    settings.iterations = 5000;
    EXPECT_EQ(whole_way.few(&settings, 2), nullptr);
}

// Each rank does so by itself; a difference ends the run.
TEST_F(WholeScenes, GrowAndRetireAlike) {
    // MCMC of few Gaussians differs by 0.7% (one deviation) from run to run: sums of another order move its noise.
    const std::pair<std::string, double> ways[] = {{"mcmc", 0.05}, {"split", 0.005}};
    for (const auto &[way, apart] : ways) {
        const std::string options =
            "--max-gaussians 200 --random 130 --batch 3 --random-background --density " + way + retiring;
        const double loss = change(trained(1, options).out, "loss")[1];
        const double values = double(values_of_scene().size());
        for (const int gpus : {2, 3}) {
            EXPECT_NEAR(change(trained(gpus, options).out, "loss")[1], loss, apart * loss) << gpus;
            EXPECT_NEAR(double(values_of_scene().size()), values, 0.05 * values) << gpus;
        }
    }
}

// ---- hosts

// Ranks that a launcher has started, each as if alone on its host.
class Hosts : public OnGpus {
  protected:
    std::map<int, pid_t> pids;
    int port = 10000 + 16 * getpid() % 20000; // below those that the system gives

    fs::path file(const char *name, int rank) const { return folder / (name + std::to_string(rank)); }
    void start(int rank, int count, const std::string &line) {
        if (rank == 0) port++;
        std::vector<std::string> arguments = words(line + " --nccl " FAKE_NCCL);
        arguments.insert(arguments.begin(), DSPLAT_PROGRAM);
        const std::string own = std::to_string(rank);
        pids[rank] = started(arguments, file("out", rank), file("err", rank),
                             {{"RANK", own},
                              {"WORLD_SIZE", std::to_string(count)},
                              {"LOCAL_RANK", own},
                              {"MASTER_ADDR", "127.0.0.1"},
                              {"MASTER_PORT", std::to_string(port)}});
    }
    outcome end_of(int rank) const { return ended(pids.at(rank), file("out", rank), file("err", rank)); }
};

TEST_F(Hosts, GiveTheSceneOfTheGpusOfOne) {
    const std::string options = growing + " --batch 2", expected = scene_of(2, options);
    for (const int count : {2, 3}) {
        fs::remove(at("scene.ply"));
        for (int r = 0; r < count; r++) start(r, count, train(0, options));
        for (int r = 0; r < count; r++) {
            const outcome got = end_of(r);
            EXPECT_EQ(got.code, 0) << got.err;
            EXPECT_EQ(got.out.empty(), r > 0) << got.out; // rank 0 alone tells
            EXPECT_EQ(got.err, "");
        }
        EXPECT_TRUE(contents(at("scene.ply")) == expected) << count;
    }
}

TEST_F(Hosts, OtherOptionsOrDataAreRefused) {
    const std::string data = "has other data than rank 0: the number, names or sizes of views, or the number "
                             "of points or Gaussians\n",
                      options = "was started with other arguments than rank 0, or is another version\n";
    const fs::path home = fs::current_path();
    for (const bool of_data : {false, true}) {
        for (const int r : {0, 1}) {
            write_colmap(file("host", r) / "data", 30 + of_data * r);
            fs::current_path(file("host", r)); // data: of each host's own
            start(r, 2,
                  "train data -o @scene.ply --iterations 12 --sh-degree " +
                      std::to_string(of_data ? 1 : 1 + r));
        }
        fs::current_path(home);
        const outcome other = end_of(1), first = end_of(0);
        EXPECT_EQ(other.code, 1);
        EXPECT_EQ(other.err, "dsplat: rank 1: " + (of_data ? data : options));
        EXPECT_EQ(first.code, 1);
        EXPECT_EQ(first.err.find(of_data ? "dsplat: rank 0: " : other.err), 0u) << first.err;
    }
}

#endif

} // namespace
