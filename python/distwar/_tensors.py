# SPDX-License-Identifier: MIT
"""What libdistwar_gs takes of torch: addresses, memory, the current stream, cameras on the host."""
import contextlib
import functools
import importlib.metadata
import sys
import weakref

import torch
from torch import Tensor

from . import _stages
from ._library import BACKENDS, keep, library

_package = sys.modules[__package__]
_host_copies = {}  # of cameras: by id, (weak reference, version, tensor)
# Of torch._C, where there: torch.cuda first looks whether CUDA is initialised, which a tensor on it has shown.
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: torch.cuda.current_stream(index).cuda_stream)
current_device = getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device)
is_capturing = getattr(torch._C, "_cuda_isCurrentStreamCapturing", torch.cuda.is_current_stream_capturing)
_is_compiling = torch.compiler.is_compiling
_dispatch_modes, _transforms_active = torch._C._len_torch_dispatch_stack, torch._C._are_functorch_transforms_active
_PLAIN, _anywhere = (Tensor, torch.nn.Parameter), contextlib.nullcontext()
try:
    _installed_gsplat = tuple(map(int, importlib.metadata.version("gsplat").split(".")[:2]))
except (importlib.metadata.PackageNotFoundError, ValueError):
    _installed_gsplat = (1, 5)


@functools.lru_cache(maxsize=None)
def index_of(device):
    """The index of a GPU; None: a CPU. Refuses devices that the library has no kernels for."""
    library_of(device)
    return device.index if device.type == "cuda" else None


def stream_at(index):
    """The current stream of the device with this index_of(), as _stages.py takes it."""
    return None if index is None else _raw_stream(index)


def stream_of(device):
    return stream_at(device.index if device.type == "cuda" else None)


def library_of(device, of=library):
    """The library for tensors on a device. of: library() of _library.py or _sums.py."""
    if device.type not in BACKENDS:
        raise RuntimeError(f"distwar: the tensors are on {device}, which is neither a CPU nor a GPU of CUDA")
    return of(BACKENDS[device.type])


def captures(index):
    """Whether a CUDA graph is captured on the device with this index_of(): nothing may wait."""
    return index is not None and is_capturing()


def on(tensor):
    """A context in which the device of a tensor is the current one."""
    other = tensor.is_cuda and tensor.get_device() != current_device()
    return torch.cuda.device(tensor.device) if other else _anywhere


def plain(tensor):
    """Contiguous and aligned to 16 bytes."""
    tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % 16 else tensor


def address_of(tensor, kept):
    """The address of a contiguous tensor, aligned to 16 bytes; None stays None. A copy goes to the list `kept`, and
    must live until the work on it is queued."""
    if tensor is None:
        return None
    at = tensor.data_ptr()
    if at % 16 == 0 and tensor.is_contiguous():
        return at
    kept.append(plain(tensor))
    return kept[-1].data_ptr()


def addresses(tensors):
    return [None if tensor is None else tensor.data_ptr() for tensor in tensors]


def on_host(tensor, at_once=True):
    """A copy on the CPU, which waits for the GPU; once for each tensor, as long as it does not change. at_once=False: None
    the first time."""
    if not tensor.is_cuda:
        return tensor
    version = -1 if tensor.is_inference() else tensor._version
    reference, of, copy = _host_copies.get(id(tensor), (None, -1, None))
    known = 0 <= of == version and reference() is tensor
    if not known or copy is None:
        copy = tensor.detach().cpu() if known or at_once else None
        keep(_host_copies, id(tensor), (weakref.ref(tensor), version, copy), 1024)
    return copy


def known_values(tensor):
    """The numbers of a small tensor as a list. None: it needs a gradient, or lies on a GPU and comes for the first time, as a
    random background does: nobody waits for it. Where it comes again, a call waits once."""
    if tensor.requires_grad or tensor.is_cuda and (tensor.is_inference() or is_capturing()):
        return None
    values = on_host(tensor, False)
    return None if values is None else values.tolist()


def packed_cameras(viewmats, Ks, ends):
    """gs_camera of each of viewmats [C, 4, 4] and Ks [C, 3, 3], as bytes. ends: camera_ends() of the settings."""
    viewmats, Ks = on_host(viewmats), on_host(Ks)
    if not (viewmats.dtype is Ks.dtype is torch.float32 and viewmats.is_contiguous() and Ks.is_contiguous()):
        viewmats, Ks = (a.detach().float().contiguous() for a in (viewmats, Ks))
    return _stages.packed_cameras(viewmats.data_ptr(), Ks.data_ptr(), len(viewmats), ends)


def empty(shape, like, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype, device=like.device)


def gradient_like(tensor):
    if tensor is None or tensor.is_contiguous():
        return tensor if tensor is None else torch.empty_like(tensor)
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def is_plain(tensor):
    """Whether no compiler traces and no mode watches: the tensor holds numbers."""
    return not _is_compiling() and type(tensor) in _PLAIN and not _dispatch_modes() and not _transforms_active()


def strategy_now():
    return "fixed" if _package.deterministic or torch.are_deterministic_algorithms_enabled() else "tree"


def radii_for_gsplat(radii):
    """radii [...] as meta has them: [..., 2] from gsplat 1.5 on."""
    if (_package.gsplat_version or _installed_gsplat) < (1, 5):
        return radii
    return radii.unsqueeze(-1).expand(*radii.shape, 2)
