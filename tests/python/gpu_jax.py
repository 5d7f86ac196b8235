"""With JAX on a GPU, which works on streams of its own."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import gc
import unittest

import gpu_world
import jax
import jax.numpy as jnp
import jitc
from gpu_world import LANES, REPETITIONS, Reads, counter, slow_producer


def setUpModule():
    gpu_world.wants_gpu()
    if jax.default_backend() != "gpu":
        raise unittest.SkipTest("JAX sees no GPU")


@jax.jit
def wrong(x, reference, k):
    return (x != reference + k).sum()


@jax.jit
def slowly(k):
    """LANES times k, after some work."""
    a = jax.lax.fori_loop(0, 1500, lambda i, a: jnp.sin(a * 1.5 + 0.25), jnp.arange(LANES, dtype=jnp.float32))
    return jnp.where(a > 5, 0.0, k) + jnp.zeros(LANES, jnp.float32)


class Order(unittest.TestCase):
    def test_slow_jitc_kernel_is_read_by_jax(self):
        slow = slow_producer()
        reference = jnp.from_dlpack(slow.reference).copy()
        reference.block_until_ready()
        bad = []
        for _ in range(REPETITIONS):
            k = next(counter)
            array = slow.make(k)
            x = jnp.from_dlpack(array)
            bad.append(wrong(x, reference, jnp.float32(k)))
            del x, array
        self.assertEqual(sum(int(b) for b in bad), 0)

    def test_slow_jax_kernel_is_read_by_jitc(self):
        reads = Reads()
        for _ in range(REPETITIONS):
            k = next(counter)
            x = slowly(jnp.float32(k))
            array = jitc.from_dlpack(x)
            del x
            reads.check(array, k)
            del array
        self.assertEqual(reads.count(), 0)

    def test_slow_jax_reader_gives_back_at_once(self):
        seen = []

        @jax.jit
        def read_late(x, k):
            a = jax.lax.fori_loop(0, 1500, lambda i, a: jnp.sin(a * 1.5 + x * 0), jnp.arange(LANES, dtype=jnp.float32))
            return jnp.where(a > 5, True, x != k).sum()

        for _ in range(200):
            k = next(counter)
            array = (jitc.zeros(LANES, "float32") + jitc.array([float(k)], "float32")).eval()
            x = jnp.from_dlpack(array)
            del array
            seen.append(read_late(x, jnp.float32(k)))
            del x
            over = (jitc.zeros(LANES, "float32") + jitc.array([-1.0], "float32")).eval()
            del over
        self.assertEqual(sum(int(s) for s in seen), 0)

    def test_in_place(self):
        x = jnp.arange(60, dtype=jnp.float32).reshape(3, 4, 5)
        array = jitc.from_dlpack(x)
        self.assertEqual((array.shape, array._layout()[0]), ((3, 4, 5), x.unsafe_buffer_pointer()))
        ours = slow_producer().make(1)
        self.assertEqual(ours.jax().unsafe_buffer_pointer(), ours._layout()[0])
        gc.collect()


if __name__ == "__main__":
    unittest.main(verbosity=2)
