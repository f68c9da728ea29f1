# SPDX-License-Identifier: MIT
"""Scenes on the device of the library, as torch tensors, and what rasterization() makes of them."""
import unittest

import numpy as np
import torch

import distwar

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


def render(s, **options):
    return distwar.rasterization(**s, **dict(dict(packed=False), **options))


def gradients(s, **options):
    """The gradients of a fixed loss of colours and alphas, by name."""
    colors, alphas, meta = render(s, **options)
    generator = torch.Generator().manual_seed(3)
    d_colors, d_alphas = (torch.randn(a.shape, generator=generator).to(a) for a in (colors, alphas))
    ((colors * d_colors).sum() + (alphas * d_alphas).sum()).backward()
    return {name: s[name].grad for name in NAMES if s[name] is not None}, meta
