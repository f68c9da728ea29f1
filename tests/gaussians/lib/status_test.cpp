// SPDX-License-Identifier: MIT
#include "context.h"

#include <gtest/gtest.h>
#include <string>
#include <thread>

namespace {

gs_status check(cudaError_t outcome) {
    GS_CUDA(outcome);
    return GS_OK;
}

TEST(Status, SaysWhatItIs) {
    EXPECT_EQ(gs_version(), std::to_string(GS_VERSION_MAJOR) + "." + std::to_string(GS_VERSION_MINOR) + "." +
                                std::to_string(GS_VERSION_PATCH));
    const std::string backend = gs_backend();
    EXPECT_TRUE(backend == "simt" || backend == "cuda") << backend;
}

TEST(Status, TextBelongsToTheThread) {
    libgs_fail(GS_INVALID_ARGUMENT, "here");
    std::string before, after;
    std::thread([&] {
        before = gs_last_error();
        libgs_fail(GS_INVALID_ARGUMENT, "there");
        after = gs_last_error();
    }).join();
    EXPECT_EQ(before, "");
    EXPECT_EQ(after, "there");
    EXPECT_STREQ(gs_last_error(), "here");
}

TEST(Status, LongTextIsCut) {
    const std::string text(100000, 'x');
    EXPECT_EQ(libgs_fail(GS_ISECTS_DO_NOT_FIT, "%s", text.c_str()), GS_ISECTS_DO_NOT_FIT);
    const std::string kept = gs_last_error();
    EXPECT_GT(kept.size(), 100u);
    EXPECT_EQ(text.compare(0, kept.size(), kept), 0);
}

TEST(Status, DeviceErrorsNameCallAndPlace) {
    EXPECT_EQ(check(cudaSuccess), GS_OK);
    EXPECT_EQ(check(cudaErrorInvalidValue), GS_DEVICE_ERROR);
    const std::string text = gs_last_error();
    EXPECT_EQ(text.rfind("status_test.cpp:", 0), 0u) << text;
    EXPECT_NE(text.find(cudaGetErrorString(cudaErrorInvalidValue)), std::string::npos) << text;
    EXPECT_NE(text.find("outcome"), std::string::npos) << text;
}

} // namespace
