"""With Warp, which knows only the struct without a version, and at most four dimensions."""

import unittest

import interop_cases as cases
import jitc
import numpy as np
import warp as wp
from dlpack import TYPES

wp.config.quiet = True
wp.init()


class Warp(cases.Library):
    name = "warp"
    legacy = True
    refuses = (RuntimeError, TypeError, IndexError, ValueError)
    untested = {"bfloat16"}  # NumPy has no such type
    least_dims, most_dims = 1, 4

    def take(self, x):
        return wp.from_dlpack(x)

    def make(self, values, dtype):
        return wp.array(values, dtype=getattr(wp, dtype), device="cpu")

    def values(self, x):
        return x.numpy()

    def where(self, x):
        return x.ptr

    def put(self, x, value):
        x.fill_(value)


Warp.types = {t for t in TYPES if t != "bfloat16"}


class Exports(cases.Exports, unittest.TestCase):
    lib = Warp()


class Imports(cases.Imports, unittest.TestCase):
    lib = Warp()

    # It leaves the strides out.
    def test_no_strides(self):
        x = wp.array(np.arange(12, dtype=np.float32).reshape(3, 4), device="cpu")
        array = jitc.from_dlpack(x)
        self.assertEqual(array._layout(), (x.ptr, (4, 1)))


class Exits(cases.Exits, unittest.TestCase):
    talks = True
    preamble = """
        import warp as wp
        wp.config.quiet = True
        wp.init()
        take, give, make = wp.from_dlpack, lambda x: x, lambda x: wp.array(x, device="cpu")
        last = lambda x: x.numpy()[-1]
    """


if __name__ == "__main__":
    unittest.main()
