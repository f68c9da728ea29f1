// SPDX-License-Identifier: MIT
// The gradient of a field of point charges: blocks load batches of charges into shared memory, threads leave
// the loop together, and each tile of 32 sums a charge's gradient before one lane adds it. No include of
// CUDA's own header, as in any .cu file.
#include "vector_math.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>

namespace cg = cooperative_groups;

#define BLOCK_X 16
#define BLOCK_Y 8
#define BLOCK_SIZE (BLOCK_X * BLOCK_Y)

__constant__ float weight_of[3] = {1.0f, 2.0f, 4.0f};

__device__ __forceinline__ bool in_reach(const float2 &from, const float3 &charge) {
    const float dx = from.x - charge.x, dy = from.y - charge.y;
    return max(fabsf(dx), fabsf(dy)) <= charge.z;
}

__global__ void __launch_bounds__(BLOCK_SIZE)
    field_gradient(int width, int height, int charges, const float3 *__restrict__ charge,
                   const float *__restrict__ d_out, float3 *__restrict__ d_charge,
                   int *__restrict__ reached) {
    auto block = cg::this_thread_block();
    const auto warp = cg::tiled_partition<32>(block);
    const uint2 pix = {block.group_index().x * BLOCK_X + block.thread_index().x,
                       block.group_index().y * BLOCK_Y + block.thread_index().y};
    const bool inside = pix.x < unsigned(width) && pix.y < unsigned(height);
    const float2 pixf = {float(pix.x), float(pix.y)};
    const float d = inside ? __ldg(d_out + pix.y * width + pix.x) : 0.0f;

    __shared__ float3 batch[BLOCK_SIZE];
    __shared__ int id[BLOCK_SIZE];
    bool done = !inside;
    int seen = 0;
    const int rounds = (charges + BLOCK_SIZE - 1) / BLOCK_SIZE;
    for (int i = 0; i < rounds; i++) {
        if (__syncthreads_count(done) == BLOCK_SIZE) break;
        const int progress = i * BLOCK_SIZE + int(block.thread_rank());
        if (progress < charges) {
            id[block.thread_rank()] = progress;
            batch[block.thread_rank()] = charge[progress];
        }
        block.sync();
        for (int j = 0; j < min(BLOCK_SIZE, charges - i * BLOCK_SIZE); j++) {
            const bool valid = !done && in_reach(pixf, batch[j]);
            if (!warp.any(valid)) continue;
            float3 gradient = make_float3(0.0f, 0.0f, 0.0f);
            if (valid) {
                gradient = d * make_float3(weight_of[0], weight_of[1], weight_of[2]);
                done = ++seen == 5;
            }
            gradient.x = cg::reduce(warp, gradient.x, cg::plus<float>());
            gradient.y = cg::reduce(warp, gradient.y, cg::plus<float>());
            gradient.z = cg::reduce(warp, gradient.z, cg::plus<float>());
            if (warp.thread_rank() == 0) {
                atomicAdd(&d_charge[id[j]].x, gradient.x);
                atomicAdd(&d_charge[id[j]].y, gradient.y);
                atomicAdd(&d_charge[id[j]].z, gradient.z);
            }
        }
    }
    if (inside) reached[pix.y * width + pix.x] = seen;
}

cudaError_t run_field(int width, int height, int charges, const float3 *charge, const float *d_out,
                      float3 *d_charge, int *reached, cudaStream_t stream) {
    const dim3 tile_grid((width + BLOCK_X - 1) / BLOCK_X, (height + BLOCK_Y - 1) / BLOCK_Y, 1);
    const dim3 block(BLOCK_X, BLOCK_Y, 1);
    field_gradient<<<tile_grid, block, 0, stream>>>(width, height, charges, charge, d_out, d_charge, reached);
    return cudaGetLastError();
}
