// SPDX-License-Identifier: MIT
#include "lpips.h"

#include "memory.h"

#include <math.h>

// Activations of two pictures: [2][channels][height][width].
typedef struct layer {
    int channels, width, height;
    double *values;
} layer;

static layer layer_of(int channels, int width, int height) {
    return (layer){channels, width, height, allocate(2 * (int64_t)channels * width * height, sizeof(double))};
}

// plane: of both pictures' channels, 0 .. 2 channels - 1.
static double *at(const layer *of, int plane, int y, int x) {
    return of->values + ((int64_t)plane * of->height + y) * of->width + x;
}

static layer input_of(const uint8_t *pictures, int width, int height) {
    const double mean[3] = {-0.030, -0.088, -0.188}, deviation[3] = {0.458, 0.448, 0.450};
    layer out = layer_of(3, width, height);
    for (int k = 0; k < 2; k++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                for (int c = 0; c < 3; c++) {
                    const double value =
                        pictures[(((int64_t)k * height + y) * width + x) * 3 + c] / 127.5 - 1;
                    *at(&out, 3 * k + c, y, x) = (value - mean[c]) / deviation[c];
                }
    return out;
}

static layer pooled(const layer *in, int size) {
    layer out = layer_of(in->channels, (in->width - size) / 2 + 1, (in->height - size) / 2 + 1);
    for (int plane = 0; plane < 2 * in->channels; plane++)
        for (int y = 0; y < out.height; y++)
            for (int x = 0; x < out.width; x++) {
                double most = -INFINITY;
                for (int i = 0; i < size * size; i++)
                    most = fmax(most, *at(in, plane, 2 * y + i / size, 2 * x + i % size));
                *at(&out, plane, y, x) = most;
            }
    return out;
}

// weight: [outputs][inputs][size][size]; bias: [outputs].
static layer convolved(const layer *in, const gs_lpips_convolution *c, const float *weight,
                       const float *bias) {
    layer out = layer_of(c->outputs, (in->width + 2 * c->padding - c->size) / c->stride + 1,
                         (in->height + 2 * c->padding - c->size) / c->stride + 1);
    for (int k = 0; k < 2; k++)
        for (int o = 0; o < c->outputs; o++)
            for (int y = 0; y < out.height; y++)
                for (int x = 0; x < out.width; x++) {
                    double sum = (double)bias[o];
                    for (int i = 0; i < c->inputs; i++)
                        for (int v = 0; v < c->size; v++)
                            for (int u = 0; u < c->size; u++) {
                                const int row = y * c->stride - c->padding + v;
                                const int column = x * c->stride - c->padding + u;
                                if (row < 0 || row >= in->height || column < 0 || column >= in->width)
                                    continue;
                                sum += (double)weight[((o * c->inputs + i) * c->size + v) * c->size + u] *
                                       *at(in, k * c->inputs + i, row, column);
                            }
                    *at(&out, k * c->outputs + o, y, x) = fmax(sum, 0);
                }
    return out;
}

static double norm_of(const layer *of, int picture, int y, int x) {
    double sum = 0;
    for (int c = 0; c < of->channels; c++) {
        const double value = *at(of, picture * of->channels + c, y, x);
        sum += value * value;
    }
    return sqrt(sum) + 1e-10;
}

static double difference_of(const layer *of, const float *weight) {
    double sum = 0;
    for (int y = 0; y < of->height; y++)
        for (int x = 0; x < of->width; x++) {
            const double a = norm_of(of, 0, y, x), b = norm_of(of, 1, y, x);
            for (int c = 0; c < of->channels; c++) {
                const double d = *at(of, c, y, x) / a - *at(of, of->channels + c, y, x) / b;
                sum += (double)weight[c] * d * d;
            }
        }
    return sum / ((double)of->width * of->height);
}

void reference_lpips(const gs_lpips_architecture *network, const float *weights, const uint8_t *pictures,
                     int width, int height, double *activations[GS_LPIPS_LEVELS], double *result) {
    const float *of_level = weights; // the channels' weights come after all convolutions
    for (int i = 0; i < network->convolutions; i++) {
        const gs_lpips_convolution *c = &network->convolution[i];
        of_level += c->outputs * (c->inputs * c->size * c->size + 1);
    }
    layer now = input_of(pictures, width, height);
    int kept = 0;
    result[0] = 0;
    for (int i = 0; i < network->convolutions; i++) {
        const gs_lpips_convolution *c = &network->convolution[i];
        if (c->pool > 0) {
            const layer before = now;
            now = pooled(&before, c->pool);
            if (!kept) free(before.values);
            kept = 0;
        }
        const layer before = now;
        const float *bias = weights + c->outputs * c->inputs * c->size * c->size;
        now = convolved(&before, c, weights, bias);
        weights = bias + c->outputs;
        if (!kept) free(before.values);
        kept = c->level > 0;
        if (!kept) continue;
        activations[c->level - 1] = now.values;
        result[0] += result[c->level] = difference_of(&now, of_level);
        of_level += c->outputs;
    }
}
