// SPDX-License-Identifier: MIT
// Checkpoints: what was saved comes back, and nothing else does.
#include "checkpoint.h"
#include "training_cloud.h"
#include "run_program.h"
#include <fstream>
#include <functional>

namespace {

class Checkpoint : public ProgramTest {
  protected:
    const alone group{};
    const training_place place = {group, nullptr};
    owned<training_state, training_state_close> state;
    const checkpoint_key key = {"--seed 3\n--iterations 700\n", 0x12345678, nullptr};
    fault why = {};

    void SetUp() override {
        ProgramTest::SetUp();
        ASSERT_TRUE(training_state_open_empty(&state, &place, 3, 1));
        training_state_open_exposures(&state, 1);
        state.exposed = EXPOSURE_NEIGHBOURS;
        ASSERT_TRUE(training_state_open_poses(&state, 1, &why)) << why.text;
        state.pose[0].now.rotation[8] = state.pose[0].second_moment = 0.1;
        state.place = {321, 123, 640, 638, 1000, 0.64, 3.2, 0, 0, 0, 7000, 1.5, 0.25, 40};
        state.average = {7, device_gaussians_open(3, 1)};
        float next = 1;
        for_arrays(state, [&](float *array, size_t values) {
            std::vector<float> host(values);
            for (float &value : host) value = next++;
            device_upload(array, host.data(), values * sizeof(float));
        });
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
        for_arrays(s, [&](const float *array, size_t values) {
            const auto host = downloaded(array, values);
            all.insert(all.end(), host.begin(), host.end());
        });
        return all;
    }

    std::string path() const { return at("run.checkpoint").string(); }
    std::string bytes() const { return contents(path()); }
    void put(const std::string &content) const { std::ofstream(path(), std::ios::binary) << content; }
    void write(const checkpoint_key &of) {
        ASSERT_TRUE(checkpoint_write(path().c_str(), &of, &state, &why)) << why.text;
    }
    // Whether it is read; then it must be what was written.
    bool reads(const checkpoint_key &as) {
        owned<training_state, training_state_close> back;
        const bool done = checkpoint_read(path().c_str(), &as, &place, &back, &why);
        if (done) {
            EXPECT_EQ(back.gaussians.count, state.gaussians.count);
            EXPECT_EQ(back.gaussians.sh_degree, state.gaussians.sh_degree);
            EXPECT_EQ(back.exposures, state.exposures);
            EXPECT_EQ(back.exposed, state.exposed);
            EXPECT_EQ(back.average.samples, state.average.samples);
            EXPECT_EQ(back.poses, state.poses);
            for (int64_t i = 0; i < state.poses && i < back.poses; i++)
                EXPECT_EQ(memcmp(&back.pose[i], &state.pose[i], sizeof *state.pose), 0);
            EXPECT_EQ(memcmp(&back.place, &state.place, sizeof state.place), 0);
            EXPECT_EQ(values_of(back), values_of(state));
        } else {
            EXPECT_EQ(back.gaussians.mean, nullptr);
            EXPECT_EQ(back.density, nullptr);
            EXPECT_CONTAINS(why.text, path());
        }
        return done;
    }
    void refuses(const std::string &text) { refuses(key, text); }
    void refuses(const checkpoint_key &as, const std::string &text) {
        ASSERT_FALSE(reads(as));
        EXPECT_CONTAINS(why.text, text);
    }
};

TEST_F(Checkpoint, BringsEverythingBack) {
    write(key);
    EXPECT_EQ(files_in_folder(), 1u);
    EXPECT_TRUE(reads(key)) << why.text;
    // Also onto an older one, and the same bytes again.
    const std::string before = bytes();
    write(key);
    EXPECT_EQ(bytes(), before);
    // Without an average, and of nothing.
    const std::vector<float> with = values_of(state);
    parameter_average_close(&state.average);
    ASSERT_LT(values_of(state).size(), with.size());
    write(key);
    EXPECT_TRUE(reads(key)) << why.text;
    training_state_close(&state);
    ASSERT_TRUE(training_state_open_empty(&state, &place, 0, 0));
    write(key);
    EXPECT_TRUE(reads(key)) << why.text;
}

TEST_F(Checkpoint, EveryBeginningAndEveryFlippedBitIsRefused) {
    write(key);
    const std::string whole = bytes();
    const auto flip = [&](size_t at, int bits) {
        std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(std::streamoff(at)).put(char(whole[at] ^ bits));
    };
    for (size_t at = 0; at < whole.size(); at++)
        for (int bit = 0; bit < 8; bit++) {
            flip(at, 1 << bit);
            ASSERT_FALSE(reads(key)) << "byte " << at << ", bit " << bit;
            flip(at, 0);
        }
    EXPECT_TRUE(reads(key)) << why.text;
    put(whole + '\0');
    refuses("damaged");
    for (size_t size = whole.size(); size-- > 0;) {
        fs::resize_file(path(), size);
        refuses("truncated");
    }
}

TEST_F(Checkpoint, WhatIsNoneOrOfAnotherRunIsRefused) {
    refuses("cannot open");
    put(std::string(1000, 'x'));
    refuses("not a checkpoint");
    write(key);
    std::string later = bytes();
    later[8]++;
    put(later);
    refuses("a checkpoint of version");
    const std::pair<checkpoint_key, const char *> others[] = {
        {{"--seed 4\n--iterations 700\n", key.data, nullptr}, "--seed 4; this run has --seed 3"},
        {{"--seed 3\n", key.data, nullptr}, "other options"},
        {{key.settings, key.data + 1, nullptr}, "other photographs"}};
    for (const auto &[other, words] : others) {
        write(other);
        refuses(words);
    }
    // Found by fuzzing: a third more views than these overflow.
    state.place.views = state.place.ended = INT64_MAX / 4 * 3 + 1;
    write(key);
    refuses("its header is inconsistent");
}

TEST_F(Checkpoint, OneThatCannotBeWrittenLeavesTheOneBefore) {
    write(key);
    const std::string before = bytes();
    state.place.views++;
    {
        const small_disk full(100);
        EXPECT_FALSE(checkpoint_write(path().c_str(), &key, &state, &why));
    }
    EXPECT_CONTAINS(why.text, "cannot write");
    EXPECT_EQ(bytes(), before);
    EXPECT_EQ(files_in_folder(), 1u);
    EXPECT_FALSE(checkpoint_write(at("no/such/folder").c_str(), &key, &state, &why));
}

// Of each kind of option: train_options_test.cpp.
TEST(CheckpointSettings, NameEveryOptionExceptThoseFreeOnResume) {
    int64_t whole = -7, same = -7, other = 1;
    double real = 0.1;
    const char *text = "a\nb";
    const auto row = [](auto kind, const char *name, void *value, bool is_free = false) {
        option_spec out = {};
        out.kind = kind, out.name = name, out.value = value, out.free_on_resume = is_free, out.help = "";
        return out;
    };
    const option_spec table[] = {row(OPTION_INT, "whole", &whole),
                                 row(OPTION_INT, "left-out", &whole, true),
                                 row(OPTION_REAL, "real", &real),
                                 row(OPTION_TEXT, "text", &text),
                                 {}};
    option_spec usual[5];
    std::copy_n(table, 5, usual);
    usual[0].value = &same, usual[2].value = &other; // the bits of another number
    const std::pair<const option_spec *, const char *> cases[] = {
        {nullptr, "--whole -7\n--real 0.10000000000000001\n--text a b\n"},
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
    write(before);
    ASSERT_TRUE(reads(same)) << why.text;
    refuses(changed, "with --new 5; this run has --new 6");
    write(changed);
    refuses(same, "with --new 6; this run has --new 5");
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
