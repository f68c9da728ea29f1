// SPDX-License-Identifier: MIT
// The lanes of a warp: the caller's lane, the lanes that share a key, the largest value over the lanes, sums of groups. And
// what all calls need to know of types: which integers there are, and how a value moves between lanes.
// `lanes` is always the mask of the lanes that make the call together (reduce.cuh).
#ifndef DISTWAR_WARP_CUH
#define DISTWAR_WARP_CUH

#include "config.cuh"

namespace distwar {

inline constexpr unsigned all_lanes = 0xffffffff;

// A key that all of `lanes` hold, inactive lanes included, as the caller guarantees. It saves the search for groups: one
// shuffle, one vote and the code for several keys.
template <typename Key>
struct uniform_key {
    Key key;
};
template <typename Key>
__host__ __device__ uniform_key(Key)->uniform_key<Key>;

// The caller's lane in its warp, 0..31.
DISTWAR_DEVICE unsigned lane_id() {
#if DISTWAR_PTX
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
#else
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
#endif
}

namespace detail {

// The type traits of the library. cuda/std has them, but NVRTC finds it only with a path to CCCL, and including it
// takes longer than compiling all of distwar.
template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;
template <typename T>
__device__ T declared(); // for use in decltype alone
template <typename>
using void_type = void;

// The integers of 2, 4 and 8 bytes that CUDA's functions have.
template <int Size>
struct sized {
    using bits = unsigned;
    using number = int;
};
template <>
struct sized<2> {
    using bits = unsigned short;
};
template <>
struct sized<8> {
    using bits = unsigned long long;
    using number = long long;
};
template <typename T>
using bits_of = typename sized<int(sizeof(T))>::bits;

// CUDA's integer of the size and the sign of T, by which every integer of 4 or 8 bytes is handled, whatever its name:
// of `long` long long on Linux, int on Windows. void: T is none.
template <typename T>
inline constexpr bool is_integer =
    is_same<T, int> || is_same<T, unsigned> || is_same<T, long> || is_same<T, unsigned long> ||
    is_same<T, long long> || is_same<T, unsigned long long>;
template <typename T>
__host__ __device__ constexpr auto integer() {
    if constexpr (!is_integer<T>)
        return;
    else if constexpr (T(-1) < T(0))
        return typename sized<int(sizeof(T))>::number{};
    else
        return bits_of<T>{};
}
template <typename T>
using integer_of = decltype(detail::integer<T>());

// 2 for a pair of 16-bit values, __half2 or __nv_bfloat162, 1 for a single one, 0 for all else (half.cuh).
template <typename T>
inline constexpr int halves_in = 0;
template <typename T>
inline constexpr bool is_packed = halves_in<T> == 2;

// The bytes of `given` as a To of the same size.
template <typename To, typename From>
__host__ DISTWAR_DEVICE To bits_as(From given) {
    To result;
    ::memcpy(static_cast<void *>(&result), &given, sizeof result);
    return result;
}

template <typename Key>
inline constexpr bool is_uniform = false;
template <typename Key>
inline constexpr bool is_uniform<uniform_key<Key>> = true;

// The key as an integer, in the form that sinks take.
template <typename Key>
DISTWAR_DEVICE Key plain_key(Key key) {
    return key;
}
template <typename Key>
DISTWAR_DEVICE Key plain_key(uniform_key<Key> key) {
    return key.key;
}
template <typename Key>
using plain_key_of = decltype(detail::plain_key(declared<Key>()));

// What every call asks of its key. Under simt a uniform_key that differs between the lanes of a call is refused.
template <typename Key>
DISTWAR_DEVICE void check_key(Key key) {
    static_assert(is_integer<plain_key_of<Key>>, "distwar: the key must be an integer of 4 or 8 bytes");
    if constexpr (is_uniform<Key>)
        detail::promise("a uniform_key differs between lanes of a call", 0, (unsigned long long)(key.key),
                        false);
}

// The form in which a T moves between lanes and through selects: itself, as CUDA's integer of its size, or the bits of
// a pair as a float. And the T of such a form.
template <typename T>
DISTWAR_DEVICE auto form_of(T given) {
    if constexpr (is_packed<T>)
        return detail::bits_as<float>(given);
    else if constexpr (is_integer<T>)
        return integer_of<T>(given);
    else
        return given;
}
template <typename T, typename Form>
DISTWAR_DEVICE T back(Form form) {
    if constexpr (is_packed<T>)
        return detail::bits_as<T>(form);
    else
        return T(form);
}

// The shuffles of a T. Cost: one; of 8 bytes two.
template <typename T>
DISTWAR_DEVICE T shuffle(unsigned lanes, T given, int source) {
    return detail::back<T>(__shfl_sync(lanes, detail::form_of(given), source));
}
template <typename T>
DISTWAR_DEVICE T shuffle_xor(T given, int distance) {
    return detail::back<T>(__shfl_xor_sync(all_lanes, detail::form_of(given), distance));
}

// select returns a if condition != 0, else b; add_selected adds that to sum. Both without a branch, after which a
// compiler may duplicate the shuffles that follow, once for each side. add_selected is two predicated additions: they
// run on the floating-point pipe, a select on that of integers, which is half as wide.
#if DISTWAR_PTX
#define DISTWAR_WITHOUT_BRANCH(type, letter, bits, addition)                                                 \
    DISTWAR_DEVICE type select(unsigned condition, type a, type b) {                                         \
        type chosen;                                                                                         \
        asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\tselp." bits " %0, %1, %2, p;\n\t}"               \
            : "=" letter(chosen)                                                                             \
            : letter(a), letter(b), "r"(condition));                                                         \
        return chosen;                                                                                       \
    }                                                                                                        \
    DISTWAR_DEVICE void add_selected(unsigned condition, type &sum, type a, type b) {                        \
        asm("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %3, 0;\n\t@p " addition " %0, %0, %1;\n\t@!p " addition    \
            " %0, %0, %2;\n\t}"                                                                              \
            : "+" letter(sum)                                                                                \
            : letter(a), letter(b), "r"(condition));                                                         \
    }
DISTWAR_WITHOUT_BRANCH(float, "f", "f32", "add.f32")
DISTWAR_WITHOUT_BRANCH(double, "d", "f64", "add.f64")
DISTWAR_WITHOUT_BRANCH(int, "r", "b32", "add.s32")
DISTWAR_WITHOUT_BRANCH(unsigned, "r", "b32", "add.u32")
DISTWAR_WITHOUT_BRANCH(long long, "l", "b64", "add.s64")
DISTWAR_WITHOUT_BRANCH(unsigned long long, "l", "b64", "add.u64")
#undef DISTWAR_WITHOUT_BRANCH
#endif
template <typename T>
DISTWAR_DEVICE T select(unsigned condition, T a, T b) {
    if constexpr (DISTWAR_PTX)
        return detail::back<T>(detail::select(condition, detail::form_of(a), detail::form_of(b)));
    else
        return condition != 0 ? a : b;
}
template <typename T>
DISTWAR_DEVICE void add_selected(unsigned condition, T &sum, T a, T b) {
    if constexpr (DISTWAR_PTX) {
        auto form = detail::form_of(sum);
        detail::add_selected(condition, form, detail::form_of(a), detail::form_of(b));
        sum = detail::back<T>(form);
    } else {
        sum += condition != 0 ? a : b;
    }
}

// The low half of (low, high) after a right shift by `shift`: low for 0, high for 32, 0 for 64. Of floats a 64-bit
// shift.
#if DISTWAR_PTX
DISTWAR_DEVICE float shift_pair(unsigned shift, float low, float high) {
    float shifted;
    asm("{\n\t.reg .b64 pair;\n\t.reg .b32 rest;\n\tmov.b64 pair, {%1, %2};\n\tshr.b64 pair, pair, "
        "%3;\n\tmov.b64 {%0, rest}, pair;\n\t}"
        : "=f"(shifted)
        : "f"(low), "f"(high), "r"(shift));
    return shifted;
}
#endif
template <typename T>
DISTWAR_DEVICE T shift_pair(unsigned shift, T low, T high) {
    if constexpr (is_packed<T> && DISTWAR_PTX) {
        return detail::back<T>(detail::shift_pair(shift, detail::form_of(low), detail::form_of(high)));
    } else {
        const T shifted = detail::select(shift, high, low);
        return shift < 64 ? shifted : T{};
    }
}

// The lowest and the highest lane of the set, which must not be empty; the lanes of the set below the caller.
DISTWAR_DEVICE unsigned lowest_lane(unsigned set) {
    return unsigned(__ffs(int(set))) - 1;
}
DISTWAR_DEVICE unsigned highest_lane(unsigned set) {
    return 31 - unsigned(__clz(int(set)));
}
DISTWAR_DEVICE unsigned lanes_below(unsigned set) {
    return set & ((1u << lane_id()) - 1);
}

// Whether all active lanes, of which there is one, hold the same key; told in all of `lanes`, as is the key of the lowest
// active lane, `shared`. Cost: one shuffle (8-byte keys: two) and one vote; nothing for a uniform_key.
template <typename Key>
DISTWAR_DEVICE bool share_one_key(unsigned lanes, unsigned active_lanes, bool active, Key key,
                                  plain_key_of<Key> &shared) {
    if constexpr (is_uniform<Key>) {
        shared = key.key;
        return true;
    } else {
        shared = __shfl_sync(lanes, key, int(lowest_lane(active_lanes)));
        return __all_sync(lanes, key == shared || !active);
    }
}

// The maximum of `given` (0..63) over `lanes`, in all of them. Cost: one redux; six votes before compute
// capability 8.0.
DISTWAR_DEVICE unsigned largest_by_votes(unsigned lanes, unsigned given) {
    unsigned found = 0;
    bool leads = true; // the bits so far equal those of the maximum
    DISTWAR_UNROLL
    for (int bit = 5; bit >= 0; --bit) {
        const bool set = given >> bit & 1;
        const bool any = __any_sync(lanes, leads && set);
        leads = leads && set == any;
        found |= unsigned(any) << bit;
    }
    return found;
}
DISTWAR_DEVICE unsigned largest(unsigned lanes, unsigned given) {
#if DISTWAR_CLANG || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800) // clang 16 has no __reduce_max_sync
    return detail::largest_by_votes(lanes, given);
#else
    return __reduce_max_sync(lanes, given);
#endif
}

// The segmented sum: the sums of all groups of a warp side by side, or the numbers of their lanes (queue.cuh).
// In each iteration a lane adds the sum of the lane that follows its own sum in its group, so the sums double in length.
// Example with one group in lanes 1, 4, 6, 7:
//
//     iteration 1   1 adds 4, 4 adds 6, 6 adds 7    lane 1 holds 1 + 4, lane 6 holds 6 + 7
//     iteration 2   1 adds 6                        lane 1 holds 1 + 4 + 6 + 7
//
//   next     the lane that follows in the group, < 0 if there is none: the next one above if the lowest lane is to have
//            the sum of the group; the next one below if each lane is to have the sum up to its own
//   size     the size of the largest group, the same in all of `lanes`; 0: not known, a vote ends the loop, and at least
//            one lane has a next one
//   sum      in: the lane's values. Out: the sums from the lane's own value on, in the order of `next`
// Cost: ceil(log2(size)) iterations of K shuffles, and one shuffle between two iterations; with a vote one after each.
template <bool Votes, int K, typename T, typename Op>
DISTWAR_DEVICE void segmented_sum(unsigned lanes, int next, unsigned size, T (&sum)[K], Op op) {
    const int lane = int(lane_id());
    for (unsigned length = 1; Votes || length < size; length *= 2) {
        if (!Votes && length > 1) next = __shfl_sync(lanes, next, next < 0 ? lane : next);
        const int source = next < 0 ? lane : next;
        DISTWAR_UNROLL
        for (int k = 0; k < K; ++k) {
            const T other = detail::shuffle(lanes, sum[k], source);
            if (next >= 0) sum[k] = op(sum[k], other);
        }
        if constexpr (Votes) {
            next = __shfl_sync(lanes, next, source);
            if (!__any_sync(lanes, next >= 0)) break;
        }
    }
}
// The lane of the caller's group that follows above or below the caller; -1: none.
DISTWAR_DEVICE int next_above(unsigned group) {
    const unsigned higher = group & ~((2u << lane_id()) - 1);
    return higher ? int(lowest_lane(higher)) : -1;
}
DISTWAR_DEVICE int next_below(unsigned group) {
    const unsigned lower = lanes_below(group);
    return lower ? int(detail::highest_lane(lower)) : -1;
}

} // namespace detail

// The mask of those of `lanes` that hold the caller's key, the caller included. Cost: one match; none for a uniform_key.
// Example (one warp, `lane` its lane, arrays of zeros):
//     const unsigned group = distwar::lanes_with_key(distwar::all_lanes, lane % 16);
//     if (lane < 2) found[lane] = group; // 0x10001, 0x20002
//     // found: 65537, 131074
template <typename Key>
DISTWAR_DEVICE unsigned lanes_with_key(unsigned lanes, Key key) {
    detail::check_key(key);
    if constexpr (detail::is_uniform<Key>)
        return lanes;
    else
        return __match_any_sync(lanes, key);
}

} // namespace distwar

#endif
