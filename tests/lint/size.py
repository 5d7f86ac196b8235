"""Functions have at most 70 lines, files at most 600.

usage: size.py SOURCE_DIR
"""
import pathlib
import re
import sys

FUNCTION, FILE = 70, 600
FOLDERS = ["include", "src", "backends", "tests", "benchmarks", "examples", "python"]
# The layout is clang-format's: of a function, only the first line, labels and the closing brace
# stand in column 0, and the brace alone on its line.
HEAD = re.compile(r"^[A-Za-z_](?!\w*:$)")


def functions(lines):
    """(line number, length, first line) of every function."""
    start = 0
    for number, line in enumerate(lines, 1):
        if HEAD.match(line):
            start = number
        elif line == "}" and start and not lines[start - 1].endswith(";"):
            yield start, number - start + 1, lines[start - 1]


def main():
    root, bad, count = pathlib.Path(sys.argv[1]), [], 0
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.[ch]")):
            name, lines = file.relative_to(root), file.read_text().splitlines()
            if len(lines) > FILE:
                bad.append(f"{name}: {len(lines)} lines, {FILE} allowed")
            for line, length, head in functions(lines):
                count += 1
                if length > FUNCTION:
                    bad.append(f"{name}:{line}: {length} lines, {FUNCTION} allowed: {head}")
    print("\n".join(bad) or f"{count} functions: none is too long")
    sys.exit(bool(bad))


main()
