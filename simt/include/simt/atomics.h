// SPDX-License-Identifier: MIT
// CUDA's atomics at all scopes: relaxed, on naturally aligned addresses. Other lanes may run before and after
// each.
#pragma once

#include "lanes.h"
#include <cstddef>

namespace simt {

// Every atomic calls this first. Counts it, lets other lanes run, refuses a misaligned address. Returns
// whether the caller must yield after the atomic as well.
bool begin_atomic(const void *address, std::size_t bytes, Place place);

// The word in memory of a T, of 2, 4 or 8 bytes.
template <typename T>
using Word_of = std::conditional_t<sizeof(T) == 8, unsigned long long,
                                   std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;

// *address = change(*address), atomically. Returns the old value.
template <typename T, typename Change>
T exchange(T *address, Change change) {
    using Word = Word_of<T>;
    static_assert(sizeof(Word) == sizeof(T), "a word of the same size");
    // may_alias: the words of a float array are read as integers.
    typedef Word __attribute__((may_alias)) Cell;
    Cell *cell = reinterpret_cast<Cell *>(address);
    Word old = __atomic_load_n(cell, __ATOMIC_RELAXED);
    T value;
    do value = from_bits<T>(old);
    while (!__atomic_compare_exchange_n(cell, &old, Word(to_bits(change(value))), true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    return value;
}

// exchange() as one atomic of the kernel: counted, with other lanes running before or after it.
template <typename T, typename Change>
T update(T *address, Place place, Change change) {
    const bool yields = begin_atomic(address, sizeof(T), place);
    const T value = exchange(address, change);
    if (yields) yield(place);
    return value;
}

// One atomic of the kernel that adds N neighbouring values, each of them atomically.
template <int N, typename Vector, typename T>
Vector add_each(Vector *address, T Vector::*, const Vector &value, Place place) {
    static_assert(sizeof(Vector) == N * sizeof(T), "values side by side");
    const bool yields = begin_atomic(address, sizeof(Vector), place);
    T values[N];
    std::memcpy(values, &value, sizeof value);
    for (int i = 0; i < N; i++)
        values[i] = exchange(reinterpret_cast<T *>(address) + i,
                             [more = values[i]](T old) -> T { return old + more; });
    if (yields) yield(place);
    Vector old;
    std::memcpy(&old, values, sizeof old);
    return old;
}

} // namespace simt

// The atomic `name` of T and those of the other scopes; each returns `old_value`.
#define SIMT_AT_ALL_SCOPES(T, name, parameters, old_value)                                                   \
    SIMT_FUNCTION(T, name, parameters, old_value)                                                            \
    SIMT_FUNCTION(T, name##_block, parameters, old_value)                                                    \
    SIMT_FUNCTION(T, name##_system, parameters, old_value)
#define SIMT_ATOMIC(name, T, changed)                                                                        \
    SIMT_AT_ALL_SCOPES(T, name, (T * address, T value, SIMT_HERE),                                           \
                       simt::update(address, place, [value](T old) -> T { return changed; }))
#define SIMT_ATOMIC_OF_WORDS(name, changed)                                                                  \
    SIMT_ATOMIC(name, int, changed)                                                                          \
    SIMT_ATOMIC(name, unsigned, changed)                                                                     \
    SIMT_ATOMIC(name, unsigned long long, changed)

// Sums of signed integers wrap, as on a GPU.
SIMT_ATOMIC(atomicAdd, int, int(unsigned(old) + unsigned(value)))
SIMT_ATOMIC(atomicAdd, unsigned, old + value)
SIMT_ATOMIC(atomicAdd, unsigned long long, old + value)
SIMT_ATOMIC(atomicAdd, float, old + value)
SIMT_ATOMIC(atomicAdd, double, old + value)
SIMT_ATOMIC(atomicSub, int, int(unsigned(old) - unsigned(value)))
SIMT_ATOMIC(atomicSub, unsigned, old - value)
SIMT_ATOMIC_OF_WORDS(atomicExch, (static_cast<void>(old), value))
SIMT_ATOMIC(atomicExch, float, (static_cast<void>(old), value))
SIMT_ATOMIC_OF_WORDS(atomicMin, value < old ? value : old)
SIMT_ATOMIC(atomicMin, long long, value < old ? value : old)
SIMT_ATOMIC_OF_WORDS(atomicMax, value > old ? value : old)
SIMT_ATOMIC(atomicMax, long long, value > old ? value : old)
SIMT_ATOMIC_OF_WORDS(atomicAnd, old &value)
SIMT_ATOMIC_OF_WORDS(atomicOr, old | value)
SIMT_ATOMIC_OF_WORDS(atomicXor, old ^ value)
SIMT_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
SIMT_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)
#undef SIMT_ATOMIC_OF_WORDS
#undef SIMT_ATOMIC

#define SIMT_ATOMIC_ADD_EACH(Vector, N)                                                                      \
    SIMT_AT_ALL_SCOPES(Vector, atomicAdd, (Vector * address, Vector value, SIMT_HERE),                       \
                       simt::add_each<N>(address, &Vector::x, value, place))
SIMT_ATOMIC_ADD_EACH(float2, 2)
SIMT_ATOMIC_ADD_EACH(float4, 4)
#undef SIMT_ATOMIC_ADD_EACH

#define SIMT_ATOMIC_CAS(T)                                                                                   \
    SIMT_AT_ALL_SCOPES(T, atomicCAS, (T * address, T expected, T value, SIMT_HERE),                          \
                       simt::update(address, place, [=](T old) { return old == expected ? value : old; }))
SIMT_ATOMIC_CAS(int)
SIMT_ATOMIC_CAS(unsigned)
SIMT_ATOMIC_CAS(unsigned long long)
SIMT_ATOMIC_CAS(unsigned short)
#undef SIMT_ATOMIC_CAS
#undef SIMT_AT_ALL_SCOPES
