"""With JAX, which knows only the struct without a version, and whose arrays never change."""

import gc
import unittest

import interop_cases as cases
import jax
import jax.numpy as jnp
import jitc
import numpy as np

jax.config.update("jax_enable_x64", True)


class Jax(cases.Library):
    name = "jax"
    legacy = True
    refuses = (RuntimeError, TypeError, ValueError, BufferError)
    exact_views = {"padded": "refused", "step": "refused", "negative": "refused", "broadcast": "refused",
                   "slice": "copied", "middle": "copied"}

    def take(self, x):
        return jnp.from_dlpack(x)

    def make(self, values, dtype):
        if dtype == "bfloat16":
            return jax.lax.bitcast_convert_type(jnp.array(values), jnp.bfloat16)
        return jnp.array(values)

    def values(self, x):
        values = np.asarray(x)
        return values.view(np.uint16) if x.dtype == jnp.bfloat16 else values

    def where(self, x):
        return x.unsafe_buffer_pointer()


class Exports(cases.Exports, unittest.TestCase):
    lib = Jax()

    def test_method(self):
        array, want = cases.owned("float32", (3, 4))
        x = array.jax()
        self.check(np.asarray(x), want)
        self.assertEqual(x.unsafe_buffer_pointer(), array._layout()[0])

    def test_method_takes_what_jax_refuses(self):
        base = cases.base_of_views()
        for name, view in cases.VIEWS.items():
            with self.subTest(view=name):
                want = view(base)
                array = jitc.from_dlpack(want)
                self.check(np.asarray(array.jax()), want)

    # jax#17784, jax#24680: a transposed layout was read as if it was row-major
    def test_transposed(self):
        x = jitc.from_dlpack(np.arange(4, dtype=np.float32).reshape(2, 2).T)
        self.assertEqual(np.asarray(jnp.from_dlpack(x)).tolist(), [[0, 2], [1, 3]])

    # jax#40789, numpy#20742: read-only memory, and a struct that cannot say so
    def test_read_only(self):
        owner = np.arange(8, dtype=np.float32)
        owner.flags.writeable = False
        array = jitc.from_dlpack(owner)
        with self.assertRaises(BufferError):
            jnp.from_dlpack(array)
        x = array.jax()
        self.assertNotEqual(x.unsafe_buffer_pointer(), owner.ctypes.data)
        self.check(np.asarray(x), owner)

    def test_computing_there(self):
        array, want = cases.owned("float32", (3, 4))
        x = jax.jit(lambda a: a * 2 + 1)(jnp.from_dlpack(array))
        self.check(np.asarray(x), want * 2 + 1)

    def test_donated(self):
        """What is given to a computation to be written over."""
        array, want = cases.owned("float32", (64,))
        x = jnp.from_dlpack(array)
        y = jax.jit(lambda a: a + 1, donate_argnums=0)(x)
        self.check(np.asarray(y), want + 1)
        del x, y, array
        gc.collect()
        self.check_nothing_left()


class Imports(cases.Imports, unittest.TestCase):
    lib = Jax()

    def test_result_of_a_computation(self):
        x = jax.jit(lambda a: a @ a)(jnp.ones((300, 300), jnp.float32))  # maybe not finished yet
        self.check(cases.values_of(jitc.from_dlpack(x)), np.full((300, 300), 300, np.float32))

    def test_owner_lives_as_long_as_we_read(self):
        x = jnp.arange(1000, dtype=jnp.float32) + 1
        live = len(jax.live_arrays())
        array = jitc.from_dlpack(x)
        where = x.unsafe_buffer_pointer()
        del x
        gc.collect()
        other = [jnp.zeros(1000, jnp.float32) for _ in range(20)]  # would get its memory
        self.assertNotIn(where, [o.unsafe_buffer_pointer() for o in other])
        self.check(cases.values_of(array), np.arange(1, 1001, dtype=np.float32))
        del array, other
        self.check_nothing_left()
        self.assertLess(len(jax.live_arrays()), live)


class Exits(cases.Exits, unittest.TestCase):
    preamble = """
        import jax.numpy as jnp
        take, give, make = jnp.from_dlpack, lambda x: x, jnp.array
    """


if __name__ == "__main__":
    unittest.main()
