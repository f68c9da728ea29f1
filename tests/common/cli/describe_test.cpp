// SPDX-License-Identifier: MIT
// Man page and completions: what troff would take as its own is escaped.
#include "cli/command_line.h"
#include <gtest/gtest.h>
#include <string>

namespace {

int command_of_options(int argc, char **argv) {
    static const char *output = nullptr;
    static int reduce = 0;
    static const char *const choices[] = {"serial", "tree", nullptr};
    option_spec rows[3] = {};
    rows[0].kind = OPTION_TEXT;
    rows[0].name = "output";
    rows[0].letter = 'o';
    rows[0].value = &output;
    rows[0].help = ".the file's [name] \\ required";
    rows[1].kind = OPTION_CHOICE;
    rows[1].group = ".how it runs";
    rows[1].name = "reduce-by";
    rows[1].value = &reduce;
    rows[1].choices = choices;
    rows[1].help = "how";
    rows[2].kind = OPTION_END;
    command_spec spec = {
        "program run", "DATA -o OUT", "'Runs.\n'program run' again.", nullptr, rows, 0, 0, 0};
    int code = 1;
    return read_command_line(&spec, argc, argv, nullptr, &code) ? 1 : code;
}

std::string described(const char *form) {
    const program_command commands[] = {{"run", "it's run", command_of_options}, {nullptr, nullptr, nullptr}};
    const program_spec spec = {"program", "1.2.3", "tests", commands, "  program run\n"};
    std::string words[] = {"program", "--describe", form};
    char *argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const bool known = program_run(&spec, 3, argv) == 0;
    testing::internal::GetCapturedStderr();
    const std::string text = testing::internal::GetCapturedStdout();
    return known ? text : "unknown";
}

void expect_holds(const std::string &text, const std::string &part) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in\n" << text;
}

TEST(Describe, AManPageHasNoRequestsOfTheTexts) {
    const std::string page = described("man");
    expect_holds(page, ".SS \"run DATA \\-o OUT\"\n\\&'Runs.\n\\&'program run' again.\n");
    expect_holds(page, ".B \\-o, \\-\\-output TEXT\n\\&.the file's [name] \\e required\n");
    expect_holds(
        page,
        "required\n.PP\n\\&.how it runs:\n.TP\n.B \\-\\-reduce\\-by NAME\nhow (serial, tree; default serial)\n");
}
TEST(Describe, BashHasCommandsOptionsAndChoices) {
    const std::string text = described("bash");
    expect_holds(text, "compgen -W \"run help --help --version\"");
    expect_holds(text, "run:--reduce-by) options=\"serial tree\" ;;");
    expect_holds(text, "options=\"--output --reduce-by --help\" ;;");
}
TEST(Describe, HasNoOtherForm) {
    for (const char *form : {"html", "zsh"}) EXPECT_EQ(described(form), "unknown") << form;
}

} // namespace
