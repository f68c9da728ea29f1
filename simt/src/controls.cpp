// SPDX-License-Identifier: MIT
// State of the process that persists between launches: settings, counters, the last refusal. simt.h is its
// public interface.
#include "launch_state.h"

#include "simt.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t default_stack_bytes = 512 * 1024;
#else
constexpr std::size_t default_stack_bytes = 64 * 1024;
#endif

// SIMT_SEED, of programs that do not call simt_set_seed.
std::uint64_t seed_of_environment() {
    const char *const text = std::getenv("SIMT_SEED");
    return text ? std::strtoull(text, nullptr, 10) : 0;
}

struct State {
    std::mutex mutex; // guards the members below
    simt::Settings settings = {seed_of_environment(), 0, std::uint64_t(1) << 32, default_stack_bytes, true};
    simt_counters counters = {};
    std::string refusal;
    int refusals = 0;
};

State &global_state() {
    static State state;
    return state;
}

template <typename Use>
auto with_state(Use use) {
    State &state = global_state();
    std::lock_guard<std::mutex> lock(state.mutex);
    return use(state);
}

} // namespace

namespace simt {

Settings settings() {
    Settings settings = with_state([](State &state) { return state.settings; });
    if (settings.threads <= 0) settings.threads = std::max(1, int(std::thread::hardware_concurrency()));
    return settings;
}

void record(Launch &launch) {
    with_state([&](State &state) {
        if (launch.settings.counting) add(state.counters, launch.counters);
        if (launch.refusal.empty()) return;
        std::fputs(launch.refusal.c_str(), stderr);
        state.refusal = std::move(launch.refusal);
        state.refusals++;
    });
}

} // namespace simt

void simt_set_seed(uint64_t seed) {
    with_state([&](State &state) { state.settings.seed = seed; });
}
void simt_set_threads(int threads) {
    with_state([&](State &state) { state.settings.threads = threads; });
}
int simt_threads(void) {
    return simt::settings().threads;
}
void simt_set_step_limit(uint64_t steps) {
    with_state([&](State &state) { state.settings.step_limit = steps; });
}
void simt_set_stack_size(size_t bytes) {
    with_state([&](State &state) { state.settings.stack_bytes = bytes ? bytes : default_stack_bytes; });
}
void simt_set_counting(bool on) {
    with_state([&](State &state) { state.settings.counting = on; });
}

simt_counters simt_counters_read(void) {
    return with_state([](State &state) { return state.counters; });
}
void simt_counters_reset(void) {
    with_state([](State &state) { state.counters = {}; });
}

const char *simt_refusal(void) {
    return with_state([](State &state) { return state.refusal.c_str(); });
}
int simt_refusals(void) {
    return with_state([](State &state) { return state.refusals; });
}
void simt_refusal_clear(void) {
    with_state([](State &state) {
        state.refusal.clear();
        state.refusals = 0;
    });
    if (simt::last_error == cudaErrorLaunchFailure) simt::last_error = cudaSuccess;
}
