# SPDX-License-Identifier: MIT
"""Distances to the nearest points, for the sizes of the first Gaussians."""
from __future__ import annotations

import torch
from torch import Tensor

LEAF = 16  # points of a leaf, at most
AT_ONCE = 2**17  # points that search together


def _tree(points: Tensor) -> tuple[Tensor, Tensor, list[Tensor]]:
    """A balanced k-d tree over [N, 3]: order [leaves, points of a leaf], and the boxes of each level, [nodes, 2, 3]
    with the root first. Some entries of `order` are N or above: copies, so that all leaves have the same size."""
    count, device = len(points), points.device
    levels = (-(-count // LEAF) - 1).bit_length()
    copies = -count % 2**levels
    source = torch.cat((torch.arange(count, device=device),
                        torch.arange(copies, device=device) * count // max(copies, 1)))
    order, boxes = torch.arange(len(source), device=device)[None], []
    for level in range(levels + 1):
        of_node = points[source[order]]
        boxes.append(torch.stack((of_node.amin(1), of_node.amax(1)), 1))
        if level < levels:
            axis = (boxes[-1][:, 1] - boxes[-1][:, 0]).argmax(1)
            along = of_node.gather(2, axis[:, None, None].expand(-1, order.shape[1], 1))[..., 0]
            order = order.gather(1, along.argsort(1)).view(2 * len(order), -1)
    return order, of_node, boxes


def _three_least(leaves: Tensor, is_copy: Tensor, rows: Tensor, leaf: Tensor) -> Tensor:
    """[rows, 3]: the least squared distances of points, numbered through the leaves, to the others of one leaf each."""
    size = leaves.shape[1]
    squares = (leaves[leaf] - leaves.view(-1, 3)[rows, None]).square().sum(-1)
    is_self = leaf[:, None] * size + torch.arange(size, device=rows.device) == rows[:, None]
    return squares.masked_fill(is_copy[leaf] | is_self, float("inf")).topk(3, largest=False).values


def _search(leaves: Tensor, is_copy: Tensor, boxes: list[Tensor], rows: Tensor) -> Tensor:
    """The mean of the squared distances of points to their three nearest neighbours."""
    home = rows // leaves.shape[1]
    least, points = _three_least(leaves, is_copy, rows, home), leaves.view(-1, 3)[rows]
    every = torch.arange(len(rows), device=rows.device)
    of, node = every, torch.zeros_like(rows)
    for level in boxes[1:]:  # pairs of a point and a node that may hold a nearer one
        of, node = of.repeat_interleave(2), torch.stack((2 * node, 2 * node + 1), 1).flatten()
        box, at = level[node], points[of]
        outside = torch.maximum(box[:, 0] - at, at - box[:, 1]).clamp(min=0).square().sum(-1)
        keep = torch.nonzero(outside < least[of, 2])[:, 0]
        of, node = of[keep], node[keep]
    keep = torch.nonzero(node != home[of])[:, 0]
    of, node = of[keep], node[keep]
    found = torch.cat((least, _three_least(leaves, is_copy, rows[of], node))).flatten()
    of = torch.cat((every, of)).repeat_interleave(3)
    found, by_square = found.sort()
    of, by_point = of[by_square].sort(stable=True)
    first = torch.searchsorted(of, every)[:, None] + torch.arange(3, device=rows.device)
    return found[by_point][first].mean(1)


def three_nearest(points: Tensor) -> Tensor:
    """The mean of the squared distances of each point [N, 3] to its three nearest neighbours, [N]; exact. In about
    N log N steps and 1 GB: a k-d tree, whose nodes the points of a part descend together."""
    if points.dim() != 2 or points.shape[1] != 3:
        raise ValueError(f"distwar.neighbors: points have the shape {tuple(points.shape)}, not [N, 3]")
    count = len(points)
    if count < 4:
        raise ValueError(f"distwar.neighbors: {count} points are fewer than 4")
    with torch.no_grad():
        points = points.float()
        if not torch.isfinite(points).all():
            raise ValueError("distwar.neighbors: a point is not finite")
        order, leaves, boxes = _tree(points)
        out, is_copy = points.new_empty(order.numel()), order >= count
        for rows in torch.split(torch.arange(order.numel(), device=points.device), AT_ONCE):
            out[order.view(-1)[rows]] = _search(leaves, is_copy, boxes, rows)
        return out[:count]
