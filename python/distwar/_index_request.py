# SPDX-License-Identifier: MIT
"""The checks of index.py that hold for torch tensors and numpy arrays alike."""


def check_rows(name, out, index, source):
    """The number of values of a row."""
    for what, array in (("out", out), ("index", index), ("source", source)):
        if not hasattr(array, "shape"):
            raise TypeError(f"distwar.{name}: {what} is a {type(array).__name__}, not an array")
    if len(index.shape) != 1:
        raise ValueError(f"distwar.{name}: index has {len(index.shape)} dimensions, not one")
    if len(out.shape) < 1 or tuple(source.shape) != tuple(index.shape) + tuple(out.shape[1:]):
        raise ValueError(f"distwar.{name}: source has the shape {tuple(source.shape)}; out {tuple(out.shape)} and index "
                         f"{tuple(index.shape)} need {tuple(index.shape) + tuple(out.shape[1:])}")


def reduction(name, reduce):
    """sum, mean, amin, amax or prod."""
    known = {"sum": "sum", "mean": "mean", "prod": "prod", "amin": "amin", "amax": "amax", "min": "amin", "max": "amax"}
    if reduce not in known:
        raise ValueError(f"distwar.{name}: reduce is {reduce!r}, not one of {', '.join(known)}")
    return known[reduce]


IDENTITY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amin": float("inf"), "amax": float("-inf")}


def check_embedding(grad, indices, num_weights):
    if len(grad.shape) < 1 or tuple(grad.shape[:-1]) != tuple(indices.shape):
        raise ValueError(f"distwar.embedding_backward: grad has the shape {tuple(grad.shape)}, not {tuple(indices.shape)}, "
                         "that of indices, and one more dimension")
    if num_weights < 0:
        raise ValueError(f"distwar.embedding_backward: num_weights is {num_weights}")
