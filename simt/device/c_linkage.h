// SPDX-License-Identifier: MIT
// Declarations between these two have C linkage, also where C++ includes them.
#pragma once

#ifdef __cplusplus
#define C_LINKAGE_BEGIN extern "C" {
#define C_LINKAGE_END }
#else
#define C_LINKAGE_BEGIN
#define C_LINKAGE_END
#endif
