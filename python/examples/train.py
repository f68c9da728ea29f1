# SPDX-License-Identifier: MIT
"""Trains Gaussians on photographs with known cameras: distwar renders, steps, and moves and adds Gaussians as
Kheradmand et al. 2024 do (MCMC), with the settings of `dsplat train`.

    python train.py DATA -o scene.pt      # DATA: sparse/0/*.bin of COLMAP, or a transforms.json, and the photographs
    python train.py DATA --loop gsplat    # gsplat's rasterizer and default strategy, as most loops of one's own have them
    python train.py DATA --loop default   # the same with distwar in their place
"""
import argparse
import json
import pathlib
import random
import time

import torch
import torch._dynamo  # torch's optimizers import it when the first is made: seconds that are not of training
from views import load, load_frames, random_points

import distwar
from distwar import density, neighbors, optim

SH_CONSTANT = 0.28209479177387814


def extent(views):
    centers = torch.stack([torch.linalg.inv(viewmat[0])[:3, 3] for viewmat, _, _ in views])
    return 1.1 * float((centers - centers.mean(0)).norm(dim=1).max())


def start(points, opacity, size, device):
    """Parameters by name from points [N, 6] with colours: logarithms of scales, logits of opacities."""
    points = torch.as_tensor(points, dtype=torch.float32, device=device)
    n, spacing = len(points), neighbors.three_nearest(points[:, :3]).sqrt()
    values = dict(means=points[:, :3].clone(), scales=(size * spacing).clamp(min=1e-7).log()[:, None].repeat(1, 3),
                  quats=torch.tensor([[1.0, 0, 0, 0]], device=device).repeat(n, 1),
                  opacities=torch.full((n,), opacity, device=device).logit(),
                  sh0=(points[:, None, 3:] / 255 - 0.5) / SH_CONSTANT, shN=torch.zeros(n, 15, 3, device=device))
    return {name: torch.nn.Parameter(value) for name, value in values.items()}


def render(p, viewmats, Ks, shape, degree):
    """Images [views, height, width, 3] of a shape (height, width, 3)."""
    return distwar.rasterization(p["means"], p["quats"], p["scales"], p["opacities"], (p["sh0"], p["shN"]), viewmats, Ks,
                                 shape[1], shape[0], sh_degree=degree, packed=False, activated=False)[0]


def train_by_mcmc(p, views, size, o):
    """Trains on o.iterations views, o.batch in a step, at rates times its root."""
    device = p["means"].device
    rates = dict(means=1.6e-4 * size, scales=1e-2, quats=2e-3, opacities=2.5e-2, sh0=2.5e-3,
                 shN=2.5e-3 / 20 * min(max(len(views) / 25, 1), 8))
    optimizers = {name: torch.optim.Adam([p[name]], lr=rate, eps=1e-15) for name, rate in rates.items()}
    batch = o.batch if len({view[2].shape for view in views}) == 1 else 1
    refine_every, refine_until = max(1, 100 // batch), o.iterations * 5 // 6 // batch  # in steps
    steps, begin = -(-o.iterations // batch), time.perf_counter()
    order = [view for _ in range(-(-steps * batch // len(views))) for view in random.sample(views, len(views))]
    viewmats, Ks = (torch.cat([view[i] for view in order]) for i in range(2))  # cut below: a step costs the host less
    torch.autograd.set_multithreading_enabled(False)  # backward() on this thread: no other has to wake up
    average, averaged = {}, 0  # of the last tenth, whose steps say about the same
    for step in range(1, steps + 1):
        now = slice((step - 1) * batch, step * batch)
        pictures = [picture for _, _, picture in order[now]]
        for name, optimizer in optimizers.items():
            falls = 0.01**(step / steps) if name == "means" else 1
            optimizer.param_groups[0]["lr"] = rates[name] * falls * batch**0.5
        images = render(p, viewmats[now], Ks[now], pictures[0].shape, min(3, step * batch // 1000))
        loss = distwar.l1_ssim_loss(images, pictures)
        loss.backward()
        if step < refine_until:
            density.add_penalty(p["scales"], p["opacities"], 0.01, 0.01)
        optim.step(optimizers.values(), zero_grad=True)
        if 499 // batch < step < refine_until and step % refine_every == 0:
            density.relocate(p, optimizers)
            density.add_copies(p, optimizers, o.most)
        density.add_noise(p["means"], p["quats"], p["scales"], p["opacities"],
                          5e5 * optimizers["means"].param_groups[0]["lr"], o.seed, step)
        if step > 0.9 * steps and step % 2 == 0:
            if averaged == 0:
                average = {name: value.detach().clone() for name, value in p.items()}
            averaged += 1
            for name, value in p.items():
                average[name].add_(value.detach() - average[name], alpha=1 / averaged)
        if step * batch % 500 < batch or step == steps:
            print(f"{step * batch} views: loss {loss.item():.4f}, {len(p['means'])} Gaussians, "
                  f"{step * batch / (time.perf_counter() - begin):.1f} views/s", flush=True)
    with torch.no_grad():
        for name, value in average.items() if averaged else ():
            p[name].copy_(value)


def prepared(p, views, size, o):
    """Optimizers with rates as published, the decay of the means' rate, and the view of each step."""
    rates = dict(means=1.6e-4 * size, scales=5e-3, quats=1e-3, opacities=5e-2, sh0=2.5e-3, shN=2.5e-3 / 20)
    optimizers = {name: torch.optim.Adam([p[name]], lr=rate, eps=1e-15, fused=True) for name, rate in rates.items()}
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizers["means"], 0.01**(1 / o.iterations))
    device = p["means"].device
    views = [(viewmat.to(device), K.to(device), picture) for viewmat, K, picture in views]
    epochs = (random.sample(views, len(views)) for _ in range(-(-o.iterations // len(views))))
    return optimizers, decay, [view for epoch in epochs for view in epoch][:o.iterations]


def train_by_gsplat(p, views, size, o):
    from fused_ssim import fused_ssim
    from gsplat import rasterization
    from gsplat.strategy import DefaultStrategy
    optimizers, decay, order = prepared(p, views, size, o)
    strategy = DefaultStrategy(refine_stop_iter=o.iterations // 2)
    strategy.check_sanity(p, optimizers)
    state = strategy.initialize_state(size)
    for step, (viewmat, K, picture) in enumerate(order):
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


def train_by_default(p, views, size, o):
    optimizers, decay, order = prepared(p, views, size, o)
    sums, until = torch.zeros_like(p["means"][:, :2]), o.iterations // 2
    for step, (viewmat, K, picture) in enumerate(order):
        colors, _, info = distwar.rasterization(
            p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(), (p["sh0"], p["shN"]), viewmat, K,
            picture.shape[1], picture.shape[0], sh_degree=min(3, step // 1000), packed=False)
        if step < until:
            density.sum_gradients(info, sums)
        distwar.l1_ssim_loss(colors[0], picture).backward()
        optim.step(optimizers.values(), zero_grad=True)
        decay.step()
        if 500 < step < until and step % 100 == 0:
            density.grow_and_prune(p, optimizers, sums, size, prune_scale3d=0.1 if step > 3000 else None)
            sums = torch.zeros_like(p["means"][:, :2])
        if 0 < step < until and step % 3000 == 0:
            density.reset_opacities(p, optimizers)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("-o", "--output", default="scene.pt")
    for name, (value, text) in dict(iterations=(7000, "views to train on"), most=(300000, "limit of Gaussians"),
                                    batch=(4, "views of a step; 1 where their sizes differ"),
                                    random=(0, "start from random points; without points in the data 100000"),
                                    downscale=(1, "factor by which photographs are reduced"),
                                    seed=(0, "of all random choices")).items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{text} (default {value})")
    loops = dict(mcmc=train_by_mcmc, gsplat=train_by_gsplat, default=train_by_default)
    parser.add_argument("--loop", choices=loops, default="mcmc", help="whose steps (default mcmc)")
    o = parser.parse_args(arguments)
    if o.batch < 1:
        parser.error(f"--batch {o.batch}: a step needs a view")
    torch.manual_seed(o.seed)
    random.seed(o.seed)
    device = "cuda" if distwar.library().backend == "cuda" else "cpu"
    frames, points = load_frames(o.data)
    views = load(frames, o.downscale, device)
    held_out, training = views[::8], [view for i, view in enumerate(views) if i % 8]
    size = extent(training)
    given = points is not None and len(points) >= 4 and not o.random
    p = start(points if given else random_points(training, o.random or 100000),
              *((0.5, 0.1) if given and o.loop == "mcmc" else (0.1, 1.0)), device)
    begin = time.perf_counter()
    loops[o.loop](p, training, size, o)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        errors = [((render(p, viewmat, K, picture.shape, 3)[0].clamp(0, 1) - picture / 255)**2).mean()
                  for viewmat, K, picture in held_out]
    print(json.dumps(dict(seconds=round(seconds, 2), gaussians=len(p["means"]),
                          held_out_psnr=float(torch.stack([-10 * e.log10() for e in errors]).mean()))))
    torch.save({name: value.detach().cpu() for name, value in p.items()}, o.output)


if __name__ == "__main__":
    main()
