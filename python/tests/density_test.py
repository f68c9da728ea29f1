# SPDX-License-Identifier: MIT
"""distwar.density against integrals and formulas, and gsplat's strategies on the meta of rasterization()."""
import math
import unittest

import numpy as np
import scenes
import torch
from scenes import relative

import distwar
from distwar import density

DEVICE = "cuda" if distwar.library().backend == "cuda" else "cpu"


def setUpModule():
    if DEVICE == "cuda" and not torch.cuda.is_available():
        raise unittest.SkipTest("there is no GPU here")


def parameters(count=100):
    """As gsplat names them: logarithms of scales, logits of opacities."""
    s = scenes.scene(count=count)
    s["opacities"], s["scales"] = np.log(s["opacities"] / (1 - s["opacities"])), np.log(s["scales"])
    params = torch.nn.ParameterDict({name: torch.nn.Parameter(torch.tensor(s[name], device=DEVICE)) for name in (
        "means", "quats", "scales", "opacities", "colors")})
    return params, {name: torch.tensor(s[name], device=DEVICE) if name in ("viewmats", "Ks") else s[name]
                    for name in ("viewmats", "Ks", "width", "height")}


class Operations(unittest.TestCase):
    def test_noise(self):
        params, _ = parameters(20000)
        with torch.no_grad():
            params["opacities"][:] = -8
            params["scales"][:] = torch.tensor([-1.0, -2, -3], device=DEVICE)
            params["quats"][:] = torch.tensor([0.3, 0.1, -0.5, 0.7], device=DEVICE)
        before = params["means"].detach().clone()
        arguments = [params[name] for name in ("quats", "scales", "opacities")]
        density.add_noise(params["means"], *arguments, 2.0, 7, 1)
        moved = (params["means"].detach() - before).double()
        covar = density.quat_scale_to_covar_preci(params["quats"][0], params["scales"][0].exp())[0].double()
        strength = 2 / (1 + math.exp(100 * (1 / (1 + math.exp(8)) - 0.005)))
        self.assertLess(relative((moved.T @ moved / 20000).cpu(), (strength**2 * covar @ covar).detach().cpu()), 0.05)
        again = torch.nn.Parameter(before.clone())
        density.add_noise(again, *arguments, 2.0, 7, 1)
        self.assertTrue(torch.equal(again, params["means"]))
        with self.assertRaisesRegex(ValueError, "log_scale must be contiguous"):
            density.add_noise(params["means"], params["quats"], params["scales"][1:], params["opacities"], 1.0, 0, 0)

    def test_penalty(self):
        params, _ = parameters()
        loss = 0.3 * params["opacities"].sigmoid().mean() + 0.7 * params["scales"].exp().mean()
        loss.backward()
        expected = [params[name].grad.clone() for name in ("scales", "opacities")]
        for name in ("scales", "opacities"):
            params[name].grad = torch.ones_like(params[name])
        density.add_penalty(params["scales"], params["opacities"], 0.3, 0.7)
        for name, value in zip(("scales", "opacities"), expected):
            self.assertLess(relative((params[name].grad - 1).cpu(), value.cpu()), 1e-3, name)
        params["opacities"].grad = None
        with self.assertRaisesRegex(ValueError, "opacity_logit must be contiguous"):
            density.add_penalty(params["scales"], params["opacities"], 0.3, 0.7)

    def test_relocation_keeps_the_integral(self):
        opacity, ratio = torch.tensor([0.1, 0.5, 0.9, 0.97, 0.6]), torch.tensor([1, 2, 5, 20, 51])
        shared, scales = density.compute_relocation(opacity, torch.ones(5, 3), ratio, density.binomials(51))
        x = torch.linspace(-40, 40, 400001, dtype=torch.float64)
        for o, r, o2, s2 in zip(opacity.double(), ratio, shared.double(), scales[:, 0].double()):
            self.assertLess(abs((1 - o2)**r - (1 - o)), 1e-5)
            together = 1 - (1 - o2 * torch.exp(-x * x / (2 * s2 * s2)))**r
            self.assertLess(abs(torch.trapezoid(together, x) / (o * math.sqrt(2 * math.pi)) - 1), 1e-4)
        least, same = density.compute_relocation(opacity, torch.ones(5, 3), ratio, density.binomials(51), 0.2)
        self.assertTrue(torch.equal(least, shared.clamp(min=0.2)) and torch.equal(same, scales))
        self.assertLess(float(density.compute_relocation(torch.ones(1), torch.ones(1, 3), torch.ones(1, dtype=int),
                                                         density.binomials(51), min_opacity=0.2)[0]), 1)

    def test_covariances(self):
        q, s = torch.randn(7, 4, dtype=torch.float64), torch.rand(7, 3, dtype=torch.float64) + 0.1
        covar, preci = density.quat_scale_to_covar_preci(q, s)
        axes = np.stack([scenes._rotation(row) for row in q.numpy()]) * s.numpy()[:, None]
        self.assertLess(relative(covar, axes @ axes.transpose(0, 2, 1)), 1e-12)
        self.assertLess(relative(covar @ preci, torch.eye(3).expand(7, 3, 3)), 1e-9)
        upper, none = density.quat_scale_to_covar_preci(q, s, compute_preci=False, triu=True)
        self.assertIsNone(none)
        self.assertTrue(torch.equal(upper, covar[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]))


class Gsplat(unittest.TestCase):
    def train(self, make, steps, step_options, **options):
        """Some steps on the square of the image. Returns the parameters."""
        try:
            import gsplat.strategy
        except ImportError:
            self.skipTest("there is no gsplat here")
        density.provide_to_gsplat()
        strategy = make(gsplat.strategy)
        params, view = parameters()
        optimizers = {name: torch.optim.Adam([p], lr=1e-3) for name, p in params.items()}
        strategy.check_sanity(params, optimizers)
        state = strategy.initialize_state()
        for step in range(steps):
            colors, _, info = distwar.rasterization(
                params["means"], params["quats"], params["scales"].exp(), params["opacities"].sigmoid(),
                params["colors"], **view, **options)
            strategy.step_pre_backward(params, optimizers, state, step, info)
            colors.square().sum().backward()
            strategy.step_post_backward(params, optimizers, state, step, info, **step_options)
            for optimizer in optimizers.values():
                optimizer.step()
                optimizer.zero_grad()
        for name, p in params.items():
            self.assertTrue(bool(torch.isfinite(p).all()), name)
            self.assertEqual(len(p), len(params["means"]), name)
        return params

    def test_default(self):
        for packed, absgrad in ((False, False), (True, False), (False, True)):
            params = self.train(lambda of: of.DefaultStrategy(refine_start_iter=0, refine_every=1, absgrad=absgrad), 4,
                                dict(packed=packed), packed=packed, absgrad=absgrad)
            self.assertGreater(len(params["means"]), 100)

    def test_mcmc(self):
        params = self.train(lambda of: of.MCMCStrategy(cap_max=120, refine_start_iter=0, refine_every=2,
                                                       min_opacity=0.2), 14, dict(lr=1e-3))
        self.assertEqual(len(params["means"]), 120)


if __name__ == "__main__":
    unittest.main()
