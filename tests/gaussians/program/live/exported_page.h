// SPDX-License-Identifier: MIT
// A page of `dsplat export`, decoded as live/page.html describes it.
#ifndef EXPORTED_PAGE_H
#define EXPORTED_PAGE_H

#include "json_value.h"
#include "program_run.h"
#include "camera.h"
#include "live/page.h"
#include <zlib.h>

// Values as trained scenes have them, one behind another in front of a camera at the origin.
inline host_scene random_scene(int64_t count, int degree, unsigned seed) {
    host_scene scene(count, degree);
    std::mt19937 random(seed);
    const auto uniform = [&](double least, double most) {
        return float(least + (most - least) * (double(random()) / 4294967296.0));
    };
    const int64_t coefficients = (degree + 1) * (degree + 1);
    for (int64_t i = 0; i < count; i++) {
        for (int k = 0; k < 3; k++) {
            scene.mean[3 * i + k] = uniform(-2, 2) + (k == 2 ? 5 : 0);
            scene.log_scale[3 * i + k] = uniform(-6, -2);
        }
        for (int k = 0; k < 4; k++) scene.quaternion[4 * i + k] = uniform(-2, 2);
        scene.opacity_logit[i] = uniform(-4, 4);
        for (int64_t k = 0; k < 3 * coefficients; k++)
            scene.sh[3 * coefficients * i + k] = k < 3 ? uniform(-1.7, 1.7) : uniform(-0.2, 0.2);
    }
    return scene;
}

inline std::string from_base64(const std::string &text) {
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes;
    uint32_t group = 0;
    int bits = 0;
    for (const char c : text.substr(0, text.find('='))) {
        EXPECT_NE(digits.find(c), std::string::npos) << "'" << c << "' in base64";
        group = group << 6 | uint32_t(digits.find(c) & 63);
        if ((bits += 6) >= 8) bytes.push_back(char(group >> (bits -= 8) & 255));
    }
    return bytes;
}

inline std::string inflated(const std::string &stream, size_t room) {
    std::string bytes(room + 1, '\0');
    uLongf size = bytes.size();
    EXPECT_EQ(uncompress(reinterpret_cast<Bytef *>(bytes.data()), &size,
                         reinterpret_cast<const Bytef *>(stream.data()), stream.size()),
              Z_OK);
    bytes.resize(size);
    return bytes;
}

// A decoded Gaussian: the values as the page has them, and the most that each may differ from the scene's.
struct shown_gaussian {
    double value[10], step[10];
    double rotation[4];
    std::vector<double> harmonics;
};

struct exported_page {
    std::string text;
    json facts;
    std::vector<shown_gaussian> gaussians;

    explicit exported_page(const fs::path &path) : text(contents(path)), facts(block("facts")) {
        const size_t count = size_t(facts["count"].number()), chunk = size_t(facts["chunk"].number());
        const size_t head = (count + chunk - 1) / chunk * 80, degree = size_t(facts["degree"].number());
        const size_t more = 3 * ((degree + 1) * (degree + 1) - 1);
        const std::string packed = inflated(from_base64(block("gaussians")), head + 17 * count);
        const std::string rest = inflated(from_base64(block("harmonics")), more * count);
        EXPECT_EQ(packed.size(), head + 17 * count);
        EXPECT_EQ(rest.size(), more * count);
        if (packed.size() != head + 17 * count || rest.size() != more * count) return;
        const auto plane = [&](size_t k, size_t i) {
            return uint32_t(uint8_t(packed[head + k * count + i]));
        };
        for (size_t i = 0; i < count; i++) {
            shown_gaussian g;
            for (size_t v = 0; v < 10; v++) {
                float bounds[2];
                memcpy(bounds, packed.data() + i / chunk * 80 + v * 8, sizeof bounds);
                g.step[v] = (double(bounds[1]) - double(bounds[0])) / (v < 3 ? 65535 : 255);
                g.value[v] =
                    double(bounds[0]) + g.step[v] * ((v < 3 ? plane(v, i) * 256 : 0) + plane(v + 3, i));
            }
            uint32_t bits = plane(13, i) | plane(14, i) << 8 | plane(15, i) << 16 | plane(16, i) << 24;
            double square = 0;
            for (int k = 3; k >= 0; k--) {
                if (uint32_t(k) == bits >> 30) continue;
                g.rotation[k] = ((bits & 1023) / 1023.0 - 0.5) * std::sqrt(2.0);
                square += g.rotation[k] * g.rotation[k];
                bits = (bits & 0xc0000000) | (bits & 0x3fffffff) >> 10;
            }
            g.rotation[bits >> 30] = std::sqrt(std::max(0.0, 1 - square));
            for (size_t k = 0; k < more; k++)
                g.harmonics.push_back((uint8_t(rest[k * count + i]) - 128.0) * facts["step"].number());
            gaussians.push_back(g);
        }
    }

  private:
    std::string block(const std::string &id) const {
        const size_t at = text.find("id=\"" + id + "\">"), begin = text.find('>', at) + 1;
        EXPECT_NE(at, std::string::npos) << id;
        return text.substr(begin, text.find("</script>", begin) - begin);
    }
};

// A page of a scene with one view of it, both of one name.
struct one_view_page {
    page_view view = {};
    page_content content = {};
    page_written written = {};

    one_view_page(const gs_gaussians &scene, const char *name) {
        view.name = content.title = name;
        view.camera = camera_with_view_angle(32, 24, 0.8);
        content.scene = &scene;
        content.total = scene.count;
        content.view_count = 1;
        content.views = &view;
    }
    one_view_page(const one_view_page &) = delete;
    void write(const fs::path &to) {
        fault why;
        ASSERT_TRUE(page_write(to.c_str(), &content, &written, &why)) << why.text;
    }
};

#endif
