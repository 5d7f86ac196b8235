"""With PyTorch on a GPU: on its default stream, on streams of its own and on the per-thread stream."""

import threading
import time
import unittest

import gpu_world
import jitc
import torch
from gpu_world import LANES, REPETITIONS, Reads, counter, slow_producer

SPIN = 20_000_000  # clock cycles, about 10 ms


def setUpModule():
    gpu_world.wants_gpu()
    if not torch.cuda.is_available():
        raise unittest.SkipTest("PyTorch sees no GPU")
    torch.zeros(1, device="cuda")


def streams():
    return {"default": torch.cuda.default_stream(), "own": torch.cuda.Stream(), "other": torch.cuda.Stream(),
            "per-thread": torch.cuda.ExternalStream(2)}


class Order(unittest.TestCase):
    def each_stream(self):
        all_streams = streams()
        for i in range(REPETITIONS):
            name = list(all_streams)[i % len(all_streams)]
            yield name, all_streams[name], next(counter)

    # drjit#198, cupy#5970, pytorch#67618
    def test_slow_jitc_kernel_is_read_by_torch(self):
        slow = slow_producer()
        reference = torch.from_dlpack(slow.reference).clone()
        torch.cuda.synchronize()
        bad = {name: torch.zeros((), dtype=torch.int64, device="cuda") for name in streams()}
        torch.cuda.synchronize()
        for name, stream, k in self.each_stream():
            array = slow.make(k)
            with torch.cuda.stream(stream):
                x = torch.from_dlpack(array)
                bad[name] += (x != reference + k).sum()
            del x, array
        torch.cuda.synchronize()
        self.assertEqual({name: int(n) for name, n in bad.items()}, dict.fromkeys(bad, 0))

    def test_slow_torch_kernel_is_read_by_jitc(self):
        reads = Reads()
        for _, stream, k in self.each_stream():
            with torch.cuda.stream(stream):
                torch.cuda._sleep(SPIN)
                x = torch.full((LANES,), float(k), device="cuda")
                array = jitc.from_dlpack(x)
            del x  # its memory is for other tensors as soon as we give it back
            reads.check(array, k)
            del array
        self.assertEqual(reads.count(), 0)

    # dlpack#176, cutile-python#88: the deleter comes while the consumer still reads
    def test_slow_torch_reader_gives_back_at_once(self):
        found = {}
        pairs = []
        for _, (name, stream, k) in zip(range(200), self.each_stream()):
            array = (jitc.zeros(LANES, "float32") + jitc.array([float(k)], "float32")).eval()
            with torch.cuda.stream(stream):
                x = torch.from_dlpack(array)
                del array
                torch.cuda._sleep(SPIN)
                seen = (x != k).sum()
                del x  # calls the deleter
            over = (jitc.zeros(LANES, "float32") + jitc.array([-1.0], "float32")).eval()
            pairs.append((name, seen))
            del over
        torch.cuda.synchronize()
        for name, seen in pairs:
            found[name] = found.get(name, 0) + int(seen)
        self.assertEqual(found, dict.fromkeys(found, 0))

    def test_written_there_and_read_here(self):
        """x and the array are one memory; the write is ordered by cuda_wait_stream()."""
        stream = torch.cuda.Stream()
        array = (jitc.zeros(LANES, "float32") + jitc.array([0.0], "float32")).eval()
        with torch.cuda.stream(stream):
            x = torch.from_dlpack(array)
        reads = Reads()
        for _ in range(50):
            k = next(counter)
            jitc.cuda_sync_stream(stream.cuda_stream)
            with torch.cuda.stream(stream):
                torch.cuda._sleep(SPIN // 4)
                x.fill_(k)
            jitc.cuda_wait_stream(stream.cuda_stream)
            reads.check(array, k)
        self.assertEqual(reads.count(), 0)
        self.assertEqual(x.data_ptr(), array._layout()[0])


class Capture(unittest.TestCase):
    # pytorch#104487, pytorch#163242, nanobind#1241
    def test_a_capture_survives_what_we_do_in_other_threads(self):
        for mode in ("global", "thread_local", "relaxed"):
            with self.subTest(mode=mode):
                self.capture(mode)

    def capture(self, mode):
        slow_producer()
        stop, errors, rounds = threading.Event(), [], []
        theirs = torch.arange(LANES, dtype=torch.float32, device="cuda")
        x = torch.zeros(LANES, device="cuda")
        torch.cuda.synchronize()

        def work():
            try:
                side = torch.cuda.Stream()
                while not stop.is_set():
                    k = next(counter)
                    array = (jitc.arange(LANES, dtype="float32") + jitc.array([float(k)], "float32")).eval()
                    capsules = [array.__dlpack__(stream=s, max_version=(1, 3)) for s in (-1, 1, side.cuda_stream)]
                    back = jitc.from_dlpack(capsules[0])
                    again = jitc.from_dlpack(theirs.__dlpack__(stream=-1))
                    (back + again).eval()
                    del capsules, back, again, array
                    rounds.append(k)
            except Exception as error:  # noqa: BLE001
                errors.append(error)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(rounds) < 20 and not errors:
            time.sleep(0.01)
        graph = torch.cuda.CUDAGraph()
        begun = len(rounds)
        try:
            with torch.cuda.graph(graph, capture_error_mode=mode):
                y = x
                until = time.monotonic() + 2
                while time.monotonic() < until:
                    y = y + 1
                    time.sleep(0.01)
            during = len(rounds) - begun
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(errors, [])
        self.assertGreater(during, 10)
        graph.replay()
        torch.cuda.synchronize()
        self.assertGreater(float(y[0]), 10)
        self.assertTrue(bool((y == y[0]).all()))

    def test_a_stream_that_is_captured_is_refused_and_goes_on(self):
        side = torch.cuda.Stream()
        x = torch.zeros(LANES, device="cuda")
        torch.cuda.synchronize()
        slow = slow_producer()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side, capture_error_mode="relaxed"):
            y = x + 1
            array = slow.make(1)  # unfinished
            with self.assertRaises((BufferError, RuntimeError)):
                array.__dlpack__(stream=side.cuda_stream, max_version=(1, 3))
            y = y + 1
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue(bool((y == 2).all()))


class Devices(unittest.TestCase):
    def setUp(self):
        if torch.cuda.device_count() < 2:
            self.skipTest("one GPU")

    def test_copied_to_another_gpu(self):
        slow = slow_producer()
        reference = torch.from_dlpack(slow.reference).to("cuda:1")
        for _ in range(50):
            k = next(counter)
            x = torch.from_dlpack(slow.make(k)).to("cuda:1")
            self.assertEqual(int((x != reference + k).sum()), 0)

    def test_arrays_of_another_gpu(self):
        x = torch.arange(LANES, dtype=torch.float32, device="cuda:1")
        array = jitc.from_dlpack(x)
        self.assertEqual((array.device, array._layout()[0]), ("cuda:1", x.data_ptr()))
        y = torch.from_dlpack(array + jitc.array([1.0], "float32", device="cuda:1"))
        self.assertEqual(str(y.device), "cuda:1")
        self.assertEqual(int((y != x + 1).sum()), 0)


class Values(unittest.TestCase):
    def test_in_place_in_both_directions(self):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
                      torch.int16, torch.int32, torch.int64, torch.bool):
            with self.subTest(dtype=dtype):
                x = (torch.arange(60, device="cuda").reshape(3, 4, 5) % 7).to(dtype)
                array = jitc.from_dlpack(x)
                self.assertEqual((array.shape, array._layout()[0]), ((3, 4, 5), x.data_ptr()))
                y = torch.from_dlpack(array)
                self.assertEqual(y.data_ptr(), x.data_ptr())
                self.assertTrue(bool((x == y).all()))
                self.assertEqual(array.tolist(), x.tolist())

    def test_views(self):
        base = torch.arange(48, dtype=torch.float32, device="cuda").reshape(8, 6)
        for view in (base.T, base[:, :4], base[::2, ::3], base[1].expand(3, 6), base.reshape(-1)[1:17]):
            array = jitc.from_dlpack(view)
            self.assertEqual(array._layout(), (view.data_ptr(), view.stride()))
            self.assertTrue(bool((torch.from_dlpack(array) == view).all()))
            self.assertEqual((array * 2).tolist(), (view * 2).tolist())

    def test_numpy(self):
        array = slow_producer().make(3)
        reference = torch.from_dlpack(slow_producer().reference).cpu() + 3
        self.assertTrue(bool((torch.from_numpy(array.numpy().copy()) == reference).all()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
