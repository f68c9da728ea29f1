# SPDX-License-Identifier: MIT
"""The stages of libdistwar_gs on addresses of torch's memory. What frames of one shape have in common, their structs above
all, is made once: a Plan. Addresses are integers; 0 or None: there is no array. `stream` is a cudaStream_t as an
integer, or None."""
import ctypes
import functools
import math
import struct
from ctypes import byref, sizeof
from typing import NamedTuple, Optional

from . import gs
from ._library import keep, library

SPLAT_FLOATS, CAMERA_FLOATS = 12, sizeof(gs.CameraGradient) // 4  # of a gs_splat and a gs_splat_grad; of a camera's gradient
TILE = 16
MOST_VIEWS = 32
CAMERA_MODELS = ("pinhole", "ortho")  # of libdistwar_gs, those that are gsplat's
DEPTH_SUM, DEPTH_OVER_ALPHA, INVERSE_DEPTH = range(3)  # what an image's depth is
# Colours [cameras, height, width, channels], stored as planes, and depths apart; the depth as the last of the channels, of
# one camera; colours [channels, height, width] of one camera.
SEPARATE, JOINED, PLANES = range(3)


class Settings(NamedTuple):
    """What a view has besides arrays."""
    width: int
    height: int
    sh_degree: int  # -1: colours are given
    antialiased: bool
    near_plane: float
    far_plane: float
    eps2d: float
    camera: int = 0  # in CAMERA_MODELS
    activated: bool = True  # whether scales and opacities are as they are


class Shape(NamedTuple):
    """The shape of a frame: the cameras that go through each stage in one launch."""
    settings: Settings
    cameras: int
    count: int  # Gaussians
    channels: int
    coefficients: int  # of harmonics; 0: colours are given
    depth: Optional[int]  # what it is; None: there is none
    backend: Optional[str] = None  # of the library
    layout: int = 0  # of images: SEPARATE, JOINED or PLANES


# A Scene is seven arrays of float32, or their addresses: means, quats, scales, opacities, colors [N, channels] or, with an
# sh_degree, [N, coefficients, 3], covars [N, 6], constant [N, 1, 3]. With covars there are no quats and scales; with a
# constant, the first of the coefficients, colors has the others.

def coefficients_of(scene):
    """Of the harmonics of a Scene."""
    return scene[4].shape[1] + (scene[6] is not None)


# By device, cameras and size of images, what gs_settle left in the last view, where the next one begins: isect_capacity and
# bucket_capacity, pixels_per_thread and split_tiles; and how many frames ago the lists' room was counted. The library lets
# them grow; that they shrink again, a frame's first pass only counts where there is no entry or it is old.
_settled, _OLD = {}, 256


# ---- structs: members that follow each other are filled by one call of struct ----

_scene = struct.Struct("<8Q")  # of gs_gaussians: mean, log_scale, quaternion, opacity_logit, sh, sh0, color, covariance
_SCENE, _GRADIENT_SCENE = (of.gaussians.offset + gs.Gaussians.mean.offset for of in (gs.View, gs.Gradient))
_memory = struct.Struct("<2Q2q2Q")  # of gs_view: memory with its bytes and capacities, splats, colours
_MEMORY = gs.View.memory.offset
_capacities, _CAPACITIES = struct.Struct("<2q"), _MEMORY + gs.ViewMemory.isect_capacity.offset
_DIVISION = gs.View.ranges.offset + gs.TileRanges.pixels_per_thread.offset  # it and split_tiles
_division = struct.Struct("<2i")
_background, _BACKGROUND = struct.Struct("<3f"), gs.View.background.offset
_images = struct.Struct("<3Q")  # of gs_gradient: color, alpha, splat_grad
_CAMERA, _CAMERA_BYTES = gs.View.camera.offset, sizeof(gs.Camera)
_one_camera = struct.Struct(f"{_CAMERA_BYTES}s")
assert gs.Gaussians.covariance.offset - gs.Gaussians.mean.offset == 56
assert gs.View.image.offset + 8 - _MEMORY == _memory.size and gs.Gradient.gaussians.offset == _images.size

_viewmat, _K = struct.Struct("<12s4s12s4s12s4s"), struct.Struct("<4s4x4s4x4s4s")  # their numbers stay bytes
_Memory = ctypes.c_char * 64


def camera_ends(settings):
    """What a gs_camera has before and behind the numbers of its matrices."""
    far = settings.far_plane if settings.far_plane < 3e38 else 0.0
    model = library().cameras[CAMERA_MODELS[settings.camera]]
    return (struct.pack("<2i", settings.width, settings.height),
            struct.pack("<fi4ff", settings.near_plane, model, 0, 0, 0, 0, far))


def packed_cameras(viewmats, Ks, cameras, ends):
    """gs_camera of each camera, as bytes, of matrices in memory: the addresses of contiguous ones of float32. ends:
    camera_ends()."""
    packed, (head, tail) = [], ends
    for c in range(cameras):
        r0, t0, r1, t1, r2, t2 = _viewmat.unpack_from(_Memory.from_address(viewmats + c * 64))
        fx, cx, fy, cy = _K.unpack_from(_Memory.from_address(Ks + c * 36))
        packed += head, fx, fy, cx, cy, r0, r1, r2, t0, t1, t2, tail
    return b"".join(packed)


@functools.lru_cache(maxsize=256)
def array_type(of, count):
    """of * count: ctypes makes that anew where nobody keeps it."""
    return of * count


def _contiguous(*shape):
    return shape, tuple(math.prod(shape[k + 1:]) for k in range(len(shape)))


class Plan:
    """The stages of frames of one shape. Holds no state of a frame."""

    def __init__(self, shape):
        s = shape.settings
        self.shape, self.lib, self.camera_ends = shape, library(shape.backend), camera_ends(s)
        # (shape, strides) of the arrays of a frame.
        c, d, h, w = shape.cameras, shape.channels, s.height, s.width
        planes = d + (shape.layout == JOINED)
        self.color = _contiguous(d, h, w) if shape.layout == PLANES else ((c, h, w, planes), (planes * h * w, w, 1, h * w))
        self.alphas, self.depths = _contiguous(c, h, w, 1), _contiguous(c, h, w)
        self.splats, self.of_splats = _contiguous(c, shape.count, SPLAT_FLOATS), _contiguous(c, shape.count)
        # Bytes from the colours to the depth that is joined to them; 0: it is apart.
        self.depth_at = 4 * d * h * w if shape.layout == JOINED else 0
        view, gradient = gs.View(sh_degree_used=max(s.sh_degree, 0)), gs.Gradient()
        for g in view.gaussians, gradient.gaussians:
            g.count, g.channels = shape.count, shape.channels
            g.sh_degree = math.isqrt(shape.coefficients) - 1 if shape.coefficients else 0
            g.antialias, g.form, g.eps2d = int(s.antialiased), int(s.activated), s.eps2d
        view.camera.width, view.camera.height = s.width, s.height
        view.normalize_depth = int(shape.depth == DEPTH_OVER_ALPHA)
        view.inverse_depth = int(shape.depth == INVERSE_DEPTH)
        view.views.count = shape.cameras if shape.cameras > 1 else 0
        self._view, self._gradient = bytes(view), bytes(gradient)

    def _pointers(self, scene):
        """The addresses of a Scene in the order of gs_gaussians."""
        mean, quaternion, log_scale, opacity_logit, colors, covariance, constant = scene
        sh, color = (colors, 0) if self.shape.coefficients else (0, colors)
        return mean, log_scale or 0, quaternion or 0, opacity_logit, sh or 0, constant or 0, color or 0, covariance or 0

    def view(self, cameras, scene, splats):
        """A gs_view for the projection. cameras: of packed_cameras()."""
        view = gs.View.from_buffer_copy(self._view)
        _scene.pack_into(view, _SCENE, *self._pointers(scene))
        if self.shape.cameras > 1:
            view.views.cameras = array_type(gs.Camera, self.shape.cameras).from_buffer_copy(cameras)
        else:
            _one_camera.pack_into(view, _CAMERA, cameras)
        view.splats = splats
        return view

    def radii(self, splats, radii, stream):
        """Writes radii [C, N], int32."""
        view = gs.View.from_buffer_copy(self._view)
        view.views.count = 0
        for c in range(self.shape.cameras):
            view.splats = splats + c * self.shape.count * 4 * SPLAT_FLOATS
            self.lib.check(self.lib.gs_radii(byref(view), radii + c * self.shape.count * 4, stream))

    def _stage(self, name, wait):
        """A call of the library. wait() for the device after it; an error says which stage it was."""
        call = getattr(self.lib, name)
        if wait is None:
            return call

        def run(*arguments):
            status = call(*arguments)
            try:
                wait()
            except RuntimeError as error:
                raise RuntimeError(f"distwar: {name} failed: {error}") from error
            return status
        return run

    def forward(self, index, cameras, scene, splats, images, background, stream, capturing, wait=None, clip=None):
        """Projects and blends. index: of the device, None: a CPU. splats: the address of [C, N, 12]. images() returns the
        addresses of planar colours, depths or None, and alphas or None, once the memory of sorting is free. background:
        three numbers or None. capturing: nothing may wait, the image is NaN if the lists have no room. wait(): after each
        stage; clip(): after the projection. Returns the block that the lists lie in and a gs_view, for backward()."""
        lib, view = self.lib, self.view(cameras, scene, splats)
        image, key = view.image, (index, self.shape.cameras, self.shape.settings[:2])
        if capturing and key not in _settled:
            raise RuntimeError("distwar: render an image of this size before a CUDA graph captures one: it finds the room")
        capacities, division, age = _settled.get(key, ((0, 1), (0, 0), 0))
        if age >= _OLD and not capturing:
            capacities, age = (0, 1), 0
        # The colours get their place later: until then any address keeps gs_bin from giving them one.
        _memory.pack_into(view, _MEMORY, 0, 0, *capacities, splats, splats)
        _division.pack_into(view, _DIVISION, *division)
        if background is not None:
            _background.pack_into(view, _BACKGROUND, *background)
        project, sort, render, settle = [self._stage(name, None if capturing else wait) for name in (
            "gs_project", "gs_bin", "gs_render", "gs_settle")]
        # A graph has a Context of its own, whose memory then is the graph's.
        context, at = gs.Context(lib, stream) if capturing else lib.context(stream), byref(view)
        try:
            status = gs.GS_ISECTS_DO_NOT_FIT
            while status == gs.GS_ISECTS_DO_NOT_FIT:
                status = project(at, context)
                if clip is not None:
                    clip()
                status = status or sort(at, context)
                context.trim()
                image.color, depths, image.alpha = images()
                image.depth = image.color + self.depth_at if self.depth_at else depths
                status = status or render(at, context) or (gs.GS_OK if capturing else settle(at, context))
            context.check(status)
            block = context.take(view.memory.memory)
        finally:
            context.blocks.pop(view.memory.memory, None)
            if capturing:
                context.close()
        if not capturing:
            keep(_settled, key, (_capacities.unpack_from(view, _CAPACITIES), _division.unpack_from(view, _DIVISION), age + 1),
                 256)
        return block, view

    def moved(self, view, scene, image, block):
        """The view of forward(), whose arrays may now be at other addresses."""
        splats, color, depths = image
        shift = block - view.memory.memory
        for of, names in ((view.ranges, ("tile_begin", "splat_index", "tile_order")),
                          (view.image, ("transmittance", "n_contrib"))):
            for name in names:
                setattr(of, name, getattr(of, name) + shift)
        _scene.pack_into(view, _SCENE, *self._pointers(scene))
        view.memory.memory, view.splats = block, splats
        view.image.color, view.image.depth, view.image.alpha = color, color + self.depth_at if self.depth_at else depths, None
        return view

    def gradient(self, d_color, d_depth, d_alpha, moments):
        """A gs_gradient. The gradients by depths and alphas may be None. moments: [C, N, 12]."""
        gradient = gs.Gradient.from_buffer_copy(self._gradient)
        _images.pack_into(gradient, 0, d_color, d_alpha or 0, moments)
        if d_depth:
            gradient.depth = d_depth
        return gradient

    def render_backward(self, view, gradient, d_colors, strategy, stream, d_means2d=None, wait=None):
        """The adjoint of the blend: after it only project_backward() is left. d_colors: the gradient by the colours of other
        than 3 channels, which it writes. d_means2d: where the gradients by the means of the splats [C, N, 2], in pixels, go,
        sums of values and of absolute values; either may be None."""
        lib, of, kept = self.lib, (byref(view), byref(gradient)), gradient.abs_mean2d
        gradient.gaussians.color = d_colors
        if d_means2d is not None:
            gradient.abs_mean2d = d_means2d[1] or kept
        lib.check(self._stage("gs_render_backward", wait)(*of, lib.policies[strategy], stream))
        if strategy == "fixed":
            lib.context(stream).trim()
        if d_means2d is not None:
            lib.check(lib.gs_mean2d_gradient(of[0], gradient.splat_grad, *d_means2d, stream))
            gradient.abs_mean2d = kept

    def project_backward(self, view, gradient, d_scene, stream, d_cameras=None, wait=None):
        """The adjoint of the projection. d_scene: where the gradients by a Scene go. d_cameras: where a gs_camera_gradient of
        each camera goes, or None. libdistwar_gs has it for one camera at a time: what else a camera's call writes, that of
        all cameras writes over."""
        _scene.pack_into(gradient, _GRADIENT_SCENE, *self._pointers(d_scene))
        shape, call = self.shape, self._stage("gs_project_backward", wait)
        if d_cameras is not None and shape.cameras == 1:
            gradient.camera = d_cameras
        elif d_cameras is not None:
            one, of_one = gs.View.from_buffer_copy(view), gs.Gradient.from_buffer_copy(gradient)
            one.views.count, of_one.mean2d, of_one.abs_mean2d = 0, None, None
            for c in range(shape.cameras):
                skipped = c * shape.count
                one.camera, one.splats = view.views.cameras[c], view.splats + skipped * 4 * SPLAT_FLOATS
                of_one.splat_grad = gradient.splat_grad + skipped * 4 * SPLAT_FLOATS
                if gradient.pixel_mean2d:
                    of_one.pixel_mean2d = gradient.pixel_mean2d + skipped * 8
                of_one.camera = d_cameras + c * 4 * CAMERA_FLOATS
                self.lib.check(call(byref(one), byref(of_one), stream))
        self.lib.check(call(byref(view), byref(gradient), stream))


plan_of = functools.lru_cache(maxsize=64)(Plan)
