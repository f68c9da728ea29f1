# SPDX-License-Identifier: MIT
"""Flushes of the sums of blocks: the JSON of `flush`."""
import statistics

from . import kept

KEPT = ["flush.jsonl"]
AXES = ("values", "slots", "blocks", "key_groups")


def load(paths):
    """(device, {(K, slots, blocks, key groups): {method: ms}})."""
    device, cells = None, {}
    for name, report in kept.read(paths):
        if "run" in report:
            *cell, method = name.split()
            cells.setdefault(tuple(map(int, cell)), {})[method] = report["run"]
            continue
        if name == "context":
            device = report["device"]
        for m in report.get("measurements", ()):
            device = report["device"]
            cells.setdefault(tuple(m[axis] for axis in AXES), {})[m["method"]] = m["median_ms"]
    return device, cells


def records(paths):
    device, cells = load(paths)
    return [("context", {"device": device, "axes": AXES}), *(
        (" ".join(map(str, (*cell, method))), {"run": float(f"{ms:.5g}")})
        for cell, times in cells.items() for method, ms in times.items())]


def devices(data):
    return [data[0]]


def spread(ratios):
    """least, median, most"""
    return f"{min(ratios):.2f}, {statistics.median(ratios):.2f}, {max(ratios):.2f}" if ratios else None


def tables(data):
    _, cells = data
    sizes = sorted({cell[:2] for cell in cells})

    def over_vector(method, K, slots):
        return [times[method] / times["vector"] for cell, times in cells.items() if cell[:2] == (K, slots)]

    found = {"ways": (["K, slots", "bytes a slot", "plain", "bulk, a slot an instruction", "bulk, consecutive keys"], [
        [f"{K}, {slots:,}", (K + 3) // 4 * 16,
         *(spread(over_vector(method, K, slots)) for method in ("plain", "bulk", "consecutive"))]
        for K, slots in sizes])}
    return {name: table for name, table in found.items() if table[1]}
