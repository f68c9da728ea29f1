# SPDX-License-Identifier: MIT
"""distwar.Trainer: what dsplat train makes of the same photographs, byte by byte; callbacks, saving, refusals."""
import contextlib
import io
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest
import zlib

import numpy as np

import distwar
from distwar._library import has_gpu


def setUpModule():
    if distwar.library().backend == "cuda" and not has_gpu():
        raise unittest.SkipTest("there is no GPU here")


SIZE, VIEWS = 32, 6
PROGRAM = os.environ.get("DISTWAR_PROGRAM")


def photographs():
    """Pictures of a patterned floor from a circle of cameras that look down, and points on it."""
    images, viewmats, (v, u) = [], [], np.mgrid[0:SIZE, 0:SIZE] + 0.5
    for i in range(VIEWS):
        view = np.eye(4, dtype="float32")
        view[:2, 3], view[2, 3] = (0.3 * np.cos(i), 0.3 * np.sin(i)), 4
        x, y = (u - SIZE / 2) * 4 / SIZE - view[0, 3], (v - SIZE / 2) * 4 / SIZE - view[1, 3]
        pattern = np.stack((130 + 100 * np.sin(4 * x), 130 + 100 * np.cos(3 * y), 90 + 0 * x), -1)
        images.append((pattern * (abs(x) < 1.2)[..., None]).astype("uint8"))
        viewmats.append(view)
    points = np.array([[x, y, 0.01 * x * y] for x in np.linspace(-1, 1, 9) for y in np.linspace(-1, 1, 9)], "float32")
    colors = np.stack((100 + 90 * points[:, 0], 100 + 90 * points[:, 1], 0 * points[:, 0]), -1).astype("uint8")
    K = np.array([[SIZE, 0, SIZE / 2], [0, SIZE, SIZE / 2], [0, 0, 1]], "float32")
    return dict(images=images, viewmats=np.stack(viewmats), Ks=np.stack([K] * VIEWS), points=points, colors=colors)


def png(picture):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", SIZE, SIZE, 8, 2, 0, 0, 0)) + \
        chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def write(folder, data):
    """The same as a folder with a transforms.json; the rotations are 1."""
    frames = []
    for i, (picture, view) in enumerate(zip(data["images"], data["viewmats"])):
        (folder / f"{i}.png").write_bytes(png(picture))
        pose = np.diag((1.0, -1, -1, 1))
        pose[:3, 3] = -view[:3, 3]
        frames.append(dict(file_path=f"{i}.png", transform_matrix=pose.tolist()))
    (folder / "transforms.json").write_text(json.dumps(dict(fl_x=SIZE, frames=frames)))
    (folder / "points3D.txt").write_text("".join(
        f"7 {' '.join(map(str, (*p, *c)))} 0\n" for p, c in zip(data["points"], data["colors"])))


SETTINGS = dict(iterations=20, seed=3, reproducible=True, sh_degree=1, max_gaussians=200)


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


class Trainers(unittest.TestCase):
    def setUp(self):
        self.data = photographs()

    def trainer(self, **settings):
        made = distwar.Trainer(self.data, **{**SETTINGS, **settings})
        self.addCleanup(made.close)
        return made

    def trained(self, settings=dict(), **data):
        """The parameters after all iterations on data with these changes."""
        self.data.update(data)
        made = self.trainer(**settings)
        made.train()
        return made.parameters()

    def test_the_bytes_of_the_program(self):
        if not PROGRAM:
            self.skipTest("DISTWAR_PROGRAM names no dsplat")
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            write(folder, self.data)
            options = [str(o) for name, value in SETTINGS.items() if name != "reproducible"
                       for o in ("--" + name.replace("_", "-"), value)]
            run = subprocess.run([PROGRAM, "train", folder, "-o", folder / "theirs.ply", "--holdout", "0",
                                  "--reproducible", *options], text=True, capture_output=True)
            self.assertEqual(run.returncode, 0, run.stderr)
            t = self.trainer()
            now = t.train()
            t.save(folder / "ours.ply")
            self.assertEqual((now.views, now.views_in_all), (20, 20))
            theirs, ours = ((folder / f"{whose}.ply").read_bytes() for whose in ("theirs", "ours"))
            self.assertEqual(ours[ours.index(b"element"):], theirs[theirs.index(b"element"):])
        losses = t.losses()
        self.assertEqual(losses.shape, (20,))
        self.assertLess(losses[-6:].mean(), losses[:6].mean())

    def test_callbacks_and_progress(self):
        seen = []
        t = self.trainer()
        with contextlib.redirect_stderr(io.StringIO()) as text:
            now = t.train(lambda trainer, progress: seen.append(progress.steps), every=10, progress=True)
        self.assertEqual(seen, [10, 20])
        self.assertIn("20 of 20 views, 81 Gaussians", text.getvalue())
        self.assertEqual((now.views, now.sh_degree, t.step()), (20, 1, False))
        self.assertRaisesRegex(RuntimeError, "has begun", t.train, seed=4)
        stopped = self.trainer()
        self.assertEqual(stopped.train(lambda *_: True, every=5).steps, 5)
        stopped.train()
        self.assertTrue(same(stopped.parameters(), t.parameters()))

    def test_a_budget(self):
        start = distwar.Trainer(self.data).progress
        self.assertEqual((start.views_in_all, start.sh_degree), (7000, 3))
        now = distwar.Trainer(self.data).train(budget="0.3s")
        self.assertGreater(now.views, 0)
        self.assertLess(now.seconds, 3)
        self.assertEqual([distwar.trainer.seconds_of(b) for b in (10, "10", "1.5s", "2m", "1h")], [10, 10, 1.5, 120, 3600])

    def test_resumed(self):
        whole, half, again = self.trained(), self.trainer(), self.trainer()
        half.train(lambda *_: True, every=10)
        again.resume(half.checkpoint())
        self.assertFalse(same(again.parameters(), whole))
        again.train()
        self.assertTrue(same(again.parameters(), whole))
        with self.assertRaisesRegex(RuntimeError, "this run has seed 4"):
            self.trainer(seed=4).resume(half.checkpoint())

    def test_the_scene_renders_as_the_picture(self):
        t = self.trainer(antialias=True)
        t.train()
        view, K = self.data["viewmats"][2], self.data["Ks"][2]
        picture = t.picture(view, K, SIZE, SIZE)
        self.assertGreater(picture.std(), 20)
        if distwar.library().backend == "simt":
            colors, _, _ = distwar.rasterization(**t.scene(), viewmats=view[None], Ks=K[None], width=SIZE, height=SIZE,
                                                 near_plane=t.near_plane())
            self.assertLessEqual(abs(255 * colors[0].clip(0, 1) - picture).max(), 0.51)
        self.assertAlmostEqual(t.near_plane(), 0.3 / 30, delta=0.001)
        self.assertAlmostEqual(distwar.Trainer({**self.data, "near_plane": 0.2}, **SETTINGS).near_plane(), 0.2, 6)
        viewmats, Ks = t.cameras()
        self.assertTrue(np.array_equal(viewmats, self.data["viewmats"]) and np.array_equal(Ks, self.data["Ks"]))

    def test_from_parameters_and_tensors(self):
        p = self.trained(dict(iterations=10))
        data = {**{name: self.data[name] for name in ("images", "viewmats", "Ks")}, "parameters": p}
        same_start = distwar.Trainer(data, **SETTINGS)
        self.assertTrue(same(same_start.parameters(), p))
        try:
            import torch
        except ImportError:
            return
        data = {name: [torch.tensor(a) for a in value] if name == "images" else torch.tensor(value)
                for name, value in self.data.items()}
        data["viewmats"] = data["viewmats"][:, None]
        self.assertTrue(same(self.trained(dict(iterations=10), **data), p))
        self.assertEqual({type(a) for a in self.trainer().scene("cpu").values()}, {torch.Tensor, int, str})

    def test_options_of_views(self):
        """Pixels that do not count leave the scene as it is, whatever they show."""
        mask = np.ones((VIEWS, SIZE, SIZE), bool)
        mask[:, :, :10] = False
        others = [np.where(m[..., None], picture, 77).astype("uint8") for m, picture in zip(mask, self.data["images"])]
        found = [self.trained(**change) for change in (dict(masks=mask), dict(images=others), dict(masks=~mask))]
        self.assertTrue(same(found[0], found[1]))
        self.assertFalse(same(found[1], found[2]))

    def test_validation(self):
        found = self.trainer(validate=1).validate()
        self.assertEqual(found.views, 1)
        self.assertGreater(found.psnr, 3)

    def test_weights_of_the_loss(self):
        depths = [np.full(p.shape[:2], 0.4, "float32") for p in self.data["images"]]
        found = [self.trained(of, inverse_depths=depths) for of in (dict(), dict(depth_weight=1), dict(depth_weight=3))]
        self.assertTrue(same(found[0], found[1]))
        self.assertFalse(same(found[0], found[2]))

    def test_refusals(self):
        images = self.data["images"]
        refused = [(TypeError, "not uint8", dict(images=[p / 255 for p in images])),
                   (ValueError, "3 viewmats of 6 images", dict(viewmats=images[:3])),
                   (ValueError, r"not \[3, 3\]", dict(Ks=self.data["Ks"][:, :2])),
                   (RuntimeError, "view 0 has no pixels", dict(images=[p[:0] for p in images]))]
        for name, at, value, text in (("viewmats", (0, 3), np.nan, "view 2 has the translation nan"),
                                      ("viewmats", (0, 0), -1, "view 2: not a rotation"),
                                      ("viewmats", np.s_[:3, :3], 2 * np.eye(3), "view 2 has a rotation times 2"),
                                      ("viewmats", (3, 3), 0, "view 2: skew"),
                                      ("Ks", (0, 1), 5, "view 2: skew"),
                                      ("points", 1, np.nan, "point 2 is not finite")):
            array = self.data[name].copy()
            array[2][at] = value
            refused.append((ValueError if "skew" in text else RuntimeError, text, {name: array}))
        for error, text, change in refused:
            with self.assertRaisesRegex(error, text):
                distwar.Trainer({**self.data, **change}, **SETTINGS).train()
        # Other settings: Library.SaysWhatItRefuses.
        self.assertRaisesRegex(RuntimeError, "no setting 'iteration=3'", distwar.Trainer, self.data, iteration=3)
        self.assertRaisesRegex(ValueError, "budget is 'soon'", distwar.Trainer, self.data, budget="soon")


if __name__ == "__main__":
    unittest.main()
