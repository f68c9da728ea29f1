// SPDX-License-Identifier: MIT
// The kernels of docs/kernels.md, compiled and run. The page shows the lines between [name] and [end].
#include "shared_array.h"
#include <cmath>
#include <distwar/device/histogram.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <gtest/gtest.h>
#include <vector>

namespace {

// ---- a renderer's backward pass

// [pixel]
struct splat {
    int primitive;
    float2 mean;
    float3 conic, color; // conic: xx, xy, yy of the inverse covariance
    float opacity;
};
struct picture {
    int width, pixels;
    const float *transmittance; // behind the last splat that the pixel shows
    const int *shown;           // how many splats of the list the pixel shows
    const float3 *d_color;      // derivative of the loss by the pixel's colour
};

__device__ float2 offset_of(const splat &s, const picture &of, int pixel) {
    return {float(pixel % of.width) + 0.5f - s.mean.x, float(pixel / of.width) + 0.5f - s.mean.y};
}
__device__ float alpha_at(const splat &s, float2 d) {
    const float e = 0.5f * (s.conic.x * d.x * d.x + s.conic.z * d.y * d.y) + s.conic.y * d.x * d.y;
    return fminf(0.99f, s.opacity * expf(-e));
}
// Derivatives of the loss by colour, opacity, mean and conic. `light` reaches the splat, `behind` is the colour
// behind the splat, which then is the colour behind the next one.
__device__ void gradients_at(const splat &s, float2 d, float alpha, float light, float3 &behind,
                             float3 d_color, float (&value)[9]) {
    const float by_alpha = light * ((s.color.x - behind.x) * d_color.x + (s.color.y - behind.y) * d_color.y +
                                    (s.color.z - behind.z) * d_color.z);
    const float by_e = alpha < 0.99f ? -alpha * by_alpha : 0;
    value[0] = light * alpha * d_color.x;
    value[1] = light * alpha * d_color.y;
    value[2] = light * alpha * d_color.z;
    value[3] = -by_e / s.opacity;
    value[4] = -by_e * (s.conic.x * d.x + s.conic.y * d.y);
    value[5] = -by_e * (s.conic.y * d.x + s.conic.z * d.y);
    value[6] = by_e * 0.5f * d.x * d.x;
    value[7] = by_e * d.x * d.y;
    value[8] = by_e * 0.5f * d.y * d.y;
    behind = {behind.x + alpha * (s.color.x - behind.x), behind.y + alpha * (s.color.y - behind.y),
              behind.z + alpha * (s.color.z - behind.z)};
}
// [end]

// [splats before]
__global__ void splats_before(const splat *list, picture of, float *gradient) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (pixel >= of.pixels) return;
    const float3 d_color = of.d_color[pixel];
    float light = of.transmittance[pixel];
    float3 behind = {0, 0, 0};
    for (int j = of.shown[pixel] - 1; j >= 0; --j) {
        const splat s = list[j];
        const float2 d = offset_of(s, of, pixel);
        const float alpha = alpha_at(s, d);
        if (alpha < 1.0f / 255) continue;
        light /= 1 - alpha;
        float value[9];
        gradients_at(s, d, alpha, light, behind, d_color, value);
        for (int k = 0; k < 9; ++k) atomicAdd(&gradient[12 * s.primitive + k], value[k]);
    }
}
// [end]

// [splats after]
__global__ void splats_after(const splat *list, int count, picture of, float *gradient) {
    const int pixel = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool inside = pixel < of.pixels;
    const float3 d_color = inside ? of.d_color[pixel] : float3{0, 0, 0};
    const int shown = inside ? of.shown[pixel] : 0;
    float light = inside ? of.transmittance[pixel] : 1;
    float3 behind = {0, 0, 0};
    for (int j = count - 1; j >= 0; --j) { // all lanes walk the whole list
        const splat s = list[j];
        const float2 d = offset_of(s, of, pixel);
        const float alpha = j < shown ? alpha_at(s, d) : 0;
        const bool active = alpha >= 1.0f / 255;
        float value[9] = {};
        if (active) {
            light /= 1 - alpha;
            gradients_at(s, d, alpha, light, behind, d_color, value);
        }
        distwar::reduce(distwar::all_lanes, active, distwar::uniform_key{s.primitive}, value,
                        distwar::record<float>{gradient, 12});
    }
}
// [end]

struct rendered {
    double loss = 0; // the sum of the colours
    std::vector<float> transmittance;
    std::vector<int> shown;
};
// given: how many splats each pixel shows; empty: until little light is left.
rendered render(const std::vector<splat> &list, int width, int height, const std::vector<int> &given = {}) {
    rendered out;
    for (int pixel = 0; pixel < width * height; ++pixel) {
        double light = 1;
        int shown = 0;
        for (size_t j = 0; j < list.size() && (given.empty() ? light > 0.05 : int(j) < given[pixel]); ++j) {
            const splat &s = list[j];
            const double x = pixel % width + 0.5 - s.mean.x, y = pixel / width + 0.5 - s.mean.y;
            const double e = 0.5 * (s.conic.x * x * x + s.conic.z * y * y) + s.conic.y * x * y;
            const double alpha = std::fmin(0.99, s.opacity * std::exp(-e));
            if (alpha >= 1.0 / 255) {
                out.loss += light * alpha * (double(s.color.x) + s.color.y + s.color.z);
                light *= 1 - alpha;
            }
            shown = int(j) + 1;
        }
        out.transmittance.push_back(float(light));
        out.shown.push_back(shown);
    }
    return out;
}
std::vector<splat> splats_of_picture() {
    std::vector<splat> list;
    for (int i = 0; i < 9; ++i)
        list.push_back({i,
                        {float(2 + i * 5 % 13), float(1 + i * 3 % 7)},
                        {0.10f + 0.01f * float(i), 0.02f, 0.08f},
                        {0.1f * float(i), 0.5f, 1 - 0.1f * float(i)},
                        i == 4 ? 0.999f : 0.3f + 0.05f * float(i)});
    return list;
}

TEST(Kernels, ARenderersBackwardPassAddsTheSame) {
    enum { WIDTH = 15, HEIGHT = 9, PIXELS = WIDTH * HEIGHT, BLOCK = 64 };
    std::vector<splat> splats = splats_of_picture();
    const int count = int(splats.size());
    const rendered seen = render(splats, WIDTH, HEIGHT);
    const shared_array<splat> list(splats);
    const shared_array<float> transmittance(seen.transmittance);
    const shared_array<int> shown(seen.shown);
    const shared_array<float3> d_color(std::vector<float3>(PIXELS, {1, 1, 1}));
    const picture of = {WIDTH, PIXELS, transmittance.get(), shown.get(), d_color.get()};
    const shared_array<float> before(std::vector<float>(12 * count)), after(std::vector<float>(12 * count));
    ASSERT_EQ(launch(nullptr, blocks_for(PIXELS, BLOCK), BLOCK, splats_before, list.get(), of, before.get()),
              cudaSuccess);
    ASSERT_EQ(
        launch(nullptr, blocks_for(PIXELS, BLOCK), BLOCK, splats_after, list.get(), count, of, after.get()),
        cudaSuccess);
    const std::vector<float> sums = before.content(), found = after.content();
    for (size_t i = 0; i < sums.size(); ++i)
        EXPECT_NEAR(found[i], sums[i], 1e-5 * std::fabs(sums[i]) + 1e-5) << i;
    // The derivatives themselves, of a splat that shines through others.
    float *const parameters[9] = {&splats[2].color.x, &splats[2].color.y, &splats[2].color.z,
                                  &splats[2].opacity, &splats[2].mean.x,  &splats[2].mean.y,
                                  &splats[2].conic.x, &splats[2].conic.y, &splats[2].conic.z};
    for (int k = 0; k < 9; ++k) {
        const float kept = *parameters[k], step = 1e-4f;
        *parameters[k] = kept + step;
        const double above = render(splats, WIDTH, HEIGHT, seen.shown).loss;
        *parameters[k] = kept - step;
        const double below = render(splats, WIDTH, HEIGHT, seen.shown).loss,
                     slope = (above - below) / (2 * double(step));
        *parameters[k] = kept;
        EXPECT_NEAR(sums[12 * 2 + k], slope, 0.02 * std::fabs(slope) + 0.02) << "value " << k;
    }
}

// ---- a hash grid

// [cell]
enum { PAIRS = 2 }; // of 16-bit features per entry
struct level {
    const float3 *at;        // by sample, each 0..1
    const __half2 *gradient; // PAIRS by sample
    int samples;
    unsigned side, entries; // nodes along an axis; rows of the table
};
struct corners {
    uint3 cell;
    float3 part; // of the cell's size, from its first corner

    __device__ corners(float3 at, unsigned side) {
        const float scale = float(side - 1);
        cell = {unsigned(at.x * scale), unsigned(at.y * scale), unsigned(at.z * scale)};
        part = {at.x * scale - float(cell.x), at.y * scale - float(cell.y), at.z * scale - float(cell.z)};
    }
    __device__ unsigned entry(int c, const level &of) const {
        const unsigned x = cell.x + (c & 1), y = cell.y + (c >> 1 & 1), z = cell.z + (c >> 2);
        if (of.side * of.side * of.side <= of.entries) return x + of.side * (y + of.side * z);
        return (x ^ y * 2654435761u ^ z * 805459861u) % of.entries;
    }
    __device__ __half2 weight(int c) const {
        return __float2half2_rn((c & 1 ? part.x : 1 - part.x) * (c & 2 ? part.y : 1 - part.y) *
                                (c & 4 ? part.z : 1 - part.z));
    }
};
// [end]

// [grid before]
// Neighbouring lanes have the pairs of one sample.
__global__ void grid_before(level of, __half2 *table) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x), sample = i / PAIRS, pair = i % PAIRS;
    if (sample >= of.samples) return;
    const corners at(of.at[sample], of.side);
    const __half2 gradient = of.gradient[i];
#pragma unroll
    for (int c = 0; c < 8; ++c)
        atomicAdd(&table[at.entry(c, of) * PAIRS + pair], __hmul2(at.weight(c), gradient));
}
// [end]

// [grid after]
__global__ void grid_after(level of, __half2 *table) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x), sample = i / PAIRS, pair = i % PAIRS;
    const bool active = sample < of.samples;
    const corners at(active ? of.at[sample] : float3{0, 0, 0}, of.side);
    const __half2 gradient = active ? of.gradient[i] : __float2half2_rn(0);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        const __half2 value[1] = {__hmul2(at.weight(c), gradient)};
        distwar::reduce(distwar::all_lanes, active, at.entry(c, of) * PAIRS + pair, value,
                        distwar::record<__half2>{table, 1});
    }
}
// [end]

// [grid whole]
// All pairs of a sample in one lane.
__global__ void grid_whole(level of, __half2 *table) {
    const int sample = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = sample < of.samples;
    const corners at(active ? of.at[sample] : float3{0, 0, 0}, of.side);
#pragma unroll
    for (int c = 0; c < 8; ++c) {
        __half2 value[PAIRS];
        if (active)
            for (int k = 0; k < PAIRS; ++k) value[k] = __hmul2(at.weight(c), of.gradient[sample * PAIRS + k]);
        distwar::reduce(distwar::all_lanes, active, at.entry(c, of), value,
                        distwar::aligned_record<__half2>{table, PAIRS});
    }
}
// [end]

TEST(Kernels, AHashGridGetsTheSameSums) {
    enum { SAMPLES = 75, SIDE = 5 };
    std::vector<float3> places;
    std::vector<__half2> gradients;
    for (int i = 0; i < SAMPLES; ++i) { // the middles of cells: weights of 1/8, whose sums are exact
        places.push_back(
            {(float(i / 9 % 4) + 0.5f) / 4, (float(i / 20 % 4) + 0.5f) / 4, (float(i % 2) + 0.5f) / 4});
        for (int k = 0; k < PAIRS; ++k)
            gradients.push_back(__floats2half2_rn(float(8 * (i % 5)), float(-8 * k)));
    }
    const shared_array<float3> at(places);
    const shared_array<__half2> gradient(gradients);
    for (const unsigned entries : {125u, 64u}) { // dense, hashed
        const level of = {at.get(), gradient.get(), SAMPLES, SIDE, entries};
        const std::vector<__half2> zeros(entries * PAIRS, __float2half2_rn(0));
        const shared_array<__half2> before(zeros), after(zeros), whole(zeros);
        ASSERT_EQ(launch(nullptr, blocks_for(SAMPLES * PAIRS, 64), 64, grid_before, of, before.get()),
                  cudaSuccess);
        ASSERT_EQ(launch(nullptr, blocks_for(SAMPLES * PAIRS, 64), 64, grid_after, of, after.get()),
                  cudaSuccess);
        ASSERT_EQ(launch(nullptr, blocks_for(SAMPLES, 64), 64, grid_whole, of, whole.get()), cudaSuccess);
        const std::vector<__half2> sums = before.content();
        float total = 0;
        for (size_t i = 0; i < sums.size(); ++i) {
            total += __low2float(sums[i]);
            for (const __half2 &found : {after.content()[i], whole.content()[i]}) {
                EXPECT_EQ(__low2float(found), __low2float(sums[i])) << i;
                EXPECT_EQ(__high2float(found), __high2float(sums[i])) << i;
            }
        }
        EXPECT_EQ(total, 8 * 2 * SAMPLES * PAIRS); // the mean of i % 5 is 2
    }
}

// ---- a histogram

TEST(Kernels, AHistogramCountsItsKeys) {
    enum { ROWS = 203, BINS = 11 };
    std::vector<int> bins;
    std::vector<unsigned> wanted(BINS, 0);
    for (int i = 0; i < ROWS; ++i) {
        bins.push_back(i * i % BINS);
        ++wanted[size_t(bins.back())];
    }
    const shared_array<int> bin_of(bins);
    const shared_array<unsigned> counts(std::vector<unsigned>(BINS, 0));
    const cudaStream_t stream = nullptr;
    // [counts]
    const distwar::key_counts<int> given = {ROWS, BINS, bin_of.get(), counts.get()};
    const cudaError_t error = distwar::histogram(given, stream);
    // [end]
    ASSERT_EQ(error, cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(counts.content(), wanted);
}

} // namespace
