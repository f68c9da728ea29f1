# SPDX-License-Identifier: MIT
"""Colours of spherical harmonics of any degree, by torch: the kernels end at degree 3."""
import math

import torch
from torch import Tensor


def basis(degree: int, directions: Tensor) -> Tensor:
    """The real harmonics [..., (degree + 1)^2] of unit vectors [..., 3] in the order and with the signs of
    gs_gaussians.sh: in each degree n by m from -n to n, with the sign (-1)^m."""
    x, y, z = directions.unbind(-1)
    one = torch.ones_like(z)
    values, cosine, sine, first = {}, one, torch.zeros_like(z), one
    for m in range(degree + 1):  # cosine, sine: sin^m(theta) by those of m phi; legendre is without sin^m(theta)
        before, legendre = torch.zeros_like(z), first
        for n in range(m, degree + 1):
            scale = math.sqrt((2 * n + 1) / (4 * math.pi) * math.factorial(n - m) / math.factorial(n + m))
            scale *= math.sqrt(2) if m else 1
            values[n, m] = scale * legendre * cosine
            values[n, -m] = scale * legendre * sine if m else values[n, m]
            before, legendre = legendre, ((2 * n + 1) * z * legendre - (n + m) * before) / (n + 1 - m)
        cosine, sine, first = x * cosine - y * sine, x * sine + y * cosine, -(2 * m + 1) * first
    return torch.stack([values[n, m] for n in range(degree + 1) for m in range(-n, n + 1)], -1)


def colors_of(degree: int, means: Tensor, coefficients: Tensor, viewmats: Tensor) -> Tensor:
    """[..., C, N, 3], at least 0, as the kernels have them for lower degrees. means [..., N, 3], coefficients
    [..., N, K, 3] or [..., C, N, K, 3], viewmats [..., C, 4, 4]. Has gradients by all three."""
    viewmats = viewmats.to(means.device)
    centers = -(viewmats[..., :3, :3].mT @ viewmats[..., :3, 3:]).mT  # [..., C, 1, 3]
    directions = torch.nn.functional.normalize(means.unsqueeze(-3) - centers, dim=-1)
    if coefficients.dim() == means.dim() + 1:
        coefficients = coefficients.unsqueeze(-4)
    weights = basis(degree, directions).unsqueeze(-1)
    return ((weights * coefficients[..., :(degree + 1)**2, :]).sum(-2) + 0.5).clamp(min=0)
