# SPDX-License-Identifier: MIT
"""Trains Gaussians on photographs with known cameras: distwar renders, torch's Adam steps. The density control is that
of Kheradmand et al. 2024 (MCMC), with the settings of `dsplat train`.

    python train.py DATA -o scene.pt      # DATA: sparse/0/*.bin of COLMAP, or a transforms.json, and the photographs
"""
import argparse
import json
import pathlib
import random
import time

import torch
from views import load, load_frames, random_points

import distwar
from distwar import density, neighbors

SH_REST = 0.2  # coefficients after the first are stored divided by this, so that Adam steps them more slowly
SH_CONSTANT = 0.28209479177387814
MOST_SHARING = 51  # Gaussians that one relocation puts at one place


def extent(views):
    centers = torch.stack([torch.linalg.inv(viewmat[0])[:3, 3] for viewmat, _, _ in views])
    return 1.1 * float((centers - centers.mean(0)).norm(dim=1).max())


def start(points, opacity, size, device):
    """Parameters by name from points [N, 6] with colours: logarithms of scales, logits of opacities."""
    points = torch.as_tensor(points, dtype=torch.float32, device=device)
    n, spacing = len(points), neighbors.three_nearest(points[:, :3]).sqrt()
    sh = torch.zeros(n, 16, 3, device=device)
    sh[:, 0] = (points[:, 3:] / 255 - 0.5) / SH_CONSTANT
    values = dict(means=points[:, :3].clone(), scales=(size * spacing).clamp(min=1e-7).log()[:, None].repeat(1, 3),
                  quats=torch.tensor([[1.0, 0, 0, 0]], device=device).repeat(n, 1),
                  opacities=torch.full((n,), opacity, device=device).logit(), sh=sh)
    return {name: torch.nn.Parameter(value) for name, value in values.items()}


def render(p, sh_rates, view, degree):
    viewmat, K, picture = view
    return distwar.rasterization(p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(),
                                 p["sh"] * sh_rates, viewmat, K, picture.shape[1], picture.shape[0], sh_degree=degree,
                                 packed=False)[0][0]


@torch.no_grad()
def relocate(p, optimizer, most):
    """Dead Gaussians move to live ones, and 5% new ones join; each place keeps about its look."""
    n, opacity = len(p["means"]), p["opacities"].sigmoid()
    dead = torch.nonzero(opacity <= 0.005)[:, 0]
    added = min(most, int(1.05 * n)) - n
    to = torch.cat((dead, torch.arange(n, n + added, device=opacity.device)))
    weights = torch.where(opacity > 0.005, opacity, 0)
    source = torch.multinomial(weights.cpu().double(), len(to), replacement=True).to(opacity.device)
    sharing = torch.bincount(source, minlength=n) + 1
    moved = torch.nonzero(sharing > 1)[:, 0]
    share, scales = density.compute_relocation(opacity[moved], p["scales"][moved].exp(), sharing[moved],
                                               density.binomials(MOST_SHARING, opacity.device))
    p["opacities"][moved] = torch.logit(share.clamp(0.005, 1 - 1e-6))
    p["scales"][moved] = scales.log()
    for group in optimizer.param_groups:
        name, old = group["name"], group["params"][0]
        new = torch.cat((old, old.new_zeros((added,) + old.shape[1:])))
        new[to] = new[source]
        state = optimizer.state.pop(old, None)
        p[name] = group["params"][0] = torch.nn.Parameter(new)
        if state:
            for key in ("exp_avg", "exp_avg_sq"):
                moment = torch.cat((state[key], old.new_zeros((added,) + old.shape[1:])))
                moment[to], moment[moved] = 0, 0
                state[key] = moment
            optimizer.state[p[name]] = state


def train(p, views, size, o):
    """Trains for o.iterations steps. Returns the steps a second."""
    device = p["means"].device
    rates = dict(means=1.6e-4 * size, scales=5e-3, quats=1e-3, opacities=5e-2, sh=2.5e-3)
    optimizer = torch.optim.Adam([dict(name=name, params=[p[name]], lr=rate) for name, rate in rates.items()],
                                 eps=1e-15, fused=True)
    sh_rates = torch.full((16, 1), SH_REST, device=device)
    sh_rates[0] = 1
    order, begin = [], time.perf_counter()
    for step in range(1, o.iterations + 1):
        order = order or random.sample(views, len(views))
        view = order.pop()
        optimizer.param_groups[0]["lr"] = rate = rates["means"] * 0.01**(step / o.iterations)
        loss = distwar.l1_ssim_loss(render(p, sh_rates, view, min(3, step // 1000)), view[2])
        loss.backward()
        density.add_penalty(p["scales"], p["opacities"], 0.01, 0.01)
        optimizer.step()
        optimizer.zero_grad()
        if 500 <= step < o.iterations * 5 // 6 and step % 100 == 0:
            relocate(p, optimizer, o.most)
        density.add_noise(p["means"], p["quats"], p["scales"], p["opacities"], 5e5 * rate, o.seed, step)
        if step % 500 == 0 or step == o.iterations:
            print(f"step {step}: loss {loss.item():.4f}, {len(p['means'])} Gaussians, "
                  f"{step / (time.perf_counter() - begin):.1f} steps/s", flush=True)
    with torch.no_grad():
        p["sh"].mul_(sh_rates)
    return o.iterations / (time.perf_counter() - begin)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("-o", "--output", default="scene.pt")
    for name, (value, text) in dict(iterations=(7000, "steps of Adam"), most=(300000, "limit of Gaussians"),
                                    random=(0, "start from random points; without points in the data 100000"),
                                    downscale=(1, "factor by which photographs are reduced"),
                                    seed=(0, "of all random choices")).items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"{text} (default {value})")
    o = parser.parse_args(arguments)
    torch.manual_seed(o.seed)
    random.seed(o.seed)
    device = "cuda" if distwar.library().backend == "cuda" else "cpu"
    frames, points = load_frames(o.data)
    views = load(frames, o.downscale, device)
    held_out, training = views[::8], [view for i, view in enumerate(views) if i % 8]
    size = extent(training)
    if o.random > 0 or points is None or len(points) < 4:
        p = start(random_points(training, o.random or 100000), 0.1, 1.0, device)
    else:
        p = start(points, 0.5, 0.1, device)
    rate = train(p, training, size, o)
    with torch.no_grad():
        errors = [((render(p, 1, view, 3).clamp(0, 1) - view[2] / 255)**2).mean() for view in held_out]
    print(json.dumps(dict(steps_per_second=rate, gaussians=len(p["means"]),
                          held_out_psnr=float(torch.stack([-10 * e.log10() for e in errors]).mean()))))
    torch.save({name: value.detach().cpu() for name, value in p.items()}, o.output)


if __name__ == "__main__":
    main()
