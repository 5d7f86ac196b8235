"""What is tested with each library: arrays of jitc go there (Exports), its arrays come here
(Imports), and both end in every order. A file interop_LIBRARY.py says, in a Library, how that is
called there, and what of it the library does not take."""

import gc
import itertools
import math
import os
import subprocess
import sys
import textwrap
import threading

import jitc
import numpy as np
from dlpack import LEGACY, TYPES, VERSIONED, Counted, Made, address, capsule_name, look

SHAPES = [(), (0,), (1,), (7,), (1000,), (3, 4), (1, 77), (77, 1), (2, 0, 3), (1, 1, 5), (2, 3, 4, 5),
          (1, 8, 0, 128), (2, 1, 3, 1, 2), (1,) * 9]

# Views, of the float32 that are 0, 1, 2, ... in the shape (8, 6); the last ones are compact.
VIEWS = {
    "transposed": lambda a: a.T,
    "padded": lambda a: a[:, :4],
    "step": lambda a: a[::2, ::3],
    "negative": lambda a: a[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[1], (3, 6)),
    "slice": lambda a: a.reshape(-1)[1:17],
    "middle": lambda a: a[2:4],
}


class Library:
    """How one library is used; what is None here has to be said."""

    name = None
    types = set(TYPES)  # that it has and takes
    untested = set()  # types that it takes for something else
    legacy = False  # asks for the struct without a version
    forgets_empty = False  # never calls the deleter of what has no elements
    asks_legacy = None  # as `legacy`, of what is no array of jitc and has no table
    one_way = False  # what it takes from us it gives to nobody
    copies = False  # what it is given, always
    refuses = Exception  # what it raises then
    exact_views = {}  # which VIEWS it does not take as they are: "copied", "refused" or "aborts"
    most_dims, least_dims = 64, 0

    def takes_shape(self, shape):
        return self.least_dims <= len(shape) <= self.most_dims

    def take(self, x):
        """Its array of what speaks DLPack."""
        raise NotImplementedError

    def give(self, x):
        """What jitc imports of its array."""
        return x

    def make(self, values, dtype):
        """Its array of these values; bfloat16 is given as uint16."""
        raise NotImplementedError

    def values(self, x):
        """As an array of NumPy; bfloat16 as uint16."""
        raise NotImplementedError

    def where(self, x):
        """The address of the first element."""
        raise NotImplementedError

    def take_capsule(self, capsule):
        raise NotImplementedError

    put = None  # put(x, value): into every element, in place

    def has_view(self, view):
        return False

    def view(self, x, view):
        """One of the VIEWS of its own array."""
        return VIEWS[view](x)


def reference(dtype, shape):
    """Values of a type, in NumPy; bfloat16 as uint16."""
    n = np.array(np.arange(math.prod(shape)) % 50).reshape(shape)
    if dtype == "bool":
        return np.array(n % 3 == 0).reshape(shape)
    if dtype == "bfloat16":
        return np.array(n.astype(np.float32).view(np.uint32) >> 16, np.uint16).reshape(shape)
    return np.array(n, dtype)


def base_of_views():
    """As VIEWS want it, at a multiple of 64 bytes."""
    raw = np.zeros(48 * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    base = raw[start:start + 48 * 4].view(np.float32).reshape(8, 6)
    base.flat = range(48)
    return base


def owned(dtype, shape):
    """An array of jitc, in memory of its own, and its values."""
    values = reference(dtype, shape)
    return jitc.from_dlpack(Made(values, shape, dtype), copy=True), values


def values_of(array):
    """The values of an array of jitc, by copying, without DLPack."""
    dtype = "uint16" if array.dtype == "bfloat16" else array.dtype
    return np.frombuffer(array._bytes(), dtype).reshape(array.shape)


def settled():
    """What jitc has, when nothing is on its way: variables and bytes."""
    gc.collect()
    jitc.sync()
    stats = jitc.stats()
    return stats["variables"], stats["bytes_live"]


def resident():
    """Bytes of memory of the process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


class Cases:
    lib = None

    def setUp(self):
        gc.freeze()  # the libraries' own objects, which make each collection slow
        self.before = settled()

    def check_nothing_left(self):
        self.assertEqual(settled(), self.before)

    def check_ended(self, *counted):
        gc.collect()
        for c in counted:
            self.assertEqual(len(c.ended), c.made)

    def check(self, got, want):
        np.testing.assert_array_equal(got, want)
        self.assertEqual(got.shape, want.shape)


class Exports(Cases):
    """From jitc to the library."""

    def test_types_and_shapes(self):
        for dtype, shape in itertools.product(TYPES, SHAPES):
            if dtype in self.lib.untested or (self.lib.forgets_empty and 0 in shape):
                continue  # for the latter see below
            with self.subTest(dtype=dtype, shape=shape):
                self.check_export(dtype, shape)
                self.check_nothing_left()

    def check_export(self, dtype, shape):
        array, want = owned(dtype, shape)
        counted = Counted(array)
        if dtype not in self.lib.types or not self.lib.takes_shape(shape):
            with self.assertRaises(self.lib.refuses):
                self.lib.take(counted)
            del array, counted.array
            return self.check_ended(counted)
        x = self.lib.take(counted)
        self.check(self.lib.values(x), want)
        if want.size and not self.lib.copies:
            self.assertEqual(self.lib.where(x), array._layout()[0])
            self.assertEqual(counted.ended, [])
        del array, counted.array
        self.check(self.lib.values(x), want)  # which now holds the memory alone
        del x
        self.check_ended(counted)

    # pytorch#117273, pytorch#117058
    def test_deleter_of_nothing(self):
        for dtype, shape in itertools.product(self.lib.types, ((0,), (2, 0, 3))):
            with self.subTest(dtype=dtype, shape=shape):
                array, _ = owned(dtype, shape)
                counted = Counted(array)
                x = self.lib.take(counted)
                self.assertEqual(tuple(x.shape), shape)
                del x
                gc.collect()
                self.assertEqual((counted.made, len(counted.ended)), (1, not self.lib.forgets_empty))

    def test_what_is_not_computed_yet_is(self):
        array = jitc.arange(1000) * 3 + 1
        x = self.lib.take(array)
        self.check(self.lib.values(x), np.arange(1000, dtype=array.dtype) * 3 + 1)

    def test_writes_are_seen(self):
        if not self.lib.put or self.lib.copies:
            self.skipTest("arrays are never changed there")
        array, _ = owned("float32", (3, 4))
        x = self.lib.take(array)
        self.lib.put(x, 42)
        self.check(values_of(array), np.full((3, 4), 42, np.float32))
        self.check(values_of(array + 1), np.full((3, 4), 43, np.float32))
        self.lib.put(x, 7)
        self.check(values_of(array), np.full((3, 4), 7, np.float32))

    # numpy#20742, jax#40789, numpy#28599: what must not be written to is not handed out as if
    def test_what_somebody_uses_is_read_only(self):
        array, want = owned("float32", (8,))
        user = array + 1  # has yet to read it
        x = self.lib.take(array)
        if self.lib.legacy and not self.lib.copies:
            self.assertNotEqual(self.lib.where(x), array._layout()[0])  # that struct cannot say so
        if self.lib.legacy and self.lib.put:
            self.lib.put(x, 99)
        self.check(values_of(array), want)
        self.check(values_of(user), want + 1)

    def test_a_literal_is_handed_out_as_a_copy(self):
        array = jitc.full((4,), 2.5, "float32")
        x, y = self.lib.take(array), self.lib.take(array)
        if self.lib.put:
            self.lib.put(x, 9)
        self.check(self.lib.values(y), np.full(4, 2.5, np.float32))
        self.check(values_of(array), np.full(4, 2.5, np.float32))

    def test_views(self):
        base = base_of_views()
        for name, view in VIEWS.items():
            with self.subTest(view=name):
                want = view(base)
                strides = [s // 4 for s in want.strides]
                array = jitc.from_dlpack(Made(want, want.shape, strides=strides))
                counted = Counted(array)
                self.assertEqual(array._layout(), (want.ctypes.data, tuple(strides)))
                if self.lib.exact_views.get(name) == "aborts":
                    continue  # it would be the end of the test
                if self.lib.exact_views.get(name) == "refused":
                    with self.assertRaises(self.lib.refuses):
                        self.lib.take(counted)
                else:
                    x = self.lib.take(counted)
                    self.check(self.lib.values(x), want)
                    copied = self.lib.copies or self.lib.exact_views.get(name) == "copied"
                    if not copied:
                        self.assertEqual(self.lib.where(x), want.ctypes.data)
                    del x
                del array, counted.array
                self.check_ended(counted)
                self.check_nothing_left()

    # dgl#995, pytorch#99803, onnxruntime#27450: strides that mean nothing are made to mean something
    def test_strides_of_what_has_one_or_no_element(self):
        for shape, strides in (((1, 77), (999, 1)), ((1, 77), (1, 1)), ((77, 1), (1, 999)),
                               ((1, 8, 0, 128), (0, 0, 0, 0)), ((1, 1), (5, 7))):
            with self.subTest(shape=shape, strides=strides):
                want = reference("float32", shape)
                array = jitc.from_dlpack(Made(want, shape, strides=strides))
                self.check(self.lib.values(self.lib.take(array)), want)

    # cupy#3611
    def test_a_capsule_is_good_once(self):
        array, want = owned("float32", (5,))
        capsule = Counted(array).__dlpack__(max_version=None if self.lib.legacy else (1, 3))
        counted = Counted.everything[-1][0]
        try:
            x = self.lib.take_capsule(capsule)
        except NotImplementedError:
            self.skipTest("takes no capsules")
        with self.assertRaises(self.lib.refuses):
            self.lib.take_capsule(capsule)
        self.check(self.lib.values(x), want)
        del x, capsule
        self.check_ended(counted)

    def test_struct(self):
        """That which the library asks for, as it is written down."""
        array, want = owned("float32", (3, 4))

        class Spy:
            def __dlpack__(self, **keywords):
                capsule = array.__dlpack__(**keywords)
                t = look(capsule).dl_tensor
                Spy.seen = (capsule_name(capsule), t.strides[:2], t.byte_offset, address(capsule) % 256)
                return capsule

            def __dlpack_device__(self):
                return array.__dlpack_device__()

        self.check(self.lib.values(self.lib.take(Spy())), want)
        legacy = self.lib.legacy if self.lib.asks_legacy is None else self.lib.asks_legacy
        kind = LEGACY if legacy else VERSIONED
        self.assertEqual(Spy.seen, (kind, [4, 1], 0, 0))

    def test_exported_twice(self):
        array, want = owned("float32", (1000,))
        counted = Counted(array)
        x, y = self.lib.take(counted), self.lib.take(counted)
        del array, counted.array, x
        gc.collect()
        if not self.lib.copies:
            self.assertEqual((counted.made, len(counted.ended)), (2, 1))
        self.check(self.lib.values(y), want)
        del y
        self.check_ended(counted)
        self.check_nothing_left()

    # dlpack#103, numpy#22507: deleters come from any thread
    def test_dropped_in_another_thread(self):
        array, want = owned("float32", (1000,))
        counted = Counted(array)
        held = [self.lib.take(counted)]
        del array, counted.array
        self.check(self.lib.values(held[0]), want)
        thread = threading.Thread(target=lambda: (held.clear(), gc.collect()))
        thread.start()
        ident = thread.ident
        thread.join()
        if not self.lib.copies:
            self.assertEqual(counted.ended, [ident])
        self.check_ended(counted)
        self.check_nothing_left()


class Imports(Cases):
    """From the library to jitc."""

    def check_import(self, x, array, want):
        """In place, until the elements of a view are wanted side by side."""
        strides = tuple(s // want.itemsize for s in want.strides)
        if want.size:
            where, real = array._layout()
            self.assertEqual(where, self.lib.where(x))
            for extent, stride, wanted in zip(want.shape, real, strides):
                self.assertTrue(extent == 1 or stride == wanted, (real, strides))
        self.check(values_of(array * 1 if array.dtype != "bool" else array & array), want)
        self.check(values_of(array), want)

    def test_types_and_shapes(self):
        shapes = filter(self.lib.takes_shape, SHAPES)
        for dtype, shape in itertools.product(sorted(self.lib.types), shapes):
            with self.subTest(dtype=dtype, shape=shape):
                want = reference(dtype, shape)
                x = self.lib.make(want, dtype)
                array = jitc.from_dlpack(self.lib.give(x))
                self.assertEqual(array.dtype, dtype)
                self.check_import(x, array, want)
                del x
                gc.collect()
                self.check(values_of(array), want)
                del array
                self.check_nothing_left()

    def test_views(self):
        base = base_of_views()
        for name, view in VIEWS.items():
            if not self.lib.has_view(name):
                continue
            with self.subTest(view=name):
                want = view(base)
                x = self.lib.view(self.lib.make(base, "float32"), name)
                array = jitc.from_dlpack(self.lib.give(x))
                self.check_import(x, array, want)
                del x, array
                self.check_nothing_left()

    def test_writes_are_seen(self):
        if not self.lib.put:
            self.skipTest("arrays are never changed there")
        x = self.lib.make(reference("float32", (3, 4)), "float32")
        array = jitc.from_dlpack(self.lib.give(x))
        self.lib.put(x, 42)
        self.check(values_of(array), np.full((3, 4), 42, np.float32))
        self.check(values_of(array + 1), np.full((3, 4), 43, np.float32))

    def test_ours_are_not_theirs(self):
        """A scatter changes a copy."""
        want = reference("float32", (16,))
        x = self.lib.make(want, "float32")
        array = jitc.from_dlpack(self.lib.give(x))
        changed = jitc.scatter(array, 99.0, jitc.arange(4))
        self.check(values_of(changed), np.where(np.arange(16) < 4, np.float32(99), want))
        self.check(self.lib.values(x), want)

    def test_copy(self):
        want = reference("float32", (16,))
        x = self.lib.make(want, "float32")
        array = jitc.from_dlpack(self.lib.give(x), copy=True)
        self.check(values_of(array), want)
        self.assertNotEqual(array._layout()[0], self.lib.where(x))

    def test_there_and_back(self):
        if self.lib.one_way:
            self.skipTest("what it took is read-only there, and is given to nobody")
        array, want = owned("float32", (3, 4))
        back = jitc.from_dlpack(self.lib.give(self.lib.take(array)))
        self.check(values_of(back), want)
        if not self.lib.copies:
            self.assertEqual(back._layout(), array._layout())
        del array
        gc.collect()
        self.check(values_of(back), want)
        del back
        self.check_nothing_left()

    # cupy#1445, pytorch#9297, cudf#5212: each round trip left something behind
    def test_ten_thousand_round_trips(self):
        array, want = owned("float32", (256,))
        before, start = settled(), 0
        own = self.lib.make(want, "float32")
        for i in range(11000):
            if i == 1000:
                gc.collect()
                start = resident()
            theirs = self.lib.take(array)
            ours = jitc.from_dlpack(self.lib.give(own if self.lib.one_way else theirs))
        self.check(self.lib.values(theirs), want)
        self.check(values_of(ours), want)
        del theirs, ours
        self.assertEqual(settled(), before)
        if not os.environ.get("JITC_SANITIZE"):  # AddressSanitizer keeps what is freed
            self.assertLess(resident() - start, 3 << 20)  # one 1 KiB block each would be 10 MiB


QUIET = """
import os
outputs, nothing = (os.dup(1), os.dup(2)), os.open(os.devnull, os.O_WRONLY)
os.dup2(nothing, 1), os.dup2(nothing, 2)"""
LOUD = "print(end='', flush=True); os.dup2(outputs[0], 1), os.dup2(outputs[1], 2)"


class Exits:
    """The interpreter ends, and arrays are alive on both sides. `preamble` makes take(), give(),
    make(), which gets an array of NumPy, and maybe last(), of a vector."""

    preamble = None
    talks = False  # when it is loaded
    slow = False  # to start: what other tests here show as well is left out

    def run_python(self, body, **environment):
        code = "\n".join([QUIET if self.talks else "", textwrap.dedent(self.preamble),
                          LOUD if self.talks else "", textwrap.dedent(body)])
        code = f"import numpy as np\nimport jitc\nlast = lambda x: x[-1]\n{code}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
                              env={**os.environ, **environment})
        self.assertEqual((done.returncode, done.stderr), (0, ""), code)
        return done.stdout

    def setUp(self):
        if self.slow and self._testMethodName in ("test_theirs_alive", "test_ours_alive"):
            self.skipTest("test_both_alive_and_chained has them, too")

    def test_theirs_alive(self):
        self.run_python("theirs = take(jitc.arange(1000) + 1)")

    def test_ours_alive(self):
        self.run_python("ours = jitc.from_dlpack(give(make(np.ones(1000, np.float32))))")

    def test_both_alive_and_chained(self):
        self.run_python("""
            x = make(np.ones(1000, np.float32))
            chain = [x]
            for i in range(5):
                ours = jitc.from_dlpack(give(chain[-1]))
                chain += [ours, take(ours)]
            pending = ours + 1
            cycle = [chain]
            cycle.append(cycle)""")

    def test_alive_in_threads(self):
        self.run_python("""
            import threading
            local, ready, held = threading.local(), threading.Barrier(3), []
            def work():
                local.theirs = take(jitc.arange(1000) * 2)
                local.ours = jitc.from_dlpack(give(make(np.ones(1000, np.float32))))
                held.append((local.theirs, local.ours))
                ready.wait(100)
                threading.Event().wait()
            for i in range(2):
                threading.Thread(target=work, daemon=True).start()
            ready.wait(100)""")

    def test_ended_by_hand_first(self):
        out = self.run_python("""
            theirs = take(jitc.arange(10) + 1)
            ours = jitc.from_dlpack(give(make(np.ones(10, np.float32))))
            jitc._jitc._end()
            print(float(last(theirs)))""")
        self.assertEqual(float(out), 10)
