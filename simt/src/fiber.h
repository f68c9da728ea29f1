// SPDX-License-Identifier: MIT
// Contexts of execution with their own stacks, and a pool of stacks.
//
// Boost.Context's fiber class unwinds an abandoned fiber by an exception. The lanes of a refused launch must
// disappear wherever they wait, as the threads of a failed kernel do. So this uses the layer below: a
// suspended context is one pointer, and dropping the pointer abandons it.
#pragma once

#include "simt/lanes.h"
#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <type_traits>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace simt {

struct Stack {
    char *bottom = nullptr; // the lowest address
    std::size_t bytes = 0;
};

// The resume point of a suspended context, and its stack.
struct Context {
    boost::context::detail::fcontext_t point = nullptr; // null: not started
    Stack stack;
};

static_assert(std::is_standard_layout<Context>::value, "the address of a Context is that of its point");

namespace detail {
// Runs first after a switch. `t.data` is the previous Context, null if it is not resumed again.
inline void arrive(boost::context::detail::transfer_t t, [[maybe_unused]] void *fake_stack) {
    Context *left = static_cast<Context *>(t.data);
#ifdef __SANITIZE_ADDRESS__
    const void *bottom;
    std::size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    // The first switch of an OS thread sets the bounds of its own stack here.
    if (left) left->stack = {static_cast<char *>(const_cast<void *>(bottom)), bytes};
#endif
    if (left) left->point = t.fctx;
}
} // namespace detail

// Resumes `to`; returns when `from` is resumed. The caller passes the result to result_after().
inline Switched switch_to(Context &from, const Context &to) {
#ifdef __SANITIZE_ADDRESS__
    // AddressSanitizer must be told right after the switch, so this function stores the resume point itself.
    void *fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack.bottom, to.stack.bytes);
    detail::arrive(boost::context::detail::jump_fcontext(to.point, &from), fake_stack);
    return {nullptr, nullptr};
#else
    // The cast makes this a tail call: converting the returned value would prevent one.
    using Jump = Switched (*)(void *, void *);
    const auto jump = reinterpret_cast<void (*)()>(boost::context::detail::jump_fcontext);
    return reinterpret_cast<Jump>(jump)(to.point, &from);
#endif
}

// Resumes `to` and never returns. The caller's stack is free again; objects on it are dropped without
// destructors.
[[noreturn]] inline void leave_to(const Context &to) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(nullptr, to.stack.bottom, to.stack.bytes);
#endif
    boost::context::detail::jump_fcontext(to.point, nullptr);
    __builtin_unreachable();
}

// The stacks of one OS thread's lanes.
class Stack_pool {
  public:
    Stack_pool() = default;
    Stack_pool(const Stack_pool &) = delete;
    Stack_pool &operator=(const Stack_pool &) = delete;
    ~Stack_pool() { release(); }

    // Allocates up to `count` free stacks of `bytes` bytes; none may be in use. Throws std::bad_alloc.
    void reserve(std::size_t count, std::size_t bytes);
    // A context that starts at main() on a free stack. main() must not return.
    template <void (*main)()>
    Context begin() {
        Context context;
        context.stack = free_.back();
        free_.pop_back();
        char *top = context.stack.bottom + context.stack.bytes;
        unpoison({top - bytes_of_main, bytes_of_main});
        context.point = boost::context::detail::make_fcontext(top, context.stack.bytes, enter<main>);
        return context;
    }
    void give_back(Stack stack) { free_.push_back(stack); }
    // Makes all stacks free, those of abandoned contexts included.
    void free_all();

  private:
    // More than the frames of main(), which leaves its stack without returning. Others have returned.
    static constexpr std::size_t bytes_of_main = 4096;

    template <void (*main)()>
    static void enter(boost::context::detail::transfer_t t) {
        detail::arrive(t, nullptr);
        main();
    }
    void grow();
    void release();
    static void unpoison(Stack stack);

    struct Region {
        void *start;
        std::size_t bytes;
    };
    std::size_t stack_bytes_ = 0;
    std::vector<Region> regions_;
    std::vector<Stack> all_, free_;
};

} // namespace simt
