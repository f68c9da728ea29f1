// SPDX-License-Identifier: MIT
// Launches: checks them as CUDA does, hands them to the workers, keeps what comes of them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <mutex>

#include "block.h"
#include "controls.h"
#include "last_error.h"
#include "simt/launch.h"
#include "workers.h"

namespace {

constexpr std::size_t usual_dynamic_shared = 48 * 1024, most_dynamic_shared = 227 * 1024;

// How much dynamic shared memory kernels may have, where it is more than usual.
class Allowances {
  public:
    void set(const void *kernel, std::size_t bytes) {
        std::lock_guard<std::mutex> lock(mutex_);
        bytes_[kernel] = bytes;
    }
    std::size_t get(const void *kernel) {
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = bytes_.find(kernel);
        return found == bytes_.end() ? usual_dynamic_shared : std::max(usual_dynamic_shared, found->second);
    }

  private:
    std::mutex mutex_;
    std::map<const void *, std::size_t> bytes_;
};

Allowances &allowances() {
    static Allowances a;
    return a;
}

cudaError_t check(const cudaLaunchConfig_t &config, const void *kernel) {
    const dim3 g = config.gridDim, b = config.blockDim;
    if (!kernel) return cudaErrorInvalidDeviceFunction;
    if (config.numAttrs || simt::current) return cudaErrorNotSupported; // the latter: from inside a kernel
    if (!g.x || !g.y || !g.z || !b.x || !b.y || !b.z) return cudaErrorInvalidConfiguration;
    if (g.x > 0x7fffffff || g.y > 65535 || g.z > 65535) return cudaErrorInvalidConfiguration;
    if (b.x > 1024 || b.y > 1024 || b.z > 64 || b.x * b.y * b.z > simt::max_threads)
        return cudaErrorInvalidConfiguration;
    if (config.dynamicSmemBytes > usual_dynamic_shared && config.dynamicSmemBytes > allowances().get(kernel))
        return cudaErrorInvalidValue;
    return cudaSuccess;
}

} // namespace

namespace simt {

cudaError_t launch(const cudaLaunchConfig_t &config, const void *kernel, void (*call)(const void *),
                   const void *arguments) {
    const cudaError_t wrong = check(config, kernel);
    if (wrong != cudaSuccess) return note(wrong);
    static std::mutex one_at_a_time;
    static Workers workers;
    std::lock_guard<std::mutex> lock(one_at_a_time);
    const std::uint64_t blocks = std::uint64_t(config.gridDim.x) * config.gridDim.y * config.gridDim.z;
    Launch launch(config, kernel, call, arguments, settings(), blocks);
    workers.run(launch, unsigned(std::min(blocks, std::uint64_t(launch.settings.threads)) - 1));
    record(launch);
    return note(launch.error);
}

} // namespace simt

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value) {
    if (!kernel) return simt::note(cudaErrorInvalidDeviceFunction);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess; // a hint
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        std::size_t(value) > most_dynamic_shared)
        return simt::note(cudaErrorInvalidValue);
    allowances().set(kernel, std::size_t(value));
    return cudaSuccess;
}
