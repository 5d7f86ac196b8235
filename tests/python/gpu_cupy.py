"""With CuPy: on the legacy default stream, on streams of its own and on the per-thread stream."""

import unittest

import cupy
import gpu_world
import jitc
from gpu_world import LANES, REPETITIONS, Reads, counter, slow_producer

SPIN = cupy.RawKernel(r"""
extern "C" __global__ void spin(long long cycles) {
    long long begin = clock64();
    while (clock64() - begin < cycles) { }
}""", "spin")
CYCLES = 18_000_000  # about 10 ms


def setUpModule():
    gpu_world.wants_gpu()


def spin():
    SPIN((1,), (1,), (cupy.int64(CYCLES),))


def streams():
    return {"default": cupy.cuda.Stream.null, "own": cupy.cuda.Stream(non_blocking=True),
            "blocking": cupy.cuda.Stream(), "per-thread": cupy.cuda.Stream.ptds}


class Order(unittest.TestCase):
    def each_stream(self):
        all_streams = streams()
        for i in range(REPETITIONS):
            name = list(all_streams)[i % len(all_streams)]
            yield name, all_streams[name], next(counter)

    def test_slow_jitc_kernel_is_read_by_cupy(self):
        slow = slow_producer()
        reference = cupy.from_dlpack(slow.reference).copy()
        bad = {name: cupy.zeros((), cupy.int64) for name in streams()}
        cupy.cuda.Device().synchronize()
        for name, stream, k in self.each_stream():
            array = slow.make(k)
            with stream:
                x = cupy.from_dlpack(array)
                bad[name] += (x != reference + cupy.float32(k)).sum()
            del x, array
        cupy.cuda.Device().synchronize()
        self.assertEqual({name: int(n) for name, n in bad.items()}, dict.fromkeys(bad, 0))

    def test_slow_cupy_kernel_is_read_by_jitc(self):
        reads = Reads()
        for _, stream, k in self.each_stream():
            with stream:
                spin()
                x = cupy.full(LANES, k, cupy.float32)
                array = jitc.from_dlpack(x)  # CuPy orders what is current
            del x
            reads.check(array, k)
            del array
        self.assertEqual(reads.count(), 0)

    def test_slow_cupy_reader_gives_back_at_once(self):
        seen = []
        for _, (name, stream, k) in zip(range(200), self.each_stream()):
            array = (jitc.zeros(LANES, "float32") + jitc.array([float(k)], "float32")).eval()
            with stream:
                x = cupy.from_dlpack(array)
                del array
                spin()
                seen.append((name, (x != cupy.float32(k)).sum()))
                del x
            over = (jitc.zeros(LANES, "float32") + jitc.array([-1.0], "float32")).eval()
            del over
        cupy.cuda.Device().synchronize()
        found = {}
        for name, wrong in seen:
            found[name] = found.get(name, 0) + int(wrong)
        self.assertEqual(found, dict.fromkeys(found, 0))

    def test_managed_and_pinned_memory(self):
        """cuda-python#1863, MatX#1234: managed memory is used in place on the GPU."""
        with cupy.cuda.using_allocator(cupy.cuda.malloc_managed):
            x = cupy.arange(1000, dtype=cupy.float32)
        array = jitc.from_dlpack(x)
        self.assertEqual((array.device, array._layout()[0]), ("cuda:0", x.data.ptr))
        self.assertEqual((array + 1).tolist(), [float(i + 1) for i in range(1000)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
