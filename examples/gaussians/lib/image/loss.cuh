// SPDX-License-Identifier: MIT
// The kernels of gs_losses (loss.cu) and of gs_ssim (ssim.cu), one block per tile and plane: the first
// computes the value and, at each pixel, the derivatives of SSIM by the window's three sums; the last gathers these
// under the window. The order of the value's sums is fixed. docs/developers/math.md, section 5.
#pragma once

#include "check.h"
#include "launch.cuh"
#include "ssim.cuh"

#include <distwar/block.cuh>
#include <distwar/tree.cuh>

namespace gs {

enum { THREADS = TILE * STEP, VALUE_THREADS = 1024 };

// Least blocks of the first kernel on a multiprocessor. The compiler's own choice of registers allows 4; 5 are faster,
// and there a mask's weights would be spilled. Before compute capability 8.0 a multiprocessor has threads for only 4.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
template <bool masked>
constexpr int forward_blocks = 4;
#else
template <bool masked>
constexpr int forward_blocks = masked ? 4 : 5;
#endif

// The first result is l1 times the mean |c - c*| + ssim_base + ssim times the mean SSIM; ssim_base is of all values, so
// a part of them gets its share. valid: windows that reach outside the image do not count.
struct loss_terms {
    double l1, ssim, ssim_base;
    bool valid;
};

// Whether images of this kind have an L1 term.
template <typename Target>
constexpr bool has_l1 = false; // planes: SSIM alone
template <>
inline constexpr bool has_l1<uint8_t> = true;

// An image of a launch, and what becomes of it. gradient: NULL, or as color.
template <typename Target>
struct loss_image {
    const float *color;
    const Target *target;
    const uint8_t *mask;
    double *result; // 3
    float *gradient;
};

// The images of a launch: of one size, and all with a mask and with a gradient, or none.
template <typename Target>
struct loss_images {
    int width, height, planes, count;
    int64_t plane;
    loss_image<Target> at[GS_MAX_VIEWS];

    __device__ images_of_type<Target> of(int i) const {
        return {at[i].color, at[i].target, at[i].mask, width, height, plane};
    }
    // Values of an image.
    __host__ __device__ int64_t values() const { return planes * plane; }
};

// Of the block's plane: the image, and the channel in it.
struct loss_place {
    int image, channel;

    __device__ explicit loss_place(int planes) : image(blockIdx.z / planes), channel(blockIdx.z % planes) {}
};

// Places of a plane: first .. last - 1. Those whose differences are summed.
struct place_range {
    int64_t first, last;
};

// The values over which the loss takes means.
struct loss_values {
    double all, share;               // their number, and which part of them is summed
    const unsigned long long *count; // pixels that the mask counts; NULL: those that are summed
};

// Sums of |c - c*|, of SSIM and, under a mask, of what counts.
struct loss_sums {
    double of[3];
};

// Whether the window about the value at index i of a plane lies inside the image.
template <typename Target>
__device__ inline bool window_inside(const images_of_type<Target> &in, int i) {
    const int y = i / in.width, x = i - y * in.width;
    return x >= RADIUS && x < in.width - RADIUS && y >= RADIUS && y < in.height - RADIUS;
}

template <bool masked>
constexpr int sums_of = masked ? 3 : 2;

// Writes this block's part of the sums and, unless maps is NULL, maps[count][3][planes][height][width]: m, p, s.
template <bool masked, typename Target>
__global__ void __launch_bounds__(THREADS, forward_blocks<masked>)
    loss_forward(const loss_images<Target> all, loss_terms terms, place_range summed, float *maps,
                 loss_sums *of_block) {
    in_turn();
    const loss_place at(all.planes);
    const images_of_type<Target> in = all.of(at.image);
    constexpr int sums = sums_of<masked>;
    __shared__ double warp_sums[THREADS / 32][sums];
    const int64_t before = at.channel * in.plane, values = all.values();
    if (maps) maps += at.image * 3 * values;
    const int64_t first = summed.first + before, last = summed.last + before;
    float own[3] = {}; // of at most RUN_Y values
    for_each_value<masked>(in, at.channel,
                           [&](int64_t i, float c, float t, const similarity &like, const derivatives &d,
                               const window_share &share) {
                               if (!has_l1<Target> && terms.valid && !window_inside(in, int(i - before))) {
                                   if (maps) maps[i] = maps[values + i] = maps[2 * values + i] = 0;
                                   return;
                               }
                               if (i >= first && i < last) {
                                   if (has_l1<Target>) own[0] += fabsf(c - t);
                                   own[1] += like.ssim;
                                   if (masked && share.counts) own[2] += 1;
                               }
                               if (maps) maps[i] = d.m, maps[values + i] = d.p, maps[2 * values + i] = d.s;
                           });
    // A row of threads is a warp.
    double sum[sums], lane_sum[distwar::tree_places(sums)];
    for (int j = 0; j < sums; j++) sum[j] = own[j];
    distwar::tree_total(true, sum, lane_sum);
    const int k = threadIdx.x;
    if (k < sums) warp_sums[threadIdx.y][k] = lane_sum[0];
    __syncthreads();
    if (threadIdx.y > 0 || k >= sums) return;
    double total = 0;
    for (int warp = 0; warp < THREADS / 32; warp++) total += warp_sums[warp][k];
    of_block[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x].of[k] = total;
}

// Writes results from the sums of the blocks of each image: the value by `terms`, mean |c - c*|, mean SSIM. If masked,
// the values that count replace of.all, and the first of an image's `counted` becomes their number. A block per image.
template <bool masked, typename Target>
__global__ void __launch_bounds__(VALUE_THREADS)
    loss_value(const loss_images<Target> all, const loss_sums *of_block, int blocks, loss_values of,
               loss_terms terms, loss_sums *counted) {
    in_turn();
    of_block += blockIdx.x * blocks;
    double *const result = all.at[blockIdx.x].result;
    constexpr int sums = sums_of<masked>;
    __shared__ distwar::block_sum_memory<sums, VALUE_THREADS, double> memory;
    double mine[sums] = {}, total[sums];
    for (int i = threadIdx.x; i < blocks; i += VALUE_THREADS)
        for (int k = 0; k < sums; k++) mine[k] += of_block[i].of[k];
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x > 0) return;
    double values = of.all, share = of.share;
    if (masked) {
        values = counted[blockIdx.x].of[0] =
            of.count ? double(GS_CHANNELS) * double(*of.count) : total[sums - 1];
        if (values > 0) share = total[sums - 1] / values;
    }
    result[1] = total[0] / values;
    result[2] = total[1] / values;
    if (masked && values == 0) result[1] = 0, result[2] = share;
    result[0] = terms.l1 * result[1] + terms.ssim_base * share + terms.ssim * result[2];
}

// Gradients d result[0] / dc, from the maps of loss_forward. values: those that count; counted: of loss_value, read
// in its place if masked.
template <bool masked, typename Target>
__global__ void __launch_bounds__(THREADS)
    loss_backward(const loss_images<Target> all, loss_terms terms, double values, const float *maps,
                  const loss_sums *counted) {
    in_turn();
    const loss_place at(all.planes);
    const images_of_type<Target> in = all.of(at.image);
    float *const gradient = all.at[at.image].gradient;
    __shared__ float map[3][HALO][HALO + 1], rows[3][HALO][TILE + 1];

    const int channel = at.channel;
    const int64_t plane = in.plane;
    const float *const channel_maps = maps + at.image * 3 * all.values() + channel * plane;
    for_each_of_halo([&](int row, int column, int x, int y) {
        const bool has = inside(in, x, y);
        for (int k = 0; k < 3; k++)
            map[k][row][column] = has ? channel_maps[k * all.values() + y * in.width + x] : 0;
    });
    __syncthreads();
    for_each_run([&](int row, int column) {
        float sum[RUN_X][3];
        slide_window(
            [&](int k, float value[3]) {
                for (int m = 0; m < 3; m++) value[m] = map[m][row][column + k];
            },
            sum);
        for (int j = 0; j < RUN_X; j++)
            for (int m = 0; m < 3; m++) rows[m][row][column + j] = sum[j][m];
    });
    __syncthreads();

    const double n = masked ? counted[at.image].of[0] : values;
    const float l1_scale = float(terms.l1 / n), ssim_scale = float(terms.ssim / n);
    const int column = threadIdx.x, row = threadIdx.y * RUN_Y;
    float d[RUN_Y][3]; // m, p and s under the window
    slide_window(
        [&](int k, float value[3]) {
            for (int m = 0; m < 3; m++) value[m] = rows[m][row + k][column];
        },
        d);
    for (int j = 0; j < RUN_Y; j++) {
        const int x = blockIdx.x * TILE + column, y = blockIdx.y * TILE + row + j;
        if (!inside(in, x, y)) continue;
        const int64_t i = channel * plane + y * in.width + x;
        if (masked && in.mask[y * in.width + x] == 0) {
            gradient[i] = 0;
            continue;
        }
        const float c = in.color[i], t = target_at(in, y * in.width + x, channel);
        const float by_ssim = ssim_scale * (d[j][0] + 2 * (c - t) * d[j][1] + t * d[j][2]);
        gradient[i] = has_l1<Target> ? l1_scale * (float(c > t) - float(c < t)) + by_ssim : by_ssim;
    }
}

struct loss_run {
    loss_terms terms;
    place_range summed;
    loss_values of;
};

// Bytes of the workspace of a launch for `count` images.
inline size_t loss_bytes(int32_t width, int32_t height, int32_t planes, int32_t count = 1) {
    const dim3 grid = grid_of(width, height, planes);
    return size_t(count) * ((size_t(grid.x) * grid.y * grid.z + 1) * sizeof(loss_sums) +
                            3 * size_t(planes) * size_t(width) * size_t(height) * sizeof(float));
}

template <bool masked, typename Target>
gs_status launch_loss(const loss_images<Target> &all, const loss_run &run, void *workspace,
                      gs_stream stream) {
    const dim3 grid = grid_of(all.width, all.height, all.planes * all.count), block(TILE, STEP);
    const int blocks = int(grid.x * grid.y) * all.planes;
    loss_sums *const counted = static_cast<loss_sums *>(workspace), *const of_block = counted + all.count;
    float *const maps =
        all.at[0].gradient ? reinterpret_cast<float *>(of_block + size_t(all.count) * blocks) : nullptr;
    GS_CUDA(launch_in_turn(stream, grid, block, loss_forward<masked, Target>, all, run.terms, run.summed,
                           maps, of_block));
    GS_CUDA(launch_in_turn(stream, all.count, VALUE_THREADS, loss_value<masked, Target>, all, of_block,
                           blocks, run.of, run.terms, counted));
    if (maps)
        GS_CUDA(launch_in_turn(stream, grid, block, loss_backward<masked, Target>, all, run.terms, run.of.all,
                               maps, counted));
    return GS_OK;
}

} // namespace gs
