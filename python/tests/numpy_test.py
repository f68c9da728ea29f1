# SPDX-License-Identifier: MIT
"""rasterization() on numpy arrays against the formulas in double precision and against differences."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import scenes
from scenes import reference, relative

import distwar
from distwar import _library

NAMES = ("means", "quats", "scales", "opacities", "colors", "viewmats", "Ks")


def difference(loss, arrays, name, direction, step):
    """Central difference of the loss along a direction of one argument, in double precision."""
    def at(sign):
        return loss(dict(arrays, **{name: np.asarray(arrays[name], "float64") + sign * step * direction}))
    return (at(1) - at(-1)) / (2 * step)


class AsTheFormulas(unittest.TestCase):
    """Images against the formulas, gradients against their central differences along a random direction of each argument."""

    def check(self, s, options, formula, names=NAMES, turn=lambda s: s, **reference_options):
        colors, alphas, meta = distwar.rasterization(**s, **options)
        of_image = [reference(turn(s), **reference_options)]
        self.assertLess(relative(colors, formula(*of_image[0])), 1e-5)
        self.assertLess(relative(alphas[..., 0], of_image[0][1]), 1e-5)
        random = np.random.default_rng(5)
        d_colors, d_alphas = random.normal(size=colors.shape), random.normal(size=alphas.shape[:-1])
        d = distwar.rasterization_backward(meta, d_colors, d_alphas)

        def loss(arrays):
            color, alpha, depth = reference(turn(arrays), **reference_options)
            return (d_colors * formula(color, alpha, depth)).sum() + (d_alphas * alpha).sum()
        for name in names:
            # of a Gaussian by itself, to see each, and away from what the last row and column of matrices hold
            direction = random.normal(size=s[name].shape)
            if name == "viewmats":
                direction[:, 3] = 0
                direction[:, :3, :3] = direction[:, :3, :3] - direction[:, :3, :3].swapaxes(-1, -2)
                direction[:, :3, :3] = direction[:, :3, :3] @ s[name][:, :3, :3]
            if name == "Ks":
                direction *= np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0]])
            expected = difference(loss, s, name, direction, 1e-6)
            self.assertLess(abs((d[name] * direction).sum() - expected), 2e-4 * np.linalg.norm(d[name] * direction), name)
            self.assertGreater(np.linalg.norm(d[name]), 0, name)
        return d, meta, d_colors, of_image[0]

    def test_options(self):
        def with_depth(c, a, d):
            return np.concatenate((c, d[..., None]), -1)

        def color(c, a, d):
            return c

        def exp(s):
            return dict(s, scales=np.exp(s["scales"]), opacities=1 / (1 + np.exp(-s["opacities"])))
        for s, options, formula, more in (
                (scenes.scene(channels=5, cameras=2), {}, color, {}),
                (scenes.ortho(scenes.scene(cameras=2)), dict(render_mode="RGB+D"), with_depth, {}),
                (scenes.scene(), dict(render_mode="RGB+D"), with_depth, {}),
                (scenes.raw(scenes.scene()), dict(activated=False), color, dict(turn=exp)),
                (scenes.scene(cameras=2), dict(render_mode="D"), lambda c, a, d: d[..., None], {}),
                (scenes.scene(degree=1), dict(rasterize_mode="antialiased", eps2d=0.5), color, dict(antialiased=True, eps2d=0.5))):
            with self.subTest(**options):
                self.check(s, options, formula, **more, names=NAMES[:4] + NAMES[5:] if options.get("render_mode") == "D" else NAMES)

    def test_colors_and_meta(self):
        d, meta, _, _ = self.check(scenes.scene(cameras=2), {}, lambda c, a, d: c)
        self.assertGreater(np.linalg.norm(d["means2d"]), 0)
        self.assertTrue((d["absgrad"] >= abs(d["means2d"]) * 0.9999).all())
        self.assertEqual((meta["radii"].shape, meta["means2d"].shape), ((2, 40, 2), (2, 40, 2)))
        self.assertEqual((meta["width"], meta["height"], meta["n_cameras"]), (40, 33, 2))

    def test_backgrounds(self):
        background = np.array([[0.2, 0.5, 0.7]], "float32")
        d, _, d_colors, (_, alpha, _) = self.check(scenes.scene(), dict(backgrounds=background),
                                                   lambda c, a, d: c + (1 - a)[..., None] * background)
        self.assertLess(relative(d["backgrounds"], (d_colors * (1 - alpha)[..., None]).sum((1, 2))), 1e-5)

    def test_deterministic(self):
        colors, _, meta = distwar.rasterization(**scenes.scene())
        runs = []
        for deterministic in (False, True, True):
            with mock.patch.object(distwar, "deterministic", deterministic):
                runs.append(distwar.rasterization_backward(meta, np.ones_like(colors)))
        for name in NAMES:
            self.assertTrue((runs[1][name] == runs[2][name]).all(), name)
            self.assertLess(relative(runs[1][name], runs[0][name]), 1e-4, name)

    def test_depth_without_colors(self):
        s = scenes.scene(cameras=2)
        for mode in ("D", "ED"):
            depth, alphas, meta = distwar.rasterization(**dict(s, colors=None), render_mode=mode)
            self.assertLess(relative(depth * (alphas if mode == "ED" else 1), reference(s)[2][..., None]), 1e-5)
            self.assertGreater(np.linalg.norm(distwar.rasterization_backward(meta, np.ones_like(depth))["means"]), 1)

    def test_colors_by_camera_and_more_coefficients(self):
        s = scenes.scene(cameras=2, channels=7)
        by_camera = dict(s, colors=np.stack((s["colors"], 2 * s["colors"])))
        self.assertLess(relative(distwar.rasterization(**by_camera)[0],
                                 reference(s)[0] * np.array([1, 2])[:, None, None, None]), 1e-5)
        s = scenes.scene(degree=1)
        padded = dict(s, colors=np.concatenate((s["colors"], np.ones((40, 2, 3), "float32")), 1))
        self.assertLess(relative(distwar.rasterization(**padded)[0], reference(s)[0]), 1e-5)

    def test_planes(self):
        s = scenes.scene()
        depths = distwar.rasterization(**s)[2]["depths"][0]
        middle = float(np.median(depths[depths > 0]))
        near = distwar.rasterization(**s, near_plane=middle)[2]["depths"][0]
        far = distwar.rasterization(**s, far_plane=middle)[2]["depths"][0]
        self.assertTrue((near[near > 0] > middle).all() and (near > 0).any())
        self.assertTrue((far <= middle).all() and (far > 0).any())

    def test_no_gaussians(self):
        colors, alphas, meta = distwar.rasterization(**scenes.scene(count=0), backgrounds=np.full((1, 3), 0.25))
        self.assertTrue((colors == 0.25).all() and (alphas == 0).all())
        self.assertEqual(distwar.rasterization_backward(meta, np.ones_like(colors))["means"].shape, (0, 3))

    def test_other_layouts_and_types(self):
        s = scenes.scene()
        strided = dict(s, means=np.asfortranarray(s["means"]), scales=s["scales"].astype("float64"),
                       quats=np.concatenate((s["quats"], s["quats"]), 1)[:, :4])
        self.assertTrue((distwar.rasterization(**strided)[0] == distwar.rasterization(**s)[0]).all())


class Refusals(unittest.TestCase):
    def test_arguments(self):
        def ones(*shape):
            return np.ones(shape, "float32")
        of_later_versions = dict.fromkeys(("rays", "lidar_coeffs", "external_distortion_coeffs", "ut_params", "extra_signals",
                                           "extra_signals_sh_degree", "renderer_config"), np.zeros(1))
        unsupported = dict(radius_clip=1.0, tile_size=8, sparse_grad=True, distributed=True, return_normals=True,
                           global_z_order=False, camera_model="fisheye", segmented=True, with_ut=True, with_eval3d=True,
                           radial_coeffs=np.zeros((1, 6)), viewmats_rs=np.zeros((1, 4, 4)), rolling_shutter="LEFT_TO_RIGHT",
                           **of_later_versions)
        shapes = dict(means=ones(40, 2), quats=ones(40, 3), scales=ones(39, 3), opacities=ones(40, 1), colors=ones(39, 3),
                      viewmats=ones(4, 4), Ks=ones(2, 3, 3), backgrounds=ones(1, 4))
        for error, text, changes in (
                *((NotImplementedError, name, {name: value}) for name, value in unsupported.items()),
                (NotImplementedError, "covars of numpy", dict(covars=ones(40, 3, 3))),
                (NotImplementedError, "leading dimensions", {name: a[None] for name, a in scenes.scene().items() if name in NAMES}),
                *((ValueError, f"{name} has the shape", {name: value}) for name, value in shapes.items()),
                (ValueError, "colors", dict(sh_degree=2, colors=ones(40, 4, 3))),
                (ValueError, "channels", dict(colors=ones(40, 1025))),
                (ValueError, "sh_degree is 4, not 0 to 3", dict(sh_degree=4, colors=ones(40, 25, 3))),
                (ValueError, "width is 0", dict(width=0)),
                (ValueError, "height is", dict(height=2**31)),
                (ValueError, "near_plane -1.0", dict(near_plane=-1.0)),
                (ValueError, "eps2d nan", dict(eps2d=float("nan"))),
                (ValueError, "render_mode is 'rgb'", dict(render_mode="rgb")),
                (ValueError, "rasterize_mode", dict(rasterize_mode="sharp")),
                (ValueError, "scales is None", dict(scales=None)),
                (distwar.gs.Error, "fx", dict(Ks=np.full((1, 3, 3), np.nan, "float32"))),
                (TypeError, "means has the type int64", dict(means=np.ones((40, 3), "int64"))),
                (TypeError, "viewmats is a list", dict(viewmats=scenes.scene()["viewmats"].tolist())),
                (TypeError, "colors is None", dict(colors=None))):
            with self.assertRaisesRegex(error, text, msg=changes):
                distwar.rasterization(**dict(scenes.scene(), **changes))
        _, _, meta = distwar.rasterization(**scenes.scene(), rolling_shutter="GLOBAL", **dict.fromkeys(of_later_versions))
        with self.assertRaisesRegex(ValueError, "d_colors"):
            distwar.rasterization_backward(meta, np.ones((1, 3, 33, 40)))


class About(unittest.TestCase):
    def test_lines(self):
        run = subprocess.run([sys.executable, "-m", "distwar"], capture_output=True, text=True, check=True)
        lines = {line.split()[0]: line.split(None, 1)[1] for line in run.stdout.splitlines()}
        self.assertEqual(lines["distwar"], distwar.__version__)
        self.assertRegex(distwar.__version__, r"^\d+\.\d+\.\d+$")
        self.assertRegex(lines["libdistwar_gs"], "^(simt|cuda), /.*libdistwar_gs(_cpu|_cuda)?.so")
        self.assertEqual(lines["numpy"], np.__version__)
        self.assertLessEqual({*distwar.__all__, "density", "neighbors", "optim", "__version__"}, {*dir(distwar)})
        with self.assertRaises(AttributeError):
            distwar.nothing

    @unittest.skipIf(distwar.library().backend == "cuda", "of the CPU library")
    def test_the_other_library(self):
        here = distwar.library("simt").lib._name
        with mock.patch.object(_library, "_path", lambda *_: here), \
                self.assertRaisesRegex(RuntimeError, "a GPU is asked for.* libdistwar_gs for CPUs"):
            _library.load.__wrapped__("gs", distwar.gs.Library, "cuda")

    def test_two_libraries(self):
        """A package with both libraries loads the device's; without a device, the GPU's if there is a GPU."""
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(_library, "__file__", f"{folder}/x.py"), \
                mock.patch.dict(os.environ), mock.patch.object(_library, "has_gpu") as has_gpu:
            os.environ.pop("DISTWAR_LIBRARY", None)
            with self.assertRaisesRegex(ImportError, "libdistwar_gs.so in .*install the package"):
                _library._path("gs", None)
            for device in ("cuda", "cpu"):
                (pathlib.Path(folder) / f"libdistwar_gs_{device}.so").touch()
            for gpu, backend, device in ((0, None, "cpu"), (1, None, "cuda"), (0, "cuda", "cuda"), (1, "simt", "cpu")):
                has_gpu.return_value = bool(gpu)
                self.assertEqual(_library._path("gs", backend), f"{folder}/libdistwar_gs_{device}.so")


if __name__ == "__main__":
    unittest.main()
