// SPDX-License-Identifier: MIT
// Kernels that do little beside their atomics: the edges of a graph by edge and by vertex, points with a lane for each
// channel, and both into single halves.
#pragma once

#include "strangers.cuh"
#include <algorithm>
#include <math.h>

namespace scatters {

enum { SIDE = 512, VERTICES = SIDE * SIDE, EDGES = 1 << 22, RAYS = 4224, OF_A_RAY = 112, CHANNELS = 80 };
constexpr unsigned all = distwar::all_lanes;

struct lists {
    const int *first, *key; // of each list; of its elements
    const float *value;     // of each element and channel; by list, of each list
    int count, width;       // elements or lists, and their channels
};

template <typename T>
__device__ __forceinline__ void add_native(T *sums, int key, T value) {
    atomicAdd(sums + key, value);
}
// As torch does it: a pair, whose other half gets a zero.
__device__ __forceinline__ void add_native(__half *sums, int key, __half value) {
    const __half zero = __float2half(0);
    atomicAdd(reinterpret_cast<__half2 *>(sums) + key / 2,
              key % 2 ? __halves2half2(zero, value) : __halves2half2(value, zero));
}

template <how H, typename T>
__global__ void __launch_bounds__(256) by_element(lists of, T *sums) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const bool active = i < of.count * of.width;
    const int key = active ? of.key[i / of.width] * of.width + i % of.width : 0;
    const float value = active ? of.value[i] : 0;
    if constexpr (H == how::plain || H == how::in_double) {
        if (active) add_native(sums, key, T(value));
    } else if constexpr (std::is_same_v<T, __half> && H == how::one_call) {
        distwar::reduce(all, active, key, value, distwar::record_of_halves<T>{sums, 1, VERTICES * of.width});
    } else if constexpr (H == how::one_call) {
        distwar::reduce(all, active, key, value, distwar::record<T>{sums, 1});
    } else {
        distwar::reduce_tree(all, active, key, distwar::values(value).of, distwar::record<T>{sums, 1});
    }
}

template <how H>
__global__ void __launch_bounds__(256) by_list(lists of, float *sums) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x);
    const float value = of.value[i];
    int e = of.first[i];
    const int end = of.first[i + 1];
    const auto step = [&] {
        distwar::reduce(all, e < end, e < end ? of.key[e] : 0, value, distwar::record<float>{sums, 1});
    };
    if constexpr (H == how::one_call)
        for (; __any_sync(all, e < end); ++e) step();
    if constexpr (H == how::then_plain)
        for (; distwar::count_lanes(__ballot_sync(all, e < end)) >= 16; ++e) step();
    if constexpr (H == how::plain_of_all_lanes)
        for (; __any_sync(all, e < end); ++e)
            if (e < end) atomicAdd(sums + of.key[e], value);
    for (; e < end; ++e) atomicAdd(sums + of.key[e], value);
}

enum class pattern { rmat, uniform, grid, rays, shuffled_rays };

// Edges in the order of their sources, R-MAT as Graph500 has it; or the points on the rays of cameras, which add to cells
// around them.
template <typename Sum>
struct list_case : kernel_case<Sum> {
    const pattern of;
    const int width;
    lists elements, vertices;

    list_case(const std::string &named, pattern wanted, int channels)
        : kernel_case<Sum>(named, sizeof(Sum) == 2 ? 0.3 : 1e-4), of(wanted), width(channels) {}
    void make() {
        std::mt19937 random(6);
        std::uniform_real_distribution<float> draw(0, 1);
        std::vector<std::pair<int, int>> edges; // source and target, or ray and cell
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
        std::vector<int> key, first(VERTICES + 1, 0);
        std::vector<float> value, of_vertex(VERTICES);
        for (float &one : of_vertex) one = draw(random) - 0.5f;
        for (const auto &[from, to] : edges) {
            key.push_back(to), ++first[size_t(from) + 1];
            for (int c = 0; c < width; ++c) value.push_back(of_vertex[size_t(from)] * (1 + 0.01f * float(c)));
        }
        for (int v = 0; v < VERTICES; ++v) first[size_t(v) + 1] += first[size_t(v)];
        elements = {device_copy(first), device_copy(key), device_copy(value), int(edges.size()), width};
        vertices = {elements.first, elements.key, device_copy(of_vertex), VERTICES, 1};
        this->make_sums(size_t(VERTICES) * size_t(width));
        this->refer_to(this->count,
                       [&](double *to) { run(by_element<how::in_double, double>, elements, to); });
    }
    template <typename T>
    static void run(void (*kernel)(lists, T *), const lists &given, T *to) {
        DEVICE_CHECK(launch_for(nullptr, given.count * given.width, 256, kernel, given, to));
    }
    void add(const char *variant, void (*kernel)(lists, Sum *),
             lists list_case::*given = &list_case::elements) {
        add_variant(this, variant, kernel, [=] { run(kernel, this->*given, this->sums); });
    }
};

// The cases live as long as the program.
template <typename Sum>
void add_elements(const std::string &name, pattern of, int channels) {
    auto &one = *new list_case<Sum>(name, of, channels);
    one.add("plain", by_element<how::plain, Sum>);
    one.add("reduce", by_element<how::one_call, Sum>);
    one.add("reduce_tree", by_element<how::tree, Sum>);
}

inline void add_all() {
    using case_of = std::pair<const char *, pattern>;
    for (const auto &[name, of] :
         {case_of{"rays", pattern::rays}, {"shuffled_rays", pattern::shuffled_rays}}) {
        add_elements<float>(std::string("columns/") + name, of, CHANNELS);
        add_elements<__half>(std::string("halves_columns/") + name, of, CHANNELS);
    }
    for (const auto &[name, of] :
         {case_of{"rmat", pattern::rmat}, {"uniform", pattern::uniform}, {"grid", pattern::grid}}) {
        add_elements<float>(std::string("by_edge/") + name, of, 1);
        add_elements<__half>(std::string("halves_by_edge/") + name, of, 1);
        auto &one = *new list_case<float>(std::string("by_vertex/") + name, of, 1);
        const auto vertices = &list_case<float>::vertices;
        one.add("plain", by_list<how::plain>, vertices);
        one.add("plain_in_the_loop_of_all_lanes", by_list<how::plain_of_all_lanes>, vertices);
        one.add("reduce", by_list<how::one_call>, vertices);
        one.add("reduce_then_plain", by_list<how::then_plain>, vertices);
        one.add("reduce_by_edge", by_element<how::one_call, float>);
    }
}

} // namespace scatters
