"""With MLX, which copies whatever it is given."""

import unittest

import interop_cases as cases
import jitc
import mlx.core as mx
import numpy as np
from dlpack import TYPES, address


class MLX(cases.Library):
    name = "mlx"
    types = set(TYPES) - {"float64"}
    untested = {"float64"}  # becomes float32
    copies = True
    asks_legacy = True
    refuses = (ValueError, TypeError, RuntimeError, BufferError)
    exact_views = {"negative": "refused"}

    def take(self, x):
        return mx.array(x)

    def make(self, values, dtype):
        x = mx.array(values)
        if dtype == "bfloat16":
            x = x.view(mx.bfloat16)
        mx.eval(x)
        return x

    def values(self, x):
        return np.array(x.view(mx.uint16) if x.dtype == mx.bfloat16 else x)

    def where(self, x):
        capsule = x.__dlpack__()
        return address(capsule)


class Exports(cases.Exports, unittest.TestCase):
    lib = MLX()


class Imports(cases.Imports, unittest.TestCase):
    lib = MLX()

    def test_slice(self):
        """It names the block, and the offset in it."""
        x = mx.arange(100, dtype=mx.float32)[5:25]
        self.check(cases.values_of(jitc.from_dlpack(x)), np.arange(5, 25, dtype=np.float32))


class Exits(cases.Exits, unittest.TestCase):
    preamble = """
        import mlx.core as mx
        take, give, make = mx.array, lambda x: x, mx.array
    """


if __name__ == "__main__":
    unittest.main()
