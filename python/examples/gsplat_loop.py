# SPDX-License-Identifier: MIT
"""Trains Gaussians with gsplat's rasterizer and strategy, as most loops of one's own do. gsplat_loop.diff changes four
places of it, after which distwar does the work:

    python gsplat_loop.py DATA
    patch -o distwar_loop.py gsplat_loop.py gsplat_loop.diff && python distwar_loop.py DATA
"""
import argparse
import json
import pathlib
import random
import time

import torch
import torch._dynamo  # torch's optimizers import it when the first is made: seconds that are not of training
from fused_ssim import fused_ssim
from gsplat import rasterization
from gsplat.strategy import DefaultStrategy
from train import extent, start
from views import load, load_frames

RATES = dict(means=1.6e-4, scales=5e-3, quats=1e-3, opacities=5e-2, sh0=2.5e-3, shN=2.5e-3 / 20)


def render(p, view, degree):
    viewmat, K, picture = view
    height, width, _ = picture.shape
    return rasterization(p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(),
                         torch.cat((p["sh0"], p["shN"]), 1), viewmat, K, width, height, sh_degree=degree, packed=False)


def train(p, views, size, iterations):
    optimizers = {name: torch.optim.Adam([p[name]], lr=rate * (size if name == "means" else 1), eps=1e-15, fused=True)
                  for name, rate in RATES.items()}
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizers["means"], 0.01**(1 / iterations))
    strategy = DefaultStrategy(refine_stop_iter=iterations // 2)
    strategy.check_sanity(p, optimizers)
    state, order = strategy.initialize_state(size), []
    for step in range(iterations):
        order = order or random.sample(views, len(views))
        view = order.pop()
        colors, _, info = render(p, view, min(3, step // 1000))
        strategy.step_pre_backward(p, optimizers, state, step, info)
        pixels = view[2] / 255
        loss = 0.8 * (colors[0] - pixels).abs().mean() + 0.2 * (1 - fused_ssim(
            colors.permute(0, 3, 1, 2), pixels[None].permute(0, 3, 1, 2)))
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        decay.step()
        strategy.step_post_backward(p, optimizers, state, step, info, packed=False)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split(".")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--iterations", type=int, default=7000, help="steps (default 7000)")
    parser.add_argument("--downscale", type=int, default=1, help="factor by which photographs are reduced (default 1)")
    parser.add_argument("--device", default="cuda", help="where to train (default cuda)")
    o = parser.parse_args(arguments)
    torch.manual_seed(0)
    random.seed(0)
    frames, points = load_frames(o.data)
    views = load(frames, o.downscale, o.device)
    training = [(viewmat.to(o.device), K.to(o.device), picture) for i, (viewmat, K, picture) in enumerate(views) if i % 8]
    size = extent([view for i, view in enumerate(views) if i % 8])
    p = torch.nn.ParameterDict(start(points, 0.1, 1.0, o.device))
    begin = time.perf_counter()
    train(p, training, size, o.iterations)
    if o.device == "cuda":
        torch.cuda.synchronize()
    seconds, errors = time.perf_counter() - begin, []
    with torch.no_grad():
        for viewmat, K, picture in views[::8]:
            image = render(p, (viewmat.to(o.device), K.to(o.device), picture), 3)[0][0]
            errors.append(((image.clamp(0, 1) - picture / 255)**2).mean())
    print(json.dumps(dict(seconds=round(seconds, 2), gaussians=len(p["means"]),
                          held_out_psnr=float(torch.stack([-10 * e.log10() for e in errors]).mean()))))


if __name__ == "__main__":
    main()
