// SPDX-License-Identifier: MIT
// The table of options of dsplat train: which of them --resume may change.
#include "commands/train.h"
#include "checkpoint.h"
#include "scene.h"
#include <gtest/gtest.h>
#include <set>
#include <string>

namespace train_options_test {

// The options that do not decide what the iterations come to, apart from all those of Levenberg-Marquardt.
const std::set<std::string> free_names = {
    "output", "iterations", "log",           "eval-every",  "checkpoint-every",
    "resume", "report",     "write-cameras", "align-steps", "gpus",
    "nccl",   "memory",     "view",          "listen",      "check-finite"};

struct table {
    train_options options = train_options_default();
    option_table list = {};
    option_spec *rows = list.rows;
    table() { train_options_list(&options, &list); }
    table(const table &) = delete;
    std::string settings() const {
        char *text = checkpoint_settings("--", rows, nullptr);
        const std::string copy = text ? text : "no memory";
        free(text);
        return copy;
    }
};

// Another value than the default.
void change(const option_spec &option) {
    bool *const flag = static_cast<bool *>(option.value);
    int *const choice = static_cast<int *>(option.value);
    if (option.kind == OPTION_FLAG) *flag = !*flag;
    if (option.kind == OPTION_INT) ++*static_cast<int64_t *>(option.value);
    if (option.kind == OPTION_REAL) *static_cast<double *>(option.value) += 0.125;
    if (option.kind == OPTION_TEXT) *static_cast<const char **>(option.value) = "something else";
    if (option.kind == OPTION_CHOICE) *choice = *choice == 0;
}

TEST(TrainOptions, ACheckpointRecordsExactlyThoseThatDecideTheIterations) {
    const std::string before = table().settings();
    const int count = table().list.count;
    std::set<std::string> names;
    for (int i = 0; i < count; i++) {
        table changed;
        const option_spec &option = changed.rows[i];
        ASSERT_NE(option.kind, OPTION_END) << i;
        const std::string name = option.name;
        ASSERT_TRUE(option.help && option.value && option.minimum <= option.maximum) << name;
        EXPECT_TRUE(names.insert(name).second) << name << " occurs twice";
        const bool is_free = free_names.count(name);
        EXPECT_EQ(option.free_on_resume, is_free) << name;
        change(option);
        EXPECT_EQ(changed.settings() == before, is_free) << name;
    }
    EXPECT_EQ(table().rows[count].kind, OPTION_END);
    EXPECT_LE(names.size(), 42u) << "an option more is one less that is read";
    for (const std::string &name : free_names) EXPECT_TRUE(names.count(name)) << name;
}

TEST(TrainStart, ASmallSceneHasPointsFromAllOfThem) {
    float points[7][3];
    uint8_t colors[7][3] = {};
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < 3; k++) points[i][k] = float((i + 1) * (k + 1));
    const train_options options = train_options_default();
    train_run run = {};
    run.options = &options;
    run.known.extent = 1;
    run.data.points = points, run.data.colors = colors, run.data.point_count = 7;
    gs_gaussians scene;
    fault why;
    ASSERT_TRUE(train_start_small(&run, 3, &scene, &why)) << why.text;
    ASSERT_EQ(scene.count, 3);
    for (int i = 0; i < 9; i++) EXPECT_EQ(scene.mean[i], points[3 * (i / 3)][i % 3]) << i;
    scene_close(&scene);
}

} // namespace train_options_test
