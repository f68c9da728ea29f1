// SPDX-License-Identifier: MIT
// What a kernel has: its position in the grid, dynamic shared memory, barriers, and collectives over the lanes of a
// warp: shuffles, votes, matches, reductions.
//
// Lanes meet at a collective if they call it with the same kind and the same mask. The source line does not
// matter. The compiler sets every `place` to the line of the caller.
#pragma once

#include "vector_types.h"
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace simt {

// The source line of a call. SIMT_HERE is a default argument, so it is the line of the caller.
struct Place {
    const char *file;
    int line;
};
#define SIMT_HERE simt::Place place = {__builtin_FILE(), __builtin_LINE()}

// Functions whose result is an expression: of the parameters, of one x, of x and y, of x, y and z.
#define SIMT_FUNCTION(Result, name, parameters, result)                                                      \
    inline Result name parameters {                                                                          \
        return result;                                                                                       \
    }
#define SIMT_OF_ONE(Result, name, T, result) SIMT_FUNCTION(Result, name, (T x), result)
#define SIMT_OF_TWO(T, name, result) SIMT_FUNCTION(T, name, (T x, T y), result)
#define SIMT_OF_THREE(T, name, result) SIMT_FUNCTION(T, name, (T x, T y, T z), result)

// clang-format off
#define SIMT_COLLECTIVES(X)                                                                                    \
    X(syncwarp)                                                                                              \
    X(shfl) X(shfl_up) X(shfl_down) X(shfl_xor)                                                              \
    X(all) X(any) X(ballot)                                                                                  \
    X(match_any) X(match_all)                                                                                \
    X(reduce_add) X(reduce_min) X(reduce_max) X(reduce_and) X(reduce_or) X(reduce_xor)                       \
    X(coalesced_threads)                                                                                     \
    X(syncthreads) X(syncthreads_count) X(syncthreads_and) X(syncthreads_or)
// clang-format on
#define SIMT_ENUMERATOR(name) name,
enum class Collective : std::uint8_t { SIMT_COLLECTIVES(SIMT_ENUMERATOR) };
#undef SIMT_ENUMERATOR
enum class Type : std::uint8_t { none, i32, u32, i64, u64, f32, f64 };

// The type is part of the kind: overloads of an intrinsic are different intrinsics, although the hardware
// sees only the size.
template <typename T>
constexpr Type type_of() {
    static_assert(std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8), "no such overload");
    if (std::is_floating_point<T>::value) return sizeof(T) == 4 ? Type::f32 : Type::f64;
    if (std::is_signed<T>::value) return sizeof(T) == 4 ? Type::i32 : Type::i64;
    return sizeof(T) == 4 ? Type::u32 : Type::u64;
}

// The intrinsic and its overload.
struct Kind {
    Collective collective;
    Type type = Type::none;
    friend bool operator==(Kind a, Kind b) { return a.collective == b.collective && a.type == b.type; }
    friend bool operator!=(Kind a, Kind b) { return !(a == b); }
};

// What the lanes of a library call must pass alike. Lanes whose promises have the same text and key but different
// values are refused.
struct Promise {
    const char *text; // the reason of the refusal; null: the lane promises nothing
    std::uint64_t key, value;
    bool among_equal_keys; // else all lanes, with the key 0
};

// The part of a lane that inline functions read; the rest is in src/block.h.
struct Lane_result {
    std::uint64_t result; // of the lane's last collective
    Place call;           // of the library's function that the lane runs; the outermost; file null: none
    unsigned promises;    // made since `call` began, not yet compared
    Promise promise[3];
};
// The lane that this OS thread runs; null outside kernels.
extern __thread Lane_result *current;

// The result of a switch to another lane. The library's part of a collective ends with a jump to another
// lane, which resumes in the kernel right after its own call. The processor predicts this jump. It would not
// predict a return on another stack than that of the call, which costs as much as the jump. So the remaining
// work, storing the resume point of the previous lane, is done inline by result_after().
struct Switched {
    void *point; // the resume point of the previous lane
    void *left;  // the address where `point` is stored; null if there was no switch
};
inline std::uint64_t result_after(Switched switched) {
    if (switched.left) *static_cast<void **>(switched.left) = switched.point;
    return current->result;
}

// Ends a library call: its place becomes the lane's last seen one.
void leave_call();
// Until the next collective of this call, which compares the promises of its lanes.
inline void promise(const Promise &p) {
    if (!current->call.file || current->promises == 3) return;
    for (unsigned i = 0; i < current->promises; i++)
        if (p.text && current->promise[i].text == p.text) return;
    current->promise[current->promises++] = p;
}

// The mask of the lanes that make a library call together, as the parameter of that call: made from an unsigned, it
// notes the line of the caller, which refusals then name.
class Call_lanes {
  public:
    Call_lanes(unsigned mask, SIMT_HERE) : mask_(mask), outermost_(!current->call.file) {
        if (outermost_) current->call = place;
    }
    Call_lanes(const Call_lanes &other) : mask_(other.mask_), outermost_(false) {}
    Call_lanes &operator=(const Call_lanes &) = delete;
    ~Call_lanes() {
        if (outermost_) leave_call();
    }
    operator unsigned() const { return mask_; }

  private:
    unsigned mask_;
    bool outermost_;
};

Switched enter_collective(Kind kind, unsigned mask, std::uint64_t value, std::uint64_t operand, Place place);
Switched enter_barrier(Collective collective, bool predicate, Place place);
Switched enter_coalesced_threads(Place place);

// Waits until all lanes of `mask` have called it with the same kind and mask. Returns the caller's result.
// `operand` of a shuffle: bits 0-4 the source lane, distance or lane mask, bits 32-63 the width; otherwise 0.
inline std::uint64_t meet(Kind kind, unsigned mask, std::uint64_t value, std::uint64_t operand, Place place) {
    return result_after(enter_collective(kind, mask, value, operand, place));
}
// Waits until every thread of the block has called it with the same collective. Returns the barrier's result.
inline int barrier(Collective collective, bool predicate, Place place) {
    return int(result_after(enter_barrier(collective, predicate, place)));
}
// Waits for the lanes of the warp that arrive at the same line, as cooperative_groups::coalesced_threads()
// does. Returns their mask, which contains the caller.
//   schedule 0      all lanes that arrive before no lane of the warp can go on without them
//   other schedules those lanes divided at random, because CUDA does not promise that lanes converge
// No lane waits forever: the waiting lanes are released while another lane of the warp spins.
inline unsigned coalesced_threads(Place place) {
    return unsigned(result_after(enter_coalesced_threads(place)));
}
// Lets other lanes run before the caller goes on.
void yield(Place place);
// Refuses the launch for this reason.
[[noreturn]] void refuse(const char *reason, SIMT_HERE);

// A hash of the object's bytes (FNV-1a).
template <typename T>
std::uint64_t digest(const T &object) {
    std::uint64_t sum = 0xcbf29ce484222325u;
    const unsigned char *const bytes = reinterpret_cast<const unsigned char *>(&object);
    for (std::size_t i = 0; i < sizeof object; i++) sum = (sum ^ bytes[i]) * 0x100000001b3u;
    return sum;
}

template <typename T>
std::uint64_t to_bits(T value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    return bits;
}
template <typename T>
T from_bits(std::uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

// A shuffle of any type of up to 32 bytes: one for a number of 4 or 8 bytes, else one for every 4 bytes.
template <typename T>
T shuffle(Collective collective, unsigned mask, const T &value, unsigned operand, int width, Place place) {
    static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 32,
                  "simt: a group shuffles trivially copyable types of at most 32 bytes");
    if constexpr (std::is_arithmetic<T>::value && (sizeof(T) == 4 || sizeof(T) == 8)) {
        return from_bits<T>(meet({collective, type_of<T>()}, mask, to_bits(value),
                                 (operand & 31) | std::uint64_t(unsigned(width)) << 32, place));
    } else {
        unsigned words[(sizeof(T) + 3) / 4] = {};
        std::memcpy(words, static_cast<const void *>(&value), sizeof(T));
        for (unsigned &word : words) word = shuffle(collective, mask, word, operand, width, place);
        T result = value;
        std::memcpy(static_cast<void *>(&result), words, sizeof(T));
        return result;
    }
}
// A match or a reduction of numbers; the bits of the result.
template <typename T>
std::uint64_t compare(Collective collective, unsigned mask, T value, Place place) {
    return meet({collective, type_of<T>()}, mask, to_bits(value), 0, place);
}

// The block's dynamic shared memory.
extern __thread void *dynamic_shared;

} // namespace simt

// Indices of the lane that this OS thread runs now. Not in the initial-exec TLS model, although that would save
// a shared library one call at each access: all its thread-local memory, every __shared__ array included,
// would have to fit into the static TLS space that a running program has left, and dlopen would fail.
extern __thread uint3 threadIdx, blockIdx;
extern __thread dim3 blockDim, gridDim;

constexpr int warpSize = 32;

// The block's dynamic shared memory (cudaLaunchConfig_t::dynamicSmemBytes), aligned to 256 bytes and filled
// with 0xFF bytes when the block begins; null if the launch asked for none.
inline void *simt_dynamic_shared() {
    return simt::dynamic_shared;
}

inline void __syncthreads(SIMT_HERE) {
    simt::barrier(simt::Collective::syncthreads, false, place);
}
#define SIMT_BARRIER(name)                                                                                   \
    inline int __##name(int predicate, SIMT_HERE) {                                                          \
        return simt::barrier(simt::Collective::name, predicate != 0, place);                                 \
    }
SIMT_BARRIER(syncthreads_count)
SIMT_BARRIER(syncthreads_and)
SIMT_BARRIER(syncthreads_or)
#undef SIMT_BARRIER
inline void __syncwarp(unsigned mask = 0xffffffff, SIMT_HERE) {
    simt::meet({simt::Collective::syncwarp}, mask, 0, 0, place);
}
// Returns the caller's bit alone: CUDA guarantees no more.
unsigned __activemask();

// small_floats.h has these of its types.
#define SIMT_SHUFFLE(T, name, Operand)                                                                       \
    inline T __##name##_sync(unsigned mask, T value, Operand operand, int width = warpSize, SIMT_HERE) {     \
        return simt::shuffle(simt::Collective::name, mask, value, unsigned(operand), width, place);          \
    }
#define SIMT_SHUFFLES(T)                                                                                     \
    SIMT_SHUFFLE(T, shfl, int)                                                                               \
    SIMT_SHUFFLE(T, shfl_up, unsigned)                                                                       \
    SIMT_SHUFFLE(T, shfl_down, unsigned)                                                                     \
    SIMT_SHUFFLE(T, shfl_xor, int)
#define SIMT_MATCHES(T)                                                                                      \
    inline unsigned __match_any_sync(unsigned mask, T value, SIMT_HERE) {                                    \
        return unsigned(simt::compare(simt::Collective::match_any, mask, value, place));                     \
    }                                                                                                        \
    inline unsigned __match_all_sync(unsigned mask, T value, int *predicate, SIMT_HERE) {                    \
        const unsigned lanes = unsigned(simt::compare(simt::Collective::match_all, mask, value, place));     \
        *predicate = lanes != 0;                                                                             \
        return lanes;                                                                                        \
    }
#define SIMT_EACH(T) SIMT_SHUFFLES(T) SIMT_MATCHES(T)
SIMT_EACH(int)
SIMT_EACH(unsigned)
SIMT_EACH(long)
SIMT_EACH(unsigned long)
SIMT_EACH(long long)
SIMT_EACH(unsigned long long)
SIMT_EACH(float)
SIMT_EACH(double)
#undef SIMT_EACH
#undef SIMT_MATCHES

#define SIMT_VOTE(Result, name)                                                                              \
    inline Result __##name##_sync(unsigned mask, int predicate, SIMT_HERE) {                                 \
        return Result(simt::meet({simt::Collective::name}, mask, predicate != 0, 0, place));                 \
    }
SIMT_VOTE(int, all)
SIMT_VOTE(int, any)
SIMT_VOTE(unsigned, ballot)
#undef SIMT_VOTE

#define SIMT_REDUCE(name, T)                                                                                 \
    inline T __reduce_##name##_sync(unsigned mask, T value, SIMT_HERE) {                                     \
        return T(simt::compare(simt::Collective::reduce_##name, mask, value, place));                        \
    }
SIMT_REDUCE(add, unsigned)
SIMT_REDUCE(add, int)
SIMT_REDUCE(min, unsigned)
SIMT_REDUCE(min, int)
SIMT_REDUCE(max, unsigned)
SIMT_REDUCE(max, int)
SIMT_REDUCE(and, unsigned)
SIMT_REDUCE(or, unsigned)
SIMT_REDUCE(xor, unsigned)
#undef SIMT_REDUCE

inline void __threadfence(SIMT_HERE) {
    simt::yield(place);
}
inline void __threadfence_block(SIMT_HERE) {
    simt::yield(place);
}
inline void __threadfence_system(SIMT_HERE) {
    simt::yield(place);
}
inline void __nanosleep(unsigned, SIMT_HERE) {
    simt::yield(place);
}
inline void __trap(SIMT_HERE) {
    simt::refuse("__trap() was called", place);
}
