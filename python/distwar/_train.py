# SPDX-License-Identifier: MIT
"""libdistwar_train in Python by ctypes: the structs of distwar_train.h and its calls."""
import ctypes
import pathlib
from ctypes import CFUNCTYPE, POINTER, byref, c_bool, c_char_p, c_double, c_size_t, c_void_p

from . import gs
from ._library import BACKENDS, load


View = gs.struct_of("distwar_train_view", ("camera", gs.Camera), "P pixels mask alpha inverse_depth")
Data = gs.struct_of("distwar_train_data", ("views", POINTER(View)), "N view_count", "P points colors", "N point_count",
                    ("scene", gs.Gaussians), "B everywhere")
Progress = gs.struct_of("distwar_train_progress", "q views views_in_all steps gaussians", "i sh_degree", "d seconds loss",
                        "N loss_count", ("losses", POINTER(c_double)))
Validation = gs.struct_of("distwar_train_validation", "N views", "d psnr ssim trained_psnr trained_ssim")
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
