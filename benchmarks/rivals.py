#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times Dr.Jit's scatter_reduce and NVIDIA Warp's atomic_add on the problems of benchmarks/library/whole.cu.

    benchmarks/rivals.py [--out FILE.json] [--seconds 40]

Needs a CUDA GPU and one or both of the Python packages drjit and warp-lang (with numpy). A package that is missing, or
that fails, is skipped with the reason in the context of the JSON. The entries have the names and the form of those of
`whole --benchmark_out_format=json`: medians of 7 runs of the GPU's own times, with the L2 cache overwritten before each.
Key distributions are those of whole.cu, drawn anew. Sums are checked.

Wheels: drjit 1.5.0 (5 MB). warp-lang 1.19.0 is 149 MB, 1.3.3 is 66 MB, 43 MB without warp/bin/warp-clang.so, which
compiles for CPUs only. numpy (for Warp) 18 MB.
"""
import argparse
import json
import random
import statistics
import sys
import time

ADDS, REPETITIONS, SCRUBBED = 1 << 20, 7, 1 << 28
SCATTERS = [(bins, K) for bins in (1024, 65536) for K in (1, 4, 16)]
BINS = (16, 256, 4096, 65536)


def keys_of(bins, exponent):
    """Keys by Zipf's law. Rank r is key r times an odd number, modulo bins."""
    total, until = 0, []
    for rank in range(bins):
        total += (rank + 1) ** -exponent
        until.append(total)
    key_of = [rank * 0x9e3779b1 % (1 << 32) % bins for rank in range(bins)]
    return random.Random(exponent).choices(key_of, cum_weights=until, k=ADDS)


def value_of(i, k):
    return (i * 5 + k) % 7


def expected_sums(keys, bins, K):
    """Value 0 of each record, and the sum of all values."""
    first = [0] * bins
    for i, key in enumerate(keys):
        first[key] += value_of(i, 0)
    residues = [sum(value_of(i, k) for k in range(K)) for i in range(7)]
    return first, sum(residues) * (ADDS // 7) + sum(residues[:ADDS % 7])


def expected_counts(keys, bins):
    counts = [0] * bins
    for key in keys:
        counts[key] += 1
    return counts, ADDS


class DrJit:
    """dr.scatter_add in two modes. Times by dr.kernel_history(), which uses CUDA events."""

    def __init__(self):
        import drjit as dr
        import drjit.cuda as cuda
        self.dr, self.cuda = dr, cuda
        self.version = dr.__version__
        self.fill = 0
        dr.set_flag(dr.JitFlag.KernelHistory, True)
        self.modes = {"drjit_direct": dr.ReduceMode.Direct, "drjit_local": dr.ReduceMode.Local}

    def ways(self):
        return self.modes

    def load(self, keys):
        self.keys = self.cuda.UInt(keys)
        self.dr.eval(self.keys)

    def time(self, add):
        """Milliseconds of what `add` queues."""
        dr = self.dr
        self.fill += 1
        scrub = dr.full(self.cuda.Float, self.fill, SCRUBBED // 4)
        dr.make_opaque(scrub)
        dr.sync_thread()
        dr.kernel_history_clear()
        add()
        dr.sync_thread()
        return sum(entry["execution_time"] for entry in dr.kernel_history())

    def scatter(self, way, bins, K):
        dr, cuda = self.dr, self.cuda
        place = dr.arange(cuda.UInt, ADDS)
        columns = [cuda.Float((place * 5 + k) % 7) for k in range(K)]
        if K == 1:
            value = columns[0]
        elif K == 4:
            value = cuda.Array4f(*columns)
        else:
            value = cuda.ArrayXf(columns)
        dr.eval(value)
        table = [dr.zeros(cuda.Float, bins * K)]
        dr.eval(table[0])

        def add():
            dr.scatter_add(table[0], value, self.keys, mode=self.modes[way])
            dr.eval(table[0])
        self.time(add)
        return add, lambda first, total: self.holds(table[0], K, first, total)

    def holds(self, table, K, first, total):
        dr, cuda = self.dr, self.cuda
        every = dr.arange(cuda.UInt, len(first)) * K
        found = cuda.Float64(dr.gather(type(table), table, every))
        return bool(dr.all(found == cuda.Float64(first))) and int(dr.sum(cuda.Float64(table))[0]) == total

    def histogram(self, way, bins):
        dr, cuda = self.dr, self.cuda
        table = [dr.zeros(cuda.UInt, bins)]
        dr.eval(table[0])

        def add():
            dr.scatter_add(table[0], cuda.UInt(1), self.keys, mode=self.modes[way])
            dr.eval(table[0])
        self.time(add)
        return add, lambda first, total: self.holds(table[0], 1, first, total)


class Warp:
    """wp.atomic_add, one thread an add. Times by CUDA events."""

    def __init__(self):
        import numpy
        import warp as wp
        self.wp, self.numpy = wp, numpy
        wp.init()
        if not wp.is_cuda_available():
            raise RuntimeError("Warp finds no CUDA device")
        self.version = wp.config.version
        self.device = wp.get_device("cuda:0")
        self.scrub = wp.zeros(SCRUBBED // 4, dtype=float, device=self.device)
        self.kernels = {}

    def ways(self):
        return ["warp"]

    def load(self, keys):
        self.keys = self.wp.array(self.numpy.array(keys, dtype=self.numpy.int32), dtype=int, device=self.device)

    def time(self, add):
        wp = self.wp
        self.scrub.fill_(1.0)
        begin, end = (wp.Event(self.device, enable_timing=True) for _ in range(2))
        stream = wp.get_stream(self.device)
        stream.record_event(begin)
        add()
        stream.record_event(end)
        wp.synchronize_device(self.device)
        return wp.get_event_elapsed_time(begin, end)

    def kernel(self, K):
        """The kernel for K floats an add, K = 0: for counts."""
        wp = self.wp
        if K in self.kernels:
            return self.kernels[K]
        vector = wp.types.vector(length=K, dtype=float) if K > 1 else float

        def scatter(key: wp.array(dtype=int), value: wp.array(dtype=vector), table: wp.array(dtype=vector)):
            i = wp.tid()
            wp.atomic_add(table, key[i], value[i])

        def count(key: wp.array(dtype=int), table: wp.array(dtype=int)):
            i = wp.tid()
            wp.atomic_add(table, key[i], 1)
        function = scatter if K else count
        function.__name__ = function.__qualname__ = f"{function.__name__}_{K}"
        self.kernels[K] = wp.Kernel(func=function, key=function.__name__, module=wp.get_module(f"rivals_{K}")), vector
        return self.kernels[K]

    def scatter(self, _, bins, K):
        wp, numpy = self.wp, self.numpy
        kernel, vector = self.kernel(K)
        made = (numpy.arange(ADDS)[:, None] * 5 + numpy.arange(K)[None, :]) % 7
        made = made.astype(numpy.float32)
        value = wp.array(made if K > 1 else made[:, 0].copy(), dtype=vector, device=self.device)
        table = wp.zeros(bins, dtype=vector, device=self.device)

        def add():
            wp.launch(kernel, dim=ADDS, inputs=[self.keys, value, table], device=self.device)
        self.time(add)
        return add, lambda first, total: self.holds(table.numpy().reshape(-1), K, first, total)

    def holds(self, table, K, first, total):
        table = table.astype(self.numpy.int64)
        return table[::K].tolist() == first and int(table.sum()) == total

    def histogram(self, _, bins):
        wp = self.wp
        kernel, _ = self.kernel(0)
        table = wp.zeros(bins, dtype=int, device=self.device)

        def add():
            wp.launch(kernel, dim=ADDS, inputs=[self.keys, table], device=self.device)
        self.time(add)
        return add, lambda first, total: self.holds(table.numpy(), 1, first, total)


def entries(name, times, adds):
    rates = [adds / (ms * 1e-3) for ms in times]
    for aggregate, value, ms in (("median", statistics.median(rates), statistics.median(times)),
                                 ("stddev", statistics.stdev(rates), statistics.stdev(times))):
        yield {"name": f"{name}_{aggregate}", "aggregate_name": aggregate, "adds_per_second": value,
               "real_time": ms * 1e3, "time_unit": "us"}


def measure(rival, deadline, found):
    for exponent in (0, 1, 2):
        for bins in BINS + (1024,):
            keys = None
            for what, K in [("histogram", 1)] * (bins in BINS) + [("scatter", K) for b, K in SCATTERS if b == bins]:
                for way in rival.ways():
                    if time.monotonic() > deadline:
                        raise TimeoutError("the time is used up: the rest is not measured")
                    if keys is None:
                        keys = keys_of(bins, exponent)
                        rival.load(keys)
                    name = f"whole/{what}/{way}/K:{K}/bins:{bins}/exponent:{exponent}/sorted:0"
                    # The preparation adds once, which the check uses and which compiles.
                    if what == "histogram":
                        add, holds = rival.histogram(way, bins)
                        expected = expected_counts(keys, bins)
                    else:
                        add, holds = rival.scatter(way, bins, K)
                        expected = expected_sums(keys, bins, K)
                    if not holds(*expected):
                        raise ArithmeticError(f"{name}: wrong sums")
                    found += entries(name, [rival.time(add) for _ in range(REPETITIONS)], ADDS * K)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="the JSON file; else standard output")
    parser.add_argument("--seconds", type=float, default=40, help="of each rival; the rest is left out")
    options = parser.parse_args()
    context, found = {}, []
    for name, kind in (("drjit", DrJit), ("warp", Warp)):
        try:
            rival = kind()
            context[name] = rival.version
            measure(rival, time.monotonic() + options.seconds, found)
        except Exception as error:  # a rival that fails must not stop the other one
            context[name] = f"{context.get(name, 'skipped')}: {type(error).__name__}: {error}"
            print(f"{name}: {context[name]}", file=sys.stderr)
    report = json.dumps({"context": context, "benchmarks": found}, indent=1)
    if options.out:
        with open(options.out, "w") as file:
            file.write(report)
    else:
        print(report)


if __name__ == "__main__":
    main()
