// SPDX-License-Identifier: MIT
// The gradient by the camera beyond its comparison with the reference in pipeline_test.cu: its sums, and that it
// changes nothing else.
#include "camera_gradient.cuh"
#include "kernel_frame.h"

#include <cstring>

using namespace gs;

namespace {

const gs_camera some_camera = {32,         24,   30,         31, 15, 13, {0, -1, 0, 1, 0, 0, 0, 0, 1},
                               {2, -1, 3}, 0.2f, GS_PINHOLE, {}, 0};

TEST(CameraGradient, SumsEveryRowOnce) {
    for (const int64_t rows : {0, 1, 255, 256, 257, 4000, 16384, 16385, 40000}) {
        SCOPED_TRACE(testing::Message() << rows << " rows");
        const int64_t count = 32 * rows;
        const device_vector<gs_camera_gradient> gradient(1);
        camera_sums sums;
        ASSERT_GS_OK(place_camera_sums("test", nullptr, count, &sums));
        std::vector<float> values(size_t(rows * camera_row_floats), NAN);
        double sum[CAMERA_TERMS] = {};
        for (int64_t i = 0; i < rows; i++)
            for (int k = 0; k < CAMERA_TERMS; k++)
                sum[k] += values[size_t(i * camera_row_floats + k)] = float((i * 7 + k * 3) % 11 - 4);
        device_upload(sums.rows, values.data(), values.size() * sizeof(float));
        ASSERT_GS_OK(launch_camera_sums(NULL, some_camera, count, sums, gradient.data()));
        const gs_camera_gradient got = gradient.read()[0];
        // All sums are integers below 2^24, and so is what the camera's numbers make of them: exact.
        const double *s = sum + TERM_POINT, *a = sum + TERM_TURN, *n = sum + TERM_CENTER;
        const float *R = some_camera.rotation, *t = some_camera.translation;
        for (int r = 0; r < 3; r++) {
            double d_translation = s[r];
            for (int c = 0; c < 3; c++) {
                d_translation += R[3 * r + c] * n[c];
                double d_rotation = t[r] * n[c];
                for (int j = 0; j < 3; j++) d_rotation += (a[3 * r + j] - s[r] * t[j]) * R[3 * j + c];
                EXPECT_EQ(got.matrix[4 * r + c], d_rotation);
            }
            EXPECT_EQ(got.matrix[4 * r + 3], d_translation);
            EXPECT_EQ(got.se3_grad[3 + r], d_translation);
        }
        EXPECT_EQ(got.se3_grad[0], a[7] - a[5]);
        EXPECT_EQ(got.se3_grad[1], a[2] - a[6]);
        EXPECT_EQ(got.se3_grad[2], a[3] - a[1]);
        for (int k = 0; k < 4; k++) EXPECT_EQ(got.intrinsics[k], sum[TERM_FOCAL + k]);
        EXPECT_EQ(got.reserved[0], 0);
        EXPECT_EQ(got.reserved[1], 0);
    }
}

TEST(CameraGradient, ChangesNothingElseAndHasTheSameBitsAgain) {
    for (const int degree : {0, 2, 3}) {
        // Several blocks of rows; an odd number of warps, of which the last has one Gaussian.
        const kernel_frame frame({33, 8257, degree, degree, 64, 48});
        view_step step(frame);
        step.set_moments(5);
        const size_t guard = 256;
        const device_vector<char> memory(std::vector<char>(sizeof(gs_camera_gradient) + guard, char(0x7f)));
        const auto run = [&](bool with_camera) {
            memory.fill(char(0x7f));
            step.gradient.camera = with_camera ? reinterpret_cast<gs_camera_gradient *>(memory.data()) : NULL;
            EXPECT_GS_OK(gs_project_backward(&frame.view, &step.gradient, NULL));
            return step.gradients.values();
        };
        const std::vector<double> without = run(false);
        expect_same(run(true), without, "with the camera's, by another kernel");
        const std::vector<char> once = memory.read();
        run(true);
        EXPECT_EQ(memory.read(), once);
        EXPECT_EQ(std::vector<char>(once.end() - guard, once.end()), std::vector<char>(guard, char(0x7f)));
        gs_camera_gradient got;
        memcpy(&got, once.data(), sizeof got);
        for (const float value : got.se3_grad) EXPECT_TRUE(std::isfinite(value) && value != 0);
    }
}

} // namespace
