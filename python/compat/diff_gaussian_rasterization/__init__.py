# SPDX-License-Identifier: MIT
"""The call signatures of the package of this name, on distwar: for training programs that import it."""
from ctypes import byref
from typing import NamedTuple, Optional

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from distwar import _operators, _stages, gs
from distwar._frame import Frame
from distwar._library import library
from distwar._tensors import Memory, On, index_of, is_plain, packed_cameras, plain, strategy_now
from distwar._torch import float32_of

NEAR_PLANE, FAR_PLANE, LOW_PASS = 0.2, 1e30, 0.3


class GaussianRasterizationSettings(NamedTuple):
    image_height: int
    image_width: int
    tanfovx: float
    tanfovy: float
    bg: torch.Tensor  # [3]
    scale_modifier: float
    viewmatrix: torch.Tensor  # world to camera, for row vectors
    projmatrix: torch.Tensor  # world to clip space, for row vectors
    sh_degree: int
    campos: torch.Tensor  # not read: it follows from viewmatrix
    prefiltered: bool = False
    debug: bool = False  # errors of kernels are raised by the call
    antialiasing: Optional[bool] = None  # given: the rasterizer returns the inverse depth too


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
    view, projected = settings.viewmatrix.detach().cpu(), settings.projmatrix.detach().cpu()
    clip = torch.linalg.inv(view.double()) @ projected.double()
    offset = [float(value) if abs(value) > 1e-6 else 0.0 for value in clip[2, :2].tolist()]
    width, height = settings.image_width, settings.image_height
    K = torch.tensor([[width / (2 * settings.tanfovx), 0, width / 2 * (1 + offset[0])],
                      [0, height / (2 * settings.tanfovy), height / 2 * (1 + offset[1])], [0, 0, 1]])
    return view.float().t().contiguous()[None], K[None]


def _exactly_one(text, *given):
    if sum(given) != 1:
        raise ValueError(f"GaussianRasterizer: exactly one of {text} must be given")


def _by_frame(settings, depth, scene, screen):
    """Planar colours, alphas [1, height, width], radii, and the depth [1, height, width] or None."""
    means, colors = scene[0], scene[4]
    with On(means):
        shape = _stages.Shape(settings, 1, len(means), 3, colors.shape[1] if settings.sh_degree >= 0 else 0, depth)
        frame = Frame(_stages.plan_of(shape), _stages.room_of(means.device, shape),
                      packed_cameras(*scene[6:], settings), strategy_now(), index_of(means.device))
        color, alphas, inverse = frame.render(*scene, screen)
        return color[0].movedim(-1, 0), alphas[..., 0], frame.radii()[0], inverse


def _by_operators(settings, depth, scene, screen):
    width, height, degree, antialiased, *planes = settings
    splats, centers, radii, _ = _operators.project(*scene, [width, height, degree, int(antialiased)], planes)
    if screen is not None:
        centers = centers + torch.stack((screen[:, 0] * (width / 2), screen[:, 1] * (height / 2)), -1)
    color, alphas, inverse = _operators.render(
        splats, centers, None, None, [width, height, _operators.NO_DEPTH if depth is None else depth],
        strategy_now())[:3]
    return color[0], alphas, radii[0], inverse


class GaussianRasterizer(torch.nn.Module):
    """Returns the picture [3, height, width] and radii [N], and with settings.antialiasing given the inverse depth
    [1, height, width]. The gradient of means2D, [N, 3], is in units of half the width and height."""

    def __init__(self, raster_settings):
        super().__init__()
        self.raster_settings = raster_settings

    def markVisible(self, positions):
        """Whether each position [N, 3] is in front of the near plane."""
        s = self.raster_settings
        viewmats, Ks = _camera(s)
        with torch.no_grad(), On(positions):
            positions, memory = plain(positions.float()), Memory(positions)
            settings = _stages.Settings(s.image_width, s.image_height, -1, False, NEAR_PLANE, FAR_PLANE, LOW_PASS)
            view = gs.View(camera=_stages.camera_structs(packed_cameras(viewmats, Ks, settings))[0])
            view.gaussians.count, view.gaussians.mean = len(positions), positions.data_ptr()
            visible = memory.empty((len(positions),), "uint8")
            library().call_on("gs_mark_visible", byref(view), visible.data_ptr(), memory.stream)
            return visible.bool()

    def forward(self, means3D, means2D, opacities, shs=None, colors_precomp=None, scales=None, rotations=None,
                cov3D_precomp=None):
        s = self.raster_settings
        if s.prefiltered:
            raise NotImplementedError("GaussianRasterizer: prefiltered is not supported")
        _exactly_one("shs and colors_precomp", shs is not None, colors_precomp is not None)
        _exactly_one("scales with rotations and cov3D_precomp", scales is not None and rotations is not None,
                     cov3D_precomp is not None)
        viewmats, Ks = _camera(s)
        if scales is not None and s.scale_modifier != 1:
            scales = scales * s.scale_modifier
        count, device = means3D.shape[0], means3D.device
        arrays = dict(means3D=(means3D, (count, 3)), opacities=(opacities.reshape(-1), (count,)),
                      scales=(scales, (count, 3)), rotations=(rotations, (count, 4)),
                      cov3D_precomp=(cov3D_precomp, (count, 6)), colors_precomp=(colors_precomp, (count, 3)))
        for name, (tensor, shape) in arrays.items():
            if tensor is not None and tuple(tensor.shape) != shape:
                raise ValueError(f"GaussianRasterizer: {name} has the shape {tuple(tensor.shape)}, not {shape}")
            arrays[name] = None if tensor is None else float32_of(name, tensor, device)
        degree = -1
        if shs is not None:
            degree = s.sh_degree
            if shs.dim() != 3 or shs.shape[0] != count or shs.shape[1] not in (1, 4, 9, 16) or shs.shape[2] != 3:
                raise ValueError(f"GaussianRasterizer: shs has the shape {tuple(shs.shape)}, not ({count}, K, 3), "
                                 "K = 1, 4, 9 or 16")
        colors = float32_of("shs", shs, device) if shs is not None else arrays["colors_precomp"]
        scene = (arrays["means3D"], arrays["rotations"], arrays["scales"], arrays["opacities"], colors,
                 arrays["cov3D_precomp"], viewmats, Ks)
        settings = _stages.Settings(s.image_width, s.image_height, degree, bool(s.antialiasing), NEAR_PLANE, FAR_PLANE,
                                    LOW_PASS)
        screen = means2D if means2D is not None and means2D.requires_grad else None
        depth = None if s.antialiasing is None else _stages.INVERSE_DEPTH
        if is_plain(means3D):
            color, alphas, radii, inverse = _by_frame(settings, depth, scene, screen)
        else:
            color, alphas, radii, inverse = _by_operators(settings, depth, scene, screen)
        picture = color + (1 - alphas) * s.bg[:, None, None]
        if s.debug and device.type == "cuda":
            torch.cuda.synchronize(device)
        return (picture, radii) if s.antialiasing is None else (picture, radii, inverse)
