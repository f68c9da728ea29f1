# SPDX-License-Identifier: MIT
"""gs_loss as an operator of torch."""
import ctypes
from ctypes import byref
from typing import Tuple

import torch
from torch import Tensor

from . import gs
from ._library import library
from ._torch import Memory, _On


@torch.library.custom_op("distwar::l1_ssim", mutates_args=())
def l1_ssim(image: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
    """image [3, height, width], target [height, width, 3] of 8-bit values: the loss and its gradient by the image."""
    lib, (_, height, width) = library(), image.shape
    with _On(image):
        image, target, memory = image.contiguous(), target.contiguous(), Memory(image)
        size = ctypes.c_size_t()
        lib.call_on("gs_loss_bytes", width, height, byref(size))
        workspace = memory.empty((size.value,), "uint8")
        result = torch.empty(3, dtype=torch.float64, device=image.device)
        gradient = torch.empty_like(image)
        pair = gs.Comparison(width, height, image.data_ptr(), target.data_ptr())
        lib.call_on("gs_loss", byref(pair), workspace.data_ptr(), size.value, result.data_ptr(), gradient.data_ptr(),
                    memory.stream)
        return result[0].float(), gradient


@l1_ssim.register_fake
def _(image, target):
    return image.new_empty(()), torch.empty_like(image)


def _setup(ctx, inputs, output):
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(output[1])


def _adjoint(ctx, d_loss, _):
    return d_loss * ctx.saved_tensors[0], None


l1_ssim.register_autograd(_adjoint, setup_context=_setup)


def l1_ssim_loss(image, target):
    for name, tensor, wanted in (("image", image, torch.float32), ("target", target, torch.uint8)):
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != wanted:
            raise TypeError(f"distwar.l1_ssim_loss: {name} must be a tensor of {wanted}")
        if tensor.dim() != 3 or tensor.shape[2] != 3 or tensor.shape != image.shape or 0 in tensor.shape:
            raise ValueError(f"distwar.l1_ssim_loss: {name} has the shape {tuple(tensor.shape)}; both must have the "
                             "same one, [height, width, 3]")
        if tensor.device != image.device:
            raise ValueError(f"distwar.l1_ssim_loss: {name} is on {tensor.device}, image on {image.device}")
    return l1_ssim(image.movedim(-1, 0), target)[0]
