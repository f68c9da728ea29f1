#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the sums by index of the package distwar beside torch's on a GPU.

    PYTHONPATH=python DISTWAR_INDEX_LIBRARY=build/cuda/bin/libdistwar_index.so \
        benchmarks/index_add.py --out FILE.jsonl [--seconds 90]

N rows of K values are added to a table of M rows. The rows are drawn by Zipf's law: rank r with a probability in
proportion to r^-exponent; ranks are shuffled. Times are medians of CUDA events around one call, the L2 cache
overwritten before each; the work is queued while the GPU still overwrites, so the host's time does not count. Each sum
is compared with one in double precision first. Times are printed; FILE has the rows of the tables for tables.py. A
deterministic call of torch that would take over half a second, by what ten times fewer rows took, is left out.
"""
import argparse
import functools
import json
import math
import statistics
import sys
import time

import torch

from distwar import _sums

TYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
LIMITS = {"float32": 2e-6, "float16": 5e-3, "bfloat16": 5e-2}  # of the error over the sum of absolute values


def cases():
    """(type, N, M, K, exponent), those that a page shows first."""
    widths, exponents = (1, 4, 16, 64, 256), (0, 1, 2)
    sizes = [(10**5, 10**5), (10**6, 10**5), (10**7, 10**5), (10**8, 10**5), (10**6, 10**6), (10**7, 10**6)]
    found = [("float32", N, M, K, e) for N, M in sizes for K in widths for e in exponents if N * K <= 64 * 10**7]
    found += [("float32", 10**6, 10**5, K, e) for K in (2, 3, 8, 9, 32, 100) for e in exponents]
    for name in ("float16", "bfloat16"):
        found += [(name, N, 10**5, K, e) for N in (10**5, 10**6, 10**7) for K in widths for e in exponents
                  if N * K <= 64 * 10**7]
    return found


def zipf(count, rows, exponent):
    until = torch.arange(1, rows + 1, device="cuda", dtype=torch.float64).pow(-exponent).cumsum(0)
    ranks = torch.cat([torch.searchsorted(until, torch.rand(min(count - first, 1 << 24), device="cuda",
                                                            dtype=torch.float64) * until[-1])
                       for first in range(0, count, 1 << 24)])
    return torch.randperm(rows, device="cuda")[ranks.clamp_(max=rows - 1)]


def median_time(scrub, call, repeat):
    """Microseconds; scrub: a tensor larger than the L2 cache."""
    call()
    torch.cuda.synchronize()
    times = []
    while len(times) < repeat and sum(times) < 1e5:
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        scrub.fill_(len(times))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


class Ours:
    """ix_add, with a workspace that is kept."""

    def __init__(self, out, index, source, deterministic=False):
        self.arrays = out, index, source
        self.rows = _sums.Rows(count=len(index), width=source.shape[1], rows=len(out), index=index.data_ptr(),
                               index_bytes=index.element_size(), type=_sums.TYPES[source.dtype],
                               source=source.data_ptr(), out=out.data_ptr(), skipped=-1, deterministic=deterministic,
                               way=_sums.WAYS["chosen"], float_sums=out.dtype == torch.float32)

    def allocate(self, size):
        if not hasattr(self, "memory"):
            self.memory = torch.empty(size, dtype=torch.uint8, device="cuda")
        return self.memory.data_ptr(), self.memory

    def __call__(self):
        _sums.library().add(self.rows, self.allocate, torch.cuda.current_stream().cuda_stream)


def check(name, index, source, rows, deterministic):
    """The error over the sum of absolute values, in double precision; the first columns only."""
    part = source[:, :8].contiguous()
    out = torch.zeros(rows, part.shape[1], device="cuda", dtype=part.dtype)
    Ours(out, index, part, deterministic)()
    zero = torch.zeros(rows, part.shape[1], device="cuda", dtype=torch.float64)
    expected, size = (zero.index_add(0, index, value.double()) for value in (part, part.abs()))
    error = ((out.double() - expected).norm() / size.norm()).item()
    if not error < LIMITS[name]:
        sys.exit(f"WRONG: {name}, {len(index)} rows of {source.shape[1]}, deterministic {deterministic}: error {error}")


def measure(microseconds, case, slow):
    name, N, M, K, exponent = case
    index = zipf(N, M, exponent)
    source = torch.randn(N, K, device="cuda", dtype=torch.float32).to(TYPES[name])
    out = torch.zeros(M, K, device="cuda", dtype=TYPES[name])
    repeat, times = (11 if N * K < 10**8 else 5), {}
    for deterministic in (False, True):
        check(name, index, source, M, deterministic)
    times["ours"] = microseconds(Ours(out, index, source), repeat)
    times["torch"] = microseconds(lambda: out.index_add_(0, index, source), repeat)
    wide = index[:, None].expand(N, K)
    times["scatter_add"] = microseconds(lambda: out.scatter_add_(0, wide, source), repeat)
    times["ours_deterministic"] = microseconds(Ours(out, index, source, deterministic=True), repeat)

    def unless_slow(way, call): # by what ten times fewer rows took
        of = way, name, M, K, exponent
        if 10 * slow.get(of, 0) < 5e5:
            slow[of] = times[way] = microseconds(call, 3)
        return way in times

    def torch_deterministic():
        torch.use_deterministic_algorithms(True)
        out.index_add_(0, index, source)
        torch.use_deterministic_algorithms(False)

    def sums():
        table = torch.zeros(M, K, device="cuda")
        Ours(table, index, source)()
        return table.to(source.dtype)
    unless_slow("torch_deterministic", torch_deterministic)
    if unless_slow("embedding", lambda: torch.ops.aten.embedding_dense_backward(source, index, M, -1, False)):
        times["ours_embedding"] = microseconds(sums, repeat)
    return times


PAIRS = {"index_add": ("ours", ("torch", "scatter_add")), "deterministic": ("ours_deterministic", ("torch_deterministic",)),
         "embedding": ("ours_embedding", ("embedding",))}


def shown(gain):
    """Rounded down."""
    digits = 0 if gain >= 100 else 1 if gain >= 10 else 2
    return f"{math.floor(gain * 10**digits) / 10**digits:,.{digits}f}"


def rows(runs):
    """The rows of the tables, for tables.py; torch's time is the faster of two calls."""
    gains, brief = {}, {}
    for kind, N, M, K, exponent, times in runs:
        cells = {}
        for pair, (ours, theirs) in PAIRS.items():
            rival = min((times[way] for way in theirs if way in times), default=None)
            for who, us in (("torch", rival), ("distwar", times.get(ours))):
                if us is not None:
                    cells[f"{pair}: {who}"] = f"{us:,.0f}" if us >= 100 else f"{us:.1f}"
            if rival is not None and ours in times:
                gains.setdefault(exponent, {}).setdefault(pair, []).append(rival / times[ours])
                cells[f"{pair}: times as fast"] = shown(rival / times[ours])
        if kind == "float32" and M == 10**5 and N in (10**6, 10**7) and K in (1, 4, 16, 64, 256):
            yield {"table": "index-add/float32", "key": {"N": f"{N:,}", "K": str(K), "exponent": str(exponent)}, "cells": cells}
    for exponent, of in sorted(gains.items()):
        for pair, found in of.items():
            spread = min(found), statistics.median_low(found), max(found)
            brief[f"{pair}: least, median, most"] = ", ".join(map(shown, spread))
            brief[f"{pair}: cases over 3% slower"] = str(sum(gain < 0.97 for gain in found))
        yield {"table": "index-add/in brief", "key": {"exponent": str(exponent)}, "cells": dict(brief)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", metavar="FILE", required=True)
    parser.add_argument("--seconds", type=float, default=90, help="no case begins later")
    options = parser.parse_args()
    torch.manual_seed(1)
    microseconds = functools.partial(median_time, torch.empty(1 << 27, device="cuda"))
    slow, runs, begin = {}, [], time.time()
    for case in cases():
        if time.time() - begin > options.seconds:
            print("no time for more", file=sys.stderr)
            break
        times = measure(microseconds, case, slow)
        runs.append([*case, {way: float(f"{us:.4g}") for way, us in times.items()}])
        print(*case, runs[-1][-1], flush=True)
    print(torch.cuda.get_device_name(), torch.__version__)
    with open(options.out, "w") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(runs))


if __name__ == "__main__":
    main()
