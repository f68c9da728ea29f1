# SPDX-License-Identifier: MIT
"""The cells of examples/photographs.ipynb, one after another, on a folder of small photographs."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from train_test import Data, setUpModule  # noqa: F401

NOTEBOOK = pathlib.Path(__file__).resolve().parents[1] / "examples/photographs.ipynb"


class Notebook(unittest.TestCase):
    def test_photographs(self):
        cells = json.loads(NOTEBOOK.read_text())["cells"]
        self.assertFalse(any(cell.get("outputs") for cell in cells))
        names = {}
        sys.path.insert(0, str(NOTEBOOK.parent))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()), \
                mock.patch.dict(os.environ, DATA=f"{folder}/data", BUDGET="10s"):
            Data(f"{folder}/data")
            for cell in cells:
                if cell["cell_type"] == "code":
                    exec("".join(cell["source"]), names)
            self.assertGreater((pathlib.Path(folder) / "data/scene.ply").stat().st_size, 10000)
        photograph = names["images"][0].numpy() / 255
        error = ((names["picture"] / 255 - photograph)**2).mean()
        self.assertLess(error, photograph.var() / 2)
        self.assertEqual(tuple(names["colors"].shape[1:]), names["picture"].shape)
        names["trainer"].close()


if __name__ == "__main__":
    unittest.main()
