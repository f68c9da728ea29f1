#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time on the host of distwar.rasterization() and of its adjoint, in microseconds.

    python benchmarks/python_host_time.py [--rounds 200] [--count 200] [--size 64] [--calling-thread] > times.json

Situations: `idle`, the GPU has nothing to do before each call; `loop`, calls follow each other; `training`, with a loss
and Adam. For each: medians and the fastest tenth of a forward and a backward call, of the part of it inside
libdistwar_gs (which launches kernels and waits for the length of the lists), and of an autograd.Function that only
allocates what a frame needs. --calling-thread: backward() runs on its caller's thread, as
torch.autograd.set_multithreading_enabled(False) has it."""
import argparse
import json
import sys
import time

import torch

import distwar

SITUATIONS = ("idle", "loop", "training")


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


def measure(situation, forward, params, device, rounds, taken=lambda: 0):
    """Summaries of microseconds forward and backward, each with what `taken` counted in it."""
    optimizer = torch.optim.Adam(params.values(), lr=1e-5, fused=device == "cuda")
    settle = torch.cuda.synchronize if device == "cuda" else lambda: None
    gradients, columns = None, []

    def timed(call, *arguments):
        if situation == "idle":
            settle()
        taken()
        begin = time.perf_counter_ns()
        result = call(*arguments)
        return result, [(time.perf_counter_ns() - begin) / 1e3, taken()]
    for _ in range(20 + rounds): # the first 20 are to get warm
        (colors, alphas, *_), times = timed(forward)
        if gradients is None:
            gradients = [torch.rand_like(a) for a in (colors, alphas)]
        trains = situation == "training"
        loss = (colors - 0.5).square().mean() + 0.1 * alphas.mean() if trains else None
        _, more = timed(torch.autograd.backward, *(([loss], None) if trains else ([colors, alphas], gradients)))
        if trains:
            optimizer.step()
        for p in params.values():
            p.grad = None
        columns.append(times + more)
    settle()
    names = ("forward", "forward_in_libgs", "backward", "backward_in_libgs")
    return {name: summary(column) for name, column in zip(names, zip(*columns[20:])) if any(column)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in dict(rounds=200, count=200, size=64).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--calling-thread", action="store_true")
    o = parser.parse_args()
    torch.autograd.set_multithreading_enabled(not o.calling_thread)
    params, view, device = scene(o.count, o.size)

    def frame():
        return distwar.rasterization(params["means"], params["quats"], params["scales"], params["opacities"],
                                     params["colors"], **view)

    def empty():
        return Empty.apply(o.size, *params.values())
    out = dict(torch=torch.__version__, device=torch.cuda.get_device_name() if device == "cuda" else "cpu",
               calling_thread=o.calling_thread, count=o.count, size=o.size)
    for name in SITUATIONS:
        out[name] = {label: measure(name, forward, params, device, o.rounds)
                     for label, forward in dict(frame=frame, empty_function=empty).items()}
    inner = InLibgs()
    for name in SITUATIONS:
        times = measure(name, frame, params, device, o.rounds, inner.take)
        out[name]["in_libgs"] = {key: value for key, value in times.items() if key.endswith("in_libgs")}
    json.dump(out, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
