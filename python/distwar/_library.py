# SPDX-License-Identifier: MIT
"""The libraries that this package uses: those beside this file, for GPUs (libdistwar_gs_cuda.so), CPUs (libdistwar_gs_cpu.so)
or both, or those that environment variables name."""
from __future__ import annotations

import ctypes
import functools
import os
import pathlib
from typing import Any

from . import gs

VARIABLES = dict(gs="DISTWAR_LIBRARY", index="DISTWAR_INDEX_LIBRARY", train="DISTWAR_TRAIN_LIBRARY")
DEVICES = dict(cuda="cuda", simt="cpu")  # by backend: the type of torch's devices, and the end of names of files
BACKENDS = {device: backend for backend, device in DEVICES.items()}


def keep(cache: dict[Any, Any], key: Any, value: Any, most: int = 64) -> Any:
    """Returns the value, kept in a cache that begins anew where it holds `most`."""
    if len(cache) >= most:
        cache.clear()
    cache[key] = value
    return value


@functools.lru_cache(maxsize=None)
def has_gpu() -> bool:
    """Whether the driver has a GPU. torch need not be there."""
    count = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def backends() -> tuple[str, ...]:
    """cuda and simt, first the one that is taken where a package has both."""
    return ("cuda", "simt") if has_gpu() else ("simt", "cuda")


def _path(name: str, backend: str | None) -> str:
    named = os.environ.get(VARIABLES[name])
    here = pathlib.Path(__file__).parent
    found = {b: here / f"libdistwar_{name}_{DEVICES[b]}.so" for b in backends()}
    found = {b: path for b, path in found.items() if path.exists()}
    path = named or found.get(backend or next(iter(found), ""))
    if path is None and found:
        return os.fspath(*found.values())  # of another backend: load() says so
    if path is None or not os.path.exists(path):
        raise ImportError(f"distwar: there is no {path or f'libdistwar_{name}.so in {here}'}; install the package (pip "
                          f"install ./python), or let {VARIABLES[name]} name one")
    return os.fspath(path)


@functools.lru_cache(maxsize=None)
def _opened(path: str, make: Any) -> Any:
    return make(path)


@functools.lru_cache(maxsize=None)
def load(name: str, make: Any, backend: str | None = None) -> Any:
    """make(path) of libdistwar_NAME, once for each file. backend: cuda or simt; None: cuda's if there is a GPU, else what
    there is."""
    library = _opened(_path(name, backend), make)
    if None not in (backend, library.backend) and backend != library.backend:
        raise RuntimeError(f"distwar: {dict(cuda='a GPU', simt='a CPU')[str(backend)]} is asked for, and this package has "
                           f"libdistwar_{name} for {'CUDA' if library.backend == 'cuda' else 'CPUs'}; python/README.md says how to "
                           "build it for both")
    return library


def library(backend: str | None = None) -> gs.Library:
    """libdistwar_gs as a gs.Library, loaded at the first call; backend as load() takes it."""
    of: gs.Library = load("gs", gs.Library, backend)
    return of
