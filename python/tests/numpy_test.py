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
from distwar import __main__ as about
from distwar import _library

NAMES = ("means", "quats", "scales", "opacities", "colors", "viewmats", "Ks")


def difference(loss, arrays, name, direction, step):
    """Central difference of the loss along a direction of one argument, in double precision."""
    def at(sign):
        return loss(dict(arrays, **{name: np.asarray(arrays[name], "float64") + sign * step * direction}))
    return (at(1) - at(-1)) / (2 * step)


class Images(unittest.TestCase):
    def test_classic(self):
        s = scenes.scene(cameras=2)
        colors, alphas, meta = distwar.rasterization(**s)
        color, alpha, _ = reference(s)
        self.assertEqual(colors.shape, (2, 33, 40, 3))
        self.assertEqual(alphas.shape, (2, 33, 40, 1))
        self.assertLess(relative(colors, color), 1e-5)
        self.assertLess(relative(alphas[..., 0], alpha), 1e-5)
        self.assertEqual(meta["radii"].shape, (2, 40, 2))
        self.assertEqual(meta["means2d"].shape, (2, 40, 2))
        self.assertEqual((meta["width"], meta["height"], meta["n_cameras"]), (40, 33, 2))

    def test_harmonics(self):
        s = scenes.scene(degree=1)
        self.assertLess(relative(distwar.rasterization(**s)[0], reference(s)[0]), 1e-5)
        padded = dict(s, colors=np.concatenate((s["colors"], np.ones((40, 2, 3), "float32")), 1))
        self.assertLess(relative(distwar.rasterization(**padded)[0], reference(s)[0]), 1e-5)

    def test_depth_without_colors(self):
        s = scenes.scene(cameras=2)
        for mode in ("D", "ED"):
            depth, _, meta = distwar.rasterization(**dict(s, colors=None), render_mode=mode)
            expected, _, other = distwar.rasterization(**s, render_mode=mode)
            self.assertTrue((depth == expected).all())
            d, expected = (distwar.rasterization_backward(of, np.ones_like(depth)) for of in (meta, other))
            self.assertLess(relative(d["means"], expected["means"]), 1e-5)

    def test_ortho(self):
        s = scenes.ortho(scenes.scene(cameras=2, degree=1))
        color, alpha, depth = reference(s)
        colors, alphas, _ = distwar.rasterization(**s, render_mode="RGB+D")
        self.assertLess(relative(colors[..., :3], color), 1e-5)
        self.assertLess(relative(colors[..., 3], depth), 1e-5)
        self.assertLess(relative(alphas[..., 0], alpha), 1e-5)

    def test_antialiased_and_eps2d(self):
        s = scenes.scene()
        colors, _, _ = distwar.rasterization(**s, rasterize_mode="antialiased", eps2d=0.7)
        self.assertLess(relative(colors, reference(s, eps2d=0.7, antialiased=True)[0]), 1e-5)

    def test_covariances(self):
        s = scenes.scene()
        axes = [scenes._rotation(q) * scale for q, scale in zip(s["quats"].astype("float64"), s["scales"])]
        covars = np.stack([a @ a.T for a in axes])
        colors = distwar.rasterization(**dict(s, quats=None, scales=None), covars=covars.astype("float32"))[0]
        self.assertLess(relative(colors, reference(s)[0]), 1e-5)

    def test_depth(self):
        s = scenes.scene(cameras=2)
        color, alpha, depth = reference(s)
        both, alphas, _ = distwar.rasterization(**s, render_mode="RGB+D")
        self.assertEqual(both.shape[-1], 4)
        self.assertLess(relative(both[..., :3], color), 1e-5)
        self.assertLess(relative(both[..., 3], depth), 1e-5)
        expected, _, _ = distwar.rasterization(**s, render_mode="ED")
        self.assertEqual(expected.shape, (2, 33, 40, 1))
        self.assertLess(relative(expected * alphas, depth[..., None]), 1e-5)

    def test_channels_backgrounds_and_colors_by_camera(self):
        s = scenes.scene(cameras=2, channels=7)
        background = np.random.default_rng(1).uniform(0, 1, (2, 7)).astype("float32")
        colors, alphas, _ = distwar.rasterization(**s, backgrounds=background)
        color, alpha, _ = reference(s)
        self.assertLess(relative(colors, color + (1 - alpha)[..., None] * background[:, None, None]), 1e-5)
        by_camera = dict(s, colors=np.stack((s["colors"], 2 * s["colors"])))
        self.assertLess(relative(distwar.rasterization(**by_camera)[0], color * np.array([1, 2])[:, None, None, None]),
                        1e-5)

    def test_leading_dimensions(self):
        one, two = scenes.scene(seed=0), scenes.scene(seed=1)
        stacked = {name: np.stack((one[name], two[name]))[None] for name in NAMES}
        colors, alphas, meta = distwar.rasterization(**stacked, width=40, height=33)
        self.assertEqual(colors.shape, (1, 2, 1, 33, 40, 3))
        self.assertEqual(meta["means2d"].shape, (1, 2, 1, 40, 2))
        self.assertTrue((colors[0, 1] == distwar.rasterization(**two)[0]).all())

    def test_planes(self):
        s = scenes.scene()
        depths = distwar.rasterization(**s)[2]["depths"][0]
        middle = float(np.median(depths[depths > 0]))
        near = distwar.rasterization(**s, near_plane=middle)[2]["depths"][0]
        far = distwar.rasterization(**s, far_plane=middle)[2]["depths"][0]
        self.assertTrue((near[near > 0] > middle).all() and (near > 0).any())
        self.assertTrue((far <= middle).all() and (far > 0).any())

    def test_no_gaussians(self):
        s = scenes.scene(count=0)
        colors, alphas, meta = distwar.rasterization(**s, backgrounds=np.full((1, 3), 0.25))
        self.assertTrue((colors == 0.25).all() and (alphas == 0).all())
        d = distwar.rasterization_backward(meta, np.ones_like(colors))
        self.assertEqual(d["means"].shape, (0, 3))

    def test_nan_is_not_drawn(self):
        s = scenes.scene()
        for name in ("means", "quats", "scales", "opacities"):
            broken = dict(s, **{name: s[name].copy()})
            broken[name][3] = np.nan
            without = dict(s, opacities=s["opacities"].copy())
            without["opacities"][3] = 0
            self.assertTrue((distwar.rasterization(**broken)[0] == distwar.rasterization(**without)[0]).all(), name)

    def test_other_inputs(self):
        s = scenes.scene()
        colors = distwar.rasterization(**s)[0]
        strided = dict(s, means=np.asfortranarray(s["means"]), scales=s["scales"].astype("float64"),
                       quats=np.concatenate((s["quats"], s["quats"]), 1)[:, :4])
        strided["viewmats"] = s["viewmats"].tolist()
        with self.assertRaisesRegex(TypeError, "viewmats is a list"):
            distwar.rasterization(**strided)
        strided["viewmats"] = s["viewmats"]
        self.assertTrue((distwar.rasterization(**strided)[0] == colors).all())


class Gradients(unittest.TestCase):
    """Against central differences of the formulas, along a random direction of each argument."""

    def check(self, s, options, formula, names=NAMES, tolerance=2e-4, **reference_options):
        colors, alphas, meta = distwar.rasterization(**s, **options)
        random = np.random.default_rng(5)
        d_colors, d_alphas = random.normal(size=colors.shape), random.normal(size=alphas.shape[:-1])
        d = distwar.rasterization_backward(meta, d_colors, d_alphas)

        def loss(arrays):
            color, alpha, depth = reference(arrays, covars=arrays.get("covars"), **reference_options)
            return (d_colors * formula(color, alpha, depth)).sum() + (d_alphas * alpha).sum()
        for name in names:
            # of a Gaussian by itself, to see each, and away from what the last row and column of matrices hold
            direction = random.normal(size=s[name].shape)
            if name == "viewmats":
                direction[:, 3] = 0
                direction[:, :3, :3] = direction[:, :3, :3] - direction[:, :3, :3].swapaxes(-1, -2)
                direction[:, :3, :3] = direction[:, :3, :3] @ s[name][:, :3, :3]
            if name == "covars":
                direction = 0.1 * (direction + direction.swapaxes(-1, -2))
            if name == "Ks":
                direction *= np.array([[1, 0, 1], [0, 1, 1], [0, 0, 0]])
            expected = difference(loss, s, name, direction, 1e-6)
            self.assertLess(abs((d[name] * direction).sum() - expected),
                            tolerance * np.linalg.norm(d[name] * direction), name)
            self.assertGreater(np.linalg.norm(d[name]), 0, name)
        return d

    def test_ortho(self):
        self.check(scenes.ortho(scenes.scene()), {}, lambda c, a, d: c)

    def test_colors(self):
        d = self.check(scenes.scene(), {}, lambda c, a, d: c)
        self.assertGreater(np.linalg.norm(d["means2d"]), 0)
        self.assertTrue((d["absgrad"] >= abs(d["means2d"]) * 0.9999).all())

    def test_harmonics_antialiased(self):
        s = scenes.scene(degree=1)
        self.check(s, dict(rasterize_mode="antialiased", eps2d=0.5), lambda c, a, d: c, antialiased=True, eps2d=0.5)

    def test_logarithms(self):
        s = scenes.scene()
        scales, opacities = s["scales"], s["opacities"]
        colors, _, meta = distwar.rasterization(**s)
        turned, _, own = distwar.rasterization(**dict(s, scales=np.log(scales), opacities=np.log(opacities / (1 - opacities))),
                                               activated=False)
        self.assertLess(relative(turned, colors), 1e-6)
        d_colors = np.random.default_rng(5).normal(size=colors.shape)
        d, d_own = (distwar.rasterization_backward(of, d_colors) for of in (meta, own))
        self.assertLess(relative(d_own["scales"], d["scales"] * scales), 1e-5)
        self.assertLess(relative(d_own["opacities"], d["opacities"] * opacities * (1 - opacities)), 1e-5)

    def test_depth(self):
        self.check(scenes.scene(), dict(render_mode="RGB+D"), lambda c, a, d: np.concatenate((c, d[..., None]), -1))

    def test_channels_and_cameras(self):
        self.check(scenes.scene(cameras=2, channels=5), {}, lambda c, a, d: c)

    def test_several_cameras_at_once(self):
        self.check(scenes.scene(cameras=2), {}, lambda c, a, d: c)

    def test_covariances(self):
        s = scenes.scene()
        axes = np.stack([scenes._rotation(q) * scale for q, scale in zip(s["quats"], s["scales"])])
        s.update(covars=(axes @ axes.swapaxes(-1, -2)).astype("float32"), quats=None, scales=None)
        d = self.check(s, {}, lambda c, a, d: c, names=("means", "covars", "viewmats"))
        self.assertLess(relative(d["covars"], d["covars"].swapaxes(-1, -2)), 1e-6)

    def test_backgrounds(self):
        background = np.array([[0.2, 0.5, 0.7]], "float32")
        self.check(scenes.scene(), dict(backgrounds=background), lambda c, a, d: c + (1 - a)[..., None] * background)
        s = dict(scenes.scene(), backgrounds=np.array([[0.2, 0.5, 0.7]], "float32"))
        colors, _, meta = distwar.rasterization(**s)
        d_colors = np.random.default_rng(1).normal(size=colors.shape)
        d = distwar.rasterization_backward(meta, d_colors)
        alpha = reference(s)[1]
        self.assertLess(relative(d["backgrounds"], (d_colors * (1 - alpha)[..., None]).sum((1, 2))), 1e-5)

    def test_deterministic(self):
        s = scenes.scene()
        colors, _, meta = distwar.rasterization(**s)
        usual = distwar.rasterization_backward(meta, np.ones_like(colors))
        distwar.deterministic = True
        try:
            fixed = distwar.rasterization_backward(meta, np.ones_like(colors))
            again = distwar.rasterization_backward(meta, np.ones_like(colors))
        finally:
            distwar.deterministic = False
        for name in NAMES:
            self.assertTrue((fixed[name] == again[name]).all(), name)
            self.assertLess(relative(fixed[name], usual[name]), 1e-4, name)


class Refusals(unittest.TestCase):
    def refused(self, error, text, **changes):
        with self.assertRaisesRegex(error, text):
            distwar.rasterization(**dict(scenes.scene(), **changes))

    def test_not_supported(self):
        self.refused(NotImplementedError, "sh_degree = 4", sh_degree=4, colors=np.ones((40, 25, 3), "float32"))
        for name, value in dict(radius_clip=1.0, tile_size=8, sparse_grad=True, distributed=True, rays=np.zeros(1),
                                global_z_order=False, camera_model="fisheye", segmented=True, with_ut=True,
                                with_eval3d=True,
                                radial_coeffs=np.zeros((1, 6)), viewmats_rs=np.zeros((1, 4, 4)),
                                rolling_shutter="LEFT_TO_RIGHT").items():
            self.refused(NotImplementedError, name, **{name: value})

    def test_shapes(self):
        for name, shape in dict(means=(40, 2), quats=(40, 3), scales=(39, 3), opacities=(40, 1), colors=(39, 3),
                                viewmats=(4, 4), Ks=(2, 3, 3)).items():
            self.refused(ValueError, name, **{name: np.ones(shape, "float32")})
        self.refused(ValueError, "colors", sh_degree=2, colors=np.ones((40, 4, 3), "float32"))
        self.refused(ValueError, "backgrounds", backgrounds=np.ones((1, 4), "float32"))
        self.refused(ValueError, "channels", colors=np.ones((40, 1025), "float32"))

    def test_values(self):
        self.refused(ValueError, "sh_degree", sh_degree=5, colors=np.ones((40, 36, 3), "float32"))
        self.refused(ValueError, "width", width=0)
        self.refused(ValueError, "height", height=2**31)
        self.refused(ValueError, "near_plane", near_plane=-1.0)
        self.refused(ValueError, "eps2d", eps2d=float("nan"))
        self.refused(ValueError, "render_mode", render_mode="rgb")
        self.refused(ValueError, "rasterize_mode", rasterize_mode="sharp")
        self.refused(ValueError, "scales", scales=None)
        self.refused(distwar.gs.Error, "fx", Ks=np.full((1, 3, 3), np.nan, "float32"))

    def test_types(self):
        self.refused(TypeError, "means", means=np.ones((40, 3), "int64"))
        self.refused(TypeError, "colors", colors=None)

    def test_backward(self):
        _, _, meta = distwar.rasterization(**scenes.scene())
        with self.assertRaisesRegex(ValueError, "d_colors"):
            distwar.rasterization_backward(meta, np.ones((1, 3, 33, 40)))


class About(unittest.TestCase):
    def test_lines(self):
        run = subprocess.run([sys.executable, "-m", "distwar"], capture_output=True, text=True, check=True)
        lines = {line.split()[0]: line.split(None, 1)[1] for line in run.stdout.splitlines()}
        self.assertEqual(lines["distwar"], distwar.__version__)
        self.assertRegex(distwar.__version__, r"^\d+\.\d+\.\d+$")
        self.assertRegex(lines["libdistwar_gs"], "^simt, /.*libdistwar_gs.so")
        self.assertEqual(lines["numpy"], np.__version__)
        with self.assertRaises(AttributeError):
            distwar.nothing

    @unittest.skipIf(distwar.library().backend == "cuda", "of the CPU library")
    def test_the_other_library(self):
        with self.assertRaisesRegex(RuntimeError, "a GPU is asked for.* libdistwar_gs for CPUs"):
            distwar.library("cuda")

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
