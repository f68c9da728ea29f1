# SPDX-License-Identifier: MIT
"""gsplat 1.4.0 and 1.5.3 from PyPI as callers: density_test.py with each. Downloads both once, into the folder of the tests;
skips where that fails. Python needs what gsplat imports: a gsplat of any version, with its dependencies."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


def folder_of(version):
    """A folder with that gsplat alone."""
    at = pathlib.Path(os.environ.get("DISTWAR_TEST_FOLDER", tempfile.gettempdir())) / f"gsplat-{version}"
    if not (at / "gsplat").exists():
        run = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", at,
                              f"gsplat=={version}"], capture_output=True, text=True)
        if run.returncode:
            raise unittest.SkipTest(f"gsplat {version} cannot be installed here: {run.stderr.strip()[-200:]}")
    return at


class Versions(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("gsplat"), "there is no gsplat here")
    def test_strategies(self):
        for version in ("1.4.0", "1.5.3"):
            with self.subTest(version=version):
                path = [folder_of(version), HERE, *os.environ.get("PYTHONPATH", "").split(":")]
                environment = dict(os.environ, PYTHONPATH=":".join(map(str, path)))
                check = f"import importlib.metadata as m; assert m.version('gsplat') == {version!r}"
                subprocess.run([sys.executable, "-c", check], env=environment, check=True)
                run = subprocess.run([sys.executable, HERE / "density_test.py"], text=True, capture_output=True, env=environment)
                self.assertEqual(run.returncode, 0, run.stderr)
                self.assertNotIn("skipped", run.stderr)


if __name__ == "__main__":
    unittest.main()
