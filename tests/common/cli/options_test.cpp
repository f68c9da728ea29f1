// SPDX-License-Identifier: MIT
#include "cli/command_line.h"
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace {

const char *const reductions[] = {"atomic", "serial", "bfly", nullptr};

class Options : public testing::Test {
  protected:
    enum result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_USAGE_ERROR };
    result parse(std::vector<std::string> words) {
        words.insert(words.begin(), "program");
        storage = words;
        std::vector<char *> argv;
        for (std::string &word : storage) argv.push_back(word.data());
        argv.push_back(nullptr);
        positional[0] = positional[1] = nullptr;
        int code;
        testing::internal::CaptureStderr();
        const bool read = read_command_line(&command, int(words.size()), argv.data(), positional, &code);
        why = testing::internal::GetCapturedStderr();
        positional_count = (positional[0] != nullptr) + (positional[1] != nullptr);
        return read ? OPTIONS_OK : code == EXIT_SUCCESS ? OPTIONS_HELP : OPTIONS_USAGE_ERROR;
    }
    void expect_error(const std::vector<std::string> &words, const std::string &text) {
        EXPECT_EQ(parse(words), OPTIONS_USAGE_ERROR);
        EXPECT_EQ(why, "dsplat train: " + text + "; see 'dsplat train --help'\n");
    }

    bool quiet = false;
    int64_t iterations = 7000, seed = 1;
    double rate = 0.5, offset = 0;
    const char *output = nullptr;
    int reduction = 2;
    std::vector<std::string> storage;
    const double infinity = std::numeric_limits<double>::infinity();
    option_spec options[8] = {
        {OPTION_TEXT, "output", 'o', &output, 0, 0, nullptr, "where the scene goes", false, false, nullptr},
        {OPTION_INT, "iterations", 'n', &iterations, 1, 1000000, nullptr, "training steps", false, false,
         nullptr},
        {OPTION_INT, "seed", 0, &seed, 0, infinity, nullptr, "chooses the random numbers", false, false,
         nullptr},
        {OPTION_REAL, "rate", 0, &rate, 0, 1, nullptr, "learning rate", false, false, nullptr},
        {OPTION_REAL, "offset", 0, &offset, -infinity, infinity, nullptr, "any number", false, false,
         nullptr},
        {OPTION_CHOICE, "reduce", 0, &reduction, 0, 0, reductions, "how warps add", false, false, nullptr},
        {OPTION_FLAG, "quiet", 'q', &quiet, 0, 0, nullptr, "say nothing", false, false, nullptr},
        {}};
    command_spec command = {"dsplat train",
                            "DATA -o OUT.ply [options]",
                            "Trains a scene.",
                            "  dsplat train fern -o fern.ply\n",
                            options,
                            1,
                            2,
                            0};
    const char *positional[2] = {};
    int positional_count = -1;
    std::string why; // stderr
};

TEST_F(Options, KeepsDefaults) {
    ASSERT_EQ(parse({"fern"}), OPTIONS_OK) << why;
    EXPECT_EQ(positional_count, 1);
    EXPECT_STREQ(positional[0], "fern");
    EXPECT_FALSE(quiet);
    EXPECT_EQ(iterations, 7000);
    EXPECT_EQ(rate, 0.5);
    EXPECT_EQ(output, nullptr);
    EXPECT_EQ(reduction, 2);
}

TEST_F(Options, ReadsEveryForm) {
    ASSERT_EQ(parse({"--iterations", "12", "fern", "--rate=0.25", "-o", "x.ply", "--reduce", "serial", "-q",
                     "more", "--offset", "-1e-3"}),
              OPTIONS_OK)
        << why;
    EXPECT_EQ(iterations, 12);
    EXPECT_EQ(rate, 0.25);
    EXPECT_EQ(offset, -1e-3);
    EXPECT_STREQ(output, "x.ply");
    EXPECT_EQ(reduction, 1);
    EXPECT_TRUE(quiet);
    EXPECT_EQ(positional_count, 2);
    EXPECT_STREQ(positional[1], "more");
}

TEST_F(Options, TakesTheLastOfTwo) {
    ASSERT_EQ(parse({"fern", "-n", "3", "--iterations=4"}), OPTIONS_OK) << why;
    EXPECT_EQ(iterations, 4);
}

TEST_F(Options, EndsAtTwoDashes) {
    ASSERT_EQ(parse({"--", "--quiet", "--help"}), OPTIONS_OK) << why;
    EXPECT_EQ(positional_count, 2);
    EXPECT_STREQ(positional[0], "--quiet");
    EXPECT_FALSE(quiet);
}

TEST_F(Options, TakesADashAsAnArgument) {
    ASSERT_EQ(parse({"-", "-o", "-"}), OPTIONS_OK) << why;
    EXPECT_STREQ(positional[0], "-");
    EXPECT_STREQ(output, "-");
    ASSERT_EQ(parse({"fern", "--output=--odd"}), OPTIONS_OK) << why;
    EXPECT_STREQ(output, "--odd");
    ASSERT_EQ(parse({"fern", "--output", "-2,.5"}), OPTIONS_OK) << why;
    EXPECT_STREQ(output, "-2,.5");
    ASSERT_EQ(parse({"fern", "-o", "-.5,1"}), OPTIONS_OK) << why;
    EXPECT_STREQ(output, "-.5,1");
    ASSERT_EQ(parse({"fern", "--output="}), OPTIONS_OK) << why;
    EXPECT_STREQ(output, "");
}

TEST_F(Options, ReachesItsBounds) {
    for (const char *text : {"1", "1000000", "+5"})
        EXPECT_EQ(parse({"fern", "--iterations", text}), OPTIONS_OK) << why;
    EXPECT_EQ(parse({"fern", "--seed", "9223372036854775807"}), OPTIONS_OK) << why;
    EXPECT_EQ(seed, INT64_MAX);
    for (const char *text : {"0", "1", "1e-30"})
        EXPECT_EQ(parse({"fern", "--rate", text}), OPTIONS_OK) << why;
}

TEST_F(Options, RefusesBadNumbers) {
    for (const char *text : {"", "x", "12x", "1.5", "1e3", " 5", "5 ", "0x10", "--5"})
        EXPECT_EQ(parse({"fern", std::string("--iterations=") + text}), OPTIONS_USAGE_ERROR) << text;
    expect_error({"fern", "--iterations", "12x"}, "--iterations needs a whole number, not '12x'");
    for (const char *text :
         {"0", "-1", "1000001", "99999999999999999999999999", "-99999999999999999999999999"})
        expect_error({"fern", "--iterations", text},
                     std::string("--iterations must be 1..1000000, not '") + text + "'");
    for (const char *text : {"-1", "9223372036854775808"})
        expect_error({"fern", "--seed", text}, std::string("--seed must be at least 0, not '") + text + "'");
    for (const char *text : {"", "x", "0.5x", "nan", "inf", "-inf", "1e999", " 1"})
        expect_error({"fern", std::string("--rate=") + text},
                     std::string("--rate needs a finite number, not '") + text + "'");
    for (const char *text : {"1.0001", "-1e-9"})
        expect_error({"fern", "--rate", text}, std::string("--rate must be 0..1, not '") + text + "'");
    EXPECT_EQ(iterations, 7000);
    EXPECT_EQ(rate, 0.5);
}

TEST_F(Options, RefusesWhatItDoesNotKnowMissesOrDoesNotNeed) {
    const struct {
        std::vector<std::string> words;
        const char *says;
    } rows[] = {
        {{"fern", "--itrations", "5"}, "unknown option '--itrations'"},
        {{"fern", "--iteration=5"}, "unknown option '--iteration=5'"},
        {{"fern", "--iterationss", "5"}, "unknown option '--iterationss'"},
        {{"fern", "-x"}, "unknown option '-x'"},
        {{"fern", "-qn"}, "unknown option '-qn'"},
        {{"fern", "--no-seed"}, "unknown option '--no-seed'"},
        {{"fern", "--no-quiet=1"}, "unknown option '--no-quiet=1'"},
        {{"fern", "--reduce", "butterfly"}, "--reduce must be one of atomic, serial, bfly, not 'butterfly'"},
        {{"fern", "--reduce="}, "--reduce must be one of atomic, serial, bfly, not ''"},
        {{"fern", "--iterations"}, "--iterations needs a value"},
        {{"fern", "-o"}, "--output needs a value"},
        {{"fern", "--output", "--quiet"}, "--output needs a value"},
        {{"fern", "--iterations", "--quiet"}, "--iterations needs a value"},
        {{"fern", "--quiet=yes"}, "--quiet takes no value"},
        {{}, "an argument is missing: dsplat train DATA -o OUT.ply [options]"},
        {{"a", "b", "c"}, "unexpected argument 'c'"}};
    for (const auto &row : rows) expect_error(row.words, row.says);
}

TEST_F(Options, ClearsAFlagAndOffersWhatChangesIt) {
    ASSERT_EQ(parse({"fern", "--quiet"}), OPTIONS_OK) << why;
    EXPECT_TRUE(quiet);
    testing::internal::CaptureStdout();
    EXPECT_EQ(parse({"--help"}), OPTIONS_HELP);
    EXPECT_NE(testing::internal::GetCapturedStdout().find("  -q, --no-quiet      say nothing\n"),
              std::string::npos);
    ASSERT_EQ(parse({"fern", "--no-quiet"}), OPTIONS_OK) << why;
    EXPECT_FALSE(quiet);
}

TEST_F(Options, TakesAWordForWhatIsAutomatic) {
    options[1].automatic = options[3].automatic = true;
    options[1].minimum = 0, options[3].minimum = -1;
    iterations = 5;
    ASSERT_EQ(parse({"fern", "--iterations", "auto", "--rate=auto"}), OPTIONS_OK) << why;
    EXPECT_EQ(iterations, 0);
    EXPECT_EQ(rate, -1);
    ASSERT_EQ(parse({"fern", "--iterations", "0", "--rate", "-1"}), OPTIONS_OK) << why; // as before
    expect_error({"fern", "--iterations", "1000001"},
                 "--iterations must be auto or 1..1000000, not '1000001'");
    expect_error({"fern", "--rate", "2"}, "--rate must be auto or at most 1, not '2'");
    expect_error({"fern", "--seed", "auto"}, "--seed needs a whole number, not 'auto'");
}

// Of all options without groups, then of those of two groups, then of all.
TEST_F(Options, PrintsHelp) {
    const auto help_of = [this](std::vector<std::string> words) {
        testing::internal::CaptureStdout();
        EXPECT_EQ(parse(words), OPTIONS_HELP);
        return testing::internal::GetCapturedStdout();
    };
    const std::string head = "usage: dsplat train DATA -o OUT.ply [options]\n\nTrains a scene.\n\n",
                      output = "  -o, --output TEXT   where the scene goes\n",
                      numbers = "      --seed N        chooses the random numbers (at least 0; default 1)\n"
                                "      --rate X        learning rate (0..1; default 0.5)\n"
                                "      --offset X      any number (any; default 0)\n",
                      reduce = "      --reduce NAME   how warps add (atomic, serial, bfly; default bfly)\n",
                      help = "  -h, --help          print this and exit\n",
                      examples = "\nexamples:\n  dsplat train fern -o fern.ply\n";
    for (const char *flag : {"--help", "-h"})
        EXPECT_EQ(help_of({flag, "--nonsense"}),
                  head + "options:\n" + output +
                      "  -n, --iterations N  training steps (1..1000000; default 7000)\n" + numbers + reduce +
                      "  -q, --quiet         say nothing\n" + help + examples);
    options[0].group = "output", options[2].group = "numbers", options[5].group = "rare";
    options[1].automatic = true, options[1].minimum = 0, iterations = 0;
    options[6].help =
        "say nothing at all, neither of what is done nor of what is left to do, until all is done";
    command.groups = 2;
    const std::string usual = head + "output:\n" + output +
                              "  -n, --iterations N  training steps (auto or 1..1000000; default auto)\n\n"
                              "numbers:\n" +
                              numbers + "\n",
                      rare =
                          "rare:\n" + reduce +
                          "  -q, --quiet         say nothing at all, neither of what is done nor of what is\n"
                          "                      left to do, until all is done\n\n";
    EXPECT_EQ(help_of({"--help"}),
              usual + help + "      --help all      print the other 2 options too\n" + examples);
    EXPECT_EQ(help_of({"--help", "all"}), usual + rare + help + examples);
}

} // namespace
