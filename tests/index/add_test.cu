// SPDX-License-Identifier: MIT
// ix_add: every way and type against sums in double precision; determinism; what is left out; bad arguments.
#include "../library/numbers.cuh"
#include "device_vector.h"

#include <gtest/gtest.h>
#include <distwar_index.h>
#include <algorithm>
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

// Rows of these arrays.
template <typename T, typename Index>
ix_rows rows_of(int64_t rows, int64_t width, const device_vector<Index> &index, int64_t count,
                const T *source, void *out, const device_vector<uint32_t> &report) {
    ix_rows made = {};
    made.count = count, made.width = width, made.rows = rows, made.skipped = -1;
    made.index = index.data(), made.index_bytes = sizeof(Index), made.type = type_of<T>;
    made.source = source, made.out = out, made.report = report.data();
    return made;
}
void add_rows(ix_rows rows) {
    size_t bytes = 0;
    EXPECT_EQ(ix_add_bytes(&rows, &bytes), IX_OK) << ix_last_error();
    const device_vector<char> workspace(bytes);
    rows.workspace = workspace.data(), rows.workspace_bytes = bytes;
    EXPECT_EQ(ix_add(&rows, nullptr), IX_OK) << ix_last_error();
}

struct options {
    ix_way way = IX_CHOSEN;
    int64_t skipped = -1;
    size_t offset = 0;
};

// out holds T, or float.
template <typename Out, typename T, typename Index>
std::vector<Out> add_to(const problem<T, Index> &given, const options &options, uint32_t *report = nullptr) {
    std::vector<Out> start(given.start.size());
    for (size_t k = 0; k < start.size(); k++) start[k] = stored<Out>(number(given.start[k]));
    // The arrays begin `offset` values behind an aligned address, with as many values behind them.
    const std::vector<Out> gap(options.offset, stored<Out>(0));
    std::vector<T> values(options.offset, stored<T>(0));
    values.insert(values.end(), given.source.begin(), given.source.end());
    start.insert(start.begin(), gap.begin(), gap.end());
    start.insert(start.end(), gap.begin(), gap.end());
    const device_vector<T> source(values);
    const device_vector<Out> out(start);
    const device_vector<Index> index(given.index);
    const device_vector<uint32_t> reported(std::vector<uint32_t>(1));
    ix_rows rows = rows_of(given.rows, given.width, index, int64_t(given.index.size()),
                           source.data() + options.offset, out.data() + options.offset, reported);
    rows.skipped = options.skipped;
    rows.way = options.way;
    rows.float_sums = sizeof(Out) == 4;
    add_rows(rows);
    if (report) *report = reported.read()[0];
    std::vector<Out> found = out.read();
    for (size_t i = 0; i < options.offset; i++) {
        EXPECT_EQ(number(found[i]), 0) << "written before the array";
        EXPECT_EQ(number(found[found.size() - 1 - i]), 0) << "written behind the array";
    }
    return {found.begin() + int64_t(options.offset), found.end() - int64_t(options.offset)};
}

template <typename T, typename Index>
std::vector<T> add(const problem<T, Index> &given, const options &options, uint32_t *report = nullptr) {
    return add_to<T>(given, options, report);
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
    bool is_fixed() const { return GetParam() == IX_FIXED || GetParam() >= IX_SORTED_FIXED; }
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
            uint32_t report = 0;
            EXPECT_LT(error_of(given, add_to<Out>(given, {way, -1, offset}, &report)), tolerance<Out>)
                << s.count << " x " << s.width << " into " << s.rows << ", offset " << offset;
            EXPECT_EQ(report, 0u);
        }
}

TEST_P(IndexSums, AreThoseOfDoublePrecision) {
    check_shapes<float, int32_t>(way);
    check_shapes<__half, int64_t>(way);
    check_shapes<__nv_bfloat16, int64_t>(way);
    if (is_fixed()) return; // sums of 16-bit values in floats are refused
    check_shapes<__half, int32_t, float>(way);
    check_shapes<__nv_bfloat16, int64_t, float>(way);
}

TEST_P(IndexSums, LeaveOutWhatIsSkippedOrOutOfRange) {
    auto given = make<float, int64_t>(400, 20, 12, 0.3);
    uint32_t report = 1;
    EXPECT_LT(error_of(given, add(given, {way, 3}, &report), 3), tolerance<float>);
    EXPECT_EQ(report, 0u);
    const int64_t outside[] = {20, -1, -2, int64_t{1} << 40, INT64_MIN};
    for (const int64_t row : outside) {
        given.index[7] = row;
        for (const int64_t skipped : {3, -1}) {
            EXPECT_LT(error_of(given, add(given, {way, skipped}, &report), skipped), tolerance<float>);
            EXPECT_EQ(report, 1u) << row;
        }
    }
}

TEST_P(IndexSums, OfFixedPointHoldTheRangeOfFloats) {
    if (!is_fixed()) GTEST_SKIP() << "not a deterministic way";
    for (const float size : {3e38f, 1.0f, 1e-38f, 1e-42f}) {
        auto given = make<float, int32_t>(500, 4, 4, 0.2);
        for (float &value : given.source) value *= size / 500;
        for (float &value : given.start) value = 0;
        EXPECT_LT(error_of(given, add(given, {way})), size < 1e-37f ? 1e-3 : 1e-6) << size;
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
}

TEST(IndexSumsOfDoubles, AreExact) {
    const device_vector<int64_t> index(std::vector<int64_t>{1, 0, 1, 1});
    const device_vector<double> source(std::vector<double>{1e15, 3, 0x1p-40, -1e15}),
        out(std::vector<double>(2));
    const device_vector<uint32_t> report(std::vector<uint32_t>(1));
    ix_rows rows = rows_of(2, 1, index, 4, source.data(), out.data(), report);
    rows.deterministic = 1;
    add_rows(rows);
    EXPECT_EQ(out.read(), (std::vector<double>{3, 0x1p-40}));
}

// Minima, maxima and products, of rows that start as `start`; rows that nobody names stay.
template <typename T, typename Index>
void check_reduce(ix_operation operation, bool in_order) {
    for (const shape &s : shapes) {
        auto given = make<T, Index>(s.count, s.rows, s.width, operation == IX_PRODUCT ? 0 : s.hot);
        if (in_order) std::sort(given.index.begin(), given.index.end());
        std::vector<double> expected(given.start.size());
        for (size_t k = 0; k < expected.size(); k++) expected[k] = number(given.start[k]);
        for (size_t i = 0; i < given.index.size(); i++)
            for (int64_t k = 0; k < s.width; k++) {
                T &value = given.source[i * size_t(s.width) + size_t(k)];
                if (operation == IX_PRODUCT) value = stored<T>(0.5 + fabs(fmod(number(value), 1)));
                double &to = expected[size_t(int64_t(given.index[i]) * s.width + k)];
                to = operation == IX_MINIMUM   ? fmin(to, number(value))
                     : operation == IX_MAXIMUM ? fmax(to, number(value))
                                               : to * number(value);
            }
        const device_vector<T> source(given.source), out(given.start);
        const device_vector<Index> index(given.index);
        const device_vector<uint32_t> report(std::vector<uint32_t>(1));
        ix_rows rows = rows_of(s.rows, s.width, index, s.count, source.data(), out.data(), report);
        rows.deterministic = in_order;
        EXPECT_EQ(ix_reduce(&rows, operation, nullptr), IX_OK) << ix_last_error();
        EXPECT_EQ(report.read()[0], 0u);
        const std::vector<T> found = out.read();
        for (size_t k = 0; k < found.size(); k++) // a product is rounded as often as there are factors
            ASSERT_NEAR(number(found[k]), expected[k],
                        operation == IX_PRODUCT
                            ? (1e-30 + fabs(expected[k])) * double(s.count) * tolerance<T> / 4
                            : 0)
                << s.count << " x " << s.width << ", value " << k;
    }
}

TEST(IndexReduce, IsThatOfDoublePrecision) {
    for (const ix_operation operation : {IX_MINIMUM, IX_MAXIMUM, IX_PRODUCT}) {
        check_reduce<float, int32_t>(operation, false);
        check_reduce<__half, int64_t>(operation, false);
        check_reduce<__nv_bfloat16, int32_t>(operation, false);
    }
    check_reduce<float, int64_t>(IX_PRODUCT, true);
}

// Whatever the order of the rows.
TEST(IndexReduce, OrdersZerosAndKeepsNaN) {
    std::vector<float> values = {0.0f, -0.0f, 0.0f, NAN, 1.0f, -2.0f};
    const device_vector<int32_t> index(std::vector<int32_t>{0, 0, 0, 1, 1, 1});
    const device_vector<uint32_t> report(std::vector<uint32_t>(1));
    for (int turn = 0; turn < 3; turn++) {
        for (const ix_operation operation : {IX_MINIMUM, IX_MAXIMUM}) {
            const float limit = operation == IX_MINIMUM ? INFINITY : -INFINITY;
            const device_vector<float> source(values), out(std::vector<float>(3, limit));
            ix_rows rows = rows_of(3, 1, index, 6, source.data(), out.data(), report);
            EXPECT_EQ(ix_reduce(&rows, operation, nullptr), IX_OK) << ix_last_error();
            EXPECT_EQ(report.read()[0], 0u);
            const std::vector<float> found = out.read();
            EXPECT_EQ(found[0], 0);
            EXPECT_EQ(std::signbit(found[0]), operation == IX_MINIMUM);
            EXPECT_TRUE(std::isnan(found[1]));
            EXPECT_EQ(found[2], limit);
            rows.rows = 1; // the others are out of range
            EXPECT_EQ(ix_reduce(&rows, operation, nullptr), IX_OK);
            EXPECT_EQ(report.read()[0], 1u);
            rows.skipped = 1;
            const uint32_t none = 0;
            device_upload(report.data(), &none, sizeof none);
            EXPECT_EQ(ix_reduce(&rows, operation, nullptr), IX_OK);
            EXPECT_EQ(report.read()[0], 0u);
        }
        std::rotate(values.begin(), values.begin() + 1, values.begin() + 3);
        std::rotate(values.begin() + 3, values.begin() + 4, values.end());
    }
    ix_rows rows = {};
    rows.index_bytes = 4, rows.width = 1;
    EXPECT_EQ(ix_reduce(&rows, IX_OPERATIONS, nullptr), IX_INVALID_ARGUMENT);
    EXPECT_EQ(ix_reduce(nullptr, IX_MINIMUM, nullptr), IX_INVALID_ARGUMENT);
    EXPECT_EQ(ix_reduce(&rows, IX_MINIMUM, nullptr), IX_OK);
    rows.width = 0;
    EXPECT_EQ(ix_reduce(&rows, IX_MINIMUM, nullptr), IX_INVALID_ARGUMENT);
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

TEST(IndexSumsRefuse, NoEmptyInput) {
    ix_rows rows = {};
    rows.width = 3, rows.index_bytes = 8;
    size_t bytes = 1;
    EXPECT_EQ(ix_add_bytes(&rows, &bytes), IX_OK);
    EXPECT_EQ(ix_add(&rows, nullptr), IX_OK);
    rows.deterministic = 1;
    EXPECT_EQ(ix_add_bytes(&rows, &bytes), IX_OK);
    EXPECT_EQ(ix_add(&rows, nullptr), IX_OK);
}

INSTANTIATE_TEST_SUITE_P(Ways, IndexSums, testing::Range(0, int(IX_WAYS)),
                         [](const auto &info) { return std::to_string(int(info.param)); });

} // namespace
