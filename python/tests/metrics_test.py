# SPDX-License-Identifier: MIT
"""examples/metrics.py on what dsplat eval --pictures writes."""
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import metrics  # noqa: E402

PROGRAM = os.environ["DISTWAR_PROGRAM"]


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.top.name)

        def run(*arguments):
            subprocess.run([PROGRAM, *arguments], cwd=cls.folder, check=True, stdout=subprocess.DEVNULL)
        run("generate", "knot", "--views", "2", "--test-views", "2", "--size", "32", "--gaussians", "1000")
        run("eval", "knot/scene.ply", "--cameras", "knot", "--background", "1,0,0", "--all", "--pictures", "all", "--json", "all.json")
        cls.views = json.loads((cls.folder / "all.json").read_text())["views"]

    @classmethod
    def tearDownClass(cls):
        cls.top.cleanup()

    def test_psnr_is_that_of_eval(self):
        paths = sorted((self.folder / "all").glob("view_*.png"))
        self.assertEqual(len(paths), 4)
        for path, view in zip(paths, self.views):
            self.assertAlmostEqual(metrics.psnr(*metrics.pair(path)), view["psnr"], places=4)
        self.assertEqual(metrics.psnr(*[metrics.pair(paths[0])[1]] * 2), float("inf"))

    def test_says_what_to_install(self):
        with mock.patch.object(metrics, "NEEDED", ("no_such_module",)), mock.patch.object(sys, "argv", ["", str(self.folder / "all")]):
            with self.assertRaisesRegex(SystemExit, "pip install no_such_module"):
                metrics.main()
        with mock.patch.object(sys, "argv", ["", str(self.folder)]), self.assertRaisesRegex(SystemExit, "--pictures"):
            metrics.main()

    @unittest.skipUnless(importlib.util.find_spec("torchmetrics") and importlib.util.find_spec("torchvision"), "no torchmetrics")
    def test_prints_all_three(self):
        import torchmetrics.functional.image as image
        seen = []

        def lpips(a, b, net, normalize):  # without a network's weights, which would be downloaded
            seen.append((tuple(a.shape), float(a.min()), float(b.max()), net, normalize))
            return (a - b).abs().mean()
        with mock.patch.object(image, "learned_perceptual_image_patch_similarity", lpips), \
                mock.patch.object(sys, "argv", ["", str(self.folder / "all")]), mock.patch("builtins.print") as said:
            metrics.main()
        self.assertEqual(len(seen), 4)
        self.assertTrue(all(shape == (1, 3, 32, 32) and least >= 0 and most <= 1 and net == "alex" and scaled
                            for shape, least, most, net, scaled in seen))
        mean = said.call_args[0][0].split()
        self.assertEqual(mean[0], "mean")
        self.assertAlmostEqual(float(mean[1]), np.mean([view["psnr"] for view in self.views]), delta=0.006)


if __name__ == "__main__":
    unittest.main()
