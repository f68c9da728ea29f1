// SPDX-License-Identifier: MIT
// ix_add: every way and type against sums in double precision, at any address; what is left out; bad arguments. Shapes, ways
// and bits are those of sums_by_key: tests/library/sums_by_key.cu.
#include "../library/numbers.cuh"
#include "device_vector.h"

#include <gtest/gtest.h>
#include <distwar_index.h>
#include <math.h>
#include <random>
#include <string>

namespace {

template <typename T>
constexpr ix_type type_of = std::is_same_v<T, float>    ? IX_FLOAT32
                            : std::is_same_v<T, double> ? IX_FLOAT64
                            : std::is_same_v<T, __half> ? IX_FLOAT16
                                                        : IX_BFLOAT16;

// Half of the largest error of a rounding to T, and some for sums.
template <typename T>
constexpr double tolerance = sizeof(T) == 4             ? 1e-6
                             : type_of<T> == IX_FLOAT16 ? 1e-2
                                                        : 8e-2;

// Random rows and a call that adds them. The device's arrays of values begin `offset` values behind an aligned address, and
// as many lie behind out.
template <typename T, typename Index, typename Out = T>
struct rows_to_add {
    size_t offset;
    std::vector<Index> index;
    std::vector<T> source;
    std::vector<Out> out; // after add() what it left
    ix_rows rows = {};
    uint32_t report = 0;

    // Entry i names row 0 with probability `hot`, else any row.
    rows_to_add(ix_way way, int64_t count, int64_t keys, int64_t width, double hot, size_t its_offset = 0)
        : offset(its_offset), index(count), source(offset + count * width), out(2 * offset + keys * width) {
        std::mt19937 random(1);
        std::normal_distribution<float> normal;
        for (auto &row : index) row = Index(random() < hot * 4294967296.0 ? 0 : random() % keys);
        for (auto &value : source) value = stored<T>(normal(random));
        for (auto &value : out) value = stored<Out>(normal(random));
        rows.count = count, rows.width = width, rows.rows = keys, rows.skipped = -1, rows.way = way;
        rows.type = type_of<T>, rows.index_bytes = sizeof(Index), rows.float_sums = sizeof(Out) == 4;
    }
    // Returns |out - expected| over the sum of the absolute values that were added.
    double add() {
        const std::vector<Out> start = out;
        std::vector<double> expected(out.size()), size(out.size());
        for (size_t k = 0; k < out.size(); k++) size[k] = fabs(expected[k] = number(start[k]));
        for (size_t i = 0; i < index.size(); i++) {
            const int64_t row = int64_t(index[i]);
            if (row < 0 || row >= rows.rows || row == rows.skipped) continue;
            for (int64_t k = 0; k < rows.width; k++) {
                const double value = number(source[offset + i * rows.width + k]);
                expected[offset + row * rows.width + k] += value;
                size[offset + row * rows.width + k] += fabs(value);
            }
        }
        const device_vector<Index> on_index(index);
        const device_vector<T> on_source(source);
        const device_vector<Out> on_out(out);
        const device_vector<uint32_t> on_report(std::vector<uint32_t>(1));
        rows.index = on_index.data(), rows.report = on_report.data();
        rows.source = on_source.data() + offset, rows.out = on_out.data() + offset;
        EXPECT_EQ(ix_add_bytes(&rows, &rows.workspace_bytes), IX_OK) << ix_last_error();
        const device_vector<char> workspace(rows.workspace_bytes);
        rows.workspace = workspace.data();
        EXPECT_EQ(ix_add(&rows, nullptr), IX_OK) << ix_last_error();
        out = on_out.read(), report = on_report.read()[0];
        double error = 0, total = 0;
        for (size_t k = 0; k < out.size(); k++) {
            if (k >= offset && k < out.size() - offset)
                error += pow(number(out[k]) - expected[k], 2), total += pow(size[k], 2);
            else
                EXPECT_EQ(number(out[k]), number(start[k])) << "written outside of the array";
        }
        return sqrt(error / total);
    }
};

class IndexSums : public testing::TestWithParam<int> {
  protected:
    const ix_way way = ix_way(GetParam());
};

template <typename T, typename Index, typename Out = T>
void check_shapes(ix_way way) {
    const struct {
        int64_t count, rows, width;
        double hot;
    } shapes[] = {{1, 1, 1, 0},          {300, 7, 1, 0},     {3000, 200, 1, 0.5}, {1100, 90, 2, 0.1},
                  {700, 50, 3, 0.4},     {900, 40, 4, 0.3},  {500, 30, 8, 0.6},   {400, 300, 9, 0},
                  {2500, 60000, 4, 0.1}, {600, 20, 16, 0.9}, {130, 10, 100, 0.3}, {70, 9, 256, 0.5}};
    for (const auto &s : shapes)
        for (const size_t offset : {0, 1, 3}) {
            rows_to_add<T, Index, Out> given(way, s.count, s.rows, s.width, s.hot, offset);
            EXPECT_LT(given.add(), tolerance<Out>)
                << s.count << " x " << s.width << " into " << s.rows << ", offset " << offset;
            EXPECT_EQ(given.report, 0u);
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
    for (const int64_t row : {int64_t(1), int64_t(20), int64_t(-1), int64_t(-2), int64_t(1) << 40, INT64_MIN})
        for (const int64_t skipped : {3, -1}) {
            rows_to_add<float, int64_t> given(way, 400, 20, 12, 0.3);
            given.index[7] = row, given.rows.skipped = skipped;
            EXPECT_LT(given.add(), tolerance<float>) << row;
            EXPECT_EQ(given.report, row == 1 ? 0u : 1u) << row;
        }
}

TEST(IndexSumsOfFixedPoint, HoldTheRangeOfFloats) {
    for (const float size : {3e38f, 1.0f, 1e-38f, 1e-42f})
        for (const ix_way way : {IX_FIXED, IX_SORTED_FIXED, IX_EXACT}) {
            rows_to_add<float, int32_t> given(way, 500, 4, 4, 0.2);
            for (float &value : given.source) value *= size / 500;
            for (float &value : given.out) value = 0;
            EXPECT_LT(given.add(), size < 1e-37f ? 1e-3 : 1e-6) << size << ", " << way;
        }
}

// SumsByKey.RefuseBadArguments has more of those that the header refuses.
TEST(IndexSumsRefuse, BadArguments) {
    const device_vector<float> values(std::vector<float>(64));
    const device_vector<int32_t> index(std::vector<int32_t>(4));
    const auto refused = [&](const char *text, auto change) {
        ix_rows rows = {};
        rows.count = 4, rows.width = 4, rows.rows = 8, rows.skipped = -1;
        rows.index = index.data(), rows.index_bytes = 4, rows.source = rows.out = values.data();
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
    ix_rows empty = {}; // is not refused
    size_t bytes = 1;
    EXPECT_EQ(ix_add_bytes(&empty, nullptr), IX_INVALID_ARGUMENT);
    empty.width = 3, empty.index_bytes = 8;
    for (empty.deterministic = 0; empty.deterministic < 2; empty.deterministic++) {
        EXPECT_EQ(ix_add_bytes(&empty, &bytes), IX_OK);
        EXPECT_EQ(ix_add(&empty, nullptr), IX_OK);
    }
}

TEST(IndexSumsOfDoubles, AreExact) {
    rows_to_add<double, int64_t> given(IX_CHOSEN, 4, 2, 1, 0);
    given.index = {1, 0, 1, 1}, given.source = {1e15, 3, 0x1p-40, -1e15}, given.out = {0, 0};
    given.rows.deterministic = 1;
    given.add();
    EXPECT_EQ(given.out, (std::vector<double>{3, 0x1p-40}));
}

TEST(IndexHistogram, Counts) {
    const device_vector<int64_t> key(std::vector<int64_t>{1, 0, 1, 7});
    const device_vector<uint64_t> counts(std::vector<uint64_t>(3));
    const device_vector<uint32_t> report(std::vector<uint32_t>(1));
    const ix_keys keys = {4, 3, key.data(), 8, counts.data(), report.data()};
    EXPECT_EQ(ix_histogram(&keys, nullptr), IX_OK) << ix_last_error();
    EXPECT_EQ(counts.read(), (std::vector<uint64_t>{1, 2, 0}));
    EXPECT_EQ(report.read()[0], 1u);
    ix_keys wrong[] = {keys, keys};
    wrong[0].key_bytes = 2, wrong[1].bins = -1;
    for (const ix_keys &one : wrong) EXPECT_EQ(ix_histogram(&one, nullptr), IX_INVALID_ARGUMENT);
}

INSTANTIATE_TEST_SUITE_P(Ways, IndexSums, testing::Range(0, int(IX_WAYS)),
                         [](const auto &info) { return std::to_string(int(info.param)); });

} // namespace
