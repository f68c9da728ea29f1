// SPDX-License-Identifier: MIT
// A plane sweep. One thread a pixel. A pixel sees the point centre + direction / w at inverse depth w. Times w that is
// `centre w + direction`, which projects to the same pixels and also holds at infinity, w = 0.
#include "camera.cuh"
#include "context.h"
#include "launch.cuh"

namespace {

constexpr int block_size = 128, radius = 3, samples = 25;
// Windows with less contrast than this, as a standard deviation, have no depth and correlate less.
constexpr float noise = 1.5f;

// In the world: where a camera is, and the direction of a place in its picture with camera z = 1.
struct ray {
    float centre[3], direction[3];
};

__device__ ray ray_of(const gs_camera &camera, float x, float y) {
    const float inside[3] = {(x - camera.cx) / camera.fx, (y - camera.cy) / camera.fy, 1};
    ray r;
    for (int k = 0; k < 3; k++) {
        r.centre[k] = -gs::to_world(camera, camera.translation, k);
        r.direction[k] = gs::to_world(camera, inside, k);
    }
    return r;
}

// Where a camera sees the point of inverse depth w, and w times its camera z. False unless the point is in front of the
// camera and not nearly at 90 degrees to its axis.
__device__ bool pixel_of(const gs_camera &camera, const ray &r, float w, float pixel[2], float *z) {
    float point[3], q[3];
    for (int k = 0; k < 3; k++) point[k] = fmaf(r.centre[k], w, r.direction[k]);
    for (int k = 0; k < 3; k++) q[k] = gs::to_camera(camera, point, k) + w * camera.translation[k];
    for (int k = 0; k < 2; k++)
        pixel[k] = fmaf(gs::focal_length(camera, k), q[k] / q[2], gs::image_center(camera, k));
    *z = q[2];
    return q[2] > 1e-3f * (fabsf(q[0]) + fabsf(q[1]));
}

// Every other pixel of a window: calls visit(sample, dx, dy).
template <typename Visit>
GS_DEVICE void for_each_sample(Visit visit) {
#pragma unroll
    for (int i = 0; i < samples; i++) {
        const int place = 2 * i; // of 49, row by row: those where dx + dy is even
        visit(i, place % (2 * radius + 1) - radius, place / (2 * radius + 1) - radius);
    }
}

// The window of a pixel, less its mean.
struct window {
    ray at[3]; // its centre, the pixel to the right, the one below
    float value[samples];
    float variance; // times samples
};

// False if the window leaves the picture or has one colour.
__device__ bool window_of(const gs_stereo_view &view, int x, int y, window *out) {
    const int width = view.camera.width;
    if (x < radius || y < radius || x >= width - radius || y >= view.camera.height - radius) return false;
    float mean = 0;
    for_each_sample([&](int i, int dx, int dy) {
        out->value[i] = float(view.rgb[3 * (int64_t(y + dy) * width + x + dx) + 1]);
        mean += out->value[i] / samples;
    });
    out->variance = 0;
    for (int i = 0; i < samples; i++) {
        out->value[i] -= mean;
        out->variance += out->value[i] * out->value[i];
    }
    for (int k = 0; k < 3; k++)
        out->at[k] = ray_of(view.camera, float(x) + 0.5f + (k == 1), float(y) + 0.5f + (k == 2));
    return out->variance > samples * noise * noise;
}

// Green between four pixels; x, y: 0 at the centre of the picture's first.
__device__ float green_at(const gs_stereo_view &view, float x, float y) {
    const int left = int(x), top = int(y);
    const float right = x - float(left), down = y - float(top);
    const uint8_t *const p = view.rgb + 3 * (int64_t(top) * view.camera.width + left) + 1;
    const uint8_t *const q = p + 3 * int64_t(view.camera.width);
    const float a = p[0], b = p[3], c = q[0], d = q[3];
    const float above = fmaf(right, b - a, a), below = fmaf(right, d - c, c);
    return fmaf(down, below - above, above);
}

// The correlation of a window with a neighbour's picture, warped by the plane at w; below -1 if there is none.
__device__ float correlation(const window &a, const gs_stereo_view &to, float w) {
    float at[3][2], right[2], down[2], z;
    for (int k = 0; k < 3; k++)
        if (!pixel_of(to.camera, a.at[k], w, at[k], &z)) return -2;
    for (int k = 0; k < 2; k++) {
        right[k] = at[1][k] - at[0][k], down[k] = at[2][k] - at[0][k];
        const float reach = radius * (fabsf(right[k]) + fabsf(down[k]));
        const float last = float(k == 0 ? to.camera.width : to.camera.height) - 1.01f;
        at[0][k] -= 0.5f;
        if (!(at[0][k] - reach >= 0 && at[0][k] + reach < last)) return -2;
    }
    float sum = 0, squares = 0, product = 0;
    for_each_sample([&](int i, int dx, int dy) {
        const float b = green_at(to, at[0][0] + float(dx) * right[0] + float(dy) * down[0],
                                 at[0][1] + float(dx) * right[1] + float(dy) * down[1]);
        sum += b, squares += b * b, product += a.value[i] * b;
    });
    constexpr float least = samples * noise * noise;
    return product * rsqrtf((a.variance + least) * (fmaxf(squares - sum * sum / samples, 0) + least));
}

// The mean of the two best correlations at the plane; below -1 if there are not two.
__device__ float score_of(const gs_stereo_view *views, const gs_stereo_view &view, const window &a, float w) {
    float best = -2, second = -2;
    for (int k = 0; k < view.neighbours; k++) {
        const float r = correlation(a, views[view.neighbour[k]], w);
        second = fmaxf(second, fminf(best, r));
        best = fmaxf(best, r);
    }
    return second < -1 ? -2 : (best + second) / 2;
}

// The peaks of the scores of planes 0, 1, 2, ...
struct peaks {
    float before = -2, here = -2; // the last two scores
    float best = -2, next_best = -2, place = 0;

    // The score of `plane`: says whether the plane before is a peak.
    __device__ void add(float score, int plane) {
        if (here > -1 && here > before && here >= score) {
            next_best = fmaxf(next_best, fminf(best, here));
            if (here > best) {
                best = here;
                const bool between = before > -1 && score > -1;
                const float vertex = between ? 0.5f * (before - score) / (before + score - 2 * here) : 0;
                place = plane == 1 ? 0.5f : float(plane - 1) + vertex;
            }
        }
        before = here, here = score;
    }
};

__global__ void __launch_bounds__(block_size) stereo_depths_kernel(gs_stereo in) {
    const gs_stereo_view &view = in.views[blockIdx.y];
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x, width = view.camera.width;
    if (i >= width * view.camera.height) return;
    window a;
    peaks found;
    view.inverse_depth[i] = NAN;
    if ((view.mask && view.mask[i] == 0) || !window_of(view, int(i % width), int(i / width), &a)) return;
    for (int plane = 0; plane < view.steps; plane++)
        found.add(score_of(in.views, view, a, float(plane) * view.step), plane);
    if (found.best >= in.least_score && found.best - found.next_best >= in.least_lead)
        view.inverse_depth[i] = found.place * view.step;
}

// The difference between another view's depth and a point's, in units of the tolerance; positive: the view looks through
// the point. NaN if it does not see the point or knows no depth. ratio: of its inverse depth to the point's.
__device__ float difference(const gs_stereo &in, int to, const ray &r, float w, int64_t *pixel,
                            float *ratio) {
    const gs_stereo_view &view = in.views[to];
    const int width = view.camera.width;
    float at[2], z;
    if (!(pixel_of(view.camera, r, w, at, &z) && at[0] >= 0 && at[0] < float(width) && at[1] >= 0 &&
          at[1] < float(view.camera.height)))
        return NAN;
    *pixel = int64_t(at[1]) * width + int64_t(at[0]);
    *ratio = view.inverse_depth[*pixel] * z / w;
    return w / z * (1 - *ratio) / (in.tolerance * view.step);
}

__global__ void __launch_bounds__(block_size) stereo_points_kernel(gs_stereo in, int v, float *points) {
    const gs_stereo_view &view = in.views[v];
    const int64_t i = int64_t(blockIdx.x) * block_size + threadIdx.x, width = view.camera.width;
    if (i >= width * view.camera.height) return;
    for (int k = 0; k < 3; k++) points[3 * i + k] = NAN;
    const float w = view.inverse_depth[i];
    if (isnan(w) || view.covered[i]) return;
    const ray r = ray_of(view.camera, float(i % width) + 0.5f, float(i / width) + 0.5f);
    float ratio, sum = 1;
    int agree = 0, through = 0;
    int64_t pixel;
    for (int n = 0; n < in.count; n++) {
        const float off = n == v ? NAN : difference(in, n, r, w, &pixel, &ratio);
        if (fabsf(off) <= 1) agree++, sum += ratio;
        through += off > 2;
    }
    if (agree < 2 || through > agree) return;
    view.covered[i] = 1;
    for (int n = 0; n < in.count; n++)
        if (n != v && fabsf(difference(in, n, r, w, &pixel, &ratio)) <= 1) in.views[n].covered[pixel] = 1;
    const float corrected = w * sum / float(agree + 1);
    for (int k = 0; k < 3; k++) points[3 * i + k] = r.centre[k] + r.direction[k] / corrected;
}

gs_status check_stereo(const char *function, const gs_stereo *stereo) {
    GS_ARGUMENT(stereo && stereo->views, "stereo and its views must be given");
    GS_ARGUMENT(stereo->count >= 1 && stereo->count <= 65535, "count must be in 1..65535");
    return libgs_require(function, stereo->most_pixels >= 1 && stereo->tolerance > 0,
                         "most_pixels and tolerance must be positive");
}

} // namespace

gs_status gs_stereo_depths(const gs_stereo *stereo, gs_context *context) {
    GS_TRY(check_stereo(__func__, stereo));
    const dim3 grid(blocks_for(stereo->most_pixels, block_size), unsigned(stereo->count));
    return GS_STATUS(launch(stream_of(context), grid, block_size, stereo_depths_kernel, *stereo));
}

gs_status gs_stereo_points(const gs_stereo *stereo, int32_t view, float *points, gs_context *context) {
    GS_TRY(check_stereo(__func__, stereo));
    GS_REQUIRE(view >= 0 && view < stereo->count && points, "view must be in 0..count - 1, and points given");
    return GS_STATUS(launch_for(stream_of(context), stereo->most_pixels, block_size, stereo_points_kernel,
                                *stereo, view, points));
}
