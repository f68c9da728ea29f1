// SPDX-License-Identifier: MIT
// Makes the bytes of small COLMAP models.
#ifndef TESTS_COMMON_COLMAP_MODEL_H
#define TESTS_COMMON_COLMAP_MODEL_H

#include "files.h"
#include <array>
#include <sstream>
#include <stdint.h>
#include <vector>

struct ColmapCamera {
    int32_t id = 1, model = 1;
    uint64_t width = 8, height = 6;
    std::vector<double> parameters = {10, 11, 4, 3};
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
    std::vector<int32_t> images = {}; // of the track's first entries; the others are of image 1
    int32_t image(uint64_t entry) const { return entry < images.size() ? images[entry] : 1; }
};

inline std::string bytes_of(const std::vector<ColmapCamera> &cameras) {
    Bytes out;
    out.put(uint64_t(cameras.size()));
    for (const ColmapCamera &c : cameras) {
        out.put(c.id).put(c.model).put(c.width).put(c.height);
        for (const double p : c.parameters) out.put(p);
    }
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
        for (uint64_t k = 0; k < p.track; k++) out.put(p.image(k)).put(int32_t(2));
    }
    return out.text;
}

// The same as text, with the comments that COLMAP writes.

template <typename T>
void put_list(std::ostringstream &out, const T &values) {
    for (const auto &value : values) out << ' ' << +value;
}

inline std::ostringstream text_stream(const std::string &comments) {
    std::ostringstream out;
    out.precision(17);
    out << comments;
    return out;
}

inline std::string text_of(const std::vector<ColmapCamera> &cameras) {
    const char *const names[] = {
        "SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL",         "RADIAL",        "OPENCV", "OPENCV_FISHEYE",
        "FULL_OPENCV",    "FOV",     "SIMPLE_RADIAL_FISHEYE", "RADIAL_FISHEYE"};
    std::ostringstream out = text_stream("# Camera list\n# Number of cameras: ");
    out << cameras.size() << "\n";
    for (const ColmapCamera &c : cameras) {
        out << c.id << ' ' << names[c.model] << ' ' << c.width << ' ' << c.height;
        put_list(out, c.parameters);
        out << "\n";
    }
    return out.str();
}

inline std::string text_of(const std::vector<ColmapImage> &images) {
    std::ostringstream out = text_stream("# Image list\n# Number of images: ");
    out << images.size() << ", mean observations per image: 1.5\n";
    int32_t id = 100;
    for (const ColmapImage &i : images) {
        out << id++;
        put_list(out, i.quaternion);
        put_list(out, i.translation);
        out << ' ' << i.camera << ' ' << i.name << "\n";
        for (uint64_t k = 0; k < i.observations; k++) out << (k ? " " : "") << "1.5 2.5 -1";
        out << "\n";
    }
    return out.str();
}

inline std::string text_of(const std::vector<ColmapPoint> &points) {
    std::ostringstream out = text_stream("# 3D point list\n# Number of points: ");
    out << points.size() << ", mean track length: 2\n";
    uint64_t id = 7;
    for (const ColmapPoint &p : points) {
        out << id++;
        put_list(out, p.position);
        put_list(out, p.color);
        out << " -1";
        for (uint64_t k = 0; k < p.track; k++) out << " " << p.image(k) << " 2";
        out << "\n";
    }
    return out.str();
}

#endif
