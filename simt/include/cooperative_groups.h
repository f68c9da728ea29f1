// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: groups of the threads of a block, with the shuffles, votes and
// barriers of CUDA's intrinsics. Each call below says which intrinsic it makes; simt checks and counts that.
//
// Not here: grid and cluster barriers, tiles of more than 32 lanes, barrier_arrive and barrier_wait.
#pragma once

#include "cuda_runtime.h"

namespace cooperative_groups {

namespace detail {

inline unsigned thread_in_block() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
inline unsigned threads_of_block() {
    return blockDim.x * blockDim.y * blockDim.z;
}
inline unsigned lane() {
    return thread_in_block() % 32;
}
inline unsigned bits_below(unsigned bit) {
    return (1u << bit) - 1;
}
// The position of the n-th set bit (n = 0: the lowest) of a mask with more than n set bits.
inline unsigned nth_lane(unsigned mask, unsigned n) {
    while (n--) mask &= mask - 1;
    return unsigned(__ffs(int(mask))) - 1;
}
// The bits of `lanes` at the positions of `mask`, side by side: bit r is that of the r-th lane of the mask.
// Example: mask 0b11010, lanes 0b10010 -> 0b101.
inline unsigned ranks_of(unsigned mask, unsigned lanes) {
    const unsigned lowest = mask & -mask;
    if (((mask + lowest) & mask) == 0) return lanes / lowest; // neighbours
    unsigned ranks = 0;
    for (unsigned rank = 0; mask; mask &= mask - 1, rank++)
        if (lanes & mask & -mask) ranks |= 1u << rank;
    return ranks;
}

} // namespace detail

// ---- any group

// The block, or a set of lanes of one warp. The types below convert to it.
class thread_group {
  public:
    unsigned long long size() const { return size_; }
    unsigned long long num_threads() const { return size_; }
    unsigned long long thread_rank() const { return rank_; }
    bool is_valid() const { return true; }
    // __syncthreads() or __syncwarp(lanes), by all threads of the group
    void sync(SIMT_HERE) const {
        const simt::Call_lanes whole(mask_, place);
        if (mask_ == 0)
            __syncthreads(place);
        else
            __syncwarp(mask_, place);
    }

  protected:
    thread_group(unsigned mask, unsigned rank, unsigned size) : mask_(mask), rank_(rank), size_(size) {}
    unsigned mask_; // 0: the block
    unsigned rank_, size_;

  private:
    friend thread_group tiled_partition(const thread_group &, unsigned);
};

template <typename Group>
void sync(const Group &group, SIMT_HERE) {
    group.sync(place);
}
template <typename Group>
auto thread_rank(const Group &group) {
    return group.thread_rank();
}
template <typename Group>
auto group_size(const Group &group) {
    return group.size();
}

// ---- the block and the grid

class thread_block : public thread_group {
  public:
    static void sync(SIMT_HERE) {
        const simt::Call_lanes whole(0, place);
        __syncthreads(place);
    }
    static unsigned size() { return detail::threads_of_block(); }
    static unsigned num_threads() { return size(); }
    static unsigned thread_rank() { return detail::thread_in_block(); }
    static dim3 group_index() { return blockIdx; }
    static dim3 thread_index() { return threadIdx; }
    static dim3 group_dim() { return blockDim; }
    static dim3 dim_threads() { return blockDim; }

  private:
    thread_block() : thread_group(0, thread_rank(), size()) {}
    friend thread_block this_thread_block();
};
inline thread_block this_thread_block() {
    return thread_block();
}

// Positions only; sync() is refused, because a launch here is not cooperative.
class grid_group {
  public:
    static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long block_rank() {
        return blockIdx.x + 1ull * gridDim.x * (blockIdx.y + 1ull * gridDim.y * blockIdx.z);
    }
    static unsigned long long num_threads() { return num_blocks() * detail::threads_of_block(); }
    static unsigned long long size() { return num_threads(); }
    static unsigned long long thread_rank() {
        return block_rank() * detail::threads_of_block() + detail::thread_in_block();
    }
    static dim3 dim_blocks() { return gridDim; }
    static dim3 group_dim() { return gridDim; }
    static dim3 block_index() { return blockIdx; }
    static bool is_valid() { return false; }
    static void sync(SIMT_HERE) {
        simt::refuse("a barrier of the grid: the launch is not cooperative", place);
    }
};
inline grid_group this_grid() {
    return grid_group();
}

// ---- lanes of a warp

namespace detail {

// What tiles and coalesced groups have in common.
// Ranks number the lanes of the mask from the lowest. Masks that a vote or match returns have a bit for each
// rank.
class lane_group : public thread_group {
  public:
    lane_group(unsigned mask, unsigned meta_rank, unsigned meta_size)
        : thread_group(mask, unsigned(__popc(mask & bits_below(lane()))), unsigned(__popc(mask))),
          meta_rank_(meta_rank), meta_size_(meta_size) {}
    unsigned thread_rank() const { return rank_; }
    // The position of this group among those of its partition, and their number.
    unsigned meta_group_rank() const { return meta_rank_; }
    unsigned meta_group_size() const { return meta_size_; }
    unsigned lanes() const { return mask_; }

    // __any_sync, __all_sync, __ballot_sync, __match_any_sync, __match_all_sync
    int any(int predicate, SIMT_HERE) const { return __any_sync(mask_, predicate, place); }
    int all(int predicate, SIMT_HERE) const { return __all_sync(mask_, predicate, place); }
    unsigned ballot(int predicate, SIMT_HERE) const {
        return ranks_of(mask_, __ballot_sync(mask_, predicate, place));
    }
    template <typename T>
    unsigned match_any(T value, SIMT_HERE) const {
        return ranks_of(mask_, __match_any_sync(mask_, value, place));
    }
    template <typename T>
    unsigned match_all(T value, int &predicate, SIMT_HERE) const {
        return ranks_of(mask_, __match_all_sync(mask_, value, &predicate, place));
    }

  private:
    unsigned meta_rank_, meta_size_;
};

} // namespace detail

// Lanes that need not be neighbours.
class coalesced_group : public detail::lane_group {
  public:
    using lane_group::lane_group; // for the functions below
    unsigned size() const { return size_; }
    unsigned num_threads() const { return size_; }
    // reduce() by redux.sync of compute capability 8.0; the smallest tiles use shuffles.
    static constexpr bool prefers_redux = true;

    // Each is one __shfl_sync. A rank beyond the group is refused by shfl. shfl_up and shfl_down return the
    // caller's value where the rank does not exist.
    template <typename T>
    T shfl(const T &value, unsigned rank, SIMT_HERE) const {
        if (rank >= size_) simt::refuse("coalesced_group::shfl from a rank beyond the group", place);
        return from_rank(value, rank, place);
    }
    template <typename T>
    T shfl_up(const T &value, unsigned delta, SIMT_HERE) const {
        return from_rank(value, delta <= rank_ ? rank_ - delta : rank_, place);
    }
    template <typename T>
    T shfl_down(const T &value, unsigned delta, SIMT_HERE) const {
        return from_rank(value, delta < size_ - rank_ ? rank_ + delta : rank_, place);
    }

  private:
    template <typename T>
    T from_rank(const T &value, unsigned rank, simt::Place place) const {
        return simt::shuffle(simt::Collective::shfl, mask_, value, detail::nth_lane(mask_, rank), 32, place);
    }
};

// The lanes that arrive at this line together: see simt::coalesced_threads. One vote.
inline coalesced_group coalesced_threads(SIMT_HERE) {
    return coalesced_group(simt::coalesced_threads(place), 0, 1);
}

// ---- tiles

// N neighbouring lanes, N = 1, 2, ... 32. All lanes of the tile must exist: the block (or the parent) must be
// a multiple of N.
template <unsigned N, typename Parent = void>
class thread_block_tile : public detail::lane_group {
    static_assert(N > 0 && (N & (N - 1)) == 0, "the size of a tile must be a power of two");
    static_assert(N <= 32, "simt: tiles have at most 32 lanes");

  public:
    // A tile of the same size with another parent.
    template <typename Other>
    thread_block_tile(const thread_block_tile<N, Other> &tile) : lane_group(tile) {}
    // For the functions below.
    thread_block_tile(unsigned meta_rank, unsigned meta_size)
        : lane_group((N == 32 ? ~0u : (1u << N % 32) - 1) << (detail::lane() & ~(N - 1)), meta_rank,
                     meta_size) {}
    static constexpr unsigned size() { return N; }
    static constexpr unsigned num_threads() { return N; }
    static constexpr bool prefers_redux = N >= 16;

    // __shfl_sync and its variants with width N
#define SIMT_SHUFFLE_OF_TILE(name, Operand)                                                                  \
    template <typename T>                                                                                    \
    T name(const T &value, Operand operand, SIMT_HERE) const {                                               \
        return simt::shuffle(simt::Collective::name, mask_, value, unsigned(operand), int(N), place);        \
    }
    SIMT_SHUFFLE_OF_TILE(shfl, int)
    SIMT_SHUFFLE_OF_TILE(shfl_up, unsigned)
    SIMT_SHUFFLE_OF_TILE(shfl_down, unsigned)
    SIMT_SHUFFLE_OF_TILE(shfl_xor, unsigned)
#undef SIMT_SHUFFLE_OF_TILE
};

// No lane waits: a missing lane is refused at the first call on the tile.
template <unsigned N>
thread_block_tile<N, thread_block> tiled_partition(const thread_block &block) {
    return {block.thread_rank() / N, (block.size() + N - 1) / N};
}
template <unsigned N, unsigned M, typename Parent>
thread_block_tile<N, thread_block_tile<M, Parent>>
tiled_partition(const thread_block_tile<M, Parent> &parent) {
    static_assert(N <= M, "a tile cannot be larger than its parent");
    return {parent.thread_rank() / N, M / N};
}
// Each `size` lanes that follow each other in rank; a parent of at most `size` lanes itself, as in CUDA.
inline coalesced_group tiled_partition(const coalesced_group &parent, unsigned size) {
    if (parent.size() <= size) return parent;
    const unsigned first = parent.thread_rank() / size * size;
    unsigned lanes = 0;
    for (unsigned rank = first; rank < first + size && rank < parent.size(); rank++)
        lanes |= 1u << detail::nth_lane(parent.lanes(), rank);
    return coalesced_group(lanes, first / size, (parent.size() + size - 1) / size);
}
// `size` is a power of two up to 32.
inline thread_group tiled_partition(const thread_group &parent, unsigned size) {
    if (parent.mask_) return tiled_partition(coalesced_group(parent.mask_, 0, 1), size);
    const unsigned first = detail::lane() / size * size;
    const unsigned lanes = (size >= 32 ? ~0u : (1u << size) - 1) << first;
    return coalesced_group(lanes, detail::thread_in_block() / size,
                           (detail::threads_of_block() + size - 1) / size);
}

// ---- groups by a value

// The lanes of the group with the same predicate. One vote.
template <typename Group>
coalesced_group binary_partition(const Group &group, bool predicate, SIMT_HERE) {
    const unsigned lanes = group.lanes();
    const simt::Call_lanes whole(lanes, place);
    const unsigned set = __ballot_sync(lanes, predicate, place);
    if (set == 0 || set == lanes) return coalesced_group(lanes, 0, 1);
    return coalesced_group(predicate ? set : lanes & ~set, predicate, 2);
}

// The lanes of the group with the same label, an integer or a pointer. meta_group_rank() numbers the labels
// by their lowest lane. One match and one vote.
template <typename Group, typename Label>
coalesced_group labeled_partition(const Group &group, Label label, SIMT_HERE) {
    static_assert(std::is_integral<Label>::value || std::is_pointer<Label>::value,
                  "a label must be an integer or a pointer");
    if constexpr (std::is_same<Label, bool>::value) {
        return binary_partition(group, label, place);
    } else if constexpr (std::is_pointer<Label>::value) {
        return labeled_partition(group, reinterpret_cast<unsigned long long>(label), place);
    } else if constexpr (sizeof(Label) < 4) {
        return labeled_partition(group, int(label), place);
    } else {
        const simt::Call_lanes whole(group.lanes(), place);
        const unsigned same = __match_any_sync(group.lanes(), label, place);
        const unsigned leader = detail::nth_lane(same, 0);
        const unsigned leaders = __ballot_sync(group.lanes(), leader == detail::lane(), place);
        return coalesced_group(same, unsigned(__popc(leaders & detail::bits_below(leader))),
                               unsigned(__popc(leaders)));
    }
}

// ---- one thread for the group

// Rank 0 calls function(arguments...).
template <typename Group, typename Function, typename... Arguments>
void invoke_one(const Group &group, Function &&function, Arguments &&...arguments) {
    if (group.thread_rank() == 0) function(arguments...);
}
// As invoke_one; all lanes return the result. The shuffles of the result.
template <typename Group, typename Function, typename... Arguments>
auto invoke_one_broadcast(const Group &group, Function &&function, Arguments &&...arguments) {
    decltype(function(arguments...)) result = {};
    if (group.thread_rank() == 0) result = function(arguments...);
    return group.shfl(result, 0);
}

} // namespace cooperative_groups
