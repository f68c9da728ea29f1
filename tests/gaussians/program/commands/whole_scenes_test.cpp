// SPDX-License-Identifier: MIT
// Training on ranks that each have the whole scene, from the start to the files.
#include "gpus_run.h"
#include "ways.h"
#include <algorithm>
#include <cmath>

namespace {

#ifdef DISTWAR_SIMT
// Without --reproducible each rank has the whole scene where it is small.
class WholeScenes : public OnGpus {
  protected:
    // Adam takes gradients of nearly 0 for whole steps.
    static constexpr double small_difference = 4e-3;
    // The options of a run that differ from one GPU's in the order of sums alone.
    static std::vector<std::string> free_of_order(std::vector<std::string> options) {
        options.erase(std::remove(options.begin(), options.end(), "--reproducible"), options.end());
        return with(options, {"--batch", "3"});
    }
    outcome trained(int gpus, const std::vector<std::string> &more) const {
        const outcome got = run(DSPLAT_PROGRAM, train("scene.ply", gpus, more));
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_EQ(got.out.find("each has the whole scene") != std::string::npos, gpus > 1) << got.out;
        EXPECT_EQ(got.out.find("short for several GPUs: one GPU may be faster") != std::string::npos,
                  gpus > 1)
            << got.out;
        return got;
    }
    std::vector<float> values_of_scene() const {
        const std::string file = contents(at("scene.ply"));
        const size_t begin = file.find("end_header") + sizeof "end_header";
        std::vector<float> values((file.size() - begin) / sizeof(float));
        memcpy(values.data(), file.data() + begin, values.size() * sizeof(float));
        return values;
    }
    static double last_loss(const outcome &of) {
        double loss = NAN;
        const size_t line = of.out.find("loss ");
        if (line != std::string::npos) sscanf(of.out.c_str() + line, "loss %*f -> %lf", &loss);
        return loss;
    }
    static double difference(const std::vector<float> &a, const std::vector<float> &b) {
        double sum = 0, all = 0;
        for (size_t i = 0; i < a.size() && a.size() == b.size(); i++)
            sum += std::pow(double(a[i]) - double(b[i]), 2), all += double(a[i]) * double(a[i]);
        return a.size() == b.size() && all > 0 ? std::sqrt(sum / all) : NAN;
    }
};

// Views of a step are more than ranks, as many, and no multiple of them.
TEST_F(WholeScenes, BecomeThoseOfOneGpu) {
    write_colmap(at("data"), 30);
    const std::vector<std::string> options = words("--random 130 --density none --batch 3");
    const double loss = last_loss(trained(1, options));
    const std::vector<float> one = values_of_scene();
    for (const int gpus : {2, 3}) {
        EXPECT_NEAR(last_loss(trained(gpus, options)), loss, 1e-4) << gpus;
        EXPECT_LT(difference(one, values_of_scene()), small_difference) << gpus;
    }
    trained(1, with(options, {"--seed", "8"}));
    EXPECT_GT(difference(one, values_of_scene()), 5 * small_difference) << "other views first";
    trained(2, with(options, {"--nccl", FAKE_NCCL}));
    EXPECT_LT(difference(one, values_of_scene()), small_difference) << "processes";
    // Fewer views than ranks, or the same bytes: each rank has a part.
    for (const auto &more : {std::vector<std::string>{"--batch", "1"}, {"--batch", "3", "--reproducible"}}) {
        const outcome got = run(DSPLAT_PROGRAM, train("scene.ply", 2, with({"--random", "130"}, more)));
        EXPECT_EQ(got.code, 0) << got.err;
        EXPECT_EQ(got.out.find("whole scene"), std::string::npos) << got.out;
        EXPECT_NE(got.out.find("few Gaussians for several GPUs: one GPU may be faster"), std::string::npos)
            << got.out;
    }
}

TEST_F(WholeScenes, AreShortUnder2500ViewsOfEachGpu) {
    training_settings settings = {};
    settings.iterations = 4999;
    EXPECT_STREQ(whole_way.few(&settings, 2), "short for several GPUs");
    settings.iterations = 5000;
    EXPECT_EQ(whole_way.few(&settings, 2), nullptr);
}

// Each rank does so by itself; a difference ends the run.
TEST_F(WholeScenes, GrowAndRetireAlike) {
    write_colmap(at("data"), 30);
    // MCMC of few Gaussians differs by 0.7% (one deviation) from run to run: sums of another order move its noise.
    const std::pair<std::vector<std::string>, double> ways[] = {{growing, 0.05}, {splitting, 0.005}};
    for (const auto &[way, apart] : ways) {
        const std::vector<std::string> options =
            free_of_order(with(with(way, retiring), {"--random-background"}));
        const double loss = last_loss(trained(1, options));
        const size_t values = values_of_scene().size();
        for (const int gpus : {2, 3}) {
            EXPECT_NEAR(last_loss(trained(gpus, options)), loss, apart * loss) << gpus;
            EXPECT_NEAR(double(values_of_scene().size()), double(values), 0.05 * double(values)) << gpus;
        }
    }
}

TEST_F(WholeScenes, SaveWhatAnyNumberOfRanksGoesOnFrom) {
    write_colmap(at("data"), 30);
    const std::vector<std::string> options = words("--random 130 --density none --batch 3");
    const std::vector<std::string> saving = with(options, {"--checkpoint-every", "5"});
    trained(1, options);
    const std::vector<float> one = values_of_scene();
    trained(2, saving);
    EXPECT_FALSE(fs::exists(at("scene.ply.checkpoint.a0"))) << "one file";
    fs::rename(checkpoint(), at("saved"));
    for (const int gpus : {1, 3}) {
        trained(gpus, with(saving, {"--resume", at("saved").string()}));
        EXPECT_LT(difference(one, values_of_scene()), small_difference) << gpus;
    }
}

#endif

} // namespace
