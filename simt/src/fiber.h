// SPDX-License-Identifier: MIT
// Flows of control on stacks of their own, and a pool of such stacks.
//
// Boost.Context's fiber class unwinds a fiber that is given up by throwing through it. Lanes of a refused
// launch are to vanish like threads of a dead kernel, wherever they wait, so this sits on the layer below it:
// a suspended context is one pointer, and forgetting it is all there is to giving it up.
#ifndef SIMT_FIBER_H
#define SIMT_FIBER_H

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

// Where a suspended flow of control goes on, and the stack it stands on.
struct Context {
    boost::context::detail::fcontext_t point = nullptr; // null: not begun
    Stack stack;
};

static_assert(std::is_standard_layout<Context>::value, "a Context is where its point is");

namespace detail {
// The first thing done after a switch. `t.data` is the Context that was left, null if it will not be come
// back to.
inline void arrive(boost::context::detail::transfer_t t, [[maybe_unused]] void *fake_stack) {
    Context *left = static_cast<Context *>(t.data);
#ifdef __SANITIZE_ADDRESS__
    const void *bottom;
    std::size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    // The OS thread's own stack becomes known here.
    if (left) left->stack = {static_cast<char *>(const_cast<void *>(bottom)), bytes};
#endif
    if (left) left->point = t.fctx;
}
} // namespace detail

// Goes on at `to`; returns when someone goes on at `from`. The result must be passed to result_after().
inline Switched switch_to(Context &from, const Context &to) {
#ifdef __SANITIZE_ADDRESS__
    // It must be told of the arrival at once, so nothing is left to the caller.
    void *fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack.bottom, to.stack.bytes);
    detail::arrive(boost::context::detail::jump_fcontext(to.point, &from), fake_stack);
    return {nullptr, nullptr};
#else
    // Through its own type: a conversion of what it returns would keep the compiler from a tail call.
    using Jump = Switched (*)(void *, void *);
    const auto jump = reinterpret_cast<void (*)()>(boost::context::detail::jump_fcontext);
    return reinterpret_cast<Jump>(jump)(to.point, &from);
#endif
}

// Goes on at `to` and never comes back: the caller's stack is free, what stands on it is forgotten without
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

    // Makes sure of `count` free stacks of that size; none may be in use. Throws std::bad_alloc.
    void provide(std::size_t count, std::size_t bytes);
    // A context that begins at main() on a free stack; main() must not return.
    template <void (*main)()>
    Context begin() {
        Context context;
        context.stack = free_.back();
        free_.pop_back();
        unpoison(context.stack);
        char *top = context.stack.bottom + context.stack.bytes;
        context.point = boost::context::detail::make_fcontext(top, context.stack.bytes, enter<main>);
        return context;
    }
    void give_back(Stack stack) { free_.push_back(stack); }
    // Takes all stacks back, whoever stood on them.
    void reclaim() { free_ = all_; }

  private:
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

#endif
