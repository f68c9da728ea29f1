// SPDX-License-Identifier: MIT
// Checkpoints: what was saved comes back, and nothing else does.
#include "arrays.h"
#include "checkpoint.h"
#include "training_cloud.h"
#include "device.h"
#include "run_program.h"
#include "scene.h"
#include "frame.h"
#include <gtest/gtest.h>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <sys/resource.h>
#include <unistd.h>

namespace {

class Checkpoint : public testing::Test {
  protected:
    fs::path folder;
    const alone group{};
    training_state state = {};
    const checkpoint_key key = {"--seed 3\n--iterations 700\n", 0x12345678, nullptr};
    fault why = {};

    static constexpr int64_t count = 3, views = 1;
    static constexpr int degree = 1;

    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "checkpoint_test_XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder = pattern;
        gs_gaussians zeros;
        ASSERT_TRUE(scene_open(&zeros, count, degree, &why)) << why.text;
        training_state_open(&state, group, &zeros);
        scene_close(&zeros);
        training_state_open_exposures(&state, views);
        state.exposed = EXPOSURE_NEIGHBOURS;
        ASSERT_TRUE(training_state_open_poses(&state, views, &why)) << why.text;
        for (size_t i = 0; i < views; i++) state.pose[i].now.rotation[8] = state.pose[i].second_moment = 0.1;
        state.place = {321, 123, 640, 638, 1000, 0.64, 3.2, 0, 0, 0, 7000, 1.5, 0.25, 40};
        state.average = {7, device_gaussians_open(count, degree)};
        float next = 1;
        for_arrays(state, [&](float *array, size_t values) {
            std::vector<float> host(values);
            for (float &value : host) value = next++;
            device_upload(array, host.data(), values * sizeof(float));
        });
    }
    void TearDown() override {
        training_state_close(&state);
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    }

    static void for_arrays(const training_state &s, const std::function<void(float *, size_t)> &use) {
        for (const gs_gaussians *set :
             {&s.gaussians, &s.first_moment, &s.second_moment, &s.average.average}) {
            const gs_arrays arrays = gs_arrays_of(set);
            for (int k = 0; set->mean && k < GS_ARRAYS; k++)
                use(arrays.of[k], size_t(set->count) * size_t(arrays.width[k]));
        }
        use(s.density, 2 * size_t(s.gaussians.count));
        if (s.exposures > 0) use(s.exposure, size_t(s.exposures) * GS_EXPOSURE_VALUES);
    }
    static std::vector<float> values_of(const training_state &s) {
        std::vector<float> all;
        for_arrays(s, [&](float *array, size_t values) {
            std::vector<float> host(values);
            device_download(host.data(), array, values * sizeof(float));
            all.insert(all.end(), host.begin(), host.end());
        });
        return all;
    }

    std::string path(const char *name = "run.checkpoint") const { return (folder / name).string(); }
    std::string bytes() const {
        std::ifstream file(path(), std::ios::binary);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }
    void put(const std::string &content) const {
        std::ofstream(path(), std::ios::binary).write(content.data(), std::streamsize(content.size()));
    }
    // Whether it is read; then it must be what was written.
    bool reads() {
        training_state back = {};
        const training_place alone = {group, nullptr};
        const bool done = checkpoint_read(path().c_str(), &key, &alone, &back, &why);
        if (done) {
            EXPECT_EQ(values_of(back), values_of(state));
            training_state_close(&back);
        } else {
            EXPECT_EQ(back.gaussians.mean, nullptr);
            EXPECT_EQ(back.density, nullptr);
            EXPECT_CONTAINS(why.text, path());
        }
        return done;
    }
    size_t files() const {
        return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
    }
};

TEST_F(Checkpoint, BringsEverythingBack) {
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    EXPECT_EQ(files(), 1u);
    training_state back = {};
    const training_place alone = {group, nullptr};
    ASSERT_TRUE(checkpoint_read(path().c_str(), &key, &alone, &back, &why)) << why.text;
    EXPECT_EQ(back.gaussians.count, count);
    EXPECT_EQ(back.gaussians.sh_degree, degree);
    EXPECT_EQ(back.exposures, views);
    EXPECT_EQ(back.exposed, EXPOSURE_NEIGHBOURS);
    EXPECT_EQ(back.average.samples, 7);
    ASSERT_EQ(back.poses, views);
    EXPECT_EQ(memcmp(back.pose, state.pose, views * sizeof *state.pose), 0);
    EXPECT_EQ(memcmp(&back.place, &state.place, sizeof state.place), 0);
    EXPECT_EQ(values_of(back), values_of(state));
    training_state_close(&back);
    // Also onto an older one, and the same bytes again.
    const std::string before = bytes();
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    EXPECT_EQ(bytes(), before);
    // Without an average, and of nothing.
    const std::vector<float> with = values_of(state);
    parameter_average_close(&state.average);
    ASSERT_LT(values_of(state).size(), with.size());
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    EXPECT_TRUE(reads()) << why.text;
    training_state_close(&state);
    gs_gaussians none;
    ASSERT_TRUE(scene_open(&none, 0, 0, &why)) << why.text;
    training_state_open(&state, group, &none);
    scene_close(&none);
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    EXPECT_TRUE(reads()) << why.text;
}

TEST_F(Checkpoint, EveryBeginningIsRefused) {
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    const std::string whole = bytes();
    for (size_t size = whole.size(); size-- > 0;) {
        fs::resize_file(path(), size);
        ASSERT_FALSE(reads()) << size;
        EXPECT_CONTAINS(why.text, "truncated");
    }
    put(whole + '\0');
    ASSERT_FALSE(reads());
    EXPECT_CONTAINS(why.text, "damaged");
    put(whole);
    EXPECT_TRUE(reads()) << why.text;
}

TEST_F(Checkpoint, EveryFlippedBitIsRefused) {
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    const std::string whole = bytes();
    const auto flip = [&](size_t at, int bits) {
        std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(std::streamoff(at)).put(char(whole[at] ^ bits));
    };
    for (size_t at = 0; at < whole.size(); at++)
        for (int bit = 0; bit < 8; bit++) {
            flip(at, 1 << bit);
            ASSERT_FALSE(reads()) << "byte " << at << ", bit " << bit;
            flip(at, 0);
        }
    EXPECT_TRUE(reads()) << why.text;
}

TEST_F(Checkpoint, WhatIsNoneIsRefused) {
    ASSERT_FALSE(reads());
    EXPECT_CONTAINS(why.text, "cannot open");
    put(std::string(1000, 'x'));
    ASSERT_FALSE(reads());
    EXPECT_CONTAINS(why.text, "not a checkpoint");
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    std::string later = bytes();
    later[8]++;
    put(later);
    ASSERT_FALSE(reads());
    EXPECT_CONTAINS(why.text, "a checkpoint of version");
}

TEST_F(Checkpoint, OfAnotherRunIsRefused) {
    const checkpoint_key others[] = {{"--seed 4\n--iterations 700\n", key.data, nullptr},
                                     {"--seed 3\n", key.data, nullptr},
                                     {key.settings, key.data + 1, nullptr}};
    const char *const words[] = {"--seed 4; this run has --seed 3", "other options", "other photographs"};
    for (int i = 0; i < 3; i++) {
        ASSERT_TRUE(checkpoint_write(path().c_str(), &others[i], &state, &why)) << why.text;
        ASSERT_FALSE(reads()) << i;
        EXPECT_CONTAINS(why.text, words[i]);
    }
}

// Found by fuzzing: a third more views than these overflow.
TEST_F(Checkpoint, OfMoreViewsThanAnyRunIsRefused) {
    state.place.views = state.place.ended = INT64_MAX / 4 * 3 + 1;
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    ASSERT_FALSE(reads());
    EXPECT_CONTAINS(why.text, "its header is inconsistent");
}

// As on a full disk: the file may not become as large.
TEST_F(Checkpoint, OneThatCannotBeWrittenLeavesTheOneBefore) {
    ASSERT_TRUE(checkpoint_write(path().c_str(), &key, &state, &why)) << why.text;
    const std::string before = bytes();
    state.place.views++;
    signal(SIGXFSZ, SIG_IGN);
    rlimit old, small;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 100;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const bool written = checkpoint_write(path().c_str(), &key, &state, &why);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
    EXPECT_FALSE(written);
    EXPECT_CONTAINS(why.text, "cannot write");
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(files(), 1u);
    EXPECT_FALSE(checkpoint_write(path("no/such/folder").c_str(), &key, &state, &why));
}

TEST(CheckpointSettings, NameEveryOptionExceptThoseFreeOnResume) {
    bool flag = true;
    int64_t whole = -7, same = -7, other = 1;
    double real = 0.1;
    const char *text = "a\nb", *none = nullptr;
    int choice = 1;
    static const char *const choices[] = {"one", "two", nullptr};
    const auto row = [](auto kind, const char *name, void *value, const char *const *of = nullptr) {
        option_spec out = {};
        out.kind = kind, out.name = name, out.value = value, out.choices = of, out.help = "";
        return out;
    };
    option_spec table[] = {row(OPTION_FLAG, "flag", &flag),
                           row(OPTION_INT, "whole", &whole),
                           row(OPTION_INT, "left-out", &whole),
                           row(OPTION_REAL, "real", &real),
                           row(OPTION_TEXT, "text", &text),
                           row(OPTION_TEXT, "none", &none),
                           row(OPTION_CHOICE, "choice", &choice, choices),
                           {}};
    table[2].free_on_resume = true;
    option_spec usual[8];
    std::copy_n(table, 8, usual);
    usual[1].value = &same, usual[3].value = &other; // the bits of another number
    const std::pair<const option_spec *, const char *> cases[] = {
        {nullptr, "--flag yes\n--whole -7\n--real 0.10000000000000001\n--text a b\n--none \n--choice two\n"},
        {usual, "--real 0.10000000000000001\n"}}; // those with their defaults are left out
    for (const auto &[defaults, expected] : cases) {
        char *const settings = checkpoint_settings("--", table, defaults);
        EXPECT_STREQ(settings, expected);
        free(settings);
    }
}

TEST_F(Checkpoint, AnOptionThatOneRunDoesNotKnowHasItsDefault) {
    const checkpoint_key before = {"--seed 3\n", key.data, "--seed 0\n"},
                         same = {"--seed 3\n", key.data, "--seed 0\n--new 5\n"},
                         changed = {"--seed 3\n--new 6\n", key.data, same.usual};
    training_state read = {};
    const training_place where = {group, nullptr};
    ASSERT_TRUE(checkpoint_write(path().c_str(), &before, &state, &why)) << why.text;
    ASSERT_TRUE(checkpoint_read(path().c_str(), &same, &where, &read, &why)) << why.text;
    training_state_close(&read);
    EXPECT_FALSE(checkpoint_read(path().c_str(), &changed, &where, &read, &why));
    EXPECT_CONTAINS(why.text, "with --new 5; this run has --new 6");
    ASSERT_TRUE(checkpoint_write(path().c_str(), &changed, &state, &why)) << why.text;
    EXPECT_FALSE(checkpoint_read(path().c_str(), &same, &where, &read, &why));
    EXPECT_CONTAINS(why.text, "with --new 6; this run has --new 5");
}

TEST(CheckpointFingerprint, IsOfCamerasAndPixels) {
    uint8_t pixels[12] = {}, mask[4] = {};
    float depth[4] = {};
    image picture = {};
    picture.width = 2, picture.height = 2, picture.channels = 3, picture.pixels = pixels;
    target_view view = {};
    view.picture = &picture, view.mask_on_host = mask, view.depth_on_host = depth;
    view.camera.fx = 1;
    const uint32_t before = checkpoint_fingerprint(&view, 1);
    EXPECT_EQ(checkpoint_fingerprint(&view, 1), before);
    const auto other = [&](auto &value) {
        const auto kept = value;
        value = decltype(kept)(kept + 1);
        EXPECT_NE(checkpoint_fingerprint(&view, 1), before);
        value = kept;
    };
    other(pixels[11]), other(view.camera.fx), other(mask[3]), other(depth[3]);
}

} // namespace
