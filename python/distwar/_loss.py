# SPDX-License-Identifier: MIT
"""gs_losses on torch tensors: an operator, and for calls outside of graphs and modes an autograd.Function."""
import ctypes
import functools
from ctypes import byref
from typing import Sequence, Tuple, Union

import torch
from torch import Tensor

from . import gs
from ._stages import MOST_VIEWS
from ._tensors import On, is_plain, library_of, stream_of


@functools.lru_cache(maxsize=16)
def _workspace_bytes(lib, width, height, count):
    size = ctypes.c_size_t()
    lib.call_on("gs_losses_bytes", width, height, count, byref(size))
    return size.value


def _run(images, targets):
    """images [views, ...]: each three planes in memory, in any order of dimensions. targets: of each view, contiguous. The
    mean of the losses, and the gradient of their sum in the same layout."""
    views, (height, width, _) = len(images), targets[0].shape
    with On(images):
        lib = library_of(images.device)
        size = _workspace_bytes(lib, width, height, min(views, MOST_VIEWS))
        workspace = torch.empty(size, dtype=torch.uint8, device=images.device)
        results = torch.empty(views, 3, dtype=torch.float64, device=images.device)
        gradients = torch.empty_like(images)
        at = [(a.data_ptr(), a.stride(0) * a.element_size()) for a in (images, results, gradients)]
        stream = stream_of(images.device)
        for first in range(0, views, MOST_VIEWS):
            of = []
            for v, target in enumerate(targets[first:first + MOST_VIEWS], first):
                # addresses: to index the tensors costs the host more
                image, result, gradient = (begin + v * each for begin, each in at)
                of.append(gs.LossImage(gs.Comparison(width, height, image, target.data_ptr()), result, gradient))
            lib.check(lib.gs_losses((gs.LossImage * len(of))(*of), len(of), workspace.data_ptr(), size, stream))
        return results[:, 0].mean(dtype=torch.float32), gradients


@torch.library.custom_op("distwar::l1_ssim", mutates_args=())
def l1_ssim(image: Tensor, target: Tensor) -> Tuple[Tensor, Tensor]:
    """image [3, height, width], target [height, width, 3] of 8-bit values: the loss and its gradient by the image."""
    loss, gradient = _run(image.contiguous()[None], [target.contiguous()])
    return loss, gradient[0]


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
    """The loss of images [views, height, width, 3], best stored as planes, as rasterization() returns them."""

    @staticmethod
    def forward(ctx, images, targets):
        views, height, width, _ = images.shape
        pixels, (each, *within) = height * width, images.stride()
        if within != [width, 1, pixels] or views > 1 and each != 3 * pixels or images.data_ptr() % 16:
            images = images.movedim(-1, 1).clone(memory_format=torch.contiguous_format).movedim(1, -1)
        loss, gradients = _run(images, [target.contiguous() for target in targets])
        ctx.views = views
        ctx.save_for_backward(gradients)
        return loss

    @staticmethod
    def backward(ctx, d_loss):
        return (d_loss / ctx.views if ctx.views > 1 else d_loss) * ctx.saved_tensors[0], None


def l1_ssim_loss(image: Tensor, target: Union[Tensor, Sequence[Tensor]]) -> Tensor:
    several = isinstance(target, (list, tuple))
    targets = list(target) if several else [target]
    for name, tensor, wanted in ("image", image, torch.float32), *(("target", t, torch.uint8) for t in targets):
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != wanted:
            raise TypeError(f"distwar.l1_ssim_loss: {name} must be a tensor of {wanted}")
        shape = image.shape[1:] if several and tensor is not image else image.shape
        if tensor.shape != shape or image.dim() not in ((4,) if several else (3, 4)) or tensor.shape[-1] != 3 or \
                0 in tensor.shape:
            raise ValueError(f"distwar.l1_ssim_loss: {name} has the shape {tuple(tensor.shape)}; both must have the "
                             "same one, [height, width, 3] or [views, height, width, 3], or target is a list of views of "
                             "[height, width, 3]")
        if tensor.device != image.device:
            raise ValueError(f"distwar.l1_ssim_loss: {name} is on {tensor.device}, image on {image.device}")
    if several and len(targets) != len(image):
        raise ValueError(f"distwar.l1_ssim_loss: {len(targets)} targets for {len(image)} views")
    if image.dim() == 3:
        image = image[None]
    elif not several:
        targets = list(target)
    views, height, width, _ = image.shape
    if not is_plain(image):
        return torch.stack([l1_ssim(i.movedim(-1, 0), t)[0] for i, t in zip(image, targets)]).mean()
    if views > 1 and height * width % 4 > 0:  # not every image would begin at 16 bytes
        return torch.stack([_L1Ssim.apply(i[None], [t]) for i, t in zip(image, targets)]).mean()
    return _L1Ssim.apply(image, targets)
