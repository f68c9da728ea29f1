# SPDX-License-Identifier: MIT
"""libgs in Python by ctypes: the structs of gs.h, and its calls for whole frames, on numpy arrays (the CPU library)
or on torch tensors (the CUDA library). Copy it into your project, beside the libgs.so it was made for; what the
calls do is written in gs.h."""
import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p

GS_OK, GS_PAIRS_DO_NOT_FIT = 0, 2


class Gaussians(Structure):
    _fields_ = [("count", c_int64), ("sh_degree", c_int32), ("mean", c_void_p), ("log_scale", c_void_p),
                ("quaternion", c_void_p), ("opacity_logit", c_void_p), ("sh", c_void_p), ("color", c_void_p),
                ("covariance", c_void_p), ("scale_modifier", c_float), ("antialias", c_int32)]


class Camera(Structure):
    _fields_ = [("width", c_int32), ("height", c_int32), ("fx", c_float), ("fy", c_float), ("cx", c_float),
                ("cy", c_float), ("rotation", c_float * 9), ("translation", c_float * 3), ("near_plane", c_float)]


class Image(Structure):
    _fields_ = [("color", c_void_p), ("transmittance", c_void_p), ("consumed", c_void_p)]


class Lists(Structure):
    _fields_ = [("tiles_x", c_int32), ("tiles_y", c_int32), ("pairs", c_int64), ("tile_begin", c_void_p),
                ("splat_index", c_void_p), ("pixels_per_thread", c_int32), ("split_tiles", c_int32),
                ("tile_order", c_void_p)]


class Frame(Structure):
    _fields_ = [("gaussians", Gaussians), ("sh_degree_used", c_int32), ("camera", Camera),
                ("background", c_float * 3), ("image", Image), ("pair_capacity", c_int64),
                ("workspace", c_void_p), ("workspace_bytes", c_size_t), ("pairs_needed", c_int64),
                ("splats", c_void_p), ("lists", Lists), ("with_fixed", c_int32)]


class AdamRates(Structure):
    _fields_ = [("mean", c_float), ("log_scale", c_float), ("quaternion", c_float), ("opacity_logit", c_float),
                ("sh_constant", c_float), ("sh_rest", c_float), ("sh_coefficients", c_int32)]


class Error(RuntimeError):
    """What gs_last_error() said."""


class Library:
    """A libgs.so, and arrays where it expects them. Arrays are C-contiguous; whoever gives one to the library
    keeps it alive until the work on it is done."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        for name in ("backend", "version", "last_error"):
            getattr(self.lib, "gs_" + name).restype = c_char_p
        self.backend = self.lib.gs_backend().decode()
        self.version = self.lib.gs_version().decode()
        if self.backend == "cuda":
            import torch
            self.arrays = torch
            self.device = {"device": "cuda"}
        else:
            import numpy
            self.arrays = numpy
            self.device = {}
        pointer = c_void_p  # of an array, by address()
        self._declare("gs_reduction_from_name", c_char_p)
        self._declare("gs_frame_workspace", POINTER(Frame), POINTER(c_size_t))
        self._declare("gs_forward", POINTER(Frame), c_void_p)
        self._declare("gs_backward", POINTER(Frame), pointer, pointer, c_int, c_int, POINTER(Gaussians), pointer,
                      c_void_p)
        self._declare("gs_radii", pointer, c_int64, c_int32, c_int32, pointer, c_void_p)
        self._declare("gs_mark_visible", POINTER(Gaussians), POINTER(Camera), pointer, c_void_p)
        shape = POINTER(Gaussians)
        self._declare("gs_adam", shape, shape, shape, shape, POINTER(AdamRates), c_int64, c_void_p)
        self._declare("gs_loss_workspace", c_int32, c_int32, POINTER(c_size_t))
        self._declare("gs_loss", pointer, pointer, c_int32, c_int32, pointer, c_size_t, pointer, pointer, c_void_p)

    def _declare(self, name, *arguments):
        getattr(self.lib, name).argtypes = arguments

    def call(self, name, *arguments, allow=()):
        """A call of gs.h, its last argument, the stream, left out: torch's current one. Returns the status; raises
        Error unless it is GS_OK or in `allow`."""
        function = getattr(self.lib, name)
        stream = ()
        if len(function.argtypes) > len(arguments):
            stream = (self.arrays.cuda.current_stream().cuda_stream if self.backend == "cuda" else None,)
        status = function(*arguments, *stream)
        if status != GS_OK and status not in allow:
            raise Error(self.lib.gs_last_error().decode())
        return status

    def zeros(self, *shape, dtype="float32"):
        return self.arrays.zeros(shape, dtype=getattr(self.arrays, dtype), **self.device)

    def array(self, values, dtype="float32"):
        make = self.arrays.tensor if self.backend == "cuda" else self.arrays.array
        return make(values, dtype=getattr(self.arrays, dtype), **self.device)

    def address(self, array):
        """The device pointer of an array; None stays NULL."""
        if array is None:
            return None
        if self.backend == "cuda":
            if not (array.is_cuda and array.is_contiguous()):
                raise ValueError("not a contiguous CUDA tensor")
            return array.data_ptr()
        if not array.flags.c_contiguous:
            raise ValueError("not a contiguous array")
        return array.ctypes.data

    def gaussians(self, arrays, sh_degree=0, scale_modifier=0.0, antialias=0):
        """gs_gaussians of a dictionary of arrays; all that are missing are NULL."""
        pointers = {name: self.address(array) for name, array in arrays.items()}
        return Gaussians(count=len(arrays["mean"]), sh_degree=sh_degree, scale_modifier=scale_modifier,
                         antialias=antialias, **pointers)

    def forward(self, frame, workspace=None):
        """gs_forward. Returns the workspace, a larger one if need be: keep it for gs_backward and the next call."""
        while True:
            size = c_size_t()
            self.call("gs_frame_workspace", byref(frame), byref(size))
            if workspace is None or len(workspace) < size.value:
                workspace = self.zeros(size.value, dtype="uint8")
            frame.workspace, frame.workspace_bytes = self.address(workspace), len(workspace)
            if self.call("gs_forward", byref(frame), allow=(GS_PAIRS_DO_NOT_FIT,)) == GS_OK:
                return workspace
            frame.pair_capacity = frame.pairs_needed * 5 // 4
