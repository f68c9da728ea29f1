// SPDX-License-Identifier: MIT
// The list of camera models that the readers of COLMAP models and transforms.json share.
#include "lens.h"
#include <gtest/gtest.h>
#include <cmath>
#include <iterator>
#include <sstream>
#include <string>

namespace {

TEST(CameraModel, HasColmapsNumbers) {
    std::istringstream names(
        "SIMPLE_PINHOLE PINHOLE SIMPLE_RADIAL RADIAL OPENCV OPENCV_FISHEYE FULL_OPENCV FOV "
        "SIMPLE_RADIAL_FISHEYE RADIAL_FISHEYE THIN_PRISM_FISHEYE RAD_TAN_THIN_PRISM_FISHEYE "
        "SIMPLE_DIVISION DIVISION SIMPLE_FISHEYE FISHEYE EUCM EQUIRECTANGULAR");
    const int parameters[] = {3, 4, 4, 5, 8, 8, 0, 0, 4, 5, 0, 0, 0, 0, 3, 4, 0, 0};
    std::string name;
    for (int model = 0; names >> name; model++) {
        const lens_model *const found = lens_model_find(name.c_str());
        ASSERT_EQ(found, lens_models + model) << name;
        EXPECT_EQ(found->count, parameters[model]) << name;
        std::istringstream words(found->parameters ? found->parameters : "");
        EXPECT_EQ(std::distance(std::istream_iterator<std::string>(words), {}), found->count) << name;
        EXPECT_EQ(found->fisheye, found->count > 0 && name.find("FISHEYE") != name.npos) << name;
    }
    EXPECT_EQ(lens_model_find("MAGIC"), nullptr);
    EXPECT_EQ(lens_model_find(""), nullptr);
    char text[160];
    lens_model_list(text);
    EXPECT_STREQ(text, "SIMPLE_PINHOLE, PINHOLE, SIMPLE_RADIAL, RADIAL, OPENCV, OPENCV_FISHEYE, "
                       "SIMPLE_RADIAL_FISHEYE, RADIAL_FISHEYE, SIMPLE_FISHEYE, FISHEYE");
}

// As programs round the sides of smaller pictures, in any way.
TEST(CameraModel, FitsALensToAPictureMadeSmaller) {
    const struct {
        int width, height;
        bool fits;
    } rows[] = {{200, 100, true}, {50, 25, true},   {33, 17, true},   {33, 16, true},
                {34, 17, true},   {101, 51, true},  {33, 15, false},  {99, 51, false},
                {50, 50, false},  {100, 51, false}, {101, 50, false}, {25, 50, false}};
    for (const auto &row : rows) {
        lens optics = {};
        optics.width = 100, optics.height = 50, optics.fx = 80, optics.fy = 90, optics.cx = 40,
        optics.cy = 30;
        optics.k1 = 0.5;
        const lens before = optics;
        ASSERT_EQ(lens_resize(&optics, row.width, row.height), row.fits) << row.width << " x " << row.height;
        EXPECT_EQ(optics.width, row.fits ? row.width : 100);
        EXPECT_DOUBLE_EQ(optics.fx, before.fx * optics.width / 100);
        EXPECT_DOUBLE_EQ(optics.cx, before.cx * optics.width / 100);
        EXPECT_DOUBLE_EQ(optics.fy, before.fy * optics.height / 50);
        EXPECT_DOUBLE_EQ(optics.cy, before.cy * optics.height / 50);
        EXPECT_EQ(optics.k1, 0.5);
    }
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
