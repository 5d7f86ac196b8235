"""With PyTorch: that of today, which has the table of C functions of DLPack 1.3, and 2.0, which
knows only the struct without a version."""

import gc
import unittest
import weakref

import interop_cases as cases
import jitc
import numpy as np
import torch
from dlpack import TYPES

OLD = not hasattr(torch.Tensor, "__dlpack_c_exchange_api__")


class Torch(cases.Library):
    name = "torch"
    types = {t for t in TYPES if hasattr(torch, t)} - ({"bool"} if OLD else set())
    legacy = forgets_empty = OLD
    refuses = (BufferError, RuntimeError)
    exact_views = {"negative": "aborts" if OLD else "refused"}

    def take(self, x):
        return torch.from_dlpack(x)

    def make(self, values, dtype):
        if dtype == "bfloat16":
            return torch.from_numpy(values.view(np.int16).copy()).view(torch.bfloat16)
        if dtype in ("uint16", "uint32", "uint64"):
            signed = torch.from_numpy(values.view(dtype[1:]).copy())
            return signed.view(getattr(torch, dtype))
        return torch.from_numpy(values.copy())

    def values(self, x):
        name = str(x.dtype).split(".")[1]
        if name == "bfloat16":
            return x.view(torch.int16).numpy().view(np.uint16)
        return x.numpy()

    def where(self, x):
        return x.data_ptr()

    def put(self, x, value):
        x.fill_(value)

    def has_view(self, view):
        return view not in ("negative", "broadcast")  # the latter below

    def take_capsule(self, capsule):
        return torch.utils.dlpack.from_dlpack(capsule)


class Exports(cases.Exports, unittest.TestCase):
    lib = Torch()

    def test_method(self):
        array, want = cases.owned("float32", (3, 4))
        x = array.torch()
        self.check(x.numpy(), want)
        self.assertEqual(x.data_ptr(), array._layout()[0])

    def test_computing_there(self):
        array, want = cases.owned("float32", (3, 4))
        x = torch.from_dlpack(array)
        self.check((x @ x.T).numpy(), want @ want.T)
        x.mul_(2)
        self.check(cases.values_of(array), want * 2)

    def test_dimensions(self):
        array = jitc.full((1,) * 64, 1.0, "float32")
        self.assertEqual(torch.from_dlpack(array).ndim, 64)


class Imports(cases.Imports, unittest.TestCase):
    lib = Torch()

    def test_broadcast(self):
        x = torch.arange(6, dtype=torch.float32).expand(3, 6)
        array = jitc.from_dlpack(x)
        self.assertEqual(array._layout(), (x.data_ptr(), (0, 1)))
        self.check(cases.values_of(array), x.numpy())

    def test_owner_lives_as_long_as_we_read(self):
        owner = np.arange(1000, dtype=np.float32)
        gone = weakref.ref(owner)
        array = jitc.from_dlpack(torch.from_numpy(owner))
        pending = array + 1
        del owner, array
        gc.collect()
        self.assertIsNotNone(gone())
        self.check(cases.values_of(pending), np.arange(1000, dtype=np.float32) + 1)
        del pending
        self.check_nothing_left()
        self.assertIsNone(gone())

    def test_types_that_we_lack(self):
        for name in ("complex64", "complex128", "float8_e4m3fn", "float8_e5m2"):
            if not hasattr(torch, name) or (OLD and name.startswith("float8")):
                continue
            with self.subTest(dtype=name):
                x = torch.zeros(4, dtype=getattr(torch, name))
                with self.assertRaisesRegex(BufferError, "complex|f8|float8"):
                    jitc.from_dlpack(x)
                raw = jitc.from_dlpack(x, raw_bytes=True)
                self.assertEqual((raw.dtype, raw.size), ("uint8", 4 * x.element_size()))
                del raw
                self.check_nothing_left()

    def test_what_it_refuses(self):
        x = torch.zeros(4, requires_grad=True)
        if OLD:
            with self.assertRaises((BufferError, RuntimeError)):
                jitc.from_dlpack(x)
        self.check(cases.values_of(jitc.from_dlpack(x.detach())), np.zeros(4, np.float32))

    def test_negated_lazily(self):
        """Such a tensor has a bit that DLPack knows nothing of."""
        x = torch.imag(torch.tensor([1 + 2j, 3 + 4j]).conj())
        if not x.is_neg():
            self.skipTest("computed at once")
        array = jitc.from_dlpack(x.resolve_neg())
        self.check(cases.values_of(array), np.array([-2, -4], np.float32))


@unittest.skipIf(OLD, "PyTorch has no table of C functions")
class Table(cases.Cases, unittest.TestCase):
    """DLPack 1.3: both sides call each other in C."""

    def test_theirs_is_used(self):
        class Silent(torch.Tensor):
            def __dlpack__(self, *args, **keywords):
                raise AssertionError("called in Python")

        x = torch.arange(12, dtype=torch.float32).reshape(3, 4)[:, :2]
        array = jitc.from_dlpack(x.as_subclass(Silent))
        self.assertEqual(array._layout(), (x.data_ptr(), (4, 1)))
        self.check(cases.values_of(array), x.numpy())

    def test_never_a_copy_is_asked_for_in_python(self):
        """The table does not say whether it copies."""
        x = torch.arange(4.0)
        self.assertEqual(jitc.from_dlpack(x, copy=False)._layout()[0], x.data_ptr())


class Exits(cases.Exits, unittest.TestCase):
    preamble = """
        import torch
        take, give, make = torch.from_dlpack, lambda x: x, torch.from_numpy
    """


if __name__ == "__main__":
    unittest.main()
