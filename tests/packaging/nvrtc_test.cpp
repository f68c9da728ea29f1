// SPDX-License-Identifier: MIT
// NVRTC, which compiles at run time, without the host's headers, takes every header alone. ways/nvrtc.c has it compile a
// kernel.
#include <gtest/gtest.h>
#include <nvrtc.h>
#include "nvrtc_inputs.h"
#include <string>
#include <vector>

namespace {

struct compiled {
    bool ok = false;
    std::string log;
};

compiled compile(const std::string &source) {
    compiled result;
    nvrtcProgram program;
    if (nvrtcCreateProgram(&program, source.c_str(), "foreign.cu", 0, nullptr, nullptr) != NVRTC_SUCCESS)
        return result;
    const char *const options[] = {"-arch=compute_90", "-std=c++17", FOLDERS};
    result.ok = nvrtcCompileProgram(program, sizeof options / sizeof *options, options) == NVRTC_SUCCESS;
    size_t size = 0;
    if (nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 0) {
        result.log.resize(size);
        nvrtcGetProgramLog(program, &result.log[0]);
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
