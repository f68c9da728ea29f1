// SPDX-License-Identifier: MIT
#include "cubemap_reference.h"
#include "camera_ray.h"

// ---- which triangle, what it mirrors

static void at_corner(const float *values, const mesh *host, int triangle, int k, double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = values[3 * host->corner[3 * triangle + k] + i];
}

// After Moeller and Trumbore 1997.
bool reference_meet(const mesh *host, const pinhole_camera *camera, int triangle, double x, double y,
                    reference_hit *out) {
    double origin[3], ray[3], a[3], b[3], c[3], p[3], q[3];
    camera_ray(camera, x, y, origin, ray);
    at_corner(host->position, host, triangle, 0, a);
    at_corner(host->position, host, triangle, 1, b);
    at_corner(host->position, host, triangle, 2, c);
    for (int i = 0; i < 3; i++) b[i] -= a[i], c[i] -= a[i], a[i] = origin[i] - a[i];
    cross(ray, c, p);
    cross(a, b, q);
    const double volume = dot(b, p);
    if (volume == 0) return false;
    out->weight[1] = dot(a, p) / volume;
    out->weight[2] = dot(ray, q) / volume;
    out->weight[0] = 1 - out->weight[1] - out->weight[2];
    out->depth = dot(c, q) / volume;
    return true;
}

bool reference_mirror(const mesh *host, const pinhole_camera *camera, int triangle, double x, double y,
                      double direction[3]) {
    reference_hit hit;
    if (!reference_meet(host, camera, triangle, x, y, &hit)) return false;
    double origin[3], normal[3] = {0, 0, 0};
    camera_ray(camera, x, y, origin, direction);
    for (int k = 0; k < 3; k++) {
        double n[3];
        at_corner(host->normal, host, triangle, k, n);
        normalize(n);
        for (int i = 0; i < 3; i++) normal[i] += hit.weight[k] * n[i];
    }
    normalize(normal);
    const double along = dot(direction, normal);
    for (int i = 0; i < 3; i++) direction[i] -= 2 * along * normal[i];
    normalize(direction);
    return true;
}

double reference_detail(const mesh *host, const pinhole_camera *camera, int triangle, double x, double y,
                        int size) {
    double here[3], across[3], down[3], farther = 0;
    reference_mirror(host, camera, triangle, x, y, here);
    reference_mirror(host, camera, triangle, x + 1, y, across);
    reference_mirror(host, camera, triangle, x, y + 1, down);
    for (int i = 0; i < 3; i++) across[i] -= here[i], down[i] -= here[i];
    farther = fmax(dot(across, across), dot(down, down));
    return fmin(fmax(log2(sqrt(farther) * size / 2), 0), log2(size));
}

// ---- the cubemap

int reference_level_begin(int size, int level) {
    int sum = 0;
    for (int l = 0; l < level; l++) sum += 6 * (size >> l) * (size >> l);
    return sum;
}

static int axis_of(const double point[3]) {
    int axis = 0;
    for (int i = 1; i < 3; i++)
        if (fabs(point[i]) > fabs(point[axis])) axis = i;
    return axis;
}

static int clamp_index(double place, int size) { // place: -1..1
    const int i = (int)floor((place + 1) / 2 * size);
    return i < 0 ? 0 : i >= size ? size - 1 : i;
}

int reference_texel_at(const double point[3], int size) {
    const int axis = axis_of(point), face = 2 * axis + (point[axis] < 0);
    return (face * size + clamp_index(point[(axis + 2) % 3], size)) * size +
           clamp_index(point[(axis + 1) % 3], size);
}

void reference_center(int face, int i, int j, int size, double point[3]) {
    const int axis = face / 2, at[2] = {i, j};
    const double sign = face % 2 ? -1 : 1;
    point[axis] = sign;
    for (int k = 0; k < 2; k++) {
        double *along = &point[(axis + 1 + k) % 3];
        *along = (2 * at[k] + 1.0) / size - 1;
        const double beyond = fabs(*along) - 1;
        if (beyond <= 0) continue;
        *along = *along < 0 ? -1 : 1;
        point[axis] -= sign * beyond;
    }
}

int reference_footprint(const double direction[3], int size, int texel[4], double weight[4]) {
    const int axis = axis_of(direction), face = 2 * axis + (direction[axis] < 0);
    double place[2], left = 0;
    int first[2], count = 0;
    for (int k = 0; k < 2; k++) {
        place[k] = (direction[(axis + 1 + k) % 3] / fabs(direction[axis]) + 1) / 2 * size - 0.5;
        first[k] = (int)floor(place[k]);
        place[k] -= first[k];
    }
    for (int n = 0; n < 4; n++) {
        const int i = first[0] + n % 2, j = first[1] + n / 2;
        const double w = (n % 2 ? place[0] : 1 - place[0]) * (n / 2 ? place[1] : 1 - place[1]);
        if ((i < 0 || i >= size) && (j < 0 || j >= size)) { // across a corner: there is no texel
            left = w;
            continue;
        }
        double point[3];
        reference_center(face, i, j, size, point);
        texel[count] = reference_texel_at(point, size);
        weight[count++] = w;
    }
    for (int n = 0; n < count && count == 3; n++) weight[n] += left / 3;
    return count;
}

// The texels of all levels that a direction takes, with their weights; returns how many.
static int weights_of(int size, const double direction[3], double detail, int texel[8], double weight[8]) {
    const int last = (int)lround(log2(size));
    int count = 0;
    for (int level = 0; level <= last; level++) {
        const double part = 1 - fabs(detail - level); // a hat: 1 at its own level, 0 at the next ones
        if (part <= 0) continue;
        const int n = reference_footprint(direction, size >> level, texel + count, weight + count);
        for (int k = count; k < count + n; k++) {
            texel[k] += reference_level_begin(size, level);
            weight[k] *= part;
        }
        count += n;
    }
    return count;
}

void reference_lookup(const double *texel, int size, const double direction[3], double detail,
                      double color[3]) {
    int at[8];
    double weight[8];
    const int count = weights_of(size, direction, detail, at, weight);
    for (int i = 0; i < 3; i++) {
        color[i] = 0;
        for (int k = 0; k < count; k++) color[i] += weight[k] * texel[3 * at[k] + i];
    }
}

void reference_lookup_backward(double *gradient, int size, const double direction[3], double detail,
                               const double color_gradient[3]) {
    int at[8];
    double weight[8];
    const int count = weights_of(size, direction, detail, at, weight);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < 3; i++) gradient[3 * at[k] + i] += weight[k] * color_gradient[i];
}
