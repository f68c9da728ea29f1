#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time on the host of distwar.rasterization() and of its adjoint, in microseconds.

    python benchmarks/python_host_time.py [--rounds 200] [--count 200] [--size 64] [--profiled idle] > times.json

Situations: `idle`, the GPU has nothing to do before each call; `one_thread`, the same with the backward pass on the
thread that calls it (torch.autograd.set_multithreading_enabled); `loop`, calls follow each other; `training`, with a
loss and Adam. For each: medians and the fastest tenth of a forward and a backward call by the clock, of the part of it
inside libdistwar_gs (which launches kernels and waits for the length of the lists), and of an autograd.Function (of two) that
only allocates what a frame needs. By torch's profiler, of a frame and of one such Function: the host's time of a
forward call and of the nodes of the backward pass, the calls of the CUDA runtime in them, and the time of the kernels."""
import argparse
import contextlib
import json
import sys
import time

import torch

import distwar

SITUATIONS = ("idle", "one_thread", "loop", "training")
NODES = ("_Frame", "_Render", "_Project", "Empty")


def scene(count, size):
    generator = torch.Generator().manual_seed(0)

    def uniform(*shape):
        return torch.rand(shape, generator=generator)
    device = "cuda" if distwar.library().backend == "cuda" else "cpu"
    extent = 0.3 * (200 / count)**0.5 if size < 256 else 0.02
    p = dict(means=uniform(count, 3) * 2 - 1, quats=uniform(count, 4) * 2 - 1,
             scales=extent * (0.5 + uniform(count, 3)), opacities=0.1 + 0.8 * uniform(count), colors=uniform(count, 3))
    p = {name: torch.nn.Parameter(a.to(device)) for name, a in p.items()}
    viewmat, K = torch.eye(4), torch.tensor([[float(size), 0, size / 2], [0, size, size / 2], [0, 0, 1]])
    viewmat[2, 3] = 3
    return p, dict(viewmats=viewmat[None], Ks=K[None], width=size, height=size, packed=False), device


class Empty(torch.autograd.Function):
    """Allocates what a frame does, and launches nothing."""

    @staticmethod
    def forward(ctx, size, *tensors):
        ctx.save_for_backward(*tensors)
        return tensors[0].new_empty((1, size, size, 3)), tensors[0].new_empty((1, size, size, 1))

    @staticmethod
    def backward(ctx, *_):
        return None, *(torch.empty_like(t) for t in ctx.saved_tensors)


class EmptyFirst(Empty):
    @staticmethod
    def forward(ctx, *tensors):
        ctx.save_for_backward(*tensors)
        return tensors[0].new_empty((1, len(tensors[0]), 12)), tensors[0].new_empty((1, len(tensors[0]), 2))

    @staticmethod
    def backward(ctx, *_):
        return tuple(torch.empty_like(t) for t in ctx.saved_tensors)


class InLibgs:
    """The time in calls of libdistwar_gs."""

    def __init__(self):
        self.library, self.total = distwar.library(), 0
        for name in [n for n in vars(self.library) if n.startswith("gs_")]:
            setattr(self.library, name, self.timed(getattr(self.library, name)))

    def timed(self, call):
        def run(*arguments):
            begin = time.perf_counter_ns()
            result = call(*arguments)
            self.total += time.perf_counter_ns() - begin
            return result
        run.argtypes = call.argtypes
        return run

    def take(self):
        total, self.total = self.total, 0
        return total / 1e3


def summary(times):
    times = sorted(times)
    return dict(median=round(times[len(times) // 2], 1), fastest_tenth=round(times[len(times) // 20], 1),
                least=round(times[0], 1))


class Situation:
    def __init__(self, name, forward, params, device):
        self.name, self.forward, self.params, self.device = name, forward, params, device
        self.waits = name in ("idle", "one_thread")
        self.optimizer = torch.optim.Adam(params.values(), lr=1e-5, fused=device == "cuda")
        self.gradients = None

    def settle(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def round(self, range_of=contextlib.nullcontext, taken=lambda: 0):
        """Microseconds forward and backward, each with what `taken` counted in it."""
        if self.waits:
            self.settle()
        taken()
        begin = time.perf_counter_ns()
        with range_of("forward"):
            colors, alphas = self.forward()[:2]
        times = [(time.perf_counter_ns() - begin) / 1e3, taken()]
        roots, gradients = [colors, alphas], self.gradients
        if self.gradients is None:
            self.gradients = gradients = [torch.rand_like(a) for a in roots]
        if self.name == "training":
            roots, gradients = [(colors - 0.5).square().mean() + 0.1 * alphas.mean()], None
        if self.waits:
            self.settle()
        begin = time.perf_counter_ns()
        with range_of("backward"):
            torch.autograd.backward(roots, gradients)
        times += [(time.perf_counter_ns() - begin) / 1e3, taken()]
        if self.name == "training":
            self.optimizer.step()
        for p in self.params.values():
            p.grad = None
        return times


def threads_of(name):
    """Of torch's engine in a situation."""
    return torch.autograd.set_multithreading_enabled(name != "one_thread")


def by_the_clock(situation, rounds, taken=lambda: 0):
    for _ in range(20):
        situation.round()
    columns = list(zip(*(situation.round(taken=taken) for _ in range(rounds))))
    situation.settle()
    return {name: summary(column) for name, column in zip(("forward", "forward_in_libgs", "backward",
                                                           "backward_in_libgs"), columns) if any(column)}


def by_the_profiler(situation, rounds):
    from torch.profiler import ProfilerActivity, profile, record_function
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (situation.device == "cuda")
    with profile(activities=activities) as recorded:
        for _ in range(rounds):
            situation.round(record_function)
        situation.settle()
    events = recorded.events()

    def each(match):
        return [e for e in events if e.device_type == torch.autograd.DeviceType.CPU and match(e.name)]

    def inside(ranges, found):
        starts, out, k = sorted(ranges, key=lambda e: e.time_range.start), [], 0
        found = sorted(found, key=lambda e: e.time_range.start)
        for r in starts:
            while k < len(found) and found[k].time_range.start < r.time_range.start:
                k += 1
            total = 0
            while k < len(found) and found[k].time_range.start < r.time_range.end:
                total, k = total + found[k].cpu_time_total, k + 1
            out.append(total)
        return out
    runtime = each(lambda name: name.startswith("cuda") or name.startswith("cu"))
    forward = each(lambda name: name == "forward")
    nodes = each(lambda name: name.startswith("autograd::engine::evaluate_function: ") and
                 name.split(": ")[1].startswith(NODES))
    per = max(1, len(nodes) // rounds)
    nodes.sort(key=lambda e: e.time_range.start)
    groups = [nodes[k:k + per] for k in range(0, len(nodes), per)]
    in_nodes = inside(nodes, runtime)
    out = dict(forward=summary([e.cpu_time_total for e in forward]), forward_runtime=summary(inside(forward, runtime)),
               backward=summary([e.cpu_time_total for e in each(lambda name: name == "backward")]),
               backward_nodes=summary([sum(e.cpu_time_total for e in group) for group in groups]),
               backward_runtime=summary([sum(in_nodes[k:k + per]) for k in range(0, len(nodes), per)]))
    kernels = [e for e in events if e.device_type == torch.autograd.DeviceType.CUDA]
    if kernels:
        out["kernels_a_round"] = round(sum(e.time_range.elapsed_us() for e in kernels) / rounds, 1)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in dict(rounds=200, count=200, size=64).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--profiled", nargs="*", choices=SITUATIONS, default=SITUATIONS,
                        help="situations for the profiler, which takes most of the time")
    o = parser.parse_args()
    params, view, device = scene(o.count, o.size)

    def frame():
        return distwar.rasterization(params["means"], params["quats"], params["scales"], params["opacities"],
                                     params["colors"], **view)

    def one():
        return Empty.apply(o.size, *params.values())

    def two():
        return Empty.apply(o.size, *EmptyFirst.apply(*params.values()))
    out = dict(torch=torch.__version__, device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
               count=o.count, size=o.size)
    calls = dict(frame=frame, one_empty_function=one, two_empty_functions=two)
    for name in SITUATIONS:
        with threads_of(name):
            out[name] = {label: by_the_clock(Situation(name, forward, params, device), o.rounds)
                         for label, forward in calls.items()}
            for label, forward in dict(profiler=frame, profiler_of_one_empty_function=one).items():
                if name not in o.profiled:
                    continue
                try:
                    out[name][label] = by_the_profiler(Situation(name, forward, params, device), o.rounds)
                except Exception as error:  # the profiler is not everywhere
                    out[name][label] = f"{type(error).__name__}: {error}"
    inner = InLibgs()
    for name in SITUATIONS:
        with threads_of(name):
            times = by_the_clock(Situation(name, frame, params, device), o.rounds, inner.take)
        out[name]["in_libgs"] = {key: value for key, value in times.items() if key.endswith("in_libgs")}
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
