# SPDX-License-Identifier: MIT
"""Adam for scenes of Gaussians: all parameters in a few launches, or the rows of visible Gaussians alone. States and
groups are those of torch.optim.Adam, so density strategies that edit them work as before."""
from __future__ import annotations

from ctypes import byref
from typing import Any, Iterable, Iterator

import torch
from torch import Tensor

from . import gs
from ._tensors import On, library_of, stream_of

_Entry = tuple[Tensor, dict[str, Any], dict[str, Any]]


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
                if not state:
                    state.update(step=torch.zeros((), device=p.device), exp_avg=torch.zeros_like(p),
                                 exp_avg_sq=torch.zeros_like(p))
                yield p, state, group


def _by_group(entries: Iterable[_Entry], *names: str) -> dict[tuple[Any, ...], list[_Entry]]:
    """The entries of one type whose groups agree in what has these names."""
    out: dict[tuple[Any, ...], list[_Entry]] = {}
    for entry in entries:
        out.setdefault((entry[0].dtype, *(entry[2][name] for name in names)), []).append(entry)
    return out


@torch.no_grad()
def step(optimizers: Iterable[torch.optim.Adam], visible: Tensor | None = None) -> None:
    """One step of all optimizers, as the loop `for o in optimizers: o.step()`: a fused launch per learning rate.

    optimizers: of the class torch.optim.Adam, each with any number of groups, on one device. visible [N], bool or
    radii: then a step of SelectiveAdam on the rows where it is above 0, of parameters [N, ...].
    Cost: as torch's fused kernel; with `visible` one launch, and nothing waits.
    """
    entries = list(_entries(optimizers))
    if visible is not None:
        return _step_rows(entries, (visible if visible.dtype == torch.bool else visible > 0).reshape(-1).contiguous())
    for p, state, _ in entries:
        if state["step"].device != p.device:  # an optimizer that was not fused
            state["step"] = state["step"].to(p.device)
    # torch.optim.adam.adam() sorts its arguments by device and type for 30 us of the host per call.
    for (_, lr, betas, eps), of in _by_group(entries, "lr", "betas", "eps").items():
        first, second, steps = ([state[name] for _, state, _ in of] for name in ("exp_avg", "exp_avg_sq", "step"))
        torch._foreach_add_(steps, 1)
        torch._fused_adam_([p for p, _, _ in of], [p.grad for p, _, _ in of if p.grad is not None], first, second, [],
                           steps, lr=lr, beta1=betas[0], beta2=betas[1], weight_decay=0.0, eps=eps, amsgrad=False,
                           maximize=False)


def _arrays(entry: _Entry) -> list[Any]:
    p, state, _ = entry
    return [p, p.grad, state["exp_avg"], state["exp_avg_sq"]]


def _step_rows(entries: list[_Entry], visible: Tensor) -> None:
    """By gs_adam_rows: a launch for up to eight parameters whose groups have the same betas and eps."""
    device, count = visible.device, len(visible)
    for entry in entries:
        if any(a.shape[:1] != (count,) or a.device != device or a.dtype != torch.float32 for a in _arrays(entry)):
            raise ValueError(f"distwar.optim: a parameter of shape {tuple(entry[0].shape)} is not float32 on {device} with "
                             f"{count} rows, as visible has")
    lib = library_of(device)
    for (_, (beta1, beta2), eps), group in _by_group(entries, "betas", "eps").items():
        for of in (group[k:k + gs.ADAM_ARRAYS] for k in range(0, len(group), gs.ADAM_ARRAYS)):
            whole = [[a.contiguous() for a in _arrays(entry)] for entry in of]
            arrays = (gs.AdamArray * len(of))(*(
                gs.AdamArray(*(a.data_ptr() for a in copies), max(p.numel() // max(count, 1), 1), float(group_of["lr"]))
                for (p, _, group_of), copies in zip(of, whole)))
            step_of = gs.AdamRowsStep(count, visible.data_ptr(), arrays, len(of), beta1, beta2, eps)
            with On(visible):
                lib.check(lib.gs_adam_rows(byref(step_of), stream_of(device)))
            for entry, copies in zip(of, whole):
                for a, copy in zip(_arrays(entry), copies):
                    if copy is not a:
                        a.copy_(copy)
            for entry in of:
                torch.autograd.graph.increment_version(entry[0])
            torch._foreach_add_([state["step"] for _, state, _ in of], 1)


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
