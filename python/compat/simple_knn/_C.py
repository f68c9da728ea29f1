# SPDX-License-Identifier: MIT
import torch


def distCUDA2(points):
    """The mean of the squared distances of each point [N, 3] to its three nearest neighbours, [N]. Compares all
    pairs."""
    points, count = points.float(), points.shape[0]
    if count < 4:
        raise ValueError(f"distCUDA2: {count} points are fewer than 4")
    rows = max(1, 2**27 // count)
    out = []
    for chunk in points.split(rows):
        distance = torch.cdist(chunk, points, compute_mode="donot_use_mm_for_euclid_dist")
        out.append(distance.topk(4, largest=False).values[:, 1:].square().mean(1))
    return torch.cat(out)
