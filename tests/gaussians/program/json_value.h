// SPDX-License-Identifier: MIT
// JSON as a program wrote it.
#ifndef JSON_VALUE_H
#define JSON_VALUE_H

#include <gtest/gtest.h>
#include <jansson.h>
#include <cmath>
#include <memory>
#include <string>

// A parsed JSON value; fails the test where something is not as asked for.
class json {
    std::shared_ptr<json_t> root; // owns
    json_t *value;
    json(std::shared_ptr<json_t> owner, json_t *part) : root(std::move(owner)), value(part) {}

  public:
    explicit json(const std::string &text) {
        json_error_t error = {};
        root.reset(json_loads(text.c_str(), JSON_REJECT_DUPLICATES, &error),
                   [](json_t *whole) { json_decref(whole); });
        value = root.get();
        EXPECT_NE(value, nullptr) << error.text << " in line " << error.line << " of:\n" << text;
    }
    json operator[](const char *key) const {
        json_t *part = json_object_get(value, key);
        EXPECT_NE(part, nullptr) << "no '" << key << "'";
        return {root, part};
    }
    json at(size_t index) const {
        json_t *part = json_array_get(value, index);
        EXPECT_NE(part, nullptr) << "no element " << index;
        return {root, part};
    }
    bool has(const char *key) const { return json_object_get(value, key) != nullptr; }
    size_t size() const { return json_array_size(value); }
    bool null() const { return json_is_null(value); }
    bool is(bool expected) const { return expected ? json_is_true(value) : json_is_false(value); }
    double number() const {
        EXPECT_TRUE(json_is_number(value));
        return json_is_number(value) ? json_number_value(value) : NAN;
    }
    std::string text() const {
        EXPECT_TRUE(json_is_string(value));
        return json_is_string(value) ? json_string_value(value) : "";
    }
};

#endif
