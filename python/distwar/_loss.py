# SPDX-License-Identifier: MIT
"""gs_loss on torch tensors."""
import struct
from ctypes import sizeof

import torch

from . import gs
from ._stages import MOST_VIEWS, array_type
from ._tensors import is_plain, library_of, on, stream_of

_pack_image = struct.Struct("<2i5Q56x").pack  # a gs_loss_image, without gains and depth
assert struct.calcsize("<2i5Q56x") == sizeof(gs.LossImage)


class _L1Ssim(torch.autograd.Function):
    """The mean of the losses of images [views, height, width, 3], best stored as planes, as rasterization() returns them. The
    gradient is computed with the loss."""

    @staticmethod
    def forward(ctx, images, targets):
        views, height, width, _ = images.shape
        pixels, (each, *within), device = height * width, images.stride(), images.device
        if within != [width, 1, pixels] or views > 1 and each != 3 * pixels or images.data_ptr() % 16:
            images = images.movedim(-1, 1).clone(memory_format=torch.contiguous_format).movedim(1, -1)
        targets = [target.contiguous() for target in targets]
        with on(images):
            lib, stream = library_of(device), stream_of(device)
            results = torch.empty(views, 3, dtype=torch.float64, device=device)
            gradients = torch.empty_like(images)
            image, result, gradient = images.data_ptr(), results.data_ptr(), gradients.data_ptr()
            each = pixels * 12  # bytes of an image; 24 of its results
            packed = [_pack_image(width, height, image + v * each, target.data_ptr(), 0, result + v * 24, gradient + v * each)
                      for v, target in enumerate(targets)]
            for first in range(0, views, MOST_VIEWS):
                count = min(views - first, MOST_VIEWS)
                of = array_type(gs.LossImage, count).from_buffer_copy(b"".join(packed[first:first + count]))
                lib.check(lib.gs_loss(of, count, stream))
            lib.context(stream).trim()
            loss = results[:, 0].mean(dtype=torch.float32)
        ctx.views = views
        ctx.save_for_backward(gradients)
        return loss

    @staticmethod
    def backward(ctx, d_loss):
        return (d_loss / ctx.views if ctx.views > 1 else d_loss) * ctx.saved_tensors[0], None


@torch.compiler.disable
def l1_ssim_loss(image, target):
    several = isinstance(target, (list, tuple))
    for name, tensor, wanted in ("image", image, torch.float32), *(("target", t, torch.uint8) for t in (
            target if several else [target])):
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != wanted:
            raise TypeError(f"distwar.l1_ssim_loss: {name} must be a tensor of {wanted}")
    if not is_plain(image):
        raise NotImplementedError("distwar.l1_ssim_loss: transforms and modes of torch and subclasses of tensors are not "
                                  "supported")
    images = image[None] if image.dim() == 3 and not several else image
    targets = list(target) if several or target.dim() == 4 else [target]
    shape = list(images.shape[1:])
    for name, given, right in ("image", image, len(shape) == 3 and shape[2] == 3 and 0 not in images.shape), *(
            ("target", t, list(t.shape) == shape) for t in targets):
        if not right:
            raise ValueError(f"distwar.l1_ssim_loss: {name} has the shape {tuple(given.shape)}; both must have the same one, "
                             "[height, width, 3] or [views, height, width, 3], or target is a list of views of [height, "
                             "width, 3]")
        if given.device != image.device:
            raise ValueError(f"distwar.l1_ssim_loss: {name} is on {given.device}, image on {image.device}")
    if len(targets) != len(images):
        raise ValueError(f"distwar.l1_ssim_loss: {len(targets)} targets for {len(images)} views")
    if len(images) > 1 and shape[0] * shape[1] % 4 > 0:  # not every image would begin at 16 bytes
        return torch.stack([_L1Ssim.apply(i[None], [t]) for i, t in zip(images, targets)]).mean()
    return _L1Ssim.apply(images, targets)
