# SPDX-License-Identifier: MIT
"""The libdistwar_gs that this package uses: the one beside this file, or that of the environment variable DISTWAR_LIBRARY."""
import functools
import os
import pathlib

from . import gs


@functools.lru_cache(maxsize=None)
def library() -> gs.Library:
    """The library as a gs.Library, loaded at the first call."""
    path = os.environ.get("DISTWAR_LIBRARY") or pathlib.Path(__file__).with_name("libdistwar_gs.so")
    if not os.path.exists(path):
        raise ImportError(f"distwar: there is no {path}; install the package (pip install ./python), or let "
                          "DISTWAR_LIBRARY name a libdistwar_gs.so")
    return gs.Library(os.fspath(path))
