# SPDX-License-Identifier: MIT
"""Distances to the nearest points, for the sizes of the first Gaussians."""
from __future__ import annotations

import importlib

import torch
from torch import Tensor


def three_nearest(points: Tensor) -> Tensor:
    """The mean of the squared distances of each point [N, 3] to its three nearest neighbours, [N]; exact. By scipy's k-d tree
    on the host, all of its cores: once, before training. Copies of a point are at a distance of 0."""
    if points.dim() != 2 or points.shape[1] != 3:
        raise ValueError(f"distwar.neighbors: points have the shape {tuple(points.shape)}, not [N, 3]")
    if len(points) < 4:
        raise ValueError(f"distwar.neighbors: {len(points)} points are fewer than 4")
    if not torch.isfinite(points).all():
        raise ValueError("distwar.neighbors: a point is not finite")
    of = points.detach().cpu().double().numpy()
    tree = importlib.import_module("scipy.spatial").KDTree(of)
    distances, _ = tree.query(of, k=4, workers=-1)  # the least is 0, to itself or to a copy
    return torch.from_numpy((distances[:, 1:]**2).mean(1)).to(points.device, torch.float32)
