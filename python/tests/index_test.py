# SPDX-License-Identifier: MIT
"""Sums by index against double precision and torch's own: numpy arrays with the CPU library, torch tensors with
either."""
import unittest

import numpy as np

import distwar
from distwar import _sums

try:
    import torch
except ImportError:
    torch = None
backend = _sums.library().backend
device = "cuda" if backend == "cuda" else "cpu"


HOW = dict(sum=np.sum, mean=np.mean, prod=np.prod, amin=np.min, amax=np.max)


def drawn(count, rows, width, seed=0):
    """index with a hot row, source, out."""
    random = np.random.default_rng(seed)
    index = np.where(random.uniform(size=count) < 0.4, 1, random.integers(0, rows, count))
    return index, random.normal(size=(count, width)).astype("float32"), \
        random.normal(size=(rows, width)).astype("float32")


def sums(index, source, out):
    expected = out.astype("float64")
    np.add.at(expected, index, source.astype("float64"))
    return expected


def relative(found, expected):
    return np.linalg.norm(found - expected) / np.linalg.norm(expected)


@unittest.skipIf(backend == "cuda", "numpy arrays need the CPU library")
class Numpy(unittest.TestCase):
    def test_index_add(self):
        for width in (1, 3, 8):
            index, source, out = drawn(700, 30, width)
            kept = out.copy()
            for dtype in ("int32", "int64"):
                found = distwar.index_add(out, index.astype(dtype), source)
                self.assertLess(relative(found, sums(index, source, out)), 1e-6)
            self.assertTrue((out == kept).all())
            self.assertIs(distwar.index_add_(out, index, source), out)
            self.assertLess(relative(out, sums(index, source, kept)), 1e-6)

    def test_other_inputs(self):
        index, source, out = drawn(200, 10, 6)
        expected = sums(index, source, out)
        self.assertLess(relative(distwar.index_add(np.asfortranarray(out), index, np.asfortranarray(source)), expected),
                        1e-6)
        strided = np.zeros((20, 6), "float32")[::2]
        strided[...] = out
        self.assertIs(distwar.index_add_(strided, np.repeat(index, 2)[::2], source), strided)
        self.assertLess(relative(strided, expected), 1e-6)
        blocks = distwar.index_add(out.reshape(10, 2, 3), index, source.reshape(200, 2, 3))
        self.assertLess(relative(blocks.reshape(10, 6), expected), 1e-6)
        half = distwar.index_add(out.astype("float16"), index, source.astype("float16"))
        self.assertEqual(half.dtype, np.float16)
        self.assertLess(relative(half, expected), 1e-2)

    def test_deterministic(self):
        index, source, out = drawn(2000, 12, 5)
        order = np.random.default_rng(1).permutation(2000)
        found = distwar.index_add(out, index, source, deterministic=True)
        self.assertTrue((found == distwar.index_add(out, index[order], source[order], deterministic=True)).all())
        self.assertLess(relative(found, sums(index, source, out)), 1e-6)

    def test_empty(self):
        out = np.ones((4, 3), "float32")
        none = np.zeros((0, 3), "float32")
        self.assertTrue((distwar.index_add(out, np.zeros(0, "int64"), none) == 1).all())
        self.assertEqual(distwar.index_add(none, np.zeros(0, "int64"), none).shape, (0, 3))
        self.assertEqual(distwar.index_add(np.ones((4, 0), "float32"), np.zeros(2, "int64"),
                                           np.ones((2, 0), "float32")).shape, (4, 0))
        self.assertEqual(distwar.bincount(np.zeros(0, "int64"), np.zeros(0, "float32")).shape, (0,))

    def test_embedding_backward(self):
        index, source, _ = drawn(300, 20, 4)
        expected = sums(index, source, np.zeros((20, 4)))
        found = distwar.embedding_backward(source.reshape(30, 10, 4), index.reshape(30, 10), 20, padding_idx=3)
        expected[3] = 0
        self.assertLess(relative(found, expected), 1e-6)
        counts = np.maximum(np.bincount(index, minlength=20), 1)[:, None]
        found = distwar.embedding_backward(source, index, 20, padding_idx=3, scale_grad_by_freq=True)
        self.assertLess(relative(found, expected / counts), 1e-6)

    def test_bincount(self):
        index, source, _ = drawn(300, 20, 1)
        weights = source[:, 0]
        self.assertLess(relative(distwar.bincount(index, weights), np.bincount(index, weights)), 1e-6)
        self.assertEqual(distwar.bincount(index, weights, minlength=50).shape, (50,))
        self.assertTrue((distwar.bincount(index) == np.bincount(index)).all())


    def test_scatter_reduce(self):
        index, source, out = drawn(200, 30, 3)
        out[0], out[1] = 9, -9
        for how, function in HOW.items():
            for with_self in (True, False):
                expected = out.astype("float64")
                for row in np.unique(index):
                    rows = source[index == row].astype("float64")
                    expected[row] = function(np.concatenate((out[row:row + 1], rows)) if with_self else rows, axis=0)
                for deterministic in (False, True):
                    found = distwar.scatter_reduce(out, index, source, how, with_self, deterministic)
                    self.assertLess(relative(found, expected), 1e-5, (how, with_self, deterministic))
        self.assertTrue((distwar.scatter_reduce(out, index, source, "min") ==
                         distwar.scatter_reduce(out, index, source, "amin")).all())

    def test_segments(self):
        _, source, _ = drawn(40, 3, 5)
        offsets = np.array([0, 7, 7, 31, 40])
        for how, function in HOW.items():
            found = distwar.segment_reduce(source, offsets, how)
            for s in (0, 2, 3):
                rows = source[offsets[s]:offsets[s + 1]].astype("float64")
                self.assertLess(relative(found[s], function(rows, axis=0)), 1e-5, how)
            self.assertEqual(set(found[1]), {dict(prod=1, amin=np.inf, amax=-np.inf).get(how, 0)})
        with self.assertRaisesRegex(IndexError, "out of range"):
            distwar.segment_reduce(source, offsets - 1)


@unittest.skipIf(backend == "cuda", "numpy arrays need the CPU library")
class Refusals(unittest.TestCase):
    def refused(self, error, text, call, *arguments, **more):
        with self.assertRaisesRegex(error, text):
            call(*arguments, **more)

    def test_bad_indices(self):
        index, source, out = drawn(100, 8, 4)
        for bad in (8, -1, 2**40):
            index[5] = bad
            self.refused(IndexError, "out of range", distwar.index_add, out, index, source)
        self.refused(ValueError, "negative", distwar.bincount, np.array([0, -1]), np.ones(2, "float32"))

    def test_bad_shapes(self):
        index, source, out = drawn(100, 8, 4)
        self.refused(ValueError, "reduce is 'median'", distwar.scatter_reduce, out, index, source, "median")
        self.refused(ValueError, "source", distwar.scatter_reduce, out, index[1:], source, "sum")
        self.refused(ValueError, "source", distwar.index_add, out, index, source[:, :3])
        self.refused(ValueError, "source", distwar.index_add, out, index[1:], source)
        self.refused(ValueError, "index", distwar.index_add, out, index.reshape(10, 10), source)
        self.refused(ValueError, "grad", distwar.embedding_backward, source, index[1:], 8)
        self.refused(ValueError, "weights", distwar.bincount, index, source)
        self.refused(ValueError, "num_weights", distwar.embedding_backward, source, index, -1)

    def test_bad_types(self):
        index, source, out = drawn(100, 8, 4)
        self.refused(TypeError, "out", distwar.index_add, out.tolist(), index, source)
        self.refused(TypeError, "float64", distwar.index_add, out.astype("float64"), index, source)
        self.refused(TypeError, "source", distwar.index_add, out, index, source.astype("float16"))
        self.refused(TypeError, "index", distwar.index_add, out, index.astype("int16"), source)


@unittest.skipIf(torch is None, "needs torch")
class Torch(unittest.TestCase):
    def given(self, *shape, dtype="float32"):
        index, source, out = drawn(*shape)
        dtype = getattr(torch, dtype)
        return (torch.from_numpy(index).to(device), torch.from_numpy(source).to(device, dtype),
                torch.from_numpy(out).to(device, dtype))

    def test_index_add(self):
        for dtype, limit in (("float32", 1e-6), ("float16", 1e-2), ("bfloat16", 5e-2)):
            for width in (1, 3, 16):
                index, source, out = self.given(3000, 40, width, dtype=dtype)
                expected = out.double().index_add(0, index, source.double())
                for deterministic in (False, True):
                    found = distwar.index_add(out, index, source, deterministic)
                    self.assertEqual(found.dtype, out.dtype)
                    self.assertLess((found.double() - expected).norm() / expected.norm(), limit)
                again = out.clone()
                self.assertIs(distwar.index_add_(again, index.int(), source), again)
                self.assertLess((again.double() - expected).norm() / expected.norm(), limit)

    def test_gradients(self):
        index, source, out = self.given(50, 9, 3)
        source.requires_grad_(), out.requires_grad_()
        found = distwar.index_add(out, index, source)
        weights = torch.randn_like(found)
        mine = torch.autograd.grad((found * weights).sum(), (out, source), create_graph=True)
        theirs = torch.autograd.grad((out.index_add(0, index, source) * weights).sum(), (out, source))
        for a, b in zip(mine, theirs):
            self.assertTrue(torch.equal(a, b))
        with self.assertRaisesRegex(RuntimeError, "requires a gradient"):
            distwar.index_add_(out, index, source)

    def test_embedding_backward(self):
        index, source, _ = self.given(3000, 40, 8)
        for padding in (-1, 5):
            for scaled in (False, True):
                expected = torch.ops.aten.embedding_dense_backward(source.double(), index, 40, padding, scaled)
                found = distwar.embedding_backward(source, index, 40, padding, scaled)
                self.assertLess((found - expected).norm() / expected.norm(), 1e-6)

    def test_embedding_backward_of_16_bits(self):
        """Each sum is rounded once."""
        index, source, _ = self.given(30000, 40, 8)
        for dtype, rounding in ((torch.float16, 2**-11), (torch.bfloat16, 2**-8)):
            for deterministic in (None, True):
                found = distwar.embedding_backward(source.to(dtype), index, 40, deterministic=deterministic)
                self.assertEqual(found.dtype, dtype)
                expected = torch.zeros(40, 8, dtype=torch.double, device=index.device)
                expected.index_add_(0, index, source.to(dtype).double())
                self.assertLess((found - expected).norm() / expected.norm(), rounding)
        given = source.half().requires_grad_()
        distwar.embedding_backward(given, index, 40).sum().backward()
        self.assertTrue(bool((given.grad == 1).all()))

    def test_bincount(self):
        index, source, _ = self.given(3000, 40, 1)
        weights = source[:, 0]
        expected = torch.bincount(index, weights.double())
        self.assertLess((distwar.bincount(index, weights) - expected).norm() / expected.norm(), 1e-6)
        self.assertTrue(torch.equal(distwar.bincount(index), torch.bincount(index)))

    def test_deterministic(self):
        for width in (1, 4, 64):
            index, source, out = self.given(5000, 30, width)
            order = torch.randperm(5000, device=device)
            torch.use_deterministic_algorithms(True)
            try:
                found = [distwar.index_add(out, i, s) for i, s in ((index, source), (index[order], source[order]))]
            finally:
                torch.use_deterministic_algorithms(False)
            self.assertTrue(torch.equal(*found), width)

    def check_reduce(self, how, with_self, dtype, limit, deterministic):
        """Against torch's index_reduce in double precision, with gradients."""
        index, source, out = self.given(60, 20, 3, dtype=dtype)
        source = (1 + source / 8).to(source.dtype)  # products of many stay near 1
        source[7], source[20:22], out[3] = 0, source[19], 0
        if not with_self:
            out += 40  # torch counts a value of out that equals the extreme among those that tie
        arrays = [(a.clone().requires_grad_(), b.clone().requires_grad_()) for a, b in (
            (out, source), (out.double(), source.double()))]
        found = distwar.scatter_reduce(arrays[0][0], index, arrays[0][1], how, with_self, deterministic)
        if how == "sum":
            start = arrays[1][0] if with_self else arrays[1][0].index_fill(0, index, 0)
            expected = start.index_add(0, index, arrays[1][1])
        else:
            expected = arrays[1][0].index_reduce(0, index, arrays[1][1], how, include_self=with_self)
        self.assertEqual(found.dtype, out.dtype)
        weights = torch.randn_like(expected)
        pairs = [(found, expected), *zip(*(torch.autograd.grad((f * weights.to(f.dtype)).sum(), of) for f, of in zip(
            (found, expected), arrays)))]
        for a, b in pairs:
            self.assertLess((a.double() - b).norm(), limit * b.norm(), (how, with_self, dtype, deterministic))

    def test_scatter_reduce(self):
        for how in HOW:
            for with_self in (True, False):
                for deterministic in (False, True):
                    self.check_reduce(how, with_self, "float32", 2e-6, deterministic)
                self.check_reduce(how, with_self, "bfloat16", 6e-2, False)

    def test_deterministic_reductions(self):
        index, source, out = self.given(5000, 30, 4)
        order = torch.randperm(5000, device=device)
        source = 1 + source / 1000
        for how in HOW:
            twice = [distwar.scatter_reduce(out, index, source, how, deterministic=True) for _ in range(2)]
            if how != "prod":
                twice.append(distwar.scatter_reduce(out, index[order], source[order], how, deterministic=True))
            self.assertTrue(all(torch.equal(twice[0], a) for a in twice), how)

    def test_segments(self):
        _, source, _ = self.given(40, 3, 5)
        offsets = torch.tensor([0, 7, 7, 31, 40], device=device)
        for how, theirs in (("sum", torch.sum), ("mean", torch.mean), ("amax", torch.amax)):
            found = distwar.segment_reduce(source, offsets, how)
            for s in (0, 2, 3):
                expected = theirs(source[int(offsets[s]):int(offsets[s + 1])].double(), 0)
                self.assertLess((found[s] - expected).norm() / expected.norm(), 1e-6, how)
            self.assertTrue(bool((found[1] == (-torch.inf if how == "amax" else 0)).all()))

    def test_index_out_of_range(self):
        index, source, out = self.given(100, 8, 4)
        index[3] = 8
        with self.assertRaisesRegex(IndexError, "out of range"):
            distwar.index_add(out, index, source)
            distwar.check_indices()
        distwar.check_indices()  # said once
        index[3] = 0
        expected = out.double().index_add(0, index, source.double())
        self.assertLess((distwar.index_add(out, index, source) - expected).norm() / expected.norm(), 1e-6)

    def test_refusals(self):
        index, source, out = self.given(100, 8, 4)
        for error, text, arguments in (
                (ValueError, "source", (out, index, source[:, :3])), (TypeError, "source", (out, index, source.half())),
                (TypeError, "index", (out, index.short(), source)), (TypeError, "float64", (out.double(), index, source)),
                (TypeError, "source", (out, index, source.cpu().numpy()))):
            with self.assertRaisesRegex(error, text):
                distwar.index_add(*arguments)


if __name__ == "__main__":
    unittest.main()
