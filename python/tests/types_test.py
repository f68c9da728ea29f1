# SPDX-License-Identifier: MIT
"""mypy --strict on what users import, and on a user's file: the hints say what the calls take and return."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PUBLIC = ("__init__", "__main__", "density", "index", "neighbors", "optim", "trainer")

USER = '''
import torch
import distwar
from distwar import density, optim

t = torch.zeros(3)
colors, alphas, meta = distwar.rasterization(t, t, t, t, t, t, t, 64, 48, packed=False)
reveal_type(colors)
reveal_type(distwar.index_add(t, t, t))
reveal_type(density.relocate({}, {}))
reveal_type(distwar.__version__)
loss = distwar.l1_ssim_loss(colors, t)
optim.step([torch.optim.Adam([t])], meta["radii"])
distwar.rasterization(t, t, t, t, t, t, t, 64, "48")
distwar.index_add(t, t)
optim.SelectiveAdam([t], rate=1)
distwar.density.rotations("q")
distwar.optin
'''
FOUND = ('Revealed type is "torch._tensor.Tensor"', 'Revealed type is "torch._tensor.Tensor"', 'Revealed type is "int"',
         'Revealed type is "str"', 'Argument 9 to "rasterization" has incompatible type "str"',
         'Missing positional argument', 'Unexpected keyword argument "rate"',
         'Argument 1 to "rotations" has incompatible type "str"',
         'has no attribute "optin"')


def mypy(*arguments):
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context",
                          f"--cache-dir={tempfile.gettempdir()}/distwar-mypy", *arguments], cwd=ROOT, text=True,
                         capture_output=True)
    lines = (run.stdout + run.stderr).replace("builtins.", "").splitlines()
    return [line for line in lines if '" defined in "' not in line]  # a note of new versions


class Types(unittest.TestCase):
    def test_the_package(self):
        self.assertTrue((ROOT / "distwar/py.typed").exists())
        self.assertEqual(mypy("--follow-imports=silent", "--untyped-calls-exclude=distwar",
                              *(f"distwar/{name}.py" for name in PUBLIC)), [])

    def test_a_user(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "user.py"
            path.write_text(USER)
            lines = mypy("--follow-imports=silent", str(path))
        self.assertEqual(len(lines), len(FOUND), lines)
        for line, text in zip(lines, FOUND):
            self.assertIn(text, line)


if __name__ == "__main__":
    unittest.main()
