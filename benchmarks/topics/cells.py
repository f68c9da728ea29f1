# SPDX-License-Identifier: MIT
"""Many values and 16-bit pairs: the JSON of `aggregate --benchmark_filter='chunks/|pairs/' --benchmark_out=FILE
--benchmark_out_format=json`, or what is kept of it."""
import re

from . import kept

KEPT = ["cells.jsonl"]
NAME = re.compile(r"((?:chunks|pairs)/.+?)/iterations:")
CHUNKS = [("atomics", ""), *[(method, chunk) for method in ("handle", "counted") for chunk in ("8", "16", "32")],
          ("array", "")]
PAIRS = ("atomics", "vectors", "serial", "tree", "tree_planes", "tree_aligned", "floats", "singly")


def load(paths):
    """(context, {name: [median, deviation]}), in nanoseconds a call of the whole GPU."""
    return kept.runs(paths, NAME, ("date", "device", "cuda_runtime"), kept.statistics("ns_per_call"))


def records(paths):
    return kept.records_of(*load(paths))


def devices(data):
    context, runs = data
    return [f"{context.get('device')}, CUDA runtime {context.get('cuda_runtime')}, {len(runs)} runs, "
            f"{context.get('date')}"]


def axes(name):
    """{"kind": ..., "method": ..., "keys": ..., ...} of a run's name."""
    kind, method, *rest = name.split("/")
    return {"kind": kind, "method": method, **dict(part.split(":") for part in rest)}


def amount(targets):
    return "1M" if int(targets) == 1 << 20 else f"{int(targets):,}"


def tables(data):
    runs = [(axes(name), median, deviation) for name, (median, deviation) in data[1].items()]

    def rows(kind, row_of, column_of, columns):
        found = {}
        for place, median, _ in runs:
            if place["kind"] == kind:
                found.setdefault(row_of(place), {})[column_of(place)] = f"{median:.3g}"
        return [[*row, *(cells.get(column) for column in columns)] for row, cells in found.items()]

    found = {
        "chunks": (["count", "keys", *(" ".join(column).strip() for column in CHUNKS)],
                   rows("chunks", lambda p: (p["count"], p["keys"]), lambda p: (p["method"], p.get("chunk", "")),
                        CHUNKS)),
        "pairs": (["pairs", "keys, targets", *PAIRS], sorted(
            rows("pairs", lambda p: (f"{p['pairs']} {p['type']}", f"{p['keys']}, {amount(p['targets'])}"),
                 lambda p: p["method"], PAIRS), key=lambda row: ("bfloat" in row[0], int(row[0].split()[0])))),
    }
    spread = sorted(deviation / median for _, median, deviation in runs)
    if spread:
        found["deviation"] = (["runs", "deviation over median: median", "largest"],
                              [[len(spread), f"{spread[len(spread) // 2]:.1%}", f"{spread[-1]:.1%}"]])
    return {name: table for name, table in found.items() if table[1]}
