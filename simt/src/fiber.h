// SPDX-License-Identifier: MIT
// Flows of control on stacks of their own, and a pool of such stacks.
//
// Boost.Context's fiber class unwinds a fiber that is given up by throwing through it. Lanes of a refused
// launch are to vanish like threads of a dead kernel, wherever they wait, so this sits on the layer below it:
// a suspended context is one pointer, and forgetting it is all there is to giving it up.
#ifndef SIMT_FIBER_H
#define SIMT_FIBER_H

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
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

namespace detail {
// The first thing done after a switch: `t.data` is the Context that was left, null if it will not be come
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

// Goes on at `to`; returns when someone goes on at `from`.
inline void switch_to(Context &from, const Context &to) {
    void *fake_stack = nullptr;
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_start_switch_fiber(&fake_stack, to.stack.bottom, to.stack.bytes);
#endif
    detail::arrive(boost::context::detail::jump_fcontext(to.point, &from), fake_stack);
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

    // Gives all stacks back to the system and sets how large the next ones are. None may be in use.
    void resize(std::size_t bytes);
    // A context that begins at main() on a free stack; main() must not return. Throws std::bad_alloc.
    template <void (*main)()>
    Context begin() {
        if (free_.empty()) grow();
        Context context;
        context.stack = free_.back();
        free_.pop_back();
        unpoison(context.stack);
        context.point = boost::context::detail::make_fcontext(context.stack.bottom + context.stack.bytes,
                                                              context.stack.bytes,
                                                              [](boost::context::detail::transfer_t t) {
                                                                  detail::arrive(t, nullptr);
                                                                  main();
                                                              });
        return context;
    }
    void give_back(Stack stack) { free_.push_back(stack); }
    // Takes all stacks back, whoever stood on them.
    void reclaim() { free_ = all_; }

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
