// SPDX-License-Identifier: MIT
// Fixed-point sums: the same bits in every run, within the stated error, never a silent overflow or NaN.

#include "calls.cuh"
#include <distwar/fixed.cuh>
#include <set>

using distwar::fixed_format;

namespace {

enum { SOME_KEYS = 5, K = 3, STRIDE = stride_of(K), PLACES = places_of(K) };

// What thread t of `threads` does: key, K values, whether it is active.
template <typename T>
struct contribution {
    int key;
    bool active;
    T value[K];
};

template <sink_kind Kind, int Log2Adds, typename T>
__global__ void add_fixed(const contribution<T> *contributions, unsigned lanes, long long *sums,
                          fixed_format<K, T, Log2Adds> format, int threshold) {
    if (!(lanes >> threadIdx.x % 32 & 1)) return;
    const contribution<T> &mine = contributions[blockIdx.x * blockDim.x + threadIdx.x];
    const int key = mine.active ? mine.key : -1;
    distwar::reduce_fixed(lanes, mine.active, key, mine.value,
                          sink_of<Kind, K, distwar::add, distwar::scope::device>(sums, K, key, mine.active),
                          format, threshold);
}

template <typename T>
struct fixed_sums {
    std::vector<long long> sums;
    unsigned flags;
};
template <typename T, int Log2Adds = 24>
fixed_sums<T> sum(const std::vector<contribution<T>> &contributions, const T (&scale)[K], int block,
                  sink_kind sink = RECORD, unsigned lanes = distwar::all_lanes, int threshold = 0) {
    const device_array<contribution<T>> device(contributions);
    const device_array<long long> sums(PLACES, {});
    const device_array<unsigned> flag(1, {});
    fixed_format<K, T, Log2Adds> format = {};
    for (int k = 0; k < K; ++k) format.scale[k] = scale[k];
    format.flag = flag.get();
    const auto kernel = sink == POINTERS ? add_fixed<POINTERS, Log2Adds, T>
                        : sink == RECORD ? add_fixed<RECORD, Log2Adds, T>
                                         : add_fixed<PLANES, Log2Adds, T>;
    run(unsigned(contributions.size()) / block, block, kernel, device.get(), lanes, sums.get(), format,
        threshold);
    return {sums.download(), flag.download()[0]};
}

// Values of both signs over eight decades, whose sums nearly cancel.
template <typename T>
std::vector<contribution<T>> hostile(int threads, unsigned seed, bool one_key_a_warp) {
    draw random(seed);
    std::vector<contribution<T>> result;
    for (int t = 0; t < threads; ++t) {
        contribution<T> c = {};
        c.key = one_key_a_warp ? t / 32 % SOME_KEYS : int(random.below(SOME_KEYS));
        c.active = random.below(4) != 0;
        for (T &value : c.value)
            value = c.active ? T((random.below(2) ? 1 : -1) * pow(10, random.below(8000) / 1000.0 - 4))
                             : std::numeric_limits<T>::quiet_NaN(); // must not be read
        result.push_back(c);
    }
    return result;
}

const float scales[K] = {0x1p20f, 0x1p12f, 0x1p4f};

TEST(Fixed, AThousandSchedulesGiveOneResult) {
    const std::vector<contribution<float>> contributions = hostile<float>(128, 1, false);
    std::set<std::vector<long long>> results;
    for (unsigned seed = 0; seed < 1000; ++seed) {
        set_schedule(seed);
        const fixed_sums<float> found = sum(contributions, scales, 64, RECORD, distwar::all_lanes, 12);
        results.insert(found.sums);
        ASSERT_EQ(found.flags, 0u);
    }
    EXPECT_EQ(results.size(), 1u);
}

TEST(Fixed, HasTheSameBitsOnEveryGpu) {
    draw random(33);
    std::vector<contribution<float>> contributions(6144);
    for (contribution<float> &one : contributions) {
        one.key = int(random.below(SOME_KEYS)), one.active = random.below(4) != 0;
        for (float &value : one.value) {
            const int drawn = int(random.below(1 << 24)) - (1 << 23);
            value = ldexpf(float(drawn), -20 - int(random.below(30)));
        }
    }
    const float any_scales[K] = {0x1p30f, 0x1p10f, 1e6f};
    EXPECT_EQ(printed_hash("reduce_fixed, float", sum(contributions, any_scales, 96).sums),
              0xfe340abca6f11da1);
}

// Against integers on the host: each active thread is added once, rounded to nearest even. Against exact
// sums: the error of the sums as floats.
template <typename T>
void check_sums(const T (&scale)[K]) {
    draw random(7);
    for (int repetition = 0; repetition < 60; ++repetition) {
        const sink_kind sink = sink_kind(repetition % 3);
        const int block = 32 << random.below(3), threshold = int(random.below(34));
        const unsigned lanes = random.below(2) ? distwar::all_lanes : random.bits_or_one();
        const auto contributions = hostile<T>(block * 3, random.bits(), random.below(2));
        std::vector<long long> expected(PLACES, 0);
        std::vector<long double> exact(PLACES, 0);
        std::vector<int> adds(PLACES, 0);
        for (size_t t = 0; t < contributions.size(); ++t) {
            const contribution<T> &c = contributions[t];
            if (!c.active || !(lanes >> t % 32 & 1)) continue;
            for (int k = 0; k < K; ++k) {
                const int at = place(sink, K, c.key, k);
                expected[at] += (long long)(nearbyint(double(c.value[k]) * double(scale[k])));
                exact[at] += c.value[k];
                adds[at]++;
            }
        }
        set_schedule(repetition);
        const fixed_sums<T> found = sum(contributions, scale, block, sink, lanes, threshold);
        ASSERT_EQ(found.sums, expected) << "repetition " << repetition;
        ASSERT_EQ(found.flags, 0u);
        for (int key = 0; key < SOME_KEYS; ++key)
            for (int k = 0; k < K; ++k) {
                const int at = place(sink, K, key, k);
                const long double result = (long double)(T(found.sums[at])) / scale[k];
                const long double bound = adds[at] / (2.0L * scale[k]);
                EXPECT_LE(fabsl(result - exact[at]),
                          bound + (fabsl(exact[at]) + bound) * std::numeric_limits<T>::epsilon() / 2);
            }
    }
}
TEST(Fixed, SumsExactlyOnceWithinTheErrorBound) {
    check_sums(scales);
    const double scale[K] = {0x1p20, 0x1p12, 0x1p4};
    check_sums(scale);
}

// The limits of a value, and the flag that each raises. One block of 32 threads, one of them with `value`.
template <int Log2Adds, typename T>
void expect_alone(T value, T scale, long long units, unsigned flags) {
    std::vector<contribution<T>> contributions(32, contribution<T>{0, false, {}});
    contributions[13] = {0, true, {value, T(1), value}};
    const T scale_of[K] = {scale, T(2), -scale};
    const fixed_sums<T> found = sum<T, Log2Adds>(contributions, scale_of, 32);
    EXPECT_EQ(found.sums[0], units) << value;
    EXPECT_EQ(found.sums[1], 2);
    EXPECT_EQ(found.sums[2], -units) << value;
    EXPECT_EQ(found.flags, flags) << value;
}
template <typename T>
void check_limits() {
    const T infinity = std::numeric_limits<T>::infinity(), largest = std::numeric_limits<T>::max();
    const unsigned saturated = distwar::fixed_saturated;
    const long long limit = 1ll << 39;
    expect_alone<24, T>(T(0.5), 1, 0, 0); // halves go to even
    expect_alone<24, T>(T(1.5), 1, 2, 0);
    expect_alone<24, T>(T(2.5), 1, 2, 0);
    expect_alone<24, T>(T(-1.5), 1, -2, 0);
    expect_alone<24, T>(T(limit), 1, limit, 0);
    expect_alone<24, T>(T(-limit), 1, -limit, 0);
    expect_alone<24, T>(std::nextafter(T(limit), infinity), 1, limit, saturated);
    expect_alone<24, T>(std::nextafter(T(-limit), -infinity), 1, -limit, saturated);
    expect_alone<24, T>(largest, T(1024), limit, saturated); // the product overflows
    expect_alone<24, T>(infinity, 1, limit, saturated);
    expect_alone<24, T>(-infinity, 1, -limit, saturated);
    expect_alone<24, T>(std::numeric_limits<T>::quiet_NaN(), 1, 0, distwar::fixed_nan);
    expect_alone<24, T>(std::numeric_limits<T>::denorm_min(), 1, 0, 0);
    expect_alone<6, T>(T(0x1p57), 1, 1ll << 57, 0);
    expect_alone<6, T>(T(0x1p58), 1, 1ll << 57, saturated);
    expect_alone<62, T>(T(2), 1, 2, 0);
    expect_alone<62, T>(T(3), 1, 2, saturated);
}
TEST(Fixed, LimitsAndFlags) {
    check_limits<float>();
    check_limits<double>();
}

// The promised number of adds, each saturated, does not overflow.
TEST(Fixed, ThePromisedNumberOfAddsFits) {
    for (const float sign : {1.0f, -1.0f}) {
        std::vector<contribution<float>> contributions(
            64, contribution<float>{1, true, {sign * INFINITY, sign * 1e30f, 0}});
        contributions[40].active = false; // 63 = 2^6 - 1
        for (const int threshold : {0, 33}) {
            const fixed_sums<float> found =
                sum<float, 6>(contributions, scales, 64, RECORD, distwar::all_lanes, threshold);
            EXPECT_EQ(found.sums[STRIDE], (long long)sign * 63 * (1ll << 57));
            EXPECT_EQ(found.sums[STRIDE + 1], (long long)sign * 63 * (1ll << 57));
            EXPECT_EQ(found.flags, unsigned(distwar::fixed_saturated));
        }
    }
}

TEST(Fixed, BothFlagsCanBeRaised) {
    std::vector<contribution<float>> contributions(64, contribution<float>{0, true, {1, 1, 1}});
    contributions[3].value[0] = NAN;
    contributions[50].value[2] = INFINITY;
    EXPECT_EQ(sum(contributions, scales, 32).flags, unsigned(distwar::fixed_nan | distwar::fixed_saturated));
}

} // namespace
