# SPDX-License-Identifier: MIT
"""The call signatures of the packages of this name, on distwar: for training programs that import one of them. The
environment variable DISTWAR_COMPAT names what the rasterizer returns where a fork returns more than the original."""
import functools
import operator
import os
import sys
import warnings
from ctypes import byref
from typing import Any, NamedTuple, Optional

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from distwar import _stages, density, gs
from distwar._frame import Frame, radii_of, run_project
from distwar._library import BACKENDS
from distwar._request import KERNELS_DEGREE, MOST_SIZE
from distwar._tensors import (Memory, On, index_of, is_plain, known_values, library_of, packed_cameras, plain, strategy_now,
                              stream_of)
from distwar._torch import float32_of

__all__ = ["GaussianRasterizationSettings", "GaussianRasterizer", "compute_relocation", "rasterize_gaussians"]
# To the original's programs this name promises dc beside shs too: with --convert_SHs_python they have neither, and must not
# find it.
if "--convert_SHs_python" not in sys.argv:
    from distwar.optim import SparseGaussianAdam  # noqa: F401
    __all__ += ["SparseGaussianAdam"]

NEAR_PLANE, FAR_PLANE, LOW_PASS = 0.2, 1e30, 0.3
MODES = ("", "depth", "depth_alpha")
RESULTS = os.environ.get("DISTWAR_COMPAT", "")
if RESULTS not in MODES:
    raise ImportError(f"diff_gaussian_rasterization: DISTWAR_COMPAT is {RESULTS!r}, not one of {MODES}")

# Arguments, methods and names of forks that are not served, and whose they are: the table of python/README.md.
FORKS = {name: fork for fork, names in {
    "Taming-3DGS": ("pixel_weights",), "gaussian-opacity-fields": ("view2gaussian_precomp", "integrate"),
    "MonoGS": ("theta", "rho", "projmatrix_raw"), "Deformable-3D-Gaussians": ("means2D_densify",),
    "gaussian-grouping": ("sh_objs",), "feature-3dgs": ("semantic_feature", "beta", "ret_pts"),
    "LightGaussian": ("f_count",), "RaDe-GS": ("require_coord", "require_depth"),
}.items() for name in names}


def _missing(where, name):
    """The text of an error."""
    of = f", which the rasterizer of {FORKS[name]} has" if name in FORKS else ""
    return f"diff_gaussian_rasterization: {where} has no {name}{of}; python/README.md lists the trainers that run"


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError(_missing("the module of distwar", name))


class _Settings(NamedTuple):
    image_height: int
    image_width: int
    tanfovx: float
    tanfovy: float
    bg: torch.Tensor  # [3]
    scale_modifier: float
    viewmatrix: torch.Tensor  # [4, 4] or [1, 4, 4], world to camera, for row vectors
    projmatrix: torch.Tensor  # [4, 4] or [1, 4, 4], world to clip space, for row vectors
    sh_degree: int
    campos: torch.Tensor  # not read: it follows from viewmatrix
    prefiltered: bool = False  # a promise that changes nothing
    debug: bool = False  # each stage is waited for, and an error names it
    antialiasing: Optional[bool] = None  # given: the rasterizer returns the inverse depth too
    # of mip-splatting: the variance in pixels^2 that splats get, in place of 0.3, and antialiasing with it
    kernel_size: Optional[float] = None
    subpixel_offset: Optional[torch.Tensor] = None  # zeros


class GaussianRasterizationSettings(_Settings):
    __slots__ = ()

    def __new__(cls, *values: Any, **named: Any) -> "GaussianRasterizationSettings":
        for name in named:
            if name not in cls._fields:
                raise NotImplementedError(_missing(cls.__name__, name))
        return super().__new__(cls, *values, **named)


_cameras = WeakTensorKeyDictionary()  # of view matrices: (what a camera depends on, camera)


def _camera(settings):
    """viewmats [1, 4, 4] and Ks [1, 3, 3] on the CPU. The principal point is that of projmatrix. Kept as long as the
    view matrix: training renders the same cameras again and again."""
    view, projected = settings.viewmatrix, settings.projmatrix
    if view.is_inference() or projected.is_inference():
        return _new_camera(settings)
    depends = (view._version, id(projected), projected._version, settings.tanfovx, settings.tanfovy,
               settings.image_width, settings.image_height)
    kept = _cameras.get(view)
    if kept is None or kept[0] != depends:
        kept = _cameras[view] = depends, _new_camera(settings), projected
    return kept[1]


def _new_camera(settings):
    for name in ("viewmatrix", "projmatrix"):
        _expect("settings." + name, getattr(settings, name), (4, 4), (1, 4, 4))
    for name in ("image_width", "image_height"):
        if not 1 <= operator.index(getattr(settings, name)) <= MOST_SIZE:
            raise ValueError(f"GaussianRasterizer: settings.{name} is {getattr(settings, name)}, not 1 to {MOST_SIZE}")
    view, projected = (a.detach().cpu().reshape(4, 4) for a in (settings.viewmatrix, settings.projmatrix))
    clip = torch.linalg.inv(view.double()) @ projected.double()
    offset = [float(value) if abs(value) > 1e-6 else 0.0 for value in clip[2, :2].tolist()]
    width, height = settings.image_width, settings.image_height
    K = torch.tensor([[width / (2 * settings.tanfovx), 0, width / 2 * (1 + offset[0])],
                      [0, height / (2 * settings.tanfovy), height / 2 * (1 + offset[1])], [0, 0, 1]])
    return view.float().t().contiguous()[None], K[None]


def _exactly_one(text, *given):
    if sum(given) != 1:
        raise ValueError(f"GaussianRasterizer: exactly one of {text} must be given")


def _expect(name, tensor, *shapes):
    if tuple(tensor.shape) not in shapes:
        raise ValueError(f"GaussianRasterizer: {name} has the shape {tuple(tensor.shape)}, not "
                         f"{' or '.join(map(str, shapes))}")


def _wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _plan(settings, scene, depth=None):
    coefficients = _stages.coefficients_of(scene) if settings.sh_degree >= 0 else 0
    return _stages.plan_of(_stages.Shape(settings, 1, len(scene[0]), 3, coefficients, depth,
                                         BACKENDS.get(scene[0].device.type), _stages.PLANES))


class GaussianRasterizer(torch.nn.Module):
    """Returns the picture [3, height, width] and radii [N] in pixels, 0: not in view. With settings.antialiasing given the
    inverse depth [1, height, width] follows. Else with DISTWAR_COMPAT=depth the depth [1, height, width] does, the sum of
    weights times camera z; with DISTWAR_COMPAT=depth_alpha that and alpha [1, height, width].

    The gradient of means2D, [N, 3], is in units of half the width and height. Its last column is 0; with
    settings.kernel_size, as mip-splatting reads it, what absolute values sum to: the length of (sum |d_x|, sum |d_y|) over
    the pixels."""

    def __init__(self, raster_settings):
        super().__init__()
        self.raster_settings = raster_settings

    def __getattr__(self, name):
        if name in FORKS:
            raise NotImplementedError(_missing(type(self).__name__, name))
        return super().__getattr__(name)

    def _settings(self, degree):
        s = self.raster_settings
        if s.kernel_size is None:
            return _stages.Settings(s.image_width, s.image_height, degree, bool(s.antialiasing), NEAR_PLANE, FAR_PLANE,
                                    LOW_PASS)
        if not s.kernel_size > 0:
            raise NotImplementedError(f"GaussianRasterizer: kernel_size = {s.kernel_size!r} is not supported; it must "
                                      "be positive")
        if s.subpixel_offset is not None and bool(s.subpixel_offset.any()):
            raise NotImplementedError("GaussianRasterizer: subpixel_offset other than zeros (ray_jitter) is not "
                                      "supported")
        return _stages.Settings(s.image_width, s.image_height, degree, True, NEAR_PLANE, FAR_PLANE,
                                float(s.kernel_size))

    def _scene(self, means3D, opacities, colors, scales, rotations, cov3D_precomp, constant=None):
        """The tensors of _stages.Scene and cameras, checked. colors [N, 3] or [N, K, 3]."""
        s = self.raster_settings
        _exactly_one("scales with rotations and cov3D_precomp", scales is not None and rotations is not None,
                     cov3D_precomp is not None)
        if not is_plain(means3D):
            raise NotImplementedError("GaussianRasterizer: transforms and modes of torch (vmap) and "
                                      "subclasses of tensors are not supported")
        if scales is not None and s.scale_modifier != 1:
            scales = scales * s.scale_modifier
        _expect("means3D", means3D, (len(means3D), 3))
        count, device, arrays = means3D.shape[0], means3D.device, []
        of_colors = "shs" if colors.dim() == 3 else "colors_precomp"
        for name, tensor, *shape in (("means3D", means3D, 3), ("rotations", rotations, 4), ("scales", scales, 3),
                                     ("opacities", opacities.reshape(-1)),
                                     (of_colors, colors, *colors.shape[1:-1], 3), ("cov3D_precomp", cov3D_precomp, 6),
                                     ("dc", constant, 1, 3)):
            if tensor is not None:
                _expect(name, tensor, (count, *shape))
            arrays.append(None if tensor is None else float32_of(name, tensor, device))
        return (*arrays, *_camera(s))

    def markVisible(self, positions):
        """Whether each position [N, 3] is in front of the near plane."""
        viewmats, Ks = _camera(self.raster_settings)
        with torch.no_grad(), On(positions):
            positions, memory = plain(positions.float()), Memory(positions)
            view = gs.View(camera=_stages.camera_structs(packed_cameras(viewmats, Ks, self._settings(-1)))[0])
            view.gaussians.count, view.gaussians.mean = len(positions), positions.data_ptr()
            visible = memory.empty((len(positions),), "uint8")
            library_of(positions.device).call_on("gs_mark_visible", byref(view), visible.data_ptr(), memory.stream)
            return visible.bool()

    @torch.no_grad()
    def visible_filter(self, means3D, scales=None, rotations=None, cov3D_precomp=None):
        """radii [N] in pixels of opaque Gaussians, int32; 0: not in view. As Scaffold-GS calls it."""
        scene, settings = self._scene(means3D, torch.ones_like(means3D[:, 0]), means3D, scales, rotations,
                                      cov3D_precomp), self._settings(-1)
        with On(means3D):
            plan = _plan(settings, scene)
            splats = run_project(plan, packed_cameras(*scene[7:], settings), scene[:7], stream_of(means3D.device))
            return radii_of(plan, splats)[0]

    @torch.compiler.disable
    def forward(self, means3D, means2D, opacities, shs=None, colors_precomp=None, scales=None, rotations=None,
                cov3D_precomp=None, *, dc=None, **others):
        """means3D [N, 3]; means2D [N, 3] gets a gradient; opacities [N, 1]; shs [N, K, 3] with K of at least
        (sh_degree + 1)^2, or without the constant, which is then dc [N, 1, 3]: what is beyond degree 3 does not count;
        colors_precomp [N, 3]; scales [N, 3]; rotations [N, 4] as w, x, y, z; cov3D_precomp [N, 6]: xx, xy, xz, yy, yz,
        zz."""
        s = self.raster_settings
        for name in others:
            raise NotImplementedError(_missing("GaussianRasterizer.forward", name))
        colors, degree, constant = colors_precomp, -1, None
        if dc is not None and shs is None:
            shs = dc
        elif dc is not None and shs.dim() == 3 and shs.shape[1] in (3, 8, 15):
            constant = dc
        elif dc is not None:
            shs = torch.cat((dc, shs), 1)
        _exactly_one("shs and colors_precomp", shs is not None, colors_precomp is not None)
        if shs is not None:
            degree, colors = min(s.sh_degree, KERNELS_DEGREE), shs
            least = (degree + 1)**2
            if shs.dim() != 3 or shs.shape[1] + (constant is not None) not in (1, 4, 9, 16):
                if shs.dim() != 3 or shs.shape[1] < least:
                    raise ValueError(f"GaussianRasterizer: shs has the shape {tuple(shs.shape)}, not ({len(means3D)}, K, 3) "
                                     f"with K of at least {least}")
                colors = shs[:, :least]
        scene, settings = self._scene(means3D, opacities, colors, scales, rotations, cov3D_precomp,
                                      constant), self._settings(degree)
        _expect("settings.bg", s.bg, (3,))
        screen = means2D if means2D is not None and means2D.requires_grad else None
        if screen is not None:
            _expect("means2D", screen, (len(means3D), 3))
        results = RESULTS
        if results and s.antialiasing is not None:
            results = ""
            warnings.warn("diff_gaussian_rasterization: DISTWAR_COMPAT has no effect on settings with antialiasing, whose third "
                          "result is the inverse depth", stacklevel=2)
        depth = _stages.DEPTH_SUM if results else None if s.antialiasing is None else _stages.INVERSE_DEPTH
        device = means3D.device
        with On(means3D):
            plan, background = _plan(settings, scene, depth), known_values(s.bg)
            frame = Frame(plan, _stages.room_of(device, plan.shape), packed_cameras(*scene[7:], settings), strategy_now(),
                          index_of(device), background, background is None or results == "depth_alpha",
                          s.kernel_size is not None, functools.partial(_wait, device) if s.debug else None)
            picture, alphas, depths = frame.render(*scene, screen)
            radii = frame.radii()[0]
        if alphas is not None:
            alphas = alphas.squeeze(-1)
        if background is None:
            picture = picture + (1 - alphas) * s.bg.to(device)[:, None, None]
        return (picture, radii, *(a for a in (depths, alphas if results == "depth_alpha" else None) if a is not None))


def rasterize_gaussians(means3D, means2D, *others, **named):
    """The original's function: sh, colors_precomp, opacities, scales, rotations, cov3Ds_precomp and raster_settings follow,
    in the accelerated version dc before them. Empty tensors stand for what is not given."""
    names = ["sh", "colors_precomp", "opacities", "scales", "rotations", "cov3Ds_precomp", "raster_settings"]
    if len(others) + len(named) == 8:
        names.insert(0, "dc")
    for name in named:
        if name not in names:
            raise NotImplementedError(_missing("rasterize_gaussians", name))
    of = {**dict(zip(names, others)), **named}
    if len(of) != len(names) or len(others) + len(named) != len(names):
        raise TypeError(f"rasterize_gaussians: after means3D and means2D come {', '.join(names)}")
    of = {name: None if isinstance(a, torch.Tensor) and a.shape == (0,) else a for name, a in of.items()}
    return GaussianRasterizer(of["raster_settings"])(
        means3D, means2D, of["opacities"], of["sh"], of["colors_precomp"], of["scales"], of["rotations"],
        of["cov3Ds_precomp"], dc=of.get("dc"))


def compute_relocation(opacity_old, scale_old, N, binoms, n_max):
    """As 3dgs-mcmc calls it: opacities [K] and scales [K, 3] of N [K] Gaussians that together look as each of
    opacity_old and scale_old did. binoms [n_max, n_max]: element n, k is n over k; N is cut to 1 and n_max."""
    opacity, scale = density.compute_relocation(opacity_old.reshape(-1), scale_old, N, binoms[:n_max, :n_max])
    return opacity.view_as(opacity_old), scale
