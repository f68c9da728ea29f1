// SPDX-License-Identifier: MIT
// Makes the bytes of small COLMAP models.
#ifndef TESTS_COMMON_COLMAP_MODEL_H
#define TESTS_COMMON_COLMAP_MODEL_H

#include "files.h"
#include <array>
#include <stdint.h>
#include <vector>

struct ColmapCamera {
    int32_t id = 1, model = 1;
    uint64_t width = 8, height = 6;
    std::array<double, 4> parameters = {10, 11, 4, 3};
};

struct ColmapImage {
    std::string name;
    int32_t camera = 1;
    std::array<double, 4> quaternion = {1, 0, 0, 0};
    std::array<double, 3> translation = {0, 0, 0};
    uint64_t observations = 0;
};

struct ColmapPoint {
    std::array<double, 3> position;
    std::array<uint8_t, 3> color = {0, 0, 0};
    uint64_t track = 0;
};

inline std::string bytes_of(const std::vector<ColmapCamera> &cameras) {
    Bytes out;
    out.put(uint64_t(cameras.size()));
    for (const ColmapCamera &c : cameras)
        out.put(c.id).put(c.model).put(c.width).put(c.height).put(c.parameters);
    return out.text;
}

inline std::string bytes_of(const std::vector<ColmapImage> &images) {
    Bytes out;
    out.put(uint64_t(images.size()));
    int32_t id = 100;
    for (const ColmapImage &i : images) {
        out.put(id++)
            .put(i.quaternion)
            .put(i.translation)
            .put(i.camera)
            .put(i.name)
            .put('\0')
            .put(i.observations);
        for (uint64_t k = 0; k < i.observations; k++) out.put(1.5).put(2.5).put(int64_t(-1));
    }
    return out.text;
}

inline std::string bytes_of(const std::vector<ColmapPoint> &points) {
    Bytes out;
    out.put(uint64_t(points.size()));
    uint64_t id = 7;
    for (const ColmapPoint &p : points) {
        out.put(id++).put(p.position).put(p.color).put(-1.0).put(p.track);
        for (uint64_t k = 0; k < p.track; k++) out.put(int32_t(1)).put(int32_t(2));
    }
    return out.text;
}

#endif
