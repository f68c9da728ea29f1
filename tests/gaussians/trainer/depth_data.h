// SPDX-License-Identifier: MIT
// Depth maps for the data of write_colmap.
#ifndef DEPTH_DATA_H
#define DEPTH_DATA_H

#include "dataset.h"
#include "images/image.h"
#include "program_run.h"
#include "camera.h"

// For each picture of `data` a map in `to`: at each pixel the inverse depth of the point that is nearest to it in
// the picture, scaled and shifted into 0..1.
inline void write_depth_maps(const fs::path &data, const fs::path &to) {
    dataset model;
    fault why;
    const dataset_options cameras = {1, {0, 0, 0}, dataset_no_picture, nullptr, false, false, false,
                                     0, false};
    ASSERT_TRUE(dataset_load(data.c_str(), &cameras, &model, &why)) << why.text;
    fs::create_directories(to);
    for (size_t v = 0; v < model.view_count; v++) {
        const gs_camera &camera = model.views[v].camera;
        plane map;
        ASSERT_TRUE(plane_open(&map, camera.width, camera.height, &why)) << why.text;
        std::vector<double> least(plane_size(&map), INFINITY);
        for (size_t i = 0; i < model.point_count; i++) {
            const double point[3] = {model.points[i][0], model.points[i][1], model.points[i][2]};
            double pixel[2];
            if (!camera_pixel(&camera, point, pixel)) continue;
            for (int p = 0; p < camera.width * camera.height; p++) {
                const double distance =
                    std::hypot(p % camera.width + 0.5 - pixel[0], p / camera.width + 0.5 - pixel[1]);
                if (!(distance < least[size_t(p)])) continue;
                least[size_t(p)] = distance;
                map.values[p] = float(1.3 / camera_depth(&camera, point) + 0.1 + 0.05 * double(v));
            }
        }
        EXPECT_TRUE(plane_write_png((to / model.views[v].name).c_str(), &map, &why)) << why.text;
        plane_close(&map);
    }
    dataset_close(&model);
}

#endif
