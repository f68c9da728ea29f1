# SPDX-License-Identifier: MIT
"""Flushes of the sums of blocks: the JSON of `flush`."""
import re
import statistics

from . import kept

KEPT = ["flush.jsonl"]
NAME = re.compile(r"flush/K:(\d+)/slots:(\d+)/blocks:(\d+)/key_groups:(\d+)/(\w+)")


def measurements(paths):
    return kept.runs(paths, NAME, ("device",), lambda _, entry: float(f"{entry['median_ms']:.5g}"))


def load(paths):
    """(context, {(K, slots, blocks, key groups): {method: ms}})."""
    context, runs = measurements(paths)
    cells = {}
    for name, ms in runs.items():
        *cell, method = name.split()
        cells.setdefault(tuple(map(int, cell)), {})[method] = ms
    return context, cells


def records(paths):
    return kept.records_of(*measurements(paths))


def devices(data):
    return [data[0]["device"]]


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
