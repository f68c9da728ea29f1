# SPDX-License-Identifier: MIT
"""rasterization() on torch tensors: two operators, projection and blending, with their adjoints. Between them lie the
splats of libgs; the gradient of a splat is its gs_moments, and that of its mean passes through autograd by itself, so
that density strategies can retain it."""
import threading
from typing import List, Optional, Tuple

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from . import _stages, gs
from ._library import library
from ._request import check, meta_of
from ._stages import CAMERA_GRADIENT_FLOATS, SPLAT_FLOATS, Lists, Scene, Settings

_dtypes = {"float32": torch.float32, "int32": torch.int32, "uint8": torch.uint8}
_local = threading.local()  # pinned memory for reports
_host_copies = WeakTensorKeyDictionary()  # of cameras: (version, tensor)


class Memory:
    """Torch's allocator, on the device and the current stream of a tensor."""

    def __init__(self, tensor):
        self.device = tensor.device
        self.device_key = tensor.device
        is_cuda = tensor.is_cuda
        if is_cuda != (library().backend == "cuda"):
            raise RuntimeError(f"distwar.rasterization: the tensors are on {tensor.device}, and this package has libgs "
                               f"for {'CUDA' if library().backend == 'cuda' else 'CPUs'}")
        self.stream = torch.cuda.current_stream(tensor.device).cuda_stream if is_cuda else None
        self.read_report = self._read_report if is_cuda else None

    def empty(self, shape, dtype):
        return torch.empty(shape, dtype=_dtypes[dtype], device=self.device)

    @staticmethod
    def address(tensor):
        return None if tensor is None else tensor.data_ptr()

    def _read_report(self, report):
        if torch.cuda.is_current_stream_capturing():
            return None
        if not hasattr(_local, "pinned"):
            _local.pinned = torch.empty(report.shape[0], dtype=torch.uint8, pin_memory=True)
        pinned = _local.pinned
        pinned.copy_(report, non_blocking=True)
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(self.device))

        def wait():
            done.synchronize()
            return gs.BinReport.from_address(pinned.data_ptr())
        return wait


class _On:
    """Makes the device of a tensor the current one, if it is another."""

    def __init__(self, tensor):
        other = tensor.is_cuda and tensor.device.index != torch.cuda.current_device()
        self.guard = torch.cuda.device(tensor.device) if other else None

    def __enter__(self):
        if self.guard:
            self.guard.__enter__()

    def __exit__(self, *reason):
        if self.guard:
            self.guard.__exit__(*reason)


def _plain(tensor):
    """Contiguous and aligned to 16 bytes."""
    if tensor is None:
        return None
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def _on_host(tensor):
    """A copy on the CPU, which waits for the GPU; once for each tensor, as long as it does not change."""
    if tensor.device.type == "cpu":
        return tensor
    version = -1 if tensor.is_inference() else tensor._version
    kept = _host_copies.get(tensor)
    if kept is None or kept[0] != version or version < 0:
        kept = _host_copies[tensor] = version, tensor.cpu()
    return kept[1]


def _settings(sizes, planes):
    return Settings(sizes[0], sizes[1], sizes[2], bool(sizes[3]), *planes)


def _given(tensor):
    """Operators return an empty tensor for None."""
    return None if tensor.numel() == 0 else tensor


# ---- projection ----

def _project(means: Tensor, quats: Optional[Tensor], scales: Optional[Tensor], opacities: Tensor, colors: Tensor,
             covars: Optional[Tensor], viewmats: Tensor, Ks: Tensor, sizes: List[int],
             planes: List[float]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Splats [C, N, 12], their means [C, N, 2], radii [C, N], and on the CPU the cameras [C, 25]: the rows of viewmats
    and Ks. sizes: width, height, sh_degree or -1, antialiased. planes: near, far, eps2d."""
    with _On(means):
        cameras = torch.cat((_on_host(viewmats).reshape(-1, 16), _on_host(Ks).reshape(-1, 9)), 1)
        settings = _settings(sizes, planes)
        scene = Scene(*map(_plain, (means, quats, scales, opacities, colors, covars)))
        splats, radii = _stages.project(Memory(means), scene, settings, _cameras(cameras, settings))
        return splats, splats[..., :2].clone(memory_format=torch.contiguous_format), radii, cameras


def _cameras(cameras, settings):
    rows = cameras.tolist()
    return _stages.camera_structs([[r[0:4], r[4:8], r[8:12]] for r in rows], [[r[16:19], r[19:22]] for r in rows],
                                  settings)


project = torch.library.custom_op("distwar::project", _project, mutates_args=())


@project.register_fake
def _(means, quats, scales, opacities, colors, covars, viewmats, Ks, sizes, planes):
    size = (viewmats.shape[0], means.shape[0])
    return (means.new_empty(size + (SPLAT_FLOATS,)), means.new_empty(size + (2,)),
            means.new_empty(size, dtype=torch.int32), means.new_empty((size[0], 25), device="cpu"))


def _project_backward(means: Tensor, quats: Optional[Tensor], scales: Optional[Tensor], opacities: Tensor,
                      colors: Tensor, covars: Optional[Tensor], splats: Tensor, cameras: Tensor, moments: Tensor,
                      d_means2d: Optional[Tensor], sizes: List[int], planes: List[float],
                      with_cameras: bool) -> List[Tensor]:
    """The gradients of the first six, and with_cameras those of viewmats and Ks; those that do not exist are empty."""
    with _On(means):
        settings = _settings(sizes, planes)
        scene = Scene(*map(_plain, (means, quats, scales, opacities, colors, covars)))
        memory = Memory(means)
        d_scene, d_cameras = _stages.project_backward(memory, scene, settings, _cameras(cameras, settings), splats,
                                                      _plain(moments), _plain(d_means2d), with_cameras)
        out = [means.new_empty(0) if d is None else d for d in d_scene]
        if not with_cameras:
            return out + [means.new_empty(0), means.new_empty(0)]
        rows = torch.stack([d[:CAMERA_GRADIENT_FLOATS] for d in d_cameras])
        d_viewmats, d_Ks = rows.new_zeros((len(rows), 4, 4)), rows.new_zeros((len(rows), 3, 3))
        d_viewmats[:, :3] = rows[:, :12].view(-1, 3, 4)
        for k, (row, column) in enumerate(((0, 0), (1, 1), (0, 2), (1, 2))):
            d_Ks[:, row, column] = rows[:, 18 + k]
        return out + [d_viewmats, d_Ks]


project_backward = torch.library.custom_op("distwar::project_backward", _project_backward, mutates_args=())


@project_backward.register_fake
def _(means, quats, scales, opacities, colors, covars, splats, cameras, moments, d_means2d, sizes, planes,
      with_cameras):
    none = (0,)
    shapes = [none if a is None else a.shape for a in (means, quats, scales, opacities, colors, covars)]
    shapes += [(cameras.shape[0], 4, 4), (cameras.shape[0], 3, 3)] if with_cameras else [none, none]
    return [means.new_empty(shape) for shape in shapes]


def _project_setup(ctx, inputs, output):
    means, quats, scales, opacities, colors, covars, viewmats, Ks, ctx.sizes, ctx.planes = inputs
    splats, _, radii, cameras = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(radii, cameras)
    ctx.save_for_backward(means, quats, scales, opacities, colors, covars, splats, cameras)
    ctx.devices = viewmats.device, Ks.device


def _project_adjoint(ctx, d_splats, d_means2d, *_, backward=project_backward):
    means, quats, scales, opacities, colors, covars, splats, cameras = ctx.saved_tensors
    if d_splats is None and d_means2d is None:
        return (None,) * 10
    moments = torch.zeros_like(splats) if d_splats is None else d_splats
    with_cameras = any(ctx.needs_input_grad[6:8])
    *d_scene, d_viewmats, d_Ks = backward(
        means, quats, scales, opacities, colors, covars, splats, cameras, moments, d_means2d, ctx.sizes, ctx.planes,
        with_cameras)
    d_scene = [None if a is None else d for a, d in zip((means, quats, scales, opacities, colors, covars), d_scene)]
    to = [d.to(device) if with_cameras else None for d, device in zip((d_viewmats, d_Ks), ctx.devices)]
    return (*d_scene, *to, None, None)


project.register_autograd(_project_adjoint, setup_context=_project_setup)


# ---- blending ----

NO_DEPTH = -1


def _depth_of(sizes):
    return None if sizes[2] == NO_DEPTH else sizes[2]


def _render(splats: Tensor, means2d: Tensor, absolute: Optional[Tensor], features: Optional[Tensor], sizes: List[int],
            strategy: str) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Planar colours [C, channels, height, width], alphas and depths [C, height, width]; then what the adjoint reads.
    means2d: those of the splats; its gradient is that by them. absolute: if given, of its shape; its gradient is the
    sums of absolute values. features: [N, channels] unless there are three. sizes: width, height, and what the depth
    is, NO_DEPTH: not wanted. strategy: of gs_render_backward."""
    with _On(splats):
        settings = Settings(sizes[0], sizes[1], -1, False, 0, 0, 0)
        image = _stages.render(Memory(splats), settings, _plain(splats), _plain(features), _depth_of(sizes))
        return (image.color, 1 - image.transmittance, image.depth, image.transmittance, image.n_contrib,
                image.workspace, torch.tensor(image.lists))


render = torch.library.custom_op("distwar::render", _render, mutates_args=())


@render.register_fake
def _(splats, means2d, absolute, features, sizes, strategy):
    size = (splats.shape[0], sizes[1], sizes[0])
    channels = _stages.CHANNELS if features is None else features.shape[1]
    room = torch.library.get_ctx().new_dynamic_size()
    return (splats.new_empty((size[0], channels) + size[1:]), splats.new_empty(size),
            splats.new_empty(size if sizes[2] >= 0 else (0,)), splats.new_empty(size),
            splats.new_empty(size, dtype=torch.int32), splats.new_empty((room,), dtype=torch.uint8),
            splats.new_empty((len(Lists._fields),), dtype=torch.int64, device="cpu"))


def _render_backward(splats: Tensor, features: Optional[Tensor], color: Tensor, transmittance: Tensor, depth: Tensor,
                     n_contrib: Tensor, workspace: Tensor, lists: Tensor, d_color: Tensor, d_alpha: Optional[Tensor],
                     d_depth: Optional[Tensor], sizes: List[int], strategy: str,
                     absolute: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """gs_moments of the splats, the gradient by their means, its sums of absolute values, the gradient by features; the
    last two are empty unless wanted."""
    with _On(splats):
        settings = Settings(sizes[0], sizes[1], -1, False, 0, 0, 0)
        image = _stages.Image(color, transmittance, depth, n_contrib, workspace, Lists(*lists.tolist()))
        moments, d_means2d, absolutes, d_features = _stages.render_backward(
            Memory(splats), settings, _plain(splats), _plain(features), image, _plain(d_color), _plain(d_alpha),
            _plain(d_depth), _depth_of(sizes), absolute, strategy)
        none = splats.new_empty(0)
        return (moments, d_means2d, none if absolutes is None else absolutes,
                splats.new_empty(0) if d_features is None else d_features)


render_backward = torch.library.custom_op("distwar::render_backward", _render_backward, mutates_args=())


@render_backward.register_fake
def _(splats, features, color, transmittance, depth, n_contrib, workspace, lists, d_color, d_alpha, d_depth, sizes,
      strategy, absolute):
    pairs = splats.shape[:2] + (2,)
    return (torch.empty_like(splats), splats.new_empty(pairs), splats.new_empty(pairs if absolute else (0,)),
            splats.new_empty((0,) if features is None else features.shape))


def _render_setup(ctx, inputs, output):
    splats, _, absolute, features, ctx.sizes, ctx.strategy = inputs
    color, _, depth, transmittance, n_contrib, workspace, lists = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(transmittance, n_contrib, workspace, lists)
    ctx.absolute = absolute is not None
    ctx.save_for_backward(splats, features, color, transmittance, depth, n_contrib, workspace, lists)


def _render_adjoint(ctx, d_color, d_alpha, d_depth, *_, backward=render_backward):
    splats, features, color, transmittance, depth, n_contrib, workspace, lists = ctx.saved_tensors
    if d_color is None and d_alpha is None and d_depth is None:
        return (None,) * 6
    if d_color is None:
        d_color = torch.zeros_like(color)
    moments, d_means2d, absolutes, d_features = backward(
        splats, features, color, transmittance, depth, n_contrib, workspace, lists, d_color, d_alpha,
        d_depth if ctx.sizes[2] >= 0 else None, ctx.sizes, ctx.strategy, ctx.absolute)
    return (moments, d_means2d, absolutes if ctx.absolute else None, None if features is None else d_features, None,
            None)


render.register_autograd(_render_adjoint, setup_context=_render_setup)


# ---- without the dispatcher ----

class _Direct(torch.autograd.Function):
    """An operator called outside of graphs and modes: the same functions, in half of the host's time."""

    @classmethod
    def forward(cls, ctx, *inputs):
        output = cls.run(*inputs)
        cls.setup(ctx, inputs, output)
        return output

    @classmethod
    def backward(cls, ctx, *gradients):
        if torch.is_grad_enabled():  # create_graph: the operators refuse a second derivative
            return cls.adjoint(ctx, *gradients)
        return cls.adjoint(ctx, *gradients, backward=cls.run_backward)


class _DirectProject(_Direct):
    run, run_backward = staticmethod(_project), staticmethod(_project_backward)
    setup, adjoint = staticmethod(_project_setup), staticmethod(_project_adjoint)


class _DirectRender(_Direct):
    run, run_backward = staticmethod(_render), staticmethod(_render_backward)
    setup, adjoint = staticmethod(_render_setup), staticmethod(_render_adjoint)


def _is_plain(tensor):
    """Whether no compiler traces and no mode watches: the tensor holds numbers."""
    return not torch.compiler.is_compiling() and type(tensor) in (Tensor, torch.nn.Parameter) and not \
        torch._C._len_torch_dispatch_stack()


def _no_second_derivative(ctx, *_):
    raise RuntimeError("distwar.rasterization has no second derivatives: it was differentiated with create_graph=True")


for _operator in (project_backward, render_backward):
    _operator.register_autograd(_no_second_derivative)


# ---- the function ----

def _float32(name, tensor, device):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"distwar.rasterization: {name} is a {type(tensor).__name__}, not a tensor as means is")
    if not tensor.is_floating_point():
        raise TypeError(f"distwar.rasterization: {name} has the type {tensor.dtype}, not a floating-point type")
    if tensor.device != device and not (name in ("viewmats", "Ks") and tensor.device.type == "cpu"):
        raise ValueError(f"distwar.rasterization: {name} is on {tensor.device}, means on {device}")
    return tensor if tensor.dtype == torch.float32 else tensor.float()


def _upper(covars):
    """[..., 3, 3] to [..., 6], from both triangles."""
    rows = ((covars + covars.transpose(-1, -2)) / 2).flatten(-2)
    return torch.stack([rows[..., k] for k in (0, 1, 2, 4, 5, 8)], -1)


def _strategy():
    import distwar
    return "fixed" if distwar.deterministic or torch.are_deterministic_algorithms_enabled() else "tree"


def _scene_of(arrays, request, group):
    """The inputs of project() for a group of cameras."""
    b, first, end = group
    flat = {name: a if a is None or not request.batch else a.flatten(0, len(request.batch) - 1)[b]
            for name, a in arrays.items()}
    colors = flat["colors"][first] if request.per_camera else flat["colors"]
    if request.channels != 3:
        colors = colors.detach()  # their gradient comes from blending
    degree = request.settings.sh_degree
    if degree >= 0 and colors.shape[-2] not in (1, 4, 9, 16):
        colors = colors[:, :(degree + 1)**2]
    viewmats, Ks = flat["viewmats"], flat["Ks"]
    if end - first != request.cameras:
        viewmats, Ks = viewmats[first:end], Ks[first:end]
    if flat["covars"] is not None:
        return flat["means"], None, None, flat["opacities"], colors, _upper(flat["covars"]), viewmats, Ks
    return flat["means"], flat["quats"], flat["scales"], flat["opacities"], colors, None, viewmats, Ks


def _joined(parts, batch):
    """Tensors [c, ...] of the groups to [..., C, ...]."""
    whole = parts[0] if len(parts) == 1 else torch.cat(parts)
    return whole.unflatten(0, batch + (-1,)) if batch else whole


def _visible_pairs(means2d, radii, meta):
    """Packs means2d and radii to the rows of visible pairs. Returns means2d [C, N, 2] that depends on the rows."""
    at = torch.nonzero(radii > 0, as_tuple=True)
    rows = means2d[at]
    meta.update(camera_ids=at[0], gaussian_ids=at[1], batch_ids=torch.zeros_like(at[0]), means2d=rows,
                radii=radii[at].unsqueeze(-1).expand(-1, 2), depths=meta["depths"][at])
    return means2d.detach().index_put(at, rows), at


def rasterization(arrays, width, height, planes, sh_degree, modes, packed, absgrad):
    device = arrays["means"].device
    arrays = {name: None if a is None else _float32(name, a, device) for name, a in arrays.items()}
    request = check(arrays, width, height, *planes, sh_degree, *modes)
    if packed and request.batch:
        raise NotImplementedError("distwar.rasterization: packed with leading dimensions is not supported; pass "
                                  "packed=False")
    if absgrad and request.channels > 32:
        raise NotImplementedError("distwar.rasterization: absgrad with more than 32 channels is not supported")
    settings, groups, batch = request.settings, request.groups(), request.batch
    sizes = [width, height, settings.sh_degree, int(settings.antialiased)]
    planes = [float(p) for p in planes]
    scenes = [_scene_of(arrays, request, group) for group in groups]
    run = _DirectProject.apply if _is_plain(arrays["means"]) else project
    projected = [run(*scene, sizes, planes) for scene in scenes]
    means2d, radii = (_joined([p[k] for p in projected], batch) for k in (1, 2))
    meta = meta_of(request)
    meta.update(means2d=means2d, depths=_joined([p[0].detach()[..., 9] for p in projected], batch))
    at, blended = None, means2d
    if packed:
        blended, at = _visible_pairs(means2d, radii, meta)
    else:
        meta["radii"] = radii.unsqueeze(-1).expand(*radii.shape, 2)
    absolute = None
    if absgrad and blended.requires_grad:
        absolute = torch.zeros((), device=device).expand(blended.shape).requires_grad_()
        target = meta["means2d"]
        absolute.register_hook(lambda g: setattr(target, "absgrad", g if at is None else g[at]))
    frames = _blended(request, projected, arrays["colors"], blended, absolute)
    color, alphas, depth = (_joined(list(parts), batch) for parts in zip(*frames))
    alphas = alphas.unsqueeze(-1)
    color = color.movedim(-3, -1)
    if arrays["backgrounds"] is not None:
        color = color + (1 - alphas) * arrays["backgrounds"][..., None, None, :]
    if request.depth is None:
        return color, alphas, meta
    depth = depth.unsqueeze(-1)
    return torch.cat((color, depth), -1) if request.with_color else depth, alphas, meta


def _features(request, colors, group):
    """The colours [N, channels] of a group of cameras; None if they are those of the splats."""
    if request.channels == 3:
        return None
    b, first, _ = group
    colors = colors.flatten(0, len(request.batch) - 1)[b] if request.batch else colors
    return colors[first] if request.per_camera else colors


def _blended(request, projected, colors, means2d, absolute):
    """(planar colours, alphas, depths) of each group."""
    s, strategy = request.settings, _strategy()
    sizes = [s.width, s.height, NO_DEPTH if request.depth is None else request.depth]
    whole = len(projected) == 1 and not request.batch
    flat = [a if a is None or whole else a.flatten(0, -3) for a in (means2d, absolute)]
    run = _DirectRender.apply if _is_plain(projected[0][0]) else render
    frames, first = [], 0
    for part, group in zip(projected, request.groups()):
        end = first + part[0].shape[0]
        of_group = [a if a is None or len(projected) == 1 else a[first:end] for a in flat]
        frames.append(run(part[0], *of_group, _features(request, colors, group), sizes, strategy)[:3])
        first = end
    return frames
