# SPDX-License-Identifier: MIT
"""The stages of libgs on arrays of any framework. A `memory` allocates arrays and knows their addresses:

    empty(shape, dtype)     an array of "float32", "int32", "uint8"; contiguous, aligned to 16 bytes
    address(array)          its device pointer; None stays None
    stream                  a cudaStream_t as an integer, or None
    device_key              equal for arrays of one device
    read_report             None; or, for stages that do not wait, a function of an array that queues the copy of the
                            gs_bin_report in it to the host and returns a function that waits for the copy and returns
                            the gs.BinReport, or None while nothing may wait
"""
import ctypes
import math
import threading
from ctypes import byref, sizeof
from typing import NamedTuple

from . import gs
from ._library import library

SPLAT_FLOATS = 12  # of a gs_splat, and of a gs_moments
TILE = 16
MOST_VIEWS = 32
CHANNELS = 3
DEPTH_SUM, DEPTH_OVER_ALPHA, INVERSE_DEPTH = range(3)  # what an image's depth is
CAMERA_GRADIENT_FLOATS = sizeof(gs.CameraGradient) // 4


class Settings(NamedTuple):
    """What a view has besides arrays."""
    width: int
    height: int
    sh_degree: int  # -1: colours are given
    antialiased: bool
    near_plane: float
    far_plane: float
    low_pass: float


class Scene(NamedTuple):
    """Contiguous float32 arrays, in the shapes of gs_gaussians: scales and opacities as they are."""
    means: object
    quats: object  # None with covars
    scales: object
    opacities: object
    colors: object  # [N, channels], or [N, coefficients, 3] with an sh_degree
    covars: object  # [N, 6], or None


class Lists(NamedTuple):
    """gs_lists without its addresses: byte offsets in the workspace."""
    pairs: int
    pixels_per_thread: int
    split_tiles: int
    tile_begin: int
    splat_index: int
    tile_order: int


# gs_view.pair_capacity of the next view: by device and size. Grows and shrinks with what views need, in steps, so that
# the allocator finds the same block again.
class _Room:
    def __init__(self, splats):
        self.capacity = 10 * splats + 4096
        self.division = (0, 0)  # pixels_per_thread and split_tiles of the last lists

    def note(self, needed):
        if needed > self.capacity or 4 * needed + 65536 < self.capacity:
            self.capacity = needed + needed // 3 + 4096


_rooms = {}
_lock = threading.Lock()


def _room(key, splats):
    with _lock:
        room = _rooms.get(key)
        if room is None:
            if len(_rooms) > 256:
                _rooms.clear()
            room = _rooms[key] = _Room(splats)
        return room


def camera_structs(viewmats, Ks, settings):
    """gs_camera of each camera. viewmats: rows of 4x4 matrices, Ks of 3x3, as lists."""
    cameras = (gs.Camera * len(viewmats))()
    far = settings.far_plane if settings.far_plane < 3e38 else 0.0
    for camera, m, k in zip(cameras, viewmats, Ks):
        camera.width, camera.height = settings.width, settings.height
        camera.fx, camera.fy, camera.cx, camera.cy = k[0][0], k[1][1], k[0][2], k[1][2]
        camera.rotation[:] = m[0][:3] + m[1][:3] + m[2][:3]
        camera.translation[:] = (m[0][3], m[1][3], m[2][3])
        camera.near_plane, camera.far_plane = settings.near_plane, far
    return cameras


def _gaussians(memory, scene, settings, out=None):
    """gs_gaussians of the scene into `out` or a new struct."""
    g = gs.Gaussians() if out is None else out
    g.count = scene.means.shape[0]
    g.mean = memory.address(scene.means)
    g.log_scale = memory.address(scene.scales)
    g.quaternion = memory.address(scene.quats)
    g.opacity_logit = memory.address(scene.opacities)
    g.covariance = memory.address(scene.covars)
    if settings.sh_degree >= 0:
        g.sh_degree = math.isqrt(scene.colors.shape[1]) - 1
        g.sh = memory.address(scene.colors)
    else:
        g.channels = scene.colors.shape[1]
        g.color = memory.address(scene.colors)
    g.antialias, g.activated, g.low_pass = int(settings.antialiased), 1, settings.low_pass
    return g


def _place_cameras(view, cameras):
    view.camera = cameras[0]
    if len(cameras) > 1:
        view.views.count = len(cameras)
        view.views.cameras = cameras
        view.kept = cameras  # alive as long as the view


def _projection_view(memory, scene, settings, cameras, splats):
    view = gs.View(sh_degree_used=max(settings.sh_degree, 0), splats=memory.address(splats))
    _gaussians(memory, scene, settings, view.gaussians)
    _place_cameras(view, cameras)
    return view


def project(memory, scene, settings, cameras):
    """Returns splats [C, N, 12] and radii [C, N]."""
    lib, count = library(), scene.means.shape[0]
    splats = memory.empty((len(cameras), count, SPLAT_FLOATS), "float32")
    radii = memory.empty((len(cameras), count), "int32")
    view = _projection_view(memory, scene, settings, cameras, splats)
    lib.call_on("gs_project", byref(view), memory.stream)
    view.views.count = 0
    for c in range(len(cameras)):
        view.splats = (memory.address(splats) or 0) + c * count * sizeof(ctypes.c_float) * SPLAT_FLOATS
        lib.call_on("gs_radii", byref(view), (memory.address(radii) or 0) + c * count * 4, memory.stream)
    return splats, radii


def project_backward(memory, scene, settings, cameras, splats, moments, d_mean2d, with_cameras):
    """From moments [C, N, 12] and the gradient by the means of the splats [C, N, 2], or None: a Scene of gradients, and
    with_cameras a list of arrays whose first 28 floats are a gs_camera_gradient."""
    if with_cameras and len(cameras) > 1:  # libgs has this gradient for one camera at a time
        parts = [project_backward(memory, scene, settings, (gs.Camera * 1)(cameras[c]), splats[c:c + 1],
                                  moments[c:c + 1], None if d_mean2d is None else d_mean2d[c:c + 1], True)
                 for c in range(len(cameras))]
        sums = Scene(*(None if column[0] is None else sum(column[1:], column[0])
                       for column in zip(*(scene for scene, _ in parts))))
        return sums, [camera for _, (camera,) in parts]
    lib = library()
    view = _projection_view(memory, scene, settings, cameras, splats)
    d_scene = Scene(*(None if a is None else memory.empty(a.shape, "float32") for a in scene))
    gradient = gs.Gradient(moments=memory.address(moments), pixel_mean2d=memory.address(d_mean2d))
    _gaussians(memory, d_scene, settings, gradient.gaussians)
    d_camera = None
    if with_cameras:
        size = ctypes.c_size_t()
        lib.call_on("gs_camera_gradient_bytes", view.gaussians.count, byref(size))
        d_camera = memory.empty((max((size.value + 3) // 4, CAMERA_GRADIENT_FLOATS),), "float32")
        gradient.camera, gradient.camera_bytes = memory.address(d_camera), size.value
    lib.call_on("gs_project_backward", byref(view), byref(gradient), memory.stream)
    return d_scene, [d_camera] if with_cameras else []


def _blend_view(memory, settings, splats, features, depth):
    """The view that blending reads: splats, and colours unless there are three channels."""
    cameras, count, _ = splats.shape
    view = gs.View(splats=memory.address(splats))
    view.gaussians.count = count
    if features is not None:
        view.gaussians.color = memory.address(features)
        view.gaussians.channels = features.shape[1]
    view.normalize_depth, view.inverse_depth = int(depth == DEPTH_OVER_ALPHA), int(depth == INVERSE_DEPTH)
    camera = view.camera
    camera.width, camera.height = settings.width, settings.height
    camera.fx = camera.fy = camera.near_plane = 1
    if cameras > 1:
        view.views.count = cameras
        view.kept = (gs.Camera * cameras)(*(camera,) * cameras)
        view.views.cameras = view.kept
    return view


class Image(NamedTuple):
    """What render() returns; background 0."""
    color: object  # [C, channels, height, width]
    transmittance: object  # [C, height, width]
    depth: object  # [C, height, width], or of 0 elements
    n_contrib: object
    workspace: object  # the lists' memory
    lists: Lists


def render(memory, settings, splats, features, depth):
    """Blends splats [C, N, 12]. features: [N, channels] unless there are three; depth: what it is, or None."""
    lib = library()
    cameras, count, _ = splats.shape
    size = (cameras, settings.height, settings.width)
    channels = CHANNELS if features is None else features.shape[1]
    color = memory.empty((cameras, channels) + size[1:], "float32")
    transmittance, n_contrib = memory.empty(size, "float32"), memory.empty(size, "int32")
    depths = memory.empty((0,) if depth is None else size, "float32")
    view = _blend_view(memory, settings, splats, features, depth)
    view.image = gs.Image(memory.address(color), memory.address(transmittance), memory.address(n_contrib),
                          None if depth is None else memory.address(depths))
    room = _room((memory.device_key,) + size, cameras * count)
    view.lists.pixels_per_thread, view.lists.split_tiles = room.division
    waits = memory.read_report is None
    report_bytes = sizeof(gs.BinReport)
    bytes_needed = ctypes.c_size_t()
    while True:
        view.pair_capacity = max(room.capacity, 1)
        lib.call_on("gs_bin_bytes", byref(view), byref(bytes_needed))
        report_at = (bytes_needed.value + 15) // 16 * 16
        workspace = memory.empty((report_at + report_bytes,), "uint8")
        base = memory.address(workspace)
        view.workspace, view.workspace_bytes = base, bytes_needed.value
        view.report = None if waits else base + report_at
        status = lib.call_on("gs_bin", byref(view), memory.stream, allow=(gs.GS_PAIRS_DO_NOT_FIT,))
        if waits:
            needed = view.pairs_needed
            if status == gs.GS_OK:
                lib.call_on("gs_render", byref(view), memory.stream)
        else:  # the wait is for the lists alone; the blend is queued behind them
            report = memory.read_report(workspace[report_at:])
            lib.call_on("gs_render", byref(view), memory.stream)
            if report is None:  # a CUDA graph is being captured: an overflow makes the image NaN
                break
            report = report()
            needed = report.pairs_needed
            status = lib.call_on("gs_bin_settle", byref(view), byref(report), allow=(gs.GS_PAIRS_DO_NOT_FIT,))
        room.note(needed)
        if status == gs.GS_OK:
            break
    of = view.lists
    room.division = (of.pixels_per_thread, of.split_tiles)
    lists = Lists(of.pairs, of.pixels_per_thread, of.split_tiles, of.tile_begin - base, (of.splat_index or base) - base,
                  (of.tile_order or base) - base)
    return Image(color, transmittance, depths, n_contrib, workspace, lists)


def render_backward(memory, settings, splats, features, image, d_color, d_alpha, d_depth, depth, absolute, strategy):
    """Returns moments [C, N, 12], the gradients by the splats' means [C, N, 2] and, if absolute, the sums of absolute
    values, else None; and the gradient by features, or None. d_alpha and d_depth may be None."""
    lib = library()
    cameras, count, _ = splats.shape
    view = _blend_view(memory, settings, splats, features, depth)
    view.image = gs.Image(memory.address(image.color), memory.address(image.transmittance),
                          memory.address(image.n_contrib), None if depth is None else memory.address(image.depth))
    base, lists = memory.address(image.workspace), image.lists
    view.lists = gs.Lists((settings.width + TILE - 1) // TILE, (settings.height + TILE - 1) // TILE, lists.pairs,
                          base + lists.tile_begin, base + lists.splat_index, lists.pixels_per_thread,
                          lists.split_tiles, base + lists.tile_order, cameras)
    code = gs.STRATEGIES[strategy]
    size = ctypes.c_size_t()
    lib.call_on("gs_moments_bytes", cameras * count, view.gaussians.channels, code, byref(size))
    sums = memory.empty((max(size.value // 4, 1),), "float32")
    d_mean2d = memory.empty((cameras, count, 2), "float32")
    abs_mean2d = memory.empty((cameras, count, 2), "float32") if absolute else None
    d_features = None if features is None else memory.empty(features.shape, "float32")
    gradient = gs.Gradient(color=memory.address(d_color), alpha=memory.address(d_alpha),
                           moments=memory.address(sums), moments_bytes=size.value, depth=memory.address(d_depth),
                           abs_mean2d=memory.address(abs_mean2d))
    gradient.gaussians.count = count
    gradient.gaussians.color = memory.address(d_features)
    lib.call_on("gs_render_backward", byref(view), byref(gradient), gs.Policy(code, 0), memory.stream)
    lib.call_on("gs_mean2d_gradient", byref(view), gradient.moments, memory.address(d_mean2d),
                memory.address(abs_mean2d), memory.stream)
    moments = sums[:cameras * count * SPLAT_FLOATS].reshape((cameras, count, SPLAT_FLOATS))
    return moments, d_mean2d, abs_mean2d, d_features
