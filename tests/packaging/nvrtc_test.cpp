// SPDX-License-Identifier: MIT
// NVRTC compiles every header alone, and a kernel that uses them, to PTX. NVRTC compiles at run time, without
// the host's headers.
#include <gtest/gtest.h>
#include <fstream>
#include <nvrtc.h>
#include "nvrtc_inputs.h"
#include <sstream>
#include <string>
#include <vector>

namespace {

struct compiled {
    bool ok = false;
    std::string log, ptx;
};

compiled compile(const std::string &source) {
    compiled result;
    nvrtcProgram program;
    if (nvrtcCreateProgram(&program, source.c_str(), "stranger.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
        return result;
    const char *const options[] = {"-arch=compute_90", "-std=c++17", FOLDERS};
    result.ok = nvrtcCompileProgram(program, sizeof options / sizeof *options, options) == NVRTC_SUCCESS;
    size_t size = 0;
    if (nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 0) {
        result.log.resize(size);
        nvrtcGetProgramLog(program, &result.log[0]);
    }
    if (result.ok && nvrtcGetPTXSize(program, &size) == NVRTC_SUCCESS) {
        result.ptx.resize(size);
        nvrtcGetPTX(program, &result.ptx[0]);
    }
    nvrtcDestroyProgram(&program);
    return result;
}

TEST(Nvrtc, CompilesEachHeaderAlone) {
    for (const char *header : {HEADERS}) {
        SCOPED_TRACE(header);
        const compiled result =
            compile("#include <" + std::string(header) + ">\n__global__ void empty() {}\n");
        EXPECT_TRUE(result.ok) << result.log;
        EXPECT_LE(result.log.size(), 1u) << result.log; // no warning
    }
}

TEST(Nvrtc, CompilesAKernelThatUsesThem) {
    std::ostringstream source;
    source << std::ifstream(KERNEL).rdbuf();
    const compiled result = compile(source.str());
    ASSERT_TRUE(result.ok) << result.log;
    for (const char *expected :
         {"add_rows_serial", "add_rows_bfly", "add_rows_tree", "keep_largest", "shfl.sync", ".cas."})
        EXPECT_NE(result.ptx.find(expected), std::string::npos) << expected << " is not in the PTX";
}

TEST(Nvrtc, RefusesWhatIsWrong) {
    const compiled result =
        compile("#include <distwar/reduce.cuh>\n"
                "__global__ void wrong(float *p) {\n"
                "    const float v[1] = {1};\n"
                "    distwar::reduce_serial(~0u, true, 0.5f, v, distwar::record<float>{p, 1});\n"
                "}\n");
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.log.find("distwar: the key must be an integer"), std::string::npos) << result.log;
}

} // namespace
