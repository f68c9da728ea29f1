// SPDX-License-Identifier: MIT
// A step of training: forward, loss and backward, queued without a wait.
#pragma once

#include "kernel_frame.h"
#include <algorithm>

// A view of a scene beside the stages that have settled. Everything is queued on one stream.
class queued_frame : public view_step {
  public:
    // room: entries beyond those that the lists need; may be negative
    queued_frame(const kernel_frame &stages, int64_t room, distwar_strategy strategy = DISTWAR_FIXED,
                 gs_context *context = NULL)
        : view_step(stages, context), isects(stages.view.ranges.isects), policy{strategy, 0},
          target(std::vector<uint8_t>(stages.scene.target, stages.scene.target + 3 * pixels)),
          d_color(size_t(3 * pixels)), result(3) {
        view.memory.isect_capacity = std::max(isects + room, int64_t(0));
        gradient.color = d_color.data();
    }

    void forward() {
        queue();
        loss();
    }
    void loss() {
        const gs_loss_image image =
            loss_image({view.camera.width, view.camera.height, view.image.color, target.data(), NULL},
                       result.data(), d_color.data());
        EXPECT_GS_OK(gs_loss(&image, 1, view.context));
    }
    void backward() const { view_step::backward(policy); }

    std::vector<float> picture() const {
        std::vector<float> out = color();
        const std::vector<float> behind = transmittance();
        out.insert(out.end(), behind.begin(), behind.end());
        return out;
    }
    // All of them, with mean2d.
    std::vector<double> gradient_values() const {
        std::vector<double> out = gradients.values();
        const std::vector<float> seen = mean2d.read();
        out.insert(out.end(), seen.begin(), seen.end());
        return out;
    }

    int64_t isects; // that the lists need
    distwar_policy policy;
    device_vector<uint8_t> target;
    device_vector<float> d_color;
    device_vector<double> result;
};
