// SPDX-License-Identifier: MIT
#include "fiber.h"

#include <new>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace simt {

// Stacks are allocated 32 at a time. The top of each is `stagger` bytes lower in its pages than that of the
// one before. With equal page offsets all tops would map to the same few sets of the L1 cache.
static constexpr std::size_t stacks_per_region = 32;
static constexpr std::size_t stagger = 128;

void Stack_pool::reserve(std::size_t count, std::size_t bytes) {
    if (bytes != stack_bytes_) {
        release();
        stack_bytes_ = bytes;
    }
    while (all_.size() < count) grow();
    free_.reserve(all_.size());
}

void Stack_pool::grow() {
    const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE));
    const std::size_t usable = (stack_bytes_ + stagger * stacks_per_region + page - 1) / page * page;
    const std::size_t slot = page + usable;
    const std::size_t bytes = stacks_per_region * slot;
    void *start =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) throw std::bad_alloc();
    regions_.push_back({start, bytes});
    for (std::size_t i = stacks_per_region; i-- > 0;) {
        char *guard = static_cast<char *>(start) + i * slot;
        // This fails only if the process has too many mappings.
        if (mprotect(guard, page, PROT_NONE) != 0) throw std::bad_alloc();
        const Stack stack = {guard + page, usable - i * stagger};
        all_.push_back(stack);
        free_.push_back(stack);
    }
}

void Stack_pool::free_all() {
    for (Stack stack : all_) unpoison(stack);
    free_ = all_;
}

void Stack_pool::release() {
    free_all();
    for (Region region : regions_) munmap(region.start, region.bytes);
    regions_.clear();
    all_.clear();
    free_.clear();
}

// A lane that was abandoned, or that left its stack without returning, leaves AddressSanitizer's red zones on
// it. (To unpoison all of a stack takes longer than most kernels.)
void Stack_pool::unpoison([[maybe_unused]] Stack stack) {
#ifdef __SANITIZE_ADDRESS__
    __asan_unpoison_memory_region(stack.bottom, stack.bytes);
#endif
}

} // namespace simt
