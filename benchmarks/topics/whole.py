# SPDX-License-Identifier: MIT
"""Whole problems beside CUB, Dr.Jit and NVIDIA Warp: the JSON of `whole`, or what is kept of it and of version 0.2.0's
rivals.py."""
import re

from . import kept

NAME = re.compile(r"whole/(\w+)/(\w+)/K:(\d+)/bins:(\d+)/exponent:(\d+)/sorted:(\d)")
WAYS = ("atomic", "vector", "serial", "tree", "tree_vector", "runs", "hot_slots", "hot_tree", "fastest",
        "deterministic", "bounded", "exact", "counts", "cub", "drjit_direct", "drjit_local", "warp")
KEPT = ["whole.jsonl"]
MEMBERS = ("date", "device", "cuda_runtime", "cub", "drjit", "warp")


def load(paths):
    """(context, {"problem way K bins exponent sorted": [median, deviation] in 10^9 adds per second})."""
    return kept.runs(paths, NAME, MEMBERS, kept.statistics("adds_per_second", 1e-9))


def records(paths):
    return kept.records_of(*load(paths))


def devices(data):
    return [", ".join(f"{key} {value}" for key, value in data[0].items())]


def tables(data):
    runs = [(*name.split()[:2], *map(int, name.split()[2:]), values[0]) for name, values in data[1].items()]
    found = {}
    for problem, first in (("histogram", "bins, exponent"), ("scatter", "K, rows, exponent")):
        for is_sorted, suffix in ((0, ""), (1, " of sorted keys")):
            mine = {tuple(run[1:5]): run[6] for run in runs if run[0] == problem and run[5] == is_sorted}
            ways = [way for way in WAYS if any(key[0] == way for key in mine)]
            places = sorted({key[1:] for key in mine})
            found[problem + suffix] = ([first, *ways], [
                [(f"{K}, " if problem == "scatter" else "") + f"{bins:,}, {exponent}",
                 *(mine.get((way, K, bins, exponent)) and f"{mine[way, K, bins, exponent]:.3g}" for way in ways)]
                for K, bins, exponent in places])
    return {name: table for name, table in found.items() if table[1]}
