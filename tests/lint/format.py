"""C files are laid out as .clang-format says. Exit status 77 (skipped) without the formatter.

usage: format.py SOURCE_DIR CLANG_FORMAT
"""
import pathlib
import subprocess
import sys

root, formatter = pathlib.Path(sys.argv[1]), sys.argv[2]
if not formatter or formatter.endswith("NOTFOUND"):
    print("clang-format-19 not found: apt-get install clang-format-19")
    sys.exit(77)
FOLDERS = ["include", "src", "backends", "tests", "benchmarks", "examples", "python"]
files = [f for folder in FOLDERS for f in sorted((root / folder).rglob("*.[ch]"))]
sys.exit(subprocess.run([formatter, "--dry-run", "-Werror", *files]).returncode)
