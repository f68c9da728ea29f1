# SPDX-License-Identifier: MIT
"""Density control for trainers with optimizers of torch: the steps of densification by gradients (Kerbl et al. 2023) and by
Markov chain Monte Carlo (Kheradmand et al. 2024) as functions that a loop calls when it wants to. A step that
clones, splits and prunes writes each parameter and its moments once. python/README.md has a loop.

params: tensors by name, a dictionary or a ParameterDict: means [N, 3], scales [N, 3] as logarithms, quats [N, 4] as w, x, y, z,
opacities [N] as logits, and others [N, ...]. optimizers: by the same names, an optimizer for each parameter. Parameters with
new rows are new tensors in both. Parameters that a call has changed have no gradient afterwards, so that the next step of
their optimizers passes them over.

gsplat.DefaultStrategy works on the meta of distwar.rasterization() as it is. gsplat.MCMCStrategy needs gsplat's compiled
kernels, which the wheel on PyPI does not have, or provide_to_gsplat().
"""
from __future__ import annotations

import functools
import importlib
import math
from ctypes import byref
from typing import Any, MutableMapping

import torch
from torch import Tensor

from . import gs
from ._tensors import library_of, on
from ._torch import Meta

Params = MutableMapping[str, Any]
Optimizers = dict[str, torch.optim.Optimizer]
_WIDTHS = {"mean": 3, "log_scale": 3, "quaternion": 4, "opacity_logit": 1}  # of a row, by the names of gs_gaussians


def _gaussians(count: int, device: torch.device, **arrays: Tensor | None) -> Any:
    """gs_gaussians of parameters; members that the call does not read get an address that is not NULL."""
    at = {}
    for name, array in arrays.items():
        if array is None or array.dtype != torch.float32 or not array.is_contiguous() or array.device != device or \
                array.numel() != count * _WIDTHS[name]:
            raise ValueError(f"distwar.density: {name} must be contiguous and float32, {count} times {_WIDTHS[name]} values on "
                             f"{device}")
        at[name] = array.data_ptr()
    return gs.Gaussians(count=count, **{**dict.fromkeys((*_WIDTHS, "sh"), max(at.values())), **at})


def add_noise(means: Tensor, quats: Tensor, log_scales: Tensor, opacity_logits: Tensor, scale: float, seed: int,
              step: int) -> None:
    """Adds scale S C n to means [N, 3], in place: C is a Gaussian's covariance, n standard normal, S = 1 / (1 +
    exp(100 (opacity - 0.005))); along an axis of size s > 1 / scale the deviation is S s, not S scale s^2. It depends
    on seed and step alone. quats [N, 4], log_scales [N, 3], opacity_logits [N]."""
    with on(means):
        g = _gaussians(len(means), means.device, mean=means, quaternion=quats, log_scale=log_scales,
                       opacity_logit=opacity_logits)
        library_of(means.device).call("gs_density_noise", byref(g), 0, scale, seed, step)


def add_penalty(log_scales: Tensor, opacity_logits: Tensor, opacity_weight: float, scale_weight: float) -> None:
    """Adds to log_scales.grad and opacity_logits.grad the gradients of opacity_weight mean(opacity) + scale_weight
    mean(scale). log_scales [N, 3], opacity_logits [N]."""
    with on(log_scales):
        n, device = len(log_scales), log_scales.device
        g = _gaussians(n, device, log_scale=log_scales, opacity_logit=opacity_logits)
        d = _gaussians(n, device, log_scale=log_scales.grad, opacity_logit=opacity_logits.grad)
        library_of(device).call("gs_density_penalty", byref(g), n, opacity_weight, scale_weight, byref(d))


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


def sum_gradients(info: MutableMapping[str, Any], sums: Tensor) -> None:
    """Before backward(): lets each backward pass of the call that made `info` add to sums [N, 2] the length of each Gaussian's
    gradient by its mean in the image, in units of half the image, and 1 where it is in view. Of one camera, whose pose has no
    gradient, and before anybody asks for info["means2d"]; else its .grad or .absgrad has what is to be summed."""
    if not isinstance(info, Meta) or not info.sum_in_backward(sums):
        raise NotImplementedError("distwar.density: sums of gradients are made of calls with one camera, without a gradient of "
                                  'its pose, for which nobody has asked info["means2d"]')


def _moments(optimizer: torch.optim.Optimizer | None, p: Tensor) -> dict[str, Tensor]:
    """What an optimizer remembers of each row of a parameter."""
    state = {} if optimizer is None else optimizer.state.get(p, {})
    return {key: a for key, a in state.items() if isinstance(a, Tensor) and a.shape == p.shape}


def _take(params: Params, optimizers: Optimizers, source: Tensor, fresh: Tensor, changed: dict[str, Tensor]) -> None:
    """Replaces each parameter: its row i is row source[i], or row i of changed[name]. Moments of fresh rows are 0."""
    for name, p in list(params.items()):
        new = torch.nn.Parameter(changed[name] if name in changed else p.detach()[source], p.requires_grad)
        optimizer = optimizers.get(name)
        if optimizer is not None:
            if len(optimizer.param_groups) != 1 or len(optimizer.param_groups[0]["params"]) != 1:
                raise ValueError(f"distwar.density: the optimizer of {name} must have one group with one parameter")
            moments = {key: a[source].masked_fill_(fresh.view(-1, *[1] * (a.dim() - 1)), 0)
                       for key, a in _moments(optimizer, p).items()}
            state = optimizer.state.pop(p, None)
            if state is not None:
                optimizer.state[new] = {**state, **moments}
            optimizer.param_groups[0]["params"] = [new]
        params[name] = new


@torch.no_grad()
def grow_and_prune(params: Params, optimizers: Optimizers, sums: Tensor, scene_scale: float = 1.0,
                   grow_grad2d: float = 0.0002, grow_scale3d: float = 0.01, prune_opa: float = 0.005,
                   prune_scale3d: float | None = None, revised_opacity: bool = False) -> None:
    """Gaussians whose mean gradient, of sums [N, 2], is above grow_grad2d are cloned where their largest scale is up to
    grow_scale3d scene_scale, and else split in two, smaller by 1.6; with revised_opacity the two together are as opaque as the
    one was. Then those of an opacity below prune_opa go, and those larger than prune_scale3d scene_scale."""
    scales = params["scales"].detach()
    grows = sums[:, 0] / sums[:, 1].clamp(min=1) > grow_grad2d
    small = scales.amax(-1).exp() <= grow_scale3d * scene_scale
    split = grows & ~small
    kept, clones, halves = (torch.nonzero(a)[:, 0] for a in (~split, grows & small, split))
    old, new = torch.cat((kept, clones)), torch.cat((halves, halves))
    source, fresh = torch.cat((old, new)), torch.ones(len(old) + len(new), dtype=torch.bool, device=scales.device)
    fresh[:len(kept)] = False
    changed = {name: params[name].detach()[source] for name in ("means", "scales", "opacities")}
    if len(halves):
        axes = rotations(params["quats"].detach()[halves]) * scales[halves].exp()[:, None]
        noise = torch.randn(2, len(halves), 3, device=scales.device)
        changed["means"][len(old):] += torch.einsum("nij,bnj->bni", axes, noise).reshape(-1, 3)
        changed["scales"][len(old):] -= math.log(1.6)
        if revised_opacity:
            opacity = changed["opacities"][len(old):].sigmoid()
            changed["opacities"][len(old):] = torch.logit(1 - torch.sqrt(1 - opacity))
    prune = changed["opacities"].view(-1).sigmoid() < prune_opa
    if prune_scale3d is not None:
        prune |= changed["scales"].amax(-1).exp() > prune_scale3d * scene_scale
    keep = torch.nonzero(~prune)[:, 0]
    _take(params, optimizers, source[keep], fresh[keep], {name: a[keep] for name, a in changed.items()})


@torch.no_grad()
def reset_opacities(params: Params, optimizers: Optimizers, most: float = 0.01) -> None:
    """Cuts opacities to `most`; their moments are then 0."""
    p = params["opacities"]
    p.clamp_(max=math.log(most / (1 - most)))
    p.grad = None
    for a in _moments(optimizers.get("opacities"), p).values():
        a.zero_()


def _draw(weights: Tensor, count: int) -> Tensor:
    """`count` indices, drawn with probabilities proportional to weights, with replacement."""
    if len(weights) < 2**24:  # torch.multinomial's limit
        return torch.multinomial(weights, count, replacement=True)
    sums = weights.double().cumsum(0)
    at = torch.rand(count, dtype=torch.float64, device=weights.device) * sums[-1]
    return torch.searchsorted(sums, at).clamp(max=len(weights) - 1)


def _share(params: Params, sampled: Tensor, min_opacity: float) -> None:
    """Divides each sampled Gaussian among itself and its copies, which together look as it did."""
    opacities, scales = params["opacities"].detach(), params["scales"].detach()
    opacity, scale = compute_relocation(
        opacities.view(-1)[sampled].sigmoid(), scales[sampled].exp(),
        torch.bincount(sampled, minlength=len(scales))[sampled] + 1, binomials(51, scales.device), min_opacity)
    opacities.view(-1)[sampled], scales[sampled] = opacity.logit(), scale.log()


@torch.no_grad()
def relocate(params: Params, optimizers: Optimizers, min_opacity: float = 0.005) -> int:
    """Gaussians of an opacity up to min_opacity become copies of others, drawn by opacity, which together look as the one did.
    Returns their number."""
    opacity = params["opacities"].detach().view(-1).sigmoid()
    is_dead = opacity <= min_opacity
    dead, alive = torch.nonzero(is_dead)[:, 0], torch.nonzero(~is_dead)[:, 0]
    if len(dead) and len(alive):
        sampled = alive[_draw(opacity[alive], len(dead))]
        _share(params, sampled, min_opacity)
        for name, p in params.items():
            p.detach()[dead] = p.detach()[sampled]
            p.grad = None
            for a in _moments(optimizers.get(name), p).values():
                a.index_fill_(0, sampled, 0)  # a number for a[sampled] is copied from the host
    return len(dead)


@torch.no_grad()
def add_copies(params: Params, optimizers: Optimizers, most: int, growth: float = 1.05, min_opacity: float = 0.005) -> int:
    """Adds copies of Gaussians, as relocate() makes them, until there are `growth` times as many, and `most` at most. Returns
    their number."""
    count = len(params["means"])
    added = max(0, min(most, int(growth * count)) - count)
    if added:
        sampled = _draw(params["opacities"].detach().view(-1).sigmoid(), added)
        _share(params, sampled, min_opacity)
        source = torch.cat((torch.arange(count, device=sampled.device), sampled))
        _take(params, optimizers, source, torch.arange(len(source), device=sampled.device) >= count, {})
    return added


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
