# SPDX-License-Identifier: MIT
"""rasterization() on torch tensors: groups of cameras that go through each stage in one launch, by _frame.py or, where
torch watches, by _operators.py; and what density strategies read."""
import functools

import torch

from . import _stages
from ._library import BACKENDS
from ._frame import Frame, Watch, means2d_of
from ._meta import Meta
from ._operators import Projected
from ._harmonics import colors_of
from ._request import KERNELS_DEGREE, check, meta_of
from ._tensors import (captures, current_device, index_of, is_plain, packed_cameras, radii_for_gsplat, strategy_now,
                       takes_operators)

# The arrays of a call, in this order: those of a Scene, then cameras and backgrounds.
NAMES = ("means", "quats", "scales", "opacities", "colors", "covars", "constant", "viewmats", "Ks", "backgrounds")


def _check_tensor(name, tensor, device):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"distwar.rasterization: {name} is a {type(tensor).__name__}, not a tensor as means is")
    if not tensor.is_floating_point():
        raise TypeError(f"distwar.rasterization: {name} has the type {tensor.dtype}, not a floating-point type")
    if tensor.device != device and not (name in ("viewmats", "Ks") and tensor.device.type == "cpu"):
        raise ValueError(f"distwar.rasterization: {name} is on {tensor.device}, means on {device}")


def float32_of(name, tensor, device):
    _check_tensor(name, tensor, device)
    return tensor if tensor.dtype == torch.float32 else tensor.float()


def _upper(covars):
    """[..., 3, 3] to [..., 6], from both triangles."""
    rows = ((covars + covars.transpose(-1, -2)) / 2).flatten(-2)
    return torch.stack([rows[..., k] for k in (0, 1, 2, 4, 5, 8)], -1)


def _scene_of(arrays, request, group):
    """The tensors of a Scene, viewmats and Ks for a group of cameras."""
    b, first, end = group
    flat = {name: a if a is None or not request.batch else a.flatten(0, len(request.batch) - 1)[b]
            for name, a in zip(NAMES, arrays)}
    colors = flat["colors"][first] if request.per_camera else flat["colors"]
    degree = request.settings.sh_degree
    if degree >= 0 and flat["constant"] is None and colors.shape[-2] not in (1, 4, 9, 16):
        colors = colors[:, :(degree + 1)**2]
    viewmats, Ks = flat["viewmats"], flat["Ks"]
    if end - first != request.cameras:
        viewmats, Ks = viewmats[first:end], Ks[first:end]
    if flat["covars"] is not None:
        return (flat["means"], None, None, flat["opacities"], colors, _upper(flat["covars"]), flat["constant"], viewmats,
                Ks)
    return (flat["means"], flat["quats"], flat["scales"], flat["opacities"], colors, None, flat["constant"], viewmats,
            Ks)


def _joined(parts, batch):
    """Tensors [c, ...] of the groups to [..., C, ...]; None stays None."""
    if parts[0] is None:
        return None
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return whole.unflatten(0, batch + (-1,)) if batch else whole


class Call:
    """What calls with arguments of the same shapes and types have in common."""

    def __init__(self, arrays, request, absgrad, packed):
        self.device = arrays[0].device
        self.request, self.groups, self.batch = request, request.groups(), request.batch
        if packed and request.batch:
            raise NotImplementedError("distwar.rasterization: packed with leading dimensions is not supported; pass "
                                      "packed=False")
        if absgrad and request.channels > 32:
            raise NotImplementedError("distwar.rasterization: absgrad with more than 32 channels is not supported")
        self.is_float32 = all(a is None or a.dtype == torch.float32 for a in arrays)
        self.meta = meta_of(request)
        self._plans = None
        # Whether the arrays are a Scene as they are.
        self.is_scene = self.is_float32 and len(self.groups) == 1 and not (request.batch or request.per_camera) and \
            arrays[5] is None and (request.settings.sh_degree < 0 or _stages.coefficients_of(arrays) in (1, 4, 9, 16))

    @functools.cached_property
    def index(self):
        return index_of(self.device)

    def plans(self, scenes):
        """(Plan, Room) of each group."""
        if self._plans is None:
            shapes = [_stages.shape_of(self.request, end - first, scene, BACKENDS[self.device.type])
                      for (_, first, end), scene in zip(self.groups, scenes)]
            self._plans = [(_stages.plan_of(shape), _stages.room_of(self.device, shape)) for shape in shapes]
        return self._plans


_calls = {}  # _Call by the shapes and types of all arguments


def _call_of(arrays, *options):
    try:
        # 64.0 equals 64 and is refused
        key = (*[None if a is None else (a.shape, a.dtype, a.device) for a in arrays], *options, type(options[0]),
               type(options[1]))
        call = _calls.get(key)
    except (AttributeError, TypeError):  # not tensors: _new_call says which
        return _new_call(arrays, *options)
    if call is None:
        call = _new_call(arrays, *options)
        if len(_calls) >= 64:
            _calls.clear()
        _calls[key] = call
    return call


def _new_call(arrays, width, height, planes, sh_degree, modes, packed, absgrad):
    named = dict(zip(NAMES, arrays))
    for name, a in named.items():
        if a is not None:
            _check_tensor(name, a, arrays[0].device)
    if named["constant"] is not None:  # what check() looks at are shapes
        named["colors"] = arrays[4].new_empty(1).expand(len(arrays[0]), _stages.coefficients_of(arrays), 3)
    return Call(arrays, check(named, width, height, *map(float, planes), sh_degree, *modes), absgrad, packed)


def _pack(meta, means2d, radii):
    """Packs means2d and what meta has of the pairs of camera and Gaussian to the rows of those that are visible."""
    at = torch.nonzero(radii > 0, as_tuple=True)
    meta.update(camera_ids=at[0], gaussian_ids=at[1], batch_ids=torch.zeros_like(at[0]), means2d=means2d[at],
                radii=radii_for_gsplat(radii[at]), depths=meta["depths"][at])
    return at


class _Pairs:
    """The entries of meta by pairs of camera and Gaussian, of Frames, or Projected cameras, one after another."""
    NAMES = frozenset(("radii", "depths", "means2d"))
    __slots__ = ("parts", "nodes", "batch", "absgrad")

    def __init__(self, parts, nodes, batch, absgrad):
        """nodes: of Frames, (node of its image in the graph or None, a tensor that keeps it alive)."""
        self.parts, self.nodes, self.batch, self.absgrad = parts, nodes, batch, absgrad

    def all_radii(self):
        return _joined([part.radii() for part in self.parts], self.batch)

    def radii(self):
        return radii_for_gsplat(self.all_radii())

    def depths(self):
        return _joined([part.splats.detach()[..., 9] for part in self.parts], self.batch)

    def means2d(self):
        return self.watched(self.all_means2d())

    def all_means2d(self):
        return _joined([means2d_of(frame, node) for frame, (node, _) in zip(self.parts, self.nodes)], self.batch)

    def sum_in_backward(self, density):
        """Lets each backward pass do what gs_density_accumulate does, without a gradient of means2d for it. False:
        not of these cameras."""
        (frame, *others), (node, _) = self.parts, self.nodes[0]
        if others or frame.plan.shape.cameras != 1 or self.batch or node is None or any(node.needs_input_grad[8:10]):
            return False
        frame.density = density
        return True

    def watched(self, means2d, at=None):
        if means2d.requires_grad:
            Watch(means2d, self.parts, self.absgrad, at)
        return means2d


def _by_frames(call, scenes, packed, absgrad):
    """Colours, alphas, depths or None, and meta, by autograd.Functions."""
    batch, strategy, frames, images = call.batch, strategy_now(), [], []
    for (plan, room), scene in zip(call.plans(scenes), scenes):
        frame = Frame(plan, room, packed_cameras(scene[7], scene[8], plan.shape.settings, plan.camera_ends),
                      strategy, call.index)
        images.append(frame.render(*scene, None))
        frames.append(frame)
    # A node lives as long as a tensor that it made. meta must not refer to itself: it would keep them all.
    pairs = _Pairs(frames, [(image[1].grad_fn, image[1]) for image in images], batch, absgrad)
    meta = Meta(call.meta, pairs, _Pairs.NAMES)
    if packed:
        at = _pack(meta, pairs.all_means2d(), pairs.all_radii())
        pairs.watched(meta["means2d"], at)
    elif absgrad:
        meta["means2d"]
    elif captures(call.index):
        meta.whole()
    image = images[0] if len(images) == 1 and not batch else [_joined(list(of), batch) for of in zip(*images)]
    return *image, meta


def _by_operators(call, scenes, packed, absgrad, radius_clip):
    """The same by operators. Splats of a radius up to radius_clip pixels, unless it is 0, are culled."""
    batch, request, means_of_colors = call.batch, call.request, call.request.channels == 3
    scenes = [(*scene[:6], *scene[7:]) for scene in scenes]  # the constant is None
    parts = [Projected(request, scene if means_of_colors else (*scene[:4], scene[4].detach(), *scene[5:]), radius_clip)
             for scene in scenes]
    means2d, at, absolute = _joined([part.means2d for part in parts], batch), None, None
    meta = {**call.meta, "means2d": means2d}  # as torch.compile of torch 2.4 takes it
    pairs = _Pairs(parts, None, batch, absgrad)
    meta["radii"], meta["depths"] = pairs.radii(), pairs.depths()
    if packed:
        at = _pack(meta, means2d, pairs.all_radii())
        means2d = means2d.detach().index_put(at, meta["means2d"])  # depends on the rows
    if absgrad and means2d.requires_grad:
        absolute = torch.empty((), device=call.device).expand(means2d.shape).requires_grad_()  # nobody reads it
        target = meta["means2d"]
        absolute.register_hook(lambda g: setattr(target, "absgrad", g if at is None else g[at]))
    flat = [a if a is None or not batch else a.flatten(0, -3) for a in (means2d, absolute)]
    images, first = [], 0
    for part, scene in zip(parts, scenes):
        end = first + part.splats.shape[0]
        images.append(part.blend(*(a if a is None else a[first:end] for a in flat),
                                 None if means_of_colors else scene[4]))
        first = end
    return *[_joined(list(of), batch) for of in zip(*images)], meta


def _apart(means, colors, sh_degree, by_frames):
    """(colors, constant) of a Scene: apart where _frame.py takes them so, or all of them joined and None."""
    if len(colors) != 2:
        raise ValueError(f"distwar.rasterization: colors has {len(colors)} tensors, not two, the constants and the rest")
    constant, rest = colors
    for name, a in ("colors[0]", constant), ("colors[1]", rest):
        _check_tensor(name, a, means.device)
    if by_frames and constant.dim() == rest.dim() == 3 and constant.shape[::2] == rest.shape[::2] == means.shape and \
            constant.shape[1] == 1 and rest.shape[1] in (3, 8, 15) and isinstance(sh_degree, int) and \
            sh_degree <= KERNELS_DEGREE and constant.dtype == rest.dtype == torch.float32:
        return rest, constant
    return torch.cat((constant, rest), -2), None


def rasterization(arrays, width, height, planes, sh_degree, modes, packed, absgrad, radius_clip):
    """arrays: by NAMES; colors may be two tensors."""
    plain = is_plain(arrays[0])
    by_frames = plain and not (radius_clip > 0 or takes_operators())
    if isinstance(arrays[4], (tuple, list)):
        colors, constant = _apart(arrays[0], arrays[4], sh_degree, by_frames)
        arrays = (*arrays[:4], colors, arrays[5], constant, *arrays[7:])
    if isinstance(sh_degree, int) and sh_degree > KERNELS_DEGREE:
        named, device = dict(zip(NAMES, arrays)), getattr(arrays[0], "device", None)
        of = [float32_of(name, named[name], device) for name in ("means", "colors", "viewmats")]
        check(named, width, height, *map(float, planes), sh_degree, *modes)
        colors = colors_of(sh_degree, *of)
        if colors.shape[-3] == 1:  # colours of all cameras go the shortest way
            colors = colors.squeeze(-3)
        arrays, sh_degree = (*arrays[:4], colors, *arrays[5:]), None
    call = (_call_of if plain else _new_call)(arrays, width, height, planes, sh_degree, modes, packed, absgrad)
    if plain and call.index is not None and call.index != current_device():
        with torch.cuda.device(call.index):
            return rasterization(arrays, width, height, planes, sh_degree, modes, packed, absgrad, radius_clip)
    request = call.request
    if plain and call.is_scene:
        scenes = [arrays[:9]]
    else:
        if not call.is_float32:
            arrays = [a if a is None else a.float() for a in arrays]
        scenes = [_scene_of(arrays, request, group) for group in call.groups]
    if by_frames:
        color, alphas, depth, meta = _by_frames(call, scenes, packed, absgrad)
    else:
        color, alphas, depth, meta = _by_operators(call, scenes, packed, absgrad, radius_clip)
    if arrays[9] is not None:
        color = color + (1 - alphas) * arrays[9][..., None, None, :]
    if request.depth is None:
        return color, alphas, meta
    depth = depth.unsqueeze(-1)
    return torch.cat((color, depth), -1) if request.with_color else depth, alphas, meta
