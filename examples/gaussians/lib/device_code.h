// SPDX-License-Identifier: MIT
// What the functions of kernels begin with: they are inlined.
#pragma once

#define GS_DEVICE __device__ __forceinline__
