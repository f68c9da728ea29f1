# SPDX-License-Identifier: MIT
"""rasterization() on numpy arrays, with the CPU library, one camera after another; its gradients by an explicit call."""
import numpy

from ._library import library
from ._request import check, meta_of
from ._stages import CAMERA_FLOATS, PLANES, Shape, packed_cameras, plan_of

_NAMES = ("means", "quats", "scales", "opacities", "colors")  # of a Scene, by the arguments


def _float32(name, value):
    if not hasattr(value, "dtype"):
        raise TypeError(f"distwar.rasterization: {name} is a {type(value).__name__}, not an array")
    array = numpy.asarray(value)
    if array.dtype.kind != "f":
        raise TypeError(f"distwar.rasterization: {name} has the type {array.dtype}, not a floating-point type")
    array = numpy.ascontiguousarray(array, "float32")
    return array if array.ctypes.data % 16 == 0 else array.copy()


def _address(array):
    return None if array is None else array.ctypes.data


class _Frame:
    """One camera's view, and what its gradient needs."""

    def __init__(self, request, arrays, camera):
        """arrays: the arguments by name. camera: its number."""
        degree = request.settings.sh_degree
        colors = arrays["colors"][camera] if request.per_camera else arrays["colors"]
        self.scene = [_float32(name, arrays[name]) for name in _NAMES[:4]]
        self.scene.append(_float32("colors", colors if degree < 0 else colors[:, :(degree + 1)**2]))
        coefficients = self.scene[4].shape[1] if degree >= 0 else 0
        self.plan = plan = plan_of(Shape(request.settings, 1, request.count, request.channels, coefficients, request.depth,
                                         "simt", PLANES))
        self.image, self.alpha, self.depth, self.splats = (
            numpy.empty(shape, "float32") for shape, _ in (plan.color, plan.alphas, plan.depths, plan.splats))
        view, K = (_float32(name, arrays[name][camera]) for name in ("viewmats", "Ks"))
        # The block, which holds the lists, lives as long as this.
        self.block, self.view = plan.forward(
            None, packed_cameras(_address(view), _address(K), 1, plan.camera_ends), [*map(_address, self.scene), None, None],
            _address(self.splats), lambda: (_address(self.image), None if request.depth is None else _address(self.depth),
                                            _address(self.alpha)), None, None, False)
        self.radii = numpy.empty(request.count, "int32")
        plan.radii(_address(self.splats), _address(self.radii), None)

    def backward(self, d_color, d_alpha, d_depth):
        """By the arrays of the scene, [3, 4] and [4] of the camera, the means in the image, and their absolute values, or
        None."""
        import distwar
        d = [numpy.empty_like(a) for a in self.scene]
        moments, d_camera = numpy.empty_like(self.splats), numpy.empty(CAMERA_FLOATS, "float32")
        d_mean2d, absolute = (numpy.empty((len(self.radii), 2), "float32") for _ in range(2))
        absolute = absolute if self.plan.shape.channels <= 32 else None
        plan, at = self.plan, [*map(_address, d), None, None]
        gradient = plan.gradient(*map(_address, (d_color, d_depth, d_alpha, moments)))
        plan.render_backward(self.view, gradient, at[4] if plan.shape.channels != 3 else None,
                             "fixed" if distwar.deterministic else "tree", None, (_address(d_mean2d), _address(absolute)))
        plan.project_backward(self.view, gradient, at, None, _address(d_camera))
        return d, d_camera[:12].reshape(3, 4), d_camera[18:22], d_mean2d, absolute


def rasterization(arrays, width, height, planes, sh_degree, modes, radius_clip):
    library("simt")
    arrays = {name: None if value is None else _float32(name, value) for name, value in arrays.items()}
    request = check(arrays, width, height, *planes, sh_degree, *modes)
    for what, given in (("radius_clip", radius_clip), ("covars", arrays["covars"] is not None),
                        ("leading dimensions", request.batch)):
        if given:
            raise NotImplementedError(f"distwar.rasterization: {what} of numpy arrays are not supported; pass torch tensors")
    frames = [_Frame(request, arrays, camera) for camera in range(request.cameras)]
    color = numpy.stack([numpy.moveaxis(frame.image, 0, -1) for frame in frames])
    alphas = numpy.stack([frame.alpha[0] for frame in frames])
    if arrays["backgrounds"] is not None:
        color = color + (1 - alphas) * arrays["backgrounds"][:, None, None, :]
    planes_of = [color] if request.with_color else []
    if request.depth is not None:
        planes_of.append(numpy.stack([frame.depth[0] for frame in frames])[..., None])
    splats, radii = (numpy.stack(of) for of in zip(*((frame.splats[0], frame.radii) for frame in frames)))
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
    out = {name: numpy.zeros(a.shape, "float32") for name, a in arrays.items() if a is not None}
    if arrays["backgrounds"] is not None:
        d_alphas = d_alphas - (d_colors[..., :channels] * arrays["backgrounds"][:, None, None, :]).sum(-1)
        out["backgrounds"] = (d_colors[..., :channels] * (1 - meta["alphas"])).sum((1, 2))
    out["means2d"] = numpy.zeros(meta["means2d"].shape, "float32")
    if request.channels <= 32:
        out["absgrad"] = numpy.zeros_like(out["means2d"])
    for c, frame in enumerate(frames):
        d_color = numpy.moveaxis(d_colors[c, ..., :channels], -1, 0) if channels else numpy.zeros_like(frame.image)
        d_depth = None if request.depth is None else _float32("d_colors", d_colors[c, ..., -1])
        d, d_viewmat, d_K, out["means2d"][c], absolute = frame.backward(
            _float32("d_colors", d_color), _float32("d_alphas", d_alphas[c]), d_depth)
        for name, of in zip(_NAMES, d):
            to = out[name][c] if name == "colors" and request.per_camera else out[name]
            to[tuple(map(slice, of.shape))] += of  # some coefficients may not have been read
        out["viewmats"][c, :3] = d_viewmat
        for k, entry in enumerate(((0, 0), (1, 1), (0, 2), (1, 2))):
            out["Ks"][c][entry] = d_K[k]
        if absolute is not None:
            out["absgrad"][c] = absolute
    return out
