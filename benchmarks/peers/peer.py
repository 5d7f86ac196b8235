"""One Python library as a peer: peer.py LIBRARY THREADS.

Reads lines "WORK N" and answers each with nanoseconds per call, "has WORK" with 1 if this library has it, else
with 0. Sleeps in between. The inputs are those of bench_throughput.c and bench_lanes.c.
"""
import os
import sys
import time

try:
    import numpy as np
except ImportError:
    sys.exit()

RATE, VOLATILITY, INV_SQRT2 = 0.02, 0.3, 0.70710678
COEFFICIENTS = [np.float32(1 / (j + 1)) for j in range(17)]
SIDE, ITERATIONS = 1024, 256
FILL_SECONDS = 0.005


def uniform(low, high):
    return lambda n, seed: np.random.default_rng(seed).uniform(low, high, n).astype(np.float32)


def index(n, _seed):
    return np.random.default_rng(3).integers(0, n, n, dtype=np.uint32)


def real(n, _seed):
    return (np.arange(n) % SIDE * 3 / SIDE - 2).astype(np.float32)


def imaginary(n, _seed):
    return (np.arange(n) // SIDE * 3 / SIDE - 1.5).astype(np.float32)


def places(spread, size):
    def make(n, seed):
        if spread == "equal":
            return np.full(n, size // 2, np.uint32)
        if spread == "sorted":
            return (np.arange(n) * size // n).astype(np.uint32)
        return np.random.default_rng(seed).integers(0, size, n, dtype=np.uint32)

    return make


UNIT = uniform(0, 1)
INPUTS = {
    "add": [UNIT, UNIT],
    "saxpy": [UNIT, UNIT],
    "horner": [UNIT],
    "black_scholes": [uniform(50, 150), uniform(50, 150), uniform(0.2, 2.2)],
    "gather": [UNIT, index],
    "sum": [UNIT],
    "dot": [UNIT, UNIT],
    "sum_of_squares": [UNIT],
    "prefix_sum": [UNIT],
    "compress": [UNIT],
    "exp": [uniform(-87, 88)],
    "log": [uniform(1e-3, 1e3)],
    "sin": [uniform(-100, 100)],
    "cos": [uniform(-100, 100)],
    "pow": [uniform(1e-3, 10), uniform(-10, 10)],
    "erf": [uniform(-4, 4)],
    "mandelbrot": [real, imaginary],
}


def inputs(work, n):
    """The arrays, and how many elements are updated. "histogram.8.random": 2^8 of them."""
    name, *spread = work.split(".")
    size = 2 ** int(spread[0]) if spread else 0
    makers = [places(spread[1], size), UNIT][: 1 if name == "histogram" else 2] if spread else INPUTS[name]
    return name, [make(n, seed + 1) for seed, make in enumerate(makers)], size


def horner(x):
    r = COEFFICIENTS[16]
    for c in reversed(COEFFICIENTS[:16]):
        r = r * x + c
    return r


def horner_in_place(x):
    r = x * 0 + float(COEFFICIENTS[16])
    for c in reversed(COEFFICIENTS[:16]):
        r *= x
        r += float(c)
    return r


def black_scholes(m, erf):
    def price(s, k, t):
        q = m.sqrt(t)
        d1 = (m.log(s / k) + (RATE + 0.5 * VOLATILITY**2) * t) / (VOLATILITY * q)
        d2 = d1 - VOLATILITY * q
        return s * (0.5 * (1 + erf(d1 * INV_SQRT2))) - k * m.exp(-RATE * t) * (0.5 * (1 + erf(d2 * INV_SQRT2)))

    return price


class Library:
    """`works`: functions of what `array` makes of NumPy's arrays; `finish` waits for a result."""

    def array(self, a):
        return a

    def finish(self, result):
        return result


class Numpy(Library):
    def __init__(self, _threads):
        self.works = {
            "add": np.add,
            "saxpy": lambda x, y: 2.5 * x + y,
            "horner": horner_in_place,
            "gather": lambda x, i: x[i],
            "sum": np.sum,
            "dot": np.dot,
            "sum_of_squares": lambda x: np.dot(x, x),
            "prefix_sum": np.cumsum,
            "compress": lambda x: np.flatnonzero(x < 0.5),
            "pow": np.power,
            **{name: getattr(np, name) for name in ("exp", "log", "sin", "cos")},
        }


class Torch(Library):
    def __init__(self, threads):
        import torch

        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.torch = torch
        self.array = lambda a: torch.from_numpy(a.astype(np.int64) if a.dtype == np.uint32 else a)
        self.works = {
            "add": torch.add,
            "saxpy": lambda x, y: torch.add(y, x, alpha=2.5),
            "horner": horner_in_place,
            "black_scholes": black_scholes(torch, torch.erf),
            "gather": lambda x, i: x[i],
            "sum": torch.sum,
            "dot": torch.dot,
            "sum_of_squares": lambda x: torch.dot(x, x),
            "prefix_sum": lambda x: torch.cumsum(x, 0),
            "compress": lambda x: torch.nonzero(x < 0.5),
            "mandelbrot": self.mandelbrot,
            "histogram": lambda i, size: torch.bincount(i, minlength=size),
            "scatter_add": lambda i, x, size: torch.zeros(size).index_add_(0, i, x),
            **{name: getattr(torch, name) for name in ("exp", "log", "sin", "cos", "pow", "erf")},
        }

    def mandelbrot(self, re, im):
        x, y, n = re * 0, im * 0, self.torch.zeros(len(re), dtype=self.torch.int32)
        for _ in range(ITERATIONS):
            inside = x * x + y * y < 4
            x, y = (self.torch.where(inside, a, b) for a, b in ((x * x - y * y + re, x), (2 * x * y + im, y)))
            n += inside
        return n


class Jax(Library):
    def __init__(self, threads):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # it asks how many there are
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        from jax import numpy as jnp

        self.array = jax.device_put
        self.finish = jax.block_until_ready

        def mandelbrot(re, im):
            def step(state):
                k, x, y, n = state
                inside = x * x + y * y < 4
                next_x = jnp.where(inside, x * x - y * y + re, x)
                return k + 1, next_x, jnp.where(inside, 2 * x * y + im, y), n + inside.astype(jnp.uint32)

            start = (0, re * 0, im * 0, jnp.zeros(len(re), jnp.uint32))
            return jax.lax.while_loop(lambda state: state[0] < ITERATIONS, step, start)[3]

        functions = {
            "add": jnp.add,
            "saxpy": lambda x, y: jnp.float32(2.5) * x + y,
            "horner": horner,
            "black_scholes": black_scholes(jnp, jax.scipy.special.erf),
            "gather": lambda x, i: x[i],
            "sum": jnp.sum,
            "dot": jnp.dot,
            "sum_of_squares": lambda x: jnp.sum(x * x),
            "prefix_sum": jnp.cumsum,
            "mandelbrot": mandelbrot,
            "pow": jnp.power,
            "erf": jax.scipy.special.erf,
            **{name: getattr(jnp, name) for name in ("exp", "log", "sin", "cos")},
        }
        self.works = {name: jax.jit(function) for name, function in functions.items()}
        self.works["histogram"] = jax.jit(
            lambda i, size: jnp.zeros(size, jnp.uint32).at[i].add(jnp.uint32(1)), static_argnums=1
        )
        self.works["scatter_add"] = jax.jit(lambda i, x, size: jnp.zeros(size).at[i].add(x), static_argnums=2)


class Numba(Library):
    def __init__(self, threads):
        os.environ["NUMBA_NUM_THREADS"] = str(threads)
        import math

        import numba

        f4, coefficients = np.float32, tuple(COEFFICIENTS)

        def each(function, arguments):
            """A function of elements, for arrays."""
            one = numba.njit(fastmath={"contract"})(function)

            @numba.njit(parallel=True)
            def of_one(x):
                z = np.empty_like(x)
                for i in numba.prange(x.size):
                    z[i] = one(x[i])
                return z

            @numba.njit(parallel=True)
            def of_two(x, y):
                z = np.empty_like(x)
                for i in numba.prange(x.size):
                    z[i] = one(x[i], y[i])
                return z

            @numba.njit(parallel=True)
            def of_three(x, y, w):
                z = np.empty_like(x)
                for i in numba.prange(x.size):
                    z[i] = one(x[i], y[i], w[i])
                return z

            return (of_one, of_two, of_three)[arguments - 1]

        def polynomial(x):
            r = coefficients[16]
            for j in range(15, -1, -1):
                r = r * x + coefficients[j]
            return r

        def price(s, k, t):
            q = math.sqrt(t)
            d1 = (math.log(s / k) + f4(RATE + 0.5 * VOLATILITY**2) * t) / (f4(VOLATILITY) * q)
            d2 = d1 - f4(VOLATILITY) * q
            first = f4(0.5) * (f4(1) + math.erf(d1 * f4(INV_SQRT2)))
            second = f4(0.5) * (f4(1) + math.erf(d2 * f4(INV_SQRT2)))
            return s * first - k * math.exp(-f4(RATE) * t) * second

        @numba.njit(parallel=True, fastmath=True)
        def sum_of_products(x, y):
            s = f4(0)
            for i in numba.prange(x.size):
                s += x[i] * y[i]
            return s

        @numba.njit(parallel=True, fastmath=True)
        def sum_of(x):
            s = f4(0)
            for i in numba.prange(x.size):
                s += x[i]
            return s

        @numba.njit
        def prefix_sum(x):
            z, s = np.empty_like(x), f4(0)
            for i in range(x.size):
                s += x[i]
                z[i] = s
            return z

        @numba.njit
        def compress(x):
            z, count = np.empty(x.size, np.uint32), 0
            for i in range(x.size):
                z[count] = i
                count += x[i] < f4(0.5)
            return z[:count]

        @numba.njit(parallel=True)
        def gather(x, at):
            z = np.empty_like(x)
            for i in numba.prange(at.size):
                z[i] = x[at[i]]
            return z

        @numba.njit
        def histogram(at, size):
            z = np.zeros(size, np.uint32)
            for i in range(at.size):
                z[at[i]] += np.uint32(1)
            return z

        @numba.njit
        def scatter_add(at, x, size):
            z = np.zeros(size, np.float32)
            for i in range(at.size):
                z[at[i]] += x[i]
            return z

        @numba.njit(parallel=True)
        def mandelbrot(re, im):
            count = np.empty(re.size, np.uint32)
            for i in numba.prange(re.size):
                x, y, n = f4(0), f4(0), 0
                while n < ITERATIONS and x * x + y * y < f4(4):
                    x, y = x * x - y * y + re[i], f4(2) * x * y + im[i]
                    n += 1
                count[i] = n
            return count

        self.works = {
            "add": each(lambda x, y: x + y, 2),
            "saxpy": each(lambda x, y: f4(2.5) * x + y, 2),
            "horner": each(polynomial, 1),
            "black_scholes": each(price, 3),
            "gather": gather,
            "sum": sum_of,
            "dot": sum_of_products,
            "sum_of_squares": lambda x: sum_of_products(x, x),
            "prefix_sum": prefix_sum,
            "compress": compress,
            "histogram": histogram,
            "scatter_add": scatter_add,
            "mandelbrot": mandelbrot,
            "exp": each(lambda x: math.exp(x), 1),
            "log": each(lambda x: math.log(x), 1),
            "sin": each(lambda x: math.sin(x), 1),
            "cos": each(lambda x: math.cos(x), 1),
            "erf": each(lambda x: math.erf(x), 1),
            "pow": each(lambda x, y: math.pow(x, y), 2),
        }


class DrJit(Library):
    """What combines lanes, and loops: for the rest bench_throughput.c uses its interface for C."""

    def __init__(self, threads):
        import drjit as dr
        from drjit.llvm import Float, UInt32

        dr.set_thread_count(threads)
        dr.set_log_level(dr.LogLevel.Error)
        self.array = lambda a: (UInt32 if a.dtype == np.uint32 else Float)(a)

        def finish(result):
            dr.eval(result)
            dr.sync_thread()

        def mandelbrot(re, im):
            return dr.while_loop(
                (Float(0), Float(0), UInt32(0)),
                lambda x, y, n: (n < ITERATIONS) & (x * x + y * y < 4),
                lambda x, y, n: (x * x - y * y + re, 2 * x * y + im, n + 1),
            )[2]

        def scatter_add(i, x, size):
            result = dr.zeros(type(x), size)
            dr.scatter_add(result, x, i)
            return result

        self.finish = finish
        self.works = {
            "sum": dr.sum,
            "dot": lambda x, y: dr.sum(x * y),
            "sum_of_squares": lambda x: dr.sum(x * x),
            "prefix_sum": dr.cumsum,
            "compress": lambda x: dr.compress(x < 0.5),
            "mandelbrot": mandelbrot,
            "histogram": lambda i, size: scatter_add(i, UInt32(1), size),
            "scatter_add": scatter_add,
        }


def prepare(library, work, n):
    """The work as a function without arguments."""
    name, arrays, size = inputs(work, n)
    arguments = [library.array(a) for a in arrays] + ([size] if size else [])
    return lambda: library.finish(library.works[name](*arguments))


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
    libraries = {"numpy": Numpy, "torch": Torch, "jax": Jax, "numba": Numba, "drjit": DrJit}
    try:
        library = libraries[sys.argv[1]](int(sys.argv[2]))
    except ImportError:
        return
    print("ready", flush=True)
    asked, body = None, None
    with np.errstate(all="ignore"):
        for line in sys.stdin:
            work, n = line.split()
            if work == "has":
                print(int(n.split(".")[0] in library.works), flush=True)
                continue
            if line != asked:
                asked, body = line, None
                body = prepare(library, work, int(n))
            print(per_call(body), flush=True)


main()
