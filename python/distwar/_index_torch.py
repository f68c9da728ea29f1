# SPDX-License-Identifier: MIT
"""The sums of index.py on torch tensors: operators with autograd."""
import ctypes
import math
import sys

import torch
from torch import Tensor

from ._index_request import IDENTITY, check_embedding, check_rows, reduction
from ._sums import TYPES, Keys, Rows, library
from ._tensors import On, is_plain, library_of

_types = {getattr(torch, name): value for name, value in TYPES.items()}
_reports = {}  # device: pinned memory, in which kernels report an index out of range


def _is_deterministic(given):
    if given is not None:
        return bool(given)
    return sys.modules["distwar"].deterministic or torch.are_deterministic_algorithms_enabled()


class _Report:
    def __init__(self, device):
        self.tensor = torch.zeros(1, dtype=torch.int32, pin_memory=device.type == "cuda")
        self.address = self.tensor.data_ptr()
        self.word = ctypes.c_uint32.from_address(self.address)

    def raise_if_set(self, text):
        if self.word.value:
            self.word.value = 0
            raise IndexError(text)


def _report(name, device):
    report = _reports.get(device)
    if report is None:
        report = _reports[device] = _Report(device)
    report.raise_if_set(f"distwar.{name}: an earlier call on {device} had an index out of range; its row was left out")
    return report


def check_indices():
    for device, report in _reports.items():
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        report.raise_if_set(f"distwar: a call on {device} had an index out of range; its row was left out")


class _Workspace:
    """Memory of torch's allocator. torch.empty would fill it under torch.use_deterministic_algorithms."""

    def __init__(self, device, stream):
        self.of = device, stream
        self.address = None

    def __call__(self, size):
        self.address = torch.cuda.caching_allocator_alloc(size, *self.of)
        return self.address, self

    def __del__(self):
        if self.address:
            torch.cuda.caching_allocator_delete(self.address)


def _allocate(size):
    memory = torch.empty(size + 256, dtype=torch.uint8)
    return (memory.data_ptr() + 255) // 256 * 256, memory


def _add(out: Tensor, index: Tensor, source: Tensor, skipped: int, deterministic: bool, operation=None) -> None:
    """Adds to out, contiguous; index [count]; source has the type of out, or 16 bits if out is float32. operation: of
    ix_reduce, in place of the sum."""
    if source.numel() == 0:
        return
    device = out.device
    lib = library_of(device, library)
    with On(out):
        report = _report("index_add", device)
        index, source = index.contiguous(), source.contiguous()
        count = index.shape[0]
        rows = Rows(count, source.numel() // count, out.shape[0], index.data_ptr(), index.element_size(),
                    _types[source.dtype], source.data_ptr(), out.data_ptr(), skipped, deterministic, 0, report.address)
        rows.float_sums = out.dtype == torch.float32
        stream = torch.cuda.current_stream(device).cuda_stream if out.is_cuda else None
        if operation:
            lib.reduce(rows, operation, stream)
        else:
            lib.add(rows, _Workspace(device, stream) if out.is_cuda else _allocate, stream)
        if not out.is_cuda:
            report.raise_if_set(f"distwar: an index is out of range; there are {out.shape[0]} rows")


def _index_add(out: Tensor, index: Tensor, source: Tensor, deterministic: bool) -> Tensor:
    result = out.clone(memory_format=torch.contiguous_format)
    _add(result, index, source, -1, deterministic)
    return result


_index_add_op = torch.library.custom_op("distwar::index_add", _index_add, mutates_args=())


@_index_add_op.register_fake
def _(out, index, source, deterministic):
    return out.new_empty(out.shape)


def _index_add_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])


def _index_add_adjoint(ctx, d_out):
    index, = ctx.saved_tensors
    return d_out, None, d_out.index_select(0, index) if ctx.needs_input_grad[2] else None, None


_index_add_op.register_autograd(_index_add_adjoint, setup_context=_index_add_setup)


def _sum_rows(source: Tensor, index: Tensor, rows: int, skipped: int, deterministic: bool, wide: bool) -> Tensor:
    """[rows, K]: the sums of the rows of source [count, K]. wide: in float32 and rounded once; not deterministic."""
    result = torch.zeros((rows, source.shape[1]), dtype=torch.float32 if wide else source.dtype, device=source.device)
    _add(result, index, source, skipped, deterministic)
    return result.to(source.dtype)


_sum_rows_op = torch.library.custom_op("distwar::sum_rows", _sum_rows, mutates_args=())


@_sum_rows_op.register_fake
def _(source, index, rows, skipped, deterministic, wide):
    return source.new_empty((rows, source.shape[1]))


def _sum_rows_setup(ctx, inputs, output):
    ctx.save_for_backward(inputs[1])
    ctx.skipped = inputs[3]


def _sum_rows_adjoint(ctx, d_sums):
    index, = ctx.saved_tensors
    if ctx.skipped < 0:
        return d_sums.index_select(0, index), None, None, None, None, None
    kept = (index != ctx.skipped).unsqueeze(1)
    return torch.where(kept, d_sums.index_select(0, index), 0), None, None, None, None, None


_sum_rows_op.register_autograd(_sum_rows_adjoint, setup_context=_sum_rows_setup)


def _needs_graph(*tensors):
    return torch.is_grad_enabled() and any(t.requires_grad for t in tensors)


def _check(name, out, index, source, what="source"):
    for label, tensor in (("index", index), (what, source)):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"distwar.{name}: {label} is a {type(tensor).__name__}, not a tensor")
        if tensor.device != out.device:
            raise ValueError(f"distwar.{name}: {label} is on {tensor.device}, not on {out.device}")
    if index.dtype not in (torch.int32, torch.int64):
        raise TypeError(f"distwar.{name}: index has the type {index.dtype}, not int32 or int64")
    if out.dtype not in _types:
        raise TypeError(f"distwar.{name}: the type {out.dtype} is not supported; float32, float16 and bfloat16 are")
    if source.dtype != out.dtype:
        raise TypeError(f"distwar.{name}: {what} has the type {source.dtype}, out {out.dtype}")


def index_add(out, index, source, deterministic):
    check_rows("index_add", out, index, source)
    _check("index_add", out, index, source)
    run = _index_add if is_plain(out) and not _needs_graph(out, source) else _index_add_op
    return run(out, index, source, _is_deterministic(deterministic))


def index_add_(out, index, source, deterministic):
    check_rows("index_add_", out, index, source)
    _check("index_add_", out, index, source)
    if _needs_graph(out, source):
        raise RuntimeError("distwar.index_add_: out or source requires a gradient; use distwar.index_add, or no_grad")
    whole = out if out.is_contiguous() else out.contiguous()
    _add(whole, index, source, -1, _is_deterministic(deterministic))
    if whole is not out:
        out.copy_(whole)
    else:
        torch.autograd.graph.increment_version(out)
    return out


def _sums(rows, index, source, skipped, deterministic, wide=False):
    run = _sum_rows if is_plain(source) and not _needs_graph(source) else _sum_rows_op
    deterministic = _is_deterministic(deterministic)
    return run(source, index, rows, skipped, deterministic, wide and not deterministic)


def embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq, deterministic):
    _check("embedding_backward", grad, indices, grad, "grad")
    check_embedding(grad, indices, num_weights)
    indices = indices.reshape(-1)
    d_weight = _sums(num_weights, indices, grad.reshape(-1, grad.shape[-1]), padding_idx, deterministic, True)
    if not scale_grad_by_freq:
        return d_weight
    counts = torch.bincount(indices, minlength=num_weights).clamp_(min=1)
    return d_weight / counts.unsqueeze(1).to(d_weight.dtype)


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
    return _sums(max(minlength, largest + 1), index, weights.unsqueeze(1), -1, deterministic).squeeze(1)


def _counts(index, rows):
    """How often each row is named, int64."""
    counts = torch.zeros(rows, dtype=torch.int64, device=index.device)
    with On(index):
        index = index.contiguous()
        keys = Keys(len(index), rows, index.data_ptr(), index.element_size(), counts.data_ptr(), None)
        library_of(index.device, library).histogram(
            keys, torch.cuda.current_stream(index.device).cuda_stream if index.is_cuda else None)
    return counts


class _ScatterReduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, out, index, source, how, include_self, deterministic):
        flat = source.reshape(len(source), math.prod(source.shape[1:]))
        counts = None if include_self and how != "mean" else _counts(index, len(out)).view((-1,) + (1,) * (out.dim() - 1))
        result = out.clone(memory_format=torch.contiguous_format) if include_self else \
            torch.where(counts > 0, IDENTITY[how], out).to(out.dtype).contiguous()
        if how == "mean":
            wide = result if deterministic else result.float()
            _add(wide, index, flat, -1, deterministic)
            result = (wide / (counts + include_self).clamp_(min=1)).to(out.dtype)
        elif how == "sum":
            _add(result, index, flat, -1, deterministic)
        else:
            if how == "prod" and deterministic:
                order = torch.sort(index, stable=True)
                _add(result, order.values, flat.index_select(0, order.indices), -1, True, how)
            else:
                _add(result, index, flat, -1, False, how)
        ctx.save_for_backward(out, index, source, result, counts)
        ctx.how, ctx.include_self, ctx.deterministic = how, include_self, deterministic
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d):
        out, index, source, result, counts = ctx.saved_tensors
        how, with_self = ctx.how, ctx.include_self

        def sums(of_source, of_out):
            """Over what a place has combined."""
            made = torch.zeros_like(out, dtype=torch.float32, memory_format=torch.contiguous_format)
            _add(made, index, of_source.float().reshape(len(source), math.prod(source.shape[1:])), -1, ctx.deterministic)
            return made + of_out if with_self else made

        def at(array):
            return array.index_select(0, index)
        if how == "mean":
            d_place = d / (counts + with_self).clamp(min=1)
        elif how in ("amin", "amax"):
            d_place = d / sums(source == at(result), out == result).clamp(min=1)
        d_out = d_source = None
        if how in ("sum", "mean"):
            d_place = d if how == "sum" else d_place
            d_out, d_source = d_place, at(d_place)
        elif how == "prod":
            zeros = sums(source == 0, out == 0)
            one = torch.ones_like
            start = torch.where(out == 0, one(out), out) if with_self else one(out)
            rest = _ScatterReduce.apply(start, index, torch.where(source == 0, one(source), source), how, True,
                                        ctx.deterministic)

            def others(x, zeros, rest):
                return torch.where(x == 0, torch.where(zeros == 1, rest, 0), torch.where(zeros == 0, rest / x, 0))
            d_out, d_source = d * others(out, zeros, rest), at(d) * others(source, at(zeros), at(rest))
        else:
            d_out, d_source = d_place * (out == result), at(d_place) * (source == at(result))
        if not with_self:
            d_out = torch.where(counts > 0, 0, d)
        return d_out.to(out.dtype), None, d_source.to(source.dtype), None, None, None


@torch.compiler.disable
def scatter_reduce(out, index, source, reduce, include_self, deterministic):
    how = reduction("scatter_reduce", reduce)
    check_rows("scatter_reduce", out, index, source)
    _check("scatter_reduce", out, index, source)
    return _ScatterReduce.apply(out, index, source, how, bool(include_self), _is_deterministic(deterministic))


def segment_reduce(source, offsets, reduce, deterministic):
    how = reduction("segment_reduce", reduce)
    _check("segment_reduce", source, offsets, source)
    rows = torch.arange(len(source), device=offsets.device, dtype=offsets.dtype)
    index = torch.searchsorted(offsets.contiguous(), rows, right=True) - 1
    out = torch.full((len(offsets) - 1, *source.shape[1:]), IDENTITY[how], dtype=source.dtype, device=source.device)
    return scatter_reduce(out, index, source, reduce, False, deterministic)
