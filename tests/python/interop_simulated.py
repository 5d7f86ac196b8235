"""Arrays of a GPU, which is simulated, and libraries that work on the CPU."""

import importlib
import os
import unittest

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")  # it talks

import interop_cases as cases
import jitc
import numpy as np
from dlpack import Counted


def found(name):
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def consumers():
    """{name: (how it takes what speaks DLPack, what it raises)}"""
    yield "numpy", np.from_dlpack, (BufferError, RuntimeError, TypeError)
    if torch := found("torch"):
        yield "torch", torch.from_dlpack, (BufferError, RuntimeError, AssertionError)
    if tf := found("tensorflow"):
        take = tf.experimental.dlpack.from_dlpack
        yield "tensorflow", lambda x: take(x.__dlpack__()), (tf.errors.OpError, RuntimeError, ValueError)


class Simulated(cases.Cases, unittest.TestCase):
    def setUp(self):
        if "cuda:0" not in jitc.devices():
            self.skipTest("no simulated GPU")
        super().setUp()

    def make(self):
        return (jitc.arange(1000, dtype="float32", device="cuda") * 2).eval()

    # tensorflow#47866; TensorFlow calls the deleter of what it refuses, and leaves the capsule as it was
    def test_who_has_no_gpu_refuses_and_ends_it_once(self):
        for name, take, refuses in consumers():
            with self.subTest(library=name):
                array = self.make()
                counted = Counted(array)
                with self.assertRaises(refuses):
                    take(counted)
                del array, counted.array
                self.check_ended(counted)
                self.check_nothing_left()

    def test_copied_to_the_cpu_on_request(self):
        want = np.arange(1000, dtype=np.float32) * 2
        array = self.make()
        self.check(array.numpy(), want)
        self.check(np.asarray(array), want)
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            x = np.from_dlpack(array, device="cpu")
            self.check(x, want)
            x[:] = 0
            self.check(cases.values_of(array), want)
            with self.assertRaises((BufferError, ValueError)):
                np.from_dlpack(array, device="cpu", copy=False)
        if torch := found("torch"):
            self.check(torch.from_numpy(array.numpy()).numpy(), want)

    def test_copied_to_the_gpu_on_request(self):
        x = np.arange(1000, dtype=np.float32)
        array = jitc.from_dlpack(x, device="cuda")
        x[:] = 0
        self.assertEqual(array.device, "cuda:0")
        self.check(cases.values_of(array + 1), np.arange(1000, dtype=np.float32) + 1)


if __name__ == "__main__":
    unittest.main()
