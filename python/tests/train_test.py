# SPDX-License-Identifier: MIT
"""examples/train.py on a small scene, and how its data is read."""
import contextlib
import io
import json
import pathlib
import struct
import sys
import tempfile
import unittest

import numpy as np
import scenes
import torch
from on_torch import DEVICE, setUpModule, tensors  # noqa: F401
from PIL import Image

import distwar

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "examples"))
import train  # noqa: E402
import views  # noqa: E402

W, H = 48, 40


def quaternion(R):
    """w, x, y, z of a rotation about the y axis."""
    return [np.sqrt((1 + R[0, 0]) / 2), 0, np.sign(R[0, 2]) * np.sqrt((1 - R[0, 0]) / 2), 0]


class Data:
    """A folder with ten photographs of a random scene, in COLMAP's form and as transforms.json."""

    def __init__(self, folder, model=1, parameters=None):
        self.folder = pathlib.Path(folder)
        s = scenes.scene(cameras=10, size=(W, H), count=60)
        s["scales"] *= 2
        colors, _, _ = distwar.rasterization(**tensors(s, ()), packed=False)
        (self.folder / "images").mkdir(parents=True)
        self.viewmats, self.K = s["viewmats"], s["Ks"][0]
        fx, fy, cx, cy = (float(self.K[i]) for i in ((0, 0), (1, 1), (0, 2), (1, 2)))
        frames, images = [], struct.pack("<Q", 10)
        for c, (view, picture) in enumerate(zip(s["viewmats"], colors)):
            name = f"images/{c:02}.png"
            Image.fromarray((picture.clamp(0, 1) * 255).round().byte().cpu().numpy()).save(self.folder / name)
            to_world = np.linalg.inv(view.astype("float64"))
            to_world[:, 1:3] *= -1
            frames.append(dict(file_path=name, transform_matrix=to_world.tolist()))
            images += struct.pack("<i7di", c + 1, *quaternion(view), *view[:3, 3], 1) + name[7:].encode() + b"\0"
            images += struct.pack("<Q", 2) + bytes(48)
        (self.folder / "transforms.json").write_text(json.dumps(dict(
            fl_x=fx, fl_y=fy, cx=cx, cy=cy, w=W, h=H, frames=frames)))
        self.model = self.folder / "sparse/0"
        self.model.mkdir(parents=True)
        parameters = parameters or [fx, fy, cx, cy]
        self.write("cameras", struct.pack(f"<QiiQQ{len(parameters)}d", 1, 1, model, W, H, *parameters))
        self.write("images", images)
        self.write("points3D", struct.pack("<Q", 60) + b"".join(
            struct.pack("<Q3d3BdQ", i, *mean, *(color * 255).astype("uint8"), 0.5, 1) + bytes(8)
            for i, (mean, color) in enumerate(zip(s["means"], s["colors"]))))

    def write(self, name, data):
        (self.model / f"{name}.bin").write_bytes(data)


class Training(unittest.TestCase):
    def setUp(self):
        self.at = tempfile.TemporaryDirectory()
        self.addCleanup(self.at.cleanup)
        self.folder = pathlib.Path(self.at.name) / "data"

    def test_both_forms_say_the_same(self):
        data = Data(self.folder)
        frames, points = views.load_frames(self.folder)
        self.assertEqual(points.shape, (60, 6))
        colmap = views.load(frames, 1, DEVICE)
        (data.model / "cameras.bin").unlink()
        frames, none = views.load_frames(self.folder)
        self.assertIsNone(none)
        for a, b, viewmat in zip(colmap, views.load(frames, 1, DEVICE), data.viewmats):
            for one in (a, b):
                self.assertLess(scenes.relative(one[0][0], viewmat), 1e-5)
                self.assertLess(scenes.relative(one[1][0], data.K), 1e-6)
            self.assertTrue(torch.equal(a[2], b[2]))

    def test_camera_models(self):
        for model, parameters, K, lens in ((0, [50, 24, 20], [50, 50, 24, 20], {}),
                                           (2, [50, 24, 20, 0.1], [50, 50, 24, 20], dict(k1=0.1)),
                                           (4, [50, 51, 24, 20, 0.1, 0.2, 0.3, 0.4], [50, 51, 24, 20],
                                            dict(k1=0.1, k2=0.2, p1=0.3, p2=0.4))):
            folder = self.folder / str(model)
            Data(folder, model, parameters)
            (_, camera, _), *_ = views.load_frames(folder)[0]
            self.assertEqual([camera[name] for name in ("fx", "fy", "cx", "cy")], K)
            self.assertEqual({name: camera[name] for name in lens}, lens)

    def test_reduced_photographs(self):
        data = Data(self.folder)
        for path in (self.folder / "images").iterdir():
            Image.open(path).resize((W // 2, H // 2)).save(path)
        _, (K,), picture = views.load(views.load_frames(self.folder)[0], 1, DEVICE)[0]
        self.assertEqual(tuple(picture.shape), (H // 2, W // 2, 3))
        self.assertLess(scenes.relative(K[:2], data.K[:2] / 2), 1e-6)

    def refused(self, text):
        with self.assertRaises(SystemExit) as raised, contextlib.redirect_stdout(io.StringIO()):
            views.load(views.load_frames(self.folder)[0], 1, DEVICE)
        self.assertIn(text, str(raised.exception))

    def test_bad_data(self):
        self.folder.mkdir()
        self.refused("neither sparse/0/cameras.bin")
        data = Data(self.folder / "whole")
        self.folder = data.folder
        for name in ("cameras", "images", "points3D"):
            whole = (data.model / f"{name}.bin").read_bytes()
            for length in (0, 4, 20, len(whole) - 1):
                data.write(name, whole[:length])
                self.refused(f"{name}.bin ends early")
            data.write(name, struct.pack("<Q", 2**60) + whole[8:])
            self.refused(f"{name}.bin ends early")
            data.write(name, whole)
        data.write("cameras", struct.pack("<QiiQQ3d", 1, 1, 5, W, H, 1, 1, 1))
        self.refused("camera model 5 is not supported")
        data.write("cameras", struct.pack("<QiiQQ4d", 1, 7, 1, W, H, 1, 1, 1, 1))
        self.refused("camera 1 of an image is not in")
        (data.model / "cameras.bin").unlink()
        transforms = self.folder / "transforms.json"
        whole = transforms.read_text()
        for text in ("", "[]", "{}", whole[:-9], whole.replace("transform_matrix", "matrix"), whole.replace("[[", "[[[9],"),
                     whole.replace("fl_x", "focal")):
            transforms.write_text(text)
            self.refused("00.png: its camera" if "focal" in text else "transforms.json: ")
        transforms.write_text(whole)
        (self.folder / "images/03.png").write_bytes(b"no picture")
        self.refused("images/03.png: cannot identify")
        for path in (self.folder / "images").iterdir():
            path.unlink()
        self.refused("there are no photographs")

    def trained(self, *options):
        if not self.folder.exists():
            Data(self.folder)
        out, at = io.StringIO(), self.folder / "scene.pt"
        with contextlib.redirect_stdout(out):
            train.main([str(self.folder), "-o", str(at), *options])
        return json.loads(out.getvalue().splitlines()[-1]), torch.load(at)

    def test_from_points(self):
        before, _ = self.trained("--iterations", "1", "--batch", "1")
        result, scene = self.trained("--iterations", "600", "--most", "200")
        self.assertGreater(result["held_out_psnr"], before["held_out_psnr"] + 3)
        self.assertEqual((len(scene["means"]), tuple(scene["shN"].shape)), (60, (60, 15, 3)))

    def test_from_random_points(self):
        result, _ = self.trained("--iterations", "20", "--random", "400", "--downscale", "2")
        self.assertGreater(result["held_out_psnr"], 8)

    def test_the_default_loop(self):
        results = [self.trained("--loop", "default", "--iterations", n)[0]["held_out_psnr"] for n in ("1", "80")]
        self.assertGreater(results[1], results[0] + 2)


if __name__ == "__main__":
    unittest.main()
