// SPDX-License-Identifier: MIT
// The list of camera models that the readers of COLMAP models and transforms.json share.
#include "camera_model.h"
#include <gtest/gtest.h>
#include <cmath>
#include <string>

namespace {

TEST(CameraModel, HasColmapsNumbers) {
    const char *const names[] = {"SIMPLE_PINHOLE",
                                 "PINHOLE",
                                 "SIMPLE_RADIAL",
                                 "RADIAL",
                                 "OPENCV",
                                 "OPENCV_FISHEYE",
                                 "FULL_OPENCV",
                                 "FOV",
                                 "SIMPLE_RADIAL_FISHEYE",
                                 "RADIAL_FISHEYE",
                                 "THIN_PRISM_FISHEYE"};
    const int parameters[] = {3, 4, 4, 5, 8, 8, 0, 0, 4, 5, 0};
    for (int model = 0; model < 11; model++) {
        EXPECT_EQ(camera_model_number(names[model]), model);
        EXPECT_STREQ(camera_model_name(model), names[model]);
        EXPECT_EQ(camera_model_parameter_count(model), parameters[model]) << names[model];
        EXPECT_EQ(camera_model_is_fisheye(model), model == 5 || model == 8 || model == 9) << names[model];
    }
    for (const int model : {-1, 11, 1000}) {
        EXPECT_EQ(camera_model_parameter_count(model), 0);
        EXPECT_FALSE(camera_model_is_fisheye(model));
        EXPECT_STREQ(camera_model_name(model), "unknown");
    }
    EXPECT_EQ(camera_model_number("MAGIC"), -1);
    EXPECT_EQ(camera_model_number(""), -1);
    char text[128];
    camera_model_list(text);
    EXPECT_STREQ(text, "SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, OPENCV_FISHEYE, "
                       "SIMPLE_RADIAL_FISHEYE, RADIAL_FISHEYE");
}

TEST(CameraModel, SetsTheParametersOfALens) {
    const double values[] = {10, 20, 30, 40, 50, 60, 70, 80};
    const auto lens_of = [&](const char *name) {
        lens optics = {};
        camera_model_apply(camera_model_number(name), values, &optics);
        const double all[] = {optics.fx, optics.fy, optics.cx, optics.cy, optics.k1,
                              optics.k2, optics.p1, optics.p2, optics.k3, optics.k4};
        std::string text = optics.fisheye ? "fisheye " : "";
        for (const double value : all) text += std::to_string(int(value)) + " ";
        return text;
    };
    EXPECT_EQ(lens_of("SIMPLE_PINHOLE"), "10 10 20 30 0 0 0 0 0 0 ");
    EXPECT_EQ(lens_of("PINHOLE"), "10 20 30 40 0 0 0 0 0 0 ");
    EXPECT_EQ(lens_of("SIMPLE_RADIAL"), "10 10 20 30 40 0 0 0 0 0 ");
    EXPECT_EQ(lens_of("RADIAL"), "10 10 20 30 40 50 0 0 0 0 ");
    EXPECT_EQ(lens_of("OPENCV"), "10 20 30 40 50 60 70 80 0 0 ");
    EXPECT_EQ(lens_of("OPENCV_FISHEYE"), "fisheye 10 20 30 40 50 60 0 0 70 80 ");
    EXPECT_EQ(lens_of("SIMPLE_RADIAL_FISHEYE"), "fisheye 10 10 20 30 40 0 0 0 0 0 ");
    EXPECT_EQ(lens_of("RADIAL_FISHEYE"), "fisheye 10 10 20 30 40 50 0 0 0 0 ");
}

TEST(CameraModel, EveryDistortionOfALensCounts) {
    for (const lens_parameter &parameter : lens_parameters) {
        lens optics = {};
        optics.fx = optics.fy = 100;
        EXPECT_TRUE(lens_is_ideal(&optics));
        *lens_value(&optics, &parameter) = 0.5;
        EXPECT_EQ(lens_is_ideal(&optics), parameter.distortion == 0) << parameter.name;
        *lens_value(&optics, &parameter) = INFINITY;
        fault why = {};
        EXPECT_FALSE(lens_check(&optics, &why)) << parameter.name;
    }
}

} // namespace
