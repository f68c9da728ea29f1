// SPDX-License-Identifier: MIT
// The losses of images: 0.8 L1 + 0.2 (1 - SSIM), SSIM alone, and depth, with their gradients; and a correction of
// colours for exposure before them, with its adjoint. Reads images and photographs, writes results and the gradients by
// the images. docs/developers/math.md, section 5. From top to bottom: colours and SSIM, depth, exposure, the calls.
//
// Kernels of gs_loss and gs_ssim have one block per tile and plane: the first computes the value and, at each pixel, the
// derivatives of SSIM by the window's three sums; the last gathers these under the window. All sums have a fixed order.
#include "rows.h"
#include "splat.cuh"
#include "ssim.cuh"
#include <distwar/block.cuh>
#include <distwar/tree.cuh>
#include <algorithm>

using namespace gs;

namespace {

enum { THREADS = TILE * STEP, VALUE_THREADS = 1024, ROW_THREADS = 1024 };

// Least blocks of the first kernel on a multiprocessor. The compiler's own choice of registers allows 4; 5 are faster,
// and there a mask's weights would be spilled. Before compute capability 8.0 a multiprocessor has threads for only 4.
template <bool masked>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
constexpr int forward_blocks = 4;
#else
constexpr int forward_blocks = masked ? 4 : 5;
#endif

// The loss: result[0] = l1 mean |c - c*| + ssim_base share + ssim mean SSIM. share: the part of the image's values that is
// summed, so that the losses of parts add up.
struct loss_terms {
    double l1, ssim, ssim_base;
    bool valid;                      // windows that reach outside the image do not count
    int64_t first, last;             // places of a plane, first .. last - 1, whose differences are summed
    double values, share;            // values: the number over which means are taken
    const unsigned long long *count; // pixels that the mask counts; NULL: those that are summed
};

// Whether images of this kind have an L1 term; planes: SSIM alone.
template <typename Target>
constexpr bool has_l1 = std::is_same_v<Target, uint8_t>;

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

// Sums of |c - c*|, of SSIM and, under a mask, of what counts.
struct loss_sums {
    double of[3];
};

// Whether the window about the value at index i of a plane lies inside the image.
template <typename Target>
__device__ bool window_inside(const images_of_type<Target> &in, int i) {
    const int y = i / in.width, x = i - y * in.width;
    return x >= RADIUS && x < in.width - RADIUS && y >= RADIUS && y < in.height - RADIUS;
}

template <bool masked>
constexpr int sums_of = masked ? 3 : 2;

// Writes this block's part of the sums and, unless maps is NULL, maps[count][3][planes][height][width]: m, p, s.
template <bool masked, typename Target>
__global__ void __launch_bounds__(THREADS, forward_blocks<masked>)
    loss_forward(const loss_images<Target> all, const loss_terms terms, float *maps, loss_sums *of_block) {
    in_turn();
    const int image = blockIdx.z / all.planes, channel = blockIdx.z % all.planes;
    const images_of_type<Target> in = all.of(image);
    constexpr int sums = sums_of<masked>;
    __shared__ double warp_sums[THREADS / 32][sums];
    const int64_t before = channel * in.plane, values = all.values();
    if (maps) maps += image * 3 * values;
    const int64_t first = terms.first + before, last = terms.last + before;
    float own[3] = {}; // of at most RUN_Y values
    for_each_value<masked>(in, channel,
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

// Writes results from the sums of an image's blocks: the value by `terms`, mean |c - c*|, mean SSIM. A block per image. If
// masked, the values that count replace terms.values, and the first of an image's `counted` becomes their number.
template <bool masked, typename Target>
__global__ void __launch_bounds__(VALUE_THREADS)
    loss_value(const loss_images<Target> all, const loss_terms terms, const loss_sums *of_block, int blocks,
               loss_sums *counted) {
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
    double values = terms.values, share = terms.share;
    if (masked) {
        values = counted[blockIdx.x].of[0] =
            terms.count ? double(GS_CHANNELS) * double(*terms.count) : total[sums - 1];
        if (values > 0) share = total[sums - 1] / values;
    }
    result[1] = total[0] / values;
    result[2] = total[1] / values;
    if (masked && values == 0) result[1] = 0, result[2] = share;
    result[0] = terms.l1 * result[1] + terms.ssim_base * share + terms.ssim * result[2];
}

// Gradients d result[0] / dc, by the maps of loss_forward. counted: of loss_value, in place of terms.values if masked.
template <bool masked, typename Target>
__global__ void __launch_bounds__(THREADS)
    loss_backward(const loss_images<Target> all, const loss_terms terms, const float *maps,
                  const loss_sums *counted) {
    in_turn();
    const int image = blockIdx.z / all.planes, channel = blockIdx.z % all.planes;
    const images_of_type<Target> in = all.of(image);
    float *const gradient = all.at[image].gradient;
    __shared__ float map[3][HALO][HALO + 1], rows[3][HALO][TILE + 1];

    const int64_t plane = in.plane;
    const float *const channel_maps = maps + image * 3 * all.values() + channel * plane;
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

    const double n = masked ? counted[image].of[0] : terms.values;
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

// Bytes of the workspace of a launch for `count` images.
size_t loss_bytes(int32_t width, int32_t height, int32_t planes, int32_t count = 1) {
    const dim3 grid = grid_of(width, height, planes);
    return size_t(count) * ((size_t(grid.x) * grid.y * grid.z + 1) * sizeof(loss_sums) +
                            3 * size_t(planes) * size_t(width) * size_t(height) * sizeof(float));
}

template <bool masked, typename Target>
gs_status launch_loss(const loss_images<Target> &all, const loss_terms &terms, void *workspace,
                      gs_stream stream) {
    const dim3 grid = grid_of(all.width, all.height, all.planes * all.count), block(TILE, STEP);
    const int blocks = int(grid.x * grid.y) * all.planes;
    loss_sums *const counted = static_cast<loss_sums *>(workspace), *const of_block = counted + all.count;
    float *const maps =
        all.at[0].gradient ? reinterpret_cast<float *>(of_block + size_t(all.count) * blocks) : nullptr;
    GS_CUDA(launch_in_turn(stream, grid, block, loss_forward<masked, Target>, all, terms, maps, of_block));
    GS_CUDA(launch_in_turn(stream, all.count, VALUE_THREADS, loss_value<masked, Target>, all, terms, of_block,
                           blocks, counted));
    if (!maps) return GS_OK;
    return GS_STATUS(
        launch_in_turn(stream, grid, block, loss_backward<masked, Target>, all, terms, maps, counted));
}

enum { MASK_THREADS = 256, MASK_BLOCKS = 256 };

__global__ void __launch_bounds__(MASK_THREADS)
    count_mask(const uint8_t *mask, int64_t pixels, unsigned long long *count) {
    const int64_t step = int64_t(gridDim.x) * MASK_THREADS;
    int64_t own = 0; // sums of integers: in any order
    for (int64_t i = int64_t(blockIdx.x) * MASK_THREADS + threadIdx.x; i < pixels; i += step)
        own += mask[i] != 0;
    atomicAdd(count, static_cast<unsigned long long>(own));
}

// Small images go through a stage together: of large ones each fills the GPU, and their maps leave its cache.
int32_t images_of_launch(int32_t width, int32_t height, int32_t count) {
    const int64_t most = (1 << 21) / (int64_t(width) * height);
    return most < 1 ? 1 : most < count ? int32_t(most) : count;
}

// Whether one launch can be for the colours of both.
bool are_alike(const gs_loss_image &a, const gs_loss_image &b) {
    return !a.images.color == !b.images.color && !a.images.mask == !b.images.mask &&
           !a.color_gradient == !b.color_gradient;
}

// The loss over all of an image, and a launch for images of its size, without one yet.
loss_terms whole_loss(int64_t plane) {
    return {L1_WEIGHT, -SSIM_WEIGHT, SSIM_WEIGHT, false, 0, plane, GS_CHANNELS * double(plane), 1, nullptr};
}
loss_images<uint8_t> no_images(const gs_comparison &compared) {
    return {compared.width, compared.height, GS_CHANNELS, 0, int64_t(compared.width) * compared.height, {}};
}

gs_status queue_loss(const loss_images<uint8_t> &all, const loss_terms &terms, void *workspace,
                     gs_stream stream) {
    const auto queue = all.at[0].mask ? launch_loss<true, uint8_t> : launch_loss<false, uint8_t>;
    return queue(all, terms, workspace, stream);
}

// color: what is compared.
loss_image<uint8_t> image_of(const gs_loss_image &one, const float *color) {
    return {color, one.images.target, one.images.mask, one.result, one.color_gradient};
}

// ---- depth: the mean absolute difference ----

enum { VALUES_A_THREAD = 8, VALUES = THREADS * VALUES_A_THREAD };

// Sums of |depth - target| and of the pixels that count.
struct depth_sums {
    double of[2];
};

// What is compared.
struct depth_images {
    const float *depth, *target;
    const uint8_t *mask;
    float weight;
};

// NaN in the target: unknown.
__device__ bool counts(const depth_images &in, int64_t i) {
    return !isnan(in.target[i]) && (!in.mask || in.mask[i] != 0);
}

__device__ depth_sums sum_of_block(const double (&mine)[2]) {
    __shared__ distwar::block_sum_memory<2, THREADS, double> memory;
    depth_sums total;
    distwar::block_sum(mine, memory, total.of);
    return total;
}

__global__ void __launch_bounds__(THREADS)
    depth_loss_sums(const depth_images in, int64_t pixels, depth_sums *of_block) {
    const int64_t first = int64_t(blockIdx.x) * VALUES + threadIdx.x;
    double mine[2] = {};
    for (int j = 0; j < VALUES_A_THREAD; j++) {
        const int64_t i = first + j * THREADS;
        if (i >= pixels || !counts(in, i)) continue;
        mine[0] += double(fabsf(in.depth[i] - in.target[i]));
        mine[1] += 1;
    }
    const depth_sums total = sum_of_block(mine);
    if (threadIdx.x == 0) of_block[blockIdx.x] = total;
}

// Writes the sums over all blocks to *all. One block.
__global__ void __launch_bounds__(THREADS)
    depth_loss_value(const depth_sums *of_block, int blocks, depth_sums *all, double *result) {
    double mine[2] = {};
    for (int i = threadIdx.x; i < blocks; i += THREADS)
        for (int k = 0; k < 2; k++) mine[k] += of_block[i].of[k];
    const depth_sums total = sum_of_block(mine);
    if (threadIdx.x != 0) return;
    *all = total;
    *result = total.of[1] > 0 ? total.of[0] / total.of[1] : 0;
}

__global__ void __launch_bounds__(THREADS)
    depth_loss_gradient(const depth_images in, int64_t pixels, const depth_sums *all, float *gradient) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= pixels) return;
    float slope = 0;
    if (counts(in, i)) {
        const float difference = in.depth[i] - in.target[i];
        slope = float(double(in.weight) / all->of[1]) * (float(difference > 0) - float(difference < 0));
    }
    gradient[i] = slope;
}

// sums: room for one and one of each block.
gs_status queue_depth_loss(const gs_loss_image &of, depth_sums *sums, gs_stream stream) {
    const int64_t pixels = int64_t(of.images.width) * of.images.height;
    const depth_images in = {of.depth, of.depth_target, of.images.mask, of.depth_weight};
    const unsigned blocks = blocks_for(pixels, VALUES);
    depth_sums *const of_block = sums + 1;
    GS_CUDA(launch(stream, blocks, THREADS, depth_loss_sums, in, pixels, of_block));
    GS_CUDA(launch(stream, 1, THREADS, depth_loss_value, of_block, int(blocks), sums, of.depth_result));
    if (!of.depth_gradient) return GS_OK;
    return GS_STATUS(
        launch_for(stream, pixels, THREADS, depth_loss_gradient, in, pixels, sums, of.depth_gradient));
}

// ---- exposure: corrected = exp(log_gain) color ----

enum { GAINS = GS_EXPOSURE_VALUES, SUMS = GS_EXPOSURE_SUMS };

__global__ void __launch_bounds__(THREADS)
    exposure_kernel(const float *__restrict__ log_gain, const float *color, int64_t plane, float *corrected) {
    const int64_t i = int64_t(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= plane) return;
    for_channels([&](int k) { corrected[k * plane + i] = expf(log_gain[k]) * color[k * plane + i]; });
}

// The adjoint: gradient becomes that by color, in place. One block per row of tiles, from `first` on, and channel.
// __restrict__: else a thread waits for each load by itself.
__global__ void __launch_bounds__(ROW_THREADS)
    exposure_rows_kernel(const float *log_gain, const float *__restrict__ color, int width, int height,
                         int first, float *__restrict__ gradient, double (*row_sums)[SUMS]) {
    __shared__ distwar::block_sum_memory<2, ROW_THREADS> memory;
    const int k = int(blockIdx.x) % GAINS;
    const float gain = expf(log_gain[k]);
    const int64_t plane = int64_t(width) * height, row = first + int64_t(blockIdx.x) / GAINS,
                  in_row = int64_t(GS_TILE_SIZE) * width, begin = row * in_row;
    const int64_t end = begin + in_row < plane ? begin + in_row : plane;
    float mine[2] = {}, total[2]; // by the gain, its absolute values
    for (int64_t i = k * plane + begin + threadIdx.x; i < k * plane + end; i += ROW_THREADS) {
        const float by_color = gain * gradient[i], by_gain = by_color * color[i];
        mine[0] += by_gain;
        mine[1] += fabsf(by_gain);
        gradient[i] = by_color;
    }
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x == 0) row_sums[row][k] = double(total[0]), row_sums[row][GAINS + k] = double(total[1]);
}

__global__ void __launch_bounds__(32)
    exposure_rows_sum_kernel(const double (*row_sums)[SUMS], int rows, float *sums) {
    if (threadIdx.x >= SUMS) return;
    double sum = 0;
    for (int r = 0; r < rows; r++) sum += row_sums[r][threadIdx.x];
    sums[threadIdx.x] = float(sum);
}

// One block. Its threads keep to their views, so that a step of one needs no barrier before the sum.
__global__ void __launch_bounds__(THREADS)
    exposure_step_kernel(float (*log_gains)[GAINS], gs_exposure_group group, const float *sums, float rate,
                         float prior) {
    __shared__ distwar::block_sum_memory<GAINS, THREADS> memory;
    __shared__ float mean[GAINS];
    float mine[GAINS] = {}, total[GAINS];
    for (int64_t i = threadIdx.x; i < group.count; i += THREADS)
        for_channels([&](int k) {
            float &gain = log_gains[group.views[i]][k];
            if (i == group.view) gain -= rate * fmaf(prior, gain, sums[k] / fmaxf(sums[GAINS + k], FLT_MIN));
            mine[k] += gain;
        });
    if (group.count == 1) return; // all threads: a mean of its own would undo the step
    distwar::block_sum(mine, memory, total);
    if (threadIdx.x == 0) for_channels([&](int k) { mean[k] = total[k] / float(group.count); });
    __syncthreads();
    for (int64_t i = threadIdx.x; i < group.count; i += THREADS)
        for_channels([&](int k) { log_gains[group.views[i]][k] -= mean[k]; });
}

gs_status queue_exposure(const gs_loss_image &of, float *corrected, gs_stream stream) {
    const int64_t plane = int64_t(of.images.width) * of.images.height;
    return GS_STATUS(
        launch_for(stream, plane, THREADS, exposure_kernel, of.log_gain, of.images.color, plane, corrected));
}

gs_status queue_exposure_adjoint(const gs_loss_image &of, gs_rows rows, double *row_sums, gs_stream stream) {
    return GS_STATUS(launch(stream, unsigned(GAINS * (rows.end - rows.begin)), ROW_THREADS,
                            exposure_rows_kernel, of.log_gain, of.images.color, int(of.images.width),
                            int(of.images.height), int(rows.begin), of.color_gradient,
                            reinterpret_cast<double(*)[SUMS]>(row_sums)));
}

// ---- an image and its terms ----

gs_status check_loss(const char *function, const gs_loss_image &of) {
    GS_TRY(check_size(function, of.images.width, of.images.height));
    GS_ARGUMENT(of.images.color || of.depth_target, "color or depth_target must be given");
    GS_ARGUMENT(!of.images.color || (of.images.target && of.result),
                "target and result must be given with color");
    GS_ARGUMENT(!of.depth_target || (of.depth && of.depth_result),
                "depth and depth_result must be given with depth_target");
    return libgs_require(function, of.depth_weight - of.depth_weight == 0, "depth_weight must be finite");
}

// What a call takes of the context; the depth's sums lie where the workspace is.
struct loss_memory {
    void *workspace;  // of a launch
    float *corrected; // the colours of images with log_gain, one after another
    double *row_sums; // of one of them
};

gs_status place_loss(const char *function, const gs_loss_image *of, int32_t count, int32_t together,
                     gs_context *context, loss_memory *out) {
    const int32_t width = of->images.width, height = of->images.height;
    const size_t pixels = size_t(width) * size_t(height),
                 of_depth = (blocks_for(int64_t(pixels), VALUES) + 1) * sizeof(depth_sums);
    size_t corrected = 0, workspace = 0;
    for (int32_t i = 0; i < count; i++) {
        corrected += of[i].images.color && of[i].log_gain;
        if (of[i].depth_target) workspace = std::max(workspace, of_depth);
        if (of[i].images.color)
            workspace = std::max(workspace, loss_bytes(width, height, GS_CHANNELS, together));
    }
    return libgs_place(function, context, CONTEXT_SCRATCH, [=](block_layout *layout) {
        out->workspace = layout_add(layout, workspace);
        if (corrected == 0) return GS_OK;
        layout_add(layout, corrected * GS_CHANNELS * pixels, &out->corrected);
        layout_add(layout, size_t(tiles_along(height)) * SUMS, &out->row_sums);
        return GS_OK;
    });
}

} // namespace

// ---- calls ----

size_t libgs_loss_bytes(int32_t width, int32_t height, int32_t count) {
    block_layout layout = {}; // as place_loss without gains
    layout_add(&layout, loss_bytes(width, height, GS_CHANNELS, images_of_launch(width, height, count)));
    return layout.bytes;
}

gs_status gs_loss(const gs_loss_image *of, int32_t count, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_REQUIRE(of && count >= 1 && count <= GS_MAX_VIEWS, "1 to 32 images must be given");
    const int32_t width = of->images.width, height = of->images.height;
    for (int32_t i = 0; i < count; i++) {
        GS_TRY(check_loss(__func__, of[i]));
        GS_REQUIRE(of[i].images.width == width && of[i].images.height == height,
                   "all images must have the same size");
        GS_REQUIRE(!of[i].log_gain || !of[i].color_gradient || of[i].gain_sums, "gain_sums must be given");
    }
    const int32_t most = images_of_launch(width, height, count);
    loss_memory memory = {};
    GS_TRY(place_loss(__func__, of, count, most, context, &memory));
    loss_images<uint8_t> all = no_images(of->images);
    const loss_terms terms = whole_loss(all.plane);
    float *corrected = memory.corrected;
    for (int32_t i = 0; i < count; i++) {
        if (!of[i].images.color) continue;
        const float *color = of[i].images.color;
        if (of[i].log_gain) {
            GS_TRY(queue_exposure(of[i], corrected, stream));
            color = corrected, corrected += all.values();
        }
        all.at[all.count++] = image_of(of[i], color);
        if (i + 1 < count && all.count < most && are_alike(of[i], of[i + 1])) continue;
        GS_TRY(queue_loss(all, terms, memory.workspace, stream));
        all.count = 0;
    }
    for (int32_t i = 0; i < count; i++) {
        if (of[i].images.color && of[i].log_gain && of[i].color_gradient) {
            GS_TRY(queue_exposure_adjoint(of[i], {0, tiles_along(height)}, memory.row_sums, stream));
            GS_TRY(libgs_gain_sums(memory.row_sums, tiles_along(height), of[i].gain_sums, stream));
        }
        if (of[i].depth_target)
            GS_TRY(queue_depth_loss(of[i], static_cast<depth_sums *>(memory.workspace), stream));
    }
    return GS_OK;
}

gs_status libgs_gain_sums(const double *gain_rows, int32_t rows, float *sums, gs_stream stream) {
    return GS_STATUS(launch(stream, 1, 32, exposure_rows_sum_kernel,
                            reinterpret_cast<const double(*)[SUMS]>(gain_rows), int(rows), sums));
}

// The rows that are needed are an image of their own. It begins with a block of TILE rows of the whole, so that every
// pixel has its place in a block, on which rounding depends. What differs from the whole image is within RADIUS rows
// of its other rows' ends, and no gradient that counts reads that.
gs_status libgs_loss_rows(const gs_loss_image *of, gs_rows rows, double *gain_rows, gs_context *context) {
    const gs_stream stream = stream_of(context);
    GS_REQUIRE(of && of->images.color, "an image with color must be given");
    GS_TRY(check_loss(__func__, *of));
    const int32_t width = of->images.width, height = of->images.height;
    GS_REQUIRE(!of->log_gain || !of->color_gradient || gain_rows, "gain_rows must be given");
    loss_memory memory = {};
    GS_TRY(place_loss(__func__, of, 1, 1, context, &memory));
    const int first = rows.begin * GS_TILE_SIZE, last = std::min(rows.end * GS_TILE_SIZE, height);
    GS_REQUIRE(rows.begin >= 0 && rows.begin < rows.end && rows.end <= tiles_along(height),
               "rows must be a range of the rows of tiles");
    static_assert(LOSS_HALO == 2 * RADIUS, "the windows of the windows");
    const int begin = first < LOSS_HALO ? 0 : (first - RADIUS) / TILE * TILE;
    const int end = std::min(last + LOSS_HALO, height);
    const int64_t before = int64_t(begin) * width;
    loss_images<uint8_t> all = no_images(of->images);
    loss_terms terms = whole_loss(all.plane);
    if (of->log_gain) GS_TRY(queue_exposure(*of, memory.corrected, stream));
    loss_image<uint8_t> &in = all.at[all.count++] =
        image_of(*of, of->log_gain ? memory.corrected : of->images.color);
    all.height = end - begin;
    in.color += before, in.target += GS_CHANNELS * before;
    if (in.mask) in.mask += before;
    if (in.gradient) in.gradient += before;
    terms.first = int64_t(first - begin) * width, terms.last = int64_t(last - begin) * width;
    const bool whole = first == 0 && last == height;
    terms.share = whole ? 1 : double(last - first) / height;
    if (of->images.mask && !whole) {
        unsigned long long *const count =
            reinterpret_cast<unsigned long long *>(&static_cast<loss_sums *>(memory.workspace)->of[1]);
        GS_CUDA(cudaMemsetAsync(count, 0, sizeof *count, stream));
        GS_CUDA(launch(stream, MASK_BLOCKS, MASK_THREADS, count_mask, of->images.mask,
                       int64_t(width) * height, count));
        terms.count = count;
    }
    GS_TRY(queue_loss(all, terms, memory.workspace, stream));
    return of->log_gain && of->color_gradient ? queue_exposure_adjoint(*of, rows, gain_rows, stream) : GS_OK;
}

gs_status gs_ssim(const gs_ssim_pair *pair, double *result, float *gradient, gs_context *context) {
    GS_REQUIRE(pair, "pair must be given");
    const int32_t width = pair->width, height = pair->height, border = pair->valid ? 2 * RADIUS : 0;
    GS_TRY(check_size(__func__, width, height));
    GS_REQUIRE(pair->planes >= 1 && pair->planes <= GS_SSIM_MAX_PLANES, "planes must be in 1..65535");
    const dim3 grid = grid_of(width, height, pair->planes);
    GS_REQUIRE(uint64_t(grid.x) * grid.y * grid.z < INT32_MAX, "the images are too large");
    GS_REQUIRE(!pair->valid || (width >= GS_SSIM_WINDOW && height >= GS_SSIM_WINDOW),
               "width and height must be at least 11 if only windows inside the image count");
    GS_REQUIRE(pair->first && pair->second && result, "first, second and result must be given");
    void *workspace;
    GS_TRY(libgs_memory(__func__, context, CONTEXT_SCRATCH, loss_bytes(width, height, pair->planes),
                        &workspace));
    const int64_t plane = int64_t(width) * height;
    const loss_images<float> in = {width, height, pair->planes,
                                   1,     plane,  {{pair->first, pair->second, nullptr, result, gradient}}};
    const double values = double(pair->planes) * (width - border) * (height - border);
    const loss_terms terms = {0, 1, 0, pair->valid != 0, 0, plane, values, 1, nullptr};
    return launch_loss<false>(in, terms, workspace, stream_of(context));
}

gs_status gs_exposure_step(float *log_gains, const gs_exposure_group *group, const float *sums, float rate,
                           float prior, gs_context *context) {
    GS_REQUIRE(log_gains && group && group->views && sums,
               "log_gains, group, its views and sums must be given");
    GS_REQUIRE(group->count >= 1 && group->view >= 0 && group->view < group->count,
               "view must be one of the group's views");
    GS_REQUIRE(valid_rate(rate) && valid_rate(prior), "rate and prior must be finite and not negative");
    return GS_STATUS(launch(stream_of(context), 1, THREADS, exposure_step_kernel,
                            reinterpret_cast<float(*)[GAINS]>(log_gains), *group, sums, rate, prior));
}
