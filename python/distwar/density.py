# SPDX-License-Identifier: MIT
"""Density control by Markov chain Monte Carlo (Kheradmand et al. 2024) for trainers with optimizers of torch: noise and
penalties by libdistwar_gs, and the two functions of gsplat that its MCMCStrategy calls in compiled kernels.

gsplat.DefaultStrategy works on the meta of distwar.rasterization() as it is. gsplat.MCMCStrategy needs gsplat's
compiled kernels, which the wheel on PyPI does not have, or

    distwar.density.provide_to_gsplat()
"""
from __future__ import annotations

import functools
import importlib
import math
import struct
from ctypes import byref, sizeof
from typing import Any

import torch
from torch import Tensor

from . import gs
from ._tensors import On, library_of, stream_of


_WIDTHS = {"mean": 3, "log_scale": 3, "quaternion": 4, "opacity_logit": 1}  # in the order of gs_gaussians
_pack = struct.Struct("<qi4x8Q24x").pack
assert struct.calcsize("<qi4x8Q24x") == sizeof(gs.Gaussians) and gs.Gaussians.mean.offset == 16


def _gaussians(count: int, device: torch.device, **arrays: Tensor | None) -> Any:
    """gs_gaussians of parameters; members that the call does not read get an address that is not NULL."""
    at = []
    for name, width in _WIDTHS.items():
        if name not in arrays:
            at.append(0)
            continue
        array = arrays[name]
        if array is None or array.dtype != torch.float32 or not array.is_contiguous() or array.numel() != count * width or \
                array.device != device:
            raise ValueError(f"distwar.density: {name} must be contiguous and float32, {count} times {width} values on "
                             f"{device}")
        at.append(array.data_ptr())
    unread = max(at)
    return gs.Gaussians.from_buffer_copy(_pack(count, 0, *[address or unread for address in at], unread, 0, 0, 0))


def add_noise(means: Tensor, quats: Tensor, log_scales: Tensor, opacity_logits: Tensor, scale: float, seed: int,
              step: int) -> None:
    """Adds scale S C n to means [N, 3], in place: C is a Gaussian's covariance, n standard normal, S = 1 / (1 +
    exp(100 (opacity - 0.005))); along an axis of size s > 1 / scale the deviation is S s, not S scale s^2. It depends
    on seed and step alone. quats [N, 4], log_scales [N, 3], opacity_logits [N]."""
    with On(means):
        g = _gaussians(len(means), means.device, mean=means, quaternion=quats, log_scale=log_scales,
                       opacity_logit=opacity_logits)
        library_of(means.device).call_on("gs_density_noise", byref(g), 0, scale, seed, step, stream_of(means.device))


def add_penalty(log_scales: Tensor, opacity_logits: Tensor, opacity_weight: float, scale_weight: float) -> None:
    """Adds to log_scales.grad and opacity_logits.grad the gradients of opacity_weight mean(opacity) + scale_weight
    mean(scale). log_scales [N, 3], opacity_logits [N]."""
    with On(log_scales):
        n, device = len(log_scales), log_scales.device
        g = _gaussians(n, device, log_scale=log_scales, opacity_logit=opacity_logits)
        d = _gaussians(n, device, log_scale=log_scales.grad, opacity_logit=opacity_logits.grad)
        library_of(device).call_on("gs_density_penalty", byref(g), n, opacity_weight, scale_weight, byref(d),
                                   stream_of(device))


@functools.lru_cache(maxsize=8)
def binomials(most: int, device: str | torch.device = "cpu") -> Tensor:
    """[most, most]: element n, k is n over k."""
    return torch.tensor([[math.comb(n, k) for k in range(most)] for n in range(most)], dtype=torch.float32,
                        device=device)


@torch.no_grad()
def compute_relocation(opacities: Tensor, scales: Tensor, ratios: Tensor, binoms: Tensor,
                       min_opacity: float | None = None) -> tuple[Tensor, Tensor]:
    """Opacities [N] and scales [N, 3] of ratios [N] Gaussians that together look about as one of `opacities` [N] and
    `scales` [N, 3] did. binoms: binomials(most); ratios are cut to 1 and `most`. min_opacity: opacities are then at
    least that and below 1. The arguments and results are those of gsplat.relocation.compute_relocation."""
    ratios = ratios.to(opacities.device).long().reshape(-1).clamp(1, binoms.shape[0])
    most = int(ratios.max()) if ratios.numel() else 1  # terms beyond the largest ratio are not used
    opacity = opacities.double()
    share = -torch.expm1(torch.log1p(-opacity) / ratios)
    k = torch.arange(most, device=opacity.device, dtype=torch.float64)
    terms = binoms[:most, :most].to(opacity).cumsum(0) * (1 - 2 * (k % 2)) / (k + 1).sqrt()
    area = (terms[ratios - 1] * share[:, None]**(k + 1)).sum(1)
    shared = share.to(opacities.dtype)
    if min_opacity is not None:
        shared = shared.clamp(min_opacity, 1 - torch.finfo(shared.dtype).eps)
    return shared, (scales * (opacity / area)[:, None]).to(scales.dtype)


def rotations(quats: Tensor) -> Tensor:
    """Rotation matrices [..., 3, 3] of quaternions [..., 4] as w, x, y, z, of any length."""
    w, x, y, z = torch.nn.functional.normalize(quats, dim=-1).unbind(-1)
    rows = torch.stack((1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
                        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
                        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)), -1)
    return rows.view(*quats.shape[:-1], 3, 3)


def quat_scale_to_covar_preci(quats: Tensor, scales: Tensor, compute_covar: bool = True, compute_preci: bool = True,
                              triu: bool = False) -> tuple[Tensor | None, Tensor | None]:
    """Covariances and precisions [..., 3, 3] of quaternions [..., 4] as w, x, y, z, of any length, and scales [..., 3],
    or None; with triu their upper triangles [..., 6]. As gsplat.quat_scale_to_covar_preci."""
    rotation = rotations(quats)

    def product(lengths: Tensor) -> Tensor:
        axes = rotation * lengths[..., None, :]
        whole = axes @ axes.transpose(-1, -2)
        return whole.flatten(-2)[..., [0, 1, 2, 4, 5, 8]] if triu else whole
    return product(scales) if compute_covar else None, product(1 / scales) if compute_preci else None


def provide_to_gsplat() -> None:
    """Lets gsplat's strategies use compute_relocation and quat_scale_to_covar_preci of this module, in place of those
    in gsplat's compiled kernels. For the rest of the process."""
    ops = importlib.import_module("gsplat.strategy.ops")
    for function in (compute_relocation, quat_scale_to_covar_preci):
        if not hasattr(ops, function.__name__):
            raise RuntimeError(f"distwar.density: gsplat.strategy.ops of this version has no {function.__name__}")
        setattr(ops, function.__name__, function)
