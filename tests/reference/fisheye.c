// SPDX-License-Identifier: MIT
//
// The fisheye's projection with its first and second derivatives, by the chain rule over rho = |(x, y)|, z.
#include "fisheye.h"

#include <math.h>

double reference_fisheye_limit(const double k[4]) {
    const double most = 160 * acos(-1) / 180;
    const int steps = 4000;
    double reached = 0;
    for (int i = 1; i <= steps; i++) {
        const double angle = most * i / steps, w = angle * angle;
        if (!(1 + 3 * k[0] * w + 5 * k[1] * w * w + 7 * k[2] * w * w * w + 9 * k[3] * w * w * w * w > 0))
            break;
        reached = angle;
    }
    return reached;
}

// s = D / rho scales (x, y) to the image.
typedef struct radial {
    double s, s_rho, s_z, s_rho_rho, s_rho_z, s_zz;
} radial;

static radial radial_at(const double k[4], double rho, double z) {
    const double square = rho * rho + z * z, t = atan2(rho, z), w = t * t;
    const double D = t * (1 + k[0] * w + k[1] * pow(w, 2) + k[2] * pow(w, 3) + k[3] * pow(w, 4));
    const double D1 = 1 + 3 * k[0] * w + 5 * k[1] * pow(w, 2) + 7 * k[2] * pow(w, 3) + 9 * k[3] * pow(w, 4);
    const double D2 = t * (6 * k[0] + 20 * k[1] * w + 42 * k[2] * pow(w, 2) + 72 * k[3] * pow(w, 3));
    const double t_rho = z / square, t_z = -rho / square;
    const double t_rho_rho = -2 * rho * z / (square * square), t_zz = -t_rho_rho;
    const double t_rho_z = (rho * rho - z * z) / (square * square);
    const double D_rho = D1 * t_rho, D_z = D1 * t_z;
    const double D_rho_rho = D2 * t_rho * t_rho + D1 * t_rho_rho;
    const double D_rho_z = D2 * t_rho * t_z + D1 * t_rho_z, D_zz = D2 * t_z * t_z + D1 * t_zz;
    return (radial){.s = D / rho,
                    .s_rho = D_rho / rho - D / (rho * rho),
                    .s_z = D_z / rho,
                    .s_rho_rho = D_rho_rho / rho - 2 * D_rho / (rho * rho) + 2 * D / (rho * rho * rho),
                    .s_rho_z = D_rho_z / rho - D_z / (rho * rho),
                    .s_zz = D_zz / rho};
}

void reference_fisheye(const reference_camera *camera, const double point[3], reference_fisheye_point *out) {
    const double focal[2] = {camera->fx, camera->fy}, center[2] = {camera->cx, camera->cy};
    const double rho = hypot(point[0], point[1]);
    const radial r = radial_at(camera->distortion, rho, point[2]);
    double first[3], second[3][3]; // of s by the point
    first[2] = r.s_z;
    second[2][2] = r.s_zz;
    for (int i = 0; i < 2; i++) {
        first[i] = r.s_rho * point[i] / rho;
        second[i][2] = second[2][i] = r.s_rho_z * point[i] / rho;
        for (int j = 0; j < 2; j++)
            second[i][j] = r.s_rho_rho * point[i] * point[j] / (rho * rho) +
                           r.s_rho * ((i == j) / rho - point[i] * point[j] / (rho * rho * rho));
    }
    for (int k = 0; k < 2; k++) {
        out->mean[k] = focal[k] * r.s * point[k] + center[k];
        for (int i = 0; i < 3; i++) {
            out->jacobian[k][i] = focal[k] * ((k == i) * r.s + point[k] * first[i]);
            for (int j = 0; j < 3; j++)
                out->second[k][i][j] =
                    focal[k] * ((k == i) * first[j] + (k == j) * first[i] + point[k] * second[i][j]);
        }
    }
    out->distance = sqrt(point[0] * point[0] + point[1] * point[1] + point[2] * point[2]);
    out->angle = atan2(rho, point[2]);
}
