// SPDX-License-Identifier: MIT
// Where a direction lies in the cubemap: neighbours across edges, weights.
#include "cubemap_reference.h"
#include "derivative.h"
#include "device_vector.h"
#include "launch.cuh"
#include "texel.cuh"
#include <gtest/gtest.h>
#include <map>

namespace {

__global__ void footprint_kernel(const float3 *direction, int count, int size, footprint *out) {
    const int k = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (k < count) out[k] = footprint_of(direction[k], size);
}

// All (i, j) of all faces, one beyond them included.
__global__ void number_kernel(int size, int *out) {
    const int k = int(blockIdx.x * blockDim.x + threadIdx.x), side = size + 2;
    if (k >= 6 * side * side) return;
    const int face = k / (side * side);
    out[k] = texel_number(face / 2, face % 2 == 0, k % side - 1, k / side % side - 1, size);
}

std::vector<footprint> footprints(const std::vector<float3> &directions, int size) {
    device_vector<float3> in(directions);
    device_vector<footprint> out(directions.size());
    DEVICE_CHECK(launch(NULL, blocks_for(int64_t(directions.size()), 128), 128, footprint_kernel, in.data(),
                        int(directions.size()), size, out.data()));
    return out.read();
}

TEST(CubemapTexel, AcrossAllTwelveEdgesIsTheGeometricNeighbour) {
    for (const int size : {1, 2, 8}) {
        const int side = size + 2;
        device_vector<int> out(size_t(6 * side * side));
        DEVICE_CHECK(launch(NULL, blocks_for(6 * side * side, 128), 128, number_kernel, size, out.data()));
        const std::vector<int> number = out.read();
        int across = 0, beyond_corners = 0;
        for (int k = 0; k < 6 * side * side; k++) {
            const int face = k / (side * side), i = k % side - 1, j = k / side % side - 1;
            const bool i_outside = i < 0 || i >= size, j_outside = j < 0 || j >= size;
            if (i_outside && j_outside) {
                EXPECT_EQ(number[size_t(k)], -1);
                beyond_corners++;
                continue;
            }
            double point[3];
            reference_center(face, i, j, size, point);
            EXPECT_EQ(number[size_t(k)], reference_texel_at(point, size))
                << "face " << face << " " << i << " " << j << " of " << size;
            across += i_outside || j_outside;
        }
        EXPECT_EQ(across, 24 * size);
        EXPECT_EQ(beyond_corners, 24);
    }
}

// Everywhere, and close to edges and corners on purpose; of any length.
std::vector<float3> directions() {
    const std::vector<double> random = random_weights(7 * 3000, 3);
    std::vector<float3> out;
    for (size_t n = 0; n < random.size(); n += 7) {
        double d[3];
        for (size_t i = 0; i < 3; i++) {
            const double here = random[n + i], beyond = random[n + 3 + i];
            d[i] = n / 7 % 4 >= 1 + i ? std::copysign(1, here) + 1e-3 * beyond * std::abs(beyond) : here;
            d[i] *= 1.5 + random[n + 6];
        }
        out.push_back(make_float3(float(d[0]), float(d[1]), float(d[2])));
    }
    return out;
}

TEST(CubemapTexel, FootprintsAreThoseOfTheReference) {
    const std::vector<float3> all = directions();
    for (const int size : {1, 2, 4, 32, 1024}) {
        const std::vector<footprint> found = footprints(all, size);
        int with_three = 0;
        for (size_t n = 0; n < all.size(); n++) {
            std::map<int, double> weight;
            double sum = 0;
            int without = 0;
            for (int k = 0; k < TEXELS; k++) {
                ASSERT_TRUE(found[n].texel[k] >= 0 && found[n].texel[k] < 6 * size * size);
                ASSERT_TRUE(found[n].weight[k] >= 0 && found[n].weight[k] <= 1);
                weight[found[n].texel[k]] += double(found[n].weight[k]);
                sum += double(found[n].weight[k]);
                without += found[n].weight[k] == 0;
            }
            with_three += without == 1;
            EXPECT_NEAR(sum, 1, 1e-6);
            const double direction[3] = {all[n].x, all[n].y, all[n].z};
            for (const weighted_texel &one : reference_footprint(direction, size))
                weight[one.texel] -= one.weight;
            for (const auto &[at, difference] : weight)
                EXPECT_LT(std::abs(difference), 3e-7 * size + 1e-6) << at;
        }
        EXPECT_GT(with_three, 300) << size;
    }
}

} // namespace
