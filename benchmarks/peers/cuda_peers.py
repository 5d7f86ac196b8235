"""One Python library as a peer on the GPU: cuda_peers.py LIBRARY [THREADS] [--site FOLDER].

Reads lines "WORK N" and answers each with nanoseconds per evaluation, or with -1 for a work that this
library does not have. Sleeps in between. The works are those of bench_cuda.c:

    axpy:TYPE  sumK:TYPE  chainK:TYPE  gather:f32      N elements: back to back, one wait at the end
    hops, hops_waited                                  N gathers, each from the result of the one before
    retrace                                            N operations on 1024 elements: trace, evaluate, wait
    cold                                               the same, a new program: evaluate and wait
    rest                                               give memory back
"""
import random
import re
import sys
import time

FILL_SECONDS, MOST_CALLS, SMALL = 0.005, 4096, 1024


def chain_steps(count, seed):
    """Which of two inputs, and whether it is a multiplication, for each operation."""
    steps = random.Random(seed)
    return [(steps.getrandbits(1), steps.getrandbits(1)) for _ in range(count)]


def chain(inputs, steps):
    v = inputs[0]
    for which, multiply in steps:
        v = v * inputs[which] if multiply else v + inputs[which]
    return v


class Drjit:
    def __init__(self):
        import drjit
        import drjit.cuda

        self.dr, self.cuda = drjit, drjit.cuda
        self.types = {
            "f32": drjit.cuda.Float,
            "f64": drjit.cuda.Float64,
            "f16": drjit.cuda.Float16,
            "u8": drjit.cuda.UInt8,
        }
        self.sync = drjit.sync_thread

    def array(self, kind, n, value=1):
        result = self.dr.full(self.types[kind], value, n)
        self.dr.make_opaque(result)
        return result

    def places(self, n):
        x = self.dr.arange(self.cuda.UInt32, n)
        x = (x ^ (x >> 16)) * 0x85EBCA6B
        x = (x ^ (x >> 13)) * 0xC2B2AE35
        x = (x ^ (x >> 16)) & (n - 1)
        self.dr.make_opaque(x)
        return x

    def evaluated(self, trace):
        return lambda: self.dr.eval(trace())

    def axpy(self, kind, n):
        x, y = self.array(kind, n), self.array(kind, n, 2)
        return self.evaluated(lambda: 2 * x + y)

    def sum(self, kind, n, count):
        inputs = [self.array(kind, n, k) for k in range(count)]
        return self.evaluated(lambda: sum(inputs[1:], inputs[0]) if count > 1 else inputs[0] + 1)

    def chain(self, kind, n, count):
        inputs, steps = [self.array(kind, n), self.array(kind, n, 2)], chain_steps(count, 1)
        return self.evaluated(lambda: chain(inputs, steps))

    def gather(self, kind, n):
        x, places = self.array(kind, n), self.places(n)
        return self.evaluated(lambda: self.dr.gather(self.types[kind], x, places))

    def hops(self, count):
        x, places = self.array("f32", SMALL), self.places(SMALL)

        def run():
            v = x
            for _ in range(count):
                v = self.dr.gather(self.types["f32"], v, places) + 1
            self.dr.eval(v)

        return run

    def retrace(self, count):
        inputs, steps = [self.array("f32", SMALL), self.array("f32", SMALL, 2)], chain_steps(count, 1)

        def run():
            self.dr.eval(chain(inputs, steps))
            self.sync()

        return run

    def cold(self, count):
        """Seconds that the first evaluation of a new program takes."""
        inputs = [self.array("f32", SMALL), self.array("f32", SMALL, 2)]
        self.sync()
        v = chain(inputs, chain_steps(count, time.time_ns()))
        start = time.perf_counter()
        self.dr.eval(v)
        self.sync()
        return time.perf_counter() - start

    def rest(self):
        self.dr.flush_malloc_cache()


class Torch:
    def __init__(self):
        import torch

        self.torch = torch
        self.types = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "u8": torch.uint8}
        self.sync = torch.cuda.synchronize
        torch.ones(1, device="cuda")

    def array(self, kind, n, value=1):
        return self.torch.full((n,), value, dtype=self.types[kind], device="cuda")

    def axpy(self, kind, n):
        x, y = self.array(kind, n), self.array(kind, n, 2)
        return lambda: self.torch.add(y, x, alpha=2)

    def gather(self, kind, n):
        x, places = self.array(kind, n), self.torch.randint(0, n, (n,), device="cuda", dtype=self.torch.int32)
        return lambda: self.torch.index_select(x, 0, places)

    def rest(self):
        self.torch.cuda.empty_cache()


class Cupy:
    def __init__(self):
        import cupy

        self.cupy = cupy
        self.types = {"f32": cupy.float32, "f64": cupy.float64, "f16": cupy.float16, "u8": cupy.uint8}
        self.sync = cupy.cuda.Device().synchronize
        self.new = 0
        cupy.ones(1)

    def array(self, kind, n, value=1):
        return self.cupy.full(n, value, dtype=self.types[kind])

    def kernel(self, count, body, name):
        """One kernel, without fusing a multiplication and an addition, as the others compute it."""
        parameters = ", ".join(f"T x{k}" for k in range(count))
        return self.cupy.ElementwiseKernel(parameters, "T z", body, name, options=("--fmad=false",))

    def axpy(self, kind, n):
        x, y = self.array(kind, n), self.array(kind, n, 2)
        kernel = self.kernel(2, "z = (T)2 * x0 + x1", "axpy")
        return lambda: kernel(x, y)

    def sum(self, kind, n, count):
        inputs = [self.array(kind, n, k) for k in range(count)]
        terms = " + ".join(f"x{k}" for k in range(count)) + (" + (T)1" if count == 1 else "")
        kernel = self.kernel(count, f"z = {terms}", f"sum{count}")
        return lambda: kernel(*inputs)

    @staticmethod
    def chain_text(steps):
        lines = [f"v = v {'*' if multiply else '+'} x{which};" for which, multiply in steps]
        return "T v = x0; " + " ".join(lines) + " z = v"

    def chain(self, kind, n, count):
        x, y = self.array(kind, n), self.array(kind, n, 2)
        kernel = self.kernel(2, self.chain_text(chain_steps(count, 1)), f"chain{count}")
        return lambda: kernel(x, y)

    def gather(self, kind, n):
        x, places = self.array(kind, n), self.cupy.random.randint(0, n, n, dtype=self.cupy.uint32)
        return lambda: self.cupy.take(x, places)

    def cold(self, count):
        x, y = self.array("f32", SMALL), self.array("f32", SMALL, 2)
        self.new += 1
        self.sync()
        start = time.perf_counter()
        self.kernel(2, self.chain_text(chain_steps(count, time.time_ns())), f"cold{self.new}")(x, y)
        self.sync()
        return time.perf_counter() - start

    def rest(self):
        self.cupy.get_default_memory_pool().free_all_blocks()


def per_call(body, wait, waited=True):
    """Nanoseconds per call, several back to back; with `waited`, and one wait."""
    body()
    wait()
    calls = 1
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            body()
        if waited:
            wait()
        elapsed = time.perf_counter() - start
        wait()
        if elapsed >= FILL_SECONDS or calls >= MOST_CALLS:
            return elapsed / calls * 1e9
        calls *= 2


def hops_cpu(body, wait, calls=64):
    """Nanoseconds of the CPU per call, with a wait after each that is not counted."""
    total = 0
    for _ in range(calls):
        start = time.perf_counter()
        body()
        total += time.perf_counter() - start
        wait()
    return total / calls * 1e9


def prepare(library, work, n):
    """The work as a function that measures it; None if the library does not have it."""
    name, _, kind = work.partition(":")
    stem, count = re.fullmatch(r"([a-z_]+)(\d*)", name).groups()
    arguments = (kind, n, int(count)) if count else (kind, n)
    if stem in ("hops", "hops_waited"):
        body = library.hops(n)
        return lambda: hops_cpu(body, library.sync) if stem == "hops" else per_call(
            lambda: (body(), library.sync()), library.sync)
    if stem == "retrace":
        body = library.retrace(n)
        return lambda: per_call(body, library.sync)
    if stem == "cold":
        return lambda: library.cold(n) * 1e9
    body = getattr(library, stem)(*arguments)
    return lambda: per_call(body, library.sync)


def main():
    arguments = sys.argv[1:]
    if "--site" in arguments:
        at = arguments.index("--site")
        sys.path.insert(0, arguments[at + 1])
        del arguments[at : at + 2]
    try:
        library = {"drjit": Drjit, "torch": Torch, "cupy": Cupy}[arguments[0]]()
    except Exception as problem:  # not installed, or it finds no GPU
        print(f"{arguments[0]}: {problem}", file=sys.stderr)
        return
    print("ready", flush=True)
    asked, measure = None, None
    for line in sys.stdin:
        work, n = line.split()
        if line != asked:
            asked, measure = line, None  # the arrays of the work before are gone
            library.rest()
        answer = -1
        if work != "rest":
            try:
                measure = measure or prepare(library, work, int(n))
                answer = measure()
            except (AttributeError, KeyError):
                pass  # this library does not have the work
            except Exception as problem:
                print(f"{arguments[0]}, {line.strip()}: {problem}", file=sys.stderr)
        print(answer, flush=True)


main()
