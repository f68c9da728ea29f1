# SPDX-License-Identifier: MIT
"""rasterization() on torch tensors, in two parts, projection and blending, with their adjoints. Between them lie the
splats of libgs; the gradient of a splat is its gs_moments, and that of its mean passes through autograd by itself, so
that density strategies can retain it.

Each part exists twice around the same calls of _stages.py: as an operator of torch, for torch.compile and whatever else
watches the dispatcher, and as an autograd.Function, which takes a fraction of the host's time."""
import threading
import weakref
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from . import _stages
from ._library import library
from ._request import check, meta_of
from ._stages import CAMERA_GRADIENT_FLOATS, SPLAT_FLOATS, Lists, Settings, Shape

_local = threading.local()  # pinned memory for reports
_host_copies = {}  # of cameras: by id, (weak reference, version, tensor)
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_is_compiling = torch.compiler.is_compiling
_dispatch_modes, _transforms_active = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active
_PLAIN = Tensor, torch.nn.Parameter


def _stream_of(device):
    """The current stream, as _stages.py takes it. Refuses devices that the library has no kernels for."""
    if (device.type == "cuda") != (library().backend == "cuda"):
        raise RuntimeError(f"distwar.rasterization: the tensors are on {device}, and this package has libgs for "
                           f"{'CUDA' if library().backend == 'cuda' else 'CPUs'}")
    if device.type != "cuda":
        return None
    return _raw_stream(device.index) if _raw_stream else torch.cuda.current_stream(device).cuda_stream


def _report(device):
    """Where gs_bin reports to, as _stages.Plan.render() takes it."""
    if device.type != "cuda":
        return None
    if torch.cuda.is_current_stream_capturing():
        return 0
    try:
        return _local.address
    except AttributeError:
        _local.pinned = torch.zeros(64, dtype=torch.uint8, pin_memory=True)
        _local.address = _local.pinned.data_ptr()
        return _local.address


class Memory:
    """Torch's allocator, on the device and the current stream of a tensor."""

    def __init__(self, tensor):
        self.device, self.stream = tensor.device, _stream_of(tensor.device)

    def empty(self, shape, dtype):
        return torch.empty(shape, dtype=getattr(torch, dtype), device=self.device)


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


def _address(tensor, kept):
    """Of a contiguous tensor, aligned to 16 bytes; None stays None. A copy goes to the list `kept`: it must live until
    the work on it is queued."""
    if tensor is None:
        return None
    at = tensor.data_ptr()
    if at % 16 == 0 and tensor.is_contiguous():
        return at
    kept.append(_plain(tensor))
    return kept[-1].data_ptr()


def _on_host(tensor):
    """A copy on the CPU, which waits for the GPU; once for each tensor, as long as it does not change."""
    if not tensor.is_cuda:
        return tensor
    version = -1 if tensor.is_inference() else tensor._version
    reference, of, copy = _host_copies.get(id(tensor), (None, -1, None))
    if of < 0 or of != version or reference() is not tensor:
        copy = tensor.detach().cpu()
        if len(_host_copies) >= 1024:
            _host_copies.clear()
        _host_copies[id(tensor)] = weakref.ref(tensor), version, copy
    return copy


def _camera_structs(viewmats, Ks, settings):
    return _stages.camera_structs(_on_host(viewmats).tolist(), _on_host(Ks).tolist(), settings)


def _empty(shape, like, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=like.device)


def _gradient_like(tensor):
    return None if tensor is None else torch.empty_like(tensor, memory_format=torch.contiguous_format)


# ---- the four stages ----

def _run_project(plan, cameras, scene, stream):
    """Splats [C, N, 12] of the six tensors of a Scene."""
    kept, shape = [], plan.shape
    splats = _empty((shape.cameras, shape.count, SPLAT_FLOATS), scene[0])
    plan.project(cameras, [_address(a, kept) for a in scene], splats.data_ptr(), stream)
    return splats


def _radii(plan, splats):
    """[C, N], on the current stream."""
    radii = _empty(splats.shape[:2], splats, torch.int32)
    plan.radii(splats.data_ptr(), radii.data_ptr(), _stream_of(splats.device))
    return radii


# Where the entries of viewmats [4, 4] and Ks [3, 3] are in a gs_camera_gradient. 22: a member that is 0.
_CAMERA_ENTRIES = [*range(12), 22, 22, 22, 22, 18, 22, 20, 22, 19, 21, 22, 22, 22]
_camera_entries = {}  # by device


def _run_project_backward(plan, cameras, scene, splats, moments, d_means2d, with_cameras):
    """The gradients of the six tensors of a Scene, then with_cameras those of viewmats and Ks; None: there is none."""
    kept, stream = [], _stream_of(splats.device)
    at, d_mean2d = [_address(a, kept) for a in scene], _address(d_means2d, kept)
    at_splats, at_moments = _address(splats, kept), _address(moments, kept)
    if not with_cameras:
        d_scene = [_gradient_like(a) for a in scene]
        plan.project_backward(cameras, at, at_splats, at_moments, d_mean2d,
                              [None if d is None else d.data_ptr() for d in d_scene], None, stream)
        return *d_scene, None, None
    # libgs has this gradient for one camera at a time
    one, count, parts = plan.one_camera(), plan.shape.count, []
    d_cameras = _empty((plan.shape.cameras, (one.camera_floats + 3) // 4 * 4), splats)
    for c in range(plan.shape.cameras):
        d_scene = [_gradient_like(a) for a in scene]
        splat = c * count * 4 * SPLAT_FLOATS
        one.project_backward(cameras[c:c + 1], at, at_splats + splat, at_moments + splat,
                             None if d_mean2d is None else d_mean2d + c * count * 8,
                             [None if d is None else d.data_ptr() for d in d_scene], d_cameras[c].data_ptr(), stream)
        parts.append(d_scene)
    d_scene = [None if column[0] is None else sum(column[1:], column[0]) for column in zip(*parts)]
    entries = _camera_entries.get(splats.device)
    if entries is None:
        entries = _camera_entries[splats.device] = torch.tensor(_CAMERA_ENTRIES, device=splats.device)
    d_cameras = d_cameras.index_select(1, entries)
    return *d_scene, d_cameras[:, :16].unflatten(1, (4, 4)), d_cameras[:, 16:].unflatten(1, (3, 3))


def _run_render(plan, room, splats, features, color, alphas, depth, stream):
    """Writes the last tensors. Returns the block and its Lists."""
    kept, device = [], splats.device

    def allocate(size):
        block = torch.empty(size, dtype=torch.uint8, device=device)
        return block, block.data_ptr()
    return plan.render(room, _address(splats, kept), _address(features, kept),
                       (color.data_ptr(), None if depth is None else depth.data_ptr()), alphas.data_ptr(), allocate,
                       stream, _report(device))


def _run_render_backward(plan, splats, features, rendered, d, wants_means2d, absolute, strategy):
    """rendered: colours, depths or None, block, Lists. d: addresses of the gradients by planar colours, depths and
    alphas. Returns gs_moments of the splats, the gradient by their means, its sums of absolute values, the gradient by
    features; those that are not wanted are None."""
    kept, shape, floats = [], splats.shape, plan.moments_floats(strategy)
    is_whole = floats == splats.numel()
    sums = _empty(shape if is_whole else max(floats, 1), splats)
    d_means2d = _empty(shape[:2] + (2,), splats) if wants_means2d else None
    absolutes = _empty(shape[:2] + (2,), splats) if absolute else None
    d_features = _gradient_like(features)
    color, depth, block, lists = rendered
    plan.render_backward(
        _address(splats, kept), _address(features, kept),
        ((color.data_ptr(), None if depth is None else depth.data_ptr()), block.data_ptr(), lists),
        d, None if d_features is None else d_features.data_ptr(),
        (sums.data_ptr(), d_means2d.data_ptr() if wants_means2d else None, absolutes.data_ptr() if absolute else None),
        strategy, _stream_of(splats.device))
    return sums if is_whole else sums[:splats.numel()].view(shape), d_means2d, absolutes, d_features


# ---- as operators ----

NO_DEPTH = -1


def _plan_of_project(means, colors, sizes, planes, cameras):
    width, height, degree, antialiased = sizes
    settings = Settings(width, height, degree, bool(antialiased), *planes)
    harmonics = degree >= 0
    return _stages.plan_of(Shape(settings, cameras, means.shape[0], 3 if harmonics else colors.shape[1],
                                 colors.shape[1] if harmonics else 0, None))


def _plan_of_render(splats, features, sizes):
    width, height, depth = sizes
    channels = _stages.CHANNELS if features is None else features.shape[1]
    return _stages.plan_of(Shape(Settings(width, height, -1, False, 1.0, 0.0, 0.3), splats.shape[0], splats.shape[1],
                                 channels, 0, None if depth == NO_DEPTH else depth))


def _or_empty(like, tensors):
    """Operators return an empty tensor for None."""
    return [_empty(0, like) if a is None else a for a in tensors]


@torch.library.custom_op("distwar::project", mutates_args=())
def project(means: Tensor, quats: Optional[Tensor], scales: Optional[Tensor], opacities: Tensor, colors: Tensor,
            covars: Optional[Tensor], viewmats: Tensor, Ks: Tensor, sizes: List[int],
            planes: List[float]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Splats [C, N, 12], their means [C, N, 2], radii [C, N], and on the CPU the cameras [C, 25]: the rows of viewmats
    and Ks. sizes: width, height, sh_degree or -1, antialiased. planes: near, far, eps2d."""
    with _On(means):
        plan = _plan_of_project(means, colors, sizes, planes, viewmats.shape[0])
        cameras = torch.cat((_on_host(viewmats).reshape(-1, 16), _on_host(Ks).reshape(-1, 9)), 1)
        splats = _run_project(plan, _cameras(cameras, plan), (means, quats, scales, opacities, colors, covars),
                              _stream_of(means.device))
        return (splats, splats[..., :2].clone(memory_format=torch.contiguous_format), _radii(plan, splats), cameras)


def _cameras(cameras, plan):
    return _camera_structs(cameras[:, :16].view(-1, 4, 4), cameras[:, 16:].view(-1, 3, 3), plan.shape.settings)


@project.register_fake
def _(means, quats, scales, opacities, colors, covars, viewmats, Ks, sizes, planes):
    size = (viewmats.shape[0], means.shape[0])
    return (means.new_empty(size + (SPLAT_FLOATS,)), means.new_empty(size + (2,)),
            means.new_empty(size, dtype=torch.int32), means.new_empty((size[0], 25), device="cpu"))


@torch.library.custom_op("distwar::project_backward", mutates_args=())
def project_backward(means: Tensor, quats: Optional[Tensor], scales: Optional[Tensor], opacities: Tensor,
                     colors: Tensor, covars: Optional[Tensor], splats: Tensor, cameras: Tensor, moments: Tensor,
                     d_means2d: Optional[Tensor], sizes: List[int], planes: List[float],
                     with_cameras: bool) -> List[Tensor]:
    """The gradients of the first six, and with_cameras those of viewmats and Ks; those that do not exist are empty."""
    with _On(means):
        plan = _plan_of_project(means, colors, sizes, planes, cameras.shape[0])
        out = _or_empty(means, _run_project_backward(plan, _cameras(cameras, plan), (
            means, quats, scales, opacities, colors, covars), splats, moments, d_means2d, with_cameras))
        return out[:6] + [d.clone() for d in out[6:]]  # no two of them share memory


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


def _project_adjoint(ctx, d_splats, d_means2d, *_):
    *scene, splats, cameras = ctx.saved_tensors
    if d_splats is None and d_means2d is None:
        return (None,) * 10
    moments = torch.zeros_like(splats) if d_splats is None else d_splats
    with_cameras = any(ctx.needs_input_grad[6:8])
    d = project_backward(*scene, splats, cameras, moments, d_means2d, ctx.sizes, ctx.planes, with_cameras)
    d_scene = [None if a is None else of for a, of in zip(scene, d)]
    d_cameras = [of.to(device) if with_cameras else None for of, device in zip(d[6:], ctx.devices)]
    return (*d_scene, *d_cameras, None, None)


project.register_autograd(_project_adjoint, setup_context=_project_setup)


@torch.library.custom_op("distwar::render", mutates_args=())
def render(splats: Tensor, means2d: Tensor, absolute: Optional[Tensor], features: Optional[Tensor], sizes: List[int],
           strategy: str) -> Tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Planar colours [C, channels, height, width], alphas and depths [C, height, width]; then what the adjoint reads.
    means2d: those of the splats; its gradient is that by them. absolute: if given, of its shape; its gradient is the
    sums of absolute values. features: [N, channels] unless there are three. sizes: width, height, and what the depth
    is, NO_DEPTH: not wanted. strategy: of gs_render_backward."""
    with _On(splats):
        plan = _plan_of_render(splats, features, sizes)
        size = (splats.shape[0], sizes[1], sizes[0])
        color, alphas = _empty((size[0], plan.shape.channels) + size[1:], splats), _empty(size, splats)
        depth = _empty(0 if sizes[2] == NO_DEPTH else size, splats)
        block, lists = _run_render(plan, _stages.room_of(splats.device, plan.shape), splats, features, color, alphas,
                                   None if sizes[2] == NO_DEPTH else depth, _stream_of(splats.device))
        return color, alphas, depth, block, torch.tensor(lists)


@render.register_fake
def _(splats, means2d, absolute, features, sizes, strategy):
    size = (splats.shape[0], sizes[1], sizes[0])
    channels = _stages.CHANNELS if features is None else features.shape[1]
    room = torch.library.get_ctx().new_dynamic_size()
    return (splats.new_empty((size[0], channels) + size[1:]), splats.new_empty(size),
            splats.new_empty(size if sizes[2] >= 0 else (0,)), splats.new_empty((room,), dtype=torch.uint8),
            splats.new_empty((len(Lists._fields),), dtype=torch.int64, device="cpu"))


@torch.library.custom_op("distwar::render_backward", mutates_args=())
def render_backward(splats: Tensor, features: Optional[Tensor], color: Tensor, depth: Tensor, block: Tensor,
                    lists: Tensor, d_color: Tensor, d_alpha: Optional[Tensor], d_depth: Optional[Tensor],
                    sizes: List[int], strategy: str, absolute: bool) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """gs_moments of the splats, the gradient by their means, its sums of absolute values, the gradient by features; the
    last two are empty unless wanted."""
    with _On(splats):
        rendered, kept = (color, None if sizes[2] == NO_DEPTH else depth, block, Lists(*lists.tolist())), []
        d = _run_render_backward(_plan_of_render(splats, features, sizes), splats, features, rendered,
                                 [_address(a, kept) for a in (d_color, d_depth, d_alpha)], True, absolute, strategy)
        return tuple(_or_empty(splats, d))


@render_backward.register_fake
def _(splats, features, color, depth, block, lists, d_color, d_alpha, d_depth, sizes, strategy, absolute):
    pairs = splats.shape[:2] + (2,)
    return (torch.empty_like(splats), splats.new_empty(pairs), splats.new_empty(pairs if absolute else (0,)),
            splats.new_empty((0,) if features is None else features.shape))


def _render_setup(ctx, inputs, output):
    splats, _, absolute, features, ctx.sizes, ctx.strategy = inputs
    color, _, depth, block, lists = output
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(block, lists)
    ctx.absolute = absolute is not None
    ctx.save_for_backward(splats, features, color, depth, block, lists)


def _render_adjoint(ctx, d_color, d_alpha, d_depth, *_):
    splats, features, color, depth, block, lists = ctx.saved_tensors
    if d_color is None and d_alpha is None and d_depth is None:
        return (None,) * 6
    if d_color is None:
        d_color = torch.zeros_like(color)
    moments, d_means2d, absolutes, d_features = render_backward(
        splats, features, color, depth, block, lists, d_color, d_alpha, d_depth if ctx.sizes[2] >= 0 else None,
        ctx.sizes, ctx.strategy, ctx.absolute)
    return (moments, d_means2d, absolutes if ctx.absolute else None, None if features is None else d_features, None,
            None)


render.register_autograd(_render_adjoint, setup_context=_render_setup)

_SECOND = "distwar.rasterization has no second derivatives: it was differentiated with create_graph=True"


def _no_second_derivative(ctx, *_):
    raise RuntimeError(_SECOND)


for _operator in (project_backward, render_backward):
    _operator.register_autograd(_no_second_derivative)


# ---- as autograd.Functions ----

class _Refused(torch.autograd.Function):
    """Gradients that were computed with create_graph=True. sources: what they depend on."""

    @staticmethod
    def forward(ctx, gradient, *sources):
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(_SECOND)


def _adjoint(run):
    """A backward() whose results have no derivatives."""
    def backward(ctx, *d):
        if not torch.is_grad_enabled():
            return run(ctx, *d)
        with torch.no_grad():
            out = run(ctx, *d)
        sources = [a for a in (*ctx.saved_tensors, *d) if isinstance(a, Tensor) and a.is_floating_point()]
        return tuple(a if a is None else _Refused.apply(a, *sources) for a in out)
    return staticmethod(backward)


class _Frame:
    """What the parts of a launch have in common, forward and backward, but tensors."""

    def __init__(self, plan, room, cameras, strategy, stream, devices):
        self.plan, self.room, self.cameras, self.strategy, self.stream = plan, room, cameras, strategy, stream
        self.devices = devices  # of viewmats and Ks
        self.wants_means2d = False  # whether anyone can ask for the gradient by the means of the splats
        self.lists = None


class _Project(torch.autograd.Function):
    """Splats [C, N, 12] and a view of their means [C, N, 2]."""

    @staticmethod
    def forward(ctx, frame, means, quats, scales, opacities, colors, covars, viewmats, Ks):
        scene = means, quats, scales, opacities, colors, covars
        splats = _run_project(frame.plan, frame.cameras, scene, frame.stream)
        ctx.frame = frame
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*scene, splats)
        cameras, count, floats = splats.shape
        return splats, splats.as_strided((cameras, count, 2), (count * floats, floats, 1))

    @_adjoint
    def backward(ctx, d_splats, d_means2d):
        *scene, splats = ctx.saved_tensors
        if d_splats is None:
            if d_means2d is None:
                return (None,) * 9
            d_splats = torch.zeros_like(splats)
        with_cameras = ctx.needs_input_grad[7] or ctx.needs_input_grad[8]
        with _On(splats):
            *d_scene, d_viewmats, d_Ks = _run_project_backward(ctx.frame.plan, ctx.frame.cameras, scene, splats,
                                                               d_splats, d_means2d, with_cameras)
            if with_cameras:
                d_viewmats, d_Ks = (d.to(device) for d, device in zip((d_viewmats, d_Ks), ctx.frame.devices))
            return None, *d_scene, d_viewmats, d_Ks


class _Render(torch.autograd.Function):
    """Colours [C, height, width, channels], stored as planes, alphas [C, height, width, 1] and depths [C, height,
    width], or None. The other arguments: as render() takes them."""

    @staticmethod
    def forward(ctx, frame, splats, means2d, absolute, features):
        (s, cameras, _, channels, _, depth) = frame.plan.shape
        h, w = s.height, s.width
        color = torch.empty_strided((cameras, h, w, channels), (channels * h * w, w, 1, h * w), dtype=torch.float32,
                                    device=splats.device)
        alphas = _empty((cameras, h, w, 1), splats)
        depths = None if depth is None else _empty((cameras, h, w), splats)
        block, frame.lists = _run_render(frame.plan, frame.room, splats, features, color, alphas, depths, frame.stream)
        ctx.frame, ctx.absolute = frame, absolute is not None
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(splats, features, color, depths, block)
        return color, alphas, depths

    @_adjoint
    def backward(ctx, d_color, d_alphas, d_depths):
        splats, features, color, depths, block = ctx.saved_tensors
        if d_color is None:
            if d_alphas is None and d_depths is None:
                return (None,) * 5
            d_color = torch.zeros_like(color)
        frame, kept = ctx.frame, []
        with _On(splats):
            if d_color.stride() == color.stride() and d_color.data_ptr() % 16 == 0:
                at = d_color.data_ptr()
            else:
                at = _address(d_color.movedim(-1, -3), kept)
            return None, *_run_render_backward(
                frame.plan, splats, features, (color, depths, block, frame.lists),
                (at, _address(d_depths, kept), _address(d_alphas, kept)), frame.wants_means2d, ctx.absolute,
                frame.strategy)


class _DirectProject:
    """As the operator project, without the dispatcher: for python/compat."""

    @staticmethod
    def apply(means, quats, scales, opacities, colors, covars, viewmats, Ks, sizes, planes):
        plan = _plan_of_project(means, colors, sizes, planes, viewmats.shape[0])
        cameras = _camera_structs(viewmats, Ks, plan.shape.settings)
        frame = _Frame(plan, None, cameras, None, _stream_of(means.device), (viewmats.device, Ks.device))
        splats, means2d = _Project.apply(frame, means, quats, scales, opacities, colors, covars, viewmats, Ks)
        return splats, means2d, _radii(plan, splats), None


class _DirectRender:
    """As the operator render."""

    @staticmethod
    def apply(splats, means2d, absolute, features, sizes, strategy):
        plan = _plan_of_render(splats, features, sizes)
        room = _stages.room_of(splats.device, plan.shape)
        frame = _Frame(plan, room, None, strategy, _stream_of(splats.device), None)
        frame.wants_means2d = True
        color, alphas, depths = _Render.apply(frame, splats, means2d, absolute, features)
        return color.movedim(-1, -3), alphas[..., 0], depths


def _is_plain(tensor):
    """Whether no compiler traces and no mode watches: the tensor holds numbers."""
    return not _is_compiling() and type(tensor) in _PLAIN and not _dispatch_modes() and not _transforms_active()


# ---- the function ----

def _check_tensor(name, tensor, device):
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"distwar.rasterization: {name} is a {type(tensor).__name__}, not a tensor as means is")
    if not tensor.is_floating_point():
        raise TypeError(f"distwar.rasterization: {name} has the type {tensor.dtype}, not a floating-point type")
    if tensor.device != device and not (name in ("viewmats", "Ks") and tensor.device.type == "cpu"):
        raise ValueError(f"distwar.rasterization: {name} is on {tensor.device}, means on {device}")


def _float32(name, tensor, device):
    _check_tensor(name, tensor, device)
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
    flat = arrays if not request.batch else {
        name: None if a is None else a.flatten(0, len(request.batch) - 1)[b] for name, a in arrays.items()}
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


class _Call:
    """What calls with arguments of the same shapes and types have in common."""

    def __init__(self, arrays, request, absgrad, packed):
        self.request, self.groups, self.batch = request, request.groups(), request.batch
        if packed and request.batch:
            raise NotImplementedError("distwar.rasterization: packed with leading dimensions is not supported; pass "
                                      "packed=False")
        if absgrad and request.channels > 32:
            raise NotImplementedError("distwar.rasterization: absgrad with more than 32 channels is not supported")
        self.is_float32 = all(a is None or a.dtype == torch.float32 for a in arrays.values())
        self.meta = meta_of(request)
        self.devices = arrays["viewmats"].device, arrays["Ks"].device
        self._plans = None

    def plans(self, scenes, device):
        """(Plan, Room) of each group."""
        if self._plans is None:
            shapes = [_stages.shape_of(self.request, end - first, scene[4].shape)
                      for (_, first, end), scene in zip(self.groups, scenes)]
            self._plans = [(_stages.plan_of(shape), _stages.room_of(device, shape)) for shape in shapes]
        return self._plans


_calls = {}  # _Call by the shapes and types of all arguments


def _call_of(arrays, *options):
    key = [options, type(options[0]), type(options[1])]  # 64.0 equals 64 and is refused
    try:
        for a in arrays.values():
            key.append(None if a is None else (a.shape, a.dtype, a.device))
        key = tuple(key)
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
    for name, a in arrays.items():
        if a is not None:
            _check_tensor(name, a, arrays["means"].device)
    return _Call(arrays, check(arrays, width, height, *planes, sh_degree, *modes), absgrad, packed)


class _Meta(dict):
    """A dictionary. Entries of `late` are made by these functions when they are first asked for: some take a kernel."""

    def __init__(self, entries, late):
        super().__init__(entries)
        self._late = late

    def __missing__(self, name):
        value = self[name] = self._late.pop(name)()
        return value

    def __contains__(self, name):
        return name in self._late or super().__contains__(name)

    def get(self, name, default=None):
        return self[name] if name in self else default

    def whole(self):
        for name in tuple(self._late):
            self[name]
        return self


def _of_whole(name):
    return lambda self, *arguments: getattr(dict, name)(self.whole(), *arguments)


for _name in ("__iter__", "__len__", "__eq__", "__ne__", "__or__", "__ror__", "__repr__", "__reduce_ex__", "keys",
              "values", "items", "copy", "pop", "popitem", "setdefault"):
    if hasattr(dict, _name):
        setattr(_Meta, _name, _of_whole(_name))


def _visible_pairs(means2d, radii, meta):
    """Packs means2d and radii to the rows of visible pairs. Returns means2d [C, N, 2] that depends on the rows."""
    at = torch.nonzero(radii > 0, as_tuple=True)
    rows = means2d[at]
    meta.update(camera_ids=at[0], gaussian_ids=at[1], batch_ids=torch.zeros_like(at[0]), means2d=rows,
                radii=radii[at].unsqueeze(-1).expand(-1, 2), depths=meta["depths"][at])
    return means2d.detach().index_put(at, rows), at


class _Projected:
    """A launch's worth of cameras after projection, by operators."""

    def __init__(self, call, scene):
        s, request = call.request.settings, call.request
        self.sizes = [s.width, s.height, NO_DEPTH if request.depth is None else request.depth]
        self.splats, self.means2d, self._radii, _ = project(
            *scene, [s.width, s.height, s.sh_degree, int(s.antialiased)], [s.near_plane, s.far_plane, s.low_pass])

    def radii(self):
        return self._radii

    def want_means2d(self):
        pass

    def blend(self, means2d, absolute, features):
        color, alphas, depth = render(self.splats, means2d, absolute, features, self.sizes, _strategy())[:3]
        return color.movedim(-3, -1), alphas.unsqueeze(-1), depth


class _DirectlyProjected:
    """The same by autograd.Functions."""

    def __init__(self, call, plan, room, scene, stream):
        cameras = _camera_structs(scene[6], scene[7], plan.shape.settings)
        self.frame = _Frame(plan, room, cameras, _strategy(), stream, call.devices)
        self.splats, self.means2d = _Project.apply(self.frame, *scene)

    def radii(self):
        with torch.no_grad(), _On(self.splats):
            if self.splats.is_cuda and _stream_of(self.splats.device) != self.frame.stream:
                self.splats.record_stream(torch.cuda.current_stream(self.splats.device))
            return _radii(self.frame.plan, self.splats)

    def want_means2d(self):
        self.frame.wants_means2d = True

    def blend(self, means2d, absolute, features):
        return _Render.apply(self.frame, self.splats, means2d, absolute, features)


def rasterization(arrays, width, height, planes, sh_degree, modes, packed, absgrad):
    means, planes = arrays["means"], tuple(map(float, planes))
    device, is_plain, is_cuda = means.device, _is_plain(means), means.is_cuda
    if is_plain and is_cuda and device.index != torch.cuda.current_device():
        with torch.cuda.device(device):
            return rasterization(arrays, width, height, planes, sh_degree, modes, packed, absgrad)
    call = (_call_of if is_plain else _new_call)(arrays, width, height, planes, sh_degree, modes, packed, absgrad)
    if not call.is_float32:
        arrays = {name: a if a is None else a.float() for name, a in arrays.items()}
    request, batch = call.request, call.batch
    scenes = [_scene_of(arrays, request, group) for group in call.groups]
    if is_plain:
        stream, plans = _stream_of(device), call.plans(scenes, device)
        parts = [_DirectlyProjected(call, *plan, scene, stream) for plan, scene in zip(plans, scenes)]
    else:
        parts = [_Projected(call, scene) for scene in scenes]
    means2d, late = _joined([part.means2d for part in parts], batch), _late_entries(parts, batch)
    at, blended = None, means2d

    def wanted_means2d():
        for part in parts:
            part.want_means2d()
        return means2d
    late["means2d"] = wanted_means2d
    meta = _Meta(call.meta, late) if is_plain else dict(call.meta, **{name: make() for name, make in late.items()})
    if packed:
        blended, at = _visible_pairs(meta["means2d"], meta["radii"][..., 0], meta)
    elif is_plain and is_cuda and torch.cuda.is_current_stream_capturing():
        meta.whole()
    absolute = None
    if absgrad and blended.requires_grad:
        absolute = torch.empty((), device=device).expand(blended.shape).requires_grad_()  # nobody reads it
        target = meta["means2d"]
        absolute.register_hook(lambda g: setattr(target, "absgrad", g if at is None else g[at]))
    color, alphas, depth = _blended(call, parts, arrays["colors"], blended, absolute)
    if arrays["backgrounds"] is not None:
        color = color + (1 - alphas) * arrays["backgrounds"][..., None, None, :]
    if request.depth is None:
        return color, alphas, meta
    depth = depth.unsqueeze(-1)
    return torch.cat((color, depth), -1) if request.with_color else depth, alphas, meta


def _late_entries(parts, batch):
    def radii():
        radii = _joined([part.radii() for part in parts], batch)
        return radii.unsqueeze(-1).expand(*radii.shape, 2)

    def depths():
        return _joined([part.splats.detach()[..., 9] for part in parts], batch)
    return {"radii": radii, "depths": depths}


def _features(request, colors, group):
    """The colours [N, channels] of a group of cameras; None if they are those of the splats."""
    if request.channels == 3:
        return None
    b, first, _ = group
    colors = colors.flatten(0, len(request.batch) - 1)[b] if request.batch else colors
    return colors[first] if request.per_camera else colors


def _blended(call, parts, colors, means2d, absolute):
    """Colours, alphas [..., C, height, width, 1] and depths [..., C, height, width]."""
    request, batch, groups = call.request, call.batch, call.groups
    if len(parts) == 1 and not batch:
        return parts[0].blend(means2d, absolute, _features(request, colors, groups[0]))
    flat = [a if a is None or not batch else a.flatten(0, -3) for a in (means2d, absolute)]
    frames, first = [], 0
    for part, group in zip(parts, groups):
        end = first + part.splats.shape[0]
        frames.append(part.blend(*(a if a is None else a[first:end] for a in flat), _features(request, colors, group)))
        first = end
    return [None if of[0] is None else _joined(list(of), batch) for of in zip(*frames)]
