// SPDX-License-Identifier: MIT
#include "device.h"
#include <gtest/gtest.h>
#include <stdint.h>
#include <string>
#include <vector>

namespace {

class Device : public testing::Test {
  protected:
    void SetUp() override {
        int count = 0;
        if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no device to run on";
    }
};

TEST_F(Device, MovesBytes) {
    std::vector<uint8_t> sent(1000), received(1000, 1);
    for (size_t i = 0; i < sent.size(); i++) sent[i] = uint8_t(i * 7);
    void *memory = device_allocate(sent.size());
    device_upload(memory, sent.data(), sent.size());
    device_download(received.data(), memory, received.size());
    EXPECT_EQ(received, sent);
    device_clear(memory, received.size());
    device_download(received.data(), memory, received.size());
    EXPECT_EQ(received, std::vector<uint8_t>(1000, 0));
    device_free(memory);
}

TEST_F(Device, AllocatesNothingToo) {
    void *memory = device_allocate(0);
    EXPECT_NE(memory, nullptr);
    device_free(memory);
    device_free(nullptr);
}

TEST_F(Device, HasAName) {
    EXPECT_NE(std::string(device_name()), "");
}

using DeviceDeathTest = Device;

TEST_F(DeviceDeathTest, EndsTheProgramOnAnError) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(device_check(cudaErrorInvalidValue, "the call", "file.c", 12), testing::ExitedWithCode(1),
                "file.c:12: the call failed: ");
#ifndef DISTWAR_SANITIZE // which ends a program that asks for this much by itself
    EXPECT_EXIT(device_allocate(size_t(1) << 60), testing::ExitedWithCode(1),
                "no memory for 1152921504606846976 bytes");
#endif
}

} // namespace
