"""The committed files that gen_ops makes are what it would make now.

usage: generated.py SOURCE_DIR GEN_OPS
"""
import difflib
import pathlib
import subprocess
import sys

root, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
bad = 0
for what, name in {"header": "include/jit/ops.h", "manual": "docs/operations.md", "options": "docs/options.md"}.items():
    new = subprocess.run([tool, what], capture_output=True, text=True, check=True).stdout
    old = (root / name).read_text()
    bad += new != old or not new
    sys.stdout.writelines(difflib.unified_diff(
        old.splitlines(True), new.splitlines(True), name, f"gen_ops {what}"))
if bad:
    print("\nBuild the target 'generate' to write the files anew.")
sys.exit(bool(bad))
