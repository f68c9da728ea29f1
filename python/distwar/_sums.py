# SPDX-License-Identifier: MIT
"""libdistwar_index in Python by ctypes: the struct of distwar_index.h and its calls."""
import ctypes
from ctypes import POINTER, Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

from ._library import load

TYPES = {"float32": 0, "float16": 1, "bfloat16": 2}
OPERATIONS = {"amin": 0, "amax": 1, "prod": 2}  # ix_operation
WAYS = {name: value for value, name in enumerate(
    "chosen atomic grouped adaptive sorted fixed sorted_fixed exact".split())}


class Rows(Structure):
    """ix_rows."""
    _fields_ = [("count", c_int64), ("width", c_int64), ("rows", c_int64), ("index", c_void_p),
                ("index_bytes", c_int32), ("type", c_int), ("source", c_void_p), ("out", c_void_p),
                ("skipped", c_int64), ("deterministic", c_int32), ("way", c_int), ("report", c_void_p),
                ("workspace", c_void_p), ("workspace_bytes", c_size_t), ("float_sums", c_int32), ("bound", c_double)]


class Keys(Structure):
    """ix_keys."""
    _fields_ = [("count", c_int64), ("bins", c_int64), ("key", c_void_p), ("key_bytes", c_int32), ("counts", c_void_p),
                ("report", c_void_p)]


class Error(RuntimeError):
    """The text of ix_last_error()."""


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.ix_last_error.restype = self.lib.ix_backend.restype = c_char_p
        self.lib.ix_add_bytes.argtypes = (POINTER(Rows), POINTER(c_size_t))
        self.lib.ix_add.argtypes = (POINTER(Rows), c_void_p)
        self.lib.ix_reduce.argtypes = (POINTER(Rows), c_int, c_void_p)
        self.lib.ix_histogram.argtypes = (POINTER(Keys), c_void_p)
        self.backend = self.lib.ix_backend().decode()

    def _check(self, status):
        if status:
            raise Error(self.lib.ix_last_error().decode())

    def add(self, rows, allocate, stream=None):
        """ix_add with a workspace of allocate(bytes): its address, and what keeps it alive."""
        size = c_size_t()
        self._check(self.lib.ix_add_bytes(byref(rows), byref(size)))
        memory = None
        if size.value:
            rows.workspace, memory = allocate(size.value)
            rows.workspace_bytes = size.value
        self._check(self.lib.ix_add(byref(rows), stream))
        del memory

    def reduce(self, rows, operation, stream=None):
        self._check(self.lib.ix_reduce(byref(rows), OPERATIONS[operation], stream))

    def histogram(self, keys, stream=None):
        self._check(self.lib.ix_histogram(byref(keys), stream))


def library(backend=None):
    return load("index", Library, backend)
