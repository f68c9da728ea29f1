# SPDX-License-Identifier: MIT
"""A frame as one autograd.Function: all stages forward in one call of libdistwar_gs, and all adjoints in another."""
import functools
import weakref

import torch

from ._stages import CAMERA_FLOATS
from ._tensors import address_of, addresses, captures, current_device, empty, gradient_like, on, stream_at

SECOND = b"distwar.rasterization has no second derivatives: it was differentiated with create_graph=True"
# Where the entries of viewmats [4, 4] and Ks [3, 3] are in a gs_camera_gradient. 22: a member that is 0.
_CAMERA_ENTRIES = [*range(12), 22, 22, 22, 22, 18, 22, 20, 22, 19, 21, 22, 22, 22]
_camera_entries = functools.lru_cache(maxsize=None)(lambda device: torch.tensor(_CAMERA_ENTRIES, device=device))
_zero_column = functools.lru_cache(maxsize=8)(lambda device, count: torch.zeros((), device=device).expand(count, 1))


def radii_of(plan, splats, stream):
    """[C, N], int32."""
    radii = splats.new_empty_strided(*plan.of_splats, dtype=torch.int32)
    plan.radii(splats.data_ptr(), radii.data_ptr(), stream)
    return radii


def _of_cameras(d_cameras, viewmats, Ks):
    """Gradients by viewmats and Ks from those that libdistwar_gs has, [C, CAMERA_FLOATS]."""
    d = d_cameras.index_select(1, _camera_entries(d_cameras.device))
    return d[:, :16].unflatten(1, (4, 4)).to(viewmats.device), d[:, 16:].unflatten(1, (3, 3)).to(Ks.device)


def _adjoint(run):
    """A backward() whose results have no derivatives: with create_graph=True nodes that say so."""
    def backward(ctx, *d):
        if not torch.is_grad_enabled():
            return run(ctx, *d)
        with torch.no_grad():
            out = run(ctx, *d)
        return torch._C._functions.DelayedError(SECOND, len(out))(
            *(a if a is None else a.detach().requires_grad_() for a in out))
    return staticmethod(backward)


class Frame:
    """What a launch has besides the tensors of its graph."""

    __slots__ = ("plan", "cameras", "strategy", "index", "background", "wants_alpha", "absolute", "wait", "clip",
                 "stream", "splats", "view", "at", "watch", "density")

    def __init__(self, plan, cameras, strategy, index, background=None, wants_alpha=True, absolute=False, wait=None, clip=0):
        """index: of the device, by index_of(). background: three numbers, or None. wait(): after each stage; what it
        raises gets the name of the stage."""
        self.plan, self.cameras, self.strategy, self.index = plan, cameras, strategy, index
        self.background, self.wants_alpha, self.absolute, self.wait = background, wants_alpha, absolute, wait
        self.clip = clip  # splats of a radius up to that, in pixels, are left out
        self.watch = None  # a Watch: somebody has the means of the splats
        self.density = None  # [N, 2]: a backward pass adds to it what gs_density_accumulate does

    def render(self, *scene):
        """Colours as the layout of the shape has them, alphas [C, height, width, 1] and depths [C, height, width]; None
        for those that there are not. scene: seven tensors of a Scene, viewmats, Ks, and a tensor [N, 3] whose gradient is
        that by the means of the splats in units of half the width and height, or None; its last column is 0, with
        `absolute` the length of the sums of the absolute values of the others over the pixels."""
        return _apply(self, *scene)

    def leave_out(self):
        """Culls splats of a radius up to clip: writes zeros in their place."""
        self.splats.masked_fill_((radii_of(self.plan, self.splats, self.stream) <= self.clip).unsqueeze(-1), 0)

    def radii(self):
        """[C, N], int32, on the current stream."""
        splats, stream = self.splats, stream_at(self.index)
        with on(splats):
            if stream != self.stream:
                splats.record_stream(torch.cuda.current_stream(splats.device))
            return radii_of(self.plan, splats, stream)


class _Frame(torch.autograd.Function):
    # All memory comes from new_empty_strided: the less code of torch a frame runs, the less of it is cold.
    @staticmethod
    def forward(ctx, frame, means, quats, scales, opacities, colors, covars, constant, viewmats, Ks, screen):
        plan, kept, scene, new = frame.plan, [], (means, quats, scales, opacities, colors, covars, constant), \
            means.new_empty_strided
        splats, at, images = new(*plan.splats), [address_of(a, kept) for a in scene], []
        frame.splats, frame.stream = splats, stream_at(frame.index)

        def place():
            images[:] = new(*plan.color), None if plan.shape.depth is None or plan.depth_at else new(*plan.depths), \
                new(*plan.alphas) if frame.wants_alpha else None
            return addresses(images)
        block, frame.view = plan.forward(
            frame.index, frame.cameras, at, splats.data_ptr(), place, frame.background, frame.stream, captures(frame.index),
            frame.wait, frame.leave_out if frame.clip > 0 else None)
        color, depths, alphas = images
        frame.at = [*at, *addresses((splats, color, depths, block))]  # what frame.view points to
        ctx.frame = frame
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*scene, viewmats, Ks, splats, color, depths, block)
        return color, alphas, depths

    @_adjoint
    def backward(ctx, d_color, d_alphas, d_depths):
        frame = ctx.frame
        if frame.index is not None and frame.index != current_device():
            with torch.cuda.device(frame.index):
                return _backward(ctx, frame, d_color, d_alphas, d_depths)
        return _backward(ctx, frame, d_color, d_alphas, d_depths)


def _backward(ctx, frame, d_color, d_alphas, d_depths):
    *scene, viewmats, Ks, splats, color, depths, block = ctx.saved_tensors
    if d_color is None:
        if d_alphas is None and d_depths is None:
            return (None,) * 11
        d_color = torch.zeros_like(color)
    plan, stream, kept, of_images, wanted = frame.plan, stream_at(frame.index), [], [], ctx.needs_input_grad
    new = splats.new_empty_strided
    view, at = frame.view, addresses((*scene, splats, color, depths, block))
    if at != frame.at:
        at[:7] = [address_of(a, kept) for a in scene]
        view, frame.at = plan.moved(view, at[:7], at[7:10], at[10]), at
    if d_color.stride() == plan.color[1] and d_color.data_ptr() % 16 == 0:
        d_image = d_color.data_ptr()
    else:
        d_image = address_of(d_color if d_color.dim() == 3 else d_color.movedim(-1, -3), of_images)
    d_depth = d_image + plan.depth_at if plan.depth_at else address_of(d_depths, of_images)
    moments = new(*plan.splats)
    gradient = plan.gradient(d_image, d_depth, address_of(d_alphas, of_images), moments.data_ptr())
    d_screen = d_cameras = d_means2d = None
    if wanted[10] or frame.density is not None:
        d_screen = new((plan.shape.count, 2), (2, 1))
        gradient.mean2d = d_screen.data_ptr()
        if frame.absolute:
            absolute = torch.empty_like(d_screen)
            gradient.abs_mean2d = absolute.data_ptr()
    if wanted[8] or wanted[9]:
        d_cameras = empty((plan.shape.cameras, CAMERA_FLOATS), splats)
    watched = frame.watch and frame.watch.kinds()
    if watched:
        d_means2d = [empty(splats.shape[:2] + (2,), splats) if kind in watched else None for kind in Watch.KINDS]
    d_colors = None if plan.shape.channels == 3 else gradient_like(scene[4])
    plan.render_backward(view, gradient, *addresses([d_colors]), frame.strategy, stream, d_means2d and addresses(d_means2d),
                         frame.wait)
    # Unless the graph is kept, what only the blend has read makes room for the gradients.
    color = depths = block = of_images = None
    ctx.maybe_clear_saved_tensors()
    d_scene = [gradient_like(a) for a in scene]
    if d_colors is not None:
        d_scene[4] = d_colors
    plan.project_backward(view, gradient, addresses(d_scene), stream, *addresses([d_cameras]), frame.wait)
    if watched:
        frame.watch.tell(frame, d_means2d)
    if frame.density is not None:
        plan.lib.check(plan.lib.gs_density_accumulate(view, gradient.mean2d, frame.density.data_ptr(), stream))
    if wanted[10]:
        third = torch.linalg.vector_norm(absolute, dim=1, keepdim=True) if frame.absolute else \
            _zero_column(splats.device, len(d_screen))
        d_screen = torch.cat((d_screen, third), 1)
    of_cameras = (None, None) if d_cameras is None else _of_cameras(d_cameras, viewmats, Ks)
    return None, *d_scene, *of_cameras, d_screen if wanted[10] else None


# What _Frame.apply calls, when there are no transforms: is_plain() has looked.
_apply = super(torch.autograd.Function, _Frame).apply


class _Means2d(torch.autograd.Function):
    """The means of the splats [C, N, 2], for losses that depend on them. The gradient of the image does not pass here:
    _Frame has it."""

    @staticmethod
    def forward(ctx, frame, *scene):
        ctx.frame = frame
        ctx.save_for_backward(*scene, frame.splats)
        cameras, count, floats = frame.splats.shape
        return frame.splats.as_strided((cameras, count, 2), (count * floats, floats, 1))

    @_adjoint
    def backward(ctx, d_means2d):
        *scene, viewmats, Ks, splats = ctx.saved_tensors
        frame, kept = ctx.frame, []
        plan, moments, d_scene = frame.plan, torch.zeros_like(splats), [gradient_like(a) for a in scene]
        wanted = ctx.needs_input_grad[8] or ctx.needs_input_grad[9]
        d_cameras = empty((len(splats), CAMERA_FLOATS), splats) if wanted else None
        with on(splats):
            view = plan.view(frame.cameras, [address_of(a, kept) for a in scene], address_of(splats, kept))
            gradient = plan.gradient(0, None, None, moments.data_ptr())
            gradient.pixel_mean2d = address_of(d_means2d, kept)
            plan.project_backward(view, gradient, addresses(d_scene), stream_at(frame.index), *addresses([d_cameras]))
            if plan.shape.channels != 3:
                d_scene[4] = None
            return None, *d_scene, *(_of_cameras(d_cameras, viewmats, Ks) if wanted else (None, None))


def means2d_of(frame, node):
    """The means of the splats [C, N, 2] of a frame. node: of its colours in the graph, or None."""
    try:
        scene = node and node.saved_tensors[:9]
    except RuntimeError:  # after the backward pass: nothing more can come of a loss
        scene = None
    if scene is None:
        return frame.splats[..., :2]
    with torch.enable_grad():
        return _Means2d.apply(frame, *scene)


class Watch:
    """meta["means2d"], a tensor that gets the gradient by the means of the splats, or the sums of its absolute values,
    from the frames that they were blended in."""
    KINDS = ("grad", "absgrad")

    def __init__(self, means2d, frames, absgrad, at=None):
        """frames: the Frames whose means2d it has, one after another. at: of packed rows, their cameras and Gaussians."""
        self.of, self.absgrad, self.at, first = weakref.ref(means2d), absgrad, at, 0
        self.first, self.last_pass = {}, None
        for frame in frames:
            self.first[id(frame)] = first
            first += frame.plan.shape.cameras
            frame.watch = self

    def kinds(self):
        """Which attributes of the tensor the next gradient goes to."""
        means2d = self.of()
        if means2d is None:
            return ()
        if means2d._backward_hooks:
            raise RuntimeError('distwar.rasterization: hooks of meta["means2d"] are not supported: its .grad, after '
                               "retain_grad() and backward(), has the gradient")
        return ("grad",) * means2d.retains_grad + ("absgrad",) * self.absgrad

    def tell(self, frame, gradients):
        means2d, this_pass = self.of(), torch._C._current_graph_task_id()
        for name, d in zip(self.KINDS, gradients):
            if d is None:
                continue
            d, before = self._rows(means2d, self.first[id(frame)], d), getattr(means2d, name, None)
            if before is not None and (name == "grad" or self.last_pass == this_pass):
                d = before + d
            setattr(means2d, name, d)
        self.last_pass = this_pass

    def _rows(self, means2d, first, d):
        """d [c, N, 2] of the cameras from `first` on, in the shape of means2d."""
        if self.at is None:
            if d.numel() == means2d.numel():
                return d.view(means2d.shape)
            out = torch.zeros(means2d.shape, device=d.device)
            out.view(-1, *d.shape[1:])[first:first + len(d)] = d
            return out
        camera, gaussian = self.at
        inside = (camera >= first) & (camera < first + len(d))
        return torch.where(inside[:, None], d[(camera - first).clamp(0, len(d) - 1), gaussian], 0)
