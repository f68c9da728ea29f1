// SPDX-License-Identifier: MIT
// The splats that each tile needs, in order, found by testing every pixel; blending front to back at each pixel, and its
// adjoint in terms of the conic.
#include "reference.h"

#include "memory.h"

#include <math.h>
#include <string.h>

// The inverse of a splat's 2D covariance.
typedef struct conic {
    double xx, xy, yy;
} conic;

static double determinant_of(const reference_splat *splat) {
    const double a = splat->covariance[0], b = splat->covariance[1], c = splat->covariance[2];
    const double square = b * b; // ac - b^2 with the rounding of b^2 put back (Kahan)
    return fma(a, c, -square) - fma(b, b, -square);
}

static conic conic_of(const reference_splat *splat) {
    const double determinant = determinant_of(splat);
    const conic k = {splat->covariance[2] / determinant, -splat->covariance[1] / determinant,
                     splat->covariance[0] / determinant};
    return k;
}

// Half the square of the Mahalanobis distance of the offset (dx, dy).
static double half_square(const conic *k, double dx, double dy) {
    return 0.5 * (k->xx * dx * dx + 2 * k->xy * dx * dy + k->yy * dy * dy);
}

// ---- lists ----

static int smaller(int a, int b) {
    return a < b ? a : b;
}

static double reach(const reference_splat *splat, const conic *k, int width, int height, int tile_x,
                    int tile_y) {
    const int right = smaller(width, (tile_x + 1) * GS_TILE_SIZE),
              bottom = smaller(height, (tile_y + 1) * GS_TILE_SIZE);
    double nearest = INFINITY;
    for (int y = tile_y * GS_TILE_SIZE; y < bottom; y++)
        for (int x = tile_x * GS_TILE_SIZE; x < right; x++)
            nearest = fmin(nearest, half_square(k, x + 0.5 - splat->mean[0], y + 0.5 - splat->mean[1]));
    return splat->opacity * exp(-nearest);
}

double reference_reach(const reference_splat *splat, int width, int height, int tile_x, int tile_y) {
    if (!splat->decisions.visible) return 0;
    const conic k = conic_of(splat);
    return reach(splat, &k, width, height, tile_x, tile_y);
}

// The least half square on the segment from (dx, dy) by (sx, sy): a parabola.
static double least_on(const conic *k, double dx, double dy, double sx, double sy) {
    const double square = k->xx * sx * sx + 2 * k->xy * sx * sy + k->yy * sy * sy;
    const double slope = k->xx * dx * sx + k->xy * (dx * sy + dy * sx) + k->yy * dy * sy;
    const double t = square > 0 ? fmin(fmax(-slope / square, 0), 1) : 0;
    return half_square(k, dx + t * sx, dy + t * sy);
}

double reference_area_reach(const reference_splat *splat, int width, int height, int tile_x, int tile_y) {
    if (!splat->decisions.visible) return 0;
    const conic k = conic_of(splat);
    const double x = tile_x * GS_TILE_SIZE + 0.5 - splat->mean[0],
                 y = tile_y * GS_TILE_SIZE + 0.5 - splat->mean[1];
    const double wide = smaller(GS_TILE_SIZE, width - tile_x * GS_TILE_SIZE) - 1,
                 high = smaller(GS_TILE_SIZE, height - tile_y * GS_TILE_SIZE) - 1;
    if (x <= 0 && y <= 0 && x + wide >= 0 && y + high >= 0) return splat->opacity;
    const double nearest = fmin(fmin(least_on(&k, x, y, wide, 0), least_on(&k, x, y + high, wide, 0)),
                                fmin(least_on(&k, x, y, 0, high), least_on(&k, x + wide, y, 0, high)));
    return splat->opacity * exp(-nearest);
}

typedef struct ranked {
    double depth;
    uint32_t index;
} ranked;

static int by_depth_then_index(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->depth != b->depth) return a->depth < b->depth ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

gs_tile_ranges reference_bin(const reference_splat *splats, int64_t count, int width, int height) {
    ranked *order = allocate(count, sizeof(ranked));
    conic *conics = allocate(count, sizeof(conic));
    int64_t visible = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!splats[i].decisions.visible) continue;
        conics[i] = conic_of(&splats[i]);
        order[visible++] = (ranked){splats[i].depth, (uint32_t)i};
    }
    qsort(order, (size_t)visible, sizeof(ranked), by_depth_then_index);

    gs_tile_ranges ranges = {.tiles_x = (width + GS_TILE_SIZE - 1) / GS_TILE_SIZE,
                             .tiles_y = (height + GS_TILE_SIZE - 1) / GS_TILE_SIZE};
    const int64_t tiles = (int64_t)ranges.tiles_x * ranges.tiles_y;
    ranges.tile_begin = allocate(tiles + 1, sizeof(int64_t));
    ranges.splat_index = allocate(tiles * visible, sizeof(uint32_t));
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int tile_x = (int)(tile % ranges.tiles_x), tile_y = (int)(tile / ranges.tiles_x);
        for (int64_t r = 0; r < visible; r++) {
            const uint32_t i = order[r].index;
            if (reach(&splats[i], &conics[i], width, height, tile_x, tile_y) >= 1.0 / 255)
                ranges.splat_index[ranges.isects++] = i;
        }
        ranges.tile_begin[tile + 1] = ranges.isects;
    }
    free(conics);
    free(order);
    return ranges;
}

void reference_lists_destroy(gs_tile_ranges *ranges) {
    free(ranges->tile_begin);
    free(ranges->splat_index);
    *ranges = (gs_tile_ranges){0};
}

// ---- blending ----

reference_image reference_image_of_channels(int channels, int width, int height) {
    const int64_t pixels = (int64_t)width * height;
    return (reference_image){.color = allocate(channels * pixels, sizeof(double)),
                             .transmittance = allocate(pixels, sizeof(double)),
                             .n_contrib = allocate(pixels, sizeof(uint32_t)),
                             .margin = allocate(pixels, sizeof(double)),
                             .depth = allocate(pixels, sizeof(double)),
                             .median_depth = allocate(pixels, sizeof(double)),
                             .median_margin = allocate(pixels, sizeof(double))};
}

reference_image reference_image_create(int width, int height) {
    return reference_image_of_channels(3, width, height);
}

void reference_image_destroy(reference_image *image) {
    free(image->color);
    free(image->transmittance);
    free(image->n_contrib);
    free(image->margin);
    free(image->depth);
    free(image->median_depth);
    free(image->median_margin);
    *image = (reference_image){0};
}

// A splat that counted at a pixel.
typedef struct layer {
    uint32_t splat;
    int cut;
    double dx, dy; // from the splat's mean to the pixel
    double alpha;
    double transmittance; // in front of it
} layer;

// Common to all pixels.
typedef struct scene {
    const reference_splat *splats;
    const conic *conics; // indexed by splat; set for splats in the lists
    const gs_tile_ranges *ranges;
    const uint8_t *held; // or NULL
    uint8_t *taken;      // or NULL
    layer *layers;       // room for the longest list
    int channels;
    const double *color; // [count][channels], or NULL: the splats'
    int inverse_depth;
} scene;

typedef struct walk {
    int64_t layers;
    double transmittance; // behind the last layer
    uint32_t n_contrib;
    double margin;
} walk;

static scene scene_create(const reference_blend *blend, uint8_t *taken) {
    const reference_splat *splats = blend->splats;
    const gs_tile_ranges *ranges = blend->ranges;
    const int64_t tiles = (int64_t)ranges->tiles_x * ranges->tiles_y;
    int64_t longest = 0, count = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t length = ranges->tile_begin[tile + 1] - ranges->tile_begin[tile];
        if (length > longest) longest = length;
    }
    for (int64_t p = 0; p < ranges->isects; p++)
        if (ranges->splat_index[p] >= count) count = (int64_t)ranges->splat_index[p] + 1;
    conic *conics = allocate(count, sizeof(conic));
    for (int64_t p = 0; p < ranges->isects; p++)
        conics[ranges->splat_index[p]] = conic_of(&splats[ranges->splat_index[p]]);
    if (taken) memset(taken, REFERENCE_SKIPPED, (size_t)ranges->isects * REFERENCE_TILE_PIXELS);
    return (scene){.splats = splats,
                   .conics = conics,
                   .ranges = ranges,
                   .held = blend->held,
                   .taken = taken,
                   .layers = allocate(longest, sizeof(layer)),
                   .channels = blend->channels ? blend->channels : 3,
                   .color = blend->color,
                   .inverse_depth = blend->inverse_depth};
}

static void scene_destroy(scene *s) {
    free((void *)s->conics);
    free(s->layers);
}

static const double *color_of(const scene *s, uint32_t splat) {
    return s->color ? s->color + (int64_t)splat * s->channels : s->splats[splat].color;
}

// Fills s->layers for the pixel (x, y), front to back.
static walk walk_pixel(const scene *s, int x, int y) {
    walk result = {.transmittance = 1, .margin = INFINITY};
    const int tile = y / GS_TILE_SIZE * s->ranges->tiles_x + x / GS_TILE_SIZE;
    const int pixel = y % GS_TILE_SIZE * GS_TILE_SIZE + x % GS_TILE_SIZE;
    const int64_t begin = s->ranges->tile_begin[tile], end = s->ranges->tile_begin[tile + 1];
    for (int64_t p = begin; p < end; p++) {
        const uint32_t i = s->ranges->splat_index[p];
        const double dx = x + 0.5 - s->splats[i].mean[0], dy = y + 0.5 - s->splats[i].mean[1];
        const double full = s->splats[i].decisions.visible
                                ? s->splats[i].opacity * exp(-half_square(&s->conics[i], dx, dy))
                                : 0;
        result.margin = fmin(result.margin, fabs(255 * full - 1));

        int decision = s->held            ? s->held[p * REFERENCE_TILE_PIXELS + pixel]
                       : full < 1.0 / 255 ? REFERENCE_SKIPPED
                       : full > 0.99      ? REFERENCE_CUT
                                          : REFERENCE_COUNTED;
        if (decision == REFERENCE_SKIPPED) continue;
        const double alpha = decision == REFERENCE_CUT ? 0.99 : full;
        const double behind = result.transmittance * (1 - alpha);
        result.margin = fmin(result.margin, fmin(fabs(full / 0.99 - 1), fabs(behind / 1e-4 - 1)));
        if (!s->held && behind < 1e-4) decision = REFERENCE_STOPPED;
        if (s->taken) s->taken[p * REFERENCE_TILE_PIXELS + pixel] = (uint8_t)decision;
        if (decision == REFERENCE_STOPPED) break;

        s->layers[result.layers++] =
            (layer){i, decision == REFERENCE_CUT, dx, dy, alpha, result.transmittance};
        result.transmittance = behind;
        result.n_contrib = (uint32_t)(p - begin + 1);
    }
    return result;
}

// What image.depth sums of a layer.
static double depth_of(const scene *s, const layer *at) {
    const double depth = s->splats[at->splat].depth;
    return s->inverse_depth ? 1 / depth : depth;
}

// Its sum, with the weights, over the layers of a pixel.
static double depth_sum(const scene *s, const walk *w) {
    double sum = 0;
    for (int64_t l = 0; l < w->layers; l++)
        sum += s->layers[l].transmittance * s->layers[l].alpha * depth_of(s, &s->layers[l]);
    return sum;
}

static void find_median(const scene *s, const walk *w, double *depth, double *margin) {
    *depth = 0;
    *margin = INFINITY;
    for (int64_t l = 0; l < w->layers; l++) {
        const double in_front = s->layers[l].transmittance, behind = in_front * (1 - s->layers[l].alpha);
        *margin = fmin(*margin, fabs(2 * behind - 1));
        if (in_front > 0.5 && behind <= 0.5) *depth = s->splats[s->layers[l].splat].depth;
    }
}

void reference_render(const reference_blend *blend, uint8_t *taken, const reference_image *image) {
    const int width = blend->width, height = blend->height;
    scene s = scene_create(blend, taken);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int64_t pixel = (int64_t)y * width + x;
            const walk w = walk_pixel(&s, x, y);
            for (int channel = 0; channel < s.channels; channel++) {
                double color = w.transmittance * blend->background[channel];
                for (int64_t l = 0; l < w.layers; l++)
                    color += s.layers[l].transmittance * s.layers[l].alpha *
                             color_of(&s, s.layers[l].splat)[channel];
                image->color[(int64_t)channel * width * height + pixel] = color;
            }
            image->transmittance[pixel] = w.transmittance;
            image->n_contrib[pixel] = w.n_contrib;
            image->margin[pixel] = w.margin;
            image->depth[pixel] = depth_sum(&s, &w);
            if (blend->normalize_depth && w.layers > 0) image->depth[pixel] /= 1 - w.transmittance;
            find_median(&s, &w, &image->median_depth[pixel], &image->median_margin[pixel]);
        }
    scene_destroy(&s);
}

// The gradient of one pixel by what its walk sums: the colours, the sum of weight times depth, and alpha.
typedef struct pixel_gradient {
    double *color; // [channels]
    double depth, alpha;
} pixel_gradient;

static void begin_pixel(const scene *s, const reference_blend *blend, const reference_image_gradient *image,
                        const walk *w, int64_t pixel, pixel_gradient *g) {
    for (int c = 0; c < s->channels; c++)
        g->color[c] = image->color[(int64_t)c * blend->width * blend->height + pixel];
    g->alpha = image->alpha ? image->alpha[pixel] : 0;
    g->depth = image->depth ? image->depth[pixel] : 0;
    if (!blend->normalize_depth || w->layers == 0) return;
    const double alpha = 1 - w->transmittance; // the depth is sum / alpha
    g->alpha -= g->depth * depth_sum(s, w) / (alpha * alpha);
    g->depth /= alpha;
}

void reference_render_backward(const reference_blend *blend, const reference_image_gradient *image_gradient,
                               reference_splat_gradient *gradients, double *color_gradients) {
    const int width = blend->width, height = blend->height;
    const int64_t count = blend->count;
    scene s = scene_create(blend, NULL);
    conic *d_conic = allocate(count, sizeof(conic)); // xy: by the one number that stands in two places
    pixel_gradient d = {.color = allocate(s.channels, sizeof(double))};
    memset(gradients, 0, (size_t)count * sizeof *gradients);
    if (color_gradients) memset(color_gradients, 0, (size_t)(count * s.channels) * sizeof *color_gradients);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const walk w = walk_pixel(&s, x, y);
            begin_pixel(&s, blend, image_gradient, &w, (int64_t)y * width + x, &d);
            // The linearised part of the loss from the layers behind: proportional to 1 - alpha of the layer
            // in front of them.
            double behind = -w.transmittance * d.alpha;
            for (int c = 0; c < s.channels; c++)
                behind += w.transmittance * blend->background[c] * d.color[c];
            for (int64_t l = w.layers - 1; l >= 0; l--) {
                const layer *at = &s.layers[l];
                reference_splat_gradient *g = &gradients[at->splat];
                const double weight = at->transmittance * at->alpha;
                double *d_color = s.color ? NULL : g->color;
                if (s.color && color_gradients) d_color = color_gradients + (int64_t)at->splat * s.channels;
                const double depth = depth_of(&s, at);
                double brightness = depth * d.depth;
                for (int c = 0; c < s.channels; c++) {
                    brightness += color_of(&s, at->splat)[c] * d.color[c];
                    if (d_color) d_color[c] += weight * d.color[c];
                }
                g->depth += weight * d.depth * (s.inverse_depth ? -depth * depth : 1);
                const double d_alpha = at->transmittance * brightness - behind / (1 - at->alpha);
                behind += weight * brightness;
                if (at->cut) continue;
                const double d_log_alpha = d_alpha * at->alpha; // alpha = exp(log opacity - half_square)
                const conic *k = &s.conics[at->splat];
                const double d_mean[2] = {d_log_alpha * (k->xx * at->dx + k->xy * at->dy),
                                          d_log_alpha * (k->xy * at->dx + k->yy * at->dy)};
                g->log_opacity += d_log_alpha;
                for (int i = 0; i < 2; i++) {
                    g->mean[i] += d_mean[i];
                    g->abs_mean[i] += fabs(d_mean[i]);
                }
                d_conic[at->splat].xx -= d_log_alpha * at->dx * at->dx / 2;
                d_conic[at->splat].xy -= d_log_alpha * at->dx * at->dy;
                d_conic[at->splat].yy -= d_log_alpha * at->dy * at->dy / 2;
            }
        }
    free(d.color);
    // The gradient by the covariance is -K G K, with K its inverse and G the symmetric gradient by K.
    for (int64_t i = 0; i < count; i++) {
        const conic G = d_conic[i];
        if (G.xx == 0 && G.xy == 0 && G.yy == 0) continue;
        const conic K = s.conics[i];
        const double kg[2][2] = {{K.xx * G.xx + K.xy * G.xy / 2, K.xx * G.xy / 2 + K.xy * G.yy},
                                 {K.xy * G.xx + K.yy * G.xy / 2, K.xy * G.xy / 2 + K.yy * G.yy}};
        gradients[i].covariance[0] = -(kg[0][0] * K.xx + kg[0][1] * K.xy);
        gradients[i].covariance[1] = -2 * (kg[0][0] * K.xy + kg[0][1] * K.yy);
        gradients[i].covariance[2] = -(kg[1][0] * K.xy + kg[1][1] * K.yy);
    }
    free(d_conic);
    scene_destroy(&s);
}

void reference_splat_grad(const reference_splat *splat, const reference_splat_gradient *gradient,
                          double splat_grad[GS_SPLAT_GRAD_STRIDE]) {
    // Sum h e = L^-1 (by mean) and sum h e e^T = 2 L^-1 (by covariance) L^-T; L = [l0 0; l1 l2] as in
    // docs/developers/math.md.
    const double unit = sqrt(0.5 / log(2.0)); // the kernels' e, over e
    const double determinant = determinant_of(splat), c = splat->covariance[2];
    const double l0 = sqrt(c / determinant), l1 = -splat->covariance[1] / sqrt(c * determinant),
                 l2 = 1 / sqrt(c);
    const double inverse[2][2] = {{1 / l0, 0}, {-l1 / (l0 * l2), 1 / l2}};
    const double *d = gradient->covariance;
    const double G[2][2] = {{d[0], d[1] / 2}, {d[1] / 2, d[2]}};
    double first[2] = {0, 0}, second[2][2] = {{0, 0}, {0, 0}};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            first[i] += unit * inverse[i][j] * gradient->mean[j];
            for (int k = 0; k < 2; k++)
                for (int l = 0; l < 2; l++)
                    second[i][j] += 2 * unit * unit * inverse[i][k] * G[k][l] * inverse[j][l];
        }
    for (int k = 0; k < GS_CHANNELS; k++) splat_grad[k] = gradient->color[k];
    const double rest[GS_SPLAT_GRAD_SUMS - GS_CHANNELS] = {
        gradient->log_opacity, first[0], first[1], second[0][0], second[0][1], second[1][1]}; // h .. h_e1e1
    memcpy(splat_grad + GS_CHANNELS, rest, sizeof rest);
    splat_grad[GS_SPLAT_GRAD_SUMS] = gradient->depth;
    splat_grad[GS_SPLAT_GRAD_SUMS + 1] = unit * gradient->abs_mean[0] / l0; // by mean = L h e, row by row
    splat_grad[GS_SPLAT_GRAD_SUMS + 2] = unit * gradient->abs_mean[1] / hypot(l1, l2);
}
