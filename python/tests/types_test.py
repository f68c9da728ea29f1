# SPDX-License-Identifier: MIT
"""mypy --strict on what users import, and on a user's file: the hints say what the calls take and return."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PUBLIC = ("__init__", "__main__", "density", "index", "neighbors", "optim", "trainer")

# What mypy says of a line stands behind it.
USER = '''
import torch
import distwar
from distwar import density, optim

t = torch.zeros(3)
colors, alphas, meta = distwar.rasterization(t, t, t, t, t, t, t, 64, 48, packed=False)
reveal_type(colors)  # Revealed type is "torch._tensor.Tensor"
reveal_type(distwar.index_add(t, t, t))  # Revealed type is "torch._tensor.Tensor"
reveal_type(density.relocate({}, {}))  # Revealed type is "int"
reveal_type(distwar.__version__)  # Revealed type is "str"
loss = distwar.l1_ssim_loss(colors, t)
optim.step([torch.optim.Adam([t])], meta["radii"])
distwar.rasterization(t, t, t, t, t, t, t, 64, "48")  # Argument 9 to "rasterization" has incompatible type "str"
distwar.index_add(t, t)  # Missing positional argument
optim.SelectiveAdam([t], rate=1)  # Unexpected keyword argument "rate"
distwar.density.rotations("q")  # Argument 1 to "rotations" has incompatible type "str"
distwar.optin  # has no attribute "optin"
'''


def mypy(*arguments):
    """Its lines. torch 2.4 does not say that torch.optim exports Adam, nor has hints in torch.autograd.graph."""
    run = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--implicit-reexport", "--no-error-summary",
                          "--hide-error-context", "--follow-imports=silent",
                          f"--cache-dir={tempfile.gettempdir()}/distwar-mypy", *arguments], cwd=ROOT,
                         text=True, capture_output=True)
    lines = (run.stdout + run.stderr).replace("builtins.", "").splitlines()
    return [line for line in lines if '" defined in "' not in line]  # a note of new versions


class Types(unittest.TestCase):
    def test_the_package(self):
        self.assertTrue((ROOT / "distwar/py.typed").exists())
        self.assertEqual(mypy("--untyped-calls-exclude=distwar", "--untyped-calls-exclude=torch.autograd.graph", *(
                              f"distwar/{name}.py" for name in PUBLIC)), [])

    def test_a_user(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "user.py"
            path.write_text(USER)
            lines, found = mypy(str(path)), [line.split("  # ")[1] for line in USER.splitlines() if "  # " in line]
        self.assertEqual(len(lines), len(found), lines)
        for line, text in zip(lines, found):
            self.assertIn(text, line)


if __name__ == "__main__":
    unittest.main()
