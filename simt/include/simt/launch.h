// SPDX-License-Identifier: MIT
// Launches of kernels.
#pragma once

#include "runtime_api.h"
#include <tuple>

namespace simt {

// Runs call(arguments) in every thread of the grid. `kernel` identifies the kernel in messages and limits.
cudaError_t launch(const cudaLaunchConfig_t &config, const void *kernel, void (*call)(const void *),
                   const void *arguments);

} // namespace simt

// Runs the kernel and returns when it has finished. Errors:
//   cudaErrorInvalidConfiguration  an empty or too large grid or block
//   cudaErrorInvalidValue          too much dynamic shared memory
//   cudaErrorNotSupported          attributes, or a launch from a kernel
//   cudaErrorLaunchFailure         the kernel was refused; simt_refusal() gives the reason
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               Arguments &&...arguments) {
    struct Call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    const Call call = {kernel, std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)};
    return simt::launch(
        *config, reinterpret_cast<const void *>(kernel),
        [](const void *p) {
            const Call &c = *static_cast<const Call *>(p);
            std::apply(c.kernel, c.arguments);
        },
        &call);
}

namespace simt {
template <typename... Parameters>
struct Launcher {
    void (*kernel)(Parameters...);
    cudaLaunchConfig_t config;
    template <typename... Arguments>
    void operator()(Arguments &&...arguments) const {
        cudaLaunchKernelEx(&config, kernel, static_cast<Arguments &&>(arguments)...);
    }
};
} // namespace simt

// kernel<<<grid, block, shared_bytes, stream>>>(arguments...) is
//   simt_launch(kernel, grid, block, shared_bytes, stream)(arguments...)
// cudaGetLastError() returns the error of either.
template <typename... Parameters>
simt::Launcher<Parameters...> simt_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                                          size_t shared_bytes = 0, cudaStream_t stream = nullptr) {
    return {kernel, {grid, block, shared_bytes, stream, nullptr, 0}};
}

template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
