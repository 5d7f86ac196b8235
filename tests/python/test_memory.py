"""Nothing is left of 10,000 round trips of each kind: of memory, of variables, of the process."""
import ctypes
import gc
import os
import unittest

import bridge
import jitc
from dlpack import Made, consume, end, look
from test_take import Memory

ROUNDS = 10000


def resident():
    """Bytes of the process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


class RoundTrips(bridge.Balanced):
    def check(self, once):
        for _ in range(ROUNDS):  # what is kept for reuse is there
            once()
        bridge.settled()
        gc.collect()
        before, alive = resident(), jitc.stats()
        for _ in range(ROUNDS):
            once()
        bridge.settled()
        gc.collect()
        after, now = resident(), jitc.stats()
        for name in "variables", "bytes_live":
            self.assertEqual(now[name], alive[name])
        if not os.environ.get("JITC_SANITIZE"):  # which keeps what was freed
            self.assertLess(after - before, ROUNDS * 24)  # 24 bytes a round would be a leak

    def setUp(self):
        super().setUp()
        self.a = (jitc.arange(6, dtype="float32") + 1).reshape(2, 3).eval()

    def tearDown(self):
        del self.a
        super().tearDown()

    def test_capsules_that_are_taken(self):
        self.check(lambda: jitc.from_dlpack(self.a.__dlpack__(max_version=(1, 3))))
        self.check(lambda: jitc.from_dlpack(self.a.__dlpack__()))

    def test_capsules_that_are_not(self):
        self.check(lambda: self.a.__dlpack__(max_version=(1, 3)))
        self.check(lambda: self.a.__dlpack__())

    def test_tensors(self):
        def as_tensorflow_fails():
            capsule = self.a.__dlpack__()
            end(look(capsule))

        self.check(lambda: end(consume(self.a.__dlpack__(max_version=(1, 3)))))
        self.check(as_tensorflow_fails)

    def test_the_table(self):
        table, out = bridge.table(), ctypes.c_void_p()

        def once():
            table.from_object(self.a, ctypes.byref(out))
            bridge.to_object(out.value)

        self.check(once)
        self.check(lambda: jitc.from_dlpack(self.a))

    def test_failures(self):
        memory = Memory()
        made = Made(memory, (2,), dtype=(5, 64))

        def fails(function):
            made.calls.clear()
            try:
                function()
            except (BufferError, TypeError, ValueError):
                return
            raise AssertionError

        self.check(lambda: fails(lambda: jitc.from_dlpack(made.capsule())))
        self.check(lambda: fails(lambda: self.a.__dlpack__(dl_device=(7, 0))))
        self.check(lambda: fails(lambda: self.a + jitc.ones(5)))
        self.check(lambda: fails(lambda: self.a + "a"))
        self.check(lambda: fails(lambda: self.a.reshape(5, -1)))

    def test_operations(self):
        self.check(lambda: (self.a * 2 + 1) // 3)
        self.check(lambda: (self.a.shape, self.a.dtype, self.a.device, len(self.a), self.a.reshape(-1)))
        self.check(lambda: jitc.full((2, 3), 1.5))

    def test_new_values(self):
        data = bytes(24)
        self.check(lambda: jitc.array(data))


if __name__ == "__main__":
    unittest.main()
