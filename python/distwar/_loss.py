# SPDX-License-Identifier: MIT
"""gs_loss on torch tensors: an operator, and for calls outside of graphs and modes an autograd.Function."""
import ctypes
import functools
from ctypes import byref
from typing import Tuple

import torch
from torch import Tensor

from . import gs
from ._tensors import On, is_plain, library_of, stream_of


@functools.lru_cache(maxsize=16)
def _workspace_bytes(lib, width, height):
    size = ctypes.c_size_t()
    lib.call_on("gs_loss_bytes", width, height, byref(size))
    return size.value


def _run(image, target):
    """image: three planes in memory, in any order of dimensions. The loss, and its gradient in the same layout."""
    height, width = target.shape[:2]
    with On(image):
        lib = library_of(image.device)
        size = _workspace_bytes(lib, width, height)
        workspace = torch.empty(size, dtype=torch.uint8, device=image.device)
        result = torch.empty(3, dtype=torch.float64, device=image.device)
        gradient = torch.empty_like(image)
        pair = gs.Comparison(width, height, image.data_ptr(), target.data_ptr())
        lib.check(lib.gs_loss(byref(pair), workspace.data_ptr(), size, result.data_ptr(), gradient.data_ptr(),
                              stream_of(image.device)))
        return result[0].float(), gradient


@torch.library.custom_op("distwar::l1_ssim", mutates_args=())
def l1_ssim(image: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
    """image [3, height, width], target [height, width, 3] of 8-bit values: the loss and its gradient by the image."""
    return _run(image.contiguous(), target.contiguous())


@l1_ssim.register_fake
def _(image, target):
    return image.new_empty(()), torch.empty_like(image, memory_format=torch.contiguous_format)


def _setup(ctx, inputs, output):
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _adjoint(ctx, d_loss, _):
    return d_loss * ctx.saved_tensors[0], None


l1_ssim.register_autograd(_adjoint, setup_context=_setup)


class _L1Ssim(torch.autograd.Function):
    """The loss of image [height, width, 3], best stored as planes, as rasterization() returns it."""

    @staticmethod
    def forward(ctx, image, target):
        height, width, _ = image.shape
        if image.stride() != (width, 1, height * width) or image.data_ptr() % 16:
            image = image.movedim(-1, 0).clone(memory_format=torch.contiguous_format).movedim(0, -1)
        loss, gradient = _run(image, target.contiguous())
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    def backward(ctx, d_loss):
        return d_loss * ctx.saved_tensors[0], None


def l1_ssim_loss(image: Tensor, target: Tensor) -> Tensor:
    for name, tensor, wanted in (("image", image, torch.float32), ("target", target, torch.uint8)):
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != wanted:
            raise TypeError(f"distwar.l1_ssim_loss: {name} must be a tensor of {wanted}")
        if tensor.shape != image.shape or tensor.shape[-1] != 3 or 0 in tensor.shape or not (
                tensor.dim() == 3 or tensor.dim() == 4 and len(tensor) == 1):
            raise ValueError(f"distwar.l1_ssim_loss: {name} has the shape {tuple(tensor.shape)}; both must have the "
                             "same one, [height, width, 3] or [1, height, width, 3]")
        if tensor.device != image.device:
            raise ValueError(f"distwar.l1_ssim_loss: {name} is on {tensor.device}, image on {image.device}")
    if image.dim() == 4:
        image, target = image[0], target[0]
    return _L1Ssim.apply(image, target) if is_plain(image) else l1_ssim(image.movedim(-1, 0), target)[0]
