"""The end of the interpreter and of the process, with arrays alive in every direction."""
import importlib.util
import os
import textwrap
import unittest

import bridge

FOLDER = os.path.dirname(os.path.abspath(__file__))
START = f"""
import sys
sys.path.insert(0, {FOLDER!r})
import atexit, ctypes, threading
atexit.register(lambda: first())    # called behind that of jitc
first = lambda: None
import bridge, jitc
from dlpack import Made, address, consume, look
from test_take import Memory
a = (jitc.arange(1000, dtype="float32") + 1).eval()
"""

INSIDE = """
            from dlpack import Deleter
            made, started, over = Made(Memory(), (2,), dtype=(5, 64)), threading.Event(), threading.Event()
            seconds = 0.3
            def slow(pointer):
                started.set()
                over.wait(seconds)
                print("deleter", flush=True)
            callback = Deleter(slow)
            made.managed.deleter = ctypes.cast(callback, ctypes.c_void_p)
            def work():
                try:
                    jitc.from_dlpack(made.capsule())
                except BufferError:
                    pass
            threading.Thread(target=work, daemon=True).start()
            started.wait()
"""


def run(code, **settings):
    return bridge.run_child(START + textwrap.dedent(code), **settings)


class Exit(unittest.TestCase):
    def test_arrays(self):
        run("""
            b = a * 2
            c = jitc.zeros(5)
            everything = [a, b, c, jitc.from_dlpack(a), a.__dlpack__(), a.__dlpack__(max_version=(1, 3))]
            cycle = [a]
            cycle.append(cycle)
            """)

    def test_arrays_of_others(self):
        self.assertEqual(run("""
            memory, made = Memory(1000), []
            for i in range(5):
                made.append(Made(memory, (1000,)))
            x = [jitc.from_dlpack(m) for m in made]
            y = jitc.sin(x[0]).eval()
            z = x[1] + 1
            first = lambda: print([len(m.calls) for m in made])
            """), ["[1,", "1,", "1,", "1,", "1]"])

    def test_tensors_that_end_when_python_is_gone(self):
        for version in "None", "(1, 3)":
            self.assertEqual(run(f"""
            for i in range(6):
                t = consume(((a + i).eval() if i % 3 else a).__dlpack__(max_version={version}))
                bridge.helpers.keep_until_end(ctypes.c_void_p(ctypes.addressof(t)), ctypes.c_void_p(t.deleter))
            """), ["ended", "6,", "Python", "gone"])

    def test_capsules_whose_tensors_end_when_python_is_gone(self):
        self.assertEqual(run("""
            capsules = [a.__dlpack__() for _ in range(2)]
            for c in capsules:
                t = consume(c)
                bridge.helpers.keep_until_end(ctypes.c_void_p(ctypes.addressof(t)), ctypes.c_void_p(t.deleter))
            """), ["ended", "2,", "Python", "gone"])

    @unittest.skipUnless(bridge.BACKEND == "cpu" and importlib.util.find_spec("numpy"), "wants NumPy")
    def test_memory_of_numpy_that_ends_when_python_is_gone(self):
        self.assertEqual(run("""
            import numpy
            x = jitc.from_dlpack(numpy.arange(10.0))
            t = consume(x.__dlpack__(max_version=(1, 3)))
            bridge.helpers.keep_until_end(ctypes.c_void_p(ctypes.addressof(t)), ctypes.c_void_p(t.deleter))
            """), ["ended", "1,", "Python", "gone"])

    def test_use_behind_the_end(self):
        self.assertEqual(run("""
            def first():
                for f in (lambda: a + 1, lambda: a.tolist(), lambda: a.dtype, lambda: a.device, lambda: a.eval(),
                          lambda: a.__dlpack__(), lambda: a.__dlpack_device__(), lambda: jitc.zeros(3),
                          lambda: jitc.from_dlpack(Made(Memory(), (6,))), lambda: repr(a), lambda: jitc.sync(),
                          lambda: jitc.devices(), lambda: bridge.table().from_object(a, ctypes.byref(ctypes.c_void_p())),
                          lambda: jitc.stats(), lambda: jitc.sin(a), lambda: a.reshape(-1)):
                    try:
                        f()
                        print("worked")
                    except RuntimeError as error:
                        assert str(error), f
                print(a.shape, len(a))
            """), ["(1000,)", "1000"])

    def test_a_thread_that_goes_on_computing(self):
        self.assertEqual(run("""
            started = threading.Event()
            def work():
                jitc.set_device(bridge.BACKEND)
                try:
                    while True:
                        (a * 3 + 1).tolist()
                        a.__dlpack__()
                        jitc.from_dlpack(Made(Memory(), (6,)))
                        started.set()
                except RuntimeError:
                    pass    # ended
            threading.Thread(target=work, daemon=True).start()
            started.wait()
            print("done")
            """), ["done"])

    def test_a_thread_that_is_in_the_library(self):
        """In a deleter, which goes on while the interpreter is about to end."""
        self.assertEqual(run(INSIDE + """
            first = lambda: print("end")
            """), ["deleter", "end"])

    def test_a_child_of_fork_while_a_thread_is_in_the_library(self):
        self.assertEqual(run(INSIDE.replace("0.3", "60") + """
            import os
            child = os.fork()
            if child == 0:
                sys.exit(5)
            print(os.waitpid(child, 0)[1] >> 8, flush=True)
            over.set()
            """), ["5", "deleter"])

    def test_before_anything_was_done(self):
        self.assertEqual(bridge.run_child("import jitc; print(jitc.Array)"), ["<class", "'jitc.Array'>"])

    def test_a_child_of_fork(self):
        self.assertEqual(run("""
            import os
            jitc.set_device("cpu")
            b = (jitc.arange(1000, dtype="float32") + 1).eval()
            child = os.fork()
            if child == 0:
                good = (b * 2).tolist()[9] == 20 and jitc.from_dlpack(b.__dlpack__()).tolist()[0] == 1
                sys.exit(0 if good else 3)
            print(os.waitpid(child, 0)[1])
            """), ["0"])


if __name__ == "__main__":
    unittest.main()
