# SPDX-License-Identifier: MIT
"""rasterization() on torch tensors: groups of cameras that go through each stage in one launch; and what density strategies
read."""
from collections.abc import MutableMapping

import torch

from . import _stages
from ._library import BACKENDS, keep
from ._frame import Frame, Watch, means2d_of
from ._request import check, meta_of
from ._tensors import (captures, current_device, index_of, is_plain, known_values, packed_cameras, radii_for_gsplat,
                       strategy_now)

# The arrays of a call, in this order: those of a Scene, then cameras and backgrounds.
NAMES = ("means", "quats", "scales", "opacities", "colors", "covars", "constant", "viewmats", "Ks", "backgrounds")


def check_tensor(name, tensor, device):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"distwar.rasterization: {name} is a {type(tensor).__name__}, not a tensor as means is")
    if not tensor.is_floating_point():
        raise TypeError(f"distwar.rasterization: {name} has the type {tensor.dtype}, not a floating-point type")
    if tensor.device != device and not (name in ("viewmats", "Ks") and tensor.device.type == "cpu"):
        raise ValueError(f"distwar.rasterization: {name} is on {tensor.device}, means on {device}")


def _upper(covars):
    """[..., 3, 3] to [..., 6], from both triangles."""
    rows = ((covars + covars.transpose(-1, -2)) / 2).flatten(-2)
    return torch.stack([rows[..., k] for k in (0, 1, 2, 4, 5, 8)], -1)


def _scene_of(arrays, request, group):
    """The tensors of a Scene, viewmats and Ks for a group of cameras."""
    b, first, end = group
    means, quats, scales, opacities, colors, covars, constant, viewmats, Ks, _ = arrays if not request.batch else [
        a if a is None else a.flatten(0, len(request.batch) - 1)[b] for a in arrays]
    if request.per_camera:
        colors = colors[first]
    degree = request.settings.sh_degree
    if degree >= 0 and constant is None and colors.shape[-2] not in (1, 4, 9, 16):
        colors = colors[:, :(degree + 1)**2]
    if end - first != request.cameras:
        viewmats, Ks = viewmats[first:end], Ks[first:end]
    if covars is not None:
        quats, scales, covars = None, None, _upper(covars)
    return means, quats, scales, opacities, colors, covars, constant, viewmats, Ks


def _shape_of(request, cameras, scene, backend):
    """The Shape of a launch for some cameras of a Request."""
    s, depth = request.settings, request.depth
    joins = request.with_color and depth is not None and cameras == 1 and \
        request.channels * s.height * s.width % 4 == 0  # else a gradient of depths would not begin at 16 bytes
    return _stages.Shape(s, cameras, request.count, request.channels, _stages.coefficients_of(scene) if s.sh_degree >= 0 else 0,
                         depth, backend, _stages.JOINED if joins else _stages.SEPARATE)


def _joined(parts, batch):
    """Tensors [c, ...] of the groups to [..., C, ...]; None stays None."""
    if parts[0] is None:
        return None
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return whole.unflatten(0, batch + (-1,)) if batch else whole


class Call:
    """What calls with arguments of the same shapes and types have in common."""

    def __init__(self, arrays, width, height, planes, sh_degree, modes, packed, absgrad):
        named = dict(zip(NAMES, arrays))
        for name, a in named.items():
            if a is not None:
                check_tensor(name, a, arrays[0].device)
        if named["constant"] is not None:  # what check() looks at are shapes
            named["colors"] = arrays[4].new_empty(1).expand(len(arrays[0]), _stages.coefficients_of(arrays), 3)
        self.request = request = check(named, width, height, *map(float, planes), sh_degree, *modes)
        if packed and request.batch:
            raise NotImplementedError("distwar.rasterization: packed with leading dimensions is not supported; pass "
                                      "packed=False")
        if absgrad and request.channels > 32:
            raise NotImplementedError("distwar.rasterization: absgrad with more than 32 channels is not supported")
        self.device, self.index = arrays[0].device, index_of(arrays[0].device)
        self.groups, self.meta, self._plans = request.groups(), meta_of(request), None
        self.is_float32 = all(a is None or a.dtype == torch.float32 for a in arrays)
        # Whether the arrays are a Scene as they are.
        self.is_scene = self.is_float32 and len(self.groups) == 1 and not (request.batch or request.per_camera) and \
            arrays[5] is None and (request.settings.sh_degree < 0 or _stages.coefficients_of(arrays) in (1, 4, 9, 16))

    def plans(self, scenes):
        """The Plan of each group."""
        if self._plans is None:
            self._plans = [_stages.plan_of(_shape_of(self.request, end - first, scene, BACKENDS[self.device.type]))
                           for (_, first, end), scene in zip(self.groups, scenes)]
        return self._plans


_calls = {}  # Call by the shapes and types of all arguments


def _call_of(arrays, *options):
    try:
        # 64.0 equals 64 and is refused
        key = (*[None if a is None else (a.shape, a.dtype, a.device) for a in arrays], *options, type(options[0]),
               type(options[1]))
        call = _calls.get(key)
    except (AttributeError, TypeError):  # not tensors: a Call says which
        return Call(arrays, *options)
    return call or keep(_calls, key, Call(arrays, *options))


class Meta(MutableMapping):
    """What rasterization() returns as `meta`: a dictionary, but for its type. The entries `late`, by pairs of camera and
    Gaussian, are made by the methods of these names when somebody first asks for them: some take a kernel."""
    __slots__ = ("_entries", "_late", "_frames", "_nodes", "_batch", "_absgrad", "__weakref__")

    def __init__(self, entries, frames, nodes, batch, absgrad):
        """nodes: of frames, (node of its image in the graph or None, a tensor that keeps it alive)."""
        self._entries, self._late = dict(entries), frozenset(("radii", "depths", "means2d"))
        self._frames, self._nodes, self._batch, self._absgrad = frames, nodes, batch, absgrad

    def __getitem__(self, name):
        if name in self._late:
            self[name] = getattr(self, "_" + name)()
        return self._entries[name]

    def __setitem__(self, name, value):
        self._late = self._late - {name}
        self._entries[name] = value

    def __delitem__(self, name):
        self._late = self._late - {name}
        self._entries.pop(name, None)

    def __contains__(self, name):
        return name in self._late or name in self._entries

    def __iter__(self):
        return iter((*self._entries, *self._late))

    def __len__(self):
        return len(self._entries) + len(self._late)

    def copy(self):
        return dict(self)

    def _all_radii(self):
        return _joined([frame.radii() for frame in self._frames], self._batch)

    def _all_means2d(self):
        return _joined([means2d_of(frame, node) for frame, (node, _) in zip(self._frames, self._nodes)], self._batch)

    @torch.compiler.disable
    def _radii(self):
        return radii_for_gsplat(self._all_radii())

    @torch.compiler.disable
    def _depths(self):
        return _joined([frame.splats.detach()[..., 9] for frame in self._frames], self._batch)

    @torch.compiler.disable
    def _means2d(self):
        return self._watched(self._all_means2d())

    def _watched(self, means2d, at=None):
        if means2d.requires_grad:
            Watch(means2d, self._frames, self._absgrad, at)
        return means2d

    def pack(self):
        """Keeps of all pairs the rows of those that are visible."""
        radii = self._all_radii()
        at = torch.nonzero(radii > 0, as_tuple=True)
        self.update(camera_ids=at[0], gaussian_ids=at[1], batch_ids=torch.zeros_like(at[0]),
                    radii=radii_for_gsplat(radii[at]), depths=self["depths"][at],
                    means2d=self._watched(self._all_means2d()[at], at))

    def sum_in_backward(self, density):
        """Lets each backward pass do what gs_density_accumulate does, without a gradient of means2d for it. False: not of
        these cameras, or somebody has the means already."""
        (frame, *others), (node, _) = self._frames, self._nodes[0]
        if "means2d" not in self._late or others or frame.plan.shape.cameras != 1 or self._batch or node is None or \
                any(node.needs_input_grad[8:10]):
            return False
        frame.density = density
        return True


def _apart(means, colors, sh_degree):
    """(colors, constant) of a Scene: apart where a Frame takes them so, or all of them joined and None."""
    if len(colors) != 2:
        raise ValueError(f"distwar.rasterization: colors has {len(colors)} tensors, not two, the constants and the rest")
    constant, rest = colors
    for name, a in ("colors[0]", constant), ("colors[1]", rest):
        check_tensor(name, a, means.device)
    if constant.dim() == rest.dim() == 3 and constant.shape[::2] == rest.shape[::2] == means.shape and \
            constant.shape[1] == 1 and rest.shape[1] in (3, 8, 15) and sh_degree is not None and \
            constant.dtype == rest.dtype == torch.float32:
        return rest, constant
    return torch.cat((constant, rest), -2), None


@torch.compiler.disable
def rasterization(arrays, width, height, planes, sh_degree, modes, packed, absgrad, radius_clip):
    """arrays: by NAMES; colors may be two tensors."""
    if not is_plain(arrays[0]):
        raise NotImplementedError("distwar.rasterization: transforms and modes of torch (vmap, fake tensors) and subclasses of "
                                  "tensors are not supported")
    if isinstance(arrays[4], (tuple, list)):
        colors, constant = _apart(arrays[0], arrays[4], sh_degree)
        arrays = (*arrays[:4], colors, arrays[5], constant, *arrays[7:])
    call = _call_of(arrays, width, height, planes, sh_degree, modes, packed, absgrad)
    if call.index is not None and call.index != current_device():
        with torch.cuda.device(call.index):
            return rasterization(arrays, width, height, planes, sh_degree, modes, packed, absgrad, radius_clip)
    request, background, blended = call.request, arrays[9], None
    if call.is_scene:
        scenes = [arrays[:9]]
    else:
        if not call.is_float32:
            arrays = [a if a is None else a.float() for a in arrays]
        scenes = [_scene_of(arrays, request, group) for group in call.groups]
    batch, strategy, frames, images = request.batch, strategy_now(), [], []
    if background is not None and request.channels == 3 and not batch:  # of one colour for all cameras: kernels blend it
        rows = known_values(background)
        blended = rows[0] if rows and all(row == rows[0] for row in rows) else None
    for plan, scene in zip(call.plans(scenes), scenes):
        frame = Frame(plan, packed_cameras(scene[7], scene[8], plan.camera_ends), strategy, call.index, blended,
                      clip=radius_clip)
        images.append(frame.render(*scene, None))
        frames.append(frame)
    # A node lives as long as a tensor that it made. meta must not refer to itself: it would keep them all.
    meta = Meta(call.meta, frames, [(image[1].grad_fn, image[1]) for image in images], batch, absgrad)
    if packed:
        meta.pack()
    elif absgrad:
        meta["means2d"]
    elif captures(call.index):
        meta.copy()  # the entries that take a kernel are made in the graph
    color, alphas, depth = images[0] if len(images) == 1 and not batch else (_joined(of, batch) for of in zip(*images))
    if background is not None and blended is None:
        joined = color.shape[-1] - request.channels
        if joined:
            background = torch.nn.functional.pad(background, (0, joined))
        color = color + (1 - alphas) * background[..., None, None, :]
    if request.depth is None or depth is None:
        return color, alphas, meta
    depth = depth.unsqueeze(-1)
    return torch.cat((color, depth), -1) if request.with_color else depth, alphas, meta
