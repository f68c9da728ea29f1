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
// What boost returns from a switch, and hands to a fiber that begins. `data` is the Context that was left,
// null if it will not be come back to.
inline Switched switched(boost::context::detail::transfer_t t) {
    return {t.fctx, t.data};
}

#ifdef __SANITIZE_ADDRESS__
// AddressSanitizer is told of the arrival at once, so nothing is left to the caller.
inline Switched arrive(boost::context::detail::transfer_t t, void *fake_stack) {
    const void *bottom;
    std::size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (Context *left = static_cast<Context *>(t.data)) {
        left->point = t.fctx;
        // The OS thread's own stack becomes known here.
        left->stack = {static_cast<char *>(const_cast<void *>(bottom)), bytes};
    }
    return {nullptr, nullptr};
}
#endif
} // namespace detail

// Goes on at `to`; returns when someone goes on at `from`. The result must be passed to result_after().
inline Switched switch_to(Context &from, const Context &to) {
#ifdef __SANITIZE_ADDRESS__
    void *fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, to.stack.bottom, to.stack.bytes);
    return detail::arrive(boost::context::detail::jump_fcontext(to.point, &from), fake_stack);
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
        context.point = boost::context::detail::make_fcontext(context.stack.bottom + context.stack.bytes,
                                                              context.stack.bytes,
                                                              [](boost::context::detail::transfer_t t) {
#ifdef __SANITIZE_ADDRESS__
                                                                  detail::arrive(t, nullptr);
#else
          result_after(detail::switched(t));
#endif
                                                                  main();
                                                              });
        return context;
    }
    void give_back(Stack stack) {
        free_.push_back(stack);
    }
    // Takes all stacks back, whoever stood on them.
    void reclaim() {
        free_ = all_;
    }

  private:
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
