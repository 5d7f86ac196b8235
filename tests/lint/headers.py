"""Every public header compiles alone, and twice in a row, as C17 and as C++17 without a warning.

usage: headers.py INCLUDE_DIR C_COMPILER CXX_COMPILER
"""
import pathlib
import subprocess
import sys

include, cc, cxx = sys.argv[1:]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", include, "-"]
LANGUAGES = {"C17": [cc, "-xc", "-std=c17"], "C++17": [cxx, "-xc++", "-std=c++17"]}

bad = count = 0
for header in sorted(pathlib.Path(include).rglob("*.h")):
    line = f"#include <{header.relative_to(include)}>\n"
    for language, command in LANGUAGES.items():
        count += 1
        run = subprocess.run(command + FLAGS, input=2 * line, capture_output=True, text=True)
        if run.returncode:
            bad += 1
            print(f"{header} as {language}:\n{run.stderr}")
print(f"{count - bad} passed, {bad} failed")
sys.exit(bool(bad or not count))
