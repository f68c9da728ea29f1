// SPDX-License-Identifier: MIT
// A context whose memory is filled with a byte before a call gets it: what lies there does not count. And a guard behind
// each block, which nothing may change.
#pragma once

#include "device_vector.h"
#include <distwar_gs.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>

// What gs_reserve takes of a context for the view. Nobody looks at the memory. out: the view with its arrays, or NULL.
inline double reserved_bytes(gs_view view, distwar_strategy strategy, int64_t isects,
                             gs_view *out = nullptr) {
    double bytes = 0;
    const gs_allocator counting = {[](void *user, size_t more, gs_stream) {
                                       *static_cast<double *>(user) += double(more);
                                       return reinterpret_cast<void *>(uintptr_t(1) << 20);
                                   },
                                   [](void *, void *, gs_stream) {}, &bytes};
    gs_context *context = nullptr;
    EXPECT_EQ(gs_context_create(&counting, nullptr, &context), GS_OK);
    EXPECT_EQ(gs_reserve(&view, strategy, isects, context), GS_OK) << gs_last_error();
    gs_context_destroy(context);
    if (out) *out = view;
    return bytes;
}

class filled_context {
  public:
    // pattern 0xff: NaN in every float and double
    explicit filled_context(int pattern = 0xff, size_t guard = 0) : pattern(char(pattern)), guard(guard) {
        const gs_allocator allocator = {allocate, release, this};
        EXPECT_EQ(gs_context_create(&allocator, nullptr, &context), GS_OK) << gs_last_error();
    }
    ~filled_context() { gs_context_destroy(context); }
    filled_context(const filled_context &) = delete;
    filled_context &operator=(const filled_context &) = delete;

    operator gs_context *() const { return context; }
    bool guards_hold() const {
        for (const auto &[at, block] : memory) {
            const std::vector<char> values = block->read();
            for (size_t i = values.size() - guard; i < values.size(); i++)
                if (values[i] != pattern) return false;
        }
        return true;
    }
    int allocations = 0;
    bool fails = false; // all allocations

  private:
    static void *allocate(void *user, size_t bytes, gs_stream) {
        filled_context &of = *static_cast<filled_context *>(user);
        if (of.fails) return nullptr;
        auto made = std::make_unique<device_vector<char>>(std::vector<char>(bytes + of.guard, of.pattern));
        void *const at = made->data();
        of.allocations++;
        of.memory[at] = std::move(made);
        return at;
    }
    static void release(void *user, void *at, gs_stream) {
        EXPECT_EQ(static_cast<filled_context *>(user)->memory.erase(at), 1u) << "not from here";
    }

    char pattern;
    size_t guard;
    std::map<void *, std::unique_ptr<device_vector<char>>> memory;
    gs_context *context = nullptr;
};
