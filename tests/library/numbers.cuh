// SPDX-License-Identifier: MIT
// Numbers from and to every type that values and sums have, on the host. __half2 and __nv_bfloat162 hold two.
#ifndef NUMBERS_CUH
#define NUMBERS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <ostream>
#include <string.h>
#include <type_traits>

// The type of a pair of T, or void.
template <typename T>
struct pair_with {
    using type = void;
};
template <>
struct pair_with<__half> {
    using type = __half2;
};
template <>
struct pair_with<__nv_bfloat16> {
    using type = __nv_bfloat162;
};
template <typename T>
inline constexpr bool is_pair = std::is_same_v<T, __half2> || std::is_same_v<T, __nv_bfloat162>;
template <typename T>
inline constexpr bool has_16_bits = is_pair<T> || !std::is_void_v<typename pair_with<T>::type>;

// nvcc replaces a call of a device function from the host by exit(1), without a word: these are the host's own.
inline double number(double value) {
    return value;
}
inline double number(__half value) {
    return double(__half2float(value));
}
inline double number(__nv_bfloat16 value) {
    return double(__bfloat162float(value));
}
template <typename Pair>
Pair pair_of(float first, float second) {
    if constexpr (std::is_same_v<Pair, __half2>)
        return __floats2half2_rn(first, second);
    else
        return __floats2bfloat162_rn(first, second);
}
// The nearest number of T; of a pair both parts.
template <typename T>
T stored(double value) {
    if constexpr (std::is_same_v<T, __half>)
        return __float2half_rn(float(value));
    else if constexpr (std::is_same_v<T, __nv_bfloat16>)
        return __float2bfloat16_rn(float(value));
    else if constexpr (is_pair<T>)
        return pair_of<T>(float(value), float(value));
    else
        return T(value);
}

// NaN is the same as NaN.
template <typename T>
bool same_number(T a, T b) {
    if constexpr (is_pair<T>) {
        return same_number(a.x, b.x) && same_number(a.y, b.y);
    } else if constexpr (has_16_bits<T>) {
        return same_number(number(a), number(b));
    } else {
        return a == b || (a != a && b != b);
    }
}

// GoogleTest prints them by these: it finds them by their argument.
inline void PrintTo(__half value, std::ostream *out) {
    *out << number(value);
}
inline void PrintTo(__nv_bfloat16 value, std::ostream *out) {
    *out << number(value);
}
inline void PrintTo(__half2 pair, std::ostream *out) {
    *out << number(pair.x) << ' ' << number(pair.y);
}
inline void PrintTo(__nv_bfloat162 pair, std::ostream *out) {
    *out << number(pair.x) << ' ' << number(pair.y);
}

#endif
