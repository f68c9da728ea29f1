# SPDX-License-Identifier: MIT
import torch
from torch.nn.functional import conv2d

SIZE, SIGMA = 11, 1.5  # Wang et al. 2004
C1, C2 = 0.01**2, 0.03**2


def _windowed_mean(planes, weights, padding):
    """Of planes [B, 1, H, W], along columns and rows."""
    planes = conv2d(planes, weights.view(1, 1, -1, 1), padding=(padding, 0))
    return conv2d(planes, weights.view(1, 1, 1, -1), padding=(0, padding))


def fused_ssim(img1, img2, padding="same", train=True):
    """The mean of SSIM over images [B, C, H, W] of values from 0 to 1, with a gradient. padding: same (zeros outside),
    or valid (windows that lie inside)."""
    if padding not in ("same", "valid"):
        raise ValueError(f"fused_ssim: padding is {padding!r}, not same or valid")
    if img1.dim() != 4 or img1.shape != img2.shape:
        raise ValueError(f"fused_ssim: images of the shapes {tuple(img1.shape)} and {tuple(img2.shape)}; both must "
                         "have the same one, [B, C, H, W]")
    with torch.set_grad_enabled(train and torch.is_grad_enabled()):
        at = torch.arange(SIZE, dtype=torch.float32, device=img1.device) - SIZE // 2
        weights = torch.exp(-at**2 / (2 * SIGMA**2))
        weights = weights / weights.sum()
        x, y = (image.float().flatten(0, 1)[:, None] for image in (img1, img2))
        moments = _windowed_mean(torch.cat((x, y, x * x, y * y, x * y)), weights,
                                 SIZE // 2 if padding == "same" else 0)
        mx, my, xx, yy, xy = moments.chunk(5)
        luminance = (2 * mx * my + C1) / (mx * mx + my * my + C1)
        return (luminance * (2 * (xy - mx * my) + C2) / (xx - mx * mx + yy - my * my + C2)).mean()
