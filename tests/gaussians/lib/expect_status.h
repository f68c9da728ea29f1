// SPDX-License-Identifier: MIT
// What a call of libdistwar_gs should return.
#pragma once

#include "distwar_gs.h"
#include <gtest/gtest.h>
#include <string>

#define EXPECT_GS_OK(call) EXPECT_EQ(call, GS_OK) << gs_last_error()
#define ASSERT_GS_OK(call) ASSERT_EQ(call, GS_OK) << gs_last_error()

// The call was refused, and its text has this in it.
inline void expect_refused(gs_status status, const std::string &text) {
    EXPECT_EQ(status, GS_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(gs_last_error()).find(text), std::string::npos)
        << gs_last_error() << ", not " << text;
}
