# SPDX-License-Identifier: MIT
"""The call of the package of this name, by gs_ssim."""
import torch

from distwar import gs
from distwar._tensors import is_plain, library_of, on, stream_of

MOST_PLANES, MOST_SIZE = 65535, 16384  # of gs_ssim


def _run(x, y, valid, wants_gradient):
    """The mean, and its gradient by x or None."""
    (planes, height, width), lib = x.shape, library_of(x.device)
    pair = gs.SsimPair(width, height, planes, valid, x.data_ptr(), y.data_ptr())
    result = torch.empty(3, dtype=torch.float64, device=x.device)
    gradient = torch.empty_like(x) if wants_gradient else None
    stream = stream_of(x.device)
    lib.check(lib.gs_ssim(pair, result.data_ptr(), None if gradient is None else gradient.data_ptr(), stream))
    lib.context(stream).trim()
    return result[0].float(), gradient


class _MeanSsim(torch.autograd.Function):
    """The mean SSIM of planes x and y [P, H, W], float32. The gradients are computed with the value."""

    @staticmethod
    def forward(ctx, x, y, valid):
        with on(x):
            x, y = x.contiguous(), y.contiguous()
            value, by_x = _run(x, y, valid, ctx.needs_input_grad[0])
            by_y = _run(y, x, valid, True)[1] if ctx.needs_input_grad[1] else None
        ctx.save_for_backward(by_x, by_y)
        return value

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_value):
        return *(None if by is None else d_value * by for by in ctx.saved_tensors), None


@torch.compiler.disable
def fused_ssim(img1, img2, padding="same", train=True):
    """The mean of SSIM over images [B, C, H, W] of values from 0 to 1, with a gradient. padding: same (zeros outside),
    or valid (windows that lie inside)."""
    if padding not in ("same", "valid"):
        raise ValueError(f"fused_ssim: padding is {padding!r}, not same or valid")
    least = 11 if padding == "valid" else 1
    if img1.dim() != 4 or img1.shape != img2.shape or img1.numel() == 0 or min(img1.shape[2:]) < least or \
            max(img1.shape[2:]) > MOST_SIZE or img1.shape[:2].numel() > MOST_PLANES:
        raise ValueError(f"fused_ssim: images of the shapes {tuple(img1.shape)} and {tuple(img2.shape)}; both must have the same "
                         f"one, [B, C, H, W], H and W at least {least} and at most {MOST_SIZE}, B C at most {MOST_PLANES}")
    if img1.device != img2.device or not (is_plain(img1) and is_plain(img2)):
        raise ValueError("fused_ssim: the images must be tensors on one device, without modes of torch that watch")
    with torch.set_grad_enabled(train and torch.is_grad_enabled()):
        return _MeanSsim.apply(img1.float().flatten(0, 1), img2.float().flatten(0, 1), padding == "valid")
