# SPDX-License-Identifier: MIT
"""Sums by index against double precision and torch's own, on torch tensors; numpy arrays with the CPU library."""
import ctypes
import sys
import unittest
import unittest.mock

import numpy as np

try:
    import torch
except ImportError:
    sys.exit(77)

import distwar
from distwar import _sums

DEVICE = "cuda" if _sums.library().backend == "cuda" else "cpu"
HOW = dict(sum=torch.sum, mean=torch.mean)


def drawn(count, rows, width, seed=0):
    """index with a hot row, source, out."""
    random = np.random.default_rng(seed)
    index = np.where(random.uniform(size=count) < 0.4, 1, random.integers(0, rows, count))
    return index, random.normal(size=(count, width)).astype("float32"), \
        random.normal(size=(rows, width)).astype("float32")


def given(*shape, dtype=torch.float32):
    index, source, out = (torch.from_numpy(a).to(DEVICE) for a in drawn(*shape))
    return index, source.to(dtype), out.to(dtype)


class Sums(unittest.TestCase):
    def close(self, found, expected, limit=1e-6, case=None):
        self.assertLessEqual(float((found.double() - expected).norm()), limit * float(expected.norm()), case)

    def test_index_add(self):
        for dtype, limit in ((torch.float32, 1e-6), (torch.float16, 1e-2), (torch.bfloat16, 5e-2)):
            for width in (1, 3, 16):
                index, source, out = given(3000, 40, width, dtype=dtype)
                expected = out.double().index_add(0, index, source.double())
                for deterministic in (False, True):
                    found = distwar.index_add(out, index, source, deterministic)
                    self.assertEqual(found.dtype, out.dtype)
                    self.close(found, expected, limit)
                again = out.clone()
                self.assertIs(distwar.index_add_(again, index.int(), source), again)
                self.close(again, expected, limit)

    def test_gradients(self):
        index, source, out = given(50, 9, 3)
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
        index, source, _ = given(3000, 40, 8)
        for padding in (-1, 5):
            for scaled in (False, True):
                expected = torch.ops.aten.embedding_dense_backward(source.double(), index, 40, padding, scaled)
                found = distwar.embedding_backward(source, index, 40, padding, scaled)
                self.close(found, expected)

    def test_embedding_backward_of_16_bits(self):
        """Each sum is rounded once."""
        index, source, _ = given(30000, 40, 8)
        for dtype, rounding in ((torch.float16, 2**-11), (torch.bfloat16, 2**-8)):
            for deterministic in (None, True):
                found = distwar.embedding_backward(source.to(dtype), index, 40, deterministic=deterministic)
                self.assertEqual(found.dtype, dtype)
                expected = torch.zeros(40, 8, dtype=torch.double, device=index.device)
                expected.index_add_(0, index, source.to(dtype).double())
                self.close(found, expected, rounding)
        half = source.half().requires_grad_()
        distwar.embedding_backward(half, index, 40, padding_idx=1).sum().backward()
        self.assertTrue(torch.equal(half.grad, (index != 1).half()[:, None].expand_as(half)))

    def test_bincount(self):
        index, source, _ = given(3000, 40, 1)
        weights = source[:, 0]
        expected = torch.bincount(index, weights.double())
        self.close(distwar.bincount(index, weights), expected)
        self.assertEqual(len(distwar.bincount(index, weights, minlength=50)), 50)
        self.assertTrue(torch.equal(distwar.bincount(index), torch.bincount(index)))

    def test_deterministic(self):
        """The same bits, also of rows in another order."""
        torch.use_deterministic_algorithms(True)
        self.addCleanup(torch.use_deterministic_algorithms, False)
        for width in (1, 4, 64):
            index, source, out = given(5000, 30, width)
            order, source = torch.randperm(5000, device=DEVICE), 1 + source / 1000
            for how in ("add", *HOW):
                found = [distwar.index_add(out, i, s) if how == "add" else distwar.scatter_reduce(out, i, s, how) for i, s in (
                    (index, source), (index, source), (index[order], source[order]))]
                self.assertTrue(torch.equal(*found[:2]) and torch.equal(*found[1:]), (how, width))

    def check_reduce(self, how, with_self, dtype, limit, deterministic):
        """Against torch's index_reduce in double precision, with gradients."""
        index, source, out = given(60, 20, 3, dtype=dtype)
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
            self.close(a, b, limit, (how, with_self, dtype, deterministic))

    def test_scatter_reduce(self):
        for how in HOW:
            for with_self in (True, False):
                for deterministic in (False, True):
                    self.check_reduce(how, with_self, torch.float32, 2e-6, deterministic)
                self.check_reduce(how, with_self, torch.bfloat16, 6e-2, False)

    def test_segments(self):
        _, source, _ = given(40, 3, 5)
        offsets = torch.tensor([0, 7, 7, 31, 40], device=DEVICE)
        for how, theirs in HOW.items():
            found = distwar.segment_reduce(source, offsets, how)
            for s in (0, 2, 3):
                rows = source[int(offsets[s]):int(offsets[s + 1])].double()
                self.close(found[s], theirs(rows, 0), 1e-5, how)
            self.assertFalse(found[1].any())
        with self.assertRaisesRegex(IndexError, "out of range"):
            distwar.segment_reduce(source, offsets - 1)
            distwar.check_indices()

    def test_sizes_of_0_and_other_layouts(self):
        index, source, out = given(200, 10, 6)
        expected, none = out.double().index_add(0, index, source.double()), torch.zeros(0, dtype=torch.int64, device=DEVICE)
        self.close(distwar.index_add(out.t().contiguous().t(), index.repeat_interleave(2)[::2], source), expected)
        strided = torch.zeros(20, 6, device=DEVICE)[::2].copy_(out)
        self.assertIs(distwar.index_add_(strided, index, source), strided)
        self.close(strided, expected)
        blocks = distwar.index_add(out.view(10, 2, 3), index, source.view(200, 2, 3))
        self.close(blocks.view(10, 6), expected)
        self.assertTrue(torch.equal(distwar.index_add(out, none, source[:0]), out))
        self.assertEqual(distwar.index_add(out[:0], none, source[:0]).shape, (0, 6))
        self.assertEqual(distwar.index_add(out[:, :0], index, source[:, :0]).shape, (10, 0))
        self.assertEqual(distwar.bincount(none, source[:0, 0]).shape, (0,))

    def test_index_out_of_range(self):
        index, source, out = given(100, 8, 4)
        expected = out.double().index_add(0, index[index != 3], source[index != 3].double())
        for bad in (8, -1, 2**40):
            wrong = torch.where(index == 3, bad, index)
            with self.assertRaisesRegex(IndexError, "out of range"):
                distwar.index_add_(out, wrong, source)
                distwar.check_indices()
            distwar.check_indices()  # said once
            self.close(out, expected)  # the row is left out
            expected.index_add_(0, index[index != 3], source[index != 3].double())

    def test_refusals(self):
        index, source, out = given(100, 8, 4)
        for error, text, call, *arguments in (
                (ValueError, "source has the shape", "index_add", out, index, source[:, :3]),
                (ValueError, "source has the shape", "index_add", out, index[1:], source),
                (ValueError, "index has 2 dimensions", "index_add", out, index.view(10, 10), source),
                (TypeError, "source has the type torch.float16", "index_add", out, index, source.half()),
                (TypeError, "index has the type", "index_add", out, index.short(), source),
                (TypeError, "float64", "index_add", out.double(), index, source),
                (TypeError, "source is a ndarray", "index_add", out, index, source.cpu().numpy()),
                (TypeError, "out is a list", "index_add", out.tolist(), index, source),
                (ValueError, "reduce is 'median'", "scatter_reduce", out, index, source, "median"),
                (ValueError, "index_reduce_", "scatter_reduce", out, index, source, "amax"),
                (ValueError, "index_reduce_", "segment_reduce", source, index, "prod"),
                (ValueError, "source has the shape", "scatter_reduce", out, index[1:], source, "sum"),
                (ValueError, "grad has the shape", "embedding_backward", source, index[1:], 8),
                (ValueError, "num_weights is -1", "embedding_backward", source, index, -1),
                (ValueError, "weights has the shape", "bincount", index, source),
                (ValueError, "negative", "bincount", index - 9, source[:, 0])):
            with self.assertRaisesRegex(error, text):
                getattr(distwar, call)(*arguments)

    def test_another_library_is_refused(self):
        """An older one, whose ix_rows has fewer members, or one that does not say how many."""
        longer = type("Rows", (ctypes.Structure,), dict(_fields_=[("rows", _sums.Rows), ("added", ctypes.c_int64)]))
        for path, rows in (_sums.library().lib._name, longer), (None, _sums.Rows):  # None: of this process
            with unittest.mock.patch.object(_sums, "Rows", rows), \
                    self.assertRaisesRegex(ImportError, "is no libdistwar_index of this version"):
                _sums.Library(path)

    @unittest.skipIf(DEVICE == "cuda", "numpy arrays need the CPU library")
    def test_arrays_of_numpy(self):
        """The same calls: on the same memory, with arrays as results."""
        index, source, out = drawn(300, 20, 4)
        for call, *arguments in (("index_add", out, index, source), ("index_add", out, index.astype("int32"), source),
                                 ("index_add", out.astype("float16"), index, source.astype("float16"), True),
                                 ("index_add", np.asfortranarray(out), index, np.asfortranarray(source), True),
                                 ("embedding_backward", source, index, 20, 3, True), ("bincount", index, source[:, 0]),
                                 ("bincount", index), ("scatter_reduce", out, index, source, "mean", False),
                                 ("segment_reduce", source, np.array([0, 7, 300]), "mean")):
            found = getattr(distwar, call)(*arguments)
            expected = getattr(distwar, call)(*(torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments))
            self.assertIs(type(found), np.ndarray)
            self.assertEqual(found.dtype, expected.numpy().dtype)
            self.close(torch.from_numpy(found), expected.double(), case=call)
        self.close(torch.from_numpy(out), torch.from_numpy(drawn(300, 20, 4)[2]), 0)  # nobody wrote to it
        strided = np.zeros((40, 4), "float32")[::2]
        self.assertIs(distwar.index_add_(strided, index, source), strided)
        self.close(torch.from_numpy(strided.copy()), torch.zeros(20, 4).double().index_add(
            0, torch.from_numpy(index), torch.from_numpy(source).double()))
        with self.assertRaisesRegex(IndexError, "out of range"):
            distwar.index_add(out[:5], index, source)


if __name__ == "__main__":
    unittest.main()
