# SPDX-License-Identifier: MIT
"""distwar.density against integrals and formulas, and gsplat's strategies on the meta of rasterization()."""
import math
import unittest
import unittest.mock

import scenes
import torch
from on_torch import DEVICE, setUpModule, tensors  # noqa: F401
from scenes import relative

import distwar
from distwar import density, optim


def parameters(count=100):
    """As gsplat names them: logarithms of scales, logits of opacities."""
    s = scenes.raw(scenes.scene(count=count))
    params = torch.nn.ParameterDict({name: torch.nn.Parameter(torch.tensor(s[name], device=DEVICE)) for name in (
        "means", "quats", "scales", "opacities", "colors")})
    return params, tensors({name: s[name] for name in ("viewmats", "Ks", "width", "height")}, ())


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
        self.assertLess(relative(moved.T @ moved / 20000, strength**2 * covar @ covar), 0.05)
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
            self.assertLess(relative(params[name].grad - 1, value), 1e-3, name)
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
        self.assertLess(relative(covar, scenes.covariances(q, s)), 1e-12)
        self.assertLess(relative(covar @ preci, torch.eye(3).expand(7, 3, 3)), 1e-9)
        upper, none = density.quat_scale_to_covar_preci(q, s, compute_preci=False, triu=True)
        self.assertIsNone(none)
        self.assertTrue(torch.equal(upper, covar[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]))


def optimizers_of(params, of=torch.optim.Adam, **options):
    return {name: of([dict(params=[p], lr=1e-3 * (1 + i))], **options) for i, (name, p) in enumerate(params.items())}


class Training:
    """Some steps on the square of the image, and what came of them. before, after(params, optimizers, step, info): control."""

    def __init__(self, before, after, steps, **options):
        torch.manual_seed(5)
        self.params, view = parameters(150)
        self.optimizers = optimizers_of(self.params)
        self.counts = []
        for n in range(1, steps + 1):
            p = self.params
            colors, _, info = distwar.rasterization(p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(),
                                                    p["colors"], **view, **{"packed": False, **options})
            before(p, self.optimizers, n, info)
            colors.square().sum().backward()
            torch.manual_seed(n)  # gsplat's noise takes random numbers from torch
            after(p, self.optimizers, n, info)
            optim.step(self.optimizers.values(), zero_grad=True)
            self.counts.append(len(p["means"]))


class AsGsplat(unittest.TestCase):
    """gsplat's classes on the meta of rasterization(), and the functions beside them."""

    def setUp(self):
        try:
            import gsplat.strategy
        except ImportError:
            self.skipTest("there is no gsplat here")
        density.provide_to_gsplat()
        self.of = gsplat.strategy
        self.addCleanup(setattr, distwar, "deterministic", distwar.deterministic)
        distwar.deterministic = True

    def train(self, strategy, steps, scene_scale=(), after=dict(), **options):
        params, _ = parameters(150)
        strategy.check_sanity(params, optimizers_of(params))
        state = strategy.initialize_state(*scene_scale)
        return Training(lambda *of: strategy.step_pre_backward(*of[:2], state, *of[2:]),
                        lambda *of: strategy.step_post_backward(*of[:2], state, *of[2:], **after), steps, **options)

    def check(self, ours, theirs):
        """The same parameters and moments, in the same order."""
        self.assertEqual(ours.counts, theirs.counts)
        self.assertGreater(len(set(ours.counts)), 1)
        for name, p in theirs.params.items():
            q = ours.params[name]
            self.assertLess(relative(q, p), 1e-5, name)
            a, b = ours.optimizers[name].state[q], theirs.optimizers[name].state[p]
            self.assertIs(ours.optimizers[name].param_groups[0]["params"][0], q)
            for key in ("exp_avg", "exp_avg_sq", "step"):
                self.assertLess(relative(a[key], b[key]), 1e-5, (name, key))

    def test_default(self):
        """Its issue 797: version 1.5.3 resets no opacities, so none are reset here."""
        for revised, scale, prune in ((False, 1.0, 0.22), (True, 1.0, 0.22), (False, 3.0, 0.06)):
            options = dict(grow_grad2d=0.05, grow_scale3d=0.15 / scale, prune_opa=0.12, revised_opacity=revised)
            sums = [torch.zeros(150, 2, device=DEVICE)]

            def after(p, optimizers, step, info):
                if step > 1 and step % 3 == 0:
                    large = prune if step > 7 else None
                    density.grow_and_prune(p, optimizers, sums[0], scale, prune_scale3d=large, **options)
                    sums[0] = torch.zeros(len(p["means"]), 2, device=DEVICE)
            ours = Training(lambda p, optimizers, step, info: density.sum_gradients(info, sums[0]), after, 10)
            strategy = self.of.DefaultStrategy(refine_start_iter=1, refine_every=3, reset_every=7, prune_scale3d=prune,
                                               verbose=False, **options)
            with unittest.mock.patch("gsplat.strategy.default.reset_opa"):
                self.check(ours, self.train(strategy, 10, (scale,), dict(packed=False)))

    def test_default_on_meta(self):
        for packed, absgrad in ((False, False), (True, False), (False, True)):
            strategy = self.of.DefaultStrategy(refine_start_iter=0, refine_every=1, absgrad=absgrad, verbose=False)
            made = self.train(strategy, 4, after=dict(packed=packed), packed=packed, absgrad=absgrad)
            self.assertGreater(made.counts[-1], 150)

    def test_mcmc(self):
        """Without noise, whose random numbers are others."""
        def after(p, optimizers, step, info):
            if step > 1 and step % 3 == 0:
                density.relocate(p, optimizers, 0.25)
                density.add_copies(p, optimizers, 170, min_opacity=0.25)
        ours = Training(lambda *_: None, after, 13)
        strategy = self.of.MCMCStrategy(cap_max=170, refine_start_iter=1, refine_every=3, min_opacity=0.25,
                                        verbose=False)
        self.check(ours, self.train(strategy, 13, after=dict(lr=0.0)))
        self.assertEqual(ours.counts[-1], 170)

    def test_splatfacto(self):
        """What nerfstudio's trainer does in a step: one camera, poses with gradients, depth over alpha."""
        params, view = parameters()
        del params["colors"]
        for name, shape in dict(features_dc=(3,), features_rest=(15, 3)).items():
            params[name] = torch.nn.Parameter(torch.zeros(100, *shape, device=DEVICE))
        pose = torch.zeros(3, device=DEVICE, requires_grad=True)
        strategy = self.of.DefaultStrategy(refine_start_iter=0, refine_every=1, grow_grad2d=1e-6, verbose=False)
        optimizers, state = optimizers_of(params), strategy.initialize_state(scene_scale=1.0)
        strategy.check_sanity(params, optimizers)
        for step in range(4):
            viewmat = view["viewmats"].clone()
            viewmat[:, :3, 3] = viewmat[:, :3, 3] + pose
            render, alpha, info = distwar.rasterization(
                means=params["means"], quats=params["quats"], scales=torch.exp(params["scales"]),
                opacities=torch.sigmoid(params["opacities"]).squeeze(-1),
                colors=torch.cat((params["features_dc"][:, None], params["features_rest"]), dim=1), viewmats=viewmat, Ks=view["Ks"],
                width=view["width"], height=view["height"], packed=False, near_plane=0.01, far_plane=1e10,
                render_mode="RGB+ED", sh_degree=step, sparse_grad=False, absgrad=True, rasterize_mode="classic")
            self.assertEqual(tuple(info["radii"].shape)[:2], (1, len(params["means"])))
            strategy.step_pre_backward(params, optimizers, state, step, info)
            (render[..., :3].square().sum() + render[..., 3:].mean()).backward()
            strategy.step_post_backward(params, optimizers, state, step, info, packed=False)
            for optimizer in optimizers.values():
                optimizer.step()
                optimizer.zero_grad()
        self.assertGreater(float(pose.grad.abs().sum()), 0)
        self.assertGreater(len(params["means"]), 100)


class Functions(unittest.TestCase):
    def test_sums(self):
        """In the backward pass, as gradients of means2d have them."""
        params, view = parameters(150)
        sums = torch.zeros(150, 2, device=DEVICE)
        expected = torch.zeros_like(sums)
        half = torch.tensor([view["width"] / 2, view["height"] / 2], device=DEVICE)
        for step in (1, 2, 3):
            gradients = []
            for summed in (True, False):
                p = {name: a.detach().requires_grad_() for name, a in params.items()}
                colors, _, info = distwar.rasterization(p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(),
                                                        p["colors"], packed=False, **view)
                if summed:
                    density.sum_gradients(info, sums)
                else:
                    info["means2d"].retain_grad()
                (step * colors.square().sum()).backward()
                gradients.append(p["means"].grad)
            self.assertLess(relative(gradients[0], gradients[1]), 1e-5)
            expected[:, 0] += (info["means2d"].grad[0] * half).norm(dim=1)
            expected[:, 1] += info["radii"].reshape(150, -1)[:, 0] > 0
        self.assertGreater(int((sums[:, 1] == 3).sum()), 100)
        self.assertLess(relative(sums, expected), 1e-5)
        with self.assertRaisesRegex(NotImplementedError, "one camera"):
            density.sum_gradients(info, sums)
        two = {name: view[name].repeat(2, 1, 1) for name in ("viewmats", "Ks")}
        info = distwar.rasterization(p["means"], p["quats"], p["scales"].exp(), p["opacities"].sigmoid(), p["colors"],
                                     packed=False, **{**view, **two})[2]
        with self.assertRaisesRegex(NotImplementedError, "one camera"):
            density.sum_gradients(info, sums)

    def test_where_nobody_lives_and_a_reset(self):
        params, _ = parameters(150)
        optimizers = optimizers_of(params)
        params["opacities"].data.sub_(20)
        self.assertEqual(density.relocate(params, optimizers), 150)
        self.assertEqual(density.add_copies(params, optimizers, 100), 0)
        params["opacities"].data.add_(20)
        params["opacities"].sum().backward()
        optimizers["opacities"].step()
        density.reset_opacities(params, optimizers)
        self.assertLess(float(params["opacities"].detach().sigmoid().max()), 0.0100001)
        self.assertIsNone(params["opacities"].grad)
        state = optimizers["opacities"].state[params["opacities"]]
        self.assertEqual(float(state["exp_avg"].abs().max()), 0)

    def test_an_optimizer_of_two(self):
        params, _ = parameters(150)
        optimizers = dict(means=torch.optim.Adam([params["means"], params["quats"]]))
        with self.assertRaisesRegex(ValueError, "one group with one parameter"):
            density.grow_and_prune(params, optimizers, torch.ones(150, 2, device=DEVICE))


if __name__ == "__main__":
    unittest.main()
