# SPDX-License-Identifier: MIT
"""The modules of python/compat, which must be first on PYTHONPATH, against rasterization() and formulas."""
import unittest

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
        # along one direction of the means, against a difference of the formulas
        random = np.random.default_rng(1)
        weights, direction = random.normal(size=(H, W)), random.normal(size=s["means"].shape)
        (inverse[0] * torch.tensor(weights, dtype=torch.float32, device=DEVICE)).sum().backward()
        product = s["means"].grad.cpu().double().numpy() * direction
        arrays = {name: a.detach().cpu().double().numpy() if isinstance(a, torch.Tensor) else a for name, a in s.items()}

        def loss(h):
            means = arrays["means"] + h * direction
            z = means @ arrays["viewmats"][0, 2, :3] + arrays["viewmats"][0, 2, 3]
            moved = dict(arrays, means=means, colors=1 / z[:, None], sh_degree=None)
            return (reference(moved)[0][0, ..., 0] * weights).sum()
        self.assertLess(abs(product.sum() - (loss(1e-6) - loss(-1e-6)) / 2e-6), 3e-4 * np.linalg.norm(product))

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

    def test_mark_visible(self):
        s = scene()
        positions = s["means"].detach().clone()
        positions[3, 2] = -10
        visible = GaussianRasterizer(settings_of(s)).markVisible(positions)
        self.assertEqual(visible.dtype, torch.bool)
        self.assertEqual(visible.tolist(), [i != 3 for i in range(len(positions))])

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
        points = torch.rand(300, 3, device=DEVICE)
        p = points.double().cpu().numpy()
        squares = np.sort(((p[:, None] - p[None])**2).sum(-1), 1)[:, 1:4].mean(1)
        self.assertLess(relative(distCUDA2(points).cpu(), squares), 1e-5)
        with self.assertRaisesRegex(ValueError, "fewer than 4"):
            distCUDA2(points[:3])

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
        with self.assertRaisesRegex(ValueError, "padding"):
            fused_ssim(x, y, padding="mirror")
        with self.assertRaisesRegex(ValueError, "shapes"):
            fused_ssim(x, y[:, :1])


if __name__ == "__main__":
    unittest.main()
