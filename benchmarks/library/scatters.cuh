// SPDX-License-Identifier: MIT
// Kernels in which each thread makes a few additions to addresses that its data name, and little else: the edges of a graph
// by edge and by vertex, points with a lane for each channel, fluxes through the faces of cells, sums of superpixels,
// tallies of Monte Carlo, a joint histogram of two images, backprojection of tomography.
#pragma once

#include "user_kernels.cuh"
#include <algorithm>
#include <math.h>

namespace scatters {

constexpr unsigned all = distwar::all_lanes;

template <typename T>
DISTWAR_DEVICE void add_native(T *sums, size_t place, float value) {
    atomicAdd(sums + place, T(value));
}
// As torch does it: a pair, whose other half gets a zero.
DISTWAR_DEVICE void add_native(__half *sums, size_t place, float value) {
    const __half zero = __float2half(0), half = __float2half(value);
    atomicAdd(reinterpret_cast<__half2 *>(sums) + place / 2,
              place % 2 ? __halves2half2(zero, half) : __halves2half2(half, zero));
}

// How a thread adds K floats to the record of a key.
template <how H, int K, typename T>
struct adder {
    T *sums;
    long long count;

    // Whether a loop goes on: if this thread has work or, where lanes add together, if one of the warp has.
    DISTWAR_DEVICE bool goes_on(bool active) const {
        if constexpr (H == how::plain || H == how::in_double || H == how::atomic)
            return active;
        else
            return __any_sync(all, active);
    }
    // What the additions at the keys of one cell have in common.
    DISTWAR_DEVICE auto cells(bool active, int cell) const {
        if constexpr (H == how::group)
            return distwar::group_lanes(all, active, cell);
        else
            return 0;
    }
    template <typename Cells = int>
    DISTWAR_DEVICE void operator()(bool active, int key, const float (&value)[K],
                                   [[maybe_unused]] const Cells &of = 0) const {
        const auto sink = [&] {
            if constexpr (std::is_same_v<T, __half>)
                return distwar::record_of_halves<T>{sums, K, count};
            else if constexpr (H == how::aligned || H == how::vectors)
                return distwar::aligned_record<T>{sums, K};
            else
                return distwar::record<T>{sums, K};
        }();
        if constexpr (H == how::plain || H == how::in_double || H == how::plain_of_all_lanes) {
            if (!active) return;
#pragma unroll
            for (int k = 0; k < K; ++k) add_native(sums, size_t(key) * K + k, value[k]);
        } else if constexpr (H == how::group) {
            of.add(value, sink, distwar::at_key{key});
        } else {
            call<H>(all, active, key, value, sink);
        }
    }
};

// Thread i < of.count makes the additions of of.add(exists, i, add): records of P::values floats.
template <how H, typename P, typename T>
__global__ void __launch_bounds__(256) scatter(P of, T *sums) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool exists = i < of.count;
    of.add(exists, exists ? i : 0, adder<H, P::values, T>{sums, of.sums});
}

// Elements of `width` channels, a thread each, with K values.
template <int K>
struct elements {
    static constexpr int values = K;
    long long sums;
    int count, width;
    const int *key;
    const float *value; // [element][channel][K]

    template <typename Add>
    DISTWAR_DEVICE void add(bool exists, int i, const Add &add_to) const {
        float own[K];
#pragma unroll
        for (int k = 0; k < K; ++k) own[k] = value[size_t(i) * K + k];
        add_to(exists, key[i / width] * width + i % width, own);
    }
};
// Lists of different lengths: what a vertex adds to the targets of its edges.
struct lists {
    static constexpr int values = 1;
    long long sums;
    int count;
    const int *first, *key;
    const float *value; // of each list

    template <typename Add>
    DISTWAR_DEVICE void add(bool, int i, const Add &add_to) const {
        const float own = value[i];
        const int end = first[i + 1];
        for (int e = first[i]; add_to.goes_on(e < end); ++e) add_to(e < end, e < end ? key[e] : 0, {own});
    }
};
// Finite volumes, [cell][4]: a face takes its flux of four conserved values from one cell and gives it to the other.
struct faces {
    static constexpr int values = 4;
    long long sums;
    int count;
    const int2 *cells;
    const float4 *state;

    template <typename Add>
    DISTWAR_DEVICE void add(bool exists, int i, const Add &add_to) const {
        const int2 cell = cells[i];
        const float4 a = state[cell.x], b = state[cell.y];
        const float u = a.y / a.x + b.y / b.x, p = 0.4f * (a.w + b.w);
        const float4 flux = {u * (a.x + b.x), u * (a.y + b.y) + p, u * (a.z + b.z), u * (a.w + b.w + p)};
        add_to(exists, cell.x, {flux.x, flux.y, flux.z, flux.w});
        add_to(exists, cell.y, {-flux.x, -flux.y, -flux.z, -flux.w});
    }
};
// Tallies in double, [cell][energy]: a particle scatters from cell to cell until its weight is gone.
struct particles {
    static constexpr int values = 1, SIDE = 32, CELLS = SIDE * SIDE * SIDE, ENERGIES = 32;
    long long sums;
    int count;

    template <typename Add>
    DISTWAR_DEVICE void add(bool exists, int i, const Add &add_to) const {
        unsigned random = unsigned(i) * 0x9e3779b1u;
        random ^= random >> 15;
        int cell = CELLS / 2 + SIDE * SIDE / 2 + SIDE / 2, energy = 0; // the source
        float weight = exists ? 1 : 0;
        while (add_to.goes_on(weight > 0.01f)) {
            random = random * 1664525u + 1013904223u;
            const int step = 1 << 5 * ((random >> 30) % 3); // along one of the axes
            const float drawn = float(random >> 8 & 0xffff) / 65536;
            cell = (cell + (random >> 29 & 1 ? step : -step)) & (CELLS - 1);
            energy = min(energy + int(drawn * 4), ENERGIES - 1);
            add_to(weight > 0.01f, cell * ENERGIES + energy, {weight * (1 + drawn)});
            weight *= drawn;
        }
    }
};
// Mutual information: a pair of voxels adds to four neighbouring bins of the joint histogram, by a cubic B-spline.
struct voxels {
    static constexpr int values = 1, BINS = 64;
    long long sums;
    int count;
    const float *still, *moving; // 0..1

    template <typename Add>
    DISTWAR_DEVICE void add(bool exists, int i, const Add &add_to) const {
        const float x = moving[i] * (BINS - 4), t = x - floorf(x), s = 1 - t;
        const float weight[4] = {s * s * s / 6, (4 + 3 * t * t * (t - 2)) / 6, (4 + 3 * s * s * (s - 2)) / 6,
                                 t * t * t / 6};
        const int bin = min(int(still[i] * BINS), BINS - 1) * BINS + int(x);
        const auto cells = add_to.cells(exists, bin);
#pragma unroll
        for (int j = 0; j < 4; ++j) add_to(exists, bin + j, {weight[j]}, cells);
    }
};
// Tomography: a detector adds what it measured to the pixels along its ray.
struct rays {
    static constexpr int values = 1, SIDE = 512, VIEWS = 360;
    long long sums;
    int count;
    const float *measured; // [view][SIDE]

    template <typename Add>
    DISTWAR_DEVICE void add(bool exists, int i, const Add &add_to) const {
        const float half_turns = float(i / SIDE) / VIEWS, across = float(i % SIDE - SIDE / 2);
        const float dx = cospif(half_turns), dy = sinpif(half_turns), own = measured[i];
        for (int t = -SIDE / 2; t < SIDE / 2; ++t) {
            const int x = int(floorf(SIDE / 2 - across * dy + float(t) * dx)),
                      y = int(floorf(SIDE / 2 + across * dx + float(t) * dy));
            add_to(exists && x >= 0 && x < SIDE && y >= 0 && y < SIDE, y * SIDE + x, {own});
        }
    }
};

// Registers a case with `plain`, `reduce` and these variants.
template <typename P, typename Sum, how... More>
void add_case(const std::string &name, const std::function<P()> &make_problem) {
    auto &one = *new kernel_case<Sum>(name, sizeof(Sum) == 2 ? 0.3 : 1e-4);
    auto &of = *new P;
    const auto run = [&of](auto kernel, auto *to) {
        DEVICE_CHECK(launch_for(nullptr, of.count, 256, kernel, of, to));
    };
    one.make = [=, &one, &of] {
        of = make_problem();
        one.make_sums(size_t(of.sums));
        one.refer_to(one.count, [&](double *to) { run(scatter<how::in_double, P, double>, to); });
    };
    const auto add = [&](how called, void (*kernel)(P, Sum *)) {
        const char *const names[] = {"plain",
                                     "",
                                     "plain_in_the_loop_of_all_lanes",
                                     "reduce",
                                     "",
                                     "",
                                     "reduce_atomic",
                                     "group_lanes_by_cell",
                                     "reduce_tree",
                                     "aligned_record_reduce",
                                     "aligned_record_vector_atomics"}; // in the order of `how`
        add_variant(&one, names[int(called)], kernel, [=, &one] { run(kernel, one.sums); });
    };
    add(how::plain, scatter<how::plain, P, Sum>), add(how::one_call, scatter<how::one_call, P, Sum>);
    (add(More, scatter<More, P, Sum>), ...);
}

enum { SIDE = 512, VERTICES = SIDE * SIDE, EDGES = 1 << 22, RAYS = 4224, OF_A_RAY = 112, CHANNELS = 80 };
enum class pattern { rmat, uniform, grid, rays, shuffled_rays };

// Edges in the order of their sources, R-MAT as Graph500 has it; or the points on the rays of cameras, which add to cells
// around them: pairs of source and target, or ray and cell.
inline std::vector<std::pair<int, int>> edges_of(pattern of) {
    std::mt19937 random(6);
    std::uniform_real_distribution<float> draw(0, 1);
    std::vector<std::pair<int, int>> edges;
    if (of == pattern::grid) {
        for (int v = 0; v < VERTICES; ++v)
            for (const int step : {-SIDE, -1, 1, int(SIDE)})
                if (v + step >= 0 && v + step < VERTICES) edges.push_back({v, v + step});
    } else if (of == pattern::rmat || of == pattern::uniform) {
        for (int i = 0; i < EDGES; ++i) {
            int from = 0, to = 0;
            for (int bit = 1; bit < VERTICES; bit *= 2) {
                const float p = draw(random);
                const int quarter =
                    of == pattern::uniform ? int(4 * p) : (p > 0.57f) + (p > 0.76f) + (p > 0.95f);
                from += quarter / 2 * bit, to += quarter % 2 * bit;
            }
            edges.push_back({from, to});
        }
        std::sort(edges.begin(), edges.end());
    } else {
        for (int i = 0; i < RAYS * OF_A_RAY; ++i) {
            const float angle = float(i / OF_A_RAY) * 6.2832f / RAYS, depth = float(i % OF_A_RAY) / 2;
            edges.push_back(
                {i / OF_A_RAY, 128 * int(64 + depth * sinf(angle)) + int(64 + depth * cosf(angle))});
        }
        if (of == pattern::shuffled_rays) std::shuffle(edges.begin(), edges.end(), random);
    }
    return edges;
}
// A device array of made(i), and small numbers for one.
template <typename Made>
auto array_of(int count, const Made &made) {
    std::vector<decltype(made(0))> content;
    for (int i = 0; i < count; ++i) content.push_back(made(i));
    return device_copy(content);
}
inline float value_of(int i) {
    return float(i * 2654435761u % 1000) / 1000 - 0.5f;
}
inline elements<1> make_elements(pattern of, int width) {
    const auto edges = edges_of(of);
    const int count = int(edges.size()) * width;
    return {(long long)VERTICES * width, count, width,
            array_of(int(edges.size()), [&](int e) { return edges[size_t(e)].second; }),
            array_of(count, [&](int i) {
                return value_of(edges[size_t(i / width)].first) * (1 + 0.01f * float(i % width));
            })};
}
inline lists make_lists(pattern of) {
    std::vector<int> key, first(VERTICES + 1, 0);
    for (const auto &[from, to] : edges_of(of)) key.push_back(to), ++first[size_t(from) + 1];
    for (int v = 0; v < VERTICES; ++v) first[size_t(v) + 1] += first[size_t(v)];
    return {VERTICES, VERTICES, device_copy(first), device_copy(key), array_of(VERTICES, value_of)};
}
// The faces of a grid of cells, to the right and above, in the order of the cells or not.
inline faces make_faces(bool shuffled) {
    std::vector<int2> cells;
    for (const auto &[from, to] : edges_of(pattern::grid))
        if (from < to) cells.push_back({from, to});
    if (shuffled) std::shuffle(cells.begin(), cells.end(), std::mt19937(7));
    return {4 * VERTICES, int(cells.size()), device_copy(cells), array_of(VERTICES, [](int v) {
                return float4{1 + value_of(v), value_of(v + 1), value_of(v + 2), 2 + value_of(v + 3)};
            })};
}
// Superpixels of about 16 x 16 pixels with waves for borders: sums of colour, place and number of the pixels of a label.
inline elements<6> make_pixels() {
    const auto label = [](int i) {
        const float x = float(i % 1024), y = float(i / 1024);
        return int((y + 4 + 4 * sinf(0.3f * x)) / 16) * 66 + int((x + 4 + 4 * sinf(0.4f * y)) / 16);
    };
    return {6 * 66 * 66, 1 << 20, 1, array_of(1 << 20, label), array_of(6 << 20, value_of)};
}
// Two smooth volumes of 128 x 128 x 128, noise on the second one.
inline voxels make_voxels() {
    const int count = 1 << 21;
    const auto volume = [](int i, float moved) {
        return 0.5f + 0.45f * sinf(0.05f * float(i % 128) + moved) * cosf(0.04f * float(i / 128 % 128));
    };
    return {voxels::BINS * voxels::BINS, count, array_of(count, [&](int i) { return volume(i, 0); }),
            array_of(count, [&](int i) { return volume(i, 0.2f) + 0.02f * value_of(i); })};
}
inline rays make_rays() {
    const int count = rays::VIEWS * rays::SIDE;
    return {rays::SIDE * rays::SIDE, count, array_of(count, value_of)};
}

inline void add_all() {
    for (const pattern of : {pattern::rays, pattern::shuffled_rays}) {
        const std::string name = of == pattern::rays ? "rays" : "shuffled_rays";
        const auto columns = [=] { return make_elements(of, CHANNELS); };
        add_case<elements<1>, float, how::tree>("columns/" + name, columns);
        add_case<elements<1>, __half, how::tree>("halves_columns/" + name, columns);
    }
    for (const pattern of : {pattern::rmat, pattern::uniform, pattern::grid}) {
        const std::string name = of == pattern::rmat ? "rmat" : of == pattern::uniform ? "uniform" : "grid";
        const auto edges = [=] { return make_elements(of, 1); };
        add_case<elements<1>, float, how::tree>("by_edge/" + name, edges);
        add_case<elements<1>, __half, how::tree>("halves_by_edge/" + name, edges);
        add_case<lists, float, how::atomic, how::plain_of_all_lanes>("by_vertex/" + name,
                                                                     [=] { return make_lists(of); });
    }
    add_case<faces, float, how::aligned, how::vectors>("faces/by_cell", [] { return make_faces(false); });
    add_case<faces, float, how::aligned, how::vectors>("faces/shuffled", [] { return make_faces(true); });
    add_case<elements<6>, float, how::tree>("superpixels/1024", make_pixels);
    add_case<particles, double, how::atomic>("tallies/from_a_source", [] {
        return particles{particles::CELLS * particles::ENERGIES, 1 << 20};
    });
    add_case<voxels, float, how::group, how::tree>("joint_histogram/smooth", make_voxels);
    add_case<rays, float, how::tree>("backprojection/360_views", make_rays);
}

} // namespace scatters
