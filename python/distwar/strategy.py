# SPDX-License-Identifier: MIT
"""Density control for trainers with the loop of gsplat: strategies of the same calls and defaults. A refinement writes
each parameter and moment once, in place of once for each of cloning, splitting and pruning.

    strategy = distwar.strategy.DefaultStrategy()       # or MCMCStrategy()
    strategy.check_sanity(params, optimizers)
    state = strategy.initialize_state(scene_scale)      # MCMCStrategy: without arguments
    colors, alphas, info = distwar.rasterization(...)
    strategy.step_pre_backward(params, optimizers, state, step, info)
    loss.backward()
    strategy.step_post_backward(params, optimizers, state, step, info, packed)     # MCMCStrategy: lr of the means

params: tensors by name, a dictionary or a ParameterDict: means [N, 3], scales [N, 3] as logarithms, quats [N, 4] as w,
x, y, z, opacities [N] as logits, and others [N, ...]. optimizers: by the same names, an optimizer for each parameter.
Parameters with new rows are new tensors in both. Parameters that a call has changed have no gradient afterwards, so
that the next step of their optimizers passes them over.
"""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, MutableMapping

import torch
from torch import Tensor

from . import density
from ._meta import Meta

Params = MutableMapping[str, Any]
Optimizers = dict[str, torch.optim.Optimizer]
State = dict[str, Any]
NEEDED = ("means", "scales", "quats", "opacities")


def _moments(optimizer: torch.optim.Optimizer | None, p: Tensor) -> dict[str, Tensor]:
    """What an optimizer remembers of each row of a parameter."""
    state = {} if optimizer is None else optimizer.state.get(p, {})
    return {key: a for key, a in state.items() if isinstance(a, Tensor) and a.shape == p.shape}


def _take(params: Params, optimizers: Optimizers, source: Tensor, fresh: Tensor, changed: dict[str, Tensor]) -> None:
    """Lets row i of each parameter be row source[i], or row i of what `changed` has. Moments of fresh rows are 0."""
    for name, p in list(params.items()):
        new = torch.nn.Parameter(changed[name] if name in changed else p.detach()[source], p.requires_grad)
        optimizer = optimizers.get(name)
        if optimizer is not None:
            moments = {key: a[source].masked_fill_(fresh.view(-1, *[1] * (a.dim() - 1)), 0)
                       for key, a in _moments(optimizer, p).items()}
            state = optimizer.state.pop(p, None)
            if state is not None:
                optimizer.state[new] = {**state, **moments}
            optimizer.param_groups[0]["params"] = [new]
        params[name] = new


@functools.lru_cache(maxsize=64)
def _half_size(width: int, height: int, device: torch.device) -> Tensor:
    return torch.tensor([width / 2, height / 2], device=device)


def _draw(weights: Tensor, count: int) -> Tensor:
    """`count` indices, drawn with probabilities proportional to weights, with replacement."""
    if len(weights) < 2**24:
        return torch.multinomial(weights, count, replacement=True)
    sums = weights.double().cumsum(0)
    at = torch.rand(count, dtype=torch.float64, device=weights.device) * sums[-1]
    return torch.searchsorted(sums, at).clamp(max=len(weights) - 1)


class Strategy:
    """What both have in common."""

    def check_sanity(self, params: Params, optimizers: Optimizers) -> None:
        """Raises ValueError unless the strategy can work on them."""
        for name in NEEDED:
            if name not in params:
                raise ValueError(f"distwar.strategy: params has no {name}")
        trained = {name for name, p in params.items() if p.requires_grad}
        if trained != set(optimizers):
            raise ValueError(f"distwar.strategy: there are optimizers for {sorted(optimizers)}, not for "
                             f"{sorted(trained)}")
        for name, optimizer in optimizers.items():
            if len(optimizer.param_groups) != 1 or len(optimizer.param_groups[0]["params"]) != 1:
                raise ValueError(f"distwar.strategy: the optimizer of {name} must have one group with one parameter")


@dataclass
class DefaultStrategy(Strategy):
    """Clones, splits and prunes by the gradients of the means in the image (Kerbl et al. 2023)."""
    prune_opa: float = 0.005  # less opaque Gaussians are pruned
    grow_grad2d: float = 0.0002  # Gaussians of larger mean gradients, in units of half the image, grow
    grow_scale3d: float = 0.01  # times scene_scale: growing Gaussians up to that are cloned, others split
    grow_scale2d: float = 0.05  # of the larger side of the image: larger splats are split
    prune_scale3d: float = 0.1  # times scene_scale: larger Gaussians are pruned, after the first reset
    prune_scale2d: float = 0.15  # of the larger side of the image: larger splats are pruned
    refine_scale2d_stop_iter: int = 0  # before it the sizes of splats count
    refine_start_iter: int = 500
    refine_stop_iter: int = 15_000
    reset_every: int = 3000  # opacities are cut to 2 prune_opa
    refine_every: int = 100
    pause_refine_after_reset: int = 0  # steps
    absgrad: bool = False
    revised_opacity: bool = False  # the two of a split together are as opaque as the one was
    verbose: bool = False
    key_for_gradient: str = "means2d"

    def initialize_state(self, scene_scale: float = 1.0) -> State:
        state = {"grad2d": None, "count": None, "scene_scale": scene_scale}
        return {**state, "radii": None} if self.refine_scale2d_stop_iter > 0 else state

    def step_pre_backward(self, params: Params, optimizers: Optimizers, state: State, step: int,
                          info: dict[str, Any]) -> None:
        """Before refine_stop_iter: lets info["means2d"] keep its gradient; or each backward pass of distwar.rasterization of
        one camera add to grad2d and count. Where a step has several passes, ask for info["means2d"] before."""
        if step >= self.refine_stop_iter:
            return
        state["summed"] = False
        if isinstance(info, Meta) and not self.absgrad and self.key_for_gradient == "means2d" and \
                self.refine_scale2d_stop_iter == 0:
            sums = self._sums(state, params["means"])
            state["summed"] = sums is not None and info.sum_in_backward(sums)
        if not state["summed"]:
            info[self.key_for_gradient].retain_grad()

    @staticmethod
    def _sums(state: State, means: Tensor) -> Tensor | None:
        """[N, 2], of which grad2d and count are columns; None: they are somebody's own."""
        if state["grad2d"] is None:
            sums = torch.zeros(len(means), 2, device=means.device)
            state.update(grad2d=sums[:, 0], count=sums[:, 1])
        base = state["grad2d"]._base
        return base if base is not None and base is state["count"]._base and base.shape == (len(means), 2) else None

    @torch.no_grad()
    def step_post_backward(self, params: Params, optimizers: Optimizers, state: State, step: int, info: dict[str, Any],
                           packed: bool = False) -> None:
        if step >= self.refine_stop_iter:
            return
        if not state.pop("summed", False):
            self._accumulate(len(params["means"]), state, info, packed)
        if step > self.refine_start_iter and step % self.refine_every == 0 and \
                step % self.reset_every >= self.pause_refine_after_reset:
            before = len(params["means"])
            self._refine(params, optimizers, state, step)
            state.update(grad2d=None, count=None, **({"radii": None} if "radii" in state else {}))
            if self.verbose:
                print(f"step {step}: {before} -> {len(params['means'])} Gaussians")
        if step % self.reset_every == 0 and step > 0:
            p, most = params["opacities"], 2 * self.prune_opa
            p.clamp_(max=math.log(most / (1 - most)))
            p.grad = None
            for a in _moments(optimizers.get("opacities"), p).values():
                a.zero_()

    def _accumulate(self, count: int, state: State, info: dict[str, Any], packed: bool) -> None:
        means2d, radii, width, height = (info[key] for key in (self.key_for_gradient, "radii", "width", "height"))
        d = means2d.absgrad if self.absgrad else means2d.grad
        unit = _half_size(width * info["n_cameras"], height * info["n_cameras"], d.device)
        norm = torch.linalg.vector_norm(d * unit, dim=-1)  # 0 where a Gaussian is not seen
        if radii.dim() < d.dim():  # before gsplat 1.5 there is one radius
            seen = radii > 0
        else:
            seen, radii = (radii > 0).all(-1), radii.amax(-1) if self.refine_scale2d_stop_iter > 0 else None
        if state["grad2d"] is None:
            state["grad2d"], state["count"] = norm.new_zeros(count), norm.new_zeros(count)
        sizes = radii / max(width, height) if self.refine_scale2d_stop_iter > 0 else None
        if sizes is not None and state["radii"] is None:
            state["radii"] = norm.new_zeros(count)
        if packed:
            at = info["gaussian_ids"]
            state["grad2d"].index_add_(0, at, norm)
            state["count"].index_add_(0, at, seen.to(norm.dtype))
            if sizes is not None:
                state["radii"].scatter_reduce_(0, at, sizes, "amax")
        else:
            one_view = norm.numel() == count
            state["grad2d"] += norm.view(-1) if one_view else norm.view(-1, count).sum(0)
            state["count"] += seen.view(-1) if one_view else seen.view(-1, count).sum(0)
            if sizes is not None:
                torch.maximum(state["radii"], sizes.view(-1, count).amax(0), out=state["radii"])

    def _refine(self, params: Params, optimizers: Optimizers, state: State, step: int) -> None:
        scales, by_size = params["scales"].detach(), step < self.refine_scale2d_stop_iter
        grows = state["grad2d"] / state["count"].clamp(min=1) > self.grow_grad2d
        small = scales.amax(-1).exp() <= self.grow_scale3d * state["scene_scale"]
        split = grows & ~small
        if by_size:
            split |= state["radii"] > self.grow_scale2d
        kept, clones, halves = (torch.nonzero(a)[:, 0] for a in (~split, grows & small, split))
        old, new = torch.cat((kept, clones)), torch.cat((halves, halves))
        source, fresh = torch.cat((old, new)), torch.ones(len(old) + len(new), dtype=torch.bool, device=scales.device)
        fresh[:len(kept)] = False
        changed = {name: params[name].detach()[source] for name in ("means", "scales", "opacities")}
        if len(halves):
            axes = density.rotations(params["quats"].detach()[halves]) * scales[halves].exp()[:, None]
            noise = torch.randn(2, len(halves), 3, device=scales.device)
            changed["means"][len(old):] += torch.einsum("nij,bnj->bni", axes, noise).reshape(-1, 3)
            changed["scales"][len(old):] -= math.log(1.6)
            if self.revised_opacity:
                opacity = changed["opacities"][len(old):].sigmoid()
                changed["opacities"][len(old):] = torch.logit(1 - torch.sqrt(1 - opacity))
        prune = changed["opacities"].view(-1).sigmoid() < self.prune_opa
        if step > self.reset_every:
            prune |= changed["scales"].amax(-1).exp() > self.prune_scale3d * state["scene_scale"]
            if by_size:
                prune |= state["radii"][source] > self.prune_scale2d
        keep = torch.nonzero(~prune)[:, 0]
        _take(params, optimizers, source[keep], fresh[keep], {name: a[keep] for name, a in changed.items()})


@dataclass
class MCMCStrategy(Strategy):
    """Moves dead Gaussians to live ones, adds 5% at a refinement, and noise at each step (Kheradmand et al. 2024)."""
    cap_max: int = 1_000_000  # Gaussians
    noise_lr: float = 5e5  # times lr of the means: strength of the noise
    refine_start_iter: int = 500
    refine_stop_iter: int = 25_000
    refine_every: int = 100
    min_opacity: float = 0.005  # Gaussians up to that are dead
    verbose: bool = False

    def initialize_state(self) -> State:
        return {"binoms": density.binomials(51)}

    def step_pre_backward(self, params: Params, optimizers: Optimizers, state: State, step: int,
                          info: dict[str, Any]) -> None:
        """Nothing."""

    @torch.no_grad()
    def step_post_backward(self, params: Params, optimizers: Optimizers, state: State, step: int, info: dict[str, Any],
                           lr: float) -> None:
        binoms = state["binoms"] = state["binoms"].to(params["means"].device)
        if self.refine_start_iter < step < self.refine_stop_iter and step % self.refine_every == 0:
            moved = self._relocate(params, optimizers, binoms)
            added = self._add(params, optimizers, binoms)
            if self.verbose:
                print(f"step {step}: {moved} Gaussians moved, {added} added, {len(params['means'])} in all")
        density.add_noise(params["means"], params["quats"], params["scales"], params["opacities"], lr * self.noise_lr,
                          torch.initial_seed() % 2**64, step)

    def _share(self, params: Params, sampled: Tensor, binoms: Tensor) -> None:
        """Lets the sampled Gaussians look as before when those that copy them have joined."""
        opacities, scales = params["opacities"].detach(), params["scales"].detach()
        opacity, scale = density.compute_relocation(
            opacities.view(-1)[sampled].sigmoid(), scales[sampled].exp(),
            torch.bincount(sampled, minlength=len(scales))[sampled] + 1, binoms, self.min_opacity)
        opacities.view(-1)[sampled], scales[sampled] = opacity.logit(), scale.log()

    def _relocate(self, params: Params, optimizers: Optimizers, binoms: Tensor) -> int:
        opacity = params["opacities"].detach().view(-1).sigmoid()
        is_dead = opacity <= self.min_opacity
        dead, alive = torch.nonzero(is_dead)[:, 0], torch.nonzero(~is_dead)[:, 0]
        if len(dead) and len(alive):
            sampled = alive[_draw(opacity[alive], len(dead))]
            self._share(params, sampled, binoms)
            for name, p in params.items():
                p.detach()[dead] = p.detach()[sampled]
                p.grad = None
                for a in _moments(optimizers.get(name), p).values():
                    a.index_fill_(0, sampled, 0)  # a number for a[sampled] is copied from the host
        return len(dead)

    def _add(self, params: Params, optimizers: Optimizers, binoms: Tensor) -> int:
        count = len(params["means"])
        added = max(0, min(self.cap_max, int(1.05 * count)) - count)
        if added:
            sampled = _draw(params["opacities"].detach().view(-1).sigmoid(), added)
            self._share(params, sampled, binoms)
            source = torch.cat((torch.arange(count, device=sampled.device), sampled))
            _take(params, optimizers, source, torch.arange(len(source), device=sampled.device) >= count, {})
        return added
