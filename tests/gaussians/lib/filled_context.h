// SPDX-License-Identifier: MIT
// A context whose memory is filled with a byte before a call gets it: what lies there does not count.
#pragma once

#include "device_vector.h"
#include <distwar_gs.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>

class filled_context {
  public:
    // pattern 0xff: NaN in every float and double
    explicit filled_context(int pattern = 0xff) : pattern(char(pattern)) {
        const gs_allocator allocator = {allocate, release, this};
        EXPECT_EQ(gs_context_create(&allocator, nullptr, &context), GS_OK) << gs_last_error();
    }
    ~filled_context() { gs_context_destroy(context); }
    filled_context(const filled_context &) = delete;
    filled_context &operator=(const filled_context &) = delete;

    operator gs_context *() const { return context; }
    size_t blocks() const { return memory.size(); } // that are not given back

  private:
    static void *allocate(void *user, size_t bytes, gs_stream) {
        filled_context &of = *static_cast<filled_context *>(user);
        auto made = std::make_unique<device_vector<char>>(std::vector<char>(bytes, of.pattern));
        void *const at = made->data();
        of.memory[at] = std::move(made);
        return at;
    }
    static void release(void *user, void *at, gs_stream) {
        EXPECT_EQ(static_cast<filled_context *>(user)->memory.erase(at), 1u) << "not from here";
    }

    char pattern;
    std::map<void *, std::unique_ptr<device_vector<char>>> memory;
    gs_context *context = nullptr;
};
