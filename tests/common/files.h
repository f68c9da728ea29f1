// SPDX-License-Identifier: MIT
// What the tests of file formats share: a folder of their own, bytes in and out, damage.
#ifndef TESTS_COMMON_FILES_H
#define TESTS_COMMON_FILES_H

#include "files/fault.h"
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <stdlib.h>
#include <string>
#include <string.h>

// Removed with all it holds at the end of the test.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "distwar-test-XXXXXX").string();
        if (!mkdtemp(pattern.data())) throw std::runtime_error("cannot make a temporary folder");
        path = pattern;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }
    TemporaryFolder(const TemporaryFolder &) = delete;
    TemporaryFolder &operator=(const TemporaryFolder &) = delete;
    std::string operator/(const std::string &name) const { return path + "/" + name; }
    size_t entries() const {
        return size_t(
            std::distance(std::filesystem::directory_iterator(path), std::filesystem::directory_iterator()));
    }
    std::string path;
};

inline void write_bytes(const std::string &path, const std::string &bytes) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::filesystem::remove(path); // a file system may flush to the disk what replaces an older content
    std::ofstream(path, std::ios::binary).write(bytes.data(), std::streamsize(bytes.size()));
}

inline std::string read_bytes(const std::string &path) {
    std::ifstream stream(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(stream), {});
}

// Values one after the other, as they lie in memory.
class Bytes {
  public:
    template <typename T>
    Bytes &put(T value) {
        text.append(reinterpret_cast<const char *>(&value), sizeof value);
        return *this;
    }
    Bytes &put(const std::string &value) {
        text += value;
        return *this;
    }
    std::string text;
};

inline bool contains(const fault &why, const std::string &part) {
    return strstr(why.text, part.c_str()) != nullptr;
}

// `load(why)` reads the file at `path`, which is replaced by each of its proper beginnings: every one must be
// refused, with a message that names the file and a byte.
template <typename Load>
void refuses_every_beginning(const std::string &path, Load load) {
    const std::string whole = read_bytes(path);
    fault why;
    ASSERT_TRUE(load(&why)) << why.text;
    for (size_t size = 0; size < whole.size(); size++) {
        write_bytes(path, whole.substr(0, size));
        why.text[0] = '\0';
        ASSERT_FALSE(load(&why)) << "read the first " << size << " of " << whole.size() << " bytes";
        ASSERT_TRUE(contains(why, path) && contains(why, "byte")) << size << ": " << why.text;
    }
    write_bytes(path, whole);
}

#endif
