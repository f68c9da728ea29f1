# SPDX-License-Identifier: MIT
"""Prints the numbers that lpips_test.cpp compares with: LPIPS by torch, in double precision, of invented weights and
pictures, which lpips_case.h makes likewise. Written from Zhang et al. 2018 and the constants of the published weights
(version 0.1): input in -1..1, less the means, over the deviations; activations over their norm plus 1e-10.

    lpips_activations.py | clang-format >lpips_activations.h      # needs torch 2
"""
import numpy
import torch
from torch.nn.functional import conv2d, max_pool2d, relu

# (name's index, inputs, outputs, size, stride, padding, pool before it, level)
ALEX = [(0, 3, 64, 11, 4, 2, 0, 1), (3, 64, 192, 5, 1, 2, 3, 2), (6, 192, 384, 3, 1, 1, 3, 3),
        (8, 384, 256, 3, 1, 1, 0, 4), (10, 256, 256, 3, 1, 1, 0, 5)]
VGG = [(0, 3, 64, 3, 1, 1, 0, 0), (2, 64, 64, 3, 1, 1, 0, 1), (5, 64, 128, 3, 1, 1, 2, 0), (7, 128, 128, 3, 1, 1, 0, 2),
       (10, 128, 256, 3, 1, 1, 2, 0), (12, 256, 256, 3, 1, 1, 0, 0), (14, 256, 256, 3, 1, 1, 0, 3),
       (17, 256, 512, 3, 1, 1, 2, 0), (19, 512, 512, 3, 1, 1, 0, 0), (21, 512, 512, 3, 1, 1, 0, 4),
       (24, 512, 512, 3, 1, 1, 2, 0), (26, 512, 512, 3, 1, 1, 0, 0), (28, 512, 512, 3, 1, 1, 0, 5)]


def hashed(first, count):
    """24 bits each, of the numbers from `first` on."""
    x = numpy.arange(first, first + count, dtype=numpy.uint64)
    for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b), (16, 1)):
        x = (x ^ (x >> numpy.uint64(shift))) * numpy.uint64(factor) & numpy.uint64(0xffffffff)
    return (x >> numpy.uint64(8)).astype(numpy.float64)


def weights_of(network):
    """[(weight, bias) of each convolution], [channel weights of each level]: float32 in gs_lpips's order."""
    at, layers, levels = 0, [], []

    def take(count):
        nonlocal at
        at += count
        return hashed(at - count, count)

    for _, inputs, outputs, size, *_ in network:
        scale = 2.0 ** numpy.floor(numpy.log2((6 / (inputs * size * size)) ** 0.5))
        weight = (take(outputs * inputs * size * size) / 2 ** 23 - 1) * scale
        bias = (take(outputs) / 2 ** 23 - 1) / 8
        layers.append((weight.astype(numpy.float32).reshape(outputs, inputs, size, size), bias.astype(numpy.float32)))
    for _, _, outputs, *_, level in network:
        if level:
            levels.append((take(outputs) / 2 ** 24).astype(numpy.float32))
    return layers, levels


def pictures_of(width, height):
    """[2][height][width][3], 0..255: waves with noise."""
    y, x, c = numpy.meshgrid(numpy.arange(height), numpy.arange(width), numpy.arange(3), indexing="ij")
    noise = hashed(2 ** 31, 2 * height * width * 3).reshape(2, height, width, 3) // 2 ** 18  # 0..63
    wave = numpy.stack([(5 * x + 3 * y + 40 * c) % 192, (5 * x + 2 * y + 50 * c) % 192])
    return (wave + noise).astype(numpy.uint8)


def lpips(network, weights, pictures):
    """The activations of each level, [2, outputs, height, width], and its part of LPIPS. pictures: [2, 3, height,
    width], 0..255."""
    layers, levels = weights
    mean, deviation = (pictures.new_tensor(v).view(3, 1, 1) for v in ([-0.030, -0.088, -0.188], [0.458, 0.448, 0.450]))
    at, found = (pictures * 2 / 255 - 1 - mean) / deviation, []
    for (_, _, _, _, stride, padding, pool, level), (weight, bias) in zip(network, layers):
        if pool:
            at = max_pool2d(at, pool, 2)
        at = relu(conv2d(at, weight, bias, stride, padding))
        if level:
            normal = at / ((at * at).sum(1, keepdim=True).sqrt() + 1e-10)
            difference = (normal[0] - normal[1]) ** 2
            found.append((at, (levels[level - 1].view(-1, 1, 1) * difference).sum(0).mean()))
    return found


def to_torch(weights, **how):
    layers, levels = weights
    return ([tuple(torch.tensor(v, **how) for v in layer) for layer in layers], [torch.tensor(v, **how) for v in levels])


def main():
    print("// SPDX-License-Identifier: MIT\n// Made by lpips_activations.py with torch", torch.__version__.split("+")[0])
    for name, network, width, height in (("alex", ALEX, 83, 61), ("vgg", VGG, 37, 33)):
        pictures = torch.tensor(pictures_of(width, height), dtype=torch.float64).permute(0, 3, 1, 2)
        print(f"static const stored_level {name}_levels[] = {{")
        for at, part in lpips(network, to_torch(weights_of(network), dtype=torch.float64), pictures):
            _, channels, height_, width_ = at.shape
            largest = ", ".join(f"{{{image.argmax()}, {image.max():.9g}, {image.mean():.9g}}}" for image in at)
            print(f"    {{{channels}, {height_}, {width_}, {{{largest}}}, {part:.9g}}},")
        print("};")


if __name__ == "__main__":
    main()
