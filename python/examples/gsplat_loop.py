# SPDX-License-Identifier: MIT
"""Trains Gaussians with gsplat's rasterizer and strategy, as most loops of one's own do, or with distwar in their place:

    python gsplat_loop.py DATA
    python gsplat_loop.py DATA --distwar
"""
import argparse
import json
import pathlib
import random
import time

import torch
import torch._dynamo  # torch's optimizers import it when the first is made: seconds that are not of training
from train import extent, start
from views import load, load_frames

from distwar import density, l1_ssim_loss, optim, rasterization

RATES = dict(means=1.6e-4, scales=5e-3, quats=1e-3, opacities=5e-2, sh0=2.5e-3, shN=2.5e-3 / 20)


def train_by_gsplat(p, optimizers, decay, views, size, iterations):
    from fused_ssim import fused_ssim
    from gsplat import rasterization
    from gsplat.strategy import DefaultStrategy
    strategy = DefaultStrategy(refine_stop_iter=iterations // 2)
    strategy.check_sanity(p, optimizers)
    state = strategy.initialize_state(size)
    for step, (viewmat, K, picture) in enumerate(views):
        colors, _, info = rasterization(
            p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(), torch.cat((p["sh0"], p["shN"]), 1), viewmat, K,
            picture.shape[1], picture.shape[0], sh_degree=min(3, step // 1000), packed=False)
        strategy.step_pre_backward(p, optimizers, state, step, info)
        pixels = picture / 255
        loss = 0.8 * (colors[0] - pixels).abs().mean() + 0.2 * (1 - fused_ssim(
            colors.permute(0, 3, 1, 2), pixels[None].permute(0, 3, 1, 2)))
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        decay.step()
        strategy.step_post_backward(p, optimizers, state, step, info, packed=False)


def train_by_distwar(p, optimizers, decay, views, size, iterations):
    sums = torch.zeros_like(p["means"][:, :2])
    for step, (viewmat, K, picture) in enumerate(views):
        colors, _, info = rasterization(
            p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(), (p["sh0"], p["shN"]), viewmat, K,
            picture.shape[1], picture.shape[0], sh_degree=min(3, step // 1000), packed=False)
        if step < iterations // 2:
            density.sum_gradients(info, sums)
        l1_ssim_loss(colors[0], picture).backward()
        optim.step(optimizers.values(), zero_grad=True)
        decay.step()
        if 500 < step < iterations // 2 and step % 100 == 0:
            density.grow_and_prune(p, optimizers, sums, size, prune_scale3d=0.1 if step > 3000 else None)
            sums = torch.zeros_like(p["means"][:, :2])
        if 0 < step < iterations // 2 and step % 3000 == 0:
            density.reset_opacities(p, optimizers)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split(".")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--iterations", type=int, default=7000, help="steps (default 7000)")
    parser.add_argument("--downscale", type=int, default=1, help="factor by which photographs are reduced (default 1)")
    parser.add_argument("--device", default="cuda", help="where to train (default cuda)")
    parser.add_argument("--distwar", action="store_true", help="train with distwar")
    o = parser.parse_args(arguments)
    torch.manual_seed(0)
    random.seed(0)
    frames, points = load_frames(o.data)
    views = [(viewmat.to(o.device), K.to(o.device), picture) for viewmat, K, picture in load(frames, o.downscale, o.device)]
    training = [view for i, view in enumerate(views) if i % 8]
    size = extent(training)
    p = torch.nn.ParameterDict(start(points, 0.1, 1.0, o.device))
    optimizers = {name: torch.optim.Adam([p[name]], lr=rate * (size if name == "means" else 1), eps=1e-15, fused=True)
                  for name, rate in RATES.items()}
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizers["means"], 0.01**(1 / o.iterations))
    epochs = (random.sample(training, len(training)) for _ in range(-(-o.iterations // len(training))))
    order = [view for epoch in epochs for view in epoch][:o.iterations]
    begin = time.perf_counter()
    (train_by_distwar if o.distwar else train_by_gsplat)(p, optimizers, decay, order, size, o.iterations)
    if o.device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        images = (rasterization(p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(), (p["sh0"], p["shN"]),
                                viewmat, K, picture.shape[1], picture.shape[0], sh_degree=3, packed=False)[0][0]
                  for viewmat, K, picture in views[::8])
        errors = [((image.clamp(0, 1) - view[2] / 255)**2).mean() for image, view in zip(images, views[::8])]
    print(json.dumps(dict(seconds=round(seconds, 2), gaussians=len(p["means"]),
                          held_out_psnr=float(torch.stack([-10 * e.log10() for e in errors]).mean()))))


if __name__ == "__main__":
    main()
