// SPDX-License-Identifier: MIT
// Histograms of gradients as boosted trees build them: each row of a leaf adds its gradient and hessian to the bin
// of each column. Bins in shared memory, float or two 16-bit integers in one word, blocks of 504 threads, thread
// (x, y) has column x; or more bins than shared memory holds, in global memory, one column.
#ifndef STRANGERS_HISTOGRAMS_CUH
#define STRANGERS_HISTOGRAMS_CUH

#include "strangers.cuh"

namespace histograms {

enum { THREADS = 504, SHARED_WORDS = 28 * 200 * 2 };
enum class how {
    plain,
    one_call,           // reduce; in shared memory with in_shared: the loop is that of `plain`
    atomic,             // reduce_atomic, which needs no other lanes: the same loop
    plain_of_all_lanes, // plain atomics in a loop that all lanes run equally often, as the calls below need it
    tree,
    tree_by_8, // threshold 8
    cg
};
enum class bins { shared_float, shared_int, global_float };

struct rows {
    const int *index; // of the leaf's rows
    int count, columns;
    const unsigned short *bin; // [row][column]
    const float2 *gradient;    // gradient, hessian
    const int *packed;         // the same in one word
};

template <bins B, how H, typename T>
__device__ __forceinline__ void add_row(unsigned lanes, bool active, int bin, const rows &given, int row,
                                        T *to) {
    constexpr int K = B == bins::shared_int ? 1 : 2;
    T v[K] = {};
    if (active) {
        if constexpr (B == bins::shared_int) {
            v[0] = given.packed[row];
        } else {
            const float2 both = given.gradient[row];
            v[0] = both.x, v[1] = both.y;
        }
    }
    const distwar::record<T> sink = {to, K};
    if constexpr (H == how::plain || H == how::plain_of_all_lanes) {
        if (!active) return;
        if constexpr (B == bins::global_float) {
            atomicAdd(to + 2 * bin, v[0]), atomicAdd(to + 2 * bin + 1, v[1]);
        } else {
#pragma unroll
            for (int k = 0; k < K; ++k) atomicAdd_block(to + K * bin + k, v[k]);
        }
    } else if constexpr (H == how::one_call) {
        if constexpr (B == bins::global_float)
            distwar::reduce(lanes, active, bin, v, sink);
        else
            distwar::reduce(lanes, active, bin, v, distwar::in_shared(sink));
    } else if constexpr (H == how::atomic) {
        distwar::reduce_atomic(lanes, active, bin, v, sink);
    } else if constexpr (H == how::tree) {
        distwar::reduce_tree(lanes, active, bin, v, sink);
    } else if constexpr (H == how::tree_by_8) {
        distwar::reduce_tree(lanes, active, bin, v, sink, 8);
    } else if (active) {
        const auto group = cg::labeled_partition(cg::coalesced_threads(), bin);
#pragma unroll
        for (int k = 0; k < K; ++k) v[k] = cg::reduce(group, v[k], cg::plus<T>());
        if (group.thread_rank() == 0) {
#pragma unroll
            for (int k = 0; k < K; ++k) atomicAdd(to + K * bin + k, v[k]);
        }
    }
}

template <bins B, how H, typename T>
__global__ void __launch_bounds__(THREADS) in_shared_memory(rows given, int bins_of_column, T *histogram) {
    constexpr int K = B == bins::shared_int ? 1 : 2;
    __shared__ T sums[SHARED_WORDS];
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
    for (int i = rank; i < words; i += threads) atomicAdd(histogram + i, sums[i]);
}

// Vectors: aligned_record of two, which the plain kernel's layout has, too.
template <how H, bool Vectors>
__global__ void __launch_bounds__(THREADS) in_global_memory(rows given, float *histogram) {
    const int part = (given.count + int(gridDim.x) - 1) / int(gridDim.x);
    const int first = int(blockIdx.x) * part, end = min(given.count, first + part);
    const unsigned lanes = distwar::existing_lanes();
    for (int i = first; i < end; i += THREADS) {
        const bool active = i + int(threadIdx.x) < end;
        if (H == how::plain && !active) break;
        const int row = active ? given.index[i + int(threadIdx.x)] : 0;
        const int bin = active ? int(given.bin[row]) : 0;
        if constexpr (Vectors) {
            float v[2] = {};
            if (active) {
                const float2 both = given.gradient[row];
                v[0] = both.x, v[1] = both.y;
            }
            const distwar::aligned_record sink = {histogram, 2};
            if constexpr (H == how::one_call) distwar::reduce(lanes, active, bin, v, sink);
            if constexpr (H == how::tree) distwar::reduce_tree(lanes, active, bin, v, sink);
            if constexpr (H == how::atomic) distwar::reduce_atomic(lanes, active, bin, v, sink);
        } else {
            add_row<bins::global_float, H>(lanes, active, bin, given, row, histogram);
        }
    }
}

enum class keys { uniform, zeros, zipf, sorted };

struct data {
    int count, columns, bins_of_column;
    device_array<int> index, packed;
    device_array<unsigned short> bin;
    device_array<float2> gradient;
    device_array<float> floats;
    device_array<int> integers;
    std::vector<double> reference, integer_reference;

    rows view() const { return {index.get(), count, columns, bin.get(), gradient.get(), packed.get()}; }

    // Half of the rows are in the leaf.
    static data *make(int rows, int columns, int bins, keys kind) {
        std::mt19937 random(4);
        std::uniform_real_distribution<float> draw(0, 1);
        std::vector<double> below(size_t(bins), 0.0); // of Zipf's law
        double all = 0;
        for (int i = 0; i < bins; ++i) below[size_t(i)] = all += 1.0 / (i + 1);
        std::vector<int> index, packed;
        std::vector<unsigned short> bin;
        std::vector<float2> gradient;
        for (int row = 0; row < rows; ++row) {
            if (row % 2) index.push_back(row);
            const float g = draw(random) - 0.5f, h = draw(random);
            gradient.push_back({g, h});
            packed.push_back(int(g * 16) * 65536 + int(h * 16));
            for (int column = 0; column < columns; ++column) {
                int b = int(draw(random) * float(bins)) % bins;
                if (kind == keys::zeros && draw(random) < 0.9f) b = 0;
                if (kind == keys::zipf)
                    b = int(std::lower_bound(below.begin(), below.end(), draw(random) * all) -
                            below.begin()) %
                        bins;
                if (kind == keys::sorted) b = int((long long)(row)*bins / rows);
                bin.push_back((unsigned short)(b));
            }
        }
        data *const made = new data{int(index.size()),
                                    columns,
                                    bins,
                                    device_array<int>(index),
                                    device_array<int>(packed),
                                    device_array<unsigned short>(bin),
                                    device_array<float2>(gradient),
                                    device_array<float>(size_t(columns) * bins * 2),
                                    device_array<int>(size_t(columns) * bins),
                                    std::vector<double>(size_t(columns) * bins * 2, 0.0),
                                    std::vector<double>(size_t(columns) * bins, 0.0)};
        for (const int row : index)
            for (int column = 0; column < columns; ++column) {
                const size_t place = size_t(column) * bins + bin[size_t(row) * columns + column];
                made->reference[2 * place] += gradient[size_t(row)].x;
                made->reference[2 * place + 1] += gradient[size_t(row)].y;
                made->integer_reference[place] += packed[size_t(row)];
            }
        return made;
    }
};

template <bins B>
strangers_case &new_case(const std::string &name, data **of, std::function<data *()> make) {
    return *new strangers_case{name,
                               [of, make] {
                                   if (!*of) *of = make();
                               },
                               [of] {
                                   if (B == bins::shared_int)
                                       (*of)->integers.clear();
                                   else
                                       (*of)->floats.clear();
                               },
                               [of] {
                                   if (B == bins::shared_int) {
                                       // The reference wraps as the sums do.
                                       std::vector<double> found, wrapped;
                                       for (const int sum : (*of)->integers.download()) found.push_back(sum);
                                       for (const double sum : (*of)->integer_reference)
                                           wrapped.push_back(double(int(unsigned((long long)(sum)))));
                                       return relative_error(found, wrapped);
                                   }
                                   const std::vector<float> found = (*of)->floats.download();
                                   return relative_error({found.begin(), found.end()}, (*of)->reference);
                               },
                               B == bins::shared_int ? 0.0 : 1e-4};
}

template <bins B, how H, typename T>
void add_shared(strangers_case &given, data **of, const char *name) {
    add_variant(given, name, reinterpret_cast<const void *>(in_shared_memory<B, H, T>), [of] {
        T *to;
        if constexpr (B == bins::shared_int)
            to = (*of)->integers.get();
        else
            to = (*of)->floats.get();
        in_shared_memory<B, H, T><<<2 * 132, dim3((*of)->columns, THREADS / (*of)->columns)>>>(
            (*of)->view(), (*of)->bins_of_column, to);
    });
}
template <bins B, typename T>
void add_all_shared(strangers_case &given, data **of) {
    add_shared<B, how::plain, T>(given, of, "plain");
    add_shared<B, how::one_call, T>(given, of, "reduce");
    add_shared<B, how::atomic, T>(given, of, "reduce_atomic");
    add_shared<B, how::plain_of_all_lanes, T>(given, of, "plain_in_the_loop_of_all_lanes");
    add_shared<B, how::tree, T>(given, of, "reduce_tree");
    add_shared<B, how::tree_by_8, T>(given, of, "reduce_tree_8");
    add_shared<B, how::cg, T>(given, of, "cg_labeled_partition");
}
template <how H, bool Vectors>
void add_global(strangers_case &given, data **of, const char *name) {
    add_variant(given, name, reinterpret_cast<const void *>(in_global_memory<H, Vectors>), [of] {
        in_global_memory<H, Vectors><<<4 * 132, THREADS>>>((*of)->view(), (*of)->floats.get());
    });
}

inline void add_all() {
    struct kind {
        const char *name;
        int rows, columns, bins;
        keys drawn;
    };
    static const kind small[] = {{"28_columns_uniform", 1 << 20, 28, 200, keys::uniform},
                                 {"28_columns_zeros", 1 << 20, 28, 200, keys::zeros},
                                 {"4_columns_uniform", 1 << 22, 4, 255, keys::uniform},
                                 {"4_columns_zeros", 1 << 22, 4, 255, keys::zeros},
                                 {"1_column_zipf", 1 << 23, 1, 255, keys::zipf}};
    static data *of[8];
    for (int i = 0; i < 5; ++i) {
        data **const mine = &of[i];
        const auto make = [i] {
            return data::make(small[i].rows, small[i].columns, small[i].bins, small[i].drawn);
        };
        add_all_shared<bins::shared_float, float>(
            new_case<bins::shared_float>(std::string("histogram_shared_float/") + small[i].name, mine, make),
            mine);
        add_all_shared<bins::shared_int, int>(
            new_case<bins::shared_int>(std::string("histogram_shared_int32/") + small[i].name, mine, make),
            mine);
    }
    static const kind large[] = {{"uniform", 1 << 23, 1, 20000, keys::uniform},
                                 {"zipf", 1 << 23, 1, 20000, keys::zipf},
                                 {"sorted", 1 << 23, 1, 20000, keys::sorted}};
    for (int i = 0; i < 3; ++i) {
        data **const mine = &of[5 + i];
        strangers_case &given =
            new_case<bins::global_float>(std::string("histogram_global_float/") + large[i].name, mine, [i] {
                return data::make(large[i].rows, large[i].columns, large[i].bins, large[i].drawn);
            });
        add_global<how::plain, false>(given, mine, "plain");
        add_global<how::one_call, false>(given, mine, "reduce");
        add_global<how::tree, false>(given, mine, "reduce_tree");
        add_global<how::tree_by_8, false>(given, mine, "reduce_tree_8");
        add_global<how::cg, false>(given, mine, "cg_labeled_partition");
        add_global<how::one_call, true>(given, mine, "aligned_record_reduce");
        add_global<how::tree, true>(given, mine, "aligned_record_reduce_tree");
        add_global<how::atomic, true>(given, mine, "aligned_record_vector_atomics");
    }
}

} // namespace histograms

#endif
