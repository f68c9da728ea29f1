# SPDX-License-Identifier: MIT
"""Every call on a stream of its own, on another GPU than the current one, and with inputs that are freed while the GPU
has yet to read them. On a CPU library the calls run as they are."""
import contextlib
import unittest

import scenes
import torch
from fused_ssim import fused_ssim
from on_torch import DEVICE, gradients, setUpModule, tensors  # noqa: F401
from scenes import relative

import distwar
from distwar import optim

SCENE = scenes.scene(count=3000, size=(300, 200), degree=1)
GENERATOR = torch.Generator().manual_seed(0)
SOURCE = torch.randn(3000, 8, generator=GENERATOR)
INDEX = torch.randint(0, 40, (3000,), generator=GENERATOR)
PICTURES = torch.rand(2, 1, 3, 64, 80, generator=GENERATOR)


def rasterized(late):
    s = {name: late(a) if isinstance(a, torch.Tensor) else a for name, a in tensors(SCENE, (), "cpu").items()}
    s = {name: a.requires_grad_() if isinstance(a, torch.Tensor) else a for name, a in s.items()}
    return list(gradients(s, render_mode="RGB+ED")[0].values())


def lost(late):
    image = late(PICTURES[0, 0].movedim(0, -1)).requires_grad_()
    distwar.l1_ssim_loss(image, late((PICTURES[1, 0].movedim(0, -1) * 255).byte())).backward()
    return [image.grad]


def similar(late):
    image = late(PICTURES[0]).requires_grad_()
    fused_ssim(image, late(PICTURES[1])).backward()
    return [image.grad]


def stepped(late):
    p = torch.nn.Parameter(late(SOURCE))
    p.grad = late(SOURCE.flip(0))
    optim.step([torch.optim.Adam([p], lr=0.1)], late(INDEX > 20))
    return [p.detach()]


CALLS = dict(
    rasterization=rasterized, l1_ssim_loss=lost, fused_ssim=similar, step=stepped,
    index_add=lambda late: [distwar.index_add(late(torch.zeros(40, 8)), late(INDEX), late(SOURCE))],
    deterministic=lambda late: [distwar.index_add(late(torch.zeros(40, 8)), late(INDEX), late(SOURCE), True)],
    embedding_backward=lambda late: [distwar.embedding_backward(late(SOURCE), late(INDEX), 40)],
    bincount=lambda late: [distwar.bincount(late(INDEX), late(SOURCE[:, 0]))],
    scatter_reduce=lambda late: [distwar.scatter_reduce(late(torch.zeros(40, 8)), late(INDEX), late(SOURCE), "mean")],
    segment_reduce=lambda late: [distwar.segment_reduce(late(SOURCE), late(torch.arange(0, 3001, 100)), "sum")])


class Streams(unittest.TestCase):
    def check(self, device, on=contextlib.nullcontext, sleep=0):
        """Each call with inputs that are written after a while, and that nobody holds when it returns."""
        def late(a):
            out = torch.zeros(a.shape, dtype=a.dtype, device=device)
            source = a.to(device)
            if sleep:
                torch.cuda._sleep(sleep)
            return out.copy_(source)
        for name, call in CALLS.items():
            with self.subTest(name):
                expected = call(lambda a: a.to(DEVICE, copy=True))
                if DEVICE == "cuda":
                    torch.cuda.synchronize()
                with on():
                    found = call(late)
                    for n in (40, 320, 9000, 24000, 15360, 192000) * 4:  # takes the memory that was freed
                        torch.full((n,), float("nan"), device=device)
                if DEVICE == "cuda":
                    torch.cuda.synchronize(device)
                for a, b in zip(found, expected):
                    self.assertEqual(a.device, b.device if device == DEVICE or a.is_cpu else torch.device(device))
                    self.assertLess(relative(a.cpu(), b.cpu()), 1e-4)

    def test_inputs_are_freed(self):
        self.check(DEVICE)

    @unittest.skipUnless(DEVICE == "cuda", "needs a GPU")
    def test_another_stream(self):
        """Also with the backward pass on the calling thread."""
        self.addCleanup(torch.autograd.set_multithreading_enabled, True)
        stream = torch.cuda.Stream()
        for several in (True, False):
            torch.autograd.set_multithreading_enabled(several)
            self.check("cuda", lambda: torch.cuda.stream(stream), 2000000)

    @unittest.skipUnless(DEVICE == "cuda" and torch.cuda.device_count() > 1, "needs two GPUs")
    def test_another_device(self):
        self.check("cuda:1")

    def test_tensors_of_two_devices(self):
        other, s = "cpu" if DEVICE == "cuda" else "meta", tensors(SCENE)
        source, index, out = SOURCE.to(DEVICE), INDEX.to(DEVICE), torch.zeros(40, 8, device=DEVICE)
        image, p = PICTURES[0, 0].movedim(0, -1).to(DEVICE), torch.nn.Parameter(source)
        p.grad = source.clone()
        for text, call, *of in (
                *((f"{name} is on {other}", lambda name: distwar.rasterization(**dict(s, **{name: s[name].to(other)})), name)
                  for name in ("quats", "opacities", "colors")),
                (f"index is on {other}", distwar.index_add, out, index.to(other), source),
                (f"source is on {other}", distwar.scatter_reduce, out, index, source.to(other), "mean"),
                (f"target is on {other}", distwar.l1_ssim_loss, image, image.byte().to(other)),
                ("as visible has", optim.step, [torch.optim.Adam([p])], (index > 20).to(other))):
            with self.assertRaisesRegex(ValueError, text):
                call(*of)


if __name__ == "__main__":
    unittest.main()
