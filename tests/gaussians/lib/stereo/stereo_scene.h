// SPDX-License-Identifier: MIT
// A textured ball before a textured, tilted wall, ray traced in double precision: pictures whose depth is known.
#pragma once

#include "camera.h"
#include "views.h"
#include <cmath>
#include <gtest/gtest.h>
#include <vector>

class stereo_scene {
  public:
    // Cameras on an arc before the ball, `width` wide and 3/4 as high, all looking at its centre.
    stereo_scene(int count, int width, double arc = 0.9) {
        for (int v = 0; v < count; v++) {
            const double angle = arc * (count > 1 ? double(v) / (count - 1) - 0.5 : 0);
            const double eye[3] = {3 * std::sin(angle), 0.3 * std::sin(3.0 * v), 3 - 3 * std::cos(angle)};
            gs_camera camera = {};
            camera.width = width, camera.height = width * 3 / 4;
            camera.fx = camera.fy = float(1.2 * width);
            camera.cx = 0.5f * float(width) + 0.7f, camera.cy = 0.5f * float(camera.height) - 0.4f;
            camera.near_plane = 0.1f;
            const double up[3] = {0, 1, 0};
            camera_look_at(&camera, eye, ball, up);
            add(camera);
        }
    }
    ~stereo_scene() {
        for (image &picture : pictures) image_close(&picture);
    }
    stereo_scene(const stereo_scene &) = delete;

    // 1 / z of what a pixel of the view shows.
    double inverse_depth(size_t v, int x, int y) const {
        const gs_camera &c = views[v].camera;
        double from[3], along[3];
        ray(c, x + 0.5, y + 0.5, from, along);
        return 1 / hit(from, along);
    }
    // From the nearest surface.
    static double distance(const float point[3]) {
        double from_ball = 0, along = 0;
        for (int k = 0; k < 3; k++) {
            from_ball += (point[k] - ball[k]) * (point[k] - ball[k]);
            along += wall[k] * point[k];
        }
        return std::min(std::abs(std::sqrt(from_ball) - radius), std::abs(along - wall_at));
    }

    std::vector<target_view> views;

  private:
    static constexpr double ball[3] = {0, 0, 3}, radius = 0.7, wall[3] = {0.28, 0, 0.96}, wall_at = 4;

    static void ray(const gs_camera &c, double x, double y, double from[3], double along[3]) {
        const double inside[3] = {(x - c.cx) / c.fx, (y - c.cy) / c.fy, 1};
        for (int i = 0; i < 3; i++) {
            from[i] = along[i] = 0;
            for (int row = 0; row < 3; row++) {
                along[i] += c.rotation[3 * row + i] * inside[row];
                from[i] -= double(c.rotation[3 * row + i]) * c.translation[row];
            }
        }
    }
    static double hit(const double from[3], const double along[3]) {
        double a = 0, b = 0, c = -radius * radius, top = wall_at, bottom = 0;
        for (int i = 0; i < 3; i++) {
            const double off = from[i] - ball[i];
            a += along[i] * along[i], b += along[i] * off, c += off * off;
            top -= wall[i] * from[i], bottom += wall[i] * along[i];
        }
        const double square = b * b - a * c;
        return square > 0 ? (-b - std::sqrt(square)) / a : top / bottom;
    }
    static double texture(const double point[3], int channel) {
        double value = 120 + 10 * channel;
        for (int i = 0; i < 9; i++) {
            const double f = 5 + 2.1 * i, turn = 2.4 * i;
            value += 14 * std::sin(f * (std::cos(turn) * point[0] + std::sin(turn) * point[1] +
                                        0.3 * std::sin(1.7 * turn) * point[2]) +
                                   1.3 * i);
        }
        return std::min(std::max(value, 0.0), 255.0);
    }
    void add(const gs_camera &camera) {
        fault why;
        pictures.push_back({});
        ASSERT_TRUE(image_open(&pictures.back(), camera.width, camera.height, 3, &why)) << why.text;
        for (int i = 0; i < camera.width * camera.height; i++)
            for (int channel = 0; channel < 3; channel++) {
                double sum = 0; // of four rays
                for (int part = 0; part < 4; part++) {
                    double from[3], along[3], point[3];
                    ray(camera, i % camera.width + 0.25 + 0.5 * (part % 2),
                        i / camera.width + 0.25 + 0.5 * (part / 2), from, along);
                    const double depth = hit(from, along);
                    for (int k = 0; k < 3; k++) point[k] = from[k] + depth * along[k];
                    sum += texture(point, channel) / 4;
                }
                pictures.back().pixels[3 * i + channel] = uint8_t(sum + 0.5);
            }
        target_view view = {};
        view.camera = camera;
        views.push_back(view);
        for (size_t v = 0; v < views.size(); v++) views[v].picture = &pictures[v];
    }
    std::vector<image> pictures;
};
