"""Arrays that are computed when they are needed, in fused kernels, on the CPU or a GPU.

An operation on arrays computes nothing: it is recorded. When values are wanted (numpy(), tolist(),
another library), what they depend on is compiled into a few kernels and run.

    import jitc, numpy as np
    x = jitc.from_dlpack(np.arange(6, dtype=np.float32))    # the same memory
    y = jitc.sqrt(x * x + 1)                                # nothing is computed yet
    y.numpy()                                               # one kernel; its memory, not a copy

Arrays have one element type, and so have the operands of an operation: cast() converts. Numbers of
Python take the type of the array beside them. Operands of one shape give a result of that shape; an
array of one element goes with each.

One interpreter of a process, with the GIL, can use this package; its threads share their arrays, and
each has an order of work of its own. After os.fork() the child can use the arrays of the CPU.
"""
import atexit as _atexit

from ._jitc import *  # noqa: F401,F403
from ._jitc import _end
from ._values import arange, array, full, ones, zeros  # noqa: F401

__version__ = "0.1.0"

# Element types, by name.
bool = "bool"
int8, int16, int32, int64 = "int8", "int16", "int32", "int64"
uint8, uint16, uint32, uint64 = "uint8", "uint16", "uint32", "uint64"
float16, bfloat16, float32, float64 = "float16", "bfloat16", "float32", "float64"

# ORDER: before the interpreter ends: it calls deleters of others, which may use Python.
_atexit.register(_end)
