# SPDX-License-Identifier: MIT
"""python -m distwar: what is installed, for reports of faults."""
from __future__ import annotations

import ctypes
import importlib.metadata
import os
import pathlib
import platform
import struct
import sys
from typing import Any, Iterator

import distwar

MAGIC, SM, PTX = b"\x50\xed\x55\xba", 2, 1  # of the containers of nvcc in a library, and kinds of their entries


def _entries(data: bytes) -> Iterator[str]:
    """The architecture of each kernel image in a library: sm_90, or compute_90 for PTX."""
    at = data.find(MAGIC)
    while 0 <= at <= len(data) - 16:
        _, _, head, size = struct.unpack_from("<IHHQ", data, at)
        entry, end = at + head, at + head + size
        if end > len(data):
            return
        while entry + 32 <= end:
            kind, _, head, size, arch = struct.unpack_from("<HHIQ12xI", data, entry)
            if kind in (SM, PTX):
                yield f"{'sm' if kind == SM else 'compute'}_{arch}"
            entry += head + size or end
        at = data.find(MAGIC, end)


def architectures(path: str) -> list[str]:
    """The architectures of the kernels in a library, in the order of their numbers."""
    names = set(_entries(pathlib.Path(path).read_bytes()))
    return sorted(names, key=lambda name: (int(name.split("_")[1]), name))


def _driver() -> str:
    version = ctypes.c_int()
    try:
        status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        return "none"
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}" if status == 0 else f"error {status}"


def _library(of: Any) -> str:
    """Path and kernels of a library of both backends, one per line."""
    lines = dict[str, None]()
    for backend in ("cuda", "simt"):
        try:
            library = of(backend)
        except (ImportError, OSError) as error:
            lines[str(error)] = None
            continue
        except RuntimeError:  # there is one, for the other
            continue
        path = os.path.realpath(library.lib._name)
        own = ", ".join(architectures(path))
        kernels = own or ("kernels on the CPU" if library.backend == "simt" else "kernels of libdistwar_gs")
        lines[", ".join(filter(None, (library.backend, kernels, path)))] = None
    return f"\n{'':<18}".join(lines)


def _torch() -> str:
    try:
        import torch
    except ImportError:
        return "none"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{torch.__version__}, {', '.join(gpus) or 'no GPU'}"


def _installed(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def about() -> str:
    """Lines of what there is and its version."""
    from . import _sums, _train
    lines = dict(distwar=distwar.__version__, libdistwar_gs=_library(distwar.library),
                 libdistwar_index=_library(_sums.library), libdistwar_train=_library(_train.library), driver=_driver(),
                 torch=_torch(), numpy=_installed("numpy"), gsplat=_installed("gsplat"),
                 python=f"{platform.python_version()}, {platform.platform()}")
    return "\n".join(f"{name:<17} {text}" for name, text in lines.items())


def program() -> None:
    """Becomes dsplat, for a GPU if there is one. What the script of that name calls."""
    from ._library import DEVICES, backends
    for backend in backends():
        path = pathlib.Path(__file__).with_name(f"dsplat_{DEVICES[backend]}")
        if path.exists():
            os.execv(path, ["dsplat", *sys.argv[1:]])
    sys.exit("dsplat: this package was built without it: python/README.md says what it needs")


if __name__ == "__main__":
    print(about())
