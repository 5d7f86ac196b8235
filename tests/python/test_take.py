"""jitc.from_dlpack(): how it asks, and what it does with what it gets."""
import ctypes
import unittest

import bridge
import jitc
from dlpack import CPU, LEGACY, VERSIONED, Made, capsule_name, capsule_new


def numbers(n=6):
    return (ctypes.c_float * n)(*range(n))


class Memory:
    """So that Made finds the address."""

    def __init__(self, n=6):
        self.values = numbers(n)
        self.ctypes = self
        self.data = ctypes.addressof(self.values)


class Asked:
    """A producer that notes how it is asked, and knows only some keywords."""

    def __init__(self, known=("stream", "max_version", "dl_device", "copy"), error=TypeError, at=(CPU, 0),
                 refuses=()):
        self.made, self.known, self.error, self.at, self.refuses = Made(Memory(), (2, 3)), known, error, at, \
            refuses
        self.calls = []

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        for name in keywords:
            if name not in self.known:
                raise TypeError(f"unexpected keyword {name}")
            if name in self.refuses:
                raise self.error(f"no {name} here")
        return self.made.capsule()

    def __dlpack_device__(self):
        return self.at


class Asking(bridge.Balanced):
    def test_on_the_cpu(self):
        for arguments, expected in (({}, {"max_version": (1, 3)}), ({"copy": True}, {"max_version": (1, 3)}),
                                    ({"copy": False}, {"max_version": (1, 3), "copy": False})):
            x = Asked()
            a = jitc.from_dlpack(x, **arguments)
            self.assertEqual(x.calls, [expected])
            self.assertEqual((a.tolist(), a.device), ([[0, 1, 2], [3, 4, 5]], "cpu"))

    def test_without_the_keywords_that_it_does_not_know(self):
        x = Asked(known=())
        self.assertEqual(jitc.from_dlpack(x).shape, (2, 3))
        self.assertEqual(x.calls, [{"max_version": (1, 3)}, {}])

    def test_its_errors_are_ours(self):
        for error in BufferError, ValueError, RuntimeError, KeyError, KeyboardInterrupt:
            x = Asked(refuses=["max_version"], error=error)
            with self.assertRaisesRegex(error, "no max_version here"):
                jitc.from_dlpack(x)
            self.assertEqual(len(x.calls), 1)

        class Broken(Asked):
            def __dlpack__(self, **keywords):
                self.calls.append(keywords)
                raise TypeError("always")

        x = Broken()
        with self.assertRaisesRegex(TypeError, "always"):
            jitc.from_dlpack(x)
        self.assertEqual(len(x.calls), 2)

    def test_what_does_not_speak_it(self):
        class Half:
            def __dlpack__(self):
                raise AssertionError

        for x in 5, None, [1], Half(), object():
            with self.assertRaises(TypeError):
                jitc.from_dlpack(x)

    def test_what_speaks_it_badly(self):
        class Bad(Asked):
            def __init__(self, result, at=(CPU, 0)):
                super().__init__(at=at)
                self.result = result

            def __dlpack__(self, **keywords):
                return self.result

        for x in Bad(None), Bad(5), Bad(Made(Memory(), (6,)).capsule, at=5), Bad(None, at=("a", 1)), \
                Bad(None, at=(1,)), Bad(None, at=[1, 0]):
            with self.assertRaises(TypeError):
                jitc.from_dlpack(x)

    def test_its_own_arrays(self):
        a = (jitc.arange(6).reshape(2, 3) + 1).eval()
        b = jitc.from_dlpack(a)
        self.assertEqual(b.tolist(), a.tolist())
        self.assertEqual(a._layout(), b._layout())
        self.assertNotEqual(a._layout(), jitc.from_dlpack(a, copy=True)._layout())
        self.assertEqual(jitc.from_dlpack(jitc.zeros((2, 2))).tolist(), [[0, 0], [0, 0]])

    def test_arguments(self):
        x = Asked()
        for arguments in {"device": "gpu"}, {"device": 1}, {"copy": Unanswerable()}, {"other": 1}:
            with self.assertRaises((TypeError, ValueError)):
                jitc.from_dlpack(x, **arguments)
        with self.assertRaises(TypeError):
            jitc.from_dlpack()
        with self.assertRaises(TypeError):
            jitc.from_dlpack(x, "cpu")
        self.assertEqual(x.calls, [])


class Unanswerable:
    def __bool__(self):
        raise TypeError("neither")


class Taken(bridge.Balanced):
    def test_the_deleter_is_called_once(self):
        for legacy in False, True:
            made = Made(Memory(), (6,), legacy=legacy)
            capsule = made.capsule()
            self.assertEqual(capsule_name(capsule), LEGACY if legacy else VERSIONED)
            a = jitc.from_dlpack(capsule)
            b = a + 1
            del a
            self.assertEqual(b.tolist(), [1, 2, 3, 4, 5, 6])
            del b, capsule
            bridge.settled()
            self.assertEqual(len(made.calls), 1)

    def test_the_deleter_does_not_see_an_exception_on_its_way(self):
        """It runs code of Python, within a call whose arguments are given up as one of them fails."""
        class Mine(Exception):
            pass

        def fails():
            raise Mine("kept")

        for legacy in False, True:
            made = Made(Memory(), (6,), legacy=legacy)
            with self.assertRaisesRegex(Mine, "kept"):
                print(jitc.from_dlpack(made), fails())
            bridge.settled()
            self.assertEqual(len(made.calls), 1)

    def test_the_deleter_is_called_once_if_it_fails(self):
        for settings in ({"dtype": (5, 64)}, {"device": (4, 0)}, {"lanes": 4}, {"version": (2, 0)},
                         {"shape": (-1,)}, {"dtype": (99, 32)}, {"ndim": -1}, {"ndim": 1000}):
            for legacy in False, True:
                if legacy and "version" in settings:
                    continue
                made = Made(Memory(), **{"shape": (2,), "legacy": legacy, **settings})
                with self.assertRaises((BufferError, ValueError), msg=settings):
                    jitc.from_dlpack(made.capsule())
                self.assertEqual(len(made.calls), 1, settings)

    def test_a_tensor_without_a_deleter(self):
        made = Made(Memory(), (6,), deleter=False)
        self.assertEqual(jitc.from_dlpack(made.capsule()).tolist(), [0, 1, 2, 3, 4, 5])

    def test_views(self):
        memory = Memory(12)
        for shape, strides, offset, expected in (((2, 3), [1, 2], 0, [[0, 2, 4], [1, 3, 5]]),
                                                 ((3,), [-2], 16, [4, 2, 0]), ((2, 2), [0, 3], 4, [[1, 4]] * 2),
                                                 ((), [], 8, 2), ((0, 4), [9, 9], 0, [])):
            made = Made(memory, shape, strides=strides, byte_offset=offset)
            a = jitc.from_dlpack(made.capsule())
            self.assertEqual((a.tolist(), a.shape), (expected, shape))
            self.assertEqual((a + 1).shape, shape)

    def test_bytes_of_types_that_are_not_known(self):
        memory = Memory(4)
        with self.assertRaises(BufferError):
            jitc.from_dlpack(Made(memory, (2,), dtype=(5, 64)))
        a = jitc.from_dlpack(Made(memory, (2,), dtype=(5, 64)), raw_bytes=True)
        self.assertEqual((a.shape, a.dtype), ((2, 8), "uint8"))
        self.assertEqual(bytes(sum(a.tolist(), [])), bytes(memory.values))

    def test_copies(self):
        memory = Memory()
        a, b = jitc.from_dlpack(Made(memory, (6,)), copy=True), jitc.from_dlpack(Made(memory, (6,)))
        memory.values[0] = 9
        self.assertEqual((a.tolist()[0], b.tolist()[0]), (0, 9))


class Tables(bridge.Balanced):
    """Types with a table of C functions."""

    def test_it_goes_before_the_protocol(self):
        a = (jitc.arange(6).reshape(2, 3) + 1).eval()

        class Fast(Asked):
            __dlpack_c_exchange_api__ = self.table(lambda x, out: self.give(a, out))

        x = Fast()
        self.assertEqual(jitc.from_dlpack(x).tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual((x.calls, self.asked), ([], [x]))

    def test_the_protocol_comes_after_a_buffer_error(self):
        for error in BufferError, ValueError:
            class Fast(Asked):
                __dlpack_c_exchange_api__ = self.table(bridge.failing(error))

            x = Fast()
            if error is BufferError:
                self.assertEqual(jitc.from_dlpack(x).shape, (2, 3))
            else:
                with self.assertRaisesRegex(error, "by the table"):
                    jitc.from_dlpack(x)
            self.assertEqual(len(x.calls), error is BufferError)

    def test_the_protocol_can_say_that_nothing_is_copied(self):
        class Fast(Asked):
            __dlpack_c_exchange_api__ = self.table(bridge.failing(ValueError))

        x = Fast()
        jitc.from_dlpack(x, copy=False)
        self.assertEqual(x.calls, [{"max_version": (1, 3), "copy": False}])

    def test_another_major_version_is_not_used(self):
        older = self.table(lambda x, out: self.give(jitc.ones(2), out))

        class Newer(Asked):
            __dlpack_c_exchange_api__ = self.table(None, major=2)

        class Chained(Asked):
            __dlpack_c_exchange_api__ = self.table(None, major=2, prev=older)

        x = Newer()
        self.assertEqual((jitc.from_dlpack(x).shape, len(x.calls)), ((2, 3), 1))
        x = Chained()
        self.assertEqual((jitc.from_dlpack(x).shape, len(x.calls)), ((2,), 0))

    def test_what_is_no_table(self):
        for attribute in 5, None, Made(Memory(), (6,)).capsule():
            class Odd(Asked):
                __dlpack_c_exchange_api__ = attribute

            self.assertEqual(jitc.from_dlpack(Odd()).shape, (2, 3))

    def setUp(self):
        super().setUp()
        self.asked, self.kept = [], []

    def tearDown(self):
        self.asked.clear(), self.kept.clear()
        super().tearDown()

    def table(self, function, major=1, prev=None):
        """A capsule of a table whose from_object is a function(x, out) that cannot fail, or one of C."""
        table = bridge.Table()
        table.major, table.minor = major, 3
        if prev:
            table.prev_api = bridge.capsule_pointer(prev)
        if isinstance(function, int):
            table.from_object = ctypes.cast(function, type(table.from_object))
        elif function:
            def from_object(x, out):
                self.asked.append(x)
                function(x, out)
                return 0

            table.from_object = type(table.from_object)(from_object)
        self.kept.append(table)
        return capsule_new(ctypes.addressof(table), b"dlpack_exchange_api", None)

    def give(self, array, out):
        status = bridge.table().from_object(array, out)
        self.assertEqual(status, 0)


if __name__ == "__main__":
    unittest.main()
