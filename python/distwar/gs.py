# SPDX-License-Identifier: MIT
"""libdistwar_gs in Python by ctypes: the structs of distwar_gs.h, and its calls
on numpy arrays (CPU library) or torch tensors (CUDA library). Needs no other file of the package but a libdistwar_gs.so.
The headers document the calls."""
import ctypes
import importlib
import itertools
import sys
import threading
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p

GS_OK, GS_ISECTS_DO_NOT_FIT = 0, 2
ADAM_ARRAYS = 8  # of a step of gs_adam_rows


class Gaussians(Structure):
    _fields_ = [("count", c_int64), ("sh_degree", c_int32), ("mean", c_void_p), ("log_scale", c_void_p),
                ("quaternion", c_void_p), ("opacity_logit", c_void_p), ("sh", c_void_p), ("sh0", c_void_p),
                ("color", c_void_p), ("covariance", c_void_p), ("scale_modifier", c_float), ("antialias", c_int32),
                ("channels", c_int32), ("form", c_int32), ("eps2d", c_float)]


def _pointers(names):
    return [(name, c_void_p) for name in names.split()]


class Camera(Structure):
    _fields_ = [("width", c_int32), ("height", c_int32), ("fx", c_float), ("fy", c_float), ("cx", c_float),
                ("cy", c_float), ("rotation", c_float * 9), ("translation", c_float * 3), ("near_plane", c_float),
                ("model", c_int32), ("distortion", c_float * 4), ("far_plane", c_float)]


class Image(Structure):
    _fields_ = _pointers("color transmittance n_contrib depth median_depth alpha")


class TileRanges(Structure):
    _fields_ = [("tiles_x", c_int32), ("tiles_y", c_int32), ("isects", c_int64), ("tile_begin", c_void_p),
                ("splat_index", c_void_p), ("pixels_per_thread", c_int32), ("split_tiles", c_int32),
                ("tile_order", c_void_p), ("views", c_int32), ("call", c_int64), ("device_isects", c_void_p)]


class Views(Structure):
    _fields_ = [("count", c_int32), ("cameras", POINTER(Camera))]


class Rows(Structure):
    _fields_ = [("begin", c_int32), ("end", c_int32)]


class ViewMemory(Structure):
    _fields_ = [("memory", c_void_p), ("bytes", c_size_t), ("isect_capacity", c_int64), ("bucket_capacity", c_int64)]


class View(Structure):
    _fields_ = [("gaussians", Gaussians), ("sh_degree_used", c_int32), ("background", c_float * 3),
                ("channel_background", c_void_p), ("camera", Camera), ("views", Views), ("rows", Rows),
                ("normalize_depth", c_int32), ("inverse_depth", c_int32), ("memory", ViewMemory), ("splats", c_void_p),
                ("image", Image), ("ranges", TileRanges), ("isects_needed", c_int64)]


class CameraGradient(Structure):
    _fields_ = [("matrix", c_float * 12), ("se3_grad", c_float * 6), ("intrinsics", c_float * 4),
                ("reserved", c_float * 2)]


class Gradient(Structure):
    _fields_ = [*_pointers("color alpha splat_grad"), ("gaussians", Gaussians),
                *_pointers("mean2d depth abs_mean2d camera pixel_mean2d largest"), ("block_limit", c_float), ("adam", c_void_p)]


class Comparison(Structure):
    _fields_ = [("width", c_int32), ("height", c_int32), *_pointers("color target mask")]


class LossImage(Structure):
    _fields_ = [("images", Comparison), *_pointers("result color_gradient log_gain gain_sums depth depth_target depth_result "
                                                   "depth_gradient"), ("depth_weight", c_float)]


class SsimPair(Structure):
    _fields_ = [("width", c_int32), ("height", c_int32), ("planes", c_int32), ("valid", c_int32), *_pointers("first second")]


class AdamRates(Structure):
    _fields_ = [("mean", c_float), ("log_scale", c_float), ("quaternion", c_float), ("opacity_logit", c_float),
                ("sh0", c_float), ("shN", c_float), ("sh_coefficients", c_int32)]


class AdamArray(Structure):
    _fields_ = [("value", c_void_p), ("gradient", c_void_p), ("first_moment", c_void_p), ("second_moment", c_void_p),
                ("width", c_int32), ("rate", c_float)]


class AdamRowsStep(Structure):
    _fields_ = [("count", c_int64), ("visible", c_void_p), ("array", POINTER(AdamArray)), ("array_count", c_int32),
                ("beta1", c_double), ("beta2", c_double), ("epsilon", c_float)]


class Policy(Structure):
    """distwar_policy: how gs_backward adds gradients to memory."""
    _fields_ = [("strategy", c_int), ("balance_threshold", c_int)]


class Error(RuntimeError):
    """The text of gs_last_error()."""


_Allocate = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_void_p)
_Release = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)


class Allocator(Structure):
    _fields_ = [("allocate", _Allocate), ("release", _Release), ("user", c_void_p)]


class Context:
    """A gs_context whose memory are arrays. take() one of them: it is then the caller's."""

    def __init__(self, library, stream):
        self.blocks, self.failure, handle = {}, None, c_void_p()
        self._library, self._callbacks = library, (_Allocate(self._allocate), _Release(self._release))
        library.check(library.lib.gs_context_create(byref(Allocator(*self._callbacks)), c_void_p(stream),
                                                    byref(handle)))
        self.handle = handle

    def _allocate(self, user, size, stream):
        try:
            block, address = self._library.new(size)
        except Exception as failure:  # check() raises it
            self.failure = failure
            return None
        self.blocks[address] = block
        return address

    def _release(self, user, memory, stream):
        self.blocks.pop(memory, None)

    def take(self, address):
        return self.blocks.pop(address)

    def trim(self):
        """Gives back what no later call reads."""
        self._library.lib.gs_context_trim(self.handle)

    def check(self, status):
        """As Library.check(); where memory was refused, the allocator's exception."""
        failure, self.failure = self.failure, None
        if status != GS_OK and failure is not None:
            raise failure
        self._library.check(status)

    def close(self):
        self._library.lib.gs_context_destroy(self.handle)


class _Contexts(threading.local):
    def __init__(self):
        self.of = {}  # of this thread, by stream


class _Stream:
    """The type of an argument: a Context, or a stream, for which the library is given this thread's."""

    def __init__(self, library):
        self.from_param = lambda of: (of if isinstance(of, Context) else library.context(of)).handle


class Library:
    """A libdistwar_gs.so. Arrays are C-contiguous, in memory that it works on: of a GPU, or the host's. The caller keeps them
    alive until the work on them is done."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        for name in ("backend", "version", "last_error"):
            getattr(self.lib, "gs_" + name).restype = c_char_p
        self.backend = self.lib.gs_backend().decode()
        self.version = self.lib.gs_version().decode()
        self.lib.gs_name.restype = c_char_p
        self._contexts = _Contexts()
        # distwar_strategy and gs_camera.model by name: the lists of gs_names
        self.strategies, self.cameras = ({name.decode(): number for number, name in enumerate(itertools.takewhile(
            bool, (self.lib.gs_name(of, number) for number in itertools.count())))} for of in range(2))
        self.policies = {name: Policy(value, 0) for name, value in self.strategies.items()}
        pointer = c_void_p  # of an array: its ctypes.data, or data_ptr() of a tensor
        view, gradient, shape, stream = POINTER(View), POINTER(Gradient), POINTER(Gaussians), _Stream(self)
        for names, *arguments in (
                ("has_strategy", c_int), ("forward project bin render settle", view, stream),
                ("backward render_backward", view, gradient, Policy, stream), ("reserve", view, c_int, c_int64, stream),
                ("project_backward", view, gradient, stream), ("mean2d_gradient", view, pointer, pointer, pointer, stream),
                ("radii mark_visible", view, pointer, stream), ("density_accumulate", view, pointer, pointer, stream),
                ("adam", shape, shape, shape, shape, POINTER(AdamRates), c_int64, stream),
                ("adam_rows", POINTER(AdamRowsStep), stream), ("loss", POINTER(LossImage), c_int32, stream),
                ("ssim", POINTER(SsimPair), pointer, pointer, stream),
                ("density_noise", shape, c_int64, c_float, c_int64, c_int64, stream),
                ("density_penalty", shape, c_int64, c_float, c_float, shape, stream)):
            for name in names.split():  # an attribute each, which returns a status: see check()
                function = getattr(self.lib, "gs_" + name)
                function.argtypes = arguments
                setattr(self, "gs_" + name, function)

    def check(self, status):
        """Raises Error unless the status of a call is GS_OK."""
        if status != GS_OK:
            raise Error(self.lib.gs_last_error().decode())

    def call(self, name, *arguments):
        """A call of distwar_gs.h without its last argument, the stream: torch's current stream is used. Raises Error unless
        its status is GS_OK."""
        stream = self._torch.cuda.current_stream().cuda_stream if self.backend == "cuda" else None
        self.check(getattr(self, name)(*arguments, stream))

    def context(self, stream):
        """The Context of this thread for a stream of the current device: the default streams of all devices are 0."""
        contexts, key = self._contexts.of, (stream, self._torch.cuda.current_device() if self.backend == "cuda" else None)
        if key not in contexts:
            contexts[key] = Context(self, stream)
        return contexts[key]

    def new(self, size):
        """Memory for a Context: what holds it, and its address. A tensor, if there can be some: its graph may keep it."""
        torch = self._torch
        if torch is None:
            block = (ctypes.c_char * (size + 256))()
            at = ctypes.addressof(block)
            return block, at + -at % 256
        block = torch.empty(size, dtype=torch.uint8, device="cuda" if self.backend == "cuda" else "cpu")
        return block, block.data_ptr()

    @property
    def _torch(self):
        """None: nobody has imported it, and the arrays are numpy's."""
        torch = sys.modules.get("torch")
        return importlib.import_module("torch") if torch is None and self.backend == "cuda" else torch
