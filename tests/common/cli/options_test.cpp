// SPDX-License-Identifier: MIT
// Command lines: what is read and refused, help, man page and completions; a program whose standard streams are closed.
#include "cli/command_line.h"
#include "files.h"
#include <cstdlib>
#include <limits>
#include <sstream>
#include <unistd.h>
#include <vector>

namespace {

const char *const reductions[] = {"atomic", "serial", "bfly", nullptr};

// Pointers to the words, and NULL.
std::vector<char *> pointers(std::vector<std::string> &words) {
    std::vector<char *> argv;
    for (std::string &word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    return argv;
}

class Options : public testing::Test {
  protected:
    // What stderr says; of a line that is read "", of one that asks for help "help".
    std::string parse(std::vector<std::string> words) {
        words.insert(words.begin(), "program");
        storage = words;
        positional[0] = positional[1] = nullptr;
        int code;
        testing::internal::CaptureStderr();
        const bool read =
            read_command_line(&command, int(words.size()), pointers(storage).data(), positional, &code);
        EXPECT_TRUE(read || code == EXIT_SUCCESS || code == 2);
        return testing::internal::GetCapturedStderr() + (!read && code == EXIT_SUCCESS ? "help" : "");
    }
    void expect_error(const std::vector<std::string> &words, const std::string &text) {
        EXPECT_EQ(parse(words), "dsplat train: " + text + "; see 'dsplat train --help'\n");
    }
    // What is set: iterations, rate, offset, reduction, quiet, and output and arguments if they are given.
    std::string values() const {
        std::ostringstream out;
        out << iterations << ' ' << rate << ' ' << offset << ' ' << reductions[reduction] << ' ' << quiet;
        if (output) out << " -o '" << output << "'";
        for (const char *argument : positional)
            if (argument) out << ' ' << argument;
        return out.str();
    }
    std::string help_of(const std::vector<std::string> &words) {
        testing::internal::CaptureStdout();
        EXPECT_EQ(parse(words), "help");
        return testing::internal::GetCapturedStdout();
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
};

TEST_F(Options, ReadsEveryForm) {
    const std::string none = "7000 0.5 0 bfly 0";
    const struct {
        std::vector<std::string> words;
        std::string values;
    } rows[] = {{{"fern"}, none + " fern"},
                {{"fern", "-n", "3", "--iterations=4"}, "4 0.5 0 bfly 0 fern"}, // the last of two
                {{"--iterations", "12", "fern", "--rate=0.25", "-o", "x.ply", "--reduce", "serial", "-q",
                  "more", "--offset", "-1e-3"},
                 "12 0.25 -0.001 serial 1 -o 'x.ply' fern more"},
                {{"--", "--quiet", "--help"}, none + " --quiet --help"},
                {{"-", "-o", "-"}, none + " -o '-' -"},
                {{"fern", "--output=--odd"}, none + " -o '--odd' fern"},
                {{"fern", "--output", "-2,.5"}, none + " -o '-2,.5' fern"},
                {{"fern", "-o", "-.5,1"}, none + " -o '-.5,1' fern"},
                {{"fern", "--output="}, none + " -o '' fern"},
                {{"fern", "--quiet"}, "7000 0.5 0 bfly 1 fern"},
                {{"fern", "--quiet", "--no-quiet"}, none + " fern"},
                {{"fern", "-n", "1", "--rate", "0"}, "1 0 0 bfly 0 fern"},
                {{"fern", "-n", "1000000", "--rate", "1"}, "1000000 1 0 bfly 0 fern"},
                {{"fern", "-n", "+5", "--rate", "1e-30"}, "5 1e-30 0 bfly 0 fern"}};
    for (const auto &row : rows) {
        iterations = 7000, rate = 0.5, offset = 0, reduction = 2, quiet = false, output = nullptr;
        ASSERT_EQ(parse(row.words), "") << row.values;
        EXPECT_EQ(values(), row.values);
    }
    EXPECT_EQ(parse({"fern", "--seed", "9223372036854775807"}), "");
    EXPECT_EQ(seed, INT64_MAX);
}

TEST_F(Options, RefusesBadNumbers) {
    const struct {
        std::string option, why;
        std::vector<std::string> values;
    } rows[] = {
        {"--iterations", "needs a whole number", {"", "x", "12x", "1.5", "1e3", " 5", "5 ", "0x10", "--5"}},
        {"--iterations",
         "must be 1..1000000",
         {"0", "-1", "1000001", std::string(26, '9'), "-99999999999999999999"}},
        {"--seed", "must be at least 0", {"-1", "9223372036854775808"}},
        {"--rate", "needs a finite number", {"", "x", "0.5x", "nan", "inf", "-inf", "1e999", " 1"}},
        {"--rate", "must be 0..1", {"1.0001", "-1e-9"}}};
    for (const auto &row : rows)
        for (const std::string &value : row.values) {
            const std::string text = row.option + " " + row.why + ", not '" + value + "'";
            expect_error({"fern", row.option + "=" + value}, text);
            if (value != "" && value.substr(0, 2) != "--" && value != "-inf") // a value of its own word
                expect_error({"fern", row.option, value}, text);
        }
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

TEST_F(Options, TakesAWordForWhatIsAutomatic) {
    options[1].automatic = options[3].automatic = true;
    options[1].minimum = 0, options[3].minimum = -1;
    iterations = 5;
    ASSERT_EQ(parse({"fern", "--iterations", "auto", "--rate=auto"}), "");
    EXPECT_TRUE(iterations == 0 && rate == -1);
    ASSERT_EQ(parse({"fern", "--iterations", "0", "--rate", "-1"}), ""); // as before
    expect_error({"fern", "--iterations", "1000001"},
                 "--iterations must be auto or 1..1000000, not '1000001'");
    expect_error({"fern", "--rate", "2"}, "--rate must be auto or at most 1, not '2'");
    expect_error({"fern", "--seed", "auto"}, "--seed needs a whole number, not 'auto'");
}

// Of all options without groups, then of those of two groups, then of all.
TEST_F(Options, PrintsHelp) {
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
    quiet = true;
    EXPECT_NE(help_of({"--help", "all"}).find("  -q, --no-quiet      say nothing"), std::string::npos);
}

// ---- man page and completions

const command_spec *described;

int run_described(int argc, char **argv) {
    const char *positional[2];
    int code = 1;
    return read_command_line(described, argc, argv, positional, &code) ? 1 : code;
}

// What troff would take as its own is escaped.
TEST_F(Options, AreDescribedForManAndBash) {
    const program_command commands[] = {{"train", "it's run", run_described}, {nullptr, nullptr, nullptr}};
    const program_spec spec = {"dsplat", "1.2.3", "tests", commands, "  dsplat train\n"};
    const std::pair<const char *, const char *> rows[] = {
        {"man", ".SS \"train DATA \\-o OUT.ply [options]\"\n\\&'Trains.\n\\&'dsplat train' again.\n"},
        {"man", ".B \\-o, \\-\\-output TEXT\n\\&.the file's [name] \\e required\n"},
        {"man", "required\n.PP\n\\&.how it runs:\n.TP\n.B \\-n, \\-\\-iterations N\ntraining steps "
                "(1..1000000; default 7000)\n"},
        {"bash", "compgen -W \"train help --help --version\""},
        {"bash", "train:--output | train:-o) ;;"},
        {"bash", "train:--reduce) options=\"atomic serial bfly\" ;;"},
        {"bash", "options=\"--output --iterations --seed --rate --offset --reduce --quiet --help\" ;;"},
        {"html", nullptr}, // unknown
        {"zsh", nullptr}};
    options[0].help = ".the file's [name] \\ required", options[1].group = ".how it runs";
    command.summary = "'Trains.\n'dsplat train' again.";
    described = &command;
    for (const auto &[form, part] : rows) {
        std::vector<std::string> words = {"dsplat", "--describe", form};
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        EXPECT_EQ(program_run(&spec, 3, pointers(words).data()) == 0, part != nullptr) << form;
        testing::internal::GetCapturedStderr();
        const std::string text = testing::internal::GetCapturedStdout();
        EXPECT_TRUE(!part || text.find(part) != text.npos) << "'" << part << "' is not in\n" << text;
    }
}

// ---- closed streams

// Writes a file, and meanwhile to both streams.
int write_everywhere(int, char **argv) {
    FILE *const file = fopen(argv[1], "w");
    if (!file) return 3;
    fputs("out", stdout);
    fflush(stdout);
    fputs("err", stderr);
    fputs("file", file);
    return fclose(file) == 0 ? 0 : 4;
}

TEST(Program, WritesNoMessageIntoItsFiles) {
    const TemporaryFolder folder;
    const program_command commands[] = {{"write", "", write_everywhere}, {nullptr, nullptr, nullptr}};
    const program_spec spec = {"program", "1.2.3", "tests", commands, ""};
    std::vector<std::string> words = {"program", "write", folder / "file"};
    EXPECT_EXIT(
        {
            close(STDOUT_FILENO);
            close(STDERR_FILENO);
            _exit(program_run(&spec, 3, pointers(words).data()));
        },
        testing::ExitedWithCode(1), ""); // what was printed did not reach its end
    EXPECT_EQ(read_bytes(folder / "file"), "file");
}

} // namespace
