# SPDX-License-Identifier: MIT
"""The arguments of rasterization(), checked: what arrays of numpy and of torch have in common."""
import math
from typing import NamedTuple, Optional

from ._stages import CAMERA_MODELS, DEPTH_OVER_ALPHA, DEPTH_SUM, MOST_VIEWS, TILE, Settings

RENDER_MODES = ("RGB", "D", "ED", "RGB+D", "RGB+ED")
MOST_SIZE, MOST_CHANNELS, MOST_DEGREE = 16384, 1024, 3


class Request(NamedTuple):
    batch: tuple  # leading dimensions of all arrays
    count: int  # Gaussians
    cameras: int
    channels: int  # of colours
    per_camera: bool  # colours have a dimension for the cameras
    settings: Settings
    with_color: bool
    depth: Optional[int]  # what it is, see _stages.py; None: not wanted

    def groups(self):
        """(batch item, first camera, end) of the cameras that go through each stage in one launch."""
        at_once = 1 if self.per_camera or self.channels != 3 else MOST_VIEWS
        return [(b, c, min(c + at_once, self.cameras))
                for b in range(math.prod(self.batch)) for c in range(0, self.cameras, at_once)]


def refuse(values, off, camera_model):
    """Raises NotImplementedError for the first value that is not that of the dictionary `off`."""
    given = dict(zip(off, values))
    if camera_model not in CAMERA_MODELS:
        given["camera_model"] = camera_model
    for name, value in given.items():
        if value is not None and (off.get(name) is None or value != off[name]):
            raise NotImplementedError(f"distwar.rasterization: {name} = {value!r} is not supported")


def _fail(name, array, wanted):
    raise ValueError(f"distwar.rasterization: {name} has the shape {tuple(array.shape)}, not {wanted}")


def _color_shape(colors, batch, count, cameras, sh_degree):
    """(channels, whether the colours are by camera)."""
    tail = 1 if sh_degree is None else 2
    leading = tuple(colors.shape[:-tail])
    if leading not in (batch + (count,), batch + (cameras, count)):
        _fail("colors", colors, "[..., N, D] or [..., C, N, D]" if sh_degree is None else
              "[..., N, K, 3] or [..., C, N, K, 3] (an sh_degree is given)")
    per_camera = len(leading) == len(batch) + 2
    channels = colors.shape[-1]
    if sh_degree is None:
        if not 1 <= channels <= MOST_CHANNELS:
            raise ValueError(f"distwar.rasterization: colors has {channels} channels, not 1 to {MOST_CHANNELS}")
        return channels, per_camera
    if not isinstance(sh_degree, int) or not 0 <= sh_degree <= MOST_DEGREE:
        raise ValueError(f"distwar.rasterization: sh_degree is {sh_degree!r}, not 0 to {MOST_DEGREE}")
    if channels != 3 or colors.shape[-2] < (sh_degree + 1)**2:
        _fail("colors", colors, f"[..., K, 3] with K >= {(sh_degree + 1)**2} for sh_degree {sh_degree}")
    return 3, per_camera


def check(a, width, height, near_plane, far_plane, eps2d, sh_degree, render_mode, rasterize_mode, camera_model,
          activated=True):
    """The Request of the arrays `a`, a dictionary by the names of rasterization()'s arguments."""
    for name in ("means", "opacities", "colors", "viewmats", "Ks"):
        if a[name] is None:
            raise TypeError(f"distwar.rasterization: {name} is None")
    means, viewmats = a["means"], a["viewmats"]
    if len(means.shape) < 2 or means.shape[-1] != 3:
        _fail("means", means, "[..., N, 3]")
    batch, count = tuple(means.shape[:-2]), means.shape[-2]
    if len(viewmats.shape) != len(batch) + 3 or viewmats.shape[-3] < 1:
        _fail("viewmats", viewmats, "[..., C, 4, 4]")
    cameras = viewmats.shape[-3]
    channels, per_camera = _color_shape(a["colors"], batch, count, cameras, sh_degree)
    shapes = dict(viewmats=(cameras, 4, 4), Ks=(cameras, 3, 3), opacities=(count,), backgrounds=(cameras, channels))
    shapes.update(dict(quats=(count, 4), scales=(count, 3)) if a["covars"] is None else dict(covars=(count, 3, 3)))
    for name, shape in shapes.items():
        if a[name] is None and name != "backgrounds":
            raise ValueError(f"distwar.rasterization: {name} is None and there are no covars")
        if a[name] is not None and tuple(a[name].shape) != batch + shape:
            _fail(name, a[name], batch + shape)
    if render_mode not in RENDER_MODES:
        raise ValueError(f"distwar.rasterization: render_mode is {render_mode!r}, not one of {RENDER_MODES}")
    if rasterize_mode not in ("classic", "antialiased"):
        raise ValueError(f"distwar.rasterization: rasterize_mode is {rasterize_mode!r}, not classic or antialiased")
    for name, value in (("width", width), ("height", height)):
        if isinstance(value, float) or not 1 <= value <= MOST_SIZE:
            raise ValueError(f"distwar.rasterization: {name} is {value!r}, not an integer from 1 to {MOST_SIZE}")
    if count * cameras >= 2**31 - 1:
        raise ValueError("distwar.rasterization: Gaussians times cameras must be below 2^31 - 1")
    for name, value in (("near_plane", near_plane), ("far_plane", far_plane), ("eps2d", eps2d)):
        if not value >= 0 or (name != "far_plane" and value > 3e38):
            raise ValueError(f"distwar.rasterization: {name} {value!r} is out of range")
    with_color = render_mode.startswith("RGB")
    settings = Settings(width, height, -1 if sh_degree is None else sh_degree, rasterize_mode == "antialiased",
                        near_plane or 1e-10, far_plane, eps2d or 1e-10, CAMERA_MODELS.index(camera_model), bool(activated))
    depth = None if render_mode == "RGB" else DEPTH_OVER_ALPHA if render_mode.endswith("ED") else DEPTH_SUM
    return Request(batch, count, cameras, channels, per_camera, settings, with_color, depth)


def meta_of(request):
    """The members of `meta` that are no arrays."""
    s = request.settings
    return {"width": s.width, "height": s.height, "tile_size": TILE, "tile_width": -(-s.width // TILE),
            "tile_height": -(-s.height // TILE), "n_cameras": request.cameras,
            "n_batches": math.prod(request.batch), "camera_ids": None, "gaussian_ids": None, "batch_ids": None}
