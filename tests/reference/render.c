// SPDX-License-Identifier: MIT
//
// Blending front to back, pixel by pixel, and its adjoint by the conic.
#include "reference.h"

#include "conic.h"
#include "memory.h"

#include <string.h>

reference_image reference_image_create(int width, int height) {
    const int64_t pixels = (int64_t)width * height;
    return (reference_image){.color = allocate(3 * pixels, sizeof(double)),
                             .transmittance = allocate(pixels, sizeof(double)),
                             .n_contrib = allocate(pixels, sizeof(uint32_t)),
                             .margin = allocate(pixels, sizeof(double))};
}

void reference_image_destroy(reference_image *image) {
    free(image->color);
    free(image->transmittance);
    free(image->n_contrib);
    free(image->margin);
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

// What every pixel's walk needs.
typedef struct scene {
    const reference_splat *splats;
    const conic *conics; // by splat; set for those in the lists
    const gs_lists *lists;
    const uint8_t *held; // or NULL
    uint8_t *taken;      // or NULL
    layer *layers;       // room for the longest list
} scene;

typedef struct walk {
    int64_t layers;
    double transmittance; // behind the last
    uint32_t n_contrib;
    double margin;
} walk;

static scene scene_create(const reference_splat *splats, const gs_lists *lists, const uint8_t *held,
                          uint8_t *taken) {
    const int64_t tiles = (int64_t)lists->tiles_x * lists->tiles_y;
    int64_t longest = 0, count = 0;
    for (int64_t tile = 0; tile < tiles; tile++) {
        const int64_t length = lists->tile_begin[tile + 1] - lists->tile_begin[tile];
        if (length > longest) longest = length;
    }
    for (int64_t p = 0; p < lists->pairs; p++)
        if (lists->splat_index[p] >= count) count = (int64_t)lists->splat_index[p] + 1;
    conic *conics = allocate(count, sizeof(conic));
    for (int64_t p = 0; p < lists->pairs; p++)
        conics[lists->splat_index[p]] = conic_of(&splats[lists->splat_index[p]]);
    if (taken) memset(taken, REFERENCE_SKIPPED, (size_t)lists->pairs * REFERENCE_TILE_PIXELS);
    return (scene){splats, conics, lists, held, taken, allocate(longest, sizeof(layer))};
}

static void scene_destroy(scene *s) {
    free((void *)s->conics);
    free(s->layers);
}

// Fills s->layers for the pixel (x, y), front to back.
static walk walk_pixel(const scene *s, int x, int y) {
    walk result = {.transmittance = 1, .margin = INFINITY};
    const int tile = y / GS_TILE_SIZE * s->lists->tiles_x + x / GS_TILE_SIZE;
    const int pixel = y % GS_TILE_SIZE * GS_TILE_SIZE + x % GS_TILE_SIZE;
    const int64_t begin = s->lists->tile_begin[tile], end = s->lists->tile_begin[tile + 1];
    for (int64_t p = begin; p < end; p++) {
        const uint32_t i = s->lists->splat_index[p];
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

void reference_render(const reference_splat *splats, const gs_lists *lists, int width, int height,
                      const double background[3], const uint8_t *held, uint8_t *taken,
                      const reference_image *image) {
    scene s = scene_create(splats, lists, held, taken);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int64_t pixel = (int64_t)y * width + x;
            const walk w = walk_pixel(&s, x, y);
            for (int channel = 0; channel < 3; channel++) {
                double color = w.transmittance * background[channel];
                for (int64_t l = 0; l < w.layers; l++)
                    color += s.layers[l].transmittance * s.layers[l].alpha *
                             splats[s.layers[l].splat].color[channel];
                image->color[(int64_t)channel * width * height + pixel] = color;
            }
            image->transmittance[pixel] = w.transmittance;
            image->n_contrib[pixel] = w.n_contrib;
            image->margin[pixel] = w.margin;
        }
    scene_destroy(&s);
}

void reference_render_backward(const reference_splat *splats, int64_t count, const gs_lists *lists, int width,
                               int height, const double background[3], const uint8_t *held,
                               const double *color_gradient, const double *alpha_gradient,
                               reference_splat_gradient *gradients) {
    scene s = scene_create(splats, lists, held, NULL);
    conic *by_conic = allocate(count, sizeof(conic)); // xy: by the one number in two places
    memset(gradients, 0, (size_t)count * sizeof *gradients);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            const int64_t pixel = (int64_t)y * width + x;
            double by_color[3];
            for (int c = 0; c < 3; c++) by_color[c] = color_gradient[(int64_t)c * width * height + pixel];
            const walk w = walk_pixel(&s, x, y);
            // What the layers behind give to the loss, linearised: proportional to 1 - alpha of the layer in
            // front.
            double behind = 0;
            for (int c = 0; c < 3; c++) behind += w.transmittance * background[c] * by_color[c];
            if (alpha_gradient) behind -= w.transmittance * alpha_gradient[pixel];
            for (int64_t l = w.layers - 1; l >= 0; l--) {
                const layer *at = &s.layers[l];
                reference_splat_gradient *g = &gradients[at->splat];
                double brightness = 0;
                for (int c = 0; c < 3; c++) {
                    brightness += splats[at->splat].color[c] * by_color[c];
                    g->color[c] += at->transmittance * at->alpha * by_color[c];
                }
                const double by_alpha = at->transmittance * brightness - behind / (1 - at->alpha);
                behind += at->transmittance * at->alpha * brightness;
                if (at->cut) continue;
                const double by_log = by_alpha * at->alpha; // alpha = exp(log opacity - half_square)
                const conic *k = &s.conics[at->splat];
                g->log_opacity += by_log;
                g->mean[0] += by_log * (k->xx * at->dx + k->xy * at->dy);
                g->mean[1] += by_log * (k->xy * at->dx + k->yy * at->dy);
                by_conic[at->splat].xx -= by_log * at->dx * at->dx / 2;
                by_conic[at->splat].xy -= by_log * at->dx * at->dy;
                by_conic[at->splat].yy -= by_log * at->dy * at->dy / 2;
            }
        }
    // By the covariance it is -K G K, for the inverse K and the symmetric gradient G by it.
    for (int64_t i = 0; i < count; i++) {
        const conic G = by_conic[i];
        if (G.xx == 0 && G.xy == 0 && G.yy == 0) continue;
        const conic K = s.conics[i];
        const double kg[2][2] = {{K.xx * G.xx + K.xy * G.xy / 2, K.xx * G.xy / 2 + K.xy * G.yy},
                                 {K.xy * G.xx + K.yy * G.xy / 2, K.xy * G.xy / 2 + K.yy * G.yy}};
        gradients[i].covariance[0] = -(kg[0][0] * K.xx + kg[0][1] * K.xy);
        gradients[i].covariance[1] = -2 * (kg[0][0] * K.xy + kg[0][1] * K.yy);
        gradients[i].covariance[2] = -(kg[1][0] * K.xy + kg[1][1] * K.yy);
    }
    free(by_conic);
    scene_destroy(&s);
}

void reference_moments(const reference_splat *splat, const reference_splat_gradient *gradient,
                       double moments[GS_MOMENTS]) {
    // Sum h e = L^-1 (by mean) and sum h e e^T = 2 L^-1 (by covariance) L^-T; L = [l0 0; l1 l2] as in
    // docs/math.md.
    const double unit = sqrt(0.5 / log(2.0)); // the kernels' e, over e
    const double determinant = determinant_of(splat), c = splat->covariance[2];
    const double l0 = sqrt(c / determinant), l1 = -splat->covariance[1] / sqrt(c * determinant),
                 l2 = 1 / sqrt(c);
    const double inverse[2][2] = {{1 / l0, 0}, {-l1 / (l0 * l2), 1 / l2}};
    const double *by = gradient->covariance;
    const double G[2][2] = {{by[0], by[1] / 2}, {by[1] / 2, by[2]}};
    double first[2] = {0, 0}, second[2][2] = {{0, 0}, {0, 0}};
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            first[i] += unit * inverse[i][j] * gradient->mean[j];
            for (int k = 0; k < 2; k++)
                for (int l = 0; l < 2; l++)
                    second[i][j] += 2 * unit * unit * inverse[i][k] * G[k][l] * inverse[j][l];
        }
    for (int k = 0; k < 3; k++) moments[k] = gradient->color[k];
    moments[3] = gradient->log_opacity;
    moments[4] = first[0];
    moments[5] = first[1];
    moments[6] = second[0][0];
    moments[7] = second[0][1];
    moments[8] = second[1][1];
}
