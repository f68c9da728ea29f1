# SPDX-License-Identifier: MIT
"""rasterization() on numpy arrays, with the CPU library, one camera after another; its gradients by an explicit call."""
import math

import numpy

from ._library import library
from ._request import KERNELS_DEGREE, check, meta_of
from ._stages import CAMERA_FLOATS, PLANES, Shape, packed_cameras, plan_of, room_of

_NAMES = ("means", "quats", "scales", "opacities", "colors", "covars")  # of a Scene, by the arguments


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


def _address(array):
    return None if array is None else array.ctypes.data


class _Frame:
    """One camera's view of one item of the batch, and what its gradient needs."""

    def __init__(self, request, flat, at):
        """flat: the arguments by name, with one leading dimension for the batch. at: item and camera."""
        degree, self.at, self.scene = request.settings.sh_degree, at, []
        for name in _NAMES:
            a = flat[name]
            if a is None or flat["covars"] is not None and name in ("quats", "scales"):
                self.scene.append(None)
                continue
            a = a[at] if name == "colors" and request.per_camera else a[at[0]]
            a = a[:, :(degree + 1)**2] if name == "colors" and degree >= 0 else _upper(a) if name == "covars" else a
            self.scene.append(_float32(name, a))
        coefficients = self.scene[4].shape[1] if degree >= 0 else 0
        self.plan = plan = plan_of(Shape(request.settings, 1, request.count, request.channels, coefficients, request.depth,
                                         "simt", PLANES))
        self.image, self.alpha, self.depth, self.splats = (
            numpy.empty(shape, "float32") for shape, _ in (plan.color, plan.alphas, plan.depths, plan.splats))
        view, K = (_float32(name, flat[name][at]) for name in ("viewmats", "Ks"))
        # The block, which holds the lists, lives as long as this.
        self.block, _, self.view = plan.forward(
            room_of("numpy", plan.shape), packed_cameras(_address(view), _address(K), 1, plan.camera_ends),
            [*map(_address, self.scene), None], (*map(_address, (self.splats, self.image)), None if request.depth is None else
                                                 _address(self.depth)), _address(self.alpha), None, plan.lib.new, None, False)
        self.radii = numpy.empty(request.count, "int32")
        plan.radii(_address(self.splats), _address(self.radii), None)

    def backward(self, d_color, d_alpha, d_depth):
        """By the arrays of the scene, [3, 4] and [4] of the camera, the means in the image, and their absolute values, or
        None."""
        import distwar
        d = [None if a is None else numpy.empty_like(a) for a in self.scene]
        moments, d_camera = numpy.empty_like(self.splats), numpy.empty(CAMERA_FLOATS, "float32")
        d_mean2d, absolute = (numpy.empty((len(self.radii), 2), "float32") for _ in range(2))
        absolute = absolute if self.plan.shape.channels <= 32 else None
        gradient = self.plan.gradient(*map(_address, (d_color, d_depth, d_alpha, moments)), [*map(_address, d), None])
        self.plan.backward(self.view, gradient, "fixed" if distwar.deterministic else "tree", None,
                           (_address(d_mean2d), _address(absolute)), _address(d_camera))
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
    color, alphas = numpy.moveaxis(joined([f.image for f in frames]), -3, -1), joined([f.alpha[0] for f in frames])
    if arrays["backgrounds"] is not None:
        color = color + (1 - alphas) * arrays["backgrounds"][..., None, None, :]
    planes_of = [color] if request.with_color else []
    if request.depth is not None:
        planes_of.append(joined([f.depth[0] for f in frames])[..., None])
    splats, radii = joined([f.splats[0] for f in frames]), joined([f.radii for f in frames])
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
        for name, of in zip(_NAMES, d):
            if of is not None:
                of, to = _full(of) if name == "covars" else of, flat[name][at if name == "colors" and request.per_camera else b]
                to[tuple(map(slice, of.shape))] += of  # some coefficients may not have been read
        flat["viewmats"][at][:3] = d_viewmat
        for k, entry in enumerate(((0, 0), (1, 1), (0, 2), (1, 2))):
            flat["Ks"][at][entry] = d_K[k]
        flat["means2d"][at] = d_means2d
        if absolute is not None:
            flat["absgrad"][at] = absolute
    return out
