"""The capsules that __dlpack__() makes: names, consumption, ends."""
import ctypes
import unittest
from ctypes import c_char_p, c_int, c_void_p, py_object

import bridge
import jitc
from dlpack import (CPU, IS_COPIED, LEGACY, READ_ONLY, USED, VERSIONED, Counted, address, api, capsule_name,
                    consume, end, end_in_bare_thread, look)

DESTROY = ctypes.CFUNCTYPE(None, c_void_p)
set_destructor = api("PyCapsule_SetDestructor", c_int, py_object, c_void_p)
get_name_pointer = api("PyCapsule_GetName", c_void_p, py_object)


def fresh(n=5, dtype="float32"):
    """An evaluated array, which nobody else knows."""
    return (jitc.arange(n, dtype=dtype) + 1).eval()


class Capsules(bridge.Balanced):
    def test_the_struct_is_chosen_by_the_version(self):
        a = fresh()
        for version, name in ((None, LEGACY), ((0, 8), LEGACY), ((1, 0), VERSIONED), ((1, 3), VERSIONED),
                              ((2, 0), VERSIONED), ((1, 99), VERSIONED), ((2 ** 40, 0), VERSIONED),
                              ((2 ** 63, 0), VERSIONED), ((2 ** 70, 0), VERSIONED), ((1, 2 ** 70), VERSIONED),
                              ((0, 2 ** 70), LEGACY)):
            capsule = a.__dlpack__(max_version=version)
            self.assertEqual(capsule_name(capsule), name)
            if name == VERSIONED:
                t = look(capsule)
                self.assertEqual(t.major, 1)
                self.assertLessEqual((t.major, t.minor), version)

    def test_the_tensor(self):
        for shape, strides in (((2, 3), [3, 1]), ((), []), ((6,), [1]), ((1, 6, 1), None)):
            a = fresh(6).reshape(shape) if shape else fresh(1).reshape(())
            t = look(a.__dlpack__(max_version=(1, 3))).dl_tensor
            self.assertEqual((t.device.type, t.device.id), a.__dlpack_device__())
            self.assertEqual((t.ndim, t.byte_offset), (len(shape), 0))
            self.assertEqual((t.dtype.code, t.dtype.bits, t.dtype.lanes), (2, 32, 1))
            self.assertEqual(tuple(t.shape[:t.ndim]), shape)
            if strides is not None:
                self.assertEqual(t.strides[:t.ndim], strides)

    def test_the_flags(self):
        a = fresh()
        self.assertEqual(look(a.__dlpack__(max_version=(1, 3))).flags & READ_ONLY, 0)
        b = a + 1  # what uses it and is not computed yet would see what a consumer writes
        self.assertEqual(look(a.__dlpack__(max_version=(1, 3))).flags & READ_ONLY, READ_ONLY)
        del b
        self.assertEqual(look(a.__dlpack__(max_version=(1, 3), copy=True)).flags, IS_COPIED)
        self.assertEqual(look(jitc.zeros(3).__dlpack__(max_version=(1, 3))).flags, IS_COPIED)

    def test_the_memory_is_the_array_s(self):
        a = fresh()
        capsule, legacy = a.__dlpack__(max_version=(1, 3)), a.__dlpack__()
        self.assertEqual(address(capsule), address(legacy))
        self.assertNotEqual(address(a.__dlpack__(copy=True)), address(legacy))
        self.assertEqual(address(capsule) % 64, 0)

    def test_what_cannot_be(self):
        a = fresh()
        other = (2, 0) if a.device == "cpu" else (2, 99)
        for arguments, error in (({"stream": "a"}, TypeError), ({"stream": -2}, ValueError),
                                 ({"stream": 2 ** 100}, OverflowError), ({"stream": 1.5}, TypeError),
                                 ({"max_version": 1}, TypeError), ({"max_version": (1,)}, TypeError),
                                 ({"max_version": ("a", 1)}, TypeError), ({"dl_device": 1}, TypeError),
                                 ({"max_version": [1, 0]}, TypeError), ({"dl_device": (1,)}, TypeError),
                                 ({"max_version": (1.0, 0)}, TypeError), ({"max_version": (-1, 0)}, ValueError),
                                 ({"max_version": (1, -1)}, ValueError), ({"max_version": (-2 ** 70, 0)}, ValueError),
                                 ({"stream": -2 ** 63}, ValueError), ({"stream": -2 ** 63 - 1}, OverflowError),
                                 ({"dl_device": other}, BufferError), ({"dl_device": (1, 1)}, BufferError),
                                 ({"dl_device": (7, 0)}, BufferError), ({"other": 1}, TypeError)):
            with self.assertRaises(error, msg=arguments):
                a.__dlpack__(**arguments)
        with self.assertRaises(TypeError):
            a.__dlpack__(None)
        with self.assertRaises(BufferError):
            jitc.zeros(3).__dlpack__(copy=False)
        with self.assertRaises(BufferError):  # it is read-only, which the old struct cannot say
            b = a + 1
            a.__dlpack__(copy=False)
        del b

    def test_streams_of_the_cpu(self):
        if bridge.BACKEND != "cpu":
            self.skipTest("of the CPU")
        a = fresh()
        a.__dlpack__(stream=None), a.__dlpack__(stream=-1)
        for stream in 0, 1, 2, 0x1000:
            with self.assertRaises(ValueError):
                a.__dlpack__(stream=stream)

    def test_to_the_cpu(self):
        a = fresh()
        capsule = a.__dlpack__(dl_device=(1, 0), max_version=(1, 3))
        t = look(capsule)
        self.assertEqual((t.dl_tensor.device.type, t.dl_tensor.device.id), (CPU, 0))
        values = (ctypes.c_float * 5).from_address(t.dl_tensor.data)
        self.assertEqual(list(values), [1, 2, 3, 4, 5])

    def test_one_that_nobody_consumes_ends_with_its_capsule(self):
        for version in None, (1, 3):
            for _ in range(100):
                fresh().__dlpack__(max_version=version)

    def test_a_consumer_ends_it_on_any_thread(self):
        for version in None, (1, 3):
            for finish in end, end_in_bare_thread:
                a = fresh()
                capsule = a.__dlpack__(max_version=version)
                tensor = consume(capsule)
                del capsule, a
                self.assertGreaterEqual(jitc.stats()["bytes_live"], 20)
                finish(tensor)

    def test_a_deleter_that_is_called_with_the_name_left_as_it_is(self):
        """As TensorFlow does when it fails; and then others live where the tensor was."""
        for version in None, (1, 3):
            a = fresh()
            capsule = a.__dlpack__(max_version=version)
            end(look(capsule))
            others = [a.__dlpack__(max_version=version) for _ in range(3)]
            del capsule
            self.assertEqual([look(o).dl_tensor.ndim for o in others], [1] * 3)
            tensors = [consume(o) for o in others]
            for tensor in tensors:
                end(tensor)

    def test_a_consumer_that_takes_the_destructor_away(self):
        """As nanobind does: the name stays, the destructor does not run."""
        for version in None, (1, 3):
            for _ in range(100):
                capsule = fresh().__dlpack__(max_version=version)
                set_destructor(capsule, None)
                end(look(capsule))
                del capsule

    def test_many_at_a_time(self):
        a = fresh()
        capsules = [a.__dlpack__(max_version=(1, 3)) for _ in range(1000)]
        self.assertEqual(len({ctypes.addressof(look(c)) for c in capsules}), 1000)
        for capsule in capsules[::3]:
            end(consume(capsule))
        del capsules[1::2], capsule
        capsules += [a.__dlpack__() for _ in range(1000)]

    def test_the_names_stay(self):
        a = fresh()
        first = get_name_pointer(a.__dlpack__()), get_name_pointer(a.__dlpack__(max_version=(1, 3)))
        again = get_name_pointer(a.__dlpack__()), get_name_pointer(a.__dlpack__(max_version=(1, 3)))
        self.assertEqual(first, again)

    def test_an_exception_on_its_way_is_kept(self):
        class Mine(Exception):
            pass

        def fails():
            capsule = fresh().__dlpack__()  # noqa: F841: ends while the exception is on its way
            raise Mine("kept")

        with self.assertRaisesRegex(Mine, "kept"):
            fails()

    def test_used_names_are_those_of_dlpack(self):
        a = fresh()
        for version in None, (1, 3):
            capsule = a.__dlpack__(max_version=version)
            name = capsule_name(capsule)
            jitc.from_dlpack(capsule)
            self.assertEqual(capsule_name(capsule), USED[name])

    def test_it_cannot_be_consumed_twice(self):
        for version in None, (1, 3):
            capsule = fresh().__dlpack__(max_version=version)
            b = jitc.from_dlpack(capsule)
            with self.assertRaisesRegex(ValueError, "consumed"):
                jitc.from_dlpack(capsule)
            self.assertEqual(b.tolist(), [1, 2, 3, 4, 5])

    def test_other_capsules_are_left_alone(self):
        new = api("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
        for name in b"something", b"dltensor_", b"used", None:
            capsule = new(1, name, None)
            with self.assertRaises(TypeError):
                jitc.from_dlpack(capsule)
            self.assertEqual(capsule_name(capsule), name)

    def test_the_device(self):
        self.assertEqual(jitc.zeros(1, device="cpu").__dlpack_device__(), (CPU, 0))
        with self.assertRaises(TypeError):
            jitc.zeros(1).__dlpack_device__(1)


class Pending(bridge.Balanced):
    def test_a_capsule_that_ends_while_a_call_has_failed(self):
        """The exception is set, and the deleter runs code of Python."""
        for version in None, (1, 3):
            c = Counted(fresh())
            with self.assertRaisesRegex(TypeError, "has no len"):
                len(c.__dlpack__(max_version=version))
            self.assertEqual(len(c.ended), 1)
        Counted.everything.clear()


if __name__ == "__main__":
    unittest.main()
