// SPDX-License-Identifier: MIT
// Checks the pages: every block of CUDA or C++ is a marked part of a source file here, and every link leads to a
// file and a heading that exist.
#include <gtest/gtest.h>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace {

std::vector<std::string> lines_of(const std::string &path) {
    std::ifstream file(path);
    EXPECT_TRUE(file.good()) << path << " cannot be read";
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
}

// Without the indentation that all lines share.
std::string joined(const std::vector<std::string> &lines) {
    size_t indentation = std::string::npos;
    for (const std::string &line : lines)
        if (!line.empty()) indentation = std::min(indentation, line.find_first_not_of(' '));
    std::string text;
    for (const std::string &line : lines) text += (line.empty() ? line : line.substr(indentation)) + "\n";
    return text;
}

// The parts of the file between a line for which `begins` and one for which `ends` is true.
template <typename Begins, typename Ends>
std::vector<std::string> parts_of(const std::string &path, Begins begins, Ends ends) {
    std::vector<std::string> parts, part;
    bool inside = false;
    for (const std::string &line : lines_of(path)) {
        if (!inside)
            inside = begins(line);
        else if (ends(line)) {
            parts.push_back(joined(part));
            part.clear();
            inside = false;
        } else
            part.push_back(line);
    }
    EXPECT_FALSE(inside) << path << " ends inside a part";
    return parts;
}

std::vector<std::string> compiled_parts(const std::string &path) {
    const auto mark = [](const std::string &line) { return line.find("// [") != std::string::npos; };
    return parts_of(path, mark, mark);
}
std::vector<std::string> shown_blocks(const std::string &page) {
    return parts_of(
        page,
        [](const std::string &line) {
            return line == "```cuda" || line == "```cpp" || line == "```c++" || line == "```c";
        },
        [](const std::string &line) { return line == "```"; });
}

TEST(Pages, ShowOnlyCodeThatIsCompiled) {
    std::set<std::string> compiled;
    for (const char *source : {SOURCES})
        for (const std::string &part : compiled_parts(source)) compiled.insert(part);
    size_t blocks = 0;
    for (const char *page : {PAGES})
        for (const std::string &block : shown_blocks(page)) {
            EXPECT_EQ(compiled.count(block), 1u) << page << " shows code that no file of tests/docs holds:\n"
                                                 << block;
            ++blocks;
        }
    EXPECT_EQ(blocks, compiled.size()) << "a compiled part is on no page, or a page was not read";
}

// The anchors of a page: its headings in lower case, without punctuation, with dashes for spaces.
std::set<std::string> anchors_of(const std::string &path) {
    std::set<std::string> anchors;
    for (const std::string &line : lines_of(path)) {
        if (line.rfind("#", 0) != 0) continue;
        const size_t begin = line.find_first_not_of('#');
        std::string anchor;
        for (const char c : line.substr(line.find_first_not_of(' ', begin)))
            if (c == ' ')
                anchor += '-';
            else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
                anchor += char(std::tolower(static_cast<unsigned char>(c)));
        anchors.insert(anchor);
    }
    return anchors;
}

TEST(Pages, LinkToFilesAndHeadingsThatExist) {
    size_t links = 0;
    for (const char *page : {PAGES}) {
        bool code = false;
        for (const std::string &line : lines_of(page)) {
            if (line.rfind("```", 0) == 0) code = !code;
            if (code || line.rfind("    ", 0) == 0) continue;
            for (size_t at = line.find("]("); at != std::string::npos; at = line.find("](", at + 1)) {
                const std::string target = line.substr(at + 2, line.find(')', at) - at - 2);
                if (target.rfind("http", 0) == 0) continue;
                const size_t hash = target.find('#');
                const std::filesystem::path folder = std::filesystem::path(page).parent_path();
                const std::string file = hash == 0 ? page : (folder / target.substr(0, hash)).string();
                EXPECT_TRUE(std::filesystem::exists(file)) << page << " links to " << target;
                if (hash != std::string::npos && std::filesystem::exists(file)) {
                    EXPECT_EQ(anchors_of(file).count(target.substr(hash + 1)), 1u)
                        << page << " links to " << target;
                }
                ++links;
            }
        }
    }
    EXPECT_GT(links, 80u);
}

} // namespace
