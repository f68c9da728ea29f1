# SPDX-License-Identifier: MIT
"""The modules of python/compat, which must be first on PYTHONPATH, against rasterization() and formulas."""
import math
import os
import subprocess
import sys
import unittest
import unittest.mock

import diff_gaussian_rasterization
import numpy as np
import scenes
import torch
from diff_gaussian_rasterization import GaussianRasterizationSettings, GaussianRasterizer
from fused_ssim import fused_ssim
from scenes import reference, relative
from simple_knn._C import distCUDA2

import distwar

DEVICE = "cuda" if distwar.library().backend == "cuda" else "cpu"
W, H = 40, 33
distwar.gsplat_version = (1, 5)  # whatever is installed


def setUpModule():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise unittest.SkipTest("there is no GPU here")


def scene(**options):
    s = scenes.scene(size=(W, H), **options)
    s["means"][:, 2] += 0.5
    s["Ks"][:, 0, 2], s["Ks"][:, 1, 2] = W / 2, H / 2
    return {name: torch.tensor(a, device=DEVICE, requires_grad=name not in ("viewmats", "Ks"))
            if isinstance(a, np.ndarray) else a for name, a in s.items()}


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
                  opacities=s["opacities"][:, None], scales=s["scales"], rotations=s["quats"])
    inputs["shs" if s["sh_degree"] is not None else "colors_precomp"] = s["colors"]
    inputs.update(changes)
    return inputs["means2D"], GaussianRasterizer(settings)(**inputs)


class Rasterizer(unittest.TestCase):
    def test_as_rasterization(self):
        for options in (dict(), dict(degree=1)):
            s = scene(**options)
            colors, _, meta = distwar.rasterization(**s, packed=False, near_plane=0.2,
                                                    backgrounds=torch.tensor([[0.1, 0.2, 0.3]], device=DEVICE))
            meta["means2d"].retain_grad()
            (colors**2).sum().backward()
            expected = {name: s[name].grad.clone() for name in ("means", "quats", "scales", "opacities", "colors")}
            for name in expected:
                s[name].grad = None
            means2D, (picture, radii) = rasterized(s, settings_of(s))
            self.assertEqual(tuple(picture.shape), (3, H, W))
            self.assertLess(relative(picture.detach().movedim(0, -1).cpu(), colors[0].detach().cpu()), 1e-5)
            self.assertTrue(torch.equal(radii, meta["radii"][0, :, 0]))
            (picture**2).sum().backward()
            for name, value in expected.items():
                self.assertLess(relative(s[name].grad.cpu(), value.cpu()), 1e-4, name)
            half = torch.tensor([W / 2, H / 2], device=DEVICE)
            self.assertLess(relative(means2D.grad[:, :2].cpu(), (meta["means2d"].grad[0] * half).cpu()), 1e-4)
            self.assertEqual(float(means2D.grad[:, 2].abs().sum()), 0)

    def test_off_centre(self):
        s = scene()
        s["Ks"][:, 0, 2] += 3
        colors = distwar.rasterization(**s, packed=False, near_plane=0.2,
                                       backgrounds=torch.tensor([[0.1, 0.2, 0.3]], device=DEVICE))[0]
        _, (picture, _) = rasterized(s, settings_of(s))
        self.assertLess(relative(picture.detach().movedim(0, -1).cpu(), colors[0].detach().cpu()), 1e-4)

    def test_inverse_depth(self):
        s = scene(degree=1)
        _, (plain, _) = rasterized(s, settings_of(s))
        _, (picture, _, inverse) = rasterized(s, settings_of(s, antialiasing=False))
        self.assertLess(relative(picture.detach().cpu(), plain.detach().cpu()), 1e-5)
        self.assertEqual(tuple(inverse.shape), (1, H, W))
        inverses = 1 / distwar.rasterization(**s, packed=False)[2]["depths"][0]
        colors = torch.where(torch.isfinite(inverses), inverses, 0)[:, None].repeat(1, 3)
        expected = distwar.rasterization(**dict(s, colors=colors, sh_degree=None), packed=False, near_plane=0.2)[0]
        self.assertLess(relative(inverse[0].detach().cpu(), expected[0, ..., 0].detach().cpu()), 1e-5)

    def check_differences(self, s, names, settings, changes=dict(), modifier=1.0):
        """Gradients of a loss of all outputs, each along one direction, against differences of the formulas in double
        precision."""
        _, outputs = rasterized(s, settings, **changes)
        random = np.random.default_rng(1)
        weights = [random.normal(size=tuple(outputs[k].shape)) for k in range(0, len(outputs), 2)]
        sum((outputs[2 * k] * torch.tensor(w, dtype=torch.float32, device=DEVICE)).sum()
            for k, w in enumerate(weights)).backward()
        arrays = {name: a.detach().cpu().double().numpy() if isinstance(a, torch.Tensor) else a
                  for name, a in dict(s, cov3D_precomp=changes.get("cov3D_precomp")).items()}

        def loss(a):
            a, options = dict(a), dict(antialiased=bool(settings.antialiasing))
            covars = a.pop("cov3D_precomp")
            if covars is not None:
                options["covars"] = covars[:, [0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(-1, 3, 3)
            a["scales"] = a["scales"] * modifier
            color, alpha, _ = reference(a, **options)
            picture = color[0] + (1 - alpha[0])[..., None] * np.array([0.1, 0.2, 0.3])
            value = (picture * np.moveaxis(weights[0], 0, -1)).sum()
            if len(weights) > 1:
                z = a["means"] @ a["viewmats"][0, 2, :3] + a["viewmats"][0, 2, 3]
                inverse = reference(dict(a, colors=1 / z[:, None], sh_degree=None), **options)[0]
                value += (inverse[0, ..., 0] * weights[1][0]).sum()
            return value
        for name in names:
            direction = random.normal(size=arrays[name].shape)
            moved = [loss({**arrays, name: arrays[name] + h * direction}) for h in (1e-6, -1e-6)]
            grad = changes[name].grad if name in changes else s[name].grad
            product = grad.cpu().double().numpy() * direction
            self.assertLess(abs(product.sum() - (moved[0] - moved[1]) / 2e-6), 4e-4 * np.linalg.norm(product), name)

    def test_gradients_of_the_first_form(self):
        names = ("means", "quats", "scales", "opacities", "colors")
        s = scene()
        self.check_differences(s, names, settings_of(s))
        s = scene(degree=1)
        self.check_differences(s, names, settings_of(s, scale_modifier=1.3), modifier=1.3)

    def test_gradients_with_inverse_depth(self):
        for antialiasing in (False, True):
            s = scene(degree=1)
            self.check_differences(s, ("means", "quats", "scales", "opacities", "colors"),
                                   settings_of(s, antialiasing=antialiasing))

    def test_gradients_of_covariances(self):
        s = scene()
        axes = np.stack([scenes._rotation(q) * size for q, size in zip(
            s["quats"].detach().cpu().double().numpy(), s["scales"].detach().cpu().double().numpy())])
        upper = (axes @ axes.transpose(0, 2, 1)).reshape(-1, 9)[:, [0, 1, 2, 4, 5, 8]]
        upper = torch.tensor(upper, dtype=torch.float32, device=DEVICE, requires_grad=True)
        self.check_differences(s, ("means", "opacities", "colors", "cov3D_precomp"), settings_of(s, antialiasing=True),
                               dict(cov3D_precomp=upper, scales=None, rotations=None))

    def test_given_covariances_modifier_and_antialiasing(self):
        s = scene()
        covars = torch.tensor(np.stack([
            (a := scenes._rotation(q) * 1.5 * size) @ a.T for q, size in zip(
                s["quats"].detach().cpu().double().numpy(), s["scales"].detach().cpu().double().numpy())]),
            dtype=torch.float32, device=DEVICE)
        given = covars.flatten(1)[:, [0, 1, 2, 4, 5, 8]].contiguous()
        _, (one, _, _) = rasterized(s, settings_of(s, antialiasing=True), cov3D_precomp=given, scales=None,
                                    rotations=None)
        _, (other, _, _) = rasterized(s, settings_of(s, antialiasing=True, scale_modifier=1.5))
        self.assertLess(relative(one.detach().cpu(), other.detach().cpu()), 1e-4)

    def test_constant_apart(self):
        """dc beside shs, as the accelerated version has it; shs then lacks the constant."""
        s = scene(degree=1)
        s["colors"] = s["colors"].detach().requires_grad_()
        _, (picture, _, _) = rasterized(s, settings_of(s, antialiasing=False))
        picture.square().sum().backward()
        parts = [part.detach().clone().requires_grad_() for part in (s["colors"][:, :1], s["colors"][:, 1:])]
        _, (same, _, _) = rasterized(s, settings_of(s, antialiasing=False), dc=parts[0], shs=parts[1])
        self.assertTrue(torch.equal(same, picture))
        same.square().sum().backward()
        self.assertLess(relative(torch.cat([part.grad for part in parts], 1).cpu(), s["colors"].grad.cpu()), 1e-5)
        degree_0 = settings_of(s, antialiasing=False)._replace(sh_degree=0)
        _, (constant, _, _) = rasterized(s, degree_0, dc=parts[0], shs=None)
        self.assertGreater(relative(constant.detach().cpu(), picture.detach().cpu()), 1e-2)

    def test_coefficients_of_degree_4(self):
        s = scene(degree=1)
        more = torch.cat((s["colors"].detach(), torch.ones(40, 21, 3, device=DEVICE)), 1)
        self.assertTrue(torch.equal(rasterized(s, settings_of(s), shs=more)[1][0], rasterized(s, settings_of(s))[1][0]))
        with self.assertRaisesRegex(NotImplementedError, "sh_degree = 4"):
            rasterized(s, settings_of(s)._replace(sh_degree=4), shs=more)

    def test_forks_with_depth_and_alpha(self):
        s = scene()
        _, (plain, plain_radii) = rasterized(s, settings_of(s))
        expected, alphas, _ = distwar.rasterization(**s, packed=False, near_plane=0.2, render_mode="D")
        for results in ("depth", "depth_alpha"):
            with unittest.mock.patch.object(diff_gaussian_rasterization, "RESULTS", results):
                _, (picture, radii, depth, *alpha) = rasterized(s, settings_of(s))
            self.assertTrue(torch.equal(radii, plain_radii))
            self.assertLess(relative(picture.detach().cpu(), plain.detach().cpu()), 1e-6)
            self.assertEqual([tuple(a.shape) for a in (depth, *alpha)], [(1, H, W)] * (1 + len(alpha)))
            self.assertLess(relative(depth.detach().cpu(), expected.detach()[..., 0].cpu()), 1e-5)
            self.assertEqual(len(alpha), results == "depth_alpha")
            for a in alpha:
                self.assertLess(relative(a.detach().cpu(), alphas.detach()[..., 0].cpu()), 1e-6)
        (depth.sum() + alpha[0].sum()).backward()
        ours, s["means"].grad = s["means"].grad, None
        (expected.sum() + alphas.sum()).backward()
        self.assertLess(relative(ours.cpu(), s["means"].grad.cpu()), 1e-5)

    def test_the_switch(self):
        program = "import diff_gaussian_rasterization as of; print(of.RESULTS)"
        for value, out, error in (("depth", "depth", ""), ("depths", "", "DISTWAR_COMPAT is 'depths', not one of")):
            run = subprocess.run([sys.executable, "-c", program], env=dict(os.environ, DISTWAR_COMPAT=value), text=True,
                                 capture_output=True)
            self.assertEqual(run.stdout.strip(), out)
            self.assertIn(error, run.stderr)

    def test_matrices_with_a_leading_dimension(self):
        s = scene()
        settings = settings_of(s)
        batched = settings._replace(viewmatrix=settings.viewmatrix[None], projmatrix=settings.projmatrix[None])
        self.assertTrue(torch.equal(rasterized(s, batched)[1][0], rasterized(s, settings)[1][0]))

    def test_kernel_size(self):
        """mip-splatting's filter of the image: its variance, and opacities lowered by it."""
        s = scene()
        _, (picture, _) = rasterized(s, settings_of(s, kernel_size=0.1, subpixel_offset=torch.zeros(H, W, 2)))
        color, alpha, _ = reference({name: a.detach().cpu().numpy() if isinstance(a, torch.Tensor) else a
                                     for name, a in s.items()}, eps2d=0.1, antialiased=True)
        expected = color[0] + (1 - alpha[0])[..., None] * np.array([0.1, 0.2, 0.3])
        self.assertLess(relative(picture.detach().movedim(0, -1).cpu(), expected), 1e-5)
        with self.assertRaisesRegex(NotImplementedError, "subpixel_offset"):
            rasterized(s, settings_of(s, kernel_size=0.1, subpixel_offset=torch.ones(H, W, 2)))
        with self.assertRaisesRegex(NotImplementedError, "kernel_size = 0.0"):
            rasterized(s, settings_of(s, kernel_size=0.0))

    def test_visible_filter(self):
        s = scene()
        with torch.no_grad():
            s["means"][3, 2], s["means"][5, 0] = -10, 100
        radii = GaussianRasterizer(settings_of(s)).visible_filter(
            means3D=s["means"], scales=s["scales"], rotations=s["quats"], cov3D_precomp=None)
        self.assertEqual((radii.dtype, radii.requires_grad), (torch.int32, False))
        self.assertEqual(torch.nonzero(radii == 0).flatten().tolist(), [3, 5])

    def test_relocation(self):
        """As 3dgs-mcmc calls it."""
        binoms = torch.tensor([[float(math.comb(n, k)) for k in range(51)] for n in range(51)], device=DEVICE)
        opacity, scale = torch.rand(20, device=DEVICE) * 0.9, torch.rand(20, 3, device=DEVICE)
        ratio = torch.arange(1, 21, device=DEVICE, dtype=torch.int32)
        shared, scales = diff_gaussian_rasterization.compute_relocation(opacity, scale, ratio, binoms, 51)
        self.assertLess(relative(((1 - shared.double())**ratio).cpu(), (1 - opacity).cpu()), 1e-5)
        self.assertTrue(bool((scales[1:] < scale[1:]).all()))
        self.assertLess(relative(scales[0].cpu(), scale[0].cpu()), 1e-5)

    def test_the_accelerated_loop(self):
        """Settings, calls and optimizer of the original's --optimizer_type sparse_adam."""
        from diff_gaussian_rasterization import SparseGaussianAdam
        s = scene(degree=1)
        p = {name: torch.nn.Parameter(a) for name, a in dict(
            means=s["means"].detach(), dc=s["colors"].detach()[:, :1], rest=s["colors"].detach()[:, 1:]).items()}
        with torch.no_grad():
            p["means"][3, 2] = -10  # not in view
        groups = [dict(params=[a], lr=1e-2, name=name) for name, a in p.items()]
        optimizer = SparseGaussianAdam(groups, lr=0.0, eps=1e-15)
        losses, before = [], {name: a.detach().clone() for name, a in p.items()}
        for _ in range(8):
            _, (picture, radii, _) = rasterized(s, settings_of(s, antialiasing=False), means3D=p["means"], dc=p["dc"],
                                                shs=p["rest"])
            loss = (picture - 0.5).square().mean()
            loss.backward()
            optimizer.step(radii > 0, radii.shape[0])
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.7 * losses[0])
        for name, a in p.items():
            moved = (a.detach() - before[name]).flatten(1).norm(dim=1)
            self.assertEqual(float(moved[3]), 0)
            self.assertGreater(float(moved.max()), 0)

    def test_forks_that_are_not_served(self):
        """A sentence that names what is missing and whose it is."""
        s = scene()
        settings = settings_of(s)
        for call, texts in (
                (lambda: settings_of(s, pixel_weights=None), ("pixel_weights", "Taming-3DGS")),
                (lambda: rasterized(s, settings, theta=torch.zeros(1, 3)), ("theta", "MonoGS")),
                (lambda: rasterized(s, settings, view2gaussian_precomp=None), ("view2gaussian", "gaussian-opacity-f")),
                (lambda: rasterized(s, settings, means2D_densify=None), ("means2D_densify", "Deformable-3D-Gaussians")),
                (lambda: GaussianRasterizer(settings).integrate(0), ("integrate", "gaussian-opacity-fields")),
                (lambda: rasterized(s, settings, of_nobody=1), ("of_nobody", "README"))):
            with self.assertRaises(NotImplementedError) as raised:
                call()
            for text in texts:
                self.assertIn(text, str(raised.exception))
        with self.assertRaisesRegex(ImportError, "has no rasterize_gaussians; python/README.md"):
            from diff_gaussian_rasterization import rasterize_gaussians  # noqa: F401
        with self.assertRaises(AttributeError):
            GaussianRasterizer(settings).nothing

    def test_all_names_are_public(self):
        names = {}
        exec("from diff_gaussian_rasterization import *", names)
        self.assertEqual(names.keys() - {"__builtins__"}, {
            "GaussianRasterizationSettings", "GaussianRasterizer", "SparseGaussianAdam", "compute_relocation"})

    def test_mark_visible(self):
        s = scene()
        positions = s["means"].detach().clone()
        positions[3, 2] = -10
        visible = GaussianRasterizer(settings_of(s)).markVisible(positions)
        self.assertEqual(visible.dtype, torch.bool)
        self.assertEqual(visible.tolist(), [i != 3 for i in range(len(positions))])

    def test_cameras_that_change(self):
        s = scene()
        settings = settings_of(s)
        first = rasterized(s, settings)[1][0].detach()
        settings.viewmatrix[3, 0] += 0.2
        settings.projmatrix.copy_(settings.viewmatrix @ torch.linalg.inv(settings_of(s).viewmatrix) @ settings.projmatrix)
        moved = rasterized(s, settings)[1][0].detach()
        s["viewmats"] = settings.viewmatrix.t()[None]
        self.assertLess(relative(moved.cpu(), rasterized(s, settings_of(s))[1][0].detach().cpu()), 1e-5)
        self.assertGreater(relative(moved.cpu(), first.cpu()), 1e-2)

    def test_no_gaussians(self):
        s = scene(count=0)
        means2D, (picture, radii) = rasterized(s, settings_of(s))
        picture.sum().backward()
        self.assertEqual((tuple(radii.shape), tuple(s["means"].grad.shape)), ((0,), (0, 3)))
        self.assertLess(relative(picture.detach().cpu()[:, 5, 5], [0.1, 0.2, 0.3]), 1e-6)

    def test_refusals(self):
        s = scene()
        with self.assertRaisesRegex(ValueError, "exactly one of shs"):
            rasterized(s, settings_of(s), colors_precomp=None)
        with self.assertRaisesRegex(ValueError, "exactly one of scales"):
            rasterized(s, settings_of(s), rotations=None)
        with self.assertRaisesRegex(ValueError, "opacities"):
            rasterized(s, settings_of(s), opacities=torch.ones(3, 1, device=DEVICE))
        with self.assertRaisesRegex(NotImplementedError, "prefiltered"):
            rasterized(s, settings_of(s)._replace(prefiltered=True))


class Others(unittest.TestCase):
    def test_dist(self):
        generator = torch.Generator().manual_seed(0)
        cube = torch.rand(2000, 3, generator=generator)
        for points in (cube, cube[:4], cube[:17], cube[:300].repeat(3, 1), torch.ones(200, 3),
                       torch.randn(2000, 3, generator=generator)**5, cube * torch.tensor([1, 1, 0]),
                       torch.cat((cube, 1e4 * cube[:50]))):
            p = points.double().numpy()
            squares = np.sort(((p[:, None] - p[None])**2).sum(-1), 1)[:, 1:4].mean(1)
            found = distCUDA2(points.to(DEVICE)).cpu().double().numpy()
            self.assertLess((np.abs(found - squares) / np.maximum(squares, 1e-12)).max(), 1e-5)
        for text, points in (("fewer than 4", cube[:3]), ("shape", cube.t()), ("not finite", cube / 0)):
            with self.assertRaisesRegex(ValueError, text):
                distCUDA2(points.to(DEVICE))

    def test_ssim(self):
        generator = torch.Generator().manual_seed(0)
        x, y = (torch.rand(1, 3, 20, 24, generator=generator).to(DEVICE) for _ in range(2))
        target = (y[0].movedim(0, -1) * 255).round().to(torch.uint8)
        y = (target.float() / 255).movedim(-1, 0)[None]
        x.requires_grad_()
        loss = distwar.l1_ssim_loss(x[0].movedim(0, -1), target)
        expected = 1 - (loss - 0.8 * (x - y).abs().mean()) / 0.2
        value = fused_ssim(x, y)
        self.assertAlmostEqual(value.item(), expected.item(), places=4)
        of_ours, = torch.autograd.grad(value, x, retain_graph=True)
        of_loss, = torch.autograd.grad(expected, x)
        self.assertLess(relative(of_ours.cpu(), of_loss.cpu()), 1e-3)
        self.assertAlmostEqual(fused_ssim(x, x, padding="valid", train=False).item(), 1, places=4)
        self.assertFalse(fused_ssim(x, y, train=False).requires_grad)
        with self.assertRaisesRegex(ValueError, "padding"):
            fused_ssim(x, y, padding="mirror")
        with self.assertRaisesRegex(ValueError, "shapes"):
            fused_ssim(x, y[:, :1])

    def test_ssim_by_torch(self):
        """Where gs_ssim does not serve."""
        with unittest.mock.patch("distwar._ssim.takes", lambda x, y: False):
            self.test_ssim()
            self.test_ssim_of_any_channels()
        x, y = torch.rand(2, 1, 3, 20, 24, device=DEVICE).unbind()
        run = torch.compile(lambda x, y: fused_ssim(x, y) * 2, backend="aot_eager")
        self.assertAlmostEqual(run(x, y).item(), 2 * fused_ssim(x, y).item(), places=5)

    def test_ssim_of_any_channels(self):
        """Against the definition, window by window, in double precision."""
        at = np.arange(-5, 6)
        window = np.exp(-at**2 / 4.5)
        window = np.outer(window, window) / window.sum()**2

        def ssim(x, y, padding):
            if padding == "same":
                x, y = (np.pad(a, ((0, 0), (0, 0), (5, 5), (5, 5))) for a in (x, y))
            x, y = (np.lib.stride_tricks.sliding_window_view(a, (11, 11), axis=(2, 3)) for a in (x, y))

            def mean(a):
                return (a * window).sum((-1, -2))
            mx, my = mean(x), mean(y)
            vx, vy, vxy = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
            return ((2 * mx * my + 1e-4) * (2 * vxy + 9e-4) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4))).mean()
        random = np.random.default_rng(0)
        for channels, padding in ((1, "same"), (5, "same"), (1, "valid"), (4, "valid")):
            x, y, direction = random.uniform(0, 1, (3, 2, channels, 14, 13))
            images = [torch.tensor(a, dtype=torch.float32, device=DEVICE, requires_grad=True) for a in (x, y)]
            value = fused_ssim(*images, padding=padding)
            (3 * value).backward()
            self.assertAlmostEqual(value.item(), ssim(x, y, padding), places=5)
            for image, sides in zip(images, (((direction, 0), (-direction, 0)), ((0, direction), (0, -direction)))):
                moved = [ssim(x + 1e-6 * dx, y + 1e-6 * dy, padding) for dx, dy in sides]
                product = image.grad.cpu().double().numpy() * direction
                self.assertLess(abs(product.sum() - 3 * (moved[0] - moved[1]) / 2e-6), 1e-4 * np.linalg.norm(product))
        with self.assertRaisesRegex(ValueError, "H and W at least 11"):
            fused_ssim(images[0][..., :10], images[1][..., :10], padding="valid")


if __name__ == "__main__":
    unittest.main()
