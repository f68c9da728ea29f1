// SPDX-License-Identifier: MIT
// NVRTC, which compiles at run time, without the host's headers, takes every header alone. ways/nvrtc.c has it compile a
// kernel.
#include <gtest/gtest.h>
#include <nvrtc.h>
#include "nvrtc_inputs.h"
#include <string>

namespace {

TEST(Nvrtc, CompilesEachHeaderAlone) {
    for (const std::string header : {HEADERS}) {
        SCOPED_TRACE(header);
        const std::string source = "#include <" + header + ">\n__global__ void empty() {}\n";
        const char *const options[] = {"-arch=compute_90", "-std=c++17", FOLDERS};
        nvrtcProgram program;
        ASSERT_EQ(nvrtcCreateProgram(&program, source.c_str(), "alone.cu", 0, nullptr, nullptr),
                  NVRTC_SUCCESS);
        const nvrtcResult result = nvrtcCompileProgram(program, sizeof options / sizeof *options, options);
        size_t size = 0;
        ASSERT_EQ(nvrtcGetProgramLogSize(program, &size), NVRTC_SUCCESS);
        std::string log(size, '\0');
        nvrtcGetProgramLog(program, &log[0]);
        nvrtcDestroyProgram(&program);
        EXPECT_EQ(result, NVRTC_SUCCESS) << log;
        EXPECT_LE(size, 1u) << log; // no warning
    }
}

} // namespace
