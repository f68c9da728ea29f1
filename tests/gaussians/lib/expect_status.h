// SPDX-License-Identifier: MIT
// What a call of libdistwar_gs should return.
#pragma once

#include "distwar_gs.h"
#include <gtest/gtest.h>
#include <string>

#define EXPECT_GS_OK(call) EXPECT_EQ(call, GS_OK) << gs_last_error()
#define ASSERT_GS_OK(call) ASSERT_EQ(call, GS_OK) << gs_last_error()

// The call was refused, and its text begins so.
inline void refused(const std::string &text, gs_status status) {
    EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
    EXPECT_EQ(std::string(gs_last_error()).rfind(text, 0), 0u) << gs_last_error() << ", not " << text;
}
