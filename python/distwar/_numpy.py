# SPDX-License-Identifier: MIT
"""rasterization() on numpy arrays, with the CPU library, one camera after another; its gradients by an explicit call."""
import math
from ctypes import byref

import numpy

from . import gs
from ._library import library
from ._request import KERNELS_DEGREE, check, meta_of
from ._stages import CAMERA_FLOATS, CAMERA_MODELS, DEPTH_OVER_ALPHA, SPLAT_FLOATS

# The arrays of gs_gaussians by the names of the arguments; `colors` are its color or sh.
_NAMES = dict(means="mean", quats="quaternion", scales="log_scale", opacities="opacity_logit", covars="covariance")


def _float32(name, value):
    array = numpy.asarray(value)
    if array.dtype.kind != "f":
        raise TypeError(f"distwar.rasterization: {name} has the type {array.dtype}, not a floating-point type")
    array = numpy.ascontiguousarray(array, "float32")
    return array if array.ctypes.data % 16 == 0 else array.copy()


def _upper(covars):
    """[..., 3, 3] to [..., 6], from both triangles."""
    symmetric = (covars + covars.swapaxes(-1, -2)) / 2
    return symmetric.reshape(covars.shape[:-2] + (9,))[..., [0, 1, 2, 4, 5, 8]]


def _full(d_upper):
    """Adjoint of _upper."""
    half = d_upper * numpy.array([1, 0.5, 0.5, 1, 0.5, 1], "float32")
    return half[..., [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(d_upper.shape[:-1] + (3, 3))


class _Frame:
    """One camera's view of one item of the batch, and what its gradient needs."""

    def __init__(self, request, flat, at):
        """flat: the arguments by name, with one leading dimension for the batch. at: item and camera."""
        self.lib, self.request, s, (b, c) = library("simt"), request, request.settings, at
        self.at, self.color = at, "color" if s.sh_degree < 0 else "sh"
        skipped = ("quats", "scales") if flat["covars"] is not None else ()
        colors = flat["colors"][b, c] if request.per_camera else flat["colors"][b]
        self.arrays = {to: _float32(name, _upper(flat[name][b]) if name == "covars" else flat[name][b])
                       for name, to in _NAMES.items() if flat[name] is not None and name not in skipped}
        self.arrays[self.color] = _float32("colors", colors if s.sh_degree < 0 else colors[:, :(s.sh_degree + 1)**2])
        K, view = flat["Ks"][b, c], flat["viewmats"][b, c]
        camera = gs.Camera(s.width, s.height, K[0, 0], K[1, 1], K[0, 2], K[1, 2], near_plane=s.near_plane,
                           model=self.lib.cameras[CAMERA_MODELS[s.camera]],
                           far_plane=s.far_plane if s.far_plane < 3e38 else 0)
        camera.rotation[:], camera.translation[:] = view[:3, :3].ravel().tolist(), view[:3, 3].tolist()
        self.image, self.alpha, self.depth = (numpy.empty((n, s.height, s.width), "float32") for n in (request.channels, 1, 1))
        self.splats = numpy.empty((request.count, SPLAT_FLOATS), "float32")
        address = self.lib.address
        self.view = gs.View(
            gaussians=self._gaussians(self.arrays), sh_degree_used=max(s.sh_degree, 0), camera=camera,
            normalize_depth=request.depth == DEPTH_OVER_ALPHA, splats=address(self.splats),
            image=gs.Image(color=address(self.image), alpha=address(self.alpha),
                           depth=None if request.depth is None else address(self.depth)))
        self.lib.call("gs_forward", byref(self.view))
        self.memory = self.lib.context(None).take(self.view.memory.memory)
        self.radii = numpy.empty(request.count, "int32")
        self.lib.call("gs_radii", byref(self.view), address(self.radii))

    def _gaussians(self, arrays):
        s = self.request.settings
        out = self.lib.gaussians(arrays, max(s.sh_degree, 0), antialias=int(s.antialiased))
        out.form, out.eps2d, out.channels = int(s.activated), s.eps2d, self.request.channels
        return out

    def backward(self, d_color, d_alpha, d_depth):
        """By the arrays, [3, 4] and [4] of the camera, the means in the image, and their absolute values, or None."""
        import distwar
        d = {name: numpy.empty_like(a) for name, a in self.arrays.items()}
        moments, d_camera = numpy.empty_like(self.splats), numpy.empty(CAMERA_FLOATS, "float32")
        d_mean2d, absolute = (numpy.empty((len(self.radii), 2), "float32") for _ in range(2))
        absolute = absolute if self.request.channels <= 32 else None
        address = self.lib.address
        gradient = gs.Gradient(
            color=address(d_color), alpha=address(d_alpha), depth=address(d_depth), splat_grad=address(moments),
            gaussians=self._gaussians(d), abs_mean2d=address(absolute), camera=address(d_camera))
        self.lib.call("gs_backward", byref(self.view), byref(gradient),
                      self.lib.policies["fixed" if distwar.deterministic else "tree"])
        self.lib.call("gs_mean2d_gradient", byref(self.view), address(moments), address(d_mean2d), address(absolute))
        return d, d_camera[:12].reshape(3, 4), d_camera[18:22], d_mean2d, absolute


def rasterization(arrays, width, height, planes, sh_degree, modes):
    library("simt")
    arrays = {name: None if value is None else _float32(name, value) for name, value in arrays.items()}
    request = check(arrays, width, height, *planes, sh_degree, *modes)
    if request.settings.sh_degree > KERNELS_DEGREE:
        raise NotImplementedError(f"distwar.rasterization: sh_degree = {sh_degree} is not supported for numpy arrays; "
                                  "pass torch tensors")
    batch, items = request.batch, math.prod(request.batch)
    flat = {name: None if a is None else a.reshape((items,) + a.shape[len(batch):]) for name, a in arrays.items()}
    frames = [_Frame(request, flat, (b, c)) for b in range(items) for c in range(request.cameras)]

    def joined(parts):
        whole = numpy.stack(parts)
        return whole.reshape(batch + (request.cameras,) + whole.shape[1:])
    color, alphas = (numpy.moveaxis(joined(parts), -3, -1) for parts in zip(*((f.image, f.alpha) for f in frames)))
    if arrays["backgrounds"] is not None:
        color = color + (1 - alphas) * arrays["backgrounds"][..., None, None, :]
    planes_of = [color] if request.with_color else []
    if request.depth is not None:
        planes_of.append(numpy.moveaxis(joined([f.depth for f in frames]), -3, -1))
    splats, radii = joined([f.splats for f in frames]), joined([f.radii for f in frames])
    meta = dict(meta_of(request), radii=numpy.stack((radii, radii), -1), means2d=splats[..., :2].copy(),
                depths=splats[..., 9].copy(), frames=frames, request=request, arrays=arrays, alphas=alphas)
    return numpy.concatenate(planes_of, -1), alphas, meta


def rasterization_backward(meta, d_colors, d_alphas=None):
    request, arrays, frames = meta["request"], meta["arrays"], meta["frames"]
    channels, shape = request.channels if request.with_color else 0, meta["alphas"].shape[:-1]
    d_colors = numpy.asarray(d_colors, "float32")
    if d_colors.shape != shape + (channels + (request.depth is not None),):
        raise ValueError(f"distwar.rasterization_backward: d_colors has the shape {d_colors.shape}, not that of the "
                         "colours")
    d_alphas = numpy.zeros(shape, "float32") if d_alphas is None else numpy.asarray(d_alphas, "float32").reshape(shape)
    out = {name: None if a is None else numpy.zeros(a.shape, "float32") for name, a in arrays.items()}
    if arrays["covars"] is not None:
        out["quats"] = out["scales"] = None
    background = out.pop("backgrounds")
    if background is not None:
        d_alphas = d_alphas - (d_colors[..., :channels] * arrays["backgrounds"][..., None, None, :]).sum(-1)
        out["backgrounds"] = (d_colors[..., :channels] * (1 - meta["alphas"])).sum((-3, -2))
    pairs = meta["radii"].shape[:-1] + (2,)
    out["means2d"] = numpy.zeros(pairs, "float32")
    if request.channels <= 32:
        out["absgrad"] = numpy.zeros(pairs, "float32")
    items = math.prod(request.batch)
    flat = {name: a.reshape((items,) + a.shape[len(request.batch):]) for name, a in
            dict(out, d_colors=d_colors, d_alphas=d_alphas).items() if a is not None}
    for frame in frames:
        b, c = at = frame.at
        d_color = numpy.moveaxis(flat["d_colors"][at][..., :channels], -1, 0) if channels else numpy.zeros_like(frame.image)
        d_depth = None if request.depth is None else _float32("d_colors", flat["d_colors"][at][..., -1])
        d, d_viewmat, d_K, d_means2d, absolute = frame.backward(_float32("d_colors", d_color),
                                                                _float32("d_alphas", flat["d_alphas"][at]), d_depth)
        for name, to in _NAMES.items():
            if to in d:
                flat[name][b] += _full(d[to]) if name == "covars" else d[to]
        d_color, to = d[frame.color], flat["colors"][at] if request.per_camera else flat["colors"][b]
        to[:, :d_color.shape[1]] += d_color
        flat["viewmats"][at][:3] = d_viewmat
        for k, entry in enumerate(((0, 0), (1, 1), (0, 2), (1, 2))):
            flat["Ks"][at][entry] = d_K[k]
        flat["means2d"][at] = d_means2d
        if absolute is not None:
            flat["absgrad"][at] = absolute
    return out
