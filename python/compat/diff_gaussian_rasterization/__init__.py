# SPDX-License-Identifier: MIT
"""The call signatures of the packages of this name, on distwar: for training programs that import one of them. The
environment variable DISTWAR_COMPAT names what the rasterizer returns where a fork returns more than the original."""
import functools
import operator
import os
import sys
import warnings
import weakref
from ctypes import byref
from typing import Any, NamedTuple, Optional

import torch

from distwar import _stages, density, gs
from distwar._frame import Frame, radii_of
from distwar._library import BACKENDS, keep
from distwar._request import MOST_DEGREE, MOST_SIZE
from distwar._tensors import (address_of, current_device, empty, index_of, is_plain, known_values, library_of, on, plain,
                              strategy_now, stream_of)
from distwar._torch import check_tensor

__all__ = ["GaussianRasterizationSettings", "GaussianRasterizer", "compute_relocation", "rasterize_gaussians"]
# The original's programs take this name for a rasterizer with dc beside shs. With --convert_SHs_python they have neither, and
# fail where they find the name.
if "--convert_SHs_python" not in sys.argv:
    from distwar.optim import SparseGaussianAdam  # noqa: F401
    __all__ += ["SparseGaussianAdam"]

NEAR_PLANE, FAR_PLANE, EPS2D = 0.2, 1e30, 0.3
# backward() runs on the thread that calls it: no other has to wake up, which takes a GPU's host 55 to 80 us.
torch.autograd.set_multithreading_enabled(False)
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


_cameras = {}  # by the id of a view matrix: what a camera depends on, the camera, and what keeps both current


def _camera(s):
    """gs_camera of the settings, as bytes: training renders the same cameras again and again, and a GPU that is asked for
    their matrices waits. Kept as long as the view matrix."""
    view, projected = s.viewmatrix, s.projmatrix
    if view.is_inference() or projected.is_inference():
        return _new_camera(s)
    depends = view._version, projected._version, s.tanfovx, s.tanfovy, s.image_width, s.image_height
    number = id(view)
    kept = _cameras.get(number)
    if kept is None or kept[0] != depends or kept[1] is not projected:
        forget = weakref.ref(view, lambda _: _cameras.pop(number, None))
        kept = _cameras[number] = depends, projected, _new_camera(s), forget
    return kept[2]


def _new_camera(s):
    """The principal point is that of projmatrix."""
    for name in ("viewmatrix", "projmatrix"):
        _expect("settings." + name, getattr(s, name), (4, 4), (1, 4, 4))
    for name in ("image_width", "image_height"):
        if not 1 <= operator.index(getattr(s, name)) <= MOST_SIZE:
            raise ValueError(f"GaussianRasterizer: settings.{name} is {getattr(s, name)}, not 1 to {MOST_SIZE}")
    view, projected = (a.detach().cpu().reshape(4, 4) for a in (s.viewmatrix, s.projmatrix))
    clip = torch.linalg.inv(view.double()) @ projected.double()
    offset = [float(value) if abs(value) > 1e-6 else 0.0 for value in clip[2, :2].tolist()]
    width, height = s.image_width, s.image_height
    K = torch.tensor([[width / (2 * s.tanfovx), 0, width / 2 * (1 + offset[0])],
                      [0, height / (2 * s.tanfovy), height / 2 * (1 + offset[1])], [0, 0, 1]])
    view = view.float().t().contiguous()
    ends = _stages.camera_ends(_stages.Settings(width, height, -1, False, NEAR_PLANE, FAR_PLANE, EPS2D))
    return _stages.packed_cameras(view.data_ptr(), K.data_ptr(), 1, ends)


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


class _Call:
    """What calls with settings alike and arguments of the same shapes and types have in common."""

    def __init__(self, s, degree, depth, scene, screen):
        means, quats, scales, _, colors, covars, _ = scene
        _exactly_one("scales with rotations and cov3D_precomp", scales is not None and quats is not None, covars is not None)
        count, of_colors = len(means), "shs" if colors.dim() == 3 else "colors_precomp"
        shapes = (3,), (4,), (3,), (1,), (*colors.shape[1:-1], 3), (6,), (1, 3)
        for name, tensor, shape in zip(("means3D", "rotations", "scales", "opacities", of_colors, "cov3D_precomp", "dc"),
                                       scene, shapes):
            if tensor is not None:
                _expect(name, tensor, (count, *shape), *[(count,)] * (name == "opacities"))
                check_tensor(name, tensor, means.device)
        _expect("settings.bg", s.bg, (3,))
        if screen is not None:
            _expect("means2D", screen, (count, 3))
        eps2d = EPS2D if s.kernel_size is None else float(s.kernel_size)
        if not eps2d > 0:
            raise NotImplementedError(f"GaussianRasterizer: kernel_size = {s.kernel_size!r} is not supported; it must "
                                      "be positive")
        settings = _stages.Settings(s.image_width, s.image_height, degree, bool(s.antialiasing) or s.kernel_size is not None,
                                    NEAR_PLANE, FAR_PLANE, eps2d)
        self.device, self.index = means.device, index_of(means.device)
        self.is_float32 = all(a is None or a.dtype == torch.float32 for a in scene)
        self.plan = _stages.plan_of(_stages.Shape(
            settings, 1, count, 3, _stages.coefficients_of(scene) if degree >= 0 else 0, depth,
            BACKENDS[self.device.type], _stages.PLANES))


_calls = {}


def _call_of(s, degree, depth, scene, screen=None):
    """scene: the tensors of a Scene, opacities [N, 1]. Checks them where they come for the first time."""
    if not is_plain(scene[0]):
        raise NotImplementedError("GaussianRasterizer: transforms and modes of torch (vmap) and subclasses of tensors are "
                                  "not supported")
    key = [s.image_width, s.image_height, s.antialiasing, s.kernel_size, s.bg.shape, degree, depth]
    for a in (*scene, screen):
        key += (None,) if a is None else (a.shape, a.dtype, a.device)
    key = tuple(key)
    return _calls.get(key) or keep(_calls, key, _Call(s, degree, depth, scene, screen))


class GaussianRasterizer(torch.nn.Module):
    """Returns the picture [3, height, width] and radii [N] in pixels, 0: not in view. With settings.antialiasing given the
    inverse depth [1, height, width] follows. Else with DISTWAR_COMPAT=depth the depth [1, height, width] does, the sum of
    weights times camera z; with DISTWAR_COMPAT=depth_alpha that and alpha [1, height, width].

    The gradient of means2D, [N, 3], is in units of half the width and height. Its last column is 0; with
    settings.kernel_size, as mip-splatting reads it, what absolute values sum to: the length of (sum |d_x|, sum |d_y|) over
    the pixels."""

    # Trainers make an object for each picture. To make a torch.nn.Module takes longer than all else here, so its members are
    # made when somebody asks for one.
    def __init__(self, raster_settings):
        self.__dict__["raster_settings"] = raster_settings

    def __getattr__(self, name):
        if name in FORKS:
            raise NotImplementedError(_missing(type(self).__name__, name))
        if "_modules" not in self.__dict__:
            of = dict(self.__dict__)
            super().__init__()
            self.__dict__.update(of)
            return getattr(self, name)
        return super().__getattr__(name)

    def __call__(self, *arguments, **named):
        return (super().__call__ if "_modules" in self.__dict__ else self.forward)(*arguments, **named)

    def markVisible(self, positions):
        """Whether each position [N, 3] is in front of the near plane."""
        with torch.no_grad(), on(positions):
            positions = plain(positions.float())
            visible = empty((len(positions),), positions, torch.uint8)
            view = gs.View(camera=gs.Camera.from_buffer_copy(_camera(self.raster_settings)))
            view.gaussians.count, view.gaussians.mean = len(positions), positions.data_ptr()
            library_of(positions.device).call("gs_mark_visible", byref(view), visible.data_ptr())
            return visible.bool()

    @torch.no_grad()
    def visible_filter(self, means3D, scales=None, rotations=None, cov3D_precomp=None):
        """radii [N] in pixels of opaque Gaussians, int32; 0: not in view. As Scaffold-GS calls it."""
        s, kept = self.raster_settings, []
        scene = means3D, rotations, self._scaled(scales), torch.ones_like(means3D[:, :1]), means3D, cov3D_precomp, None
        call = _call_of(s, -1, None, scene)
        with on(means3D):
            plan, stream = call.plan, stream_of(means3D.device)
            at = [address_of(a if a is None else a.float(), kept) for a in scene]
            splats = empty(plan.splats[0], means3D)
            plan.lib.check(plan.lib.gs_project(plan.view(_camera(s), at, splats.data_ptr()), stream))
            return radii_of(plan, splats, stream)[0]

    def _scaled(self, scales):
        modifier = self.raster_settings.scale_modifier
        return scales if scales is None or modifier == 1 else scales * modifier

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
            degree, colors = min(s.sh_degree, MOST_DEGREE), shs
            least = (degree + 1)**2
            if shs.dim() != 3 or shs.shape[1] + (constant is not None) not in (1, 4, 9, 16):
                if shs.dim() != 3 or shs.shape[1] < least:
                    raise ValueError(f"GaussianRasterizer: shs has the shape {tuple(shs.shape)}, not ({len(means3D)}, K, 3) "
                                     f"with K of at least {least}")
                colors = shs[:, :least]
        if s.subpixel_offset is not None and bool(s.subpixel_offset.any()):
            raise NotImplementedError("GaussianRasterizer: subpixel_offset other than zeros (ray_jitter) is not "
                                      "supported")
        results = RESULTS
        if results and s.antialiasing is not None:
            results = ""
            warnings.warn("diff_gaussian_rasterization: DISTWAR_COMPAT has no effect on settings with antialiasing, whose third "
                          "result is the inverse depth", stacklevel=2)
        depth = _stages.DEPTH_SUM if results else None if s.antialiasing is None else _stages.INVERSE_DEPTH
        screen = means2D if means2D is not None and means2D.requires_grad else None
        scene = means3D, rotations, self._scaled(scales), opacities, colors, cov3D_precomp, constant
        call = _call_of(s, degree, depth, scene, screen)
        if not call.is_float32:
            scene = [a if a is None else a.float() for a in scene]
        if call.index is None or call.index == current_device():
            return _rendered(s, call, scene, screen, results)
        with torch.cuda.device(call.index):
            return _rendered(s, call, scene, screen, results)


def _rendered(s, call, scene, screen, results):
    background = known_values(s.bg)
    frame = Frame(call.plan, _camera(s), strategy_now(), call.index, background,
                  background is None or results == "depth_alpha", s.kernel_size is not None,
                  functools.partial(_wait, call.device) if s.debug else None)
    picture, alphas, depths = frame.render(*scene, None, None, screen)
    radii = frame.radii()[0]
    if alphas is not None:
        alphas = alphas.squeeze(-1)
    if background is None:
        picture = picture + (1 - alphas) * s.bg.to(call.device)[:, None, None]
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
