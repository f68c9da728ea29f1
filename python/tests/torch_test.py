# SPDX-License-Identifier: MIT
"""rasterization() on torch tensors, on the device of the library: against numpy's path on the CPU, what density control
reads, and the loss."""
import gc
import unittest
import weakref
from unittest import mock

import numpy as np
import scenes
import torch
from on_torch import DEVICE, NAMES, formulas, gradients, render, setUpModule, tensors  # noqa: F401
from scenes import relative

import distwar
from distwar import _stages
from distwar._tensors import stream_of

distwar.gsplat_version = (1, 5)  # whatever is installed


class Values(unittest.TestCase):
    def check(self, s, formula=lambda c, a, d, s: c, names=NAMES, turn=lambda s: s, on_host=False, **options):
        """Images and all gradients against the formulas'. names: of arrays with gradients; turn(s): what kernels make of them."""
        t = tensors(s, names)
        for name in ("viewmats", "Ks") if on_host else ():
            t[name] = t[name].detach().cpu().requires_grad_()
        theirs = {name: a.detach().cpu().double().requires_grad_(name in names) if isinstance(a, torch.Tensor) else a
                  for name, a in t.items()}
        views, count = len(s["viewmats"]), len(s["means"])
        screens = torch.zeros(views, count, s["height"], s["width"], 2, dtype=torch.float64, requires_grad=True)
        of_views = zip(*(formulas(turn(theirs), view, K, options.get("eps2d", 0.3), "rasterize_mode" in options, screen)
                         for view, K, screen in zip(theirs["viewmats"], theirs["Ks"], screens)))
        color, alpha, depth, *_ = (torch.stack(of) for of in of_views)
        colors, alphas, meta = render(t, **options)
        meta["means2d"].retain_grad()
        self.assertEqual((meta["radii"].dtype, meta["radii"].shape), (torch.int32, (views, count, 2)))
        pairs = (colors, formula(color, alpha, depth, theirs)), (alphas, alpha[..., None])
        generator, losses = torch.Generator().manual_seed(3), [0, 0]
        for a, b in pairs:
            self.assertLess(relative(a, b), 1e-5)
            d = torch.randn(b.shape, generator=generator)
            losses = [loss + (of * d.to(of)).sum() for loss, of in zip(losses, (a, b))]
        for loss in losses:
            loss.backward()
        for name in names:
            d, expected = t[name].grad, theirs[name].grad
            self.assertEqual(d.device, t[name].device)
            if name == "viewmats":  # moves and rotations; other entries may differ
                self.assertEqual(float(d[:, 3].abs().sum()), 0)
                turns = [of[:, :3, :3].cpu() @ t[name].detach()[:, :3, :3].cpu().mT.to(of.dtype) for of in (d, expected)]
                self.assertLess(relative(*(of - of.mT for of in turns)), 1e-4, (name, options))
                d, expected = d[:, :3, 3], expected[:, :3, 3]
            self.assertLess(relative(d, expected), 1e-4, (name, options))
        self.assertLess(relative(meta["means2d"].grad, screens.grad.sum((2, 3))), 1e-4)
        if "absgrad" in options:
            self.assertLess(relative(meta["means2d"].absgrad, screens.grad.abs().sum((2, 3))), 1e-4)

    def test_as_the_formulas(self):
        def blended(c, a, d, s):
            return c + (1 - a)[..., None] * s["backgrounds"]

        def with_depth(c, a, d, s):
            return torch.cat((c, d[..., None]), -1)

        def exp(s):
            return dict(s, scales=s["scales"].exp(), opacities=s["opacities"].sigmoid())
        logs, s = scenes.raw(scenes.scene(cameras=2)), scenes.scene()
        covars = dict(s, covars=scenes.covariances(s["quats"], s["scales"]).astype("float32"), quats=None, scales=None)
        self.check(scenes.scene(cameras=2), absgrad=True)
        self.check(scenes.scene(cameras=2), absgrad=True, names=NAMES[:5])
        self.check(scenes.scene(), absgrad=True, on_host=True)
        self.check(scenes.scene(), absgrad=True, names=NAMES[:5])
        self.check(scenes.ortho(scenes.scene(cameras=2)))
        self.check(scenes.scene(cameras=2, channels=6))
        self.check(scenes.scene(degree=1), with_depth, render_mode="RGB+D", rasterize_mode="antialiased")
        self.check(logs, turn=exp, activated=False)
        self.check(logs, turn=exp, activated=False, rasterize_mode="antialiased", eps2d=0.1)
        self.check(covars, names=("means", "covars", "opacities", "colors", "viewmats"))
        more = scenes.scene(degree=1)  # than the degree has
        self.check(dict(more, colors=np.concatenate((more["colors"], np.full((40, 21, 3), 9, "float32")), 1)))
        self.check(dict(scenes.scene(), backgrounds=np.full((1, 3), 0.5, "float32")), blended, names=(*NAMES, "backgrounds"))

    def test_constants_apart(self):
        for degree, options in (0, {}), (1, {}), (3, {}), (3, dict(radius_clip=0.1)):
            s, t = (tensors(scenes.scene(degree=degree, cameras=2)) for _ in range(2))
            parts = [a.detach().clone().requires_grad_() for a in (t["colors"][:, :1], t["colors"][:, 1:])]
            t["colors"] = tuple(parts)
            self.assertTrue(torch.equal(render(t, **options)[0], render(s, **options)[0]))
            sum(render(of, **options)[0].square().sum() for of in (s, t)).backward()
            found = torch.cat([torch.zeros_like(a) if a.grad is None else a.grad for a in parts], 1)
            for d, expected in (found, s["colors"].grad), *((t[n].grad, s[n].grad) for n in ("means", "viewmats")):
                self.assertGreater(float(expected.norm()), 0)
                self.assertLess(relative(d, expected), 1e-5)
        for wrong in (parts[0][:5], parts[1][:5]), (parts[0],):
            self.assertRaisesRegex(ValueError, "colors", render, dict(t, colors=wrong))

    def test_depth_without_colors(self):
        for mode in ("D", "ED"):
            s, other = tensors(scenes.scene(cameras=2)), tensors(scenes.scene(cameras=2))
            with_colors = render(other, render_mode=mode)[0]
            depth = render(dict(s, colors=None), render_mode=mode)[0]
            self.assertTrue(torch.equal(depth, with_colors))
            depth.square().sum().backward()
            with_colors.square().sum().backward()
            for name in ("means", "opacities"):
                self.assertLess(relative(s[name].grad, other[name].grad), 1e-5, name)
        with self.assertRaisesRegex(TypeError, "colors"):
            render(dict(s, colors=None))

    def test_radius_clip(self):
        """As without the Gaussians that are small in the image."""
        for options in (dict(), dict(packed=True), dict(absgrad=True)):
            s = tensors(scenes.scene(cameras=2))
            radii = render(s)[2]["radii"][..., 0]
            clip = float(radii.float().median())
            keep = radii > clip
            self.assertTrue(0 < int(keep.sum()) < keep.numel())
            colors, _, meta = render(s, radius_clip=clip, **options)
            meta["means2d"].retain_grad()
            colors.square().sum().backward()
            d = [s[name].grad for name in NAMES[:5]]
            if "packed" in options:
                self.assertTrue(torch.equal(meta["gaussian_ids"], torch.nonzero(keep)[:, 1]))
            else:
                self.assertTrue(torch.equal(meta["radii"][..., 0], torch.where(keep, radii, 0)))
                self.assertEqual(float(meta["means2d"].grad[~keep].abs().sum()), 0)
            t = tensors(scenes.scene(cameras=2))
            for c in range(2):
                of_camera = {name: t[name][c:c + 1] for name in ("viewmats", "Ks")}
                one = render(dict(t, opacities=t["opacities"] * keep[c], **of_camera))[0]
                self.assertLess(relative(colors[c], one[0]), 1e-6)
                one.square().sum().backward()
            for name, a in zip(NAMES[:5], d):
                self.assertLess(relative(a, t[name].grad), 1e-5, name)

    def test_leading_dimensions(self):
        one, two = tensors(scenes.scene(seed=0)), tensors(scenes.scene(seed=1))
        stacked = {name: torch.stack((one[name], two[name])).detach().requires_grad_() for name in NAMES}
        s = dict(stacked, width=40, height=33, sh_degree=None)
        colors, _, meta = render(s)
        self.assertEqual(tuple(colors.shape), (2, 1, 33, 40, 3))
        self.assertEqual(tuple(meta["means2d"].shape), (2, 1, 40, 2))
        (colors[1]**2).sum().backward()
        (render(two)[0]**2).sum().backward()
        self.assertEqual(float(s["means"].grad[0].abs().sum()), 0)
        self.assertLess(relative(s["means"].grad[1], two["means"].grad), 1e-5)


class DensityControl(unittest.TestCase):
    """What strategies read: gsplat's take meta["means2d"].grad, .absgrad, radii, sizes, and with packed the ids."""

    def test_meta_is_a_dictionary(self):
        """Also of the entries that are made when they are asked for."""
        s = tensors(scenes.scene())
        names = {"radii", "means2d", "depths", "width", "tile_size"}
        for read in (lambda meta: set(meta), lambda meta: set(meta.keys()), lambda meta: set(dict(meta)),
                     lambda meta: set({**meta}), lambda meta: {name for name, _ in meta.items()},
                     lambda meta: {name for name in names if name in meta and meta.get(name) is not None}):
            self.assertLessEqual(names, read(render(s)[2]))
        meta = render(s)[2]
        self.assertEqual(len(meta), len(meta.copy()))
        self.assertIs(meta["radii"], meta["radii"])
        self.assertIsNone(meta.get("nothing"))
        with self.assertRaises(KeyError):
            meta["nothing"]

    def test_means2d_asked_for_before_another_backward(self):
        s = tensors(scenes.scene())
        colors, _, meta = render(s)
        loss = colors.sum()
        first, = torch.autograd.grad(loss, s["means"], retain_graph=True)
        means2d = meta["means2d"]
        means2d.retain_grad()
        loss.backward(retain_graph=True)
        self.assertLess(relative(s["means"].grad, first), 1e-5)
        once = means2d.grad.clone()
        self.assertGreater(float(once.norm()), 0)
        (loss + 3 * means2d.sum()).backward()  # adds, as retain_grad() does
        self.assertLess(relative(means2d.grad, (2 * once + 3)), 1e-5)
        self.assertFalse(render(s)[2]["means2d"].retains_grad)
        colors, _, meta = render(s)
        colors.sum().backward()
        self.assertTrue(torch.equal(meta["means2d"], means2d))  # also after its backward pass

    def test_hooks_of_means2d_are_refused(self):
        colors, _, meta = render(tensors(scenes.scene()))
        meta["means2d"].register_hook(print)
        with self.assertRaisesRegex(RuntimeError, "hooks .* are not supported"):
            colors.sum().backward()

    def test_results_are_freed_with_the_last_reference(self):
        """Not when the garbage collector finds them."""
        s = tensors(scenes.scene())
        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        for options in (dict(), dict(absgrad=True), dict(packed=True)):
            results = render(s, **options)
            results[2]["means2d"].retain_grad()
            results[0].sum().backward()
            alive = [weakref.ref(a) for a in (*results, results[2]["means2d"])]
            del results
            self.assertEqual([a() is None for a in alive], [True] * 4, options)

    def test_memory_of_sorting_is_not_kept(self):
        """Nor is that of a loss and of deterministic sums; images come after it. The backward pass keeps the lists alone, and
        until the blend's adjoint is queued unless the graph is kept."""
        _stages._settled.clear()
        s, blocks, found, plan = tensors(scenes.scene(cameras=2, count=500)), [], [], _stages.Plan
        forward, backward = plan.forward, plan.project_backward
        now = distwar.library().context(stream_of(s["means"].device)).blocks
        with mock.patch.multiple(
                plan, forward=lambda *of: forward(*of[:5], lambda: found.append(len(now)) or of[5](), *of[6:]),
                project_backward=lambda *of: found.append((block() is None, len(now))) or backward(*of)), \
                mock.patch.object(distwar, "deterministic", True):
            with torch.autograd.graph.saved_tensors_hooks(lambda a: blocks.append(a) or a, lambda a: a):
                colors, alphas, _ = render(s)
            (room, *_), = _stages._settled.values()
            lists = 4 * room[0] + 8 * alphas.numel()
            block, = (a for a in blocks if a.dtype == torch.uint8)
            self.assertIn(block.nbytes, range(lists, lists + 65536))
            block = weakref.ref(block)
            blocks.clear()
            loss = distwar.l1_ssim_loss(colors, (0 * colors).byte())
            self.assertEqual(now, {})
            for kept in True, False:
                loss.backward(retain_graph=kept)
        self.assertEqual(found, [1, 1, (False, 0), (True, 0)])

    def test_a_loss_of_means2d_counts(self):
        s, found = tensors(scenes.scene()), []
        for of_colors, of_means in (1, 1), (1, 0), (0, 1):
            colors, _, meta = render(s)
            s["means"].grad = None
            (of_colors * colors.sum() + of_means * meta["means2d"].sum()).backward()
            found.append(s["means"].grad)
        self.assertLess(relative(found[1] + found[2], found[0]), 1e-5)
        self.assertGreater(float(found[2].norm()), 1)

    def test_radii_before_gsplat_1_5(self):
        s = tensors(scenes.scene(cameras=2))
        for packed in (False, True):
            by_axis = render(s, packed=packed)[2]["radii"]
            with mock.patch.object(distwar, "gsplat_version", (1, 4)):
                self.assertTrue(torch.equal(render(s, packed=packed)[2]["radii"], by_axis[..., 0]))

    def test_packed(self):
        s = scenes.scene(cameras=2)
        s["means"][5] = [50, 0, 0]
        t = tensors(s)
        colors, _, plain = render(t, absgrad=True)
        plain["means2d"].retain_grad()
        colors.sum().backward()
        grad = t["means"].grad.clone()
        t["means"].grad = None
        same, _, meta = distwar.rasterization(**t, absgrad=True)
        meta["means2d"].retain_grad()
        same.sum().backward()
        at = meta["camera_ids"], meta["gaussian_ids"]
        self.assertEqual(len(meta["means2d"]), int((plain["radii"] > 0).all(-1).sum()))
        self.assertFalse(bool((meta["gaussian_ids"] == 5).any()))
        for name in ("means2d", "radii"):
            self.assertTrue(torch.equal(meta[name], plain[name][at]), name)
        self.assertLess(relative(meta["means2d"].grad, plain["means2d"].grad[at]), 1e-5)
        self.assertLess(relative(meta["means2d"].absgrad, plain["means2d"].absgrad[at]), 1e-5)
        self.assertLess(relative(t["means"].grad, grad), 1e-5)


class Loss(unittest.TestCase):
    def test_l1_ssim(self):
        """Of any layout, and what it refuses. compat_test.py has the values."""
        image = torch.rand(20, 30, 3, device=DEVICE, requires_grad=True)
        target = (torch.rand(20, 30, 3, device=DEVICE) * 255).to(torch.uint8)
        loss = distwar.l1_ssim_loss(image, target)
        (2 * loss).backward()
        planar = image.detach().movedim(-1, 0).contiguous().movedim(0, -1).requires_grad_()  # as rasterization() has it
        for times, of in (1, (planar, target)), (2, (planar[None], target[None])):
            (2 * distwar.l1_ssim_loss(*of)).backward()
            self.assertLess(relative(planar.grad, times * image.grad), 1e-6)
        for error, text, *of in ((ValueError, "image has the shape", planar[None, None], target[None, None]),
                                 (TypeError, "target", image, image.detach()),
                                 (TypeError, "target", image[None], [image.detach()]),
                                 (ValueError, "target has the shape", image, target[:-1]),
                                 (ValueError, "2 targets for 1 views", image[None], [target, target]),
                                 (ValueError, "target has the shape", image[None], [target[:-1]]),
                                 (ValueError, "target has the shape", image[None], [target[None]])):
            with self.assertRaisesRegex(error, text):
                distwar.l1_ssim_loss(*of)

    def test_l1_ssim_of_views_is_the_mean_of_theirs(self):
        for views, height, width in (2, 20, 30), (3, 20, 30), (3, 13, 17):  # the last: images do not begin at 16 bytes
            images = torch.rand(views, 3, height, width, device=DEVICE)
            targets = (torch.rand(views, height, width, 3, device=DEVICE) * 255).to(torch.uint8)
            for layout in images.movedim(1, -1), images.movedim(1, -1).contiguous():
                one = layout.detach().clone().requires_grad_()
                each = sum(distwar.l1_ssim_loss(i, t) for i, t in zip(one, targets)) / views
                (3 * each).backward()
                for form in targets, [t.clone() for t in targets], tuple(targets):
                    together = layout.detach().clone().requires_grad_()
                    loss = distwar.l1_ssim_loss(together, form)
                    (3 * loss).backward()
                    self.assertAlmostEqual(float(loss), float(each), places=6)
                    self.assertLess(relative(together.grad, one.grad), 1e-6)


class Arguments(unittest.TestCase):
    def test_refusals(self):
        for error, text, changes in (
                *((ValueError, "sh_degree is 4, not 0 to 3", dict(sh_degree=4, colors=colors)) for colors in (
                    torch.ones(40, 25, 3, device=DEVICE), (torch.ones(40, 1, 3, device=DEVICE), torch.ones(40, 24, 3, device=DEVICE)))),
                (TypeError, "opacities", dict(opacities=np.ones(40, "float32"))),
                (TypeError, "means", dict(means=torch.ones(40, 3, dtype=torch.int32, device=DEVICE))),
                (ValueError, "quats", dict(quats=torch.ones(40, 3, device=DEVICE))),
                (NotImplementedError, "absgrad", dict(absgrad=True, colors=torch.ones(40, 33, device=DEVICE)))):
            with self.assertRaisesRegex(error, text):
                render(dict(tensors(scenes.scene()), **changes))

    def test_device(self):
        other = "cpu" if DEVICE == "cuda" else "meta"
        with self.assertRaisesRegex(RuntimeError, f"the tensors are on {other}|a CPU is asked for"):
            render(tensors(scenes.scene(), device=other))[0].sum().item()

    def test_other_types(self):
        """Gradients have the types of their arguments; those of float64 differ by the rounding of what goes in."""
        d, _ = gradients(tensors(scenes.scene()))
        for dtype, error in ((torch.float64, 1e-6), (torch.bfloat16, 0.5), (torch.float16, 0.1)):
            s = {name: a.detach().to(dtype).requires_grad_() if isinstance(a, torch.Tensor) else a
                 for name, a in tensors(scenes.scene()).items()}
            same, meta = gradients(s)
            self.assertEqual(meta["means2d"].dtype, torch.float32)
            for name in NAMES:
                self.assertEqual(same[name].dtype, dtype)
                self.assertLess(relative(same[name].double(), d[name].cpu()), error, (dtype, name))


if __name__ == "__main__":
    unittest.main()
