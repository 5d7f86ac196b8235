"""One Python library as a peer: peer.py LIBRARY THREADS.

Reads lines "WORK N" and answers each with nanoseconds per call, or with -1 for a work that this library
does not have. Sleeps in between. The inputs are those of bench_throughput.c.
"""
import sys
import time

try:
    import numpy as np
except ImportError:
    sys.exit()

RATE, VOLATILITY, INV_SQRT2 = 0.02, 0.3, 0.70710678
COEFFICIENTS = [np.float32(1 / (j + 1)) for j in range(17)]
FILL_SECONDS = 0.005


def uniform(n, low, high, seed=1):
    return np.random.default_rng(seed).uniform(low, high, n).astype(np.float32)


class Numpy:
    def __init__(self, _threads):
        self.array = lambda a: a
        self.indices = lambda a: a
        self.math = {name: getattr(np, name) for name in ("exp", "log", "sin", "cos", "sqrt")}
        self.math["pow"] = np.power

    def horner(self, x):
        r = np.full_like(x, COEFFICIENTS[16])
        for c in reversed(COEFFICIENTS[:16]):
            r *= x
            r += c
        return r


class Torch:
    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        self.array = torch.from_numpy
        self.indices = lambda a: torch.from_numpy(a.astype(np.int64))
        self.math = {name: getattr(torch, name) for name in ("exp", "log", "sin", "cos", "sqrt", "pow", "erf")}

    def horner(self, x):
        r = x * 0 + float(COEFFICIENTS[16])
        for c in reversed(COEFFICIENTS[:16]):
            r *= x
            r += float(c)
        return r


def black_scholes(m, s, k, t):
    q = m["sqrt"](t)
    d1 = (m["log"](s / k) + (RATE + 0.5 * VOLATILITY**2) * t) / (VOLATILITY * q)
    d2 = d1 - VOLATILITY * q
    n1 = 0.5 * (1 + m["erf"](d1 * INV_SQRT2))
    n2 = 0.5 * (1 + m["erf"](d2 * INV_SQRT2))
    return s * n1 - k * m["exp"](-RATE * t) * n2


MATH_RANGE = {"exp": (-87, 88), "log": (1e-3, 1e3), "sin": (-100, 100), "cos": (-100, 100), "erf": (-4, 4)}


def prepare(library, work, n):
    """The work as a function without arguments; None if the library does not have it."""
    array = library.array
    if work == "add":
        x, y = array(uniform(n, 0, 1)), array(uniform(n, 0, 1, 2))
        return lambda: x + y
    if work == "saxpy":
        x, y = array(uniform(n, 0, 1)), array(uniform(n, 0, 1, 2))
        return lambda: 2.5 * x + y
    if work == "horner":
        x = array(uniform(n, 0, 1))
        return lambda: library.horner(x)
    if work == "gather":
        x = array(uniform(n, 0, 1))
        index = library.indices(np.random.default_rng(3).integers(0, n, n, dtype=np.uint32))
        return lambda: x[index]
    if work == "black_scholes" and "erf" in library.math:
        s, k, t = (array(uniform(n, *r)) for r in ((50, 150), (50, 150), (0.2, 2.2)))
        return lambda: black_scholes(library.math, s, k, t)
    if work == "pow":
        x, y = array(uniform(n, 1e-3, 10)), array(uniform(n, -10, 10, 2))
        return lambda: library.math["pow"](x, y)
    if work in MATH_RANGE and work in library.math:
        x = array(uniform(n, *MATH_RANGE[work]))
        return lambda: library.math[work](x)
    return None


def per_call(body):
    body()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            body()
        elapsed = time.perf_counter() - start
        if elapsed >= FILL_SECONDS:
            return elapsed / calls * 1e9
        calls *= 2


def main():
    try:
        library = {"numpy": Numpy, "torch": Torch}[sys.argv[1]](int(sys.argv[2]))
    except ImportError:
        return
    print("ready", flush=True)
    asked, body = None, None
    with np.errstate(all="ignore"):
        for line in sys.stdin:
            if line != asked:
                asked, body = line, None
                work, n = line.split()
                body = prepare(library, work, int(n))
            print(per_call(body) if body else -1, flush=True)


main()
