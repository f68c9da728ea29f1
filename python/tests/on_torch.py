# SPDX-License-Identifier: MIT
"""Scenes on the device of the library, as torch tensors, and what rasterization() makes of them."""
import unittest

import numpy as np
import torch

import distwar
from distwar import density

DEVICE = "cuda" if distwar.library().backend == "cuda" else "cpu"
NAMES = ("means", "quats", "scales", "opacities", "colors", "viewmats", "Ks")


def setUpModule():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise unittest.SkipTest("there is no GPU here")
    torch.manual_seed(0)


def tensors(s, names=NAMES, device=DEVICE):
    """The scene on the device; the arguments in names want gradients."""
    return {name: torch.tensor(a, device=device, requires_grad=name in names) if isinstance(a, np.ndarray) else a
            for name, a in s.items()}


def formulas(s, view, K, eps2d=0.3, antialiased=False, screen=None):
    """The published formulas for one camera, in double precision with torch's gradients: colours [H, W, D], alphas, sums of
    weights times depths and of weights over depths [H, W], radii [N]. s: as rasterization() takes it, on the CPU. The means
    of the splats at each pixel are moved by screen [N, H, W, 2]."""
    p, covars, (fx, fy, cx, cy) = s["means"] @ view[:3, :3].mT + view[:3, 3], s.get("covars"), K[[0, 1, 0, 1], [0, 1, 2, 2]]
    if covars is None:
        axes = density.rotations(s["quats"]) * s["scales"][:, None]
        covars = axes @ axes.mT
    x, y, z = p.unbind(-1)
    zero, one = torch.zeros_like(z), torch.ones_like(z)
    if s.get("camera_model") == "ortho":
        J, means = (fx * one, zero, zero, zero, fy * one, zero), (fx * x + cx, fy * y + cy)
    else:
        J, means = (fx / z, zero, -fx * x / z**2, zero, fy / z, -fy * y / z**2), (fx * x / z + cx, fy * y / z + cy)
    J, means = torch.stack(J, -1).view(-1, 2, 3), torch.stack(means, -1)
    sharp = J @ view[:3, :3] @ (covars + covars.mT) @ view[:3, :3].mT @ J.mT / 2
    blurred = sharp + eps2d * torch.eye(2, dtype=torch.float64)
    opacities, colors, conics = s["opacities"], s["colors"], torch.linalg.inv(blurred)
    if antialiased:
        opacities = opacities * (torch.linalg.det(sharp) / torch.linalg.det(blurred)).clamp(min=2.5e-5).sqrt()
    if colors.dim() == 3:
        x, y, z = torch.nn.functional.normalize(s["means"] + view[:3, 3] @ view[:3, :3], dim=-1).unbind(-1)
        basis = torch.stack((0.28209479177387814 + 0 * x, *(0.4886025119029199 * a for a in (-y, z, -x))), -1)
        colors = ((basis[..., None] * colors[:, :4]).sum(1) + 0.5).clamp(min=0)
    at = torch.stack(torch.meshgrid(torch.arange(s["width"]) + 0.5, torch.arange(s["height"]) + 0.5, indexing="xy"), -1).double()
    weights, passed, stopped = torch.zeros(0, *at.shape[:2]).double(), torch.ones(at.shape[:2]).double(), False
    order = torch.argsort(p[:, 2].detach())
    for i in order.tolist():
        d = at - (means[i] if screen is None else means[i] + screen[i])
        alpha = (opacities[i] * torch.exp(-0.5 * torch.einsum("hwi,ij,hwj->hw", d, conics[i], d))).clamp(max=0.99)
        alpha = torch.where(alpha < 1 / 255, 0, alpha)
        stopped = stopped | (passed * (1 - alpha) < 1e-4)
        weights = torch.cat((weights, torch.where(stopped, 0, alpha * passed)[None]))
        passed = torch.where(stopped, passed, passed * (1 - alpha))
    sums = [torch.einsum("nhw,n...->hw...", weights, of[order]) for of in (colors, one, p[:, 2], 1 / p[:, 2])]
    return *sums, torch.ceil(3 * torch.linalg.eigvalsh(blurred)[:, -1].sqrt())


def render(s, **options):
    return distwar.rasterization(**s, **dict(dict(packed=False), **options))


def gradients(s, **options):
    """The gradients of a fixed loss of colours and alphas, by name."""
    colors, alphas, meta = render(s, **options)
    generator = torch.Generator().manual_seed(3)
    d_colors, d_alphas = (torch.randn(a.shape, generator=generator).to(a) for a in (colors, alphas))
    ((colors * d_colors).sum() + (alphas * d_alphas).sum()).backward()
    return {name: s[name].grad for name in NAMES if s[name] is not None}, meta
