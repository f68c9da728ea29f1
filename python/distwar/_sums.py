# SPDX-License-Identifier: MIT
"""The calls of index.py on torch tensors, and libdistwar_index by ctypes: the structs of distwar_index.h."""
import ctypes
import functools
import sys
from ctypes import POINTER, byref, c_char_p, c_size_t, c_void_p, sizeof

import torch
from torch import Tensor, from_numpy  # noqa: F401

from ._library import load
from ._tensors import is_plain, library_of, on, stream_of
from .gs import struct_of

TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
WAYS = {name: value for value, name in enumerate(
    "chosen atomic grouped adaptive sorted fixed sorted_fixed exact".split())}
Rows = struct_of("ix_rows", "q count width rows", "P index", "i index_bytes type", "P source out", "q skipped",
                 "i deterministic way", "P report workspace", "N workspace_bytes", "i float_sums")
Keys = struct_of("ix_keys", "q count bins", "P key", "i key_bytes", "P counts report")


class Error(RuntimeError):
    """The text of ix_last_error()."""


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        size = getattr(self.lib, "ix_rows_bytes", None)
        if size is None or size() != sizeof(Rows):  # an older one would leave out members, and sums be NaN
            raise ImportError(f"distwar: {path} is no libdistwar_index of this version of the package; build both from one state")
        self.lib.ix_last_error.restype = self.lib.ix_backend.restype = c_char_p
        self.lib.ix_add_bytes.argtypes = (POINTER(Rows), POINTER(c_size_t))
        self.lib.ix_add.argtypes = (POINTER(Rows), c_void_p)
        self.lib.ix_histogram.argtypes = (POINTER(Keys), c_void_p)
        self.backend = self.lib.ix_backend().decode()

    def check(self, status):
        if status:
            raise Error(self.lib.ix_last_error().decode())

    def add(self, rows, allocate, stream=None):
        """ix_add with a workspace of allocate(bytes): its address, and what keeps it alive."""
        size = c_size_t()
        self.check(self.lib.ix_add_bytes(byref(rows), byref(size)))
        memory = None
        if size.value:
            rows.workspace, memory = allocate(size.value)
            rows.workspace_bytes = size.value
        self.check(self.lib.ix_add(byref(rows), stream))
        del memory


def library(backend=None):
    return load("index", Library, backend)


class _Report:
    """Memory in which kernels report an index out of range: pinned for a GPU, which nobody waits for."""
    of = {}  # by device

    def __init__(self, device):
        self.tensor = torch.zeros(1, dtype=torch.int32, pin_memory=device.type == "cuda")
        self.address = self.tensor.data_ptr()
        self.word = ctypes.c_uint32.from_address(self.address)
        self.of[device] = self

    def raise_if_set(self, text):
        if self.word.value:
            self.word.value = 0
            raise IndexError(f"distwar: {text}")


def check_indices():
    for device, report in _Report.of.items():
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        report.raise_if_set(f"a call on {device} had an index out of range; its row was left out")


def _allocate(device, size):
    """Memory that torch does not fill, as torch.empty's under torch.use_deterministic_algorithms: its address, and itself."""
    memory = torch.UntypedStorage(size + 256, device=device)
    return (memory.data_ptr() + 255) // 256 * 256, memory


def _add(out, index, source, skipped, deterministic):
    """Adds to out, contiguous; index [count]; source has the type of out, or 16 bits if out is float32."""
    if source.numel() == 0:
        return
    device = out.device
    lib = library_of(device, library)
    with on(out):
        report = _Report.of.get(device) or _Report(device)
        report.raise_if_set(f"an earlier call on {device} had an index out of range; its row was left out")
        index, source = index.contiguous(), source.contiguous()
        count = index.shape[0]
        rows = Rows(count, source.numel() // count, out.shape[0], index.data_ptr(), index.element_size(),
                    TYPES[source.dtype], source.data_ptr(), out.data_ptr(), skipped, deterministic, 0, report.address)
        rows.float_sums = out.dtype == torch.float32
        lib.add(rows, functools.partial(_allocate, device), stream_of(device))
        if not out.is_cuda:
            report.raise_if_set(f"an index is out of range; there are {out.shape[0]} rows")


def _counts(index, rows):
    """How often each row is named, int64."""
    counts = torch.zeros(rows, dtype=torch.int64, device=index.device)
    with on(index):
        index, lib = index.contiguous(), library_of(index.device, library)
        keys = Keys(len(index), rows, index.data_ptr(), index.element_size(), counts.data_ptr(), None)
        lib.check(lib.lib.ix_histogram(byref(keys), stream_of(index.device)))
    return counts


# ---- what arguments may be ----

def _is_deterministic(given):
    if given is not None:
        return bool(given)
    return sys.modules["distwar"].deterministic or torch.are_deterministic_algorithms_enabled()


def _check(name, out, index, source, what="source"):
    for label, tensor in (("out", out), ("index", index), (what, source)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"distwar.{name}: {label} is a {type(tensor).__name__}, not a tensor")
        if tensor.device != out.device:
            raise ValueError(f"distwar.{name}: {label} is on {tensor.device}, not on {out.device}")
    if not is_plain(out):
        raise NotImplementedError(f"distwar.{name}: transforms and modes of torch (vmap, fake tensors) are not supported")
    if index.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"distwar.{name}: index has the type {index.dtype}, not int32 or int64")
    if out.dtype not in TYPES:
        raise TypeError(f"distwar.{name}: the type {out.dtype} is not supported; float32, float16 and bfloat16 are")
    if source.dtype != out.dtype:
        raise TypeError(f"distwar.{name}: {what} has the type {source.dtype}, out {out.dtype}")


def _check_rows(name, out, index, source):
    _check(name, out, index, source)
    if index.dim() != 1:
        raise ValueError(f"distwar.{name}: index has {index.dim()} dimensions, not one")
    if out.dim() < 1 or source.shape != index.shape + out.shape[1:]:
        raise ValueError(f"distwar.{name}: source has the shape {tuple(source.shape)}; out {tuple(out.shape)} and index "
                         f"{tuple(index.shape)} need {tuple(index.shape + out.shape[1:])}")


def _check_reduction(name, reduce):
    if reduce not in ("sum", "mean"):
        raise ValueError(f"distwar.{name}: reduce is {reduce!r}, neither sum nor mean; torch.Tensor.scatter_reduce and "
                         "index_reduce_ make extremes and products")


# ---- sums ----

class _Sums(torch.autograd.Function):
    """start with the rows of source added. start: a tensor, or the shape and type of zeros."""

    @staticmethod
    def forward(ctx, start, index, source, skipped, deterministic):
        if isinstance(start, Tensor):
            out = start.clone(memory_format=torch.contiguous_format)
        else:
            out = torch.zeros(start[0], dtype=start[1], device=source.device)
        _add(out, index, source, skipped, deterministic)
        if ctx is not None:
            ctx.save_for_backward(index)
            ctx.skipped, ctx.dtype = skipped, source.dtype
        return out

    @staticmethod
    def backward(ctx, d):
        index, = ctx.saved_tensors
        d_source = None
        if ctx.needs_input_grad[2]:
            d_source = d.index_select(0, index).to(ctx.dtype)
            if ctx.skipped >= 0:
                d_source = torch.where((index != ctx.skipped).unsqueeze(1), d_source, 0)
        return d if ctx.needs_input_grad[0] else None, None, d_source, None, None


def _needs_graph(*tensors):
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _sums(start, index, source, skipped, deterministic, *leaves):
    arguments = start, index, source, skipped, deterministic
    return _Sums.apply(*arguments) if _needs_graph(source, *leaves) else _Sums.forward(None, *arguments)


@torch.compiler.disable
def index_add(out, index, source, deterministic):
    _check_rows("index_add", out, index, source)
    return _sums(out, index, source, -1, _is_deterministic(deterministic), out)


@torch.compiler.disable
def index_add_(out, index, source, deterministic):
    _check_rows("index_add_", out, index, source)
    if _needs_graph(out, source):
        raise RuntimeError("distwar.index_add_: out or source requires a gradient; use distwar.index_add, or no_grad")
    whole = out if out.is_contiguous() else out.contiguous()
    _add(whole, index, source, -1, _is_deterministic(deterministic))
    if whole is not out:
        out.copy_(whole)
    else:
        torch.autograd.graph.increment_version(out)
    return out


@torch.compiler.disable
def embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, deterministic):
    name, deterministic = "embedding_backward", _is_deterministic(deterministic)
    _check(name, grad, indices, grad, "grad")
    if grad.dim() < 1 or grad.shape[:-1] != indices.shape:
        raise ValueError(f"distwar.{name}: grad has the shape {tuple(grad.shape)}, not {tuple(indices.shape)}, that of "
                         "indices, and one more dimension")
    if num_weights < 0:
        raise ValueError(f"distwar.{name}: num_weights is {num_weights}")
    indices, width = indices.reshape(-1), grad.shape[-1]
    # In float32 a sum of 16-bit values is rounded once; not deterministic.
    d_weight = _sums(((num_weights, width), grad.dtype if deterministic else torch.float32), indices,
                     grad.reshape(-1, width), padding_idx, deterministic).to(grad.dtype)
    if not scale_grad_by_freq:
        return d_weight
    counts = torch.bincount(indices, minlength=num_weights).clamp_(min=1)
    return d_weight / counts.unsqueeze(1).to(d_weight.dtype)


@torch.compiler.disable
def bincount(index, weights, minlength, deterministic):
    if index.dim() != 1:
        raise ValueError(f"distwar.bincount: index has {index.dim()} dimensions, not one")
    if weights is None:
        return torch.bincount(index, minlength=minlength)
    _check("bincount", weights, index, weights, "weights")
    if weights.shape != index.shape:
        raise ValueError(f"distwar.bincount: weights has the shape {tuple(weights.shape)}, index {tuple(index.shape)}")
    least, largest = (int(v) for v in torch.stack(torch.aminmax(index)).tolist()) if index.numel() else (0, -1)
    if least < 0:
        raise ValueError("distwar.bincount: index has negative values")
    return _sums(((max(minlength, largest + 1), 1), weights.dtype), index, weights.unsqueeze(1), -1,
                 _is_deterministic(deterministic)).squeeze(1)


@torch.compiler.disable
def scatter_reduce(out, index, source, reduce, include_self, deterministic):
    _check_reduction("scatter_reduce", reduce)
    _check_rows("scatter_reduce", out, index, source)
    deterministic, counts = _is_deterministic(deterministic), None
    if not include_self or reduce == "mean":
        counts = _counts(index, len(out)).view((-1,) + (1,) * (out.dim() - 1))
    start = out if include_self else torch.where(counts > 0, 0, out).to(out.dtype)
    if reduce == "sum":
        return _sums(start, index, source, -1, deterministic, start)
    wide = start if deterministic else start.float()  # 16-bit sums are rounded once
    return (_sums(wide, index, source, -1, deterministic, wide) / (counts + bool(include_self)).clamp_(min=1)).to(out.dtype)


@torch.compiler.disable
def segment_reduce(source, offsets, reduce, deterministic):
    _check_reduction("segment_reduce", reduce)
    _check("segment_reduce", source, offsets, source)
    rows = torch.arange(len(source), device=offsets.device, dtype=offsets.dtype)
    index = torch.searchsorted(offsets.contiguous(), rows, right=True) - 1
    out = torch.zeros((len(offsets) - 1, *source.shape[1:]), dtype=source.dtype, device=source.device)
    return scatter_reduce(out, index, source, reduce, False, deterministic)
