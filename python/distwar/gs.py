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
_TYPES = dict(q=c_int64, i=c_int32, f=c_float, d=c_double, N=c_size_t, P=c_void_p, B=ctypes.c_bool)


def struct_of(name, *members):
    """A Structure, by its name in C. members in their order: a letter of _TYPES and the names of members of that type, or
    (name, type)."""
    fields = []
    for of in members:
        letter, *names = of.split() if isinstance(of, str) else (None,)
        fields += [(member, _TYPES[letter]) for member in names] or [of]
    return type(name, (Structure,), dict(_fields_=fields))


Gaussians = struct_of("gs_gaussians", "q count", "i sh_degree", "P mean log_scale quaternion opacity_logit sh sh0 color",
                      "P covariance", "f scale_modifier", "i antialias channels form", "f eps2d")
Camera = struct_of("gs_camera", "i width height", "f fx fy cx cy", ("rotation", c_float * 9), ("translation", c_float * 3),
                   "f near_plane", "i model", ("distortion", c_float * 4), "f far_plane")
Image = struct_of("gs_image", "P color transmittance n_contrib depth median_depth alpha")
TileRanges = struct_of("gs_tile_ranges", "i tiles_x tiles_y", "q isects", "P tile_begin splat_index",
                       "i pixels_per_thread split_tiles", "P tile_order", "i views", "q call", "P device_isects")
Views = struct_of("gs_views", "i count", ("cameras", POINTER(Camera)))
Rows = struct_of("gs_rows", "i begin end")
ViewMemory = struct_of("gs_view_memory", "P memory", "N bytes", "q isect_capacity bucket_capacity")
View = struct_of("gs_view", ("gaussians", Gaussians), "i sh_degree_used", ("background", c_float * 3), "P channel_background",
                 ("camera", Camera), ("views", Views), ("rows", Rows), "i normalize_depth inverse_depth", ("memory", ViewMemory),
                 "P splats", ("image", Image), ("ranges", TileRanges), "q isects_needed")
CameraGradient = struct_of("gs_camera_gradient", ("matrix", c_float * 12), ("se3_grad", c_float * 6), ("intrinsics", c_float * 4),
                           ("reserved", c_float * 2))
Gradient = struct_of("gs_gradient", "P color alpha splat_grad", ("gaussians", Gaussians),
                     "P mean2d depth abs_mean2d camera pixel_mean2d largest", "f block_limit", "P adam")
Comparison = struct_of("gs_comparison", "i width height", "P color target mask")
LossImage = struct_of("gs_loss_image", ("images", Comparison), "P result color_gradient log_gain gain_sums depth depth_target "
                      "depth_result depth_gradient", "f depth_weight")
SsimPair = struct_of("gs_ssim_pair", "i width height planes valid", "P first second")
AdamRates = struct_of("gs_adam_rates", "f mean log_scale quaternion opacity_logit sh0 shN", "i sh_coefficients")
AdamArray = struct_of("gs_adam_array", "P value gradient first_moment second_moment", "i width", "f rate")
AdamRowsStep = struct_of("gs_adam_rows_step", "q count", "P visible", ("array", POINTER(AdamArray)), "i array_count",
                         "d beta1 beta2", "f epsilon")
Policy = struct_of("distwar_policy", "i strategy balance_threshold")  # distwar_policy: how gs_backward adds gradients to memory


class Error(RuntimeError):
    """The text of gs_last_error()."""


_Allocate = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_size_t, c_void_p)
_Release = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
Allocator = struct_of("gs_allocator", ("allocate", _Allocate), ("release", _Release), "P user")


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
