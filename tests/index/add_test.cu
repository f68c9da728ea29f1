// SPDX-License-Identifier: MIT
// ix_add: every way and type against sums in double precision; determinism; what is left out; bad arguments.
#include "../library/numbers.cuh"
#include "device_vector.h"

#include <gtest/gtest.h>
#include <distwar_index.h>
#include <math.h>
#include <random>
#include <string>

namespace {

template <typename T>
constexpr ix_type type_of = IX_FLOAT32;
template <>
constexpr ix_type type_of<double> = IX_FLOAT64;
template <>
constexpr ix_type type_of<__half> = IX_FLOAT16;
template <>
constexpr ix_type type_of<__nv_bfloat16> = IX_BFLOAT16;

// Half of the largest error of a rounding to T, and some for sums.
template <typename T>
constexpr double tolerance = sizeof(T) == 4             ? 1e-6
                             : type_of<T> == IX_FLOAT16 ? 1e-2
                                                        : 8e-2;

template <typename T, typename Index>
struct problem {
    int64_t rows, width;
    std::vector<Index> index;
    std::vector<T> source, start;
};

// Entry i names row 0 with probability `hot`, else any row.
template <typename T, typename Index>
problem<T, Index> make(int64_t count, int64_t rows, int64_t width, double hot, unsigned seed = 1) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    problem<T, Index> made{rows, width, std::vector<Index>(count), std::vector<T>(count * width),
                           std::vector<T>(rows * width)};
    for (auto &row : made.index) row = Index(random() < hot * 4294967296.0 ? 0 : random() % rows);
    for (auto &value : made.source) value = stored<T>(normal(random));
    for (auto &value : made.start) value = stored<T>(normal(random));
    return made;
}

// The arrays of a call on the device, which begin `offset` values behind an aligned address; out has as many behind it. It
// holds T, or float.
template <typename T, typename Index, typename Out = T>
struct arrays {
    size_t offset;
    device_vector<Index> index;
    device_vector<T> source;
    device_vector<Out> out;
    device_vector<uint32_t> report{std::vector<uint32_t>(1)};
    ix_rows rows = {};

    static std::vector<T> behind(size_t offset, const std::vector<T> &values) {
        std::vector<T> all(offset, stored<T>(0));
        all.insert(all.end(), values.begin(), values.end());
        return all;
    }
    static std::vector<Out> between(size_t offset, const std::vector<T> &values) {
        std::vector<Out> all(values.size() + 2 * offset, stored<Out>(0));
        for (size_t k = 0; k < values.size(); k++) all[offset + k] = stored<Out>(number(values[k]));
        return all;
    }
    explicit arrays(const problem<T, Index> &given, size_t its_offset = 0)
        : offset(its_offset), index(given.index), source(behind(offset, given.source)),
          out(between(offset, given.start)) {
        rows.count = int64_t(given.index.size()), rows.width = given.width, rows.rows = given.rows;
        rows.index = index.data(), rows.index_bytes = sizeof(Index), rows.type = type_of<T>;
        rows.source = source.data() + offset, rows.out = out.data() + offset;
        rows.report = report.data(), rows.skipped = -1, rows.float_sums = sizeof(Out) == 4;
    }
    void add() {
        size_t bytes = 0;
        EXPECT_EQ(ix_add_bytes(&rows, &bytes), IX_OK) << ix_last_error();
        const device_vector<char> workspace(bytes);
        rows.workspace = workspace.data(), rows.workspace_bytes = bytes;
        EXPECT_EQ(ix_add(&rows, nullptr), IX_OK) << ix_last_error();
    }
    std::vector<Out> read() const {
        const std::vector<Out> found = out.read();
        for (size_t i = 0; i < offset; i++) {
            EXPECT_EQ(number(found[i]), 0) << "written before the array";
            EXPECT_EQ(number(found[found.size() - 1 - i]), 0) << "written behind the array";
        }
        return {found.begin() + int64_t(offset), found.end() - int64_t(offset)};
    }
    uint32_t reported() const { return report.read()[0]; }
};

template <typename T, typename Index>
std::vector<T> add(const problem<T, Index> &given, ix_way way, int64_t skipped = -1,
                   uint32_t *report = nullptr) {
    arrays<T, Index> on(given);
    on.rows.way = way, on.rows.skipped = skipped;
    on.add();
    if (report) *report = on.reported();
    return on.read();
}

// |out - expected| over the sum of the absolute values that were added.
template <typename T, typename Index, typename Out>
double error_of(const problem<T, Index> &given, const std::vector<Out> &out, int64_t skipped = -1) {
    std::vector<double> expected(given.start.size()), size(given.start.size());
    for (size_t k = 0; k < expected.size(); k++) size[k] = fabs(expected[k] = number(given.start[k]));
    for (size_t i = 0; i < given.index.size(); i++) {
        const int64_t row = int64_t(given.index[i]);
        if (row < 0 || row >= given.rows || row == skipped) continue;
        for (int64_t k = 0; k < given.width; k++) {
            const double value = number(given.source[i * given.width + k]);
            expected[row * given.width + k] += value;
            size[row * given.width + k] += fabs(value);
        }
    }
    double error = 0, total = 0;
    for (size_t k = 0; k < expected.size(); k++) {
        error += pow(number(out[k]) - expected[k], 2);
        total += pow(size[k], 2);
    }
    return sqrt(error / total);
}

class IndexSums : public testing::TestWithParam<int> {
  protected:
    const ix_way way = ix_way(GetParam());
};

struct shape {
    int64_t count, rows, width;
    double hot;
};
const shape shapes[] = {{1, 1, 1, 0},          {300, 7, 1, 0},     {3000, 200, 1, 0.5}, {1100, 90, 2, 0.1},
                        {700, 50, 3, 0.4},     {900, 40, 4, 0.3},  {500, 30, 8, 0.6},   {400, 300, 9, 0},
                        {2500, 60000, 4, 0.1}, {600, 20, 16, 0.9}, {130, 10, 100, 0.3}, {70, 9, 256, 0.5}};

template <typename T, typename Index, typename Out = T>
void check_shapes(ix_way way) {
    for (const shape &s : shapes)
        for (const size_t offset : {0, 1, 3}) {
            const auto given = make<T, Index>(s.count, s.rows, s.width, s.hot);
            arrays<T, Index, Out> on(given, offset);
            on.rows.way = way;
            on.add();
            EXPECT_LT(error_of(given, on.read()), tolerance<Out>)
                << s.count << " x " << s.width << " into " << s.rows << ", offset " << offset;
            EXPECT_EQ(on.reported(), 0u);
        }
}

TEST_P(IndexSums, AreThoseOfDoublePrecision) {
    check_shapes<float, int32_t>(way);
    check_shapes<__half, int64_t>(way);
    check_shapes<__nv_bfloat16, int64_t>(way);
    if (way == IX_FIXED || way >= IX_SORTED_FIXED) return; // sums of 16-bit values in floats are refused
    check_shapes<__half, int32_t, float>(way);
    check_shapes<__nv_bfloat16, int64_t, float>(way);
}

TEST_P(IndexSums, LeaveOutWhatIsSkippedOrOutOfRange) {
    auto given = make<float, int64_t>(400, 20, 12, 0.3);
    uint32_t report = 1;
    EXPECT_LT(error_of(given, add(given, way, 3, &report), 3), tolerance<float>);
    EXPECT_EQ(report, 0u);
    const int64_t outside[] = {20, -1, -2, int64_t{1} << 40, INT64_MIN};
    for (const int64_t row : outside) {
        given.index[7] = row;
        for (const int64_t skipped : {3, -1}) {
            EXPECT_LT(error_of(given, add(given, way, skipped, &report), skipped), tolerance<float>);
            EXPECT_EQ(report, 1u) << row;
        }
    }
}

TEST(IndexSumsOfFixedPoint, HoldTheRangeOfFloats) {
    for (const float size : {3e38f, 1.0f, 1e-38f, 1e-42f}) {
        auto given = make<float, int32_t>(500, 4, 4, 0.2);
        for (float &value : given.source) value *= size / 500;
        for (float &value : given.start) value = 0;
        for (const ix_way way : {IX_FIXED, IX_SORTED_FIXED, IX_EXACT})
            EXPECT_LT(error_of(given, add(given, way)), size < 1e-37f ? 1e-3 : 1e-6) << size << ", " << way;
    }
}

// SumsByKey.RefuseBadArguments has more of those that the header refuses.
TEST(IndexSumsRefuse, BadArguments) {
    const device_vector<float> values(std::vector<float>(64));
    const device_vector<int32_t> index(std::vector<int32_t>(4));
    ix_rows good = {};
    good.count = 4, good.width = 4, good.rows = 8;
    good.index = index.data(), good.index_bytes = 4;
    good.source = good.out = values.data();
    good.skipped = -1;
    const auto refused = [&](const char *text, auto change) {
        ix_rows rows = good;
        change(rows);
        EXPECT_EQ(ix_add(&rows, nullptr), IX_INVALID_ARGUMENT) << text;
        EXPECT_NE(std::string(ix_last_error()).find(text), std::string::npos) << ix_last_error();
    };
    refused("count", [](ix_rows &rows) { rows.count = -1; });
    refused("index_bytes", [](ix_rows &rows) { rows.index_bytes = 2; });
    refused("type", [](ix_rows &rows) { rows.type = IX_TYPES; });
    refused("way", [](ix_rows &rows) { rows.way = IX_WAYS; });
    refused("index", [](ix_rows &rows) { rows.index = nullptr; });
    refused("workspace", [](ix_rows &rows) { rows.deterministic = 1; });
    refused("sorted", [](ix_rows &rows) { rows.way = IX_SORTED, rows.rows = int64_t{1} << 32; });
    const auto half = [](ix_rows &rows) { rows.type = IX_FLOAT16, rows.float_sums = 1; };
    refused("float_sums", [&](ix_rows &rows) { half(rows), rows.deterministic = 1; });
    refused("float_sums", [&](ix_rows &rows) { half(rows), rows.way = IX_FIXED; });
    refused("float_sums", [&](ix_rows &rows) { half(rows), rows.way = IX_SORTED_FIXED; });
    refused("aligned", [&](ix_rows &rows) { half(rows), rows.out = static_cast<char *>(rows.out) + 2; });
    EXPECT_EQ(ix_add(nullptr, nullptr), IX_INVALID_ARGUMENT);
    EXPECT_EQ(ix_add_bytes(&good, nullptr), IX_INVALID_ARGUMENT);
    ix_rows empty = {}; // is not refused
    size_t bytes = 1;
    empty.width = 3, empty.index_bytes = 8;
    for (empty.deterministic = 0; empty.deterministic < 2; empty.deterministic++) {
        EXPECT_EQ(ix_add_bytes(&empty, &bytes), IX_OK);
        EXPECT_EQ(ix_add(&empty, nullptr), IX_OK);
    }
}

TEST(IndexSumsOfDoubles, AreExact) {
    arrays<double, int64_t> on({2, 1, {1, 0, 1, 1}, {1e15, 3, 0x1p-40, -1e15}, {0, 0}});
    on.rows.deterministic = 1;
    on.add();
    EXPECT_EQ(on.read(), (std::vector<double>{3, 0x1p-40}));
}

TEST(IndexHistogram, Counts) {
    const device_vector<int64_t> key(std::vector<int64_t>{1, 0, 1, 7});
    const device_vector<uint64_t> counts(std::vector<uint64_t>(3));
    const device_vector<uint32_t> report(std::vector<uint32_t>(1));
    ix_keys keys = {4, 3, key.data(), 8, counts.data(), report.data()};
    EXPECT_EQ(ix_histogram(&keys, nullptr), IX_OK) << ix_last_error();
    EXPECT_EQ(counts.read(), (std::vector<uint64_t>{1, 2, 0}));
    EXPECT_EQ(report.read()[0], 1u);
    keys.key_bytes = 2;
    EXPECT_EQ(ix_histogram(&keys, nullptr), IX_INVALID_ARGUMENT);
    keys.key_bytes = 8, keys.bins = -1;
    EXPECT_EQ(ix_histogram(&keys, nullptr), IX_INVALID_ARGUMENT);
}

INSTANTIATE_TEST_SUITE_P(Ways, IndexSums, testing::Range(0, int(IX_WAYS)),
                         [](const auto &info) { return std::to_string(int(info.param)); });

} // namespace
