"""Every public header compiles alone, and twice in a row, as C17 and as C++17 without a warning. Those
that ask for dlpack.h say so without it, in one error, and compile behind ours and behind a real one.

usage: headers.py SOURCE_DIR C_COMPILER CXX_COMPILER [DLPACK_INCLUDE_DIR]
"""
import pathlib
import subprocess
import sys

import dlpack_header

root, cc, cxx = pathlib.Path(sys.argv[1]), *sys.argv[2:4]
include = root / "include"
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-fsyntax-only",
         "-I", include, "-"]
LANGUAGES = {"C17": [cc, "-xc", "-std=c17"], "C++17": [cxx, "-xc++", "-std=c++17"]}
OURS, REAL = root / dlpack_header.ABI, dlpack_header.find_header(root, *sys.argv[4:])


def errors(command, text):
    run = subprocess.run(command + FLAGS, input=text, capture_output=True, text=True)
    return run.stderr if run.returncode else ""


def wants_dlpack(header):
    return "#ifndef DLPACK_DLPACK_H_" in header.read_text()


bad = count = 0
for header in sorted(include.rglob("*.h")):
    line = f"#include <{header.relative_to(include)}>\n"
    before = [f for f in (OURS, REAL) if f] if wants_dlpack(header) else [None]
    for language, command in LANGUAGES.items():
        for first in before:
            count += 1
            said = errors(command, (f'#include "{first}"\n' if first else "") + 2 * line)
            if said:
                bad += 1
                print(f"{header} as {language}{f' behind {first}' if first else ''}:\n{said}")
        if wants_dlpack(header):
            count += 1
            said = errors(command, line + "int unused;\n")
            if "include dlpack.h" not in said or said.count("error:") != 1:
                bad += 1
                print(f"{header} as {language} without dlpack.h should say so, once:\n{said}")
print(f"{count - bad} passed, {bad} failed{'' if REAL else '; no real dlpack.h was found'}")
sys.exit(bool(bad or not count))
