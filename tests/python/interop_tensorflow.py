"""With TensorFlow, which takes capsules of the struct without a version, compact memory only."""

import gc
import os
import unittest

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0")  # it talks

import interop_cases as cases
import jitc
import numpy as np
import tensorflow as tf
from dlpack import address


class TensorFlow(cases.Library):
    name = "tensorflow"
    legacy = True
    refuses = (tf.errors.InvalidArgumentError, TypeError, ValueError, RuntimeError)
    exact_views = {v: "refused" for v in ("transposed", "padded", "step", "negative", "broadcast")}

    def take(self, x):
        return self.take_capsule(x.__dlpack__())

    def take_capsule(self, capsule):
        return tf.experimental.dlpack.from_dlpack(capsule)

    def give(self, x):
        return tf.experimental.dlpack.to_dlpack(x)

    def make(self, values, dtype):
        x = tf.constant(values)
        return tf.bitcast(x, tf.bfloat16) if dtype == "bfloat16" else x

    def values(self, x):
        return (tf.bitcast(x, tf.uint16) if x.dtype == tf.bfloat16 else x).numpy()

    def where(self, x):
        return address(tf.experimental.dlpack.to_dlpack(x))


class Exports(cases.Exports, unittest.TestCase):
    lib = TensorFlow()

    def test_method(self):
        array, want = cases.owned("float32", (3, 4))
        x = array.tf()
        self.check(x.numpy(), want)
        self.assertEqual(self.lib.where(x), array._layout()[0])

    # tf-dlpack#4, dgl#995: it takes memory of any alignment, and aborts when it computes with it
    def test_method_takes_any_view_and_computes_with_it(self):
        base = cases.base_of_views()
        for name, view in cases.VIEWS.items():
            with self.subTest(view=name):
                want = view(base)
                x = jitc.from_dlpack(want).tf()
                self.check((x * 2 + 1).numpy(), want * 2 + 1)

    # numpy#20742, jax#40789
    def test_read_only(self):
        owner = cases.base_of_views()
        owner.flags.writeable = False
        array = jitc.from_dlpack(owner)
        with self.assertRaises(BufferError):
            array.__dlpack__()
        x = array.tf()
        self.assertNotEqual(self.lib.where(x), owner.ctypes.data)
        self.check(x.numpy(), owner)

    def test_computing_there(self):
        array, want = cases.owned("float32", (3, 4))
        x = self.lib.take(array)
        self.check(tf.matmul(x, x, transpose_b=True).numpy(), want @ want.T)


class Imports(cases.Imports, unittest.TestCase):
    lib = TensorFlow()

    def test_tensor_itself(self):
        """It is a producer, too, that wants no keywords."""
        x = tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
        self.check(cases.values_of(jitc.from_dlpack(x)), x.numpy())
        self.check(cases.values_of(jitc.from_dlpack(x, copy=True)), x.numpy())

    def test_owner_lives_as_long_as_we_read(self):
        x = tf.constant(np.arange(100000, dtype=np.float32)) + 1
        array = jitc.from_dlpack(x)
        del x
        gc.collect()
        others = [tf.zeros(100000) for _ in range(10)]  # would get its memory
        self.assertNotIn(array._layout()[0], [self.lib.where(o) for o in others])
        self.check(cases.values_of(array), np.arange(1, 100001, dtype=np.float32))
        del array
        self.check_nothing_left()


class Exits(cases.Exits, unittest.TestCase):
    slow = talks = True
    preamble = """
        import os
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
        import tensorflow as tf
        d = tf.experimental.dlpack
        take = lambda x: d.from_dlpack(x.__dlpack__())
        give, make = d.to_dlpack, tf.constant
        make(np.ones(1))
    """


if __name__ == "__main__":
    unittest.main()
