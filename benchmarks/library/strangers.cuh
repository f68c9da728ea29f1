// SPDX-License-Identifier: MIT
// Shared by the strangers' benchmarks: device arrays, a timed and checked variant of a kernel, and the size of
// its machine code.
#ifndef STRANGERS_CUH
#define STRANGERS_CUH

#include <benchmark/benchmark.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/cub.cuh>
#include <cuda_fp16.h>
#include <distwar/block.cuh>
#include <distwar/sink.cuh>
#include <distwar/half.cuh>
#include <distwar/reduce.cuh>
#include <elf.h>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <math.h>
#include <memory>
#include <random>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <vector>

namespace cg = cooperative_groups;

inline void check(cudaError_t status, const char *attempted) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", attempted, cudaGetErrorString(status));
    exit(1);
}
#define CHECK(call) check((call), #call)

template <typename T>
class device_array {
    T *memory = nullptr;
    size_t count = 0;

  public:
    explicit device_array(size_t size) : count(size) { CHECK(cudaMalloc(&memory, count * sizeof(T))); }
    explicit device_array(const std::vector<T> &content) : device_array(content.size()) {
        CHECK(cudaMemcpy(memory, content.data(), count * sizeof(T), cudaMemcpyHostToDevice));
    }
    device_array(const device_array &) = delete;
    device_array &operator=(const device_array &) = delete;
    ~device_array() { cudaFree(memory); }
    T *get() const { return memory; }
    size_t size() const { return count; }
    void clear() const { CHECK(cudaMemsetAsync(memory, 0, count * sizeof(T))); }
    std::vector<T> download() const {
        std::vector<T> content(count);
        CHECK(cudaMemcpy(content.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
        return content;
    }
};

// Bytes of machine code of a kernel, by its mangled name, from the cubins in this executable. They must not be
// compressed (nvcc --no-compress); 0 if the kernel is not found.
inline size_t code_bytes(const void *kernel) {
    static const std::map<std::string, size_t> sizes = [] {
        std::map<std::string, size_t> found;
        std::ifstream opened("/proc/self/exe", std::ios::binary);
        const std::string exe((std::istreambuf_iterator<char>(opened)), std::istreambuf_iterator<char>());
        const std::string magic = ELFMAG;
        for (size_t at = exe.find(magic, 1); at != std::string::npos; at = exe.find(magic, at + 1)) {
            Elf64_Ehdr head;
            if (at + sizeof head > exe.size()) break;
            memcpy(&head, &exe[at], sizeof head);
            if (head.e_machine != 190 || at + head.e_shoff + head.e_shnum * sizeof(Elf64_Shdr) > exe.size())
                continue;
            std::vector<Elf64_Shdr> sections(head.e_shnum);
            memcpy(sections.data(), &exe[at + head.e_shoff], head.e_shnum * sizeof(Elf64_Shdr));
            for (const Elf64_Shdr &section : sections) {
                const size_t name = at + sections[head.e_shstrndx].sh_offset + section.sh_name;
                if (name < exe.size() && !strncmp(&exe[name], ".text.", 6))
                    found[&exe[name + 6]] = section.sh_size;
            }
        }
        return found;
    }();
    const char *name = nullptr;
#if CUDART_VERSION >= 12030
    if (cudaFuncGetName(&name, kernel) != cudaSuccess) return 0;
#endif
    const auto found = name ? sizes.find(name) : sizes.end();
    return found == sizes.end() ? 0 : found->second;
}

// One case: data, and how its sums are cleared and compared. error() is the root of the mean square of the
// differences from the sums in double, divided by that of the sums.
struct strangers_case {
    std::string name;
    std::function<void()> prepare, clear;
    std::function<double()> error;
    double limit;     // of the error
    double plain = 0; // milliseconds of the variant "plain"
};

inline double relative_error(const std::vector<double> &found, const std::vector<double> &reference) {
    double difference = 0, size = 0;
    for (size_t i = 0; i < found.size(); ++i) {
        difference += (found[i] - reference[i]) * (found[i] - reference[i]);
        size += reference[i] * reference[i];
    }
    return sqrt(difference / size);
}

// Registers a variant. Rows: time of one launch; `speedup` over the variant "plain", which comes first; `error`;
// registers, bytes of stack and of machine code.
inline void add_variant(strangers_case &given, const std::string &name, const void *kernel,
                        std::function<void()> launch) {
    strangers_case *const of = &given;
    const auto known = std::make_shared<double>(-1.0); // Google Benchmark calls the body several times
    benchmark::RegisterBenchmark((given.name + "/" + name).c_str(),
                                 [=](benchmark::State &state) {
                                     of->prepare();
                                     cudaFuncAttributes attributes;
                                     CHECK(cudaFuncGetAttributes(&attributes, kernel));
                                     if (*known < 0) {
                                         of->clear();
                                         launch();
                                         CHECK(cudaGetLastError());
                                         CHECK(cudaDeviceSynchronize());
                                         *known = of->error();
                                     }
                                     const double error = *known;
                                     if (!(error <= of->limit)) {
                                         state.SkipWithError(
                                             ("the sums are wrong: error " + std::to_string(error)).c_str());
                                         return;
                                     }
                                     enum { LAUNCHES = 10 };
                                     static cudaEvent_t begin, end;
                                     if (!begin) {
                                         CHECK(cudaEventCreate(&begin));
                                         CHECK(cudaEventCreate(&end));
                                     }
                                     double all = 0;
                                     for (auto _ : state) {
                                         of->clear();
                                         launch();
                                         CHECK(cudaEventRecord(begin));
                                         for (int i = 0; i < LAUNCHES; ++i) launch();
                                         CHECK(cudaEventRecord(end));
                                         CHECK(cudaEventSynchronize(end));
                                         float milliseconds;
                                         CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
                                         state.SetIterationTime(milliseconds / LAUNCHES / 1000);
                                         all += milliseconds / LAUNCHES;
                                     }
                                     const double mean = all / double(state.iterations());
                                     if (name == "plain") of->plain = mean;
                                     if (of->plain > 0) state.counters["speedup"] = of->plain / mean;
                                     state.counters["error"] = error;
                                     state.counters["registers"] = attributes.numRegs;
                                     state.counters["stack"] = double(attributes.localSizeBytes);
                                     state.counters["code"] = double(code_bytes(kernel));
                                 })
        ->UseManualTime()
        ->Unit(benchmark::kMicrosecond)
        ->MinTime(0.02);
}

#endif
