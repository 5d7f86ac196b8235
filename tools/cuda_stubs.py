#!/usr/bin/env python3
"""Libraries of CUDA without anything in them, for a PyTorch that only works on the CPU.

PyPI has PyTorch for CUDA alone, and it does not load without cuBLAS, cuDNN and others: several
gigabytes, none of which is called where there is no GPU. This writes a library for each of them
that PyTorch needs and does not have: with the names and versions that are asked for, and one
instruction for each, a trap. cudart is called, so the real one, which is small, has to be there.

usage: cuda_stubs.py FOLDER     the folder torch/lib
"""

import pathlib
import re
import subprocess
import sys

OURS = re.compile(r"lib(cu|nv|nccl)\w*\.so\.[\d.]+$")
NOT_OURS = re.compile(r"libcuda(rt)?\.so\.")  # the driver: what asks for it is only loaded with it
# Whose names have no version: the names start so.
PREFIXES = {"libcufile": "cuFile", "libcusparseLt": "cusparseLt", "libnccl": "nccl",
            "libnvshmem_host": "nvshmem"}


def printed(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def needed(libraries):
    """{library: its versions}, of those that are needed and that we write."""
    dynamic = printed("readelf", "-d", *libraries)
    found = {name: set() for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)}
    file = None
    for line in printed("readelf", "-V", "--wide", *libraries).splitlines():
        if match := re.search(r"\bFile: (\S+)", line):
            file = match[1]
        elif match := re.search(r"\bName: (\S+)", line):
            found.setdefault(file, set()).add(match[1])
    return {n: versions for n, versions in found.items() if OURS.match(n) and not NOT_OURS.match(n)}


def undefined(libraries):
    """[(symbol, version or '')]"""
    pairs = set()
    for line in printed("nm", "-D", "--undefined-only", *libraries).splitlines():
        if line and not line.endswith(":"):
            symbol, _, version = line.split()[-1].partition("@")
            pairs.add((symbol, version.lstrip("@")))
    return sorted(pairs)


def write_stub(folder, name, versions, symbols):
    prefix = PREFIXES.get(name.partition(".")[0])
    mine = [s for s, v in symbols
            if v in versions or (not v and prefix and s.startswith(prefix))]
    text = "".join(f".globl {s}\n.type {s}, @function\n{s}: ud2\n" for s in mine)
    script = folder / "stub.map"
    script.write_text("".join(
        f"{v} {{ global: {' '.join(s + ';' for s, w in symbols if w == v)} }};\n"
        for v in sorted(versions)))
    options = [f"-Wl,--version-script,{script}"] if versions else []
    subprocess.run(["gcc", "-shared", "-nostdlib", f"-Wl,-soname,{name}", *options,
                    "-o", folder / name, "-x", "assembler", "-"],
                   input='.section .note.GNU-stack,"",@progbits\n.text\n' + text,
                   text=True, check=True)
    script.unlink()


def main(folder):
    folder = pathlib.Path(folder)
    libraries = sorted(folder.glob("*.so"))
    symbols = undefined(libraries)
    for name, versions in sorted(needed(libraries).items()):
        if not (folder / name).exists():
            write_stub(folder, name, versions, symbols)


main(sys.argv[1])
