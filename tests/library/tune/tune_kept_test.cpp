// SPDX-License-Identifier: MIT
// What the tuner keeps for a later run.

#include "tune_world.h"
#include <string>

namespace {

struct Kept : testing::Test {
    world w{12};
    std::string text;
    tuner later;

    void SetUp() override {
        w.start();
        w.explore();
        char memory[TUNE_TEXT_SIZE];
        size_t length = tune_save(&w.t, "NVIDIA H200", "fox 1080x1920", memory, sizeof memory);
        ASSERT_GT(length, 0u);
        text.assign(memory, length);
        ASSERT_TRUE(tune_init(&later, w.candidates.data(), (int)w.candidates.size()));
    }
    bool load(const std::string &from, const char *gpu = "NVIDIA H200",
              const char *workload = "fox 1080x1920") {
        std::vector<char> exact(from.begin(), from.end()); // so that a sanitizer sees a read too far
        return tune_load(&later, gpu, workload, exact.data(), exact.size());
    }
    static std::string sealed(const std::string &body) {
        char line[32];
        snprintf(line, sizeof line, "hash %016llx\n",
                 (unsigned long long)tune_hash(body.data(), body.size()));
        return body + line;
    }
};

TEST_F(Kept, ALaterRunStartsFromTheBestAndLooksAtNeighbours) {
    ASSERT_TRUE(load(text));
    EXPECT_EQ(later.best, w.t.best);
    EXPECT_TRUE(later.known);
    for (int c = 0; c < later.count; c++)
        EXPECT_NEAR(later.records[c].ratio, w.t.records[c].ratio, 0.0005 + 1e-9) << c;
    world again(12);
    again.start();
    again.t = later;
    again.launch(1500);
    EXPECT_LE(again.t.measured, 400);
    EXPECT_EQ(again.t.explorations, 0);
    EXPECT_EQ(again.t.examinations, 1);
    EXPECT_LE(again.excess(), 0.03);
}

TEST_F(Kept, IsOfOneGpuAndOneWorkload) {
    const tuner before = later;
    EXPECT_FALSE(load(text, "NVIDIA H100"));
    EXPECT_FALSE(load(text, "NVIDIA H20"));
    EXPECT_FALSE(load(text, "NVIDIA H2000"));
    EXPECT_FALSE(load(text, "NVIDIA H200", "fox 1080x192"));
    EXPECT_FALSE(load(text, "NVIDIA H200", "lego"));
    EXPECT_EQ(memcmp(&before, &later, sizeof later), 0);
    EXPECT_TRUE(load(text));
}

TEST_F(Kept, CandidatesMayComeAndGo) {
    auto fewer = w.candidates;
    tune_candidate best = fewer[(size_t)w.t.best];
    fewer.erase(fewer.begin());
    fewer.push_back({9, 5});
    ASSERT_TRUE(tune_init(&later, fewer.data(), (int)fewer.size()));
    ASSERT_TRUE(load(text));
    EXPECT_EQ(tune_best(&later).strategy, best.strategy);
    EXPECT_EQ(tune_best(&later).threshold, best.threshold);
    fewer.erase(fewer.begin() + later.best);
    ASSERT_TRUE(tune_init(&later, fewer.data(), (int)fewer.size()));
    EXPECT_FALSE(load(text));
    EXPECT_FALSE(later.known);
}

TEST_F(Kept, DamageIsRefused) {
    const tuner before = later;
    for (size_t length = 0; length < text.size(); length++)
        EXPECT_FALSE(load(text.substr(0, length))) << length;
    for (size_t i = 0; i < text.size() * 8; i++) {
        std::string flipped = text;
        flipped[i / 8] = (char)(flipped[i / 8] ^ (1 << i % 8));
        EXPECT_FALSE(load(flipped)) << i;
    }
    EXPECT_FALSE(load(text + "\n"));
    EXPECT_FALSE(load(text + text));
    EXPECT_FALSE(load(std::string(1 << 20, 'x')));
    EXPECT_EQ(memcmp(&before, &later, sizeof later), 0);
}

TEST_F(Kept, NonsenseWithAGoodHashIsRefused) {
    const std::string head = "distwar tuner 1\ngpu NVIDIA H200\nworkload fox 1080x1920\n";
    EXPECT_TRUE(load(sealed(head + "best 3 8\n")));
    EXPECT_TRUE(load(sealed(head + "best 3 8\ncandidate 3 8 1000\ncandidate 7 -7 1000\n")));
    const tuner before = later;
    for (const char *body :
         {"", "best 3 8", "best 3\n", "best 9 9\n", "best 3 8 \n", "best  3 8\n", "best three 8\n",
          "best 99999999999 8\n", "best 3 8\ncandidate 3 8 0\n", "best 3 8\ncandidate 3 8 -1000\n",
          "best 3 8\ncandidate 3 8 2147483648\n", "best 3 8\ncandidate 3 8 nan\n",
          "best 3 8\ncandidate 3 8\n", "best 3 8\nand more\n", "best 3 8\ncandidate 3 8 1000", "best - 8\n"})
        EXPECT_FALSE(load(sealed(head + body))) << body;
    EXPECT_FALSE(load(sealed("distwar tuner 2\ngpu NVIDIA H200\nworkload fox 1080x1920\nbest 3 8\n")));
    EXPECT_EQ(memcmp(&before, &later, sizeof later), 0);
}

TEST_F(Kept, SavingNeedsAChoiceANameAndRoom) {
    char memory[TUNE_TEXT_SIZE];
    auto save = [&](const tuner &t, const char *gpu, size_t room) {
        return tune_save(&t, gpu, "fox", memory, room);
    };
    EXPECT_EQ(save(later, "gpu", sizeof memory), 0u); // knows nothing yet
    EXPECT_EQ(save(w.t, "two\nlines", sizeof memory), 0u);
    EXPECT_EQ(save(w.t, std::string(256, 'g').c_str(), sizeof memory), 0u);
    size_t length = save(w.t, std::string(255, 'g').c_str(), sizeof memory);
    ASSERT_GT(length, 0u);
    EXPECT_EQ(save(w.t, std::string(255, 'g').c_str(), length + 1), length);
    EXPECT_EQ(memory[length], 0);
    EXPECT_EQ(save(w.t, std::string(255, 'g').c_str(), length), 0u);
    EXPECT_EQ(memory[0], 0);
    EXPECT_EQ(save(w.t, "gpu", 0), 0u);
}

TEST(TuneText, TheLongestFits) {
    std::vector<tune_candidate> many;
    for (int i = 0; i < TUNE_MAX_CANDIDATES; i++) many.push_back({INT_MIN, INT_MIN + i});
    tuner t;
    ASSERT_TRUE(tune_init(&t, many.data(), TUNE_MAX_CANDIDATES));
    t.known = true;
    for (auto &record : t.records) record.ratio = 1e9;
    const std::string key(TUNE_MAX_KEY, 'k');
    char memory[TUNE_TEXT_SIZE];
    size_t length = tune_save(&t, key.c_str(), key.c_str(), memory, sizeof memory);
    EXPECT_GT(length, 2900u);
    EXPECT_TRUE(tune_load(&t, key.c_str(), key.c_str(), memory, length));
}

} // namespace
