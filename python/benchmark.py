#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a view costs by rasterization() and by compat's GaussianRasterizer, beside libdistwar_gs below them.

    PYTHONPATH=python:python/compat python/benchmark.py SCENE.ply CAMERAS.json [--view 0] > times.jsonl

CAMERAS.json: a transforms.json; --view: the number of its frame. A line of JSON each, per forward and backward call: `kernels`,
ms of the GPU (torch.profiler); `others`, of these what no kernel of libdistwar_gs takes; `forward` and `backward`, ms by events,
medians; `host`, microseconds until both have returned, median; `megabytes`, most above the parameters; `operators` of torch.
"""
import argparse
import json
import math
import sys
import time
from ctypes import byref

import numpy as np
import torch

sys.path.append(sys.path.pop(0))  # PYTHONPATH and what is installed come before the package beside this file
import distwar  # noqa: E402
from distwar import gs  # noqa: E402
from distwar.trainer import camera_of  # noqa: E402

DEVICE = dict(cuda="cuda", simt="cpu")[distwar.library().backend]
GPU = DEVICE == "cuda"


def read_ply(path):
    """The parameters of a scene with the original's names, as they are stored."""
    with open(path, "rb") as file:
        head = [line.split() for line in iter(file.readline, b"end_header\n")]
        names = [line[2].decode() for line in head if line[0] == b"property"]
        rows = torch.from_numpy(np.frombuffer(file.read(), "<f4").reshape(-1, len(names)).copy()).to(DEVICE)

    def take(begin, shape=(-1,)):
        return rows[:, [k for k, name in enumerate(names) if name.startswith(begin)]].unflatten(1, shape).contiguous()
    position = rows[:, [names.index(name) for name in "xyz"]].contiguous()
    return dict(means=position, quats=take("rot_"), scales=take("scale_"), opacities=take("opacity")[:, 0].contiguous(),
                sh0=take("f_dc_", (1, 3)), shN=take("f_rest_", (3, -1)).transpose(1, 2).contiguous())


def read_camera(path, view):
    """viewmat [4, 4], K [3, 3], width, height of a frame."""
    with open(path) as file:
        data = json.load(file)
    of = {**data, **data["frames"][view]}
    width, height, pose = int(of.get("w", 800)), int(of.get("h", 800)), torch.tensor(of["transform_matrix"])
    fx = of.get("fl_x") or width / 2 / math.tan(of["camera_angle_x"] / 2)
    K = torch.tensor([[fx, 0, of.get("cx", width / 2)], [0, of.get("fl_y", fx), of.get("cy", height / 2)], [0, 0, 1]])
    return torch.linalg.inv(pose @ torch.diag(torch.tensor([1.0, -1, -1, 1]))), K, width, height


def of_library(p, camera):
    """gs_forward and gs_backward on buffers that are there."""
    *_, width, height = camera
    lib, d, keep = distwar.library(), {name: torch.empty_like(a) for name, a in p.items()}, []

    def gaussians(a):
        return gs.Gaussians(count=len(a["means"]), sh_degree=3, mean=a["means"].data_ptr(), log_scale=a["scales"].data_ptr(),
                            quaternion=a["quats"].data_ptr(), opacity_logit=a["opacities"].data_ptr(), sh0=a["sh0"].data_ptr(),
                            sh=a["shN"].data_ptr())

    def array(*shape):
        keep.append(torch.empty(shape, device=DEVICE))
        return keep[-1].data_ptr()
    view = gs.View(gaussians=gaussians(p), sh_degree_used=3, image=gs.Image(array(3, height, width)),
                   camera=camera_of(*camera))
    view.camera.near_plane = 0.2
    gradient = gs.Gradient(gaussians=gaussians(d), splat_grad=array(len(p["means"]), 12))
    keep += torch.rand(3, height, width, device=DEVICE), d
    gradient.color = keep[-2].data_ptr()
    return (lambda: lib.call("gs_forward", byref(view)),
            lambda _, keep=keep: lib.call("gs_backward", byref(view), byref(gradient), lib.policies["tree"]))


def of_rasterization(p, camera):
    viewmat, K, width, height = camera
    background = torch.ones(1, 3, device=DEVICE)

    def forward():
        return distwar.rasterization(
            p["means"], p["quats"], p["scales"], p["opacities"], (p["sh0"], p["shN"]), viewmat[None], K[None], width, height,
            near_plane=0.2, sh_degree=3, packed=False, activated=False, backgrounds=background)[0]
    d = torch.rand_like(forward())
    return forward, lambda colors: colors.backward(d)


def of_compat(p, camera):
    from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer
    viewmat, K, width, height = camera
    tan, middle = (width / 2 / float(K[0, 0]), height / 2 / float(K[1, 1])), K[:2, 2] / torch.tensor([width / 2, height / 2]) - 1
    clip = torch.tensor([[1 / tan[0], 0, middle[0], 0], [0, 1 / tan[1], middle[1], 0], [0, 0, 1.01, -0.1], [0, 0, 1, 0]])
    view = viewmat.t().contiguous().to(DEVICE)
    settings = GaussianRasterizationSettings(
        height, width, *tan, torch.ones(3, device=DEVICE), 1.0, view, (viewmat.t() @ clip.t()).to(DEVICE), 3,
        torch.linalg.inv(viewmat)[:3, 3].to(DEVICE), False, False, antialiasing=False)
    leaf = {name: p[name].detach().requires_grad_() for name in ("means", "sh0", "shN")}
    leaf.update(quats=torch.nn.functional.normalize(p["quats"].detach()).requires_grad_(),
                scales=p["scales"].detach().exp().requires_grad_(),
                opacities=p["opacities"].detach().sigmoid()[:, None].requires_grad_())
    screen, d = torch.zeros_like(p["means"], requires_grad=True), torch.rand(3, height, width, device=DEVICE)

    def backward(of):
        of[0].backward(d)
        for a in (*leaf.values(), screen):
            a.grad = None
    return lambda: GaussianRasterizer(settings)(leaf["means"], screen, leaf["opacities"], leaf["shN"], None, leaf["scales"],
                                                leaf["quats"], dc=leaf["sh0"]), backward


def measure(p, forward, backward, rounds):
    wait, marks, host = torch.cuda.synchronize if GPU else lambda: None, [], []

    def mark():
        if not GPU:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def both():
        begin, first = time.perf_counter(), mark()
        of = forward()
        second = mark()
        backward(of)
        marks.append((first, second, mark()))
        host.append(1e6 * (time.perf_counter() - begin))
        for a in p.values():
            a.grad = None
    for _ in range(20 if GPU else 2):
        both()
    wait()
    before = torch.cuda.memory_allocated() if GPU else 0
    torch.cuda.reset_peak_memory_stats() if GPU else None
    marks, host = [], []
    for _ in range(rounds):
        both()
    wait()
    times = [[m[k].elapsed_time(m[k + 1]) if GPU else 1e3 * (m[k + 1] - m[k]) for m in marks] for k in (0, 1)]
    out = dict(zip(("forward", "backward", "host"), (round(sorted(of)[rounds // 2], 4) for of in (*times, host))))
    out["megabytes"] = round((torch.cuda.max_memory_allocated() - before) / 1e6, 1) if GPU else None
    of = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[of.CPU, of.CUDA] if GPU else [of.CPU]) as profile:
        for _ in range(10):
            both()
        wait()
    kernels = {}
    for event in profile.events():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            kernels[event.name] = kernels.get(event.name, 0) + event.time_range.elapsed_us() / 1e4
    others = {name[-80:]: round(ms, 4) for name, ms in kernels.items() if "at::" in name or name.startswith("Mem")}
    calls = sum(event.count for event in profile.key_averages() if event.key.startswith("aten::"))
    return dict(kernels=round(sum(kernels.values()), 4), others=others, **out, operators=calls / 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs=2, metavar="FILE")
    parser.add_argument("--view", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=200)
    o = parser.parse_args()
    p, camera = read_ply(o.files[0]), read_camera(o.files[1], o.view)
    for caller, make in dict(library=of_library, rasterization=of_rasterization, compat=of_compat).items():
        leaves = {name: torch.nn.Parameter(a) for name, a in p.items()}
        row = measure(leaves, *make(leaves, camera), o.rounds)
        print(json.dumps(dict(package=distwar.__path__[0], scene=o.files[0], caller=caller, gaussians=len(p["means"]),
                              size=camera[2:], **row)), flush=True)


if __name__ == "__main__":
    main()
