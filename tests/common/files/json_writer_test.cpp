// SPDX-License-Identifier: MIT
// JSON as it is written, byte for byte.
#include "files/json_writer.h"
#include "files.h"
#include <cmath>

namespace {

class Json : public testing::Test {
  protected:
    TemporaryFolder folder;
    std::string path = folder / "value.json";
    fault why = {};

    std::string written(void (*describe)(json_writer *, const void *), const void *subject = nullptr) {
        EXPECT_TRUE(json_save(path.c_str(), describe, subject, &why)) << why.text;
        return read_bytes(path);
    }
};

TEST_F(Json, IsNestedAndIndented) {
    const std::string text = written([](json_writer *json, const void *) {
        json_put_text(json, "name", "fox");
        json_begin(json, "views", '[');
        json_put_integer(json, nullptr, -7);
        json_begin(json, nullptr, '{');
        json_put_boolean(json, "seen", true);
        json_end(json, '}');
        json_end(json, ']');
        json_begin(json, "none", '[');
        json_end(json, ']');
        json_begin(json, "nothing", '{');
        json_end(json, '}');
        json_put_integer(json, "most", INT64_MAX);
        const double numbers[] = {0.1, 1e300, -0.0625, INFINITY, NAN};
        json_put_numbers(json, "exact or null", numbers, 5);
        json_put_text(json, "text", nullptr);
        const float halves[] = {0.5f};
        json_put_floats(json, "floats", halves, 1);
        json_put_boolean(json, "last", false);
    });
    EXPECT_EQ(text,
              "{\n  \"name\": \"fox\",\n  \"views\": [\n    -7,\n    {\n      \"seen\": true\n    }\n  ],\n"
              "  \"none\": [],\n  \"nothing\": {},\n  \"most\": 9223372036854775807,\n"
              "  \"exact or null\": [\n    0.1,\n    1e+300,\n    -0.0625,\n    null,\n    null\n  ],\n"
              "  \"text\": null,\n  \"floats\": [\n    0.5\n  ],\n  \"last\": false\n}\n");
    EXPECT_EQ(folder.entries(), 1u);
}

TEST_F(Json, CanBeOneLine) {
    char text[64] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    ASSERT_NE(stream, nullptr);
    json_writer json = {stream, 0, true, true};
    json_begin(&json, nullptr, '{');
    json_put_integer(&json, "a", 1);
    json_begin(&json, "b", '[');
    json_put_boolean(&json, nullptr, true);
    json_put_text(&json, nullptr, "x\ny");
    for (const char end : {']', '}'}) json_end(&json, end);
    fclose(stream);
    EXPECT_STREQ(text, "{\"a\": 1, \"b\": [true, \"x\\u000ay\"]}");
}

TEST_F(Json, TextIsEscapedAndUtf8) {
    const struct {
        const char *text, *expected;
    } cases[] = {
        {"a\"b\\c/d", "a\\\"b\\\\c/d"},
        {"\n\t\x01\x7f", "\\u000a\\u0009\\u0001\\u007f"},
        {"\xc3\xbc \xe2\x82\xac \xf0\x9f\xa6\x8a", "\xc3\xbc \xe2\x82\xac \xf0\x9f\xa6\x8a"},
        {"gr\xfc\xdf", "gr\\ufffd\\ufffd"},                   // Latin-1
        {"\xc3", "\\ufffd"},                                  // cut off
        {"\xe2\x82", "\\ufffd\\ufffd"},                       // cut off
        {"\xc0\xaf", "\\ufffd\\ufffd"},                       // '/' in a longer form than needed
        {"\xed\xa0\x80", "\\ufffd\\ufffd\\ufffd"},            // a surrogate
        {"\xf4\x90\x80\x80", "\\ufffd\\ufffd\\ufffd\\ufffd"}, // beyond U+10FFFF
        {"\xff\x80", "\\ufffd\\ufffd"},
    };
    for (const auto &c : cases) {
        const auto put = [](json_writer *json, const void *text) {
            json_put_text(json, "text", static_cast<const char *>(text));
        };
        EXPECT_EQ(written(put, c.text), std::string("{\n  \"text\": \"") + c.expected + "\"\n}\n");
    }
}

} // namespace
