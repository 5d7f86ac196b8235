"""What the tests with real libraries on a real GPU share: slow producers, and how it is found out
whether somebody read too early.

Each repetition has values of its own, in memory that had those of another one before. A library
checks them on the GPU, where it reads them, and adds up how many were wrong: the CPU never waits in
between, so that nothing is in order by chance.
"""

import itertools
import os
import time
import unittest

import jitc

REPETITIONS = int(os.environ.get("JITC_GPU_REPETITIONS", "1000"))  # of each library and direction
LANES = 1 << 20
SECONDS = 0.01  # that a slow producer takes
counter = itertools.count(1)


def wants_gpu():
    if not any(d.startswith("cuda") for d in jitc.devices()):
        raise unittest.SkipTest("no GPU")


def chain(a, steps):
    """Numbers in [-1, 1], after some work."""
    for _ in range(steps):
        a = jitc.sin(a * 1.5 + 0.25)
    return a


def seconds_of(steps):
    a = jitc.array([1.0], "float32") + jitc.arange(LANES, dtype="float32") * 1e-6
    chain(a, steps).eval()
    jitc.sync()
    begin = time.perf_counter()
    for _ in range(5):
        chain(a, steps).eval()
    jitc.sync()
    return (time.perf_counter() - begin) / 5


class Slow:
    """A kernel of jitc that takes about SECONDS. make(k): reference + k, in new memory."""

    def __init__(self):
        steps = 200
        self.kernels = max(1, round(SECONDS / max(seconds_of(steps), 1e-5)))
        self.steps = steps
        self.base = jitc.arange(LANES, dtype="float32") * 1e-6
        self.base.eval()
        self.reference = self.run(jitc.array([0.0], "float32"))
        jitc.sync()

    def run(self, k):
        a = self.base
        for _ in range(self.kernels):
            a = chain(a, self.steps).eval()
        return (a + k).eval()

    def make(self, k):
        return self.run(jitc.array([float(k)], "float32"))


slow = None


def slow_producer():
    global slow
    if slow is None:
        slow = Slow()
        print(f"slow producer: {slow.kernels} kernels, {1e3 * slow.kernels * seconds_of(slow.steps):.1f} ms",
              flush=True)
    return slow


class Reads:
    """What jitc reads: an array that somebody fills with k. bad: lanes that were ever wrong."""

    def __init__(self):
        self.bad = (jitc.zeros(LANES, "uint32") + jitc.array([0], "uint32")).eval()

    def check(self, array, k):
        wrong = array != jitc.array([float(k)], "float32")
        self.bad = (self.bad + jitc.cast(wrong, "uint32")).eval()

    def count(self):
        return sum(memoryview(self.bad._bytes()).cast("I"))
