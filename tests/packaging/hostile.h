// SPDX-License-Identifier: MIT
// For foreign.cu: functions with the names of all functions of the library, in the namespaces of the types
// that the program gives to the library. hostile_names.h is made by CMakeLists.txt.
//
// A function that takes anything loses to the library's own if both match equally well. So there is also one
// for each type at each place: next to it the library's function is a worse match or ambiguous.
#define HOSTILE_TO_ANY(name)                                                                                 \
    template <typename... Any>                                                                               \
    __host__ __device__ void name(Any &&...) = delete;                                                       \
    template <auto First, typename... Any>                                                                   \
    __host__ __device__ void name(Any &&...) = delete;                                                       \
    template <typename First, auto Second, typename... Any>                                                  \
    __host__ __device__ void name(Any &&...) = delete;
#define HOSTILE_AFTER(arguments, name, type)                                                                 \
    template <arguments typename... Any>                                                                     \
    __host__ __device__ void name(type, Any &&...) = delete;                                                 \
    template <arguments typename A, typename... Any>                                                         \
    __host__ __device__ void name(type, A &&, Any &&...) = delete;                                           \
    template <arguments typename A, typename... Any>                                                         \
    __host__ __device__ void name(A &&, type, Any &&...) = delete;                                           \
    template <arguments typename A, typename B, typename... Any>                                             \
    __host__ __device__ void name(A &&, B &&, type, Any &&...) = delete;                                     \
    template <arguments typename A, typename B, typename C, typename... Any>                                 \
    __host__ __device__ void name(A &&, B &&, C &&, type, Any &&...) = delete;                               \
    template <arguments typename A, typename B, typename C, typename D, typename... Any>                     \
    __host__ __device__ void name(A &&, B &&, C &&, D &&, type, Any &&...) = delete;
#define NONE
#define NUMBER auto First,
#define TYPE typename First,
#define HOSTILE_TO(name, type)                                                                               \
    HOSTILE_AFTER(NONE, name, type) HOSTILE_AFTER(NUMBER, name, type) HOSTILE_AFTER(TYPE, name, type)

#define DECLARE_HOSTILE(name)                                                                                \
    HOSTILE_TO_ANY(name)                                                                                     \
    HOSTILE_TO(name, __half2)                                                                                \
    HOSTILE_TO(name, __half2(&)[3])                                                                          \
    HOSTILE_TO(name, const __half2(&)[3]) HOSTILE_TO(name, __nv_bfloat16) HOSTILE_TO(name, float2)
#include "hostile_names.h"
#undef DECLARE_HOSTILE
__device__ void atomic_add(__half *, float) = delete;

namespace foreign {
#define DECLARE_HOSTILE(name)                                                                                \
    HOSTILE_TO_ANY(name)                                                                                     \
    HOSTILE_TO(name, const own_sink<__half2> &)                                                              \
    HOSTILE_TO(name, const own_values<__half2> &) HOSTILE_TO(name, number)
#include "hostile_names.h"
DECLARE_HOSTILE(memcpy)
#undef DECLARE_HOSTILE
} // namespace foreign
