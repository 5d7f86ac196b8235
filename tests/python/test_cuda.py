"""Arrays of a GPU: who is told which stream. On the simulated driver, or a real one."""
import ctypes
import sys
import types
import unittest

import bridge
import jitc
from dlpack import CPU, CUDA, IS_COPIED, address, capsule_name, consume, end, look

if bridge.BACKEND != "cuda":
    raise unittest.SkipTest("wants a GPU, or the simulated driver")


def fresh(n=6, device=None):
    return (jitc.arange(n, dtype="float32", device=device) + 1).eval()


class Producer:
    """Has an array on the GPU, notes how it is asked for it, and refuses some of that."""

    def __init__(self, array, refuses=(), error=TypeError):
        self.array, self.refuses, self.error, self.calls = array, refuses, error, []

    def __dlpack__(self, **keywords):
        self.calls.append(keywords)
        for name in self.refuses:
            if name in keywords:
                raise self.error(f"no {name} here")
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Streams(bridge.Balanced):
    def test_a_producer_is_told_our_stream(self):
        for device in range(2):
            jitc.set_device(f"cuda:{device}")
            stream = jitc.cuda_stream()
            jitc.set_device("cuda:0")
            x = Producer(fresh(device=f"cuda:{device}"))
            a = jitc.from_dlpack(x)
            self.assertEqual(x.calls, [{"stream": stream, "max_version": (1, 3)}])
            self.assertEqual((a.tolist(), a.device), ([1, 2, 3, 4, 5, 6], f"cuda:{device}"))
            self.assertEqual(jitc.device(), "cuda:0")

    def test_a_producer_that_does_not_know_everything(self):
        stream = {"stream": jitc.cuda_stream()}
        version = {"max_version": (1, 3)}
        x = Producer(fresh(), ["max_version"])
        jitc.from_dlpack(x)
        self.assertEqual(x.calls, [{**stream, **version}, stream])
        x = Producer(fresh(), ["stream"])
        jitc.from_dlpack(x)
        self.assertEqual(x.calls, [{**stream, **version}, stream, version])
        x = Producer(fresh(), ["stream", "max_version"])
        jitc.from_dlpack(x)
        self.assertEqual(x.calls, [{**stream, **version}, stream, version, {}])

    def test_a_producer_that_refuses_streams(self):
        """TensorFlow, with a RuntimeError."""
        stream, version = {"stream": jitc.cuda_stream()}, {"max_version": (1, 3)}
        x = Producer(fresh(), ["stream"], RuntimeError)
        jitc.from_dlpack(x)
        self.assertEqual(x.calls, [{**stream, **version}, version])
        x = Producer(fresh(), ["max_version"], RuntimeError)
        with self.assertRaises(RuntimeError):
            x.refuses = ["max_version", "stream"]
            jitc.from_dlpack(x)
        self.assertEqual(len(x.calls), 2)

    def test_a_producer_without_a_copy(self):
        x = Producer(fresh())
        jitc.from_dlpack(x, copy=False)
        self.assertEqual(x.calls, [{"stream": jitc.cuda_stream(), "max_version": (1, 3), "copy": False}])

    def test_consumers_name_theirs(self):
        ours = jitc.cuda_stream()
        for stream in None, 0, -1, 1, 2, ours:
            a = jitc.sqrt(fresh())
            tensor = consume(a.__dlpack__(stream=stream, max_version=(1, 3)))
            end(tensor)
        for stream in -2, -2 ** 62, -2 ** 63:
            with self.assertRaises(ValueError):
                fresh().__dlpack__(stream=stream)

    def test_ours_can_be_ordered(self):
        stream = jitc.cuda_stream()
        jitc.cuda_sync_stream(0), jitc.cuda_sync_stream(stream), jitc.cuda_wait_stream(stream)
        jitc.cuda_wait_stream(1)
        for f in jitc.cuda_sync_stream, jitc.cuda_wait_stream:
            for other in -5, -2 ** 63:
                with self.assertRaises(ValueError):
                    f(other)
            with self.assertRaises(TypeError):
                f("a")

    def test_the_table_names_ours(self):
        table, out, tensor = bridge.table(), ctypes.c_void_p(), ctypes.c_void_p()
        for device in range(2):
            a = fresh(device=f"cuda:{device}")
            self.assertEqual(table.from_object(a, ctypes.byref(tensor)), 0)
            self.assertEqual(table.stream(CUDA, device, ctypes.byref(out)), 0)
            jitc.set_device(f"cuda:{device}")
            self.assertEqual(out.value, jitc.cuda_stream())
            jitc.set_device("cuda:0")
            b = bridge.to_object(tensor.value)
            self.assertEqual((b.tolist(), b.device), (a.tolist(), a.device))


class Devices(bridge.Balanced):
    def test_they_are_named(self):
        self.assertEqual(jitc.devices()[:2], ["cuda:0", "cuda:1"])
        self.assertEqual(jitc.zeros(1).device, "cuda:0")
        a = fresh(device="cuda:1")
        self.assertEqual((a.device, a.backend, a.__dlpack_device__()), ("cuda:1", "cuda", (CUDA, 1)))
        self.assertEqual((a * 2 + 1).device, "cuda:1")
        jitc.set_device("cuda:1")
        self.assertEqual((jitc.device(), jitc.array([1]).device), ("cuda:1", "cuda:1"))
        jitc.set_device("cuda:0")
        with self.assertRaises(ValueError):
            a + fresh()

    def test_copies_between_cpu_and_gpu(self):
        a = fresh()
        host = jitc.from_dlpack(a, device="cpu")
        self.assertEqual((host.tolist(), host.device), (a.tolist(), "cpu"))
        back = jitc.from_dlpack(host, device="cuda")
        self.assertEqual((back.tolist(), back.device), (a.tolist(), "cuda:0"))
        other = jitc.from_dlpack(host, device="cuda:1")
        self.assertEqual((other.tolist(), other.device), (a.tolist(), "cuda:1"))
        for x, device in (a, "cpu"), (host, "cuda"), (a, "cuda:1"):
            with self.assertRaises(BufferError):
                jitc.from_dlpack(x, device=device, copy=False)
        self.assertEqual(jitc.from_dlpack(a, device="cuda:0")._layout(), a._layout())

    def test_the_cpu_gets_a_copy(self):
        a = fresh()
        for stream in None, -1:
            t = look(capsule := a.__dlpack__(dl_device=(CPU, 0), max_version=(1, 3), stream=stream))
            self.assertEqual((t.dl_tensor.device.type, t.flags), (CPU, IS_COPIED))
            self.assertEqual(list((ctypes.c_float * 6).from_address(address(capsule))), a.tolist())
        with self.assertRaises(BufferError):
            a.__dlpack__(dl_device=(CPU, 0), copy=False)
        with self.assertRaises(ValueError):
            a.__dlpack__(dl_device=(CPU, 0), stream=jitc.cuda_stream())


class Methods(bridge.Balanced):
    """What the methods for other libraries pass on, to libraries that are not there."""

    def with_library(self, name, function):
        """Call function() while `name` is a module whose functions note what they get."""
        seen = []
        saved = {n: sys.modules.get(n) for n in (name, name.split(".")[0])}
        module = types.SimpleNamespace(from_dlpack=seen.append, asarray=seen.append)
        module.experimental = types.SimpleNamespace(dlpack=module)
        sys.modules.update({n: module for n in saved})
        try:
            function()
        finally:
            for n, m in saved.items():
                sys.modules.pop(n) if m is None else sys.modules.update({n: m})
        return seen[0]

    def test_tensorflow_gets_what_is_there(self):
        a = jitc.sqrt(fresh())
        capsule = self.with_library("tensorflow", a.tf)
        self.assertEqual(capsule_name(capsule), b"dltensor")
        self.assertEqual(look(capsule).dl_tensor.device.type, CUDA)

    def test_others_get_the_array(self):
        a = fresh()
        for name, method in ("torch.utils.dlpack", a.torch), ("jax.dlpack", a.jax), ("cupy", a.cupy):
            got = self.with_library(name, method)
            self.assertEqual(got.__dlpack_device__(), a.__dlpack_device__())
            self.assertEqual(address(capsule := got.__dlpack__(stream=1)), a._layout()[0])
            self.assertEqual(capsule_name(capsule), b"dltensor")


if __name__ == "__main__":
    unittest.main()
