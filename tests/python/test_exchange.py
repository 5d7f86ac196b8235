"""The table of C functions of DLPack 1.3, as a consumer calls it."""
import ctypes
import threading
import unittest
from ctypes import byref, c_int64, c_void_p

import bridge
import jitc
from dlpack import CPU, CUDA, Device, Made, Tensor, Type, Versioned, end
from test_take import Memory


class Table(bridge.Balanced):
    def setUp(self):
        super().setUp()
        self.table = bridge.table()
        self.device = jitc.zeros(1).__dlpack_device__()

    def test_it_is_an_attribute_of_the_type(self):
        self.assertIn("dlpack_exchange_api", repr(jitc.Array.__dlpack_c_exchange_api__))
        self.assertEqual((self.table.major, self.table.minor, self.table.prev_api), (1, 3, None))
        for function in ("allocator", "from_object", "to_object", "borrow", "stream"):
            self.assertTrue(ctypes.cast(getattr(self.table, function), c_void_p).value, function)

    def take(self, a):
        out = c_void_p()
        self.assertEqual(self.table.from_object(a, byref(out)), 0)
        return Versioned.from_address(out.value)

    def test_an_array_goes_out(self):
        a = (jitc.arange(6, dtype="float32") + 1).reshape(2, 3)
        tensor = self.take(a)
        t = tensor.dl_tensor
        self.assertEqual((tensor.major, t.ndim, t.shape[:2], t.strides[:2]), (1, 2, [2, 3], [3, 1]))
        self.assertEqual((t.device.type, t.device.id), self.device)
        self.assertEqual(t.data, a._layout()[0])
        end(tensor)

    def test_a_tensor_comes_in(self):
        made = Made(Memory(), (2, 3))
        a = bridge.to_object(ctypes.addressof(made.managed))
        self.assertIs(type(a), jitc.Array)
        self.assertEqual(a.tolist(), [[0, 1, 2], [3, 4, 5]])
        del a
        bridge.settled()
        self.assertEqual(len(made.calls), 1)

    def test_a_tensor_that_cannot_come_in(self):
        for settings, error in (({"dtype": (5, 64)}, BufferError), ({"version": (2, 0)}, BufferError),
                                ({"ndim": -1}, ValueError)):
            made = Made(Memory(), (2,), **settings)
            out = c_void_p(5)
            with self.assertRaises(error):
                self.table.to_object(ctypes.addressof(made.managed), byref(out))
            self.assertEqual((len(made.calls), out.value), (1, None))

    def test_there_and_back(self):
        a = (jitc.arange(6, dtype="float32") + 1).reshape(2, 3)
        b = bridge.to_object(ctypes.addressof(self.take(a)))
        self.assertEqual(b.tolist(), a.tolist())
        self.assertEqual(b._layout(), a._layout())

    def test_a_tensor_is_borrowed(self):
        for a in ((jitc.arange(6, dtype="int16") + 1).reshape(2, 3), jitc.full((2, 3), 7, "int16")):
            t = Tensor()
            self.assertEqual(self.table.borrow(a, byref(t)), 0)
            self.assertEqual((t.ndim, t.shape[:2], t.strides[:2], t.byte_offset), (2, [2, 3], [3, 1], 0))
            self.assertEqual((t.dtype.code, t.dtype.bits, t.dtype.lanes), (0, 16, 1))
            self.assertEqual((t.device.type, t.device.id), self.device)
            self.assertEqual(t.data, a._layout()[0])
            if t.device.type == CPU:
                self.assertEqual(sum((ctypes.c_int16 * 6).from_address(t.data)), sum(sum(a.tolist(), [])))

    def test_what_is_no_array(self):
        out, t = c_void_p(), Tensor()
        for x in None, 5, object():
            with self.assertRaises(TypeError):
                self.table.from_object(x, byref(out))
            with self.assertRaises(TypeError):
                self.table.borrow(x, byref(t))

    def test_the_stream(self):
        out = c_void_p(5)
        self.assertEqual(self.table.stream(CPU, 0, byref(out)), 0)
        self.assertIsNone(out.value)
        if bridge.BACKEND == "cpu":
            self.skipTest("the rest is of CUDA")
        self.assertEqual(self.table.stream(CUDA, 0, byref(out)), 0)
        self.assertEqual(out.value, jitc.cuda_stream())
        with self.assertRaises((RuntimeError, ValueError)):
            self.table.stream(CUDA, 99, byref(out))

    def allocate(self, function, shape, dtype=(2, 32, 1), device=None, null=False):
        prototype, out, errors = Tensor(), c_void_p(5), []
        prototype.device, prototype.ndim = Device(*(device or self.device)), len(shape)
        prototype.dtype = Type(*dtype)
        if not null:
            prototype.shape = (c_int64 * len(shape))(*shape)

        def failed(context, kind, message):
            errors.append((context, kind.decode(), message.decode()))

        status = function(byref(prototype), byref(out), 77, bridge.SetError(failed))
        self.assertEqual(status, -len(errors))
        self.assertEqual(out.value is None, status == -1)
        return errors[0] if errors else Versioned.from_address(out.value)

    def test_new_tensors_with_and_without_the_gil(self):
        for kind in bridge.Allocator, bridge.HoldingAllocator:
            function = kind(self.table.allocator)
            for shape in (2, 3), (), (0, 4), (1000,):
                tensor = self.allocate(function, shape)
                t = tensor.dl_tensor
                self.assertEqual((tuple(t.shape[:t.ndim]), t.device.type, t.device.id),
                                 (shape, *self.device))
                self.assertEqual(tensor.flags & 1, 0)
                end(tensor)

    def test_a_shape_without_dimensions_may_be_null(self):
        tensor = self.allocate(bridge.Allocator(self.table.allocator), (), null=True)
        self.assertEqual(tensor.dl_tensor.ndim, 0)
        end(tensor)

    def test_new_tensors_in_other_threads(self):
        function, tensors = bridge.Allocator(self.table.allocator), []
        threads = [threading.Thread(target=lambda: tensors.append(self.allocate(function, (5,))))
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(tensors), 4)
        for tensor in tensors:
            end(tensor)

    def test_new_tensors_that_cannot_be(self):
        function = bridge.Allocator(self.table.allocator)
        for arguments, expected in (({"dtype": (5, 64, 1)}, "BufferError"), ({"dtype": (2, 32, 4)}, "BufferError"),
                                    ({"shape": (-1,)}, "ValueError"), ({"shape": (2 ** 40, 2 ** 40)}, "ValueError"),
                                    ({"device": (4, 0)}, "BufferError"), ({"device": (2, 99)}, "RuntimeError"),
                                    ({"null": True}, "ValueError")):
            context, kind, message = self.allocate(function, **{"shape": (2,), **arguments})
            self.assertEqual((context, kind), (77, expected))
            self.assertTrue(message)


if __name__ == "__main__":
    unittest.main()
