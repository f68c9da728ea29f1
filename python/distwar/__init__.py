# SPDX-License-Identifier: MIT
"""Differentiable 3D Gaussian splatting by libdistwar_gs, on torch tensors or numpy arrays.

    colors, alphas, meta = distwar.rasterization(means, quats, scales, opacities, colors, viewmats, Ks, width, height)

`distwar.deterministic = True` makes gradients the same bits in every run on one kind of GPU (so does
torch.use_deterministic_algorithms(True)). `distwar.gs` is the C interface by ctypes.
"""
from __future__ import annotations

import importlib
import operator
import sys
from typing import TYPE_CHECKING, Any, Sequence, TypeVar

from . import gs
from ._library import library
from ._request import refuse
from ._stages import CAMERA_MODELS
from .index import (bincount, check_indices, embedding_backward, index_add, index_add_, scatter_reduce,
                    segment_reduce)

__all__ = ["rasterization", "rasterization_backward", "l1_ssim_loss", "library", "gs", "index_add", "index_add_",
           "embedding_backward", "bincount", "check_indices", "scatter_reduce", "segment_reduce", "Trainer"]

_OF_TORCH = ("density", "neighbors", "optim")  # modules that import torch when they are first asked for

if TYPE_CHECKING:
    import numpy
    import torch

    from . import density as density, neighbors as neighbors, optim as optim
    from .trainer import Trainer as Trainer
else:
    def __getattr__(name):
        if name == "__version__":
            return library().version
        if name in _OF_TORCH:
            return importlib.import_module(f".{name}", __name__)
        if name == "Trainer":  # it imports numpy
            return importlib.import_module(".trainer", __name__).Trainer
        raise AttributeError(f"module 'distwar' has no attribute {name!r}")

    def __dir__():
        return sorted({*globals(), *__all__, *_OF_TORCH, "__version__"})
Array = TypeVar("Array", "torch.Tensor", "numpy.ndarray[Any, Any]")

__version__: str  # of the library
deterministic = False
# (1, 4): meta["radii"] are [..., C, N], as before gsplat 1.5; None: as the installed gsplat has them.
gsplat_version: tuple[int, int] | None = None
_on_torch: Any = None  # rasterization() of _torch.py, from the first use of a tensor on
# What rasterization() does not support, in its order, and the value that switches it off.
_OFF: dict[str, Any] = dict(
    tile_size=16, sparse_grad=False, distributed=False, segmented=False, with_ut=False, with_eval3d=False, radial_coeffs=None,
    tangential_coeffs=None, thin_prism_coeffs=None, ftheta_coeffs=None, rolling_shutter=None, viewmats_rs=None,
    return_normals=False, global_z_order=True, rays=None, lidar_coeffs=None, external_distortion_coeffs=None, ut_params=None,
    extra_signals=None, extra_signals_sh_degree=None, renderer_config=None)


def rasterization(
        means: Array, quats: Array | None, scales: Array | None, opacities: Array,
        colors: Array | tuple[Array, Array] | None,
        viewmats: Array, Ks: Array, width: int, height: int, near_plane: float = 0.01, far_plane: float = 1e10,
        radius_clip: float = 0.0, eps2d: float = 0.3, sh_degree: int | None = None, packed: bool = True,
        tile_size: int | None = 16, backgrounds: Array | None = None, render_mode: str = "RGB",
        sparse_grad: bool = False, absgrad: bool = False, rasterize_mode: str = "classic", channel_chunk: int = 32,
        distributed: bool = False, camera_model: str = "pinhole", segmented: bool = False,
        covars: Array | None = None, with_ut: bool = False, with_eval3d: bool = False, radial_coeffs: None = None,
        tangential_coeffs: None = None, thin_prism_coeffs: None = None, ftheta_coeffs: None = None,
        rolling_shutter: Any = None, viewmats_rs: None = None, *, return_normals: bool = False,
        global_z_order: bool = True, rays: None = None, lidar_coeffs: None = None,
        external_distortion_coeffs: None = None, ut_params: None = None, extra_signals: None = None,
        extra_signals_sh_degree: None = None, renderer_config: None = None,
        activated: bool = True) -> tuple[Array, Array, dict[str, Any]]:
    """Renders N Gaussians in C cameras. The arguments are gsplat's, of its versions 1.4 to 1.6.

    means [..., N, 3]; quats [..., N, 4] as w, x, y, z, of any length; scales [..., N, 3]; opacities [..., N]; with
    activated=False logarithms of scales and logits of opacities, as trainers keep them: the kernels turn them;
    covars [..., N, 3, 3] replace quats and scales. colors [..., N, D] or [..., C, N, D] with D from 1 to 1024; with an
    sh_degree (0 to 3) spherical harmonics [..., N, K, 3] or [..., C, N, K, 3], K >= (sh_degree + 1)^2, which on torch
    may be (constants [..., N, 1, 3], the rest [..., N, K - 1, 3]): nothing is copied to join them, nor their gradients
    to part them. None if the render_mode is D or ED.
    viewmats [..., C, 4, 4]: world to camera; Ks [..., C, 3, 3]. These two may be CPU tensors beside Gaussians on a GPU:
    then the call need not wait for the GPU to read them. backgrounds [..., C, D].

    Returns colours [..., C, height, width, X], alphas [..., C, height, width, 1] and a dictionary `meta`. X is D, 1
    (D, ED: depth, depth over alpha) or D + 1. Everything has gradients but far_plane, near_plane and eps2d.

    meta: `means2d` [..., C, N, 2] in pixels, whose .grad is there after retain_grad() and a backward pass (with absgrad
    also .absgrad, the sums of absolute values; hooks are refused, and torch.autograd.grad by it finds nothing); `radii`
    [..., C, N, 2], int32, pixels, 0 if not in view (as gsplat_version has them); `depths`; `width`, `height`, `n_cameras`,
    `n_batches`, `tile_size`, `tile_width`, `tile_height`. With packed (torch only), as in gsplat, means2d, radii and depths have
    the rows of visible pairs alone, and camera_ids and gaussian_ids name them; packed=False is faster here. The lists of tiles
    and the conics have no entries.

    radius_clip: splats of a radius up to that, in pixels, are left out. torch.compile breaks its graph here.
    channel_chunk has no effect: results do not depend on it. Arguments that are not supported raise NotImplementedError
    unless they are at their defaults: sparse_grad, distributed, segmented, with_ut, with_eval3d, distortion, rolling
    shutters, tiles of other sizes than 16, camera models other than pinhole and ortho, and those behind viewmats_rs.

    Inputs of other floating-point types are converted to float32. There are no second derivatives.
    On numpy arrays (CPU library), without covars, leading dimensions and radius_clip: gradients by
    rasterization_backward(meta, d_colors, d_alphas).
    """
    global _on_torch
    results: tuple[Array, Array, dict[str, Any]]
    of_torch: Any = sys.modules.get("torch")
    on_torch = of_torch is not None and isinstance(means, of_torch.Tensor)
    if rolling_shutter is not None and getattr(rolling_shutter, "name", rolling_shutter) == "GLOBAL":
        rolling_shutter = None
    unsupported = (tile_size, sparse_grad, distributed, segmented, with_ut, with_eval3d, radial_coeffs, tangential_coeffs,
                   thin_prism_coeffs, ftheta_coeffs, rolling_shutter, viewmats_rs, return_normals, global_z_order, rays,
                   lidar_coeffs, external_distortion_coeffs, ut_params, extra_signals, extra_signals_sh_degree,
                   renderer_config)
    if not all(map(operator.is_, unsupported, _OFF.values())) or camera_model not in CAMERA_MODELS:
        refuse(unsupported, _OFF, camera_model)
    backgrounds = backgrounds if "RGB" in render_mode else None
    planes, modes = (near_plane, far_plane, eps2d), (render_mode, rasterize_mode, camera_model, activated)
    if colors is None and render_mode in ("D", "ED"):  # any three channels: nobody reads them
        given: Any = means
        colors, sh_degree = given.detach() if on_torch else given, None
    if on_torch:
        if _on_torch is None:
            from . import _torch
            _on_torch = _torch.rasterization
        results = _on_torch((means, quats, scales, opacities, colors, covars, None, viewmats, Ks, backgrounds), width,
                            height, planes, sh_degree, modes, packed, absgrad, radius_clip)
        return results
    from . import _numpy
    arrays: dict[str, Any] = dict(means=means, quats=quats, scales=scales, opacities=opacities, colors=colors,
                                  covars=covars, viewmats=viewmats, Ks=Ks, backgrounds=backgrounds)
    results = _numpy.rasterization(arrays, width, height, planes, sh_degree, modes, radius_clip)
    return results


def rasterization_backward(meta: dict[str, Any], d_colors: numpy.ndarray[Any, Any],
                           d_alphas: numpy.ndarray[Any, Any] | None = None) -> dict[str, numpy.ndarray[Any, Any]]:
    """The gradients of a loss by the arguments of rasterization() on numpy arrays, from those by its colours and
    alphas: a dictionary by name, with `means2d` [..., C, N, 2] in pixels and, for up to 32 channels, `absgrad`."""
    from . import _numpy
    gradients: dict[str, numpy.ndarray[Any, Any]] = _numpy.rasterization_backward(meta, d_colors, d_alphas)
    return gradients


def l1_ssim_loss(image: torch.Tensor, target: torch.Tensor | Sequence[torch.Tensor]) -> torch.Tensor:
    """0.8 |image - target| + 0.2 (1 - SSIM), means over torch tensors [height, width, 3] or [views, height, width, 3]:
    images of rasterization(), values from 0 to 1, and photographs of 8-bit values (uint8), which may be a list of views
    [height, width, 3]. The gradient is computed with the loss."""
    from . import _loss
    loss: torch.Tensor = _loss.l1_ssim_loss(image, target)
    return loss
