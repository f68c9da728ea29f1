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
    const std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
    // The launch has ended when this function returns, so references suffice.
    const auto call = [&] { std::apply(kernel, values); };
    return simt::launch(
        *config, reinterpret_cast<const void *>(kernel),
        [](const void *p) { (*static_cast<decltype(call) *>(p))(); }, &call);
}

// kernel<<<grid, block, shared_bytes, stream>>>(arguments...) is
//   simt_launch(kernel, grid, block, shared_bytes, stream)(arguments...)
// cudaGetLastError() returns the error of either.
template <typename... Parameters>
auto simt_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes = 0,
                 cudaStream_t stream = nullptr) {
    return [=](auto &&...arguments) {
        const cudaLaunchConfig_t config = {grid, block, shared_bytes, stream, nullptr, 0};
        cudaLaunchKernelEx(&config, kernel, static_cast<decltype(arguments)>(arguments)...);
    };
}

template <typename... Parameters>
cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value) {
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
