# SPDX-License-Identifier: MIT
"""Trains Gaussians on the photographs of a transforms.json: distwar renders, torch's Adam steps. The density control is
that of Kheradmand et al. 2024 (MCMC), with the settings of `splat train`.

    python train.py DATA --iterations 7000 --random 100000 -o scene.pt
"""
import argparse
import json
import math
import pathlib
import time

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

import distwar

MOST_SHARING = 51  # Gaussians that one relocation puts at one place


def undistorted(picture, m, K):
    """The picture [H, W, 3] that a pinhole sees. m: members of transforms.json; Brown's k1, k2, p1, p2."""
    k1, k2, p1, p2 = (m.get(name, 0.0) for name in ("k1", "k2", "p1", "p2"))
    if k1 == k2 == p1 == p2 == 0:
        return picture
    height, width = picture.shape[:2]
    v, u = torch.meshgrid(torch.arange(height) + 0.5, torch.arange(width) + 0.5, indexing="ij")
    x, y = (u - K[0, 2]) / K[0, 0], (v - K[1, 2]) / K[1, 1]
    r2 = x * x + y * y
    radial = 1 + r2 * (k1 + k2 * r2)
    xd = x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x)
    yd = y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y
    grid = torch.stack(((xd * K[0, 0] + K[0, 2]) * 2 / width - 1, (yd * K[1, 1] + K[1, 2]) * 2 / height - 1), -1)
    planar = picture.permute(2, 0, 1)[None].float()
    out = F.grid_sample(planar, grid[None], mode="bilinear", padding_mode="border", align_corners=False)
    return out[0].permute(1, 2, 0).round().clamp(0, 255).to(torch.uint8)


def load(folder, downscale, device):
    """(name, viewmat, K, picture) of each frame that has a file, by name. Cameras stay on the CPU, where distwar reads
    them without waiting for the GPU."""
    data = json.loads((folder / "transforms.json").read_text())
    views = []
    for frame in sorted(data["frames"], key=lambda f: f["file_path"]):
        path = folder / frame["file_path"]
        if not path.exists():
            print(f"{path}: no such file, skipped")
            continue
        picture = torch.from_numpy(np.array(Image.open(path).convert("RGB")))
        m = {**data, **frame}
        height, width = picture.shape[:2]
        fx = m.get("fl_x") or width / 2 / math.tan(m["camera_angle_x"] / 2)
        K = torch.tensor([[fx, 0, m.get("cx", width / 2)], [0, m.get("fl_y", fx), m.get("cy", height / 2)], [0, 0, 1]])
        picture = undistorted(picture, m, K)
        if downscale > 1:
            height, width = height // downscale * downscale, width // downscale * downscale
            planar = picture[:height, :width].permute(2, 0, 1)[None].float()
            picture = F.avg_pool2d(planar, downscale)[0].permute(1, 2, 0).round().to(torch.uint8)
            K[:2] /= downscale
        to_world = torch.tensor(frame["transform_matrix"], dtype=torch.float64)
        to_world[:3, 1:3] *= -1  # +y up, looking along -z, becomes +y down, looking along +z
        views.append((frame["file_path"], torch.linalg.inv(to_world).float(), K, picture.contiguous().to(device)))
    return views


def random_points(views, count):
    """Points on rays through random pixels, around where the cameras look, with the pixels' colours."""
    to_world = torch.stack([torch.linalg.inv(view[1]) for view in views])
    centers, forward = to_world[:, :3, 3], to_world[:, :3, 2]
    across = torch.eye(3) - forward[:, :, None] * forward[:, None, :]
    focus = torch.linalg.lstsq(across.sum(0), (across @ centers[:, :, None]).sum(0)).solution[:, 0]
    points, colors = [], []
    for view, center, pose in zip(views, centers, to_world):
        n = -(-count // len(views))
        _, _, K, picture = view
        row, column = (torch.rand(n) * picture.shape[0]).long(), (torch.rand(n) * picture.shape[1]).long()
        ray = torch.stack(((column + 0.5 - K[0, 2]) / K[0, 0], (row + 0.5 - K[1, 2]) / K[1, 1], torch.ones(n)), -1)
        depth = torch.linalg.norm(focus - center) * torch.exp(torch.empty(n).uniform_(math.log(0.3), math.log(3)))
        points.append(center + (ray * depth[:, None]) @ pose[:3, :3].T)
        colors.append(picture.cpu()[row, column] / 255)
    return torch.cat(points)[:count], torch.cat(colors)[:count]


def extent(views):
    centers = torch.stack([torch.linalg.inv(view[1])[:3, 3] for view in views])
    return 1.1 * float((centers - centers.mean(0)).norm(dim=1).max())


def start(points, colors, size, device):
    """Parameters by name: logarithms of scales, logits of opacities."""
    n = len(points)
    spacing = size / n**(1 / 3)
    values = dict(means=points, scales=torch.full((n, 3), math.log(spacing)),
                  quats=torch.tensor([[1.0, 0, 0, 0]]).repeat(n, 1), opacities=torch.zeros(n),
                  sh0=((colors - 0.5) / 0.28209479177387814)[:, None], shN=torch.zeros(n, 15, 3))
    return {name: torch.nn.Parameter(value.to(device)) for name, value in values.items()}


def render(p, view, degree):
    _, viewmat, K, picture = view
    return distwar.rasterization(p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(),
                                 torch.cat((p["sh0"], p["shN"]), 1), viewmat[None], K[None], picture.shape[1],
                                 picture.shape[0], sh_degree=degree, packed=False, near_plane=0.01)[0][0]


def relocate(p, optimizer, most):
    """Dead Gaussians move to live ones, and 5% new ones join; each place keeps about its look."""
    with torch.no_grad():
        n = len(p["means"])
        opacity = p["opacities"].sigmoid()
        dead = torch.nonzero(opacity <= 0.005)[:, 0]
        added = min(most, int(1.05 * n)) - n
        to = torch.cat((dead, torch.arange(n, n + added, device=opacity.device)))
        weights = torch.where(opacity > 0.005, opacity, 0)
        source = torch.multinomial(weights.cpu().double(), len(to), replacement=True).to(opacity.device)
        sharing = (torch.bincount(source, minlength=n) + 1).clamp(max=MOST_SHARING)
        share = 1 - (1 - opacity)**(1 / sharing)
        i, k = torch.arange(1, MOST_SHARING + 1), torch.arange(MOST_SHARING)
        binomial = torch.tensor([[math.comb(int(a) - 1, int(b)) for b in k] for a in i], dtype=torch.float64)
        terms = (binomial.cumsum(0) * ((-1.0)**k / (k + 1)**0.5)).to(opacity.device)  # [sharing - 1, k]
        total = (terms[sharing - 1] * share.double()[:, None]**(k.to(opacity.device) + 1)).sum(1)
        growth = torch.log((opacity / total).clamp(min=1e-6)).float()
        moved = sharing > 1
        p["opacities"][moved] = torch.logit(share[moved].clamp(0.005, 1 - 1e-6))
        p["scales"][moved] += growth[moved, None]
        for group in optimizer.param_groups:
            name, old = group["name"], group["params"][0]
            new = torch.cat((old, old.new_zeros((added,) + old.shape[1:])))
            new[to] = new[source]
            state = optimizer.state.pop(old, None)
            p[name] = group["params"][0] = torch.nn.Parameter(new)
            if state:
                for key in ("exp_avg", "exp_avg_sq"):
                    moment = torch.cat((state[key], old.new_zeros((added,) + old.shape[1:])))
                    moment[to], moment[torch.nonzero(moved)[:, 0]] = 0, 0
                    state[key] = moment
                optimizer.state[p[name]] = state


def add_noise(p, scale):
    with torch.no_grad():
        w, v = F.normalize(p["quats"], dim=-1).split((1, 3), -1)

        def turned(x, w):
            t = 2 * torch.linalg.cross(v, x)
            return x + w * t + torch.linalg.cross(v, t)
        noise = turned(torch.randn_like(v), -w) * (2 * p["scales"]).exp()
        strength = torch.sigmoid(-100 * (p["opacities"].sigmoid() - 0.005))
        p["means"] += scale * strength[:, None] * turned(noise, w)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("-o", "--output", default="scene.pt")
    for name, value in dict(iterations=7000, random=100000, most=300000, downscale=1, seed=0).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    o = parser.parse_args()
    torch.manual_seed(o.seed)
    device = "cuda" if distwar.library().backend == "cuda" else "cpu"
    views = load(o.data, o.downscale, device)
    held_out, training = views[::8], [view for i, view in enumerate(views) if i % 8]
    size = extent(training)
    p = start(*random_points(training, o.random), size, device)
    rates = dict(means=1.6e-4 * size, scales=5e-3, quats=1e-3, opacities=5e-2, sh0=2.5e-3, shN=5e-4)
    optimizer = torch.optim.Adam([dict(name=name, params=[p[name]], lr=rate) for name, rate in rates.items()],
                                 eps=1e-15, fused=device == "cuda")
    begin = time.perf_counter()
    for step in range(1, o.iterations + 1):
        view = training[int(torch.randint(len(training), ()))]
        optimizer.param_groups[0]["lr"] = rate = rates["means"] * 0.01**(step / o.iterations)
        image = render(p, view, min(3, step // 1000))
        loss = distwar.l1_ssim_loss(image, view[3])
        loss = loss + 0.01 * p["opacities"].sigmoid().mean() + 0.01 * p["scales"].exp().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if 500 <= step < o.iterations * 5 // 6 and step % 100 == 0:
            relocate(p, optimizer, o.most)
        add_noise(p, 5e5 * rate)
        if step % 500 == 0 or step == o.iterations:
            print(f"step {step}: loss {loss.item():.4f}, {len(p['means'])} Gaussians, "
                  f"{step / (time.perf_counter() - begin):.1f} iterations/s", flush=True)
    with torch.no_grad():
        errors = [((render(p, view, 3).clamp(0, 1) - view[3] / 255)**2).mean() for view in held_out]
    print(json.dumps(dict(iterations_per_second=o.iterations / (time.perf_counter() - begin), gaussians=len(p["means"]),
                          held_out_psnr=float(torch.stack([-10 * e.log10() for e in errors]).mean()))))
    torch.save({name: value.detach().cpu() for name, value in p.items()}, o.output)


if __name__ == "__main__":
    main()
