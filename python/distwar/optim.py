# SPDX-License-Identifier: MIT
"""Adam for scenes of Gaussians: all parameters in a few launches, or the rows of visible Gaussians alone. States and
groups are those of torch.optim.Adam, so density strategies that edit them work as before."""
from __future__ import annotations

import math
import struct
import weakref
from ctypes import byref, sizeof
from typing import Any, Iterable, Iterator

import torch
from torch import Tensor

from . import gs
from ._stages import array_type
from ._tensors import is_capturing, library_of, on, stream_of

_Entry = tuple[Tensor, dict[str, Any], dict[str, Any]]
_ONE = torch.tensor(1.0, device="cpu")  # torch would make a tensor of a number at each call
_pack_array = struct.Struct("<4Qif").pack  # a gs_adam_array
assert struct.calcsize("<4Qif") == sizeof(gs.AdamArray)
_counts: dict[int, tuple[Any, int, int]] = {}  # of steps on a GPU: by id, (weak reference, version, number)


def _entries(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[_Entry]:
    """Each parameter that has a gradient, its state and its group."""
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Adam) or isinstance(optimizer, torch.optim.AdamW):
            raise TypeError(f"distwar.optim: {type(optimizer).__name__} is no torch.optim.Adam")
        setattr(optimizer, "_opt_called", True)  # what torch's learning rate schedulers look for
        for group in optimizer.param_groups:
            if group["amsgrad"] or group["maximize"] or group["weight_decay"]:
                raise NotImplementedError("distwar.optim: amsgrad, maximize and weight_decay are not supported")
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = optimizer.state[p]
                if not state:  # steps as torch has them
                    on_device = group["fused"] or group["capturable"]
                    state.update(step=torch.zeros((), device=p.device if on_device else None),
                                 exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
                yield p, state, group


def _count(step: Tensor) -> int:
    """Steps so far. Reads the GPU, and waits, only if somebody other than step() has changed the number."""
    if step.is_cpu:
        return int(step)
    of, version, count = _counts.get(id(step), (None, 0, 0))
    return count if of is not None and of() is step and version == step._version else int(step)


def _arrays(entry: _Entry) -> tuple[Any, ...]:
    p, state, _ = entry
    return p, p.grad, state["exp_avg"], state["exp_avg_sq"]


@torch.no_grad()
def step(optimizers: Iterable[torch.optim.Adam], visible: Tensor | None = None, zero_grad: bool = False) -> None:
    """One step of all optimizers, as the loop `for o in optimizers: o.step()`: one launch for up to eight parameters.

    optimizers: of the class torch.optim.Adam, each with any number of groups, on one device. visible [N], bool or
    radii: then a step of SelectiveAdam on the rows where it is above 0, of parameters [N, ...]. zero_grad: gradients are
    None afterwards, as after `o.zero_grad()`.
    Cost: reads 16 bytes per value and writes 12. Nothing waits; but where torch keeps numbers of steps on the GPU, with
    fused=True or capturable=True, the first step does, and the first after a number was changed by others. Parameters
    are float32 and rates numbers; a CUDA graph captures the optimizers' own steps.
    """
    entries = list(_entries(optimizers))
    if visible is not None:
        visible = (visible if visible.dtype == torch.bool else visible > 0).reshape(-1).contiguous()
        for entry in entries:
            if any(a.shape[:1] != (len(visible),) or a.device != visible.device or a.dtype != torch.float32
                   for a in _arrays(entry)):
                raise ValueError(f"distwar.optim: a parameter of shape {tuple(entry[0].shape)} is not float32 on "
                                 f"{visible.device} with {len(visible)} rows, as visible has")
    elif any(p.dtype != torch.float32 or isinstance(group["lr"], Tensor) for p, _, group in entries) or \
            (entries and entries[0][0].is_cuda and is_capturing()):
        raise NotImplementedError("distwar.optim: parameters that are not float32, rates that are tensors and steps in a CUDA "
                                  "graph are not supported; call step() of the optimizers, made with fused=True")
    alike: dict[Any, list[_Entry]] = {}
    for p, state, group in entries:
        alike.setdefault((p.device, p.shape[0] if p.dim() else 1, group["betas"], group["eps"], state["step"].device,
                          visible is None and _count(state["step"])), []).append((p, state, group))
    for (device, rows, (beta1, beta2), eps, place, steps), those in alike.items():
        # Rates and eps hold torch's corrections for moments that start at 0.
        lib, scale, root = library_of(device), 1.0, 1.0
        if visible is None:
            root = math.sqrt(1 - beta2**(steps + 1))
            scale = root / (1 - beta1**(steps + 1))
        for of in (those[k:k + gs.ADAM_ARRAYS] for k in range(0, len(those), gs.ADAM_ARRAYS)):
            packed, written = [], []
            for entry in of:
                arrays = _arrays(entry)
                whole = [a.contiguous() for a in arrays]
                packed.append(_pack_array(*[a.data_ptr() for a in whole], max(arrays[0].numel() // max(rows, 1), 1),
                                          float(entry[2]["lr"]) * scale))
                written += [(a, copy) for a, copy in zip(arrays, whole) if copy is not a]
            at = array_type(gs.AdamArray, len(of)).from_buffer_copy(b"".join(packed))
            step_of = gs.AdamRowsStep(rows, None if visible is None else visible.data_ptr(), at, len(of), beta1, beta2,
                                      eps * root)
            with on(of[0][0]):
                lib.check(lib.gs_adam_rows(byref(step_of), stream_of(device)))
            for a, copy in written:
                a.copy_(copy)
        for p, _, _ in those:
            torch.autograd.graph.increment_version(p)
        numbers = [state["step"] for _, state, _ in those]
        torch._foreach_add_(numbers, _ONE if place.type == "cpu" else 1)
        if visible is None and place.type != "cpu":
            if len(_counts) >= 1024:
                _counts.clear()
            _counts.update((id(step), (weakref.ref(step), step._version, steps + 1)) for step in numbers)
    if zero_grad:
        for p, _, _ in entries:
            p.grad = None


class SelectiveAdam(torch.optim.Adam):
    """Adam on the rows of visible Gaussians: the others keep their values and moments. Moments are not corrected for
    their start at 0. Calls and numbers are those of gsplat.SelectiveAdam."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8) -> None:
        super().__init__(params, lr=lr, betas=betas, eps=eps)

    def step(self, visibility: Tensor) -> None:  # type: ignore[override]
        """visibility [N], bool or radii: the rows of all parameters [N, ...] where it is above 0 are stepped."""
        step([self], visibility)


class SparseGaussianAdam(SelectiveAdam):
    """SelectiveAdam with the call of the original rasterizer's package."""

    def __init__(self, params: Any, lr: float, eps: float) -> None:
        super().__init__(params, lr=lr, eps=eps)

    def step(self, visibility: Tensor, N: int) -> None:  # type: ignore[override]
        """N: the number of Gaussians."""
        super().step(visibility)
