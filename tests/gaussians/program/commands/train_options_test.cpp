// SPDX-License-Identifier: MIT
// The table of options of dsplat train: which of them --resume may change.
#include "commands/train.h"
#include "checkpoint.h"
#include <gtest/gtest.h>
#include <cstdlib>
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
    switch (option.kind) {
    case OPTION_FLAG:
        *static_cast<bool *>(option.value) = !*static_cast<bool *>(option.value);
        break;
    case OPTION_INT:
        ++*static_cast<int64_t *>(option.value);
        break;
    case OPTION_REAL:
        *static_cast<double *>(option.value) += 0.125;
        break;
    case OPTION_TEXT:
        *static_cast<const char **>(option.value) = "something else";
        break;
    case OPTION_CHOICE: {
        int *choice = static_cast<int *>(option.value);
        *choice = *choice == 0 ? 1 : 0;
        break;
    }
    case OPTION_END:
        break;
    }
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

TEST(TrainOptions, DescribeEveryOption) {
    const table t;
    for (int i = 0; i < t.list.count; i++) {
        ASSERT_NE(t.rows[i].help, nullptr) << t.rows[i].name;
        ASSERT_NE(t.rows[i].value, nullptr) << t.rows[i].name;
        EXPECT_LE(t.rows[i].minimum, t.rows[i].maximum) << t.rows[i].name;
    }
}

} // namespace train_options_test
