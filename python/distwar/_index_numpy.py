# SPDX-License-Identifier: MIT
"""The sums of index.py on numpy arrays, with the CPU library."""
import numpy as np

from ._index_request import IDENTITY, check_embedding, check_rows, reduction
from ._sums import TYPES, Rows, library


def _is_deterministic(given):
    import distwar
    return distwar.deterministic if given is None else bool(given)


def _index(name, index):
    index = np.ascontiguousarray(index)
    if index.dtype not in (np.int32, np.int64):
        raise TypeError(f"distwar.{name}: index has the type {index.dtype}, not int32 or int64")
    return index


def _values(name, what, array, dtype=None):
    array = np.ascontiguousarray(array)
    if str(array.dtype) not in TYPES:
        raise TypeError(f"distwar.{name}: {what} has the type {array.dtype}, not float32 or float16")
    if dtype is not None and array.dtype != dtype:
        raise TypeError(f"distwar.{name}: {what} has the type {array.dtype}, out {dtype}")
    return array


def _allocate(size):
    memory = np.empty(size + 256, "uint8")
    return (memory.ctypes.data + 255) // 256 * 256, memory


def _add(name, out, index, source, deterministic, skipped=-1, operation=None):
    """Adds to out, contiguous, or combines with it by an operation of ix_reduce."""
    if source.size == 0:
        return
    report = np.zeros(1, "uint32")
    rows = Rows(count=len(index), width=source.size // len(index), rows=len(out), index=index.ctypes.data,
                index_bytes=index.itemsize, type=TYPES[str(out.dtype)], source=source.ctypes.data,
                out=out.ctypes.data, skipped=skipped, deterministic=_is_deterministic(deterministic),
                report=report.ctypes.data)
    if operation:
        library("simt").reduce(rows, operation)
    else:
        library("simt").add(rows, _allocate)
    if report[0]:
        raise IndexError(f"distwar.{name}: an index is out of range; there are {len(out)} rows")


def index_add(out, index, source, deterministic):
    check_rows("index_add", out, index, source)
    result = _values("index_add", "out", out).copy()
    _add("index_add", result, _index("index_add", index), _values("index_add", "source", source, result.dtype),
         deterministic)
    return result


def index_add_(out, index, source, deterministic):
    check_rows("index_add_", out, index, source)
    result = _values("index_add_", "out", out)
    _add("index_add_", result, _index("index_add_", index), _values("index_add_", "source", source, result.dtype),
         deterministic)
    if result is not out:
        out[...] = result
    return out


def embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, deterministic):
    name = "embedding_backward"
    grad, indices = _values(name, "grad", grad), _index(name, indices)
    check_embedding(grad, indices, num_weights)
    indices = indices.reshape(-1)
    out = np.zeros((num_weights, grad.shape[-1]), grad.dtype)
    _add(name, out, indices, grad.reshape(-1, grad.shape[-1]), deterministic, padding_idx)
    if scale_grad_by_freq:
        counts = np.bincount(indices, minlength=num_weights)
        out /= np.maximum(counts, 1)[:, None].astype(out.dtype)
    return out


def bincount(index, weights, minlength, deterministic):
    index = _index("bincount", index)
    if index.ndim != 1:
        raise ValueError(f"distwar.bincount: index has {index.ndim} dimensions, not one")
    if weights is None:
        return np.bincount(index, minlength=minlength).astype("int64")
    weights = _values("bincount", "weights", weights)
    if weights.shape != index.shape:
        raise ValueError(f"distwar.bincount: weights has the shape {weights.shape}, index {index.shape}")
    if index.size and index.min() < 0:
        raise ValueError("distwar.bincount: index has negative values")
    out = np.zeros(max(minlength, int(index.max()) + 1 if index.size else 0), weights.dtype)
    _add("bincount", out, index, weights, deterministic)
    return out


def scatter_reduce(out, index, source, reduce, include_self, deterministic):
    name = "scatter_reduce"
    how = reduction(name, reduce)
    check_rows(name, out, index, source)
    result, index = _values(name, "out", out).copy(), _index(name, index)
    source = _values(name, "source", source, result.dtype)
    if how == "prod" and _is_deterministic(deterministic):
        order = np.argsort(index, kind="stable")
        index, source = index[order], source[order]
    inside = index[(index >= 0) & (index < len(out))]
    counts = np.bincount(inside, minlength=len(out)).reshape((-1,) + (1,) * (out.ndim - 1))
    if not include_self:
        result[counts.reshape(-1) > 0] = IDENTITY[how]
    _add(name, result, index, source, deterministic, operation=how if how not in ("sum", "mean") else None)
    if how == "mean":
        result /= np.maximum(counts + include_self, 1).astype(result.dtype)
    return result


def segment_reduce(source, offsets, reduce, deterministic):
    name = "segment_reduce"
    source, offsets = _values(name, "source", source), _index(name, offsets)
    index = np.searchsorted(offsets, np.arange(len(source)), side="right") - 1
    out = np.full((len(offsets) - 1,) + source.shape[1:], IDENTITY[reduction(name, reduce)], source.dtype)
    return scatter_reduce(out, index, source, reduce, False, deterministic)
