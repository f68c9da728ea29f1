# SPDX-License-Identifier: MIT
"""A frame as one autograd.Function: all stages forward in one call of libdistwar_gs, and all adjoints in another. It takes a
fraction of the time on the host that the operators of _operators.py take."""
import weakref

import torch
from torch import Tensor

from ._operators import SECOND, radii_of, run_project_backward
from ._tensors import On, address_of, captures, current_device, empty, gradient_like, stream_at


class _Refused(torch.autograd.Function):
    """Gradients that were computed with create_graph=True. sources: what they depend on."""

    @staticmethod
    def forward(ctx, gradient, *sources):
        return gradient.view_as(gradient)

    @staticmethod
    def backward(ctx, *_):
        raise RuntimeError(SECOND)


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


class Frame:
    """What a launch has besides the tensors of its graph."""

    __slots__ = ("plan", "room", "cameras", "strategy", "index", "stream", "splats", "view", "at", "watch", "density")

    def __init__(self, plan, room, cameras, strategy, index):
        """index: of the device, by index_of()."""
        self.plan, self.room, self.cameras, self.strategy, self.index = plan, room, cameras, strategy, index
        self.watch = None  # a Watch: somebody has the means of the splats
        self.density = None  # [N, 2]: a backward pass adds to it what gs_density_accumulate does

    def render(self, *scene):
        """Colours [C, height, width, channels], stored as planes, alphas [C, height, width, 1] and depths [C, height,
        width], or None. scene: seven tensors of a Scene, viewmats, Ks, and a tensor [N, 3] whose gradient is that by the
        means of the splats in units of half the width and height, or None."""
        return _apply(self, *scene)

    def radii(self):
        """[C, N], int32."""
        splats = self.splats
        with torch.no_grad(), On(splats):
            if self.index is not None and stream_at(self.index) != self.stream:
                splats.record_stream(torch.cuda.current_stream(splats.device))
            return radii_of(self.plan, splats)


class _Frame(torch.autograd.Function):
    # All memory comes from new_empty_strided: the less code of torch a frame runs, the less of it is cold.
    @staticmethod
    def forward(ctx, frame, means, quats, scales, opacities, colors, covars, constant, viewmats, Ks, screen):
        plan, kept, scene, new = frame.plan, [], (means, quats, scales, opacities, colors, covars, constant), \
            means.new_empty_strided
        sizes = plan.sizes
        color, alphas, splats = new(*sizes.color), new(*sizes.alphas), new(*sizes.splats)
        depths = None if plan.shape.depth is None else new(*sizes.depths)
        at = [address_of(a, kept) for a in scene]
        at_image = splats.data_ptr(), color.data_ptr(), None if depths is None else depths.data_ptr()
        frame.splats, frame.stream = splats, stream_at(frame.index)

        def allocate(size):
            block = new((size // 4,), (1,))
            return block, block.data_ptr()
        block, at_block, frame.view = plan.forward(frame.room, frame.cameras, at, at_image, alphas.data_ptr(), allocate,
                                                   frame.stream, captures(frame.index))
        frame.at = [*at, *at_image, at_block]  # what frame.view points to
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
    plan, strategy, stream, kept = frame.plan, frame.strategy, stream_at(frame.index), []
    new = splats.new_empty_strided
    view, at = frame.view, [None if a is None else a.data_ptr() for a in (*scene, splats, color, depths, block)]
    if at != frame.at:
        at[:7] = [address_of(a, kept) for a in scene]
        view, frame.at = plan.moved(view, at[:7], at[7:10], at[10]), at
    if d_color.stride() == plan.sizes.color[1] and d_color.data_ptr() % 16 == 0:
        d_image = d_color.data_ptr()
    else:
        d_image = address_of(d_color.movedim(-1, -3), kept)
    d_scene = [None if a is None else gradient_like(a) for a in scene]
    moments = new(splats.shape, splats.stride())
    gradient = plan.gradient((d_image, address_of(d_depths, kept), address_of(d_alphas, kept)), moments.data_ptr(),
                             [None if d is None else d.data_ptr() for d in d_scene])
    wanted, d_screen = ctx.needs_input_grad, None
    if wanted[10] or frame.density is not None:
        d_screen = empty((plan.shape.count, 2), splats)
        gradient.mean2d = d_screen.data_ptr()
    with_cameras, watched = wanted[8] or wanted[9], frame.watch and frame.watch.kinds()
    if not with_cameras and not watched:
        plan.backward(view, gradient, strategy, stream)
    else:
        d = [empty(splats.shape[:2] + (2,), splats) if watched and kind in watched else None
             for kind in ("grad", "absgrad")]
        plan.blend_backward(view, gradient, strategy, [None if a is None else a.data_ptr() for a in d], stream)
        if watched:
            frame.watch.tell(frame, d)
        if with_cameras:
            d_colors = d_scene[4]
            *d_scene, d_viewmats, d_Ks = run_project_backward(plan, frame.cameras, scene, splats,
                                                              moments, None, True)
            if plan.shape.channels != 3:
                d_scene[4] = d_colors
            return None, *d_scene, d_viewmats.to(viewmats.device), d_Ks.to(Ks.device), None
        plan.project_backward_of(view, gradient, stream)
    if frame.density is not None:
        plan.accumulate(view, d_screen.data_ptr(), frame.density.data_ptr(), stream)
    return None, *d_scene, None, None, torch.nn.functional.pad(d_screen, (0, 1)) if wanted[10] else None


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
        with_cameras = ctx.needs_input_grad[8] or ctx.needs_input_grad[9]
        with On(splats):
            *d_scene, d_viewmats, d_Ks = run_project_backward(ctx.frame.plan, ctx.frame.cameras, scene, splats,
                                                              torch.zeros_like(splats), d_means2d, with_cameras)
            if with_cameras:
                d_viewmats, d_Ks = d_viewmats.to(viewmats.device), d_Ks.to(Ks.device)
            if ctx.frame.plan.shape.channels != 3:
                d_scene[4] = None
            return None, *d_scene, d_viewmats, d_Ks


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
            raise RuntimeError('distwar.rasterization: hooks of meta["means2d"] need distwar.means2d_in_graph = True')
        return ("grad",) * means2d.retains_grad + ("absgrad",) * self.absgrad

    def tell(self, frame, gradients):
        means2d, this_pass = self.of(), torch._C._current_graph_task_id()
        for name, d in zip(("grad", "absgrad"), gradients):
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
