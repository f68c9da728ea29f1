# SPDX-License-Identifier: MIT
"""Sums and means of rows that an index array names, on torch tensors or numpy arrays: index_add, the
gradient of an embedding, bincount, scatter_reduce, segment_reduce. Rows that come often are summed before they are added to memory.

deterministic: None means what distwar.deterministic or torch.use_deterministic_algorithms say. Deterministic sums have
the same bits in every run on one kind of GPU, and for every order of the rows of source.

An index out of range: its row is left out and nothing else is written. On a CPU the call raises IndexError. On a GPU it
does not wait for the kernels: the next call of this module raises IndexError, or check_indices(), which waits.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy
    import torch
Array = TypeVar("Array", "torch.Tensor", "numpy.ndarray[Any, Any]")

_calls: Any = None  # _sums.py, from the first call on: it imports torch


def _run(name: str, first: Array, *arguments: Any) -> Array:
    """The call of _sums.py on tensors. Arrays of numpy are tensors of the same memory for it, and so is its result."""
    global _calls
    if _calls is None:
        from . import _sums
        _calls = _sums
    made: Array
    if type(first).__module__ != "numpy":
        made = getattr(_calls, name)(first, *arguments)
        return made
    made = getattr(_calls, name)(*(_calls.from_numpy(a) if type(a).__module__ == "numpy" and a.ndim else a
                                   for a in (first, *arguments))).numpy()
    return first if name == "index_add_" else made


def index_add(out: Array, index: Array, source: Array, deterministic: bool | None = None) -> Array:
    """out with source[i] added to row index[i], for all i. A new array; differentiable by out and source.

    out [rows, ...], source [count, ...] with the same trailing dimensions, both float32, float16 or (torch) bfloat16;
    index [count], int32 or int64.
    """
    return _run("index_add", out, index, source, deterministic)


def index_add_(out: Array, index: Array, source: Array, deterministic: bool | None = None) -> Array:
    """index_add in place. Returns out. No gradients."""
    return _run("index_add_", out, index, source, deterministic)


def embedding_backward(grad: Array, indices: Array, num_weights: int, padding_idx: int = -1,
                       scale_grad_by_freq: bool = False, deterministic: bool | None = None) -> Array:
    """The gradient [num_weights, K] of the weight of torch.nn.Embedding, from that of its output, grad
    [..., K]; indices [...]. Rows of padding_idx are left out. scale_grad_by_freq divides by how often an index comes.
    16-bit sums are deterministic unless told otherwise: each is rounded once."""
    return _run("embedding_backward", grad, indices, num_weights, padding_idx, scale_grad_by_freq, deterministic)


def bincount(index: Array, weights: Array | None = None, minlength: int = 0,
             deterministic: bool | None = None) -> Array:
    """The sums of weights, or the counts (int64), of each value of index [count], from 0 to the largest or to
    minlength - 1. Reads the largest, for which a GPU is waited for. weights [count]: float32, float16, bfloat16."""
    return _run("bincount", index, weights, minlength, deterministic)


def scatter_reduce(out: Array, index: Array, source: Array, reduce: str, include_self: bool = True,
                   deterministic: bool | None = None) -> Array:
    """The sum or the mean of row r of out and the rows source[i] of index[i] = r. A new array; differentiable by out and
    source. Shapes and types as index_add's.

    reduce: "sum" or "mean". include_self=False: rows that are named lose what out had.
    """
    return _run("scatter_reduce", out, index, source, reduce, include_self, deterministic)


def segment_reduce(source: Array, offsets: Array, reduce: str = "sum", deterministic: bool | None = None) -> Array:
    """[S, ...]: the rows offsets[s] to offsets[s + 1] - 1 of source [count, ...], combined as scatter_reduce does. offsets
    [S + 1], int32 or int64, from 0 to count, not falling. Empty segments: 0. Rows outside of all segments are an index
    out of range."""
    return _run("segment_reduce", source, offsets, reduce, deterministic)


def check_indices() -> None:
    """Waits for the GPU, then raises IndexError if a call since the last check had an index out of range."""
    if _calls is not None:
        _calls.check_indices()
