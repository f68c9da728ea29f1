# SPDX-License-Identifier: MIT
"""gs_ssim on torch tensors: the mean of SSIM over planes, and its gradient."""
import functools
from ctypes import byref

import torch

from . import gs
from ._library import BACKENDS, library
from ._tensors import On, is_plain, library_of, stream_of

MOST_PLANES, MOST_SIZE, MOST_VALUES = 65535, 16384, 2**38


@functools.lru_cache(maxsize=None)
def _has_library(kind):
    try:
        return kind in BACKENDS and bool(library(BACKENDS[kind]))
    except RuntimeError:
        return False


def takes(x, y):
    """Whether gs_ssim takes planes x [P, H, W] and y."""
    return is_plain(x) and is_plain(y) and _has_library(x.device.type) and \
        x.shape[0] <= MOST_PLANES and max(x.shape[1:]) <= MOST_SIZE and x.numel() < MOST_VALUES


def _run(x, y, valid, wants_gradient):
    """The mean, and its gradient by x or None."""
    planes, height, width = x.shape
    pair = gs.SsimPair(width, height, planes, valid, x.data_ptr(), y.data_ptr())
    result = torch.empty(3, dtype=torch.float64, device=x.device)
    gradient = torch.empty_like(x) if wants_gradient else None
    library_of(x.device).call_on("gs_ssim", byref(pair), result.data_ptr(),
                                 None if gradient is None else gradient.data_ptr(), stream_of(x.device))
    return result[0].float(), gradient


class MeanSsim(torch.autograd.Function):
    """The mean SSIM of planes x and y [P, H, W], float32. The gradients are computed with the value."""

    @staticmethod
    def forward(ctx, x, y, valid):
        with On(x):
            x, y = x.contiguous(), y.contiguous()
            value, by_x = _run(x, y, valid, ctx.needs_input_grad[0])
            by_y = _run(y, x, valid, True)[1] if ctx.needs_input_grad[1] else None
        ctx.save_for_backward(by_x, by_y)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_value):
        return *(None if by is None else d_value * by for by in ctx.saved_tensors), None
