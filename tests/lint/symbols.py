"""The library exports jit_* and nothing else, and nothing that a header of its own hides.

usage: symbols.py LIBRARY
"""
import re
import subprocess
import sys

run = subprocess.run(["nm", "-D", "--defined-only", sys.argv[1]],
                     capture_output=True, text=True, check=True)
names = [line.split()[-1].split("@")[0] for line in run.stdout.splitlines()]
# A sanitizer's build carries a few of the sanitizer's own.
alien = [n for n in names if not re.match(r"jit_[a-z]|__(asan|ubsan|tsan|odr_asan)_", n)]
for name in alien:
    print(f"{name} must not be exported")
print(f"{len(names)} symbols, {len(alien)} of them alien")
sys.exit(bool(alien or not names))
