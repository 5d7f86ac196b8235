"""What the tests of the Python package share: the backend, counts, children, and the table of C
functions."""
import ctypes
import gc
import os
import subprocess
import sys
import textwrap
import time
import unittest
from ctypes import POINTER, PYFUNCTYPE, c_char_p, c_int, c_int32, c_uint32, c_void_p, py_object

import jitc
from dlpack import Tensor

BACKEND = os.environ.get("JITC_TEST_BACKEND", "cpu")
jitc.set_device(BACKEND)


def recall():
    """Wait for what was lent to streams that are not named again: new memory is wanted."""
    jitc.set_option("memory_lent", 0)
    for device in jitc.devices():
        if device != "cpu":
            jitc.trim()
            (jitc.arange(100, device=device) + 1).eval()
    jitc.sync()
    jitc.set_option("memory_lent", 1 << 30)


def settled():
    """What is alive when all work, and what waits for it, is over: variables and bytes."""
    gc.collect()
    for _ in range(1000):  # memory of others is given back by threads of the library
        jitc.sync()
        if BACKEND == "cuda":
            recall()
        stats = jitc.stats()
        now = {name: stats[name] for name in ("variables", "bytes_live")}
        if now == getattr(settled, "last", now):
            break
        settled.last = now
        time.sleep(0.001)
    settled.last = now
    return now


class Balanced(unittest.TestCase):
    """Tests that leave nothing behind."""

    def setUp(self):
        jitc.set_device(BACKEND)
        self.before = settled()

    def tearDown(self):
        for _ in range(200):
            if settled() == self.before:
                return
            time.sleep(0.01)
        self.assertEqual(settled(), self.before)


def run_child(code, timeout=120):
    """Run a program, with a set-up of its own; its output, which a crash or a wait would spoil."""
    run = subprocess.run([sys.executable, "-W", "ignore", "-X", "faulthandler", "-c", textwrap.dedent(code)],
                         capture_output=True, text=True, timeout=timeout)
    if run.returncode != 0 or run.stderr:
        raise AssertionError(f"exit status {run.returncode}\n{run.stdout}\n{run.stderr}")
    return run.stdout.split()


class Table(ctypes.Structure):
    """DLPackExchangeAPI, for callers that have the GIL."""
    _fields_ = [("major", c_uint32), ("minor", c_uint32), ("prev_api", c_void_p),
                ("allocator", c_void_p),
                ("from_object", PYFUNCTYPE(c_int, py_object, POINTER(c_void_p))),
                ("to_object", PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))),
                ("borrow", PYFUNCTYPE(c_int, py_object, POINTER(Tensor))),
                ("stream", PYFUNCTYPE(c_int, c_int32, c_int32, POINTER(c_void_p)))]


SetError = ctypes.CFUNCTYPE(None, c_void_p, c_char_p, c_char_p)
#: The allocator, without and with the GIL.
Allocator = ctypes.CFUNCTYPE(c_int, POINTER(Tensor), POINTER(c_void_p), c_void_p, SetError)
HoldingAllocator = PYFUNCTYPE(c_int, POINTER(Tensor), POINTER(c_void_p), c_void_p, SetError)


def capsule_pointer(capsule, name=b"dlpack_exchange_api"):
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, [py_object, c_char_p]
    return pointer(capsule, name)


def table(type_=jitc.Array):
    return Table.from_address(capsule_pointer(type_.__dlpack_c_exchange_api__))


def to_object(tensor):
    """The Array that the table makes of a tensor's address."""
    out = c_void_p()
    status = table().to_object(tensor, ctypes.byref(out))
    assert status == 0 and out.value
    a = ctypes.cast(out, py_object).value
    ctypes.pythonapi.Py_DecRef(py_object(a))  # the reference in `out`
    return a


def failing(error):
    """The address of a C function that sets an exception, "by the table", and returns -1."""
    return ctypes.cast(getattr(helpers, f"fail_{error.__name__}"), c_void_p).value


#: helpers.c, which tests/python/run.py builds.
helpers = ctypes.CDLL(os.path.join(os.path.dirname(os.path.dirname(jitc.__file__)), "helpers.so"))
