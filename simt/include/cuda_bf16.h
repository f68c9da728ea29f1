// SPDX-License-Identifier: MIT
// Replaces NVIDIA's header of the same name: the part that kernels use most.
#pragma once

#include "simt/small_floats.h"

SIMT_SMALL_FLOAT(__nv_bfloat16, __nv_bfloat162, bfloat16_bits, bfloat16_value)
SIMT_SMALL_CONVERSIONS(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
