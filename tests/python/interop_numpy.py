"""With NumPy: that of today, and 1.26, which knows only the struct without a version."""

import gc
import sys
import unittest
import weakref

import interop_cases as cases
import jitc
import numpy as np
from dlpack import READ_ONLY, TYPES, Counted, Made, address, look

OLD = np.lib.NumpyVersion(np.__version__) < "2.1.0"


class NumPy(cases.Library):
    name = "numpy"
    types = set(TYPES) - {"bfloat16"}
    legacy = one_way = OLD
    refuses = (BufferError, RuntimeError, TypeError, ValueError)
    most_dims = 32 if OLD else 64

    def take(self, x):
        return np.from_dlpack(x)

    def make(self, values, dtype):
        return values.copy()

    def values(self, x):
        return x

    def where(self, x):
        return x.ctypes.data

    put = None if OLD else lambda self, x, value: x.__setitem__(..., value)

    def has_view(self, view):
        return view != "broadcast" or not OLD  # which NumPy makes read-only

    def take_capsule(self, capsule):
        return np.from_dlpack(Holder(capsule))


class Holder:
    """What has a capsule to give."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, **keywords):
        return self.capsule

    def __dlpack_device__(self):
        return 1, 0


class Exports(cases.Exports, unittest.TestCase):
    lib = NumPy()

    # numpy#28599, nanobind#1122: all imports read-only, or none
    def test_write_flag(self):
        array, _ = cases.owned("float32", (8,))
        self.assertEqual(np.from_dlpack(array).flags.writeable, not OLD)
        user = array + 1
        self.assertFalse(np.from_dlpack(array).flags.writeable)
        del user
        self.assertEqual(np.from_dlpack(array).flags.writeable, not OLD)
        same = array.reshape(2, 4)
        self.assertFalse(np.from_dlpack(array).flags.writeable)
        del same
        self.assertEqual(np.from_dlpack(jitc.full((3,), 1.0, "float32")).flags.writeable, not OLD)

    # numpy#32697, jax#31271, pytorch#84056: the error that one sees is the one that happened
    def test_error_on_the_way_is_not_masked(self):
        array, _ = cases.owned("bfloat16", (8,))
        counted = Counted(array)
        with self.assertRaisesRegex((BufferError, RuntimeError), "(?i)dtype|type"):
            np.from_dlpack(counted)
        del array, counted.array
        self.check_ended(counted)
        self.check_nothing_left()

    # drjit, nanobind: the device that is told is the one that is in the capsule
    def test_devices_agree(self):
        array, _ = cases.owned("float32", (8,))
        capsule = array.__dlpack__()
        device = look(capsule).dl_tensor.device
        self.assertEqual(array.__dlpack_device__(), (device.type, device.id))

    @unittest.skipIf(OLD, "has no copy=")
    def test_copy_is_passed_on(self):
        array, want = cases.owned("float32", (8,))
        x = np.from_dlpack(array, copy=True)
        self.assertNotEqual(x.ctypes.data, array._layout()[0])
        x[:] = 0
        self.check(cases.values_of(array), want)
        self.assertEqual(np.from_dlpack(array, copy=False).ctypes.data, array._layout()[0])
        with self.assertRaises(BufferError):
            np.from_dlpack(jitc.full((3,), 1.0, "float32"), copy=False)

    def test_method(self):
        array, want = cases.owned("float32", (3, 4))
        x = array.numpy()
        self.check(x, want)
        self.assertEqual(x.ctypes.data, array._layout()[0])
        self.check(np.asarray(array), want)
        self.assertEqual(np.asarray(array, np.float64).dtype, np.float64)


class Imports(cases.Imports, unittest.TestCase):
    lib = NumPy()

    def test_owner_lives_as_long_as_we_read(self):
        x = np.arange(1000, dtype=np.float32)
        gone = weakref.ref(x)
        array = jitc.from_dlpack(x)
        views = [array.reshape(10, 100), array + 1]
        del x, array
        gc.collect()
        self.assertIsNotNone(gone())
        self.check(cases.values_of(views[1]), np.arange(1000, dtype=np.float32) + 1)
        del views
        self.check_nothing_left()
        self.assertIsNone(gone())

    # numpy#20742: what is read-only there is read-only here, and for those who ask us
    def test_read_only(self):
        x = np.arange(8, dtype=np.float32)
        x.flags.writeable = False
        if OLD:  # cannot say so, and refuses
            with self.assertRaises((BufferError, TypeError)):
                jitc.from_dlpack(x)
            return
        array = jitc.from_dlpack(x)
        capsule = array.__dlpack__(max_version=(1, 3))
        self.assertTrue(look(capsule).flags & READ_ONLY)
        self.assertFalse(np.from_dlpack(array).flags.writeable)
        with self.assertRaises(BufferError):
            array.__dlpack__()
        changed = jitc.scatter(array, 9.0, jitc.arange(8))
        self.check(cases.values_of(changed), np.full(8, 9, np.float32))
        self.check(x, np.arange(8, dtype=np.float32))
        capsule = array.__dlpack__(copy=True)
        self.assertNotEqual(address(capsule), x.ctypes.data)

    # dgl#995, dlpack#99, jax#29810: elements that lie anywhere
    def test_misaligned(self):
        raw = np.zeros(8 * 4 + 8, np.uint8)
        for offset in range(1, 8):
            with self.subTest(offset=offset):
                x = raw[offset:offset + 32].view(np.float32)
                x[:] = np.arange(8)
                array = jitc.from_dlpack(Made(x, (8,)))
                self.check(cases.values_of(array * 2), np.arange(8, dtype=np.float32) * 2)
                self.assertEqual(array._layout()[0] == x.ctypes.data, offset % 4 == 0)

    # pytorch#168177, iree#21153, warp#1573
    def test_byte_offset(self):
        x = np.arange(16, dtype=np.float32)
        array = jitc.from_dlpack(Made(x, (12,), byte_offset=16))
        self.assertEqual(array._layout()[0], x.ctypes.data + 16)
        self.check(np.from_dlpack(array), x[4:])
        capsule = array.__dlpack__()
        t = look(capsule).dl_tensor
        self.assertEqual((t.data, t.byte_offset), (x.ctypes.data + 16, 0))
        for shape, strides, want in (((6,), (2,), x[4::2]), ((5,), (-1,), x[4::-1]),
                                     ((3, 4), (1, 3), x[4:].reshape(4, 3).T)):
            with self.subTest(strides=strides):
                view = jitc.from_dlpack(Made(x, shape, strides=strides, byte_offset=16))
                self.assertEqual(view._layout()[0], x.ctypes.data + 16)
                self.check(cases.values_of(view * 1), want)

    # nanobind#487: a stride in bytes that is no multiple of the element
    def test_field_of_records(self):
        x = np.zeros(5, np.dtype([("a", np.int8), ("b", np.float32)], align=False))
        with self.assertRaises(BufferError):
            jitc.from_dlpack(x["b"])
        y = np.zeros(5, np.dtype([("a", np.float32), ("b", np.float32)]))
        y["b"] = np.arange(5)
        array = jitc.from_dlpack(y["b"])
        self.assertEqual(array._layout(), (y["b"].ctypes.data, (2,)))
        self.check(cases.values_of(array), np.arange(5, dtype=np.float32))

    def test_types_that_we_lack(self):
        for dtype in (np.complex64, np.complex128):
            with self.subTest(dtype=dtype):
                x = np.ones(4, dtype)
                count = sys.getrefcount(x)
                with self.assertRaisesRegex(BufferError, "complex"):
                    jitc.from_dlpack(x)
                self.assertEqual(sys.getrefcount(x), count)
                raw = jitc.from_dlpack(x, raw_bytes=True)
                self.assertEqual((raw.dtype, raw.shape), ("uint8", (4, x.itemsize)))
                self.check(cases.values_of(raw).reshape(-1), x.view(np.uint8))
                del raw
                self.check_nothing_left()
        with self.assertRaises(BufferError):
            jitc.from_dlpack(np.ones(4, ">f4"))

    def test_scalar_and_overlapping(self):
        self.assertEqual(jitc.from_dlpack(np.array(7.5)).item(), 7.5)
        x = np.arange(6, dtype=np.int32)
        windows = np.lib.stride_tricks.as_strided(x, (4, 3), (4, 4))
        self.check(cases.values_of(jitc.from_dlpack(windows)), windows)


class Exits(cases.Exits, unittest.TestCase):
    preamble = """
        take, make = np.from_dlpack, np.copy
        give = lambda x: x if x.flags.writeable else x.copy()  # 1.26 gives nothing else
    """



if __name__ == "__main__":
    unittest.main()
