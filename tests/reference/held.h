// SPDX-License-Identifier: MIT
// What the reference allocates, which frees itself.
#pragma once

#include "reference.h"
#include <utility>

template <typename T, void (*destroy)(T *)>
struct held : T {
    held(const T &made = {}) : T(made) {}
    ~held() { destroy(this); }
    held(held &&other) : T(std::exchange(static_cast<T &>(other), T{})) {}
    held &operator=(held &&other) {
        std::swap<T>(*this, other);
        return *this;
    }
};
using held_gaussians = held<reference_gaussians, reference_gaussians_destroy>;
using held_scene = held<reference_scene, reference_scene_destroy>;
using held_image = held<reference_image, reference_image_destroy>;
using held_lists = held<gs_tile_ranges, reference_lists_destroy>;
using held_decisions = held<reference_decisions, reference_decisions_destroy>;
