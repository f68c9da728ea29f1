// SPDX-License-Identifier: MIT
// The operators of reduce.h and scan.h. less and greater return the smaller and the larger operand.
#pragma once

namespace cooperative_groups {

#define SIMT_OPERATOR(name, result)                                                                          \
    template <typename T>                                                                                    \
    struct name {                                                                                            \
        T operator()(T a, T b) const { return T(result); }                                                   \
    };
SIMT_OPERATOR(plus, a + b)
SIMT_OPERATOR(less, b < a ? b : a)
SIMT_OPERATOR(greater, a < b ? b : a)
SIMT_OPERATOR(bit_and, a &b)
SIMT_OPERATOR(bit_or, a | b)
SIMT_OPERATOR(bit_xor, a ^ b)
#undef SIMT_OPERATOR

} // namespace cooperative_groups
