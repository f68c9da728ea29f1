// SPDX-License-Identifier: MIT
// Kernels in the style of other code bases, compiled unchanged by simt_target(): launches by <<<>>>, dynamic
// shared arrays, __CUDACC__, cooperative groups. Results against plain loops, under several schedules. Values
// are small whole numbers, so that sums are exact.
#include "../device_array.h"

#include <cuda_fp16.h>
#include <algorithm>
#include <cstdint>

cudaError_t run_channels(int count, int channels, const int *row, const float *weights, float *d_table);
cudaError_t run_channels(int count, int channels, const int *row, const __half *weights, float *d_table);
cudaError_t run_queue(const float *in, int n, int *tail, float *kept, unsigned *bits, __half2 *extent);

namespace {

class Kernels : public Simt {};

template <typename T>
void check_channels(int channels) {
    const int count = 150, rows = 9;
    std::vector<int> row;
    std::vector<T> weights;
    for (int i = 0; i < count; i++) row.push_back(i * i % rows);
    for (int i = 0; i < count * channels; i++) weights.push_back(T(float(i * 3 % 7) - 2));
    std::vector<float> expected(std::size_t(rows * channels), 0.0f);
    for (int i = 0; i < count; i++)
        for (int c = 0; c < channels; c++) {
            const int partner = (i ^ 1) * channels + c;
            const float other = (i ^ 1) < count ? float(weights[std::size_t(partner)]) : 0;
            expected[std::size_t(row[std::size_t(i)] * channels + c)] +=
                float(weights[std::size_t(i * channels + c)]) + std::min(std::max(other, 0.0f), 1.0f);
        }
    Device_array<int> device_row(row);
    Device_array<T> device_weights(weights);
    under_seeds(3, [&] {
        Device_array<float> d_table(expected.size(), 0.0f);
        ASSERT_EQ(run_channels(count, channels, device_row, device_weights, d_table), cudaSuccess);
        for (std::size_t i = 0; i < expected.size(); i++) ASSERT_EQ(d_table[i], expected[i]) << i;
    });
}

TEST_F(Kernels, ChannelsKnownAtRunTime) {
    for (int channels : {1, 3, 4, 5, 8}) {
        check_channels<float>(channels);
        check_channels<__half>(channels);
    }
}

TEST_F(Kernels, Queue) {
    const int n = 300;
    std::vector<float> in;
    std::vector<float> expected;
    float extent = 0;
    for (int i = 0; i < n; i++) {
        in.push_back(float(i * 11 % 17) - 8);
        if (in.back() > 0) expected.push_back(in.back()), extent += std::min(in.back(), 2.0f);
    }
    std::sort(expected.begin(), expected.end());
    Device_array<float> device_in(in);
    under_seeds(4, [&] {
        Device_array<int> tail(1, 0);
        Device_array<float> kept(n);
        Device_array<unsigned> bits(12);
        Device_array<__half2> sums(1, __half2{0, 0});
        ASSERT_EQ(run_queue(device_in, n, tail, kept, bits, sums), cudaSuccess);
        ASSERT_EQ(tail[0], int(expected.size()));
        std::vector<float> found(&kept[0], &kept[0] + tail[0]);
        std::sort(found.begin(), found.end());
        EXPECT_EQ(found, expected);
        EXPECT_EQ(float(sums[0].x), float(expected.size()));
        EXPECT_EQ(float(sums[0].y), extent);
        for (int i = 0; i < n; i++) ASSERT_EQ(bits[i / 32] >> i % 32 & 1, unsigned(in[std::size_t(i)] > 0));
    });
    EXPECT_EQ(run_queue(device_in, 0, nullptr, nullptr, nullptr, nullptr), cudaErrorInvalidConfiguration);
}

} // namespace
