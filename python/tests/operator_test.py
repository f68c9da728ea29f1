# SPDX-License-Identifier: MIT
"""What torch expects of an operator, of rasterization()."""
import importlib.util
import math
import unittest

import scenes
import torch
from on_torch import DEVICE, NAMES, gradients, render, setUpModule, tensors  # noqa: F401
from scenes import relative

import distwar
from distwar import _stages


class Operator(unittest.TestCase):
    def compiled(self, backend):
        s = tensors(scenes.scene())
        expected, _ = gradients(s)
        for name in NAMES:
            s[name].grad = None

        def render_of(means, quats, scales, opacities, colors, viewmats, Ks):
            image, alphas, meta = distwar.rasterization(means, quats, scales, opacities, colors, viewmats, Ks, 40, 33,
                                                        packed=False)
            return image * 1, alphas, meta["means2d"]
        import torch._dynamo
        torch._dynamo.config.capture_dynamic_output_shape_ops = True  # fullgraph implies it in later versions than 2.4
        run = torch.compile(render_of, fullgraph=True, backend=backend)
        image, alphas, means2d = run(*(s[name] for name in NAMES))
        generator = torch.Generator().manual_seed(3)
        d_colors, d_alphas = (torch.randn(a.shape, generator=generator).to(a) for a in (image, alphas))
        ((image * d_colors).sum() + (alphas * d_alphas).sum()).backward()
        for name in NAMES:
            self.assertLess(relative(s[name].grad.cpu(), expected[name].cpu()), 1e-5, name)

    def test_compiles_whole(self):
        self.compiled("aot_eager")

    def test_compiles_whole_by_inductor(self):
        needed = "triton" if DEVICE == "cuda" else "setuptools"
        if importlib.util.find_spec(needed) is None:
            self.skipTest(f"there is no {needed}, which inductor needs")
        self.compiled("inductor")

    def test_opcheck(self):
        s = tensors(scenes.scene(), names=NAMES[:5])
        scene = [s[name] for name in NAMES[:5]] + [None, s["viewmats"], s["Ks"]]
        arguments = (*scene, [40, 33, -1, 0, 0, 1], [0.01, 1e10, 0.3])
        tests = ("test_schema", "test_autograd_registration", "test_faketensor")
        torch.library.opcheck(torch.ops.distwar.project, arguments, test_utils=tests)
        splats, means2d, _, _ = torch.ops.distwar.project(*arguments)
        torch.library.opcheck(torch.ops.distwar.render, (splats.detach().requires_grad_(), means2d.detach(), None, None,
                                                         [40, 33, -1], "tree"), test_utils=tests)

    def check_logarithms(self, **options):
        """The kernels turn logarithms and logits as torch does."""
        names = ("scales", "opacities", "means", "quats")
        parameters = [tensors(scenes.scene(cameras=2)) for _ in range(2)]
        for s in parameters:
            s["scales"], s["opacities"] = (a.detach().requires_grad_() for a in (s["scales"].log(), s["opacities"].logit()))
        by_torch, own = parameters
        turned = dict(by_torch, scales=by_torch["scales"].exp(), opacities=by_torch["opacities"].sigmoid())
        images = [render(turned, **options)[0], render(own, activated=False, **options)[0]]
        self.assertLess(relative(images[1].detach().cpu(), images[0].detach().cpu()), 1e-6)
        d_image = torch.randn(images[0].shape, generator=torch.Generator().manual_seed(3)).to(DEVICE)
        for image in images:
            image.backward(d_image)
        for name in names:
            self.assertLess(relative(own[name].grad.cpu(), by_torch[name].grad.cpu()), 1e-5, name)

    def test_logarithms(self):
        self.check_logarithms()
        self.check_logarithms(rasterize_mode="antialiased", eps2d=0.1)
        distwar.means2d_in_graph = True
        self.addCleanup(setattr, distwar, "means2d_in_graph", False)
        self.check_logarithms()

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
        half = dict(s, colors=s["colors"].half().requires_grad_(), scales=s["scales"].double())
        colors, _, _ = render(half)
        self.assertLess(relative(colors.detach().cpu(), expected.cpu()), 1e-3)
        colors.sum().backward()
        self.assertEqual(half["colors"].grad.dtype, torch.float16)

    def test_gradients_that_are_not_wanted(self):
        s = tensors(scenes.scene(), names=("opacities",))
        render(s)[1].sum().backward()
        self.assertGreater(float(s["opacities"].grad.norm()), 0)
        with torch.no_grad():
            self.assertFalse(render(tensors(scenes.scene()))[0].requires_grad)

    def test_saved_tensors_may_move(self):
        expected, _ = gradients(tensors(scenes.scene(degree=1)), render_mode="RGB+ED")

        originals = []

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
        s = tensors(scenes.scene(count=200))
        usual, _ = gradients(s)
        runs = []
        distwar.deterministic = True
        try:
            for _ in range(2):
                fresh = tensors(scenes.scene(count=200))
                runs.append(gradients(fresh)[0])
        finally:
            distwar.deterministic = False
        for name in NAMES:
            self.assertTrue(torch.equal(runs[0][name], runs[1][name]), name)
            self.assertLess(relative(runs[0][name].cpu(), usual[name].cpu()), 1e-4, name)

    def test_lists_grow_and_shrink(self):
        for count in (5000, 10, 20000, 10):
            s = scenes.scene(count=count, size=(200, 150))
            s["scales"] = s["scales"] * 3
            t = tensors(s)
            colors = render(t)[0]
            colors.sum().backward()
            self.assertTrue(bool(torch.isfinite(colors).all()))
            self.assertTrue(bool(torch.isfinite(t["means"].grad).all()))

    def test_no_gaussians(self):
        s = tensors(scenes.scene(count=0))
        colors, alphas, _ = render(s)
        (colors.sum() + alphas.sum()).backward()
        self.assertEqual(float(colors.abs().sum()), 0)
        self.assertEqual(tuple(s["means"].grad.shape), (0, 3))

    def test_lists_grow_in_steps(self):
        """Lists get memory anew where they grow. That must not happen in every step of a scene that grows."""
        _stages._rooms.clear()
        s, library = tensors(scenes.scene(count=300, size=(160, 120)), names=()), distwar.library()
        s["scales"] *= 0.3
        calls, capacities, run = 0, [], library.gs_forward

        def counted(*arguments):
            nonlocal calls
            calls += 1
            return run(*arguments)
        library.gs_forward = counted
        try:
            for _ in range(40):
                s["scales"] *= 1.07
                grown = render(s)
                capacities += [room.capacity[0] for room in _stages._rooms.values()]
            if DEVICE == "cuda":
                torch.cuda.synchronize()
                before = torch.cuda.memory_stats()["num_device_alloc"]
            for _ in range(10):
                same = render(s)
            if DEVICE == "cuda":
                self.assertEqual(torch.cuda.memory_stats()["num_device_alloc"], before)
        finally:
            library.gs_forward = run
        self.assertTrue(torch.equal(grown[0], same[0]))
        self.assertEqual(len(capacities), 40)
        self.assertGreater(capacities[-1], 2 * capacities[0])
        steps = sum(a != b for a, b in zip(capacities, capacities[1:]))
        self.assertLessEqual(steps, math.ceil(math.log(capacities[-1] / capacities[0], 10 / 9)))
        self.assertEqual(calls, 50)

    def test_room_follows_what_frames_need(self):
        room, view = _stages.Room(100000), distwar.gs.View(isects_needed=300000)
        view.memory.isect_capacity, view.memory.bucket_capacity = room.capacity
        for _ in range(63):
            room.note(view)
        self.assertEqual(room.capacity, (1004096, 3004096))
        room.note(view)  # less than half of it was needed
        self.assertEqual(room.capacity, (404096, 1200832))

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
        names = ("means", "quats", "scales", "opacities", "colors")
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
            self.assertLess(relative(graphed[name].detach().cpu(), eager[name].detach().cpu()), 1e-6, name)

    @unittest.skipUnless(DEVICE == "cuda", "needs a GPU")
    def test_streams(self):
        s = tensors(scenes.scene(count=5000, size=(300, 200)), names=())
        expected = render(s)[0]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            other = render(s)[0]
        stream.synchronize()
        self.assertTrue(torch.equal(other, expected))


if __name__ == "__main__":
    unittest.main()
