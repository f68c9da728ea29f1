# SPDX-License-Identifier: MIT
"""gsplat 1.4.0 and 1.5.3 from PyPI as callers: density_test.py with each, and the calls of
nerfstudio's splatfacto with the first. Downloads both once, into the folder of the tests; skips where that fails.
Python needs what gsplat imports: a gsplat of any version, with its dependencies."""
import importlib.metadata
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent

# What splatfacto does in a step, with gsplat 1.4.0: one camera, unpacked, poses with gradients, depth over alpha.
SPLATFACTO = """
import gsplat.strategy, scenes, torch, distwar
from density_test import DEVICE, parameters
params, view = parameters()
sh = torch.nn.Parameter(torch.zeros(100, 16, 3, device=DEVICE))
params["features_dc"], params["features_rest"] = (torch.nn.Parameter(a.detach()) for a in (sh[:, 0], sh[:, 1:]))
del params["colors"]
pose = torch.zeros(3, device=DEVICE, requires_grad=True)
optimizers = {name: torch.optim.Adam([p], lr=1e-3, eps=1e-15) for name, p in params.items()}
strategy = gsplat.strategy.DefaultStrategy(refine_start_iter=0, refine_every=1, grow_grad2d=1e-6, verbose=False)
strategy.check_sanity(params, optimizers)
state = strategy.initialize_state(scene_scale=1.0)
for step in range(4):
    viewmat = view["viewmats"].clone()
    viewmat[:, :3, 3] = viewmat[:, :3, 3] + pose
    render, alpha, info = distwar.rasterization(
        means=params["means"], quats=params["quats"], scales=torch.exp(params["scales"]),
        opacities=torch.sigmoid(params["opacities"]).squeeze(-1),
        colors=torch.cat((params["features_dc"][:, None], params["features_rest"]), dim=1), viewmats=viewmat,
        Ks=view["Ks"], width=view["width"], height=view["height"], packed=False, near_plane=0.01, far_plane=1e10,
        render_mode="RGB+ED", sh_degree=min(step, 3), sparse_grad=False, absgrad=True, rasterize_mode="classic")
    assert info["radii"].shape == (1, len(params["means"])), info["radii"].shape
    strategy.step_pre_backward(params, optimizers, state, step, info)
    rgb, depth = render[:, ..., :3], render[:, ..., 3:4]
    (rgb.square().sum() + depth.mean()).backward()
    strategy.step_post_backward(params, optimizers, state, step, info, packed=False)
    for optimizer in optimizers.values():
        optimizer.step()
        optimizer.zero_grad()
assert pose.grad.abs().sum() > 0 and len(params["means"]) > 100, len(params["means"])
"""

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
    def setUp(self):
        try:
            importlib.metadata.version("gsplat")
        except importlib.metadata.PackageNotFoundError:
            self.skipTest("there is no gsplat here")

    def run_with(self, version, *arguments):
        path = [folder_of(version), HERE, *os.environ.get("PYTHONPATH", "").split(":")]
        environment = dict(os.environ, PYTHONPATH=":".join(map(str, path)))
        check = f"import importlib.metadata as m; assert m.version('gsplat') == {version!r}"
        subprocess.run([sys.executable, "-c", check], env=environment, check=True)
        run = subprocess.run([sys.executable, *map(str, arguments)], text=True, capture_output=True, env=environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertNotIn("skipped", run.stderr)

    def test_strategies(self):
        for version in ("1.4.0", "1.5.3"):
            with self.subTest(version=version):
                self.run_with(version, HERE / "density_test.py")

    def test_splatfacto(self):
        self.run_with("1.4.0", "-c", SPLATFACTO)


if __name__ == "__main__":
    unittest.main()
