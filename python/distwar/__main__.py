# SPDX-License-Identifier: MIT
"""python -m distwar: what is installed, for reports of faults."""
from __future__ import annotations

import ctypes
import importlib.metadata
import os
import pathlib
import platform
import sys
from typing import Any, Callable

import distwar


def _tried(find: Callable[[], str]) -> str:
    try:
        return find()
    except (ImportError, OSError):
        return "none"


def _driver() -> str:
    version = ctypes.c_int()
    status = ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}" if status == 0 else f"error {status}"


def _library(of: Any) -> str:
    """The path of a library of both backends, one per line."""
    lines = dict[str, None]()
    for backend in ("cuda", "simt"):
        try:
            library = of(backend)
            lines[f"{library.backend}, {os.path.realpath(library.lib._name)}"] = None
        except (ImportError, OSError) as error:
            lines[str(error)] = None
        except RuntimeError:  # there is one, for the other
            pass
    return f"\n{'':<18}".join(lines)


def _torch() -> str:
    import torch
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return f"{torch.__version__}, {', '.join(gpus) or 'no GPU'}"


def about() -> str:
    """Lines of what there is and its version."""
    from . import _train

    def sums(backend: str) -> Any:  # it needs torch
        from . import _sums
        return _sums.library(backend)
    lines = dict(distwar=distwar.__version__, libdistwar_gs=_library(distwar.library),
                 libdistwar_index=_library(sums), libdistwar_train=_library(_train.library), driver=_tried(_driver),
                 torch=_tried(_torch), numpy=_tried(lambda: importlib.metadata.version("numpy")),
                 gsplat=_tried(lambda: importlib.metadata.version("gsplat")),
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
