// SPDX-License-Identifier: MIT
// Histograms of gradients as boosted trees build them: each row of a leaf adds its gradient and hessian to the bin
// of each column. Bins in shared memory, float, two 16-bit integers in one word or two integers of 8 bytes, blocks of 504
// threads, thread (x, y) has column x; or more bins than shared memory holds, in global memory, one column.
#pragma once

#include "user_kernels.cuh"
#include <algorithm>
#include <type_traits>

namespace histograms {

enum { THREADS = 504, SHARED_BYTES = 28 * 200 * 2 * 4 };
enum class bins { shared, global, global_vectors }; // the last: aligned_record
template <typename T>
inline constexpr bool packs = std::is_same_v<T, int>;
template <typename T>
inline constexpr int values = packs<T> ? 1 : 2;

struct rows {
    const int *index; // of the leaf's rows
    int count, columns;
    const unsigned short *bin; // [row][column]
    const float2 *gradient;    // gradient, hessian
    const int *packed;         // the same in one word
};

// CUDA's own atomic.
template <typename T>
DISTWAR_DEVICE void add_native(T *to, T value) {
    if constexpr (sizeof(T) == 8)
        atomicAdd(reinterpret_cast<unsigned long long *>(to), (unsigned long long)(value));
    else
        atomicAdd(to, value);
}

template <bins B, how H, typename T>
DISTWAR_DEVICE void add_row(unsigned lanes, bool active, int bin, const rows &given, int row, T *to) {
    constexpr int K = values<T>;
    T v[K] = {};
    if (active) {
        if constexpr (packs<T>) {
            v[0] = given.packed[row];
        } else {
            const float2 both = given.gradient[row];
            constexpr float scale = sizeof(T) == 8 ? 0x1p30f : 1;
            v[0] = T(scale * both.x), v[1] = T(scale * both.y);
        }
    }
    using sink_type =
        std::conditional_t<B == bins::global_vectors, distwar::aligned_record<T>, distwar::record<T>>;
    const sink_type sink = {to, K};
    if constexpr (H == how::plain || H == how::plain_of_all_lanes) {
        if (!active) return;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            if constexpr (sizeof(T) == 8 && H == how::plain) { // two words and a carry
                unsigned *const words = reinterpret_cast<unsigned *>(to + K * bin + k);
                const unsigned low = unsigned(v[k]), before = atomicAdd_block(words, low);
                atomicAdd_block(words + 1, unsigned(v[k] >> 32) + (before + low < low));
            } else {
                add_native(to + K * bin + k, v[k]);
            }
        }
    } else {
        call<H == how::one_call && B == bins::shared ? how::shared : H>(lanes, active, bin, v, sink);
    }
}

template <bins B, how H, typename T>
__global__ void __launch_bounds__(THREADS) in_shared_memory(rows given, int bins_of_column, T *histogram) {
    constexpr int K = values<T>;
    __shared__ T sums[SHARED_BYTES / sizeof(T)];
    const int words = given.columns * bins_of_column * K;
    const int rank = int(threadIdx.x + threadIdx.y * blockDim.x), threads = int(blockDim.x * blockDim.y);
    for (int i = rank; i < words; i += threads) sums[i] = T(0);
    __syncthreads();
    const int column = int(threadIdx.x), part = (given.count + int(gridDim.x) - 1) / int(gridDim.x);
    const int first = int(blockIdx.x) * part, end = min(given.count, first + part), step = int(blockDim.y);
    constexpr bool loops_as_plain = H == how::plain || H == how::one_call || H == how::atomic;
    if constexpr (loops_as_plain) {
        T *const mine = sums + column * bins_of_column * K;
        for (int i = first + int(threadIdx.y); i < end; i += step) {
            const int row = given.index[i];
            add_row<B, H>(distwar::all_lanes, true, int(given.bin[size_t(row) * given.columns + column]),
                          given, row, mine);
        }
    } else {
        const unsigned lanes = distwar::existing_lanes();
        for (int i = first; i < end; i += step) {
            const bool active = i + int(threadIdx.y) < end;
            const int row = active ? given.index[i + int(threadIdx.y)] : 0;
            const int bin = active ? int(given.bin[size_t(row) * given.columns + column]) : 0;
            add_row<B, H>(lanes, active, column * bins_of_column + bin, given, row, sums);
        }
    }
    __syncthreads();
    for (int i = rank; i < words; i += threads) add_native(histogram + i, sums[i]);
}

template <bins B, how H>
__global__ void __launch_bounds__(THREADS) in_global_memory(rows given, float *histogram) {
    const int part = (given.count + int(gridDim.x) - 1) / int(gridDim.x);
    const int first = int(blockIdx.x) * part, end = min(given.count, first + part);
    const unsigned lanes = distwar::existing_lanes();
    for (int i = first; i < end; i += THREADS) {
        const bool active = i + int(threadIdx.x) < end;
        if (H == how::plain && !active) break;
        const int row = active ? given.index[i + int(threadIdx.x)] : 0;
        const int bin = active ? int(given.bin[row]) : 0;
        add_row<B, H>(lanes, active, bin, given, row, histogram);
    }
}

// A thread for each row and column.
template <typename Sum>
__global__ void in_double(rows given, int bins_of_column, double *to) {
    const int i = int(blockIdx.x * blockDim.x + threadIdx.x), column = i % given.columns;
    if (i >= given.count * given.columns) return;
    const int row = given.index[i / given.columns];
    const int bin = column * bins_of_column + given.bin[size_t(row) * given.columns + column];
    const float2 both = given.gradient[row];
    const double scale = std::is_integral_v<Sum> ? 0x1p30 : 1;
    if constexpr (packs<Sum>)
        atomicAdd(to + bin, given.packed[row]);
    else
        atomicAdd(to + 2 * bin, scale * both.x), atomicAdd(to + 2 * bin + 1, scale * both.y);
}

enum class keys { uniform, zeros, zipf, sorted };

struct drawn_rows {
    const char *name;
    int count, columns, bins_of_column;
    keys drawn;
};

// Bins in shared memory or not. Half of the rows are in the leaf.
template <typename Sum>
struct histogram_case : kernel_case<Sum> {
    using kernel_case<Sum>::sums;
    const drawn_rows of;
    rows view;

    histogram_case(const char *where, const drawn_rows &asked)
        : kernel_case<Sum>(std::string(where) + asked.name, packs<Sum> ? 0.0 : 1e-4), of(asked) {
        this->make = [this] { make_rows(); };
    }
    void make_rows() {
        const int bins = of.bins_of_column, columns = of.columns;
        std::mt19937 random(4);
        std::uniform_real_distribution<float> draw(0, 1);
        std::vector<double> below(size_t(bins), 0.0); // of Zipf's law
        double all = 0;
        for (int i = 0; i < bins; ++i) below[size_t(i)] = all += 1.0 / (i + 1);
        std::vector<int> index, packed;
        std::vector<unsigned short> bin;
        std::vector<float2> gradient;
        for (int row = 0; row < of.count; ++row) {
            if (row % 2) index.push_back(row);
            const float g = draw(random) - 0.5f, h = draw(random);
            gradient.push_back({g, h});
            packed.push_back(int(g * 16) * 65536 + int(h * 16));
            for (int column = 0; column < columns; ++column) {
                int b = int(draw(random) * float(bins)) % bins;
                if (of.drawn == keys::zeros && draw(random) < 0.9f) b = 0;
                if (of.drawn == keys::zipf)
                    b = int(std::lower_bound(below.begin(), below.end(), draw(random) * all) -
                            below.begin()) %
                        bins;
                if (of.drawn == keys::sorted) b = int((long long)(row)*bins / of.count);
                bin.push_back((unsigned short)(b));
            }
        }
        view = {device_copy(index), int(index.size()),     columns,
                device_copy(bin),   device_copy(gradient), device_copy(packed)};
        this->make_sums(size_t(columns) * bins * values<Sum>);
        this->refer_to(this->count, [&](double *to) {
            DEVICE_CHECK(launch_for(nullptr, view.count * columns, 256, in_double<Sum>, view, bins, to));
        });
        if constexpr (packs<Sum>) // they wrap
            for (double &sum : this->reference) sum = double(int(unsigned((long long)(sum))));
    }
    template <bins B, how H>
    void add(const char *variant) {
        if constexpr (B == bins::shared)
            add_variant(this, variant, in_shared_memory<B, H, Sum>, [=] {
                DEVICE_CHECK(launch(nullptr, 2 * 132, dim3(of.columns, THREADS / of.columns),
                                    in_shared_memory<B, H, Sum>, view, of.bins_of_column, sums));
            });
        else
            add_variant(this, variant, in_global_memory<B, H>, [=] {
                DEVICE_CHECK(launch(nullptr, 4 * 132, THREADS, in_global_memory<B, H>, view, sums));
            });
    }
};

template <typename Sum>
void add_shared(const char *where, const drawn_rows &asked) {
    auto &one = *new histogram_case<Sum>(where, asked); // lives as long as the program
    one.template add<bins::shared, how::plain>("plain");
    one.template add<bins::shared, how::one_call>("reduce");
    one.template add<bins::shared, how::atomic>("reduce_atomic");
    one.template add<bins::shared, how::plain_of_all_lanes>("plain_in_the_loop_of_all_lanes");
    one.template add<bins::shared, how::tree>("reduce_tree");
}

inline void add_all() {
    for (const drawn_rows &asked : {drawn_rows{"28_columns_uniform", 1 << 20, 28, 200, keys::uniform},
                                    {"28_columns_zeros", 1 << 20, 28, 200, keys::zeros},
                                    {"4_columns_uniform", 1 << 22, 4, 255, keys::uniform},
                                    {"4_columns_zeros", 1 << 22, 4, 255, keys::zeros},
                                    {"1_column_zipf", 1 << 23, 1, 255, keys::zipf}}) {
        add_shared<float>("histogram_shared_float/", asked);
        add_shared<int>("histogram_shared_int32/", asked);
    }
    for (const drawn_rows &asked : {drawn_rows{"28_columns_uniform", 1 << 20, 28, 64, keys::uniform},
                                    {"8_columns_zipf", 1 << 20, 8, 256, keys::zipf},
                                    {"8_columns_zeros", 1 << 20, 8, 256, keys::zeros}}) {
        add_shared<long long>("histogram_shared_int64/", asked);
    }
    for (const drawn_rows &asked : {drawn_rows{"uniform", 1 << 23, 1, 20000, keys::uniform},
                                    {"zipf", 1 << 23, 1, 20000, keys::zipf},
                                    {"sorted", 1 << 23, 1, 20000, keys::sorted}}) {
        auto &one = *new histogram_case<float>("histogram_global_float/", asked);
        one.add<bins::global, how::plain>("plain");
        one.add<bins::global, how::one_call>("reduce");
        one.add<bins::global, how::tree>("reduce_tree");
        one.add<bins::global_vectors, how::one_call>("aligned_record_reduce");
        one.add<bins::global_vectors, how::tree>("aligned_record_reduce_tree");
        one.add<bins::global_vectors, how::atomic>("aligned_record_vector_atomics");
    }
}

} // namespace histograms
