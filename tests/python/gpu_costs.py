"""What it costs to hand an array over and back, beside CuPy and Dr.Jit, in one run, as a table.

usage: gpu_costs.py [rounds]
"""

import gc
import statistics
import sys
import time

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
LANES = 1 << 20


def found(name):
    try:
        return __import__(name)
    except Exception as error:  # noqa: BLE001
        print(f"{name} is left out: {error}")
        return None


def microseconds(function):
    """(median, least) of blocks of calls."""
    for _ in range(200):
        function()
    times = []
    gc.collect()
    gc.disable()
    for _ in range(10):
        begin = time.perf_counter()
        for _ in range(ROUNDS // 10):
            function()
        times.append((time.perf_counter() - begin) / (ROUNDS // 10) * 1e6)
    gc.enable()
    return statistics.median(times), min(times)


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
    print(f"torch {torch.__version__}, {ROUNDS} rounds; microseconds, median and least\n")
    print(f"{'':28}{'default stream':>20}{'own stream':>20}")
    for rows in (jitc_rows, cupy_rows, drjit_rows):
        try:
            measure(torch, stream, rows)
        except Exception as error:  # noqa: BLE001
            print(f"{rows.__name__}: {error!r}")
            if rows is jitc_rows:
                sys.exit(1)


def measure(torch, stream, rows):
    for name, function in rows(torch):
        columns = [microseconds(function)]
        if stream:
            with torch.cuda.stream(stream):
                columns.append(microseconds(function))
            torch.cuda.synchronize()
        print(f"{name:28}" + "".join(f"{m:12.2f}{least:8.2f}" for m, least in columns), flush=True)


main()
