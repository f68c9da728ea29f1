# SPDX-License-Identifier: MIT
"""What torch expects of an operator, of rasterization()."""
import math
import unittest
from unittest import mock

import scenes
import torch
from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer
from on_torch import DEVICE, NAMES, gradients, render, setUpModule, tensors  # noqa: F401
from scenes import relative

import distwar
from distwar import _frame, _stages


class Operator(unittest.TestCase):
    def test_compiled(self):
        """The calls break the graph, and give what they give without torch.compile."""
        def by_package(s, colors):
            image, alphas, meta = distwar.rasterization(s["means"], s["quats"], s["scales"], s["opacities"] * 1, colors,
                                                        s["viewmats"], s["Ks"], 40, 33, packed=False)
            return image * 1, alphas, meta["means2d"]

        def by_compat(s, colors):
            screen = torch.zeros_like(s["means"], requires_grad=True)
            return GaussianRasterizer(settings)(s["means"] * 1, screen, s["opacities"][:, None], None, colors, s["scales"],
                                                s["quats"])[0] * 1, screen
        s = tensors(scenes.scene())
        eye = torch.eye(4, device=DEVICE)
        settings = GaussianRasterizationSettings(33, 40, 0.5, 0.5, torch.ones(3, device=DEVICE), 1.0, eye, eye, 0, eye[0, :3])
        with torch.no_grad():
            s["means"][:, 2] += 3
        for call in by_package, by_compat:
            found = []
            for run in call, torch.compile(call, backend="aot_eager"):
                image, *others = run(s, s["colors"] * 2)
                image.backward(torch.linspace(0, 1, image.numel(), device=DEVICE).view(image.shape))
                found.append([image.detach(), *(s[name].grad for name in NAMES)])
                for name in NAMES:
                    s[name].grad = None
            for a, b in zip(*found):
                self.assertEqual(a is None, b is None)
                self.assertTrue(a is None or relative(b, a) < 1e-5)
        with self.assertRaisesRegex(NotImplementedError, "vmap"):
            torch.func.vmap(lambda means: render(dict(s, means=means))[0])(s["means"].detach()[None])

    def test_second_derivatives_are_refused(self):
        s = tensors(scenes.scene())
        grad, = torch.autograd.grad((render(s)[0]**2).sum(), s["means"], create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "no second derivatives"):
            grad.sum().backward()

    def test_autocast_leaves_float32(self):
        s = tensors(scenes.scene(), names=())
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            colors, alphas, _ = render(s)
        self.assertEqual(colors.dtype, torch.float32)
        self.assertTrue(torch.equal(colors, render(s)[0]))

    def test_other_inputs(self):
        s = tensors(scenes.scene(), names=())
        expected = render(s)[0]
        strided = dict(s, means=s["means"].t().contiguous().t(), quats=torch.cat((s["quats"],) * 2, 1)[:, 4:],
                       scales=torch.cat((s["scales"][:1], s["scales"]))[1:])
        self.assertTrue(torch.equal(render(strided)[0], expected))
        cameras = {name: s[name].cpu() for name in ("viewmats", "Ks")}
        for form in (torch.clone, torch.Tensor.double, lambda a: a.mT.contiguous().mT,
                     lambda a: torch.cat((a, a), -1)[..., a.shape[-1]:]):
            self.assertTrue(torch.equal(render(dict(s, **{k: form(a) for k, a in cameras.items()}))[0], expected))
        moved, other = dict(s, viewmats=cameras["viewmats"].clone()), s["viewmats"].clone()
        other[:, 0, 3] += 0.1
        render(moved)
        moved["viewmats"].numpy()[:] = other.cpu().numpy()  # torch counts no new version
        self.assertTrue(torch.equal(render(moved)[0], render(dict(s, viewmats=other))[0]))

    def test_gradients_that_are_not_wanted(self):
        s = tensors(scenes.scene(), names=("opacities",))
        render(s)[1].sum().backward()
        self.assertGreater(float(s["opacities"].grad.norm()), 0)
        with torch.no_grad():
            self.assertFalse(render(tensors(scenes.scene()))[0].requires_grad)

    def test_saved_tensors_may_move(self):
        expected, originals = gradients(tensors(scenes.scene(degree=1)), render_mode="RGB+ED")[0], []

        def pack(tensor):
            if tensor.dim() == 1 and len(tensor) > 1000:  # the memory of the lists
                originals.append(tensor)
            return tensor.clone()

        def unpack(copy):
            for tensor in originals:
                tensor.zero_()
            return copy
        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            moved, _ = gradients(tensors(scenes.scene(degree=1)), render_mode="RGB+ED")
        self.assertTrue(originals)
        for name in NAMES:
            self.assertLess(relative(moved[name].cpu(), expected[name].cpu()), 1e-5, name)

    def test_deterministic(self):
        runs = []
        for deterministic in (False, True, True):
            with mock.patch.object(distwar, "deterministic", deterministic):
                runs.append(gradients(tensors(scenes.scene(count=200)))[0])
        for name in NAMES:
            self.assertTrue(torch.equal(runs[1][name], runs[2][name]), name)
            self.assertLess(relative(runs[1][name], runs[0][name]), 1e-4, name)

    def test_lists_grow_and_shrink(self):
        for count in (5000, 10, 0, 20000, 10):
            s = scenes.scene(count=count, size=(200, 150))
            s["scales"] = s["scales"] * 3
            t = tensors(s)
            colors, alphas, _ = render(t)
            (colors.sum() + alphas.sum()).backward()
            self.assertTrue(bool(torch.isfinite(colors).all() and torch.isfinite(t["means"].grad).all()))
            self.assertEqual((float(colors.detach().abs().sum()) > 0, t["means"].grad.shape), (count > 0, (count, 3)))

    def test_lists_grow_in_steps(self):
        """Lists get memory anew where they grow. That must not happen in every step of a scene that grows."""
        _stages._settled.clear()
        s, library = tensors(scenes.scene(count=300, size=(160, 120)), names=()), distwar.library()
        s["scales"] *= 0.3
        with mock.patch.object(_frame, "captures", lambda _: True), self.assertRaisesRegex(RuntimeError, "before a CUDA graph"):
            render(s)
        calls, capacities, run = [], [], library.gs_bin
        with mock.patch.object(library, "gs_bin", lambda *of: calls.append(1) or run(*of)):
            for _ in range(40):
                s["scales"] *= 1.07
                grown = render(s)
                capacities += [last[0][0] for last in _stages._settled.values()]
            allocated = []
            for _ in range(10):
                same = render(s)
                allocated += [torch.cuda.memory_stats()["num_device_alloc"] if DEVICE == "cuda" else 0]
        self.assertEqual(allocated[0], allocated[-1])
        self.assertTrue(torch.equal(grown[0], same[0]))
        self.assertEqual(len(capacities), 40)
        self.assertGreater(capacities[-1], 2 * capacities[0])
        steps = sum(a != b for a, b in zip(capacities, capacities[1:]))
        self.assertLessEqual(steps, math.ceil(math.log(capacities[-1] / capacities[0], 10 / 9)))
        self.assertEqual(len(calls), 51)  # the first pass only counts
        s["scales"] *= 0.1
        for _ in range(_stages._OLD):
            render(s)
        (smaller, *_), = _stages._settled.values()
        self.assertLess(smaller[0], capacities[-1] // 2)

    @unittest.skipUnless(DEVICE == "cuda", "needs a GPU")
    def test_graph_capture(self):
        s = tensors(scenes.scene(count=5000, size=(300, 200)), names=())
        render(s)  # the lists' memory has its size, all kernels are loaded
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            colors, _, meta = render(s)
        for change in (1, 0.7):
            s["scales"] *= change
            graph.replay()
            expected, _, of_expected = render(s)
            self.assertTrue(torch.equal(colors, expected))
            self.assertTrue(torch.equal(meta["radii"], of_expected["radii"]))
        s["scales"] *= 20  # more pairs than the lists have room for
        graph.replay()
        self.assertTrue(bool(colors.isnan().all()))

    @unittest.skipUnless(DEVICE == "cuda", "needs a GPU")
    def test_a_step_in_a_graph(self):
        """Forward, loss, backward and Adam, captured once and replayed, end where the same steps do one by one."""
        names = NAMES[:5]
        target = (torch.rand(1, 200, 300, 3, device=DEVICE) * 255).byte()

        def training():
            s = tensors(scenes.scene(count=5000, size=(300, 200)), names=names)
            s.update(viewmats=s["viewmats"].cpu(), Ks=s["Ks"].cpu())
            optimizer = torch.optim.Adam([s[name] for name in names], lr=1e-4, fused=True, capturable=True)

            def step():
                optimizer.zero_grad()
                distwar.l1_ssim_loss(render(s)[0], target).backward()
                optimizer.step()
            return s, step
        distwar.deterministic = True
        self.addCleanup(setattr, distwar, "deterministic", False)
        eager, step = training()
        for _ in range(8):
            step()
        graphed, step = training()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        for _ in range(5):
            graph.replay()
        for name in names:
            self.assertLess(relative(graphed[name], eager[name]), 1e-6, name)


if __name__ == "__main__":
    unittest.main()
