"""The GIL: who waits has given it away; deleters that take it do not wait for us for ever."""
import os
import sys
import threading
import unittest

import bridge

FOLDER = os.path.dirname(os.path.abspath(__file__))

#: Tensors whose deleters take the GIL are given back, behind kernels that take a while, by threads of
#: the library; meanwhile we wait, in each of the ways that there are. `blocked`: as many as can be
#: stuck in a deleter.
WAITING = f"""
    import os, sys
    sys.path.insert(0, {FOLDER!r})
    os.environ["SIMCUDA_KERNEL_TIME_US"] = "2000"
    os.environ["JITC_NUM_THREADS"] = "2"
    import bridge, jitc, time
    from dlpack import Counted

    table, pointer, tensor = bridge.table(), bridge.ctypes.c_void_p(), bridge.Tensor()
    ways = dict(sync=lambda y: jitc.sync(), read=lambda y: y.tolist(), eval=lambda y: y.eval(),
                eval_all=lambda y: jitc.eval(y), item=lambda y: bool(y), export=lambda y: y.__dlpack__(),
                versioned=lambda y: y.__dlpack__(max_version=(1, 3)),
                layout=lambda y: y._layout(), copy=lambda y: y.__dlpack__(copy=True),
                host=lambda y: y.__dlpack__(dl_device=(1, 0)), trim=lambda y: jitc.trim(),
                array=lambda y: jitc.array(bytes(1 << 20)), take=lambda y: jitc.from_dlpack(y, copy=True),
                table=lambda y: table.from_object(y, bridge.ctypes.byref(pointer)),
                borrow=lambda y: table.borrow(y, bridge.ctypes.byref(tensor)), dealloc=lambda y: None)
    size = 1 << 18 if bridge.BACKEND == "cpu" else 1 << 12
    base, index = jitc.arange(size, dtype="float32").eval(), jitc.array([5]).eval()
    sys.setswitchinterval(10)     # nobody gets the GIL who is not given it
    for name, way in ways.items():
        for i in range(2):
            blocked = [Counted(base) for _ in range(4)]
            arrays = [jitc.from_dlpack(b) for b in blocked]
            results = []
            for x in arrays:
                for _ in range(20):
                    x = jitc.sin(x * 1.5 + i)
                results.append(x)
            jitc.eval(*results)
            z = jitc.gather(results[0], index)
            x = results = None
            arrays.clear()        # given back when the kernels are over
            way(z)
            z = None
            while sum(len(b.ended) for b in blocked) < len(blocked):
                time.sleep(0.0001)
        print(name)
"""


class Threads(unittest.TestCase):
    def test_a_deleter_gets_the_gil_while_we_wait(self):
        self.assertEqual(len(bridge.run_child(WAITING)), 16)

    def test_threads_share_arrays(self):
        import jitc
        jitc.set_device(bridge.BACKEND)
        base, errors = jitc.arange(1000, dtype="int64").eval(), []

        def work(k):
            try:
                jitc.set_device(bridge.BACKEND)
                for i in range(50):
                    a = base * k + i
                    assert a.tolist()[999] == 999 * k + i
                    assert jitc.from_dlpack(a.__dlpack__(max_version=(1, 3))).tolist()[1] == k + i
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])

    def test_the_device_is_the_thread_s(self):
        import jitc
        jitc.set_device("cpu")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(jitc.device()))
        thread.start()
        thread.join()
        self.assertEqual(seen, [jitc.devices()[0]])
        jitc.set_device(None)
        self.assertEqual(jitc.device(), jitc.devices()[0])

    def test_the_first_use_in_several_threads_at_once(self):
        self.assertEqual(bridge.run_child("""
            import jitc, threading
            barrier, seen = threading.Barrier(8), []
            def first():
                barrier.wait()
                seen.append(jitc.arange(3, device="cpu").tolist())
            threads = [threading.Thread(target=first) for _ in range(8)]
            for t in threads: t.start()
            for t in threads: t.join()
            print(seen == [[0, 1, 2]] * 8)
            """), ["True"])


class Interpreters(unittest.TestCase):
    def test_a_second_one_is_refused(self):
        name = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
        self.assertEqual(bridge.run_child(f"""
            import {name} as interpreters, jitc
            other = interpreters.create()
            try:
                failed = interpreters.run_string(other, "import jitc")
            except interpreters.RunFailedError as error:
                failed = error
            print("ImportError" in str(failed), jitc.arange(2).tolist())
            interpreters.destroy(other)
            """), ["True", "[0,", "1]"])

    def test_the_module_can_be_loaded_again(self):
        self.assertEqual(bridge.run_child("""
            import sys, jitc
            first, a = jitc.Array, jitc.arange(3)
            for name in [n for n in sys.modules if n.startswith("jitc")]:
                del sys.modules[name]
            import jitc as again
            print(again is not jitc, again.Array is first, (a + again.arange(3)).tolist() == [0, 2, 4])
            """), ["True"] * 3)


if __name__ == "__main__":
    unittest.main()
