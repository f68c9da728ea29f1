// SPDX-License-Identifier: MIT
// The fisheye's distortion on the host: D(theta) = theta (1 + k1 theta^2 + k2 theta^4 + k3 theta^6 + k4
// theta^8), the distance from the principal point in focal lengths at which a ray at the angle theta off the
// axis appears (Kannala and Brandt 2006). The kernels' version: fisheye_curve in camera.cuh.
#pragma once

// Radians, 160 degrees. Towards 180 the circle of all directions shrinks to a point and J grows without
// limit.
#define FISHEYE_MOST_ANGLE 2.792526803190927

static inline double fisheye_radius(const float k[4], double angle) {
    const double w = angle * angle;
    return angle * (1 + w * (k[0] + w * (k[1] + w * (k[2] + w * k[3]))));
}

// The derivative of the radius.
static inline double fisheye_slope(const float k[4], double angle) {
    const double w = angle * angle;
    return 1 + w * (3 * k[0] + w * (5 * k[1] + w * (7 * k[2] + w * 9 * k[3])));
}

// The largest angle that the camera can see: up to it the radius grows. At most FISHEYE_MOST_ANGLE.
static inline double fisheye_angle_limit(const float k[4]) {
    enum { STEPS = 64 }; // a fold within 2.5 degrees may be missed
    double low = 0, high = 0;
    for (int i = 1; i <= STEPS; i++) {
        high = FISHEYE_MOST_ANGLE * i / STEPS;
        if (!(fisheye_slope(k, high) > 0)) break;
        low = high;
    }
    for (int i = 0; i < 40 && low < high; i++) {
        const double middle = (low + high) / 2;
        if (fisheye_slope(k, middle) > 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

// The angle at a radius, or the limit if no angle below it has that radius.
static inline double fisheye_angle(const float k[4], double radius) {
    double low = 0, high = fisheye_angle_limit(k);
    for (int i = 0; i < 50; i++) {
        const double middle = (low + high) / 2;
        if (fisheye_radius(k, middle) < radius)
            low = middle;
        else
            high = middle;
    }
    return high;
}
