# SPDX-License-Identifier: MIT
"""The modules of python/compat, which must be first on PYTHONPATH, against rasterization() and formulas."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

import diff_gaussian_rasterization
import numpy as np
import scenes
import torch
from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer, rasterize_gaussians
from fused_ssim import fused_ssim
from on_torch import DEVICE, NAMES, formulas, setUpModule, tensors  # noqa: F401
from scenes import relative
from simple_knn._C import distCUDA2

import distwar

W, H = 40, 33
distwar.gsplat_version = (1, 5)  # whatever is installed


def scene(**options):
    s = scenes.scene(size=(W, H), **options)
    s["means"][:, 2] += 0.5
    s["Ks"][:, 0, 2], s["Ks"][:, 1, 2] = W / 2, H / 2
    return tensors(s, NAMES[:5])


def settings_of(s, **more):
    K, view = s["Ks"][0].cpu(), s["viewmats"][0].cpu()
    tan = [float(W / 2 / K[0, 0]), float(H / 2 / K[1, 1])]
    offset = [float(2 * K[0, 2] / W - 1), float(2 * K[1, 2] / H - 1)]
    clip = torch.tensor([[1 / tan[0], 0, offset[0], 0], [0, 1 / tan[1], offset[1], 0], [0, 0, 1.01, -0.1],
                         [0, 0, 1, 0]])
    center = torch.linalg.inv(view)[:3, 3]
    return GaussianRasterizationSettings(
        image_height=H, image_width=W, tanfovx=tan[0], tanfovy=tan[1],
        bg=torch.tensor([0.1, 0.2, 0.3], device=DEVICE), scale_modifier=more.pop("scale_modifier", 1.0),
        viewmatrix=view.t().to(DEVICE), projmatrix=(view.t() @ clip.t()).to(DEVICE),
        sh_degree=s["sh_degree"] or 0, campos=center.to(DEVICE), prefiltered=False, debug=False, **more)


def rasterized(s, settings, **changes):
    inputs = dict(means3D=s["means"], means2D=torch.zeros_like(s["means"], requires_grad=True),
                  opacities=s["opacities"].unsqueeze(1), scales=s["scales"], rotations=s["quats"])
    inputs["shs" if s["sh_degree"] is not None else "colors_precomp"] = s["colors"]
    inputs.update(changes)
    return inputs["means2D"], GaussianRasterizer(settings)(**inputs)


def original(s, of, settings, screen):
    """The published formulas of a scene `of`: picture, radii, and by name what may follow them. s: its arrays in double
    precision, among them covars [N, 6], or scales and quaternions."""
    s = dict(s, width=W, height=H)
    if s.get("covars") is None:
        s["scales"] = settings.scale_modifier * s["scales"]
    else:
        s["covars"] = s["covars"][:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].view(-1, 3, 3)
    color, alpha, depth, inverse, radii = formulas(
        s, *(of[name][0].detach().cpu().double() for name in ("viewmats", "Ks")), settings.kernel_size or 0.3,
        bool(settings.antialiasing or settings.kernel_size), screen)
    picture = color + (1 - alpha)[..., None] * torch.tensor((0.1, 0.2, 0.3)).double()
    return picture.movedim(-1, 0), radii, dict(inverse=inverse, depth=depth, alpha=alpha)


class Rasterizer(unittest.TestCase):
    def check(self, degree=None, covariances=False, dc=False, off_centre=0, results="", **options):
        """Picture, radii, what DISTWAR_COMPAT=results lets follow, all gradients, and those of the screen, against the
        formulas."""
        s = scene(degree=degree)
        s["Ks"][:, 0, 2] += off_centre
        leaves = {name: s[name].detach().clone().requires_grad_() for name in NAMES[:5]}
        theirs = {name: a.detach().cpu().double().requires_grad_() for name, a in leaves.items()}
        settings = settings_of(s, **options)
        if covariances:
            covars = scenes.covariances(*(leaves[name].detach().cpu().numpy() for name in ("quats", "scales")))
            covars = covars.reshape(-1, 9)[:, [0, 1, 2, 4, 5, 8]]
            for of in (leaves, theirs):
                del of["quats"], of["scales"]
                of["covars"] = torch.tensor(covars).to(of["means"]).requires_grad_()
        unit = torch.nn.functional.normalize  # as trainers give quaternions
        given = {"cov3D_precomp": leaves["covars"], "scales": None, "rotations": None} if covariances else \
            {"scales": leaves["scales"], "rotations": unit(leaves["quats"])}
        colors = {"colors_precomp" if degree is None else "shs": leaves["colors"]}
        if dc:
            colors = {"dc": leaves["colors"][:, :1], "shs": leaves["colors"][:, 1:]}
        with unittest.mock.patch.object(diff_gaussian_rasterization, "RESULTS", results):
            means2D, (picture, radii, *more) = rasterized(s, settings, means3D=leaves["means"],
                                                          opacities=leaves["opacities"][:, None], **given, **colors)
        screen = torch.zeros(len(radii), H, W, 2, dtype=torch.float64, requires_grad=True)
        of_formulas = original(theirs, s, settings, screen)
        self.assertLess(relative(picture, of_formulas[0]), 1e-5)
        seen = radii.cpu() > 0
        self.assertGreater(int(seen.sum()), 30)
        self.assertTrue(torch.equal(radii.cpu()[seen], of_formulas[1].int()[seen]))
        weights = torch.randn(3, H, W, generator=torch.Generator().manual_seed(1)), torch.rand(H, W)
        loss, expected = ((of * weights[0].to(of)).sum() for of in (picture, of_formulas[0]))
        names = ["inverse"] if options.get("antialiasing") is not None else results.split("_") if results else []
        self.assertEqual([tuple(a.shape) for a in more], [(1, H, W)] * len(names))
        for a, name in zip(more, names):
            self.assertLess(relative(a[0], of_formulas[2][name]), 1e-5, name)
            loss = loss + (a[0] * weights[1].to(a)).sum()
            expected = expected + (of_formulas[2][name] * weights[1]).sum()
        loss.backward()
        expected.backward()
        for name, a in theirs.items():
            self.assertLess(relative(leaves[name].grad, a.grad), 1e-4, (name, options))
        half = torch.tensor([W / 2, H / 2])
        self.assertLess(relative(means2D.grad[:, :2].cpu(), screen.grad.sum((1, 2)) * half), 1e-4)
        absolute = torch.zeros(len(radii))
        if settings.kernel_size:
            absolute = (screen.grad.abs().sum((1, 2)) * half).norm(dim=1)
        self.assertLess(relative(means2D.grad[:, 2].cpu(), absolute), 1e-4)

    def test_as_the_formulas(self):
        for options in (dict(off_centre=3),
                        dict(degree=1, scale_modifier=1.3, results="depth_alpha"),
                        dict(covariances=True, results="depth"),
                        dict(degree=1, antialiasing=False),
                        dict(antialiasing=True, covariances=True),
                        dict(degree=1, dc=True, antialiasing=True),
                        dict(kernel_size=0.1, subpixel_offset=torch.zeros(H, W, 2))):
            with self.subTest(**options):
                self.check(**options)

    def test_nothing_is_copied(self):
        """What torch computes for a call and its adjoint, beside the loss."""
        s = scene(degree=1)
        settings = settings_of(s, antialiasing=False)
        for warm in (True, False):
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                _, (picture, _, _) = rasterized(s, settings, means2D=None)
                for name in NAMES[:5]:
                    s[name].grad = None
                picture.backward(torch.ones_like(picture))
        counts = {event.key: event.count for event in profile.key_averages()}
        for name in ("copy_", "clone", "cat", "mul", "add", "rsub", "sum"):
            # On a GPU the host reads the matrices.
            self.assertEqual(counts.get(f"aten::{name}", 0), int(name == "copy_" and DEVICE == "cuda"), name)

    def test_backgrounds(self):
        """With a gradient of their own, and as kernels blend them."""
        s = scene()
        _, (picture, _) = rasterized(s, settings_of(s))
        background = torch.tensor([0.1, 0.2, 0.3], device=DEVICE, requires_grad=True)
        _, (same, _) = rasterized(s, settings_of(s)._replace(bg=background))
        self.assertLess(relative(same, picture), 1e-6)
        same.sum().backward()
        self.assertGreater(float(background.grad.min()), 100)

    def test_degrees_above_3(self):
        """As the original: what is beyond degree 3 does not count. pixelSplat and MVSplat call it so."""
        s = scene(degree=1)
        more = torch.cat((s["colors"].detach(), torch.rand(40, 21, 3, device=DEVICE)), 1)
        third = rasterized(s, settings_of(s)._replace(sh_degree=3), shs=more[:, :16])[1][0]
        self.assertTrue(torch.equal(rasterized(s, settings_of(s), shs=more)[1][0], rasterized(s, settings_of(s))[1][0]))
        for degree in (3, 4, 5):
            four = settings_of(s)._replace(sh_degree=degree)
            self.assertTrue(torch.equal(rasterized(s, four, shs=more)[1][0], third))
            self.assertLess(relative(rasterized(s, four, shs=more[:, 1:], dc=more[:, :1])[1][0], third), 1e-6)
        with self.assertRaisesRegex(ValueError, "K of at least 16"):
            rasterized(s, settings_of(s)._replace(sh_degree=4), shs=more[:, :7])

    def test_the_switch(self):
        program = "import diff_gaussian_rasterization as of; print(of.RESULTS, 'SparseGaussianAdam' in dir(of))"
        for value, flag, out, error in (("depth", "", "depth True", ""), ("", "--convert_SHs_python", "False", ""),
                                        ("depths", "", "", "DISTWAR_COMPAT is 'depths', not one of")):
            run = subprocess.run([sys.executable, "-c", program, flag], env=dict(os.environ, DISTWAR_COMPAT=value), text=True,
                                 capture_output=True)
            self.assertEqual(run.stdout.strip(), out)
            self.assertIn(error, run.stderr)
        s = scene()
        _, (_, _, inverse) = rasterized(s, settings_of(s, antialiasing=False))
        with unittest.mock.patch.object(diff_gaussian_rasterization, "RESULTS", "depth_alpha"), \
                self.assertWarnsRegex(UserWarning, "the inverse depth"):
            _, (_, _, same) = rasterized(s, settings_of(s, antialiasing=False))
        self.assertTrue(torch.equal(same, inverse))

    def test_what_is_in_view(self):
        s = scene()
        with torch.no_grad():
            s["means"][3, 2], s["means"][5, 0] = -10, 100
        of = GaussianRasterizer(settings_of(s))
        radii = of.visible_filter(means3D=s["means"], scales=s["scales"], rotations=s["quats"], cov3D_precomp=None)
        self.assertEqual((radii.dtype, radii.requires_grad), (torch.int32, False))
        self.assertEqual(torch.nonzero(radii == 0).flatten().tolist(), [3, 5])
        self.assertEqual(torch.nonzero(~of.markVisible(s["means"].detach())).flatten().tolist(), [3])
        s = scene(count=0)
        means2D, (picture, radii) = rasterized(s, settings_of(s))
        self.assertTrue((picture == settings_of(s).bg[:, None, None]).all())
        picture.sum().backward()
        self.assertEqual([len(a) for a in (radii, means2D.grad, s["means"].grad)], [0, 0, 0])

    def test_a_module_of_torch(self):
        """Where somebody asks for one."""
        s, calls = scene(), []
        of = GaussianRasterizer(settings_of(s))
        of.register_forward_hook(lambda *_: calls.append(1))
        given = dict(means3D=s["means"], means2D=None, opacities=s["opacities"][:, None], colors_precomp=s["colors"],
                     scales=s["scales"], rotations=s["quats"])
        picture = torch.nn.Sequential(of).eval()[0](**given)[0]
        self.assertTrue(torch.equal(picture, GaussianRasterizer(settings_of(s))(**given)[0]))
        self.assertEqual((calls, of.training, list(of.parameters())), ([1], False, []))

    def test_relocation(self):
        """As 3dgs-mcmc calls it. density_test.py has the values."""
        opacity, scale = torch.rand(20, 1, device=DEVICE) * 0.9, torch.rand(20, 3, device=DEVICE)
        ratio, binoms = torch.arange(1, 21, device=DEVICE, dtype=torch.int32), distwar.density.binomials(60, DEVICE)
        found = diff_gaussian_rasterization.compute_relocation(opacity, scale, ratio, binoms, 51)
        shared, scales = distwar.density.compute_relocation(opacity[:, 0], scale, ratio, binoms)
        self.assertTrue(torch.equal(found[0], shared[:, None]) and torch.equal(found[1], scales))

    def test_trainers(self):
        """Each row of python/README.md's table of the original's family: its list of arguments, and how many results or what
        the refusal says."""
        s = scene(degree=1)
        plain = settings_of(s)
        shs, rest = dict(shs=s["colors"]), dict(shs=s["colors"][:, 1:], dc=s["colors"][:, :1])
        colors = dict(colors_precomp=torch.rand(40, 3, device=DEVICE), shs=None)

        def run(settings=dict(), results="", **arguments):
            with unittest.mock.patch.object(diff_gaussian_rasterization, "RESULTS", results):
                return len(rasterized(s, settings_of(s, **settings), **{**shs, **arguments})[1])
        self.assertEqual(run(), 2)  # the original's first version, Scaffold-GS, SuGaR
        self.assertEqual(run(dict(antialiasing=False)), 3)
        self.assertEqual(run(dict(antialiasing=True), **rest), 3)  # 3dgs_accel
        self.assertEqual(run(dict(kernel_size=0.1, subpixel_offset=torch.zeros(H, W, 2)), **colors), 2)  # mip-splatting
        for trainer in ("3dgs-mcmc", "4DGaussians", "SplaTAM", "Dynamic3DGaussians"):
            self.assertEqual(run(results="depth", **(colors if "D" not in trainer[:2] else {})), 3, trainer)
        self.assertEqual(run(results="depth_alpha"), 4, "DreamGaussian")
        self.assertEqual(len(rasterized(s, plain._replace(viewmatrix=plain.viewmatrix[None],
                                                          projmatrix=plain.projmatrix[None]))[1]), 2)
        for trainer, call, name in (
                ("Taming-3DGS", lambda: run(dict(pixel_weights=None)), "pixel_weights"),
                ("MonoGS", lambda: run(theta=torch.zeros(1, 3), rho=torch.zeros(1, 3)), "theta"),
                ("MonoGS", lambda: run(dict(projmatrix_raw=None)), "projmatrix_raw"),
                ("gaussian-opacity-fields", lambda: run(dict(kernel_size=0.0), view2gaussian_precomp=None), "view2gaussian"),
                ("gaussian-opacity-fields", lambda: GaussianRasterizer(plain).integrate(0), "integrate"),
                ("Deformable-3D-Gaussians", lambda: run(means2D_densify=None), "means2D_densify"),
                ("gaussian-grouping", lambda: run(sh_objs=None), "sh_objs"),
                ("feature-3dgs", lambda: run(semantic_feature=None), "semantic_feature"),
                ("LightGaussian", lambda: run(dict(f_count=False)), "f_count"),
                ("RaDe-GS", lambda: run(dict(kernel_size=0.0, require_coord=True, require_depth=True)), "require_coord"),
                ("README", lambda: run(of_nobody=1), "of_nobody")):
            with self.assertRaisesRegex(NotImplementedError, f"{name}.*{trainer}", msg=trainer):
                call()
        with self.assertRaisesRegex(ImportError, "has no _C; python/README.md"):
            from diff_gaussian_rasterization import _C  # noqa: F401
        with self.assertRaises(AttributeError):
            GaussianRasterizer(plain).nothing
        page = (pathlib.Path(__file__).parents[1] / "README.md").read_text()
        for fork in {*diff_gaussian_rasterization.FORKS.values()}:
            self.assertIn(fork, page)

    def test_the_function(self):
        """rasterize_gaussians of the original and of the accelerated version, and what their settings promise."""
        s = scene(degree=1)
        none = torch.Tensor([])
        settings = settings_of(s, antialiasing=True)
        _, expected = rasterized(s, settings)
        rest = (none, s["opacities"][:, None], s["scales"], s["quats"], none)
        for colors in ((s["colors"],), (s["colors"][:, :1], s["colors"][:, 1:])):
            for of in (settings, settings._replace(prefiltered=True), settings._replace(debug=True)):
                made = rasterize_gaussians(s["means"], none, *colors, *rest, of)
                self.assertTrue(all(relative(a, b) < 1e-6 for a, b in zip(made, expected)))
        names = "sh", "colors_precomp", "opacities", "scales", "rotations", "cov3Ds_precomp"
        named = dict(zip(names, (s["colors"], *rest)), raster_settings=settings)
        self.assertLess(relative(rasterize_gaussians(s["means"], none, **named)[0], expected[0]), 1e-6)
        with self.assertRaisesRegex(TypeError, "come sh, colors_precomp"):
            rasterize_gaussians(s["means"], none)
        with self.assertRaisesRegex(NotImplementedError, "has no of_nobody"):
            rasterize_gaussians(s["means"], none, of_nobody=1)

    def test_debug_names_the_stage(self):
        s = scene()
        for stage, count in (("gs_project", 0), ("gs_render", 2), ("gs_project_backward", 5)):
            waits = []

            def wait(*_):
                waits.append(1)
                if len(waits) == count + 1:
                    raise RuntimeError("an illegal address")
            with unittest.mock.patch.object(diff_gaussian_rasterization, "_wait", wait), \
                    self.assertRaisesRegex(RuntimeError, f"{stage} failed: an illegal address"):
                rasterized(s, settings_of(s)._replace(debug=True))[1][0].sum().backward()

    def test_what_an_import_does(self):
        self.assertFalse(torch._C._is_multithreading_enabled())
        names = {}
        exec("from diff_gaussian_rasterization import *", names)
        self.assertEqual(names.keys() - {"__builtins__"}, {
            "GaussianRasterizationSettings", "GaussianRasterizer", "SparseGaussianAdam", "compute_relocation",
            "rasterize_gaussians"})

    def test_cameras_that_change(self):
        s = scene()
        settings = settings_of(s)
        first = rasterized(s, settings)[1][0].detach()
        settings.viewmatrix[3, 0] += 0.2
        settings.projmatrix.copy_(settings.viewmatrix @ torch.linalg.inv(settings_of(s).viewmatrix) @ settings.projmatrix)
        moved = rasterized(s, settings)[1][0].detach()
        s["viewmats"] = settings.viewmatrix.t()[None]
        self.assertLess(relative(moved.cpu(), rasterized(s, settings_of(s))[1][0]), 1e-5)
        self.assertGreater(relative(moved.cpu(), first.cpu()), 1e-2)

    def test_refusals(self):
        s = scene()

        def ones(*shape, **options):
            return torch.ones(shape, device=DEVICE, **options)
        for text, wrong in (("exactly one of shs", dict(colors_precomp=None)),
                            ("exactly one of scales", dict(rotations=None)),
                            ("opacities has the shape", dict(opacities=ones(3, 1))),
                            ("means3D has the shape", dict(means3D=ones(40, 4))),
                            ("scales has the shape", dict(scales=ones(40, 2))),
                            ("means2D has the shape", dict(means2D=ones(40, 4, requires_grad=True))),
                            ("rotations has the shape", dict(rotations=ones(40, 3))),
                            ("colors_precomp has the shape", dict(colors_precomp=ones(40, 4)))):
            with self.assertRaisesRegex(ValueError, text):
                rasterized(s, settings_of(s), **wrong)
        for name, value in (("bg", torch.ones(4)), ("viewmatrix", torch.eye(3)), ("projmatrix", torch.eye(5)), ("image_width", 0)):
            with self.assertRaisesRegex(ValueError, f"settings.{name}"):
                rasterized(s, settings_of(s)._replace(**{name: value}))
        for text, value in (("subpixel_offset", dict(kernel_size=0.1, subpixel_offset=torch.ones(H, W, 2))),
                            ("kernel_size = 0.0", dict(kernel_size=0.0))):
            with self.assertRaisesRegex(NotImplementedError, text):
                rasterized(s, settings_of(s, **value))


class Others(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("scipy"), "needs scipy")
    def test_dist(self):
        generator = torch.Generator().manual_seed(0)
        cube = torch.rand(2000, 3, generator=generator)
        for points in (cube, cube[:4], cube[:300].repeat(3, 1), torch.cat((cube, 1e4 * cube[:50]))):
            p = points.double().numpy()
            squares = np.sort(((p[:, None] - p[None])**2).sum(-1), 1)[:, 1:4].mean(1)
            found = distCUDA2(points.to(DEVICE)).cpu().double().numpy()
            self.assertLess((np.abs(found - squares) / np.maximum(squares, 1e-12)).max(), 1e-5)
        for text, points in (("fewer than 4", cube[:3]), ("shape", cube.t()), ("not finite", cube / 0)):
            with self.assertRaisesRegex(ValueError, text):
                distCUDA2(points.to(DEVICE))

    def test_ssim(self):
        """fused_ssim and l1_ssim_loss against the definition, in double precision with torch's gradients."""
        at = torch.arange(-5, 6).double()
        window = torch.exp(-at**2 / 4.5)
        window = (torch.outer(window, window) / window.sum()**2)[None, None]
        for channels, padding in ((1, "same"), (5, "same"), (1, "valid"), (4, "valid"), (3, "loss")):
            images = torch.rand(2, 1 if padding == "loss" else 2, channels, 14, 13,
                                generator=torch.Generator().manual_seed(channels))
            if padding == "loss":
                images[1] = (images[1] * 255).round() / 255
            ours = [a.to(DEVICE).requires_grad_() for a in images]
            theirs = [a.double().requires_grad_() for a in images]

            def mean(a):
                return torch.nn.functional.conv2d(a.flatten(0, 1)[:, None], window, padding=0 if padding == "valid" else 5)
            x, y = theirs
            mx, my = mean(x), mean(y)
            vx, vy, vxy = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
            expected = ((2 * mx * my + 1e-4) * (2 * vxy + 9e-4) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4))).mean()
            if padding == "loss":
                expected = 0.8 * (x - y).abs().mean() + 0.2 * (1 - expected)
                value = distwar.l1_ssim_loss(*(a.movedim(1, -1) for a in (ours[0], (ours.pop() * 255).round().byte())))
            else:
                value = fused_ssim(*ours, padding=padding)
            self.assertAlmostEqual(value.item(), expected.item(), places=5)
            (3 * value).backward()
            (3 * expected).backward()
            for a, b in zip(ours, theirs):
                self.assertLess(relative(a.grad, b.grad), 1e-4)
        x = ours[0]
        self.assertAlmostEqual(fused_ssim(x, x, padding="valid", train=False).item(), 1, places=4)
        self.assertFalse(fused_ssim(x, x, train=False).requires_grad)
        run = torch.compile(lambda x, y: fused_ssim(x, y) * 2, backend="aot_eager")
        self.assertAlmostEqual(run(x, x / 2).item(), 2 * fused_ssim(x, x / 2).item(), places=5)
        for text, image, options in (("padding", x, dict(padding="mirror")), ("shapes", x[:, :1], {}),
                                     ("H and W at least 11", x[..., :10], dict(padding="valid"))):
            with self.assertRaisesRegex(ValueError, text):
                fused_ssim(image if "H and W" in text else x, image, **options)


if __name__ == "__main__":
    unittest.main()
