# SPDX-License-Identifier: MIT
"""Differentiable 3D Gaussian splatting by libdistwar_gs, on torch tensors or numpy arrays.

    colors, alphas, meta = distwar.rasterization(means, quats, scales, opacities, colors, viewmats, Ks, width, height)

`distwar.deterministic = True` makes gradients the same bits in every run on one kind of GPU (so does
torch.use_deterministic_algorithms(True)). `distwar.gs` is the C interface by ctypes.
"""
import sys

from . import gs
from ._library import library
from ._request import refuse
from ._stages import CAMERA_MODELS
from .index import bincount, check_indices, embedding_backward, index_add, index_add_

__all__ = ["rasterization", "rasterization_backward", "l1_ssim_loss", "library", "gs", "index_add", "index_add_",
           "embedding_backward", "bincount", "check_indices"]

deterministic = False
means2d_in_graph = False  # whether meta["means2d"] lies in the graph between parameters and image; see rasterization()
_on_torch = None  # rasterization() of _torch.py, from the first use of a tensor on


def rasterization(means, quats, scales, opacities, colors, viewmats, Ks, width, height, near_plane=0.01,
                  far_plane=1e10, radius_clip=0.0, eps2d=0.3, sh_degree=None, packed=True, tile_size=16,
                  backgrounds=None, render_mode="RGB", sparse_grad=False, absgrad=False, rasterize_mode="classic",
                  channel_chunk=32, distributed=False, camera_model="pinhole", segmented=False, covars=None,
                  with_ut=False, with_eval3d=False, radial_coeffs=None, tangential_coeffs=None,
                  thin_prism_coeffs=None, ftheta_coeffs=None, rolling_shutter=None, viewmats_rs=None):
    """Renders N Gaussians in C cameras. The arguments are gsplat's.

    means [..., N, 3]; quats [..., N, 4] as w, x, y, z, of any length; scales [..., N, 3]; opacities [..., N];
    covars [..., N, 3, 3] replace quats and scales. colors [..., N, D] or [..., C, N, D] with D from 1 to 1024; with an
    sh_degree (0 to 3) spherical harmonics [..., N, K, 3] or [..., C, N, K, 3], K >= (sh_degree + 1)^2.
    viewmats [..., C, 4, 4]: world to camera; Ks [..., C, 3, 3]. These two may be CPU tensors beside Gaussians on a GPU:
    then the call need not wait for the GPU to read them. backgrounds [..., C, D].

    Returns colours [..., C, height, width, X], alphas [..., C, height, width, 1] and a dictionary `meta`. X is D, 1
    (D, ED: depth, depth over alpha) or D + 1. Everything has gradients but far_plane, near_plane and eps2d.

    meta: `means2d` [..., C, N, 2] in pixels, whose .grad is there after retain_grad() and a backward pass (with absgrad
    also .absgrad, the sums of absolute values; hooks and torch.autograd.grad by it need distwar.means2d_in_graph =
    True); `radii` [..., C, N, 2], int32, 0 if not in view; `depths`; `width`, `height`, `n_cameras`, `n_batches`,
    `tile_size`, `tile_width`, `tile_height`. With packed (torch only), as in gsplat, means2d, radii and depths have the
    rows of visible pairs alone, and camera_ids and gaussian_ids name them; packed=False is faster here. The lists of
    tiles and the conics have no entries.

    channel_chunk has no effect: results do not depend on it. Arguments that are not supported raise
    NotImplementedError: radius_clip, sparse_grad, distributed, segmented, with_ut, with_eval3d, distortion, rolling
    shutters, tiles of other sizes than 16, camera models other than pinhole and ortho.

    Inputs of other floating-point types are converted to float32. There are no second derivatives.
    On numpy arrays (CPU library): gradients by rasterization_backward(meta, d_colors, d_alphas).
    """
    global _on_torch
    has_camera = camera_model in CAMERA_MODELS
    if radius_clip or tile_size != 16 or sparse_grad or distributed or not has_camera or segmented or with_ut or \
            with_eval3d or rolling_shutter is not None or not (
                radial_coeffs is tangential_coeffs is thin_prism_coeffs is ftheta_coeffs is viewmats_rs is None):
        refuse(radius_clip=(radius_clip, 0.0), tile_size=(tile_size, 16), sparse_grad=(sparse_grad, False),
               distributed=(distributed, False), camera_model=(camera_model, camera_model if has_camera else "pinhole"),
               segmented=(segmented, False),
               with_ut=(with_ut, False), with_eval3d=(with_eval3d, False), radial_coeffs=(radial_coeffs, None),
               tangential_coeffs=(tangential_coeffs, None), thin_prism_coeffs=(thin_prism_coeffs, None),
               ftheta_coeffs=(ftheta_coeffs, None), rolling_shutter=(rolling_shutter, "GLOBAL"),
               viewmats_rs=(viewmats_rs, None))
    planes, modes = (near_plane, far_plane, eps2d), (render_mode, rasterize_mode, camera_model)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(means, torch.Tensor):
        if _on_torch is None:
            from ._torch import rasterization as _on_torch
        return _on_torch((means, quats, scales, opacities, colors, covars, viewmats, Ks, backgrounds), width, height,
                         planes, sh_degree, modes, packed, absgrad)
    arrays = dict(means=means, quats=quats, scales=scales, opacities=opacities, colors=colors, covars=covars,
                  viewmats=viewmats, Ks=Ks, backgrounds=backgrounds)
    for name in ("means", "opacities", "colors", "viewmats", "Ks"):
        if not hasattr(arrays[name], "shape"):
            raise TypeError(f"distwar.rasterization: {name} is a {type(arrays[name]).__name__}, not an array")
    from . import _numpy
    return _numpy.rasterization(arrays, width, height, planes, sh_degree, modes)


def rasterization_backward(meta, d_colors, d_alphas=None):
    """The gradients of a loss by the arguments of rasterization() on numpy arrays, from those by its colours and
    alphas: a dictionary by name, with `means2d` [..., C, N, 2] in pixels and, for up to 32 channels, `absgrad`."""
    from . import _numpy
    return _numpy.rasterization_backward(meta, d_colors, d_alphas)


def l1_ssim_loss(image, target):
    """0.8 |image - target| + 0.2 (1 - SSIM), means over torch tensors [height, width, 3]: an image of rasterization()
    and a photograph of 8-bit values (uint8). The gradient is computed with the loss."""
    from . import _loss
    return _loss.l1_ssim_loss(image, target)
