# SPDX-License-Identifier: MIT
"""rasterization() as operators of torch, for torch.compile and whatever else watches the dispatcher: projection and
blending, with their adjoints. Between them lie the splats of libdistwar_gs; the gradient of a splat is its gs_splat_grad, and that
of its mean passes through autograd by itself."""
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from . import _stages
from ._library import BACKENDS
from ._stages import SPLAT_FLOATS, Lists, Settings, Shape
from ._tensors import On, address_of, captures, empty, gradient_like, on_host, packed_cameras, strategy_now, stream_of


def _run_project(plan, cameras, scene, stream):
    """Splats [C, N, 12] of the tensors of a Scene."""
    kept, shape = [], plan.shape
    splats = empty((shape.cameras, shape.count, SPLAT_FLOATS), scene[0])
    plan.project(cameras, [address_of(a, kept) for a in scene], splats.data_ptr(), stream)
    return splats


def radii_of(plan, splats):
    """[C, N], on the current stream."""
    radii = empty(splats.shape[:2], splats, torch.int32)
    plan.radii(splats.data_ptr(), radii.data_ptr(), stream_of(splats.device))
    return radii


# Where the entries of viewmats [4, 4] and Ks [3, 3] are in a gs_camera_gradient. 22: a member that is 0.
_CAMERA_ENTRIES = [*range(12), 22, 22, 22, 22, 18, 22, 20, 22, 19, 21, 22, 22, 22]
_camera_entries = {}  # by device


def run_project_backward(plan, cameras, scene, splats, moments, d_means2d, with_cameras):
    """The gradients of the tensors of a Scene, then with_cameras those of viewmats and Ks; None: there is none."""
    kept, stream = [], stream_of(splats.device)
    at, d_mean2d = [address_of(a, kept) for a in scene], address_of(d_means2d, kept)
    at_splats, at_moments = address_of(splats, kept), address_of(moments, kept)
    if not with_cameras:
        d_scene = [gradient_like(a) for a in scene]
        plan.project_backward(cameras, at, at_splats, at_moments, d_mean2d,
                              [None if d is None else d.data_ptr() for d in d_scene], None, stream)
        return *d_scene, None, None
    # libdistwar_gs has this gradient for one camera at a time
    one, count, parts = plan.one_camera(), plan.shape.count, []
    d_cameras = empty((plan.shape.cameras, (one.camera_floats + 3) // 4 * 4), splats)
    for c in range(plan.shape.cameras):
        d_scene = [gradient_like(a) for a in scene]
        splat = c * count * 4 * SPLAT_FLOATS
        one.project_backward(_stages.camera_at(cameras, c), at, at_splats + splat, at_moments + splat,
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
    return plan.render(room, address_of(splats, kept), address_of(features, kept),
                       (color.data_ptr(), None if depth is None else depth.data_ptr()), alphas.data_ptr(), allocate, stream,
                       captures(device.index if device.type == "cuda" else None))


def _run_render_backward(plan, splats, features, rendered, d, wants_means2d, absolute, strategy):
    """rendered: colours, depths or None, block, Lists. d: addresses of the gradients by planar colours, depths and
    alphas. Returns gs_splat_grad of the splats, the gradient by their means, its sums of absolute values, the gradient by
    features; those that are not wanted are None."""
    kept, shape = [], splats.shape
    sums = empty(shape, splats)
    d_means2d = empty(shape[:2] + (2,), splats) if wants_means2d else None
    absolutes = empty(shape[:2] + (2,), splats) if absolute else None
    d_features = gradient_like(features)
    color, depth, block, lists = rendered
    plan.render_backward(
        address_of(splats, kept), address_of(features, kept),
        ((color.data_ptr(), None if depth is None else depth.data_ptr()), block.data_ptr(), lists),
        d, None if d_features is None else d_features.data_ptr(),
        (sums.data_ptr(), d_means2d.data_ptr() if wants_means2d else None, absolutes.data_ptr() if absolute else None),
        strategy, stream_of(splats.device))
    return sums, d_means2d, absolutes, d_features


# ---- as operators ----

NO_DEPTH = -1


def _plan_of_project(means, colors, sizes, planes, cameras):
    width, height, degree, antialiased, camera, activated = sizes
    settings = Settings(width, height, degree, bool(antialiased), *planes, camera, bool(activated))
    harmonics = degree >= 0
    return _stages.plan_of(Shape(settings, cameras, means.shape[0], 3 if harmonics else colors.shape[1],
                                 colors.shape[1] if harmonics else 0, None, BACKENDS.get(means.device.type)))


def _plan_of_render(splats, features, sizes):
    width, height, depth = sizes
    channels = _stages.CHANNELS if features is None else features.shape[1]
    return _stages.plan_of(Shape(Settings(width, height, -1, False, 1.0, 0.0, 0.3), splats.shape[0], splats.shape[1],
                                 channels, 0, None if depth == NO_DEPTH else depth,
                                 BACKENDS.get(splats.device.type)))


def _or_empty(like, tensors):
    """Operators return an empty tensor for None."""
    return [empty(0, like) if a is None else a for a in tensors]


@torch.library.custom_op("distwar::project", mutates_args=())
def project(means: Tensor, quats: Optional[Tensor], scales: Optional[Tensor], opacities: Tensor, colors: Tensor,
            covars: Optional[Tensor], viewmats: Tensor, Ks: Tensor, sizes: List[int],
            planes: List[float]) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Splats [C, N, 12], their means [C, N, 2], radii [C, N], and on the CPU the cameras [C, 25]: the rows of viewmats
    and Ks. sizes: width, height, sh_degree or -1, and antialiased, camera, activated of Settings. planes: near, far,
    eps2d."""
    with On(means):
        plan = _plan_of_project(means, colors, sizes, planes, viewmats.shape[0])
        cameras = torch.cat((on_host(viewmats).reshape(-1, 16), on_host(Ks).reshape(-1, 9)), 1)
        splats = _run_project(plan, _cameras(cameras, plan), (means, quats, scales, opacities, colors, covars, None),
                              stream_of(means.device))
        return (splats, splats[..., :2].clone(memory_format=torch.contiguous_format), radii_of(plan, splats), cameras)


def _cameras(cameras, plan):
    return packed_cameras(cameras[:, :16].view(-1, 4, 4), cameras[:, 16:].view(-1, 3, 3), plan.shape.settings)


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
    with On(means):
        plan = _plan_of_project(means, colors, sizes, planes, cameras.shape[0])
        out = _or_empty(means, run_project_backward(plan, _cameras(cameras, plan), (
            means, quats, scales, opacities, colors, covars, None), splats, moments, d_means2d, with_cameras))
        return out[:6] + [d.clone() for d in out[7:]]  # no two of them share memory


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
    with On(splats):
        plan = _plan_of_render(splats, features, sizes)
        size = (splats.shape[0], sizes[1], sizes[0])
        color, alphas = empty((size[0], plan.shape.channels) + size[1:], splats), empty(size, splats)
        depth = empty(0 if sizes[2] == NO_DEPTH else size, splats)
        block, lists = _run_render(plan, _stages.room_of(splats.device, plan.shape), splats, features, color, alphas,
                                   None if sizes[2] == NO_DEPTH else depth, stream_of(splats.device))
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
    """gs_splat_grad of the splats, the gradient by their means, its sums of absolute values, the gradient by features; the
    last two are empty unless wanted."""
    with On(splats):
        rendered, kept = (color, None if sizes[2] == NO_DEPTH else depth, block, Lists(*lists.tolist())), []
        d = _run_render_backward(_plan_of_render(splats, features, sizes), splats, features, rendered,
                                 [address_of(a, kept) for a in (d_color, d_depth, d_alpha)], True, absolute, strategy)
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

SECOND = "distwar.rasterization has no second derivatives: it was differentiated with create_graph=True"


def _no_second_derivative(ctx, *_):
    raise RuntimeError(SECOND)


for _operator in (project_backward, render_backward):
    _operator.register_autograd(_no_second_derivative)


class Projected:
    """A launch's worth of cameras after projection, by operators."""

    def __init__(self, request, scene, radius_clip):
        s = request.settings
        self.sizes = [s.width, s.height, NO_DEPTH if request.depth is None else request.depth]
        self.splats, self.means2d, self._radii, _ = project(
            *scene, [s.width, s.height, s.sh_degree, int(s.antialiased), s.camera, int(s.activated)],
            [s.near_plane, s.far_plane, s.eps2d])
        if radius_clip > 0:  # a splat of zeros is culled
            keep = self._radii > radius_clip
            self.splats = torch.where(keep.unsqueeze(-1), self.splats, 0)
            self._radii = torch.where(keep, self._radii, 0)

    def radii(self):
        return self._radii

    def blend(self, means2d, absolute, features):
        color, alphas, depth = render(self.splats, means2d, absolute, features, self.sizes, strategy_now())[:3]
        return color.movedim(-3, -1), alphas.unsqueeze(-1), depth
