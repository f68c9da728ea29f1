# SPDX-License-Identifier: MIT
"""libdistwar_gs from Python: fits 64 Gaussians to a picture, with a loss and an optimiser in Python, and with given colours
instead of spherical harmonics. Runs on numpy with the CPU library, on torch with the CUDA library.

    PYTHONPATH=python python3 docs/interface/fit.py build/cpu/bin/libdistwar_gs.so
"""
import math
import random
import sys
import time
from ctypes import byref

from distwar import gs

SIDE, SIZE, STEPS = 8, 32, 60
RATES = {"mean": 0.02, "log_scale": 0.04, "quaternion": 0.02, "opacity_logit": 0.1, "color": 0.03}


def target_value(channel, y, x):
    """Two discs on a slope of grey; rows, columns and value are from 0 to 1."""
    if math.hypot(x - 0.35, y - 0.4) < 0.22:
        return (0.9, 0.3, 0.2)[channel]
    if math.hypot(x - 0.68, y - 0.62) < 0.2:
        return (0.1, 0.4, 0.8)[channel]
    return 0.3 + 0.5 * y


def start():
    """A grid of round Gaussians of any colour, in the view of a camera four units away."""
    random.seed(1)
    grid = range(SIDE * SIDE)
    return {
        "mean": [[(i % SIDE + 0.5) * 4 / SIDE - 2, (i // SIDE + 0.5) * 4 / SIDE - 2, 0.01 * i] for i in grid],
        "log_scale": [[math.log(0.2)] * 3 for _ in grid],
        "quaternion": [[1.0, 0.0, 0.0, 0.0] for _ in grid],
        "opacity_logit": [0.0 for _ in grid],
        "color": [[random.random() for _ in range(3)] for _ in grid],
    }


def main(path):
    lib = gs.Library(path)
    parameters = {name: lib.array(values) for name, values in start().items()}
    gradients, first, second = ({name: lib.zeros(*p.shape) for name, p in parameters.items()} for _ in range(3))
    pixels = [(i + 0.5) / SIZE for i in range(SIZE)]
    target = lib.array([[[target_value(c, y, x) for x in pixels] for y in pixels] for c in range(3)])

    color, transmittance = lib.zeros(3, SIZE, SIZE), lib.zeros(SIZE, SIZE)
    splat_grad = lib.zeros(SIDE * SIDE, 12)
    view = gs.View(
        gaussians=lib.gaussians(parameters),
        camera=gs.Camera(width=SIZE, height=SIZE, fx=SIZE, fy=SIZE, cx=SIZE / 2, cy=SIZE / 2,
                         rotation=(1, 0, 0, 0, 1, 0, 0, 0, 1), translation=(0, 0, 4), near_plane=0.2),
        image=gs.Image(lib.address(color), lib.address(transmittance)))
    gradient = gs.Gradient(gaussians=lib.gaussians(gradients), splat_grad=lib.address(splat_grad))
    policy = lib.policies["bfly"]

    losses = []
    begin = time.perf_counter()
    for step in range(1, STEPS + 1):
        lib.call("gs_forward", byref(view))
        difference = color - target
        losses.append(float((difference**2).mean()))
        d_color = difference * (2 / (3 * SIZE * SIZE))
        gradient.color = lib.address(d_color)
        lib.call("gs_backward", byref(view), byref(gradient), policy)
        for name, parameter in parameters.items():  # Adam
            g, m, v = gradients[name], first[name], second[name]
            m += 0.1 * (g - m)
            v += 0.001 * (g**2 - v)
            parameter -= RATES[name] * m / (1 - 0.9**step) / ((v / (1 - 0.999**step))**0.5 + 1e-10)
    duration = time.perf_counter() - begin

    count = SIDE * SIDE
    radii = lib.zeros(count, dtype="int32")
    lib.call("gs_radii", byref(view), lib.address(radii))
    alpha = 1 - transmittance
    psnr = [-10 * math.log10(loss) for loss in (losses[0], losses[-1])]
    print(f"libdistwar_gs {lib.version}, {lib.backend} with {lib.arrays.__name__}: {count} Gaussians, {SIZE} x {SIZE} "
          f"pixels, {STEPS} steps in {duration:.2f} s")
    print(f"squared error {losses[0]:.4f} -> {losses[-1]:.5f}, PSNR {psnr[0]:.1f} -> {psnr[1]:.1f} dB")
    print(f"{int((radii > 0).sum())} Gaussians in view, the largest {int(radii.max())} pixels in radius; "
          f"mean alpha {float(alpha.mean()):.2f}")
    if not losses[-1] < losses[0] / 10:
        sys.exit("fit.py: the error did not fall to a tenth")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: fit.py path/to/libdistwar_gs.so")
    main(sys.argv[1])
