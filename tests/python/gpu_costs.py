"""What it costs to hand an array over and back, beside CuPy and Dr.Jit, in one run, as a table.

usage: gpu_costs.py [rounds]
"""

import gc
import statistics
import sys
import time

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
BLOCKS = 50
LANES = 1 << 20


def found(name):
    try:
        return __import__(name)
    except Exception as error:  # noqa: BLE001
        print(f"{name} is left out: {error}")
        return None


def microseconds(functions):
    """(median, least) of each: blocks of calls, of all in turn, so that a machine that changes its
    speed does so for all."""
    times = [[] for _ in functions]
    for function in functions:
        for _ in range(200):
            function()
    gc.collect()
    gc.disable()
    for _ in range(BLOCKS):
        for function, list_of in zip(functions, times):
            begin = time.perf_counter()
            for _ in range(ROUNDS // BLOCKS):
                function()
            list_of.append((time.perf_counter() - begin) / (ROUNDS // BLOCKS) * 1e6)
    gc.enable()
    return [(statistics.median(t), min(t)) for t in times]


def jitc_rows(torch):
    jitc = found("jitc")
    if not jitc:
        return
    device = "cuda" if any(d.startswith("cuda") for d in jitc.devices()) else "cpu"
    array = (jitc.arange(LANES, dtype="float32", device=device) + 1).eval()
    jitc.sync()
    yield "jitc: there", lambda: torch.from_dlpack(array)
    yield "jitc: there, by capsule", lambda: torch.utils.dlpack.from_dlpack(array.__dlpack__(max_version=(1, 3)))
    tensor = torch.from_dlpack(array)
    yield "jitc: back", lambda: jitc.from_dlpack(tensor)
    yield "jitc: there and back", lambda: jitc.from_dlpack(torch.from_dlpack(array))


def cupy_rows(torch):
    cupy = found("cupy")
    if not cupy:
        return
    array = cupy.arange(LANES, dtype=cupy.float32)
    yield "CuPy: there", lambda: torch.from_dlpack(array)
    tensor = torch.from_dlpack(array)
    yield "CuPy: back", lambda: cupy.from_dlpack(tensor)
    yield "CuPy: there and back", lambda: cupy.from_dlpack(torch.from_dlpack(array))


def drjit_rows(torch):
    drjit = found("drjit")
    if not drjit:
        return
    from drjit.cuda import Float

    array = drjit.arange(Float, LANES) + 1
    drjit.eval(array)
    drjit.sync_thread()
    yield "Dr.Jit: there", lambda: torch.from_dlpack(array)
    tensor = torch.from_dlpack(array)
    yield "Dr.Jit: back", lambda: Float(tensor)
    yield "Dr.Jit: there and back", lambda: Float(torch.from_dlpack(array))


def main():
    torch = found("torch")
    if not torch:
        sys.exit(77)
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")
    stream = torch.cuda.Stream() if torch.cuda.is_available() else None
    rows = [row for library in (jitc_rows, cupy_rows, drjit_rows) for row in rows_of(library, torch)]
    columns = [microseconds([function for _, function in rows])]
    if stream:
        with torch.cuda.stream(stream):
            columns.append(microseconds([function for _, function in rows]))
        torch.cuda.synchronize()
    print(f"torch {torch.__version__}, {ROUNDS} rounds; microseconds, median and least\n")
    print(f"{'':28}{'default stream':>20}{'own stream':>20}")
    for (name, _), *cells in zip(rows, *columns):
        print(f"{name:28}" + "".join(f"{m:12.2f}{least:8.2f}" for m, least in cells), flush=True)


def rows_of(library, torch):
    try:
        return list(library(torch))
    except Exception as error:  # noqa: BLE001
        print(f"{library.__name__}: {error!r}")
        if library is jitc_rows:
            sys.exit(1)
        return []


main()
