// SPDX-License-Identifier: MIT
// What can be said of an HTML page without a browser.
#ifndef PAGE_H
#define PAGE_H

#include <gtest/gtest.h>
#include <cctype>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

// A page that must be well-formed XML; what is not fails the test, with its place.
class page {
    const std::string &text;
    size_t at = 0;
    bool broken = false;

    bool next_is(const char *what) const { return text.compare(at, strlen(what), what) == 0; }
    void expect(bool good, const char *what) {
        if (good || broken) return;
        broken = true;
        ADD_FAILURE() << what << " at byte " << at << ": " << text.substr(at > 40 ? at - 40 : 0, 100);
    }
    std::string name() {
        const size_t begin = at;
        while (at < text.size() && (isalnum(static_cast<unsigned char>(text[at])) || strchr("-_:", text[at])))
            at++;
        expect(at > begin, "no name");
        return text.substr(begin, at - begin);
    }
    void entity() {
        for (const char *known : {"&amp;", "&lt;", "&gt;", "&quot;"})
            if (next_is(known)) {
                at += strlen(known);
                return;
            }
        expect(false, "a bare &");
        at++;
    }
    void blanks() {
        while (at < text.size() && isspace(static_cast<unsigned char>(text[at]))) at++;
    }
    std::string quoted() {
        expect(next_is("\""), "no quote");
        const size_t begin = ++at;
        while (!broken && at < text.size() && text[at] != '"') {
            expect(text[at] != '<', "< in an attribute");
            if (text[at] == '&')
                entity();
            else
                at++;
        }
        return text.substr(begin, at++ - begin);
    }
    void attributes(const std::string &tag) {
        std::set<std::string> seen;
        for (blanks(); !broken && at < text.size() && text[at] != '>' && text[at] != '/'; blanks()) {
            const std::string key = name();
            expect(next_is("="), "no =");
            at++;
            expect(seen.insert(key).second, "an attribute twice");
            values[tag + " " + key].push_back(quoted());
        }
    }

  public:
    std::map<std::string, std::vector<std::string>> values; // by "tag attribute", in order
    std::map<std::string, int> tags;

    explicit page(const std::string &whole) : text(whole) {
        const char doctype[] = "<!DOCTYPE html>\n";
        expect(next_is(doctype), "no doctype");
        at = strlen(doctype);
        std::vector<std::string> open;
        while (!broken && at < text.size()) {
            if (text[at] == '&')
                entity();
            else if (next_is("</")) {
                at += 2;
                const std::string tag = name();
                expect(!open.empty() && open.back() == tag, "closes another tag");
                if (!broken) open.pop_back();
                expect(next_is(">"), "no >");
                at++;
            } else if (text[at] == '<') {
                at++;
                const std::string tag = name();
                tags[tag]++;
                attributes(tag);
                const bool closed = next_is("/");
                at += closed;
                expect(next_is(">"), "no >");
                at++;
                if (!closed) open.push_back(tag);
            } else
                at++;
        }
        expect(open.empty(), "something stays open");
    }
};

inline std::string from_base64(const std::string &text) {
    std::string bytes;
    uint32_t group = 0;
    int bits = 0;
    for (char c : text) {
        const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        if (c == '=') break;
        const char *digit = strchr(digits, c);
        EXPECT_TRUE(c && digit) << "'" << c << "' in base64";
        if (!c || !digit) break;
        group = group << 6 | uint32_t(digit - digits);
        if ((bits += 6) >= 8) bytes.push_back(char(group >> (bits -= 8) & 255));
    }
    return bytes;
}

#endif
