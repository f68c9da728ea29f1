// SPDX-License-Identifier: MIT
// sizes COUNT WIDTH HEIGHT [CHANNELS [SCALE [PIXELS [MINIMUM [DEGREE]]]]]: a view of any size through all stages and back, right
// against the double reference on sampled tiles: their lists entry by entry, their pixels, and the gradients by a loss
// of these pixels alone, which must be 0 for Gaussians that no sampled tile has. SCALE: of the world; PIXELS: the
// deviation of a splat in the image. Exit 1 if something differs, or if there are not MINIMUM pairs of tile and splat.
#include "kernel_frame.h"
#include "launch.cuh"
#include "random.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

namespace {

constexpr int block = 256;

struct world {
    int64_t count;
    int channels, row; // row: floats of a Gaussian's colour, or of its harmonics
    float scale, size; // size: in depths
    gs_camera camera;
};

__global__ void make_kernel(world w, gs_gaussians g) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= w.count) return;
    random_stream random = random_at(1, 2, 3, uint64_t(i));
    const auto between = [&](float low, float high) {
        return low + (high - low) * float(random_unit(&random));
    };
    const float z = w.scale * between(2, 6);
    g.mean[3 * i] = (between(0, 1) * float(w.camera.width) - w.camera.cx) / w.camera.fx * z;
    g.mean[3 * i + 1] = (between(0, 1) * float(w.camera.height) - w.camera.cy) / w.camera.fy * z;
    g.mean[3 * i + 2] = z;
    for (int k = 0; k < 3; k++) g.log_scale[3 * i + k] = logf(w.size * z * between(0.5f, 1.5f));
    for (int k = 0; k < 4; k++) g.quaternion[4 * i + k] = between(0.1f, 1);
    g.opacity_logit[i] = between(-3, 1);
    float *const color = w.channels == GS_CHANNELS ? g.sh : g.color;
    for (int k = 0; k < w.row; k++) color[w.row * i + k] = k < w.channels ? between(0, 1) : 0;
}

// The first values of each row.
__global__ void first_kernel(world w, const float *rows, float *first) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    for (int k = 0; i < w.count && k < w.channels; k++) first[w.channels * i + k] = rows[w.row * i + k];
}

// How many rows of a gradient are not 0.
__global__ void touched_kernel(int64_t count, gs_gaussians g, unsigned long long *rows) {
    const int64_t i = int64_t(blockIdx.x) * block + threadIdx.x;
    if (i >= count) return;
    bool any = g.opacity_logit[i] != 0;
    for (int k = 0; k < 3; k++) any |= g.mean[3 * i + k] != 0 || g.log_scale[3 * i + k] != 0;
    if (any) atomicAdd(rows, 1ull);
}

__global__ void weights_kernel(float *color, int64_t plane, int channels, int width, int x0, int y0, int x1,
                               int y1) {
    const int x = x0 + int(threadIdx.x) % GS_TILE_SIZE, y = y0 + int(threadIdx.x) / GS_TILE_SIZE;
    if (x >= x1 || y >= y1) return;
    for (int c = 0; c < channels; c++)
        color[c * plane + int64_t(y) * width + x] = float((x + 2 * y + c) % 5 - 2);
}

std::vector<void *> taken; // of the device, until the end

template <typename T>
T *allocate(int64_t values) {
    taken.push_back(device_allocate(size_t(values) * sizeof(T)));
    return static_cast<T *>(taken.back());
}

int faults = 0;
void expect(bool good, const char *what, double value, double limit) {
    printf("  %-52s %.2e  (limit %.1e)%s\n", what, value, limit, good ? "" : "  FAILED");
    faults += !good;
}
void must(gs_status status) {
    if (status != GS_OK) fprintf(stderr, "sizes: %s\n", gs_last_error()), exit(1);
}

// The scene on the host, one Gaussian at a time.
struct host_scene {
    std::vector<float> mean, log_scale, quaternion, logit;
    const world &w;
    reference_camera camera;
    held_gaussians at(int64_t i, const float *color) const {
        held_gaussians g = reference_gaussians_create(1, 0);
        for (int k = 0; k < 3; k++) g.mean[k] = mean[3 * i + k], g.log_scale[k] = log_scale[3 * i + k];
        for (int k = 0; k < 4; k++) g.quaternion[k] = quaternion[4 * i + k];
        g.opacity_logit[0] = logit[i];
        for (int k = 0; color && w.channels == GS_CHANNELS && k < 3; k++) g.sh[k] = color[k];
        return g;
    }
    reference_splat splat(int64_t i, const float *color) const {
        const held_gaussians g = at(i, color);
        reference_splat out;
        reference_project(&g, 0, 0, &camera, NULL, &out);
        return out;
    }
};

} // namespace

int main(int argc, char **argv) {
    const auto argument = [&](int k, double usual) { return argc > k ? atof(argv[k]) : usual; };
    if (argc < 4)
        return fprintf(stderr,
                       "usage: sizes COUNT WIDTH HEIGHT [CHANNELS [SCALE [PIXELS [MINIMUM [DEGREE]]]]]\n"),
               2;
    testing::InitGoogleTest();
    const int degree = int(argument(8, 0));
    world w = {int64_t(argument(1, 0)), int(argument(4, 3)), 0, float(argument(5, 1)), 0, {}};
    w.row = w.channels == GS_CHANNELS ? GS_CHANNELS * (degree + 1) * (degree + 1) : w.channels;
    const int width = w.camera.width = int(argument(2, 0)), height = w.camera.height = int(argument(3, 0));
    w.camera.fx = w.camera.fy = 0.9f * float(width), w.camera.cx = 0.5f * float(width);
    w.camera.cy = 0.5f * float(height), w.camera.near_plane = 0.1f * w.scale;
    for (int k = 0; k < 3; k++) w.camera.rotation[4 * k] = 1;
    w.size = float(argument(6, 3)) / w.camera.fx;
    const int64_t pixels = int64_t(width) * height, n = w.count;
    printf("%lld Gaussians, %d x %d, %d channels, world %g, %g pixels\n", (long long)n, width, height,
           w.channels, w.scale, argument(6, 3));

    gs_gaussians sets[2] = {}; // the scene and the gradient by it
    for (gs_gaussians &g : sets) {
        g.count = n, g.channels = w.channels, g.sh_degree = degree;
        g.mean = allocate<float>(3 * n), g.log_scale = allocate<float>(3 * n),
        g.quaternion = allocate<float>(4 * n);
        g.opacity_logit = allocate<float>(n);
        (w.channels == GS_CHANNELS ? g.sh : g.color) = allocate<float>(w.row * n);
    }
    DEVICE_CHECK(launch_for(nullptr, n, block, make_kernel, w, sets[0]));
    gs_view view = {};
    view.gaussians = sets[0], view.camera = w.camera;
    view.splats = allocate<gs_splat>(n);
    view.image.color = allocate<float>(w.channels * pixels);
    view.image.transmittance = allocate<float>(pixels), view.image.n_contrib = allocate<uint32_t>(pixels);
    must(gs_forward(&view, NULL));
    printf("  %lld pairs, %.1f GB for lists\n", (long long)view.ranges.isects,
           double(view.memory.bytes) / 1e9);

    const int tiles_x = view.ranges.tiles_x, tiles = tiles_x * view.ranges.tiles_y;
    const std::vector<int64_t> begin = downloaded(view.ranges.tile_begin, tiles + 1);
    expect(begin[size_t(tiles)] == view.ranges.isects, "pairs that lists do not have",
           double(view.ranges.isects - begin[size_t(tiles)]), 0);
    expect(double(view.ranges.isects) >= argument(7, 0), "pairs", double(view.ranges.isects), argument(7, 0));
    std::vector<int> sampled = {0, tiles_x - 1, tiles / 2 + tiles_x / 2, tiles - 1};
    random_stream random = {7};
    for (int k = 0; k < 3; k++) sampled.push_back(int(random_below(&random, uint64_t(tiles))));
    std::sort(sampled.begin(), sampled.end());
    sampled.erase(std::unique(sampled.begin(), sampled.end()), sampled.end());

    // Back, from the sampled tiles.
    gs_gradient gradient = {};
    float *const d_color = allocate<float>(w.channels * pixels);
    DEVICE_CHECK(cudaMemset(d_color, 0, size_t(w.channels * pixels) * sizeof(float)));
    for (const int tile : sampled) {
        const int x0 = tile % tiles_x * GS_TILE_SIZE, y0 = tile / tiles_x * GS_TILE_SIZE;
        DEVICE_CHECK(launch(nullptr, 1, block, weights_kernel, d_color, pixels, w.channels, width, x0, y0,
                            std::min(x0 + GS_TILE_SIZE, width), std::min(y0 + GS_TILE_SIZE, height)));
    }
    gradient.color = d_color, gradient.gaussians = sets[1];
    gradient.splat_grad = allocate<gs_splat_grad>(n);
    must(gs_backward(&view, &gradient, {DISTWAR_TREE, 8}, NULL));
    const device_vector<unsigned long long> touched(std::vector<unsigned long long>(1));
    DEVICE_CHECK(launch_for(nullptr, n, block, touched_kernel, n, sets[1], touched.data()));

    // The reference: every splat, and which of the sampled tiles it reaches.
    const host_scene host = {downloaded(sets[0].mean, 3 * n),
                             downloaded(sets[0].log_scale, 3 * n),
                             downloaded(sets[0].quaternion, 4 * n),
                             downloaded(sets[0].opacity_logit, n),
                             w,
                             reference_camera_from_floats(&w.camera)};
    const double slack = 1e-4 + 2e-7 * std::max(width, height); // floats of pixels have that much
    const unsigned workers = std::max(1u, std::thread::hardware_concurrency());
    std::vector<std::map<int, std::vector<uint32_t>>> found(workers);
    std::vector<std::thread> running;
    for (unsigned t = 0; t < workers; t++)
        running.emplace_back([&, t] {
            for (int64_t i = n * t / workers; i < n * (t + 1) / workers; i++) {
                const reference_splat s = host.splat(i, NULL);
                if (!s.decisions.visible) continue;
                const double spread = 4 * std::sqrt(s.covariance[0] + s.covariance[2]) + GS_TILE_SIZE;
                for (const int tile : sampled) {
                    const int x = tile % tiles_x, y = tile / tiles_x;
                    if (std::abs(s.mean[0] - GS_TILE_SIZE * (x + 0.5)) < spread &&
                        std::abs(s.mean[1] - GS_TILE_SIZE * (y + 0.5)) < spread &&
                        255 * reference_area_reach(&s, width, height, x, y) >= 1 - 10 * slack)
                        found[t][tile].push_back(uint32_t(i));
                }
            }
        });
    for (std::thread &thread : running) thread.join();

    const auto colors_of = [&](const gs_gaussians &g) {
        const device_vector<float> first(size_t(w.channels * n));
        DEVICE_CHECK(launch_for(nullptr, n, block, first_kernel, w,
                                w.channels == GS_CHANNELS ? g.sh : g.color, first.data()));
        return first.read();
    };
    const std::vector<float> all_colors = colors_of(sets[0]);
    double image_error = 0, lists_wrong = 0, order_wrong = 0;
    int64_t entries = 0, at_limit = 0, between_centres = 0;
    std::map<uint32_t, std::vector<double>> wanted; // by mean, log scale, opacity logit
    for (const int tile : sampled) {
        const int x0 = tile % tiles_x * GS_TILE_SIZE, y0 = tile / tiles_x * GS_TILE_SIZE;
        const int columns = std::min(int(GS_TILE_SIZE), width - x0),
                  rows = std::min(int(GS_TILE_SIZE), height - y0);
        const int64_t length = begin[size_t(tile) + 1] - begin[size_t(tile)];
        std::vector<uint32_t> list = downloaded(view.ranges.splat_index + begin[size_t(tile)], length), near;
        for (const auto &part : found)
            if (part.count(tile)) near.insert(near.end(), part.at(tile).begin(), part.at(tile).end());
        entries += length;
        std::vector<uint32_t> sorted = list;
        std::sort(sorted.begin(), sorted.end());
        // A list has what reaches 1/255 in the tile, between pixel centres too; within rounding of it either is right.
        for (const uint32_t i : near) {
            const reference_splat s = host.splat(i, NULL);
            const int x = x0 / GS_TILE_SIZE, y = y0 / GS_TILE_SIZE;
            const double reach = 255 * reference_area_reach(&s, width, height, x, y);
            const bool listed = std::binary_search(sorted.begin(), sorted.end(), i);
            lists_wrong += !listed && reach >= 1 + 10 * slack;
            at_limit += reach < 1 + 10 * slack;
            between_centres +=
                listed && reach >= 1 + 10 * slack && 255 * reference_reach(&s, width, height, x, y) < 1;
        }
        for (const uint32_t i : sorted) lists_wrong += !std::binary_search(near.begin(), near.end(), i);
        lists_wrong += std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();

        std::vector<reference_splat> splats;
        std::vector<double> colors;
        std::vector<uint32_t> index(size_t(length), 0);
        for (int64_t k = 0; k < length; k++) {
            const float *const color = all_colors.data() + int64_t(list[size_t(k)]) * w.channels;
            colors.insert(colors.end(), color, color + w.channels);
            splats.push_back(host.splat(list[size_t(k)], color));
            splats.back().mean[0] -= x0, splats.back().mean[1] -= y0;
            index[size_t(k)] = uint32_t(k);
            order_wrong += k > 0 && splats[size_t(k)].depth < splats[size_t(k) - 1].depth * (1 - 1e-6);
        }
        int64_t ends[2] = {0, length};
        const gs_tile_ranges ranges = {1, 1, length, ends, index.data(), 1, 0, nullptr, 0, 0, nullptr};
        reference_blend blend = {};
        const std::vector<double> background(size_t(w.channels), 0.0);
        blend.splats = splats.data(), blend.count = length, blend.ranges = &ranges, blend.width = columns;
        blend.height = rows, blend.background = background.data();
        if (w.channels != GS_CHANNELS) blend.channels = w.channels, blend.color = colors.data();
        std::vector<uint8_t> tape(size_t(length) * REFERENCE_TILE_PIXELS + 1);
        const held_image image = reference_image_of_channels(w.channels, columns, rows);
        reference_render(&blend, tape.data(), &image);
        std::vector<double> weights;
        for (int c = 0; c < w.channels; c++)
            for (int y = 0; y < rows; y++) {
                const std::vector<float> got =
                    downloaded(view.image.color + c * pixels + int64_t(y0 + y) * width + x0, columns);
                for (int x = 0; x < columns; x++) {
                    weights.push_back((x0 + x + 2 * (y0 + y) + c) % 5 - 2);
                    if (image.margin[y * columns + x] < 10 * slack) continue;
                    const double error = std::abs(got[size_t(x)] - image.color[(c * rows + y) * columns + x]);
                    image_error = error <= image_error ? image_error : error;
                }
            }
        blend.held = tape.data();
        const reference_image_gradient d_image = {weights.data(), NULL, NULL};
        std::vector<reference_splat_gradient> by_splat(static_cast<size_t>(length));
        std::vector<double> by_color(size_t(length) * size_t(w.channels));
        reference_render_backward(&blend, &d_image, by_splat.data(),
                                  w.channels == GS_CHANNELS ? NULL : by_color.data());
        for (int64_t k = 0; k < length; k++) {
            const held_gaussians g = host.at(list[size_t(k)], NULL), d = reference_gaussians_create(1, 0);
            const double *const out = d.mean; // all values, as in reference_gaussians
            reference_project_backward(&g, 0, 0, &host.camera, &splats[size_t(k)].decisions,
                                       &by_splat[size_t(k)], &d);
            std::vector<double> &sum = wanted[list[size_t(k)]];
            sum.resize(10);
            for (int v = 0; v < 6; v++) sum[size_t(v)] += out[v];
            for (int c = 0; c < 3; c++)
                sum[size_t(6 + c)] += w.channels == GS_CHANNELS
                                          ? out[11 + c]
                                          : by_color[size_t(k) * size_t(w.channels) + size_t(c)];
            sum[9] += out[10];
        }
    }
    printf(
        "  %lld entries of sampled lists; %lld reach 1/255 only between pixel centres, %lld are within rounding of it\n",
        (long long)entries, (long long)between_centres, (long long)at_limit);
    expect(lists_wrong == 0, "entries that sampled lists should or should not have", lists_wrong, 0);
    expect(order_wrong == 0, "entries of sampled lists out of order", order_wrong, 0);
    expect(image_error <= slack, "worst error of sampled pixels", image_error, slack);
    const struct {
        const char *name;
        std::vector<float> values;
        int stride, width, first;
    } groups[] = {{"gradient by means", downloaded(sets[1].mean, 3 * n), 3, 3, 0},
                  {"gradient by log scales", downloaded(sets[1].log_scale, 3 * n), 3, 3, 3},
                  {"gradient by colours", colors_of(sets[1]), w.channels, 3, 6},
                  {"gradient by opacity logits", downloaded(sets[1].opacity_logit, n), 1, 1, 9}};
    for (const auto &group : groups) {
        std::vector<double> got, expected;
        for (const auto &[i, values] : wanted) {
            const auto from = group.values.begin() + int64_t(i) * group.stride;
            got.insert(got.end(), from, from + group.width);
            expected.insert(expected.end(), values.begin() + group.first,
                            values.begin() + group.first + group.width);
        }
        const double error = relative_norm(got, expected);
        expect(error <= 1e-3 + 10 * slack, group.name, error, 1e-3 + 10 * slack);
    }
    unsigned long long reached = 0;
    for (const auto &[i, values] : wanted)
        reached += std::any_of(values.begin(), values.end(), [](double v) { return v != 0; });
    const unsigned long long rows = touched.read()[0]; // a float may round to 0 or a decision differ
    expect(rows <= reached + reached / 100 + 2 && rows + reached / 100 + 2 >= reached,
           "Gaussians with a gradient, less those that should have one", double(rows) - double(reached),
           double(reached / 100 + 2));
    printf("  %s\n", faults ? "FAILED" : "right");
    gs_view_free(&view, NULL);
    for (void *const memory : taken) device_free(memory);
    return faults ? 1 : 0;
}
