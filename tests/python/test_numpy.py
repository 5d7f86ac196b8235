"""With NumPy: memory that is shared, in both directions."""
import unittest

import bridge
import jitc

try:
    import numpy as np
except ImportError:
    raise unittest.SkipTest("NumPy is not installed")

TYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16",
         "float32", "float64"]


# Since 2.1 it takes and gives the struct with a version, which can say that memory is read-only.
VERSIONED = tuple(int(n) for n in np.__version__.split(".")[:2]) >= (2, 1)


def address(n):
    return n.__array_interface__["data"][0]


class NumPy(bridge.Balanced):
    def setUp(self):
        super().setUp()
        jitc.set_device("cpu")

    def test_every_type_goes_there_and_back(self):
        for dtype in TYPES:
            n = np.arange(6).reshape(2, 3).astype(dtype)
            a = jitc.from_dlpack(n)
            self.assertEqual((a.dtype, a.shape, a.tolist()), (dtype, (2, 3), n.tolist()))
            back = a.numpy()
            self.assertEqual((back.dtype, back.shape, address(back)), (n.dtype, n.shape, address(n)))
            b = jitc.array(n, np.float64)
            self.assertEqual((b.dtype, b.tolist()), ("float64", n.astype("f8").tolist()))
            self.assertEqual(jitc.cast(b, n.dtype).dtype, dtype)

    def test_views_are_read_in_place(self):
        n = np.arange(24, dtype="float32").reshape(2, 3, 4)
        for view in (n.T, n[:, ::2], n[::-1], n[..., 1], n[:, 1:2], n[1, 2, 3, ...], n[:0], n[:, :, ::-3],
                     np.broadcast_to(n[0, 0], (5, 4)) if VERSIONED else n, n.transpose(1, 0, 2), n.reshape(6, 4).T):
            a = jitc.from_dlpack(view)
            self.assertEqual((a.shape, a.tolist()), (view.shape, view.tolist()))
            self.assertEqual((a * 2).tolist(), (view * 2).tolist())
            if view.size and VERSIONED:
                back = jitc.from_dlpack(view).numpy()
                self.assertEqual(back.tolist(), view.tolist())
                self.assertEqual(address(back), address(view))

    def test_writes_are_seen(self):
        n = np.zeros(5, "int32")
        a = jitc.from_dlpack(n)
        n[2] = 7
        self.assertEqual((a + 1).tolist(), [1, 1, 8, 1, 1])
        b = (jitc.arange(5) + 1).eval()
        m = b.numpy()
        self.assertEqual(m.flags.writeable, VERSIONED)
        if VERSIONED:
            m[0] = 9
            self.assertEqual(b.tolist(), [9, 2, 3, 4, 5])

    def test_read_only(self):
        n = np.zeros(5)
        n.flags.writeable = False
        if not VERSIONED:
            with self.assertRaises(BufferError):
                jitc.from_dlpack(n)
            return
        a = jitc.from_dlpack(n)
        self.assertFalse(a.numpy().flags.writeable)
        with self.assertRaises(BufferError):
            a.__dlpack__()
        a.__dlpack__(copy=True)

    def test_what_numpy_lacks_or_we_lack(self):
        for n in np.zeros(3, "complex64"), np.zeros(3, "longdouble"), np.zeros(3, ">f4"), np.array(["a"]):
            with self.assertRaises((BufferError, ValueError)):
                jitc.from_dlpack(n)
        a = jitc.array([1.5, -2], "bfloat16")
        for f in a.numpy, lambda: np.asarray(a), lambda: np.array(a, dtype="float32"):
            with self.assertRaisesRegex(BufferError, r"NumPy has no bfloat16: jitc.cast\(a, 'float32'\)"):
                f()
        self.assertEqual(jitc.cast(a, "float32").numpy().tolist(), [1.5, -2])

    def test_numbers_of_numpy(self):
        a = jitc.array([1.0, 2.0])
        self.assertEqual((a * np.float32(2)).tolist(), [2, 4])
        self.assertEqual((np.float32(2) * a).tolist(), [2, 4])
        self.assertEqual((jitc.array([1, 2]) + np.int8(3)).tolist(), [4, 5])
        self.assertEqual(jitc.full((2,), np.float64(1.5)).tolist(), [1.5, 1.5])
        self.assertEqual(jitc.zeros(np.int64(3)).shape, (3,))
        for f in (lambda: a + np.ones(2), lambda: np.ones(2, "float32") + a, lambda: np.ones(2) * a):
            with self.assertRaises(TypeError):
                f()

    def test_as_arrays_of_numpy(self):
        a = (jitc.arange(4, dtype="float32") + 1).reshape(2, 2)
        self.assertEqual(np.asarray(a).tolist(), [[1, 2], [3, 4]])
        self.assertEqual(np.asarray(a, dtype="int64").dtype, np.int64)
        self.assertEqual(address(a.__array__()), address(a.__array__(copy=False)))
        self.assertNotEqual(address(a.__array__()), address(a.__array__(copy=True)))
        with self.assertRaises(ValueError):
            a.__array__("int64", copy=False)
        without_memory = jitc.full(3, 2.0)
        self.assertEqual(np.asarray(without_memory).tolist(), [2, 2, 2])
        with self.assertRaisesRegex(ValueError, "copy"):
            without_memory.__array__(copy=False)
        self.assertEqual(np.add(np.asarray(a), 1).tolist(), [[2, 3], [4, 5]])

    def test_memory_lives_as_long_as_somebody_has_it(self):
        m = (jitc.arange(1000) + 5).numpy()
        self.assertEqual(m.sum(), 999 * 500 + 5000)
        a = jitc.from_dlpack(np.arange(1000))
        b = a * 2
        del a
        self.assertEqual(b.numpy().sum(), 999 * 1000)
        if VERSIONED:
            c = jitc.from_dlpack(jitc.from_dlpack(np.arange(10)).numpy())
            self.assertEqual(c.tolist(), list(range(10)))

    def test_arrays_of_a_gpu_are_copied(self):
        if bridge.BACKEND == "cpu":
            self.skipTest("no GPU")
        a = (jitc.arange(6, dtype="int32", device="cuda") + 1).reshape(2, 3)
        self.assertEqual(a.numpy().tolist(), [[1, 2, 3], [4, 5, 6]])
        b = jitc.from_dlpack(np.arange(6), device="cuda")
        self.assertEqual((b.device, b.tolist()), ("cuda:0", list(range(6))))


if __name__ == "__main__":
    unittest.main()
