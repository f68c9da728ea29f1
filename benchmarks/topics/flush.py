# SPDX-License-Identifier: MIT
"""Flushes of the sums of blocks: the JSON of `flush --json FILE`."""
import json
import statistics

KEPT = ["flush-h200.json"]
CLUSTERS = ("cluster 2", "cluster 4", "cluster 8")
ATOMICS = ("plain", "vector")
AXES = ("phase", "values", "slots", "blocks", "key_groups")


def load(paths):
    """(device, {(phase, K, slots, blocks, key groups): {method: ms}})."""
    device, cells = None, {}
    for path in paths:
        with open(path) as file:
            report = json.load(file)
        device = report["device"]
        for m in report["measurements"]:
            cell = cells.setdefault(tuple(m[axis] for axis in AXES), {})
            cell[m["method"]] = m["median_ms"]
    return device, cells


def keep(data, path):
    device, cells = data
    lines = [json.dumps({**dict(zip(AXES, cell)), "method": method, "median_ms": float(f"{ms:.5g}")})
             for cell, times in cells.items() for method, ms in times.items()]
    with open(path, "w") as file:
        file.write(f'{{"benchmark": "flush", "device": {json.dumps(device)}, "measurements": [\n' + ",\n".join(lines) +
                   "\n]}\n")


def devices(data):
    return [data[0]]


def spread(ratios):
    """least, median, most"""
    return f"{min(ratios):.2f}, {statistics.median(ratios):.2f}, {max(ratios):.2f}" if ratios else None


def tables(data):
    _, cells = data
    found = {}
    flushes = {cell: times for cell, times in cells.items() if cell[0] == "flush"}
    sums = {cell: times for cell, times in cells.items() if cell[0] == "accumulate"}
    sizes = sorted({cell[1:3] for cell in flushes})

    def over_vector(method, K, slots):
        return [times[method] / times["vector"] for cell, times in flushes.items() if cell[1:3] == (K, slots)]

    found["ways"] = (["K, slots", "bytes a slot", "plain", "bulk, a slot an instruction", "bulk, consecutive keys"], [
        [f"{K}, {slots:,}", (K + 3) // 4 * 16,
         *(spread(over_vector(method, K, slots)) for method in ("plain", "bulk", "consecutive"))] for K, slots in sizes])
    rows = []
    for method in CLUSTERS:
        fits = [times[method] / times["fixed"] for times in sums.values() if method in times and "fixed" in times]
        larger = [times[method] / min(times[way] for way in ATOMICS)
                  for times in sums.values() if method in times and "fixed" not in times and "plain" in times]
        alone = sum(method in times and "plain" not in times for times in sums.values())
        rows.append([method.split()[1], len(fits), spread(fits), sum(ratio < 1 for ratio in fits), len(larger),
                     spread(larger), sum(ratio < 1 for ratio in larger), alone])
    found["clusters"] = (["blocks a cluster", "cells", "over fixed point in the block", "wins",
                          "cells too large for that", "over floats in the block", "wins there",
                          "cells too large for both"], rows)
    rows = []
    for cell, times in sums.items():
        for method in CLUSTERS:
            other = times.get("fixed")
            if method in times and other and times[method] < other:
                rows.append([method.split()[1], *(f"{axis:,}" for axis in cell[1:]), f"{times[method]:.4f}",
                             f"{other:.4f}", f"{times['vector']:.4f}"])
    found["clusters that win"] = (["blocks a cluster", "K", "slots", "blocks", "groups of keys", "ms",
                                   "fixed point in the block", "floats, vector atomics"], rows)
    return {name: table for name, table in found.items() if table[1]}
