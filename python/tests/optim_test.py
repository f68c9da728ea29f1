# SPDX-License-Identifier: MIT
"""distwar.optim against torch.optim.Adam and its formulas."""
import unittest
import warnings

import torch
from on_torch import DEVICE, setUpModule  # noqa: F401
from scenes import relative

from distwar import optim


class Adam(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        # More than a launch takes, one of them a transposed view.
        self.shapes = dict(means=(50, 3), opacities=(50,), sh=(50, 15, 3), features=(50, 300), strided=(50, 4),
                           **{f"p{i}": (50, 2) for i in range(5)})

    def params(self):
        torch.manual_seed(1)
        values = {name: torch.randn(shape, device=DEVICE) for name, shape in self.shapes.items()}
        values["strided"] = values["strided"].t().contiguous().t()
        return {name: torch.nn.Parameter(a) for name, a in values.items()}

    def gradients(self, params):
        for p in params.values():
            p.grad = torch.randn_like(p)

    def test_as_torch(self):
        """An optimizer for each parameter, or one of all; without a gradient; with a step by itself; with a scheduler."""
        for one in (False, True):
            ours, theirs = self.params(), self.params()
            groups = [[dict(params=[p], lr=0.01 * (1 + i)) for i, p in enumerate(of.values())] for of in (ours, theirs)]
            a, b = ([torch.optim.Adam(g, eps=1e-15, betas=(0.8, 0.9)) for g in ([of] if one else [[g] for g in of])]
                    for of in groups)
            schedulers = [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9) for optimizer in (*a, *b)]
            for step in range(5):
                for params in (ours, theirs):
                    torch.manual_seed(step)
                    self.gradients(params)
                if step == 3:
                    ours["means"].grad = theirs["means"].grad = None
                if step == 4:
                    a[0].step()
                optim.step(a[step == 4:])
                for optimizer in b:
                    optimizer.step()
                with warnings.catch_warnings():  # of schedulers, where nobody has stepped
                    warnings.simplefilter("error")
                    for scheduler in schedulers:
                        scheduler.step()
            for i, name in enumerate(self.shapes):
                self.assertLess(relative(ours[name], theirs[name]), 1e-6, name)
                self.assertEqual(float(a[0 if one else i].state[ours[name]]["step"]), 4 if name == "means" else 5)

    def check_rows(self, made, call):
        params = self.params()
        optimizer = made([dict(params=[p], lr=0.1 * (i + 1)) for i, p in enumerate(params.values())])
        p = {name: a.detach().cpu().double() for name, a in params.items()}
        m, v = ({name: torch.zeros_like(a) for name, a in p.items()} for _ in range(2))
        for step in range(3):
            self.gradients(params)
            visible = torch.rand(50, device=DEVICE) < 0.4
            before, version = {name: a.detach().clone() for name, a in params.items()}, params["p4"]._version
            call(optimizer, visible)
            self.assertGreater(params["p4"]._version, version)
            rows = visible.cpu()
            for i, (name, a) in enumerate(params.items()):
                self.assertTrue(torch.equal(a[~visible], before[name][~visible]), name)
                g = a.grad.cpu().double()
                m[name][rows] = 0.9 * m[name][rows] + 0.1 * g[rows]
                v[name][rows] = 0.999 * v[name][rows] + 0.001 * g[rows]**2
                p[name][rows] -= 0.1 * (i + 1) * m[name][rows] / (v[name][rows].sqrt() + 1e-15)
                self.assertLess(relative(a, p[name]), 1e-6, name)
                self.assertLess(relative(optimizer.state[a]["exp_avg"], m[name]), 1e-6, name)
                self.assertLess(relative(optimizer.state[a]["exp_avg_sq"], v[name]), 1e-6, name)
                self.assertEqual(float(optimizer.state[a]["step"]), step + 1)

    def test_rows(self):
        self.check_rows(lambda groups: optim.SelectiveAdam(groups, eps=1e-15, betas=(0.9, 0.999)),
                        lambda optimizer, visible: optimizer.step(visible))
        self.check_rows(lambda groups: optim.SparseGaussianAdam(groups, lr=0.0, eps=1e-15),
                        lambda optimizer, visible: optimizer.step(visible.int() * 7, len(visible)))

    def test_refusals(self):
        params = self.params()
        self.gradients(params)
        with self.assertRaisesRegex(ValueError, "49 rows"):
            optim.SelectiveAdam(params.values()).step(torch.ones(49, device=DEVICE))
        with self.assertRaisesRegex(TypeError, "SGD is no"):
            optim.step([torch.optim.SGD(params.values(), lr=1.0)])
        with self.assertRaisesRegex(NotImplementedError, "amsgrad"):
            optim.step([torch.optim.Adam(params.values(), amsgrad=True)])


if __name__ == "__main__":
    unittest.main()
