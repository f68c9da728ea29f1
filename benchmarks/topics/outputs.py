# SPDX-License-Identifier: MIT
"""Outputs beyond a picture: channels, depth, absolute gradients and gradients by the camera, and the ways to issue a
frame. What blend.sh measured (parts channels, camera_gradient, frames), as trim.py keeps it."""
import re

from . import reports
from .text import ms

KEPT = ["outputs.jsonl"]
KINDS = ("channels", "camera_gradient", "frames")
RUN = re.compile(r"channels/(render|render_backward)/scene:(.+)/channels:(\d+)/depth:(\d)/absolute:(\d)")
WAYS = {"waits": "`gs_bin` waits", "settled": "queued, settled after each view", "queued": "queued", "graph": "CUDA graph",
        "single, waits": "single views, `gs_bin` waits", "single, queued": "single views, queued",
        "batch, waits": "batch, `gs_bin` waits", "batch, queued": "batch, queued", "batch, graph": "batch, CUDA graph"}


def records(paths):
    return reports.records(paths, KINDS)


def load(paths):
    """{"channels-fox": report, "camera_gradient": report, "frames-256x256": report, ...}"""
    return dict(records(paths))


def devices(data):
    return sorted({report["device"] if "device" in report else report["context"]["device"] for report in data.values()})


def by_channels(report):
    times = {}
    for run in report["benchmarks"]:
        call, _, channels, depth, absolute = RUN.fullmatch(run["name"]).groups()
        times[call, int(channels), depth, absolute] = run["median"] * 1e-3
    return (["channels", "forward blend", "with depth", "backward blend", "with depth", "with absolute gradients",
             "with both", "backward, ms a channel"],
            [[channels, ms(times["render", channels, "0", "0"]), ms(times["render", channels, "1", "0"]),
              *(ms(times["render_backward", channels, depth, absolute]) for depth, absolute in ("00", "10", "01", "11")),
              ms(times["render_backward", channels, "0", "0"] / channels)]
             for channels in sorted({key[1] for key in times})])


def by_camera(report):
    times = {(m["gaussians"], m["phase"], m["method"]): m["median_ms"] for m in report["measurements"]}
    return (["Gaussians", "project backward", "with gradients by the camera", "the 19 sums: an atomic a value",
             "`reduce_tree`, an atomic a value and warp", "cub::DeviceReduce", "libdistwar_gs"],
            [[f"{count:,}", *(ms(times[count, "project backward", m]) for m in ("without", "with camera")),
              *(ms(times[count, "sum", m]) for m in ("atomic", "tree", "cub", "rows"))]
             for count in sorted({key[0] for key in times})])


def by_way(report):
    views, ways = report["views"], report["ms_of_all_views"]
    return (["way", "GPU", "host", "wall", "kernels and copies"],
            [[WAYS[way], *(f"{t[key]['median'] / views:.4f}" for key in ("gpu", "host", "wall")),
              f"{t['launches'] / views:.1f}"] for way, t in ways.items()])


def tables(data):
    found = {}
    for name, report in data.items():
        make = {"channels": by_channels, "camera_gradient": by_camera, "frames": by_way}[name.split("-")[0]]
        found[name.replace("-", " ").replace("_", " ")] = make(report)
    return found
