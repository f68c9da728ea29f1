# SPDX-License-Identifier: MIT
"""libdistwar_train in Python by ctypes: the structs of distwar_train.h and its calls."""
import ctypes
import pathlib
from itertools import takewhile
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char_p, c_double, c_float, c_int32, c_int64, c_size_t,
                    c_void_p)

from . import gs
from ._library import BACKENDS, load


class View(Structure):
    _fields_ = [("camera", gs.Camera), ("pixels", c_void_p), ("mask", c_void_p), ("alpha", c_void_p),
                ("inverse_depth", c_void_p)]


class Data(Structure):
    _fields_ = [("views", POINTER(View)), ("view_count", c_size_t), ("points", c_void_p), ("colors", c_void_p),
                ("point_count", c_size_t), ("scene", gs.Gaussians), ("everywhere", c_bool)]


class Settings(Structure):
    _fields_ = [("iterations", c_int64), ("budget", c_double), ("seed", c_int64), ("batch", c_int64),
                ("max_gaussians", c_int64), ("density", c_char_p), ("sh_degree", c_int32), ("background", c_float * 3),
                ("random_background", c_bool), ("antialias", c_bool), ("exposure", c_bool), ("refine_poses", c_bool),
                ("reproducible", c_bool), ("validate", c_int64), ("weights", c_double * 4), ("teachers", c_int64)]


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
        self.lib.distwar_train_defaults.restype = Settings
        self.lib.distwar_train_term.restype = c_char_p
        names = map(self.lib.distwar_train_term, range(len(Settings().weights)))
        self.terms = [name.decode() for name in takewhile(bool, names)]
        self.backend = BACKENDS.get(pathlib.Path(path).stem.split("_")[-1])  # None: of a library that a variable names
        for name, *arguments in (("open", POINTER(Data), POINTER(Settings)), ("close",), ("step",), ("is_over",),
                                 ("progress", POINTER(Progress)), ("validate", POINTER(Validation)),
                                 ("scene", POINTER(gs.Gaussians)), ("camera", c_size_t, POINTER(gs.Camera)),
                                 ("picture", POINTER(gs.Camera), c_void_p), ("save", WRITE, c_void_p),
                                 ("resume", c_char_p, c_size_t)):
            function = getattr(self.lib, f"distwar_trainer_{name}")
            function.argtypes = arguments if name == "open" else [c_void_p, *arguments]
            function.restype = dict(open=c_void_p, close=None).get(name, c_bool)
            setattr(self, name, function)

    def defaults(self):
        return self.lib.distwar_train_defaults()

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
