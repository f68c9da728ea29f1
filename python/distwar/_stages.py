# SPDX-License-Identifier: MIT
"""The stages of libdistwar_gs on addresses, for arrays of any framework. What frames of one shape have in common, their
structs above all, is made once: a Plan. Addresses are integers; 0 or None: there is no array. `stream` is a
cudaStream_t as an integer, or None."""
import ctypes
import functools
import math
import struct
import threading
from ctypes import byref, sizeof
from typing import NamedTuple, Optional

from . import gs
from ._library import library

SPLAT_FLOATS = 12  # of a gs_splat, and of a gs_splat_grad
TILE = 16
MOST_VIEWS = 32
CAMERA_MODELS = ("pinhole", "ortho")  # of libdistwar_gs, those that are gsplat's
DEPTH_SUM, DEPTH_OVER_ALPHA, INVERSE_DEPTH = range(3)  # what an image's depth is
# Colours [cameras, height, width, channels], stored as planes, and depths apart; the depth as the last of the channels, of
# one camera; colours [channels, height, width] of one camera.
SEPARATE, JOINED, PLANES = range(3)
CAMERA_GRADIENT_FLOATS = sizeof(gs.CameraGradient) // 4


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


def coefficients_of(scene):
    """Of the harmonics of a Scene."""
    return scene[4].shape[1] + (scene[6] is not None)


def shape_of(request, cameras, scene, backend):
    """The Shape of a launch for some cameras of a Request."""
    s, coefficients = request.settings, coefficients_of(scene) if request.settings.sh_degree >= 0 else 0
    joins = request.with_color and request.depth is not None and cameras == 1 and \
        request.channels * s.height * s.width % 4 == 0  # else a gradient of depths would not begin at 16 bytes
    return Shape(s, cameras, request.count, request.channels, coefficients, request.depth, backend,
                 JOINED if joins else SEPARATE)


class Scene(NamedTuple):
    """Arrays of float32, or the addresses of contiguous ones, in the shapes of gs_gaussians: scales and opacities as
    Settings.activated says."""
    means: object
    quats: object  # None with covars
    scales: object
    opacities: object
    colors: object  # [N, channels], or [N, coefficients, 3] with an sh_degree
    covars: object  # [N, 6], or None
    constant: object = None  # [N, 1, 3]: the first of the coefficients; colors then has the others


class Room:
    """What gs_settle left for the next frame, by device and size of images: room for its lists, and how the blend divided
    its work. Shrinks with what many frames need."""

    def __init__(self, splats):
        self.capacity = 10 * splats + 4096, 30 * splats + 4096  # isect_capacity and bucket_capacity
        self.division = (0, 0)  # pixels_per_thread and split_tiles of the last lists
        self._most, self._frames = 0, 0

    def note(self, view):
        self.capacity = _capacities.unpack_from(view, _CAPACITIES)
        *self.division, needed = _report.unpack_from(view, _DIVISION)
        self._most, self._frames = max(self._most, needed), self._frames + 1
        if self._frames == 64:
            if 2 * self._most + 65536 < self.capacity[0]:
                self.capacity = tuple(self._most * c // self.capacity[0] * 4 // 3 + 4096 for c in self.capacity)
            self._most, self._frames = 0, 0


_rooms = {}
_lock = threading.Lock()


def room_of(device, shape):
    key = device, shape.cameras, shape.settings[:2]
    with _lock:
        room = _rooms.get(key)
        if room is None:
            if len(_rooms) > 256:
                _rooms.clear()
            room = _rooms[key] = Room(shape.cameras * shape.count)
        return room


@functools.lru_cache(maxsize=256)
def array_type(of, count):
    """of * count: ctypes makes that anew where nobody keeps it."""
    return of * count


_camera = struct.Struct("<2i4f9f3ffi4ff")
assert _camera.size == sizeof(gs.Camera)

# Members of distwar_gs.h's structs that follow each other, and where they begin: one call of struct fills them.
_scene = struct.Struct("<8Q")  # of gs_gaussians: mean, log_scale, quaternion, opacity_logit, sh, sh0, color, covariance
_SCENE, _GRADIENT_SCENE = (of.gaussians.offset + gs.Gaussians.mean.offset for of in (gs.View, gs.Gradient))
_memory = struct.Struct("<2Q2q7Q")  # of gs_view: memory with its bytes and capacities, splats, image
_MEMORY = gs.View.memory.offset
_capacities, _CAPACITIES = struct.Struct("<2q"), _MEMORY + gs.ViewMemory.isect_capacity.offset
_one_camera = struct.Struct(f"{_camera.size}s")
_CAMERA = gs.View.camera.offset
_DIVISION = gs.View.ranges.offset + gs.TileRanges.pixels_per_thread.offset  # it and split_tiles
_report = struct.Struct(f"<2i{gs.View.isects_needed.offset - _DIVISION - 8}xq")  # from _DIVISION on, to isects_needed


class _Whole:
    """A struct of distwar_gs.h filled by one call of struct: some members, by their offsets, and the bytes of a Plan."""

    def __init__(self, of, members):
        """members: (offset, format) in the order of pack()."""
        form, self.gaps, at = "<", [], 0
        for offset, part in members:
            form, at = form + f"{offset - at}s" + part, self._gap(at, offset) + struct.calcsize("<" + part)
        self.pack = struct.Struct(form + f"{self._gap(at, sizeof(of)) - at}s").pack

    def _gap(self, begin, end):
        self.gaps.append(slice(begin, end))
        return end

    def gaps_of(self, whole):
        """The bytes of a struct that pack() takes between the members."""
        return [whole[gap] for gap in self.gaps]


_whole_view = _Whole(gs.View, ((_SCENE, "8Q"), (_CAMERA, f"{_camera.size}s"), (_MEMORY, "2Q2q7Q"), (_DIVISION, "2i")))
_whole_gradient = _Whole(gs.Gradient, ((gs.Gradient.color.offset, "3Q"), (_GRADIENT_SCENE, "8Q"),
                                       (gs.Gradient.mean2d.offset, "2Q")))
assert gs.Gaussians.covariance.offset - gs.Gaussians.mean.offset == 56
assert gs.View.ranges.offset - _MEMORY == _memory.size and gs.Gradient.gaussians.offset == 24
assert gs.Gradient.depth.offset == gs.Gradient.mean2d.offset + 8


def packed_cameras(viewmats, Ks, settings):
    """gs_camera of each camera, as bytes. viewmats: rows of 4x4 matrices, Ks of 3x3, as lists."""
    packed = [_camera.pack(settings.width, settings.height, k[0], l[1], k[2], l[2], *a[:3], *b[:3], *c[:3], a[3], b[3],
                           c[3], settings.near_plane, _model(settings), 0, 0, 0, 0, _far(settings))
              for (a, b, c, _), (k, l, _) in zip(viewmats, Ks)]
    return packed[0] if len(packed) == 1 else b"".join(packed)


def _model(settings):
    return library().cameras[CAMERA_MODELS[settings.camera]]


def _far(settings):
    return settings.far_plane if settings.far_plane < 3e38 else 0.0


def camera_ends(settings):
    """What a gs_camera has before and behind the numbers of its matrices."""
    return (struct.pack("<2i", settings.width, settings.height),
            struct.pack("<fi4ff", settings.near_plane, _model(settings), 0, 0, 0, 0, _far(settings)))


_viewmat, _K = struct.Struct("<12s4s12s4s12s4s"), struct.Struct("<4s4x4s4x4s4s")  # their numbers stay bytes
_Memory = ctypes.c_char * 64


def cameras_at(viewmats, Ks, cameras, ends):
    """packed_cameras() of matrices in memory: the addresses of contiguous ones of float32. ends: camera_ends()."""
    packed, (head, tail) = [], ends
    for c in range(cameras):
        r0, t0, r1, t1, r2, t2 = _viewmat.unpack_from(_Memory.from_address(viewmats + c * 64))
        fx, cx, fy, cy = _K.unpack_from(_Memory.from_address(Ks + c * 36))
        packed += head, fx, fy, cx, cy, r0, r1, r2, t0, t1, t2, tail
    return b"".join(packed)


def camera_at(cameras, c):
    """One of packed_cameras()."""
    return cameras[c * _camera.size:(c + 1) * _camera.size]


def camera_structs(cameras):
    """An array of gs_camera of packed_cameras()."""
    return array_type(gs.Camera, len(cameras) // _camera.size).from_buffer_copy(cameras)


class Sizes(NamedTuple):
    """(shape, strides) of the arrays of a frame."""
    color: tuple
    alphas: tuple
    depths: tuple
    splats: tuple


def _contiguous(*shape):
    return shape, tuple(math.prod(shape[k + 1:]) for k in range(len(shape)))


def _sizes(shape):
    c, d, h, w = shape.cameras, shape.channels, shape.settings.height, shape.settings.width
    planes = d + (shape.layout == JOINED)
    color = _contiguous(d, h, w) if shape.layout == PLANES else ((c, h, w, planes), (planes * h * w, w, 1, h * w))
    return Sizes(color, _contiguous(c, h, w, 1), _contiguous(c, h, w), _contiguous(c, shape.count, SPLAT_FLOATS))


class Plan:
    """The stages of frames of one shape. Holds no state of a frame."""

    def __init__(self, shape):
        s, cameras = shape.settings, shape.cameras
        self.shape, self.lib, self.sizes = shape, library(shape.backend), _sizes(shape)
        self.camera_ends = camera_ends(s)
        # Bytes from the colours to the depth that is joined to them; 0: it is apart.
        self.depth_at = 4 * shape.channels * s.height * s.width if shape.layout == JOINED else 0
        # What blending asks of cameras is their size.
        identity = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
        self.cameras = camera_structs(packed_cameras([identity] * cameras,
                                                     [[row[:3] for row in identity[:3]]] * cameras, s))
        view = self.view = gs.View(camera=self.cameras[0], sh_degree_used=max(s.sh_degree, 0))
        self._shape_of(view.gaussians)
        view.normalize_depth = int(shape.depth == DEPTH_OVER_ALPHA)
        view.inverse_depth = int(shape.depth == INVERSE_DEPTH)
        if cameras > 1:
            view.views.count, view.views.cameras = cameras, self.cameras
        gradient = gs.Gradient()
        self._shape_of(gradient.gaussians)
        self.view_bytes, self.gradient_bytes = bytes(view), bytes(gradient)
        self._view_gaps = _whole_view.gaps_of(self.view_bytes)
        self._gradient_gaps = _whole_gradient.gaps_of(self.gradient_bytes)
        self.camera_floats = CAMERA_GRADIENT_FLOATS

    def _shape_of(self, g):
        s = self.shape.settings
        g.count, g.channels = self.shape.count, self.shape.channels
        g.sh_degree = math.isqrt(self.shape.coefficients) - 1 if self.shape.coefficients else 0
        g.antialias, g.form, g.eps2d = int(s.antialiased), int(s.activated), s.eps2d

    def one_camera(self):
        return plan_of(self.shape._replace(cameras=1))

    def _pointers(self, scene):
        """The addresses of a Scene in the order of gs_gaussians."""
        mean, quaternion, log_scale, opacity_logit, colors, covariance, constant = scene
        sh, color = (colors, 0) if self.shape.coefficients else (0, colors)
        return mean, log_scale or 0, quaternion or 0, opacity_logit, sh, constant or 0, color, covariance or 0

    def _point(self, of, at, scene):
        """Lets the gs_gaussians in a struct point to the arrays of a Scene."""
        _scene.pack_into(of, at, *self._pointers(scene))

    def _projected(self, cameras, scene, splats):
        view = gs.View.from_buffer_copy(self.view_bytes)
        _one_camera.pack_into(view, _CAMERA, cameras)  # the first
        view.splats = splats
        if self.shape.cameras > 1:
            view.views.cameras = camera_structs(cameras)
        self._point(view, _SCENE, scene)
        return view

    def project(self, cameras, scene, splats, stream):
        """cameras: of packed_cameras(). Writes splats [C, N, 12]."""
        view = self._projected(cameras, scene, splats)
        self.lib.check(self.lib.gs_project(byref(view), stream))

    def radii(self, splats, radii, stream):
        """Writes radii [C, N], int32."""
        view = gs.View.from_buffer_copy(self.view_bytes)
        view.views.count = 0
        for c in range(self.shape.cameras):
            view.splats = splats + c * self.shape.count * 4 * SPLAT_FLOATS
            self.lib.check(self.lib.gs_radii(byref(view), radii + c * self.shape.count * 4, stream))

    def project_backward(self, cameras, scene, splats, moments, d_mean2d, d_scene, d_camera, stream):
        """From moments [C, N, 12] and the gradient by the means of the splats [C, N, 2], or None: writes d_scene and,
        unless it is None, d_camera, of camera_floats, which begins with a gs_camera_gradient (of one camera only)."""
        view = self._projected(cameras, scene, splats)
        gradient = gs.Gradient.from_buffer_copy(self.gradient_bytes)
        gradient.splat_grad, gradient.pixel_mean2d = moments, d_mean2d
        self._point(gradient, _GRADIENT_SCENE, d_scene)
        if d_camera is not None:
            gradient.camera = d_camera
        self.lib.check(self.lib.gs_project_backward(byref(view), byref(gradient), stream))

    def _context(self, stream, allocate, capturing):
        """The Context of a frame, whose memory comes from allocate(). A graph has one of its own, whose memory then is the
        graph's."""
        if capturing:
            return gs.Context(self.lib, stream, allocate)
        context = self.lib.context(stream)
        context.new = allocate
        return context

    def _rendered(self, context, view, room, settles, calls):
        """Runs the calls until the lists of the view fit. Returns its memory, and the address."""
        place = byref(view)
        try:
            while True:
                status = gs.GS_OK
                for call in calls:
                    status = status or call(place, context)
                if status != gs.GS_ISECTS_DO_NOT_FIT:
                    break
            context.check(status)
            at = view.memory.memory
            block = context.take(at)
        finally:
            context.blocks.pop(view.memory.memory, None)
            if settles:
                context.new = self.lib.new
            else:
                context.close()
        if settles:
            room.note(view)
        return block, at

    def blend_backward(self, view, gradient, strategy, d_means2d, stream):
        """The blend of forward()'s view. d_means2d: where the gradients by the means of the splats [C, N, 2] go, sums of values
        and of absolute values; either may be None."""
        lib, place = self.lib, byref(view)
        gradient.abs_mean2d = d_means2d[1]
        lib.check(lib.gs_render_backward(place, byref(gradient), lib.policies[strategy], stream))
        if any(d_means2d):
            lib.check(lib.gs_mean2d_gradient(place, gradient.splat_grad, *d_means2d, stream))

    # ---- all stages in one call ----

    def _waited(self, name, wait):
        """A stage that waits for the device; an error says which it was."""
        def run(*arguments):
            status = getattr(self.lib, name)(*arguments)
            try:
                wait()
            except RuntimeError as error:
                raise RuntimeError(f"distwar: {name} failed: {error}") from error
            return status
        return run

    def _depth(self, color, depths):
        """The address of the depths, which may be joined to the colours; 0: there are none."""
        return color + self.depth_at if self.depth_at else depths or 0

    def forward(self, room, cameras, scene, image, alphas, background, allocate, stream, capturing, wait=None, clip=None):
        """Projects and blends. cameras: of packed_cameras(); image: the addresses of splats [C, N, 12], planar colours, depths
        or None; alphas: an address or None; background: three numbers or None. allocate(bytes) returns a block and its address.
        capturing: nothing may wait, the image is NaN if the lists have no room. wait(): after each stage; clip(): after the
        projection. Returns the block that the lists lie in, its address, and a gs_view, for backward()."""
        lib, (splats, color, depths), (a, b, c, d, e) = self.lib, image, self._view_gaps
        view = gs.View.from_buffer_copy(_whole_view.pack(
            a, *self._pointers(scene), b, cameras[:_camera.size], c, 0, 0, *room.capacity, splats, color, 0, 0,
            self._depth(color, depths), 0, alphas or 0, d, *room.division, e))
        if background is not None:
            view.background[:] = background
        if self.shape.cameras > 1:
            view.views.cameras = camera_structs(cameras)
        calls = [lib.gs_forward]
        if capturing or wait is not None or clip is not None:
            names = ["gs_project", "gs_bin", "gs_render", "gs_settle"][:3 if capturing else 4]
            calls = [getattr(lib, name) if wait is None or capturing else self._waited(name, wait) for name in names]
            if clip is not None:
                calls.insert(1, lambda *_: clip() or gs.GS_OK)
        return *self._rendered(self._context(stream, allocate, capturing), view, room, not capturing, calls), view

    def moved(self, view, scene, image, block):
        """The view of forward(), whose arrays may now be at other addresses."""
        splats, color, depths = image
        shift = block - view.memory.memory
        for of, names in ((view.ranges, ("tile_begin", "splat_index", "tile_order")),
                          (view.image, ("transmittance", "n_contrib"))):
            for name in names:
                setattr(of, name, getattr(of, name) + shift)
        self._point(view, _SCENE, scene)
        view.memory.memory, view.splats = block, splats
        view.image.color, view.image.depth, view.image.alpha = color, self._depth(color, depths), None
        return view

    def gradient(self, d, moments, d_scene):
        """A gs_gradient. d: the addresses of the gradients by colours, depths and alphas; the last two may be None.
        moments: [C, N, 12]."""
        (d_color, d_depth, d_alpha), (a, b, c, e) = d, self._gradient_gaps
        return gs.Gradient.from_buffer_copy(_whole_gradient.pack(
            a, d_color, d_alpha or 0, moments, b, *self._pointers(d_scene), c, 0, d_depth or 0, e))

    def backward(self, view, gradient, strategy, stream, wait=None):
        lib, of = self.lib, (byref(view), byref(gradient))
        if wait is None:
            lib.check(lib.gs_backward(*of, lib.policies[strategy], stream))
            return
        lib.check(self._waited("gs_render_backward", wait)(*of, lib.policies[strategy], stream))
        lib.check(self._waited("gs_project_backward", wait)(*of, stream))

    def accumulate(self, view, mean2d, density, stream):
        """gs_density_accumulate of the gradient by the means in units of half the image's size."""
        self.lib.check(self.lib.gs_density_accumulate(byref(view), mean2d, density, stream))

    def project_backward_of(self, view, gradient, stream):
        self.lib.check(self.lib.gs_project_backward(byref(view), byref(gradient), stream))


plan_of = functools.lru_cache(maxsize=64)(Plan)
