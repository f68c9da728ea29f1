# SPDX-License-Identifier: MIT
import torch
from torch.nn.functional import conv2d

from distwar import _ssim

SIZE, SIGMA = 11, 1.5  # Wang et al. 2004
C1, C2 = 0.01**2, 0.03**2


def _windowed_mean(maps, padding):
    """Means of maps [maps, planes, H, W] along columns and rows. A group per map: torch's kernel, never in TF32, which
    variances as differences do not bear."""
    at = torch.arange(SIZE, dtype=torch.float32, device=maps.device) - SIZE // 2
    weights = torch.exp(-at**2 / (2 * SIGMA**2))
    weights = (weights / weights.sum()).expand(maps.shape[1], 1, SIZE)
    with torch.autocast(maps.device.type, enabled=False):
        maps = conv2d(maps, weights[..., None], padding=(padding, 0), groups=maps.shape[1])
        return conv2d(maps, weights[:, :, None], padding=(0, padding), groups=maps.shape[1])


def _derivatives(mx, my, luminance, contrast, c, d):
    """The derivatives of SSIM by the windowed means of x, x^2 + y^2 and x y."""
    by_mean = contrast * (2 * my - 2 * mx * luminance) / c + luminance * (2 * mx * contrast - 2 * my) / d
    return torch.stack((by_mean, -luminance * contrast / d, 2 * luminance / d))


class _MeanSsim(torch.autograd.Function):
    """The mean SSIM of planes [P, H, W] by torch, where gs_ssim does not serve. Computes derivatives with the value."""

    @staticmethod
    def forward(ctx, x, y, padding):
        mx, my, squares, xy = _windowed_mean(torch.stack((x, y, x * x + y * y, x * y)), padding)
        of_means = mx * mx + my * my
        c, d = of_means + C1, squares - of_means + C2
        luminance, contrast = (2 * mx * my + C1) / c, (2 * (xy - mx * my) + C2) / d
        ctx.padding = SIZE - 1 - padding
        ctx.save_for_backward(x, y, *(_derivatives(*means, luminance, contrast, c, d) if needed else None
                                      for means, needed in zip(((mx, my), (my, mx)), ctx.needs_input_grad)))
        return (luminance * contrast).mean()

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_value):
        x, y, *derivatives = ctx.saved_tensors
        out = []
        for image, other, by in ((x, y, derivatives[0]), (y, x, derivatives[1])):
            if by is not None:
                by_mean, by_square, by_product = _windowed_mean(by, ctx.padding)
                by = (by_mean + 2 * image * by_square + other * by_product) * (d_value / by[0].numel())
            out.append(by)
        return out[0], out[1], None


def fused_ssim(img1, img2, padding="same", train=True):
    """The mean of SSIM over images [B, C, H, W] of values from 0 to 1, with a gradient. padding: same (zeros outside),
    or valid (windows that lie inside)."""
    if padding not in ("same", "valid"):
        raise ValueError(f"fused_ssim: padding is {padding!r}, not same or valid")
    least = SIZE if padding == "valid" else 1
    if img1.dim() != 4 or img1.shape != img2.shape or img1.numel() == 0 or min(img1.shape[2:]) < least:
        raise ValueError(f"fused_ssim: images of the shapes {tuple(img1.shape)} and {tuple(img2.shape)}; both must "
                         f"have the same one, [B, C, H, W], H and W at least {least}")
    with torch.set_grad_enabled(train and torch.is_grad_enabled()):
        x, y = img1.float().flatten(0, 1), img2.float().flatten(0, 1)
        if x.device == y.device and _ssim.takes(x, y):
            return _ssim.MeanSsim.apply(x, y, padding == "valid")
        return _MeanSsim.apply(x, y, SIZE // 2 * (padding == "same"))
