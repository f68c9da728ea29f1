# SPDX-License-Identifier: MIT
"""libdistwar_train in Python by ctypes: the structs of distwar_train.h and its calls."""
import ctypes
import pathlib
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p

from . import gs
from ._library import BACKENDS, load


class View(Structure):
    _fields_ = [("camera", gs.Camera), ("pixels", c_void_p), ("mask", c_void_p), ("alpha", c_void_p),
                ("inverse_depth", c_void_p)]


class Data(Structure):
    _fields_ = [("views", POINTER(View)), ("view_count", c_size_t), ("points", c_void_p), ("colors", c_void_p),
                ("point_count", c_size_t), ("scene", gs.Gaussians), ("everywhere", c_bool)]


class Progress(Structure):
    _fields_ = [("views", c_int64), ("views_in_all", c_int64), ("steps", c_int64), ("gaussians", c_int64),
                ("sh_degree", c_int32), ("seconds", c_double), ("loss", c_double), ("loss_count", c_size_t),
                ("losses", POINTER(c_double))]


class Validation(Structure):
    _fields_ = [("views", c_size_t), ("psnr", c_double), ("ssim", c_double), ("trained_psnr", c_double),
                ("trained_ssim", c_double)]


WRITE = CFUNCTYPE(c_bool, c_void_p, c_void_p, c_size_t)


class Error(RuntimeError):
    """The text of distwar_train_error()."""


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.distwar_train_error.restype = c_char_p
        self.lib.distwar_train_check.restype = c_bool
        self.backend = BACKENDS.get(pathlib.Path(path).stem.split("_")[-1])  # None: of a library that a variable names
        for name, *arguments in (("open", POINTER(Data), POINTER(c_char_p)), ("close",), ("step",), ("is_over",),
                                 ("progress", POINTER(Progress)), ("validate", POINTER(Validation)),
                                 ("scene", POINTER(gs.Gaussians)), ("camera", c_size_t, POINTER(gs.Camera)),
                                 ("picture", POINTER(gs.Camera), c_void_p), ("save", WRITE, c_void_p),
                                 ("resume", c_char_p, c_size_t)):
            function = getattr(self.lib, f"distwar_trainer_{name}")
            function.argtypes = arguments if name == "open" else [c_void_p, *arguments]
            function.restype = dict(open=c_void_p, close=None).get(name, c_bool)
            setattr(self, name, function)

    def settings(self, texts):
        """NAME=VALUE as C has them; raises Error if they are refused."""
        array = (c_char_p * (len(texts) + 1))(*map(str.encode, texts))
        self.check(self.lib.distwar_train_check(array))
        return array

    def check(self, result):
        """Returns the result of a call; raises Error if it is false or NULL."""
        if not result:
            raise Error(self.lib.distwar_train_error().decode())
        return result

    def get(self, call, of, *arguments):
        """The struct that a call fills."""
        out = of()
        self.check(getattr(self, call)(*arguments, byref(out)))
        return out


def library(backend=None):
    return load("train", Library, backend)
