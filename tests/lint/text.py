"""Rules about the text of files that no compiler checks.

usage: text.py SOURCE_DIR
"""
import pathlib
import re
import subprocess
import sys

# (what is wrong, folder, suffixes or None for all, pattern)
RULES = [
    ("backends are left out by CMake, not by #if", "src", {".c", ".h"},
     re.compile(r"^\s*#\s*(el)?if.*(CUDA|LLVM)")),
    ("a work list entry without the number of an issue", ".", {".c", ".h", ".def", ".py", ".cmake"},
     re.compile(r"\b(XX[X]|TOD[O]|FIXM[E])\b(?!.*#\d)")),
    ("a path of somebody's machine", ".", None,
     re.compile(r"(?<![\w.~*-])/(home|Users|wor[k])/|\.\./share[d]\b|/share[d]/")),
    ("white space at the end of a line", ".", None, re.compile(r"[ \t]+$")),
    ("library code ends no process", "src", {".c", ".h"}, re.compile(r"\b(abort|_?exit|_Exit)\s*\(")),
    ("library code ends no process", "backends", {".c", ".h"},
     re.compile(r"\b(abort|_?exit|_Exit)\s*\(")),
]


def files(root):
    """The project's files: those that git knows or would add."""
    run = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                         capture_output=True, text=True)
    names = run.stdout.splitlines()
    if run.returncode:  # a copy of the tree without its history
        names = [str(f.relative_to(root)) for f in root.rglob("*")
                 if f.is_file() and not f.relative_to(root).parts[0] in ("build", ".git")]
    return [n for n in names if (root / n).is_file()]


def main():
    root, bad = pathlib.Path(sys.argv[1]), []
    names = files(root)
    for name in names:
        try:
            lines = (root / name).read_text().splitlines()
        except UnicodeDecodeError:
            continue  # a picture
        path = pathlib.Path(name)
        for what, folder, suffixes, pattern in RULES:
            if folder != "." and path.parts[0] != folder or suffixes and path.suffix not in suffixes:
                continue
            bad += [f"{name}:{n}: {what}: {line.strip()}"
                    for n, line in enumerate(lines, 1) if pattern.search(line)]
    print("\n".join(bad) or f"{len(names)} files: clean")
    sys.exit(bool(bad or not names))


main()
