"""The report of bench_sync_modes: report.py RESULT.json FOLDER writes sync_modes.md and its plots.

Needs nothing but Python. Also for a file that a run has left unfinished: what is missing is left out.
"""
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import svg_plot as plot  # noqa: E402

# name in the file: name in the report, colour, dashes
MODES = {
    "handle": ("handle", "#1f5fbf", ""),
    "by hand": ("by hand, without jitc", "#111111", "6 4"),
    "2": ("2 (per-thread)", "#17907c", ""),
    "0": ("0 (CPU waits)", "#c8352b", ""),
    "device": ("jit_sync_device", "#8a4fbf", ""),
    "context": ("cuCtxSynchronize", "#8a4fbf", "3 3"),
    "1": ("1 (legacy)", "#e08a00", ""),
    "none": ("not given", "#e08a00", "3 3"),
    "-1": ("-1 (unordered)", "#9a9a9a", "2 3"),
}
IDLE, BUSY = "#a9c4ea", "#1f5fbf"


def name(who):
    return MODES[who][0]


def duration(ns):
    for size, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.3g} ns"


def work(us):
    return duration(us * 1e3)


class Results:
    def __init__(self, file):
        self.file = file
        self.rows = file["rows"]

    def entry(self, who, **members):
        for row in self.rows:
            if all(row.get(k) == v for k, v in members.items()):
                for e in row["entries"]:
                    if e["who"] == who and "figure" in e:
                        return e
        return None

    def call(self, who, busy, cpu, quantile="p50"):
        e = self.entry(who, kind="call", busy=busy, cpu=cpu)
        return e and e["figure"][quantile]

    def rate(self, who, us, threads):
        e = self.entry(who, kind="rate", work_us=us, threads=threads)
        return e and e["figure"]["p50"]

    def values(self, member):
        return sorted({row[member] for row in self.rows if member in row})

    def steps(self, who, member):
        """(sum of a member, steps), over all rows of the pipeline."""
        found = [e for row in self.rows if row.get("kind") == "rate" for e in row["entries"]
                 if e["who"] == who and "steps" in e]
        return sum(e[member] for e in found), sum(e["steps"] for e in found)


def table(head, rows):
    marks = ["---"] + ["--:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in [head, marks, *rows]) + "\n"


def spread(quantiles):
    return 50 * (quantiles["p75"] - quantiles["p25"]) / (quantiles["p50"] or 1)


# ---- plots ----

def plot_calls(r, folder):
    for cpu, file, what in ((False, "call", "How long the call takes"),
                            (True, "cpu", "Processor time that the call takes")):
        groups = [(name(w), [r.call(w, False, cpu), r.call(w, True, cpu)]) for w in MODES]
        styles = [("idle", IDLE), ("busy", BUSY)]
        parts = plot.bars((170, 76, 700, 480), "time of a call, logarithmic", groups, styles, duration)
        for i, (label, color) in enumerate((("all work is over", IDLE),
                                            ("10 ms of work are queued", BUSY))):
            parts += [f"<rect x='{170 + 180 * i}' y='44' width='12' height='12' fill='{color}'/>",
                      plot.text(188 + 180 * i, 54, label)]
        write(folder / f"sync_modes_{file}.svg", plot.picture(780, 530, what, parts))


def series(r, points):
    """points(who): [(x, y or None)]. Drawn in this order: handle, and what it is compared with, last."""
    out = []
    order = sorted(reversed(MODES), key=lambda who: who == "by hand")
    for who, (label, color, dash) in ((w, MODES[w]) for w in order):
        known = [(x, y) for x, y in points(who) if y]
        if known:
            out.append((label, color, dash, known))
    return out


def panels(file, title, boxes, styles, height):
    parts = [p for box in boxes for p in box]
    parts += plot.legend(930, 90, styles)
    write(file, plot.picture(1120, height, title, parts))


def box_of(i, height=250):
    left, top = 80 + 440 * (i % 2), 80 + (height + 90) * (i // 2)
    return left, top, left + 360, top + height


def rows_of(count, height=250):
    return 60 + (height + 90) * ((count + 1) // 2)


def plot_over_work(r, folder):
    sizes, counts = r.values("work_us"), r.values("threads")
    styles = [MODES[w] for w in MODES]
    absolute, relative = [], []
    for i, t in enumerate(counts):
        title = f"{t} thread{'s' if t > 1 else ''}"
        absolute.append(plot.lines(
            box_of(i), title, ("length of a step's kernels, µs", "steps per second"),
            series(r, lambda w: [(s, r.rate(w, s, t)) for s in sizes]), sizes, log_y=True))
        relative.append(plot.lines(
            box_of(i), title, ("length of a step's kernels, µs", "rate : rate by hand"),
            series(r, lambda w: [(s, ratio(r.rate(w, s, t), r.rate("by hand", s, t)))
                                 for s in sizes]), sizes, reference=1))
    panels(folder / "sync_modes_work.svg", "Rate of the pipeline over the length of a step", absolute,
           styles, rows_of(len(counts)))
    panels(folder / "sync_modes_relative.svg", "The same, as a part of the program written by hand",
           relative, styles, rows_of(len(counts)))


def plot_over_threads(r, folder):
    sizes, counts = r.values("work_us"), r.values("threads")
    chosen = [s for s in (10, 100, 1000, 10000) if s in sizes] or sizes
    boxes = [plot.lines(box_of(i), f"steps of {work(s)}", ("threads", "steps per second"),
                        series(r, lambda w: [(t, r.rate(w, s, t)) for t in counts]), counts)
             for i, s in enumerate(chosen)]
    panels(folder / "sync_modes_threads.svg", "Rate of the pipeline over threads", boxes,
           [MODES[w] for w in MODES], rows_of(len(chosen)))


# ---- text ----

def ratio(a, b):
    return a / b if a and b else None


def shown(value, form):
    return format(value, form) if value is not None else "not measured"


def write_goals(r):
    rows = []
    for who, limit in (("-1", 100), ("1", 100), ("2", 800), ("handle", 800)):
        for busy in (False, True):
            ns = r.call(who, busy, False)
            rows.append([f"call, token {name(who)}, {'busy' if busy else 'idle'} stream",
                         f"below {limit} ns", duration(ns) if ns is not None else "not measured",
                         "" if ns is None else "met" if ns < limit else "missed"])
    for t in r.values("threads"):
        e = [r.entry("by hand", kind="rate", work_us=s, threads=t) for s in r.values("work_us")]
        found = [1 / x["ratio"]["p50"] for x in e if x]
        if found:
            rows.append([f"pipeline with a handle : by hand, T={t}", "at least 1.0",
                         f"{min(found):.3f} to {max(found):.3f}",
                         "met" if min(found) >= 1 else "missed" if max(found) < 1 else "met in part"])
    return table(["quantity", "goal", "measured", ""], rows)


def write_calls(r):
    rows = []
    for who in MODES:
        cells = [name(who)]
        for cpu in (False, True):
            for busy in (False, True):
                e = r.entry(who, kind="call", busy=busy, cpu=cpu)
                cells.append(f"{duration(e['figure']['p50'])} ±{spread(e['figure']):.0f} %" if e
                             else "not measured")
        rows.append(cells)
    return table(["call", "time, idle", "time, busy", "processor time, idle", "processor time, busy"],
                 rows)


def write_rates(r):
    out = []
    sizes = r.values("work_us")
    for t in r.values("threads"):
        rows = []
        for who in MODES:
            cells = [name(who)]
            for s in sizes:
                e = r.entry(who, kind="rate", work_us=s, threads=t)
                cells.append(f"{e['figure']['p50']:.4g} ±{spread(e['figure']):.0f} %" if e else "–")
            rows.append(cells)
        compared = []
        for s in sizes:
            e = r.entry("by hand", kind="rate", work_us=s, threads=t)
            compared.append(f"{1 / e['ratio']['p50']:.3f}" if e else "–")
        rows.append(["**handle : by hand**", *compared])
        out.append(f"T={t}:\n\n" + table(["steps per second", *map(work, sizes)], rows))
    return "\n".join(out)


def write_steps(r):
    rows = []
    for who in MODES:
        stale, steps = r.steps(who, "stale")
        cells = [name(who), f"{stale:.0f} of {steps:.0f}"]
        for s in (10, 1000):
            e = r.entry(who, kind="rate", work_us=s, threads=1)
            cells += [duration(e["held_ns"]), duration(e["cpu_ns"])] if e else ["–", "–"]
        rows.append(cells)
    return table(["mode", "steps that read stale data", "in the call, 10 µs steps",
                  "processor time a step", "in the call, 1 ms steps", "processor time a step"], rows)


def write_choice(r):
    part = {w: ratio(r.rate(w, 1000, 1), r.rate("handle", 1000, 1)) for w in MODES}
    crowd = {w: ratio(r.rate(w, 100, 8), r.rate("handle", 100, 8)) for w in MODES}
    stale, steps = r.steps("-1", "stale")
    equal = ratio(r.rate("handle", 1000, 1), r.rate("by hand", 1000, 1))
    return f"""\
Name the stream that will read the array, exactly: each stream then gets the least that orders it.

| who reads the array | give | what it does | what to expect |
|---|---|---|---|
| a stream that you have a handle of, blocking or not: `torch.cuda.Stream`, your own | the handle | an \
event on our stream, a wait on theirs; all on the device | the call takes {t(r.call('handle', True, False))}\
; {shown(equal, '.2f')} of the rate with events by hand (1 ms steps) |
| code built with `--default-stream per-thread`, or `cudaStreamPerThread` | 2 \
(`JIT_STREAM_PER_THREAD`) | the same, for the calling thread's default stream | \
{t(r.call('2', True, False))}; call it in the thread that will read |
| the legacy default stream: programs that name no stream, CuPy, PyTorch outside of \
`torch.cuda.stream()` | 1 (`JIT_STREAM_LEGACY`), or nothing | nothing: CUDA orders that stream and ours | \
{t(r.call('1', True, False))}; but it orders both ways, see below |
| streams that you cannot name (TensorFlow) | 0 | the CPU waits for the calling thread's streams | right, \
and the CPU is held as long as the work lasts |
| nobody yet: you order things yourself | -1 (`JIT_STREAM_NONE`) | launches what is pending, orders \
nothing | {t(r.call('-1', True, False))}; without an order of your own {stale:.0f} of {steps:.0f} steps \
read what was not there yet |

- **Prefer a stream of your own to the legacy default stream** where speed matters. Its call is the \
cheapest, but CUDA lets that stream and all blocking streams of the context take turns: producer and \
consumer never overlap, nor do the threads of a process. With 1 ms steps in one thread token 1 reaches \
{shown(part['1'], '.2f')} of the rate with a handle, with 100 µs steps in eight threads \
{shown(crowd['1'], '.2f')}.
- **0 is for consumers whose streams are hidden.** It waits for the calling thread's streams only, so \
other threads keep the GPU busy: {shown(part['0'], '.2f')} of the rate with a handle for 1 ms steps in \
one thread, {shown(crowd['0'], '.2f')} for 100 µs steps in eight. What is lost is the time between the \
end of the work and the next launch: it weighs most where steps are short.
- **A device-wide wait is never needed** to hand an array over. `jit_sync_device()` and \
`cuCtxSynchronize()` wait for other threads' work, too, the latter also for the consumers: they reach \
{shown(part['device'], '.2f')} and {shown(part['context'], '.2f')} of the rate with a handle for 1 ms \
steps in one thread, {shown(crowd['device'], '.2f')} and {shown(crowd['context'], '.2f')} for 100 µs \
steps in eight. `cuCtxSynchronize()` also breaks every stream capture in progress.
- **-1 is no faster way to do the same.** It is right only where an event of your own, or \
`jit_cuda_stream()` itself, puts the reader behind our work.
- **The other direction:** before our memory is written again its readers must be done. A variable that \
is given back while a foreign stream reads it needs `jit_cuda_wait_stream(stream)`, or, to go on \
overlapping, an event recorded behind the reader and `jit_event_stream_wait()`, as this benchmark does.
"""


def t(ns):
    return duration(ns) if ns is not None else "not measured"


def write_report(r):
    machine, notes = r.file["machine"], r.file["notes"]
    device = notes[0] if notes else "unknown"
    return f"""\
# Sync modes

What it costs to let somebody else's CUDA stream read an array of this library, for every value that
`jit_cuda_sync_stream()` takes, beside waiting for the whole device, and beside a program written by hand
with the driver. Written by `benchmarks/sync_modes/report.py` from [sync_modes.json](sync_modes.json);
how to run it: [docs/benchmarks.md](../../docs/benchmarks.md).

**Machine.** {device}. {machine['processor']}, {machine['cores']} cores, {machine['system']}; \
revision {machine['revision']}.

## Which token to choose

{write_choice(r)}
## Goals

{write_goals(r)}
## The call

Time and processor time of the call alone, medians ± half the distance of the quartiles. Idle: all work is
over. Busy: 10 ms of work are queued on our stream, and something new before each call. "By hand" are
`cuEventRecord` and `cuStreamWaitEvent`.

{write_calls(r)}
![How long the call takes](sync_modes_call.svg)

![Processor time that the call takes](sync_modes_cpu.svg)

## The pipeline

In a step our kernels write an array (traced and evaluated anew, found in the cache), the call orders it
before a consumer, and the consumer's kernel compares every element with what that step must have
written, then works as long as the producer did. Both are latency-bound kernels of some blocks, so
that the kernels of all threads fit on the GPU beside each other. Four arrays are in flight; an event behind
each consumer orders the memory's next use. "By hand" is the same with the driver alone: the same number of
kernels of the same length, the same streams and events, buffers allocated once. Times run from the first
thread's first step to the end of the last consumer; a burst has 8 to 128 steps (2 to 8 where a step takes
more than 15 ms), so the first step, which overlaps with nothing, is part of it. The program sets
`CUDA_DEVICE_MAX_CONNECTIONS=32`, so that streams of different threads do not share a queue of the GPU.

The consumer is on the legacy default stream for 1 and "not given", on the thread's default stream for 2, and
on a non-blocking stream for all others. All modes take turns in one run; medians ± half the distance of the
quartiles, the ratio is the median of the ratios within a round.

{write_rates(r)}
![Rate over the length of a step](sync_modes_work.svg)

![The same, relative to the program by hand](sync_modes_relative.svg)

![Rate over threads](sync_modes_threads.svg)

## What a step costs the CPU, and what it reads

One thread; processor time without the wait at the end of a burst. The driver spins while it waits.

{write_steps(r)}"""


def write(file, content):
    file.write_text(content, encoding="utf-8")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    source, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    content = source.read_text(encoding="utf-8")
    r = Results(json.loads(content))
    folder.mkdir(parents=True, exist_ok=True)
    plot_calls(r, folder)
    plot_over_work(r, folder)
    plot_over_threads(r, folder)
    write(folder / "sync_modes.md", write_report(r))
    write(folder / "sync_modes.json", content)


main()
