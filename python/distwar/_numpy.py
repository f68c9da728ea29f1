# SPDX-License-Identifier: MIT
"""rasterization() on numpy arrays, with the CPU library; its gradients by an explicit call."""
import math

import numpy

from . import _stages
from ._library import library
from ._request import KERNELS_DEGREE, check, meta_of
from ._stages import SPLAT_FLOATS, Scene


def _address(array):
    return None if array is None else array.ctypes.data


def _block(size):
    block = numpy.empty(size + 256, "uint8")
    block = block[-block.ctypes.data % 256:][:size]
    return block, block.ctypes.data


def _float32(name, value):
    array = numpy.asarray(value)
    if array.dtype.kind != "f":
        raise TypeError(f"distwar.rasterization: {name} has the type {array.dtype}, not a floating-point type")
    array = numpy.ascontiguousarray(array, "float32")
    return array if array.ctypes.data % 16 == 0 else array.copy()


def _upper(covars):
    """[..., 3, 3] to [..., 6], from both triangles."""
    symmetric = (covars + covars.swapaxes(-1, -2)) / 2
    return numpy.ascontiguousarray(symmetric.reshape(covars.shape[:-2] + (9,))[..., [0, 1, 2, 4, 5, 8]])


def _full(d_upper):
    """Adjoint of _upper."""
    half = d_upper * numpy.array([1, 0.5, 0.5, 1, 0.5, 1], "float32")
    return half[..., [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(d_upper.shape[:-1] + (3, 3))


class _Frame:
    """One launch's worth of cameras, and what its gradient needs."""

    def __init__(self, request, arrays, at):
        b, first, end = self.at = at
        items = math.prod(request.batch)
        flat = {name: None if a is None else a.reshape((items,) + a.shape[len(request.batch):])[b]
                for name, a in arrays.items()}
        colors = flat["colors"][first] if request.per_camera else flat["colors"]
        s = request.settings
        if s.sh_degree >= 0:
            colors = colors[:, :(s.sh_degree + 1)**2]
        given = flat["covars"] is not None
        self.scene = Scene(*(None if a is None else _float32(name, a) for name, a in (
            ("means", flat["means"]), ("quats", None if given else flat["quats"]),
            ("scales", None if given else flat["scales"]), ("opacities", flat["opacities"]), ("colors", colors),
            ("covars", _upper(flat["covars"]) if given else None))))
        plan = self.plan = _stages.plan_of(_stages.shape_of(request, end - first, self.scene, "simt"))
        self.cameras = _stages.packed_cameras(flat["viewmats"][first:end].tolist(), flat["Ks"][first:end].tolist(), s)
        pairs, size = (end - first, request.count), (end - first, s.height, s.width)
        self.splats, self.radii = numpy.empty(pairs + (SPLAT_FLOATS,), "float32"), numpy.empty(pairs, "int32")
        plan.project(self.cameras, self._scene(), _address(self.splats), None)
        plan.radii(_address(self.splats), _address(self.radii), None)
        self.features = None if request.channels == 3 else self.scene.colors
        self.color = numpy.empty(size[:1] + (request.channels,) + size[1:], "float32")
        self.alpha = numpy.empty(size, "float32")
        self.depth = None if request.depth is None else numpy.empty(size, "float32")
        self.block, self.lists = plan.render(
            _stages.room_of("cpu", plan.shape), _address(self.splats), _address(self.features), self._image(),
            _address(self.alpha), _block, None)

    def _scene(self):
        return [_address(a) for a in self.scene]

    def _image(self):
        return _address(self.color), _address(self.depth)

    def backward(self, d_color, d_alpha, d_depth):
        import distwar
        strategy, plan, pairs = "fixed" if distwar.deterministic else "tree", self.plan, self.splats.shape[:2]
        sums = (numpy.empty_like(self.splats), numpy.empty(pairs + (2,), "float32"),
                numpy.empty(pairs + (2,), "float32") if plan.shape.channels <= 32 else None)
        d_features = None if self.features is None else numpy.empty_like(self.features)
        plan.render_backward(_address(self.splats), _address(self.features),
                             (self._image(), _address(self.block), self.lists),
                             (_address(d_color), _address(d_depth), _address(d_alpha)), _address(d_features),
                             [_address(a) for a in sums], strategy, None)
        moments, d_mean2d, absolute = sums
        of_cameras = [self._project_backward(c, moments[c], d_mean2d[c]) for c in range(pairs[0])]
        d_scene = Scene(*(None if column[0] is None else sum(column[1:], column[0])
                          for column in zip(*(scene for scene, _ in of_cameras))))
        if d_features is not None:
            d_scene = d_scene._replace(colors=d_features)
        return d_scene, numpy.stack([d for _, d in of_cameras]), d_mean2d, absolute

    def _project_backward(self, c, moments, d_mean2d):
        """By the scene and camera c; libdistwar_gs has the latter for one camera at a time."""
        plan = self.plan.one_camera()
        d_scene = Scene(*(None if a is None else numpy.empty_like(a) for a in self.scene))
        d_camera = numpy.empty(plan.camera_floats, "float32")
        plan.project_backward(_stages.camera_at(self.cameras, c), self._scene(), _address(self.splats[c]),
                              _address(moments), _address(d_mean2d), [_address(a) for a in d_scene],
                              _address(d_camera), None)
        return d_scene, d_camera[:_stages.CAMERA_GRADIENT_FLOATS]


def _joined(parts, batch):
    """Arrays [c, ...] of the groups to [..., C, ...]."""
    whole = numpy.concatenate(parts)
    return whole.reshape(batch + (len(whole) // math.prod(batch),) + whole.shape[1:])


def rasterization(arrays, width, height, planes, sh_degree, modes):
    library("simt")
    arrays = {name: None if value is None else _float32(name, value) for name, value in arrays.items()}
    request = check(arrays, width, height, *planes, sh_degree, *modes)
    if request.settings.sh_degree > KERNELS_DEGREE:
        raise NotImplementedError(f"distwar.rasterization: sh_degree = {sh_degree} is not supported for numpy arrays; "
                                  "pass torch tensors")
    frames = [_Frame(request, arrays, at) for at in request.groups()]
    batch = request.batch
    color = numpy.moveaxis(_joined([f.color for f in frames], batch), -3, -1)
    alphas = _joined([f.alpha for f in frames], batch)[..., None]
    if arrays["backgrounds"] is not None:
        color = color + (1 - alphas) * arrays["backgrounds"][..., None, None, :]
    planes_of = [color] if request.with_color else []
    if request.depth is not None:
        planes_of.append(_joined([f.depth for f in frames], batch)[..., None])
    radii = _joined([f.radii for f in frames], batch)[..., None]
    splats = _joined([f.splats for f in frames], batch)
    meta = dict(meta_of(request), radii=numpy.concatenate((radii, radii), -1), means2d=splats[..., :2].copy(),
                depths=splats[..., 9].copy(), frames=frames, request=request, arrays=arrays, alphas=alphas)
    return numpy.concatenate(planes_of, -1), alphas, meta


def _camera_gradients(d_cameras):
    """gs_camera_gradient [C, 28 floats] to gradients by viewmats and Ks."""
    d_viewmats = numpy.zeros((len(d_cameras), 4, 4), "float32")
    d_viewmats[:, :3] = d_cameras[:, :12].reshape(-1, 3, 4)
    d_Ks = numpy.zeros((len(d_cameras), 3, 3), "float32")
    for k, (row, column) in enumerate(((0, 0), (1, 1), (0, 2), (1, 2))):
        d_Ks[:, row, column] = d_cameras[:, 18 + k]
    return d_viewmats, d_Ks


def rasterization_backward(meta, d_colors, d_alphas=None):
    request, arrays, batch = meta["request"], meta["arrays"], meta["request"].batch
    channels = request.channels if request.with_color else 0
    d_colors = numpy.asarray(d_colors, "float32")
    shape = meta["alphas"].shape[:-1]
    if d_colors.shape != shape + (channels + (request.depth is not None),):
        raise ValueError(f"distwar.rasterization_backward: d_colors has the shape {d_colors.shape}, not that of the "
                         "colours")
    d_alphas = numpy.zeros(shape, "float32") if d_alphas is None else numpy.asarray(d_alphas, "float32").reshape(shape)
    out = {}
    if arrays["backgrounds"] is not None:
        background = arrays["backgrounds"]
        d_alphas = d_alphas - (d_colors[..., :channels] * background[..., None, None, :]).sum(-1)
        out["backgrounds"] = (d_colors[..., :channels] * (1 - meta["alphas"])).sum((-3, -2))
    zeros = numpy.zeros(shape + (request.channels,), "float32")
    by_camera = [a.reshape((-1, request.cameras) + a.shape[len(batch) + 1:]) for a in (
        numpy.moveaxis(d_colors[..., :channels] if channels else zeros, -1, -3), d_alphas, d_colors[..., -1])]
    for name in ("means", "quats", "scales", "opacities", "colors", "covars"):
        skipped = arrays[name] is None or (arrays["covars"] is not None and name in ("quats", "scales"))
        out[name] = None if skipped else numpy.zeros(arrays[name].shape, "float32")
    flat = {name: a.reshape((math.prod(batch),) + a.shape[len(batch):]) for name, a in out.items()
            if a is not None and name != "backgrounds"}
    cameras, mean2d, absolute = [], [], []
    for frame in meta["frames"]:
        b, first, end = frame.at
        d_color, d_alpha, d_depth = (_float32("d_colors", a[b, first:end]) for a in by_camera)
        if request.depth is None:
            d_depth = None
        d_scene, d_cameras, d_mean2d, d_abs = frame.backward(d_color, d_alpha, d_depth)
        for name, d in d_scene._asdict().items():
            if d is None:
                continue
            to = flat[name][b]
            if name == "covars":
                d = _full(d)
            elif name == "colors":
                to = to[first] if request.per_camera else to
                to = to[:, :d.shape[1]] if request.settings.sh_degree >= 0 else to
            to += d
        cameras.append(d_cameras)
        mean2d.append(d_mean2d)
        absolute.append(d_abs)
    d_viewmats, d_Ks = _camera_gradients(numpy.concatenate(cameras))
    out["viewmats"], out["Ks"] = d_viewmats.reshape(arrays["viewmats"].shape), d_Ks.reshape(arrays["Ks"].shape)
    out["means2d"] = _joined(mean2d, batch)
    if absolute[0] is not None:
        out["absgrad"] = _joined(absolute, batch)
    return out
