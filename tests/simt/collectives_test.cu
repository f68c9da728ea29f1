// SPDX-License-Identifier: MIT
// The result of each collective, compared with plain loops over the lanes of the mask.
#include "device_array.h"

#include <cstdint>
#include <cstring>

namespace {

const unsigned masks[] = {0xffffffff, 0x0000ffff, 0xffff0000, 0x00000001, 0x80000000,
                          0x80000001, 0x55555555, 0xa5a51234, 0x7ffffffe};

class Collectives : public Simt {};

// ---- shuffles

enum Mode { idx, up, down, bfly };

template <typename T>
__global__ void shuffle(T *out, const T *in, const int *operand, unsigned mask, Mode mode, int width) {
    const unsigned lane = threadIdx.x;
    if (!(mask >> lane & 1)) return;
    const T value = in[lane];
    const int from = operand[lane];
    out[lane] = mode == idx    ? __shfl_sync(mask, value, from, width)
                : mode == up   ? __shfl_up_sync(mask, value, unsigned(from), width)
                : mode == down ? __shfl_down_sync(mask, value, unsigned(from), width)
                               : __shfl_xor_sync(mask, value, from, width);
}

// As in the programming guide: the warp is divided into segments of `width` lanes.
int source(Mode mode, int lane, int operand, int width) {
    const int segment = lane / width * width;
    if (mode == idx) return segment + (operand % width + width) % width;
    const int from = mode == up ? lane - operand : mode == down ? lane + operand : lane ^ operand;
    return mode == up && from < segment ? lane : mode != up && from >= segment + width ? lane : from;
}

template <typename T>
std::vector<T> values() {
    std::vector<T> v;
    for (int lane = 0; lane < 32; lane++) v.push_back(T(T(lane * 3) / T(2) - T(11)));
    return v;
}

template <typename T>
void check_shuffles() {
    const std::vector<T> in = values<T>();
    Device_array<T> device_in(in);
    int checked = 0, partial = 0;
    for (unsigned mask : masks)
        for (Mode mode : {idx, up, down, bfly})
            for (int width : {1, 2, 4, 8, 16, 32})
                for (int step = 0; step < 32; step += step < 4 ? 1 : 7) {
                    std::vector<int> operand(32, step);
                    if (mode == idx) // a different source in each lane
                        for (int lane = 0; lane < 32; lane++) operand[lane] = (lane * step + 5) - 40;
                    bool legal = true;
                    for (int lane = 0; lane < 32; lane++)
                        if (mask >> lane & 1) legal &= mask >> source(mode, lane, operand[lane], width) & 1;
                    if (!legal) continue;
                    Device_array<int> device_operand(operand);
                    Device_array<T> out(32, T(77));
                    ASSERT_EQ(run(1, 32, shuffle<T>, out, device_in, device_operand, mask, mode, width),
                              cudaSuccess);
                    for (int lane = 0; lane < 32; lane++)
                        ASSERT_EQ(out[lane],
                                  mask >> lane & 1 ? in[source(mode, lane, operand[lane], width)] : T(77))
                            << "mask " << mask << " mode " << mode << " width " << width << " step " << step
                            << " lane " << lane;
                    checked++;
                    partial += mask != 0xffffffff;
                }
    EXPECT_GT(checked, 400);
    EXPECT_GT(partial, 200);
}

TEST_F(Collectives, ShuffleOfEveryType) {
    check_shuffles<int>();
    check_shuffles<unsigned>();
    check_shuffles<long>();
    check_shuffles<unsigned long>();
    check_shuffles<long long>();
    check_shuffles<unsigned long long>();
    check_shuffles<float>();
    check_shuffles<double>();
    simt_set_seed(7);
    check_shuffles<float>();
}

// ---- votes

__global__ void votes(unsigned *out, unsigned mask, unsigned set) {
    const unsigned lane = threadIdx.x;
    if (!(mask >> lane & 1)) return;
    // any non-zero value is true
    const int predicate = set >> lane & 1 ? 256 : 0;
    out[lane] = unsigned(__all_sync(mask, predicate));
    out[32 + lane] = unsigned(__any_sync(mask, predicate));
    out[64 + lane] = __ballot_sync(mask, predicate);
}

TEST_F(Collectives, Votes) {
    for (unsigned mask : masks)
        for (unsigned set : {0u, 0xffffffffu, mask, ~mask, 0x00010000u, 0x12345678u}) {
            Device_array<unsigned> out(96, 77u);
            ASSERT_EQ(run(1, 32, votes, out, mask, set), cudaSuccess);
            for (int lane = 0; lane < 32; lane++) {
                const bool in = mask >> lane & 1;
                ASSERT_EQ(out[lane], in ? unsigned((mask & ~set) == 0) : 77);
                ASSERT_EQ(out[32 + lane], in ? unsigned((mask & set) != 0) : 77);
                ASSERT_EQ(out[64 + lane], in ? (mask & set) : 77);
            }
        }
}

// ---- matches

template <typename T>
__global__ void matches(unsigned *out, int *predicate, const T *in, unsigned mask) {
    const unsigned lane = threadIdx.x;
    if (!(mask >> lane & 1)) return;
    out[lane] = __match_any_sync(mask, in[lane]);
    out[32 + lane] = __match_all_sync(mask, in[lane], predicate + lane);
}

template <typename T>
void check_matches() {
    for (unsigned mask : masks)
        for (int distinct : {1, 2, 5, 32}) {
            std::vector<T> in;
            for (int lane = 0; lane < 32; lane++) in.push_back(T(lane * 7 % distinct) - T(2));
            Device_array<T> device_in(in);
            Device_array<unsigned> out(64, 0u);
            Device_array<int> predicate(32, 77);
            ASSERT_EQ(run(1, 32, matches<T>, out, predicate, device_in, mask), cudaSuccess);
            bool all = true;
            for (int lane = 0; lane < 32; lane++) {
                unsigned same = 0;
                for (int other = 0; other < 32; other++)
                    if (mask >> other & 1 && in[other] == in[lane]) same |= 1u << other;
                if (!(mask >> lane & 1)) continue;
                ASSERT_EQ(out[lane], same);
                all &= same == mask;
            }
            for (int lane = 0; lane < 32; lane++) {
                ASSERT_EQ(out[32 + lane], mask >> lane & 1 && all ? mask : 0);
                ASSERT_EQ(predicate[lane], mask >> lane & 1 ? int(all) : 77);
            }
        }
}

TEST_F(Collectives, MatchOfEveryType) {
    check_matches<int>();
    check_matches<unsigned>();
    check_matches<long long>();
    check_matches<unsigned long long>();
    check_matches<float>();
    check_matches<double>();
}

__global__ void match_bits(unsigned *out, const float *in) {
    out[threadIdx.x] = __match_any_sync(0xffffffff, in[threadIdx.x]);
}

TEST_F(Collectives, MatchComparesBits) {
    Device_array<float> in(32, 0.0f);
    in[3] = -0.0f;
    in[4] = in[5] = std::nanf("");
    expect_each(
        1, 32, 32,
        [](int lane) { return lane == 3                ? 0x08u
                              : lane == 4 || lane == 5 ? 0x30u
                                                       : 0xffffffff & ~0x38u; },
        match_bits, in);
}

// ---- reductions

__global__ void reductions(unsigned *out, const unsigned *in, unsigned mask) {
    const unsigned lane = threadIdx.x;
    if (!(mask >> lane & 1)) return;
    const unsigned u = in[lane];
    const int i = int(u);
    out += lane;
    out[0 * 32] = __reduce_add_sync(mask, u);
    out[1 * 32] = unsigned(__reduce_add_sync(mask, i));
    out[2 * 32] = __reduce_min_sync(mask, u);
    out[3 * 32] = unsigned(__reduce_min_sync(mask, i));
    out[4 * 32] = __reduce_max_sync(mask, u);
    out[5 * 32] = unsigned(__reduce_max_sync(mask, i));
    out[6 * 32] = __reduce_and_sync(mask, u);
    out[7 * 32] = __reduce_or_sync(mask, u);
    out[8 * 32] = __reduce_xor_sync(mask, u);
}

TEST_F(Collectives, Reductions) {
    std::vector<unsigned> in;
    for (unsigned lane = 0; lane < 32; lane++) in.push_back(0x9e3779b9u * (lane + 1) | 0x10);
    Device_array<unsigned> device_in(in);
    for (unsigned mask : masks) {
        std::vector<unsigned> expected;
        for (unsigned lane = 0; lane < 32; lane++) {
            const unsigned u = in[lane];
            if (!(mask >> lane & 1)) continue;
            if (expected.empty()) {
                expected.assign(9, u);
                continue;
            }
            expected[0] += u;
            expected[1] += u;
            expected[2] = std::min(expected[2], u);
            expected[3] = unsigned(std::min(int(expected[3]), int(u)));
            expected[4] = std::max(expected[4], u);
            expected[5] = unsigned(std::max(int(expected[5]), int(u)));
            expected[6] &= u;
            expected[7] |= u;
            expected[8] ^= u;
        }
        Device_array<unsigned> out(9 * 32, 77u);
        ASSERT_EQ(run(1, 32, reductions, out, device_in, mask), cudaSuccess);
        for (unsigned k = 0; k < 9; k++)
            for (unsigned lane = 0; lane < 32; lane++)
                ASSERT_EQ(out[k * 32 + lane], mask >> lane & 1 ? expected[k] : 77) << k << " lane " << lane;
    }
}

// ---- which lanes meet

// Groups by key, each with its own mask and number of iterations. ReductionInBranches has branches whose calls differ.
__global__ void groups(unsigned *out, const int *key) {
    const unsigned lane = threadIdx.x & 31;
    const unsigned group = __match_any_sync(0xffffffff, key[threadIdx.x]);
    unsigned sum = 0;
    for (int i = 0; i <= key[threadIdx.x]; i++) sum += __reduce_add_sync(group, lane + unsigned(i));
    out[threadIdx.x] = sum;
}

TEST_F(Collectives, GroupsWithMasksOfTheirOwn) {
    std::vector<int> key;
    for (int t = 0; t < 96; t++) key.push_back(t * t % 11);
    Device_array<int> device_key(key);
    const auto expected = [&](int t) {
        unsigned sum = 0;
        for (int o = t / 32 * 32; o < t / 32 * 32 + 32; o++)
            for (int i = 0; i <= key[t] && key[o] == key[t]; i++) sum += unsigned(o % 32 + i);
        return sum;
    };
    under_seeds(20, [&] { expect_each(1, 96, 96, expected, groups, device_key); });
}

// The source lanes run ahead before the reading lanes have taken their results.
__global__ void run_ahead(int *out) {
    const int lane = int(threadIdx.x);
    const int first = __shfl_sync(0xffffffff, lane + 100, 3);
    if (lane == 3) __shfl_sync(0x8, 999, 3);
    out[lane] = first;
}

TEST_F(Collectives, ResultsOutliveTheNextCollective) {
    under_seeds(50, [] {
        expect_each(
            1, 32, 32, [](int) { return 103; }, run_ahead);
    });
}

// Source lines do not matter: both branches call the same collective with the same mask.
__global__ void two_lines(int *out) {
    const int lane = int(threadIdx.x);
    if (lane & 1)
        out[lane] = __shfl_xor_sync(0xffffffff, lane, 1);
    else
        out[lane] = __shfl_xor_sync(0xffffffff, lane, 1);
}

TEST_F(Collectives, MeetByKindAndMaskNotByLine) {
    expect_each(
        1, 32, 32, [](int lane) { return lane ^ 1; }, two_lines);
}

__global__ void active(unsigned *out) {
    __syncwarp();
    out[threadIdx.x] = __activemask();
}

TEST_F(Collectives, ActivemaskIsTheCaller) {
    expect_each(
        1, 32, 32, [](int lane) { return 1u << lane; }, active);
}

// ---- barriers

__global__ void barriers(int *out, const int *predicate) {
    const unsigned t = threadIdx.x;
    out[0 * blockDim.x + t] = __syncthreads_count(predicate[t]);
    out[1 * blockDim.x + t] = __syncthreads_and(predicate[t]);
    out[2 * blockDim.x + t] = __syncthreads_or(predicate[t]);
    __syncthreads();
    out[3 * blockDim.x + t] = __syncthreads_count(!predicate[t]);
}

TEST_F(Collectives, BarriersThatCount) {
    for (int threads : {1, 31, 32, 33, 100, 1024})
        for (int set : {0, 1, threads / 2, threads})
            for (std::uint64_t seed : {0, 5}) {
                simt_set_seed(seed);
                std::vector<int> predicate(std::size_t(threads), 0);
                for (int i = 0; i < set; i++) predicate[std::size_t(i)] = 1 << (i % 20);
                Device_array<int> device_predicate(predicate);
                const int expected[] = {set, set == threads, set > 0, threads - set};
                expect_each(
                    1, unsigned(threads), std::size_t(4 * threads),
                    [&](int i) { return expected[i / threads]; }, barriers, device_predicate);
            }
}

// Threads that return early before the collectives and barriers that CUDA defines for them, at various times.
__global__ void after_early_return(int n, unsigned *found) {
    const unsigned t = threadIdx.x, lane = t % 32;
    if (int(t) >= n) {
        for (unsigned i = 0; i < t % 3; ++i) __threadfence(); // some of them late
        return;
    }
    unsigned seen = __ballot_sync(~0u, 1);
    __syncwarp();
    seen ^= __match_any_sync(~0u, int(lane % 4)) ^ unsigned(__any_sync(~0u, lane == 1)) ^
            unsigned(__all_sync(~0u, int(t) < n)) << 1;
    __syncthreads();
    found[t] = seen ^ unsigned(__syncthreads_count(1)) << 16 ^ unsigned(__syncthreads_and(1)) << 8;
}
TEST_F(Collectives, ExitedThreadsAreNotWaitedFor) {
    for (const int n : {1, 30, 32, 33, 70, 96})
        for (int seed = 0; seed < 8; ++seed) {
            Device_array<unsigned> found(96);
            simt_set_seed(std::uint64_t(seed));
            ASSERT_EQ(run(1, 96, after_early_return, n, static_cast<unsigned *>(found)), cudaSuccess)
                << simt_refusal();
            for (int t = 0; t < n; ++t) {
                const int rest = n - t / 32 * 32;
                const unsigned live = rest >= 32 ? ~0u : (1u << rest) - 1;
                const unsigned wanted = live ^ (live & 0x11111111u << t % 4) ^ unsigned(rest > 1) ^ 2u ^
                                        unsigned(n) << 16 ^ 1u << 8;
                EXPECT_EQ(found[t], wanted) << n << ' ' << t << ' ' << seed;
            }
        }
}

} // namespace
