"""share_with_torch.py: an array goes from PyTorch to jitc and back, without a copy, on the CPU and, where there
is one, on a GPU, where PyTorch works on a stream of its own.

usage: python3 share_with_torch.py      after: pip install torch ./python
"""
import contextlib
import sys

import torch

import jitc


def share(device):
    # Theirs: a matrix, transposed, so that it does not lie row by row.
    a = torch.linspace(0, 1, 3_000_000, device=device).reshape(3000, 1000).T
    # Ours: the same memory, strides and all. On a GPU our stream waits for theirs, the CPU does not.
    x = jitc.from_dlpack(a)
    y = jitc.sqrt(x * x + 1)  # recorded; nothing is computed yet
    # Theirs again: one kernel computes y, and PyTorch's current stream waits for it.
    b = y.torch()
    yield "the matrix is at the same address", x.torch().data_ptr() == a.data_ptr()
    yield "sqrt(a * a + 1) is right", torch.allclose(b, torch.sqrt(a * a + 1))

    # b and y are one array: what PyTorch writes, later evaluations see. On a GPU they have to be told to
    # come after the write.
    b.mul_(2)
    if device == "cuda":
        jitc.cuda_wait_stream(torch.cuda.current_stream().cuda_stream)
    yield "a write by PyTorch is seen", torch.equal((y + 0).torch(), b)


def main():
    devices = ["cpu"]
    if torch.cuda.is_available() and "cuda:0" in jitc.devices():
        devices.append("cuda")
    good = True
    for device in devices:
        side = torch.cuda.stream(torch.cuda.Stream()) if device == "cuda" else contextlib.nullcontext()
        with side:
            for what, holds in share(device):
                print(f"{device}: {what}: {'ok' if holds else 'WRONG'}")
                good = good and holds
    return not good


sys.exit(main())
