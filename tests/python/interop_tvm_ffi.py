"""With TVM-FFI, a consumer of the table of C functions of DLPack 1.3."""

import unittest

import interop_cases as cases
import jitc
import numpy as np
import tvm_ffi
from dlpack import TYPES, address, look


class TVM(cases.Library):
    name = "tvm_ffi"
    asks_legacy = True
    refuses = (BufferError, RuntimeError, TypeError, ValueError)

    def take(self, x):
        return tvm_ffi.from_dlpack(x)

    take_capsule = take

    def make(self, values, dtype):
        owner = Typed(values.copy(), dtype)
        return tvm_ffi.from_dlpack(owner)

    def values(self, x):
        if str(x.dtype) == "bfloat16":
            return cases.values_of(jitc.from_dlpack(x, copy=True))
        return np.from_dlpack(x)

    def where(self, x):
        return address(x.__dlpack__())


class Typed:
    """Memory of NumPy, with a type that NumPy may not know."""

    def __init__(self, values, dtype):
        self.values, self.dtype = values, dtype

    def __dlpack__(self, **keywords):
        capsule = self.values.__dlpack__(**keywords)
        if self.dtype == "bfloat16":
            look(capsule).dl_tensor.dtype.code = TYPES["bfloat16"][0]
        return capsule

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Exports(cases.Exports, unittest.TestCase):
    lib = TVM()


class Imports(cases.Imports, unittest.TestCase):
    lib = TVM()


class Table(cases.Cases, unittest.TestCase):
    def test_ours_is_used(self):
        """An array goes through a function in C++, as an argument and as the result."""
        array, want = cases.owned("float32", (3, 4))
        echo = tvm_ffi.get_global_func("testing.echo")
        x = echo(array)
        self.assertEqual(address(x.__dlpack__()), array._layout()[0])
        self.check(np.from_dlpack(x), want)
        del array
        self.check(np.from_dlpack(x), want)
        del x
        self.check_nothing_left()


class Exits(cases.Exits, unittest.TestCase):
    preamble = """
        import tvm_ffi
        take = make = tvm_ffi.from_dlpack
        give = lambda x: x
        last = lambda x: np.from_dlpack(x)[-1]
    """


if __name__ == "__main__":
    unittest.main()
